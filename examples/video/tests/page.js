// Runs the script of a page outside a browser, with a decoder that keeps what it is given.
"use strict";
const assert = require("assert"), fs = require("fs"), vm = require("vm");

const KEY = 1, DELTA = 2;
/** The flag of a picture that others depend on. */
const REFERENCE = 4;
/** An initialisation segment, as far as the page looks into it. */
const INIT = [0, 0, 0, 12, ...Buffer.from("avcC"), 1, 0x42, 0, 0x1e, 0];

/** The newest decoder, and the numbers of the pictures that all of them were given. */
let newest = null, decoded = [];

class VideoDecoder {
  constructor(callbacks) { Object.assign(this, { callbacks, state: "unconfigured" }); newest = this; }
  configure() { this.check(); this.state = "configured"; }
  decode(chunk) { this.check(); decoded.push(chunk.data[0]); }
  check() { if (this.state === "closed") throw new Error("the decoder is closed"); }
  fail() {
    // As WebCodecs does: the decoder is closed when the page hears of the error.
    this.state = "closed";
    this.callbacks.error({ message: "a damaged picture" });
  }
}

/** A frame with a picture, all of whose fields fit in a byte. */
function frame(kind, number, on, flags) {
  const init = kind === KEY ? INIT : [];
  const payload = [1, flags, 0, 0, 0, 0, 0, 0, 0, init.length, ...init, number];
  const below = on === null ? 0 : number - on;
  return new Uint8Array([1, kind, 0, number, below, number, 0, payload.length, ...payload]);
}

/** The page, as if it had just been opened: what a name in it stands for. */
function open(path) {
  const element = { getContext: () => ({}), append: () => {} };
  const nothing = () => {};
  const page = vm.createContext({
    document: { body: { dataset: {} }, getElementById: () => element, createElement: () => element },
    performance: { now: () => 0 }, requestAnimationFrame: nothing, setInterval: nothing, setTimeout: nothing,
    WebTransport: class { ready = new Promise(nothing); },
    EncodedVideoChunk: class { constructor(chunk) { Object.assign(this, chunk); } },
    VideoDecoder, TextDecoder, TextEncoder,
  });
  const html = fs.readFileSync(path, "utf8");
  vm.runInContext(html.split("<script>")[1].split("</script>")[0], page);
  decoded = [];
  return (name) => vm.runInContext(name, page);
}

const tests = {
  "a picture that no other needs holds nothing up"(onFrame) {
    onFrame(frame(KEY, 0, null, REFERENCE));
    onFrame(frame(DELTA, 1, 0, REFERENCE));
    onFrame(frame(DELTA, 2, 1, 0));
    onFrame(frame(DELTA, 3, 1, REFERENCE));
    // Number 4 is lost, and nothing needs it.
    onFrame(frame(DELTA, 5, 3, REFERENCE));
    assert.deepStrictEqual(decoded, [0, 1, 2, 3, 5]);
  },
  "what needs a lost picture waits for a key frame"(onFrame) {
    onFrame(frame(KEY, 0, null, REFERENCE));
    onFrame(frame(DELTA, 2, 1, REFERENCE));
    onFrame(frame(DELTA, 3, 2, REFERENCE));
    assert.deepStrictEqual(decoded, [0]);
  },
  "decoding goes on at the next key frame behind an error"(onFrame) {
    onFrame(frame(KEY, 0, null, REFERENCE));
    onFrame(frame(DELTA, 1, 0, REFERENCE));
    newest.fail();
    onFrame(frame(DELTA, 2, 1, REFERENCE));
    onFrame(frame(KEY, 3, null, REFERENCE));
    onFrame(frame(DELTA, 4, 3, REFERENCE));
    assert.deepStrictEqual(decoded, [0, 1, 3, 4]);
  },
  "pictures are shown later on a path that has become longer"(onFrame, page) {
    for (let at = 0; at < 300; at++) page("follow")(at < 20 ? 10 : 80);
    assert.strictEqual(page("base"), 80);
  },
  async "a stream that is longer than any frame is stopped"(onFrame, page) {
    let reads = 0, cancelled = false;
    const reader = {
      read: async () => ({ value: new Uint8Array(1 << 20), done: ++reads > 100 }),
      cancel: async () => { cancelled = true; },
    };
    await page("readAll")({ getReader: () => reader });
    assert.deepStrictEqual([reads, cancelled], [17, true]);
  },
};

(async () => {
  for (const [name, test] of Object.entries(tests)) {
    try {
      const page = open(process.argv[2]);
      await test(page("onFrame"), page);
    } catch (error) {
      console.error(`${name}: ${error.stack}`);
      process.exitCode = 1;
    }
  }
})();

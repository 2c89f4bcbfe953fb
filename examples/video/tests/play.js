// Runs the script of the page that plays over HTTP/3 outside a browser, with a server and a buffer that are made here.
"use strict";
const assert = require("assert"), fs = require("fs"), vm = require("vm");

const HERE = "https://localhost/";
const MASTER = `#EXTM3U
#EXT-X-STREAM-INF:AVERAGE-BANDWIDTH=2000000,BANDWIDTH=2500000,CODECS="avc1.64001f,mp4a.40.2"
high/index.m3u8

#EXT-X-STREAM-INF:BANDWIDTH=400000,RESOLUTION=426x240
# a comment
low/index.m3u8
`;

/** A playlist of segments of a second. */
function playlist(first, count, hasEnded) {
  const names = Array.from({ length: count }, (_, at) => `#EXTINF:1.0,\n${first + at}.m4s\n`);
  const head = `#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:${first}\n#EXT-X-MAP:URI="init.mp4"\n`;
  return head + names.join("") + (hasEnded ? "#EXT-X-ENDLIST\n" : "");
}

/** Files by their paths: media of so many segments, at two bit rates. */
function media(count) {
  const files = { "master.m3u8": MASTER };
  for (const name of ["low", "high"]) {
    files[`${name}/index.m3u8`] = playlist(0, count, true);
    files[`${name}/init.mp4`] = "init";
    for (let at = 0; at < count; at++) files[`${name}/${at}.m4s`] = `segment ${at}`;
  }
  return files;
}

/** The page, as if it had just been opened at a server of these files. */
function open(path, files) {
  const asked = [], ranges = [], listeners = {};
  let isClosed = false;
  const nothing = () => {};
  const buffer = {
    appendBuffer(bytes) {
      const name = Buffer.from(bytes).toString();
      const number = Number(name.split(" ")[1]);
      if (name === "damaged") setImmediate(() => buffer.onerror());
      else if (name !== "init") ranges.push([number, number + 1]);
      setImmediate(() => buffer.onupdateend());
    },
    remove(from, to) {
      for (let at = ranges.length - 1; at >= 0; at--) if (ranges[at][1] <= to) ranges.splice(at, 1);
      setImmediate(() => buffer.onupdateend());
    },
    changeType: nothing,
  };
  /** Ranges that touch are one. */
  const joined = () => [...ranges].sort((a, b) => a[0] - b[0]).reduce((all, [start, end]) => {
    const last = all.at(-1);
    if (last && last[1] >= start) last[1] = Math.max(last[1], end);
    else all.push([start, end]);
    return all;
  }, []);
  const video = {
    currentTime: 0, readyState: 0, ended: false, error: null, played: { length: 0 }, videoWidth: 0, videoHeight: 0,
    get buffered() {
      const all = joined();
      return { length: all.length, start: (at) => all[at][0], end: (at) => all[at][1] };
    },
    addEventListener: (name, listener) => { listeners[name] = listener; },
    requestVideoFrameCallback: nothing, getVideoPlaybackQuality: () => ({ droppedVideoFrames: 0 }),
  };
  class MediaSource {
    static isTypeSupported() { return true; }
    readyState = "open";
    addEventListener(name, listener) { setImmediate(listener); }
    addSourceBuffer() { return buffer; }
    endOfStream() { this.readyState = "ended"; }
  }
  async function fetch(url) {
    const name = url.replace(HERE, "");
    if (name === "/report") return { ok: true };
    asked.push(name);
    const body = files[name];
    if (body === null) throw new TypeError("Failed to fetch");
    return { ok: body !== undefined, status: 404, arrayBuffer: async () => Buffer.from(body) };
  }
  const element = { getContext: () => ({}), append: nothing };
  const page = vm.createContext({
    document: { getElementById: (name) => (name === "picture" ? video : element), createElement: () => element },
    URL: Object.assign(class extends URL {}, { createObjectURL: () => "" }),
    PerformanceObserver: class { observe() {} }, HTMLMediaElement: { HAVE_FUTURE_DATA: 3 },
    performance: { now: () => 0 }, crypto: { getRandomValues: (own) => own }, location: { href: HERE },
    console: { warn: nothing }, setInterval: nothing, addEventListener: nothing, navigator: {},
    setTimeout: (what) => { if (!isClosed) setImmediate(what); },
    MediaSource, fetch, TextDecoder,
  });
  const html = fs.readFileSync(path, "utf8");
  vm.runInContext(html.split("<script>")[1].split("</script>")[0], page);
  return {
    asked, video, ranges: joined, close: () => { isClosed = true; },
    get: (name) => vm.runInContext(name, page),
    windTo(time) { video.currentTime = time; listeners.seeking(); },
    /** Waits until something is so. */
    async until(what) {
      for (let turns = 0; !what(); turns++) {
        assert(turns < 10_000, `never: ${what}; ${vm.runInContext("seen.error", page)}`);
        await new Promise(setImmediate);
      }
    },
  };
}

const segmentsOf = (asked) => asked.filter((name) => name.endsWith(".m4s"));

/** Takes the place of media: a live playlist, with these segments. */
function live(files, first, count, hasEnded) {
  for (const name of ["low", "high"]) {
    files[`${name}/index.m3u8`] = playlist(first, count, hasEnded);
    for (let at = first; at < first + count; at++) files[`${name}/${at}.m4s`] = `segment ${at}`;
  }
}

const tests = {
  async "the lowest bit rate comes first, and addresses are those beside the playlist"(page) {
    const all = page.get("renditions")(MASTER, `${HERE}a/master.m3u8`);
    assert.deepStrictEqual([...all.map(({ rate, url }) => `${rate} ${url}`)], [
      `400000 ${HERE}a/low/index.m3u8`, `2500000 ${HERE}a/high/index.m3u8`,
    ]);
    assert.deepStrictEqual([...all.map(({ codecs }) => codecs)], [null, "avc1.64001f,mp4a.40.2"]);
  },
  async "codecs that no playlist names are those of the first segment"(page) {
    const init = new Uint8Array([0, 0, 0, 12, ...Buffer.from("avcC"), 1, 0x42, 0, 0x1e, ...Buffer.from("mp4a")]);
    assert.strictEqual(page.get("codecsOf")(init), "avc1.42001e,mp4a.40.2");
  },
  async "the bit rate is one that the throughput is enough for"(page) {
    const choose = page.get("choose"), rates = [400_000, 1_000_000, 2_500_000];
    assert.strictEqual(choose(rates, null, 0), 0);
    assert.strictEqual(choose(rates, 100_000, 10), 0);
    assert.strictEqual(choose(rates, 1_500_000, 10), 1);
    assert.strictEqual(choose(rates, 1_500_000, 1), 0);
    assert.strictEqual(choose(rates, 1e9, 1), 2);
  },
  async "each segment is asked for once, and no more than what is played soon"(page) {
    await page.until(() => page.ranges().at(-1)?.[1] > 20);
    for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate);
    const numbers = segmentsOf(page.asked).map((name) => parseInt(name.split("/")[1]));
    assert.deepStrictEqual(numbers, Array.from({ length: 21 }, (_, at) => at));
    page.video.currentTime = 30;
    await page.until(() => page.ranges().at(-1)[1] === 40);
    await page.until(() => page.get("source").readyState === "ended");
    assert.deepStrictEqual(page.ranges(), [[10, 40]], "what was played long ago is forgotten");
    const lists = page.asked.filter((name) => name.endsWith("index.m3u8"));
    assert.deepStrictEqual(lists, [...new Set(lists)], "they have ended");
  },
  async "another bit rate takes the place of a segment that is missing, and none is passed over"(page, files) {
    delete files["low/0.m4s"];
    for (const name of ["low", "high"]) delete files[`${name}/2.m4s`];
    await page.until(() => page.get("seen.segments") > 4);
    assert.deepStrictEqual(page.ranges().slice(0, 1), [[0, 2]]);
    assert.strictEqual(page.ranges()[1][0], 3);
    assert.strictEqual(page.get("seen.missing"), 1);
    page.video.currentTime = 2;
    page.get("pass")();
    assert.strictEqual(page.video.currentTime, 3);
  },
  async "what the user winds to is loaded, and not passed over"(page) {
    await page.until(() => page.ranges().at(-1)?.[1] > 20);
    page.windTo(35);
    page.get("pass")();
    assert.strictEqual(page.video.currentTime, 35);
    await page.until(() => page.ranges().at(-1)[0] === 35);
    page.windTo(25);
    page.get("pass")();
    assert.strictEqual(page.video.currentTime, 25);
    await page.until(() => page.ranges().at(-1)[1] === 40 && page.ranges().at(-1)[0] <= 25);
  },
  async "a live playlist is read again, though its oldest segments are gone"(page, files) {
    live(files, 10, 6, false);
    await page.until(() => page.ranges().at(-1)?.[1] === 16);
    assert.strictEqual(page.ranges()[0][0], 13, "it begins near the end");
    page.video.currentTime = 15;
    live(files, 14, 4, false);
    await page.until(() => page.ranges().at(-1)[1] === 18);
    live(files, 16, 4, true);
    await page.until(() => page.get("source").readyState === "ended");
    assert.deepStrictEqual(page.ranges(), [[13, 20]]);
    assert.strictEqual(page.get("seen.missing"), 0);
  },
  async "a live playlist that has run away is followed"(page, files) {
    live(files, 0, 6, false);
    await page.until(() => page.ranges().at(-1)?.[1] === 6);
    live(files, 60, 6, false);
    await page.until(() => page.ranges().at(-1)[1] === 66);
    page.video.currentTime = 6;
    page.get("pass")();
    assert.strictEqual(page.video.currentTime, 60);
    assert.strictEqual(page.get("seen.missing"), 54);
  },
  async "a damaged segment ends playback with its name"(page, files) {
    for (const name of ["low", "high"]) files[`${name}/1.m4s`] = "damaged";
    await page.until(() => page.get("seen.error") !== "");
    assert.match(page.get("seen.error"), /\/1\.m4s: it is damaged/);
  },
  async "a server that is gone is asked a few times and then told"(page, files) {
    for (const name of ["low", "high"]) files[`${name}/3.m4s`] = null;
    await page.until(() => page.get("seen.error") !== "");
    assert.match(page.get("seen.error"), /3\.m4s: the server does not answer/);
    assert.strictEqual(segmentsOf(page.asked).filter((name) => name.endsWith("/3.m4s")).length, 5);
  },
};

(async () => {
  for (const [name, test] of Object.entries(tests)) {
    const files = media(40), page = open(process.argv[2], files);
    try {
      await test(page, files);
    } catch (error) {
      console.error(`${name}: ${error.stack}`);
      process.exitCode = 1;
    }
    page.close();
  }
})();

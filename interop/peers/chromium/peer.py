"""Chromium as a peer of tack-interop: an HTTP/3 client. docs/interop.md has the contract.

A page that is empty fetches everything by script; requests and answers go through the pipe of the
DevTools protocol. Nothing but this standard library and Debian's `chromium` is needed.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

# What the contract says to exit with where a test case is not known, after a line that says so.
UNSUPPORTED = 127
TEST_CASES = {
    "handshake",
    "transfer",
    "multiplexing",
    "retry",
    "retry-resumption",
    "resumption",
    "zerortt",
    "http3",
    "transferloss",
    "ackfrequency",
    "immediateack",
    "tack",
    "greased",
    "noannounce",
}
# Those in which all requests but the first are for a second connection.
TWO_CONNECTIONS = {"resumption", "retry-resumption", "zerortt"}
# Bytes of a file in one message.
CHUNK = 3 << 20
# Chromium closes a connection on which more than 1,000 control frames wait to be sent, as happens
# when far more requests than that wait for a stream at once.
WAITING = 1000


def variable(name: str) -> str:
    return os.environ["TACK_INTEROP_" + name]


def inside(directory: str, name: str) -> Path:
    """A file of that name in the directory that a variable names."""
    if not name or name.startswith(".") or "/" in name:
        raise ValueError(f"not a file name: {name!r}")
    return Path(variable(directory)) / name


def key_digest(pem: str) -> str:
    """SHA-256 of the public key in the first certificate, as Chromium wants it."""

    def parts(der: bytes) -> list[tuple[bytes, bytes]]:
        """The elements of a DER sequence: each with its header, and without."""
        found = []
        while der:
            length, header = der[1], 2
            if length & 0x80:
                header += length & 0x7F
                length = int.from_bytes(der[2:header], "big")
            found.append((der[: header + length], der[header : header + length]))
            der = der[header + length :]
        return found

    end = "-----END CERTIFICATE-----"
    certificate = ssl.PEM_cert_to_DER_cert(pem.split(end)[0] + end)
    (_, whole), = parts(certificate)
    to_be_signed = parts(parts(whole)[0][1])
    # Version, serial number, algorithm, issuer, validity, subject, and then the key.
    return base64.b64encode(hashlib.sha256(to_be_signed[6][0]).digest()).decode()


def options(port: str, host: str, profile: Path) -> list[str]:
    key = key_digest(Path(variable("CERTIFICATE")).read_text())
    # Chromium's own sandbox does not work for root.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return sandbox + [
        "--headless",
        "--remote-debugging-pipe",
        f"--user-data-dir={profile}",
        "--enable-quic",
        # Without these, it gives up a handshake after four seconds in which nothing came.
        "--force-fieldtrials=QUIC/Interop",
        "--force-fieldtrial-params=QUIC.Interop:"
        "max_idle_time_before_crypto_handshake_seconds/30/"
        "max_time_before_crypto_handshake_seconds/60",
        # For the script that closes connections.
        "--enable-net-benchmarking",
        f"--origin-to-force-quic-on=localhost:{port}",
        f"--ignore-certificate-errors-spki-list={key}",
        # Whatever else it would like to look up is not found: nothing leaves this machine.
        f"--host-resolver-rules=MAP localhost {host},MAP * ~NOTFOUND",
        "--no-proxy-server",
        "--disable-background-networking",
        "--disable-client-side-phishing-detection",
        "--disable-component-extensions-with-background-pages",
        "--disable-component-update",
        "--disable-default-apps",
        "--disable-domain-reliability",
        "--disable-extensions",
        "--disable-sync",
        "--metrics-recording-only",
        "--no-first-run",
        "--no-pings",
        # The empty page may ask anybody, and a machine of the local network too.
        "--disable-web-security",
        "--disable-features=LocalNetworkAccessChecks,OptimizationHints,MediaRouter",
        "--disable-breakpad",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--password-store=basic",
    ]


class Browser:
    """Chromium, and the DevTools protocol over its pipe. It ends when the pipe does."""

    def __init__(self, arguments: list[str], home: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # The shell puts the ends where Chromium looks for them: descriptors 3 and 4.
        command = ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh"]
        self.process = subprocess.Popen(
            command + arguments,
            env=os.environ | {"HOME": str(home)},
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.out = os.fdopen(ours_out, "wb")
        self.answers = os.fdopen(ours_in, "rb")
        self.unread = bytearray()
        self.last = 0
        self.session: dict[str, str] = {}

    def open_page(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}

    def call(self, method: str, **params) -> dict:
        self.last += 1
        message = {"id": self.last, "method": method, "params": params, **self.session}
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        while True:
            answer = self.message()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def message(self) -> dict:
        # What was searched already is not searched again: messages are long.
        searched = 0
        while (end := self.unread.find(b"\0", searched)) < 0:
            searched = len(self.unread)
            data = self.answers.read1(1 << 20)
            if not data:
                raise ConnectionError("Chromium ended early")
            self.unread += data
        message = json.loads(self.unread[:end])
        del self.unread[: end + 1]
        return message

    def evaluate(self, script: str):
        """The value of a script, which may be a promise, in the page."""
        done = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            thrown = done["exceptionDetails"].get("exception", {})
            raise RuntimeError(thrown.get("description", "the script failed"))
        return done["result"].get("value")

    def close(self) -> None:
        self.session = {}
        self.call("Browser.close")
        self.process.wait(timeout=10)


FETCH = """
async function ask({method, name}) {
    const body = method == "PUT" ? new Blob(bodies[name]) : undefined;
    const answer = await fetch(origin + name, {method, body, cache: "no-store"});
    if (answer.status != 200) throw new Error(`${name}: status ${answer.status}`);
    answers[name] = new Uint8Array(await answer.arrayBuffer());
}
(async () => {
    if (twoConnections) {
        await ask(requests[0]);
        // A ticket comes with the end of the handshake, and nothing tells of it.
        await new Promise(done => setTimeout(done, 500));
        chrome.benchmarking.closeConnections();
    }
    const left = requests.slice(twoConnections ? 1 : 0);
    const inTurn = async () => { while (left.length) await ask(left.shift()); };
    await Promise.all(Array.from({length: Math.min(left.length, waiting)}, inTurn));
    return requests.map(({name}) => answers[name].length);
})()
"""


def fetch(browser: Browser, port: str) -> None:
    requests = [request.split(" ") for request in variable("REQUESTS").split(",")]
    asked = json.dumps([{"method": method, "name": name} for method, name in requests])
    two = json.dumps(variable("TESTCASE") in TWO_CONNECTIONS)
    browser.evaluate(
        f"var requests = {asked}, bodies = {{}}, answers = {{}},"
        f" origin = 'https://localhost:{port}/', twoConnections = {two}, waiting = {WAITING}; 0"
    )
    for method, name in requests:
        if method == "PUT":
            browser.evaluate(f"bodies[{json.dumps(name)}] = []; 0")
            contents = inside("FILES", name).read_bytes()
            for at in range(0, len(contents), CHUNK):
                part = base64.b64encode(contents[at : at + CHUNK]).decode()
                browser.evaluate(
                    f"bodies[{json.dumps(name)}].push(Uint8Array.fromBase64('{part}')); 0"
                )
    sizes = browser.evaluate(FETCH)
    for (method, name), size in zip(requests, sizes):
        if method == "GET":
            with inside("RECEIVED", name).open("wb") as file:
                for at in range(0, size, CHUNK):
                    part = browser.evaluate(
                        f"answers[{json.dumps(name)}].subarray({at}, {at + CHUNK}).toBase64()"
                    )
                    file.write(base64.b64decode(part))


def main() -> None:
    host, port = variable("ADDRESS").rsplit(":", 1)
    own = Path(variable("RECEIVED")).parent / "chromium"
    own.mkdir()
    browser = Browser(["chromium", *options(port, host, own / "profile"), "about:blank"], own)
    browser.open_page()
    fetch(browser, port)
    browser.close()
    shutil.rmtree(own, ignore_errors=True)


def end_with_the_runner() -> None:
    """Ends this program and the browser once the runner is gone.

    The runner holds the other end of the standard input.
    """
    while os.read(0, 4096):
        pass
    # The runner makes each peer the leader of a process group of its own.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_runner, daemon=True).start()
    known = variable("TESTCASE") in TEST_CASES and variable("ROLE") == "client"
    if not known or variable("PROTOCOL") != "h3":
        print("unsupported", flush=True)
        sys.exit(UNSUPPORTED)
    main()

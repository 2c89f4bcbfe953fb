"""ngtcp2's own programs as a peer of tack-interop: h3 in both roles.

docs/interop.md has the contract. Its argument is the directory where the Debian packages were unpacked.
"""

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

# What the contract says to exit with where a test case is not known.
UNSUPPORTED = 127
# The server keeps nothing of what it receives, and the client has one method for all its requests:
# there are no cases with data to the server here.
TEST_CASES = {
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "resumption",
    "zerortt",
    "keyupdate",
    "http3",
    "transferloss",
    "transfercorruption",
    "handshakeloss",
    "handshakecorruption",
    "longrtt",
    "blackhole",
    "amplificationlimit",
    "ipv6",
    "rebind-port",
    "rebind-addr",
    "goodput",
    "crosstraffic",
    "tack",
    "greased",
}
CLIENT_TEST_CASES = TEST_CASES | {"ackfrequency"}
# What is on offer in the words of GnuTLS.
ONLY_CHACHA20 = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305"
CLIENT = "usr/bin/gtlsclient"
SERVER = "usr/sbin/gtlsserver"
QUIET = ["--quiet", "--no-quic-dump", "--no-http-dump"]


def variable(name: str) -> str:
    return os.environ["TACK_INTEROP_" + name]


def address() -> tuple[str, int]:
    host, port = variable("ADDRESS").rsplit(":", 1)
    return host.strip("[]"), int(port)


def command(program: str, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """One of the unpacked programs with its arguments, and its environment."""
    root = Path(sys.argv[1])
    libraries = ":".join(map(str, root.glob("usr/lib/*-linux-gnu*")))
    return (
        [str(root / program), *QUIET, f"--qlog-dir={os.environ['QLOGDIR']}", *arguments],
        os.environ | {"LD_LIBRARY_PATH": libraries},
    )


def become(program: str, arguments: list[str]) -> None:
    """Goes on as that program, so that who ends this process ends it."""
    arguments, environment = command(program, arguments)
    sys.stdout.flush()
    os.execve(arguments[0], arguments, environment)


def serve() -> None:
    host, port = address()
    port = port or free_port(host)
    if os.fork() == 0:
        # The server does not say when it listens, or where.
        while not is_taken(host, port):
            time.sleep(0.01)
        print(f"ready {variable('ADDRESS').rsplit(':', 1)[0]}:{port}", flush=True)
        os._exit(0)
    options = [f"--htdocs={variable('FILES')}"]
    if variable("TESTCASE") == "retry":
        options.append("--validate-addr")
    become(SERVER, [*options, host, str(port), variable("KEY"), variable("CERTIFICATE")])


def fetch() -> None:
    names = [request.removeprefix("GET ") for request in variable("REQUESTS").split(",")]
    logs = Path(os.environ["QLOGDIR"])
    session = [f"--session-file={logs / 'session'}", f"--tp-file={logs / 'parameters'}"]
    match variable("TESTCASE"):
        case "chacha20":
            become(CLIENT, ask(names, [f"--ciphers={ONLY_CHACHA20}"]))
        case "keyupdate":
            become(CLIENT, ask(names, ["--key-update=100ms"]))
        case "resumption":
            finish(CLIENT, ask(names[:1], session))
            become(CLIENT, ask(names[1:], [*session, "--disable-early-data"]))
        case "zerortt":
            finish(CLIENT, ask(names[:1], session))
            become(CLIENT, ask(names[1:], session))
        case _:
            become(CLIENT, ask(names, []))


def ask(names: list[str], options: list[str]) -> list[str]:
    """The client's arguments for files of these names on one connection."""
    host, port = address()
    urls = [f"https://localhost/{name}" for name in names]
    download = f"--download={variable('RECEIVED')}"
    return [*options, download, "--exit-on-all-streams-close", host, str(port), *urls]


def finish(program: str, arguments: list[str]) -> None:
    arguments, environment = command(program, arguments)
    subprocess.run(arguments, env=environment, check=True)


def bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.bind((host, port))
    return udp


def free_port(host: str) -> int:
    """A port that nobody has; the server cannot look for one."""
    with bound(host, 0) as udp:
        return udp.getsockname()[1]


def is_taken(host: str, port: int) -> bool:
    try:
        bound(host, port).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


if __name__ == "__main__":
    known, play = {
        "client": (CLIENT_TEST_CASES, fetch),
        "server": (TEST_CASES, serve),
    }[variable("ROLE")]
    if variable("TESTCASE") not in known or variable("PROTOCOL") != "h3":
        sys.exit(UNSUPPORTED)
    play()

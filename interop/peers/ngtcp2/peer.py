"""ngtcp2's own programs as a peer of tack-interop: h3 in both roles.

docs/interop.md has the contract. Its argument is the directory where the Debian packages were unpacked.
"""

import errno
import os
import socket
import sys
import time
from pathlib import Path

# What the contract says to exit with where a test case is not known.
UNSUPPORTED = 127
# The server keeps nothing of what it receives, and the client has one method for all its requests:
# there are no cases with data to the server here.
TEST_CASES = {"handshake", "transfer", "retry", "http3", "transferloss"}
SERVER_TEST_CASES = TEST_CASES
CLIENT_TEST_CASES = TEST_CASES | {"ackfrequency"}
QUIET = ["--quiet", "--no-quic-dump", "--no-http-dump"]


def variable(name: str) -> str:
    return os.environ["TACK_INTEROP_" + name]


def address() -> tuple[str, int]:
    host, port = variable("ADDRESS").rsplit(":", 1)
    return host.strip("[]"), int(port)


def become(program: str, arguments: list[str]) -> None:
    """Goes on as one of the unpacked programs, so that who ends this process ends that."""
    root = Path(sys.argv[1])
    libraries = ":".join(map(str, root.glob("usr/lib/*-linux-gnu*")))
    path = str(root / program)
    sys.stdout.flush()
    os.execve(path, [path, *QUIET, *arguments], os.environ | {"LD_LIBRARY_PATH": libraries})


def serve() -> None:
    host, port = address()
    port = port or free_port(host)
    if os.fork() == 0:
        # The server does not say when it listens, or where.
        while not is_taken(host, port):
            time.sleep(0.01)
        print(f"ready {variable('ADDRESS').rsplit(':', 1)[0]}:{port}", flush=True)
        os._exit(0)
    options = [f"--htdocs={variable('FILES')}", f"--qlog-dir={os.environ['QLOGDIR']}"]
    if variable("TESTCASE") == "retry":
        options.append("--validate-addr")
    become(
        "usr/sbin/gtlsserver",
        [*options, host, str(port), variable("KEY"), variable("CERTIFICATE")],
    )


def fetch() -> None:
    host, port = address()
    names = [request.removeprefix("GET ") for request in variable("REQUESTS").split(",")]
    become(
        "usr/bin/gtlsclient",
        [
            f"--download={variable('RECEIVED')}",
            f"--qlog-dir={os.environ['QLOGDIR']}",
            "--exit-on-all-streams-close",
            host,
            str(port),
            *(f"https://localhost/{name}" for name in names),
        ],
    )


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
        "server": (SERVER_TEST_CASES, serve),
    }[variable("ROLE")]
    if variable("TESTCASE") not in known or variable("PROTOCOL") != "h3":
        sys.exit(UNSUPPORTED)
    play()

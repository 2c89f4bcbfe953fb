"""ngtcp2's own programs as a peer of tack-interop: h3 in both roles.

docs/interop.md has the contract. Its argument is the directory where the Debian packages were unpacked.
"""

import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# What the contract says to exit with where a test case is not known, after a line that says so.
UNSUPPORTED = 127
# The server keeps nothing of what it receives, and the client has one method for all its requests:
# there are no cases with data to the server here.
TEST_CASES = {
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "retry-resumption",
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
# By itself an end gives up after ten seconds: with a third of the packets lost a handshake may take longer.
PATIENCE = "--handshake-timeout=60s"


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
        [str(root / program), *QUIET, PATIENCE, f"--qlog-dir={os.environ['QLOGDIR']}", *arguments],
        os.environ | {"LD_LIBRARY_PATH": libraries},
    )


def become(program: str, arguments: list[str]) -> None:
    """Replaces this process by that program, so that the runner can end it."""
    arguments, environment = command(program, arguments)
    sys.stdout.flush()
    os.execve(arguments[0], arguments, environment)


def serve() -> None:
    host, port = address()
    port = port or free_port(host)
    server = os.getpid()
    if os.fork() == 0:
        # The server does not say when it listens, or where.
        while os.getppid() == server and not listens(server, host, port):
            time.sleep(0.01)
        if os.getppid() == server:
            print(f"ready {variable('ADDRESS').rsplit(':', 1)[0]}:{port}", flush=True)
        os._exit(0)
    options = [f"--htdocs={variable('FILES')}"]
    if variable("TESTCASE") in {"retry", "retry-resumption"}:
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
        case "resumption" | "retry-resumption":
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


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def free_port(host: str) -> int:
    """A free port; the server cannot look for one.

    Not one of those that the system hands out by itself: another process could get it before
    the server has it.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    low, high = map(int, given.split())
    ports = [port for port in range(1024, 65536) if not low <= port <= high] or [*range(low, high)]
    random.shuffle(ports)
    return next(port for port in ports if is_free(host, port))


def is_free(host: str, port: int) -> bool:
    with socket.socket(family(host), socket.SOCK_DGRAM) as udp:
        try:
            udp.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def listens(process: int, host: str, port: int) -> bool:
    """Whether the process has a socket there. To try the address would keep the process from it."""
    table = "udp6" if family(host) == socket.AF_INET6 else "udp"
    rows = [row.split() for row in Path("/proc/net", table).read_text().splitlines()[1:]]
    there = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}")}
    return any(opened in there for opened in files(process))


def files(process: int) -> Iterator[str]:
    """What the process has opened."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            yield os.readlink(descriptor)
        except FileNotFoundError:
            # Closed since.
            continue


def end_with_the_runner() -> None:
    """Ends this process, whatever program it becomes, once the runner is gone.

    The runner holds the other end of the standard input. A process watches that: no thread of this one
    outlives its becoming another program.
    """
    watched = os.getpid()
    if os.fork() == 0:
        while os.read(0, 4096):
            pass
        if os.getppid() == watched:
            os.kill(watched, signal.SIGKILL)
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


if __name__ == "__main__":
    known, play = {
        "client": (CLIENT_TEST_CASES, fetch),
        "server": (TEST_CASES, serve),
    }[variable("ROLE")]
    if variable("TESTCASE") not in known or variable("PROTOCOL") != "h3":
        print("unsupported", flush=True)
        sys.exit(UNSUPPORTED)
    end_with_the_runner()
    play()

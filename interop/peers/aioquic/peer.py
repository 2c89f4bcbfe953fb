"""aioquic as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract."""

import asyncio
import os
import ssl
import sys
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicFileLogger

import http3

# What the contract says to exit with where a test case is not known.
UNSUPPORTED = 127
TEST_CASES = {
    "handshake",
    "transfer",
    "retry",
    "http3",
    "transferloss",
    "ackfrequency",
    "noannounce",
}
# Above the window of a fast link, so that flow control is not what is measured.
WINDOW = 8 << 20


def variable(name: str) -> str:
    return os.environ["TACK_INTEROP_" + name]


def inside(directory: str, name: str) -> Path:
    """A file of that name in the directory that a variable names."""
    if not name or name.startswith(".") or "/" in name:
        raise ValueError(f"not a file name: {name!r}")
    return Path(variable(directory)) / name


def address() -> tuple[str, int]:
    host, port = variable("ADDRESS").rsplit(":", 1)
    return host, int(port)


def protocol() -> str:
    return os.environ.get("TACK_INTEROP_PROTOCOL", "hq-interop")


def speaks_http3() -> bool:
    return protocol() == "h3"


def configuration(is_client: bool) -> QuicConfiguration:
    logs = os.environ.get("QLOGDIR")
    secrets = os.environ.get("SSLKEYLOGFILE")
    return QuicConfiguration(
        alpn_protocols=[protocol()],
        is_client=is_client,
        max_data=WINDOW,
        max_stream_data=WINDOW,
        quic_logger=QuicFileLogger(logs) if logs else None,
        secrets_log_file=open(secrets, "a") if secrets else None,
    )


async def serve() -> None:
    config = configuration(is_client=False)
    config.load_cert_chain(variable("CERTIFICATE"), variable("KEY"))
    running = set()

    def on_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio keeps no reference of its own to a task.
        task = asyncio.ensure_future(answer(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicServer(
            configuration=config,
            retry=variable("TESTCASE") == "retry",
            create_protocol=http3.server(inside) if speaks_http3() else QuicConnectionProtocol,
            stream_handler=None if speaks_http3() else on_stream,
        ),
        local_addr=address(),
    )
    host, port = transport.get_extra_info("sockname")[:2]
    print(f"ready {host}:{port}", flush=True)
    await asyncio.Event().wait()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    line, _, body = (await reader.read()).partition(b"\n")
    method, _, name = line.decode().rstrip().partition(" /")
    if method == "GET":
        writer.write(inside("FILES", name).read_bytes())
    elif method == "PUT":
        inside("RECEIVED", name).write_bytes(body)
    else:
        raise ValueError(f"not a request: {line!r}")
    writer.write_eof()


async def fetch() -> None:
    config = configuration(is_client=True)
    config.verify_mode = ssl.CERT_NONE  # what is tested is not whom to trust
    config.server_name = "localhost"
    host, port = address()
    create = http3.Client if speaks_http3() else QuicConnectionProtocol
    ask = ask_http3 if speaks_http3() else ask_hq
    async with connect(
        host, port, configuration=config, create_protocol=create
    ) as connection:
        requests = variable("REQUESTS").split(",")
        await asyncio.gather(*(ask(connection, request) for request in requests))


async def ask_hq(connection: QuicConnectionProtocol, request: str) -> None:
    """`request` is `GET name` or `PUT name`."""
    method, name = request.split(" ")
    reader, writer = await connection.create_stream()
    writer.write(f"{method} /{name}\r\n".encode())
    if method == "PUT":
        writer.write(inside("FILES", name).read_bytes())
    writer.write_eof()
    contents = await reader.read()
    if method == "GET":
        inside("RECEIVED", name).write_bytes(contents)


async def ask_http3(connection: http3.Client, request: str) -> None:
    """`request` is `GET name` or `PUT name`."""
    method, name = request.split(" ")
    body = inside("FILES", name).read_bytes() if method == "PUT" else b""
    contents = await connection.ask(method, name, body)
    if method == "GET":
        inside("RECEIVED", name).write_bytes(contents)


if __name__ == "__main__":
    if variable("TESTCASE") not in TEST_CASES:
        sys.exit(UNSUPPORTED)
    asyncio.run({"client": fetch, "server": serve}[variable("ROLE")]())

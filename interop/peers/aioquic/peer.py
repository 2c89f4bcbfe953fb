"""aioquic as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract."""

import asyncio
import os
import ssl
import sys
import threading
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import DatagramFrameReceived, HandshakeCompleted
from aioquic.quic.logger import QuicFileLogger
from aioquic.tls import CipherSuite, SessionTicket

import http3
import unknown_parameters

# What the contract says to exit with where a test case is not known, after a line that says so.
UNSUPPORTED = 127
TEST_CASES = {
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "retry-resumption",
    "cid-long",
    "resumption",
    "zerortt",
    "keyupdate",
    "http3",
    "datagrams",
    "transferloss",
    "ackfrequency",
    "immediateack",
    "tack",
    "greased",
    "noannounce",
}
# Seconds: the handshake is confirmed, and most of the data is still to come.
KEY_UPDATE_AFTER = 0.3
# Bytes of a DATAGRAM frame.
LARGEST_DATAGRAM = 65_535
# aioquic has no empty ids: it would give its server's first id that length, and send
# NEW_CONNECTION_ID frames with it, which RFC 9000 sections 7.2 and 19.15 forbid.
ID_LENGTHS = {"cid-long": 20}
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
    return host.strip("[]"), int(port)


def is_test(name: str) -> bool:
    return variable("TESTCASE") == name


def protocol() -> str:
    return os.environ.get("TACK_INTEROP_PROTOCOL", "hq-interop")


def speaks_http3() -> bool:
    return protocol() == "h3"


def configuration(is_client: bool) -> QuicConfiguration:
    logs = os.environ.get("QLOGDIR")
    secrets = os.environ.get("SSLKEYLOGFILE")
    only_chacha20 = is_client and is_test("chacha20")
    return QuicConfiguration(
        cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256] if only_chacha20 else None,
        alpn_protocols=[protocol()],
        is_client=is_client,
        max_data=WINDOW,
        max_stream_data=WINDOW,
        max_datagram_frame_size=LARGEST_DATAGRAM if is_test("datagrams") else None,
        connection_id_length=ID_LENGTHS.get(variable("TESTCASE"), 8),
        quic_logger=QuicFileLogger(logs) if logs else None,
        secrets_log_file=open(secrets, "a") if secrets else None,
    )


async def serve() -> None:
    config = configuration(is_client=False)
    config.load_cert_chain(variable("CERTIFICATE"), variable("KEY"))
    running = set()
    tickets: dict[bytes, SessionTicket] = {}

    def on_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio keeps no reference of its own to a task.
        task = asyncio.ensure_future(answer(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: QuicServer(
            configuration=config,
            retry=is_test("retry") or is_test("retry-resumption"),
            session_ticket_fetcher=tickets.get,
            session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
            create_protocol=http3.server(inside) if speaks_http3() else Peer,
            stream_handler=None if speaks_http3() else on_stream,
        ),
        local_addr=address(),
    )
    host, port = transport.get_extra_info("sockname")[:2]
    host = f"[{host}]" if ":" in host else host
    print(f"ready {host}:{port}", flush=True)
    await asyncio.Event().wait()


class Peer(QuicConnectionProtocol):
    """Updates its keys, or returns datagrams, if that is the test."""

    def quic_event_received(self, event) -> None:
        if is_test("keyupdate") and isinstance(event, HandshakeCompleted):
            asyncio.get_running_loop().call_later(KEY_UPDATE_AFTER, self.request_key_update)
        if is_test("datagrams") and isinstance(event, DatagramFrameReceived):
            self._quic.send_datagram_frame(event.data)
            self.transmit()
        super().quic_event_received(event)


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
    config.verify_mode = ssl.CERT_NONE  # trust is not under test
    config.server_name = "localhost"
    host, port = address()
    requests = variable("REQUESTS").split(",")
    ticket = asyncio.get_running_loop().create_future()

    def keep(new: SessionTicket) -> None:
        if not ticket.done():
            ticket.set_result(new)

    def connection(**more):
        create = http3.Client if speaks_http3() else Peer
        return connect(host, port, configuration=config, create_protocol=create, **more)

    if is_test("resumption") or is_test("zerortt") or is_test("retry-resumption"):
        async with connection(session_ticket_handler=keep) as first:
            await ask_all(first, requests[:1])
            config.session_ticket = await ticket
        requests = requests[1:]
    async with connection(wait_connected=not is_test("zerortt")) as second:
        await ask_all(second, requests)


async def ask_all(connection: QuicConnectionProtocol, requests: list[str]) -> None:
    ask = ask_http3 if speaks_http3() else ask_hq
    exchanges = [asyncio.ensure_future(ask(connection, request)) for request in requests]
    await asyncio.gather(*exchanges)


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


def end_with_the_runner() -> None:
    """Ends this program once the runner is gone, which holds the other end of its standard input."""
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_runner, daemon=True).start()
    if variable("TESTCASE") not in TEST_CASES:
        print("unsupported", flush=True)
        sys.exit(UNSUPPORTED)
    if is_test("greased"):
        unknown_parameters.send()
    asyncio.run({"client": fetch, "server": serve}[variable("ROLE")]())

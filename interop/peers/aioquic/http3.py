"""HTTP/3 in both roles, by aioquic's own h3."""

import asyncio

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.events import ConnectionTerminated


class Http3(QuicConnectionProtocol):
    """Gathers head and body of each stream, and tells of it once it is whole."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.heads: dict[int, dict[bytes, bytes]] = {}
        self.bodies: dict[int, bytearray] = {}

    def quic_event_received(self, event) -> None:
        for part in self.http.handle_event(event):
            stream = part.stream_id
            if isinstance(part, HeadersReceived):
                self.heads.setdefault(stream, dict(part.headers))
            elif isinstance(part, DataReceived):
                self.bodies.setdefault(stream, bytearray()).extend(part.data)
            else:
                continue
            if part.stream_ended:
                body = bytes(self.bodies.pop(stream, b""))
                self.whole(stream, self.heads.pop(stream), body)

    def whole(self, stream: int, head: dict[bytes, bytes], body: bytes) -> None:
        raise NotImplementedError

    def say(self, stream: int, head: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.http.send_headers(stream, head, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()


def server(inside):
    """A protocol that answers; `inside` finds a file by directory and name."""

    class Server(Http3):
        def whole(self, stream: int, head: dict[bytes, bytes], body: bytes) -> None:
            name = head[b":path"].decode().removeprefix("/")
            status, answer = b"200", b""
            if head[b":method"] == b"GET":
                try:
                    answer = inside("FILES", name).read_bytes()
                except (OSError, ValueError) as error:
                    print(error, flush=True)
                    status = b"404"
            elif head[b":method"] == b"PUT":
                inside("RECEIVED", name).write_bytes(body)
            else:
                status = b"405"
            self.say(stream, [(b":status", status)], answer)

    return Server


class Client(Http3):
    """Asks."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.answers: dict[int, asyncio.Future[bytes]] = {}

    def whole(self, stream: int, head: dict[bytes, bytes], body: bytes) -> None:
        if head[b":status"] == b"200":
            self.answers[stream].set_result(body)
        else:
            error = RuntimeError(f"answered with status {head[b':status'].decode()}")
            self.answers[stream].set_exception(error)

    def quic_event_received(self, event) -> None:
        super().quic_event_received(event)
        if isinstance(event, ConnectionTerminated):
            for answer in self.answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError(event.reason_phrase))

    async def ask(self, method: str, name: str, body: bytes) -> bytes:
        stream = self._quic.get_next_available_stream_id()
        answer = self.answers[stream] = self._loop.create_future()
        head = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", f"/{name}".encode()),
        ]
        self.say(stream, head, body)
        return await answer

"""What one visitor may hold of the server: connections, uploads at once, bytes of a session, time without a byte.

Streamlit keeps every file of its upload field in memory until the page closes and bounds each alone; the server below
it waits for ever for a request that never ends. Both are bounded here.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping

import anyio
import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol
from websockets.http11 import Response
from websockets.server import ServerProtocol

MOST_CONNECTIONS_PER_ADDRESS = 256
"""A browser holds six, and a socket for each open page."""
HEAD_SECONDS = 20.0
"""How long a connection may stay without a whole request."""
SILENCE_SECONDS = 60.0
LEAST_PACE = 4096
"""Bytes per second that a sender must bring once a minute was spent waiting for it."""
MOST_SESSION_BYTES = 512 << 20
"""What the upload field of one open page may hold in memory, all files together."""
MOST_ADDRESS_BYTES = 1 << 30
"""The same for all open pages of an address: a reader has one or two, and the drop zone takes what is larger."""
MOST_SESSIONS = 4096
MOST_MESSAGE_BYTES = 8 << 20
"""One message of a page, which is gathered in memory until it is whole: what somebody typed, chose or clicked."""


class PerAddress:
    """How many of something each address holds at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, address: str) -> bool:
        """One more; False where the address has as many as it may."""
        with self._lock:
            if self._held[address] >= self._most:
                return False
            self._held[address] += 1
            return True

    def leave(self, address: str) -> None:
        """One less."""
        with self._lock:
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]


class SessionBytes:
    """What the upload fields hold: the sizes that were announced, file by file, bounded by session and by address."""

    def __init__(
        self,
        most: int = MOST_SESSION_BYTES,
        most_of_address: int = MOST_ADDRESS_BYTES,
        is_open: Callable[[str], bool] = lambda session: True,
    ) -> None:
        """``is_open``: is the session's page still there? What a closed one held is free again."""
        self._most, self._most_of_address, self._is_open = most, most_of_address, is_open
        self._files: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._addresses: dict[str, str] = {}

    def add(self, session: str, file: str, size: int, address: str = "") -> bool:
        """One file more; False where session or address would hold too much. The same file again replaces itself."""
        files = self._files.get(session, {})
        more = size - files.get(file, 0)
        if sum(files.values()) + more > self._most:
            return False
        if self._held_by(address) + more > self._most_of_address:
            self._forget([s for s, own in self._addresses.items() if own == address and not self._is_open(s)])
            if self._held_by(address) + more > self._most_of_address:
                return False
        self._files.setdefault(session, {})[file] = size
        self._addresses[session] = address
        self._files.move_to_end(session)
        self._forget(list(self._files)[:-MOST_SESSIONS])
        return True

    def size(self, session: str, file: str) -> int:
        """What a file was announced with; 0 for one that is not there."""
        return self._files.get(session, {}).get(file, 0)

    def put_back(self, session: str, file: str, size: int) -> None:
        """A file is as large as it was before; with 0 it is gone."""
        if size and session in self._files:
            self._files[session][file] = size
        else:
            self.remove(session, file)

    def remove(self, session: str, file: str) -> None:
        """The page took a file back, or it never arrived."""
        self._files.get(session, {}).pop(file, None)
        if not self._files.get(session):
            self._forget([session])

    def _held_by(self, address: str) -> int:
        return sum(sum(self._files[s].values()) for s, own in self._addresses.items() if own == address)

    def _forget(self, sessions: Iterable[str]) -> None:
        for session in sessions:
            self._files.pop(session, None)
            self._addresses.pop(session, None)


def paced(receive: Receive, silence: float = SILENCE_SECONDS, pace: int = LEAST_PACE) -> Receive:
    """The same request; a sender that falls silent, or only drips, is taken for gone.

    Only the time spent waiting counts, not the time in which what came was written to disk.
    """
    waited, brought, whole = 0.0, 0, False

    async def receiving() -> Message:
        nonlocal waited, brought, whole
        if whole:
            return await receive()  # for the reader's own leaving there is no hurry
        begun = time.monotonic()
        try:
            with anyio.fail_after(silence):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        waited += time.monotonic() - begun
        brought += len(message.get("body", b""))
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        if not whole and waited > silence and brought < pace * waited:
            return {"type": "http.disconnect"}
        return message

    return receiving


def bound_connections(
    most: int = MOST_CONNECTIONS_PER_ADDRESS,
    head_seconds: float = HEAD_SECONDS,
    most_message: int = MOST_MESSAGE_BYTES,
) -> None:
    """Bounds the connections of an address and the messages of a page, and closes connections on which a head or the
    body of an answered request never ends.

    Works around what the server leaves open: it bounds no connections, takes messages as large as those it sends, and
    sets no time for a request's head, nor for a body that nobody reads.
    """
    made = H11Protocol.connection_made

    def connection_made(self: H11Protocol, transport: asyncio.Transport) -> None:
        made(self, transport)
        self.config.ws_max_size = most_message
        address = self.client[0] if self.client else ""
        others = (getattr(other, "client", None) for other in self.connections)
        held = sum(1 for client in others if client is not None and client[0] == address)
        if held > most:
            transport.abort()
            return
        self.loop.call_later(head_seconds, _close_if_stuck, self, "", head_seconds)

    H11Protocol.connection_made = connection_made  # type: ignore[method-assign]


def _close_if_stuck(protocol: H11Protocol, before: str, seconds: float) -> None:
    """Closes a connection that waited for the same at two looks; one between two requests is only so at one."""
    if protocol not in protocol.connections:  # closed, or a WebSocket by now
        return
    waits = _waits_for(protocol.conn)
    if waits and (waits == before or protocol.cycle is None):
        protocol.transport.close()
        return
    protocol.loop.call_later(seconds, _close_if_stuck, protocol, waits, seconds)


def _waits_for(conn: h11.Connection) -> str:
    """What a connection on which nothing is being done waits for: a head, or the rest of a body that nobody reads."""
    if conn.their_state is h11.IDLE:
        return "head"
    return "rest" if conn.our_state is h11.DONE and conn.their_state is h11.SEND_BODY else ""


def head_all_refusals(headers: Mapping[str, str]) -> None:
    """Gives these headers to what the server answers by itself: to malformed requests and handshakes."""
    reject = ServerProtocol.reject

    def send_400_response(self: H11Protocol, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            words = msg.encode("ascii")
            fields = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(words))}
            start = h11.Response(status_code=400, headers=list({**fields, "Connection": "close", **headers}.items()))
            for event in (start, h11.Data(data=words), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def reject_with_headers(self: ServerProtocol, status: int, text: str) -> Response:
        response = reject(self, status, text)
        for name, value in headers.items():
            response.headers[name] = value
        return response

    H11Protocol.send_400_response = send_400_response  # type: ignore[method-assign]
    ServerProtocol.reject = reject_with_headers  # type: ignore[method-assign]

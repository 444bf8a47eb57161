"""Every request to the server passes here first: for whom it is meant, where it comes from, how many there are.

Streamlit checks the host of its WebSocket and nothing else, opens that socket to any page on the same machine,
whatever its port, and sends no header against framing. The guard stands before all of its routes and our own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime

from flcontrib_dashboard.pacing import MOST_ADDRESS_BYTES, MOST_SESSION_BYTES, PerAddress, SessionBytes, paced
from flcontrib_dashboard.uploads import Refusal

MOST_SOCKETS_PER_ADDRESS = 64
"""A reader's browser holds one per open page."""
MOST_UPLOADS_PER_ADDRESS = 6
"""At once; a browser sends no more."""
PAGE_UPLOADS = "/_stcore/upload_file/"
"""Where the upload field of a page sends its files: PAGE_UPLOADS session/file."""
POLICY = "; ".join(
    (
        "default-src 'self'",
        # Streamlit's own page starts with an inline script and styles its widgets inline.
        "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "frame-src 'self' blob: data:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestGuard:
    """ASGI middleware: refuses other hosts and origins, bounds what one visitor holds, sets safe headers on answers."""

    def __init__(self, app: ASGIApp, most_sockets: int = MOST_SOCKETS_PER_ADDRESS) -> None:
        self.app = app
        self._sockets = PerAddress(most_sockets)
        self._uploads = PerAddress(MOST_UPLOADS_PER_ADDRESS)
        self._page_files = SessionBytes(is_open=_is_open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = other_host(headers, st.get_option("server.allowedHosts") or ())
        address = (scope.get("client") or ("", 0))[0]
        if scope["type"] == "http":
            before = self._page_files.size(*(_page_file(scope) or ("", "")))
            refused = refused or self._page_upload(scope, headers, address)
            await self._request(refused, before, address, scope, receive, send)
            return
        refused = refused or cross_origin(headers)
        if refused is not None or not self._sockets.enter(address):
            await _answer(refused or Refusal(503, "E_SOCKETS", "too many open pages"))(scope, receive, send)
            return
        try:
            await self.app(scope, receive, _with_headers(send))
        finally:
            self._sockets.leave(address)

    async def _request(
        self, refused: Refusal | None, before: int, address: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        sends = scope["method"] in ("PUT", "POST")
        if refused is None and sends and not self._uploads.enter(address):
            sends = False
            refused = Refusal(503, "E_UPLOAD_BUSY", "Too much is being sent from this address; try again later.")
        if refused is not None:
            await _answer(refused)(scope, receive, send)
            return
        arrived = False

        async def sending(message: Message) -> None:
            nonlocal arrived
            arrived = arrived or message.get("status", 500) < 300
            await send(message)

        try:
            await self.app(scope, paced(receive), _with_headers(sending))
        finally:
            if sends:
                self._uploads.leave(address)
            # What the page holds now: a removal or a new version of a file that was refused changed nothing.
            if (named := _page_file(scope)) and scope["method"] == ("DELETE" if arrived else "PUT"):
                self._page_files.put_back(*named, 0 if arrived else before)

    def _page_upload(self, scope: Scope, headers: Mapping[str, str], address: str) -> Refusal | None:
        """The upload field of a page keeps its files in memory: those of a session, and of an address, are bounded."""
        named = _page_file(scope)
        if named is None or scope["method"] != "PUT":
            return None
        session, file = named
        length = headers.get("content-length", "")
        # Beside a transfer encoding it says nothing about how much comes.
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
            return Refusal(411, "E_UPLOAD_SIZE", "Say in Content-Length how much is being sent.")
        if not self._page_files.add(session, file, int(length), address):
            words = f"A page holds {MOST_SESSION_BYTES >> 20} MB, all pages of an address {MOST_ADDRESS_BYTES >> 20}"
            words += " MB: take files away, close other pages, or use the drop zone."
            return Refusal(413, "E_UPLOAD_SESSION", words)
        return None


def _page_file(scope: Scope) -> tuple[str, str] | None:
    """Session and file that a request to the upload field names."""
    _, found, names = scope["path"].partition(PAGE_UPLOADS)
    session, _, file = names.partition("/")
    return (session, file) if found else None


def _is_open(session: str) -> bool:
    """Streamlit drops a session's files when its page has gone."""
    return runtime.exists() and runtime.get_instance().is_active_session(session)


def other_host(headers: Mapping[str, str], hosts: Sequence[str]) -> Refusal | None:
    """Is the request for another host? A name that somebody made point here (DNS rebinding) is one."""
    names = {name.strip("[]").lower() for name in hosts}
    if not names or "*" in names or _hostname(headers.get("host", "")) in names:
        return None
    return Refusal(403, "E_HOST", "This server does not answer to that host name.")


def cross_origin(headers: Mapping[str, str]) -> Refusal | None:
    """Does a page of another site, or of another port, ask? Programs that are no browsers name no origin."""
    host, origin = headers.get("host", ""), headers.get("origin")
    same = origin is None or origin in (f"http://{host}", f"https://{host}")
    if same and headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return None
    return Refusal(403, "E_ORIGIN", "Only this server's own pages and programs with a token may ask for this.")


async def fault_answer(request: Request, fault: Exception) -> JSONResponse:
    """For a fault of ours: that answer is made outside the guard. The server's own output has the rest."""
    return _answer(Refusal(500, "E_SERVER", "This cannot be answered; the operator finds the reason in the output."))


def _answer(refused: Refusal) -> JSONResponse:
    """Also to a browser that asked for a socket: it gets an answer with headers, and no socket."""
    return JSONResponse({"code": refused.code, "error": refused.words}, refused.status, HEADERS)


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=_mutable(message))
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _mutable(message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    message.setdefault("headers", [])
    message["headers"] = list(message["headers"])
    return message

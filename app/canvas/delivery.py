"""How does Plotly's script reach the browser early? Packed once, kept by the browser, and asked for by the first line
of the page instead of by the first chart, so that it loads while Streamlit's own scripts do.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

import plotly
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.canvas import SCRIPT_ROUTE

_KEPT = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
_TAG = f'<script id="drawing" async src=".{SCRIPT_ROUTE}"></script>'.encode()


@lru_cache(maxsize=1)
def packed_script() -> bytes:
    """Plotly's script as its Python package brings it."""
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), compresslevel=6)


async def send_script(request: Request) -> Response:
    packed = packed_script()
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, headers=_KEPT | {"Content-Encoding": "gzip"}, media_type="text/javascript")
    return Response(gzip.decompress(packed), headers=_KEPT, media_type="text/javascript")


script_route = Route(SCRIPT_ROUTE, send_script, methods=["GET"])


class ScriptAhead:
    """Names Plotly's script in the head of every HTML page. Where there is no head, the first chart asks for it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _wants_page(scope):
            await self.app(scope, receive, send)
            return
        unpacked = {**scope, "headers": [h for h in scope["headers"] if h[0] != b"accept-encoding"]}
        await self.app(unpacked, receive, _Insertion(send))


def _wants_page(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


class _Insertion:
    """Holds an HTML answer back until it is whole, and passes it on with the tag in its head."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.start: Message | None = None
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(message):
            self.start = message
            return
        if message["type"] != "http.response.body" or self.start is None:
            await self.send(message)
            return
        self.body += message.get("body", b"")
        if message.get("more_body", False):
            return
        whole = self.body.replace(b"</head>", _TAG + b"</head>", 1)
        headers = [h for h in self.start["headers"] if h[0] != b"content-length"]
        headers.append((b"content-length", str(len(whole)).encode()))
        await self.send({**self.start, "headers": headers})
        await self.send({"type": "http.response.body", "body": whole})


def _is_page(start: Message) -> bool:
    kinds = [value for name, value in start["headers"] if name == b"content-type"]
    return start["status"] == 200 and any(kind.startswith(b"text/html") for kind in kinds)

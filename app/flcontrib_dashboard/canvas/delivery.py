"""How does a chart appear early? Its scripts are named in the head of the page and fetched while Streamlit starts,
instead of one after the other when the first chart is reached.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import lru_cache
from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.canvas import SCRIPT_ROUTE
from flcontrib_dashboard.canvas.plotly_script import packed_script

_KEPT = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
_SCRIPT = f'<script id="drawing" defer src=".{SCRIPT_ROUTE}"></script>'
FIRST_PAGE = ("BidiComponent", "Selectbox", "ButtonGroup", "PageLink", "Checkbox", "Html")
"""Streamlit's parts that the first page is built from and its own page does not name."""
_IMPORT = re.compile(r'(?:from|import)\s*"\./([\w.-]+\.js)"')


@lru_cache(maxsize=1)
def head_lines() -> bytes:
    """What is put into the head of every page."""
    static = Path(streamlit.__file__).parent / "static"
    parts = _parts_of(static / "static" / "js", (static / "index.html").read_text(encoding="utf-8"))
    links = [f'<link rel="modulepreload" crossorigin href="./static/js/{name}">' for name in parts]
    # Without this, a link to a page makes Streamlit look for its server under the page's own address first, in vain.
    base = json.dumps(under_base("/"))
    home = f"<script>window.__streamlit = {{BACKEND_BASE_URL: location.origin + {base}}}</script>"
    return "".join([home, *links, _SCRIPT]).encode()


def _parts_of(folder: Path, page: str) -> list[str]:
    """Files of ``FIRST_PAGE`` and all they import, without those the page names itself."""
    waiting = [p.name for part in FIRST_PAGE for p in sorted(folder.glob(f"{part}.*.js"))]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        if name not in found and name not in page and (folder / name).exists():
            found[name] = None
            waiting += _IMPORT.findall((folder / name).read_text(encoding="utf-8"))
    return list(found)


async def send_script(request: Request) -> Response:
    packed = packed_script()
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, headers=_KEPT | {"Content-Encoding": "gzip"}, media_type="text/javascript")
    return Response(gzip.decompress(packed), headers=_KEPT, media_type="text/javascript")


def script_route() -> Route:
    return Route(under_base(SCRIPT_ROUTE), send_script, methods=["GET"])


class ScriptAhead:
    """Names the scripts in the head of every HTML page. Where there is no head, the first chart asks for them."""

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
    """Holds an HTML answer back until it is whole, and passes it on with our lines in its head."""

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
        whole = self.body.replace(b"</head>", head_lines() + b"</head>", 1)
        headers = [h for h in self.start["headers"] if h[0] != b"content-length"]
        headers.append((b"content-length", str(len(whole)).encode()))
        await self.send({**self.start, "headers": headers})
        await self.send({"type": "http.response.body", "body": whole})


def _is_page(start: Message) -> bool:
    kinds = [value for name, value in start["headers"] if name == b"content-type"]
    return start["status"] == 200 and any(kind.startswith(b"text/html") for kind in kinds)

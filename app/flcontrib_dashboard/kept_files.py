"""How do Streamlit's own scripts and fonts reach the browser? From memory, in one piece each.

A first page is about a hundred small files over six connections. Read from disk and passed through every layer of the
server, each waits for the ones before it: a third of a second until the page can start.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import streamlit
from starlette.types import ASGIApp, Receive, Scope, Send

from flcontrib_dashboard.addresses import under_base

MOST_KEPT = 400
KINDS = {".js": b"text/javascript", ".css": b"text/css", ".woff2": b"font/woff2"}
_KEPT = [(b"cache-control", b"public, immutable, max-age=31536000"), (b"x-content-type-options", b"nosniff")]


@lru_cache(maxsize=1)
def known_files() -> dict[str, Path]:
    """Path in the address → file. Their names hold a digest of their content, so a browser may keep them for good."""
    folder = Path(streamlit.__file__).parent / "static" / "static"
    return {
        under_base(f"/static/{file.relative_to(folder).as_posix()}"): file
        for file in folder.rglob("*")
        if file.is_file() and file.suffix in KINDS
    }


@lru_cache(maxsize=MOST_KEPT)
def _content(file: Path) -> bytes:
    return file.read_bytes()


@lru_cache(maxsize=MOST_KEPT)
def _headers(file: Path) -> list[tuple[bytes, bytes]]:
    length = str(len(_content(file))).encode()
    return [(b"content-type", KINDS[file.suffix]), (b"content-length", length), *_KEPT]


class KeptFiles:
    """Answers for Streamlit's files; everything else, a part of a file too, goes on to Streamlit."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = known_files().get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if file is None or any(name == b"range" for name, _ in scope["headers"]):
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _headers(file)})
        await send({"type": "http.response.body", "body": _content(file)})

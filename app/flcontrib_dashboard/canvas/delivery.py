"""Plotly's own script, as its package brings it, for the browser to keep."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

import plotly
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.canvas import SCRIPT_ROUTE

_KEPT = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept-Encoding",
}


@lru_cache(maxsize=1)
def packed_script() -> bytes:
    """The script as it is sent to who takes it packed."""
    return gzip.compress((Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes(), 6)


async def send_script(request: Request) -> Response:
    """The script, packed where the browser takes it so."""
    packed = packed_script()
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, headers=_KEPT | {"Content-Encoding": "gzip"}, media_type="text/javascript")
    return Response(gzip.decompress(packed), headers=_KEPT, media_type="text/javascript")


def script_route() -> Route:
    """Where it is found."""
    return Route(under_base(SCRIPT_ROUTE), send_script, methods=["GET"])

"""The dashboard's server: Streamlit, beside it a route that takes large logs as a stream, and one for Plotly's script.

``file_uploader`` holds a whole file in memory. ``PUT /import/NAME`` writes it to the workspace as it comes, piece by
piece, and checks it there: memory stays flat, and nothing is left of an upload that breaks off or is refused.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import psutil
import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from flcontrib_core.errors import FLContribError
from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.api import api_routes
from flcontrib_dashboard.canvas.delivery import packed_script, script_route
from flcontrib_dashboard.guard import HEADERS, RequestGuard, cross_origin, fault_answer
from flcontrib_dashboard.pacing import bound_connections, head_all_refusals
from flcontrib_dashboard.uploads import (
    LARGEST_UPLOAD,
    MOST_SESSION_SIZES,
    ROUTE,
    TOKEN_HEADER,
    BrokenOff,
    Delivery,
    Refusal,
    too_long,
    upload_route,
)

PIECE_BYTES = 1 << 20
SILENCE_SECONDS = 120.0
"""A sender that does not bring the next piece in so long has gone, or only keeps others waiting for its slot."""


async def import_run(request: Request) -> JSONResponse:
    """PUT: receives one log, checks it and keeps it; answers with its sha256 and what was found."""
    from flcontrib_dashboard import state  # its caches want a running server

    refusal = cross_origin(request.headers)
    issued = upload_route.tokens.find(request.headers.get(TOKEN_HEADER, ""))
    if refusal is None and issued is None:
        words = f"Send the token that the upload page shows in the header {TOKEN_HEADER}."
        refusal = Refusal(401, "E_UPLOAD_TOKEN", words)
    refusal = refusal or too_long(request.headers, upload_route.largest)
    if refusal is None and issued is not None and issued.received > MOST_SESSION_SIZES * upload_route.largest:
        refusal = Refusal(429, "E_UPLOAD_SESSION", "This token has sent as much as one may; open the page again.")
    if refusal is None and not upload_route.claim_slot():
        refusal = Refusal(503, "E_UPLOAD_BUSY", "Other uploads are under way; try again when one has ended.")
    if refusal is not None or issued is None:
        assert refusal is not None
        return _answer({"code": refusal.code, "error": refusal.words}, refusal.status)
    nonfinite = "absent" if request.query_params.get("nonfinite") == "absent" else "refuse"
    delivery = issued.delivery = Delivery(request.path_params["name"], nonfinite)
    arriving = _pulled(_pieces(request.stream()))
    try:
        await anyio.to_thread.run_sync(
            partial(delivery.import_run, state.shared_workspace(), arriving, largest=upload_route.largest)
        )
    finally:
        issued.received += delivery.received
        upload_route.free_slot()
    return _answer(_record(delivery), delivery.status or 500)


def _pulled(pieces: AsyncIterator[bytes]) -> Iterator[bytes]:
    """The stream as a thread reads it: a piece is asked for when the one before is on disk."""

    async def following() -> bytes:
        try:
            with anyio.fail_after(SILENCE_SECONDS):
                return await anext(pieces, b"")
        except (ClientDisconnect, TimeoutError) as gone:
            raise BrokenOff from gone

    while piece := anyio.from_thread.run(following):
        yield piece


async def _pieces(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The request's small chunks, gathered."""
    gathered = bytearray()
    async for chunk in stream:
        gathered += chunk
        if len(gathered) >= PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


def _record(delivery: Delivery) -> dict[str, Any]:
    return {
        "filename": delivery.filename,
        "bytes": delivery.received,
        "sha256": delivery.sha256,
        "run": delivery.run,
        "error": delivery.failure or (f"refused: {len(delivery.problems)} problems" if delivery.problems else ""),
        "problems": [asdict(p) for p in delivery.problems],
        "remarks": [asdict(p) for p in delivery.remarks],
    }


def _answer(content: dict[str, Any], status: int) -> JSONResponse:
    return JSONResponse(content, status, {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})


@asynccontextmanager
async def startup(server: st.App) -> AsyncIterator[None]:
    """Before the port answers: what the first page needs is imported, opened and read."""
    await anyio.to_thread.run_sync(_warm_up)
    _send_at_once()
    yield


def _send_at_once() -> None:
    """Lets small messages leave without waiting for the receipt of the one before: forty milliseconds each time.

    Works around a defect upstream: the socket Streamlit listens on leaves Nagle's algorithm on. Python turns it off by
    itself where a socket says that it speaks TCP; that one does not say so. Connections take the option over from the
    socket that accepts them.
    """
    for opened in psutil.Process().net_connections("tcp"):
        if opened.status == psutil.CONN_LISTEN:
            with socket.socket(fileno=os.dup(opened.fd)) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _warm_up() -> None:
    import pandas

    import flcontrib_core.charts
    from flcontrib_dashboard import state

    assert pandas  # every table of a page needs it
    packed_script()
    for module in pkgutil.iter_modules(flcontrib_core.charts.__path__):
        importlib.import_module(f"flcontrib_core.charts.{module.name}")
    with suppress(FLContribError):  # the page itself says what is wrong with a workspace
        workspace = state.shared_workspace()
        for entry in workspace.runs()[:1]:
            result = workspace.default_result(entry.digest)
            if result is not None:
                state.load_report(result.digest, result)
    # Streamlit collects garbage after every run of a page and, without this, looks through each library's objects
    # again: a tenth of a second in which nobody is answered. What is loaded by now stays.
    gc.collect()
    gc.freeze()


bound_connections()
head_all_refusals(HEADERS)
upload_route.open = True
upload_route.largest = int(os.environ.get("FLCONTRIB_LARGEST_UPLOAD", LARGEST_UPLOAD))
dashboard = st.App(
    Path(__file__).with_name("streamlit_app.py"),
    routes=[Route(under_base(f"{ROUTE}/{{name:path}}"), import_run, methods=["PUT"]), script_route(), *api_routes()],
    middleware=[Middleware(RequestGuard)],
    exception_handlers={Exception: fault_answer},
    lifespan=startup,
)

"""How long does the server take to answer many readers? Sessions that speak Streamlit's own protocol and draw nothing.

Twenty real browsers on the server's own two cores measure mostly themselves; a reader's browser runs on the reader's
machine. Here the clicks are the same, and the clock stops when the last part of the page has arrived.
"""

from __future__ import annotations

import asyncio
import time

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

PATIENCE = 120.0


async def answers_to_clicks(
    address: str, pages: tuple[str, ...], query: str, *, readers: int, clicks: int, pause: float
) -> list[float]:
    """Seconds to the end of each answer; readers click each ``pause`` seconds, one after the other."""
    started = time.monotonic()
    several = [_reader(address, pages, query, clicks, pause, started, n * pause / readers) for n in range(readers)]
    return [second for answer in await asyncio.gather(*several) for second in answer]


async def _reader(
    address: str, pages: tuple[str, ...], query: str, clicks: int, pause: float, started: float, begin: float
) -> list[float]:
    socket_address = address.replace("http", "ws", 1) + "/_stcore/stream"
    spoken = [Subprotocol("streamlit")]
    async with connect(socket_address, subprotocols=spoken, origin=address, max_size=None) as socket:  # type: ignore[arg-type]
        await _answer(socket, "", query)
        seconds = []
        for click in range(clicks):
            await asyncio.sleep(max(0.0, started + begin + (click + 1) * pause - time.monotonic()))
            seconds.append(await _answer(socket, pages[click % len(pages)], query))
    return seconds


async def _answer(socket: ClientConnection, page: str, query: str) -> float:
    """From the click to the message that the page is complete."""
    click = BackMsg()
    click.rerun_script.query_string = query
    click.rerun_script.page_name = page
    began = time.monotonic()
    await socket.send(click.SerializeToString())
    parts = 0
    async with asyncio.timeout(PATIENCE):
        while True:
            told = ForwardMsg()
            told.ParseFromString(bytes(await socket.recv(decode=False)))
            parts += told.WhichOneof("type") == "delta"
            if told.WhichOneof("type") == "script_finished":
                break
    if parts == 0:
        raise RuntimeError(f"the page {page or 'overview'!r} came empty")
    return time.monotonic() - began

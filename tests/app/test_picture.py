"""What is sent to the browser, and how Plotly's script gets there."""

from __future__ import annotations

import gzip
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import numpy as np
import plotly
import plotly.graph_objects as go
import pytest
import streamlit
from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.canvas import SCRIPT_ROUTE, Drawn
from flcontrib_dashboard.canvas.delivery import script_route
from starlette.applications import Starlette
from starlette.types import Message

from flcontrib_core.charts.picture import Picture
from tests.app.drawn import checked, every_figure, every_picture, grouped_report


def test_axes_keep_what_is_not_named_anew() -> None:
    picture = Picture({"height": 100, "xaxis": {"ticks": "outside", "title": {"text": "Epoch"}}})
    picture.update_layout(xaxis={"title": {"font": {"size": 9}}, "range": [0, 1]}, height=50)
    whole = go.Figure(layout={"height": 100, "xaxis": {"ticks": "outside", "title": {"text": "Epoch"}}})
    whole.update_layout(xaxis={"title": {"font": {"size": 9}}, "range": [0, 1]}, height=50)
    assert picture.layout == {k: v for k, v in whole.layout.to_plotly_json().items() if k != "template"}


def test_numbers_arrive_as_they_are_and_gaps_as_gaps() -> None:
    picture = Picture({"height": 100})
    cells = np.array([[0.1, np.nan, -3.0], [np.inf, 2.5, 1e-300]])
    picture.add_heatmap(z=cells, x=np.arange(3), y=("a", np.str_("b")), zmin=np.float64(-1.5))
    picture.add_scatter(x=[1.0, float("nan")], y=np.array([1.0, np.nan]), customdata=np.array([["a"], ["b"]]))
    sent = json.loads(picture.to_json())
    packed = go.Figure(sent["data"][0]).to_dict()["data"][0]["z"]
    assert packed == {"dtype": "f8", "bdata": packed["bdata"], "shape": "2, 3"}
    same = go.Figure(go.Heatmap(z=cells)).to_plotly_json()["data"][0]["z"]
    assert packed == same, "packed as Plotly's own package does"
    assert sent["data"][0]["x"] == [0, 1, 2]
    assert sent["data"][0]["y"] == ["a", "b"]
    assert sent["data"][0]["zmin"] == -1.5
    assert sent["data"][1]["x"] == [1.0, None]
    assert sent["data"][1]["customdata"] == [["a"], ["b"]]


def test_what_plotly_does_not_know_is_found() -> None:
    unknown, abbreviated = Picture({"height": 100}), Picture({"height": 100})
    unknown.add_bar(x=[1], y=[1], colour="red")
    with pytest.raises(ValueError, match="colour"):
        checked(unknown)
    abbreviated.add_bar(x=[1], y=[1], marker_color="red")  # read by Plotly's package, not by its script
    with pytest.raises(AssertionError):
        checked(abbreviated)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_chart_is_what_plotly_reads(mode: str) -> None:
    assert len(every_figure(grouped_report(), mode)) >= 14


SITE = Starlette(routes=[script_route()])


def ask(path: str, **headers: str) -> tuple[dict[str, str], bytes]:
    """(headers, body) of the site's answer to a GET."""
    asked = [(k.lower().replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": asked}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    with ThreadPoolExecutor(1) as aside:  # a browser test before this one leaves a loop running in its thread
        aside.submit(anyio.run, SITE, scope, receive, send).result()
    told = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    return told, b"".join(m.get("body", b"") for m in sent[1:])


def test_routes_follow_the_base_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamlit, "get_option", {"server.baseUrlPath": "audits/"}.get)
    assert under_base("/import") == "/audits/import"
    assert script_route().path == f"/audits{SCRIPT_ROUTE}"


def test_plotlys_own_script_is_sent_whole_and_may_be_kept() -> None:
    whole = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    headers, packed = ask(SCRIPT_ROUTE, accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == whole
    assert "immutable" in headers["cache-control"]
    assert plotly.__version__ in SCRIPT_ROUTE, "another version has another address"
    headers, plain = ask(SCRIPT_ROUTE)
    assert "content-encoding" not in headers
    assert plain == whole


def test_a_picture_is_drawn_once_and_says_whether_it_zooms() -> None:
    pictures = every_picture(grouped_report(), "light")
    zooming = {name for name, picture in pictures.items() if Drawn(picture).zooms}
    assert zooming == {
        *("cumulative", "heat map", "group_means", "evidence", "change points", "schedule", "aligned", "clusters"),
        "model",
    }, "charts with an axis of epochs"
    drawn = Drawn(pictures["cumulative"])
    assert drawn.still is drawn.still
    assert "<title>" not in drawn.still, "the chart's own label is read, once"
    assert json.loads(drawn.figure)["layout"]["height"] == pictures["cumulative"].layout["height"]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_who_zooms_stays_inside_the_run(mode: str) -> None:
    for name, picture in every_picture(grouped_report(), mode).items():
        for axis in picture.axes("x"):
            if axis.get("fixedrange") is False:
                assert axis["range"] == [axis["minallowed"], axis["maxallowed"]], name
        assert all(axis.get("fixedrange", True) for axis in picture.axes("y")), f"{name}: heights keep their meaning"


def test_small_messages_do_not_wait_for_a_receipt() -> None:
    from flcontrib_dashboard.server import _send_at_once

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        _send_at_once()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

"""What is sent to the browser, and how Plotly's script gets there."""

from __future__ import annotations

import gzip
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import numpy as np
import plotly.graph_objects as go
import pytest
import streamlit
from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.canvas import SCRIPT_ROUTE
from flcontrib_dashboard.canvas.delivery import ScriptAhead, head_lines, script_route
from flcontrib_dashboard.canvas.plotly_script import COMPARED, compiled_ahead, used_part, whole_script
from flcontrib_dashboard.kept_files import KINDS as KINDS_OF_FILES
from flcontrib_dashboard.kept_files import KeptFiles, known_files
from plotly.offline import get_plotlyjs_version
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from flcontrib_core.charts.picture import Picture
from tests.app.drawn import checked, every_figure, grouped_report


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


async def _page(request: Request) -> Response:
    return HTMLResponse("<html><head><title>t</title></head><body>" + "x" * 2000 + "</body></html>")


async def _missing(request: Request) -> Response:
    return HTMLResponse("<html><head></head></html>", status_code=404)


async def _text(request: Request) -> Response:
    return PlainTextResponse("</head>" * 500)


SITE = Starlette(
    routes=[Route("/", _page), Route("/missing", _missing), Route("/text", _text), script_route()],
    middleware=[Middleware(KeptFiles), Middleware(ScriptAhead), Middleware(GZipMiddleware)],
)


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


def test_page_names_the_script_in_its_head() -> None:
    headers, body = ask("/", accept="text/html,*/*", accept_encoding="gzip")
    assert body.count(f'<script id="drawing" defer src=".{SCRIPT_ROUTE}"></script></head>'.encode()) == 1
    assert int(headers["content-length"]) == len(body)
    assert body.endswith(b"</body></html>")


def test_parts_of_the_first_page_are_named_once_and_exist() -> None:
    static = Path(streamlit.__file__).parent / "static"
    own = (static / "index.html").read_text()
    named = re.findall(r'modulepreload" crossorigin href="\./(static/js/[^"]+)"', head_lines().decode())
    assert len(named) == len(set(named))
    assert all((static / name).is_file() and name not in own for name in named)
    assert {Path(name).name.split(".")[0] for name in named} >= {"BidiComponent", "Selectbox", "ButtonGroup"}


def test_everything_else_is_passed_on_as_it_is() -> None:
    assert b"drawing" not in ask("/missing", accept="text/html")[1]
    assert b"drawing" not in ask("/text", accept="text/html")[1]
    headers, body = ask("/", accept="application/json", accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert b"drawing" not in gzip.decompress(body)


def test_routes_follow_the_base_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamlit, "get_option", {"server.baseUrlPath": "audits/"}.get)
    assert under_base("/intake") == "/audits/intake"
    assert script_route().path == f"/audits{SCRIPT_ROUTE}"


def test_script_is_cut_from_the_installed_one_and_may_be_kept() -> None:
    headers, packed = ask(SCRIPT_ROUTE, accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    part = gzip.decompress(packed).decode()
    assert 3 * len(part) < len(whole_script())
    assert f"plotly.js v{get_plotlyjs_version()}" in part
    assert get_plotlyjs_version() in COMPARED, "compare every chart (tests/browser/test_drawing.py) and add it"
    assert "immutable" in headers["cache-control"]
    headers, plain = ask(SCRIPT_ROUTE)
    assert "content-encoding" not in headers
    assert plain.decode() == part


def bundle(*modules: str) -> str:
    """A script built like Plotly's, in small."""
    head = """/** plotly.js v0.0.0 */
( function(root, factory) { factory() } (this, () => {
"use strict";var Plotly=(()=>{var E=(e,t,r)=>()=>{if(r)throw r[0];return e&&(t=e(e=0)),t};"""
    helper = "var W=(e,t)=>()=>(t||e((t={exports:{}}).exports,t),t.exports);"
    return head + helper + "".join(modules) + "return last();})();\nwindow.Plotly = Plotly;\nreturn Plotly;\n}));\n"


def kind(name: str, needs: str) -> str:
    return (
        f'var {name}_=W((e,m)=>{{m.exports={{moduleType:"trace",name:"{name}",plot:{needs}()}}}});'
        f"var {name}=W((e,m)=>{{m.exports={name}_()}});"
    )


def test_modules_that_no_kind_of_ours_reaches_are_left_out() -> None:
    shared, own, maps = (f"var {n}=W((e,m)=>{{m.exports='{n}'}});" for n in ("shared", "own", "maps"))
    open_one = "var open1=W((e,m)=>{});function area(){return 1}var steps=E(()=>{area()});"
    kinds = kind("bar", "shared") + kind("heatmap", "own") + kind("map", "maps")
    core = "var core=W((e,m)=>{steps();m.exports={register(){}}});"
    last = "var last=W((e,m)=>{var c=core();c.register([bar(),heatmap(),map()]);m.exports=c});"
    part = used_part(bundle(shared, own, maps, open_one, kinds, core, last))
    assert part == bundle(
        shared, own, open_one, kind("bar", "shared"), kind("heatmap", "own"), core, last.replace(",map()", "")
    )


def test_script_built_in_another_way_is_refused_by_the_cutter_and_left_alone_by_the_brackets() -> None:
    with pytest.raises(ValueError, match="send it whole"):
        used_part("var Plotly={};")
    assert compiled_ahead("var Plotly={};") == "var Plotly={};"
    assert compiled_ahead(bundle("")).endswith("return Plotly;\n})));\n")


def test_streamlits_files_come_from_memory_as_they_are_on_disk() -> None:
    folder = Path(streamlit.__file__).parent / "static"
    names = re.findall(r'"\./(static/[^"]+\.(?:js|css|woff2))"', (folder / "index.html").read_text())
    assert len(names) > 20
    for name in names:
        headers, body = ask(f"/{name}", accept_encoding="gzip")
        assert body == (folder / name).read_bytes()
        assert int(headers["content-length"]) == len(body)
        assert "immutable" in headers["cache-control"]
        assert headers["content-type"].encode() == KINDS_OF_FILES[Path(name).suffix]


def test_only_whole_files_that_exist_come_from_memory() -> None:
    name = next(n for n in known_files() if n.endswith(".css"))
    assert ask(name)[0]["content-type"] == "text/css"
    for path, asked in ((name, {"range": "bytes=0-9"}), ("/static/js/../../index.html", {}), ("/static/js/no.js", {})):
        assert ask(path, **asked)[1] == b"Not Found"


def test_small_messages_do_not_wait_for_a_receipt() -> None:
    from flcontrib_dashboard.server import _send_at_once

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        _send_at_once()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

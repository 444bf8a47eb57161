"""A picture's place on a page: its drawing at once, and Plotly in the same place when its script is there.

``st.plotly_chart`` makes a chart anew at every change and draws it twice; with three charts on a page a knob's answer
takes most of a second. This one redraws in place, once, and only where the picture changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import plotly
import streamlit as st

from flcontrib_core.charts import BESIDE, CHART_RULES, NARROW, NARROW_MARGIN, Picture, inline_svg
from flcontrib_dashboard.addresses import under_base

SCRIPT_ROUTE = f"/drawing/plotly-{plotly.__version__}.js"
"""Named by Plotly's version: a browser may keep it for good."""
FIRST_SECONDS = 20.0
"""While a session is so young its browser may still be waiting for Plotly."""
EPOCH_TOOLS = ["zoom2d", "pan2d", "resetScale2d"]


class Drawn:
    """A picture as it is sent, made once."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.figure = picture.to_json()
        self.zooms = any(axis.get("fixedrange") is False for axis in picture.axes("x"))

    @cached_property
    def still(self) -> str:
        """The first paint."""
        return inline_svg(self._picture)


@st.cache_resource(max_entries=1, show_spinner=False)
def _component() -> Callable[..., Any]:
    """Registered once per server, when its runtime stands."""
    here = Path(__file__).parent
    html, css, js = ((here / f"canvas.{part}").read_text(encoding="utf-8") for part in ("html", "css", "js"))
    # Plotly's style sheet is the document's: it would not reach into a shadow tree
    return st.components.v2.component("canvas", html=html, css=css + CHART_RULES, js=js, isolate_styles=False)


def show_picture(
    drawn: Drawn,
    key: str,
    *,
    alt: str,
    config: Mapping[str, Any],
    on_pick: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Shows a picture; ``on_pick`` hears of a clicked mark or a drawn box before the page runs again."""

    def picked() -> None:
        what = getattr(st.session_state.get(key), "picked", None)
        if on_pick is not None and what:
            on_pick(what)

    _component()(
        key=key,
        data={
            "figure": drawn.figure,
            "still": drawn.still if _plotly_on_its_way() else "",
            "narrow": {"width": NARROW, "margin": NARROW_MARGIN, "name": BESIDE},
            "alt": alt,
            "config": {"displaylogo": False, **config},
            "picks": on_pick is not None,
            "script": under_base(SCRIPT_ROUTE),
        },
        on_picked_change=picked,
    )


def _plotly_on_its_way() -> bool:
    """Does the browser have nothing else to show? Once Plotly is there, a drawing would be sent for nothing."""
    began = st.session_state.setdefault("drawing-began", time.monotonic())
    return bool(time.monotonic() - began < FIRST_SECONDS)

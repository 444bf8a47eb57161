"""Where is a picture drawn? A small component of our own around Plotly.

``st.plotly_chart`` makes a chart anew at every change and draws it twice; with three charts on a page a knob's answer
takes most of a second. This one redraws in place, once, and only where the picture changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import plotly
import streamlit as st

from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.canvas import plotly_script

_CUT = hashlib.sha256(Path(plotly_script.__file__).read_bytes()).hexdigest()[:12]
SCRIPT_ROUTE = f"/drawing/plotly-{plotly.__version__}-{_CUT}.js"
"""Named by all that it depends on, Plotly's version and how its script is cut: a browser may keep it for good."""


@st.cache_resource(max_entries=1, show_spinner=False)
def _component() -> Callable[..., Any]:
    """Registered once per server, when its runtime stands."""
    here = Path(__file__).parent
    html, css, js = ((here / f"canvas.{part}").read_text(encoding="utf-8") for part in ("html", "css", "js"))
    # Plotly's style sheet is the document's: it would not reach into a shadow tree
    return st.components.v2.component("canvas", html=html, css=css, js=js, isolate_styles=False)


def show_picture(
    figure: str,
    key: str,
    *,
    alt: str,
    config: Mapping[str, Any],
    on_pick: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Draws a picture's JSON; ``on_pick`` hears of a clicked mark or a drawn box before the page runs again."""

    def picked() -> None:
        what = getattr(st.session_state.get(key), "picked", None)
        if on_pick is not None and what:
            on_pick(what)

    _component()(
        key=key,
        data={
            "figure": figure,
            "alt": alt,
            "config": {"displaylogo": False, **config},
            "picks": on_pick is not None,
            "script": under_base(SCRIPT_ROUTE),
        },
        on_picked_change=picked,
    )

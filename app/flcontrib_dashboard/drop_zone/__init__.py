"""The place where a large log is dropped: a component of our own, without outside requests, with progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from flcontrib_dashboard.addresses import under_base
from flcontrib_dashboard.uploads import ROUTE, TOKEN_HEADER, upload_route


@st.cache_resource(max_entries=1, show_spinner=False)
def _component() -> Callable[..., Any]:
    """Registered once per server, when its runtime stands."""
    here = Path(__file__).parent
    html, css, js = ((here / f"drop_zone.{part}").read_text(encoding="utf-8") for part in ("html", "css", "js"))
    return st.components.v2.component("large_log", html=html, css=css, js=js)


def drop_zone(token: str, query: str) -> bool:
    """Draws it; True in the run of the page that follows the end of an upload."""
    told = _component()(
        data={
            "token": token,
            "header": TOKEN_HEADER,
            "route": under_base(ROUTE),
            "query": query,
            "largest": upload_route.largest,
        },
        key="large-log",
        on_ended_change=lambda: None,
    )
    return bool(told.ended)

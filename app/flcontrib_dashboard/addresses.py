"""Where are our pages, and under which address does a route of ours answer?"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

VIEWS = Path(__file__).parent / "views"


def page_file(name: str) -> str:
    """The script of a page, for links: by its whole path, whichever script Streamlit was started with."""
    return str(VIEWS / f"{name}.py")


def under_base(route: str) -> str:
    """Like Streamlit's own routes, under ``server.baseUrlPath`` where one is set."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}{route}" if base else route

"""The addresses of our pages, and of the routes of ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

VIEWS = Path(__file__).parent / "views"


def page_file(name: str) -> str:
    """The script of a page, for links: by its whole path, whichever script Streamlit was started with."""
    return str(VIEWS / f"{name}.py")


def go_to(view: str, query: dict[str, str] | None = None) -> NoReturn:
    """Opens another page from a script, and takes the parts that this page runs again by themselves out of service.

    Their timers tick in the browser until it hears of the new page. A tick in between would be answered after the new
    page, under the old one's address: the browser then empties the new page, and finds no place for what comes next.
    """
    context = get_script_run_ctx()
    if context is not None:
        context.fragment_storage.clear()
    st.session_state["left-by-script"] = True
    st.switch_page(page_file(view), query_params=query)


def write_url_again() -> None:
    """Once after ``go_to``: a browser that reads the new page and its URL in one go writes the old page's query."""
    if st.session_state.pop("left-by-script", False):
        st.query_params.from_dict(st.query_params.to_dict())


def under_base(route: str) -> str:
    """Like Streamlit's own routes, under ``server.baseUrlPath`` where one is set."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}{route}" if base else route

"""One entry of the browser's history per page: Back leads to the page before, not to the knob before.

Streamlit adds an entry whenever a script writes into the URL. Here a write that stays on its page replaces the entry it
stands on; only another page adds one. The URL itself always says what is on screen. On a phone the drawer of pages
closes when another page is opened: Streamlit leaves it lying over the page. And the navigation is made a list to those
who hear it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st


@st.cache_resource(max_entries=1, show_spinner=False)
def _component() -> Callable[..., Any]:
    """Registered once per server, when its runtime stands."""
    script = (Path(__file__).parent / "browser_history.js").read_text(encoding="utf-8")
    return st.components.v2.component("browser_history", html="<span hidden></span>", js=script)


def one_entry_per_page() -> None:
    """Holds from now on in this browser window."""
    _component()(key="browser-history")

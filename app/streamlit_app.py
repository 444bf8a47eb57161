"""The dashboard's entry: navigation and the choice of the run; every page is a short script in ``app/views``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import state

st.set_page_config(page_title="FLContrib", page_icon=str(Path(__file__).parent / "icon.svg"), layout="wide")

views = Path(__file__).parent / "views"
pages = {
    "Read": [st.Page(views / "overview.py", title="Overview", default=True)],
}
page = st.navigation(pages)
with st.sidebar:
    runs = state.workspace().runs()
    current = state.current_run()
    if current is not None:
        digests = [r.digest for r in runs]
        names = {r.digest: r.name for r in runs}
        chosen = st.selectbox(
            "Run", digests, index=digests.index(current.digest), format_func=lambda d: names[d], key="run_choice"
        )
        state.remember(run=chosen[:16])
page.run()

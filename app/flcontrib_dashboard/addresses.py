"""Under which address does a route of ours answer?"""

from __future__ import annotations

import streamlit as st


def under_base(route: str) -> str:
    """Like Streamlit's own routes, under ``server.baseUrlPath`` where one is set."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}{route}" if base else route

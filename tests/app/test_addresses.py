"""A page that runs parts of itself by a timer takes them out of service before a script opens another page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from flcontrib_dashboard import addresses


def test_timers_of_a_page_are_out_of_service_before_another_one_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"watch": "a part with a timer"}
    opened: list[tuple[str, dict[str, str] | None, dict[str, str]]] = []

    def switch(page: str, *, query_params: dict[str, str] | None) -> None:
        opened.append((page, query_params, dict(parts)))

    context: Any = SimpleNamespace(fragment_storage=parts)
    monkeypatch.setattr(addresses, "get_script_run_ctx", lambda: context)
    monkeypatch.setattr(st, "switch_page", switch)
    monkeypatch.setattr(st, "session_state", {})
    addresses.go_to("jobs", {"run": "abc"})
    assert opened == [(addresses.page_file("jobs"), {"run": "abc"}, {})]
    assert st.session_state["left-by-script"]

"""A dashboard in this process that nobody used before: no cache of another test's answers, no setting left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

SETTINGS = ("FLCONTRIB_WORKSPACE", "FLCONTRIB_SAMPLES")


@contextmanager
def own_caches() -> Iterator[None]:
    """What another test cached must not answer; the environment is as before afterwards."""
    before = {name: os.environ.get(name) for name in SETTINGS}
    _forget()
    try:
        yield
    finally:
        _forget()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _forget() -> None:
    st.cache_resource.clear()
    st.cache_data.clear()

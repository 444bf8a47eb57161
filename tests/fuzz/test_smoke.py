"""The fuzz target stays runnable: a short random search in every run, a longer one among the slow tests."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.fuzz.target import one_input, random_search, seeds

LONG_SEARCH_SECONDS = 90.0


def test_seeds_pass_every_door() -> None:
    for seed in seeds():
        one_input(seed)


def test_short_search() -> None:
    random_search(runs=150, seed=0)


@pytest.mark.slow
def test_search_of_ninety_seconds() -> None:
    """As many inputs as fit: the promise is a time, the seeds are fixed."""
    end = time.monotonic() + LONG_SEARCH_SECONDS
    for seed in itertools.count(1):
        random_search(runs=500, seed=seed)
        if time.monotonic() > end:
            break

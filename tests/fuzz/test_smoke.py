"""The fuzz target stays runnable: a short random search in every run, a longer one among the slow tests."""

from __future__ import annotations

import pytest

from tests.fuzz.target import one_input, random_search, seeds


def test_seeds_pass_every_door() -> None:
    for seed in seeds():
        one_input(seed)


def test_short_search() -> None:
    random_search(runs=150, seed=0)


@pytest.mark.slow
def test_long_search() -> None:
    random_search(runs=8_000, seed=1)

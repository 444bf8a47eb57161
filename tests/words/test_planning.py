"""A schedule in words: the same sentences in the terminal, on the page and in the report, and none says too much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flcontrib_core.scheduling import BudgetSettings, choose_epochs
from flcontrib_core.scheduling.schedule import BlindSpot, Schedule
from flcontrib_core.words.planning import blind_spot_lines, enough_lines, plan_criterion, proof_words, unseen_words
from tests.scheduling.instances import random_problem

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plan() -> Schedule:
    found = choose_epochs(random_problem(12, 4, 0.8, 0), BudgetSettings(6))
    seen = replace(found, blind_spots=(), unseen_clients=(), smallest_k_without_blind_clients=None)
    return replace(seen, proved_optimal=True, gap=0.0, smallest_k_without_blind_spots=None)


def test_a_small_gap_is_not_called_none(plan: Schedule) -> None:
    assert proof_words(plan) == "proved optimal"
    near = replace(plan, proved_optimal=False, gap=0.00004)
    assert proof_words(near) == "at most 0.000040 below the best"
    assert proof_words(near) in plan_criterion(near)


def test_a_budget_found_by_search_is_not_called_the_smallest(plan: Schedule) -> None:
    both = replace(plan, smallest_k_without_blind_clients=7, smallest_k_without_blind_spots=9)
    assert enough_lines(both) == [
        "k = 7 is the smallest budget to see every client.",
        "k = 9 is the smallest budget to leave no blind spot.",
    ]
    (searched,) = enough_lines(replace(both, smallest_k_without_blind_clients=9, smallest_k_by_search=True))
    assert searched == (
        "k = 9 is enough to see every client and leave no blind spot; found by search, so a smaller one may do."
    )
    assert enough_lines(plan) == []


def test_blind_clients_and_stretches_are_named(plan: Schedule) -> None:
    assert unseen_words(plan) == "No client is left without a computed epoch."
    assert unseen_words(replace(plan, unseen_clients=("3", "b-1"))) == "Never seen: client 3, b-1."
    spots = (BlindSpot("3", 2, 8, 1), BlindSpot("b-1", 4, 4, 2))
    assert blind_spot_lines(replace(plan, blind_spots=spots), 2) == [
        "client 3, epochs 2–8: 1 participation without a value",
        "b-1, epoch 4: 2 participations without a value",
    ]


def test_no_skin_makes_these_sentences_itself() -> None:
    skins = (*(ROOT / "app").rglob("*.py"), *(ROOT / "flcontrib_core" / "commands").glob("*.py"))
    reports = (ROOT / "flcontrib_core" / "reports").glob("*.py")
    own = ("plan.gap", ".smallest_k_", ".missed", "proved optimal")
    assert [p.name for p in (*skins, *reports) if any(part in p.read_text() for part in own)] == []

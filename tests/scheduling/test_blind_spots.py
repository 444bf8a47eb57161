"""Are unseen clients and unseen runs of epochs found, and is the named budget really the smallest?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.scheduling.blind_spots import blind_run_limit, find_blind_spots, smallest_budgets, unseen_clients
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.explorer import ScheduleExplorer
from flcontrib_core.scheduling.schedule import BlindSpot, BudgetSettings, FairnessMode, SchedulingProblem
from tests.scheduling.instances import random_problem


def longest_run_by_hand(problem: SchedulingProblem, mask: np.ndarray, client: int) -> int:
    """Walk through the epochs one by one, as a person would."""
    longest, first = 0, None
    for t in range(problem.epoch_count):
        if not problem.participated[t, client]:
            continue
        if mask[t]:
            first = None
            continue
        first = t if first is None else first
        longest = max(longest, t - first + 1)
    return longest


def test_runs_go_from_the_first_to_the_last_missed_participation() -> None:
    #                epoch  1  2  3  4  5  6  7  8  9 10 11 12
    took_part = np.array([[1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]], dtype=bool)
    problem = SchedulingProblem(np.ones(12), took_part.T, ("often", "rare"))
    mask = np.isin(np.arange(1, 13), [1, 10])
    assert blind_run_limit(12) == 3
    assert find_blind_spots(problem, mask) == (BlindSpot("often", 2, 8, 5), BlindSpot("rare", 3, 6, 2))
    assert unseen_clients(problem, mask) == ("rare",)
    assert find_blind_spots(problem, np.isin(np.arange(1, 13), [1, 5, 6, 10])) == ()


def test_a_client_that_never_took_part_is_no_blind_spot() -> None:
    problem = SchedulingProblem(np.ones(4), np.array([[1, 0]] * 4, dtype=bool), ("a", "never"))
    mask = np.array([True, False, False, False])
    assert unseen_clients(problem, mask) == ()
    assert all(spot.client == "a" for spot in find_blind_spots(problem, mask))


@pytest.mark.parametrize("seed", range(8))
def test_reported_runs_equal_a_walk_by_hand(seed: int) -> None:
    problem = random_problem(30, 8, 0.25, seed)
    mask = np.random.default_rng(seed).random(30) < 0.4
    spots = find_blind_spots(problem, mask)
    lengths = [s.last - s.first + 1 for s in spots]
    assert lengths == sorted(lengths, reverse=True)
    unseen = unseen_clients(problem, mask)
    for i, client in enumerate(problem.client_ids):
        longest = longest_run_by_hand(problem, mask, i)
        reported = [s.last - s.first + 1 for s in spots if s.client == client]
        if longest > blind_run_limit(30) or client in unseen:
            assert max(reported) == longest
        else:
            assert reported == []


@pytest.mark.parametrize("fairness", [FairnessMode.ONE_SIDED, FairnessMode.TOP_UTILITY, FairnessMode.STRIDE])
@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_budget_is_the_first_that_removes_them(fairness: FairnessMode, seed: int) -> None:
    problem = random_problem(24, 10, 0.12, seed)
    schedule = choose_epochs(problem, BudgetSettings(3, fairness))
    assert schedule.unseen_clients
    assert not schedule.smallest_k_by_search or fairness is FairnessMode.STRIDE
    seen_from = blind_free_from = None
    for k in range(4, 25):
        other = choose_epochs(problem, BudgetSettings(k, fairness))
        seen_from = k if seen_from is None and not other.unseen_clients else seen_from
        blind_free_from = k if blind_free_from is None and not other.blind_spots else blind_free_from
    assert schedule.smallest_k_without_blind_clients == seen_from
    assert schedule.smallest_k_without_blind_spots == blind_free_from


def test_two_sided_budgets_by_search_say_so_and_hold() -> None:
    problem = random_problem(26, 12, 0.1, 1)
    explorer = ScheduleExplorer(problem)
    shown = explorer.answer(BudgetSettings(4))
    assert shown.unseen_clients
    assert shown.smallest_k_by_search
    k = shown.smallest_k_without_blind_clients
    assert k is not None
    frontier = explorer.frontier(FairnessMode.TWO_SIDED, 0.3)
    assert not unseen_clients(problem, frontier.schedules[k - 1])
    assert all(unseen_clients(problem, frontier.schedules[j - 1]) for j in range(5, k))


def test_no_search_where_nothing_is_blind() -> None:
    schedule = choose_epochs(random_problem(20, 5, 0.8, 0), BudgetSettings(0.9))
    assert schedule.blind_spots == schedule.unseen_clients == ()
    assert schedule.smallest_k_without_blind_clients is None
    assert schedule.smallest_k_without_blind_spots is None


def test_at_most_k_may_never_remove_a_blind_spot() -> None:
    problem = SchedulingProblem(np.ones(18), np.eye(18, dtype=bool), tuple(map(str, range(18))))
    schedule = choose_epochs(problem, BudgetSettings(9, gamma=50.0, at_most=True))
    assert len(schedule.unseen_clients) == 18
    # at k = 18 every epoch together is as fair as none, and covers everything
    assert schedule.smallest_k_without_blind_clients == 18
    never = smallest_budgets(problem, np.zeros((18, 18), dtype=bool), above=9)
    assert never == (None, None)


def test_a_larger_share_of_audit_leaves_shorter_runs() -> None:
    problem = random_problem(60, 6, 0.9, 2)
    base = BudgetSettings(15, FairnessMode.AUDIT, gamma=0.03)
    longest = []
    for share in (0.0, 0.5, 1.0):
        spots = choose_epochs(problem, replace(base, audit_share=share)).blind_spots
        longest.append(max((s.last - s.first + 1 for s in spots), default=0))
    assert longest[0] > longest[1] >= longest[2]

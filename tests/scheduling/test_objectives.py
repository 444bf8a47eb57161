"""Are coverage, exposure and fairness what the definitions say?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.errors import ScheduleError
from flcontrib_core.scheduling.objectives import in_order_of, program_terms
from flcontrib_core.scheduling.schedule import FairnessMode, SchedulingProblem
from tests.scheduling.instances import objectives_by_definition, random_problem


@pytest.mark.parametrize("paper_denominator", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_objectives_equal_their_definitions(seed: int, paper_denominator: bool) -> None:
    problem = random_problem(12, 3 + 2 * seed, 0.3, seed)
    terms = program_terms(problem, paper_denominator)
    sets = np.random.default_rng(seed).random((200, 12)) < 0.5
    for gamma in (0.0, 0.3, 3.0):
        by_definition = {
            f: objectives_by_definition(problem, sets, f, gamma, paper_denominator)
            for f in (FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED, FairnessMode.TWO_SIDED_LB)
        }
        for fairness in (FairnessMode.ONE_SIDED, FairnessMode.TWO_SIDED_LB):
            separable = sets @ terms.epoch_coefficients(fairness, gamma)
            np.testing.assert_allclose(separable, by_definition[fairness], atol=1e-12)
        np.testing.assert_allclose(terms.two_sided(sets, gamma), by_definition[FairnessMode.TWO_SIDED], atol=1e-12)


def test_weights_sum_to_one_unless_the_paper_denominator_is_kept() -> None:
    problem = random_problem(10, 4, 0.5, 0)
    assert program_terms(problem).weights.sum() == pytest.approx(1.0)
    kept = program_terms(problem, paper_denominator=True).weights
    assert kept.sum() == pytest.approx(problem.movement.sum() / (problem.movement.sum() + 2.3))


@pytest.mark.parametrize("m", [2, 3, 6, 7])
def test_the_gap_reaches_one_when_half_of_the_clients_are_seen_always_and_half_never(m: int) -> None:
    participated = np.zeros((2, m), dtype=bool)
    participated[0, : m // 2] = True
    participated[1, m // 2 :] = True
    terms = program_terms(SchedulingProblem(np.ones(2), participated, tuple(map(str, range(m)))))
    assert terms.gap(terms.exposures(np.array([[True, False]])))[0] == pytest.approx(1.0)


def test_clients_that_never_took_part_are_left_out() -> None:
    participated = np.array([[True, False, True], [True, False, False]])
    terms = program_terms(SchedulingProblem(np.array([1.0, 3.0]), participated, ("a", "b", "c")))
    assert terms.present.tolist() == [0, 2]
    assert terms.exposures(np.array([[True, False]])).tolist() == [[0.5, 1.0]]


def test_one_client_and_no_client_have_no_unfairness() -> None:
    for participated in (np.ones((3, 1), dtype=bool), np.zeros((3, 2), dtype=bool), np.zeros((3, 0), dtype=bool)):
        ids = tuple(map(str, range(participated.shape[1])))
        terms = program_terms(SchedulingProblem(np.ones(3), participated, ids))
        assert terms.two_sided(np.array([[True, False, True]]), 5.0)[0] == pytest.approx(2 / 3)


def test_ties_go_to_the_earlier_epoch_in_spite_of_rounding() -> None:
    assert in_order_of(np.array([0.1, 0.3, 0.1 + 0.2, 0.3 - 1e-15])).tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("movement", "participated", "words"),
    [
        (np.zeros(0), np.zeros((0, 1), dtype=bool), "no epoch"),
        (np.ones(2), np.ones((3, 1), dtype=bool), "shape"),
        (np.array([1.0, np.nan]), np.ones((2, 1), dtype=bool), "epoch 2"),
        (np.array([-1.0, 1.0]), np.ones((2, 1), dtype=bool), "epoch 1"),
    ],
)
def test_problems_that_do_not_fit_are_refused(movement: np.ndarray, participated: np.ndarray, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        SchedulingProblem(movement, participated, ("a",))


def test_equal_exposures_never_differ_by_less_than_nothing() -> None:
    """Thirty epochs in which all eight clients took part: some of the sums are rounded to below 0."""
    names = tuple(f"client-{n}" for n in range(8))
    problem = SchedulingProblem(np.linspace(1.0, 2.0, 30), np.ones((30, 8), dtype=bool), names)
    terms = program_terms(problem)
    schedules = np.arange(30)[None, :] < np.arange(31)[:, None]
    gaps = terms.exposure_gap(terms.exposures(schedules))
    assert (gaps >= 0).all()
    assert gaps == pytest.approx(0, abs=1e-15)

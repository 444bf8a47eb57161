"""Does the front door answer every budget, or say what is wrong with it?"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.errors import ScheduleError, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.scheduling.budget import resolve_budget
from flcontrib_core.scheduling.choose import choose_epochs
from flcontrib_core.scheduling.objectives import program_terms
from flcontrib_core.scheduling.schedule import (
    AuditSpread,
    BudgetSettings,
    FairnessMode,
    Normalisation,
    SchedulingProblem,
    schedule_json,
)
from tests.scheduling.instances import every_set, random_problem


def everybody(movement: list[float], clients: int = 2) -> SchedulingProblem:
    participated = np.ones((len(movement), clients), dtype=bool)
    return SchedulingProblem(np.array(movement), participated, tuple(f"c{i}" for i in range(clients)))


@pytest.mark.parametrize(
    ("budget", "epochs", "k"),
    [(None, 7, 7), (3, 7, 3), (1, 7, 1), (1.0, 7, 7), (0.5, 30, 15), (0.01, 30, 1), (0.5, 25, 12), (np.int64(4), 7, 4)],
)
def test_budgets_become_epochs(budget: float | None, epochs: int, k: int) -> None:
    assert resolve_budget(budget, epochs) == k


@pytest.mark.parametrize("budget", [0, -2, 8, 0.0, -0.5, 1.5, 8.0, float("nan"), float("inf"), True, "half"])
def test_budgets_out_of_range_are_refused(budget: object) -> None:
    with pytest.raises(SettingsError, match="budget"):
        resolve_budget(budget, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        BudgetSettings(2, gamma=-0.1),
        BudgetSettings(2, gamma=float("nan")),
        BudgetSettings(2, gamma=float("inf")),
        BudgetSettings(2, gamma="0.3"),  # type: ignore[arg-type]
        BudgetSettings(2, proof_seconds=True),
        BudgetSettings(2, FairnessMode.AUDIT, audit_share=1.5),
        BudgetSettings(2, proof_seconds=0.0),
        BudgetSettings(epochs=()),
        BudgetSettings(epochs=(0, 1)),
        BudgetSettings(epochs=(1, 4)),
        BudgetSettings(epochs=(2, 2)),
    ],
)
def test_knobs_out_of_range_are_refused(settings: BudgetSettings) -> None:
    with pytest.raises(SettingsError):
        choose_epochs(everybody([1, 2, 3]), settings)


def test_movements_that_add_up_to_more_than_a_number_holds_are_refused() -> None:
    with pytest.raises(ScheduleError, match="more than a number holds"):
        everybody([1e308, 1e308, 1.0])


def test_the_example_of_the_front_door() -> None:
    schedule = choose_epochs(everybody([5, 1, 3]), BudgetSettings(2))
    assert schedule.chosen == (1, 3)
    assert schedule.coverage == pytest.approx(8 / 9)
    assert schedule.exposure == {"c0": pytest.approx(2 / 3), "c1": pytest.approx(2 / 3)}
    assert schedule.proved_optimal


def test_no_budget_is_every_epoch_in_every_mode() -> None:
    problem = random_problem(20, 6, 0.3, 0)
    for fairness in FairnessMode:
        schedule = choose_epochs(problem, BudgetSettings(None, fairness, gamma=3.0, at_most=True))
        assert schedule.chosen == tuple(range(1, 21))
        assert schedule.coverage == pytest.approx(1.0)
        assert schedule.exposure_gap == pytest.approx(0.0, abs=1e-12)
        assert problem.evaluations is not None
        assert schedule.predicted_evaluations == schedule.full_evaluations == problem.evaluations.sum()


@pytest.mark.parametrize("fairness", list(FairnessMode))
@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1e9])
def test_odd_runs_get_an_answer(fairness: FairnessMode, at_most: bool, gamma: float) -> None:
    nobody_in_two = np.array([[1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=bool)
    odd = [
        everybody([2.0]),  # one epoch
        everybody([0.0, 0.0, 0.0]),  # nothing moved
        everybody([1.0, 2.0, 3.0], clients=1),
        everybody([1.0, 2.0, 3.0], clients=5),  # identical clients
        SchedulingProblem(np.arange(4.0), nobody_in_two, ("a", "b", "never")),
        SchedulingProblem(np.ones(3), np.zeros((3, 2), dtype=bool), ("a", "b")),  # nobody ever
        SchedulingProblem(np.ones(18), np.eye(18, dtype=bool), tuple(map(str, range(18)))),  # one epoch each
    ]
    for problem in odd:
        k = max(1, problem.epoch_count // 2)
        schedule = choose_epochs(problem, BudgetSettings(k, fairness, gamma, at_most))
        assert len(schedule.chosen) + schedule.unused_budget == k
        assert at_most or len(schedule.chosen) == k
        assert np.isfinite([schedule.objective, schedule.bound, schedule.coverage, schedule.exposure_gap]).all()
        assert schedule.bound >= schedule.objective - 1e-9
        assert schedule.gap == pytest.approx(schedule.bound - schedule.objective, abs=1e-9 + 1e-13 * gamma)
        json.dumps(schedule_json(schedule), allow_nan=False)


def test_at_most_k_goes_empty_when_fairness_outweighs_everything() -> None:
    problem = SchedulingProblem(np.ones(18), np.eye(18, dtype=bool), tuple(map(str, range(18))))
    schedule = choose_epochs(problem, BudgetSettings(9, gamma=50.0, at_most=True))
    assert schedule.chosen == ()
    assert schedule.unused_budget == 9
    assert choose_epochs(problem, BudgetSettings(9, gamma=50.0)).unused_budget == 0


def test_at_gamma_zero_two_sided_is_top_utility() -> None:
    problem = random_problem(40, 8, 0.4, 1)
    two_sided = choose_epochs(problem, BudgetSettings(11, gamma=0.0))
    assert two_sided.chosen == choose_epochs(problem, BudgetSettings(11, FairnessMode.TOP_UTILITY)).chosen
    assert two_sided.proved_optimal


@pytest.mark.parametrize(
    ("fairness", "budget"),
    [
        (FairnessMode.ONE_SIDED, 500),
        (FairnessMode.TWO_SIDED_LB, 500),
        (FairnessMode.TWO_SIDED, 900),
        pytest.param(FairnessMode.TWO_SIDED, 500, marks=pytest.mark.slow),  # also looks for the smallest budgets
    ],
)
def test_a_thousand_clients_in_a_thousand_epochs(fairness: FairnessMode, budget: int) -> None:
    schedule = choose_epochs(random_problem(1000, 1000, 0.3, 0), BudgetSettings(budget, fairness))
    assert len(schedule.chosen) == budget
    assert 0 <= schedule.gap < 0.01


def test_hand_picked_epochs_are_judged_by_the_mode_they_come_with() -> None:
    problem = random_problem(24, 6, 0.4, 2)
    found = choose_epochs(problem, BudgetSettings(9))
    given = choose_epochs(problem, BudgetSettings(epochs=found.chosen[::-1]))
    assert (given.chosen, given.k, given.method) == (found.chosen, 9, "given")
    assert given.objective == pytest.approx(found.objective)
    assert given.bound >= given.objective
    worse = choose_epochs(problem, BudgetSettings(epochs=(22, 23, 24), fairness=FairnessMode.ONE_SIDED))
    best = choose_epochs(problem, BudgetSettings(3, FairnessMode.ONE_SIDED))
    assert worse.bound == pytest.approx(best.objective)
    assert worse.gap == pytest.approx(best.objective - worse.objective)
    assert not worse.proved_optimal


def test_plain_rules_are_measured_by_the_two_sided_objective() -> None:
    problem = random_problem(12, 5, 0.4, 3)
    terms = program_terms(problem)
    best = terms.two_sided(every_set(12, 4, False), 0.3).max()
    for fairness in (FairnessMode.STRIDE, FairnessMode.RANDOM):
        schedule = choose_epochs(problem, BudgetSettings(4, fairness))
        mask = np.isin(np.arange(1, 13), schedule.chosen)
        assert schedule.objective == pytest.approx(terms.two_sided(mask[None, :], 0.3)[0])
        assert schedule.bound == pytest.approx(best)
        assert schedule.method == str(fairness)


def test_stride_is_even_and_random_follows_its_seed() -> None:
    problem = random_problem(12, 4, 0.5, 4)
    assert choose_epochs(problem, BudgetSettings(3, FairnessMode.STRIDE)).chosen == (3, 7, 11)
    drawn = [choose_epochs(problem, BudgetSettings(5, FairnessMode.RANDOM, seed=s)).chosen for s in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1
    small = choose_epochs(problem, BudgetSettings(3, FairnessMode.RANDOM)).chosen
    assert set(small) < set(drawn[0])


@pytest.mark.parametrize("spread", list(AuditSpread))
def test_audit_spreads_its_share_and_leaves_the_rest_to_the_two_sided_program(spread: AuditSpread) -> None:
    problem = random_problem(14, 5, 0.4, 5)
    terms = program_terms(problem)
    rule = FairnessMode(str(spread))
    spread_part = np.isin(np.arange(1, 15), choose_epochs(problem, BudgetSettings(3, rule)).chosen)
    audit = choose_epochs(problem, BudgetSettings(6, FairnessMode.AUDIT, gamma=1.0, audit_spread=spread))
    sets = every_set(14, 6, False)
    best = terms.two_sided(sets[sets[:, spread_part].all(axis=1)], 1.0).max()
    assert np.isin(np.flatnonzero(spread_part) + 1, audit.chosen).all()
    assert audit.objective == pytest.approx(best)
    whole = replace(BudgetSettings(6, FairnessMode.AUDIT, audit_spread=spread), audit_share=1.0)
    assert choose_epochs(problem, whole).chosen == choose_epochs(problem, BudgetSettings(6, rule)).chosen
    none = replace(whole, audit_share=0.0)
    assert choose_epochs(problem, none).chosen == choose_epochs(problem, BudgetSettings(6)).chosen


def test_the_json_has_the_promised_keys_and_values() -> None:
    problem = SchedulingProblem(
        np.array([3.0, 1.0, 2.0]),
        np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=bool),
        ("a", "b", "never"),
        evaluations=np.array([3, 1, 1]),
    )
    shown = schedule_json(choose_epochs(problem, BudgetSettings(2, FairnessMode.ONE_SIDED)))
    assert list(shown) == [
        "chosen",
        "objective",
        "bound",
        "gap",
        "proved_optimal",
        "coverage",
        "exposure",
        "exposure_gap",
        "epoch_weights",
        "unused_budget",
        "predicted_evaluations",
    ]
    assert json.loads(json.dumps(shown)) == shown
    assert shown["chosen"] == [1, 3]
    assert shown["exposure"] == {"a": 0.5, "b": 1.0, "never": None}
    assert shown["exposure_gap"] == pytest.approx(0.5)
    assert shown["epoch_weights"] == pytest.approx([1 / 2, 1 / 6, 1 / 3])
    assert shown["predicted_evaluations"] == 4
    assert shown["coverage"] == pytest.approx(5 / 6)


def test_cost_is_evaluations_and_seconds_follow_the_throughput() -> None:
    problem = random_problem(20, 6, 0.5, 6)
    schedule = choose_epochs(problem, BudgetSettings(0.5))
    chosen = np.array(schedule.chosen) - 1
    assert problem.evaluations is not None
    assert schedule.predicted_evaluations == problem.evaluations[chosen].sum()
    assert schedule.predicted_evaluations is not None
    assert schedule.predicted_seconds(50.0) == pytest.approx(schedule.predicted_evaluations / 50)
    assert choose_epochs(replace(problem, evaluations=None), BudgetSettings(0.5)).predicted_seconds(50.0) is None


def test_progress_is_told_in_order() -> None:
    told: list[tuple[int, int]] = []
    choose_epochs(random_problem(20, 6, 0.5, 7), BudgetSettings(8), lambda done, total, _: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (3, 3)


def test_the_front_door_does_not_load_a_solver() -> None:
    code = (
        "import sys, flcontrib_core.scheduling.choose, flcontrib_core.scheduling.explorer, "
        "flcontrib_core.charts.schedule_file; print(sorted({'pulp','highspy','torch','plotly'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        python_command("-c", code), capture_output=True, text=True, check=True, env=child_environment()
    )
    assert shown.stdout.strip() == "[]"


def test_a_word_stands_for_its_choice_and_another_one_is_refused() -> None:
    settings = BudgetSettings(budget=2, fairness="one-sided", normalise="sum")
    assert (settings.fairness, settings.normalise) == (FairnessMode.ONE_SIDED, Normalisation.SUM)
    assert settings == BudgetSettings(budget=2, fairness=FairnessMode.ONE_SIDED, normalise=Normalisation.SUM)
    with pytest.raises(SettingsError, match="fairness is 'kind'; it is one of one-sided, two-sided"):
        BudgetSettings(fairness="kind")

"""Algorithm 1 end to end: against an independent enumeration, with budgets, memory, crashes and other servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import CostRefusal, MissingPart, SettingsError
from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.history.axioms import check_axioms
from flcontrib_core.history.remarks import EpochRemark, ScheduleEmpty, ValuesMissing
from flcontrib_core.history.trajectory import scheduling_problem, walk
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate_in_memory
from flcontrib_core.runs.run_log import ContributionTable, RunLog, UtilityTable
from flcontrib_core.scheduling import BudgetSettings, FairnessMode
from flcontrib_core.shapley import ComFedSV, Exact
from flcontrib_core.vocabulary import FillPolicy, Orientation, WeightMode

EXACT = AssessSettings(estimator="exact")


@pytest.fixture(scope="module")
def run() -> RunLog:
    """Five clients, three per epoch: participation changes, sizes differ."""
    return simulate_in_memory(
        SimulationSettings(clients=5, epochs=6, participation=0.6, sizes="unequal", hidden=(12,), seed=3)
    )


@pytest.fixture(scope="module")
def history(run):
    return assess_contributions(run, EXACT)


class Cached(dict[str, Any]):
    """Checkpoints in memory, counting what was asked for and kept."""

    hits = 0

    def recall(self, key):
        self.hits += key in self
        return self.get(key)

    def keep(self, key, arrays):
        self[key] = {k: v.copy() for k, v in arrays.items()}


class Remembered(dict[str, Any]):
    def recall_epoch(self, key):
        return dict(self.get(key, {}))

    def keep_epoch(self, key, values):
        self.setdefault(key, {}).update(values)


def plain_shapley(value, players):
    """The textbook sum over subsets, on purpose written without anything of ours."""
    phi = np.zeros(players)
    for i in range(players):
        rest = [j for j in range(players) if j != i]
        for size in range(players):
            for s in combinations(rest, size):
                phi[i] += (value((*s, i)) - value(s)) / (players * comb(players - 1, size))
    return phi


def test_exact_values_equal_an_independent_enumeration_with_a_torch_module(run, history):
    import torch

    validation = run.validation()
    x, y = torch.tensor(validation.x), torch.tensor(validation.y)
    shapes = [p.shape for p in run.parameters]
    widths = [shapes[0][1], shapes[0][0], shapes[2][0]]
    module = torch.nn.Sequential(
        torch.nn.Linear(widths[0], widths[1]), torch.nn.ReLU(), torch.nn.Linear(widths[1], widths[2])
    )

    def loss_of(flat):
        torch.nn.utils.vector_to_parameters(torch.tensor(flat), module.parameters())
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(module(x).double(), y))

    for step in walk(run):
        sizes = np.array(step.record.data_sizes, dtype=float)

        def value(s, step=step, sizes=sizes):
            s = sorted(s)
            if not s:
                return loss_of(step.start)
            w = (sizes[s] / sizes[s].sum()).astype(np.float32)
            return loss_of(step.start + w @ step.data.updates[s])

        expected = plain_shapley(value, len(sizes))
        got = history.of("loss").values[step.record.epoch, list(step.record.participants)]
        spread = np.ptp(expected) + abs(expected).max()
        np.testing.assert_allclose(got, expected, atol=2e-6 * max(spread, 1e-2))


def test_row_zero_is_the_initial_models_share_and_absent_clients_get_exactly_zero(run, history):
    assert np.ptp(history.of("loss").values[0]) == 0
    assert history.of("loss").values[0].sum() == pytest.approx(history.of("loss").increments[0])
    assert (history.of("loss").values[1:][~history.participated[1:]] == 0).all()
    assert history.computed.all()
    assert set(history.estimator[1:]) == {"exact"}
    assert (history.of("loss").standard_errors == 0).all()
    assert history.evaluations[1:].tolist() == [7] * 6


def test_totals_add_up_to_the_final_models_utility(run, history):
    """Lemma shapley_value_decomposition over the whole run."""
    problem = scheduling_problem(run, EXACT)
    final = history.of("loss").increments.sum() + history.of("loss").server_share.sum()
    assert history.totals("loss").sum() == pytest.approx(final, abs=1e-9)
    assert problem.initial_utility == pytest.approx(history.of("loss").increments[0], abs=1e-9)
    np.testing.assert_allclose(problem.movement, np.abs(history.of("loss").increments[1:]), atol=1e-6)
    assert all(check.holds for check in check_axioms(history))


def test_two_workers_give_the_same_bits_as_one(run, history):
    again = assess_contributions(run, EXACT, workers=2)
    for u in history.utilities:
        np.testing.assert_array_equal(again.of(u).values, history.of(u).values)
    assert again.channels is not None
    assert history.channels is not None
    np.testing.assert_array_equal(again.channels.solo_margin, history.channels.solo_margin)


def test_finished_epochs_are_never_computed_again(run, history):
    kept = Cached()
    done = []

    class Stop(Exception):
        pass

    def interrupt(answer):
        done.append(answer.epoch)
        if len(done) == 3:
            raise Stop

    with pytest.raises(Stop):
        assess_contributions(run, EXACT, checkpoints=kept, on_epoch=interrupt)
    assert len(kept) == 3
    resumed = assess_contributions(run, EXACT, checkpoints=kept)
    assert kept.hits == 3
    for u in history.utilities:
        np.testing.assert_array_equal(resumed.of(u).values, history.of(u).values)
    assert resumed.channels is not None
    assert history.channels is not None
    np.testing.assert_array_equal(resumed.channels.own_cosine, history.channels.own_cosine)


def test_another_estimator_reuses_every_remembered_coalition(run, history):
    memory = Remembered()
    assess_contributions(run, EXACT, memory=memory)
    other = assess_contributions(run, replace(EXACT, estimator="complementary", seed=9), memory=memory)
    assert other.recalled == int(other.evaluations.sum())
    fresh = assess_contributions(run, replace(EXACT, estimator="complementary", seed=9))
    assert fresh.recalled == 0
    np.testing.assert_array_equal(fresh.of("loss").values, other.of("loss").values)


def test_budget_leaves_epochs_not_computed_but_observed(run, history):
    part = assess_contributions(run, replace(EXACT, budget=BudgetSettings(budget=3, gamma=0.3)))
    assert part.schedule is not None
    assert np.flatnonzero(part.computed[1:]).size == 3
    skipped = [t for t in range(1, 7) if t not in part.schedule.chosen]
    for t in skipped:
        assert np.isnan(part.of("loss").values[t, part.participated[t]]).all()
        assert (part.of("loss").values[t, ~part.participated[t]] == 0).all()
        assert part.channels is not None
        assert np.isfinite(part.channels.solo_margin[t, part.participated[t]]).all()
        assert part.of("loss").increments[t] == history.of("loss").increments[t]
    for t in part.schedule.chosen:
        np.testing.assert_array_equal(part.of("loss").values[t], history.of("loss").values[t])
    equal = part.totals("loss", FillPolicy.EQUAL)
    assert equal.sum() == pytest.approx(history.totals("loss").sum())
    zero = part.totals("loss", FillPolicy.ZERO)
    assert zero.sum() == pytest.approx(sum(history.of("loss").increments[[0, *part.schedule.chosen]]))


def test_leave_one_out_fill_is_efficient_and_needs_its_evaluations(run, history):
    wanted = replace(EXACT, budget=BudgetSettings(epochs=(1, 2)), fill=FillPolicy.LEAVE_ONE_OUT)
    part = assess_contributions(run, wanted)
    assert part.totals("loss", FillPolicy.LEAVE_ONE_OUT).sum() == pytest.approx(history.totals("loss").sum())
    without = assess_contributions(run, replace(wanted, fill=FillPolicy.EQUAL))
    with pytest.raises(ValueError, match="leaving one out was not evaluated"):
        without.totals("loss", FillPolicy.LEAVE_ONE_OUT)


def test_best_subset_has_the_best_utility(run, history):
    for t in range(1, 7):
        assert history.best_subset[t] is not None
        assert set(history.best_subset[t]) <= set(np.flatnonzero(history.participated[t]))


def test_a_server_that_is_no_weighted_mean_has_its_own_share():
    greedy = simulate_in_memory(
        SimulationSettings(
            clients=4, epochs=4, hidden=(8,), aggregation="greedy", attack="label-flip", strength=1.0, seed=1
        )
    )
    history = assess_contributions(greedy, EXACT)
    assert any(e.has_global for e in greedy.epochs)
    final = float(scheduling_problem(greedy, EXACT).initial_utility)
    end = history.of("loss").increments.sum() + history.of("loss").server_share.sum()
    steps = list(walk(greedy))
    from flcontrib_core.history.trajectory import evaluator_for

    judged = evaluator_for(greedy, ("loss",)).evaluate(steps[-1].end[None, :])[0][0, 0]
    assert end == pytest.approx(judged, abs=1e-6)
    assert final == pytest.approx(history.of("loss").increments[0])
    assert np.abs(history.of("loss").server_share).max() > 1e-6


def test_an_exponential_request_is_refused_before_it_starts(run):
    with pytest.raises(CostRefusal, match=r"2\^3|7 evaluations|3 participants"):
        assess_contributions(run, replace(EXACT, estimator=Exact(most_players=2)))


def test_utility_table_gives_exact_values_and_the_servers_share():
    # v(∅)=1, v(a)=.8, v(b)=.6, v(ab)=.5 and an epoch that starts where the server moved to
    v = np.array([[1.0], [0.8], [0.6], [0.5]])
    table = UtilityTable("t", "d", ("a", "b"), None, ("loss",), ((0, 1), (0, 1)), (v, v * 0.5), frozenset({"loss"}))
    history = assess_contributions(table, EXACT)
    np.testing.assert_allclose(history.of("loss").values[1], [-0.15, -0.35])
    assert history.of("loss").server_share[1] == pytest.approx(0.0)
    assert history.best_subset[1] == (0, 1)
    part = assess_contributions(table, replace(EXACT, budget=BudgetSettings(budget=1)))
    assert part.computed.tolist() == [True, True, False]


def test_contribution_table_is_a_history_without_channels():
    values = np.array([[0, 0], [-0.1, -0.2], [np.nan, 0.0], [0.1, np.nan]])
    took_part = np.array([[0, 0], [1, 1], [1, 0], [1, 1]], dtype=bool)
    table = ContributionTable("t", "d", ("a", "b"), ("loss",), {"loss": values}, took_part, frozenset({"loss"}))
    history = assess_contributions(table)
    assert history.channels is None
    assert history.computed.tolist() == [True, True, False, True]
    assert [(r.epochs, r.remark) for r in history.remarks] == [((3,), ValuesMissing(1))]
    with pytest.raises(MissingPart, match="already computed"):
        scheduling_problem(table)


def test_unknown_names_are_settings_errors(run):
    with pytest.raises(SettingsError, match="nonsense"):
        assess_contributions(run, AssessSettings(estimator="nonsense"))
    with pytest.raises(SettingsError, match="engine"):
        assess_contributions(run, EXACT, engine="cloud")
    with pytest.raises(SettingsError):
        assess_contributions(run, AssessSettings(utilities=("happiness",)))


def test_comfedsv_weighs_clients_alike_but_reports_the_increments_of_the_run(run, history):
    wanted = AssessSettings(estimator=ComFedSV(allow_unobserved=True))
    completed = assess_contributions(run, wanted)
    for utility in history.utilities:
        np.testing.assert_allclose(completed.of(utility).increments, history.of(utility).increments, atol=1e-12)
    largest = max(run.epochs, key=lambda e: max(e.data_sizes) / min(e.data_sizes))
    assert max(largest.data_sizes) > min(largest.data_sizes)
    assert not np.isnan(completed.of("loss").values).any()


def test_weights_over_all_clients_leave_the_rest_of_the_step_to_the_server(run: RunLog, history: Any) -> None:
    """F_N of these weights is not F(t): clients and server together still add up to what the run reached."""
    over_all = assess_contributions(run, replace(EXACT, weights=WeightMode.FIXED_ALL, observe=False))
    for utility in over_all.utilities:
        series, own = over_all.of(utility), history.of(utility)
        np.testing.assert_allclose(series.values.sum(axis=1), series.increments, atol=1e-9)
        np.testing.assert_allclose(series.increments + series.server_share, own.increments, atol=1e-6)
    assert over_all.server_moved("loss")


def test_an_empty_schedule_says_so(run: RunLog) -> None:
    budget = BudgetSettings(budget=3, fairness=FairnessMode.TWO_SIDED_LB, gamma=50.0, at_most=True)
    history = assess_contributions(run, replace(EXACT, budget=budget, observe=False))
    assert history.schedule is not None
    assert history.schedule.chosen == ()
    assert EpochRemark((), ScheduleEmpty("two-sided-lb", 3)) in history.remarks


def test_a_bare_word_stands_for_a_fill_and_an_orientation(history: Any) -> None:
    np.testing.assert_array_equal(
        history.shown("loss", fill="equal", orientation="paper"), history.shown("loss", orientation=Orientation.PAPER)
    )
    for odd in ({"fill": "none"}, {"orientation": "up"}):
        with pytest.raises(ValueError, match="is not a valid"):
            history.shown_totals("loss", **odd)


def test_values_are_shown_in_either_orientation_with_or_without_the_initial_model(history: Any) -> None:
    stored = history.filled("loss")
    np.testing.assert_array_equal(history.shown("loss", orientation=Orientation.PAPER, initial=True), stored)
    np.testing.assert_array_equal(history.shown("loss")[1:], -stored[1:])
    assert not history.shown("loss")[0].any()
    np.testing.assert_array_equal(history.shown("accuracy")[1:], history.filled("accuracy")[1:])
    total = history.shown_totals("loss", orientation=Orientation.PAPER, initial=True)
    np.testing.assert_allclose(total.sum(), history.of("loss").increments.sum(), rtol=1e-6)
    np.testing.assert_allclose(history.shown_totals("loss"), -(total - stored[0]), rtol=1e-12)

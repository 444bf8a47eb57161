"""What a history is for: whom to invite, other aggregations replayed, and how far a share can be trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from click.testing import CliRunner

from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.games.submodels import aggregate
from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.history.replay import AggregationRule, replay, replay_held_out
from flcontrib_core.history.selection import rank_candidates
from flcontrib_core.history.stability import VariedBy, stability_of
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.laboratory.simulation import SimulationSettings, simulate_in_memory
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import CellState

EXACT = AssessSettings(estimator="exact")


@pytest.fixture(scope="module")
def run() -> RunLog:
    """Five clients, three per epoch, one turning its labels all the time."""
    return simulate_in_memory(
        SimulationSettings(
            clients=5,
            epochs=6,
            participation=0.6,
            sizes="unequal",
            hidden=(12,),
            attack="label-flip",
            strength=1.0,
            seed=3,
        )
    )


@pytest.fixture(scope="module")
def history(run):
    return assess_contributions(run, EXACT)


def with_values(history, values):
    """The history with these losses for everybody in every epoch."""
    state = np.full_like(history.state, CellState.COMPUTED)
    every = np.zeros_like(history.values)
    every[1:, :, 0] = values
    return replace(history, values=every, state=state)


def test_the_best_known_come_first_and_doubt_falls_with_exposure(history):
    rng = np.random.default_rng(0)
    values = -np.array([1.0, 2.0, 3.0, 4.0, 5.0]) + 0.1 * rng.normal(size=(6, 5))
    ranked = rank_candidates(with_values(history, values), explore=0.0)
    assert [c.client for c in ranked] == list(history.client_ids[::-1])
    assert all(c.score == c.value for c in ranked)
    shares = (-values / np.abs(values).mean(axis=1, keepdims=True)).mean(axis=0)
    assert [c.value for c in ranked] == pytest.approx(shares[::-1], abs=0.05)  # ample evidence: hardly drawn together


def test_a_client_never_valued_stands_at_the_average_and_is_explored(history):
    values = -np.array([1.0, 2.0, 3.0, 4.0, 5.0]) + 0.3 * np.random.default_rng(1).normal(size=(6, 5))
    unseen = with_values(history, values)
    state = unseen.state.copy()
    state[1:, 0] = CellState.NOT_COMPUTED
    by_client = {c.client: c for c in rank_candidates(replace(unseen, state=state))}
    stranger = by_client.pop(history.client_ids[0])
    assert stranger.valued == 0
    assert stranger.value == pytest.approx(np.mean([c.value for c in by_client.values()]), abs=0.05)
    assert stranger.doubt > 2 * max(c.doubt for c in by_client.values())
    assert rank_candidates(replace(unseen, state=state), explore=50)[0].client == stranger.client


def test_nobody_is_ordered_without_values(history):
    state = np.where(history.state == CellState.COMPUTED, CellState.NOT_COMPUTED, history.state)
    with pytest.raises(MissingPart, match="fewer than two"):
        rank_candidates(replace(history, state=state))
    with pytest.raises(SettingsError, match="explore"):
        rank_candidates(history, explore=-1)


def test_replayed_steps_equal_enumeration(run, history):
    evaluator = evaluator_for(run, ("loss", "accuracy"))
    rules = {r.rule: r for r in replay(run, history, evaluator).rules}
    recorded, best, by_value = (rules[rule] for rule in AggregationRule)
    assert recorded.applied == best.applied == by_value.applied == 6
    for step in walk(run):
        t, n = step.record.epoch, len(step.record.participants)
        subsets = [list(s) for size in range(1, n + 1) for s in combinations(range(n), size)]
        models = [aggregate(step.start, step.data.updates[s], np.array(step.record.weights)[s]) for s in subsets]
        losses = evaluator.evaluate(np.stack([step.start, step.end, *models]))[0][:, 0]
        assert recorded.one_step[t, 0] == pytest.approx(losses[1], abs=1e-6)
        assert best.one_step[t, 0] == pytest.approx(min(losses[0], *losses[2:]), abs=1e-6)
        helped = np.maximum(-history.of("loss").values[t, list(step.record.participants)], 0)
        mixed = step.start + (helped / helped.sum()) @ step.data.updates
        assert by_value.one_step[t, 0] == pytest.approx(evaluator.evaluate(mixed[None])[0][0, 0], abs=1e-5)
    assert recorded.chained == pytest.approx(recorded.one_step, abs=1e-5)  # the run itself


def test_a_replay_measures_on_rows_that_chose_nothing(run):
    validation = run.validation()
    assert validation is not None
    found = replay_held_out(run, EXACT, share=0.25)
    assert found.held_out
    assert found.measured_rows == pytest.approx(0.25 * validation.rows, abs=len(np.unique(validation.y)))
    with pytest.raises(SettingsError, match="share"):
        replay_held_out(run, EXACT, share=0.95)


def test_another_runs_history_is_refused(run, history):
    with pytest.raises(SettingsError, match="another run"):
        replay(run, replace(history, run_digest="0" * 64), evaluator_for(run, ("loss",)))


def test_a_share_moves_with_rows_and_weights_but_not_with_the_seed_of_exact_values(run, history):
    found = stability_of(run, EXACT, repeats=3)
    bands = {band.by: band for band in found.bands}
    assert found.totals == pytest.approx(history.shown_totals("loss"))
    assert bands[VariedBy.SEEDS].totals == pytest.approx(np.tile(found.totals, (3, 1)))
    low, high = bands[VariedBy.WEIGHTS].ends
    assert (low <= found.totals + 1e-9).all()
    assert (found.totals <= high + 1e-9).all()
    low, high = bands[VariedBy.ROWS].ends
    assert (high - low > 0).all()
    assert found.shares is not None
    assert found.shares.sum() == pytest.approx(1.0)
    best, worst = bands[VariedBy.ROWS].ranks
    assert (best <= worst).all()
    with pytest.raises(SettingsError, match="choose from loss, accuracy"):
        stability_of(run, EXACT, utility="dice")


@pytest.mark.parametrize(
    ("command", "key"),
    [(["select", "-k", "2"], "clients"), (["replay"], "rules"), (["stability", "--repeats", "2"], "bands")],
)
def test_the_commands_answer_in_json_and_in_words(run, command, key, tmp_path):
    log = str(tmp_path / "run.flrun")
    from flcontrib_core.laboratory.simulation import simulate

    simulate(SimulationSettings(clients=3, epochs=3, hidden=(4,), seed=1), log)
    runner = CliRunner()
    name, *options = command
    told = runner.invoke(flcontrib, [name, log, *options, "--workers", "1", "--no-memory", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)[key]
    said = runner.invoke(flcontrib, [name, log, *options, "--workers", "1", "--no-memory"])
    assert said.exit_code == 0, said.output


def test_a_utility_that_is_not_assessed_is_refused_before_anything_is(tmp_path):
    from flcontrib_core.laboratory.simulation import simulate

    log = str(tmp_path / "run.flrun")
    simulate(SimulationSettings(clients=3, epochs=2, hidden=(4,), seed=1), log)
    told = CliRunner().invoke(flcontrib, ["select", log, "--by", "dice", "--workers", "1", "--no-memory"])
    assert isinstance(told.exception, SettingsError)
    assert "epoch" not in told.output

"""From labelled runs to a calibration: every threshold fitted, every honest test run counted, nothing seen twice."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.detection.calibration import Calibration, from_json, to_json
from flcontrib_core.detection.experts import EXPERTS, VALUE_ONLY
from flcontrib_core.detection.free_riding import IdleKind
from flcontrib_core.detection.likeness import ALIKE
from flcontrib_core.laboratory.calibrate import CalibrationPlan, calibrate, first_alerts, fit_calibration
from flcontrib_core.laboratory.calibration_set import ATTACK_GROUPS, DRIFT_GROUP, HONEST_GROUPS, LabelledSettings
from flcontrib_core.laboratory.labelled_history import LabelledHistory, acted_truth, own_cosines_by_epoch
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from tests.detection.made_histories import made_history

PLAN = CalibrationPlan(
    tuning_base=1000,
    test_base=2000,
    tuning_honest=6,
    test_honest=3,
    drift=2,
    tuning_attacks=1,
    test_attacks=1,
    replayed=4,
)


def _made(labelled: LabelledSettings, replay: bool) -> LabelledHistory:
    """A history from a seed instead of a simulation, of the same form; one honest client is a little worse."""
    attacked = labelled.group in ATTACK_GROUPS
    seed = labelled.settings.seed % 10_000
    if attacked:
        history = made_history(seed=seed, epochs=16, poisoned=[(3, 7, 12)])
    else:
        history = made_history(seed=seed, epochs=16, persistent=[1], shift=1 + seed % 20 / 10)
    assert history.channels is not None
    own = history.channels.own_cosine
    return LabelledHistory(
        labelled.group,
        1.0,
        history,
        {"client-03": ((7, 12),)} if attacked else {},
        tuple(own[: t + 1] for t in range(17)) if replay else (),
    )


@pytest.fixture(scope="module")
def measured() -> tuple[Calibration, list[tuple[int, str]]]:
    told: list[tuple[int, str]] = []
    made = calibrate(PLAN, lambda done, total, label: told.append((done, label)), _made)
    return made, told


def test_a_calibration_holds_every_threshold_and_every_honest_test_run(measured) -> None:
    made, told = measured
    others = {"persistent", "persistent value-only", ALIKE, *(kind.value for kind in IdleKind)}
    assert set(made.thresholds) == {e.name for e in (*EXPERTS, VALUE_ONLY)} | others
    assert len(made.honest_runs) == 3 * len(HONEST_GROUPS)
    assert {r.group for r in made.honest_runs} == set(HONEST_GROUPS)
    assert sum(r.alerts_online is not None for r in made.honest_runs) == 3 * len(HONEST_GROUPS)
    assert made.provenance["runs"]["tuning"] == 6 * len(HONEST_GROUPS) + 2 + len(ATTACK_GROUPS)
    assert made.provenance["test report"]["honest runs"] == len(made.honest_runs)
    assert told[-1] == (made.provenance["runs"]["tuning"] + made.provenance["runs"]["test"], "fitting")
    assert from_json(to_json(made)).presets == made.presets


def test_planted_windows_are_probable_and_honest_clients_are_not(measured) -> None:
    made, _ = measured
    assert list(made.window_odds.shares) == sorted(made.window_odds.shares)
    assert made.window_odds.probability(40) > 0.7  # few loud clients: their rung holds quiet ones too
    assert made.window_odds.probability(-6) < 0.1
    assert made.provenance["test report"]["recall"]["flip .5"] == 1.0


def test_tuning_and_test_runs_share_no_seed() -> None:
    tuning = {r.settings.seed for r, _ in PLAN.tuning_runs()}
    test = {r.settings.seed for r, _ in PLAN.test_runs()}
    assert tuning.isdisjoint(test)
    groups = {r.group for r, _ in PLAN.test_runs()}
    assert groups == {*HONEST_GROUPS, DRIFT_GROUP, *ATTACK_GROUPS}


def test_without_replayed_runs_the_online_preset_stays_the_strict_one() -> None:
    runs = [_made(labelled, False) for labelled, _ in PLAN.tuning_runs()]
    fitted = fit_calibration(runs)
    assert fitted.preset("online") == fitted.preset("strict")


def test_a_growing_run_names_the_client_inside_its_window(measured) -> None:
    made, _ = measured
    history = made_history(epochs=30, poisoned=[(3, 14, 24)], shift=9)
    assert history.channels is not None
    own = tuple(history.channels.own_cosine[: t + 1] for t in range(31))
    first = first_alerts(LabelledHistory("flip .5", 1.0, history, {"client-03": ((14, 24),)}, own), made)
    assert set(first) == {"client-03"}
    assert 14 <= first["client-03"] <= 24


def test_a_window_in_which_a_client_was_never_asked_is_not_counted_against_anybody() -> None:
    settings = SimulationSettings(
        dataset="wine", clients=6, epochs=8, participation=0.5, attack="zero", windows=((1, 1), (3, 8)), seed=4
    )
    for seed in range(12):
        run = simulate_in_memory(SimulationSettings(**{**vars(settings), "seed": seed}))
        assert run.truth is not None
        client = run.truth.dishonest[0].client
        took_part = run.participated()[:, [c.id for c in run.clients].index(client)]
        expected = tuple(w for w in ((1, 1), (3, 8)) if took_part[w[0] : w[1] + 1].any())
        assert acted_truth(run) == ({client: expected} if expected else {})


def test_the_own_direction_of_a_replay_knows_no_later_update() -> None:
    run = simulate_in_memory(SimulationSettings(dataset="wine", clients=4, epochs=6, seed=2))
    stages = own_cosines_by_epoch(run)
    assert [s.shape for s in stages] == [(t + 1, 4) for t in range(7)]
    assert np.isnan(stages[1]).all()  # one update has no other to compare with
    updates = [np.asarray(run.epoch_data(t).updates[0], dtype=np.float64) for t in (1, 2, 3)]
    unit = [u / np.linalg.norm(u) for u in updates]
    assert stages[2][2, 0] == pytest.approx(unit[0] @ unit[1])
    assert stages[3][2, 0] == pytest.approx((unit[1] @ unit[0] + unit[1] @ unit[2]) / 2)

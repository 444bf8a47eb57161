"""Thresholds from tails, probabilities from labels, and a shipped file that says where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.detection.calibration import (
    Calibration,
    HonestRun,
    Odds,
    RunRegime,
    Threshold,
    fit_probability,
    fit_tail,
    from_json,
    read_calibration,
    shipped_calibration,
    to_json,
    upper_bound,
)
from flcontrib_core.detection.experts import EXPERTS, VALUE_ONLY
from flcontrib_core.detection.free_riding import IdleKind
from flcontrib_core.detection.likeness import ALIKE as LIKENESS
from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.calibration_set import (
    ATTACK_GROUPS,
    DRIFT_GROUP,
    HONEST_GROUPS,
    draw_runs,
)


def test_the_fitted_tail_is_exceeded_at_the_wanted_rate() -> None:
    rng = np.random.default_rng(0)
    clients = rng.choice([4, 8, 16, 30], 4000).astype(float)
    maxima = np.array([rng.exponential(0.7, int(m)).max() for m in clients])
    limit = fit_tail(maxima[:2000], clients[:2000], rate=0.02)
    assert limit.scale == pytest.approx(0.7, rel=0.15)
    fresh = np.array(
        [limit.excess(np.array([x]), int(m))[0] for x, m in zip(maxima[2000:], clients[2000:], strict=True)]
    )
    assert 0.01 < (fresh > 0).mean() < 0.032
    for few, many in ((4, 30), (8, 16)):  # the correction for the number of clients holds in each regime
        shares = [(fresh[clients[2000:] == m] > 0).mean() for m in (few, many)]
        assert max(shares) < 0.045


def test_a_tail_needs_runs_and_a_sensible_rate() -> None:
    with pytest.raises(SettingsError, match="at least 20"):
        fit_tail(np.arange(5.0), np.full(5, 8.0), 0.01)
    with pytest.raises(SettingsError, match="between 0"):
        fit_tail(np.arange(50.0), np.full(50, 8.0), 0.5)


def test_probabilities_match_their_shares() -> None:
    rng = np.random.default_rng(1)
    u = np.concatenate([rng.normal(-6, 1, 20_000), rng.normal(scale=3, size=2_000)])
    changed = (rng.random(len(u)) < 1 / (1 + np.exp(-(0.75 * u - 0.1)))).astype(float)
    odds = fit_probability(u, changed)
    assert list(odds.shares) == sorted(odds.shares)
    for low, high in ((-4, -2), (-1, 1), (2, 4)):
        here = (u > low) & (u < high)
        assert np.mean([odds.probability(x) for x in u[here]]) == pytest.approx(changed[here].mean(), abs=0.03)


def test_many_quiet_clients_do_not_bend_the_probability_of_the_few_loud_ones() -> None:
    quiet, loud = np.linspace(-9, -4, 20_000), np.linspace(0, 4, 200)
    dishonest = np.concatenate([np.zeros(20_000), np.tile([0.0, 1.0], 100)])
    odds = fit_probability(np.concatenate([quiet, loud]), dishonest)
    assert odds.probability(0.5) == pytest.approx(0.5, abs=0.1)
    assert odds.probability(-5.0) < 0.01


def test_groups_that_do_not_overlap_still_leave_doubt() -> None:
    odds = fit_probability(np.array([-5.0, -4, 4, 5] * 50), np.array([0.0, 0, 1, 1] * 50))
    assert 0 < odds.probability(-10) < 0.05
    assert 0.95 < odds.probability(10) < 1


def test_no_client_gives_no_probability() -> None:
    with pytest.raises(SettingsError, match="no client"):
        fit_probability(np.array([]), np.array([]))


LADDER = [float(u) for u in np.linspace(-8, 3, 160)]


WINDOWS = Odds((-5.0, 0.0, 12.0), (0.01, 0.3, 0.995))
THROUGHOUT = Odds((0.0, 5.0), (0.1, 0.4))
IDLE, ALIKE = Odds((0.0,), (0.9,)), Odds((0.0, 1.0), (0.8, 0.95))
QUESTION, QUIET = Odds((0.0, 4.0), (0.2, 0.3)), Odds((-5.0,), (0.02,))


def _made() -> Calibration:
    runs = tuple(HonestRun("honest, iid", 8, 1.0, 30, u, u - 1, u > 2.5 if u > -4 else None) for u in LADDER)
    presets = {"default": 0.0, "strict": 2.0, "online": 2.0}
    odds = (WINDOWS, THROUGHOUT, IDLE, ALIKE, QUESTION, QUIET)
    return Calibration({"harm": Threshold(-0.4, 0.9)}, *odds, presets, runs, {"seed": 1})


def test_a_calibration_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(to_json(_made()), encoding="utf-8")
    again = read_calibration(path)
    assert again.thresholds == _made().thresholds
    assert (again.window_odds, again.persistent_odds) == (WINDOWS, THROUGHOUT)
    assert (again.idle_odds, again.alike_odds) == (IDLE, ALIKE)
    assert (again.question_odds, again.quiet_odds) == (QUESTION, QUIET)
    assert again.presets == _made().presets
    assert [r.alerts_online for r in again.honest_runs] == [r.alerts_online for r in _made().honest_runs]
    json.loads(path.read_text(encoding="utf-8"))


def test_false_alarms_are_counted_among_comparable_runs() -> None:
    made = _made()
    rate = made.false_alarms(0.0, RunRegime(8, 1.0, values_alone=False))
    assert (rate.alerting, rate.runs) == (sum(u > 0 for u in LADDER), len(LADDER))
    assert rate.clients == (4, 16)
    assert made.false_alarms(2.0, RunRegime(8, 1.0, False)).alerting < rate.alerting
    assert made.false_alarms(0.0, RunRegime(8, 1.0, values_alone=True)).alerting < rate.alerting
    assert made.false_alarms(0.0, RunRegime(500, 0.1, False)).clients is None


@pytest.mark.parametrize(("successes", "trials"), [(0, 144), (2, 332), (17, 832), (143, 144), (5, 5), (1, 1)])
def test_the_upper_bound_of_a_rate_is_clopper_and_pearson_s(successes: int, trials: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(successes, trials).proportion_ci(0.95, method="exact").high
    assert upper_bound(successes, trials) == pytest.approx(expected, abs=1e-9)


def test_a_growing_run_is_compared_with_honest_runs_that_were_read_as_they_grew() -> None:
    rate = _made().false_alarms(2.0, RunRegime(8, 1.0, False), online=True)
    assert (rate.alerting, rate.runs) == (sum(u > 2.5 for u in LADDER), sum(u > -4 for u in LADDER))
    assert rate.every_epoch


def test_probability_rises_with_u_and_never_claims_certainty() -> None:
    made = _made()
    ladder = [made.window_odds.probability(u) for u in (-1000, -5, 0, 2, 5, 1000)]
    assert ladder == sorted(ladder)
    assert ladder[-1] == 0.99


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(SettingsError, match="strict"):
        _made().preset("live")


def test_the_shipped_calibration_is_complete_and_says_where_it_comes_from() -> None:
    shipped = shipped_calibration()
    others = {"persistent", "persistent value-only", LIKENESS, *(kind.value for kind in IdleKind)}
    assert set(shipped.thresholds) == {e.name for e in (*EXPERTS, VALUE_ONLY)} | others
    assert {"default", "strict", "online"} <= set(shipped.presets)
    assert 0 == shipped.preset("default") < shipped.preset("strict")
    assert len(shipped.honest_runs) >= 300
    for key in ("version", "seed bases", "runs", "rates", "test report", "datasets"):
        assert key in shipped.provenance
    assert shipped.provenance["seed bases"]["tuning"] != shipped.provenance["seed bases"]["test"]
    assert from_json(to_json(shipped)).thresholds == shipped.thresholds


def test_the_shipped_default_preset_keeps_honest_runs_quiet() -> None:
    shipped = shipped_calibration()
    for family, most in (("plain", 0.02), ("changing", 0.03)):  # the goals, and what chance allows so few runs
        largest = np.array([r.largest for r in shipped.honest_runs if r.group == family])
        assert len(largest) > 150
        assert (largest > shipped.preset("strict")).mean() <= (largest > shipped.preset("default")).mean() <= most
    assert {r.group for r in shipped.honest_runs} == {"plain", "changing"}


def test_runs_are_drawn_alike_from_one_base_and_apart_from_two() -> None:
    for group in (*HONEST_GROUPS, DRIFT_GROUP, *ATTACK_GROUPS):
        once, again = draw_runs(group, 3, base=7), draw_runs(group, 3, base=7)
        other = draw_runs(group, 3, base=8)
        assert once == again
        assert {r.settings.seed for r in once}.isdisjoint(r.settings.seed for r in other)
        for run in once:
            honest = group in HONEST_GROUPS or group == DRIFT_GROUP
            assert (run.settings.attacks() == ()) == honest
            for attack in run.settings.attacks():
                assert all(1 <= a <= b <= run.settings.epochs for a, b in attack.windows)


def test_settings_can_be_pinned() -> None:
    run = draw_runs("flip .5", 1, base=1, clients=30, participation=0.3, epochs=60)[0]
    assert (run.settings.clients, run.settings.participation, run.settings.epochs) == (30, 0.3, 60)
    assert run.settings.strength == 0.5

"""How often do verdicts find what was planted, and how often do they accuse the honest?

The main figures are read from the calibration's *test* set, which no threshold has seen; the others come from seeds of
their own, from data sets the calibration does not know (Adult, COMPAS), from another regime, and from federations that
another script made. Nothing is fitted here. ``small`` takes a slice of each group, enough to see that the machinery
holds; the figures to quote are ``full``'s. Counting rules: ``flcontrib_core/detection/scoring.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.detection_paper import paper_rows
from benchmarks.detection_speed import speed_rows
from benchmarks.independent_federation import FLIP, LARGE, NOISE, SILENT, draw, record
from benchmarks.kept_runs import assess_kept, kept
from benchmarks.measurement import Measurement
from flcontrib_core.assessment.settings import AssessSettings
from flcontrib_core.contribution import assess_contributions
from flcontrib_core.detection import scoring
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibrate import CalibrationPlan, first_alerts
from flcontrib_core.detection.calibration_set import (
    ATTACK_GROUPS,
    BUNDLED,
    DRIFT_GROUP,
    HONEST_GROUPS,
    TABULAR,
    LabelledSettings,
    draw_runs,
)
from flcontrib_core.detection.labelled_history import LabelledHistory, acted_truth
from flcontrib_core.detection.online import FIRST_LOOK
from flcontrib_core.detection.scoring import RunScore
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from flcontrib_core.shapley.estimate import EstimatorSettings
from flcontrib_core.simulation.datasets import DATA_VARIABLE
from flcontrib_core.simulation.simulated_run import simulate_in_memory

FRESH = CalibrationPlan.test_base
TABLES, OTHER_REGIME, BUDGET = 5100, 5200, 5300
STRONG_FLIPS = ("flip .5", "flip .7", "flip 1")
EXACT = AssessSettings(utilities=("loss",))
HALF = AssessSettings(utilities=("loss",), budget=BudgetSettings(budget=0.5, fairness=FairnessMode.TWO_SIDED))
ESTIMATED = AssessSettings(utilities=("loss",), estimator="complementary", estimation=EstimatorSettings(evaluations=80))


@dataclass(frozen=True)
class Scale:
    """How many runs of each kind."""

    honest: int
    """per honest group of the test set"""
    drift: int
    attacks: int
    """per attack group of the test set"""
    tables: int
    """per honest group and kind of flip on Adult and COMPAS"""
    regime: int
    """per honest group and kind of flip with 30 clients"""
    independent: int
    budget: int
    replayed: int
    """per honest group, and three times as many as per kind of flip"""
    paper: int


SCALES = {
    "small": Scale(2, 2, 1, tables=1, regime=1, independent=2, budget=1, replayed=1, paper=2),
    "full": Scale(52, 40, 24, tables=16, regime=4, independent=20, budget=8, replayed=30, paper=6),
}
Scores = dict[str, list[RunScore]]


def run(scale: str) -> list[Measurement]:
    size = SCALES[scale]
    rows = speed_rows(large=scale == "full")
    rows += _test_set(size)
    rows += _online(size)
    rows += _independent(size)
    rows += _tables(size)
    rows += _other_regime(size)
    rows += _budget(size)
    return rows + paper_rows(size.paper)


def _scores(runs: Sequence[LabelledHistory], preset: str = "default") -> list[RunScore]:
    return [scoring.score_run(read_verdicts(r.history, preset, check_sensitivity=False), r.truth) for r in runs]


def _assessed(group: str, count: int, base: int, datasets: Sequence[str] = BUNDLED) -> list[LabelledHistory]:
    return [assess_kept(labelled) for labelled in draw_runs(group, count, base, datasets)]


def _number(runs: Sequence[object]) -> str:
    return f"{len(runs)} runs"


def _alarms(name: str, scores: Sequence[RunScore], goal: float) -> Measurement:
    note = f"{sum(s.alerts for s in scores)} of {len(scores)} runs"
    return Measurement(name, scoring.alerting_share(scores), goal, False, note=note)


def _found(name: str, scores: Sequence[RunScore], goal: float | None = None) -> Measurement:
    clients = [f for s in scores for f in s.found]
    return Measurement(name, scoring.recall(scores), goal, note=f"{sum(clients)} of {len(clients)} clients")


def _test_set(size: Scale) -> list[Measurement]:
    honest = [run for group in HONEST_GROUPS for run in _assessed(group, size.honest, FRESH)]
    default, strict = _scores(honest), _scores(honest, "strict")
    tables = _scores([replace(r, history=replace(r.history, channels=None)) for r in honest])
    drift = _scores(_assessed(DRIFT_GROUP, size.drift, FRESH))
    found: Scores = {group: _scores(_assessed(group, size.attacks, FRESH)) for group in ATTACK_GROUPS}
    good = [s for run, s in zip(honest, default, strict=True) if "quality" not in run.group]
    everything = [*default, *drift, *(s for group in found.values() for s in group)]
    p = np.array([x for s in everything for x in s.probabilities])
    y = np.array([float(x) for s in everything for x in s.labels])
    rows = [
        _alarms("honest runs that alert", default, 0.02),
        _alarms("honest runs that alert, strict preset", strict, 0.01),
        _alarms("honest runs that alert, read as tables", tables, 0.02),
        *(
            Measurement(f"… of them {group}", scoring.alerting_share(mine), note=_number(mine))
            for group in HONEST_GROUPS
            if (mine := [s for run, s in zip(honest, default, strict=True) if run.group == group])
        ),
        _alarms("drift runs called poisoning", drift, 0.15),
        Measurement(
            "honest runs (not low quality) with a persistently harmful client",
            float(np.mean([s.honest_persistent > 0 for s in good])),
            note=_number(good),
        ),
        Measurement("calibration error (ECE) over clients", scoring.calibration_error(p, y), 0.02, False),
    ]
    return rows + _recall_rows(found)


def _recall_rows(found: Scores) -> list[Measurement]:
    strong = [s for group in STRONG_FLIPS for s in found[group]]
    near_iid = [*strong, *found["flip .3"]]
    both = [w for s in found["two windows"] for w in s.windows_found]
    whole = [p for s in found["whole-run flip"] for p in s.persistent]
    rows = [
        Measurement("near-iid flips, p ≥ .5: F1", scoring.f1(strong), 0.95, note=_number(strong)),
        Measurement("near-iid flips, p = .3: F1", scoring.f1(found["flip .3"]), 0.88, note=_number(found["flip .3"])),
        Measurement("near-iid flips: precision", scoring.precision(near_iid), 0.97),
        Measurement("near-iid flips: mean IoU of found windows", scoring.mean_iou(near_iid), 0.80),
        _found("Dirichlet 1 and .3 flips: recall", found["Dirichlet 1 flip"] + found["Dirichlet .3 flip"], 0.70),
        _found("colluding (3 of 8): recall", found["colluding flip"], 0.88),
        _found("scaled ×5: recall", found["scale"], 0.75),
        _found("pure noise: recall", found["pure noise"], 0.85),
        _found("targeted flips: recall", found["targeted flip"], 0.85),
        _found("two windows: recall of clients", found["two windows"], 0.70),
        Measurement("two windows: recall of windows", float(np.mean(both)) if both else float("nan")),
        _found("zero, repeat, copy: recall", found["zero"] + found["repeat"] + found["copy"], 1.0),
        Measurement("whole-run flips called persistently harmful", float(np.mean(whole)), 0.95),
    ]
    for group in ("from the start", "to the end", "sign flip", "whole-run sign flip", "added noise", "noisy repeat"):
        rows.append(_found(f"{group}: recall", found[group]))
    return rows


def _online(size: Scale) -> list[Measurement]:
    """Runs read again after each epoch at the sequential threshold."""

    def replayed(group: str, count: int) -> list[LabelledHistory]:
        return [assess_kept(labelled, replay=True) for labelled in draw_runs(group, count, FRESH)]

    alarms = [bool(first_alerts(run)) for group in HONEST_GROUPS for run in replayed(group, size.replayed)]
    delays, seen = [], []
    for run in (run for group in STRONG_FLIPS for run in replayed(group, max(1, size.replayed // 3))):
        first = first_alerts(run)
        for client, windows in run.truth.items():
            began = max(windows[0][0], FIRST_LOOK)
            seen.append(first.get(client, 0) >= windows[0][0])
            if seen[-1]:
                delays.append(max(0, first[client] - began))
    note = f"{sum(alarms)} of {len(alarms)} runs"
    return [
        Measurement("online: honest runs that alert at any look", float(np.mean(alarms)), 0.03, False, note=note),
        Measurement("online: median delay", float(np.median(delays)) if delays else np.nan, 3.0, False, "epochs"),
        Measurement("online: flipping clients seen while the run grows", float(np.mean(seen)), note=f"of {len(seen)}"),
    ]


def _independent(size: Scale) -> list[Measurement]:
    """Federations of Gaussian clusters that share no code with the simulator."""

    def assessed(kind: str) -> list[LabelledHistory]:
        return [kept(f"independent {kind} {k}", lambda k=k: _recorded(kind, k)) for k in range(size.independent)]

    def _recorded(kind: str, number: int) -> LabelledHistory:
        plan = draw(kind, number)
        with tempfile.TemporaryDirectory() as folder:
            record(plan, Path(folder) / "run")
            log = read_run_log(Path(folder) / "run")
            assert isinstance(log, RunLog)
            made = LabelledHistory(kind, plan.share, assess_contributions(log, EXACT), acted_truth(log))
            log.close()
        return made

    honest = [s for kind in ("honest", "skewed", "careless") for s in _scores(assessed(kind))]
    flips = _scores(assessed(FLIP))
    return [
        _alarms("another script's runs: honest runs that alert", honest, 0.02),
        Measurement("another script's runs: flips, F1", scoring.f1(flips), 0.95, note=_number(flips)),
        Measurement("another script's runs: flips, mean IoU", scoring.mean_iou(flips), 0.80),
        _found("another script's runs: pure noise, recall", _scores(assessed(NOISE)), 0.85),
        _found("another script's runs: scaled ×5, recall", _scores(assessed(LARGE)), 0.75),
        _found("another script's runs: zero, recall", _scores(assessed(SILENT)), 1.0),
    ]


def _tables(size: Scale) -> list[Measurement]:
    """Adult and COMPAS, which the calibration has never seen."""
    if not os.environ.get(DATA_VARIABLE):
        return [Measurement(f"Adult and COMPAS: skipped, ${DATA_VARIABLE} is not set", float("nan"))]
    honest = [r for group in HONEST_GROUPS for r in _assessed(group, size.tables, TABLES, TABULAR)]
    flips = [r for group in STRONG_FLIPS for r in _assessed(group, size.tables, TABLES, TABULAR)]
    return [
        _found("Adult and COMPAS, p ≥ .5: recall", _scores(flips), 0.80),
        _found("Adult and COMPAS, p = .3: recall", _scores(_assessed("flip .3", size.tables, TABLES, TABULAR))),
        _alarms("Adult and COMPAS: honest runs that alert", _scores(honest), 0.03),
        _found("Adult and COMPAS, p ≥ .5, strict preset: recall", _scores(flips, "strict")),
        _alarms("Adult and COMPAS: honest runs that alert, strict preset", _scores(honest, "strict"), 0.03),
    ]


def _other_regime(size: Scale) -> list[Measurement]:
    """30 clients, 30 %, 60 epochs, digits, estimated values, without re-tuning."""

    def assessed(group: str) -> list[LabelledHistory]:
        drawn = draw_runs(group, size.regime, OTHER_REGIME, ("digits",), clients=30, participation=0.3, epochs=60)
        return [_assessed_with(labelled, ESTIMATED) for labelled in drawn]

    flips = [r for group in STRONG_FLIPS for r in assessed(group)]
    honest = [r for group in HONEST_GROUPS for r in assessed(group)]
    name = "30 clients, 30 %, T = 60, estimated"
    return [
        _found(f"{name}: flip recall", _scores(flips), 0.90),
        _alarms(f"{name}: honest runs that alert", _scores(honest), 0.03),
        _found(f"{name}, strict preset: flip recall", _scores(flips, "strict"), 0.90),
        _alarms(f"{name}, strict preset: honest runs that alert", _scores(honest, "strict"), 0.03),
    ]


def _assessed_with(labelled: LabelledSettings, settings: AssessSettings) -> LabelledHistory:
    def assess() -> LabelledHistory:
        log = simulate_in_memory(labelled.settings)
        history = assess_contributions(log, settings)
        return LabelledHistory(labelled.group, labelled.settings.participation, history, acted_truth(log))

    return kept(f"{labelled!r} {settings!r}", assess)


def _budget(size: Scale) -> list[Measurement]:
    """The two-sided schedule at k/T = .5 against computing every epoch, on the same runs."""
    drawn = [r for group in ("flip .3", *STRONG_FLIPS) for r in draw_runs(group, size.budget, BUDGET)]
    halves = [_assessed_with(labelled, HALF) for labelled in drawn]
    whole = _scores([_assessed_with(labelled, EXACT) for labelled in drawn])
    tables = _scores([replace(r, history=replace(r.history, channels=None)) for r in halves])
    lost = scoring.recall(whole) - scoring.recall(_scores(halves))
    return [
        Measurement("budget k/T = .5, two-sided: recall lost", lost, 0.05, False, note=_number(drawn)),
        _found("the same budget, values alone: recall", tables),
    ]

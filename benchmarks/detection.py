"""How often do verdicts find what was planted, and how often do they accuse the honest?

The main figures are read from the calibration's *test* set, which no threshold has seen; the others come from seeds of
their own, from data sets the calibration does not know (Adult, COMPAS), from another regime, from federations that
another script made, and from attacks and trainings nothing was tuned for. Nothing is fitted here. Honest runs are
counted over all of the test set's data; recall over its real data, with the made-up tables in rows of their own.
``small`` takes a slice of each group, enough to see that the machinery holds; the figures to quote are ``full``'s.
Counting rules: ``flcontrib_core/detection/scoring.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.cached_runs import assess_cached, cached
from benchmarks.detection_counting import alarms, found, number_of, scores_of
from benchmarks.detection_paper import paper_rows
from benchmarks.detection_speed import speed_rows
from benchmarks.detection_unusual import unusual_rows
from benchmarks.independent_federation import FLIP, LARGE, NOISE, SILENT, draw, record
from benchmarks.measurement import Measurement
from flcontrib_core.detection.online import FIRST_LOOK
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.laboratory import scoring
from flcontrib_core.laboratory.calibrate import CalibrationPlan, first_alerts
from flcontrib_core.laboratory.calibration_set import (
    ATTACK_GROUPS,
    BUNDLED,
    CALIBRATED,
    DRIFT_GROUP,
    HONEST_GROUPS,
    SYNTHETIC,
    TABULAR,
    LabelledSettings,
    draw_runs,
)
from flcontrib_core.laboratory.labelled_history import LabelledHistory, acted_truth
from flcontrib_core.laboratory.scoring import RunScore
from flcontrib_core.laboratory.simulation.datasets import DATA_VARIABLE
from flcontrib_core.laboratory.simulation.simulated_run import simulate_in_memory
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from flcontrib_core.shapley import Complementary

FRESH = CalibrationPlan.test_base
TABLES, OTHER_REGIME, BUDGET = 43100, 43200, 43300
STRONG_FLIPS = ("flip .5", "flip .7", "flip 1")
EXACT = AssessSettings(utilities=("loss",))
HALF = AssessSettings(utilities=("loss",), budget=BudgetSettings(budget=0.5, fairness=FairnessMode.TWO_SIDED))
ESTIMATED = AssessSettings(utilities=("loss",), estimator=Complementary(evaluations=80))


@dataclass(frozen=True)
class Scale:
    """How many runs of each kind."""

    honest: int
    """per honest group of the test set"""
    drift: int
    attacks: int
    """per attack group, on real data"""
    made_up: int
    """per attack group of the test set, of which those on made-up tables are read"""
    tables: int
    """per honest group and kind of flip on Adult and COMPAS"""
    regime: int
    """per honest group and kind of flip with 30 clients"""
    independent: int
    budget: int
    replayed: int
    """per honest group, and three times as many as per kind of flip"""
    paper: int
    unusual: tuple[int, int]
    """per honest group and setting, and per kind of attack, outside the calibrated world"""


SCALES = {
    "small": Scale(2, 2, 1, 2, tables=1, regime=1, independent=2, budget=1, replayed=1, paper=1, unusual=(1, 1)),
    "full": Scale(44, 40, 24, 16, tables=16, regime=9, independent=20, budget=8, replayed=30, paper=6, unusual=(3, 6)),
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
    rows += unusual_rows(*size.unusual)
    return rows + paper_rows(size.paper)


def _assessed(
    group: str, count: int, base: int, datasets: Sequence[str] = CALIBRATED, replay: bool = False
) -> list[LabelledHistory]:
    return [assess_cached(labelled, replay) for labelled in draw_runs(group, count, base, datasets)]


def _made_up(group: str, count: int) -> list[LabelledHistory]:
    """Those of the first ``count`` runs of a group of the test set that were trained on made-up tables."""
    drawn = draw_runs(group, count, FRESH, CALIBRATED)
    return [assess_cached(r, group in STRONG_FLIPS) for r in drawn if r.settings.dataset == SYNTHETIC]


def _test_set(size: Scale) -> list[Measurement]:
    honest = [run for group in HONEST_GROUPS for run in _assessed(group, size.honest, FRESH, replay=True)]
    default, strict = scores_of(honest), scores_of(honest, "strict")
    tables = scores_of([replace(r, history=replace(r.history, channels=None)) for r in honest])
    drift = scores_of(_assessed(DRIFT_GROUP, size.drift, FRESH))
    real: Scores = {
        group: scores_of(_assessed(group, size.attacks, FRESH, BUNDLED, replay=group in STRONG_FLIPS))
        for group in ATTACK_GROUPS
    }
    made_up: Scores = {group: scores_of(_made_up(group, size.made_up)) for group in ATTACK_GROUPS}
    good = [s for run, s in zip(honest, default, strict=True) if "quality" not in run.group]
    everything = [*default, *drift, *(s for part in (real, made_up) for group in part.values() for s in group)]
    p = np.array([x for s in everything for x in s.probabilities])
    y = np.array([float(x) for s in everything for x in s.labels])
    rows = [
        alarms("honest runs that alert", default, 0.02),
        alarms("honest runs that alert, strict preset", strict, 0.01),
        alarms("honest runs that alert, read as tables", tables, 0.02),
        *(
            Measurement(f"… of them {group}", scoring.alerting_share(mine), note=number_of(mine))
            for group in HONEST_GROUPS
            if (mine := [s for run, s in zip(honest, default, strict=True) if run.group == group])
        ),
        alarms("drift runs called poisoning", drift, 0.15),
        Measurement(
            "honest runs (not low quality) with a persistently harmful client",
            float(np.mean([s.honest_persistent > 0 for s in good])),
            note=number_of(good),
        ),
        Measurement("calibration error (ECE) over clients", scoring.calibration_error(p, y), 0.02, False),
    ]
    return rows + _recall_rows(real) + _made_up_rows(made_up)


def _made_up_rows(scores: Scores) -> list[Measurement]:
    strong = [s for group in STRONG_FLIPS for s in scores[group]]
    rest = [s for group, mine in scores.items() if group not in STRONG_FLIPS for s in mine]
    return [
        found("made-up tables: flips, p ≥ .5, recall", strong),
        found("made-up tables: all other attacks, recall", rest),
    ]


def _recall_rows(scores: Scores) -> list[Measurement]:
    strong = [s for group in STRONG_FLIPS for s in scores[group]]
    near_iid = [*strong, *scores["flip .3"]]
    both = [w for s in scores["two windows"] for w in s.windows_found]
    whole = [p for s in scores["whole-run flip"] for p in s.persistent]
    rows = [
        Measurement("near-iid flips, p ≥ .5: F1", scoring.f1(strong), 0.95, note=number_of(strong)),
        Measurement(
            "near-iid flips, p = .3: F1", scoring.f1(scores["flip .3"]), 0.88, note=number_of(scores["flip .3"])
        ),
        Measurement("near-iid flips: precision", scoring.precision(near_iid), 0.97),
        Measurement("near-iid flips: mean IoU of found windows", scoring.mean_iou(near_iid), 0.80),
        found("Dirichlet 1 and .3 flips: recall", scores["Dirichlet 1 flip"] + scores["Dirichlet .3 flip"], 0.70),
        found("colluding (3 of 8): recall", scores["colluding flip"], 0.88),
        found("scaled ×5: recall", scores["scale"], 0.75),
        found("pure noise: recall", scores["pure noise"], 0.85),
        found("targeted flips: recall", scores["targeted flip"], 0.85),
        found("two windows: recall of clients", scores["two windows"], 0.70),
        Measurement("two windows: recall of windows", float(np.mean(both)) if both else float("nan")),
        found("zero, repeat, copy: recall", scores["zero"] + scores["repeat"] + scores["copy"], 1.0),
        Measurement("whole-run flips called persistently harmful", float(np.mean(whole)), 0.95),
    ]
    for group in ("from the start", "to the end", "sign flip", "whole-run sign flip", "added noise", "noisy repeat"):
        rows.append(found(f"{group}: recall", scores[group]))
    return rows


def _online(size: Scale) -> list[Measurement]:
    """Runs read again after each epoch at the sequential threshold."""

    def replayed(group: str, count: int) -> list[LabelledHistory]:
        return _assessed(group, count, FRESH, replay=True)

    loud = [bool(first_alerts(run)) for group in HONEST_GROUPS for run in replayed(group, size.replayed)]
    delays, seen = [], []
    for run in (run for group in STRONG_FLIPS for run in replayed(group, max(1, size.replayed // 3))):
        first = first_alerts(run)
        for client, windows in run.truth.items():
            began = max(windows[0][0], FIRST_LOOK)
            seen.append(first.get(client, 0) >= windows[0][0])
            if seen[-1]:
                delays.append(max(0, first[client] - began))
    note = f"{sum(loud)} of {len(loud)} runs"
    return [
        Measurement("online: honest runs that alert at any look", float(np.mean(loud)), 0.03, False, note=note),
        Measurement("online: median delay", float(np.median(delays)) if delays else np.nan, 3.0, False, "epochs"),
        Measurement("online: flipping clients seen while the run grows", float(np.mean(seen)), note=f"of {len(seen)}"),
    ]


def _independent(size: Scale) -> list[Measurement]:
    """Federations of Gaussian clusters that share no code with the simulator."""

    def assessed(kind: str) -> list[LabelledHistory]:
        return [cached(f"independent {kind} {k}", lambda k=k: _recorded(kind, k)) for k in range(size.independent)]

    def _recorded(kind: str, number: int) -> LabelledHistory:
        plan = draw(kind, number)
        with tempfile.TemporaryDirectory() as folder:
            record(plan, Path(folder) / "run")
            log = read_run_log(Path(folder) / "run")
            assert isinstance(log, RunLog)
            made = LabelledHistory(kind, plan.share, assess_contributions(log, EXACT), acted_truth(log))
            log.close()
        return made

    honest = [s for kind in ("honest", "skewed", "careless") for s in scores_of(assessed(kind))]
    flips = scores_of(assessed(FLIP))
    return [
        alarms("another script's runs: honest runs that alert", honest, 0.02),
        Measurement("another script's runs: flips, F1", scoring.f1(flips), 0.95, note=number_of(flips)),
        Measurement("another script's runs: flips, mean IoU", scoring.mean_iou(flips), 0.80),
        found("another script's runs: pure noise, recall", scores_of(assessed(NOISE)), 0.85),
        found("another script's runs: scaled ×5, recall", scores_of(assessed(LARGE)), 0.75),
        found("another script's runs: zero, recall", scores_of(assessed(SILENT)), 1.0),
    ]


def _tables(size: Scale) -> list[Measurement]:
    """Adult and COMPAS, which the calibration has never seen."""
    if not os.environ.get(DATA_VARIABLE):
        return [Measurement(f"Adult and COMPAS: skipped, ${DATA_VARIABLE} is not set", float("nan"))]
    honest = [r for group in HONEST_GROUPS for r in _assessed(group, size.tables, TABLES, TABULAR)]
    flips = [r for group in STRONG_FLIPS for r in _assessed(group, size.tables, TABLES, TABULAR)]
    return [
        found("Adult and COMPAS, p ≥ .5: recall", scores_of(flips), 0.80),
        found("Adult and COMPAS, p = .3: recall", scores_of(_assessed("flip .3", size.tables, TABLES, TABULAR))),
        alarms("Adult and COMPAS: honest runs that alert", scores_of(honest), 0.03),
        found("Adult and COMPAS, p ≥ .5, strict preset: recall", scores_of(flips, "strict")),
        alarms("Adult and COMPAS: honest runs that alert, strict preset", scores_of(honest, "strict"), 0.03),
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
        found(f"{name}: flip recall", scores_of(flips), 0.90),
        alarms(f"{name}: honest runs that alert", scores_of(honest), 0.03),
        found(f"{name}, strict preset: flip recall", scores_of(flips, "strict"), 0.90),
        alarms(f"{name}, strict preset: honest runs that alert", scores_of(honest, "strict"), 0.03),
    ]


def _assessed_with(labelled: LabelledSettings, settings: AssessSettings) -> LabelledHistory:
    def assess() -> LabelledHistory:
        log = simulate_in_memory(labelled.settings)
        history = assess_contributions(log, settings)
        return LabelledHistory(labelled.group, labelled.settings.participation, history, acted_truth(log))

    return cached(f"{labelled!r} {settings!r}", assess)


def _budget(size: Scale) -> list[Measurement]:
    """The two-sided schedule at k/T = .5 against computing every epoch, on the same runs."""
    drawn = [r for group in ("flip .3", *STRONG_FLIPS) for r in draw_runs(group, size.budget, BUDGET)]
    halves = [_assessed_with(labelled, HALF) for labelled in drawn]
    whole = scores_of([_assessed_with(labelled, EXACT) for labelled in drawn])
    tables = scores_of([replace(r, history=replace(r.history, channels=None)) for r in halves])
    lost = scoring.recall(whole) - scoring.recall(scores_of(halves))
    return [
        Measurement("budget k/T = .5, two-sided: recall lost", lost, 0.05, False, note=number_of(drawn)),
        found("the same budget, values alone: recall", tables),
    ]

"""What happens outside the world the thresholds were measured in: other attacks, private updates, convolutional nets?

Nothing here was used for tuning and no goal is set: the rows say how far the reading carries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchmarks.cached_runs import assess_cached
from benchmarks.detection_counting import alarms, found, scores_of
from benchmarks.measurement import Measurement
from flcontrib_core.laboratory.calibration_set import BUNDLED, HONEST_GROUPS, LabelledSettings, draw_runs
from flcontrib_core.laboratory.labelled_history import LabelledHistory
from flcontrib_core.laboratory.simulation.settings import AttackKind, ModelKind, Privacy

BASE = 43400
CLIP = 1.0
NOISES = (0.1, 0.3, 1.0)
CNN = {
    "model": ModelKind.CNN,
    "width": 8,
    "clients": 6,
    "participation": 1.0,
    "epochs": 20,
    "train_rows": 600,
    "validation_rows": 150,
    "optimizer": "sgd",
    "lr": 0.05,
    "batch": 16,
}


def unusual_rows(honest: int, flips: int) -> list[Measurement]:
    """``honest`` runs per honest group and setting, ``flips`` per kind of attack."""
    return [*_attacks(flips), *_private(honest, flips), *_convolutional(honest, flips)]


def _assessed(runs: Iterable[LabelledSettings]) -> list[LabelledHistory]:
    return [assess_cached(labelled) for labelled in runs]


def _attacks(flips: int) -> list[Measurement]:
    slow = [
        *draw_runs("flip .7", flips, BASE, BUNDLED, ramp=True),
        *draw_runs("flip 1", flips, BASE, BUNDLED, ramp=True),
    ]
    rows = [found("flips that grow over their window (ramp): recall", scores_of(_assessed(slow)))]
    for kind, strength, name in (
        (AttackKind.HIDDEN_FLIP, 1.0, "flips hidden among the others' updates: recall"),
        (AttackKind.BACKDOOR, 0.5, "backdoors: recall"),
    ):
        drawn = draw_runs("flip 1", 2 * flips, BASE + 1, BUNDLED)
        changed = [replace(d, settings=replace(d.settings, attack=kind, strength=strength)) for d in drawn]
        rows.append(found(name, scores_of(_assessed(changed))))
    return rows


def _private(honest: int, flips: int) -> list[Measurement]:
    rows = []
    for noise in NOISES:
        private = Privacy(noise, CLIP)
        runs = [r for group in HONEST_GROUPS for r in draw_runs(group, honest, BASE + 2, BUNDLED, privacy=private)]
        assessed = _assessed(runs)
        rows.append(alarms(f"privacy noise {noise:g} × clip: honest runs that alert", scores_of(assessed)))
        poisoned = _assessed(draw_runs("flip 1", flips, BASE + 3, BUNDLED, privacy=private))
        rows.append(found(f"privacy noise {noise:g} × clip: flips, p = 1, recall", scores_of(poisoned)))
    return rows


def _convolutional(honest: int, flips: int) -> list[Measurement]:
    runs = [r for group in HONEST_GROUPS for r in draw_runs(group, honest, BASE + 4, ("digits",), **CNN)]
    poisoned = [r for group in ("flip .7", "flip 1") for r in draw_runs(group, flips, BASE + 5, ("digits",), **CNN)]
    return [
        alarms("convolutional nets: honest runs that alert", scores_of(_assessed(runs))),
        found("convolutional nets: flips, p ≥ .7, recall", scores_of(_assessed(poisoned))),
    ]

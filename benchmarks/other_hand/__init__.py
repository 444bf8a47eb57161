"""How does the detector do on federations of another make? Drawn, trained, audited and counted without knowing it.

Data, splits, training loops, honest changes and attacks of this package share no code with the detector or with the
simulator that it was calibrated on. ``small`` makes a handful of runs of either half, ``full`` 300 of each.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.other_hand.examining import HALVES, examined, make_runs, seeds_of
from benchmarks.other_hand.scoring import (
    Pairs,
    expected_calibration_error,
    found,
    grouped,
    interval,
    overlaps,
    wrongly_accused_runs,
)


def run(scale: str) -> list[Measurement]:
    """Accused innocents and found attackers in both halves; ``python -m benchmarks.other_hand`` keeps the runs."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for half in HALVES:
            seeds = seeds_of(half, 300 if scale == "full" else 6)
            make_runs(Path(scratch), seeds)
            rows += _measured(half, examined(Path(scratch), seeds))
    return rows


def _measured(half: str, pairs: Pairs) -> list[Measurement]:
    counts = {f"{kind} runs with an innocent accused": wrongly_accused_runs(some)
              for kind, some in grouped(pairs, lambda truth: [truth["kind"]]).items()}  # fmt: skip
    counts["attackers found"] = found(pairs)
    rows = []
    for name, (hits, of) in counts.items():
        low, high = interval(hits, of) if of else (0.0, 1.0)
        rows.append(
            Measurement(f"{half}: {name}", hits / max(1, of), note=f"{hits} of {of}, 95 %: {low:.3f}–{high:.3f}")
        )
    error, clients = expected_calibration_error(pairs)
    windows = overlaps(pairs)
    rows.append(Measurement(f"{half}: calibration error", error, note=f"{clients} clients"))
    return [
        *rows,
        Measurement(f"{half}: window overlap", sum(windows) / max(1, len(windows)), note=f"{len(windows)} found"),
    ]

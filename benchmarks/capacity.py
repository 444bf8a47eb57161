"""Is what ``flcontrib price`` says about other sizes true? Two federations are predicted from a small one and then run.

The base is eight clients, a model of 25 000 parameters and a few epochs. One prediction is for ten times the clients
and thrice the epochs, the other for twenty times the parameters; both are then assessed, and CPU time and bytes
of the log stand beside what was said, as ``--federation clients,participants,epochs,LOG`` asks for it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.scale import Case, record
from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.capacity import capacity, federation_with
from flcontrib_core.history.measurement import RunMeasurement, measure
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

BASE = Case("base", (64, 256, 32, 10), 300, 8, 8, 4)
POINTS = (
    Case("80 clients, 10 of them in each of 12 epochs", (64, 256, 32, 10), 300, 80, 10, 12),
    Case("20 times the parameters", (512, 896, 64, 10), 300, 8, 8, 4),
)
GOAL = 2.0
"""A prediction is good for a plan where it is within a factor of two."""


def run(scale: str) -> list[Measurement]:
    """The same at every scale: it takes a minute or two."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        base = measure(_recorded(BASE, Path(place) / "base"))
        assess_contributions(_recorded(BASE, Path(place) / "warm"))  # imports and first calls are nobody's price
        for case in POINTS:
            found += _compared(base, case, Path(place) / case.name)
    return found


def _compared(base: RunMeasurement, case: Case, folder: Path) -> list[Measurement]:
    log = _recorded(case, folder)
    said = capacity(base, federation_with(log, case.clients, case.participants, case.epochs))
    began = time.process_time()
    assess_contributions(log)
    spent, wanted = time.process_time() - began, said.core_hours * 3600
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    off = max(spent / wanted, wanted / spent)
    note = f"{wanted:.1f} s said, {spent:.1f} s CPU taken"
    bytes_off = max(size / said.log_bytes, said.log_bytes / size)
    told = f"{said.log_bytes / 1e6:.1f} MB said, {size / 1e6:.1f} MB on disk"
    return [
        Measurement(f"{case.name}: CPU beside the prediction", off, GOAL, False, "×", note),
        Measurement(f"{case.name}: log beside the prediction", bytes_off, 1.1, False, "×", told),
    ]


def _recorded(case: Case, folder: Path) -> RunLog:
    folder.mkdir(parents=True)
    record(case, folder)
    log = read_run_log(folder / "run")
    assert isinstance(log, RunLog)
    return log

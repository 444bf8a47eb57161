"""What does following a growing log cost, look by look?

A log of two gigabytes is recorded, and uncovered epoch by epoch as a recorder would write it. Each look is the one of
``flcontrib watch`` and of the dashboard's live view, with a workspace's memory. CPU of a look without news; CPU of a
look with one new epoch beside the part of it that assesses the epoch (its numbers fetched, values, observations).
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks.measurement import Measurement
from benchmarks.scale import Case, record
from flcontrib_core.history import epoch_stream, epoch_work

if TYPE_CHECKING:
    from flcontrib_core.history.assess import Computing

FULL = Case("2 GB", (784, 600, 200, 10), 100, 8, 8, 112)
SMALL = Case("200 MB", (784, 600, 200, 10), 100, 8, 8, 11)
LOOKS = 4


def run(scale: str) -> list[Measurement]:
    """``small`` takes a log of a tenth."""
    from flcontrib_core.auditing import LiveAudit
    from flcontrib_core.workspace import Workspace

    case = FULL if scale == "full" else SMALL
    with tempfile.TemporaryDirectory() as place:
        record(case, Path(place))
        grow, size = _uncovered(Path(place) / "run", Path(place) / "growing", LOOKS)
        with Workspace(Path(place) / "workspace") as workspace:
            kept = {"checkpoints": workspace.checkpoints(), "memory": workspace.utility_memory()}
            live = LiveAudit(Path(place) / "growing")

            def look() -> bool:
                return live.look(lambda run: cast("Computing", kept)) is not None

            first = _cpu(look)
            idle = [_cpu(look) for _ in range(20)]
            news, alone = [], []
            for _ in range(LOOKS):
                grow()
                with _assessments() as spent:
                    news.append(_cpu(look))
                alone.append(sum(spent))
    name = f"a growing log of {size / 1e9:.1f} GB"
    note = f"{case.epochs} epochs of {case.participants}; the first look took {first:.1f} s"
    ratio = statistics.median(n / a for n, a in zip(news, alone, strict=True))
    told = f"{statistics.median(news):.2f} s and {statistics.median(alone):.2f} s"
    return [
        Measurement(f"{name}: CPU of a look without news", statistics.median(idle) * 1e3, 20.0, False, "ms", note),
        Measurement(f"{name}: look with one new epoch over assessing that epoch", ratio, 1.1, False, "×", told),
    ]


@contextmanager
def _assessments() -> Iterator[list[float]]:
    """The CPU of every epoch that is assessed meanwhile in this process."""
    spent: list[float] = []
    real = epoch_work.assess_epoch

    def timed(bench: Any, task: Any) -> Any:
        began = time.process_time()
        answer = real(bench, task)
        spent.append(time.process_time() - began)
        return answer

    vars(epoch_stream)["assess_epoch"] = timed
    try:
        yield spent
    finally:
        vars(epoch_stream)["assess_epoch"] = real


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _uncovered(log: Path, growing: Path, left: int) -> tuple[Callable[[], None], int]:
    """A copy of the log without its last epochs, what adds the next of them, and the whole log's bytes."""
    (growing / "epochs").mkdir(parents=True)
    for file in log.iterdir():
        if file.is_file() and file.name != "epochs.jsonl":
            os.link(file, growing / file.name)
    files = sorted(p.name for p in (log / "epochs").iterdir())
    waiting = iter(zip(files, (log / "epochs.jsonl").read_bytes().splitlines(keepends=True), strict=True))

    def grow() -> None:
        name, line = next(waiting)
        os.link(log / "epochs" / name, growing / "epochs" / name)
        with (growing / "epochs.jsonl").open("ab") as lines:
            lines.write(line)

    for _ in range(len(files) - left):
        grow()
    return grow, sum(p.stat().st_size for p in log.rglob("*") if p.is_file())

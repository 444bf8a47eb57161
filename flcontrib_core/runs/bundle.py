"""Reading a log: here untrusted bytes enter, and nowhere else.

``read_run_log`` opens a run directory, a ``.flrun`` zip, or a CSV or Parquet table, and either gives a run whose every
part was checked or raises ``RunLogError`` with all the problems it found. ``check_run_log`` gives the same answer as a
value. Nothing is unpickled, imported, evaluated or extracted, and every size is capped before memory is taken.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.bundle_reader import BundleReader, NonFinite
from flcontrib_core.runs.containers import Container, DirectoryContainer, unreadable
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.problems import MAX_PROBLEMS, EnoughProblems, Findings, refusal
from flcontrib_core.runs.run_log import ContributionTable, Run, RunLog, UtilityTable, participants_per_epoch
from flcontrib_core.runs.tensors import is_pickled
from flcontrib_core.runs.zip_container import ZipContainer

STAGES = ("received", "archive safe", "manifest", "shapes", "values", "cross-checks", "ready")
"""What the listener of a reading hears, each name once, when that much is known to be in order."""

OnStage = Callable[[str], None]
_TABLES = ("csv", "parquet")


@dataclass(frozen=True)
class CheckResult:
    """What is this log, or what is wrong with it? (The JSON of ``flcontrib check``.)"""

    ok: bool
    digest: str | None
    clients: tuple[str, ...]
    epochs: int
    participants: tuple[int, ...]
    """Per epoch 1..T."""
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self) | {
            "clients": list(self.clients),
            "participants": list(self.participants),
            "errors": [problem.to_json() for problem in self.errors],
            "warnings": [problem.to_json() for problem in self.warnings],
        }


def read_run_log(
    path: str | Path,
    *,
    nonfinite: NonFinite = "refuse",
    lower_is_better: Sequence[str] = (),
    on_stage: OnStage | None = None,
    previous: RunLog | None = None,
) -> RunLog | ContributionTable | UtilityTable:
    """Which run lies at this path? A directory, a ``.flrun`` zip, or a CSV or Parquet table.

    ``nonfinite="absent"`` takes clients whose update is not finite out of that epoch and records it as evidence.
    ``lower_is_better`` names utility columns of a table for which smaller is better (``loss`` always is).
    ``previous``: an earlier reading of the same growing directory; files that are unchanged since are not read again,
    and where nothing is new, ``previous`` itself is returned.

    Raises ``RunLogError`` with every problem found (first 50).
    """
    attempt = _Attempt(Path(path), nonfinite, lower_is_better, on_stage, previous)
    run = attempt.run()
    if run is None:
        raise RunLogError(tuple(attempt.findings.errors[:MAX_PROBLEMS]))
    return run


def check_run_log(
    path: str | Path,
    *,
    nonfinite: NonFinite = "refuse",
    lower_is_better: Sequence[str] = (),
    on_stage: OnStage | None = None,
) -> CheckResult:
    """Would this log be accepted, and what should be known about it? Never raises because of what the file holds."""
    attempt = _Attempt(Path(path), nonfinite, lower_is_better, on_stage, None)
    run = attempt.run()
    if run is None:
        return replace(attempt.partial(), errors=tuple(attempt.findings.errors[:MAX_PROBLEMS]))
    if isinstance(run, RunLog):
        run.close()
    ids = run.client_ids
    counts = tuple(participants_per_epoch(run))
    return CheckResult(True, run.digest, ids, run.epoch_count, counts, (), run.warnings)


class _Attempt:
    """One reading: the findings so far and, when it fails, what could be read nevertheless."""

    def __init__(
        self,
        path: Path,
        nonfinite: NonFinite,
        lower_is_better: Sequence[str],
        on_stage: OnStage | None,
        previous: RunLog | None,
    ) -> None:
        if nonfinite not in ("refuse", "absent"):
            raise ValueError(f"nonfinite must be 'refuse' or 'absent', not {nonfinite!r}")
        self._path = path
        self._nonfinite: NonFinite = nonfinite
        self._lower_is_better = lower_is_better
        self._on_stage = on_stage
        self._previous = previous
        self._reader: BundleReader | None = None
        self.findings = Findings()

    def run(self) -> Run | None:
        try:
            return self._read()
        except RunLogError as refused:
            self.findings.errors += refused.problems
        except EnoughProblems:
            pass
        return None

    def partial(self) -> CheckResult:
        clients: tuple[str, ...] = ()
        counts: tuple[int, ...] = ()
        if self._reader is not None and self._reader.manifest is not None:
            clients = tuple(client.id for client in self._reader.manifest.clients)
            counts = tuple(len(record.participants) for record in self._reader.records)
        return CheckResult(False, None, clients, len(counts), counts, (), ())

    def _passed(self, stage: str) -> None:
        if self._on_stage is not None and not self.findings.errors:
            self._on_stage(stage)

    def _read(self) -> Run | None:
        kind = _kind(self._path)
        self._passed("received")
        if kind in _TABLES:
            from flcontrib_core.runs.tables import read_table

            return read_table(self._path, kind, self._nonfinite, self._lower_is_better, self._passed, self.findings)
        container = DirectoryContainer(self._path) if kind == "directory" else ZipContainer(self._path)
        if self._previous is not None and self._is_as_before(container, self._previous):
            return self._previous
        run = None
        try:
            reader = BundleReader(container, self._path.stem, self._nonfinite, self._previous, self.findings)
            self._reader = reader
            run = self._read_bundle(reader)
        finally:
            if run is None:
                container.close()
        return run

    def _is_as_before(self, container: Container, previous: RunLog) -> bool:
        """Is there nothing new since the earlier reading? Then that is the answer, and every stage is passed."""
        source = previous.source
        if not isinstance(container, DirectoryContainer) or not isinstance(source, BundleSource):
            return False
        if source.nonfinite != self._nonfinite or not container.same_as(source.container):
            return False
        for stage in STAGES[1:]:
            self._passed(stage)
        return True

    def _read_bundle(self, reader: BundleReader) -> RunLog | None:
        reader.check_names()
        self._passed("archive safe")
        for stage, step in (
            ("manifest", reader.read_texts),
            ("shapes", reader.read_layouts),
            ("values", reader.read_values),
            ("cross-checks", reader.cross_check),
        ):
            step()
            self._passed(stage)
        if self.findings.errors:
            return None
        run = reader.run_log(str(self._path))
        self._passed("ready")
        return run


def is_table(path: Path) -> bool:
    """Is the file at this path read as a table, of values or of utilities, and not as a log of updates?"""
    return _kind(path) in _TABLES


def _kind(path: Path) -> str:
    """Directory, zip, csv or parquet – by what the file is, then by its name."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return "directory"
        if not stat.S_ISREG(status.st_mode):
            raise refusal("E_FILE_TYPE", str(path), "a pipe or device")
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError:
        raise refusal("E_MISSING:path", str(path), "no such file") from None
    except (OSError, ValueError) as bad:
        raise unreadable(path, bad) from None
    suffix = path.suffix.lower()
    if head.startswith(b"PK\3\4"):
        return "zip"
    if suffix == ".parquet" or head.startswith(b"PAR1"):
        return "parquet"
    if suffix == ".csv":
        return "csv"
    if is_pickled(head) or suffix in (".pkl", ".pickle", ".joblib"):
        raise refusal("E_PICKLE", str(path), "a pickle or object array")
    return "zip"

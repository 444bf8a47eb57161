"""What a job is, the states it can be in, and how its row is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from flcontrib_core.codec import decode
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.provenance import digest_of
from flcontrib_core.workspace.audit_log import LogEntry
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.job_status import JobStatus, Progress, read_status

SUBMITTED = "job-submitted"
"""The log entry that asks a job's question: its id, kind, settings and limits; the run is its subject."""


class JobState(StrEnum):
    """Where a job stands; every end has a name of its own."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    PAUSED_NO_SPACE = "paused-no-space"
    REFUSED_COST = "refused-cost"


RESUMABLE = frozenset(
    {JobState.FAILED, JobState.CANCELLED, JobState.LOST, JobState.PAUSED_NO_SPACE, JobState.REFUSED_COST}
)


@dataclass(frozen=True)
class Job:
    """A job as it is now."""

    id: str
    sequence: int
    kind: str
    run_digest: str
    settings: dict[str, Any]
    limits: ProcessLimits
    state: JobState
    attempt: int
    progress: Progress | None
    error: str
    result: str | None
    """Digest of the result its runner returned."""
    version: str
    seconds: float
    """Of all attempts together, by a clock that never jumps."""
    submitted_at: str
    queue_position: int | None = None
    """1 = next among the waiting"""

    @property
    def active(self) -> bool:
        """Does it wait or run?"""
        return self.state in (JobState.QUEUED, JobState.RUNNING)

    @property
    def resumable(self) -> bool:
        """Did it stop short, so that it can go on?"""
        return self.state in RESUMABLE


def job_identity(kind: str, run_digest: str, settings: Mapping[str, Any]) -> str:
    """One job per question: the same kind, run and settings are the same job."""
    return digest_of([kind, run_digest, dict(settings)])[:32]


def status_path(folder: Path, job_id: str) -> Path:
    """Where a job's worker says how it is."""
    return folder / job_id / "status"


def status_of(folder: Path, job_id: str) -> tuple[JobStatus, bool]:
    """What the worker says, and whether it lives; an empty status where there is no file."""
    try:
        return read_status(status_path(folder, job_id))
    except FileNotFoundError:
        return JobStatus(), False


def job_from_row(row: sqlite3.Row, folder: Path) -> Job:
    """A row of ``asked`` together with what the worker itself says: a dead worker's job is not running."""
    asked = LogEntry.of(row)
    status, alive = status_of(folder, row["id"])
    state, error, result, seconds = JobState(row["state"]), row["error"], row["result"], row["seconds"]
    current = status.attempt == row["attempt"] > 0
    if state is JobState.RUNNING:
        seconds += status.seconds if current else 0.0
        if not alive and current and status.outcome is not None:
            state, error, result = JobState(status.outcome), status.error, status.result
        elif not alive:
            state, error = JobState.LOST, _last_words(status)
    return Job(
        id=row["id"],
        sequence=row["sequence"],
        kind=asked.body["kind"],
        run_digest=asked.subject,
        settings=asked.body["settings"],
        limits=decode(ProcessLimits, asked.body["limits"]),
        state=state,
        attempt=row["attempt"],
        progress=status.progress if current else None,
        error=error,
        result=result,
        version=row["version"],
        seconds=seconds,
        submitted_at=asked.body.get("submitted_at", asked.at),
    )


def enter_job(transaction: Transaction, asked: LogEntry, state: JobState, status: JobStatus) -> None:
    """Enters the job of a log entry that asked for one."""
    transaction.execute(
        "INSERT OR IGNORE INTO jobs (id, sequence, place, state, attempt, error, result, version, seconds) "
        "VALUES (?, ?, coalesce((SELECT max(place) FROM jobs), 0) + 1, ?, ?, ?, ?, ?, ?)",
        (
            asked.body["id"],
            asked.sequence,
            state.value,
            status.attempt,
            status.error,
            status.result,
            asked.body["version"],
            0.0 if state is JobState.RUNNING else status.seconds,
        ),
    )


def restore_jobs(transaction: Transaction, folder: Path) -> int:
    """Enters every job that the log asked for into a rebuilt index; returns how many."""
    rows = transaction.execute("SELECT entry, hash FROM standing WHERE kind = ? ORDER BY sequence", (SUBMITTED,))
    for row in rows:
        asked = LogEntry.of(row)
        status, _ = status_of(folder, asked.body["id"])
        unknown = JobState.RUNNING if status.attempt else JobState.QUEUED
        if not status_path(folder, asked.body["id"]).exists():
            unknown = JobState.LOST  # with its desk gone nobody knows how it went: it is not started by itself
        enter_job(transaction, asked, JobState(status.outcome or unknown), status)
    return len(rows)


def _last_words(status: JobStatus) -> str:
    where = "" if status.progress is None else f" at {status.progress.done} of {status.progress.total}"
    return (
        f"the worker (process {status.pid or 'not started'}) ended without a word{where}: killed, out of memory, or "
        "the machine restarted. Finished epochs are kept; resume continues after them"
    )

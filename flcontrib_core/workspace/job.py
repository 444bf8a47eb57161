"""What is a job, which states can it be in, and how is its row read?"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from flcontrib_core.workspace.faults import DamagedIndex
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.job_status import JobStatus, Progress, read_status
from flcontrib_core.workspace.provenance import canonical_json, digest_of, software_version


class JobState(StrEnum):
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
class JobLimits:
    """Ceilings of one worker process (each process it starts gets the same)."""

    memory_bytes: int | None = None
    """None = three quarters of the machine's memory"""
    cpu_seconds: int = 48 * 3600
    file_bytes: int = 64 << 30
    niceness: int = 10


@dataclass(frozen=True)
class Job:
    """A job as it is now."""

    id: str
    sequence: int
    kind: str
    run_digest: str
    settings: dict[str, Any]
    limits: JobLimits
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
        return self.state in (JobState.QUEUED, JobState.RUNNING)

    @property
    def resumable(self) -> bool:
        return self.state in RESUMABLE

    @property
    def stale(self) -> bool:
        return self.version != software_version()


def job_identity(kind: str, run_digest: str, settings: Mapping[str, Any]) -> str:
    """One job per question: the same kind, run and settings are the same job."""
    return digest_of([kind, run_digest, dict(settings)])[:32]


def status_path(folder: Path, job_id: str) -> Path:
    return folder / job_id / "status"


def status_of(folder: Path, job_id: str) -> tuple[JobStatus, bool]:
    """What the worker says, and whether it lives; an empty status where there is no file."""
    try:
        return read_status(status_path(folder, job_id))
    except FileNotFoundError:
        return JobStatus(), False


def look_at(row: sqlite3.Row, folder: Path) -> Job:
    """A row of the index together with what the worker itself says: a dead worker's job is not running."""
    settings = _settings_in(row)
    if settings is None:
        raise DamagedIndex(
            f"job {row['id']} was changed in the index; open the workspace again to restore it from its folder"
        )
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
        kind=row["kind"],
        run_digest=row["run"],
        settings=settings,
        limits=JobLimits(**json.loads(row["limits"])),
        state=state,
        attempt=row["attempt"],
        progress=status.progress if current else None,
        error=error,
        result=result,
        version=row["version"],
        seconds=seconds,
        submitted_at=row["submitted_at"],
    )


def changed_job(index: Transaction) -> str | None:
    """The first job whose row is not the question that was submitted, in words; None when all are."""
    for row in index.execute("SELECT id, kind, run, settings FROM jobs"):
        if _settings_in(row) is None:
            return f"job {row['id']} was changed in the index"
    return None


def insert_job(
    transaction: Transaction, identity: str, described: Mapping[str, Any], state: JobState, status: JobStatus
) -> None:
    """Enters a job as ``job.json`` describes it."""
    transaction.execute(
        "INSERT INTO jobs (id, sequence, place, kind, run, settings, limits, state, attempt, error, result, version, "
        "seconds, submitted_at) "
        "VALUES (?, ?, coalesce((SELECT max(place) FROM jobs), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            identity,
            described["sequence"],
            described["kind"],
            described["run"],
            canonical_json(described["settings"]),
            canonical_json(described["limits"]),
            state.value,
            status.attempt,
            status.error,
            status.result,
            described["version"],
            0.0 if state is JobState.RUNNING else status.seconds,
            described["submitted_at"],
        ),
    )


def restore_jobs(transaction: Transaction, folder: Path) -> int:
    """Enters every job that has a folder into a rebuilt index; returns how many."""
    found = []
    for path in folder.glob("*/job.json"):
        described = json.loads(path.read_bytes())
        if path.parent.name == job_identity(described["kind"], described["run"], described["settings"]):
            found.append((described["sequence"], path.parent.name, described))
    for _, identity, described in sorted(found, key=lambda job: job[0]):
        status, _ = status_of(folder, identity)
        unknown = JobState.RUNNING if status.attempt else JobState.QUEUED
        insert_job(transaction, identity, described, JobState(status.outcome or unknown), status)
    return len(found)


def _settings_in(row: sqlite3.Row) -> dict[str, Any] | None:
    """The settings of a job, which its name must confirm."""
    try:
        settings: dict[str, Any] = json.loads(row["settings"])
    except ValueError:
        return None
    return settings if row["id"] == job_identity(row["kind"], row["run"], settings) else None


def _last_words(status: JobStatus) -> str:
    where = "" if status.progress is None else f" at {status.progress.done} of {status.progress.total}"
    return (
        f"the worker (process {status.pid or 'not started'}) ended without a word{where}: killed, out of memory, or "
        "the machine restarted. Finished epochs are kept; resume continues after them"
    )

"""The queue of jobs, which outlive the page that asked for them.

A job is one question – a kind, a run and settings – and runs in a process of its own that owes nothing to whoever
started it. There is no daemon: whoever polls, and every worker that ends, settles what ended and starts what waits.
The question is an entry of the audit log, the state a row of the index; a worker that vanished is known by the lock
on its desk (``job_status``).
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flcontrib_core.codec import encode
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.execution.limits import ProcessLimits
from flcontrib_core.provenance import software_version
from flcontrib_core.workspace.audit_log import AuditLog
from flcontrib_core.workspace.disk import Staging
from flcontrib_core.workspace.faults import NoSpaceLeft, ReadOnlyWorkspace, storage_faults
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.job import (
    RESUMABLE,
    SUBMITTED,
    Job,
    JobState,
    enter_job,
    job_from_row,
    job_identity,
    status_of,
    status_path,
)
from flcontrib_core.workspace.job_status import JobStatus, StatusFile

RUNNERS: Mapping[str, str] = {
    "audit": "flcontrib_core.workspace.audit_jobs:audit_in_workspace",
    "follow": "flcontrib_core.workspace.follow_jobs:follow_in_workspace",
    "measurement": "flcontrib_core.workspace.planning_jobs:measure_in_workspace",
    "proof": "flcontrib_core.workspace.planning_jobs:prove_in_workspace",
    "reproduction": "flcontrib_core.laboratory.reproduction.job:reproduce_in_workspace",
}
"""What each kind of job calls: runner(workspace, run_digest, settings, on_progress). Nothing stored can add to it."""
BESIDE = frozenset({"measurement", "proof"})
"""Kinds that a page waits for: one of them runs beside whatever else does, and none waits behind an audit."""
FOLLOWING = frozenset({"follow"})
"""Kinds that last as long as a training does: several run beside whatever else does, mostly asleep."""
MOST_FOLLOWED = 8
WITHOUT_A_RUN = frozenset({"reproduction"})
"""Kinds that ask nothing about a stored run: they train their own."""

_PATIENCE_SECONDS = 30.0
_children: list[subprocess.Popen[bytes]] = []
"""Workers this process started: kept until they end, so that none stays behind as a zombie."""


def _usual_limits(kind: str) -> ProcessLimits:
    """A job that a page waits for does not step back, and is short."""
    return ProcessLimits(cpu_seconds=1800, niceness=0) if kind in BESIDE else ProcessLimits()


def _lane(kind: str) -> frozenset[str]:
    """The kinds that wait for each other; empty for those that have no lane of their own."""
    return next((lane for lane in (BESIDE, FOLLOWING) if kind in lane), frozenset())


class JobQueue:
    """Submit, poll, cancel and resume the jobs of a workspace, from any number of processes."""

    def __init__(
        self,
        root: Path,
        index: Index,
        log: AuditLog,
        staging: Staging,
        concurrent: int,
        runners: Mapping[str, str] | None,
    ) -> None:
        if concurrent < 1:
            raise WorkspaceError(f"{concurrent} concurrent jobs: at least one must be allowed")
        self.runners = {**RUNNERS, **(runners or {})}
        self._root = root
        self._folder = root / "jobs"
        self._index = index
        self._log = log
        self._staging = staging
        self._concurrent = concurrent
        self._own_runners = dict(runners or {})

    def submit(
        self,
        run_digest: str,
        settings: Mapping[str, Any],
        kind: str = "audit",
        *,
        limits: ProcessLimits | None = None,
        recompute: bool = False,
    ) -> Job:
        """Asks a question; returns the job that answers it, new or known.

        A known job that stopped short (cancelled, lost, failed, paused) is queued again; one that is done stays so
        unless ``recompute``.
        """
        if kind not in self.runners:
            raise WorkspaceError(f"no runner for jobs of kind {kind!r}; known: {', '.join(sorted(self.runners))}")
        identity = job_identity(kind, run_digest, settings)
        with storage_faults(self._folder), self._index.write() as transaction:
            run_rows = transaction.execute("SELECT 1 FROM runs WHERE digest = ?", (run_digest,))
            if not run_rows and kind not in WITHOUT_A_RUN:
                raise WorkspaceError(f"no run {run_digest[:12]}… in {self._root}; add it first")
            if self._find_in(transaction, identity) is None:
                StatusFile.create(status_path(self._folder, identity), self._staging)
                question = {"id": identity, "kind": kind, "settings": dict(settings), "version": software_version()}
                question["limits"] = encode(ProcessLimits, limits or _usual_limits(kind))[0]
                asked = self._log.append(transaction, SUBMITTED, run_digest, question)
                enter_job(transaction, asked, JobState.QUEUED, JobStatus())
        self._queue_again(identity, RESUMABLE | {JobState.DONE} if recompute else RESUMABLE)
        self.poll()
        return self.find(identity)

    def cancel(self, job_id: str) -> Job:
        """Ends a waiting or running job; finished epochs are kept. A job that has ended already stays as it is."""
        with storage_faults(self._folder):
            with self._index.write() as transaction:
                job = self._find_in(transaction, job_id)
                if job is not None and job.active:
                    self._set_state(transaction, replace(job, state=JobState.CANCELLED, error="cancelled by request"))
            if job is not None and job.active:
                self._end_worker(job)
        self.poll()
        return self.find(job_id)

    def resume(self, job_id: str) -> Job:
        """Queues a job that stopped short once more (also a failed one); it goes on after its last finished epoch."""
        self._queue_again(job_id, RESUMABLE)
        self.poll()
        return self.find(job_id)

    def poll(self) -> tuple[Job, ...]:
        """Settles what ended, starts what may start, and returns all jobs; call it while somebody looks.

        Where nothing can be written, nothing is settled or started: the states themselves can be read all the same.
        """
        _children[:] = [child for child in _children if child.poll() is None]
        if self._index.impaired is None:
            with suppress(NoSpaceLeft, ReadOnlyWorkspace), storage_faults(self._folder):
                self._settle_ended()
                while self._start_next():
                    pass
        return self.list()

    def list(self) -> tuple[Job, ...]:
        """All jobs, newest first, as they are now; changes nothing."""
        return self._seen("SELECT * FROM asked ORDER BY sequence DESC")

    def find(self, job_id: str) -> Job:
        """One job as it is now. Raises WorkspaceError when there is none of that name."""
        for job in self._seen("SELECT * FROM asked WHERE id = ?", job_id):
            return job
        raise WorkspaceError(f"no job {job_id[:40]!r} in {self._root}")

    def _seen(self, statement: str, *parameters: str) -> tuple[Job, ...]:
        waiting = self._index.read("SELECT id FROM jobs WHERE state = 'queued' ORDER BY place")
        position = {row["id"]: number for number, row in enumerate(waiting, start=1)}
        rows = self._index.read(statement, parameters)
        return tuple(replace(job_from_row(row, self._folder), queue_position=position.get(row["id"])) for row in rows)

    def output(self, job_id: str) -> str:
        """What the worker printed, for whoever looks for the cause of a failure."""
        path = self._folder / self.find(job_id).id / "output.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def finish(self, job_id: str, outcome: JobState, error: str, result: str | None) -> None:
        """Called by the worker at its end: enters its outcome, unless the job was cancelled meanwhile."""
        with self._index.write() as transaction:
            job = self._find_in(transaction, job_id)
            if job is not None:
                self._set_state(transaction, replace(job, state=outcome, error=error, result=result))

    def _find_in(self, transaction: Transaction, job_id: str) -> Job | None:
        rows = transaction.execute("SELECT * FROM asked WHERE id = ?", (job_id,))
        return job_from_row(rows[0], self._folder) if rows else None

    def _queue_again(self, job_id: str, ended: frozenset[JobState]) -> None:
        """Puts a job that is in one of the ``ended`` states at the end of the queue."""
        if self.find(job_id).state not in ended:
            return
        with storage_faults(self._folder):
            claimed = self._claim_in_time(job_id)  # not inside the transaction, for which its worker may wait
            if claimed is None:
                raise WorkspaceError(f"job {job_id} is still ending; try again in a moment")
            try:
                with self._index.write() as transaction:
                    rows = transaction.execute("SELECT * FROM asked WHERE id = ?", (job_id,))
                    if not rows or rows[0]["state"] not in ended | {JobState.RUNNING}:
                        return  # somebody else was faster; a running one is dead, for its lock is ours
                    job = job_from_row(rows[0], self._folder)
                    claimed.write(JobStatus(job.attempt, outcome=JobState.QUEUED.value), durably=True)
                    transaction.execute(
                        "UPDATE jobs SET state = 'queued', error = '', result = NULL, version = ?, seconds = ?, "
                        "place = (SELECT max(place) + 1 FROM jobs) WHERE id = ?",
                        (software_version(), job.seconds, job_id),
                    )
            finally:
                claimed.close()

    def _set_state(self, transaction: Transaction, job: Job) -> None:
        """Enters the end of a job's present attempt; a no-op when it ended otherwise or was queued again."""
        waits = "'queued', 'running'" if job.state is JobState.CANCELLED else "'running'"
        transaction.execute(
            "UPDATE jobs SET state = ?, error = ?, result = ?, seconds = ? "
            f"WHERE id = ? AND attempt = ? AND state IN ({waits})",
            (job.state.value, job.error, job.result, job.seconds, job.id, job.attempt),
        )

    def _settle_ended(self) -> None:
        """Enters how running jobs ended whose worker is gone."""
        for row in self._index.read("SELECT * FROM asked WHERE state = 'running'"):
            job = job_from_row(row, self._folder)
            if job.state is not JobState.RUNNING:
                with self._index.write() as transaction:
                    self._set_state(transaction, job)

    def _start_next(self) -> bool:
        """Starts the first waiting job whose runner is known here, if there is room for one more."""
        waiting = self._index.read("SELECT id, kind FROM asked WHERE state = 'queued' ORDER BY place")
        free = {lane: self._room(self._index.read, lane) for lane in {_lane(row["kind"]) for row in waiting}}
        startable = [row for row in waiting if row["kind"] in self.runners and free[_lane(row["kind"])]]
        if not startable:
            return False
        job_id, lane = startable[0]["id"], _lane(startable[0]["kind"])
        status = self._claim(job_id)
        if status is None:  # another process is starting it at this moment
            return False
        try:
            with self._index.write() as transaction:
                rows = transaction.execute("SELECT attempt FROM jobs WHERE id = ? AND state = 'queued'", (job_id,))
                if not rows or not self._room(transaction.execute, lane):
                    return False
                attempt = rows[0]["attempt"] + 1
                status.write(JobStatus(attempt), durably=True)
                transaction.execute("UPDATE jobs SET state = 'running', attempt = ? WHERE id = ?", (attempt, job_id))
            self._spawn(job_id, attempt, status)
        finally:
            status.close()
        return True

    def _room(self, read: Callable[[str], Sequence[sqlite3.Row]], lane: frozenset[str]) -> bool:
        """May one more job of this lane start?"""
        running = [_lane(row["kind"]) for row in read("SELECT kind FROM asked WHERE state = 'running'")]
        return running.count(lane) < {BESIDE: 1, FOLLOWING: MOST_FOLLOWED}.get(lane, self._concurrent)

    def _claim(self, job_id: str) -> StatusFile | None:
        path = status_path(self._folder, job_id)
        if not path.exists():
            StatusFile.create(path, self._staging)
        return StatusFile.claim(path, self._staging.disk)

    def _claim_in_time(self, job_id: str) -> StatusFile | None:
        """The status file of a job whose worker is ending; None when it does not end."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (claimed := self._claim(job_id)) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return claimed

    def _spawn(self, job_id: str, attempt: int, status: StatusFile) -> None:
        """Starts the worker in a session of its own; it inherits the lock on its status file."""
        command = python_command("-m", "flcontrib_core.workspace.worker", "--workspace", str(self._root))
        command += ["--job", job_id, "--attempt", str(attempt), "--status", str(status.descriptor)]
        command += ["--concurrent", str(self._concurrent)]
        for kind, target in self._own_runners.items():
            command += ["--runner", f"{kind}={target}"]
        try:
            with (self._folder / job_id / "output.txt").open("wb") as output:
                worker = subprocess.Popen(
                    command,
                    env=child_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(status.descriptor,),
                    start_new_session=True,
                )
            _children.append(worker)
        except OSError as fault:
            failed = JobStatus(attempt, outcome=JobState.FAILED, error=f"the worker could not be started: {fault}")
            status.write(failed, durably=True)

    def _end_worker(self, job: Job) -> None:
        """Kills a cancelled job's worker with everything it started; what it had finished is safe by design.

        A worker that only begins notes its process number first and looks at its state next: either it is seen here,
        or it sees that it was cancelled.
        """
        status, alive = status_of(self._folder, job.id)
        if alive and status.attempt == job.attempt and status.pid is not None:
            with suppress(ProcessLookupError):  # it may have ended by itself just now
                os.killpg(status.pid, signal.SIGKILL)
        claimed = self._claim_in_time(job.id)
        if claimed is not None:
            ended = replace(status, attempt=job.attempt, outcome=JobState.CANCELLED.value, error="cancelled by request")
            claimed.write(ended, durably=True)
            claimed.close()

"""The process of one attempt of one job: ``python -m flcontrib_core.workspace.worker``, started by the queue only."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from flcontrib_core.errors import CostRefusal, FLContribError, WorkspaceError
from flcontrib_core.execution.limits import apply_limits
from flcontrib_core.workspace.disk import Disk
from flcontrib_core.workspace.faults import OUT_OF_SPACE, NoSpaceLeft
from flcontrib_core.workspace.job import JobState
from flcontrib_core.workspace.job_status import JobStatus, Progress, StatusFile
from flcontrib_core.workspace.results import ResultEntry
from flcontrib_core.workspace.store import Workspace

Runner = Callable[..., ResultEntry | None]
_FAULT = "(a fault of the program; the job's output has its trace)"


class StatusReporter:
    """What the worker says of itself: progress while it works, and one last word whatever ends it."""

    def __init__(self, status: StatusFile, attempt: int) -> None:
        self._status = status
        self._began = time.monotonic()
        self.current = JobStatus(attempt, pid=os.getpid())
        self.result: str | None = None
        self._say(self.current)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Names how the work ended. A fault of the program leaves its trace in the output, which whoever sees the job
        ended may read at once: it is written before the last word is said."""
        state, words = (JobState.DONE, "") if error is None else _named_end(error)
        if words.endswith(_FAULT):
            with suppress(OSError):  # on a full disk the last word is all that can be said
                traceback.print_exception(error)
                sys.stderr.flush()
        ended = replace(self.current, seconds=self.seconds, outcome=state.value, error=words, result=self.result)
        self._say(ended, durably=True)
        return True

    @property
    def seconds(self) -> float:
        """Since the work began."""
        return time.monotonic() - self._began

    def on_progress(self, done: int, total: int, label: str) -> None:
        """Says how far the work is."""
        seconds, before = self.seconds, self.current.progress
        # A part of the work that begins anew (measuring, then computing) has a pace of its own.
        goes_on = before is not None and before.total == total and before.done <= done
        first = (before.first_done, before.first_seconds) if before is not None and goes_on else (done, seconds)
        progress = Progress(done, total, label, seconds, *first)
        self._say(replace(self.current, seconds=seconds, progress=progress))

    def _say(self, status: JobStatus, *, durably: bool = False) -> None:
        self.current = status
        self._status.write(status, durably=durably)


def main(arguments: list[str] | None = None) -> int:
    """Runs one attempt of one job and then lets the next one start; 0 when its state says what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--status", type=int, required=True, help="inherited descriptor of the locked status file")
    parser.add_argument("--concurrent", type=int, default=1)
    parser.add_argument("--runner", action="append", default=[], help="kind=module:function, beside the built-in ones")
    given = parser.parse_args(arguments)
    os.set_inheritable(given.status, False)
    status = StatusFile(given.workspace / "jobs" / given.job / "status", given.status, Disk())
    account = StatusReporter(status, given.attempt)  # notes the process number before the state is looked at
    own_runners = dict(text.split("=", 1) for text in given.runner)
    workspace: Workspace | None = None
    try:
        with account:
            workspace = Workspace(given.workspace, concurrent_jobs=given.concurrent, runners=own_runners)
            job = workspace.jobs.find(given.job)
            if job.state is not JobState.RUNNING or job.attempt != given.attempt:
                raise WorkspaceError("the job was cancelled before its worker began")
            apply_limits(job.limits)
            runner = resolve(workspace.jobs.runners, job.kind)
            kept = runner(workspace, job.run_digest, job.settings, account.on_progress)
            account.result = None if kept is None else kept.digest
    finally:
        if workspace is not None:
            _enter_outcome(workspace, given.job, account.current)
        status.close()
        if workspace is not None:
            workspace.jobs.poll()
    return 0


def _enter_outcome(workspace: Workspace, job_id: str, status: JobStatus) -> None:
    try:
        workspace.jobs.finish(job_id, JobState(status.outcome or JobState.FAILED), status.error, status.result)
    except WorkspaceError as fault:  # the status file has said it already: whoever polls next enters it
        print(f"the outcome is in the status file only: {fault}", file=sys.stderr)


def resolve(runners: dict[str, str], kind: str) -> Runner:
    """The function a kind of job calls: from the fixed table, or named by whoever started this process."""
    module, _, function = runners[kind].partition(":")
    runner: Runner = getattr(importlib.import_module(module), function)
    return runner


def _named_end(error: BaseException) -> tuple[JobState, str]:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, NoSpaceLeft) or (isinstance(cause, OSError) and cause.errno in OUT_OF_SPACE):
            return JobState.PAUSED_NO_SPACE, str(cause)
    for cause in causes:
        if isinstance(cause, MemoryError) or "can't allocate memory" in str(cause):  # torch has no class for it
            return JobState.FAILED, "the job's memory limit is reached; finished epochs are kept"
    if isinstance(error, CostRefusal):
        return JobState.REFUSED_COST, f"{error} Offered instead: {error.offered}"
    if isinstance(error, FLContribError):
        return JobState.FAILED, str(error)
    return JobState.FAILED, f"{type(error).__name__}: {error} {_FAULT}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


if __name__ == "__main__":
    sys.exit(main())

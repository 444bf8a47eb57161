"""Where does everything live that must not be lost?

One folder: ``index.sqlite`` (what is known), ``objects/`` (bundles, results and finished epochs, named by sha256),
``log/`` (one small file per entry of the audit log), ``memory/`` (coalition utilities), ``jobs/``, ``incoming/``
(half-written files), ``quarantine/`` (what was damaged). The index can be lost: the rest rebuilds it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import platformdirs

from flcontrib_core.runs.run_log import Run
from flcontrib_core.workspace.audit_log import AuditLog, BrokenLink, ChainHead, wall_clock
from flcontrib_core.workspace.decisions import AlertBook
from flcontrib_core.workspace.disk import Disk, Staging
from flcontrib_core.workspace.faults import NoSpaceLeft, ReadOnlyWorkspace, storage_faults
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import IndexFile, Transaction
from flcontrib_core.workspace.job import changed_job, restore_jobs
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.kept_arrays import EpochCheckpoints, ResultEntry, Results, StoredResult, restore_epochs
from flcontrib_core.workspace.memory import (
    MemoryRoom,
    MemoryStatistics,
    UtilityMemory,
    memory_statistics,
    restore_shelves,
)
from flcontrib_core.workspace.objects import ObjectStore, set_aside
from flcontrib_core.workspace.previews import Previews
from flcontrib_core.workspace.run_intake import OnRemarks, OnStage, RunSource
from flcontrib_core.workspace.schema import MIGRATIONS, Migration
from flcontrib_core.workspace.stored_runs import DeletedRun, RunEntry, StoredRuns, family_of

_FOLDERS = ("objects", "log", "memory", "jobs", "incoming", "quarantine")


def default_path() -> Path:
    """The platform's folder for data of this user."""
    return Path(platformdirs.user_data_dir("flcontrib", appauthor=False)) / "workspace"


class Workspace:
    """One folder that several processes read and write at once.

    Opening checks the index and mends it (``log.entries("index-rebuilt")`` tells when); raises WorkspaceError when it
    is of a newer version or cannot be read. ``impaired`` says why nothing can be written at present, if so.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        concurrent_jobs: int = 1,
        runners: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = wall_clock,
        disk: Disk | None = None,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.path = Path(path).expanduser().resolve() if path else default_path()
        self._disk = disk or Disk()
        self._staging = Staging(self.path / "incoming", self._disk)
        quarantine = self.path / "quarantine"
        file = IndexFile(self.path / "index.sqlite", quarantine, self._disk, self._rebuild, self._loss, migrations)
        self._index = Index(file, self._disk)
        self.objects = ObjectStore(self.path / "objects", quarantine, self._staging, self._disk)
        self.log = AuditLog(self._index, self.path / "log", self._staging, now)
        self._memory = MemoryRoom(self.path / "memory", quarantine, self._index, self._disk, self._report_damage)
        self._runs = StoredRuns(self.path, self._index, self.objects, self.log)
        self._results = Results(self._index, self.objects, self.log)
        self.alerts = AlertBook(self._index, self.log)
        self.jobs = JobQueue(self.path, self._index, self._staging, now, concurrent_jobs, runners)
        self.previews = Previews(self.path / "jobs", self._staging)
        self.mend()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the index; using the workspace again opens it again."""
        self._index.close()

    @property
    def impaired(self) -> NoSpaceLeft | ReadOnlyWorkspace | None:
        """Why nothing can be written at present; None when all is well."""
        return self._index.impaired

    # Runs

    def add_run(
        self,
        source: RunSource,
        name: str | None = None,
        *,
        nonfinite: str = "refuse",
        lower_is_better: Iterable[str] = (),
        largest: int | None = None,
        filename: str | None = None,
        on_stage: OnStage | None = None,
        on_remarks: OnRemarks | None = None,
    ) -> RunEntry:
        """Takes a run in (path, directory, open file or chunks); the same run twice is one entry.

        Raises RunLogError when it is refused. ``largest`` caps an upload's bytes, ``filename`` is its sender's name
        for it; ``on_stage`` hears the checks pass and ``on_remarks`` what was noticed on the way.
        """
        return self._runs.add(
            source,
            name,
            nonfinite=nonfinite,
            lower_is_better=lower_is_better,
            largest=largest,
            filename=filename,
            on_stage=on_stage,
            on_remarks=on_remarks,
        )

    def runs(self) -> tuple[RunEntry, ...]:
        """All runs, in the order in which they came."""
        return self._runs.list()

    def find_run(self, digest: str) -> RunEntry | None:
        return self._runs.find(digest)

    def open_run(self, digest: str) -> Run:
        """The run, after its stored bytes were verified."""
        return self._runs.open(digest)

    def delete_run(self, digest: str) -> DeletedRun:
        """Removes a run and what was computed from it; says what is kept."""
        self.jobs.poll()
        return self._runs.delete(digest)

    # What was computed

    def checkpoints(self, run: Run | None = None) -> EpochCheckpoints:
        """Finished epochs. Kept on behalf of ``run``, they go when it is deleted; without it they stay."""
        return EpochCheckpoints(self._index, self.objects, self.log, "" if run is None else family_of(run))

    def utility_memory(self, run: Run | None = None) -> UtilityMemory:
        """Coalition utilities. Kept on behalf of ``run``, they go when it is deleted; without it they stay."""
        return UtilityMemory(self._memory, "" if run is None else family_of(run))

    def memory_statistics(self) -> MemoryStatistics:
        return memory_statistics(self._memory)

    def keep_result(
        self,
        run_digest: str,
        settings: dict[str, Any],
        kind: str,
        document: Any = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        remarks: dict[str, Any] | None = None,
    ) -> ResultEntry:
        """Keeps a finished result with its provenance; ``remarks`` take what differs between equal results."""
        return self._results.keep(run_digest, settings, kind, document, arrays, remarks)

    def results(self, run_digest: str | None = None, kind: str | None = None) -> tuple[ResultEntry, ...]:
        """Results of the runs that are here, newest first."""
        return self._results.list(run_digest, kind)

    def latest_result(
        self, run_digest: str, kind: str, settings: dict[str, Any] | None = None, *, also_stale: bool = True
    ) -> ResultEntry | None:
        """The newest readable result, for these settings where given."""
        return self._results.latest(run_digest, kind, settings, also_stale=also_stale)

    def load_result(self, entry: ResultEntry) -> StoredResult:
        """A result's content, verified."""
        return self._results.load(entry)

    # The chain

    def head(self) -> ChainHead:
        """Where the audit log ends now; print it in every report."""
        return self.log.head()

    def verify_chain(self, head: ChainHead | str | None = None) -> BrokenLink | None:
        """The first place where the audit log is broken or does not lead to a head printed earlier."""
        return self.log.verify(head)

    # Opening and mending

    def mend(self) -> None:
        """Checks the index as opening does and rebuilds it where it is damaged (after a DamagedIndex, for instance)."""
        try:
            with storage_faults(self.path):
                for name in _FOLDERS:
                    self._disk.make_folder(self.path / name)
        except (NoSpaceLeft, ReadOnlyWorkspace):
            if not self._index.path.exists():
                raise
        self._index.open()
        if self._index.impaired is None:
            with storage_faults(self.path):
                self._staging.sweep()
                self.log.restore_copies()
                self._runs.finish_removals()

    def _loss(self, index: Transaction) -> str | None:
        return self.log.loss(index) or changed_job(index)

    def _rebuild(self, transaction: Transaction, why: str) -> None:
        """Fills an empty index from the files, and says so in the log."""
        entries, damaged = 0, []
        for path, text in self.log.read_copies():
            if text is None:
                damaged.append(str(set_aside(path, self.path / "quarantine", self._disk)))
                continue
            self.log.insert(transaction, text)
            entries += 1
        if not entries:
            self.log.append(transaction, "workspace-created", uuid.uuid4().hex, {})
        found = {
            "entries": entries,
            "epochs": restore_epochs(transaction, self.objects),
            "games": restore_shelves(transaction, self.path / "memory"),
            "jobs": restore_jobs(transaction, self.path / "jobs"),
        }
        if entries:
            self.log.append(transaction, "index-rebuilt", "", {"why": why, "found": found, "damaged": damaged})

    def _report_damage(self, moved: Path, what: str) -> None:
        with self._index.write() as transaction:
            self.log.append(transaction, "damage", moved.name, {"what": what, "moved_to": str(moved)})

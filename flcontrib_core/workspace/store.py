"""The workspace itself: one folder, its two stores, and what opening it checks and mends."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import platformdirs

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.runs.run_log import Run
from flcontrib_core.workspace import version_1
from flcontrib_core.workspace.audit_log import (
    AuditLog,
    BrokenLink,
    ChainCheck,
    ChainHead,
    check_chain,
    copies_in,
    wall_clock,
)
from flcontrib_core.workspace.cache import StoredCheckpoints, StoredUtilities, restore_cached
from flcontrib_core.workspace.decisions import AlertBook
from flcontrib_core.workspace.disk import Disk, Staging
from flcontrib_core.workspace.faults import BrokenChain, NoSpaceLeft, ReadOnlyWorkspace, storage_faults
from flcontrib_core.workspace.grants import Grants
from flcontrib_core.workspace.import_run import family_of
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.index_file import IndexFile, Transaction, connect_without_writing
from flcontrib_core.workspace.job import restore_jobs
from flcontrib_core.workspace.job_status import Previews
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.objects import ObjectStore
from flcontrib_core.workspace.preferences import Preferences
from flcontrib_core.workspace.recordings import Recordings
from flcontrib_core.workspace.removals import DeletedRun
from flcontrib_core.workspace.retention import Retention

_FOLDERS = ("objects", "log", "jobs", "incoming", "quarantine")


def default_path() -> Path:
    """$FLCONTRIB_WORKSPACE, else the platform's folder for data of this user."""
    named = os.environ.get("FLCONTRIB_WORKSPACE")
    return (
        Path(named).expanduser().resolve()
        if named
        else Path(platformdirs.user_data_dir("flcontrib", appauthor=False)) / "workspace"
    )


class Workspace(Recordings, Retention):
    """One folder that several processes read and write at once.

    Opening checks the index and mends it (``log.entries("index-rebuilt")`` tells when); raises WorkspaceError when it
    is of a newer version or cannot be read. ``impaired`` says what is not as it should be.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        concurrent_jobs: int = 1,
        runners: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = wall_clock,
        disk: Disk | None = None,
    ) -> None:
        self.path = _located(path)
        self._disk = disk or Disk()
        self._staging = Staging(self.path / "incoming", self._disk)
        self._quarantine = self.path / "quarantine"
        file = IndexFile(self.path / "index.sqlite", self._quarantine, self._disk, self._rebuild, self._loss)
        self._index = Index(file, self._disk)
        self._chain: ChainCheck | None = None
        """As the last look at the index found it."""
        self._chain_fault: BrokenChain | None = None
        self.objects = ObjectStore(self.path / "objects", self._quarantine, self._staging)
        self.log = AuditLog(self._index, self.path / "log", self._staging, now)
        self.alerts = AlertBook(self._index, self.log)
        self.jobs = JobQueue(self.path, self._index, self.log, self._staging, concurrent_jobs, runners)
        self.grants = Grants(self._index, self.log, self.path)
        self.preferences = Preferences(self._index, self.log)
        self.previews = Previews(self.path / "jobs")
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
    def impaired(self) -> NoSpaceLeft | ReadOnlyWorkspace | BrokenChain | None:
        """Why nothing can be written at present, or what was wrong with the audit log; None when all is well."""
        return self._index.impaired or self._chain_fault

    def delete_run(self, digest: str) -> DeletedRun:
        """Removes a run and what was computed from it; says what is kept."""
        self.jobs.poll()
        return super().delete_run(digest)

    def checkpoints(self, run: Run | None = None) -> StoredCheckpoints:
        """Finished epochs. Kept on behalf of ``run``, they go when it is deleted; without it they stay."""
        return StoredCheckpoints(self._index, self.objects, self.log, "" if run is None else family_of(run))

    def utility_memory(self, run: Run | None = None) -> StoredUtilities:
        """Coalition utilities. Kept on behalf of ``run``, they go when it is deleted; without it they stay."""
        return StoredUtilities(self._index, self.objects, self.log, "" if run is None else family_of(run))

    def head(self) -> ChainHead:
        """Where the audit log ends now; print it in every report."""
        return self.log.head()

    def verify_chain(self, head: ChainHead | str | None = None) -> BrokenLink | None:
        """The first place where the audit log is broken or does not lead to a head printed earlier."""
        return self.log.verify(head)

    def mend(self) -> None:
        """Checks the index as opening does and rebuilds it where it is damaged (after a DamagedIndex, for instance)."""
        try:
            with storage_faults(self.path):
                for name in _FOLDERS:
                    self._disk.make_folder(self.path / name)
        except (NoSpaceLeft, ReadOnlyWorkspace):
            if not self._index.path.exists():
                raise
        self._chain, self._chain_fault = None, None
        self._index.open()
        chain = self._chain or self.log.check(self._index.read)
        if chain.broken is not None:
            self._chain_fault = BrokenChain(f"the audit log cannot be trusted: {chain.broken}")
        if self._index.impaired is None:
            with storage_faults(self.path):
                if chain.uncopied and chain.broken is None:
                    self._restore_copies()
                self._staging.sweep()
                self.finish_removals()

    def _restore_copies(self) -> None:
        """A kill leaves the last entries without a copy; so does whoever writes into the index by other means."""
        if entries := self.log.restore_copies():
            why = "the machine stopped while they were written, or another program wrote them"
            self._chain_fault = BrokenChain(f"log entries {', '.join(map(str, entries))} had no copy: {why}")
            with self._index.write() as transaction:
                self.log.append(transaction, "copies-restored", "", {"entries": list(entries), "why": why})

    def _loss(self, index: Transaction) -> str | None:
        self._chain = self.log.check(index.execute)
        if not self._chain.mendable:
            return None
        self._chain_fault = BrokenChain(f"{self._chain.broken}; the audit log was restored from its copies")
        return str(self._chain.broken)

    def _rebuild(self, transaction: Transaction, why: str) -> None:
        """Fills an empty index from the files, and says so in the log."""
        self._chain = None
        entries, set_aside = self.log.rebuild(transaction, self._quarantine)
        if not entries:
            self.log.append(transaction, "workspace-created", uuid.uuid4().hex, {})
        version_1.lift(self.path, transaction, self.objects, self.log)
        restored = {
            "entries": entries,
            "cached": restore_cached(transaction, self.objects),
            "jobs": restore_jobs(transaction, self.path / "jobs"),
        }
        if entries:
            self.log.append(transaction, "index-rebuilt", "", {"why": why, "found": restored, "damaged": set_aside})


def check_log(path: str | Path | None, head: str | None = None) -> ChainCheck:
    """Checks the audit log of a workspace as it lies there: nothing is opened, mended or written.

    Raises WorkspaceError where there is no workspace, or none that can be read.
    """
    root = _located(path)
    if not (root / "index.sqlite").is_file():
        raise WorkspaceError(f"{root} is no workspace: it has no index.sqlite")
    with storage_faults(root / "index.sqlite"):
        copies = copies_in(root / "log")
        connection, copy = connect_without_writing(root / "index.sqlite")
        try:
            return check_chain(connection.execute("SELECT * FROM log ORDER BY sequence").fetchall(), copies, head)
        finally:
            connection.close()
            if copy is not None:
                copy.cleanup()


def _located(path: str | Path | None) -> Path:
    return Path(path).expanduser().resolve() if path else default_path()

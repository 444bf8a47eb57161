"""The runs of a workspace: how one comes in, is read again, and leaves with everything computed from it.

A run is one immutable object (a zip or a table, as it was given; a directory is zipped) and one entry of the audit
log. Its identity is its digest: the same run under two names, zipped twice, or sent by two people at once is one run.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, MutableSequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.codec import decode
from flcontrib_core.errors import Problem, RunLogError, WorkspaceError
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.cache import report_damage
from flcontrib_core.workspace.descriptions import DESCRIBED, RunDescription, described
from flcontrib_core.workspace.disk import Staged
from flcontrib_core.workspace.faults import DamagedObject, storage_faults
from flcontrib_core.workspace.import_run import (
    OnRemarks,
    OnStage,
    ReadingOptions,
    RunSource,
    bare_name,
    chunks_of,
    data_sizes_beside,
    describe_run,
    describe_run_apart,
    family_of,
    in_words,
    read_run,
    zip_run,
)
from flcontrib_core.workspace.index import Index, conditions
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.objects import ObjectStore
from flcontrib_core.workspace.removals import LATEST_DROP, DeletedRun, decide_removal, in_use

_PROBLEMS_KEPT = 5
_RUNS = f"SELECT *, {LATEST_DROP} AS dropped_at FROM runs"
_FROM_THE_RUN = ("name", "source", "kind", "clients", "epochs", "size", "object", "companion", "family")


@dataclass(frozen=True)
class RunEntry:
    """A run in the list. ``family`` is d_0, shared by a growing run's shorter and longer selves."""

    sequence: int
    digest: str
    name: str
    """The one it was given, else its own, else its file's."""
    other_names: tuple[str, ...]
    source: str
    """The name of the file it first came from; of a recording, the folder."""
    kind: str
    """'log', 'contribution-table', 'utility-table', or 'recording' while it is followed in its folder"""
    clients: int
    epochs: int
    size: int
    object: str | None
    """The object that holds it; None for a recording, whose folder is its source."""
    companion: str | None
    """The object that holds a utility table's data sizes."""
    family: str
    added_at: str
    reading: ReadingOptions
    available: bool
    """False when the stored bundle was damaged or lost; add it again."""
    tags: tuple[str, ...] = ()
    note: str = ""
    dropped_at: str | None = None
    """When its log was dropped while its results stay; None where it was not."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it was ever called, its file's name included."""
        return tuple(dict.fromkeys((self.name, *self.other_names, self.source)))

    def matches(self, words: str) -> bool:
        """Does any of its names, tags, its note or its digest hold the words, whatever their case?"""
        sought = words.strip().casefold()
        return any(sought in text.casefold() for text in (*self.names, *self.tags, self.note, self.digest))


def _called(entry: RunEntry, said: RunDescription | None) -> RunEntry:
    """The run as people call it; its own name is kept among the others."""
    if said is None:
        return entry
    name = said.name or entry.name
    others = tuple(dict.fromkeys(n for n in (entry.name, *entry.other_names) if n != name))
    return replace(entry, name=name, other_names=others, tags=said.tags, note=said.note)


class StoredRuns:
    """The part of a workspace that stores runs."""

    path: Path
    _index: Index
    objects: ObjectStore
    log: AuditLog

    def add_run(
        self,
        source: RunSource,
        name: str | None = None,
        *,
        nonfinite: str = "refuse",
        lower_is_better: Iterable[str] = (),
        largest: int | None = None,
        filename: str | None = None,
        apart: bool = False,
        on_stage: OnStage | None = None,
        on_remarks: OnRemarks | None = None,
    ) -> RunEntry:
        """Imports a run (path, directory, open file or chunks); durable when it returns. The same run is one entry.

        Raises RunLogError when the reader refuses it: then nothing stays but an entry with hash, size and problems.
        ``largest``: give up after so many bytes. ``filename``: the sender's, where the source has none of its own.
        ``apart``: the checks run in a child with ceilings, for a log that a stranger sent to a server.
        ``on_stage`` hears the reader's stages as they are passed, ``on_remarks`` what was noticed in an accepted run.
        """
        path = Path(source) if isinstance(source, str | os.PathLike) else None
        file = path.name if path is not None else bare_name(filename or name or "")
        called = name or (Path(file).stem if path is not None or filename else file)
        reading = ReadingOptions.of(file, nonfinite, lower_is_better)
        with storage_faults(self.path), ExitStack() as stack:
            left_out: list[Problem] = []
            staged = stack.enter_context(self._stage(source, reading, largest, left_out))
            beside = None
            if path is not None and reading.table and (sizes := data_sizes_beside(path)).is_file():
                beside = stack.enter_context(self._stage(sizes, reading, largest, left_out))
            reading = reading.fitting(staged.path)
            try:
                describe = describe_run_apart if apart else describe_run
                run = describe(staged.path, reading, called, None if beside is None else beside.path, on_stage)
            except RunLogError as refused:
                explained = in_words(refused, staged.path, file or "the upload")
                self._remember_refusal(staged, called, explained)
                raise explained from refused
            described = {
                "name": name or run.name,
                "kind": run.kind,
                "clients": run.clients,
                "epochs": run.epochs,
                "size": staged.size,
                "object": staged.sha256,
                "companion": None if beside is None else beside.sha256,
                "family": run.family,
                "reading": asdict(reading),
                "source": file,
            }
            if on_remarks is not None:
                on_remarks(tuple(dict.fromkeys((*left_out, *run.warnings))))
            return self._enter_run(run.digest, described, staged, beside)

    def runs(self) -> tuple[RunEntry, ...]:
        """All runs, in the order in which they came."""
        said = self._descriptions()
        rows = self._index.read(f"{_RUNS} ORDER BY sequence")
        return tuple(_called(self._run(row), said.get(row["digest"])) for row in rows)

    def find_run(self, digest: str) -> RunEntry | None:
        """The run of this digest, if it is here."""
        rows = self._index.read(f"{_RUNS} WHERE digest = ?", (digest,))
        return _called(self._run(rows[0]), self._descriptions(digest).get(digest)) if rows else None

    def describe_run(
        self,
        digest: str,
        *,
        by: str,
        name: str | None = None,
        tags: Iterable[str] | None = None,
        note: str | None = None,
    ) -> RunEntry:
        """Gives a run another name, tags or a note; what is None stays. Every earlier name stays in ``other_names``."""
        body = described(name, tags, note)
        if self.find_run(digest) is None:
            raise WorkspaceError(f"no run {digest[:12]}… in {self.path}")
        with self._index.write() as transaction:
            self.log.append(transaction, DESCRIBED, digest, {**body, "by": by.strip()})
        renamed = self.find_run(digest)
        assert renamed is not None
        return renamed

    def _descriptions(self, digest: str | None = None) -> dict[str, RunDescription]:
        where, given = conditions(kind=DESCRIBED, subject=digest)
        rows = self._index.read(f"SELECT entry, hash FROM standing WHERE {where} ORDER BY sequence", given)
        descriptions: dict[str, RunDescription] = {}
        for entry in map(LogEntry.of, rows):
            descriptions[entry.subject] = descriptions.get(entry.subject, RunDescription()).followed_by(entry)
        return descriptions

    def open_run(self, digest: str) -> Run:
        """The run, after its stored bytes were verified. Raises DamagedObject when they are not what was added."""
        entry = self.find_run(digest)
        if entry is None:
            raise WorkspaceError(f"no run {digest[:12]}… in {self.path}; add it first")
        if entry.dropped_at is not None:
            raise WorkspaceError(
                f"the log of {entry.name!r} was dropped on {entry.dropped_at[:10]}; its results stay. Add it again "
                "to compute anything from it"
            )
        if entry.object is None:
            return read_run(Path(entry.source), entry.reading, entry.name)
        try:
            with storage_faults(self.path):
                path = self.objects.verified_path(entry.object)
                beside = None if entry.companion is None else self.objects.verified_path(entry.companion)
        except DamagedObject as damage:
            if self._index.impaired is None:
                with self._index.write() as transaction:
                    report_damage(transaction, self.objects, self.log, damage, "add the run's bundle again")
            raise DamagedObject(f"run {entry.name!r}: {damage}; add its bundle again", damage.name) from damage
        return read_run(path, entry.reading, entry.name, beside)

    def delete_run(self, digest: str) -> DeletedRun:
        """Removes a run with its results, finished epochs, remembered utilities and jobs; says what is kept."""
        with self._index.write() as transaction:
            entry = self._run_in(transaction, digest)
            if entry is None:
                raise WorkspaceError(f"no run {digest[:12]}… in {self.path}")
            if transaction.execute("SELECT 1 FROM asked WHERE run = ? AND state IN ('queued', 'running')", (digest,)):
                raise WorkspaceError(f"run {entry.name!r} is being computed; cancel its job before deleting it")
            if entry.object is None:  # its finished epochs are kept under the run it is by now
                with suppress(RunLogError):
                    entry = replace(entry, family=family_of(self.open_run(digest)))
            deleted = decide_removal(transaction, entry, self.objects, self.path)
            self.log.append(transaction, "run-deleted", digest, {"name": entry.name, "kept": list(deleted.kept)})
        self.finish_removals()
        return deleted

    def finish_removals(self) -> None:
        """Carries out deletions that were decided (also those a crash interrupted)."""
        if not self._index.read("SELECT 1 FROM removals LIMIT 1"):
            return
        with self._index.write() as transaction:
            for row in transaction.execute("SELECT path FROM removals"):
                path = self.path / row["path"]
                if in_use(transaction, path.name):  # the same run was added again since
                    continue
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    self.objects.staging.disk.remove(path)
            transaction.execute("DELETE FROM removals")

    def _stage(
        self, source: RunSource, reading: ReadingOptions, largest: int | None, left_out: MutableSequence[Problem]
    ) -> AbstractContextManager[Staged]:
        """A complete copy of the source; ``left_out`` gets what was noticed in a directory, extra files included."""
        if not isinstance(source, str | os.PathLike):
            return self.objects.staging.stage(chunks_of(source, largest))
        path = Path(source)
        if path.is_file():
            return self.objects.staging.stage(chunks_of(path, largest))
        run = read_run(path, reading, path.name)  # nothing there, or a pipe that never ends: refused without opening it
        assert isinstance(run, RunLog)
        left_out.extend(run.warnings)
        run.close()
        return self.objects.staging.stage(lambda out: zip_run(path, run, out))

    def _enter_run(self, digest: str, described: dict[str, Any], staged: Staged, beside: Staged | None) -> RunEntry:
        name = described["name"]
        with self._index.write() as transaction:
            before = self._run_in(transaction, digest)
            if before is not None and name not in (before.name, *before.other_names):
                self.log.append(transaction, "run-named", digest, {"name": name})
            # Bytes that are stored already are written again: that mends a copy which was damaged since. Other bytes
            # of a known run (zipped again) are only wanted where the stored ones are gone.
            files = (described["object"], described["companion"])
            same = before is not None and (before.object, before.companion) == files
            if before is None or same or not before.available:
                for file in (staged, beside):
                    if file is not None:
                        self.objects.publish(file)
            if before is None or before.dropped_at or not (same or before.available):
                first_name = name if before is None else before.name
                self.log.append(transaction, "run-added", digest, {**described, "name": first_name})
            entered = self._run_in(transaction, digest)
        assert entered is not None
        return entered

    def _run_in(self, transaction: Transaction, digest: str) -> RunEntry | None:
        rows = transaction.execute(f"{_RUNS} WHERE digest = ?", (digest,))
        return self._run(rows[0]) if rows else None

    def _remember_refusal(self, staged: Staged, name: str, refused: RunLogError) -> None:
        """The quarantine record of a refused upload: its hash, size and first problems, never its content."""
        problems = [problem.to_json() for problem in refused.problems[:_PROBLEMS_KEPT]]
        with self._index.write() as transaction:
            if not transaction.execute(
                "SELECT 1 FROM log WHERE kind = 'upload-refused' AND subject = ?", (staged.sha256,)
            ):
                body = {"name": name, "size": staged.size, "problems": problems}
                self.log.append(transaction, "upload-refused", staged.sha256, body)

    def _run(self, row: sqlite3.Row) -> RunEntry:
        entry = LogEntry.of(row)
        body = entry.body
        return RunEntry(
            sequence=entry.sequence,
            digest=entry.subject,
            other_names=tuple(json.loads(f"[{row['other_names'] or ''}]")),
            added_at=entry.at,
            dropped_at=row["dropped_at"],
            available=all(self.objects.holds(body[o]) for o in ("object", "companion") if body[o] is not None),
            reading=decode(ReadingOptions, body["reading"]),
            **{field: body[field] for field in _FROM_THE_RUN},
        )

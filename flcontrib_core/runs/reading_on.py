"""The epochs that a recorder adds to a folder, each read once, when it is new.

``read_run_log(previous=…)`` gives a whole run and lists all of its files; this reader gives one epoch after the other
at a cost that does not grow with the run. The checks of an epoch's line and numbers are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flcontrib_core.runs.containers import OneFileContainer
from flcontrib_core.runs.encoding import EPOCHS, MANIFEST
from flcontrib_core.runs.epoch_lines import EpochLines
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.epoch_values import EpochValues
from flcontrib_core.runs.manifest import VERSION, read_manifest
from flcontrib_core.runs.parts import Parts
from flcontrib_core.runs.problems import Findings
from flcontrib_core.runs.run_log import EpochData, EpochRecord, RunLog, Validation
from flcontrib_core.runs.shape_checks import epoch_faults
from flcontrib_core.vocabulary import Float32Array


class ReadOn:
    """Goes on after a first reading of a growing folder. As a source of epochs it gives those that it has read."""

    def __init__(self, folder: Path, run: RunLog) -> None:
        """``run``: what ``read_run_log(folder, nonfinite="absent")`` gave."""
        self._folder, self._run = folder, run
        self.clients = run.clients
        """All that are known by now; who joined later stands behind the others."""
        self._lines = EpochLines(run.clients, Findings(), VERSION)
        self._before = {record.file: record for record in run.epochs}
        self._opened: dict[str | None, tuple[BundleSource, EpochRecord]] = {}
        with (folder / EPOCHS).open("rb") as text:
            for _ in run.epochs:
                self._lines.append(text.readline())
            self._offset = text.tell()
        self._manifest = self._signature()

    def new_epochs(self) -> Iterator[EpochRecord]:
        """The epochs whose lines are whole and have not been given yet. Raises ``RunLogError``."""
        with (self._folder / EPOCHS).open("rb") as text:
            text.seek(self._offset)
            for line in text:
                if not line.endswith(b"\n"):
                    return
                self._meet_new_clients()
                record = self._checked(self._lines.append(line))
                self._offset += len(line)
                yield record

    def epoch(self, record: EpochRecord) -> EpochData:
        """The numbers of an epoch that was read, by its record, whatever number that gives it now."""
        if record.file in self._opened:
            source, checked = self._opened[record.file]
            return source.epoch(checked)
        return self._run.source.epoch(self._before.get(record.file, record))

    def forget(self, record: EpochRecord) -> None:
        """Nobody will ask for this epoch again."""
        self._opened.pop(record.file, None)

    def initial(self) -> Float32Array:
        """F⁰ of the recording."""
        return self._run.source.initial()

    def validation(self) -> Validation | None:
        """The validation set, if there is one."""
        return self._run.source.validation()

    def close(self) -> None:
        """Nothing is held open between reads."""

    def _signature(self) -> tuple[int, int]:
        status = os.stat(self._folder / MANIFEST)
        return status.st_ino, status.st_mtime_ns

    def _meet_new_clients(self) -> None:
        if (found := self._signature()) == self._manifest:
            return
        findings = Findings()
        parts = Parts(OneFileContainer(self._folder, MANIFEST), findings)
        manifest = read_manifest(parts.read_json(MANIFEST), self._run.name, findings)
        findings.raise_errors()
        assert manifest is not None
        for client in manifest.clients[len(self.clients) :]:
            self._lines.add_client(client)
        self.clients, self._manifest = manifest.clients, found

    def _checked(self, record: EpochRecord) -> EpochRecord:
        """The record with who counts in it; its numbers have been gone through."""
        if record.file is None:
            return record
        findings, width = Findings(), self._run.parameter_count
        parts = Parts(OneFileContainer(self._folder, record.file), findings)
        parts.lay_out(record.file, lambda layout: epoch_faults(layout, record, self.clients, width))
        findings.raise_errors()
        stored = parts.layouts[record.file].get("global") is not None
        record = replace(record, has_global=stored)
        values = EpochValues(parts, self.clients, self._run.parameters, [record], None)
        values.read(absent_if_nonfinite=True)
        findings.raise_errors()
        source = BundleSource(parts.container, parts.layouts, self._run.parameters, values.kept_rows)
        self._opened[record.file] = source, values.records[0]
        return values.records[0]

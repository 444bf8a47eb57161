"""Checks a directory or archive as a federated run, and gives what it holds.

One pass through the log in the order in which its parts depend on each other. A fault in one part does not stop the
others from being read, so that whoever wrote the log sees everything that is wrong with it at once. Each file's bytes
are read through once, in pieces: hash, finiteness and the evidence of ``log_checks`` come from the same pass.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.confusables import confusable_evidence
from flcontrib_core.runs.containers import Container, MemoryContainer
from flcontrib_core.runs.encoding import epoch_file, run_digest
from flcontrib_core.runs.epoch_lines import bound_line_bytes, bound_line_values, read_epoch_lines
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.epoch_values import EpochValues
from flcontrib_core.runs.limits import MAX_HEADER_BYTES, PIECE_BYTES, SMALL_VALIDATION, WINDOW
from flcontrib_core.runs.manifest import NUMBER_TYPES, VERSION, Manifest, read_manifest
from flcontrib_core.runs.model_nodes import Node, parse_spec, reads_tokens
from flcontrib_core.runs.model_spec import check_model_spec
from flcontrib_core.runs.parts import Parts, missing_file
from flcontrib_core.runs.problems import EnoughProblems, Findings, refusal, shown
from flcontrib_core.runs.run_log import EpochRecord, RunLog, base_digest
from flcontrib_core.runs.shape_checks import (
    INITIAL,
    VALIDATION,
    ValidationValues,
    epoch_faults,
    initial_faults,
    validation_faults,
)
from flcontrib_core.runs.strict_json import whole_lines
from flcontrib_core.runs.tasks import CLASSIFICATION, output_of_row, targets_of
from flcontrib_core.runs.tensors import Block, TensorLayout, is_pickled

MANIFEST, EPOCHS, MODEL = "manifest.json", "epochs.jsonl", "model.json"
_NAMED = (MANIFEST, EPOCHS, INITIAL, MODEL, VALIDATION)
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".joblib", ".ckpt", ".dill")

NonFinite = Literal["refuse", "absent"]


class BundleReader:
    """Reads one container, stage by stage; faults go to ``findings``, and ``run_log`` gives the run."""

    def __init__(
        self, container: Container, name: str, nonfinite: NonFinite, previous: RunLog | None, findings: Findings
    ) -> None:
        earlier = previous.source if previous is not None and isinstance(previous.source, BundleSource) else None
        self._parts = Parts(container, findings, earlier)
        self._findings = findings
        self._name = name
        self._nonfinite = nonfinite
        self._previous = previous
        self.manifest: Manifest | None = None
        self.records: list[EpochRecord] = []
        self._model: Any = None
        self._nodes: list[Node] = []
        self._width = 0
        self._values: EpochValues | None = None

    def check_names(self) -> None:
        """Refuse what can run code when it is loaded, before anything else is looked at."""
        for name in self._parts.container.sizes:
            head = b""
            if name.lower().endswith(".npy"):
                with self._parts.faults_of(name), self._parts.open(name) as stream:
                    head = stream.read(4096)
            if name.lower().endswith(_PICKLES) or is_pickled(head):
                self._findings.refuse("E_PICKLE", shown(name), "a pickle or object array")

    def read_texts(self) -> None:
        """manifest.json, model.json and epochs.jsonl."""
        for name in (MANIFEST, EPOCHS, INITIAL):
            if name not in self._parts:
                self._missing(name)
        self._read_manifest_and_model()
        if EPOCHS in self._parts:
            with self._parts.faults_of(EPOCHS), self._parts.open(EPOCHS) as stream:
                container = self._parts.container
                clients = self.manifest.clients if self.manifest else ()
                self._count_line_values()
                lines = whole_lines(stream, container.can_grow, EPOCHS)
                used = hashlib.sha256()
                version = self.manifest.version if self.manifest else VERSION
                epochs = read_epoch_lines(_hashed(lines, used), clients, self._findings, version)
                self.records = epochs.records
                for key in sorted(epochs.unread):
                    self._findings.warn("W_VERSION", EPOCHS, f'"{key}" in a log of version 1')
                self._parts.hashes[EPOCHS] = used.hexdigest()

    def _read_manifest_and_model(self) -> None:
        if MANIFEST in self._parts:
            with self._parts.faults_of(MANIFEST):
                self.manifest = read_manifest(self._parts.read_json(MANIFEST), self._name, self._findings)
        if MODEL in self._parts:
            with self._parts.faults_of(MODEL):
                self._model = self._parts.read_json(MODEL)
                self._nodes, faults = parse_spec(self._model)
                for problem in faults:
                    self._findings.add(problem)
        if self.manifest is not None:
            self._check_listed(self.manifest)

    def _count_line_values(self) -> None:
        """A word before the work: reading two million names takes seconds, counting commas does not."""
        size, values = self._parts.container.sizes[EPOCHS], 0
        bound_line_bytes(size)
        with self._parts.open(EPOCHS) as stream:
            while piece := stream.read(PIECE_BYTES):
                values += piece.count(b",")
        bound_line_values(values)

    def _missing(self, name: str) -> None:
        self._findings.refuse(*missing_file(name, self._parts.container.sizes))

    def _check_listed(self, manifest: Manifest) -> None:
        """Is every file that is written once there, with its hash?"""
        for name in (INITIAL, MODEL, VALIDATION):
            present, listed = name in self._parts, name in manifest.files
            if listed and not present and name != INITIAL:
                self._missing(name)
            # model.json is text; only files of tensors have to be listed.
            if present and not listed and name != MODEL and "files" in manifest.content:
                self._findings.refuse(
                    "E_HASH", f"{MANIFEST}:files", f"no sha256 of {name}", "one for each file written once"
                )
        needed = targets_of(manifest.task).needs_classes
        if VALIDATION in self._parts and needed and manifest.content.get("classes") is None:
            self._findings.refuse(
                "E_MANIFEST", f"{MANIFEST}:classes", "none", "the number of classes of the validation set"
            )

    def read_layouts(self) -> None:
        """Every tensor file's header, and whether its shapes are the promised ones."""
        manifest = self.manifest
        parameters = manifest.parameters if manifest else ()
        self._width = sum(spec.count for spec in parameters)
        self._parts.lay_out(
            INITIAL, lambda layout: initial_faults(layout, parameters) if parameters else [], MAX_HEADER_BYTES
        )
        tokens = reads_tokens(self._nodes) if self._nodes else None
        size = self._parts.container.sizes.get(VALIDATION, 0)
        task = manifest.task if manifest else CLASSIFICATION
        self._parts.lay_out(VALIDATION, lambda layout: validation_faults(layout, size, tokens, task))
        if self._nodes and parameters and manifest:
            known = (*parameters, *(manifest.frozen.parameters if manifest.frozen else ()))
            outputs = self._outputs_of_a_row(manifest)
            for problem in check_model_spec(self._model, known, outputs, self._validation_shape()):
                self._findings.add(problem)
        for index, record in enumerate(self.records):
            if record.file is not None and record.file not in self._parts:
                self._missing(record.file)
            elif record.file is not None:
                self._parts.lay_out(record.file, self._epoch_faults(record))
                if record.file in self._parts.layouts and self._parts.layouts[record.file].get("global") is not None:
                    self.records[index] = dataclasses.replace(record, has_global=True)
        width = self._width
        if width > WINDOW and any(record.has_global for record in self.records):
            why = f"{width} parameters with stored server models"
            self._parts.container.bound_passes(math.ceil(width / WINDOW), why)

    def _epoch_faults(self, record: EpochRecord) -> Callable[[TensorLayout], list[Problem]]:
        def faults(layout: TensorLayout) -> list[Problem]:
            if self.manifest is None or not self.manifest.parameters:
                return []
            kind = NUMBER_TYPES.get(self.manifest.dtype or "")
            return epoch_faults(layout, record, self.manifest.clients, self._width, kind)

        return faults

    def _validation_shape(self, name: str = "x") -> tuple[int, ...] | None:
        tensor = self._parts.layouts[VALIDATION].get(name) if VALIDATION in self._parts.layouts else None
        return tensor.shape if tensor is not None else None

    def _outputs_of_a_row(self, manifest: Manifest) -> int | tuple[int, ...] | None:
        """What the model must give for one row."""
        if manifest.task == CLASSIFICATION:
            return manifest.classes
        y = self._validation_shape("y")
        return None if y is None else output_of_row(manifest.task, manifest.classes, y)

    def read_values(self) -> None:
        """Every number once: hashes, finiteness, labels."""
        manifest = self.manifest
        if manifest is None or not manifest.parameters:
            return
        self._read_first_values(manifest)
        self._values = EpochValues(
            self._parts, manifest.clients, manifest.parameters, self.records, self._earlier_reading(manifest)
        )
        self._values.read(absent_if_nonfinite=self._nonfinite == "absent")
        self.records = self._values.records
        for name in (INITIAL, MODEL, VALIDATION):
            if name in manifest.files:
                self._parts.hash_fits(name, manifest.files[name], MANIFEST)

    def _read_first_values(self, manifest: Manifest) -> None:
        """The numbers that are written once: the initial model and the validation set."""
        if INITIAL in self._parts.layouts and not self._known_from_before(INITIAL):
            with self._parts.faults_of(INITIAL):
                self._parts.stream(INITIAL, _refuse_nonfinite)
        if VALIDATION in self._parts.layouts and not self._known_from_before(VALIDATION):
            with self._parts.faults_of(VALIDATION):
                values = ValidationValues(manifest.classes, self._vocabulary(manifest), manifest.task)
                self._parts.stream(VALIDATION, values.take)
                if found := values.problems():
                    raise RunLogError(tuple(found))

    def read_opening(self) -> None:
        """The files that are written once, before any epoch: a recorder asks so before it writes them."""
        self._read_manifest_and_model()
        self.read_layouts()
        if self.manifest is not None and self.manifest.parameters:
            self._read_first_values(self.manifest)

    def _known_from_before(self, name: str) -> bool:
        """Has an earlier reading been through this very file, under the same manifest and architecture?"""
        earlier, hashes = self._parts.earlier, self._parts.hashes
        if earlier is None or any(earlier.hashes.get(text) != hashes.get(text) for text in (MANIFEST, MODEL)):
            return False
        if not earlier.unchanged(self._parts.container, name):
            return False
        hashes[name] = earlier.hashes[name]
        return True

    def _base_digest(self, manifest: Manifest) -> str:
        hashes = self._parts.hashes
        return base_digest(
            manifest.clients, manifest.parameters, hashes.get(INITIAL, ""), hashes.get(MODEL), hashes.get(VALIDATION)
        )

    def _earlier_reading(self, manifest: Manifest) -> BundleSource | None:
        """What is known of this run's epochs from before, if it is the same run that has grown."""
        if self._previous is None or self._previous.base_digest != self._base_digest(manifest):
            return None
        return self._parts.earlier

    def _vocabulary(self, manifest: Manifest) -> int | None:
        """How many token numbers does the smallest embedding know?"""
        frozen = manifest.frozen.parameters if manifest.frozen else ()
        shapes = {spec.name: spec.shape for spec in (*manifest.parameters, *frozen)}
        names = [node.fields["weight"] for node in self._nodes if node.op == "embedding"]
        return min((shapes[name][0] for name in names if shapes.get(name)), default=None)

    def cross_check(self) -> None:
        """Evidence about the log itself; only for a log without faults."""
        if self._findings.errors or self.manifest is None or self._values is None:
            return
        self._findings.warnings += self._values.evidence()
        self._findings.warnings += confusable_evidence([client.id for client in self.manifest.clients])
        shape = self._validation_shape()
        if shape is not None and shape[0] < SMALL_VALIDATION:
            self._findings.warn("W_VALID_SMALL", VALIDATION, f"{shape[0]} rows")
        used = {*_NAMED, *(record.file for record in self.records)}
        container = self._parts.container
        if container.can_grow:  # what a recorder works on, and hidden files, which are its own or the file system's
            used.add(epoch_file(len(self.records) + 1))
            used.update(name for name in container.sizes if _hidden(name))
        extra = [name for name in container.sizes if name not in used]
        if extra:
            names = ", ".join(shown(name, 60) for name in sorted(extra)[:5]) + (", …" if len(extra) > 5 else "")
            found = f"{len(extra)} unknown files: {names}"
            self._findings.warn("W_EXTRA_FILE", "log", found)

    def run_log(self, origin: str) -> RunLog:
        """The run; only where no fault was found."""
        manifest, values, parts = self.manifest, self._values, self._parts
        assert manifest is not None
        assert values is not None
        return RunLog(
            name=manifest.name,
            digest=run_digest(parts.hashes),
            clients=manifest.clients,
            parameters=manifest.parameters,
            epochs=tuple(self.records),
            classes=manifest.classes,
            model=self._model,
            has_validation=VALIDATION in parts.layouts,
            source=BundleSource(
                parts.container,
                parts.layouts,
                manifest.parameters,
                values.kept_rows,
                values.verified,
                values.differences,
                dict(parts.hashes),
                self._nonfinite,
            ),
            truth=manifest.truth,
            warnings=tuple(self._findings.warnings),
            base_digest=self._base_digest(manifest),
            origin=origin,
            manifest=manifest.content,
            notes=manifest.notes,
            task=manifest.task,
            frozen=manifest.frozen,
            casts=_casts(parts.layouts),
        )


def check_opening(contents: Mapping[str, bytes]) -> None:
    """Would a reader take these files as the beginning of a run? Raises ``RunLogError`` with every fault it has.

    The recorder's gate: what could not be read later is refused before it is written, by the reader's own checks.
    """
    findings = Findings()
    with suppress(EnoughProblems):
        BundleReader(MemoryContainer(contents), "", "refuse", None, findings).read_opening()
    findings.raise_errors()


def _casts(layouts: dict[str, TensorLayout]) -> tuple[str, ...]:
    files: dict[str, set[str]] = defaultdict(set)
    for name, layout in layouts.items():
        for tensor in layout.tensors:
            if tensor.dtype in ("F16", "BF16"):
                files[tensor.dtype].add(name)
    return tuple(f"{dtype} read as float32: {', '.join(sorted(names))}" for dtype, names in sorted(files.items()))


def _hashed(lines: Iterator[bytes], into: Any) -> Iterator[bytes]:
    for line in lines:
        into.update(line)
        yield line


def _hidden(name: str) -> bool:
    return name.split("/")[-1].startswith(".")


def _refuse_nonfinite(block: Block) -> None:
    if not np.isfinite(block.values).all():
        where = f"{INITIAL}:{shown(block.tensor.name)[1:-1]}"
        raise refusal("E_NONFINITE:model", where, "NaN or infinite numbers")

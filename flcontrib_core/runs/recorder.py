"""``RunRecorder``: writes down a federated run while it happens.

A run is a directory that grows by one epoch at a time. Each epoch's tensors are written to a temporary name, synced
and renamed; the line in ``epochs.jsonl`` that makes the epoch part of the run is appended last. Whatever moment a
crash picks, the directory is a sound run of all epochs finished so far, and a reader may follow it as it grows.
Needs numpy and safetensors only.

>>> with RunRecorder("run", clients=[("a", 120), ("b", 80)], parameters=[("w", (2,))], initial=[0.0, 0.0]) as rec:
...     rec.epoch({"a": [0.5, 0.0], "b": [0.0, 1.0]})           # doctest: +SKIP
1
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from safetensors.numpy import load_file

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs import encoding
from flcontrib_core.runs.bundle_writer import write_bundle
from flcontrib_core.runs.claims import IdentityClaim
from flcontrib_core.runs.encoding import EPOCHS, INITIAL, MANIFEST
from flcontrib_core.runs.epoch_lines import EpochLines
from flcontrib_core.runs.epoch_rows import uses_version_two
from flcontrib_core.runs.inputs import EpochOptions, Numbers, as_metrics, flatten
from flcontrib_core.runs.manifest import VERSION, read_notes
from flcontrib_core.runs.opening import opening_of
from flcontrib_core.runs.problems import Findings, refusal
from flcontrib_core.runs.rebuilding import last_model, same_model
from flcontrib_core.runs.run_folder import RunFolder
from flcontrib_core.runs.run_log import Truth
from flcontrib_core.runs.shape_checks import epoch_size_faults
from flcontrib_core.runs.tasks import CLASSIFICATION
from flcontrib_core.vocabulary import Float32Array

_NO_HASH_YET = "0" * 64


class RunRecorder:
    """Writes one federated run; opening a directory that already holds it continues at the next epoch.

    ``clients``: ``(id, data_size)`` pairs or ``{"id", "data_size"}`` mappings. ``parameters``: ``(name, shape)``
    pairs in the order of the flattened vector, or a mapping of named arrays or tensors (a ``state_dict()``), which
    then also gives the initial model. ``initial``: F⁰ as a flat vector, a mapping by name or a list of arrays.
    ``validation``: ``(x, y)`` or ``(x, y, group)``. ``classes``: how many there are (default: the torch module's
    logits, else one more than the largest label). ``model``: the content of model.json, or a torch module, which is
    traced with the first validation row and gives the parameters and the initial model where these are left out.
    ``truth``: who was dishonest and when, for labelled runs. ``created``: an ISO time; leave it out where the bytes
    must be reproducible. ``durable=False`` skips the syncs (a simulation can be run again). ``dtype``: how updates are
    stored; ``"float16"`` and ``"bfloat16"`` halve the log, whose models are then what the rounded updates add up to.
    ``task``: 'regression', 'multi-label', 'segmentation', 'language' or another word, where targets are not one class
    per row. ``frozen``: tensors by name that nobody trains, kept as a digest; by default all that a torch module has
    beside ``parameters``. ``local``: the same for a part that every client keeps for itself, kept as its shapes.

    To go on after a crash, train on from ``last_model()`` at ``next_epoch``. Raises ``RunLogError`` with what to do;
    what the reader would refuse later is refused when the recorder is made, and in ``epoch``, by the reader's checks.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clients: Iterable[Any],
        parameters: Any = None,
        initial: Numbers | None = None,
        model: Any = None,
        validation: Any | None = None,
        classes: int | None = None,
        name: str | None = None,
        truth: Truth | Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        created: str | None = None,
        durable: bool = True,
        dtype: str = "float32",
        task: str = CLASSIFICATION,
        frozen: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self._dtype = encoding.checked_dtype(dtype)
        opening = opening_of(
            clients=clients,
            parameters=parameters,
            initial=initial,
            model=model,
            validation=validation,
            classes=classes,
            name=name,
            truth=truth,
            source=source,
            created=created,
            dtype=dtype,
            task=task,
            frozen=frozen,
            local=local,
        )
        self._roster = opening.roster
        self._lines = EpochLines(self._roster.clients, Findings(), VERSION)
        self.manifest: dict[str, Any] = {}
        """manifest.json as recorded."""
        self._hashes: dict[str, str] = {}
        self._text = hashlib.sha256()
        self.next_epoch = 1
        """The number the next recorded epoch gets."""
        self._folder = RunFolder(self.path, durable=durable)
        if INITIAL not in opening.contents and not self._folder.holds_a_run:
            raise refusal("E_MISSING:argument", "initial model", "none", "F⁰, the model of epoch 0")
        self._folder.require_room(self._roster.total * (encoding.stored_bytes(dtype) + 4))
        self._claim(opening.manifest, opening.contents, opening.initial)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters in the order of the flat vector."""
        return tuple(p.name for p in self._roster.parameters)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the recording; the directory stays a run and can be opened again."""
        self._folder.close()

    def epoch(
        self,
        updates: Numbers,
        *,
        participants: Sequence[str] | None = None,
        data_sizes: Mapping[str, int] | Sequence[int] | None = None,
        weights: Mapping[str, Any] | Sequence[float] | None = None,
        start_epoch: Mapping[str, Any] | Sequence[int] | None = None,
        global_model: Numbers | None = None,
        failed: Mapping[str, str] | Iterable[Any] | None = None,
        asked: Sequence[str] | None = None,
        metrics: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        claims: Iterable[IdentityClaim] = (),
        gap: str | None = None,
    ) -> int:
        """Appends one epoch and returns its number.

        ``updates``: Δ of every participant, as a mapping id → (flat vector | mapping by name | list of arrays) or
        as an array (participants, P). ``participants`` may be left out where the mapping names them or every client
        took part; with an array a client may be named in several rows. ``data_sizes`` holds for this epoch only.
        ``weights``: what the server weighed the updates with, where that is not the data sizes; ``start_epoch``: the
        epoch whose model an update began from, where that is older than the last (0: the initial model). Both by id, or
        as a list with one number per row. ``global_model``: the server's model after the epoch,
        needed where the server is not plain FedAvg. ``failed``: id → reason, or ids; where only ``asked`` is given,
        those who did not answer. ``source``: what the training framework knows beside (node ids, a round's number);
        kept, never read. ``claims``: replies whose name and node do not belong together. ``gap``: why an epoch that
        happened could not be recorded as it was.
        """
        told = EpochOptions(
            participants=participants,
            data_sizes=data_sizes,
            weights=weights,
            start_epoch=start_epoch,
            global_model=global_model,
            failed=failed,
            asked=asked,
            metrics=metrics,
            source=source,
            claims=claims,
            gap=gap,
        )
        return self.append_epoch(self.store_epoch(updates, **told))

    def store_epoch(self, updates: Numbers, **told: Unpack[EpochOptions]) -> dict[str, Any]:
        """The first half of ``epoch``: writes the tensors, one row at a time, and returns the epoch's line."""
        if not self._folder.is_open:
            raise refusal("E_CLOSED", str(self.path), "a closed recorder", "an open one")
        number, where = self.next_epoch, f"epoch {self.next_epoch}"
        roster = self._roster
        names, rows = roster.updates(updates, told.get("participants"), where)
        server = None
        if told.get("global_model") is not None:
            server = flatten(told["global_model"], roster.parameters, f"{where}, global model")
        per_number = encoding.stored_bytes(self._dtype)
        if faults := epoch_size_faults(roster.total * (per_number * len(names) + 4 * (server is not None)), where):
            raise RunLogError(tuple(faults))
        stored = bool(names) or server is not None
        line = encoding.epoch_line(
            number,
            names,
            data_sizes=roster.epoch_sizes(told.get("data_sizes"), names, where),
            weights=roster.per_row(told.get("weights"), names, f"{where}, weights"),
            start_epoch=roster.per_row(told.get("start_epoch"), names, f"{where}, start_epoch"),
            asked=told.get("asked"),
            failed=roster.failures(told.get("failed"), told.get("asked"), names),
            metrics=as_metrics(told.get("metrics") or {}, where),
            source=told.get("source"),
            claims=[claim.to_json() for claim in told.get("claims", ())],
            gap=told.get("gap"),
            file=encoding.epoch_file(number) if stored else None,
            sha256=_NO_HASH_YET if stored else None,
        )
        text = encoding.json_bytes(line, strict=False)
        self._lines.append(text)  # asks whether the reader would take it, before anything is written
        self._lines.withdraw(text)
        if stored:
            pieces = encoding.epoch_pieces(rows, len(names), roster.total, server, self._dtype)
            line["sha256"] = self._folder.write(line["file"], pieces)
        return line

    def keep_line(self, line: Mapping[str, Any]) -> None:
        """Keeps a stored epoch's line beside the log: where a crash comes first, the next recorder finds it there."""
        self._folder.keep_line(line)

    def append_epoch(self, line: Mapping[str, Any], metrics: Mapping[str, Any] | None = None) -> int:
        """The second half of ``epoch``: the stored epoch becomes part of the run, with the metrics found since."""
        number = self.next_epoch
        values = {**line.get("metrics", {}), **as_metrics(metrics or {}, f"epoch {number}")}
        text = encoding.json_bytes(encoding.with_metrics(line, values) if values else line, strict=False)
        self._lines.append(text)
        try:
            if uses_version_two(line):
                self._write_manifest(version=2)  # before the line: a reader that follows must not ignore it
            self._folder.append(text)
        except BaseException:  # raised again, whatever it is
            self._lines.withdraw(text)
            raise
        self._folder.forget_line()
        self._text.update(text)
        if "file" in line:
            self._hashes[line["file"]] = line["sha256"]
        self.next_epoch += 1
        return number

    def add_client(self, identity: str, data_size: int) -> None:
        """Takes a client into the run that joined later: the manifest is written again with it."""
        self._lines.add_client(self._roster.add(identity, data_size))
        self.manifest["clients"].append({"id": identity, "data_size": data_size})
        self._write_manifest()

    def add_note(self, client: str, epochs: tuple[int, int], text: str, *, by: str = "", when: str = "") -> None:
        """Writes a declared fact about a client into the log: 'new scanner', epochs 12 to 20."""
        note = {"client": client, "epochs": list(epochs), "text": text, "by": by, "when": when}
        notes = [*self.manifest.get("notes", []), note]
        findings = Findings()
        read_notes(notes, self._roster.clients, findings)
        findings.raise_errors()
        self._write_manifest(version=2, notes=notes)

    def _write_manifest(self, **changed: Any) -> None:
        """The manifest with these entries; nothing is written where nothing changes but what the caller did."""
        if changed and all(self.manifest.get(key) == value for key, value in changed.items()):
            return
        self.manifest |= changed
        self._hashes[MANIFEST] = self._folder.write(MANIFEST, [encoding.json_bytes(self.manifest, indent=1)])

    def last_model(self) -> Float32Array:
        """The flat model after the last recorded epoch, from which an interrupted training goes on.

        A stored ``global`` where the log has one, otherwise the weighted mean of eq. (fl_naive) rebuilt.
        """
        return last_model(self.path, self._initial(), self._roster.sizes)

    def goes_on_from(self, model: Numbers) -> bool:
        """Is this the model the recorded epochs ended with, up to the rounding of what is stored?"""
        flat = flatten(model, self._roster.parameters, "model")
        return same_model(flat, self.last_model(), self._initial(), self._dtype)

    def _initial(self) -> Float32Array:
        return flatten(load_file(self.path / INITIAL), self._roster.parameters, INITIAL)

    def digest(self) -> str:
        """The run's identity as recorded so far: the same for the directory and for every zip of it."""
        return encoding.run_digest({**self._hashes, EPOCHS: self._text.hexdigest()})

    def bundle(self, path: str | os.PathLike[str] | None = None, *, compress: bool = True) -> Path:
        """Zips the run into one ``.flrun`` file, the same bytes every time, and returns its path."""
        target = Path(path) if path is not None else self.path.with_name(self.path.name + ".flrun")
        return write_bundle(self.path, [*self._hashes, EPOCHS], target, compress=compress)

    def _claim(self, manifest: dict[str, Any], contents: Mapping[str, bytes], initial: Float32Array | None) -> None:
        self._folder.claim()
        try:
            self._reopen(manifest, initial) if self._folder.holds_a_run else self._begin(manifest, contents)
        except BaseException:  # raised again, whatever it is
            self.close()
            raise

    def _begin(self, manifest: dict[str, Any], contents: Mapping[str, bytes]) -> None:
        self._folder.truncate(0)
        for file, content in contents.items():
            self._folder.write(file, [content])
        written = self._folder.write(MANIFEST, [encoding.json_bytes(manifest, indent=1)])  # last: now it is a run
        self._hashes = {**manifest["files"], MANIFEST: written}
        self.manifest = manifest

    def _reopen(self, given: Mapping[str, Any], initial: Float32Array | None) -> None:
        """Continues a recorded run: the same federation, an unbroken text, the last epoch's tensors in place."""
        text = (self.path / MANIFEST).read_bytes()
        recorded = json.loads(text)
        for key in ("clients", "parameters", "classes", "truth", "dtype", "task", "frozen"):
            if key in given and recorded.get(key) != given[key]:
                raise _other_run(self.path, key)
        self._folder.remove_leftovers()
        self._hashes = {**recorded["files"], MANIFEST: encoding.sha256(text)}
        self._resume_lines()
        self.manifest = recorded
        if self.next_epoch > 1 and given["files"].get(INITIAL) == recorded["files"].get(INITIAL):
            self._folder.tell_goes_on(self.next_epoch)
        for file, content in given["files"].items():
            if recorded["files"].get(file) != content and not (file == INITIAL and self._ended_with(initial)):
                raise _other_run(self.path, file)

    def _ended_with(self, model: Numbers) -> bool:
        """Did the run end with this model, if need be after the epoch that a crash left without its line?"""
        if not self.goes_on_from(model):
            if (line := self._folder.kept_line(self.next_epoch)) is None:
                return False
            self.append_epoch(line)
        return self.goes_on_from(model)

    def _resume_lines(self) -> None:
        content = (self.path / EPOCHS).read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        record = None
        for line in whole.splitlines(keepends=True):
            record = self._lines.append(line)
            if record.file is not None and record.sha256 is not None:
                self._hashes[record.file] = record.sha256
            self.next_epoch = record.epoch + 1
        if record is not None and record.file is not None:
            last = self.path / record.file
            if not last.exists() or encoding.sha256(last.read_bytes()) != record.sha256:
                raise refusal("E_HASH:resume", record.file, "missing or changed tensors", "the recorded ones")
        if whole != content:  # a crash tore the last line: that epoch was never part of the run
            self._folder.truncate(len(whole))
        self._text.update(whole)


def _other_run(path: Path, part: str) -> RunLogError:
    return refusal("E_OTHER_RUN", f"{path}, {part}", "something else than the run recorded there")

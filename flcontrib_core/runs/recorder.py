"""How does a training loop write down its federated run while it happens?

A run is a directory that grows by one epoch at a time. Each epoch's tensors are written to a temporary name, synced
and renamed; the line in ``epochs.jsonl`` that makes the epoch part of the run is appended last. Whatever moment a
crash picks, the directory is a sound run of all epochs finished so far, and a reader may follow it as it grows.
Needs numpy and safetensors only.

>>> with RunRecorder("run", clients=[("a", 120), ("b", 80)], parameters=[("w", (2,))], initial=[0.0, 0.0]) as rec:
...     rec.epoch({"a": [0.5, 0.0], "b": [0.0, 1.0]})           # doctest: +SKIP
1
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from safetensors.numpy import load_file

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs import encoding
from flcontrib_core.runs.bundle_reader import check_opening
from flcontrib_core.runs.bundle_writer import write_bundle
from flcontrib_core.runs.encoding import EPOCHS, INITIAL, MANIFEST, MODEL, VALIDATION
from flcontrib_core.runs.epoch_lines import EpochLines
from flcontrib_core.runs.inputs import Numbers, Roster, as_metrics, as_model, as_plain, as_validation, flatten
from flcontrib_core.runs.problems import Findings, refusal
from flcontrib_core.runs.run_log import Truth
from flcontrib_core.runs.shape_checks import epoch_size_faults
from flcontrib_core.vocabulary import Float32Array

_PARTIAL = ".partial"


class RunRecorder:
    """Writes one federated run; opening a directory that already holds it continues at the next epoch.

    ``clients``: ``(id, data_size)`` pairs or ``{"id", "data_size"}`` mappings. ``parameters``: ``(name, shape)``
    pairs in the order of the flattened vector, or a mapping of named arrays or tensors (a ``state_dict()``), which
    then also gives the initial model. ``initial``: F⁰ as a flat vector, a mapping by name or a list of arrays.
    ``validation``: ``(x, y)`` or ``(x, y, group)``, with ``classes`` beside it. ``model``: the architecture as the
    content of model.json, or a torch module, which is traced with the first validation row and gives the parameters
    and the initial model where these are left out. ``truth``: who was dishonest and when, for labelled runs.
    ``created``: an ISO time; leave it out where the bytes must be reproducible. ``durable=False`` skips the syncs
    (a simulation can be run again).

    To go on after a crash, train on from ``last_model()`` at ``next_epoch``.

    Raises ``RunLogError`` with a code, the place, what was found and what to do; what the reader would refuse later is
    refused when the recorder is made, and in ``epoch``, by the reader's own checks.
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
    ) -> None:
        self.path = Path(path)
        if hasattr(model, "state_dict"):
            parameters = model.state_dict() if parameters is None else parameters
            model = as_model(model, validation)
        if parameters is None:
            raise refusal("E_MISSING:argument", "parameters", "none", "names and shapes")
        self._roster = Roster(clients, parameters)
        self._durable = durable
        if initial is None and isinstance(parameters, Mapping):
            initial = parameters
        if initial is not None:
            initial = flatten(initial, self._roster.parameters, "initial model")
        contents = self._contents(initial, model, validation)
        manifest = encoding.manifest_record(
            self._roster.clients,
            self._roster.parameters,
            {file: encoding.sha256(content) for file, content in contents.items()},
            name=name,
            created=created,
            source=dict(source) if source is not None else None,
            task="classification" if classes is not None else None,
            classes=as_plain(classes),
            truth=None if truth is None else encoding.truth_record(truth),
        )
        check_opening({**contents, MANIFEST: encoding.json_bytes(manifest, indent=1, strict=False)})
        self._lines = EpochLines(self._roster.clients, Findings())
        self.manifest: dict[str, Any] = {}
        """manifest.json as recorded."""
        self._hashes: dict[str, str] = {}
        self._text = hashlib.sha256()
        self.next_epoch = 1
        """The number the next recorded epoch gets."""
        self._log: BinaryIO | None = self._claimed_log(started=INITIAL in contents)
        try:
            if (self.path / MANIFEST).exists():
                self._reopen(manifest, initial)
            else:
                self._begin(manifest, contents)
        except BaseException:
            self.close()
            raise

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._roster.parameters)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the recording; the directory stays a run and can be opened again."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def epoch(
        self,
        updates: Numbers,
        *,
        participants: Sequence[str] | None = None,
        data_sizes: Mapping[str, int] | Sequence[int] | None = None,
        global_model: Numbers | None = None,
        failed: Mapping[str, str] | Iterable[Any] | None = None,
        asked: Sequence[str] | None = None,
        metrics: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> int:
        """Appends one epoch and returns its number.

        ``updates``: Δ of every participant, as a mapping id → (flat vector | mapping by name | list of arrays) or
        as an array (participants, P). ``participants`` may be left out where the mapping names them or every client
        took part. ``data_sizes`` holds for this epoch only. ``global_model``: the server's model after the epoch,
        needed where the server is not plain FedAvg. ``failed``: id → reason, or ids; where only ``asked`` is given,
        those who did not answer. ``source``: what the training framework knows beside (node ids, a round's number);
        kept, never read.
        """
        if self._log is None:
            raise refusal("E_CLOSED", str(self.path), "a closed recorder", "an open one")
        number, where = self.next_epoch, f"epoch {self.next_epoch}"
        roster = self._roster
        names, matrix = roster.updates(updates, participants, where)
        sizes = roster.epoch_sizes(data_sizes, names, where)
        server = None
        if global_model is not None:
            server = flatten(global_model, roster.parameters, f"{where}, global model")
        taken = sum(tensor.nbytes for tensor in (matrix, server) if tensor is not None)
        if faults := epoch_size_faults(taken, where):
            raise RunLogError(tuple(faults))
        content = encoding.epoch_bytes(matrix, server)
        line = encoding.epoch_line(
            number,
            names,
            content,
            data_sizes=sizes,
            asked=asked,
            failed=roster.failures(failed, asked, names),
            metrics=as_metrics(metrics or {}, where),
            source=source,
        )
        text = encoding.json_bytes(line, strict=False)
        self._lines.append(text)
        try:
            if content is not None:
                self._write(line["file"], content)
                self._hashes[line["file"]] = line["sha256"]
            self._append(text)
        except BaseException:
            self._lines.withdraw(text)
            raise
        self.next_epoch += 1
        return number

    def last_model(self) -> Float32Array:
        """The flat model after the last recorded epoch, from which an interrupted training goes on.

        A stored ``global`` where the log has one, otherwise the weighted mean of eq. (fl_naive) rebuilt.
        """
        model = flatten(load_file(self.path / INITIAL), self._roster.parameters, INITIAL).astype(np.float64)
        for line in (self.path / EPOCHS).read_bytes().splitlines():
            entry = json.loads(line)
            if "file" not in entry:
                continue
            tensors = load_file(self.path / entry["file"])
            if "global" in tensors:
                model = tensors["global"].astype(np.float64)
            else:
                own = entry.get("data_sizes", {})
                sizes = np.array([own.get(c, self._roster.sizes[c]) for c in entry["participants"]], dtype=np.float64)
                model = model + (sizes / sizes.sum()) @ tensors["updates"].astype(np.float64)
        return model.astype(np.float32)

    def goes_on_from(self, model: Numbers) -> bool:
        """Is this the model the recorded epochs ended with, up to rounding?"""
        flat = flatten(model, self._roster.parameters, "model")
        return bool(np.allclose(flat, self.last_model(), rtol=1e-5, atol=1e-6))

    def digest(self) -> str:
        """The run's identity as recorded so far: the same for the directory and for every zip of it."""
        return encoding.run_digest({**self._hashes, EPOCHS: self._text.hexdigest()})

    def bundle(self, path: str | os.PathLike[str] | None = None, *, compress: bool = True) -> Path:
        """Zips the run into one ``.flrun`` file, the same bytes every time, and returns its path."""
        target = Path(path) if path is not None else self.path.with_name(self.path.name + ".flrun")
        return write_bundle(self.path, [*self._hashes, EPOCHS], target, compress=compress)

    def _contents(
        self, initial: Float32Array | None, model: Mapping[str, Any] | None, validation: Any | None
    ) -> dict[str, bytes]:
        """The files that are written once, as far as the caller gave them."""
        contents: dict[str, bytes] = {}
        if initial is not None:
            contents[INITIAL] = encoding.initial_bytes(initial, self._roster.parameters)
        if model is not None:
            contents[MODEL] = encoding.json_bytes(model, indent=1, strict=False)
            model = json.loads(contents[MODEL])
        if validation is not None:
            contents[VALIDATION] = encoding.validation_bytes(as_validation(validation, model))
        return contents

    def _claimed_log(self, started: bool) -> BinaryIO:
        """The open epochs.jsonl of a folder that holds this run, or may hold it; one recorder at a time."""
        if not (self.path / MANIFEST).exists():
            if not started:
                raise refusal("E_MISSING:argument", "initial model", "none", "F⁰, the model of epoch 0")
            (self.path / "epochs").mkdir(parents=True, exist_ok=True)
            ours = {"epochs", EPOCHS, INITIAL, MODEL, VALIDATION}
            strangers = [f.name for f in self.path.iterdir() if f.name not in ours and not f.name.endswith(_PARTIAL)]
            if strangers:
                raise refusal(
                    "E_NOT_EMPTY", str(self.path), f"a folder with other files ({', '.join(sorted(strangers)[:3])})"
                )
        log = (self.path / EPOCHS).open("ab", buffering=0)
        _claim(log, self.path)
        return log

    def _begin(self, manifest: dict[str, Any], contents: Mapping[str, bytes]) -> None:
        os.truncate(self.path / EPOCHS, 0)
        for file, content in contents.items():
            self._write(file, content)
        text = encoding.json_bytes(manifest, indent=1)
        self._write(MANIFEST, text)  # last: a folder with a manifest is a run
        self._hashes = {**manifest["files"], MANIFEST: encoding.sha256(text)}
        self.manifest = manifest

    def _reopen(self, given: Mapping[str, Any], initial: Float32Array | None) -> None:
        """Continues a recorded run: the same federation, an unbroken text, the last epoch's tensors in place."""
        text = (self.path / MANIFEST).read_bytes()
        recorded = json.loads(text)
        for key in ("clients", "parameters", "classes", "truth"):
            if key in given and recorded.get(key) != given[key]:
                raise self._other_run(key)
        for leftover in [*self.path.glob(f".*{_PARTIAL}"), *self.path.glob(f"epochs/.*{_PARTIAL}")]:
            leftover.unlink()
        self._hashes = {**recorded["files"], MANIFEST: encoding.sha256(text)}
        self._resume_lines()
        for file, content in given["files"].items():
            if recorded["files"].get(file) != content and not (file == INITIAL and self.goes_on_from(initial)):
                raise self._other_run(file)
        self.manifest = recorded

    def _other_run(self, part: str) -> RunLogError:
        return refusal("E_OTHER_RUN", f"{self.path}, {part}", "something else than the run recorded there")

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
            os.truncate(self.path / EPOCHS, len(whole))
        self._text.update(whole)

    def _write(self, name: str, content: bytes) -> None:
        """Temporary name, sync, rename: the file is either absent or whole."""
        target = self.path / name
        partial = target.with_name(f".{target.name}{_PARTIAL}")
        with partial.open("wb") as out:
            out.write(content)
            if self._durable:
                out.flush()
                os.fsync(out.fileno())
        partial.replace(target)
        self._sync(target.parent)

    def _append(self, line: bytes) -> None:
        assert self._log is not None
        before = (self.path / EPOCHS).stat().st_size
        try:
            if self._log.write(line) != len(line):
                raise OSError(errno.ENOSPC, "the disk took only part of the epoch's line", str(self.path / EPOCHS))
            if self._durable:
                os.fsync(self._log.fileno())
        except OSError:
            os.truncate(self.path / EPOCHS, before)  # a full disk must not leave half a line behind
            raise
        self._text.update(line)

    def _sync(self, path: Path) -> None:
        """Makes a rename (of a folder's entry) or a file's content survive a power cut, where the system can."""
        if self._durable and os.name == "posix":
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _claim(log: BinaryIO, path: Path) -> None:
    """Keeps a second recorder out of the same run, where the system has advisory locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.close()
        raise refusal("E_IN_USE", str(path), "another recorder at work") from None

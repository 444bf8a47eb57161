"""A simulated federation as a run: recorded on disk, or in memory for thousands of them.

Both are the same run: same numbers, same manifest, same digest.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.change_truth import KEY, ChangeTruth
from flcontrib_core.laboratory.simulation.settings import DifficultyKind, SimulationSettings
from flcontrib_core.laboratory.simulation.training import Federation, SimulatedEpoch, prepare, train
from flcontrib_core.runs import encoding
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.run_log import (
    EpochData,
    EpochRecord,
    FailedClient,
    RunLog,
    Truth,
    Validation,
    base_digest,
)
from flcontrib_core.vocabulary import Float32Array, OnProgress, no_progress

BUNDLE_SUFFIX = ".flrun"
RECORDED_WHEN_USED = ("ramp", "privacy", "changes", "server_rate")
"""Settings that came later: a run that does not use them keeps the manifest, and so the digest, it had before."""
DROPPED_OUT = "dropped out"


@dataclass(frozen=True)
class SimulationResult:
    """A recorded simulation: where it lies, what it is, who was dishonest when, and what honest sites changed."""

    run: Path
    digest: str
    truth: Truth
    changes: tuple[ChangeTruth, ...] = ()


def simulate(settings: SimulationSettings, out: Path, on_progress: OnProgress = no_progress) -> SimulationResult:
    """Trains the federation and records it: into one file where ``out`` ends in ``.flrun``, else into a folder.

    A folder grows epoch by epoch and can be watched; simulating again after an interruption continues it.
    """
    out = Path(out)
    if out.suffix != BUNDLE_SUFFIX:
        return _record(settings, out, None, on_progress)
    if out.exists():
        raise SettingsError(f"{out} exists already; choose another name or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.stem}-", dir=out.parent))
    try:
        return _record(settings, folder / "run", out, on_progress)
    finally:
        shutil.rmtree(folder)


def _record(
    settings: SimulationSettings, folder: Path, bundle: Path | None, on_progress: OnProgress
) -> SimulationResult:
    federation = prepare(settings)
    ids = [c.id for c in federation.clients]
    description = _description(federation)
    with RunRecorder(folder, **description, durable=False) as recorder:
        if recorder.manifest["source"] != description["source"]:
            raise SettingsError(f"{folder} holds another simulation; choose another folder or remove it")
        for done in train(federation):
            if done.epoch >= recorder.next_epoch:
                recorder.epoch(
                    done.updates,
                    participants=[ids[c] for c in done.participants],
                    global_model=_stored_global(done),
                    **_circumstances(federation, done),
                )
            on_progress(done.epoch, settings.epochs, f"validation loss {done.loss:.3f}")
        run = folder if bundle is None else recorder.bundle(bundle)
        return SimulationResult(run, recorder.digest(), federation.truth, federation.honest_changes)


def simulate_in_memory(settings: SimulationSettings) -> RunLog:
    """The same run as ``simulate`` records, without touching a disk."""
    federation = prepare(settings)
    return in_memory_run(federation, train(federation))


def training_rows(settings: SimulationSettings) -> Validation:
    """What all clients of that federation learn from, honest labels, as a set to evaluate its models on."""
    return prepare(settings).training


def in_memory_run(federation: Federation, epochs: Iterator[SimulatedEpoch]) -> RunLog:
    """A ``RunLog`` over arrays; its digest is that of the recorded files, which are encoded but not written."""
    given = _description(federation)
    validation = federation.validation
    contents = {
        encoding.INITIAL: encoding.initial_bytes(federation.initial, federation.model.parameters),
        encoding.MODEL: encoding.json_bytes(given["model"], indent=1),
        encoding.VALIDATION: encoding.validation_bytes(validation),
    }
    hashes = {name: encoding.sha256(content) for name, content in contents.items()}
    manifest = encoding.manifest_record(
        federation.clients,
        federation.model.parameters,
        hashes,
        name=given["name"],
        source=given["source"],
        task="classification",
        classes=given["classes"],
        truth=given["truth"],
    )
    records, numbers, lines = [], [], []
    for done in epochs:
        server = _stored_global(done)
        line = _line(federation, done, server)
        lines.append(encoding.json_bytes(line))
        records.append(_epoch_record(federation, done, line))
        numbers.append(EpochData(done.updates, server))
        hashes[line["file"]] = line["sha256"]
    hashes[encoding.MANIFEST] = encoding.sha256(encoding.json_bytes(manifest, indent=1))
    hashes[encoding.EPOCHS] = encoding.sha256(b"".join(lines))
    return RunLog(
        name=given["name"],
        digest=encoding.run_digest(hashes),
        clients=federation.clients,
        parameters=federation.model.parameters,
        epochs=tuple(records),
        classes=given["classes"],
        model=given["model"],
        has_validation=True,
        source=_InMemory(federation.initial, tuple(numbers), validation),
        truth=federation.truth,
        base_digest=base_digest(
            federation.clients,
            federation.model.parameters,
            hashes[encoding.INITIAL],
            hashes[encoding.MODEL],
            hashes[encoding.VALIDATION],
        ),
        origin="simulated in memory",
        manifest=manifest,
    )


@dataclass(frozen=True)
class _InMemory:
    """An ``EpochSource`` over arrays."""

    initial_model: Float32Array
    epochs: tuple[EpochData, ...]
    judged_by: Validation

    def initial(self) -> Float32Array:
        return self.initial_model

    def epoch(self, record: EpochRecord) -> EpochData:
        return self.epochs[record.epoch - 1]

    def validation(self) -> Validation:
        return self.judged_by

    def close(self) -> None:
        """Nothing to close."""


def _description(federation: Federation) -> dict[str, Any]:
    """What the manifest and the files written once say about a simulated run."""
    settings = federation.settings
    return {
        "clients": federation.clients,
        "parameters": federation.model.parameters,
        "initial": federation.initial,
        "model": federation.model.spec,
        "validation": federation.validation,
        "classes": federation.data.classes,
        "name": settings.name or _title(settings),
        "source": _source(federation),
        "truth": _truth_record(federation),
    }


def _truth_record(federation: Federation) -> dict[str, Any]:
    """Who was dishonest and, under a key of its own and only where there are any, what honest sites changed."""
    changes = [change.to_json() for change in federation.honest_changes]
    return encoding.truth_record(federation.truth) | ({KEY: changes} if changes else {})


def _source(federation: Federation) -> dict[str, Any]:
    """How the run was made: every setting, and which honest clients have the difficulty they ask for."""
    settings = federation.settings
    source: dict[str, Any] = {"framework": "flcontrib simulate", "aggregator": settings.aggregation.value}
    if settings.difficulty is not DifficultyKind.NONE:
        affected = sorted(federation.difficulties.affected)
        source["difficulty"] = {
            "kind": settings.difficulty.value,
            "clients": [federation.clients[c].id for c in affected],
        }
    return {**source, "settings": _plain(settings)}


def _title(settings: SimulationSettings) -> str:
    parts = [str(settings.dataset), f"{settings.clients} clients"]
    parts += [f"{a.dishonest} {a.kind}" for a in settings.attacks()] or ["all honest"]
    parts += [f"{c.kind} at {c.changed or 'all'}" if c.changed != 0 else str(c.kind) for c in settings.changes]
    if settings.difficulty is not DifficultyKind.NONE:
        parts.append(str(settings.difficulty))
    return ", ".join(parts)


def _plain(value: Any) -> Any:
    """Settings as JSON, without the folder the data lay in and without the settings' own title."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "__dataclass_fields__"):
        left_out = {"data_dir", "name"} | {name for name in RECORDED_WHEN_USED if not getattr(value, name, None)}
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in left_out}
    return value


def _stored_global(done: SimulatedEpoch) -> Float32Array | None:
    """The server's model, where the updates' weighted mean does not explain it."""
    return None if done.explained else done.global_model


def _circumstances(federation: Federation, done: SimulatedEpoch) -> dict[str, Any]:
    """Who was asked and did not answer (only where that happened), and how good the model is."""
    ids = [c.id for c in federation.clients]
    said: dict[str, Any] = {"metrics": {"loss": done.loss, "accuracy": done.accuracy}}
    if len(done.asked) > len(done.participants):
        said["asked"] = [ids[c] for c in done.asked]
        said["failed"] = {ids[c]: DROPPED_OUT for c in done.asked if c not in done.participants}
    usual = {c: federation.clients[c].data_size for c in done.participants}
    own = {ids[c]: n for c, n in zip(done.participants, done.data_sizes, strict=True) if n != usual[c]}
    if own:
        said["data_sizes"] = own
    return said


def _line(federation: Federation, done: SimulatedEpoch, server: Float32Array | None) -> dict[str, Any]:
    content = encoding.epoch_bytes(done.updates, server)
    stored: dict[str, Any] = {}
    if content is not None:
        stored = {"file": encoding.epoch_file(done.epoch), "sha256": encoding.sha256(content)}
    ids = [federation.clients[c].id for c in done.participants]
    return encoding.epoch_line(done.epoch, ids, **stored, **_circumstances(federation, done))


def _epoch_record(federation: Federation, done: SimulatedEpoch, line: Mapping[str, Any]) -> EpochRecord:
    return EpochRecord(
        epoch=done.epoch,
        participants=done.participants,
        data_sizes=done.data_sizes,
        file=line["file"],
        sha256=line["sha256"],
        has_global=not done.explained,
        asked=tuple(line.get("asked", ())),
        failed=tuple(FailedClient(f["client"], f["reason"]) for f in line.get("failed", ())),
        metrics=dict(line["metrics"]),
    )

"""What the fuzzer calls: one input through one door of the reader.

The first byte of an input chooses the door. Only ``RunLogError`` may come out, or a run that the plain libraries read
alike, a JSON value that Python's own parser reads alike, a model that runs and has the promised shape; and no input of
these sizes may take two seconds of processor time.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from flcontrib_core.errors import RunLogError
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.runs import parquet_child
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.manifest import read_parameters
from flcontrib_core.runs.model_spec import KNOWN_OPS, check_model_spec
from flcontrib_core.runs.operations import OPERATIONS
from flcontrib_core.runs.problems import EnoughProblems, Findings
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.runs.trace import parameters_of, trace_module
from tests.corpus.good_logs import Files, LogWriter, rehash, write_directory, zipped
from tests.corpus.plain_reader import assert_same_content
from tests.corpus.tables import CONTRIBUTIONS, UTILITIES, arrow_table, parquet_bytes
from tests.fuzz import mutations, readings
from tests.games.zoo import ZOO

SECONDS = 2.0
"""Of processor time, for an input of a few kilobytes."""
CHEAP = 2e7
"""Multiply-adds up to which an accepted model is run as well."""
MEMORY_DISK = Path("/dev/shm")


def _small_log() -> Files:
    writer = LogWriter(seed=1, epochs=2, rows=3)
    writer.add_globals()
    return writer.files()


def _second_version() -> Files:
    """Weights, older starts, a client twice, notes, claims, metrics, failures: all that a version 2 log may say."""
    writer = LogWriter(seed=2, epochs=3, rows=3)
    writer.lines[1] |= {"weights": {name: 0.5 for name in writer.lines[1]["participants"]}, "start_epoch": {}}
    first, second = writer.lines[2]["participants"]
    writer.lines[2] |= {
        "start_epoch": {first: 0},
        "metrics": {"loss": 1.5},
        "asked": [first, "unknown"],
        "failed": [{"client": "unknown", "reason": "no reply"}],
        "claims": [{"kind": "twice", "client": first, "node": "1", "claimed": first, "other_node": "2",
                    "update": "0" * 64, "other_update": "1" * 64}],
        "data_sizes": {second: 3},
    }  # fmt: skip
    writer.lines[2]["participants"] = [first, first]
    note = {"client": first, "epochs": [1, 2], "text": "new scanner", "by": "x", "when": "2026-01-01"}
    truth = {"dishonest": [{"client": second, "windows": [[1, 2]], "attack": "scale", "strength": 2.0}]}
    writer.extra_manifest |= {
        "version": 2, "notes": [note], "truth": truth, "name": "two", "task": "classification",
        "source": {"framework": "x"}, "frozen": {"sha256": "0" * 64},
    }  # fmt: skip
    return writer.files()


FILES, FILES_2 = _small_log(), _second_version()
TENSOR_FILES = sorted(name for name in FILES if name.endswith(".safetensors"))
WORDS = (
    "weights", "start_epoch", "participants", "data_sizes", "notes", "frozen", "dtype", "bfloat16", "metrics", "claims",
    "asked", "failed", "gap", "file", "sha256", "truth", "task", "classes", "parameters", "files",
)  # fmt: skip
MODEL_WORDS = (*KNOWN_OPS, "input", *sorted({field for record in OPERATIONS.values() for field in record.fields}))


def _in_folder(write: Callable[[Path], Path], compare: bool = True) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None))
    try:
        path = write(folder)
        run = read_run_log(path)
        if isinstance(run, RunLog):
            if compare:
                assert_same_content(run, path)
            else:
                for record in run.epochs:
                    run.epoch_data(record.epoch)
            run.close()
    finally:
        shutil.rmtree(folder)


def _file(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        def write(folder: Path) -> Path:
            path = folder / name
            path.write_bytes(data)
            return path

        _in_folder(write)

    return read


def _one_of(files: Files, names: list[str], hashed: bool, compare: bool = True) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        name = names[(data[:1] or b"\0")[0] % len(names)]
        changed = {**files, name: data[1:]}
        _in_folder(lambda folder: write_directory(rehash(changed) if hashed else changed, folder / "run"), compare)

    return read


def _json(data: bytes) -> None:
    value = parse_json(data, "input")
    assert repr(value) == repr(json.loads(data)), "a text has one reading"


def _model(data: bytes) -> None:
    """A declared network with parameters of its own; what is accepted must run, in the shape that was promised."""
    told = parse_json(data, "model.json")
    if not isinstance(told, dict) or not isinstance(told.get("model"), dict):
        return
    findings = Findings()
    try:
        parameters = read_parameters(told.get("parameters"), findings)
    except EnoughProblems:
        return
    if findings.errors or check_model_spec(told["model"], parameters, None, None):
        return
    architecture = Architecture.from_spec(told["model"], parameters, None)
    widest = max(math.prod(shape) * architecture.folds[name] for name, shape in architecture.shapes.items())
    if architecture.multiply_adds(2) > CHEAP or widest > 1 << 18 or architecture.parameter_count > 1 << 20:
        return
    kind = torch.int64 if architecture.reads_tokens else torch.float32
    with torch.inference_mode():
        logits = architecture.forward(
            torch.full((architecture.parameter_count,), 0.01), torch.zeros(2, *architecture.input_shape, dtype=kind)
        )
    assert tuple(logits.shape) == (2, *architecture.output_shape)


class _Forked:
    """Stands in for the process that decodes Parquet: a fork that has Arrow already, a hundred times sooner there."""

    def __init__(self, command: list[str], stdin: Any, **_: Any) -> None:
        hears, says = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(stdin.fileno(), 0)
                os.dup2(says, 1)
                sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
                at = next(number for number, part in enumerate(command) if part.startswith("{"))
                frames = parquet_child._Frames()
                parquet_child.convert(json.loads(command[at]), frames)
                frames.flush()
            finally:
                os._exit(0)
        os.close(says)
        self.stdout = os.fdopen(hears, "rb")

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        self.stdout.close()
        os.kill(self.pid, 9)

    def communicate(self) -> None:
        os.waitpid(self.pid, 0)


def _parquet(data: bytes) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    assert pyarrow.csv
    assert pyarrow.parquet  # before the fork
    with mock.patch.object(subprocess, "Popen", _Forked):
        _file("input.parquet")(data)


@dataclass(frozen=True)
class Door:
    """One way in: what reads, what a good input looks like, how one is changed so that it stays of its kind."""

    read: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    change: mutations.Change


def _numbered(names: list[str], files: Files) -> Callable[[], list[bytes]]:
    return lambda: [bytes([number]) + files[name] for number, name in enumerate(names)]


def _change_file(names: list[str], words: tuple[str, ...] = WORDS) -> mutations.Change:
    def change(data: bytes, rng: random.Random) -> bytes:
        name, content = names[(data[:1] or b"\0")[0] % len(names)], data[1:]
        if name.endswith(".jsonl"):
            return data[:1] + mutations.change_lines(content, rng, words)
        if name.endswith(".json"):
            return data[:1] + mutations.change_json(content, rng, words)
        return data[:1] + mutations.change_tensors(content, rng)

    return change


def _model_seeds() -> list[bytes]:
    found = []
    for make, shape, _ in ZOO.values():
        module = make().eval()
        kind = torch.int64 if isinstance(next(iter(module.modules())), torch.nn.Embedding) else torch.float32
        try:
            spec = trace_module(module, torch.zeros(1, *shape, dtype=kind))
        except (RuntimeError, RunLogError):  # its first layer reads whole numbers
            spec = trace_module(module, torch.zeros(1, *shape, dtype=torch.int64))
        parameters = [{"name": p.name, "shape": list(p.shape)} for p in parameters_of(module)]
        found.append(json.dumps({"parameters": parameters, "model": spec}).encode())
    return found


def _parquet_seeds() -> list[bytes]:
    return [
        parquet_bytes(arrow_table(epoch=[1, 1, 2], client=["a", "b", "a"], loss=[0.5, None, -1.0])()),
        parquet_bytes(arrow_table(epoch=[1.0, 1.0], coalition=["", "a"], loss=[1.0, 0.5])()),
    ]


TEXTS = ["epochs.jsonl", "manifest.json", "model.json"]
DOORS: dict[str, Door] = {
    "archive": Door(_file("input.flrun"), lambda: [zipped(FILES, way) for way in (0, 8)], mutations.change_bytes),
    "file": Door(_one_of(FILES, sorted(FILES), False), _numbered(sorted(FILES), FILES), _change_file(sorted(FILES))),
    "tensors": Door(_one_of(FILES, TENSOR_FILES, True), _numbered(TENSOR_FILES, FILES), _change_file(TENSOR_FILES)),
    "table": Door(_file("input.csv"), lambda: [CONTRIBUTIONS.encode(), UTILITIES.encode()], mutations.change_cells),
    "version 2": Door(_one_of(FILES_2, TEXTS, False, compare=False), _numbered(TEXTS, FILES_2), _change_file(TEXTS)),
    "json": Door(
        _json,
        lambda: [FILES_2[name] for name in TEXTS[1:]] + [rb'{"a":[1,-0.5e3,"\ud83d\ude00\u0000",true,null,{"b":{}}]}'],
        mutations.change_json,
    ),
    "model": Door(_model, _model_seeds, lambda data, rng: mutations.change_json(data, rng, MODEL_WORDS)),
    "records": Door(readings.records, lambda: [CONTRIBUTIONS.encode(), UTILITIES.encode()], mutations.change_cells),
    "answers": Door(
        readings.answers,
        lambda: [readings.good_answers()],
        lambda data, rng: mutations.change_lines(
            data, rng, ("answer", "weights", "id", "of", "global", "dice", "hd95")
        ),
    ),
    "parquet": Door(_parquet, _parquet_seeds, mutations.change_bytes),
}
NAMES = list(DOORS)
GUIDED = [name for name in NAMES if name != "parquet"]
"""Doors behind which the reading happens in this process, where coverage can be measured."""


def seeds(doors: list[str] = NAMES) -> list[bytes]:
    """Good inputs for these doors."""
    return [bytes([NAMES.index(name)]) + seed for name in doors for seed in DOORS[name].seeds()]


def door_of(data: bytes) -> Door:
    """Which door does an input come through?"""
    return DOORS[NAMES[data[0] % len(NAMES)]]


def _processor_seconds() -> float:
    """Of this process; a child is measured by its own limit."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def one_input(data: bytes) -> None:
    """The target: read one input through the door that its first byte names."""
    if not data:
        return
    begun = _processor_seconds()
    with suppress(RunLogError):
        door_of(data).read(data[1:])
    assert (took := _processor_seconds() - begun) < SECONDS, f"{took:.1f} s of processor time"


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A changed input of the same door: by structure twice in three times, else by bytes."""
    change = door_of(data).change if rng.random() < 0.67 else mutations.change_bytes
    return data[:1] + change(data[1:], rng)


def random_search(runs: int, seed: int, doors: list[str] = NAMES) -> None:
    """The search without guidance, in any environment."""
    rng = random.Random(seed)
    known = seeds(doors)
    for _ in range(runs):
        data = mutate(rng.choice(known), rng)
        try:
            one_input(data)
        except Exception:  # raised again: what matters is the input it came from
            sys.stderr.write(f"the input that failed: {data!r}\n")
            raise


def timed_search(seconds: float, seed: int, doors: list[str] = NAMES) -> int:
    """Random search for a while; returns how many inputs were tried."""
    end = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < end:
        random_search(500, seed + tried, doors)
        tried += 500
    return tried

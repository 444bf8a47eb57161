"""Version 2 fields and declared models as an attacker would write them: numbers at the edge, shapes that explode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from tests.corpus.cases import Write, add, bundle, changed, file
from tests.corpus.exhausting import long_log, packed
from tests.corpus.good_logs import Files, LogWriter, as_json, line, rehash, sha256, write_directory

SMALL = ("W_VALID_SMALL",)
LAST = {"op": "linear", "weight": "w"}


def register() -> None:
    _weights_and_starts()
    _many_rows()
    _manifests()
    _wide_models()
    _dear_models()
    _odd_fields()
    _escaped_quotes()
    _two_spellings()
    _rows_of_nothing()
    _holes()
    _names_of_columns()
    _unseen_names()


def _second(change: Any) -> Write:
    def files() -> Files:
        writer = LogWriter()
        writer.extra_manifest["version"] = 2
        change(writer)
        return writer.files()

    return bundle(files)


def _weights_and_starts() -> None:
    value: Any

    def weights(value: Any) -> Any:
        return lambda writer: [
            entry.update(weights=dict.fromkeys(entry["participants"], value)) for entry in writer.lines
        ]

    for words, value in (
        ("infinite in sum", 1e308),
        ("denormal", 1e-320),
        ("a text", "1"),
        ("none at all", []),
        ("true", True),
    ):
        add(0, f"weights: {words}", _second(weights(value)), "E_WEIGHTS")
    add(0, "weights: large and equal", _second(weights(2**62)))

    def start(value: Any) -> Any:
        return lambda writer: writer.lines[1].update(start_epoch={writer.lines[1]["participants"][0]: value})

    for words, value in (
        ("in the future", 5),
        ("negative", -1),
        ("a fraction", 1.0),
        ("two of one row", [0, 0]),
        ("true", True),
    ):
        add(0, f"start_epoch: {words}", _second(start(value)), "E_START_EPOCH")


def many_rows(count: int, clients: int, with_weights: bool) -> Files:
    """One epoch of so many rows, of so few clients."""
    files = long_log([f"c{i}" for i in range(clients)], 1)
    names = [f"c{i % clients}" for i in range(count)]
    name = "epochs/00001.safetensors"
    files[name] = save({"updates": np.random.default_rng(0).normal(size=(count, 1)).astype(np.float32)})
    entry: dict[str, Any] = {"epoch": 1, "participants": names, "file": name, "sha256": sha256(files[name])}
    if with_weights:
        entry |= {"weights": dict.fromkeys(names, 0.5), "start_epoch": dict.fromkeys(names, 0)}
    manifest = json.loads(files["manifest.json"]) | {"version": 2}
    return {**files, "epochs.jsonl": line(entry), "manifest.json": as_json(manifest)}


def _many_rows() -> None:
    told = ("W_DUPLICATE_DELTA", "W_NORM")
    for words, counts in (
        ("one client 100,000 times in a round", (100_000, 1, False)),
        ("100,000 clients with weights and starts", (100_000, 100_000, True)),
        ("50,000 clients twice in a round", (100_000, 50_000, True)),
    ):
        add(0, words, file(lambda counts=counts: packed(many_rows(*counts))), warnings=told)


def _manifests() -> None:
    def manifest(**values: Any) -> Write:
        return _second(lambda writer: writer.extra_manifest.update(values))

    add(0, "dtype in a list", manifest(dtype=["float32"]), "E_MANIFEST")
    add(0, "task in a list", manifest(task=["classification"]), "E_MANIFEST")
    for words, task in (("of nothing", ""), ("beside a known one", "classification "), ("without end", "x" * 300)):
        add(0, f"task {words}", manifest(task=task), "E_MANIFEST")
    both = {"sha256": "0" * 64, "parameters": [{"name": "0.weight", "shape": [4, 6]}]}
    add(0, "frozen and trained under one name", manifest(frozen=both), "E_MANIFEST", names="frozen.parameters")
    note = {"client": "hospital-a", "epochs": [1, 2], "by": "b", "when": "w"}
    add(0, "note with terminal escapes", manifest(notes=[note | {"text": "\x1b[31mred\x07\r\n\u202e"}]))
    add(0, "note about 2^31 epochs", manifest(notes=[note | {"text": "t", "epochs": [1, 2**31]}]))
    add(0, "note without end", manifest(notes=[note | {"text": "x" * 2001}]), "E_NOTES")
    for words, name in (
        ("terminal title", "\x1b]0;x\x07"),
        ("quotes and tabs", "a\t\"'\n"),
        ("bidi", "\u2066\u202e"),
        ("no width", "\u200b"),
    ):

        def rename(writer: LogWriter, name: str = name) -> None:
            old, writer.clients[0]["id"] = writer.clients[0]["id"], name
            for entry in writer.lines:
                entry["participants"] = [name if p == old else p for p in entry["participants"]]

        add(0, f"id of {words}", _second(rename), warnings=() if "quotes" in words else ("W_CONFUSABLE",))


def model_log(spec: Any, shapes: dict[str, tuple[int, ...]], rows: int = 20) -> Files:
    """Two epochs of two clients with this model; its input has six features, its output three classes."""
    writer = LogWriter(epochs=0, clients=(("a", 1), ("b", 2)))
    rng = np.random.default_rng(0)
    writer.initial = {name: rng.normal(scale=0.01, size=shape).astype(np.float32) for name, shape in shapes.items()}
    writer.model = spec
    writer.validation = {"x": rng.normal(size=(rows, 6)).astype(np.float32), "y": rng.integers(0, 3, rows)}
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    for epoch in (1, 2):
        writer.lines.append({"epoch": epoch, "participants": ["a", "b"]})
        writer.tensors.append({"updates": rng.normal(scale=0.01, size=(2, count)).astype(np.float32)})
    return writer.files()


def graph(*nodes: dict[str, Any]) -> dict[str, Any]:
    """Nodes in a row, unless they say what they read."""
    named, before = [], "input"
    for number, node in enumerate(nodes):
        named.append({"name": f"n{number}", "inputs": [before], **node})
        before = named[-1]["name"]
    return {"input": [6], "nodes": named, "output": before}


def _model(spec: Any, **shapes: tuple[int, ...]) -> Write:
    return bundle(lambda: model_log(spec, {"w": (3, 6), **shapes}))


WIDE = ({"op": "reshape", "shape": [6, 1]}, {"op": "expand", "shape": [6, 2**20], "name": "wide"})
NARROW = ({"op": "mean", "dims": [2]}, LAST)
"""Six million numbers per row, and back."""


def _wide_models() -> None:
    doubled = [
        {"op": "cat", "dim": 1, "name": f"c{i}", "inputs": [f"c{i - 1}" if i else "input"] * 2} for i in range(60)
    ]
    add(0, "model: sixty doublings", _model(graph(*doubled, LAST)), "E_MODEL_SIZE")
    kept = [{"op": "mul", "value": 1.0 + i, "inputs": ["wide"], "name": f"m{i}"} for i in range(40)]
    read = [{"op": "maximum", "inputs": [f"m{i}", f"x{i - 1}" if i else "wide"], "name": f"x{i}"} for i in range(40)]
    add(
        0, "model: forty wide values at once", _model(graph(*WIDE, *kept, *read, *NARROW)), "E_MODEL_SIZE", names="held"
    )
    add(0, "model: wide, one after the other", _model(graph(*WIDE, *[{"op": "exp"}] * 5, *NARROW)), warnings=SMALL)
    line_of = {"op": "reshape", "shape": [1, 6]}
    back = ({"op": "adaptive_avg_pool1d", "size": 6}, {"op": "flatten"}, LAST)
    for words, node in (
        ("interpolation to 2^31", {"op": "interpolate", "size": [2**31 - 1]}),
        ("interpolation by 1e30", {"op": "interpolate", "scale": 1e30}),
        ("padding of 2^31", {"op": "pad", "sizes": [2**31 - 1, 2**31 - 1]}),
        ("transposed convolution by 2^31", {"op": "conv_transpose1d", "weight": "k", "stride": 2**31 - 1}),
    ):
        add(0, f"model: {words}", _model(graph(line_of, node, *back), k=(1, 1, 2)), "E_MODEL_SIZE")
    beyond = {"op": "interpolate", "scale": 1e308}
    add(0, "model: interpolation by 1e308", _model(graph(line_of, beyond, *back)), "E_MODEL")
    stretched = [{"op": "conv_transpose1d", "weight": "k", "stride": 2}] * 60
    add(
        0,
        "model: sixty transposed convolutions",
        _model(graph(line_of, *stretched, *back), k=(1, 1, 2)),
        "E_MODEL_SIZE",
    )
    add(
        0,
        "model: expanded to 2^31",
        _model(graph(WIDE[0], {"op": "expand", "shape": [6, 2**31 - 1]}, *NARROW)),
        "E_MODEL_SIZE",
    )
    add(
        0,
        "model: folded into 2^31 rows",
        _model(graph({"op": "reshape", "shape": [1], "fold": 2**31 - 1}, LAST)),
        "E_MODEL_SHAPE",
    )


def _dear_models() -> None:
    square = (
        {"op": "reshape", "shape": [1, 6]},
        {"op": "expand", "shape": [4000, 6], "name": "a"},
        {"op": "permute", "dims": [2, 1], "name": "b"},
        {"op": "matmul", "inputs": ["a", "b"], "name": "p0"},
    )
    powers = [{"op": "matmul", "inputs": [f"p{i}"] * 2, "name": f"p{i + 1}"} for i in range(10)]
    ends = ({"op": "slice", "dim": 2, "stop": 6}, {"op": "mean", "dims": [1]}, LAST)
    add(
        0,
        "model: ten products of 4000 × 4000",
        _model(graph(*square, *powers, *ends)),
        "E_MODEL_SIZE",
        names="multiply-adds",
    )
    pooled = (
        {"op": "reshape", "shape": [6, 1, 1]},
        {"op": "interpolate", "size": [1024, 1024]},
        {"op": "max_pool2d", "kernel": 500, "stride": 1},
        {"op": "adaptive_avg_pool2d", "size": 1},
        {"op": "flatten"},
        LAST,
    )
    add(0, "model: pool over half a million", _model(graph(*pooled)), "E_MODEL_SIZE", names="multiply-adds")
    rolled = [{"op": "roll", "shifts": [1], "dims": [2]}] * 4000
    add(0, "model: four thousand rolls, dear and allowed", _model(graph(*WIDE, *rolled, *NARROW)), warnings=SMALL)
    steps = ({"op": "reshape", "shape": [1, 6]}, {"op": "expand", "shape": [2**22, 6]})
    cell = {"op": "lstm", "weights": ["i", "h"], "biased": False, "output": "hidden"}
    add(0, "model: four million steps", _model(graph(*steps, cell, LAST), i=(24, 6), h=(24, 6)), "E_MODEL_SIZE")
    heads = {"op": "multi_head_attention", "heads": 6, "weight": "a", "out_weight": "o"}
    long = (
        {"op": "reshape", "shape": [1, 6]},
        {"op": "expand", "shape": [60_000, 6]},
        heads,
        {"op": "mean", "dims": [1]},
        LAST,
    )
    add(0, "model: attention over 60,000 steps", _model(graph(*long), a=(18, 6), o=(6, 6)), "E_MODEL_SIZE")


def _odd_fields() -> None:
    for words, node, code in (
        ("groups of 2^31", {"op": "group_norm", "groups": 2**31 - 1}, "E_MODEL_SHAPE"),
        ("softmax over dimension 8", {"op": "softmax", "dim": 8}, "E_MODEL_SHAPE"),
        ("a name of escapes", {"op": "\x1b[31m\n"}, "E_MODEL_OP"),
        ("a name of Python", {"op": "__class__"}, "E_MODEL_OP"),
        ("a number that float32 does not hold", {"op": "clamp", "low": 1e308}, "E_MODEL"),
        ("a division by nothing", {"op": "celu", "alpha": 0}, "E_MODEL"),
        ("a node called by escapes", {"op": "softmax", "dim": 8, "name": "\x1b[31m"}, "E_MODEL_SHAPE"),
    ):
        add(0, f"model: {words}", _model(graph(node, LAST)), code)
    add(0, "model: numbers without end", _model(graph(*[{"op": "exp"}] * 10, LAST)), warnings=SMALL)
    circle = {
        "input": [6],
        "output": "b",
        "nodes": [{"name": "a", "op": "add", "inputs": ["b", "input"]}, {"name": "b", "op": "relu", "inputs": ["a"]}],
    }
    add(0, "model: a circle", _model(circle), "E_MODEL")


def _escaped_quotes() -> None:
    """A text that never ends: a pattern for strings begins anew at each of its escaped quotes."""
    endless = b"{" + b"[" * 70 + b'"' + b'\\"' * 200_000

    def instead(name: str) -> Write:
        return file(lambda: packed({**LogWriter().files(), name: endless}))

    add(0, "endless text in the manifest", instead("manifest.json"), "E_JSON_DEPTH")
    add(0, "endless text in the model", instead("model.json"), "E_JSON_DEPTH")
    add(0, "endless text as an epoch", instead("epochs.jsonl"), "E_JSON_DEPTH")
    header = len(endless).to_bytes(8, "little") + endless
    whole = file(lambda: packed({**LogWriter().files(), "initial.safetensors": header}))
    add(0, "endless text as a tensor header", whole, "E_ST_HDR")
    quotes = b"[" * 70 + b'"' * 7_000_001 + b"\\"
    many = file(lambda: packed({**LogWriter().files(), "manifest.json": quotes}))
    add(0, "seven million empty texts", many, "E_JSON_DEPTH")


def _two_spellings() -> None:
    def spelled(key: str, values: tuple[Any, Any]) -> Write:
        def change(writer: LogWriter) -> None:
            old, writer.clients[0]["id"] = writer.clients[0]["id"], "\u00e9"
            for entry in writer.lines:
                entry["participants"] = ["\u00e9" if p == old else p for p in entry["participants"]]
            others = {client["id"]: values[0] for client in writer.clients[1:]}
            writer.lines[1][key] = {"\u00e9": values[0], "e\u0301": values[1], **others}

        return _second(change)

    add(0, "weights: one client under two spellings", spelled("weights", (1, 100)), "E_CLIENT_DUP", names="weights")
    add(0, "start_epoch: one client under two spellings", spelled("start_epoch", (0, 1)), "E_CLIENT_DUP")


def _rows_of_nothing() -> None:
    def files() -> Files:
        nothing = {"dtype": "F32", "shape": [10**12, 0], "data_offsets": [0, 0]}
        header = json.dumps({"x": nothing, "y": nothing}).encode()
        writer = LogWriter()
        writer.model = None
        writer.extra_manifest |= {"version": 2, "task": "regression"}
        return rehash({**writer.files(), "validation.safetensors": len(header).to_bytes(8, "little") + header})

    add(0, "a million million rows of nothing", bundle(files), "E_VALID_EMPTY")


def _holes() -> None:
    """A file that is large by its own account and takes no room on the disk: reading it would take minutes."""
    for name in ("epochs/00002.safetensors", "validation.safetensors", "initial.safetensors"):

        def write(folder: Path, name: str = name) -> Path:
            path = write_directory(LogWriter().files(), folder / "run")
            with (path / name).open("r+b") as tensors:
                tensors.truncate(1 << 36)
            return path

        add(0, f"64 GB of holes in {name}", write, "E_ST_OFF", names=name)


def _names_of_columns() -> None:
    for words, column in (
        ("an escape", "\x1b[31m"),
        ("NUL", "loss\0"),
        ("an override", "\u202eloss"),
        ("no width", "lo\u200bss"),
        ("loss and Loss", "loss,Loss"),
        ("one accent in two forms", "\u00e9,e\u0301"),
    ):
        row = "1,a" + ",0.5" * (column.count(",") + 1)
        add(0, f"table: column with {words}", file(f"epoch,client,{column}\n{row}\n".encode(), ".csv"), "E_TABLE")
    accents = "".join(f"1,{i}" + "\u0301\u0323\u0327" * 60 + ",1\n" for i in range(60_000))
    add(0, "table: 60,000 ids under heaps of accents", file(lambda: f"epoch,client,loss\n{accents}".encode(), ".csv"))
    shadow = {**LogWriter().files(), "epochs": b"x"}
    add(6, "a file with the name of a folder", bundle(shadow), "E_ZIP_DUP", names="epochs")


def _unseen_names() -> None:
    """Names that are not what they look like."""

    def named(name: str) -> Write:
        def change(writer: LogWriter) -> None:
            old, writer.clients[0]["id"] = writer.clients[0]["id"], name
            for entry in writer.lines:
                entry["participants"] = [name if p == old else p for p in entry["participants"]]

        return changed(change)

    for words, name in (
        ("a variation selector", "hospital-b\ufe0f"),
        ("a letter that is drawn as nothing", "\u3164"),
        ("nothing but spaces", "   "),
        ("capitals alone", "HOSPITAL-B"),
        ("a space at the end", "hospital-b "),
    ):
        add(32, f"id told apart by {words}", named(name), warnings=("W_CONFUSABLE",))

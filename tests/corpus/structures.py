"""Logs whose texts or structure are wrong (rows 15–21 and 30–36), and architectures that must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.corpus.cases import Write, add, bundle, changed, directory, edited
from tests.corpus.good_logs import CLIENTS, MODEL, PARAMETERS, Files, LogWriter, line


def register() -> None:
    _missing_files()
    _json()
    _versions_and_hashes()
    _shapes()
    _epochs()
    _version_two()
    _clients()
    _architectures()


def _remove(name: str) -> Write:
    return edited(lambda files: files.pop(name))


def _replace(name: str, old: bytes, new: bytes, method: int = 8) -> Write:
    def edit(files: Files) -> None:
        assert old in files[name], (name, old)
        files[name] = files[name].replace(old, new, 1)

    return edited(edit, method)


def _missing_files() -> None:
    add(15, "manifest missing", _remove("manifest.json"), "E_MISSING", names='"format": "flrun"')
    add(15, "epoch lines missing", _remove("epochs.jsonl"), "E_MISSING", names="epochs.jsonl")
    add(15, "initial model missing", _remove("initial.safetensors"), "E_MISSING", names="initial.safetensors")
    add(15, "an epoch's file missing", _remove("epochs/00003.safetensors"), "E_MISSING", names="epochs/00003")
    add(15, "listed validation missing", _remove("validation.safetensors"), "E_MISSING", names="validation")
    add(15, "no epoch at all", edited(lambda files: files.update({"epochs.jsonl": b""})), "E_EPOCH_NONE")


def _json() -> None:
    big = b'{"name": "' + b"x" * (20 << 20) + b'"}'
    deep = b'{"format": "flrun", "version": 1, "source": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"
    values = b"[" + b"[]," * 1_500_000 + b"[]]"
    add(16, "manifest of 20 MB", bundle(lambda: {**LogWriter().files(), "manifest.json": big}, 0), "E_FILE_SIZE")
    add(
        16,
        "manifest of 20 MB in a directory",
        directory(lambda: {**LogWriter().files(), "manifest.json": big}),
        "E_FILE_SIZE",
    )
    add(16, "nesting of 100,000", bundle(lambda: {**LogWriter().files(), "manifest.json": deep}), "E_JSON_DEPTH")
    add(
        16,
        "open brackets without end",
        bundle(lambda: {**LogWriter().files(), "manifest.json": b"[" * 10**5}),
        "E_JSON_DEPTH",
    )
    add(
        16,
        "1.5 million empty lists",
        bundle(lambda: {**LogWriter().files(), "manifest.json": values}, 0),
        "E_FILE_SIZE",
    )
    add(
        16,
        "integer of 5,000 digits",
        _replace("manifest.json", b'"classes": 3', b'"classes": ' + b"9" * 5000),
        "E_JSON_INT",
    )
    add(
        16,
        "integer beyond 64 bits",
        _replace("manifest.json", b'"classes": 3', b'"classes": 9223372036854775808'),
        "E_JSON_INT",
    )
    for text in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"):
        add(17, f"{text.decode()} in the manifest", _replace("manifest.json", b"179", text), "E_JSON_NONFINITE")
        metric = b'"epoch": 2, "metrics": {"loss": ' + text + b"}"
        add(17, f"{text.decode()} as a metric", _replace("epochs.jsonl", b'"epoch": 2', metric), "E_JSON_NONFINITE")
    add(
        18,
        "key twice in the manifest",
        _replace("manifest.json", b'"version"', b'"format": "flrun", "version"'),
        "E_JSON_DUPKEY",
    )
    add(
        18,
        "key twice in a client",
        _replace("manifest.json", b'"data_size": 179', b'"data_size": 179, "data_size": 1'),
        "E_JSON_DUPKEY",
    )
    add(
        18, "key twice in an epoch", _replace("epochs.jsonl", b'"epoch": 2', b'"epoch": 2, "epoch": 2'), "E_JSON_DUPKEY"
    )
    add(19, "invalid UTF-8", _replace("manifest.json", b"hospital-a", b"hospital-\xff"), "E_JSON")
    add(19, "overlong UTF-8", _replace("manifest.json", b"hospital-a", b"hospital-\xc0\xaf"), "E_JSON")
    add(
        19,
        "byte order mark",
        edited(lambda files: files.update({"manifest.json": b"\xef\xbb\xbf" + files["manifest.json"]})),
        "E_JSON",
    )
    add(
        19,
        "UTF-16",
        edited(lambda files: files.update({"manifest.json": files["manifest.json"].decode().encode("utf-16")})),
        "E_JSON",
    )
    add(
        19,
        "half a surrogate pair in an id",
        _replace("manifest.json", b"hospital-a", b"hospital-\\ud800"),
        "E_CLIENT_ID",
    )
    add(
        19,
        "half a surrogate pair in the name",
        _replace("manifest.json", b'"version"', b'"name": "\\udfff", "version"'),
        "E_JSON",
    )
    add(
        19,
        "text after the manifest",
        edited(lambda files: files.update({"manifest.json": files["manifest.json"] + b"{}"})),
        "E_JSON",
    )
    add(19, "manifest is a list", edited(lambda files: files.update({"manifest.json": b"[]"})), "E_MANIFEST")
    add(19, "empty line among the epochs", _replace("epochs.jsonl", b"\n", b"\n\n"), "E_JSON", names="line 2")
    add(19, "epoch is a list", edited(lambda files: files.update({"epochs.jsonl": b"[]\n"})), "E_JSON", names="line 1")


def _versions_and_hashes() -> None:
    add(
        20, "newer version", _replace("manifest.json", b'"version": 1', b'"version": 3'), "E_VERSION", names="version 3"
    )
    for text in (b"0", b"-1", b"true", b'"1"', b"1.0", b"null"):
        add(
            20,
            f"version {text.decode()}",
            _replace("manifest.json", b'"version": 1', b'"version": ' + text),
            "E_VERSION",
        )
    add(20, "another format", _replace("manifest.json", b'"flrun"', b'"mlflow"'), "E_FORMAT")
    for name in ("initial.safetensors", "validation.safetensors", "model.json"):

        def other_hash(files: Files, name: str = name) -> None:
            manifest = json.loads(files["manifest.json"])
            manifest["files"][name] = "0" * 64
            files["manifest.json"] = json.dumps(manifest).encode()

        add(21, f"other hash of {name}", edited(other_hash), "E_HASH", names=name)

    def unlisted(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        del manifest["files"]["initial.safetensors"]
        files["manifest.json"] = json.dumps(manifest).encode()

    def broken_hash(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        manifest["files"]["initial.safetensors"] = "not a hash"
        files["manifest.json"] = json.dumps(manifest).encode()

    add(21, "hash not given", edited(unlisted), "E_HASH", names="initial.safetensors")
    add(21, "hash of another kind", edited(broken_hash), "E_HASH")
    add(21, "epoch's hash not given", _replace("epochs.jsonl", b'"sha256"', b'"sha1"'), "E_HASH", names="line 1")


def _with(change: Callable[[LogWriter], object], code: str, row: int, name: str, names: str = "") -> None:
    add(row, name, changed(change), code, names=names)


def _shapes() -> None:
    def wider(writer: LogWriter) -> None:
        writer.tensors[2] = {"updates": np.ones((2, PARAMETERS + 8), np.float32)}

    def more_rows(writer: LogWriter) -> None:
        writer.tensors[2] = {"updates": np.ones((3, PARAMETERS), np.float32)}

    def no_updates(writer: LogWriter) -> None:
        writer.tensors[2] = {"global": np.ones(PARAMETERS, np.float32)}

    def other_tensor(writer: LogWriter) -> None:
        tensors = writer.tensors[2]
        assert tensors is not None
        tensors["momentum"] = np.ones(3, np.float32)

    def short_global(writer: LogWriter) -> None:
        tensors = writer.tensors[2]
        assert tensors is not None
        tensors["global"] = np.ones(PARAMETERS - 1, np.float32)

    def manifest_shape(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        manifest["parameters"][0]["shape"] = [5, 6]
        files["manifest.json"] = json.dumps(manifest).encode()

    def renamed(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        manifest["parameters"][0]["name"] = "first"
        files["manifest.json"] = json.dumps(manifest).encode()

    _with(
        wider, "E_SHAPE", 30, "update wider than the model", f"has {PARAMETERS + 8} numbers, the model has {PARAMETERS}"
    )
    _with(more_rows, "E_SHAPE", 30, "more updates than participants", "3 updates for 2 participants")
    _with(no_updates, "E_SHAPE", 30, "participants without updates")
    _with(other_tensor, "E_SHAPE", 30, "unknown tensor in an epoch", "momentum")
    _with(short_global, "E_SHAPE", 30, "global model of another size", "global")
    add(30, "initial model of another shape", edited(manifest_shape), "E_SHAPE", names="0.weight")
    add(30, "initial model with another name", edited(renamed), "E_SHAPE", names="first")
    for shape in ([0], [-1], [True], [2.0], "4", [1] * 9, None):

        def odd_shape(files: Files, shape: Any = shape) -> None:
            manifest = json.loads(files["manifest.json"])
            manifest["parameters"][1]["shape"] = shape
            files["manifest.json"] = json.dumps(manifest).encode()

        add(30, f"shape {shape}", edited(odd_shape), "E_SHAPE")

    def huge(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        manifest["parameters"][0]["shape"] = [2**31 - 1] * 8
        files["manifest.json"] = json.dumps(manifest).encode()

    def twice(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        manifest["parameters"].append(manifest["parameters"][0])
        files["manifest.json"] = json.dumps(manifest).encode()

    add(30, "parameters beyond any memory", edited(huge), "E_MODEL_SIZE")
    add(30, "parameter listed twice", edited(twice), "E_MANIFEST")


def _epochs() -> None:
    def order(*numbers: int) -> Callable[[LogWriter], None]:
        def change(writer: LogWriter) -> None:
            for entry, number in zip(writer.lines, numbers, strict=True):
                entry["epoch"] = number

        return change

    def line_edit(**fields: Any) -> Write:
        """The second line with these fields in place of its own."""

        def edit(files: Files) -> None:
            lines = files["epochs.jsonl"].splitlines(keepends=True)
            lines[1] = line({**json.loads(lines[1]), **fields})
            files["epochs.jsonl"] = b"".join(lines)

        return edited(edit)

    _with(order(1, 2, 4, 5), "E_EPOCH_ORDER", 31, "epoch 3 missing", "epoch 4 after epoch 2")
    _with(order(2, 3, 4, 5), "E_EPOCH_ORDER", 31, "epoch 1 missing", "epoch 1")
    add(31, "epoch repeated", line_edit(epoch=1), "E_EPOCH_ORDER", names="epoch 1 after epoch 1")
    _with(order(2, 1, 3, 4), "E_EPOCH_ORDER", 31, "epochs unsorted")
    _with(order(0, 1, 2, 3), "E_EPOCH_ORDER", 31, "epochs from 0")
    for epoch in (True, 2.0, "2", None, -1, 2**40):
        add(31, f"epoch number {epoch!r}", line_edit(epoch=epoch), "E_EPOCH_ORDER")
    add(31, "file outside epochs", line_edit(file="../secret.safetensors"), "E_EPOCH_FILE")
    add(31, "file of another epoch", line_edit(file="epochs/00001.safetensors"), "E_EPOCH_FILE")
    add(31, "file is a number", line_edit(file=3), "E_EPOCH_FILE")
    for words, fields in {
        "unknown participant": {"participants": ["hospital-a", "hospital-z"]},
        "participant twice": {"participants": ["hospital-a", "hospital-a"]},
        "participants of another kind": {"participants": "hospital-a"},
        "participant is a number": {"participants": [1, 2]},
        "no participants key": {"participants": None},
        "participant also failed": {"failed": [{"client": "hospital-b"}]},
        "failed of another kind": {"failed": {"client": "x"}},
        "failed client is a list": {"failed": [{"client": []}]},
        "asked of another kind": {"asked": 3},
        "data size of a stranger": {"data_sizes": {"nobody": 3}},
    }.items():
        add(34, words, line_edit(**fields), "E_PARTICIPANTS")
    wrong: Any
    for wrong in ([], {"loss": "low"}, {"loss": True}, {str(i): 0.0 for i in range(65)}):
        add(34, f"metrics {str(wrong)[:20]}", line_edit(metrics=wrong), "E_METRICS")
    for wrong in (0, -3, True, 2**60, 2.5, "9", None, []):
        add(33, f"data size {wrong!r} of one epoch", line_edit(data_sizes={"hospital-b": wrong}), "E_CLIENT_SIZE")


def _version_two() -> None:
    def second(**fields: Any) -> Callable[[LogWriter], None]:
        def change(writer: LogWriter) -> None:
            writer.extra_manifest["version"] = 2
            writer.lines[1].update(fields)

        return change

    pair = {"hospital-a": 0.3, "hospital-b": 0.7}
    _with(second(weights=[0.3, 0.7]), "E_WEIGHTS", 33, "weights of another kind")
    _with(second(weights={**pair, "nobody": 1.0}), "E_PARTICIPANTS", 34, "weight of a stranger")
    for wrong in (0, -0.5, True, "0.3", None, [0.3, 0.3]):
        _with(second(weights={**pair, "hospital-a": wrong}), "E_WEIGHTS", 33, f"weight {wrong!r} of one epoch")
    for begun in (2, -1, 0.5, True, "0"):
        _with(second(start_epoch={"hospital-a": begun}), "E_START_EPOCH", 31, f"start epoch {begun!r}")
    size: Any
    for size in ([], {}, "9", "x", None, 2**62):
        odd = second(weights=pair, data_sizes={"hospital-b": size})
        _with(odd, "E_CLIENT_SIZE", 33, f"data size {size!r} beside weights")
    twice = second(
        participants=["hospital-b", "hospital-b"], start_epoch={"hospital-b": 0}, data_sizes={"hospital-b": []}
    )
    _with(twice, "E_CLIENT_SIZE", 33, "data size [] of a client twice in a round")


def _clients() -> None:
    def ids(*names: str) -> Callable[[LogWriter], None]:
        def change(writer: LogWriter) -> None:
            writer.__init__(clients=[(name, 10) for name in names])  # type: ignore[misc]

        return change

    _with(ids("a", "b", "a"), "E_CLIENT_DUP", 32, "ids equal")
    _with(ids("caf\u00e9", "cafe\u0301"), "E_CLIENT_DUP", 32, "ids equal after NFC")
    add(32, "homoglyph id", changed(ids("client", "cl\u0456ent")), warnings=("W_CONFUSABLE",), names="\\u0456")
    add(32, "homoglyph id alone", changed(ids("cl\u0456ent", "b")), warnings=("W_CONFUSABLE",))
    size: Any
    for size in (0, -5, True, 2**60, 2.5, "9", None, [], 10.0):

        def sized(writer: LogWriter, size: Any = size) -> None:
            writer.clients[1]["data_size"] = size

        _with(sized, "E_CLIENT_SIZE", 33, f"data size {size!r}", "clients[1]")
    for words, name in {"empty": "", "201 characters": "x" * 201, "10 kB": "x" * 10_000, "NUL": "a\0b"}.items():
        _with(ids("fine", name), "E_CLIENT_ID", 40, f"id: {words}")
    for position, name in enumerate(HOSTILE_NAMES):
        confusing = ("W_CONFUSABLE",) if position in (4, 5, 12) else ()
        add(40, f"hostile name {position}", changed(ids(name, "other")), warnings=confusing)
    add(40, "names that look like nothing", changed(ids("NA", "null", "None", "nan", "true", "0")))
    clients: Any
    for clients in ([], {}, None, [None], ["a"]):

        def listed(writer: LogWriter, clients: Any = clients) -> None:
            writer.extra_manifest = {"clients": clients}

        _with(listed, "E_MANIFEST" if clients in ([], {}, None) else "E_CLIENT_ID", 40, f"clients {clients}")
    truth: Any
    for truth in ([], {}, {"dishonest": [{"client": "nobody", "windows": []}]}, {"dishonest": [3]},
                  {"dishonest": [{"client": "hospital-a", "windows": [[3, 2]]}]},
                  {"dishonest": [{"client": "hospital-a", "windows": [[1, 2]], "attack": 3}]}):  # fmt: skip

        def labelled(writer: LogWriter, truth: Any = truth) -> None:
            writer.extra_manifest = {"truth": truth}

        _with(labelled, "E_TRUTH", 0, f"truth {truth}")
    add(36, "a single client", changed(ids("alone")))
    add(36, "client that never takes part", changed(lambda w: w.clients.append({"id": "never", "data_size": 1})))
    add(35, "epoch without participants", changed(lambda w: w.add_epoch([], np.random.default_rng(0))))

    def server_alone(writer: LogWriter) -> None:
        writer.add_epoch([], np.random.default_rng(0))
        writer.tensors[-1] = {"global": np.zeros(PARAMETERS, np.float32)}

    add(35, "epoch of the server alone", changed(server_alone))


HOSTILE_NAMES = (
    "<img src=x onerror=alert(1)>",
    "![x](http://example.org/x.png)",
    '=HYPERLINK("http://example.org")',
    "two\nlines\tand a tab",
    "abc\u202egnp.exe",
    "zero\u200bwidth",
    "🏥 clinic 🧪",
    "עברית",
    "中文客户端",
    "; DROP TABLE runs; --",
    "../../etc/passwd",
    "x" * 200,
    " ",
)
"""Accepted as they are; whoever shows them must show them literally."""


def _architectures() -> None:
    def model(spec: Any, code: str, name: str, names: str = "") -> None:
        def change(writer: LogWriter) -> None:
            writer.model = spec

        add(0, f"architecture: {name}", changed(change), code, names=names)

    layers = MODEL["layers"]
    assert isinstance(layers, list)
    model({"input": [6], "layers": [{"op": "fft"}]}, "E_MODEL_OP", "unknown op", "linear, conv1d")
    model({"input": [6], "layers": [{"op": "__import__('os').system"}]}, "E_MODEL_OP", "op that would like to run")
    model({"input": [7], "layers": layers}, "E_FEATURES", "another input width")
    model({"input": [6], "layers": layers[:1]}, "E_MODEL_SHAPE", "too few logits", "3 logits")
    model({"input": [6], "layers": [{"op": "linear", "weight": "nowhere"}]}, "E_MODEL_NAME", "unknown parameter")
    model({"input": [2**31 - 1] * 4, "layers": layers}, "E_MODEL_SIZE", "input beyond any memory")
    model({"input": [6], "layers": [{"op": "relu"}] * 5000}, "E_MODEL_SIZE", "5,000 layers")
    model([], "E_MODEL", "a list")
    model(
        {"input": [6], "layers": [{"op": "pad", "sizes": [0, 2**31 - 1]}]}, "E_MODEL_SIZE", "padding beyond any memory"
    )
    model({"input": [6], "layers": [{"op": "lstm", "weights": ["nowhere"] * 4}]}, "E_MODEL_SHAPE", "an LSTM of one row")
    model({"input": [6], "nodes": [{"name": "a", "op": "relu", "inputs": ["a"]}], "output": "a"}, "E_MODEL", "a cycle")
    assert CLIENTS

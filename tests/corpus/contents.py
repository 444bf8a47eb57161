"""Logs whose tensors are wrong or tell something (rows 22–29 and 37–41)."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from safetensors.numpy import save

from tests.corpus.cases import Write, add, bundle, changed, directory, edited, file
from tests.corpus.good_logs import (
    CLASSES,
    FEATURES,
    PARAMETERS,
    Files,
    LogWriter,
    as_json,
    line,
    rehash,
    sha256,
    zipped,
)

EPOCH = "epochs/00002.safetensors"


def register() -> None:
    _headers()
    _offsets_and_types()
    _pickles()
    _values()
    _evidence()
    _validation()
    add(41, "10,000 clients in 50 epochs", bundle(many_clients, 0))


def tensor_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header (a value or the raw text)."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _epoch(content: Callable[[], bytes], make: Callable[[Callable[[], Files]], Write] = bundle) -> Write:
    """The second epoch's file replaced, with its hash made right."""
    return make(lambda: rehash({**LogWriter().files(), EPOCH: content()}))


def _updates(dtype: str = "F32", shape: Any = (2, PARAMETERS), offsets: Any = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": offsets or [0, 8 * PARAMETERS]}


DATA = np.full((2, PARAMETERS), 0.01, dtype="<f4").tobytes()


def _headers() -> None:
    for words, content in {
        "header length 2^63": struct.pack("<Q", 2**63) + b"{}",
        "header of 99 MB in 10 bytes": struct.pack("<Q", 99 << 20) + b"{}",
        "header length 0": struct.pack("<Q", 0) + DATA,
        "header longer than the file": tensor_file({"updates": _updates()}, length=10_000),
        "empty tensor file": b"",
        "seven bytes": b"\1" * 7,
        "header is a list": tensor_file([]),
        "header is no JSON": tensor_file(b"{" + b"x" * 40 + b"}"),
        "header with a NaN": tensor_file(b'{"updates": NaN}'),
        "header key twice": tensor_file(b'{"a": {}, "a": {}}'),
        "header with a number for a tensor": tensor_file({"updates": 3}),
        "tensor without offsets": tensor_file({"updates": {"dtype": "F32", "shape": [1]}}, bytes(4)),
        "negative shape": tensor_file({"updates": _updates(shape=(-2, PARAMETERS))}, DATA),
        "shape of nine dimensions": tensor_file({"updates": _updates(shape=[1] * 9, offsets=[0, 4])}, bytes(4)),
        "boolean shape": tensor_file({"updates": _updates(shape=[True], offsets=[0, 4])}, bytes(4)),
        "deep header": tensor_file(b"{" + b'"a":{' * 500 + b"}" * 501),
    }.items():
        add(22, words, _epoch(lambda content=content: content), "E_ST_HDR", names=EPOCH)
    add(23, "500,000 tensors, stored", _epoch(many_tensors, lambda files: bundle(files, 0)), "E_ST_MANY", names=EPOCH)
    add(23, "500,000 tensors, deflated", _epoch(many_tensors), "E_ST_MANY", names=EPOCH)
    add(23, "500,000 tensors in a directory", _epoch(many_tensors, directory), "E_ST_MANY", names=EPOCH)
    add(23, "60,000 tensors", _epoch(lambda: many_tensors(60_000)), "E_ST_MANY", names=EPOCH)
    blanks = struct.pack("<Q", 9 << 20) + b"{" + b" " * ((9 << 20) - 2) + b"}"
    add(23, "9 MB of blanks as header", _epoch(lambda: blanks, lambda files: bundle(files, 0)), "E_ST_HDR", names=EPOCH)


def many_tensors(count: int = 500_000) -> bytes:
    entries = (f'"t{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(count))
    return tensor_file(("{" + ",".join(entries) + "}").encode())


def _offsets_and_types() -> None:
    half = 4 * PARAMETERS
    over = {"updates": _updates(), "global": _updates(shape=[PARAMETERS], offsets=[0, half])}
    apart = {"updates": _updates(), "global": _updates(shape=[PARAMETERS], offsets=[2 * half + 4, 3 * half + 4])}
    add(24, "overlapping tensors", _epoch(lambda: tensor_file(over, DATA)), "E_ST_OFF")
    add(24, "hole between tensors", _epoch(lambda: tensor_file(apart, DATA + bytes(half + 4))), "E_ST_OFF")
    add(24, "junk after the tensors", _epoch(lambda: tensor_file({"updates": _updates()}, DATA + b"junk")), "E_ST_OFF")
    add(24, "data cut short", _epoch(lambda: tensor_file({"updates": _updates()}, DATA[:-4])), "E_ST_OFF")
    for words, tensor in {
        "offsets for another shape": _updates(shape=(3, PARAMETERS)),
        "offsets the wrong way round": _updates(offsets=[2 * half, 0]),
        "shape whose product overflows": _updates(shape=[2**62, 4], offsets=[0, 0]),
    }.items():
        add(24, words, _epoch(lambda tensor=tensor: tensor_file({"updates": tensor}, DATA)), "E_ST_OFF")
    for dtype, size in (("I64", 8), ("BOOL", 1), ("F64", 8), ("U8", 1), ("I32", 4)):
        data = bytes(2 * PARAMETERS * size)
        header = {"updates": _updates(dtype, offsets=[0, len(data)])}
        add(25, f"updates as {dtype}", _epoch(lambda header=header, data=data: tensor_file(header, data)), "E_ST_DTYPE")
    add(25, "unknown dtype", _epoch(lambda: tensor_file({"updates": _updates("Q4_K")}, DATA)), "E_ST_DTYPE")
    add(25, "dtype is a list", _epoch(lambda: tensor_file({"updates": _updates([])}, DATA)), "E_ST_DTYPE")  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    half_precision = rng.normal(scale=0.1, size=(2, PARAMETERS)).astype("<f2").tobytes()
    brain = (rng.normal(scale=0.1, size=(2, PARAMETERS)).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    for dtype, data in (("F16", half_precision), ("BF16", brain)):
        header = {"updates": _updates(dtype, offsets=[0, len(data)])}
        add(25, f"updates as {dtype}", _epoch(lambda header=header, data=data: tensor_file(header, data)))
    infinite = np.full((2, PARAMETERS), np.inf, dtype="<f2").tobytes()
    header = {"updates": _updates("F16", offsets=[0, len(infinite)])}
    add(25, "infinities in 16 bits", _epoch(lambda: tensor_file(header, infinite)), "E_NONFINITE")

    def double(writer: LogWriter) -> None:
        writer.initial = {name: array.astype(np.float64) for name, array in writer.initial.items()}

    add(25, "initial model in float64", changed(double), "E_ST_DTYPE", names="initial.safetensors")


class _Trap:
    """Would write a file if anybody unpickled it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("unpickled-by-the-reader", "w"))


def _pickles() -> None:
    pickled = pickle.dumps(_Trap())
    objects = io.BytesIO()
    np.save(objects, np.array([_Trap()], dtype=object), allow_pickle=True)
    plain = io.BytesIO()
    np.save(plain, np.zeros(3))
    torch_file = zipped({"archive/data.pkl": pickled, "archive/version": b"3\n"}, 0)

    def beside(name: str, content: bytes) -> Write:
        return edited(lambda files: files.update({name: content}))

    add(26, "model.pt beside the log", beside("model.pt", torch_file), "E_PICKLE", names="RunRecorder")
    add(26, "updates.pkl beside the log", beside("epochs/updates.pkl", pickled), "E_PICKLE", names="updates.pkl")
    add(26, "object array beside the log", beside("updates.npy", objects.getvalue()), "E_PICKLE", names="updates.npy")
    add(26, "plain array beside the log", beside("updates.npy", plain.getvalue()), warnings=("W_EXTRA_FILE",))
    add(26, "pickle as tensor file", _epoch(lambda: pickled), "E_PICKLE", names=EPOCH)
    add(26, "object array as tensor file", _epoch(objects.getvalue), "E_PICKLE", names=EPOCH)
    add(26, "torch file as tensor file", _epoch(lambda: torch_file), "E_ST_HDR", names=EPOCH)
    add(26, "torch file instead of a log", file(torch_file, ".pt"), "E_PICKLE", names="data.pkl")
    add(26, "pickle instead of a log", file(pickled, ".pkl"), "E_PICKLE")
    add(26, "pickle with the name of a log", file(pickled), "E_PICKLE")
    add(26, "object array instead of a log", file(objects.getvalue(), ".npy"), "E_PICKLE")


def _tensors(writer: LogWriter, epoch: int) -> dict[str, np.ndarray]:
    tensors = writer.tensors[epoch - 1]
    assert tensors is not None
    return tensors


def _values() -> None:
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf)):

        def spoiled(writer: LogWriter, value: float = value) -> None:
            _tensors(writer, 3)["updates"][1, 5] = value

        add(27, f"{name} in one update", changed(spoiled), "E_NONFINITE", names="epoch 3")

        def spoiled_initial(writer: LogWriter, value: float = value) -> None:
            writer.initial["2.bias"][1] = value

        add(27, f"{name} in the initial model", changed(spoiled_initial), "E_NONFINITE", names="2.bias")

    def spoiled_global(writer: LogWriter) -> None:
        writer.add_globals()
        _tensors(writer, 2)["global"] = np.full(PARAMETERS, np.nan, np.float32)

    add(27, "NaN in the global model", changed(spoiled_global), "E_NONFINITE", names="global model")

    def extreme(writer: LogWriter) -> None:
        _tensors(writer, 2)["updates"][:] = np.float32(3e38)
        _tensors(writer, 2)["updates"][0, 0] = np.float32(-3e38)

    add(27, "finite but squares to infinity", changed(extreme))


def _evidence() -> None:
    def zero(writer: LogWriter) -> None:
        _tensors(writer, 2)["updates"][0] = 0

    def minus_zero(writer: LogWriter) -> None:
        _tensors(writer, 2)["updates"][0] = np.float32(-0.0)

    def tiny(writer: LogWriter) -> None:
        _tensors(writer, 2)["updates"][0] = np.float32(1e-42)

    def copied(writer: LogWriter) -> None:
        _tensors(writer, 2)["updates"][1] = _tensors(writer, 2)["updates"][0]

    def repeated(writer: LogWriter) -> None:
        _tensors(writer, 4)["updates"][0] = _tensors(writer, 1)["updates"][0]

    def stolen(writer: LogWriter) -> None:
        _tensors(writer, 4)["updates"][0] = _tensors(writer, 1)["updates"][2]

    def scaled(writer: LogWriter) -> None:
        _tensors(writer, 3)["updates"][1] *= np.float32(1e6)

    def moved(writer: LogWriter) -> None:
        writer.add_globals()
        _tensors(writer, 3)["global"] = _tensors(writer, 3)["global"] + np.float32(0.03)

    add(28, "all-zero update", changed(zero), warnings=("W_ZERO_DELTA",), names="hospital-a")
    add(28, "update of minus zeros", changed(minus_zero), warnings=("W_ZERO_DELTA",))
    add(28, "update too small to square", changed(tiny), warnings=("W_NORM",))
    add(28, "copy of another's update", changed(copied), warnings=("W_DUPLICATE_DELTA",), names="hospital-b")
    add(28, "repeat of an own update", changed(repeated), warnings=("W_DUPLICATE_DELTA",), names="its own")
    add(28, "copy of another's earlier update", changed(stolen), warnings=("W_DUPLICATE_DELTA",), names="hospital-c")
    add(29, "update of a million times the norm", changed(scaled), warnings=("W_NORM",), names="hospital-c")
    add(37, "global model as recomputed", changed(lambda writer: writer.add_globals()))
    add(37, "global model of another rule", changed(moved), warnings=("W_AGGREGATE",), names="0.03")


def _validation() -> None:
    def rows(count: int) -> Callable[[LogWriter], None]:
        return lambda writer: writer.__init__(rows=count)  # type: ignore[misc]

    def put(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Callable[[LogWriter], None]:
        def change(writer: LogWriter) -> None:
            assert writer.validation is not None
            writer.validation[name] = value(writer.validation.get(name, np.zeros(120, np.int64)))

        return change

    def at(place: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
        def change(array: np.ndarray) -> np.ndarray:
            array[place] = value
            return array

        return change

    add(38, "no validation rows", changed(rows(0)), "E_VALID_EMPTY")
    add(38, "one validation row", changed(rows(1)), warnings=("W_VALID_SMALL",))
    add(38, "99 validation rows", changed(rows(99)), warnings=("W_VALID_SMALL",))
    add(38, "100 validation rows", changed(rows(100)))
    add(39, "label too large", changed(put("y", at(17, CLASSES))), "E_LABEL", names="row 17")
    add(39, "label below 0", changed(put("y", at(3, -1))), "E_LABEL", names="row 3")
    add(39, "float labels", changed(put("y", lambda y: y.astype(np.float32))), "E_LABEL")
    add(39, "too few labels", changed(put("y", lambda y: y[:-1])), "E_LABEL")
    add(39, "labels in columns", changed(put("y", lambda y: y[:, None])), "E_LABEL")
    add(
        39,
        "wider features",
        changed(put("x", lambda x: np.repeat(x, 2, axis=1))),
        "E_FEATURES",
        names=str(2 * FEATURES),
    )
    add(39, "NaN feature", changed(put("x", at((41, 2), np.nan))), "E_FEATURES", names="row 41")
    add(39, "infinite feature", changed(put("x", at((41, 2), np.inf))), "E_FEATURES", names="row 41")
    add(39, "features without columns", changed(put("x", lambda x: x[:, 0].copy())), "E_FEATURES")
    add(39, "features in float64", changed(put("x", lambda x: x.astype(np.float64))), "E_ST_DTYPE")
    add(39, "whole-number features without embedding", changed(put("x", lambda x: x.astype(np.int64))), "E_ST_DTYPE")
    add(39, "groups as float", changed(put("group", lambda g: g.astype(np.float32))), "E_LABEL", names="group")
    add(39, "groups", changed(put("group", lambda g: g)))
    add(39, "unknown validation tensor", changed(put("weights", lambda w: w)), "E_SHAPE", names="weights")

    def no_classes(writer: LogWriter) -> None:
        writer.classes = None

    add(39, "validation without classes", changed(no_classes), "E_MANIFEST", names="classes")
    for classes in (0, True, 2.0, "3"):

        def odd(writer: LogWriter, classes: Any = classes) -> None:
            writer.classes = classes

        add(39, f"classes {classes!r}", changed(odd), "E_MANIFEST", names="classes")
    add(39, "tokens", changed(tokens))
    add(39, "token beyond the embedding", changed(lambda w: tokens(w, 11)), "E_FEATURES", names="row 7")
    add(39, "negative token", changed(lambda w: tokens(w, -1)), "E_FEATURES", names="row 7")


def tokens(writer: LogWriter, token: int = 0) -> None:
    """A log of a text model: whole numbers go through an embedding first."""
    rng = np.random.default_rng(0)
    writer.initial = {
        "e": rng.normal(size=(11, 4)).astype(np.float32),
        "w": rng.normal(size=(3, 20)).astype(np.float32),
    }
    writer.model = {
        "input": [5],
        "layers": [{"op": "embedding", "weight": "e"}, {"op": "flatten"}, {"op": "linear", "weight": "w"}],
    }
    assert writer.validation is not None
    writer.validation["x"] = rng.integers(0, 11, (120, 5))
    writer.validation["x"][7, 2] = token
    writer.tensors = [
        {"updates": rng.normal(scale=0.1, size=(len(entry["participants"]), 104)).astype(np.float32)}
        for entry in writer.lines
    ]


def many_clients(clients: int = 10_000, epochs: int = 50) -> Files:
    """A very wide federation with a tiny model."""
    rng = np.random.default_rng(0)
    ids = [f"client-{i:05d}" for i in range(clients)]
    files: Files = {"initial.safetensors": save({"w": np.zeros((1, 4), np.float32)})}
    manifest = {
        "format": "flrun",
        "version": 1,
        "clients": [{"id": name, "data_size": 10 + i % 90} for i, name in enumerate(ids)],
        "parameters": [{"name": "w", "shape": [1, 4]}],
        "files": {name: sha256(content) for name, content in files.items()},
    }
    lines = []
    for epoch in range(1, epochs + 1):
        name = f"epochs/{epoch:05d}.safetensors"
        files[name] = save({"updates": rng.normal(size=(clients, 4)).astype(np.float32)})
        lines.append(line({"epoch": epoch, "participants": ids, "file": name, "sha256": sha256(files[name])}))
    return {"manifest.json": as_json(manifest), "epochs.jsonl": b"".join(lines), **files}

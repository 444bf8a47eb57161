"""Good logs, mutated: only a typed refusal may come out, or exactly the content that the plain libraries see."""

from __future__ import annotations

import io
import json
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from tests.corpus.good_logs import Files, LogWriter, as_json, line, rehash, write_directory, zipped
from tests.corpus.plain_reader import assert_same_content, files_of

quick = settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def _with_globals() -> Files:
    writer = LogWriter(seed=2, epochs=3, rows=20)
    writer.add_globals()
    writer.extra_manifest = {"truth": {"dishonest": [{"client": "hospital-a", "windows": [[1, 2]], "attack": "x"}]}}
    return writer.files()


FILES = _with_globals()
STORED, DEFLATED = zipped(FILES, 0), zipped(FILES, 8)


def refused_or_sound(write: Callable[[Path], Path]) -> RunLog | None:
    """Read what ``write`` makes; None when it was refused in the proper way."""
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    try:
        path = write(folder)
        problems: tuple[Problem, ...] = ()
        try:
            run: object = read_run_log(path)
        except RunLogError as refused:
            problems, run = refused.problems, None
        if run is None:
            assert 1 <= len(problems) <= 50
            assert all(p.code.startswith("E_") and p.where and p.found and p.expected for p in problems)
            return None
        assert isinstance(run, RunLog)
        assert_same_content(run, path)
        run.close()
        return run
    finally:
        shutil.rmtree(folder)


def _file(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "run.flrun").write_bytes(content)
        return folder / "run.flrun"

    return write


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A few bytes changed, cut out, doubled or put in, anywhere (and often near the end, where a zip's records are)."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        near_end = draw(st.booleans())
        low = max(0, len(data) - 400) if near_end else 0
        at = draw(st.integers(low, max(low, len(data) - 1)))
        match draw(st.sampled_from(["set", "flip", "cut", "double", "insert", "end"])):
            case "set" if at < len(data):
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, draw(st.integers(0, 255))]))
            case "flip" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del data[at : at + draw(st.integers(1, 30))]
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 30))]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "end":
                del data[at:]
            case _:
                pass
    return bytes(data)


PLAIN_DIGEST = refused_or_sound(_file(DEFLATED)).digest  # type: ignore[union-attr]


@quick
@given(damaged(STORED))
def test_damaged_stored_archive(archive: bytes) -> None:
    run = refused_or_sound(_file(archive))
    assert run is None or run.digest == PLAIN_DIGEST


@quick
@given(damaged(DEFLATED))
def test_damaged_deflated_archive(archive: bytes) -> None:
    run = refused_or_sound(_file(archive))
    assert run is None or run.digest == PLAIN_DIGEST


@quick
@given(st.data())
def test_damaged_file_in_a_directory(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FILES)))
    files = {**FILES, name: data.draw(damaged(FILES[name]))}
    refused_or_sound(lambda folder: write_directory(files, folder / "run"))


@quick
@given(st.data())
def test_damaged_tensor_file_with_a_right_hash(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(n for n in FILES if n.endswith(".safetensors"))))
    files = rehash({**FILES, name: data.draw(damaged(FILES[name]))})
    refused_or_sound(_file(zipped(files, 0)))


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([2**31, 2**53, 2**60, 2**64, 10**30, -(2**63)]),
        st.floats(allow_nan=True, allow_infinity=True),
        st.text(max_size=6),
        st.sampled_from(["hospital-a", "hospital-b", "updates", "epochs/00001.safetensors", "F16", "relu", "0.weight"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in [(value, key), *_places(item)]]


def _replace_somewhere(data: st.DataObject, value: Any) -> Any:
    copy = json.loads(json.dumps(value))
    container, key = data.draw(st.sampled_from(_places(copy)))
    action = data.draw(st.sampled_from(["replace", "replace", "remove", "repeat"]))
    if action == "replace":
        container[key] = data.draw(json_values)
    elif action == "remove":
        del container[key]
    elif isinstance(container, list):
        container.append(container[key])
    else:
        container[f"{key}2"] = container[key]
    return copy


@quick
@given(st.data())
def test_mutated_fields_of_the_texts(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["manifest.json", "manifest.json", "model.json", "epochs.jsonl"]))
    files = dict(FILES)
    if name == "epochs.jsonl":
        lines = [json.loads(text) for text in files[name].splitlines()]
        files[name] = b"".join(map(line, _replace_somewhere(data, lines)))
    else:
        files[name] = as_json(_replace_somewhere(data, json.loads(files[name])))
        if name == "model.json":
            files = rehash(files)
    refused_or_sound(lambda folder: write_directory(files, folder / "run"))


@quick
@given(st.data())
def test_mutated_tensor_headers(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(n for n in FILES if n.endswith(".safetensors"))))
    (length,) = struct.unpack("<Q", FILES[name][:8])
    header = _replace_somewhere(data, json.loads(FILES[name][8 : 8 + length]))
    text = json.dumps(header).encode()
    declared = len(text) + data.draw(st.sampled_from([0, 0, 0, 1, -1, 2**40]))
    files = rehash({**FILES, name: struct.pack("<Q", declared) + text + FILES[name][8 + length :]})
    refused_or_sound(_file(zipped(files)))


@quick
@given(st.binary(max_size=400))
def test_arbitrary_bytes(content: bytes) -> None:
    assert refused_or_sound(_file(content)) is None
    assert refused_or_sound(_file(b"PK\3\4" + content)) is None


@quick
@given(st.permutations(sorted(FILES)), st.data())
def test_any_zip_of_the_same_files_is_the_same_run(order: list[str], data: st.DataObject) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in order:
            entry = zipfile.ZipInfo(name)
            entry.compress_type = data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
            with archive.open(entry, "w", force_zip64=data.draw(st.booleans())) as out:
                out.write(FILES[name])
        archive.comment = data.draw(st.binary(max_size=20))
    run = refused_or_sound(_file(buffer.getvalue()))
    assert run is not None
    assert run.digest == PLAIN_DIGEST


def test_the_mutations_bite() -> None:
    """The good log is accepted and its plain reading has something to compare."""
    run = refused_or_sound(_file(STORED))
    assert run is not None
    assert len(files_of(write_directory(FILES, Path(tempfile.mkdtemp()) / "run"))) == len(FILES)

"""What comes out of a run log that somebody else's script wrote."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.bundle import STAGES, check_run_log, read_run_log
from flcontrib_core.runs.run_log import Client, RunLog
from tests.corpus.good_logs import CLIENTS, MODEL, PARAMETERS, SHAPES, Files, LogWriter, rehash, write_directory, zipped
from tests.patience import PATIENCE_SECONDS


def read(path: Path, **options: object) -> RunLog:
    run = read_run_log(path, **options)  # type: ignore[arg-type]
    assert isinstance(run, RunLog)
    return run


def as_zip(files: Files, path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.write_bytes(zipped(files, method))
    return path


@pytest.fixture
def writer() -> LogWriter:
    return LogWriter(seed=3)


@pytest.mark.parametrize("form", ["directory", "deflated", "stored"])
def test_every_number_comes_back(form: str, writer: LogWriter, tmp_path: Path) -> None:
    writer.add_globals()
    writer.lines[1]["data_sizes"] = {"hospital-a": 77}
    writer.lines[1]["asked"] = ["hospital-a", "hospital-b", "hospital-c"]
    writer.lines[1]["failed"] = [{"client": "hospital-c", "reason": "no reply"}]
    writer.lines[1]["participants"] = ["hospital-b", "hospital-a"]
    writer.lines[1]["metrics"] = {"loss": 2.25}
    writer.extra_manifest = {
        "name": "two wards",
        "truth": {
            "dishonest": [{"client": "hospital-b", "windows": [[2, 3]], "attack": "label-flip", "strength": 0.7}]
        },
    }
    files = writer.files()
    if form == "directory":
        path = write_directory(files, tmp_path / "run")
    else:
        path = as_zip(files, tmp_path / "run.flrun", zipfile.ZIP_DEFLATED if form == "deflated" else zipfile.ZIP_STORED)
    run = read(path)
    assert run.name == "two wards"
    assert run.clients == tuple(Client(*client) for client in CLIENTS)
    assert [(spec.name, spec.shape) for spec in run.parameters] == list(SHAPES.items())
    assert run.parameter_count == PARAMETERS
    assert run.classes == 3
    assert run.model == MODEL
    assert run.truth is not None
    assert run.truth.dishonest[0].windows == ((2, 3),)
    second = run.epochs[1]
    assert second.participants == (1, 0)
    assert second.data_sizes == (180, 77)
    assert second.asked == ("hospital-a", "hospital-b", "hospital-c")
    assert [(f.client, f.reason) for f in second.failed] == [("hospital-c", "no reply")]
    assert second.metrics == {"loss": 2.25}
    np.testing.assert_array_equal(run.initial(), np.concatenate([writer.initial[n].reshape(-1) for n in SHAPES]))
    for epoch, tensors in enumerate(writer.tensors, start=1):
        data = run.epoch_data(epoch)
        assert tensors is not None
        assert data.global_model is not None
        np.testing.assert_array_equal(data.updates, tensors["updates"])
        np.testing.assert_array_equal(data.global_model, tensors["global"])
        data.updates[:] = 0  # the caller's own copy: the next reading is as before
        np.testing.assert_array_equal(run.epoch_data(epoch).updates, tensors["updates"])
    validation = run.validation()
    assert validation is not None
    assert writer.validation is not None
    np.testing.assert_array_equal(validation.x, writer.validation["x"])
    np.testing.assert_array_equal(validation.y, writer.validation["y"])
    assert validation.group is None
    run.close()


def test_digest_is_the_described_one_and_survives_zipping(writer: LogWriter, tmp_path: Path) -> None:
    files = writer.files()
    text = "".join(f"{n}\0{hashlib.sha256(files[n]).hexdigest()}\n" for n in sorted(files, key=lambda n: n.encode()))
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert read(write_directory(files, tmp_path / "run")).digest == expected
    shuffled = dict(sorted(files.items(), reverse=True))
    assert read(as_zip(shuffled, tmp_path / "a.flrun", zipfile.ZIP_STORED)).digest == expected
    more = {**files, "notes.txt": b"mine", "epochs/00099.safetensors": b"left over"}
    result = check_run_log(as_zip(more, tmp_path / "b.flrun"))
    assert (result.digest, [w.code for w in result.warnings]) == (expected, ["W_EXTRA_FILE"])


def test_labels_and_names_invalidate_no_epoch(writer: LogWriter, tmp_path: Path) -> None:
    plain = read(write_directory(writer.files(), tmp_path / "plain"))
    writer.extra_manifest = {"name": "other", "truth": {"dishonest": []}}
    labelled = read(write_directory(writer.files(), tmp_path / "labelled"))
    assert labelled.digest != plain.digest
    assert labelled.epoch_digests() == plain.epoch_digests()
    writer.clients[0]["data_size"] += 1
    assert read(write_directory(writer.files(), tmp_path / "sizes")).base_digest != plain.base_digest


def test_a_new_epoch_keeps_the_digests_of_the_old_ones(tmp_path: Path) -> None:
    short = read(write_directory(LogWriter(seed=5, epochs=3).files(), tmp_path / "short"))
    longer = read(write_directory(LogWriter(seed=5, epochs=4, rows=120).files(), tmp_path / "longer"))
    assert longer.epoch_digests()[:4] == short.epoch_digests()
    assert len(set(longer.epoch_digests())) == 5


def test_stages_are_heard_in_order_and_stop_at_the_first_fault(writer: LogWriter, tmp_path: Path) -> None:
    heard: list[str] = []
    path = write_directory(writer.files(), tmp_path / "run")
    check_run_log(path, on_stage=heard.append)
    assert tuple(heard) == STAGES
    heard.clear()
    (path / "epochs/00002.safetensors").write_bytes(b"short")
    check_run_log(path, on_stage=heard.append)
    assert heard == ["received", "archive safe", "manifest"]


def test_all_problems_are_reported_at_once(writer: LogWriter, tmp_path: Path) -> None:
    writer.clients[0]["data_size"] = 0
    writer.extra_manifest = {"truth": {"dishonest": 3}}
    writer.model = {"input": [6], "layers": [{"op": "no-such"}]}
    files = writer.files()
    files["epochs/00003.safetensors"] = b"x" * 100
    result = check_run_log(as_zip(files, tmp_path / "bad.flrun"))
    assert not result.ok
    assert result.digest is None
    assert {p.code for p in result.errors} >= {"E_CLIENT_SIZE", "E_TRUTH", "E_MODEL_OP"}
    assert all(p.where and p.found and p.expected and p.fix for p in result.errors)
    with pytest.raises(RunLogError) as refused:
        read_run_log(tmp_path / "bad.flrun")
    assert refused.value.problems == result.errors


def test_problems_end_at_fifty(writer: LogWriter, tmp_path: Path) -> None:
    writer.clients = [{"id": f"c{i}", "data_size": -1} for i in range(80)]
    assert len(check_run_log(write_directory(writer.files(), tmp_path / "run")).errors) == 50


def test_check_gives_the_json_of_the_command(writer: LogWriter, tmp_path: Path) -> None:
    result = check_run_log(write_directory(writer.files(), tmp_path / "run")).to_json()
    assert list(result) == ["ok", "digest", "clients", "epochs", "participants", "errors", "warnings"]
    assert json.loads(json.dumps(result)) == result
    assert (result["ok"], result["epochs"], result["participants"]) == (True, 4, [3, 2, 2, 2])
    refused = check_run_log(tmp_path / "nowhere").to_json()
    assert (refused["ok"], refused["digest"]) == (False, None)
    assert set(refused["errors"][0]) == {"code", "where", "found", "expected", "fix"}


@pytest.mark.parametrize(("dtype", "name"), [(np.float16, "F16"), (None, "BF16")])
def test_sixteen_bit_tensors_are_cast_and_that_is_recorded(
    dtype: type | None, name: str, writer: LogWriter, tmp_path: Path
) -> None:
    tensors = writer.tensors[1]
    assert tensors is not None
    original = tensors["updates"]
    files = writer.files()
    if dtype is not None:
        expected = original.astype(dtype).astype(np.float32)
        data = original.astype(dtype).tobytes()
    else:
        bits = (original.view(np.uint32) >> 16).astype(np.uint16)  # truncated, as the simplest converter does
        expected = (bits.astype(np.uint32) << 16).view(np.float32)
        data = bits.tobytes()
    header = {"updates": {"dtype": name, "shape": list(original.shape), "data_offsets": [0, len(data)]}}
    text = json.dumps(header).encode()
    files["epochs/00002.safetensors"] = len(text).to_bytes(8, "little") + text + data
    for path in (write_directory(rehash(files), tmp_path / "run"), as_zip(rehash(files), tmp_path / "run.flrun")):
        run = read(path)
        np.testing.assert_array_equal(run.epoch_data(2).updates, expected)
        assert run.epoch_data(2).updates.dtype == np.float32
        assert run.casts == (f"{name} read as float32: epochs/00002.safetensors",)


@pytest.mark.parametrize("bundled", [False, True])
def test_nonfinite_update_is_refused_or_treated_as_absent(bundled: bool, writer: LogWriter, tmp_path: Path) -> None:
    tensors = writer.tensors[0]
    assert tensors is not None
    tensors["updates"][1, 7] = np.nan
    files = writer.files()
    path = as_zip(files, tmp_path / "run.flrun") if bundled else write_directory(files, tmp_path / "run")
    (problem,) = check_run_log(path).errors
    assert problem.code == "E_NONFINITE"
    assert "epoch 1" in problem.where
    assert "hospital-b" in problem.found
    run = read(path, nonfinite="absent")
    assert run.epochs[0].participants == (0, 2)
    assert run.epochs[0].data_sizes == (179, 60)
    assert run.epochs[0].nonfinite == (1,)
    np.testing.assert_array_equal(run.epoch_data(1).updates, tensors["updates"][[0, 2]])
    assert [(w.code, w.where) for w in run.warnings] == [("W_NONFINITE_ABSENT", 'client "hospital-b"')]
    assert not run.participated()[1, 1]


def test_nonfinite_global_is_left_to_the_rebuilt_model_when_absence_is_chosen(
    writer: LogWriter, tmp_path: Path
) -> None:
    writer.add_globals()
    tensors = writer.tensors[2]
    assert tensors is not None
    tensors["global"] = tensors["global"].copy()
    tensors["global"][0] = np.inf
    path = write_directory(writer.files(), tmp_path / "run")
    assert [p.code for p in check_run_log(path).errors] == ["E_NONFINITE"]
    run = read(path, nonfinite="absent")
    assert [record.has_global for record in run.epochs] == [True, True, False, True]
    assert run.epoch_data(3).global_model is None
    assert [w.where for w in run.warnings if w.code == "W_NONFINITE_ABSENT"] == ["global model"]


def test_epoch_without_participants(writer: LogWriter, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    writer.add_epoch([], rng)
    writer.add_epoch([], rng)
    writer.tensors[5] = {"global": rng.normal(size=PARAMETERS).astype(np.float32)}
    run = read(write_directory(writer.files(), tmp_path / "run"))
    assert run.epoch_data(5).updates.shape == (0, PARAMETERS)
    assert run.epoch_data(5).global_model is None
    assert run.epochs[4].file is None
    moved = run.epoch_data(6)
    assert moved.updates.shape == (0, PARAMETERS)
    assert moved.global_model is not None


def test_single_client_and_one_that_never_takes_part(tmp_path: Path) -> None:
    alone = LogWriter(clients=(("only", 5),))
    assert read(write_directory(alone.files(), tmp_path / "alone")).participated()[1:].all()
    writer = LogWriter()
    writer.clients.append({"id": "never", "data_size": 9})
    run = read(write_directory(writer.files(), tmp_path / "never"))
    assert not run.participated()[:, 3].any()


def test_growing_directory_ignores_the_line_being_written(writer: LogWriter, tmp_path: Path) -> None:
    files = writer.files()
    whole = read(write_directory(files, tmp_path / "run"))
    cut = files["epochs.jsonl"] + b'{"epoch": 5, "participants": ["hospi'
    growing = read(write_directory({**files, "epochs.jsonl": cut}, tmp_path / "run"))
    assert growing.digest == whole.digest
    assert growing.epoch_count == 4
    without_newline = read(write_directory({**files, "epochs.jsonl": files["epochs.jsonl"][:-1]}, tmp_path / "run"))
    assert without_newline.epoch_count == 4
    result = check_run_log(as_zip({**files, "epochs.jsonl": cut}, tmp_path / "run.flrun"))
    assert [p.code for p in result.errors] == ["E_JSON"]


def test_growing_directory_is_read_on_without_reading_old_epochs_again(tmp_path: Path) -> None:
    for with_globals in (False, True):
        long = LogWriter(seed=1, epochs=5)
        if with_globals:
            long.add_globals()
        files = long.files()
        lines = files["epochs.jsonl"].splitlines(keepends=True)
        path = write_directory({**files, "epochs.jsonl": b"".join(lines[:3])}, tmp_path / f"run{with_globals}")
        first = read(path)
        (path / "epochs.jsonl").write_bytes(files["epochs.jsonl"])
        opened: list[str] = []
        run = _counting_reads(path, first, opened)
        assert run.digest == read(path).digest
        assert run.epoch_digests() == read(path).epoch_digests()
        assert run.warnings == read(path).warnings
        tensors = {name for name in opened if name.endswith(".safetensors")}
        # Where the server's models are stored, the comparison with the updates begins at the initial model.
        first_model = {"initial.safetensors"} if with_globals else set()
        assert tensors == {"epochs/00004.safetensors", "epochs/00005.safetensors"} | first_model
        nothing: list[str] = []
        assert _counting_reads(path, run, nothing) is run
        assert nothing == []


def test_what_was_read_before_counts_only_for_the_same_question(writer: LogWriter, tmp_path: Path) -> None:
    path = write_directory(writer.files(), tmp_path / "run")
    first = read(path)
    assert read(path, previous=first) is first
    assert read(path, previous=first, nonfinite="absent") is not first
    other = write_directory(LogWriter(seed=9).files(), tmp_path / "other")
    assert read(other, previous=first).digest == read(other).digest
    renamed = {**json.loads((path / "manifest.json").read_text()), "name": "another name"}
    (path / "manifest.json").write_text(json.dumps(renamed))
    assert read(path, previous=first).name == "another name"


def _counting_reads(path: Path, previous: RunLog, opened: list[str]) -> RunLog:
    from flcontrib_core.runs.containers import ByteStream, DirectoryContainer

    original = DirectoryContainer.open

    def counted(self: DirectoryContainer, name: str) -> ByteStream:
        opened.append(name)
        return original(self, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectoryContainer, "open", counted)
        return read(path, previous=previous)


def test_previous_reading_does_not_hide_a_changed_file(writer: LogWriter, tmp_path: Path) -> None:
    path = write_directory(writer.files(), tmp_path / "run")
    first = read(path)
    target = path / "epochs/00001.safetensors"
    data = bytearray(target.read_bytes())
    data[-1] ^= 1
    target.write_bytes(bytes(data))
    with pytest.raises(RunLogError) as refused:
        read(path, previous=first)
    assert [p.code for p in refused.value.problems] == ["E_HASH"]
    with pytest.raises(RunLogError) as refused:
        first.epoch_data(1)
    assert [p.code for p in refused.value.problems] == ["E_CHANGED"]


def test_a_bundle_replaced_under_the_reader_is_noticed(writer: LogWriter, tmp_path: Path) -> None:
    path = as_zip(writer.files(), tmp_path / "run.flrun")
    run = read(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"....")
    with pytest.raises(RunLogError) as refused:
        run.epoch_data(1)
    assert refused.value.problems[0].code == "E_CHANGED"


def test_a_run_travels_to_another_process(writer: LogWriter, tmp_path: Path) -> None:
    files = writer.files()
    for path in (write_directory(files, tmp_path / "run"), as_zip(files, tmp_path / "run.flrun")):
        run = read(path)
        there = pickle.loads(pickle.dumps(run))
        np.testing.assert_array_equal(there.epoch_data(2).updates, run.epoch_data(2).updates)
        assert replace(there, source=run.source) == run


def test_ids_are_matched_after_nfc(tmp_path: Path) -> None:
    writer = LogWriter(clients=(("clinique é", 3), ("b", 4)), epochs=2)
    for entry in writer.lines:
        entry["participants"] = [name.replace("é", "e\u0301") for name in entry["participants"]]
    run = read(write_directory(writer.files(), tmp_path / "run"))
    assert run.client_ids == ("clinique é", "b")
    assert run.epochs[0].participants == (0, 1)


def test_somebody_asked_need_not_be_in_the_manifest(writer: LogWriter, tmp_path: Path) -> None:
    writer.lines[2]["asked"] = ["node-9134", "hospital-a"]
    writer.lines[2]["failed"] = [{"client": "node-9134"}]
    run = read(write_directory(writer.files(), tmp_path / "run"))
    assert run.epochs[2].asked == ("node-9134", "hospital-a")
    assert run.epochs[2].failed[0].reason == ""


def test_archives_of_other_tools_are_the_same_run(writer: LogWriter, tmp_path: Path) -> None:
    run = write_directory(writer.files(), tmp_path / "run")
    archives = [Path(shutil.make_archive(str(tmp_path / "shutil"), "zip", run))]
    if shutil.which("zip"):
        subprocess.run(["zip", "-qr", "../info.zip", "."], cwd=run, check=True, timeout=PATIENCE_SECONDS)
        subprocess.run("zip -qr - . > ../piped.zip", shell=True, cwd=run, check=True, timeout=PATIENCE_SECONDS)
        archives += [tmp_path / "info.zip", tmp_path / "piped.zip"]
    digest = read(run).digest
    assert [check_run_log(path).digest for path in archives] == [digest] * len(archives)


def test_a_recorder_is_read_while_it_writes(tmp_path: Path) -> None:
    from flcontrib_core.runs.recorder import RunRecorder

    rng = np.random.default_rng(0)
    previous = None
    with RunRecorder(
        tmp_path / "run", clients=[("a", 10), ("b", 30)], parameters=[("w", (2, 3))], initial=np.zeros(6)
    ) as recorder:
        assert [p.code for p in check_run_log(tmp_path / "run").errors] == ["E_EPOCH_NONE"]
        for epoch in (1, 2, 3):
            updates = {name: rng.normal(size=6).astype(np.float32) for name in ("a", "b")}
            recorder.epoch(updates, failed={}, metrics={"loss": 1.0 / epoch})
            previous = read(tmp_path / "run", previous=previous)
            assert previous.digest == recorder.digest()
            assert previous.epoch_count == epoch
            np.testing.assert_array_equal(previous.epoch_data(epoch).updates, np.stack(list(updates.values())))
        bundle = recorder.bundle()
    assert read(bundle).digest == recorder.digest()
    assert previous is not None
    assert read(bundle).epoch_digests() == previous.epoch_digests()

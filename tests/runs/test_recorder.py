"""Does the recorder write sound runs, whatever moment a crash picks?"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs import encoding
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.run_log import RunLog

CLIENTS = [("a", 30), ("b", 10), ("c", 60)]
PARAMETERS = [("w", (2, 3)), ("b", (2,))]
INITIAL = np.arange(8, dtype=np.float32)


def recorder(path: Path, **changes: Any) -> RunRecorder:
    return RunRecorder(path, **{"clients": CLIENTS, "parameters": PARAMETERS, "initial": INITIAL, **changes})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "epochs.jsonl").read_text().splitlines()]


def refusal_code(error: pytest.ExceptionInfo[RunLogError]) -> str:
    (problem,) = error.value.problems
    assert problem.fix
    assert problem.found
    return problem.code


def test_writes_every_file_the_format_names(tmp_path: Path) -> None:
    spec = {"input": [3], "layers": [{"op": "linear", "weight": "w", "bias": "b"}]}
    validation = (np.ones((4, 3)), np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1]))
    truth = {"dishonest": [{"client": "b", "windows": [[1, 2]], "attack": "zero"}]}
    with recorder(tmp_path / "r", model=spec, validation=validation, classes=2, name="n", truth=truth) as rec:
        rec.epoch({"a": np.ones(8), "c": np.full(8, 2.0)}, data_sizes={"c": 50, "a": 30}, metrics={"loss": 1.5})
        rec.epoch(np.zeros((3, 8)), global_model=INITIAL)
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    assert manifest["format"] == "flrun"
    assert manifest["version"] == 1
    assert manifest["clients"][1] == {"id": "b", "data_size": 10}
    assert manifest["parameters"][0] == {"name": "w", "shape": [2, 3]}
    assert manifest["truth"] == truth
    assert "created" not in manifest
    assert set(manifest["files"]) == {"initial.safetensors", "model.json", "validation.safetensors"}
    for file, digest in manifest["files"].items():
        assert hashlib.sha256((tmp_path / "r" / file).read_bytes()).hexdigest() == digest
    first, second = lines(tmp_path / "r")
    assert first["participants"] == ["a", "c"]
    assert first["data_sizes"] == {"c": 50}, "only sizes that differ from the manifest are stored"
    assert first["metrics"] == {"loss": 1.5}
    assert second["participants"] == ["a", "b", "c"]
    stored = load_file(tmp_path / "r" / first["file"])
    np.testing.assert_array_equal(stored["updates"], np.array([[1.0] * 8, [2.0] * 8], dtype=np.float32))
    assert stored["updates"].dtype == np.float32
    assert set(load_file(tmp_path / "r" / second["file"])) == {"updates", "global"}
    val = load_file(tmp_path / "r/validation.safetensors")
    assert (val["x"].dtype, val["y"].dtype, val["group"].dtype) == (np.float32, np.int64, np.int64)
    initial = load_file(tmp_path / "r/initial.safetensors")
    np.testing.assert_array_equal(initial["w"], INITIAL[:6].reshape(2, 3))


def test_classes_come_from_the_labels_where_nobody_says_them(tmp_path: Path) -> None:
    with recorder(tmp_path / "r", validation=(np.ones((2, 3)), np.array([0, 4]))) as rec:
        assert rec.manifest["classes"] == 5


def test_rows_are_written_one_by_one_as_the_library_writes_them_at_once() -> None:
    rows, server = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)
    for updates, model in ((rows, None), (rows, server), (None, server)):
        pieces = encoding.epoch_pieces([] if updates is None else updates, 0 if updates is None else 3, 4, model)
        assert b"".join(map(bytes, pieces)) == encoding.epoch_bytes(updates, model)


def test_16_bits_take_half_the_room_and_numbers_that_fit(tmp_path: Path) -> None:
    with recorder(tmp_path / "r", dtype="float16") as rec:
        with pytest.raises(RunLogError) as error:
            rec.epoch({"a": np.full(8, 1e6)})
        assert refusal_code(error) == "E_ST_DTYPE"
        assert rec.epoch({"a": np.ones(8)}) == 1
        assert rec.manifest["version"] == 2
        assert rec.manifest["dtype"] == "float16"
    with pytest.raises(SettingsError, match="float16"):
        recorder(tmp_path / "s", dtype="int8")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_log_in_16_bits_replays_exactly_and_is_half_as_large(tmp_path: Path, dtype: str) -> None:
    """Somebody who adds up what the log stores, with torch's own 16-bit numbers, gets the log's model bit by bit."""
    rng = np.random.default_rng(3)
    kind = getattr(torch, dtype)
    model, size = np.zeros(4096), {}
    for name in ("float32", dtype):
        with RunRecorder(
            tmp_path / name, clients=[("a", 3), ("b", 1)], parameters=[("w", (4096,))], initial=model, dtype=name
        ) as rec:
            for _ in range(3):
                rec.epoch(rng.normal(scale=0.01, size=(2, 4096)))
            if name == dtype:
                rec_last = rec.last_model()
        size[name] = sum(file.stat().st_size for file in (tmp_path / name / "epochs").iterdir())
    header = 3 * 128
    assert size[dtype] - header <= size["float32"] / 2
    run = read_run_log(tmp_path / dtype)
    assert isinstance(run, RunLog)
    for record in run.epochs:
        stored = torch.from_numpy(run.epoch_data(record.epoch).updates)
        assert torch.equal(stored.to(kind).float(), stored), "the log gives the very numbers that are stored"
        model = (model.astype(np.float64) + stored.numpy().astype(np.float64).T @ [0.75, 0.25]).astype(np.float32)
    np.testing.assert_allclose(rec_last, model, rtol=0, atol=1e-9)


def test_named_updates_are_flattened_in_manifest_order(tmp_path: Path) -> None:
    named = {"b": np.array([7.0, 8.0]), "w": np.arange(6.0).reshape(2, 3), "steps": np.array(3)}
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": named, "b": [named["w"], named["b"]]})
    stored = load_file(tmp_path / "r/epochs/00001.safetensors")["updates"]
    np.testing.assert_array_equal(stored, [[0, 1, 2, 3, 4, 5, 7, 8]] * 2)


def test_torch_tensors_and_a_state_dict_are_taken_as_they_are(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = net.state_dict()
    with RunRecorder(tmp_path / "r", clients=CLIENTS, parameters=state) as rec:
        rec.epoch({"a": {k: torch.ones_like(v) for k, v in state.items()}})
        rec.epoch({"a": torch.ones(16, dtype=torch.bfloat16)})
    names = [p["name"] for p in json.loads((tmp_path / "r/manifest.json").read_text())["parameters"]]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert load_file(tmp_path / "r/epochs/00001.safetensors")["updates"].shape == (1, 16)
    np.testing.assert_array_equal(load_file(tmp_path / "r/initial.safetensors")["0.weight"], state["0.weight"].numpy())


def test_epochs_without_participants(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({}, asked=["a", "b"])
        rec.epoch({}, global_model=INITIAL + 1)
        rec.epoch(np.zeros((0, 8)), participants=[])
    empty, moved, also_empty = lines(tmp_path / "r")
    assert "file" not in empty
    assert "sha256" not in also_empty
    assert [f["client"] for f in empty["failed"]] == ["a", "b"]
    assert set(load_file(tmp_path / "r" / moved["file"])) == {"global"}
    np.testing.assert_array_equal(rec.last_model(), INITIAL + 1)


def test_silent_clients_are_failed_and_reasons_are_kept(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.zeros(8)}, asked=["a", "b", "c"])
        rec.epoch({"a": np.zeros(8)}, failed=[("b", "out of memory"), {"client": "c", "reason": "late"}])
    first, second = lines(tmp_path / "r")
    assert first["failed"] == [{"client": "b", "reason": "no reply"}, {"client": "c", "reason": "no reply"}]
    assert second["failed"] == [{"client": "b", "reason": "out of memory"}, {"client": "c", "reason": "late"}]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda r: r.epoch({"z": np.zeros(8)}), "E_PARTICIPANTS"),
        (lambda r: r.epoch({"a": np.zeros(8)}, participants=["a", "b"]), "E_PARTICIPANTS"),
        (lambda r: r.epoch({"a": np.zeros(8)}, participants=["a", "a"]), "E_PARTICIPANTS"),
        (lambda r: r.epoch(np.zeros((2, 8)), participants=["a", "a"], data_sizes=[3, 4]), "E_CLIENT_SIZE"),
        (lambda r: r.epoch(np.zeros((2, 8)), participants=["a", "a"], weights=[0.5]), "E_PARTICIPANTS"),
        (lambda r: r.epoch({"a": np.zeros(7)}), "E_SHAPE"),
        (lambda r: r.epoch({"a": {"w": np.zeros((2, 3))}}), "E_SHAPE"),
        (lambda r: r.epoch({"a": {"w": np.zeros((3, 2)), "b": np.zeros(2)}}), "E_SHAPE"),
        (lambda r: r.epoch({"a": {"w": np.zeros((2, 3)), "b": np.zeros(2), "x": np.zeros(1)}}), "E_SHAPE"),
        (lambda r: r.epoch(np.zeros((2, 8))), "E_SHAPE"),
        (lambda r: r.epoch({"a": np.zeros(8)}, global_model=np.zeros(9)), "E_SHAPE"),
        (lambda r: r.epoch({"a": np.array(["x"] * 8)}), "E_ST_DTYPE"),
        (lambda r: r.epoch({"a": np.zeros(8)}, data_sizes={"a": 0}), "E_CLIENT_SIZE"),
        (lambda r: r.epoch({"a": np.zeros(8)}, data_sizes={"a": True}), "E_CLIENT_SIZE"),
        (lambda r: r.epoch({"a": np.zeros(8)}, metrics={"loss": float("nan")}), "E_JSON_NONFINITE"),
        (lambda r: r.epoch({"a": np.zeros(8)}, asked=["q" * 201]), "E_PARTICIPANTS"),
        (lambda r: r.epoch({"a": np.zeros(8)}, failed=["a"]), "E_PARTICIPANTS"),
        (lambda r: r.epoch({"a": np.zeros(8)}, data_sizes=[1, 2]), "E_CLIENT_SIZE"),
    ],
)
def test_wrong_epochs_are_refused_and_leave_no_trace(tmp_path: Path, call: Any, code: str) -> None:
    with recorder(tmp_path / "r") as rec:
        with pytest.raises(RunLogError) as error:
            call(rec)
        assert refusal_code(error) == code
        assert rec.next_epoch == 1
        assert lines(tmp_path / "r") == []
        assert list((tmp_path / "r/epochs").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"clients": []}, "E_MANIFEST"),
        ({"clients": [("", 1)]}, "E_CLIENT_ID"),
        ({"clients": [("x" * 201, 1)]}, "E_CLIENT_ID"),
        ({"clients": [("\ud800", 1)]}, "E_CLIENT_ID"),
        ({"clients": [("é", 1), ("e\u0301", 1)]}, "E_CLIENT_DUP"),
        ({"clients": [("a", 1.5)]}, "E_CLIENT_SIZE"),
        ({"clients": ["a", "b"]}, "E_CLIENT_SIZE"),
        ({"model": torch.nn.Linear(4, 2), "validation": (np.ones((2, 3)), np.array([0, 1]))}, "E_MODEL_SHAPE"),
        ({"clients": [{"id": "a", "data_size": 2**60}]}, "E_CLIENT_SIZE"),
        ({"parameters": [("w", (2, 3)), ("w", (2,))]}, "E_MANIFEST"),
        ({"parameters": []}, "E_MANIFEST"),
        ({"parameters": None}, "E_MISSING"),
        ({"initial": None}, "E_MISSING"),
        ({"initial": np.zeros(3)}, "E_SHAPE"),
        ({"validation": (np.ones((0, 3)), np.zeros(0, dtype=int)), "classes": 2}, "E_VALID_EMPTY"),
        ({"validation": (np.ones((2, 3)), np.array([0, 2])), "classes": 2}, "E_LABEL"),
        ({"validation": (np.ones((2, 3)), np.array([0.0, 1.0])), "classes": 2}, "E_LABEL"),
        ({"validation": (np.ones((2, 3)), np.array([0, 1]), np.array([1])), "classes": 2}, "E_LABEL"),
        ({"validation": np.ones((2, 3))}, "E_MISSING"),
        ({"validation": torch.ones(2, 3)}, "E_MISSING"),
        ({"validation": {"x": np.ones((2, 3))}}, "E_MISSING"),
        ({"validation": [{"img": np.ones(3), "label": 1}].__iter__()}, "E_MISSING"),
        ({"validation": 7}, "E_MISSING"),
    ],
)
def test_wrong_federations_are_refused_before_a_folder_exists(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(RunLogError) as error:
        recorder(tmp_path / "r", **changes)
    assert refusal_code(error) == code
    assert not (tmp_path / "r").exists()


def test_validation_rows_come_from_a_loader_or_a_dataset_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y, net = torch.randn(10, 3), torch.arange(10) % 4, torch.nn.Linear(3, 4)
    rows = torch.utils.data.TensorDataset(x, y)
    kinds = {"pair": (x, y), "doubles": (x.double().numpy(), y.int()), "rows": rows,
             "batches": torch.utils.data.DataLoader(rows, batch_size=4)}  # fmt: skip
    digests = set()
    for name, validation in kinds.items():
        with RunRecorder(tmp_path / name, clients=CLIENTS, model=net, validation=validation) as rec:
            digests.add(rec.manifest["files"]["validation.safetensors"])
            assert rec.manifest["classes"] == 4
    assert len(digests) == 1, "the same rows, whatever gave them"


def test_clients_by_name_and_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    with recorder(tmp_path / "r", clients=dict(CLIENTS)) as rec:
        assert [(c["id"], c["data_size"]) for c in rec.manifest["clients"]] == CLIENTS
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunLogError, match="a file of this name") as error:
        recorder(tmp_path / "file")
    assert refusal_code(error) == "E_NOT_EMPTY"


def test_a_script_that_is_run_again_hears_that_it_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch(np.ones((3, 8)))
    assert not caplog.records
    with recorder(tmp_path / "r"):
        assert "goes on at epoch 2: train on from last_model()" in caplog.text


def test_reopening_continues_at_the_next_epoch(tmp_path: Path) -> None:
    with recorder(tmp_path / "whole") as rec:
        for t in range(4):
            rec.epoch({"a": np.full(8, t), "b": np.full(8, -t)}, data_sizes={"b": 20})
        whole = rec.digest()
    for t in range(4):
        with recorder(tmp_path / "pieces") as rec:
            assert rec.next_epoch == t + 1
            rec.epoch({"a": np.full(8, t), "b": np.full(8, -t)}, data_sizes={"b": 20})
    assert rec.digest() == whole
    expected = INITIAL + sum(0.6 * np.full(8, t) - 0.4 * np.full(8, t) for t in range(4))
    np.testing.assert_allclose(rec.last_model(), expected, rtol=1e-6)
    with RunRecorder(tmp_path / "pieces", clients=CLIENTS, parameters=PARAMETERS) as rec:
        assert rec.next_epoch == 5, "names and shapes alone are enough to continue"


def test_training_may_go_on_from_the_last_model_only(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.ones(8)})
        rec.epoch({"a": np.ones(8)}, global_model=INITIAL + 5)
        last = rec.last_model()
    np.testing.assert_array_equal(last, INITIAL + 5)
    with recorder(tmp_path / "r", initial=last) as rec:
        assert rec.next_epoch == 3
        np.testing.assert_array_equal(load_file(tmp_path / "r/initial.safetensors")["b"], INITIAL[6:])
    with pytest.raises(RunLogError) as error:
        recorder(tmp_path / "r", initial=INITIAL + 2)
    assert refusal_code(error) == "E_OTHER_RUN"


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.ones(8)})
        kept = rec.digest()
        rec.epoch({"a": np.ones(8)})
        full = rec.digest()
    log = tmp_path / "r/epochs.jsonl"
    log.write_bytes(log.read_bytes()[:-7])
    (tmp_path / "r/epochs/.00002.safetensors.partial").write_bytes(b"half")
    with recorder(tmp_path / "r") as rec:
        assert rec.next_epoch == 2
        assert rec.digest() == kept
        assert not list((tmp_path / "r/epochs").glob(".*"))
        rec.epoch({"a": np.ones(8)})
        assert rec.digest() == full


@pytest.mark.parametrize(
    "changes",
    [{"clients": [("a", 30), ("b", 11), ("c", 60)]}, {"initial": INITIAL + 7}, {"parameters": [("w", (8,))]}],
)
def test_another_federation_does_not_continue_a_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.ones(8)})
    with pytest.raises(RunLogError) as error:
        recorder(tmp_path / "r", **changes)
    assert refusal_code(error) == "E_OTHER_RUN"
    assert len(lines(tmp_path / "r")) == 1


def test_changed_tensors_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.ones(8)})
    (tmp_path / "r/epochs/00001.safetensors").write_bytes(b"x")
    with pytest.raises(RunLogError) as error:
        recorder(tmp_path / "r")
    assert refusal_code(error) == "E_HASH"
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").write_text("dear")
    with pytest.raises(RunLogError) as error:
        recorder(tmp_path / "home")
    assert refusal_code(error) == "E_NOT_EMPTY"


@pytest.mark.skipif(os.name != "posix", reason="advisory locks are a POSIX feature")
def test_one_recorder_at_a_time(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        with pytest.raises(RunLogError) as error:
            recorder(tmp_path / "r")
        assert refusal_code(error) == "E_IN_USE"
        rec.epoch({"a": np.ones(8)})
    with pytest.raises(RunLogError) as closed:
        rec.epoch({"a": np.ones(8)})
    assert refusal_code(closed) == "E_CLOSED"


def test_bundles_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    with recorder(tmp_path / "r") as rec:
        rec.epoch({"a": np.ones(8)})
        (tmp_path / "r/notes.txt").write_text("not part of the run")
        first = rec.bundle()
    assert first == tmp_path / "r.flrun"
    os.utime(tmp_path / "r/manifest.json", (1, 1))
    second = rec.bundle(tmp_path / "other.flrun")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as bundle:
        assert bundle.namelist() == [
            "epochs.jsonl",
            "epochs/00001.safetensors",
            "initial.safetensors",
            "manifest.json",
        ]
        assert bundle.testzip() is None
        content = {n: hashlib.sha256(bundle.read(n)).hexdigest() for n in bundle.namelist()}
    text = "".join(f"{n}\0{content[n]}\n" for n in sorted(content, key=str.encode))
    assert rec.digest() == hashlib.sha256(text.encode()).hexdigest()


TEN_LINES = """
from flcontrib_core import RunRecorder

sizes = [(client.name, len(client.x)) for client in clients]
with RunRecorder("my-run", clients=sizes, model=net, validation=(x_val, y_val), classes=3) as recorder:
    for epoch in range(4):
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        trained = {client.name: client.train(net) for client in clients}  # state dicts
        updates = {c: {name: after[name] - before[name] for name in before} for c, after in trained.items()}
        net.load_state_dict(weighted_mean(trained, dict(sizes)))
        recorder.epoch(updates)
recorder.bundle("my-run.flrun")
"""


def test_ten_lines_record_a_plain_pytorch_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    x_val, y_val = torch.randn(120, 5), torch.randint(0, 3, (120,))

    class Site:
        def __init__(self, name: str, rows: int) -> None:
            self.name, self.x, self.y = name, torch.randn(rows, 5), torch.randint(0, 3, (rows,))

        def train(self, start: Any) -> dict[str, Any]:
            local = copy.deepcopy(start).train()
            rule = torch.optim.SGD(local.parameters(), lr=0.1)
            for first in range(0, len(self.x) - 7, 8):
                rule.zero_grad()
                loss = torch.nn.functional.cross_entropy(local(self.x[first : first + 8]), self.y[first : first + 8])
                loss.backward()
                rule.step()
            return dict(local.state_dict())

    def weighted_mean(states: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
        total = sum(sizes.values())
        first = next(iter(states.values()))
        return {
            k: sum(sizes[c] / total * s[k] for c, s in states.items()) if v.is_floating_point() else v
            for k, v in first.items()
        }

    start = copy.deepcopy(net)
    names = {"clients": [Site("north", 40), Site("south", 24)], "net": net, "x_val": x_val, "y_val": y_val}
    exec(TEN_LINES, {**names, "weighted_mean": weighted_mean})
    run = read_run_log(tmp_path / "my-run.flrun")
    assert isinstance(run, RunLog)
    assert run.client_ids == ("north", "south")
    assert run.epoch_count == 4
    assert run.model is not None
    assert run.digest == read_run_log(tmp_path / "my-run").digest
    assert not run.warnings, "the weighted mean of the recorded updates explains the model"
    flat = np.concatenate([v.numpy().ravel() for v in start.state_dict().values() if v.is_floating_point()])
    np.testing.assert_array_equal(run.initial(), flat)
    with RunRecorder(
        tmp_path / "my-run", clients=[("north", 40), ("south", 24)], model=net, validation=(x_val, y_val), classes=3
    ) as rec:
        assert rec.next_epoch == 5
        ended = np.concatenate([v.numpy().ravel() for v in net.state_dict().values() if v.is_floating_point()])
        np.testing.assert_allclose(rec.last_model(), ended, atol=1e-6)


CRASHING_LOOP = """
import os, sys, threading
import numpy as np
from flcontrib_core.runs.recorder import RunRecorder
rec = RunRecorder(sys.argv[1], clients=[("a", 1), ("b", 2)], parameters=[("w", (5000,))], initial=np.zeros(5000))
print(rec.next_epoch, flush=True)
threading.Timer(float(sys.argv[2]), lambda: os._exit(9)).start()
while True:
    rec.epoch(np.full((2, 5000), rec.next_epoch, dtype=np.float32))
"""


@pytest.mark.slow
def test_killed_at_any_moment_the_run_stays_sound(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    recorded = 0
    for _ in range(25):
        delay = rng.uniform(0.0, 0.15)
        subprocess.run(
            python_command("-c", CRASHING_LOOP, str(tmp_path / "r"), str(delay)), check=False, env=child_environment()
        )
        with RunRecorder(tmp_path / "r", clients=[("a", 1), ("b", 2)], parameters=[("w", (5000,))]) as rec:
            done = rec.next_epoch - 1
        assert done >= recorded, "an acknowledged epoch was lost"
        recorded = done
        for entry in lines(tmp_path / "r"):
            file = tmp_path / "r" / entry["file"]
            assert hashlib.sha256(file.read_bytes()).hexdigest() == entry["sha256"]
            assert (load_file(file)["updates"] == entry["epoch"]).all()
    assert recorded > 25


def test_the_recorder_stays_light() -> None:
    heavy = "torch sklearn pandas plotly streamlit pulp ruptures tslearn pyarrow pydantic flwr ray"
    script = f"import sys; import flcontrib_core.runs.recorder; print([m for m in {heavy.split()} if m in sys.modules])"
    out = subprocess.run(
        python_command("-c", script), capture_output=True, text=True, check=True, env=child_environment()
    )
    assert out.stdout.strip() == "[]"

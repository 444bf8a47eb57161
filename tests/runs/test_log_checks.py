"""Evidence about the log itself, against what a direct computation on all updates at once says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import Problem
from flcontrib_core.runs import epoch_values, log_checks
from flcontrib_core.runs import tensors as tensor_files
from flcontrib_core.runs.bundle import check_run_log, read_run_log
from flcontrib_core.runs.confusables import confusable_evidence, skeleton
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.run_log import RunLog
from tests.corpus.good_logs import PARAMETERS, SHAPES, LogWriter, write_directory, zipped


def warnings_of(writer: LogWriter, path: Path) -> list[Problem]:
    result = check_run_log(write_directory(writer.files(), path))
    assert result.ok, result.errors
    return list(result.warnings)


def tensors_of(writer: LogWriter, epoch: int) -> dict[str, np.ndarray]:
    found = writer.tensors[epoch - 1]
    assert found is not None
    return found


def test_norms_are_compared_with_the_median_of_the_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for attempt in range(20):
        clients = [(f"client {i}", 10 + i) for i in range(int(rng.integers(2, 9)))]
        writer = LogWriter(seed=attempt, clients=clients, epochs=3)
        for epoch in (1, 2, 3):
            scales = rng.choice([1e-4, 0.05, 1.0, 8.0, 30.0], len(tensors_of(writer, epoch)["updates"]))
            tensors_of(writer, epoch)["updates"] *= scales[:, None].astype(np.float32)
        expected = set()
        for entry, epoch in zip(writer.lines, (1, 2, 3), strict=True):
            norms = np.linalg.norm(tensors_of(writer, epoch)["updates"].astype(np.float64), axis=1)
            for row, name in enumerate(entry["participants"]):
                others = np.delete(norms, row)
                if len(others) and not 0.01 <= norms[row] / np.median(others) <= 10:
                    expected.add(name)
        found = {w.where for w in warnings_of(writer, tmp_path / str(attempt)) if w.code == "W_NORM"}
        assert found == {f'client "{name}"' for name in expected}


def test_copies_are_found_across_clients_and_epochs_and_zeros_are_not_copies(tmp_path: Path) -> None:
    writer = LogWriter(seed=4, epochs=6, clients=[(f"c{i}", 5) for i in range(5)])
    for entry in writer.lines:
        entry["participants"] = [f"c{i}" for i in range(5)]
    rng = np.random.default_rng(1)
    for tensors in writer.tensors:
        assert tensors is not None
        tensors["updates"] = rng.normal(size=(5, PARAMETERS)).astype(np.float32)
    tensors_of(writer, 3)["updates"][4] = tensors_of(writer, 3)["updates"][1]
    tensors_of(writer, 4)["updates"][4] = tensors_of(writer, 4)["updates"][1]
    tensors_of(writer, 5)["updates"][2] = tensors_of(writer, 2)["updates"][2]
    tensors_of(writer, 6)["updates"][0] = tensors_of(writer, 2)["updates"][3]
    tensors_of(writer, 6)["updates"][1:3] = 0
    found = {(w.code, w.where): w.found for w in warnings_of(writer, tmp_path / "run")}
    assert found == {
        ("W_ZERO_DELTA", 'client "c1"'): "an all-zero update in epoch 6",
        ("W_ZERO_DELTA", 'client "c2"'): "an all-zero update in epoch 6",
        ("W_DUPLICATE_DELTA", 'clients "c1" and "c4"'): "the same update, bit by bit, in epochs 3–4",
        ("W_DUPLICATE_DELTA", 'client "c2"'): "in epoch 5 the update of its own epoch 2, bit by bit",
        ("W_DUPLICATE_DELTA", 'client "c0"'): 'in epoch 6 the update of client "c3"\'s epoch 2, bit by bit',
    }


def test_long_rows_are_fingerprinted_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces shorter than a row the evidence is the same as with whole rows."""
    writer = LogWriter(seed=4)
    writer.add_globals()
    tensors_of(writer, 4)["updates"][0] = tensors_of(writer, 1)["updates"][0]
    tensors_of(writer, 2)["updates"][1] = 0
    tensors_of(writer, 3)["updates"][1] *= 1e5
    tensors_of(writer, 3)["global"][2] += 1
    whole = warnings_of(writer, tmp_path / "run")
    assert {w.code for w in whole} == {"W_AGGREGATE", "W_ZERO_DELTA", "W_NORM", "W_DUPLICATE_DELTA"}
    for size in (8, 28, 100, PARAMETERS * 4, PARAMETERS * 8):
        monkeypatch.setattr(tensor_files, "PIECE_BYTES", size)
        assert warnings_of(writer, tmp_path / "run") == whole


def rebuilt_differences(writer: LogWriter) -> dict[int, float]:
    """The largest difference of every stored model from the weighted mean, computed in one go."""
    sizes = {client["id"]: client["data_size"] for client in writer.clients}
    model = np.concatenate([writer.initial[name].reshape(-1) for name in SHAPES]).astype(np.float64)
    found = {}
    for entry, epoch in zip(writer.lines, range(1, 99), strict=False):
        tensors = writer.tensors[epoch - 1] or {}
        if entry["participants"]:
            own = {**sizes, **entry.get("data_sizes", {})}
            weights = np.array([own[name] for name in entry["participants"]], dtype=np.float64)
            model = model + (weights / weights.sum()) @ tensors["updates"].astype(np.float64)
        if "global" in tensors:
            difference = np.abs(tensors["global"] - model).max()
            if difference > 1e-4 and entry["participants"]:
                found[epoch] = float(difference)
            model = tensors["global"].astype(np.float64)
    return found


@pytest.mark.parametrize("window", [7, PARAMETERS, 1 << 22])
def test_stored_models_are_compared_with_the_rebuilt_ones(
    window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_values, "WINDOW", window)
    rng = np.random.default_rng(2)
    for attempt in range(12):
        writer = LogWriter(seed=attempt, epochs=6)
        writer.lines[3]["data_sizes"] = {writer.lines[3]["participants"][0]: 1000}
        if attempt % 3 == 0:
            writer.add_epoch([], rng)
            writer.tensors[-1] = {"global": rng.normal(size=PARAMETERS).astype(np.float32)}
            writer.add_epoch(["hospital-b"], rng)
        writer.add_globals()
        for tensors in writer.tensors:
            assert tensors is not None
            if rng.random() < 0.4 and "updates" in tensors:
                del tensors["global"]
            elif rng.random() < 0.4:
                tensors["global"] = tensors["global"].copy()
                tensors["global"][rng.integers(PARAMETERS)] += np.float32(rng.choice([-0.5, 0.25, 1e-2]))
        expected = rebuilt_differences(writer)
        path = write_directory(writer.files(), tmp_path / str(attempt))
        run = read_run_log(path)
        assert isinstance(run, RunLog)
        differences: dict[int, float] = run.source.differences  # type: ignore[attr-defined]
        assert differences.keys() == expected.keys()
        for epoch, difference in expected.items():
            assert differences[epoch] == pytest.approx(difference, rel=1e-4)
        assert [w.code for w in run.warnings if w.code == "W_AGGREGATE"] == ["W_AGGREGATE"] * bool(expected)


def test_rounding_to_sixteen_bits_is_no_evidence(tmp_path: Path) -> None:
    writer = LogWriter(seed=1, epochs=5)
    writer.add_globals()
    for tensors in writer.tensors:
        assert tensors is not None
        tensors["global"] = tensors["global"].astype(np.float16)
        tensors["updates"] = tensors["updates"].astype(np.float16)
    assert warnings_of(writer, tmp_path / "half") == []


def test_a_client_taken_out_for_nan_is_no_reason_to_doubt_the_server_later(tmp_path: Path) -> None:
    writer = LogWriter(seed=1, epochs=5)
    writer.add_globals()
    tensors_of(writer, 2)["updates"][0, 3] = np.nan
    result = check_run_log(write_directory(writer.files(), tmp_path / "run"), nonfinite="absent")
    assert [w.code for w in result.warnings] == ["W_NONFINITE_ABSENT"]


def test_evidence_is_the_same_in_a_bundle(tmp_path: Path) -> None:
    writer = LogWriter(seed=4)
    tensors_of(writer, 2)["updates"][1] = 0
    (tmp_path / "run.flrun").write_bytes(zipped(writer.files()))
    assert list(check_run_log(tmp_path / "run.flrun").warnings) == warnings_of(writer, tmp_path / "run")


def test_many_warnings_of_one_kind_end_with_their_number(tmp_path: Path) -> None:
    writer = LogWriter(clients=[(f"name {i:03d}", 5) for i in range(70)], epochs=1)
    tensors_of(writer, 1)["updates"][:60] = 0
    found = [w for w in warnings_of(writer, tmp_path / "run") if w.code == "W_ZERO_DELTA"]
    assert len(found) == log_checks.MAX_PER_CODE + 1
    assert found[-1].found == "10 more of these"


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ("client", "cl\u0456ent", True),
        ("client-1", "client-l", True),
        ("ward O", "ward 0", True),
        ("ward", "w\u0430rd", True),
        ("ward\u200b", "ward", True),
        ("ｗａｒｄ", "ward", True),
        ("corner", "comer", True),
        ("client-1", "client-2", False),
        ("söder", "soder", False),
        ("станция", "станция-2", False),
    ],
)
def test_names_that_look_alike(first: str, second: str, alike: bool) -> None:
    assert (skeleton(first) == skeleton(second)) is alike
    evidence: list[Any] = confusable_evidence([first, second])
    assert bool(evidence) is alike
    if alike:
        assert evidence[0].found.isprintable()


def test_plain_names_of_one_script_raise_nothing() -> None:
    assert confusable_evidence(["больница", "Ιατρείο", "clinic", "医院", "🏥", "a b"]) == []


@pytest.mark.parametrize("nonfinite", ["refuse", "absent"])
def test_a_signalling_nan_is_a_nan_like_any_other(tmp_path: Path, nonfinite: str) -> None:
    """Its widening makes the processor complain; the reader must answer, not warn."""
    update = np.ones((2, 3), dtype=np.float32)
    update.view(np.uint32)[1, 2] = 0x7F800001
    with RunRecorder(
        tmp_path / "run",
        clients=[("a", 1), ("b", 1)],
        parameters=[("w", (3,))],
        initial=np.zeros(3, dtype=np.float32),
        durable=False,
    ) as recorder:
        recorder.epoch(update)
        recorder.epoch(np.ones((2, 3), dtype=np.float32))
    found = check_run_log(tmp_path / "run", nonfinite=nonfinite)
    assert [p.code for p in found.errors] == (["E_NONFINITE"] if nonfinite == "refuse" else [])

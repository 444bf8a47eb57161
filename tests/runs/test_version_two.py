"""Version 2: real-valued weights, updates that began earlier, a client twice in a round, notes.

Logs are written by hand; what they must give is computed here with plain numpy from the numbers that went in.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core import audit
from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.reports.extract import own_updates
from flcontrib_core.runs import RunLog, RunRecorder, check_run_log, read_run_log
from flcontrib_core.shapley import Exact
from flcontrib_core.words.remarks import history_remarks
from tests.corpus.good_logs import PARAMETERS, LogWriter, write_directory

A, B, C = "hospital-a", "hospital-b", "hospital-c"


def _log(**line: Any) -> LogWriter:
    """A log of version 2 whose second epoch says this."""
    log = LogWriter(epochs=2)
    log.extra_manifest["version"] = 2
    names = line.get("participants", log.lines[1]["participants"])
    log.lines[1].update({**line, "participants": names})
    updates = np.random.default_rng(5).normal(scale=0.3, size=(len(names), PARAMETERS))
    log.tensors[1] = {"updates": updates.astype(np.float32)}
    return log


def _read(log: LogWriter, path: Path) -> RunLog:
    run = read_run_log(write_directory(log.files(), path))
    assert isinstance(run, RunLog)
    return run


def _codes(log: LogWriter, path: Path) -> set[str]:
    return {problem.code for problem in check_run_log(write_directory(log.files(), path)).errors}


def _rebuilt(log: LogWriter, weights: list[float]) -> np.ndarray:
    """The model after epoch 2: sizes decide in epoch 1, these weights of its rows in epoch 2."""
    model = np.concatenate([array.reshape(-1) for array in log.initial.values()]).astype(np.float64)
    sizes = np.array([client["data_size"] for client in log.clients], dtype=np.float64)
    first, second = log.tensors
    assert first is not None
    assert second is not None
    model += (sizes / sizes.sum()) @ first["updates"]
    return np.asarray(model + (np.array(weights) / sum(weights)) @ second["updates"])


@pytest.mark.parametrize(
    ("line", "weights"),
    [
        ({"participants": [A, B], "weights": {A: 0.3, B: 0.7}}, [0.3, 0.7]),
        ({"participants": [B, A, B], "weights": {A: 0.25, B: [0.5, 1e-3]}}, [0.5, 0.25, 1e-3]),
        ({"participants": [B, A, B], "weights": {A: 2, B: 1.5}}, [1.5, 2, 1.5]),
        ({"participants": [A, C, A], "start_epoch": {A: [0, 1]}}, [179, 60, 179]),
    ],
    ids=["real weights", "one weight a row", "one weight for both rows", "buffered"],
)
def test_the_model_is_rebuilt_as_the_server_made_it(tmp_path: Path, line: dict[str, Any], weights: list[float]) -> None:
    log = _log(**line)
    *_, last = walk(_read(log, tmp_path))
    np.testing.assert_allclose(last.end, _rebuilt(log, weights), rtol=0, atol=1e-6)
    stored = {**(log.tensors[1] or {}), "global": _rebuilt(log, weights).astype(np.float32)}
    log.tensors[1] = stored
    assert not check_run_log(write_directory(log.files(), tmp_path / "g")).warnings, "the mean is the server's own"


def test_values_are_those_of_the_weighted_sub_models(tmp_path: Path) -> None:
    """Exact values of an epoch with a client twice, from sub-models that this test builds row by row."""
    log = _log(participants=[B, A, B, C], weights={A: 0.2, B: [0.5, 0.1], C: 1.2})
    run = _read(log, tmp_path)
    evaluator = evaluator_for(run, ("loss",))
    start = list(walk(run))[1].start.astype(np.float64)
    updates = (log.tensors[1] or {})["updates"].astype(np.float64)
    owner, weights = np.array([1, 0, 1, 2]), np.array([0.5, 0.2, 0.1, 1.2])

    def value(members: tuple[int, ...]) -> float:
        share = np.where(np.isin(owner, members), weights, 0.0)
        step = share @ updates / share.sum() if members else 0.0
        return float(evaluator.evaluate((start + step).astype(np.float32)[None])[0][0, 0])

    expected = np.zeros(3)
    for order in itertools.permutations(range(3)):
        for place, client in enumerate(order):
            expected[client] += (value(order[: place + 1]) - value(order[:place])) / math.factorial(3)
    history = assess_contributions(run, AssessSettings(estimator=Exact(), utilities=("loss",)))
    np.testing.assert_allclose(history.of("loss").values[2], expected, atol=1e-5)
    assert history.participated[2].tolist() == [True] * 3
    said = "\n".join(history_remarks(history))
    assert "weighed as the log says" in said
    assert f"counted as one with their joint weight: {B}" in said


def test_a_client_sees_each_update_that_it_sent(tmp_path: Path) -> None:
    run = _read(_log(participants=[B, A, B]), tmp_path)
    rows = own_updates(run, B)["rows"]
    assert [row["epoch"] for row in rows] == [1, 2, 2]
    assert len({row["sha256"] for row in rows}) == 3


def test_a_buffered_run_is_audited(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    log = LogWriter(epochs=1)
    with RunRecorder(
        tmp_path / "r",
        clients=log.clients,
        parameters=log.initial,
        model=log.model,
        validation=((log.validation or {})["x"], (log.validation or {})["y"]),
        classes=3,
    ) as rec:
        rec.epoch(rng.normal(scale=0.1, size=(3, PARAMETERS)))
        assert rec.manifest["version"] == 1
        for epoch in range(2, 7):
            rec.epoch(
                rng.normal(scale=0.1, size=(3, PARAMETERS)),
                participants=[A, B, A],
                weights=[1.0, 0.5, 0.3],
                start_epoch=[epoch - 1, 0, epoch - 2],
            )
        rec.add_note(B, (2, 3), "new scanner", by="ada", when="2026-11-16")
        assert rec.manifest["version"] == 2
        model = rec.last_model()
    run = read_run_log(tmp_path / "r")
    assert isinstance(run, RunLog)
    assert run.digest == read_run_log(rec.bundle()).digest
    assert run.epochs[2].started_late() == {0: 1, 1: 0}
    *_, last = walk(run)
    np.testing.assert_allclose(last.end, model, atol=1e-6)
    report = audit(run)
    said = "\n".join(history_remarks(report.history))
    assert f"from an older model: {A}, {B}" in said, said
    assert "new scanner" in said


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a weight of nothing": ({"weights": {A: 0, B: 1.0, C: 1.0}}, "E_WEIGHTS"),
    "a negative weight": ({"weights": {A: -0.3, B: 1.0, C: 1.0}}, "E_WEIGHTS"),
    "a weight that is a word": ({"weights": {A: "1", B: 1.0, C: 1.0}}, "E_WEIGHTS"),
    "a weight that is true": ({"weights": {A: True, B: 1.0, C: 1.0}}, "E_WEIGHTS"),
    "a participant without a weight": ({"weights": {A: 1.0}}, "E_WEIGHTS"),
    "weights of a stranger": ({"weights": {A: 1.0, B: 1.0, C: 1.0, "nobody": 1.0}}, "E_PARTICIPANTS"),
    "too many weights of one client": ({"weights": {A: [1.0, 2.0], B: 1.0, C: 1.0}}, "E_WEIGHTS"),
    "a start in the future": ({"start_epoch": {A: 2}}, "E_START_EPOCH"),
    "a start before the beginning": ({"start_epoch": {A: -1}}, "E_START_EPOCH"),
    "half a start": ({"start_epoch": {A: 0.5}}, "E_START_EPOCH"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_reader_and_recorder_refuse_alike(tmp_path: Path, case: str) -> None:
    line, code = REFUSED[case]
    assert _codes(_log(participants=[A, B, C], **line), tmp_path / "written") == {code}
    log = LogWriter(epochs=1)
    with RunRecorder(tmp_path / "r", clients=log.clients, parameters=log.initial) as rec:
        rec.epoch(np.zeros((3, PARAMETERS)))
        with pytest.raises(Exception, match=code):
            rec.epoch(np.zeros((3, PARAMETERS)), **line)
        assert rec.epoch(np.zeros((3, PARAMETERS))) == 2


def test_version_1_does_not_know_any_of_it(tmp_path: Path) -> None:
    log = _log(participants=[A, B], weights={A: 0.3, B: 0.7})
    log.extra_manifest["version"] = 1
    found = check_run_log(write_directory(log.files(), tmp_path / "weights"))
    assert found.ok
    assert [problem.code for problem in found.warnings] == ["W_VERSION"]
    twice = _log(participants=[A, A])
    twice.extra_manifest["version"] = 1
    assert _codes(twice, tmp_path / "twice") == {"E_PARTICIPANTS"}
    newer = _log()
    newer.extra_manifest["version"] = 3
    assert _codes(newer, tmp_path / "newer") == {"E_VERSION"}


@pytest.mark.parametrize(
    "note",
    [
        {"client": "nobody", "epochs": [1, 2], "text": "x"},
        {"client": A, "epochs": [2, 1], "text": "x"},
        {"client": A, "epochs": [1, 2], "text": ""},
        {"client": A, "epochs": [1, 2], "text": "x" * 2001},
        "a note",
    ],
)
def test_an_unusable_note_is_refused(tmp_path: Path, note: Any) -> None:
    log = _log()
    log.extra_manifest["notes"] = [note]
    assert _codes(log, tmp_path) == {"E_NOTES"}


def test_an_old_log_keeps_its_digest_and_weights_make_another_epoch(tmp_path: Path) -> None:
    old = _read(LogWriter(epochs=2), tmp_path / "old")
    assert json.loads((tmp_path / "old" / "manifest.json").read_text())["version"] == 1
    assert all(record.rows is None for record in old.epochs)
    plain, weighed = (
        _read(_log(participants=[A, B], **more), tmp_path / name).epoch_digests()
        for name, more in (("plain", {}), ("weighed", {"weights": {A: 1.0, B: 2.0}}))
    )
    assert plain[:2] == weighed[:2]
    assert plain[2] != weighed[2]


def test_an_update_from_the_same_model_again_is_no_repeat(tmp_path: Path) -> None:
    """Asynchronous training without chance sends it twice; of the same numbers from two models it stays a repeat."""
    rng = np.random.default_rng(0)
    found = {}
    for kind, start in (("same", [2, 3, 3]), ("another", None)):
        with RunRecorder(
            tmp_path / kind, clients=[(c, 10) for c in "abc"], parameters={"w": np.zeros(40, "f4")}
        ) as rec:
            once = rng.normal(size=40).astype("f4")
            for epoch in range(1, 7):
                updates = rng.normal(size=(3, 40)).astype("f4")
                if epoch in (3, 4):
                    updates[0] = once
                rec.epoch(updates, start_epoch=start if epoch == 4 else None)
        alerts = audit(tmp_path / kind).detection.alerts
        found[kind] = [(a.client, a.window) for a in alerts if a.verdict == "exact-finding"]
    assert found == {"same": [], "another": [("a", (4, 4))]}

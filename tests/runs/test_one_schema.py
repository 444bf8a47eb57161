"""A recording refuses at once what the reader would refuse later, with the same code.

Each case changes one thing in a sound run. The changed run is written by hand and read, and handed to a recorder: both
must give the same codes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.runs import RunRecorder, check_run_log
from flcontrib_core.runs.run_folder import RunFolder
from tests.corpus.good_logs import CLASSES, FEATURES, LogWriter, write_directory

Change = Callable[[LogWriter], None]


def _recorder(log: LogWriter, path: Path) -> RunRecorder:
    """The recording of what the log holds before its epochs."""
    data = log.validation
    return RunRecorder(
        path,
        clients=log.clients,
        parameters=[(name, array.shape) for name, array in log.initial.items()],
        initial=log.initial,
        model=log.model,
        validation=None if data is None else (data["x"], data["y"], data.get("group")),
        classes=log.classes,
        **log.extra_manifest,
    )


def _read_codes(log: LogWriter, path: Path) -> set[str]:
    write_directory(log.files(), path)
    return {problem.code for problem in check_run_log(path).errors}


def _validation(**tensors: Any) -> Change:
    def change(log: LogWriter) -> None:
        assert log.validation is not None
        log.validation.update({name: np.asarray(values) for name, values in tensors.items()})

    return change


def _set(**attributes: Any) -> Change:
    def change(log: LogWriter) -> None:
        for name, value in attributes.items():
            setattr(log, name, value)

    return change


def _one_nan(log: LogWriter) -> None:
    log.initial["0.bias"][1] = np.nan


def _last_layer(**fields: Any) -> Change:
    def change(log: LogWriter) -> None:
        *layers, last = log.model["layers"]
        log.model = {**log.model, "layers": [*layers, {**last, **fields}]}

    return change


def _manifest(**entries: Any) -> Change:
    return lambda log: log.extra_manifest.update(entries)


def _deep(levels: int) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for _ in range(levels):
        nested = {"in": nested}
    return nested


WIDE = {"input": [FEATURES, 3000, 3000], "layers": [{"op": "flatten"}, {"op": "relu"}]}
TRUTH = {"dishonest": [{"client": "nobody", "windows": [[1, 2]]}]}

BEFORE_THE_FIRST_EPOCH: dict[str, tuple[Change, str]] = {
    "no client": (_set(clients=[]), "E_MANIFEST"),
    "too many clients": (_set(clients=[{"id": str(n), "data_size": 1} for n in range(100_001)]), "E_MANIFEST"),
    "an id too long": (_set(clients=[{"id": "i" * 201, "data_size": 1}]), "E_CLIENT_ID"),
    "an id with NUL": (_set(clients=[{"id": "a\0b", "data_size": 1}]), "E_CLIENT_ID"),
    "an id twice": (_set(clients=[{"id": i, "data_size": 1} for i in ("é", "e\u0301")]), "E_CLIENT_DUP"),
    "a size of nothing": (_set(clients=[{"id": "a", "data_size": 0}]), "E_CLIENT_SIZE"),
    "a size beyond float64": (_set(clients=[{"id": "a", "data_size": 2**53}]), "E_CLIENT_SIZE"),
    "a long name": (_manifest(name="n" * 2001), "E_MANIFEST"),
    "half a character": (_manifest(name="\ud800"), "E_JSON"),
    "a label of nobody": (_manifest(truth=TRUTH), "E_TRUTH"),
    "a deep source": (_manifest(source=_deep(70)), "E_JSON_DEPTH"),
    "a source that is not finite": (_manifest(source={"rate": float("inf")}), "E_JSON_NONFINITE"),
    "a model of another kind": (_set(model={"layers": []}), "E_MODEL"),
    "an unknown operation": (_last_layer(op="fft"), "E_MODEL_OP"),
    "an unknown parameter": (_last_layer(weight="nobody"), "E_MODEL_NAME"),
    "a layer that does not fit": (_last_layer(weight="0.weight"), "E_MODEL_SHAPE"),
    "an activation too large": (lambda log: setattr(log, "model", WIDE), "E_MODEL_SIZE"),
    "logits for other classes": (_set(classes=CLASSES + 1), "E_MODEL_SHAPE"),
    "no class": (_set(classes=0), "E_MANIFEST"),
    "too many classes": (_set(classes=1_000_001, model=None), "E_MANIFEST"),
    "no row": (_validation(x=np.zeros((0, FEATURES), np.float32), y=np.zeros(0, np.int64)), "E_VALID_EMPTY"),
    "rows of another width": (_validation(x=np.zeros((120, FEATURES + 1), np.float32)), "E_FEATURES"),
    "features that are not finite": (_validation(x=np.full((120, FEATURES), np.inf, np.float32)), "E_FEATURES"),
    "a row of one number": (_validation(x=np.zeros(120, np.float32)), "E_FEATURES"),
    "a label too high": (_validation(y=np.full(120, CLASSES)), "E_LABEL"),
    "a label below 0": (_validation(y=np.full(120, -1)), "E_LABEL"),
    "a label too few": (_validation(y=np.zeros(119, np.int64)), "E_LABEL"),
    "a group too few": (_validation(group=np.zeros(119, np.int64)), "E_LABEL"),
    "labels that are no whole numbers": (_validation(y=np.zeros(120)), "E_LABEL"),
    "a model that is not finite": (_one_nan, "E_NONFINITE"),
}


@pytest.mark.parametrize("case", BEFORE_THE_FIRST_EPOCH)
def test_both_refuse_the_beginning_of_a_run_alike(tmp_path: Path, case: str) -> None:
    change, code = BEFORE_THE_FIRST_EPOCH[case]
    log = LogWriter(epochs=1)
    change(log)
    with pytest.raises(RunLogError) as refused:
        _recorder(log, tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()
    if case == "half a character":  # json.dumps of the handwritten log cannot even write it: the code is the reader's
        assert {p.code for p in refused.value.problems} == {code}
        return
    if log.clients and len(log.clients) != 3:  # the handwritten epochs name the clients the case took away
        log.lines[0]["participants"] = [client["id"] for client in log.clients]
    read = _read_codes(log, tmp_path / "written")
    assert code in read
    assert {p.code for p in refused.value.problems} <= read
    assert code in {p.code for p in refused.value.problems}


def test_more_parameters_than_the_machine_takes_are_refused_before_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flcontrib_core.runs.limits._memory", lambda: 1 << 30)
    log = LogWriter(epochs=1)
    log.extra_manifest["parameters"] = [{"name": "w", "shape": [60_000_000]}]
    assert _read_codes(log, tmp_path / "written") == {"E_MODEL_SIZE"}
    with pytest.raises(RunLogError, match="E_MODEL_SIZE") as refused:
        RunRecorder(tmp_path / "r", clients=[("a", 1)], parameters=[("w", (60_000_000,))], initial=[0.0])
    assert refused.value.problems[0].found == "60000000 parameters"
    assert not (tmp_path / "r").exists()
    monkeypatch.setenv("FLCONTRIB_MAX_PARAMETERS", "60000000")
    assert "E_MODEL_SIZE" not in _read_codes(log, tmp_path / "raised"), "its operator may raise the limit"
    monkeypatch.setenv("FLCONTRIB_MAX_PARAMETERS", "many")
    with pytest.raises(SettingsError, match="FLCONTRIB_MAX_PARAMETERS"):
        check_run_log(tmp_path / "raised")


def test_a_disk_without_room_for_one_epoch_is_known_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=100))
    with pytest.raises(RunLogError, match="E_FILE_SIZE"):
        _recorder(LogWriter(epochs=1), tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()


def _line(**entries: Any) -> Change:
    return lambda log: log.lines[0].update(entries)


IN_AN_EPOCH: dict[str, tuple[dict[str, Any], Change, str]] = {
    "too many metrics": (
        {"metrics": {f"m{n}": 1.0 for n in range(65)}},
        _line(metrics={f"m{n}": 1.0 for n in range(65)}),
        "E_METRICS",
    ),
    "a metric that is not finite": (
        {"metrics": {"loss": float("nan")}},
        _line(metrics={"loss": float("nan")}),
        "E_JSON_NONFINITE",
    ),
    "a reason too long": (
        {"failed": {"node 7": "r" * 2001}},
        _line(failed=[{"client": "node 7", "reason": "r" * 2001}]),
        "E_PARTICIPANTS",
    ),
    "an unusable name": ({"asked": ["q" * 201]}, _line(asked=["q" * 201]), "E_PARTICIPANTS"),
    "failed and present": (
        {"failed": ["hospital-a"]},
        _line(failed=[{"client": "hospital-a", "reason": ""}]),
        "E_PARTICIPANTS",
    ),
    "a size of nothing": (
        {"data_sizes": {"hospital-a": 0}},
        _line(data_sizes={"hospital-a": 0}),
        "E_CLIENT_SIZE",
    ),
    "a deep source": ({"source": _deep(70)}, _line(source=_deep(70)), "E_JSON_DEPTH"),
}


@pytest.mark.parametrize("case", IN_AN_EPOCH)
def test_both_refuse_an_epoch_alike_and_the_recording_goes_on(tmp_path: Path, case: str) -> None:
    arguments, change, code = IN_AN_EPOCH[case]
    log = LogWriter(epochs=1)
    sound = log.tensors[0]
    assert sound is not None
    with _recorder(log, tmp_path / "recorded") as recorder:
        with pytest.raises(RunLogError) as refused:
            recorder.epoch(sound["updates"], **arguments)
        assert recorder.epoch(sound["updates"]) == 1
    assert check_run_log(tmp_path / "recorded").ok
    change(log)
    assert {p.code for p in refused.value.problems} == {code} == _read_codes(log, tmp_path / "written")


def test_both_stop_at_the_last_epoch_a_log_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flcontrib_core.runs.epoch_lines.MAX_EPOCHS", 2)
    log = LogWriter(epochs=3)
    with _recorder(log, tmp_path / "recorded") as recorder:
        recorder.epoch({})
        recorder.epoch({})
        with pytest.raises(RunLogError, match="E_EPOCH_COUNT"):
            recorder.epoch({})
    assert check_run_log(tmp_path / "recorded").ok
    assert _read_codes(log, tmp_path / "written") == {"E_EPOCH_COUNT"}


def test_both_bound_the_bytes_of_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLCONTRIB_MAX_EPOCH_BYTES", "300")
    log = LogWriter(epochs=1)
    sound = log.tensors[0]
    assert sound is not None
    with _recorder(log, tmp_path / "recorded") as recorder, pytest.raises(RunLogError, match="E_FILE_SIZE"):
        recorder.epoch(sound["updates"])
    assert _read_codes(log, tmp_path / "written") == {"E_FILE_SIZE"}


def test_an_epoch_the_disk_did_not_take_can_be_recorded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with _recorder(LogWriter(epochs=1), tmp_path / "r") as recorder:
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "append", full)
            with pytest.raises(OSError, match="No space"):
                recorder.epoch({})
        assert recorder.epoch({}) == 1
    assert check_run_log(tmp_path / "r").ok

"""Does a client's extract show all about itself and nothing about anybody else?"""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from flcontrib_core.errors import MissingPart, Problem
from flcontrib_core.reports.extract import band_of_others, extract_json, own_updates, write_extract
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from tests.detection.made_histories import made_history
from tests.reports.hostile import HOSTILE_NAMES
from tests.reports.made_reports import made_report, with_names

SAMPLE = Path(__file__).parents[2] / "sample_runs" / "clean-iid.flrun"
CLIENT = "client-01"


def test_own_series_alerts_and_verdict_are_there() -> None:
    report = made_report()
    content = extract_json(report, CLIENT)
    own = report.history.of("loss").values[:, 1]
    shown = content["utilities"]["loss"]["per_epoch"]
    assert shown[0] is None
    for t in range(1, 21):
        assert shown[t] == (None if np.isnan(own[t]) else own[t])
    assert [a["window"] for a in content["alerts"]] == [[8, 12]]
    assert content["verdict"] == "poisoning-window"
    assert set(content["state"][1:]) == {"computed", "absent", "not computed"}


def test_no_other_name_and_no_other_value_appears(tmp_path: Path) -> None:
    report = made_report()
    page, twin = write_extract(report, CLIENT, tmp_path / "extract.html")
    written = page.read_text() + twin.read_text()
    for name in report.history.client_ids:
        assert (name in written) == (name == CLIENT)
    found = {n for n in _numbers(json.loads(twin.read_text())) if n not in (0.0, 1.0)}
    for utility in report.history.utilities:
        others = np.delete(report.history.of(utility).values, 1, axis=1)
        others[0] = np.nan
        assert not found & {float(v) for v in others.ravel() if v == v}
        assert not found & {float(v) for v in np.delete(report.history.totals(utility), 1)}
        assert not found & {float(v) for v in report.history.of(utility).increments}


def test_sentences_speak_of_other_clients_without_names() -> None:
    content = extract_json(made_report(), CLIENT)
    assert content["alerts"][0]["counter_evidence"][0] == "4 other clients moved in the same epochs."
    assert CLIENT in content["alerts"][0]["why"]
    copied = extract_json(made_report(), "client-02")
    assert "bit for bit the one of another client in the same epoch" in copied["alerts"][0]["why"]
    assert copied["warnings"] == ["W_NORM: found a norm of 99; expected about 1. Look at it."]
    assert content["warnings"] == []


def test_a_warning_that_two_clients_share_names_neither_to_the_other() -> None:
    report = made_report()
    shared = Problem(
        "W_DUPLICATE_DELTA", "clients …", "the update of client …", "updates of one's own", "Look.", ("", "")
    )
    who = report.history.client_ids[1:3]
    shared = replace(shared, where=f"clients {who[0]} and {who[1]}", found=f"{who[1]}'s update", clients=who)
    content = extract_json(replace(report, warnings=(shared,)), CLIENT)
    assert content["warnings"] == [
        "W_DUPLICATE_DELTA: together with another client; expected updates of one's own. Look."
    ]


def test_the_descriptive_name_of_the_run_is_not_in_the_extract(tmp_path: Path) -> None:
    report = replace(made_report(), run_name="trial of client-02 against the others")
    page, twin = write_extract(report, CLIENT, tmp_path / "extract.html")
    assert "trial of" not in page.read_text() + twin.read_text()


@pytest.mark.parametrize("name", HOSTILE_NAMES[:8])
def test_hostile_names_do_not_leak_either(name: str) -> None:
    report = with_names(made_report(), HOSTILE_NAMES[:8])
    content = extract_json(report, name)
    sentences = " ".join([content["why"], *(s for a in content["alerts"] for s in (a["why"], *a["counter_evidence"]))])
    for other in HOSTILE_NAMES[:8]:
        if other not in name and name not in other:
            assert other not in sentences


def test_a_name_that_begins_like_another_is_kept_apart() -> None:
    names = ("c", "c-1", "c-10", "epoch", "e", "f", "g", "h")
    report = with_names(made_report(), names)
    content = extract_json(report, "c-1")
    assert (
        "c-1 contributed −0.020 ± 0.004 of loss reduction per epoch inside epochs 8–12" in content["alerts"][0]["why"]
    )
    assert "c-10" not in json.dumps(content["alerts"])


def test_the_band_needs_five_others_and_is_nobody_s_value() -> None:
    history = made_history(clients=9, epochs=30, participation=0.6, seed=2)
    low, high = band_of_others(history, "loss", 0)
    counts = [int(history.participated[t, 1:].sum()) for t in range(31)]
    assert min(counts[1:]) < 5 <= max(counts)
    for t in range(1, 31):
        assert np.isnan(low[t]) == np.isnan(high[t]) == (counts[t] < 5)
        if counts[t] >= 5:
            others = history.of("loss").values[t, 1:][history.participated[t, 1:]]
            assert low[t] not in others
            assert high[t] not in others
            assert others.min() < low[t] <= high[t] < others.max()


def test_recorded_updates_are_hashed_as_the_file_holds_them() -> None:
    """Against the archive itself: zipfile and safetensors, none of our readers."""
    run = read_run_log(SAMPLE)
    assert isinstance(run, RunLog)
    client = run.client_ids[2]
    found = own_updates(run, client)
    lines = zipfile.ZipFile(SAMPLE).read("epochs.jsonl").decode().splitlines()
    epochs = {line["epoch"]: line for line in map(json.loads, lines)}
    assert len(found["rows"]) == sum(client in line["participants"] for line in epochs.values())
    for row in found["rows"][:5]:
        line = epochs[row["epoch"]]
        tensors = load(zipfile.ZipFile(SAMPLE).read(line["file"]))
        place = line["participants"].index(client)
        assert row["sha256"] == hashlib.sha256(tensors["updates"][place].astype("<f4").tobytes()).hexdigest()


def test_an_unknown_client_is_refused() -> None:
    with pytest.raises(MissingPart, match="no client 'nobody'"):
        extract_json(made_report(), "nobody")


def _numbers(value: object) -> set[float]:
    if isinstance(value, dict):
        return {n for v in value.values() for n in _numbers(v)}
    if isinstance(value, list):
        return {n for v in value for n in _numbers(v)}
    return {value} if isinstance(value, float) else set()

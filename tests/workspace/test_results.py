"""Finished epochs and results come back as they were kept, or are said to be lost – never changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import flcontrib_core
from flcontrib_core.auditing import AuditSettings
from flcontrib_core.bundled_files import bundled
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace import DamagedObject, Workspace, stored_report
from flcontrib_core.workspace.audit_jobs import audit_in_workspace
from flcontrib_core.workspace.objects import pack_record, unpack_record
from tests.workspace.recorded import flip_byte

KEY = "c0" * 32


def test_arrays_of_every_kind_come_back_equal(workspace: Workspace) -> None:
    arrays = {
        "values": np.array([[0.1, np.nan], [-np.inf, 5e-324]]),
        "singles": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "mask": np.array([True, False]),
        "counts": np.array([1, -2], dtype=np.int64),
        "big-endian": np.arange(3, dtype=">f8"),
        "nothing": np.empty((0, 4)),
        "one": np.array(7.5),
    }
    workspace.checkpoints().keep(KEY, arrays)
    found = workspace.checkpoints().recall(KEY)
    assert found is not None
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


def test_equal_arrays_are_equal_bytes() -> None:
    first = pack_record({"b": 1, "a": 2}, {"x": np.arange(4.0), "y": np.ones(2, dtype=bool)})
    second = pack_record({"a": 2, "b": 1}, {"y": np.ones(2, dtype=bool), "x": np.arange(8.0)[::2] / 2})
    assert first == second
    label, arrays = unpack_record(first)
    assert label == {"a": 2, "b": 1}
    np.testing.assert_array_equal(arrays["x"], np.arange(4.0))


@pytest.mark.parametrize("bad", [np.array(["text"]), np.array([object()]), np.array([1 + 2j])])
def test_what_would_need_pickle_is_refused(workspace: Workspace, bad: np.ndarray) -> None:
    with pytest.raises(WorkspaceError, match="cannot be stored"):
        workspace.checkpoints().keep(KEY, {"bad": bad})
    assert workspace.checkpoints().recall(KEY) is None


def test_the_first_kept_epoch_stays(workspace: Workspace) -> None:
    workspace.checkpoints().keep(KEY, {"x": np.zeros(1)})
    workspace.checkpoints().keep(KEY, {"x": np.ones(1)})
    found = workspace.checkpoints().recall(KEY)
    assert found is not None
    assert found["x"][0] == 0
    assert len(list(workspace.objects.names())) == 1


@pytest.mark.parametrize("place", [2, 40, -3])
def test_a_damaged_epoch_is_set_aside_reported_and_computed_again(workspace: Workspace, place: int) -> None:
    checkpoints = workspace.checkpoints()
    checkpoints.keep(KEY, {"x": np.arange(100.0)})
    (name,) = workspace.objects.names()
    flip_byte(workspace.objects.path(name), place)
    assert checkpoints.recall(KEY) is None
    (report,) = workspace.log.entries("damage")
    assert report.subject == name
    assert "computed again" in report.body["consequence"]
    assert (workspace.path / "quarantine" / name).exists()
    checkpoints.keep(KEY, {"x": np.arange(100.0)})
    found = checkpoints.recall(KEY)
    assert found is not None
    assert list(workspace.objects.names()) == [name], "the same content has the same name again"


def test_a_vanished_epoch_is_computed_again(workspace: Workspace) -> None:
    checkpoints = workspace.checkpoints()
    checkpoints.keep(KEY, {"x": np.zeros(1)})
    workspace.objects.path(next(iter(workspace.objects.names()))).unlink()
    assert checkpoints.recall(KEY) is None
    assert "missing" in workspace.log.entries("damage")[0].body["what"]


def test_results_are_found_by_run_kind_and_settings(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    answer = {"text": "é", "values": np.arange(6.0).reshape(2, 3)}
    first = workspace.store_result(run, {"seed": 1, "k": 0.5}, "note", answer, remarks={"seconds": 3.5})
    other = workspace.store_result(run, {"seed": 2}, "note", {"text": "other"})
    workspace.store_result(run, {"seed": 1, "k": 0.5}, "schedule", {"text": "schedule"})
    assert [r.kind for r in workspace.results(run)] == ["schedule", "note", "note"]
    assert workspace.latest_result(run, "note") == other
    assert workspace.latest_result(run, "note", {"k": 0.5, "seed": 1}) == first
    assert workspace.latest_result(run, "note", {"seed": 3}) is None
    stored = workspace.load_result(first)
    assert stored["text"] == "é"
    np.testing.assert_array_equal(stored["values"], answer["values"])
    assert first.remarks == {"seconds": 3.5}


def test_a_result_carries_its_provenance(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    entry = workspace.store_result(run, {"seed": 1}, "note", {})
    label, _ = unpack_record(workspace.objects.read(entry.digest))
    assert (label["run"], label["settings"], label["settings_digest"]) == (run, {"seed": 1}, entry.settings_digest)
    assert label["software"]["flcontrib"] == flcontrib_core.__version__
    assert {"numpy", "torch", "python"} <= label["software"].keys()
    assert label["machine"]["system"]


def test_equal_results_have_equal_digests_and_one_entry(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    first = workspace.store_result(run, {"seed": 1}, "note", {"n": 1, "x": np.ones(3)}, remarks={"seconds": 1.0})
    again = workspace.store_result(run, {"seed": 1}, "note", {"n": 1, "x": np.ones(3)}, remarks={"seconds": 2.0})
    assert again == first
    assert len(workspace.log.entries("result-kept")) == 1


def test_results_of_another_version_are_stale(
    workspace: Workspace, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workspace.add_run(bundle).digest
    old = workspace.store_result(run, {}, "note", {"n": 1})
    assert not old.stale
    monkeypatch.setattr("flcontrib_core.provenance.__version__", "99.0")
    (listed,) = workspace.results(run)
    assert listed.stale
    assert workspace.latest_result(run, "note", also_stale=False) is None
    assert workspace.latest_result(run, "note") == listed


def test_a_damaged_result_is_set_aside_and_no_longer_offered(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    older = workspace.store_result(run, {}, "note", {"n": 1})
    newer = workspace.store_result(run, {}, "note", {"n": 2})
    flip_byte(workspace.objects.path(newer.digest), -1)
    with pytest.raises(DamagedObject, match="computed again"):
        workspace.load_result(newer)
    assert workspace.latest_result(run, "note") == older
    assert [r.available for r in workspace.results(run)] == [False, True]
    assert workspace.store_result(run, {}, "note", {"n": 2}).available, "computing it again heals it"


def test_settings_that_json_cannot_hold_are_refused(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises(SettingsError):
            workspace.store_result(run, bad, "note", {})
    assert workspace.results() == ()


def test_a_report_from_a_workspace_shows_itself_like_one_just_computed(workspace: Workspace, tmp_path: Path) -> None:
    run = workspace.add_run(bundled("sample_runs") / "contributions-table.csv")
    entry = audit_in_workspace(workspace, run.digest, AuditSettings().record())
    report = workspace.load_result(entry)
    assert "<h3>" in report._repr_html_()
    page, twin = report.write(tmp_path / "report.html")
    assert page.exists()
    assert twin.exists()
    assert repr(stored_report(workspace, entry)) == repr(report)
    again = workspace.store_result(run.digest, entry.settings, "audit", report)
    assert repr(workspace.load_result(again)) == repr(report)

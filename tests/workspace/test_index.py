"""A damaged, lost, older or newer index ends in a working workspace or in a clear refusal – never in lost history."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.detection import AlertState
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.schema import VERSION
from tests.workspace.recorded import flip_byte

KEYS = [f"{i:02x}" * 32 for i in range(4)]


@pytest.fixture
def filled(workspace: Workspace, bundle: Path) -> Workspace:
    """One of everything, closed, so that all of it is in one file."""
    entry = workspace.add_run(bundle, "a run")
    run = workspace.open_run(entry.digest)
    for number, key in enumerate(KEYS):
        workspace.checkpoints(run).keep(key, {"values": np.full(5, number, dtype=np.float64)})
        workspace.utility_memory(run).keep_epoch(key, {bytes([number + 1]): np.array([0.25, number])})
    workspace.store_result(entry.digest, {"seed": 1}, "note", {"n": 1, "v": np.arange(4.0)})
    (alert,) = workspace.alerts.raise_alerts(entry.digest, [{"client": "client-1", "verdict": "exact-finding"}])
    workspace.alerts.decide(alert.id, "confirmed", "ada")
    workspace.close()
    return workspace


def state(workspace: Workspace) -> dict[str, object]:
    """Everything that must not be lost, as values."""
    checkpoints, memory = workspace.checkpoints(), workspace.utility_memory()
    return {
        "runs": [(r.digest, r.name, r.available) for r in workspace.runs()],
        "results": [(r.digest, r.settings_digest) for r in workspace.results()],
        "epochs": {k: (checkpoints.recall(k) or {}).get("values", np.empty(0)).tolist() for k in KEYS},
        "memory": {k: {c: v.tolist() for c, v in memory.recall_epoch(k).items()} for k in KEYS},
        "alerts": [(a.id, a.state, a.history) for a in workspace.alerts.list()],
        "log": [e.hash for e in workspace.log.entries()][:5],
    }


def assert_rebuilt(path: Path, before: dict[str, object], head: str, why: str) -> None:
    with Workspace(path) as mended:
        assert state(mended) == before
        assert mended.verify_chain(head) is None
        (entry,) = mended.log.entries("index-rebuilt")
        assert why in entry.body["why"]
        assert entry.body["found"]["cached"] == 2 * len(KEYS)


def test_a_lost_index_is_rebuilt_from_the_files(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    (filled.path / "index.sqlite").unlink()
    assert_rebuilt(filled.path, before, head, "missing")


def test_an_index_that_is_no_database_is_set_aside_and_rebuilt(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    (filled.path / "index.sqlite").write_bytes(b"what is this" * 1000)
    assert_rebuilt(filled.path, before, head, "not a database")
    assert (filled.path / "quarantine" / "index.sqlite").read_bytes().startswith(b"what is this")


def test_a_truncated_index_is_rebuilt(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    content = (filled.path / "index.sqlite").read_bytes()
    (filled.path / "index.sqlite").write_bytes(content[: len(content) // 2])
    assert_rebuilt(filled.path, before, head, "")


def test_an_emptied_index_is_rebuilt(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    (filled.path / "index.sqlite").write_bytes(b"")
    assert_rebuilt(filled.path, before, head, "empty")


@pytest.mark.parametrize("flips", [40, pytest.param(700, marks=pytest.mark.slow)])
def test_no_flipped_byte_of_the_index_changes_or_loses_anything(filled: Workspace, folder: Path, flips: int) -> None:
    """Real bytes are flipped all over the file; whatever was hit, the workspace comes back with the same content."""
    before, head = state(filled), str(filled.head())
    filled.close()
    size = (filled.path / "index.sqlite").stat().st_size
    rng = np.random.default_rng(20)
    places = {3, 20, 60, 101, 105, *rng.integers(0, size, flips).tolist()}
    rebuilt, refusals = 0, []
    for place in sorted(places):
        copy = folder / f"flip-{place}"
        shutil.copytree(filled.path, copy)
        flip_byte(copy / "index.sqlite", place)
        try:
            with Workspace(copy) as opened:
                found = state(opened)
                chain = opened.verify_chain(head)
                rebuilt += bool(opened.log.entries("index-rebuilt"))
        except WorkspaceError as refused:  # the version or the program's mark was hit: refused, not guessed at
            refusals.append(str(refused))
            continue
        finally:
            shutil.rmtree(copy)
        if chain is None:
            assert found == before, place
        else:
            assert 1 <= chain.sequence <= 5, "a changed entry is named"
    assert all("newer version" in r or "another program" in r for r in refusals)
    assert rebuilt > 5, "the places hit enough of the structure for this test to mean something"


def test_a_damaged_write_ahead_log_loses_no_entry(filled: Workspace, folder: Path, bundle: Path) -> None:
    with Workspace(filled.path) as writing:
        run = writing.runs()[0].digest
        for number in range(5):
            writing.store_result(run, {"seed": 10 + number}, "note", {"n": number})
        head = str(writing.head())
        copy = folder / "killed here"
        shutil.copytree(filled.path, copy)  # what a killed process leaves: a write-ahead log that was not folded in
    wal = copy / "index.sqlite-wal"
    assert wal.stat().st_size > 0
    flip_byte(wal, 40)  # the first frame's header: SQLite silently drops everything after it
    (copy / "index.sqlite-shm").unlink()
    with Workspace(copy) as mended:
        assert mended.verify_chain(head) is None
        assert len(mended.results()) == 6
        assert mended.log.entries("index-rebuilt")


def test_rebuilding_an_intact_workspace_changes_nothing_but_the_log(filled: Workspace) -> None:
    before = state(filled)
    tables = {}
    for name in ("before", "after"):
        filled.close()
        connection = sqlite3.connect(filled.path / "index.sqlite")
        tables[name] = {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in ("cached", "jobs")
        } | {"log": connection.execute("SELECT * FROM log ORDER BY 1").fetchall()[:5]}
        connection.close()
        (filled.path / "index.sqlite").unlink()
        filled = Workspace(filled.path)
    assert tables["before"] == tables["after"]
    assert state(filled) == before


def test_a_rebuild_that_was_interrupted_is_begun_again(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    (filled.path / "index.rebuilding").touch()
    (filled.path / "index.part").write_bytes(b"half")
    assert_rebuilt(filled.path, before, head, "interrupted")
    assert not (filled.path / "index.rebuilding").exists()


def test_a_damaged_copy_of_an_entry_leaves_a_gap_that_is_named(filled: Workspace) -> None:
    filled.close()
    copies = sorted((filled.path / "log").iterdir())
    flip_byte(copies[2], 30)
    (filled.path / "index.sqlite").unlink()
    with Workspace(filled.path) as mended:
        broken = mended.verify_chain()
        assert broken is not None
        assert (broken.sequence, "missing" in broken.problem) == (3, True)
        assert mended.alerts.list()[0].state is AlertState.CONFIRMED, "entries after the gap are not lost"
        assert copies[2].name in mended.log.entries("index-rebuilt")[0].body["damaged"][0]


def test_an_index_of_a_newer_version_is_refused_and_left_alone(filled: Workspace) -> None:
    filled.close()
    connection = sqlite3.connect(filled.path / "index.sqlite")
    connection.execute(f"PRAGMA user_version = {VERSION + 5}")
    connection.close()
    before = (filled.path / "index.sqlite").read_bytes()
    with pytest.raises(WorkspaceError, match=r"newer version \(schema 7, this one knows 2\).*upgrade"):
        Workspace(filled.path)
    assert (filled.path / "index.sqlite").read_bytes() == before


def test_a_database_of_another_program_is_refused(folder: Path) -> None:
    (folder / "strange").mkdir()
    connection = sqlite3.connect(folder / "strange" / "index.sqlite")
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.commit()
    connection.close()
    with pytest.raises(WorkspaceError, match="another program"):
        Workspace(folder / "strange")


def test_a_running_process_refuses_to_write_after_another_version_took_over(filled: Workspace, bundle: Path) -> None:
    old = Workspace(filled.path)
    old.add_run(bundle, "another name")
    with sqlite3.connect(filled.path / "index.sqlite") as later:
        later.execute(f"PRAGMA user_version = {VERSION + 1}")
    later.close()
    with pytest.raises(WorkspaceError, match="another version"):
        old.add_run(bundle, "a new name")


def test_an_open_workspace_follows_a_rebuild_by_another_process(filled: Workspace, folder: Path) -> None:
    first = Workspace(filled.path)
    run = first.runs()[0].digest
    first.store_result(run, {"seed": 7}, "note", {"n": 7})
    (filled.path / "index.rebuilding").touch()
    second = Workspace(filled.path)
    assert second.log.entries("index-rebuilt")
    first.store_result(run, {"seed": 8}, "note", {"n": 8})
    assert len(second.results()) == len(first.results()) == 3
    assert second.verify_chain() is None


def test_a_workspace_that_cannot_be_made_says_so(folder: Path) -> None:
    (folder / "file").write_text("in the way")
    with pytest.raises(WorkspaceError):
        Workspace(folder / "file" / "workspace")


def test_a_running_server_mends_an_index_that_is_damaged_under_it(filled: Workspace) -> None:
    before, head = state(filled), str(filled.head())
    filled.close()
    (filled.path / "index.sqlite").write_bytes(b"damaged under a running server" * 500)
    assert state(filled) == before
    assert filled.verify_chain(head) is None
    assert filled.log.entries("index-rebuilt")


@pytest.mark.parametrize("closed", [False, True])
def test_an_index_that_is_deleted_under_a_running_server_is_rebuilt(filled: Workspace, closed: bool) -> None:
    before = state(filled)
    if closed:
        filled.close()
    for file in filled.path.glob("index.sqlite*"):
        file.unlink()
    assert state(filled) == before
    assert filled.log.entries("index-rebuilt")


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_workspace_that_vanishes_under_a_running_server_is_said_to_be_gone(filled: Workspace, left: str) -> None:
    """An unmounted disk leaves an empty folder: nobody may begin a new workspace in its place."""
    run = filled.runs()[0].digest
    shutil.rmtree(filled.path)
    if left == "an empty folder":
        filled.path.mkdir()
    for attempt in (filled.runs, filled.jobs.poll, lambda: filled.store_result(run, {}, "note", {})):
        with pytest.raises(WorkspaceError, match="is gone: bring it back"):
            attempt()
    assert not list(filled.path.glob("*"))

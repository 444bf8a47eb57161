"""Whatever is done to the log afterwards, the chain or a head printed earlier tells."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.workspace import AlertState, ChainHead, DamagedIndex, Workspace
from flcontrib_core.workspace.audit_log import GENESIS
from flcontrib_core.workspace.provenance import canonical_json

ALERT = {"client": "client-1", "verdict": "poisoning-window", "window": [2, 3], "probability": 0.97}


@pytest.fixture
def history(workspace: Workspace, bundle: Path) -> Workspace:
    """Eight entries: created, run, result, alert, three decisions, one more result."""
    run = workspace.add_run(bundle, "a run").digest
    workspace.keep_result(run, {"seed": 1}, "audit", {"n": 1})
    (alert,) = workspace.alerts.raise_alerts(run, [ALERT])
    workspace.alerts.decide(alert.id, AlertState.ACKNOWLEDGED, "ada")
    workspace.alerts.decide(alert.id, AlertState.DISMISSED, "ada", "known maintenance")
    workspace.alerts.decide(alert.id, AlertState.CONFIRMED, "grace", "the logs of that week agree")
    workspace.keep_result(run, {"seed": 2}, "audit", {"n": 2})
    return workspace


def tampered(workspace: Workspace, change: Callable[[sqlite3.Connection], None]) -> Workspace:
    """Somebody with access to the file changes it with the usual tools."""
    workspace.close()
    connection = sqlite3.connect(workspace.path / "index.sqlite")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    connection.commit()
    connection.close()
    return workspace


def test_every_entry_leads_to_the_head(history: Workspace) -> None:
    entries = history.log.entries()
    assert [e.sequence for e in entries] == list(range(1, 9))
    previous = GENESIS
    for entry in entries:
        text = canonical_json(
            {
                "sequence": entry.sequence,
                "previous": entry.previous,
                "at": entry.at,
                "kind": entry.kind,
                "subject": entry.subject,
                "body": entry.body,
            }
        )
        assert entry.previous == previous
        assert entry.hash == hashlib.sha256(text.encode()).hexdigest()
        previous = entry.hash
    assert str(history.head()) == f"8:{previous}"
    assert history.verify_chain() is None
    assert history.verify_chain(str(history.head())) is None


def test_earlier_heads_stay_on_the_chain_as_it_grows(history: Workspace) -> None:
    head = history.head()
    history.keep_result(history.runs()[0].digest, {"seed": 3}, "audit", {"n": 3})
    assert history.verify_chain(head) is None
    assert history.head() != head


def test_the_index_itself_refuses_to_edit_or_cut_the_log(history: Workspace) -> None:
    connection = sqlite3.connect(history.path / "index.sqlite")
    for statement in ("UPDATE log SET entry = '' WHERE sequence = 3", "DELETE FROM log WHERE sequence = 8"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_an_edited_reason_is_found(history: Workspace) -> None:
    tampered(
        history,
        lambda db: db.execute("UPDATE log SET entry = replace(entry, 'known maintenance', 'no reason at all')"),
    )
    broken = history.verify_chain()
    assert broken is not None
    assert broken.sequence == 6
    assert "edited" in broken.problem
    with pytest.raises(DamagedIndex, match="changed in the index"):
        history.alerts.list()
    history.mend()
    assert history.alerts.list()[0].history[1].reason == "known maintenance", "its copy knows better"
    assert history.verify_chain() is None
    assert history.log.entries("index-rebuilt")


def test_columns_that_contradict_the_text_are_found(history: Workspace) -> None:
    tampered(history, lambda db: db.execute("UPDATE log SET subject = 'another run' WHERE sequence = 4"))
    broken = history.verify_chain()
    assert broken is not None
    assert (broken.sequence, "columns" in broken.problem) == (4, True)


@pytest.mark.parametrize("gone", [1, 4])
def test_an_entry_taken_out_of_the_middle_is_found(history: Workspace, gone: int) -> None:
    tampered(history, lambda db: db.execute("DELETE FROM log WHERE sequence = ?", (gone,)))
    broken = history.verify_chain()
    assert broken is not None
    assert broken.sequence == gone


def test_a_cut_end_is_found_by_its_copies_and_by_the_head(history: Workspace) -> None:
    head = history.head()
    tampered(history, lambda db: db.execute("DELETE FROM log WHERE sequence >= 7"))
    broken = history.verify_chain()
    assert broken is not None
    assert broken.sequence == 7
    for copy in sorted((history.path / "log").iterdir())[6:]:
        copy.unlink()
    assert history.verify_chain() is None, "cut everywhere, the chain alone cannot tell"
    broken = history.verify_chain(head)
    assert broken is not None
    assert (broken.sequence, "ends at 6" in broken.problem) == (7, True)


def rewrite(workspace: Workspace, also_copies: bool) -> None:
    """A forger changes entry 6 and computes every later hash anew, in the index and in the copies."""

    def forge(db: sqlite3.Connection) -> None:
        previous = db.execute("SELECT hash FROM log WHERE sequence = 5").fetchone()[0]
        for sequence, text in db.execute("SELECT sequence, entry FROM log WHERE sequence >= 6").fetchall():
            entry = json.loads(text)
            entry["previous"] = previous
            if sequence == 6:
                entry["body"]["reason"] = "forged"
            text = canonical_json(entry)
            previous = hashlib.sha256(text.encode()).hexdigest()
            db.execute(
                "UPDATE log SET entry = ?, hash = ?, previous = ? WHERE sequence = ?",
                (text, previous, entry["previous"], sequence),
            )
            if also_copies:
                next((workspace.path / "log").glob(f"{sequence:08d}-*")).unlink()
                (workspace.path / "log" / f"{sequence:08d}-{previous}.json").write_text(text)

    tampered(workspace, forge)


def test_a_rewritten_history_is_found_by_its_copies(history: Workspace) -> None:
    rewrite(history, also_copies=False)
    broken = history.verify_chain()
    assert broken is not None
    assert (broken.sequence, "copy" in broken.problem) == (6, True)


def test_a_perfect_forgery_is_found_by_any_head_printed_after_it(history: Workspace) -> None:
    before, after = ChainHead(5, history.log.entries()[4].hash), history.head()
    rewrite(history, also_copies=True)
    assert history.verify_chain() is None
    assert history.verify_chain(before) is None, "what was printed before the forged entry still holds"
    broken = history.verify_chain(after)
    assert broken is not None
    assert "rewritten" in broken.problem


def test_an_index_that_lost_its_end_gets_it_back_and_says_so(history: Workspace) -> None:
    """A damaged write-ahead log drops the last commits without an error; the copies know better."""
    head = history.head()
    history.close()
    connection = sqlite3.connect(history.path / "index.sqlite")
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM log WHERE sequence >= 6")
    for _, text in triggers:
        connection.execute(text)
    connection.commit()
    connection.close()
    with Workspace(history.path) as mended:
        assert mended.verify_chain(head) is None
        assert mended.alerts.list()[0].state is AlertState.CONFIRMED
        (rebuilt,) = mended.log.entries("index-rebuilt")
        assert "entries 6 to 8" in rebuilt.body["why"]


def test_a_copy_that_a_crash_left_out_is_written_at_the_next_opening(history: Workspace) -> None:
    copies = sorted((history.path / "log").iterdir())
    copies[-1].unlink()
    history.close()
    with Workspace(history.path):
        assert sorted((history.path / "log").iterdir()) == copies


def test_a_later_copy_never_stands_before_a_gap(history: Workspace) -> None:
    copies = sorted((history.path / "log").iterdir())
    for copy in copies[-2:]:
        copy.unlink()  # two writers died between commit and copy
    history.keep_result(history.runs()[0].digest, {"seed": 9}, "audit", {"n": 9})
    assert len(list((history.path / "log").iterdir())) == 9
    assert history.verify_chain() is None


def test_order_is_by_sequence_when_the_clock_jumps_back(folder: Path, bundle: Path) -> None:
    moment = datetime(2026, 5, 5, tzinfo=UTC)

    def backwards() -> datetime:
        nonlocal moment
        moment -= timedelta(days=1)
        return moment

    with Workspace(folder / "workspace", now=backwards) as workspace:
        run = workspace.add_run(bundle).digest
        workspace.keep_result(run, {}, "audit", {"n": "older"})
        workspace.keep_result(run, {}, "audit", {"n": "newer"})
        latest = workspace.latest_result(run, "audit", {})
        assert latest is not None
        assert workspace.load_result(latest).document == {"n": "newer"}
        (alert,) = workspace.alerts.raise_alerts(run, [ALERT])
        workspace.alerts.decide(alert.id, "acknowledged", "ada")
        decided = workspace.alerts.decide(alert.id, "confirmed", "ada")
        assert decided.state is AlertState.CONFIRMED
        times = [e.at for e in workspace.log.entries()]
        assert times == sorted(times, reverse=True)
        assert workspace.verify_chain() is None


def test_a_head_that_is_none_is_refused(history: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="not the head"):
        history.verify_chain("8:deadbeef")

"""Whatever is done to the log afterwards, the chain or a head printed earlier tells."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flcontrib_core.detection import AlertState
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.provenance import canonical_json
from flcontrib_core.workspace import BrokenChain, ChainHead, DamagedIndex, Workspace, check_log
from flcontrib_core.workspace.audit_log import GENESIS
from tests.workspace.forged import append_decision, tamper

ALERT = {"client": "client-1", "verdict": "poisoning-window", "window": [2, 3], "probability": 0.97}


@pytest.fixture
def history(workspace: Workspace, bundle: Path) -> Workspace:
    """Eight entries: created, run, result, alert, three decisions, one more result."""
    run = workspace.add_run(bundle, "a run").digest
    workspace.store_result(run, {"seed": 1}, "note", {"n": 1})
    (alert,) = workspace.alerts.raise_alerts(run, [ALERT])
    workspace.alerts.decide(alert.id, AlertState.ACKNOWLEDGED, "ada")
    workspace.alerts.decide(alert.id, AlertState.DISMISSED, "ada", "known maintenance")
    workspace.alerts.decide(alert.id, AlertState.CONFIRMED, "grace", "the logs of that week agree")
    workspace.store_result(run, {"seed": 2}, "note", {"n": 2})
    return workspace


def tampered(workspace: Workspace, change: Callable[[sqlite3.Connection], object]) -> Workspace:
    workspace.close()
    tamper(workspace.path, change)
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
    history.store_result(history.runs()[0].digest, {"seed": 3}, "note", {"n": 3})
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
    assert history.alerts.list()[0].history[1].text == "known maintenance", "its copy knows better"
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
    tampered(history, lambda db: db.execute("DELETE FROM log WHERE sequence >= 6"))
    with Workspace(history.path) as mended:
        assert mended.verify_chain(head) is None
        assert mended.alerts.list()[0].state is AlertState.CONFIRMED
        (rebuilt,) = mended.log.entries("index-rebuilt")
        assert "log entry 6 is missing: the chain reached 8" in rebuilt.body["why"]
        assert "restored from its copies" in str(mended.impaired)


def test_a_copy_that_a_crash_left_out_is_written_at_the_next_opening(history: Workspace) -> None:
    copies = sorted((history.path / "log").iterdir())
    copies[-1].unlink()
    history.close()
    with Workspace(history.path) as opened:
        assert sorted((history.path / "log").iterdir())[:-1] == copies
        (restored,) = opened.log.entries("copies-restored")
        assert (restored.sequence, restored.body["entries"]) == (9, [8])
        assert "log entries 8 had no copy" in str(opened.impaired)
    with Workspace(history.path) as again:
        assert again.impaired is None
        assert len(again.log.entries()) == 9


def test_a_later_copy_never_stands_before_a_gap(history: Workspace) -> None:
    copies = sorted((history.path / "log").iterdir())
    for copy in copies[-2:]:
        copy.unlink()  # two writers died between commit and copy
    history.store_result(history.runs()[0].digest, {"seed": 9}, "note", {"n": 9})
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
        workspace.store_result(run, {}, "note", {"n": "older"})
        workspace.store_result(run, {}, "note", {"n": "newer"})
        latest = workspace.latest_result(run, "note", {})
        assert latest is not None
        assert workspace.load_result(latest) == {"n": "newer"}
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


def test_an_edited_decision_is_noticed_when_the_workspace_is_opened_and_its_copy_restored(history: Workspace) -> None:
    tampered(history, lambda db: db.execute("UPDATE log SET entry = replace(entry, 'confirmed', 'dismissed')"))
    with Workspace(history.path) as opened:
        assert isinstance(opened.impaired, BrokenChain)
        assert "log entry 7 was edited" in str(opened.impaired)
        assert opened.alerts.list()[0].state is AlertState.CONFIRMED
        assert "log entry 7 was edited" in opened.log.entries("index-rebuilt")[0].body["why"]
    assert (history.path / "quarantine" / "index.sqlite").exists(), "what was forged is kept as evidence"


def test_a_rewritten_history_is_noticed_when_the_workspace_is_opened(history: Workspace) -> None:
    head = history.head()
    rewrite(history, also_copies=False)
    with Workspace(history.path) as opened:
        assert "log entry 6 differs from its copy" in str(opened.impaired)
        assert opened.alerts.list()[0].history[1].text == "known maintenance"
        assert opened.verify_chain(head) is None


def test_a_forged_decision_that_does_not_fit_the_chain_is_noticed_and_dropped(history: Workspace) -> None:
    tampered(history, lambda db: append_decision(db, previous=GENESIS))
    with Workspace(history.path) as opened:
        assert "log entry 9 does not follow" in str(opened.impaired)
        assert opened.alerts.list()[0].state is AlertState.CONFIRMED


def test_a_forged_decision_with_a_perfect_seal_is_noticed_by_its_missing_copy(history: Workspace) -> None:
    """Nothing in the entry is wrong; but the program would have copied it before it answered."""
    tampered(history, append_decision)
    check = check_log(history.path)
    assert (check.broken, check.uncopied) == (None, (9,))
    with Workspace(history.path) as opened:
        assert isinstance(opened.impaired, BrokenChain)
        assert "log entries 9 had no copy" in str(opened.impaired)
        assert opened.log.entries("copies-restored")[0].body["entries"] == [9]


def test_a_second_history_beside_a_sound_one_replaces_nothing_and_stays_in_sight(history: Workspace) -> None:
    """Files planted in log/ cannot overrule entries that the index and their own copies agree on."""
    (copy,) = (history.path / "log").glob("00000006-*")
    entry = json.loads(copy.read_text())
    entry["body"]["reason"] = "planted"
    text = canonical_json(entry)
    (history.path / "log" / f"00000006-{hashlib.sha256(text.encode()).hexdigest()}.json").write_text(text)
    history.close()
    for _ in range(2):
        with Workspace(history.path) as opened:
            assert "log entry 6 differs from its copy" in str(opened.impaired)
            assert opened.alerts.list()[0].history[1].text == "known maintenance"
            assert opened.log.entries("index-rebuilt") == ()


def test_a_gap_that_nothing_can_fill_is_said_at_every_opening(history: Workspace) -> None:
    next((history.path / "log").glob("00000003-*")).unlink()
    history.close()
    (history.path / "index.sqlite").unlink()
    for _ in range(2):
        with Workspace(history.path) as opened:
            assert "log entry 3 is missing" in str(opened.impaired)
            assert len(opened.log.entries("index-rebuilt")) == 1, "it is not rebuilt again and again"
            opened.store_result(opened.runs()[0].digest, {}, "note", {})


def test_of_two_histories_in_the_copies_one_is_rebuilt_and_the_other_set_aside(history: Workspace) -> None:
    head = history.head()
    (copy,) = (history.path / "log").glob("00000006-*")
    planted = copy.with_name(f"00000006-{hashlib.sha256(b'{}').hexdigest()}.json")
    planted.write_text("{}")
    history.close()
    (history.path / "index.sqlite").unlink()
    with Workspace(history.path) as opened:
        assert opened.verify_chain(head) is None
        assert opened.impaired is None
        assert opened.log.entries("index-rebuilt")[0].body["damaged"] == [
            str(history.path / "quarantine" / planted.name)
        ]


def test_checking_a_log_changes_nothing(history: Workspace) -> None:
    tampered(history, lambda db: db.execute("UPDATE log SET subject = 'another run' WHERE sequence = 4"))
    before = {path: path.read_bytes() for path in history.path.rglob("*") if path.is_file()}
    for _ in range(2):
        check = check_log(history.path)
        assert check.broken is not None
        assert check.broken.sequence == 4
    after = {path: path.read_bytes() for path in history.path.rglob("*") if path.is_file()}
    assert {p: c for p, c in after.items() if not p.name.endswith(("-shm", "-wal"))} == before
    with pytest.raises(WorkspaceError, match="no workspace"):
        check_log(history.path / "log")

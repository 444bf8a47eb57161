"""Alerts keep their identity and their decisions; nothing is overwritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flcontrib_core.detection import AlertState
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import FewComputed
from flcontrib_core.detection.reasons import ChannelScore, ValueInWindow
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace import Workspace, alert_identity, observed_once


def alert(client: str = "client-1", probability: float = 0.97, score: float = 3.0) -> Alert:
    return Alert(
        client=client,
        verdict=VerdictKind.POISONING_WINDOW,
        window=(2, 3),
        probability=probability,
        score=score,
        expert="harm",
        channels=(ChannelScore("value", 2.5), ChannelScore("margin", None)),
        evidence_for=(ValueInWindow((2, 3), "loss", True, 0.02, None, None, 1, 1),),
        evidence_against=(FewComputed(1),),
    )


def test_an_alert_is_new_until_somebody_decides(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    (entry,) = workspace.alerts.raise_alerts(run, [alert()], result="result-digest")
    assert entry.state is AlertState.NEW
    assert entry.finding["window"] == [2, 3]
    assert entry.finding["channels"][1] == {"name": "margin", "score": None}
    assert entry.finding["evidence"]["against"] == [{"fact": "few-computed", "computed": 1}]
    assert not any(isinstance(value, str) and " " in value for value in entry.finding.values())
    assert entry.result == "result-digest"
    decided = workspace.alerts.decide(entry.id, AlertState.DISMISSED, "ada", "maintenance")
    assert (decided.state, decided.history[0].by, decided.history[0].text) == ("dismissed", "ada", "maintenance")
    reopened = workspace.alerts.decide(entry.id, AlertState.NEW, "grace", "maintenance was a week later")
    assert [d.state for d in reopened.history] == ["dismissed", "new"]


def test_computing_again_neither_repeats_an_alert_nor_forgets_a_decision(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    first, second = workspace.alerts.raise_alerts(run, [alert(), alert("client-2")])
    workspace.alerts.decide(first.id, "confirmed", "ada")
    entries = len(workspace.log.entries())
    again = workspace.alerts.raise_alerts(run, [alert(), alert("client-2")])
    assert len(workspace.log.entries()) == entries
    assert {a.id: a.state for a in again} == {first.id: "confirmed", second.id: "new"}
    (changed,) = workspace.alerts.raise_alerts(run, [alert(probability=0.5)])
    assert (changed.id, changed.state, changed.finding["probability"]) == (first.id, "confirmed", 0.5)
    assert len(workspace.alerts.list(run)) == 2


def test_identity_is_run_client_verdict_and_window() -> None:
    finding = {"client": "a", "verdict": "poisoning-window", "window": [1, 4]}
    assert alert_identity("run", finding) == alert_identity("run", {**finding, "probability": 0.1})
    for change in ({"client": "b"}, {"window": [1, 5]}, {"verdict": "exact-finding"}):
        assert alert_identity("run", finding) != alert_identity("run", {**finding, **change})
    assert alert_identity("run", finding) != alert_identity("other", finding)


def test_a_score_without_a_finite_value_is_null(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    (entry,) = workspace.alerts.raise_alerts(run, [alert(score=float("inf"))])
    assert entry.finding["score"] is None


def test_decisions_need_a_name_a_known_alert_and_dismissals_a_reason(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    (entry,) = workspace.alerts.raise_alerts(run, [alert()])
    with pytest.raises(SettingsError, match="reason"):
        workspace.alerts.decide(entry.id, "dismissed", "ada", "  ")
    with pytest.raises(SettingsError, match="name"):
        workspace.alerts.decide(entry.id, "confirmed", " ")
    with pytest.raises(WorkspaceError, match="no alert"):
        workspace.alerts.decide("f" * 32, "confirmed", "ada")
    assert workspace.alerts.find(entry.id).state is AlertState.NEW


def test_hostile_names_come_back_literally(workspace: Workspace, bundle: Path) -> None:
    run = workspace.add_run(bundle).digest
    client = "<img onerror=x> =HYPERLINK() \u202e \ud800 \n NA 🙂"
    (entry,) = workspace.alerts.raise_alerts(run, [alert(client)])
    assert entry.finding["client"] == client
    decided = workspace.alerts.decide(entry.id, "dismissed", "'; DROP TABLE log; --", '"}{"\\')
    assert (decided.history[0].by, decided.history[0].text) == ("'; DROP TABLE log; --", '"}{"\\')
    assert workspace.verify_chain() is None


def test_two_results_that_tell_of_the_same_client_and_epochs_are_one_observation(
    workspace: Workspace, bundle: Path
) -> None:
    run = workspace.add_run(bundle).digest
    wider = replace(alert(), window=(2, 4), verdict=VerdictKind.BEHAVIOUR_CHANGED)
    later, other = replace(alert(), window=(6, 8)), alert("client-2")
    workspace.alerts.raise_alerts(run, [alert(), later, other], result="full")
    workspace.alerts.raise_alerts(run, [wider, other], result="budget")
    listed = workspace.alerts.list(run)
    assert len(listed) == 4
    same = next(a for a in listed if a.finding["client"] == "client-2")
    assert same.results == ("full", "budget")
    for opens_first, window in (("full", [2, 3]), ("budget", [2, 4])):
        counted = observed_once(listed, {run: opens_first})
        told = [a.finding["window"] for a in counted if a.finding["client"] == "client-1"]
        assert sorted(told) == sorted([window, [6, 8]])
        assert same in counted
    entries = len(workspace.log.entries())
    workspace.alerts.raise_alerts(run, [wider, other], result="budget")
    assert len(workspace.log.entries()) == entries
    both = workspace.alerts.raise_alerts(run, [alert("client-3"), replace(wider, client="client-3")], result="third")
    assert observed_once(both, {}) == both, "two alerts of one result are two"

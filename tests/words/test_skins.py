"""Do terminal, page, report and extract name the same facts in the same words, whatever the clients are called?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core import words
from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.charts import draw_ranking, ranking_facts
from flcontrib_core.commands.assessing import print_audit
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.review import AlertReview, AlertState, Reviews, ReviewStep, StepKind, alert_key
from flcontrib_core.reports.extract import extract_json
from flcontrib_core.reports.extract_page import extract_page
from flcontrib_core.reports.html import html_report
from flcontrib_core.reports.record import Record
from flcontrib_core.reports.sections import Seal
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.vocabulary import FillPolicy
from flcontrib_core.words.decisions import NOT_DECIDED
from flcontrib_core.words.numbers import visible
from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import filled_once, keep_report
from tests.app.own_caches import own_caches
from tests.app.test_pages import opened
from tests.app.test_pages import words as page_words
from tests.made_once import common_folder
from tests.reports.test_html import Reader
from tests.words.made_facts import CLIENTS, DIGITS, PLAIN, SCRIPTS, WORDS, full_report

NAMINGS = {"plain": PLAIN, "digits": DIGITS, "words": WORDS, "scripts": SCRIPTS}
SEAL = Seal("ab" * 32, "report.json")
by_naming = pytest.mark.parametrize("names", NAMINGS.values(), ids=NAMINGS)


def said_of(alert: Alert) -> list[str]:
    """Everything a skin must say of an alert: what, for, against, and what it rests on."""
    lines = [words.verdict_name(alert.verdict), *words.why(alert), *words.counter_evidence(alert)]
    return [visible(line) for line in [*lines, *words.context(alert)]]


def readers_of(alert: Alert) -> list[str]:
    """The line for who answers for the federation, and the one for who trains the model."""
    return [visible(words.meaning_line(alert)), visible(words.engineer_line(alert))]


def terminal(report: AuditReport, capsys: pytest.CaptureFixture[str]) -> str:
    print_audit(report)
    return capsys.readouterr().out


@by_naming
def test_the_terminal_says_every_fact(names: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    report = full_report(names)
    shown = terminal(report, capsys)
    assert visible(words.headline(report)) in shown
    for alert in report.detection.alerts:
        lines = [visible(words.alert_title(alert)), words.how_sure(alert), *readers_of(alert), *said_of(alert)]
        assert all(line in shown for line in lines)
    for line in words.sentences(report.detection.remarks, ""):
        assert visible(line) in shown


@by_naming
def test_the_report_says_every_fact(names: tuple[str, ...]) -> None:
    report = full_report(names)
    shown = Reader(html_report(report, SEAL)).text
    assert visible(words.headline(report)) in shown
    for alert in report.detection.alerts:
        for line in [visible(words.alert_title(alert)), *readers_of(alert), *said_of(alert)]:
            assert line in shown
    for verdict in report.detection.clients:
        assert words.verdict_name(verdict.verdict) in shown
        assert all(visible(line) in shown for line in words.sentences(verdict.facts, verdict.client))
    for line in words.sentences(report.detection.remarks, ""):
        assert visible(line) in shown


def test_a_number_is_nowhere_left_alone_as_a_client_s_name() -> None:
    """'Strongest: 11' and '2 contributed most' read as amounts: such a client is called by what it is."""
    report = full_report(DIGITS)
    first = report.detection.alerts[0]
    who = f"client {first.client}"
    assert f": {who}, " in words.headline(report)
    assert words.alert_title(first).startswith(f"{who} ")
    assert words.client_headline(report, first.client).startswith(f"{who} ")
    assert (
        words.contribution_title(("2", "7"), ("7",))
        == "client 2 contributed most; client 7 is the only one clearly below zero"
    )
    named = [s for a in report.detection.alerts for s in said_of(a)]
    assert any("client 2" in sentence for sentence in named)
    ranking = draw_ranking(ranking_facts(report, "loss", FillPolicy.EQUAL), "light")
    assert all(label.removeprefix("<b>").startswith("client ") for label in ranking.layout["yaxis"]["ticktext"])


@by_naming
def test_every_extract_says_its_client_s_facts(names: tuple[str, ...]) -> None:
    report = full_report(names)
    for verdict in report.detection.clients:
        content = extract_json(report, verdict.client)
        shown = Reader(extract_page(content, "extract.json")).text
        own = [a.without_others() for a in report.detection.alerts if a.client == verdict.client]
        assert len(content["alerts"]) == len(own)
        for alert in own:
            assert all(line in shown for line in said_of(alert))
        if not own:
            assert words.verdict_name(verdict.verdict).lower() in shown
            assert visible(words.verdict_reason(verdict.without_others())) in shown


@by_naming
def test_no_extract_depends_on_what_the_others_are_called(names: tuple[str, ...]) -> None:
    """Other names for everybody else, and for the run, change no letter: so none of them is in it."""
    report = full_report(names)
    for place, own in enumerate(names):
        masked = tuple(name if n == place else f"somebody else {n}" for n, name in enumerate(names))
        other = replace(full_report(masked), run_name="another name")
        mine, same = extract_json(report, own), extract_json(other, own)
        assert json.dumps(mine) == json.dumps(same)
        assert extract_page(mine, "extract.json") == extract_page(same, "extract.json")


def test_no_plain_name_of_another_client_is_in_an_extract() -> None:
    report = full_report(PLAIN)
    for own in PLAIN:
        content = extract_json(report, own)
        written = json.dumps(content, ensure_ascii=False) + extract_page(content, "extract.json")
        assert report.run_name not in written
        assert not [name for name in PLAIN if name != own and name in written]


@pytest.fixture
def _own_caches() -> Iterator[None]:
    with own_caches():
        yield


@pytest.mark.usefixtures("_own_caches")
@by_naming
def test_the_page_says_every_fact(names: tuple[str, ...], tmp_path: Path) -> None:
    report = full_report(names)
    with RunRecorder(
        tmp_path / "run",
        clients=[(name, 100) for name in names],
        parameters=[("weight", (2,))],
        initial=np.zeros(2, dtype=np.float32),
        durable=False,
    ) as recorder:
        for _ in range(report.history.epoch_count):
            recorder.epoch(np.random.default_rng(1).normal(size=(CLIENTS, 2)).astype(np.float32))
        bundle = recorder.bundle()
    with Workspace(tmp_path / "workspace") as workspace:
        entry = workspace.add_run(bundle)
        report = replace(report, history=replace(report.history, run_digest=entry.digest))
        keep_report(workspace, entry, report)
    overview = page_words(opened(tmp_path / "workspace", "overview", entry))
    assert _bare(words.headline(report)) in _bare(overview)
    # Every alert of the plain names; of the others the exact copy, which names another client, and a question.
    for alert in report.detection.alerts if names is PLAIN else report.detection.alerts[5:10:4]:
        window = "" if alert.window is None else f"{alert.window[0]}-{alert.window[1]}"
        page = opened(tmp_path / "workspace", "alerts", entry, client=alert.client, window=window)
        shown = _bare(page_words(page))
        for line in [words.alert_title(alert), words.how_sure(alert), *readers_of(alert), *said_of(alert)]:
            assert _bare(line) in shown


def decided(report: AuditReport) -> Reviews:
    """The first alert dismissed, the second confirmed and given to somebody, the third commented on."""
    at = "2026-11-17T12:00:00+00:00"
    steps = [
        (ReviewStep(StepKind.DECISION, 7, "ab" * 32, at, "ada", "announced maintenance", AlertState.DISMISSED),),
        (
            ReviewStep(
                StepKind.DECISION, 8, "cd" * 32, at, "grace", "the logs agree", AlertState.CONFIRMED, None, True
            ),
            ReviewStep(StepKind.ASSIGNMENT, 9, "ef" * 32, at, "grace", owner="alan"),
        ),
        (ReviewStep(StepKind.COMMENT, 10, "01" * 32, at, "ada", "asked the site"),),
    ]
    alerts = report.detection.alerts
    keys = [alert_key(alert) for alert in alerts]
    return Reviews(
        tuple(AlertReview(*key, f"{n:032x}", s) for n, (key, s) in enumerate(zip(keys, steps, strict=False)))
    )


def test_a_decision_changes_every_skin_in_the_same_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = full_report(PLAIN)
    reviews = decided(report)
    first, second, third = report.detection.alerts[:3]
    said = words.headline(report, reviews=reviews)
    before = len({a.client for a in report.detection.alerts if a.accuses})
    assert said.startswith(f"{before - 1} of 18 clients")
    assert said.endswith(", confirmed. 4 others raise a question, not an accusation. 1 alert dismissed")
    print_audit(report, reviews)
    printed = capsys.readouterr().out
    record = Record("2026-11-17T13:00:00+00:00", "grace", "11:" + "ab" * 32, reviews)
    page = Reader(html_report(report, SEAL, record)).text
    assert "written 2026-11-17 13:00 UTC by grace" in page
    for shown in (printed, page):
        assert said in shown
        for review in reviews.entries:
            assert all(words.step_line(step) in shown for step in review.steps)
        for alert in (first, second, third):
            assert words.alert_title(alert) in shown, "what is dismissed never disappears"
    own = {a.client: extract_json(report, a.client, None, record) for a in (first, second, third)}
    told = {client: Reader(extract_page(content, "extract.json")).text for client, content in own.items()}
    assert "dismissed by ada: (the text is not part of this extract)" in told[first.client]
    assert f"{first.client}: 1 alert in this run, dismissed" in told[first.client]
    assert f"{second.client}: 1 alert in this run" in told[second.client]
    assert words.client_headline(report, second.client, reviews).endswith(", confirmed")
    assert "confirmed by grace: the logs agree" in told[second.client]
    assert NOT_DECIDED in told[third.client]
    for text in [*told.values(), *map(json.dumps, own.values())]:
        assert not [inside for inside in ("maintenance", "alan", "asked the site") if inside in text]


def test_all_alerts_dismissed_is_said_and_not_that_nothing_was_found() -> None:
    report = full_report(PLAIN)
    alerts = report.detection.alerts
    step = ReviewStep(StepKind.DECISION, 7, "ab" * 32, "2026-11-17T12:00:00+00:00", "ada", "x", AlertState.DISMISSED)
    reviews = Reviews(tuple(AlertReview(*alert_key(a), f"{n:032x}", (step,)) for n, a in enumerate(alerts)))
    assert words.headline(report, reviews=reviews) == f"No alert stands: {len(alerts)} alerts dismissed"
    assert words.decided_sentence(alerts, reviews) == f"Of {len(alerts)} alerts: {len(alerts)} dismissed."


@pytest.mark.usefixtures("_own_caches")
def test_the_pages_repeat_what_was_decided(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    filled = filled_once(common_folder(tmp_path_factory), tmp_path)
    entry = filled.runs["report"]
    with Workspace(filled.folder) as workspace:
        (alert,) = workspace.alerts.list(entry.digest)
        workspace.alerts.decide(alert.id, "dismissed", "ada", "announced maintenance")
        workspace.alerts.assign(alert.id, "alan", "ada")
        workspace.alerts.comment(alert.id, "grace", "agreed")
        reviews = workspace.alerts.reviews(entry.digest)
    sentence = words.decision_sentence(reviews.entries[0])
    assert sentence.endswith(": announced maintenance. alan looks after it.")
    for view in ("overview", "alerts"):
        shown = page_words(opened(filled.folder, view, entry, list="1"))
        assert "No alert stands: 1 alert dismissed" in shown
        assert _bare(sentence) in _bare(shown)
        assert "client-03" in shown
    evidence = _bare(page_words(opened(filled.folder, "alerts", entry, client="client-03", window="5-8")))
    for step in reviews.entries[0].steps:
        assert _bare(words.step_line(step)) in evidence


def _bare(text: str) -> str:
    """Text without what markdown and joiners add; capitals aside, for a badge begins with one.

    The page puts a blank where the other skins spell out a tab or a line break.
    """
    flat = " ".join(text.replace("\u2060", "").split()).replace("[U+0009]", " ").replace("[U+000A]", " ")
    return "".join(c for c in visible(flat).lower() if c.isalnum())


def test_a_table_with_an_empty_cell_goes_through_every_skin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RUNLOG: an empty value is "participated, not computed"; every skin must say so and none may fail."""
    table = tmp_path / "table.csv"
    rows = []
    for epoch in range(1, 31):
        for client in "12345678":
            harm = 0.08 if client == "3" and 12 <= epoch <= 19 else -0.02
            value = harm + 0.001 * ((7 * epoch + 3 * int(client)) % 11)
            rows.append(f"{epoch},{client},{'' if (epoch, client) in ((9, '5'), (14, '3')) else value}")
    table.write_text("\n".join(["epoch,client,loss", *rows]) + "\n")
    report = audit(read_run_log(table))
    (alert,) = report.detection.alerts
    assert (alert.client, alert.verdict, alert.window) == ("3", VerdictKind.POISONING_WINDOW, (12, 19))
    assert (alert.computed_in_window, alert.participated_in_window) == (7, 8)
    grouping = report.detection.separation
    assert grouping is not None
    assert grouping.cells_held == 2
    assert "2 values are missing" in words.separation_remark(grouping)
    printed, page = terminal(report, capsys), Reader(html_report(report, SEAL)).text
    content = extract_json(report, "3")
    extract = Reader(extract_page(content, "extract.json")).text
    assert "Not computed: epoch 14. 7 of 8 participations there have a value." in words.counter_evidence(alert)
    for line in said_of(alert):
        assert line in printed
        assert line in page
        assert line in extract
    assert (content["state"][14], content["state"][9]) == ("not computed", "computed")

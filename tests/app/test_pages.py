"""Does every page say the right thing in every state of a run, without an exception?"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flcontrib_dashboard import client_table
from streamlit.testing.v1 import AppTest

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.commands.asking import ask
from flcontrib_core.history import LogMeaning, ModelCurve
from flcontrib_core.reports import totals_table
from flcontrib_core.runs.problems import problem
from flcontrib_core.vocabulary import FillPolicy, Orientation
from flcontrib_core.words import numbers
from flcontrib_core.workspace import RunEntry, Workspace, audit_in_workspace, stored_report
from tests.app.filled_workspace import HOSTILE, RUNNERS, TINY, Filled, make_tiny_log, wait_until
from tests.app.own_caches import own_caches
from tests.patience import PATIENCE_SECONDS
from tests.workspace.recorded import ending_jobs

ENTRY = Path(__file__).parents[2] / "app" / "flcontrib_dashboard" / "streamlit_app.py"
PAGES = (
    "overview",
    "alerts",
    "contributions",
    "client",
    "epoch",
    "change_points",
    "clusters",
    "compare",
    "scheduler",
    "runs",
    "upload",
    "jobs",
    "report",
    "paper",
    "settings",
    "help",
)
WITHOUT_RUN = {
    "runs": "run",
    "upload": "Bring in a run",
    "jobs": "No job is running",
    "compare": "Two results are needed to compare",
    "paper": "The paper's evaluation made again",
    "settings": "Settings of this workspace",
    "help": "What the words mean, and what this tool cannot know",
}
"""Pages that do not need a report say the same in every state."""
MOST_TRACES = 200
LARGEST_CHART = 400_000
"""Characters of a chart's JSON; a number per client and epoch would be ten times as much."""


@pytest.fixture(autouse=True)
def _own_caches() -> Iterator[None]:
    """Each case opens its own workspace."""
    with own_caches():
        yield


def opened(folder: Path, view: str, run: RunEntry | None = None, **url: str) -> AppTest:
    os.environ["FLCONTRIB_WORKSPACE"] = str(folder)
    os.environ["FLCONTRIB_SAMPLES"] = "0"
    shown = AppTest.from_file(str(ENTRY), default_timeout=PATIENCE_SECONDS)
    if run is not None:
        shown.query_params["run"] = run.digest[:16]
    for key, value in url.items():
        shown.query_params[key] = value
    if view != "overview":
        shown.switch_page(f"views/{view}.py")
    shown.run()
    assert [e.value for e in shown.exception] == []
    return shown


def title(shown: AppTest) -> str:
    return " | ".join(str(t.value).replace("\\", "").replace("\u2060", "") for t in shown.title)


def words(shown: AppTest) -> str:
    """Everything a reader sees as text on the page."""
    heads, prose = [*shown.title, *shown.header], [*shown.markdown, *shown.caption, *shown.text, *shown.code]
    parts = [*heads, *prose, *shown.error, *shown.warning]
    return "\n".join(str(p.value).replace("\\", "") for p in parts)


def pictures(shown: AppTest) -> dict[str, str]:
    """key -> what the browser draws, of every chart on the page."""
    drawn = [c.proto for c in shown.get("bidi_component") if c.proto.component_name == "canvas"]
    return {str(p.id).split("-", 2)[2]: json.loads(p.json)["figure"] for p in drawn}


def traces(shown: AppTest) -> int:
    return sum(len(json.loads(figure)["data"]) for figure in pictures(shown).values())


WITH_REPORT = {
    "overview": "1 of 6 clients stands out during this run. Strongest: client-03, epochs 5–8, a fact about the file",
    "alerts": "1 of 6 clients stands out",
    "contributions": "contributed most",
    "client": "client-03 sent empty updates in epochs 5–8",
    "epoch": "Epoch 1: loss reduction",
    "change_points": "at or above 0.50",
    "clusters": "group",
    "compare": "No client changed rank; the alerts agree",
    "scheduler": "Computing 7 of 12 epochs covers",
    "report": "Take the result with you",
}


@pytest.mark.parametrize("view", PAGES)
def test_page_with_a_report(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["report"])
    assert {**WITHOUT_RUN, **WITH_REPORT}[view] in title(shown)


WITH_TABLE = {
    "client": "client",
    "epoch": "Epoch 1: ",
    "overview": "of 6 clients",
    "alerts": "client",
    "compare": "changed rank",
    "scheduler": "A contribution table is already computed: there is nothing to schedule",
}


@pytest.mark.parametrize("view", PAGES)
def test_page_of_a_table(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["table"])
    assert {**WITHOUT_RUN, **WITH_REPORT, **WITH_TABLE}[view] in title(shown)


def test_a_table_with_empty_cells_calls_no_total_certain(tmp_path: Path) -> None:
    """Every client has a cell without a value: that nobody is clearly below zero would say that somebody had looked."""
    table = tmp_path / "table.csv"
    rows = [
        f"{t},{c},{'' if t == c else 0.1 if c == 3 else -0.02 - t / 1000}" for t in range(1, 9) for c in range(1, 6)
    ]
    table.write_text("\n".join(["epoch,client,loss", *rows, ""]))
    with Workspace(tmp_path / "workspace") as workspace:
        run = workspace.add_run(table)
        audit_in_workspace(workspace, run.digest, AuditSettings().record())
    shown = opened(tmp_path / "workspace", "contributions", run)
    assert title(shown) == "client 1 contributed most, client 3 least; 5 of 40 participations have no value"


@pytest.mark.parametrize("view", PAGES)
def test_page_without_any_run(tmp_path: Path, view: str) -> None:
    shown = opened(tmp_path / "empty", view)
    assert WITHOUT_RUN.get(view, "No run yet") in title(shown)
    assert view == "paper" or not pictures(shown)  # the paper's figures need no run


@pytest.mark.parametrize("view", PAGES)
def test_page_of_a_run_whose_job_failed(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["failed"])
    if view in WITHOUT_RUN:
        expected = "changed rank" if view == "compare" else WITHOUT_RUN[view]  # of two results that share clients
        assert expected in title(shown)
    elif view == "scheduler":
        assert title(shown).startswith("Computing 3 of 3 epochs")  # it can be planned, and computed another way
    else:
        assert title(shown) == "This run has no result yet"
        assert [e.value for e in shown.error] == ["The last job failed."]
        assert "popularity" in shown.code[0].value
        assert "Traceback" not in words(shown)
        assert [b.label for b in shown.button] == ["Compute"]


@pytest.fixture(scope="module")
def working(filled: Filled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A copy in which a job stands at its first of two epochs until the last page was seen."""
    folder = tmp_path_factory.mktemp("working")
    shutil.copytree(filled.folder, folder / "workspace")
    with Workspace(folder / "workspace", runners=RUNNERS) as workspace, ending_jobs(workspace):
        settings = {"starts": str(folder / "starts"), "name": "gated", "gate": str(folder / "gate")}
        job = workspace.jobs.submit(filled.runs["failed"].digest, settings, "gated")
        wait_until(lambda: workspace.jobs.find(job.id).progress is not None, "progress of the job")
        yield Filled(folder / "workspace", filled.runs)


@pytest.mark.parametrize("view", PAGES)
def test_page_while_a_job_runs(working: Filled, view: str) -> None:
    shown = opened(working.folder, view, working.runs["failed"])
    if view == "jobs":
        assert title(shown) == "1 job at work"
        assert "1 of 2 epochs" in words(shown)
    elif view == "scheduler":
        assert title(shown).startswith("Computing 3 of 3 epochs")
    elif view not in WITHOUT_RUN:
        assert title(shown) == "Computing the contributions of this run"


def test_evidence_of_an_alert_named_in_the_url(filled: Filled) -> None:
    shown = opened(filled.folder, "alerts", filled.runs["report"], client="client-03", window="5-8")
    assert title(shown) == "client-03 sent empty updates in epochs 5–8"
    said = words(shown)
    for part in ("Why it was marked", "What speaks against it", "Without client-03", "Decision", "flcontrib verify"):
        assert part in said
    assert "guilty" not in said.lower()
    assert "dishonest" not in said.lower()


def test_strict_preset_stays_in_the_link_and_tells_its_rate(filled: Filled) -> None:
    shown = opened(filled.folder, "alerts", filled.runs["hostile"])
    assert "honest" in words(shown)
    presets: Any = next(g for g in shown.get("button_group") if g.proto.id.endswith("preset"))
    presets.set_value("strict").run()
    assert not shown.exception
    assert shown.query_params["preset"] == "strict"


def test_a_dismissal_needs_a_reason_and_stays(filled: Filled) -> None:
    shown = opened(filled.folder, "alerts", filled.runs["hostile"], client=HOSTILE[1], window="8-12")
    buttons = {b.label: b for b in shown.button}
    next(field for field in shown.text_input if field.label == "Your name").set_value("Ada")
    verdicts: Any = shown.get("button_group")[-1]
    verdicts.set_value("dismissed")
    buttons["Record the decision"].click().run()
    assert "reason" in shown.error[0].value
    shown.text_area[0].set_value("a known change of data")
    next(b for b in shown.button if b.label == "Record the decision").click().run()
    assert "dismissed by Ada: a known change of data" in words(shown)
    assert shown.text_area[0].value == "", "another press does not record it once more"
    story = words(opened(filled.folder, "client", filled.runs["hostile"], client=HOSTILE[1]))
    assert "On epochs 8–12, " in story
    again = opened(filled.folder, "alerts", filled.runs["hostile"], client=HOSTILE[1], window="8-12")
    assert "dismissed by Ada: a known change of data" in words(again)


@pytest.mark.parametrize("view", PAGES)
def test_hostile_names_reach_markdown_only_escaped(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, filled.runs["hostile"])
    for element in (*shown.title, *shown.markdown, *shown.caption, *shown.error, *shown.warning):
        for name in (*HOSTILE[1:], filled.runs["hostile"].name):
            assert name not in element.value, f"{name!r} stands unescaped in a {element.type}"


def test_name_of_a_refused_file_is_text(filled: Filled) -> None:
    shown = opened(filled.folder, "upload", filled.runs["report"])
    name = "![x](http://outside.invalid/x.png).csv"
    shown.file_uploader[0].upload(name, b"no,table\n1,2\n", "text/csv").run()
    assert [e.value for e in shown.exception] == []
    said = shown.error[0].value
    assert "refused" in said
    assert name not in said


@pytest.mark.parametrize(
    "url", [{"k": "many"}, {"k": "inf"}, {"gamma": "nan"}, {"mode": "?"}, {"utility": "??"}, {"result": "zz"}]
)
@pytest.mark.parametrize("view", ["scheduler", "overview"])
def test_nonsense_in_the_url_falls_back(filled: Filled, view: str, url: dict[str, str]) -> None:
    assert WITH_REPORT[view] in title(opened(filled.folder, view, filled.runs["report"], **url))


@pytest.mark.parametrize("view", PAGES)
def test_link_to_an_unknown_run_says_so_and_offers_the_runs(filled: Filled, view: str) -> None:
    shown = opened(filled.folder, view, replace(filled.runs["report"], digest="0123456789abcdef" * 4))
    if view in WITHOUT_RUN:
        return
    assert title(shown) == "This link names a run that is not in this workspace"
    labels = [link.proto.label.replace("\\", "") for link in shown.get("page_link")]
    assert filled.runs["report"].name in labels


WITH_CROWD = {
    "client": "lowered the model's quality in epochs 8–12",
    "overview": "of 10\u2009000 clients",
    "alerts": "of 10\u2009000 clients",
    "clusters": "Too few different series to group",
    "compare": "changed rank",
    "scheduler": "Computing 30 of 50 epochs",
}


@pytest.mark.parametrize("kind", ["table", "log"])
@pytest.mark.parametrize("view", PAGES)
def test_page_of_ten_thousand_clients(crowd: Filled, view: str, kind: str) -> None:
    """Never a trace per client, and nothing sent to the browser that grows with clients times epochs."""
    shown = opened(crowd.folder, view, crowd.runs[kind])
    expected = {**WITHOUT_RUN, **WITH_REPORT, **WITH_CROWD}[view]
    if (view, kind) == ("scheduler", "table"):
        expected = WITH_TABLE[view]
    assert expected in title(shown)
    assert traces(shown) < MOST_TRACES
    assert all(len(figure) < LARGEST_CHART for figure in pictures(shown).values())
    if view in ("overview", "contributions"):
        assert len(shown.dataframe[0].value) == 10_000


def test_scheduler_measures_its_error_where_everything_was_computed(filled: Filled) -> None:
    assert "Measured against the full computation" in words(opened(filled.folder, "scheduler", filled.runs["report"]))
    partial = opened(filled.folder, "scheduler", filled.runs["hostile"])
    assert "unknown, it was not run" in words(partial)


def test_one_of_ten_thousand_clients_is_found_and_followed(crowd: Filled) -> None:
    shown = opened(crowd.folder, "overview", crowd.runs["log"])
    next(i for i in shown.text_input if i.key == "find-client").set_value("0777").run()
    assert [n for n in shown.dataframe[0].value["Client"] if "0777" not in n] == []
    next(i for i in shown.text_input if i.key == "follow-search").set_value("client-07777").run()
    assert not shown.exception
    assert shown.query_params["client"] == "client-07777"
    assert "client-07777" in pictures(shown)["cumulative"]


def test_the_page_of_a_client_tells_its_whole_story(filled: Filled) -> None:
    entry = filled.runs["report"]
    shown = opened(filled.folder, "client", entry, client="client-03")
    text = words(shown)
    for part in ("Its series", "What was observed", "Decisions and notes", "Its extract"):
        assert part in text
    assert [m.label for m in shown.metric[:2]] == ["Epochs taken part", "Data"]
    quiet = opened(filled.folder, "client", entry, client="client-05")
    assert title(quiet) == "client-05: nothing found"
    assert "It has no alert to decide on." in words(quiet)


def test_the_page_of_an_epoch_adds_up(filled: Filled) -> None:
    shown = opened(filled.folder, "epoch", filled.runs["report"], epoch="6")
    assert title(shown).startswith("Epoch 6: loss reduction")
    clients, gains = shown.dataframe[0].value, shown.dataframe[1].value.set_index("Per epoch")["Loss reduction"]
    assert set(clients["State"]) == {"computed"}
    assert gains["Sum of the values"] == numbers.signed(float(clients["Loss reduction"].sum()), 4)
    assert gains["Gap"] == "0"
    assert clients.set_index("Client")["Alert"]["client-03"] == "in window"
    assert "Best group S*" in words(shown)


def test_an_address_of_no_epoch_or_client_shows_one_that_is_there(filled: Filled) -> None:
    assert title(opened(filled.folder, "epoch", filled.runs["report"], epoch="999")).startswith("Epoch 12: ")
    assert title(opened(filled.folder, "client", filled.runs["report"], client="nobody")).startswith("client-03 ")


def test_a_mark_chosen_twice_opens_its_client_s_page(filled: Filled) -> None:
    shown = opened(filled.folder, "overview", filled.runs["report"], client="client-03")
    shown.session_state["open-page"] = "client"
    shown.run()
    assert title(shown) == "client-03 sent empty updates in epochs 5–8"
    assert "Its extract" in words(shown)


def test_runs_are_found_described_and_deleted(tmp_path: Path) -> None:
    with Workspace(tmp_path / "workspace") as workspace:
        table = tmp_path / "table.csv"
        for n in range(3):
            table.write_text("epoch,client,loss\n" + "".join(f"{t},{c},{t * c + n}\n" for t in (1, 2) for c in (1, 2)))
            workspace.add_run(table, f"run {n}")
        first = workspace.runs()[0]
        workspace.describe_run(first.digest, by="ada", tags=["pilot"], note="asked for in May")
    shown = opened(tmp_path / "workspace", "runs", first)
    assert title(shown) == "3 runs, 0 alerts not yet decided"
    assert list(shown.dataframe[0].value["Run"]) == ["run 2", "run 1", "run 0"]
    assert list(shown.dataframe[0].value["State"]) == ["no result"] * 3
    shown.text_input(key="find-run").set_value("in may").run()
    assert list(shown.dataframe[0].value["Run"]) == ["run 0"]
    shown.text_input(key="find-run").set_value("nothing like it").run()
    assert "No run like that." in words(shown)


def test_the_inbox_of_all_runs_names_run_owner_and_state(filled: Filled) -> None:
    with Workspace(filled.folder) as workspace:
        alert = next(a for a in workspace.alerts.list() if a.run_digest == filled.runs["report"].digest)
        workspace.alerts.assign(alert.id, "alan", "ada")
    shown = opened(filled.folder, "runs", filled.runs["report"])
    alerts = shown.dataframe[-1].value
    assert "alan" in set(alerts["Owner"])
    assert set(alerts["State"]) == {"New"}
    shown.selectbox(key="inbox-owner").set_value("alan").run()
    assert list(shown.dataframe[-1].value["Run"]) == [filled.runs["report"].name]


def test_the_rebuilt_model_is_drawn_on_overview_with_what_speaks_against_the_log(filled: Filled) -> None:
    shown = opened(filled.folder, "overview", filled.runs["report"])
    assert "model" in pictures(shown)
    assert "The global model, rebuilt from the log: loss " in words(shown)
    assert "Nothing speaks against reading the log as it is" in words(shown)
    with Workspace(filled.folder) as workspace:  # the same log, as if its labels were shifted
        run, warning = filled.runs["stale"], problem("W_LABEL_SHIFT", "global model, last epoch", "an accuracy of 0.10")
        curve = ModelCurve((0, 1), (2.3, 2.4), (0.1, 0.1))
        workspace.store_result(run.digest, {}, "meaning", LogMeaning(curve, (warning,)))
    shown = opened(filled.folder, "overview", run)
    assert "Is the log what was meant?" in words(shown)
    assert "W_LABEL_SHIFT" in words(shown)
    assert "Nothing speaks against" not in words(shown)


def test_links_lead_to_pages_whichever_script_streamlit_was_started_with(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flcontrib_dashboard.state.MOST_LISTED", 1)  # as with more runs than the list beside a page
    opened(filled.folder, "overview", filled.runs["report"])
    shown = AppTest.from_file(str(ENTRY.parents[1] / "streamlit_app.py"), default_timeout=PATIENCE_SECONDS)
    shown.query_params["run"] = filled.runs["report"].digest[:16]
    shown.run()
    assert [e.value for e in shown.exception] == []
    links = {link.proto.label.replace("\\", ""): link.proto.page for link in shown.get("page_link")}
    assert links[f"All {len(filled.runs)} runs"] == "runs"
    assert links["See the evidence"] == "alerts"


def test_the_papers_sign_is_a_choice_that_stands_in_the_link_and_on_every_heading(filled: Filled) -> None:
    run = filled.runs["report"]
    usual, turned = (opened(filled.folder, "contributions", run, **u) for u in ({}, {"sign": "paper"}))
    assert "Total: loss reduction." in words(usual)
    assert "Contribution per client and epoch :gray[(share of the loss (up is harm))]" in words(turned)
    assert "Total: share of the loss (up is harm)." in words(turned)
    assert title(usual) == title(turned), "who helps is no matter of the sign"
    totals = [p.dataframe[0].value.set_index("Client")["Total"] for p in (usual, turned)]
    assert (totals[0] == -totals[1]).all()
    assert totals[0].abs().max() > 0
    curves = opened(filled.folder, "contributions", run, sign="paper", show="curves")
    assert "Cumulative contribution :gray[(share of the loss (up is harm))]" in words(curves)
    assert client_table.totals_file(FillPolicy.EQUAL, Orientation.PAPER) == "totals-paper-orientation"
    with Workspace(filled.folder) as workspace:
        result = workspace.default_result(run.digest)
        assert result is not None
        history = stored_report(workspace, result).history
    table = totals_table(history, orientation=Orientation.PAPER)
    assert table["share of the loss total (harm is up)"] == [
        -v for v in totals_table(history)["loss reduction total (help is up)"]
    ]


def test_what_is_asked_elsewhere_stands_beside_the_jobs(tmp_path: Path) -> None:
    log, folder = (
        make_tiny_log(tmp_path / "run.flrun", replace(TINY, epochs=3, more_attacks=())),
        tmp_path / "workspace",
    )
    told = CliRunner().invoke(ask, [str(log), "-o", str(tmp_path / "work"), "--workspace", str(folder)])
    assert told.exit_code == 0, told.output
    page = opened(folder, "jobs")
    assert "questions outstanding" in words(page)
    epochs = page.dataframe[0].value
    assert epochs["Epoch"].tolist() == [1, 2, 3]
    assert (epochs["Answered"] == 0).all()
    assert (epochs["Outstanding"] == epochs["Asked"]).all()
    assert epochs["Asked"].min() > 0

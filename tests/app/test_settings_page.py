"""Settings: changed on the page, read by a command, and the other way round; samples hidden but not gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from flcontrib_core.bundled_files import bundled
from flcontrib_core.commands.preferring import settings
from flcontrib_core.words import wording
from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import Filled
from tests.app.own_caches import own_caches
from tests.app.test_pages import opened, title, words
from tests.execution.test_notices import Receiver, receiver

assert receiver  # a fixture of that file


@pytest.fixture(autouse=True)
def _own_caches() -> Iterator[None]:
    with own_caches():
        yield


def told(folder: Path, *options: str) -> dict[str, object]:
    answer = CliRunner().invoke(settings, ["--workspace", str(folder), "--json", *options])
    assert answer.exit_code == 0, answer.output
    return dict(json.loads(answer.stdout))


def test_what_the_page_sets_a_command_reads_and_the_other_way_round(
    tmp_path: Path, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "workspace"
    held = told(folder, "--workers", "3", "--on-alert", "notify --all")
    assert (held["workers"], held["on_alert"], held["webhook"], held["samples"]) == (3, "notify --all", None, True)
    page = opened(folder, "settings")
    assert str(folder) in words(page)
    assert "notify --all" in words(page)
    assert page.number_input(key="default-workers").value == 3
    page.number_input(key="default-workers").set_value(2).run()
    page.text_input[0].set_value("ftp://nowhere")
    save = next(b for b in page.button if b.label == "Save")
    save.click().run()
    assert "is no address to post to" in page.error[0].value.replace("\\", "")
    page.text_input[0].set_value("https://hooks.example.org/x")
    next(b for b in page.button if b.label == "Save").click().run()
    assert [e.value for e in page.exception] == []
    held = told(folder)
    assert (held["workers"], held["webhook"], held["on_alert"]) == (2, "https://hooks.example.org/x", "notify --all")
    told(folder, "--on-alert", "", "--webhook", receiver)
    page = opened(folder, "settings")
    next(b for b in page.button if b.label == "Send a test notice").click().run()
    assert [(p, n["event"]) for p, n in Receiver.received if isinstance(n, dict)] == [("/", "test")]
    assert page.success[0].value == "It was taken."
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of somebody else"))
    assert "This was set elsewhere" in opened(folder, "settings").warning[0].value
    assert told(folder, "--workers", "0", "--webhook", "")["webhook"] is None


def test_hidden_samples_leave_every_list_and_stay_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    with Workspace(folder) as workspace:
        sample = workspace.add_run(bundled("sample_runs") / "contributions-table.csv")
    page = opened(folder, "settings")
    page.toggle(key="show-samples").set_value(False).run()
    assert told(folder)["samples"] is False
    assert title(opened(folder, "runs")) == "No run yet"
    assert title(opened(folder, "overview", sample)) == "This run has not been computed yet", "its link still opens it"
    page = opened(folder, "overview")
    assert title(page) == "No run yet"
    next(b for b in page.button if b.label == "Load the sample runs").click().run()
    assert told(folder)["samples"] is True


def test_the_tour_is_walked_closed_for_good_and_opened_again(filled: Filled) -> None:
    page = opened(filled.folder, "overview", filled.runs["report"])
    for name, *_ in wording.TOUR[1:]:
        page.button(key="tour-next").click().run()
        assert name in words(page)
    assert "tour-next" not in [b.key for b in page.button]
    page.button(key="tour-close").click().run()
    assert not any(str(b.key).startswith("tour") for b in page.button)
    again = opened(filled.folder, "overview", filled.runs["report"])
    assert not any(str(b.key).startswith("tour") for b in again.button), "another session does not see it again"
    held = opened(filled.folder, "settings")
    next(b for b in held.button if b.label == "Show the tour again").click().run()
    assert wording.TOUR[0][0] in words(opened(filled.folder, "overview", filled.runs["report"]))

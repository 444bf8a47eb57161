"""Facts that an operator declares: sealed, shown beside the change they may explain, and hiding nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flcontrib_core import read_run_log
from flcontrib_core.auditing import audit
from flcontrib_core.bundled_files import bundled
from flcontrib_core.cli import flcontrib
from flcontrib_core.detection import NO_REVIEWS, Separation, jaccard_of_marked
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.extract import write_extract
from flcontrib_core.reports.record import Record, record_of
from flcontrib_core.reports.twin import write_report
from flcontrib_core.reports.verify import verify_report
from flcontrib_core.words import headline
from flcontrib_core.workspace import Workspace, check_log

RUN = bundled("sample_runs") / "two-poisoned.flrun"
TEXT = "new GPU & a filter"


def test_a_note_is_sealed_and_reaches_report_and_extract_of_its_client_alone(tmp_path: Path) -> None:
    run = read_run_log(RUN)
    with Workspace(tmp_path / "workspace") as workspace:
        workspace.alerts.note(run.digest, "client-02", (10, 14), TEXT, "ada")
        reviews = workspace.alerts.reviews(run.digest)
    assert check_log(tmp_path / "workspace").broken is None
    (note,) = reviews.notes_on("client-02", (12, 20))
    assert (note.epochs, note.text, note.by) == ((10, 14), TEXT, "ada")
    assert reviews.notes_on("client-02", (15, 20)) == reviews.notes_on("client-03") == ()
    report = audit(run)
    assert headline(report, reviews=reviews) == headline(report, reviews=NO_REVIEWS)  # it never hides harm
    page, twin = write_report(report, tmp_path / "report.html", Record(reviews=reviews))
    assert "new GPU &amp; a filter (declared by ada" in page.read_text()
    content = json.loads(twin.read_text())
    assert record_of(content).reviews.notes == (note,)
    assert verify_report(twin, run).equal
    for client, told in (("client-02", True), ("client-03", False)):
        own, own_twin = write_extract(report, client, tmp_path / f"{client}.html", run, Record(reviews=reviews))
        assert ("declared by ada" in own.read_text()) == told
        assert ("new GPU" in own_twin.read_text()) == told


@pytest.mark.parametrize(
    ("epochs", "text", "by"), [((0, 3), "x", "ada"), ((5, 3), "x", "ada"), ((1, 3), " ", "ada"), ((1, 3), "x", "")]
)
def test_a_note_without_epochs_text_or_name_is_refused(
    tmp_path: Path, epochs: tuple[int, int], text: str, by: str
) -> None:
    with Workspace(tmp_path) as workspace, pytest.raises(SettingsError):
        workspace.alerts.note("d", "client-02", epochs, text, by)


def test_the_command_declares_and_names_what_is_wrong(tmp_path: Path) -> None:
    asked = ["note", str(RUN), TEXT, "--client", "client-02", "--by", "ada", "--workspace", str(tmp_path), "--json"]
    told = CliRunner().invoke(flcontrib, [*asked, "--epochs", "12:20"], catch_exceptions=False)
    assert json.loads(told.output)["epochs"] == [12, 20]
    for epochs in ("12:31", "a:b", "20:12"):
        assert isinstance(CliRunner().invoke(flcontrib, [*asked, "--epochs", epochs]).exception, SettingsError)
    asked[4] = "nobody"
    assert isinstance(CliRunner().invoke(flcontrib, [*asked, "--epochs", "1:2"]).exception, SettingsError)


def test_marks_are_kept_taken_back_and_score_the_marked_clients_alone(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        book = workspace.alerts
        book.mark("d", "a", "dishonest", "ada", (3, 9))
        for client in "bc":
            book.mark("d", client, "honest", "ada")
        book.mark("d", "e", "honest", "ada")
        book.mark("d", "e", "unmarked", "bob")
        marks = {m.client: (m.mark.value, m.epochs) for m in book.marks("d")}
        assert marks == {"a": ("dishonest", (3, 9)), "b": ("honest", None), "c": ("honest", None)}
        with pytest.raises(SettingsError):
            book.mark("d", "a", "guilty", "ada")
        with pytest.raises(SettingsError):
            book.mark("d", "a", "honest", " ")
    assert check_log(tmp_path).broken is None
    grouped = Separation(2, {"a": 1, "b": 0, "c": 0, "e": 1}, np.zeros((2, 3)), {2: 0.9}, None, None, "euclidean")
    score = jaccard_of_marked(grouped, ["b", "c"], ["a"])
    assert score is not None
    assert (score.raw, score.single_cluster) == (1.0, pytest.approx(2 / 3))  # e, marked by nobody, does not count
    assert jaccard_of_marked(grouped, ["b"], []) is None


def test_the_command_marks(tmp_path: Path) -> None:
    asked = [
        "mark",
        str(RUN),
        "--client",
        "client-02",
        "--as",
        "dishonest",
        "--by",
        "ada",
        "--workspace",
        str(tmp_path),
    ]
    told = CliRunner().invoke(flcontrib, [*asked, "--epochs", "12:20"], catch_exceptions=False)
    assert told.output == "client-02: marked by ada as dishonest in epochs 12–20\n"

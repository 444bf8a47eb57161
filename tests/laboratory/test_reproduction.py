"""The paper's six figures from one command: rows, drawings and claims, on a small federation from bundled data."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner

from flcontrib_core.charts.panels import Line, Panel, PanelFacts, draw_panels, panels_alt, panels_rows
from flcontrib_core.charts.svg import svg_file
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import MissingPart, SettingsError, WorkspaceError
from flcontrib_core.execution.children import python_command
from flcontrib_core.execution.engine import Execution
from flcontrib_core.history import AssessSettings, assess_contributions
from flcontrib_core.laboratory.reproduction import (
    FIGURES,
    Stage,
    ablations,
    aggregation,
    approximations,
    cactus,
    catalogue,
    change_points,
    contestants,
    job,
    reproduce,
    write_figure,
)
from flcontrib_core.laboratory.reproduction.grid import (
    CutOffReached,
    Instance,
    KeptEpochs,
    assess_within,
    first_epochs,
    limited_to,
    paper_grid,
    run_instances,
)
from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.reports.paper_figure import read_paper_figures
from flcontrib_core.scheduling import BudgetSettings
from flcontrib_core.shapley import GTG, Exact
from flcontrib_core.shapley.elsewhere import VARIABLE
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.worker import resolve
from tests import in_process

HERE = Execution(workers=1)
SMALL = Stage(
    base=SimulationSettings(dataset="breast-cancer", hidden=(8,)), seeds=1, clients=(4, 8), datasets=("adult",)
)


def test_the_grid_has_the_papers_132_instances_and_its_counts() -> None:
    grid = list(paper_grid())
    assert len(set(grid)) == 132
    up_to_16 = [i for i in grid if i.clients <= 16]
    assert len(up_to_16) == 84  # ComFedSV's count
    assert len(up_to_16) + sum(i.clients == 32 and i.epochs in (12, 25) for i in grid) == 96  # exact's


def test_the_small_scale_compares_the_methods_on_100_of_them_from_25_trainings() -> None:
    trained = cactus.instances(Stage())
    assert len(trained) == 25
    assert len([i for i in paper_grid() if replace(i, epochs=50) in trained]) == 100
    assert cactus.instances(Stage(full=True)) == list(paper_grid())


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_has_data_a_drawing_and_claims(name: str, tmp_path: Path) -> None:
    figure = reproduce(name, SMALL, tmp_path / "instances")
    assert figure is not None
    files = write_figure(figure, tmp_path)
    assert {path.suffix for path in files} == {".csv", ".parquet", ".json", ".svg", ".html"}
    assert all(path.stat().st_size for path in files)
    assert len((tmp_path / f"{name}.csv").read_text().splitlines()) == len(figure.rows) + 1
    stored = read_paper_figures(tmp_path)[name]
    assert stored.to_json() == figure.shown.to_json()  # with the holes of a drawing, which equal nothing
    assert stored.seconds > 0
    assert stored.ran == stored.planned
    claims = json.loads((tmp_path / f"{name}-claims.json").read_text())
    assert claims == [claim.to_json() for claim in stored.claims]
    assert {frozenset(claim) for claim in claims} == {frozenset({"claim", "paper", "ours", "holds"})}
    assert all(claim["holds"] in (True, False, None) for claim in claims)
    drawing = (tmp_path / f"{name}.svg").read_text()
    assert figure.shown.drawn.title in drawing
    assert "NaN" not in drawing
    assert drawing == stored.svg()


def test_every_case_of_the_change_points_is_drawn_at_both_participations(tmp_path: Path) -> None:
    stage = replace(SMALL, clients=(4,))
    figure = reproduce("change-points", stage, tmp_path / "instances")
    assert figure is not None
    shown = figure.shown
    assert list(shown.drawings) == ["change-points", "change-points-2", "change-points-3"]
    assert shown.drawn.title == "Poisoned windows: cumulative loss shares and change points"
    flips = change_points.FLIPS
    cases = [f"4/{d}, flip {flip:g}: {what}" for d in (1, 2) for flip in flips for what in ("share", "change")]
    for share, facts in zip(("50%", "100%"), shown.further, strict=True):
        assert share in facts.title
        assert [panel.title for panel in facts.panels] == cases
        assert facts.series[0].endswith("*")  # dishonest clients look alike in every drawing
    row = next(r for r in figure.rows if r["participation"] == 1.0 and r["flip"] == 0.3)
    assert shown.further[1].panels[0].lines[0].y == tuple(row["curve"])
    write_figure(figure, tmp_path)
    assert (tmp_path / "change-points-3.svg").exists()
    with (tmp_path / "change-points.csv").open() as file:
        first = next(csv.DictReader(file))
    assert (first["window"], len(first["curve"].split())) == ("11–20", change_points.EPOCHS + 1)


def test_the_ablations_claim_errors_of_loss_and_of_accuracy_apart() -> None:
    """An error of the accuracy that rises with the clients is told, however the loss's falls."""
    rows = [
        {
            "dataset": "adult", "clients": m, "mode": mode, "share": share, "seconds": m * share, "chosen": 12 * share,
            "mse_loss": 1 / (m * share), "mse_accuracy": m / share,
        }
        for m in (4, 8)
        for mode in (*ablations.PAPER_MODES, *ablations.OUR_MODES)
        for share in ablations.SHARES
    ]  # fmt: skip
    holds = {claim.claim: claim.holds for claim in ablations.read(SMALL, rows).shown.claims}
    assert holds["MSE on loss falls with the number of clients"]
    assert not holds["MSE on accuracy falls with the number of clients"]
    assert holds["MSE on loss falls with k/T in every mode"]
    assert holds["MSE on accuracy falls with k/T in every mode"]
    assert not holds["Two-sided LB takes less time and has a higher MSE"], "the same in every mode"


def test_errors_stand_beside_cpu_time_on_the_largest_instances_with_exact_values() -> None:
    about = {"dataset": "adult", "epochs": 12, "seed": 0, "predicted": False, "solved": True, "mse_accuracy": 0.0}
    rows = [
        {**about, "clients": clients, "method": method, "seconds": seconds, "mse_loss": error, **more}
        for clients, method, seconds, error, more in (
            (16, "TMR", 3.0, 0.5, {}),
            (16, "TMR", 5.0, 0.7, {"seed": 1}),
            (8, "TMR", 1.0, 0.1, {}),
            (16, contestants.SURROGATE, 1.0, 0.2, {"share": 0.5}),
            (16, contestants.SURROGATE, 2.0, 0.0, {"share": 1.0}),
            (32, "TMR", 90.0, None, {}),
        )
    ]
    (panel,) = (p for p in cactus.read(SMALL, rows).shown.drawn.panels if p.title.startswith("16 clients: MSE, loss"))
    lines = {line.name: (line.x, line.y) for line in panel.lines}
    assert lines["TMR"] == ((4.0,), (0.6,))
    assert lines[contestants.SURROGATE] == ((1.0, 2.0), (0.2, cactus.LEAST))
    assert panel.logarithmic_x


def test_aggregation_rules_are_compared_on_the_training_rows_as_in_the_paper() -> None:
    instance = Instance("adult", 4, 2, 0, aggregation="greedy")
    run = SMALL.train(instance)
    rows = aggregation.work(SMALL, instance)
    learned = SMALL.training_rows(instance)
    assert learned.rows == sum(client.data_size for client in run.clients)
    w1, b1, w2, b2 = (
        part.reshape(spec.shape)
        for part, spec in zip(np.split(run.initial(), np.cumsum([p.count for p in run.parameters])[:-1]),
                              run.parameters, strict=True)
    )  # fmt: skip
    logits = np.maximum(learned.x @ w1.T + b1, 0) @ w2.T + b2
    loss = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(learned.rows), learned.y])
    assert rows[0]["training_loss"] == pytest.approx(loss, rel=1e-5)
    assert rows[0]["training_loss"] != rows[0]["loss"]


def test_finished_instances_are_not_run_again(tmp_path: Path) -> None:
    ran: list[Instance] = []

    def work(stage: Stage, instance: Instance) -> list[dict[str, Any]]:
        ran.append(instance)
        return [{"value": instance.seed}]

    some = [Instance("adult", 4, 3, seed) for seed in range(3)]
    first = run_instances("cactus", work, SMALL, some[:2], tmp_path, HERE)
    so_far = run_instances("cactus", work, SMALL, some, tmp_path, HERE, only_kept=True)
    assert (so_far.rows, so_far.instances) == (first.rows, 2)
    again = run_instances("cactus", work, SMALL, some, tmp_path, HERE)
    assert ran == some
    assert [row["value"] for row in again.rows] == [0, 1, 2]
    assert again.rows[:2] == first.rows
    assert again.seconds >= first.seconds
    run_instances("cactus", work, replace(SMALL, full=True), some, tmp_path, HERE)
    assert len(ran) == 6  # another scale is other work


def test_an_assessment_beyond_the_cut_off_ends() -> None:
    run = SMALL.train(Instance("adult", 4, 3, 0))
    with pytest.raises(CutOffReached):
        assess_within(run, AssessSettings(), cut_off=-1.0)


def test_a_schedule_read_from_a_full_history_equals_computing_it() -> None:
    run = SMALL.train(Instance("adult", 6, 5, 1))
    settings = AssessSettings(estimator=Exact(), observe=False)
    full = assess_contributions(run, settings)
    alone = assess_contributions(run, replace(settings, budget=BudgetSettings(epochs=(2, 5))))
    np.testing.assert_array_equal(limited_to(full, (2, 5)).state, alone.state)
    np.testing.assert_allclose(limited_to(full, (2, 5)).totals("loss"), alone.totals("loss"), rtol=1e-12)


def test_a_shorter_run_is_the_beginning_of_a_longer_one() -> None:
    """What lets one training stand for an instance of every length."""
    longer, shorter = (SMALL.train(Instance("adult", 6, epochs, 1)) for epochs in (5, 3))
    part = first_epochs(longer, 3)
    kept = KeptEpochs()
    settings = AssessSettings(estimator=GTG())
    found = assess_within(part, settings, kept=kept)
    np.testing.assert_array_equal(found.history.totals("loss"), assess_within(shorter, settings).history.totals("loss"))
    whole = assess_within(longer, settings, kept=kept)
    np.testing.assert_array_equal(whole.of_epoch[:4], found.of_epoch)  # counted again, not computed again
    assert whole.seconds > found.of_epoch.sum()
    np.testing.assert_array_equal(whole.history.totals("loss"), assess_within(longer, settings).history.totals("loss"))
    with pytest.raises(CutOffReached):  # what was spent before counts
        assess_within(longer, settings, cut_off=float(whole.of_epoch.sum()) * 0.9, kept=kept)


def test_the_papers_scale_is_predicted_from_one_measured_evaluation() -> None:
    about = {"dataset": "adult", "clients": 8, "epochs": 12, "seed": 0, "predicted": False, "solved": True}
    rows = [
        {**about, "method": contestants.EXACT, "seconds": 1.0, "evaluations": 180, "full_evaluation": 0.5},
        {**about, "method": contestants.TMR, "seconds": 1.0, "evaluations": 30_000},
        {**about, "method": contestants.TMR, "seconds": 1.0, "dataset": "compas", "evaluations": 3},
    ]
    told = contestants.at_full_scale(rows)
    assert [(r["seconds"], r["solved"], r["predicted"]) for r in told] == [(90.0, True, True), (15_000.0, False, True)]


def test_what_was_not_run_is_predicted_from_the_methods_own_rates() -> None:
    about = {"dataset": "adult", "clients": 8, "epochs": 12, "seed": 0}
    row = {**about, "method": contestants.EXACT, "seconds": 1.8, "evaluations": 180, "predicted": False, "solved": True}
    guessed = contestants.predicted_rows([row])
    assert len(guessed) == 59  # the other instances of Adult
    assert {r["method"] for r in guessed} == {contestants.EXACT}
    of_64 = [r for r in guessed if (r["clients"], r["epochs"]) == (64, 50)]
    assert of_64[0]["seconds"] == pytest.approx(50 * (2.0**32 - 1) * 0.01)
    assert not of_64[0]["solved"]
    assert all(r["predicted"] for r in guessed)


def test_predicted_points_are_drawn_open() -> None:
    line = Line("exact", (1.0, 2.0), (0.1, 10.0), (False, True))
    facts = PanelFacts("Title", "Take-away.", (Panel("seconds", "instances", (line,), logarithmic=True, limit=100.0),))
    picture = draw_panels(facts, "light")
    symbols = [trace["marker"]["symbol"] for trace in picture.data if trace["mode"] == "markers"]
    assert symbols == ["circle", "circle-open"]
    go.Figure(json.loads(picture.to_json()))  # Plotly knows every property
    assert [row["predicted"] for row in panels_rows(facts)] == [False, True]
    assert 'fill="none"' in svg_file(picture, "Title", panels_alt(facts))


def test_the_command_prints_figures_with_files_and_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flcontrib_core.laboratory.reproduction.Stage", lambda *_, **__: SMALL)
    told = CliRunner().invoke(flcontrib, ["reproduce", "aggregation", "-o", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert [figure["name"] for figure in answer["figures"]] == ["aggregation"]
    assert all(Path(path).exists() for path in answer["figures"][0]["files"])
    assert (tmp_path / "aggregation.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert "about" in told.stderr  # what it will cost, before it starts
    page = (tmp_path / "claims.md").read_text()
    assert "| cactus | | | | not run |" in page
    assert all(claim["claim"] in page for claim in answer["figures"][0]["claims"])


def test_a_png_that_cannot_be_drawn_is_named_and_everything_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "Stage", lambda *_, **__: SMALL)
    monkeypatch.setattr("flcontrib_core.laboratory.reproduction.Stage", lambda *_, **__: SMALL)
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    told = CliRunner().invoke(flcontrib, ["reproduce", "aggregation", "-o", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    assert "aggregation.png was not drawn" in told.stderr
    assert "pip install 'flcontrib[png]'" in told.stderr
    kinds = {Path(path).suffix for path in json.loads(told.stdout)["figures"][0]["files"]}
    assert kinds == {".csv", ".parquet", ".json", ".svg", ".html"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kept",), "holds no finished instance"),
        (("--kept", "--price"), "--kept runs nothing, so it has no price"),
    ],
)
def test_a_call_that_cannot_draw_says_so_and_writes_nothing(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    told = in_process.flcontrib("reproduce", "aggregation", "-o", str(tmp_path / "figures"), *options)
    assert told.returncode == 2
    assert words in told.stderr
    assert not (tmp_path / "figures").exists()


def test_a_file_in_the_place_of_the_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("mine")
    told = in_process.flcontrib("reproduce", "aggregation", "-o", str(tmp_path / "figures"))
    assert told.returncode == 2
    assert "is a file" in told.stderr
    assert "about" not in told.stderr


def test_a_figure_is_drawn_from_the_instances_finished_so_far(tmp_path: Path) -> None:
    folder = tmp_path / "instances"
    assert reproduce("ablations", SMALL, folder, only_kept=True) is None
    whole = reproduce("aggregation", SMALL, folder)
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    part = reproduce("aggregation", SMALL, folder, only_kept=True)
    assert whole is not None
    assert part is not None
    assert (part.shown.ran, part.shown.planned) == (1, whole.shown.ran)
    assert "1 of 4 federations" in part.shown.svg()
    assert {claim.holds for claim in part.shown.claims} == {None}  # a part of the instances decides nothing


def test_a_figure_is_a_job_that_needs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "Stage", lambda **_: SMALL)
    monkeypatch.setattr(JobQueue, "_start_next", lambda _: False)
    with Workspace(tmp_path / "workspace") as workspace:
        asked = workspace.jobs.submit("", {"figure": "aggregation"}, "reproduction")
        assert resolve(workspace.jobs.runners, asked.kind) is job.reproduce_in_workspace
        entry = job.reproduce_in_workspace(workspace, asked.run_digest, asked.settings)
        stored = workspace.load_result(entry)
        assert stored.to_json() == read_paper_figures(workspace.path / "paper")["aggregation"].to_json()
        with pytest.raises(WorkspaceError, match="no run"):
            workspace.jobs.submit("", {})


def test_an_unknown_figure_is_refused_with_the_list() -> None:
    with pytest.raises(SettingsError, match="change-points"):
        catalogue.recipe_of("figure-9")


def test_a_method_of_another_python_has_the_errors_it_would_have_here(monkeypatch: pytest.MonkeyPatch) -> None:
    svarm = "shapiq:SVARM"
    monkeypatch.setattr(approximations, "METHODS", {svarm: "SVARM"})
    instance = Instance("adult", 12, 2, 0)
    here = approximations.work(SMALL, instance)

    def without_shapiq(*_: object) -> None:
        raise MissingPart("shapiq")

    monkeypatch.setattr(approximations, "assess_within", without_shapiq)
    assert approximations.work(SMALL, instance) == []
    monkeypatch.setenv(VARIABLE, python_command()[0])
    assert approximations.work(SMALL, instance) == [{**row, "seconds": None} for row in here]
    assert [row["multiple"] for row in here] == [2, 4, 8]


def test_the_newest_are_judged_where_both_ran_and_who_could_not_is_named() -> None:
    def row(method: str, seed: int, error: float) -> dict[str, Any]:
        about = {"dataset": "adult", "clients": 20, "seed": seed, "multiple": 4, "seconds": 1.0}
        return {**about, "method": method, "nmse_loss": error, "nmse_accuracy": error}

    rows = [row("surrogate", 0, 0.1), row("surrogate", 1, 9.0), row("shapiq:OddSHAP", 0, 0.2)]
    shown = approximations.read(SMALL, rows).shown
    (newest,) = [claim for claim in shown.claims if "newest (" in claim.claim]
    assert newest.claim.endswith("(OddSHAP)")
    assert newest.ours == (
        "OddSHAP: 2 of 2 budgets and utilities, error 2× lower; "
        "not run: LeverageSHAP, RegressionMSR, ProxySPEX, ShaplEIG"
    )
    assert newest.holds
    assert "ShaplEIG" in shown.note

"""Can a run be planned before anything of it is computed, and does the button ask for exactly what is shown?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from streamlit.testing.v1 import AppTest

from flcontrib_core.auditing import settings_from_record
from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.workspace import RunEntry, Workspace
from flcontrib_core.workspace.jobs import JobQueue
from flcontrib_core.workspace.planning_jobs import measure_in_workspace
from tests.app.filled_workspace import make_tiny_log
from tests.app.test_pages import _own_caches, opened, pictures, title, words
from tests.workspace.recorded import scratch_folder

__all__ = ["_own_caches"]
HALF_NAME, WHOLE_NAME = "Half take part", "All take part"
HALF = SimulationSettings(name=HALF_NAME, clients=8, epochs=20, participation=0.5, train_rows=240, hidden=(4,))
WHOLE = SimulationSettings(name=WHOLE_NAME, clients=4, epochs=6, train_rows=160, hidden=(4,))


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[Path, dict[str, RunEntry]]]:
    """Two runs that were measured and never computed."""
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace:
        runs = {}
        for name, settings in ((HALF_NAME, HALF), (WHOLE_NAME, WHOLE)):
            entry = workspace.add_run(make_tiny_log(folder / f"{settings.clients}.flrun", settings))
            measure_in_workspace(workspace, entry.digest, {})
            runs[name] = entry
        yield folder / "workspace", runs


def metric(shown: AppTest, label: str) -> str:
    return str(next(m.value for m in shown.metric if m.label == label))


def test_everything_is_drawn_before_anything_is_computed(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[HALF_NAME], k="9")
    assert title(shown).startswith("Computing 9 of 20 epochs covers")
    assert set(pictures(shown)) >= {"strip", "exposure", "frontier"}
    assert "of exposure" in words(shown) or "fairness changes nothing" in words(shown)
    assert "unknown, it was not run" in words(shown)
    assert metric(shown, "Evaluations") == "135"  # 9 epochs of 4 participants, exact
    assert metric(shown, "Memory") != "–"
    with Workspace(folder) as workspace:
        assert workspace.results(runs[HALF_NAME].digest, "audit") == ()


def test_price_follows_the_estimator(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[HALF_NAME], k="9", estimator="monte-carlo", evaluations="6")
    assert metric(shown, "Evaluations") == "54"


def test_button_asks_for_what_is_shown(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    """The job has the epochs on screen and every setting of the controls."""
    folder, runs = measured
    chosen = {"k": "7", "gamma": "1.0", "seed": "5", "weights": "fixed", "utilities": "loss", "preset": "strict"}
    shown = opened(folder, "scheduler", runs[HALF_NAME], **chosen)
    button = next(b for b in shown.button if b.label == "Compute these 7 epochs")
    with mock.patch.object(JobQueue, "submit", autospec=True) as submit:
        button.click().run()
    asked = settings_from_record(submit.call_args.args[2])
    assert asked.preset == "strict"
    assert asked.assess.weights == "fixed"
    assert asked.assess.utilities == ("loss",)
    assert asked.assess.seed == 5
    epochs = asked.assess.budget.epochs
    assert epochs is not None
    assert len(epochs) == 7


def test_all_epochs_are_the_usual_question(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    """No budget in the settings, so that page and command line share one result."""
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[WHOLE_NAME])
    button = next(b for b in shown.button if b.label == "Compute all 6 epochs")
    with mock.patch.object(JobQueue, "submit", autospec=True) as submit:
        button.click().run()
    assert submit.call_args.args[2] == settings_from_record({}).record()


def test_knob_that_changes_nothing_is_off_and_says_why(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[WHOLE_NAME], k="3")
    gamma = next(s for s in shown.select_slider if s.label.startswith("Weight of fairness"))
    assert gamma.disabled
    assert "took part in the same epochs" in gamma.help
    shown = opened(folder, "scheduler", runs[HALF_NAME], k="9")
    assert not next(s for s in shown.select_slider if s.label.startswith("Weight of fairness")).disabled


def test_exponential_request_is_refused_on_the_page(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[HALF_NAME], k="9", estimator="exact", evaluations="3")
    assert "needs 2^4 − 1 = 15 evaluations" in words(shown)
    assert next(b for b in shown.button if b.label.startswith("Compute")).disabled


@pytest.mark.parametrize(
    "url", [{"k": "999"}, {"precision": "-4"}, {"seed": "x"}, {"estimator": "rm"}, {"spread": "9"}]
)
def test_any_url_is_survived(measured: tuple[Path, dict[str, RunEntry]], url: dict[str, str]) -> None:
    folder, runs = measured
    assert "Computing" in title(opened(folder, "scheduler", runs[HALF_NAME], **url))


def test_run_that_was_never_measured_is_measured(tmp_path: Path) -> None:
    with Workspace(tmp_path / "workspace") as workspace:
        entry = workspace.add_run(make_tiny_log(tmp_path / "a.flrun", WHOLE))
        with mock.patch("flcontrib_core.workspace.jobs.JobQueue._start_next", return_value=False):
            shown = opened(tmp_path / "workspace", "scheduler", entry)
        assert title(shown) == "Measuring this run"
        assert [j.kind for j in workspace.jobs.list()] == ["measurement"]


def test_knobs_fall_back_on_the_position_they_were_given(measured: tuple[Path, dict[str, RunEntry]]) -> None:
    """A browser that misses a position that was sent once would answer with the lowest one: k = 1, γ = 0."""
    folder, runs = measured
    shown = opened(folder, "scheduler", runs[HALF_NAME], k="9", gamma="0.5")
    assert list(shown.slider(key="k-of-20").proto.default) == [9]
    gamma = shown.select_slider(key="gamma")
    assert [gamma.options[int(at)] for at in gamma.proto.default] == ["0.5"]

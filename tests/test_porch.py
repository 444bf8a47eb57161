"""Does ``import flcontrib_core as fl`` give what the README says, as it is written there, and nothing heavy?"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flcontrib_core as fl
from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.shapley import BaseEstimator, EpochEstimator
from tests.pages import federation, follow
from tests.shapley.third_party import EqualShares

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("porch") / "run.flrun"
    fl.simulate(fl.SimulationSettings(clients=4, epochs=5, hidden=(4,), seed=2), path)
    return path


@pytest.fixture
def beside(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in that holds ``run.flrun``."""
    shutil.copy(small_run, tmp_path / "run.flrun")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- five lines for a person at a keyboard, as written


def test_shapley_values_of_a_lambda() -> None:
    w = np.linspace(-1.0, 2.0, 8)
    found = fl.shapley_values(lambda S: S @ w, players=8)
    assert np.allclose(found.values, w, atol=1e-12)
    assert found.values.shape == found.standard_errors.shape == (8,)
    assert (found.evaluations, found.method, found.exact) == (255, "exact", True)
    assert not found.standard_errors.any()
    assert "8 players (exact, 255 evaluations)" in repr(found)


def test_change_points_of_a_table() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 6))
    values[20:30, 2] += 8.0
    probability = fl.change_points(values)
    assert probability.shape == values.shape
    assert np.isnan(probability[:2]).all()
    assert probability[20, 2] > 0.8
    assert probability[29:33, 2].sum() > 0.5
    assert np.nanmax(np.delete(probability, 2, axis=1)) < 0.5
    plain = fl.change_points(values, series="increments")
    assert (plain[0] == 0).all()
    assert plain[20, 2] > 0.9
    assert plain[30, 2] > 0.9


def test_assess_with_an_estimator_of_its_own_gives_a_frame(beside: Path) -> None:
    frame = fl.assess("run.flrun", estimator=fl.MonteCarlo(truncate=True), budget=0.5).to_frame()
    assert list(frame) == ["epoch", "client", "utility", "state", "value", "standard_error", "estimator"]
    assert len(frame) == 6 * 4 * 2
    computed = frame[(frame.state == "computed") & (frame.epoch > 0)]
    assert computed.epoch.nunique() == 2  # half of five, rounded to even
    assert set(computed.estimator) == {"monte-carlo truncated (exact: all coalitions)"}  # four players: all coalitions
    assert frame[frame.state == "not computed"].value.isna().all()


def test_audit_shows_itself_writes_itself_and_is_verified(beside: Path) -> None:
    report = fl.audit("run.flrun")
    html = report._repr_html_()
    assert "None of the 4 clients" in html or "of 4 clients" in html
    assert "data:image/svg+xml;base64," in html
    assert html.count("<tr>") == 5
    assert all(client in html for client in report.history.client_ids)
    assert repr(report).startswith(report.run_name)
    page, twin = report.write("report.html")
    assert (page, twin) == (Path("report.html"), Path("report.json"))
    assert fl.verify("report.json", "run.flrun").equal
    text = twin.read_text()
    twin.write_text(text.replace('"seed": 0', '"seed": 1'))
    assert not fl.verify("report.json", "run.flrun").equal
    with pytest.raises(SettingsError, match=r"ends in \.html"):
        report.write("report.pdf")


# ---- the README


def test_the_readmes_code_and_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_runs").symlink_to(ROOT / "sample_runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(tmp_path / "workspace"))
    names = federation()
    assert follow(README, names) == 5
    assert names["report"].detection.alerts[0].client == "client-02"
    assert names["strategy"].recording.path.name == "my-run"
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_fits_a_screen_and_its_make_targets_exist() -> None:
    assert README.count("\n") <= 75
    targets = re.findall(r"^    make (\w+)", README, flags=re.M)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}: " in (ROOT / "Makefile").read_text() for target in targets)


def test_every_measured_figure_of_the_readme_stands_in_the_page_of_its_command() -> None:
    """A page that is measured again takes the README with it."""
    section = README[README.index("## Measured") : README.index("## Not supported")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    pages = " ".join((ROOT / "docs" / page).read_text() for page in ("estimators.md", "detection.md"))
    for _, ours, peers, command in rows[2:]:
        assert command == "the same" or command.strip("`").removesuffix(" --scale full") in pages
        for figure in re.findall(r"\d[\d.e-]*", f"{ours} {peers}"):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", pages), figure


def test_the_reference_lists_the_porch_and_nothing_else() -> None:
    table = (ROOT / "docs" / "reference" / "python.md").read_text()
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == set(fl.__all__) - {"__version__"}


# ---- every name


def _simulated(run: Path) -> Any:
    return fl.read_run_log(run)


ESTIMATORS = (
    *("Auto", "ComFedSV", "Complementary", "Exact", "FedSV", "Gradient", "GTG"),
    *("MonteCarlo", "OneRound", "Shapiq", "Surrogate", "TruncatedMultiRound"),
)
USES: dict[str, Callable[[Path], object]] = {
    "AssessSettings": lambda run: fl.AssessSettings(estimator=fl.Exact(), utilities=("loss",)).record(),
    "AuditSettings": lambda run: fl.AuditSettings(fl.AssessSettings(), preset="strict").record(),
    "BudgetSettings": lambda run: fl.BudgetSettings(budget=0.5),
    "FLContribError": lambda run: issubclass(SettingsError, fl.FLContribError),
    "FunctionEvaluator": lambda run: fl.FunctionEvaluator(lambda state: {"dice": 1.0}, {"dice": "higher"}),
    "ModuleEvaluator": lambda run: fl.ModuleEvaluator(*live(run)),
    "RunRecorder": lambda run: fl.RunRecorder,
    "SimulationSettings": lambda run: fl.SimulationSettings(clients=3),
    "Workspace": lambda run: not list(fl.Workspace(run.parent / "workspace").runs()),
    "assess": lambda run: fl.assess(run, epochs=[1], utilities="loss").utilities == ("loss",),
    "assess_contributions": lambda run: fl.assess_contributions(_simulated(run), fl.AssessSettings()),
    "audit": lambda run: fl.audit(_simulated(run), fl.AuditSettings(), preset="strict").detection.preset == "strict",
    "change_points": lambda run: fl.change_points(np.zeros((5, 3))).shape == (5, 3),
    "check_run_log": lambda run: fl.check_run_log(run).ok,
    "choose_epochs": lambda run: (
        fl.choose_epochs(fl.scheduling_problem(_simulated(run)), fl.BudgetSettings(budget=2)).chosen
    ),
    "record": lambda run: fl.record(SimpleNamespace(configure_train=print, aggregate_train=print), "run").recording,
    "read_run_log": lambda run: _simulated(run).epoch_count == 5,
    "scheduling_problem": lambda run: fl.scheduling_problem(_simulated(run)).epoch_count == 5,
    "shapley_values": lambda run: fl.shapley_values(lambda s: s.sum(axis=1), players=["a", "b"]).players == ("a", "b"),
    "simulate": lambda run: run.exists(),  # the fixture's
    "verify": lambda run: fl.verify(str(fl.audit(run).write(run.parent / "r.html")[1]), _simulated(run)).equal,
    **{name: lambda run, name=name: isinstance(getattr(fl, name)(), BaseEstimator) for name in ESTIMATORS},
}


def live(run: Path) -> tuple[Any, Any]:
    """A module that fits the small run, and validation data for it."""
    import torch

    log = _simulated(run)
    shapes = [p.shape for p in log.parameters]
    layers = [torch.nn.Linear(shape[1], shape[0]) for shape in shapes if len(shape) == 2]
    inner = [part for layer in layers[:-1] for part in (layer, torch.nn.ReLU())]
    validation = log.validation()
    return torch.nn.Sequential(*inner, layers[-1]), (validation.x, validation.y)


@pytest.mark.parametrize("name", [name for name in fl.__all__ if name != "__version__"])
def test_every_name_of_the_porch_works(name: str, small_run: Path) -> None:
    assert USES[name](small_run)


def test_dir_lists_the_porch_and_a_wrong_name_says_what_there_is() -> None:
    assert set(dir(fl)) == set(fl.__all__)
    with pytest.raises(AttributeError, match=r"no 'adit'; it offers .*audit"):
        _ = fl.adit  # type: ignore[attr-defined]
    namespace: dict[str, object] = {}
    exec("from flcontrib_core import *", namespace)
    assert set(fl.__all__) <= set(namespace)


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert (ROOT / "flcontrib_core" / "py.typed").exists()


@pytest.mark.parametrize(
    "code",
    [
        "import flcontrib_core as fl; dir(fl)",
        "from flcontrib_core import RunRecorder",
        "import flcontrib_core.history, flcontrib_core.shapley, flcontrib_core.scheduling, flcontrib_core.games",
        "import flcontrib_core as fl; fl.shapley_values(lambda s: s.sum(axis=1), players=4)",
    ],
)
def test_the_porch_and_the_doors_are_light(code: str) -> None:
    heavy = ("torch", "streamlit", "pandas", "scipy", "sklearn", "plotly", "pyarrow", "tslearn", "pulp")
    ending = f"; import sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        python_command("-c", code + ending), env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ---- what the verbs take and refuse


def test_assess_takes_a_run_a_path_settings_and_options(small_run: Path) -> None:
    by_path = fl.assess(str(small_run), estimator="exact", weights="fixed", seed=3)
    settings = fl.AssessSettings(estimator=fl.Exact(), seed=3)
    by_run = fl.assess(_simulated(small_run), settings, weights="fixed", budget=None)
    assert np.array_equal(by_path.values, by_run.values)
    assert by_path.settings["estimator"] == "exact"
    with pytest.raises(SettingsError, match="no option colour"):
        fl.assess(small_run, colour="red")  # type: ignore[call-arg]
    with pytest.raises(SettingsError, match="values the run as a whole"):
        fl.assess(small_run, estimator=fl.OneRound(), budget=0.5)


def test_a_third_partys_estimator_works_unregistered_in_one_process_and_in_two(small_run: Path) -> None:
    theirs: EpochEstimator = EqualShares()
    alone = fl.assess(small_run, estimator=theirs)
    together = fl.assess(small_run, estimator=theirs, workers=2)
    assert np.array_equal(alone.values, together.values)
    assert set(alone.estimator[1:]) == {"equal-shares"}
    series = alone.of("loss")
    assert np.allclose(series.values[1:].sum(axis=1), series.increments[1:])
    assert fl.audit(small_run, estimator=theirs).provenance.settings["estimator"] == "equal-shares"


def test_the_empty_coalition_is_subtracted_and_several_utilities_keep_their_columns() -> None:
    w = np.array([[1.0, -1.0], [2.0, 0.5], [3.0, 0.0]])
    found = fl.shapley_values(lambda s: 10.0 + s @ w, players=("a", "b", "c"), utilities=("gain", "cost"))
    assert np.allclose(found.values, w)
    assert found.empty.tolist() == [10.0, 10.0]
    assert found.utilities == ("gain", "cost")
    assert "gain" in repr(found)


def test_many_players_get_an_interval_and_a_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.linspace(0, 1, 30)

    def game(coalitions: np.ndarray) -> np.ndarray:
        return np.sqrt(coalitions @ w)

    first, again = (fl.shapley_values(game, players=30, estimator=fl.Complementary(), seed=4) for _ in range(2))
    assert np.array_equal(first.values, again.values)
    assert (first.standard_errors > 0).any()
    assert "±" in repr(first)
    assert "10 more" in repr(first)
    assert np.isclose(fl.shapley_values(game, players=30).values.sum(), game(np.ones((1, 30), dtype=bool))[0])


@pytest.mark.parametrize(
    ("function", "players", "options", "message"),
    [
        (lambda s: 1.0, 3, {}, "shape \\(\\) for one coalition"),
        (lambda s: np.ones(7), 3, {}, "shape \\(7,\\) for one coalition"),
        (lambda s: np.full(len(s), np.nan), 3, {}, "for the empty coalition"),
        (lambda s: s.sum(axis=1), 0, {}, "at least one player"),
        (lambda s: s.sum(axis=1), 3, {"estimator": "shapely"}, "no estimator is called"),
        (lambda s: s.sum(axis=1), 3, {"estimator": "one-round"}, "run as a whole"),
        (lambda s: s.sum(axis=1), 3, {"estimator": fl.OneRound()}, "does not value a single game"),
    ],
)
def test_a_function_that_is_no_game_is_refused(
    function: Any, players: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        fl.shapley_values(function, players, **options)


def test_change_points_keep_the_form_of_a_frame_and_its_gaps() -> None:
    rng = np.random.default_rng(1)
    values = pd.DataFrame(rng.normal(size=(30, 5)), index=range(101, 131), columns=list("abcde"))
    values.loc[115:, "c"] += 9.0
    values.loc[[103, 104], "a"] = np.nan
    for series in ("relative", "increments"):
        probability = fl.change_points(values, series=series)
        assert probability.index.equals(values.index)
        assert probability.columns.equals(values.columns)
        assert probability["c"].to_numpy()[values.index.get_loc(115)] > 0.9
        assert probability["a"].isna().sum() == (4 if series == "relative" else 2)
    assert fl.change_points(values, series="cumulative")["c"].max() > 0.05
    for wrong, message in (([1.0, 2.0], "epochs × clients"), ([[np.inf]], "infinite")):
        with pytest.raises(SettingsError, match=message):
            fl.change_points(np.array(wrong))
    with pytest.raises(SettingsError, match="series is 'sideways'"):
        fl.change_points(values, series="sideways")


# ---- a live module


def test_a_live_module_gives_the_declared_models_values(small_run: Path) -> None:
    import torch

    module, pair = live(small_run)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.from_numpy(pair[0]), torch.from_numpy(pair[1])), batch_size=7
    )
    declared = fl.assess(small_run, estimator="exact")
    for data in (pair, loader):
        history = fl.assess(small_run, estimator="exact", evaluator=fl.ModuleEvaluator(module, data))
        assert np.allclose(history.values, declared.values, atol=1e-5)
    only_loss = fl.assess(small_run, evaluator=fl.ModuleEvaluator(module, pair, ["loss"]))
    assert only_loss.utilities == ("loss",)
    assert only_loss.settings["utilities"] == ["loss"]
    spread = fl.assess(small_run, evaluator=fl.ModuleEvaluator(module, pair), workers=2, epochs=[1, 2])
    assert np.allclose(spread.values[:3], declared.values[:3], atol=1e-5)


def test_a_module_of_another_model_is_refused(small_run: Path) -> None:
    import torch

    _, pair = live(small_run)
    other = torch.nn.Linear(pair[0].shape[1], 10)
    with pytest.raises(SettingsError, match="parameters are not those of"):
        fl.assess(small_run, evaluator=fl.ModuleEvaluator(other, pair))
    with pytest.raises(SettingsError, match="device 'warp' cannot be used here"):
        fl.ModuleEvaluator(other, pair, device="warp")
    for data in ([], [(pair[0],)], (pair[0], pair[1][:3])):
        with pytest.raises(SettingsError, match=r"\(x, y\)|one label a row"):
            fl.ModuleEvaluator(other, data)


def test_nothing_of_a_live_module_is_kept_for_another_one(small_run: Path, tmp_path: Path) -> None:
    """Two modules with the same parameters and another forward pass must not answer for each other."""
    import torch

    class Doubled(torch.nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    module, pair = live(small_run)
    workspace = fl.Workspace(tmp_path / "workspace")
    kept = {"checkpoints": workspace.checkpoints(), "memory": workspace.utility_memory()}
    run = _simulated(small_run)
    settings = fl.AssessSettings(estimator=fl.Exact())
    one, other = (
        fl.assess_contributions(run, settings, evaluator=fl.ModuleEvaluator(m, pair), **kept)
        for m in (module, Doubled(*module))
    )
    assert one.recalled == other.recalled == 0
    assert not np.allclose(one.of("loss").values, other.of("loss").values)


def test_token_ids_stay_integers(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(50, 6), torch.nn.Linear(6, 3)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens).mean(dim=1))

    tokens, labels = torch.randint(0, 50, (40, 5), dtype=torch.int32), torch.randint(0, 3, (40,))
    evaluator = fl.ModuleEvaluator(Text(), (tokens, labels))
    assert evaluator.validation.x.dtype == np.int32
    vector = np.zeros((1, evaluator.parameter_count), dtype=np.float32)
    assert np.isfinite(evaluator.evaluate(vector)[0]).all()


def test_without_a_model_the_message_names_the_module_evaluator(tmp_path: Path) -> None:
    start = {"w": np.zeros(3, np.float32)}
    with fl.RunRecorder(tmp_path / "bare", clients=[("a", 3), ("b", 4)], parameters=start, initial=start) as recorder:
        recorder.epoch({c: {"w": np.ones(3, np.float32)} for c in ("a", "b")})
    with pytest.raises(MissingPart, match="ModuleEvaluator"):
        fl.assess(tmp_path / "bare")

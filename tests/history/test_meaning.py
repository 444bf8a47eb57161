"""Does a log that means something else than it says get a word, and an honest one none?

The federation is trained here by plain torch; each test records it with one thing wrong.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sklearn.datasets import load_digits

from flcontrib_core.auditing import AuditSettings, audit
from flcontrib_core.commands.logs import check
from flcontrib_core.history import AssessSettings
from flcontrib_core.history.input_scale import scale_of_inputs
from flcontrib_core.history.meaning import LogMeaning, read_meaning
from flcontrib_core.history.trajectory import walk
from flcontrib_core.reports.as_json import audit_json
from flcontrib_core.runs import RunLog, RunRecorder, check_run_log, read_run_log
from flcontrib_core.runs.run_log import DishonestTruth, Truth
from flcontrib_core.words import headline, stands_on

ROOT = Path(__file__).parents[2]
EPOCHS, SIZES = 12, {"a": 300, "b": 500, "c": 400}


@dataclass
class Federation:
    """What a server saw: its model after each epoch, and each client's."""

    spec: dict[str, Any]
    names: list[str]
    shapes: list[tuple[int, ...]]
    models: list[np.ndarray]
    local: list[dict[str, np.ndarray]]
    x: np.ndarray
    y: np.ndarray


def flat(net: torch.nn.Module) -> np.ndarray:
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy().copy()


@pytest.fixture(scope="module")
def federation() -> Federation:
    return train(torch.optim.SGD, 0.3)


def train(optimiser_class: Any, rate: float, factor: float = 1 / 16) -> Federation:
    """``factor``: by which the clients multiply their inputs, and the validation rows as well."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10))
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) * factor, torch.tensor(digits.target)
    spec = {"input": [64], "layers": [
        {"op": "linear", "weight": "0.weight", "bias": "0.bias"}, {"op": "relu"},
        {"op": "linear", "weight": "2.weight", "bias": "2.bias"},
    ]}  # fmt: skip
    models, local = [flat(net)], []
    begins = dict(zip(SIZES, (0, 300, 800), strict=True))
    for _ in range(EPOCHS):
        trained = {}
        for client, size in SIZES.items():
            torch.nn.utils.vector_to_parameters(torch.tensor(models[-1]), net.parameters())
            optimiser = optimiser_class(net.parameters(), lr=rate)
            for batch in torch.arange(begins[client], begins[client] + size).split(32):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimiser.step()
            trained[client] = flat(net)
        local.append(trained)
        models.append(np.sum([SIZES[c] / 1200 * trained[c] for c in SIZES], axis=0).astype(np.float32))
    names = [n for n, _ in net.named_parameters()]
    shapes = [tuple(p.shape) for p in net.parameters()]
    return Federation(spec, names, shapes, models, local, x[1200:].numpy(), y[1200:].numpy())


def recorded(
    federation: Federation,
    path: Path,
    *,
    update: Any = lambda local, before: local - before,
    server: Any = None,
    initial: np.ndarray | None = None,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    metrics: Any = lambda t: {},
) -> LogMeaning:
    parameters = list(zip(federation.names, federation.shapes, strict=True))
    rows = (federation.x if x is None else x, federation.y if y is None else y)
    first = federation.models[0] if initial is None else initial
    with RunRecorder(path, clients=SIZES.items(), parameters=parameters, initial=first, model=federation.spec,
                     validation=rows, classes=10) as recorder:  # fmt: skip
        for t, trained in enumerate(federation.local):
            before = federation.models[t]
            updates = {c: update(model, before) for c, model in trained.items()}
            stored = None if server is None else server(trained, before)
            recorder.epoch(updates, global_model=stored, metrics=metrics(t))
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    return read_meaning(run)


def codes(meaning: LogMeaning) -> set[str]:
    return {w.code for w in meaning.warnings}


def test_an_honest_log_gets_its_curve_and_no_word(federation: Federation, tmp_path: Path) -> None:
    meaning = recorded(federation, tmp_path / "run")
    assert meaning.warnings == ()
    assert meaning.curve is not None
    assert meaning.curve.epochs == tuple(range(EPOCHS + 1))
    loss, accuracy = meaning.curve.loss, meaning.curve.accuracy
    assert accuracy[-1] is not None
    assert accuracy[-1] > 0.85
    net = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10))
    torch.nn.utils.vector_to_parameters(torch.tensor(federation.models[-1]), net.parameters())
    with torch.no_grad():
        logits = net(torch.tensor(federation.x))
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(federation.y))
    assert loss[-1] == pytest.approx(float(expected), rel=1e-4)


def test_the_sample_runs_get_no_word() -> None:
    for path in sorted((ROOT / "sample_runs").glob("*.flrun")):
        if check_run_log(path).ok:  # one of them is a lesson in faults
            run = read_run_log(path)
            assert isinstance(run, RunLog)
            assert read_meaning(run).warnings == (), path.name


def test_updates_that_start_from_another_model(federation: Federation, tmp_path: Path) -> None:
    torch.manual_seed(8)
    other = flat(torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10)))
    meaning = recorded(federation, tmp_path / "run", initial=other)
    assert "W_SLOPE" in codes(meaning)


def test_a_model_beyond_the_budget_is_read_in_part_or_not_at_all(federation: Federation, tmp_path: Path) -> None:
    whole = recorded(federation, tmp_path / "run").curve
    run = read_run_log(tmp_path / "run")
    assert isinstance(run, RunLog)
    rows = len(federation.y)
    part = read_meaning(run, most_work=4e3 * 20 * rows / 2)
    assert codes(part) == {"W_MODEL_COST"}
    assert part.curve is not None
    assert whole is not None
    assert part.curve.epochs[-1] == EPOCHS
    assert part.curve.accuracy[-1] == pytest.approx(whole.accuracy[-1], abs=0.15)
    none = read_meaning(run, most_work=1e4)
    assert none.curve is None
    assert codes(none) == {"W_MODEL_COST"}
    assert "not evaluated" in none.warnings[0].found


def test_the_verdict_says_which_checks_it_stands_on(federation: Federation, tmp_path: Path) -> None:
    recorded(federation, tmp_path / "right", metrics=lambda t: {})
    recorded(federation, tmp_path / "wrong", update=lambda local, before: before - local)
    told = {}
    for name in ("right", "wrong"):
        run = read_run_log(tmp_path / name)
        report = audit(run, AuditSettings(assess=AssessSettings(values=False)))
        told[name] = (headline(report), stands_on(report) or "", audit_json(report)["log_checks"])
    assert "in doubt" not in told["right"][0]
    assert "the rebuilt model learns" in told["right"][1]
    assert told["right"][2] == {
        "learns": "held", "slope": "held", "reading": "held", "metrics": "not-possible", "aggregate": "not-possible"
    }  # fmt: skip
    assert told["wrong"][0].startswith("The log is in doubt (")
    assert "another reading of it makes a better model" in told["wrong"][0]
    assert told["wrong"][2]["reading"] == "doubted"


def test_a_truth_that_the_verdicts_contradict_is_told() -> None:
    run = read_run_log(ROOT / "sample_runs" / "clean-iid.flrun")
    assert isinstance(run, RunLog)
    settings = AuditSettings(assess=AssessSettings(values=False))
    label = DishonestTruth(run.client_ids[1], ((2, 5),), "flip", None)
    (told,) = audit(replace(run, truth=Truth((label,))), settings).warnings
    assert (told.code, told.clients) == ("W_TRUTH", (run.client_ids[1],))
    assert told.found == f'truth names "{run.client_ids[1]}", the verdicts none'


def test_models_in_place_of_updates(federation: Federation, tmp_path: Path) -> None:
    meaning = recorded(federation, tmp_path / "run", update=lambda local, before: local)
    assert "W_UPDATE_MODEL" in codes(meaning)
    assert "W_UPDATE_SIGN" not in codes(meaning)


def test_a_wrong_sign(federation: Federation, tmp_path: Path) -> None:
    meaning = recorded(federation, tmp_path / "run", update=lambda local, before: before - local)
    assert codes(meaning) == {"W_SLOPE", "W_UPDATE_SIGN"}


def test_shifted_labels(federation: Federation, tmp_path: Path) -> None:
    meaning = recorded(federation, tmp_path / "run", y=(federation.y + 1) % 10)
    assert "W_LABEL_SHIFT" in codes(meaning)
    assert any("counted -1" in w.found for w in meaning.warnings)


def test_unscaled_inputs(federation: Federation, tmp_path: Path) -> None:
    wild = np.sin(np.arange(federation.x.size).reshape(federation.x.shape)).astype(np.float32)
    meaning = recorded(federation, tmp_path / "run", x=federation.x / 160)
    assert "W_INPUT_SCALE" in codes(meaning) or "W_NO_LEARNING" in codes(meaning)
    assert "W_NO_LEARNING" in codes(recorded(federation, tmp_path / "other", x=wild))


@pytest.mark.parametrize("factor", [16.0, 255.0, 1 / 16, 1 / 255])
def test_inputs_of_another_scale_are_told_with_the_factor(
    factor: float, federation: Federation, tmp_path: Path
) -> None:
    """Also where the model is as accurate on them, so that no curve shows it."""
    meaning = recorded(federation, tmp_path / "run", x=federation.x * np.float32(factor))
    told = [w.found for w in meaning.warnings if w.code == "W_INPUT_SCALE"]
    assert len(told) == 1
    named = float(told[0].split("about ")[1].split()[0])
    assert 1 / 3 < named / factor < 3


@pytest.mark.parametrize(
    ("optimiser", "rate", "factor"),
    [(torch.optim.SGD, 0.003, 1.0), (torch.optim.Adam, 0.003, 1.0), (torch.optim.Adam, 0.003, 1 / 16)],
)
def test_inputs_that_everybody_leaves_unscaled_get_no_word(
    optimiser: Any, rate: float, factor: float, tmp_path: Path
) -> None:
    assert codes(recorded(train(optimiser, rate, factor), tmp_path / "run")) == set()


def test_a_bias_before_a_normalisation_tells_no_scale(federation: Federation, tmp_path: Path) -> None:
    """What a bias adds is taken away again, so that it moves by rounding errors alone."""
    recorded(federation, tmp_path / "run", x=federation.x * np.float32(255))
    run = read_run_log(tmp_path / "run")
    assert isinstance(run, RunLog)
    gradient = np.ones(run.initial().size)
    step = next(iter(walk(run)))
    assert scale_of_inputs(run, step, gradient) is not None
    first, *rest = federation.spec["layers"]
    normed = {"input": [64], "layers": [first, {"op": "layer_norm", "shape": [24]}, *rest]}
    assert scale_of_inputs(replace(run, model=normed), step, gradient) is None
    without_bias = {"input": [64], "layers": [{"op": "linear", "weight": "0.weight"}, *rest]}
    assert scale_of_inputs(replace(run, model=without_bias), step, gradient) is None


def test_a_wrong_initial_model(federation: Federation, tmp_path: Path) -> None:
    other = np.random.default_rng(0).normal(size=federation.models[0].size).astype(np.float32)
    meaning = recorded(federation, tmp_path / "run", initial=other, server=lambda trained, before: sum(
        SIZES[c] / 1200 * trained[c] for c in SIZES).astype(np.float32))  # fmt: skip
    (rule,) = [w for w in meaning.warnings if w.code == "W_AGGREGATE_RULE"]
    assert "another initial model" in rule.found
    assert rule.where == "epoch 1"


def test_a_server_that_steps_by_a_rule_of_its_own_is_not_told_of_another_initial_model(
    federation: Federation, tmp_path: Path
) -> None:
    """An adaptive server's step has lengths of its own, in the first epoch as in the others."""

    def adaptive(trained: dict[str, np.ndarray], before: np.ndarray) -> np.ndarray:
        step = sum(SIZES[c] / 1200 * trained[c] for c in SIZES) - before
        return np.asarray(before + 0.01 * step / (np.abs(step) + 1e-3), dtype=np.float32)

    meaning = recorded(federation, tmp_path / "run", server=adaptive)
    assert [w.found for w in meaning.warnings if w.code == "W_AGGREGATE_RULE"] == []


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (lambda trained, before: np.mean(list(trained.values()), axis=0), "count equally"),
        (lambda trained, before: before + 0.5 * (np.mean([trained["a"]], axis=0) - before), "other weights"),
        (
            lambda trained, before: before + 0.5 * (sum(SIZES[c] / 1200 * trained[c] for c in SIZES) - before),
            "0.5 times the weighted mean",
        ),
    ],
)
def test_what_would_reconcile_updates_and_server(
    federation: Federation, tmp_path: Path, server: Any, words: str
) -> None:
    meaning = recorded(federation, tmp_path / "run", server=lambda t, b: np.asarray(server(t, b), dtype=np.float32))
    rules = [w.found for w in meaning.warnings if w.code == "W_AGGREGATE_RULE"]
    assert any(words in rule for rule in rules), rules


def test_metrics_that_the_rebuilt_model_contradicts(federation: Federation, tmp_path: Path) -> None:
    meaning = recorded(federation, tmp_path / "run", metrics=lambda t: {"server/accuracy": 0.05})
    assert codes(meaning) == {"W_METRICS"}


def test_check_shows_the_curve_and_the_warnings(federation: Federation, tmp_path: Path) -> None:
    recorded(federation, tmp_path / "run", update=lambda local, before: before - local)
    told = json.loads(CliRunner().invoke(check, [str(tmp_path / "run"), "--json"]).stdout)
    assert told["ok"] is True
    assert told["warnings"] == [], "the log itself is sound"
    assert [w["code"] for w in told["model"]["warnings"]] == ["W_SLOPE", "W_UPDATE_SIGN"]
    assert len(told["model"]["loss"]) == len(told["model"]["accuracy"]) == EPOCHS + 1
    text = CliRunner().invoke(check, [str(tmp_path / "run")])
    assert "the global model, rebuilt from the log" in text.stdout
    assert "wrong sign" not in text.stdout
    assert "Turn the sign" in text.stderr
    plain = json.loads(CliRunner().invoke(check, [str(tmp_path / "run"), "--json", "--no-model"]).stdout)
    assert plain["model"] is None


def test_updates_alone_are_looked_at_too(tmp_path: Path) -> None:
    start = np.random.default_rng(1).normal(size=50).astype(np.float32)
    with RunRecorder(tmp_path / "r", clients=[("a", 1), ("b", 1)], parameters=[("w", (50,))], initial=start) as rec:
        rec.epoch({"a": start * 1.01, "b": start * 0.98})
    run = read_run_log(tmp_path / "r")
    assert isinstance(run, RunLog)
    meaning = read_meaning(run)
    assert meaning.curve is None
    assert codes(meaning) == {"W_UPDATE_MODEL"}

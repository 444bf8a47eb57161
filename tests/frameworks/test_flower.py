"""Is a real Flower federation recorded by the README's line, whatever its sites do?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import flcontrib_core as fl
from flcontrib_core.history import read_meaning
from flcontrib_core.reports.extract import extract_json
from flcontrib_core.runs import RunLog
from flcontrib_core.workspace import Workspace
from tests.frameworks.conftest import RunScript

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "flower" / "digits" / "server_app.py").read_text()


def opened(path: Path) -> RunLog:
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def test_the_examples_line_is_the_readmes() -> None:
    (line,) = re.findall(r"^strategy = .*record\(.*$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert EXAMPLE.count("flcontrib_core.record") == 1
    assert f"    {line}\n" in EXAMPLE


def test_an_attack_an_impersonation_a_late_joiner_and_a_crash(run_script: RunScript) -> None:
    run = opened(run_script("flower_federation.py") / "my-run")
    stranger = next(name for name in run.client_ids if name.startswith("hospital-0 (node "))
    assert sorted(set(run.client_ids) - {stranger}) == [f"hospital-{i}" for i in (0, 1, 2, 3, 4, 5, 7)]
    took_part = {name: run.participated()[1:, i] for i, name in enumerate(run.client_ids)}
    assert not took_part["hospital-7"][:3].any()
    assert took_part["hospital-7"][3:].all()
    assert took_part["hospital-0"].all()
    (failed,) = [f for f in run.epochs[2].failed if f.client == "hospital-2"]
    assert failed.reason.endswith("no power in 'ward 2'"), "the last line of a long coloured trace"
    assert run.classes == 10, "from the model's logits"
    assert {m for e in run.epochs for m in e.metrics} == {"evaluate/accuracy"}
    assert run.epochs[-1].metrics["evaluate/accuracy"] > 0.8

    claims = [(e.epoch, claim) for e in run.epochs for claim in e.claims]
    assert [epoch for epoch, _ in claims] == list(range(2, 21))
    assert {(c.kind, c.client, c.claimed) for _, c in claims} == {("taken", stranger, "hospital-0")}
    assert [w.code for w in run.warnings] == ["W_IDENTITY"]

    report = fl.audit(run)
    accused = {alert.client for alert in report.detection.alerts if alert.accuses}
    assert accused == {"hospital-5"}, "nobody else, whatever name it gave"
    first, last = next(a.window for a in report.detection.alerts if a.client == "hospital-5") or (0, 0)
    assert first <= 9
    assert last >= 13
    hashes = {row["sha256"] for row in extract_json(report, "hospital-0", run)["updates"]["rows"]}
    assert len(hashes) == 20
    assert not hashes & {claim.update for _, claim in claims}, "no update that hospital-0 did not send"
    assert {claim.other_update for _, claim in claims} < hashes


@pytest.fixture(scope="module")
def interfaces(run_script_once: RunScript) -> Path:
    return run_script_once("flower_interfaces.py", "messages-FedAdam-FedAvg-verdict", "fit-FedAvg")


@pytest.mark.parametrize("federation", ["messages-FedAdam", "messages-FedAvg", "fit-FedAvg"])
def test_both_interfaces_and_a_server_optimiser(interfaces: Path, federation: str) -> None:
    check_tiny_federation(interfaces, federation)


def test_a_verdict_takes_weight_from_the_rounds_after_it(interfaces: Path) -> None:
    run = opened(interfaces / "messages-verdict")
    assert [e.participants for e in run.epochs] == [(0, 1, 2), (0, 1), (0, 1, 2)], "recorded as they came"
    # Round 1 as ever, with sizes 1, 2, 3; site-1 alone in round 2, where site-2 fails; then 1 of site-1, 3 of site-2.
    expected = (1 * 1 + 2 * 2 + 3 * 3) / 6 + (1 + 2) + (1 * (1 + 3) + 3 * (2 + 3)) / 4
    np.testing.assert_allclose(np.load(interfaces / "messages-verdict-end.npy"), expected, rtol=1e-6)
    np.testing.assert_allclose(run.epoch_data(3).global_model, expected, rtol=1e-6)


@pytest.mark.slow
def test_a_server_optimiser_in_the_older_interface(run_script: RunScript) -> None:
    check_tiny_federation(run_script("flower_interfaces.py", "fit-FedAdam"), "fit-FedAdam")


def check_tiny_federation(interfaces: Path, federation: str) -> None:
    run = opened(interfaces / federation)
    assert [e.participants for e in run.epochs] == [(0, 1, 2), (0, 1), (0, 1, 2)]
    assert [f.client for f in run.epochs[1].failed] == ["site-2"]
    for epoch, entry in enumerate(run.epochs, start=1):
        expected = np.tile(np.array(entry.participants)[:, None] + epoch, (1, 4))
        np.testing.assert_allclose(run.epoch_data(epoch).updates, expected, atol=1e-5)
        assert entry.data_sizes == tuple(c + 1 for c in entry.participants)
        assert entry.has_global == federation.endswith("FedAdam"), "only a server optimiser's model has to be stored"
    data = run.epoch_data(3)
    rebuilt = run.initial() + sum(
        np.array(e.data_sizes) / sum(e.data_sizes) @ run.epoch_data(e.epoch).updates for e in run.epochs
    )
    ended = rebuilt if data.global_model is None else data.global_model
    np.testing.assert_allclose(ended, np.load(interfaces / f"{federation}-end.npy"), atol=1e-5)
    assert run.manifest["source"]["framework"].startswith("flower ")


@pytest.fixture(scope="module")
def meanings(run_script_once: RunScript) -> Path:
    return run_script_once("flower_meanings.py")


@pytest.mark.parametrize(
    ("kind", "code"),
    [("right", None), ("negated", "W_SLOPE"), ("models", "W_UPDATE_MODEL"), ("unscaled", "W_INPUT_SCALE")],
)
def test_a_wrong_meaning_is_remarked(meanings: Path, kind: str, code: str | None) -> None:
    told = read_meaning(opened(meanings / kind))
    assert told.curve is not None
    assert len(told.curve.epochs) == 5
    assert {problem.code for problem in told.warnings} >= ({code} if code else set())
    assert code or not told.warnings


@pytest.mark.parametrize(
    ("kind", "code"), [("dense", "E_MODEL_SHAPE"), ("adapter", "E_MODEL_NAME"), ("too large", "E_MODEL_SIZE")]
)
def test_what_no_reader_would_take_is_refused_before_the_first_round(meanings: Path, kind: str, code: str) -> None:
    told = json.loads((meanings / "refused.json").read_text())[kind]
    assert code in told["words"]
    assert not told["rounds"], "before anybody trains"


def test_epochs_are_written_beside_the_training_and_in_half_the_room_on_request(meanings: Path) -> None:
    told = json.loads((meanings / "threads.json").read_text())
    assert told["writers"] == ["flcontrib recording"] != [told["main"]]
    whole, half = ((meanings / kind / "epochs" / "00001.safetensors").stat().st_size for kind in ("models", "right"))
    assert half < 0.6 * whole


def test_a_module_of_ones_own_is_never_given_anothers_values(meanings: Path, tmp_path: Path) -> None:
    run = opened(meanings / "updates-alone")
    assert run.model is None
    memory = Workspace(tmp_path / "workspace").utility_memory()
    rows, labels = load_digits(return_X_y=True)
    data = [(torch.tensor(rows[:200] / 16, dtype=torch.float32), torch.tensor(labels[:200]))]

    def totals(activation: torch.nn.Module) -> np.ndarray:
        net = torch.nn.Sequential(torch.nn.Linear(64, 32), activation, torch.nn.Linear(32, 10))
        found = fl.assess_contributions(run, evaluator=fl.ModuleEvaluator(net, data), memory=memory)
        return found.totals("loss")

    first, other = totals(torch.nn.ReLU()), totals(torch.nn.Tanh())
    assert not np.allclose(first, other), "the same shapes, another module"
    np.testing.assert_array_equal(totals(torch.nn.ReLU()), first)

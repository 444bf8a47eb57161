"""Does the guard make a better model where labels are flipped, and leave an honest training alone to the bit?"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from flcontrib_core.detection import Guard
from flcontrib_core.runs import RunLog, read_run_log, record

SITES, ROUNDS = 8, 16
FLIPPING = {1, 4}
NAMES = [f"site-{i}" for i in range(SITES)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Models this small: torch's threads would only wait for each other, long on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.ReLU(), torch.nn.Linear(24, 10))


@cache
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(2))
    return (torch.tensor(digits.data, dtype=torch.float32) / 16)[order], torch.tensor(digits.target)[order]


def as_record(state: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: SimpleNamespace(numpy=lambda t=tensor: t.numpy().copy()) for name, tensor in state.items()}


class Mean:
    """FedAvg in the shape of Flower's message interface."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        return [SimpleNamespace(metadata=SimpleNamespace(dst_node_id=node)) for node in range(SITES)]

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        self.weights = [r.content.metric_records["metrics"]["num-examples"] for r in replies]
        states = [{n: a.numpy() for n, a in r.content.array_records["arrays"].items()} for r in replies]
        mean = {n: np.average([s[n] for s in states], axis=0, weights=self.weights) for n in states[0]}
        return as_record({n: torch.tensor(a.astype(np.float32)) for n, a in mean.items()}), {}


def train(strategy: Any, flips: bool, rounds: int = ROUNDS) -> dict[str, torch.Tensor]:
    x, y = rows()
    x, y = x[500:], y[500:]
    net = make_net()
    state = {n: t.clone() for n, t in net.state_dict().items()}
    for number in range(1, rounds + 1):
        strategy.configure_train(number, as_record(state), {}, None)
        replies = []
        for site in range(SITES):
            net.load_state_dict(state)
            own, labels = x[site::SITES], y[site::SITES]
            if flips and site in FLIPPING and number >= 11:
                labels = (labels + 1) % 10
            optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
            order = torch.randperm(len(own), generator=torch.Generator().manual_seed(100 * number + site))
            for batch in order.split(32):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(net(own[batch]), labels[batch]).backward()
                optimiser.step()
            content = SimpleNamespace(
                array_records={"arrays": as_record({n: t.clone() for n, t in net.state_dict().items()})},
                metric_records={"metrics": {"num-examples": len(own)}},
                config_records={"who": {"client-id": NAMES[site]}},
            )
            metadata = SimpleNamespace(src_node_id=site)
            replies.append(SimpleNamespace(metadata=metadata, has_error=lambda: False, content=content))
        arrays, _ = strategy.aggregate_train(number, replies)
        state = {n: torch.tensor(a.numpy()) for n, a in arrays.items()}
    if hasattr(strategy, "recording"):
        strategy.recording.finish()
    return state


def loss(state: dict[str, torch.Tensor]) -> float:
    x, y = rows()
    net = make_net()
    net.load_state_dict(state)
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(net(x[250:500]), y[250:500]))


def recorded(path: Path, on_verdict: Any) -> Any:
    x, y = rows()
    return record(Mean(), path, model=make_net(), validation=(x[:250], y[:250]), on_verdict=on_verdict)


def verdicts(path: Path) -> list[dict[str, float]]:
    lines = (path / "epochs.jsonl").read_text().splitlines()
    return [json.loads(line)["source"].get("verdict", {}) for line in lines]


def test_flipped_labels_do_less_harm_under_the_guard(tmp_path: Path) -> None:
    without = loss(train(Mean(), flips=True))
    guarded = loss(train(recorded(tmp_path / "guarded", Guard()), flips=True))
    assert guarded < 0.85 * without
    left_out = {name for verdict in verdicts(tmp_path / "guarded") for name in verdict}
    assert left_out == {NAMES[i] for i in FLIPPING}, "and nobody else"
    run = read_run_log(tmp_path / "guarded")
    assert isinstance(run, RunLog)
    assert run.participated()[1:].all(), "what was left out is recorded all the same"


def test_an_honest_training_is_the_same_to_the_bit(tmp_path: Path) -> None:
    without = train(Mean(), flips=False, rounds=12)
    guarded = train(recorded(tmp_path / "guarded", Guard()), flips=False, rounds=12)
    assert all(torch.equal(without[name], guarded[name]) for name in without)


def test_a_verdict_of_ones_own_takes_weight_from_the_next_round(tmp_path: Path) -> None:
    seen: list[Path] = []

    def verdict(path: Path) -> dict[str, float]:
        seen.append(path)
        return {"site-3": 0.25, "site-5": 0.0, "nobody": 0.0}

    strategy = recorded(tmp_path / "run", verdict)
    train(strategy, flips=False, rounds=2)
    assert seen == [tmp_path / "run"] * 2
    assert verdicts(tmp_path / "run") == [{}, {"site-3": 0.25, "site-5": 0.0}]
    run = read_run_log(tmp_path / "run")
    assert isinstance(run, RunLog)
    sizes = list(run.epochs[1].data_sizes)
    assert strategy.weights == [n / 4 if i == 3 else n for i, n in enumerate(sizes) if i != 5]
    assert [e.has_global for e in run.epochs] == [False, True], "the server's model is no longer the plain mean"
    updates = run.epoch_data(2).updates[[i for i in range(SITES) if i != 5]]
    before = run.initial() + np.average(run.epoch_data(1).updates, axis=0, weights=sizes)
    expected = before + np.average(updates, axis=0, weights=strategy.weights)
    np.testing.assert_allclose(run.epoch_data(2).global_model, expected, atol=1e-5)


@pytest.mark.parametrize("answer", [RuntimeError("no verdict today"), "site-1", {"site-1": -1.0}])
def test_without_a_usable_verdict_everybody_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    def verdict(path: Path) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with caplog.at_level(logging.ERROR, "flcontrib"):
        train(recorded(tmp_path / "run", verdict), flips=False, rounds=2)
    assert "every client counts in full" in caplog.text
    assert verdicts(tmp_path / "run") == [{}, {}]

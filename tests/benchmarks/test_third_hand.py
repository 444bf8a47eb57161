"""The third maker of labelled runs: what it says of a run is what happened in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.third_hand import nets
from benchmarks.third_hand.chance import stream
from benchmarks.third_hand.federation import Rounds, make_run
from benchmarks.third_hand.plans import Federation, MissingData, draw
from flcontrib_core import read_run_log
from flcontrib_core.runs import RunLog


@pytest.fixture(autouse=True)
def without_the_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLCONTRIB_DATA", raising=False)


def drawn(wanted: Callable[[Federation], bool]) -> Iterator[tuple[int, Federation]]:
    """Small federations of this kind from data that is everywhere, with their numbers."""
    for number in range(500):
        try:
            federation = draw("development", number)
        except MissingData:
            continue
        small = federation.setup["epochs"] * federation.setup["rows"] * federation.setup["local_epochs"] < 60_000
        if small and "cnn" not in federation.setup["net"] and wanted(federation):
            yield number, federation


def attacked(federation: Federation) -> bool:
    return federation.kind == "attacked"


def test_the_truth_beside_a_log_speaks_of_that_log(tmp_path: Path) -> None:
    number, _ = next(drawn(attacked))
    assert make_run(tmp_path, "development", number)
    folder = tmp_path / f"development-{number}"
    truth, log = json.loads((folder / "truth.json").read_text()), read_run_log(folder / "log.flrun")
    assert isinstance(log, RunLog)
    assert truth["kind"] == "attacked"
    assert log.truth is None
    ids = [client.id for client in log.clients]
    assert len(ids) == truth["setup"]["clients"]
    assert len(log.epochs) == truth["setup"]["epochs"] == len(truth["setup"]["accuracy"])
    assert truth["attackers"]
    for attacker in truth["attackers"]:
        own = ids.index(attacker["client"])
        there = {epoch.epoch for epoch in log.epochs if own in epoch.participants}
        assert attacker["acts"]
        assert set(attacker["acts"]) <= there
    assert {a["client"] for a in truth["attackers"]}.isdisjoint(c["client"] for c in truth["changes"])


def test_a_number_is_one_run_and_is_made_once(tmp_path: Path) -> None:
    number, _ = next(drawn(lambda f: f.kind == "changing"))
    assert make_run(tmp_path / "a", "development", number)
    assert make_run(tmp_path / "b", "development", number)
    assert not make_run(tmp_path / "a", "development", number)
    first, second = (tmp_path / out / f"development-{number}" / "log.flrun" for out in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_attackers_and_nobody_else_leave_the_honest_course() -> None:
    """Up to the first act the run is the same with and without the attack; in it, only the attackers' rows differ."""
    _, federation = next(drawn(attacked))
    for real, honest in zip(Rounds(federation), Rounds(replace(federation, attacks=[])), strict=True):
        assert real.participants == honest.participants
        same = [bool(np.allclose(a, b, atol=1e-6)) for a, b in zip(real.updates, honest.updates, strict=True)]
        assert same == [c not in real.attacked for c in real.participants]
        if real.attacked:
            return
    pytest.fail("nobody attacked")


@pytest.mark.parametrize("shape", [(20,), (1, 8, 8)])
def test_many_clients_at_once_compute_what_each_would_alone(shape: tuple[int, ...]) -> None:
    for n in range(12):
        _, net = nets.build(stream("net", n), shape, 4, n)
        rows = torch.from_numpy(stream("rows", n).normal(size=(3, 5, *shape)).astype(np.float32))
        base = nets.flat(net)
        weights = torch.stack([base, base * 0.5, base + 0.1])
        together = nets.logits(net, weights, rows)
        for own, x, out in zip(weights, rows, together, strict=True):
            torch.nn.utils.vector_to_parameters(own, net.parameters())
            assert torch.allclose(net(x), out, atol=1e-4)

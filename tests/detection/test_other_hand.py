"""The examiner's federations: what is drawn is recorded as it says, and the counting counts what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.other_hand import scoring
from benchmarks.other_hand.attacks import ATTACKS, Attack, Knowledge, crafted
from benchmarks.other_hand.changes import CHANGES, Change
from benchmarks.other_hand.draws import Setup, draw
from benchmarks.other_hand.federation import make_run
from benchmarks.other_hand.nets import NumpyNet, make_net, soft
from benchmarks.other_hand.pools import MADE_UP, PACKAGED
from benchmarks.other_hand.splits import SPLITS, split_rows
from flcontrib_core.history.meaning import read_meaning
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

POOLS = (*PACKAGED, *MADE_UP)


def small(**changed: Any) -> Setup:
    setup = replace(draw(0, POOLS), pool="wine", net="softmax", clients=5, epochs=4, participation=1.0, failing=0.0)
    return replace(setup, kind="honest", with_rows=True, changes=[], attacks=[], **changed)


def test_a_seed_is_one_federation_and_its_log_tells_no_truth(tmp_path: Path) -> None:
    attack = Attack("sign-flip", [2], [[2, 3]], 1.0)
    setup = replace(small(), kind="attacked", attacks=[attack], changes=[Change(0, "growing", 1, 4, 0.5)])
    truth = make_run(setup, tmp_path / "one")
    make_run(setup, tmp_path / "two")
    log, again = (read_run_log(tmp_path / name / "log.flrun") for name in ("one", "two"))
    assert log.digest == again.digest
    assert isinstance(log, RunLog)
    assert log.truth is None
    assert [a["acts"] for a in truth["attackers"]] == [[2, 3]]
    assert truth == json.loads((tmp_path / "one" / "truth.json").read_text())


@pytest.mark.parametrize(("pool", "net"), [("wine", "mlp"), ("shapes", "cnn-norm")])
def test_the_recorded_model_is_the_one_that_was_trained(pool: str, net: str, tmp_path: Path) -> None:
    """The log's own evaluation gives the losses that the training saw."""
    truth = make_run(replace(small(), pool=pool, net=net, width=4), tmp_path / "run")
    log = read_run_log(tmp_path / "run" / "log.flrun")
    assert isinstance(log, RunLog)
    curve = read_meaning(log).curve  # takes the loss's slope too, through running statistics
    assert curve is not None
    np.testing.assert_allclose(
        np.array(curve.loss, dtype=float), [score["loss"] for score in truth["scores"]], rtol=1e-3
    )


def test_draws_reach_every_attack_change_and_split() -> None:
    setups = [draw(seed, POOLS) for seed in range(900)]
    assert {a.what for s in setups for a in s.attacks} == set(ATTACKS)
    assert {c.what for s in setups for c in s.changes} == set(CHANGES)
    assert {s.split for s in setups} == set(SPLITS)
    assert all(1 <= a <= b <= s.epochs for s in setups for attack in s.attacks for a, b in attack.windows)
    assert all(2 * len(attack.sites) < s.clients for s in setups for attack in s.attacks)


def test_the_written_out_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    net, x, y = NumpyNet([5, 4, 3], "tanh"), rng.normal(size=(7, 5)), rng.integers(0, 3, size=7)
    w = net.initial(rng).astype("float64")

    def loss(at: np.ndarray[Any, Any]) -> float:
        return float(-np.log(soft(net.logits(at, x))[np.arange(7), y]).mean())

    steps = 1e-6 * np.eye(w.size)
    slope = [(loss(w + s) - loss(w - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(net.gradient(w, x, y), slope, atol=1e-7)


@pytest.mark.parametrize("how", SPLITS)
def test_every_site_has_rows(how: str) -> None:
    rng = np.random.default_rng(1)
    pool = MADE_UP["interactions"](rng)
    assert min(len(part) for part in split_rows(pool, how, 0.1, 12, rng)) >= 8


def test_attackers_within_bounds_stay_within_them() -> None:
    rng = np.random.default_rng(2)
    others = rng.normal(1.0, 0.3, size=(6, 50))
    knows = Knowledge(others[0], others, others[0], [], [], 0.2)
    sent = crafted(Attack("min-max", [0], [[1, 1]], 1.0), knows, 1, rng)
    farthest = np.linalg.norm(others[:, None] - others[None], axis=2).max()
    assert np.linalg.norm(others - sent, axis=1).max() == pytest.approx(farthest, rel=1e-3)
    assert np.all(crafted(Attack("zero", [0], [[1, 1]], 1.0), knows, 1, rng) == 0)


def alert(client: str, window: list[int] | None, accuses: bool = True) -> dict[str, Any]:
    return {"client": client, "window": window, "accuses": accuses, "verdict": "poisoning-window", "probability": 0.9}


def test_the_count_of_accused_innocents_and_found_attackers() -> None:
    attacker = {"client": "b", "attack": "zero", "acts": [5, 6], "took_part": [4, 5, 6, 7], "windows": [[5, 6]]}
    absent = {**attacker, "client": "c", "acts": []}
    truth = {"attackers": [attacker, absent], "changed": []}
    outside, inside = (
        {"alerts": [alert("b", [1, 3])]},
        {"alerts": [alert("b", [6, 7]), alert("a", [1, 2], accuses=False)]},
    )
    wrong = {"alerts": [alert("a", None), alert("c", [5, 6])]}
    pairs = [(truth, answer) for answer in (outside, inside, wrong)]
    assert scoring.wrongly_accused_runs(pairs) == (1, 3)
    assert scoring.found(pairs) == (1, 3)
    assert scoring.found(pairs, lambda a: a["attack"] != "zero") == (0, 0)
    assert scoring.overlaps(pairs) == [pytest.approx(1 / 3)]
    assert scoring.interval(0, 20)[1] == pytest.approx(0.168, abs=1e-3)


def test_models_of_every_kind_can_be_made() -> None:
    rng = np.random.default_rng(3)
    net = make_net("cnn-norm", (1, 8, 8), 4, 3, rng)
    before = net.initial(rng)
    moved = before.copy()
    slope = net.gradient(moved, rng.normal(size=(6, 1, 8, 8)).astype("float32"), np.array([0, 1, 2, 0, 1, 2]))
    assert np.all(slope[~net.trainable] == 0)
    assert not np.array_equal(moved[~net.trainable], before[~net.trainable])

"""Do honest difficulties touch honest clients only, and as described?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.laboratory.simulation import SimulationSettings
from flcontrib_core.laboratory.simulation.difficulties import Difficulties
from flcontrib_core.laboratory.simulation.settings import DifficultyKind
from flcontrib_core.laboratory.simulation.training import prepare, train

BASE = SimulationSettings(clients=8, epochs=40, train_rows=400, validation_rows=60, hidden=(4,), seed=2)


def test_dishonest_clients_have_no_excuse() -> None:
    for kind in DifficultyKind:
        federation = prepare(replace(BASE, difficulty=kind, attack="zero", dishonest=3))
        assert not federation.difficulties.affected & federation.attackers.dishonest
        assert bool(federation.difficulties.affected) == (kind is not DifficultyKind.NONE)


def test_low_quality_labels_stay_wrong_over_the_whole_run() -> None:
    difficulties = Difficulties.choose(replace(BASE, difficulty="low-quality", difficulty_clients=3), 10, frozenset())
    assert len(difficulties.affected) == 3
    rows, labels = np.arange(4000), np.tile(np.arange(10), 400)
    client = min(difficulties.affected)
    _, first = difficulties.data(client, 1, rows, labels)
    _, last = difficulties.data(client, 40, rows, labels)
    np.testing.assert_array_equal(first, last)
    assert (first != labels).mean() == pytest.approx(0.3, abs=0.03)
    unaffected = min(set(range(8)) - difficulties.affected)
    np.testing.assert_array_equal(difficulties.data(unaffected, 1, rows, labels)[1], labels)


def test_drift_moves_the_class_mix_step_by_step_and_keeps_labels_true() -> None:
    difficulties = Difficulties.choose(replace(BASE, difficulty="drift"), 10, frozenset())
    rows, labels = np.arange(500), np.tile(np.arange(10), 50)
    client = min(difficulties.affected)
    start = difficulties.drift_start(client)
    assert 14 <= start <= 26
    overall = np.bincount(labels, minlength=10) / 500

    def distance(epoch: int) -> float:
        taken, own = difficulties.data(client, epoch, rows, labels)
        np.testing.assert_array_equal(own, labels[taken])
        assert len(own) == 500
        return float(np.abs(np.bincount(own, minlength=10) / 500 - overall).sum() / 2)

    assert distance(start - 1) == 0
    assert 0 < distance(start) < distance(start + 3) < distance(start + 8)
    assert distance(start + 8) == distance(40) > 0.3


def test_rare_clients_are_seldom_asked() -> None:
    federation = prepare(replace(BASE, difficulty="rare", difficulty_strength=0.2, difficulty_clients=2))
    counts = np.zeros(8)
    for epoch in train(federation):
        assert epoch.asked == epoch.participants
        counts[list(epoch.participants)] += 1
    rare = sorted(federation.difficulties.affected)
    assert (counts[rare] <= 16).all()
    assert (np.delete(counts, rare) == 40).all()


def test_drop_outs_are_asked_and_missing() -> None:
    missing, asked = 0, 0
    for epoch in train(prepare(replace(BASE, difficulty="drop-out", participation=0.5))):
        assert len(epoch.asked) == 4
        assert set(epoch.participants) <= set(epoch.asked)
        assert len(epoch.participants) >= 1
        asked, missing = asked + 4, missing + 4 - len(epoch.participants)
    assert missing / asked == pytest.approx(0.2, abs=0.08)


def test_somebody_always_answers() -> None:
    for kind in ("drop-out", "rare"):
        strength = 1.0 if kind == "drop-out" else 0.0
        settings = replace(BASE, difficulty=kind, difficulty_strength=strength, difficulty_clients=8, epochs=3)
        assert all(len(epoch.participants) == 1 for epoch in train(prepare(settings)))


def test_participation_and_a_first_epoch_with_everybody() -> None:
    settings = replace(BASE, clients=10, participation=0.3, first_epoch_all=True, epochs=30)
    epochs = list(train(prepare(settings)))
    assert [len(e.participants) for e in epochs] == [10] + [3] * 29
    counts = np.bincount([c for e in epochs[1:] for c in e.participants], minlength=10)
    assert counts.min() >= 3

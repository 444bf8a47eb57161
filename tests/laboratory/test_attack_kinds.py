"""Does each attack do what its paper says, measured from outside?"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.laboratory.simulation import AttackKind, SimulationSettings
from flcontrib_core.laboratory.simulation.attacks import ATTACKS, with_trigger
from flcontrib_core.laboratory.simulation.attacks.backdoors import trigger_columns
from flcontrib_core.laboratory.simulation.attacks.crafted import krum_choice
from flcontrib_core.laboratory.simulation.behaviour import Memory
from flcontrib_core.laboratory.simulation.local_updates import _sites
from flcontrib_core.laboratory.simulation.training import Federation, SimulatedEpoch, prepare, train, validation_losses

HONEST = SimulationSettings(clients=8, epochs=5, train_rows=640, validation_rows=200, hidden=(8,), batch=8, seed=4)
FIRST = 3


def attacked(kind: str, **settings: object) -> tuple[Federation, list[SimulatedEpoch], list[int]]:
    given = {"dishonest": 2, "windows": ((FIRST, 4),), **settings}
    federation = prepare(replace(HONEST, attack=AttackKind(kind), **given))  # type: ignore[arg-type]
    return federation, list(train(federation)), sorted(federation.attackers.dishonest)


def parts(epochs: list[SimulatedEpoch], bad: list[int], epoch: int = FIRST) -> tuple[np.ndarray, np.ndarray]:
    """What the attackers and what the others sent, in double precision."""
    updates = epochs[epoch - 1].updates.astype(np.float64)
    return updates[bad], np.delete(updates, bad, axis=0)


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(a[:, None] - b[None], axis=2))


FLPOISON = [
    "neurotoxin",
    "edge-case",
    "model-replacement",
    "alternating",
    "distributed-backdoor",
    "backdoor",
    "label-flip",
    "mimic",
    "min-max",
    "min-sum",
    "fang-trim",
    "inner-product",
    "alie",
    "sign-flip",
    "pure-noise",
]


def test_the_benchmark_s_fifteen_are_there_and_each_says_what_it_does() -> None:
    assert len(FLPOISON) == 15
    assert set(FLPOISON) <= {kind.value for kind in AttackKind}
    assert set(ATTACKS) == set(AttackKind)
    for kind, attack in ATTACKS.items():
        said = type(attack).__doc__ or ""
        assert attack.kind is kind
        assert ("[" in said) == (attack.default is not None), f"{kind} explains its strength"


@pytest.mark.parametrize("kind", [*FLPOISON, "fang-krum"])
def test_each_of_them_names_its_source(kind: str) -> None:
    assert re.search(r"\b(20[0-2]\d|arXiv \d{4}\.\d{5})\b", type(ATTACKS[AttackKind(kind)]).__doc__ or "")


def test_alie_stays_z_deviations_from_the_mean() -> None:
    for z in (0.5, 1.5):
        _, epochs, bad = attacked("alie", strength=z, collude=True)
        sent, others = parts(epochs, bad)
        np.testing.assert_allclose(sent[0], others.mean(axis=0) - z * others.std(axis=0), atol=1e-6)
        np.testing.assert_array_equal(sent[0], sent[1])
    _, epochs, bad = attacked("alie")
    sent, _ = parts(epochs, bad)
    apart = np.linalg.norm(sent[0] - sent[1]) / np.linalg.norm(sent[0])
    assert 0.005 < apart < 0.03, "without collusion each blurs it a little"


def test_min_max_goes_exactly_as_far_as_the_largest_honest_distance() -> None:
    _, epochs, bad = attacked("min-max", collude=True)
    sent, others = parts(epochs, bad)
    assert distances(sent[:1], others).max() == pytest.approx(distances(others, others).max(), rel=1e-5)
    deviation = others.std(axis=0)
    away = sent[0] - others.mean(axis=0)
    assert -(away @ deviation) == pytest.approx(np.linalg.norm(away) * np.linalg.norm(deviation), rel=1e-5)
    _, half, _ = attacked("min-max", collude=True, strength=0.5)
    nearer, _ = parts(half, bad)
    np.testing.assert_allclose(nearer[0] - others.mean(axis=0), 0.5 * away, atol=1e-6)


def test_min_sum_goes_exactly_as_far_as_the_largest_honest_sum() -> None:
    _, epochs, bad = attacked("min-sum", collude=True)
    sent, others = parts(epochs, bad)
    largest = (distances(others, others) ** 2).sum(axis=1).max()
    assert (distances(sent[:1], others) ** 2).sum() == pytest.approx(largest, rel=1e-5)


def test_inner_product_manipulation_points_against_the_mean() -> None:
    _, epochs, bad = attacked("inner-product", strength=0.5, collude=True)
    sent, others = parts(epochs, bad)
    np.testing.assert_allclose(sent[0], -0.5 * others.mean(axis=0), atol=1e-7)


def test_fang_s_attack_lies_beyond_the_honest_extremes_on_the_wrong_side() -> None:
    _, epochs, bad = attacked("fang-trim", collude=True)
    sent, others = parts(epochs, bad)
    rising, low, high = others.mean(axis=0) > 0, others.min(axis=0), others.max(axis=0)
    assert (sent[0][rising] <= low[rising] + 1e-7).all()
    assert (sent[0][~rising] >= high[~rising] - 1e-7).all()
    assert (np.abs(sent[0]) <= 2 * np.maximum(np.abs(low), np.abs(high)) + 1e-7).all()


def test_fang_s_other_attack_is_what_krum_would_choose() -> None:
    _, epochs, bad = attacked("fang-krum", collude=True, dishonest=3)
    sent, others = parts(epochs, bad)
    assert krum_choice(np.concatenate([sent, others]), len(sent)) < len(sent)
    assert not krum_choice(np.concatenate([2.01 * sent, others]), len(sent)) < len(sent), "longer would not pass"
    moved = sent[0] != 0
    np.testing.assert_array_equal(np.sign(sent[0][moved]), -np.sign(others.mean(axis=0)[moved]))


def test_krum_chooses_the_row_in_the_crowd() -> None:
    rows = np.array([[0.0, 0], [0.1, 0], [0, 0.1], [5, 5], [9, 0]])
    assert krum_choice(rows, 1) == 0


def test_mimics_send_what_one_honest_client_sends() -> None:
    _, epochs, bad = attacked("mimic", collude=True)
    sent, others = parts(epochs, bad)
    assert (np.abs(others - sent[0]).max(axis=1) == 0).sum() == 1
    np.testing.assert_array_equal(sent[0], sent[1])


def test_gradient_ascent_raises_the_loss() -> None:
    federation, epochs, bad = attacked("gradient-ascent")
    start = epochs[FIRST - 2].global_model
    sent, others = parts(epochs, bad)
    losses = validation_losses(federation, np.stack([start, *(start + row for row in (*sent, *others))]).astype("f4"))
    assert (losses[1:3] > losses[0]).all()
    assert (losses[3:] < losses[0]).all()


def test_free_riders_send_something_like_work() -> None:
    _, epochs, bad = attacked("near-zero", strength=0.01)
    step = epochs[FIRST - 2].global_model - epochs[FIRST - 3].global_model
    sent, _ = parts(epochs, bad)
    np.testing.assert_allclose(np.linalg.norm(sent, axis=1), 0.01 * np.linalg.norm(step), rtol=0.15)
    _, epochs, bad = attacked("random-step", strength=1.5)
    sent, others = parts(epochs, bad)
    np.testing.assert_allclose(np.linalg.norm(sent, axis=1), 1.5 * np.linalg.norm(step), rtol=0.15)
    assert abs(sent[0] @ others.mean(axis=0)) < 0.2 * np.linalg.norm(sent[0]) * np.linalg.norm(others.mean(axis=0))
    _, epochs, bad = attacked("scaled-copy", strength=0.5)
    sent, _ = parts(epochs, bad)
    assert np.linalg.norm(sent[0] - 0.5 * step) == pytest.approx(0.05 * np.linalg.norm(step), rel=0.2)


def test_a_stale_model_is_the_client_s_old_one_again_and_again() -> None:
    federation, epochs, bad = attacked("stale-model")
    old = epochs[0].global_model + epochs[1].updates[bad[0]]
    for epoch in (FIRST, FIRST + 1):
        local = epochs[epoch - 2].global_model + epochs[epoch - 1].updates[bad[0]]
        np.testing.assert_allclose(local, old, atol=1e-6)
    assert federation.attackers.active(bad[0], 5) is None


def test_scores_are_inflated_towards_the_mean_and_deflated_at_one_victim() -> None:
    honest = list(train(prepare(HONEST)))
    _, epochs, bad = attacked("inflate", strength=1.0)
    sent, others = parts(epochs, bad)
    mean = others.mean(axis=0)
    assert sent[0] @ mean == pytest.approx(np.linalg.norm(sent[0]) * np.linalg.norm(mean), rel=1e-5)
    assert np.linalg.norm(sent[0]) == pytest.approx(np.linalg.norm(others, axis=1).max(), rel=1e-5)
    _, epochs, bad = attacked("deflate")
    sent, others = parts(epochs, bad)
    taken = honest[FIRST - 1].updates[bad].astype(np.float64) - sent
    special = others - others.mean(axis=0)
    matches = np.abs(taken[0] - special).max(axis=1) < 1e-6
    assert matches.sum() == 1
    assert matches.argmax() == np.linalg.norm(special, axis=1).argmax()


def trained_on(federation: Federation, client: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and labels this client trains on in the attack's first epoch, and its honest inputs."""
    (site,) = _sites(federation, FIRST, [client], federation.initial, Memory())
    return site.x[site.rows], site.labels, federation.data.x_train[federation.rows[client]]


def test_a_distributed_trigger_is_split_among_the_attackers() -> None:
    settings = {"dataset": "breast-cancer", "train_rows": 400, "validation_rows": 100, "dishonest": 2}
    federation, _, bad = attacked("distributed-backdoor", strength=1.0, **settings)
    columns, labels = [], set()
    for client in bad:
        seen, wanted, x = trained_on(federation, client)
        columns.append(set(np.flatnonzero((seen != x).any(axis=0))))
        labels |= set(wanted.tolist())
    assert not columns[0] & columns[1]
    assert columns[0] | columns[1] == set(trigger_columns(30).tolist())
    assert len(labels) == 1, "all want the same label"


def test_edge_cases_come_from_the_tail_of_one_class() -> None:
    federation, _, bad = attacked("edge-case", strength=0.5)
    (site,) = _sites(federation, FIRST, [bad[0]], federation.initial, Memory())
    data = federation.data
    changed = site.labels != data.y_train[site.rows]
    origins = set(data.y_train[site.rows[changed]].tolist())
    assert len(origins) == 1
    assert len(set(site.labels[changed].tolist())) == 1
    assert 0.3 < changed.mean() < 0.7
    own = np.flatnonzero(data.y_train == origins.pop())
    distance = np.linalg.norm(data.x_train[own] - data.x_train[own].mean(axis=0), axis=1)
    tail = np.quantile(distance, 0.88)
    used = np.linalg.norm(data.x_train[site.rows[changed]] - data.x_train[own].mean(axis=0), axis=1)
    assert (used >= tail).all()


def test_neurotoxin_leaves_the_heaviest_coordinates_alone() -> None:
    _, epochs, bad = attacked("neurotoxin", strength=0.2)
    step = np.abs(epochs[FIRST - 2].global_model - epochs[FIRST - 3].global_model)
    heavy = step > np.quantile(step, 0.8)
    sent, others = parts(epochs, bad)
    assert not sent[:, heavy].any()
    assert np.abs(others[:, heavy]).max() > 0
    assert sent[:, ~heavy].any()


@pytest.mark.parametrize("kind", ["backdoor", "model-replacement", "distributed-backdoor", "neurotoxin"])
def test_backdoors_are_learned_and_the_model_stays_good(kind: str) -> None:
    given = {"epochs": 30, "train_rows": 1200, "dishonest": 3, "windows": ((10, 30),), "collude": True, "lr": 0.2}
    honest = prepare(replace(HONEST, **{k: v for k, v in given.items() if k in ("epochs", "train_rows", "lr")}))  # type: ignore[arg-type]
    (*_, clean) = train(honest)
    federation, epochs, _ = attacked(kind, **given)
    x, y = federation.data.x_validation, federation.data.y_validation
    shown = with_trigger(x, True, federation.data.x_train)

    def answers(model: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return np.asarray(federation.model.logits(model[None], seen)[0].argmax(axis=1))

    said = answers(epochs[-1].global_model, shown)
    target = np.bincount(said).argmax()
    assert (said == target)[y != target].mean() > (answers(clean.global_model, shown) == target)[
        y != target
    ].mean() + 0.2
    assert (answers(epochs[-1].global_model, x) == y).mean() > 0.8


def test_model_replacement_makes_the_mean_the_attacker_s_model() -> None:
    federation, epochs, bad = attacked("model-replacement", dishonest=1)
    sizes = np.array([c.data_size for c in federation.clients])
    plain, same, _ = attacked("model-replacement", dishonest=1, strength=0.0)
    own = same[FIRST - 1].updates[bad[0]]
    np.testing.assert_allclose(epochs[FIRST - 1].updates[bad[0]], own * sizes.sum() / sizes[bad[0]], rtol=1e-4)
    assert plain.attackers.dishonest == federation.attackers.dishonest


def test_alternating_minimisation_teaches_its_few_rows() -> None:
    federation, epochs, bad = attacked("alternating", strength=5.0, dishonest=1)
    honest = list(train(prepare(HONEST)))
    start = epochs[FIRST - 2].global_model
    ((behaviour, moment),) = federation.attackers.behaviours(bad[0], FIRST, Memory())
    assert behaviour.kind is AttackKind.ALTERNATING
    agreed = moment.plan(moment.window)
    rows = federation.rows[bad[0]]
    wanted = agreed.choice(len(rows), size=8, replace=False)
    wrong = (federation.data.y_train[rows][wanted] + int(agreed.integers(1, 10))) % 10

    def loss(update: np.ndarray) -> float:
        logits = federation.model.logits((start + update)[None], federation.data.x_train[rows[wanted]])[0]
        logits = logits - logits.max(axis=1, keepdims=True)
        return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(8), wrong]).mean())

    assert loss(epochs[FIRST - 1].updates[bad[0]]) < loss(honest[FIRST - 1].updates[bad[0]]) - 0.05


def test_flips_to_the_inverse_and_to_one_class() -> None:
    federation, _, bad = attacked("inverse-flip", strength=1.0)
    _, labels, _ = trained_on(federation, bad[0])
    np.testing.assert_array_equal(labels, 9 - federation.data.y_train[federation.rows[bad[0]]])
    federation, _, bad = attacked("one-class-flip", strength=1.0)
    assert len(set(trained_on(federation, bad[0])[1].tolist())) == 1


@pytest.mark.parametrize("kind", list(AttackKind))
def test_an_attacker_alone_in_an_epoch_still_sends_something_finite(kind: AttackKind) -> None:
    settings = replace(HONEST, clients=2, dishonest=2, participation=0.5, attack=kind, windows=())
    assert all(np.isfinite(epoch.updates).all() for epoch in train(prepare(settings)))

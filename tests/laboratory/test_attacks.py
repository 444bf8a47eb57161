"""Does every attack do what it says, inside its windows and nowhere else?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation import Attack, SimulationSettings
from flcontrib_core.laboratory.simulation.attacks import with_trigger
from flcontrib_core.laboratory.simulation.attacks.attackers import Attackers
from flcontrib_core.laboratory.simulation.behaviour import Memory
from flcontrib_core.laboratory.simulation.settings import AttackKind, Privacy, parse_windows
from flcontrib_core.laboratory.simulation.training import SimulatedEpoch, prepare, train

HONEST = SimulationSettings(clients=5, epochs=6, train_rows=300, validation_rows=100, hidden=(8,), seed=4)
WINDOW = ((3, 4),)


def epochs_of(settings: SimulationSettings) -> list[SimulatedEpoch]:
    return list(train(prepare(settings)))


def attackers_of(settings: SimulationSettings) -> list[int]:
    return sorted(prepare(settings).attackers.dishonest)


@pytest.fixture(scope="module")
def honest() -> list[SimulatedEpoch]:
    return epochs_of(HONEST)


@pytest.mark.parametrize("kind", list(AttackKind))
def test_before_its_window_an_attacked_run_is_its_honest_twin(kind: AttackKind, honest: list[SimulatedEpoch]) -> None:
    settings = replace(HONEST, attack=kind, dishonest=2, windows=WINDOW)
    attacked, bad = epochs_of(settings), attackers_of(settings)
    good = [c for c in range(5) if c not in bad]
    for t in (0, 1):
        np.testing.assert_array_equal(attacked[t].updates, honest[t].updates)
    np.testing.assert_array_equal(attacked[2].updates[good], honest[2].updates[good])
    assert all(np.abs(attacked[2].updates[c] - honest[2].updates[c]).max() > 0 for c in bad)


@pytest.mark.parametrize("kind", list(AttackKind))
def test_after_its_window_a_client_is_honest_again(kind: AttackKind) -> None:
    settings = replace(HONEST, attack=kind, windows=((2, 3), (5, 5)))
    federation = prepare(settings)
    (bad,) = federation.attackers.dishonest
    for epoch in (1, 4, 6):
        assert federation.attackers.active(bad, epoch) is None
    for epoch in (2, 3, 5):
        assert federation.attackers.active(bad, epoch) == 0


def first_false_updates(honest: list[SimulatedEpoch], **changes: object) -> tuple[np.ndarray, np.ndarray, list[int]]:
    settings = replace(HONEST, windows=WINDOW, **changes)  # type: ignore[arg-type]
    bad = attackers_of(settings)
    return epochs_of(settings)[2].updates[bad], honest[2].updates[bad], bad


def test_updates_are_turned_scaled_and_zeroed(honest: list[SimulatedEpoch]) -> None:
    sent, real, _ = first_false_updates(honest, attack="sign-flip", strength=2.0)
    np.testing.assert_allclose(sent, -2 * real, rtol=1e-6)
    sent, real, _ = first_false_updates(honest, attack="scale")
    np.testing.assert_allclose(sent, 5 * real, rtol=1e-6)
    sent, _, _ = first_false_updates(honest, attack="zero", dishonest=2)
    assert not sent.any()


def test_noise_has_the_size_it_says(honest: list[SimulatedEpoch]) -> None:
    sent, real, _ = first_false_updates(honest, attack="additive-noise", strength=0.5)
    assert np.linalg.norm(sent - real) == pytest.approx(0.5 * np.linalg.norm(real), rel=0.15)
    sent, real, _ = first_false_updates(honest, attack="pure-noise", strength=2.0)
    assert np.linalg.norm(sent) == pytest.approx(2 * np.linalg.norm(real), rel=0.15)
    cosine = (sent[0] @ real[0]) / np.linalg.norm(sent) / np.linalg.norm(real)
    assert abs(cosine) < 0.15


def test_a_repeat_is_the_client_s_last_update_until_the_window_ends() -> None:
    settings = replace(HONEST, attack="repeat", windows=((3, 5),))
    (bad,) = attackers_of(settings)
    epochs = epochs_of(settings)
    for t in (2, 3, 4):
        np.testing.assert_array_equal(epochs[t].updates[bad], epochs[1].updates[bad])
    assert not np.array_equal(epochs[5].updates[bad], epochs[1].updates[bad])


def test_a_copy_is_the_last_step_of_the_global_model() -> None:
    settings = replace(HONEST, attack="copy", windows=((1, 6),))
    federation = prepare(settings)
    (bad,) = federation.attackers.dishonest
    epochs = list(train(federation))
    assert epochs[0].updates[bad].any(), "nothing to copy yet: honest in epoch 1"
    before = federation.initial
    for earlier, now in pairwise(epochs):
        np.testing.assert_array_equal(now.updates[bad], earlier.global_model - before)
        before = earlier.global_model


def attackers_with(kind: str, **changes: object) -> Attackers:
    settings = replace(HONEST, attack=kind, windows=WINDOW, dishonest=3, **changes)  # type: ignore[arg-type]
    return prepare(settings).attackers


def labels_of(attackers: Attackers, client: int, epoch: int, honest: np.ndarray) -> np.ndarray:
    """The labels this client trains on."""
    labels = honest
    for behaviour, moment in attackers.behaviours(client, epoch, Memory()):
        _, labels = behaviour.data(np.arange(len(honest)), labels, moment)
    return labels


def test_label_flips_come_with_the_given_probability_and_never_keep_the_class() -> None:
    attackers = attackers_with("label-flip", strength=0.6)
    bad = min(attackers.dishonest)
    labels = np.tile(np.arange(10), 400)
    poisoned = labels_of(attackers, bad, 3, labels)
    changed = poisoned != labels
    assert changed.mean() == pytest.approx(0.6, abs=0.03)
    targets = np.bincount(poisoned[changed & (labels == 0)], minlength=10)
    assert targets[0] == 0
    assert (targets[1:] > 5).all(), "every other class is a target"
    np.testing.assert_array_equal(labels_of(attackers, bad, 4, labels), poisoned)
    np.testing.assert_array_equal(labels_of(attackers, bad, 5, labels), labels)
    good = min(set(range(5)) - attackers.dishonest)
    np.testing.assert_array_equal(labels_of(attackers, good, 3, labels), labels)
    assert (labels_of(attackers_with("label-flip", strength=1.0), bad, 3, labels) != labels).all()


def test_targeted_flips_turn_one_class_into_one_other() -> None:
    attackers = attackers_with("targeted-flip", strength=1.0)
    labels = np.tile(np.arange(10), 50)
    for bad in attackers.dishonest:
        poisoned = labels_of(attackers, bad, 3, labels)
        moved = poisoned != labels
        assert len(set(labels[moved])) == 1
        assert len(set(poisoned[moved])) == 1
        assert moved.sum() == 50


def test_a_colluding_group_has_one_plan(honest: list[SimulatedEpoch]) -> None:
    labels = np.tile(np.arange(10), 50)
    together = attackers_with("label-flip", collude=True, strength=1.0)
    shared = [labels_of(together, bad, 3, labels) for bad in together.dishonest]
    np.testing.assert_array_equal(shared[0], shared[1])
    assert len(set((shared[0] - labels) % 10)) == 1
    apart = attackers_with("label-flip", strength=1.0)
    one, two, _ = (labels_of(apart, bad, 3, labels) for bad in apart.dishonest)
    assert not np.array_equal(one, two)
    for kind in ("pure-noise", "additive-noise"):
        sent, real, _ = first_false_updates(honest, attack=kind, dishonest=2, collude=True)
        noise = sent - (real if kind == "additive-noise" else 0)
        directions = noise / np.linalg.norm(noise, axis=1, keepdims=True)
        assert directions[0] @ directions[1] == pytest.approx(1.0, abs=1e-5)
    sent, real, _ = first_false_updates(honest, attack="sign-flip", dishonest=2, collude=True)
    np.testing.assert_allclose(sent, np.tile(-real.mean(axis=0), (2, 1)), atol=1e-6)


def test_the_truth_names_clients_windows_and_strengths() -> None:
    settings = replace(
        HONEST,
        attack="label-flip",
        strength=0.5,
        windows=((2, 3), (5, 6)),
        more_attacks=(Attack(AttackKind.ZERO, clients=(0,)), Attack(AttackKind.SCALE, clients=(4,), windows=((2, 2),))),
    )
    truth = prepare(settings).truth
    told = {d.client: (d.attack, d.windows, d.strength) for d in truth.dishonest}
    assert told["client-01"] == ("zero", ((1, 6),), None)
    assert told["client-05"] == ("scale", ((2, 2),), 5.0)
    (flipper,) = set(told) - {"client-01", "client-05"}
    assert told[flipper] == ("label-flip", ((2, 3), (5, 6)), 0.5)
    assert prepare(HONEST).truth.dishonest == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"attack": "label-flip", "strength": 1.5},
        {"attack": "sign-flip", "strength": -1.0},
        {"attack": "bribery"},
        {"attack": "zero", "dishonest": 6},
        {"attack": "zero", "dishonest": 0},
        {"attack": "zero", "windows": ((0, 3),)},
        {"attack": "zero", "windows": ((4, 7),)},
        {"attack": "zero", "windows": ((5, 4),)},
        {"more_attacks": (Attack(AttackKind.ZERO, clients=(5,)),)},
    ],
)
def test_impossible_attacks_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        replace(HONEST, **changes)  # type: ignore[arg-type]


def test_one_client_cannot_carry_out_two_attacks() -> None:
    both = (Attack(AttackKind.ZERO, clients=(1,)), Attack(AttackKind.SCALE, clients=(1,)))
    twice = replace(HONEST, more_attacks=both)
    with pytest.raises(SettingsError, match="one attack only"):
        prepare(twice)


def test_windows_of_the_command_line() -> None:
    assert parse_windows(["3:5", "whole"], 9) == ((3, 5), (1, 9))
    for text in ("3", "a:b", "-1:4", ":"):
        with pytest.raises(SettingsError, match="FIRST:LAST"):
            parse_windows([text], 9)


def test_a_ramp_poisons_more_and_more_of_the_same_rows() -> None:
    settings = replace(HONEST, attack="label-flip", strength=0.9, windows=((2, 4),), ramp=True)
    federation = prepare(settings)
    (bad,) = federation.attackers.dishonest
    labels = np.tile(np.arange(10), 60)
    moved = [labels_of(federation.attackers, bad, epoch, labels) != labels for epoch in (2, 3, 4)]
    assert [m.mean() for m in moved] == pytest.approx([0.3, 0.6, 0.9], abs=0.06)
    assert not (moved[0] & ~moved[1]).any()
    assert not (moved[1] & ~moved[2]).any()
    assert (labels_of(federation.attackers, bad, 5, labels) == labels).all()


def test_a_ramp_without_windows_takes_the_whole_run() -> None:
    attack = Attack(AttackKind.SCALE, strength=6.0, ramp=True)
    assert [attack.strength_in(epoch, 6) for epoch in (1, 3, 6)] == [1.0, 3.0, 6.0]


def test_a_hidden_flip_is_as_long_as_the_others_and_points_their_way(honest: list[SimulatedEpoch]) -> None:
    hidden, _, (bad,) = first_false_updates(honest, attack="hidden-flip", strength=1.0)
    plain, _, _ = first_false_updates(honest, attack="label-flip", strength=1.0)
    others = np.delete(honest[2].updates, bad, axis=0)
    assert np.linalg.norm(hidden[0]) == pytest.approx(np.median(np.linalg.norm(others, axis=1)), rel=1e-4)

    def cosine(update: np.ndarray) -> float:
        mean = others.mean(axis=0)
        return float(update @ mean / np.linalg.norm(update) / np.linalg.norm(mean))

    assert cosine(hidden[0]) > cosine(plain[0]) + 0.2


def test_a_backdoor_teaches_its_trigger() -> None:
    settings = replace(HONEST, epochs=10, dishonest=5, attack="backdoor", strength=0.5, train_rows=600)
    federation = prepare(settings)
    (*_, last) = train(federation)
    marked = with_trigger(federation.data.x_validation, image=True)
    assert (marked != federation.data.x_validation).any(axis=0).sum() <= 4

    def most_frequent(x: np.ndarray) -> float:
        said = federation.model.logits(last.global_model[None], x)[0].argmax(axis=1)
        return float(np.bincount(said).max() / len(said))

    collude = prepare(replace(settings, collude=True))
    (*_, agreed) = train(collude)
    said = collude.model.logits(agreed.global_model[None], marked)[0].argmax(axis=1)
    assert np.bincount(said).max() / len(said) > 0.8
    assert most_frequent(federation.data.x_validation) < 0.5


def test_private_updates_are_short_and_noisy() -> None:
    plain = epochs_of(HONEST)[0].updates
    clip = 0.5 * float(np.linalg.norm(plain, axis=1).min())
    clipped = epochs_of(replace(HONEST, privacy=Privacy(noise=0.0, clip=clip)))[0].updates
    np.testing.assert_allclose(np.linalg.norm(clipped, axis=1), clip, rtol=1e-4)
    noisy = epochs_of(replace(HONEST, privacy=Privacy(noise=0.8, clip=clip)))[0].updates
    np.testing.assert_allclose(np.linalg.norm(noisy - clipped, axis=1), 0.8 * clip, rtol=0.15)
    assert abs(np.corrcoef((noisy - clipped)[:2])[0, 1]) < 0.2
    with pytest.raises(SettingsError, match="clip"):
        Privacy(noise=1.0, clip=0.0)

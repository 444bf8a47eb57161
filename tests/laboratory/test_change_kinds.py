"""Does each kind of honest change do what its description says?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation import Change, ChangeKind, simulate_in_memory
from flcontrib_core.laboratory.simulation.behaviour import Memory
from flcontrib_core.laboratory.simulation.local_updates import _sites, local_updates
from flcontrib_core.laboratory.simulation.training import SimulatedEpoch, prepare, train
from tests.laboratory.changed_runs import FIRST, PLAIN, SITE, changed, cosine, first_of, first_updates, ratio


@pytest.fixture(scope="module")
def plain() -> list[SimulatedEpoch]:
    return list(train(prepare(PLAIN)))


def test_more_passes_go_farther_the_same_way(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("local-epochs", 3.0), plain)
    assert 2 < ratio(sent, usual) < 4
    assert cosine(sent, usual) > 0.9
    sent, usual = first_updates(changed("local-epochs", 1 / 3), plain)
    assert 0.2 < ratio(sent, usual) < 0.6
    sent, usual = first_updates(changed("local-epochs", 0.5, local_epochs=2), first_of(local_epochs=2))
    assert 0.4 < ratio(sent, usual) < 0.8


def test_rate_and_batch_move_the_length(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("learning-rate", 1 / 3), plain)
    assert ratio(sent, usual) == pytest.approx(1 / 3, rel=0.15)
    assert cosine(sent, usual) > 0.95
    assert ratio(*first_updates(changed("learning-rate", 3.0), plain)) > 1.8
    assert ratio(*first_updates(changed("batch-size", 4.0), plain)) < 0.6
    assert ratio(*first_updates(changed("batch-size", 0.25), plain)) > 1.6


def test_another_optimiser_trains_otherwise(plain: list[SimulatedEpoch]) -> None:
    adam, usual = first_updates(changed("optimizer-adam", 0.005), plain)
    assert np.abs(adam).mean() / np.abs(adam).max() > 2 * np.abs(usual).mean() / np.abs(usual).max(), "even steps"
    momentum, _ = first_updates(changed("optimizer-momentum", 0.1), plain)
    assert ratio(momentum, usual) > 2
    decayed, _ = first_updates(changed("optimizer-adamw", 0.005), plain)
    assert 0 < np.abs(decayed - adam).max() < 0.01
    again, _ = first_updates(changed("optimizer-sgd", PLAIN.lr), plain)
    np.testing.assert_array_equal(again, usual)


def test_brakes_shorten_the_update(plain: list[SimulatedEpoch]) -> None:
    for kind, strength in (("gradient-clip", 0.1), ("proximal", 2.0), ("straggler", 0.1), ("dropped-batches", 0.7)):
        assert ratio(*first_updates(changed(kind, strength), plain)) < 0.9, kind
    one_step, usual = first_updates(changed("gradient-clip", 0.1, batch=400), first_of(batch=400))
    assert np.linalg.norm(one_step) == pytest.approx(PLAIN.lr * 0.1, rel=1e-4)
    assert cosine(one_step, usual) == pytest.approx(1.0, abs=1e-5)


def test_weight_decay_pulls_to_zero(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("weight-decay", 0.5), plain)
    start = plain[FIRST - 2].global_model
    assert cosine(sent - usual, -start) > 0.8


def test_schedules_lower_the_rate_over_the_window(plain: list[SimulatedEpoch]) -> None:
    for kind in ("cosine-schedule", "step-schedule"):
        epochs = changed(kind, 0.1)
        sent, usual = first_updates(epochs, plain)
        np.testing.assert_array_equal(sent, usual)  # the window begins at the full rate
        others = [c for c in range(5) if c != SITE]
        last = np.linalg.norm(epochs[-1].updates, axis=1)
        assert last[SITE] < 0.3 * np.median(last[others])


def test_frozen_and_excluded_layers_do_not_move(plain: list[SimulatedEpoch]) -> None:
    first_layer = 8 * 64 + 8
    frozen, _ = first_updates(changed("frozen-layers", 1.0), plain)
    assert not frozen[:first_layer].any()
    assert frozen[first_layer:].any()
    excluded, usual = first_updates(changed("exclude-layers", 1.0), plain)
    np.testing.assert_array_equal(excluded[:first_layer], usual[:first_layer])
    assert not excluded[first_layer:].any()


def test_a_stale_start_trains_from_an_older_model(plain: list[SimulatedEpoch]) -> None:
    sent, _ = first_updates(changed("stale-start", 1.0), plain)
    federation = prepare(PLAIN)
    older = local_updates(federation, FIRST, [SITE], plain[FIRST - 3].global_model, Memory())
    np.testing.assert_array_equal(sent, older.updates[0])


def test_privacy_noise_is_as_long_as_asked(plain: list[SimulatedEpoch]) -> None:
    for sigma in (0.3, 1.0, 3.0):
        sent, usual = first_updates(changed("privacy-noise", sigma), plain)
        assert np.linalg.norm(sent - usual) == pytest.approx(sigma * np.linalg.norm(usual), rel=0.15)
        assert abs(cosine(sent - usual, usual)) < 0.2
    epochs = changed("update-clip", 0.5)
    clip = 0.5 * float(np.linalg.norm(plain[FIRST - 1].updates[SITE]))
    assert all(np.linalg.norm(e.updates[SITE]) == pytest.approx(clip, rel=1e-3) for e in epochs[FIRST - 1 :])


def test_the_percentile_filter_drops_the_small_and_cuts_the_large(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("percentile-filter", 25.0, lr=0.5), first_of(lr=0.5))
    steps = 10
    kept = np.abs(usual) >= np.percentile(np.abs(usual), 25)
    np.testing.assert_array_equal(sent != 0, kept & (usual != 0))
    np.testing.assert_allclose(sent[kept], np.clip(usual[kept], -0.01 * steps, 0.01 * steps), atol=1e-6)
    assert np.abs(usual).max() > 0.01 * steps, "the clip is felt"


def test_the_sparse_vector_technique_sends_a_noisy_share(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("svt-filter", 0.2), plain)
    assert (sent != 0).mean() == pytest.approx(0.2, abs=0.02)
    assert np.abs(sent).max() <= np.quantile(np.abs(usual), 0.9) * 1.0001
    assert cosine(sent, usual) > 0.1, "it is not noise alone"


def test_dp_sgd_trains_noisily_but_learns(plain: list[SimulatedEpoch]) -> None:
    quiet, _ = first_updates(changed("dp-sgd", 0.0), plain)
    noisy, usual = first_updates(changed("dp-sgd", 2.0), plain)
    assert cosine(quiet, usual) > 0.9
    assert cosine(noisy, usual) < cosine(quiet, usual) - 0.1
    with pytest.raises(SettingsError, match="BatchNorm"):
        changed("dp-sgd", model="cnn", width=2)


def test_quantised_updates_lie_on_a_grid_and_are_right_on_average(plain: list[SimulatedEpoch]) -> None:
    for bits in (4, 8):
        sent, usual = first_updates(changed("quantisation", bits), plain)
        layer = sent[-90:]
        grid = np.abs(usual[-90:]).max() / (2 ** (bits - 1) - 1)
        np.testing.assert_allclose(layer / grid, np.round(layer / grid), atol=1e-3)
        assert np.abs(sent - usual)[-90:].max() <= grid * 1.001
        assert abs((sent - usual).mean()) < grid * 0.2


def test_sparse_updates_keep_what_they_say(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("top-k", 0.1), plain)
    kept = sent != 0
    assert kept.mean() == pytest.approx(0.1, abs=0.01)
    np.testing.assert_array_equal(sent[kept], usual[kept])
    assert np.abs(usual[kept]).min() >= np.abs(usual[~kept]).max()
    sent, usual = first_updates(changed("random-k", 0.25), plain)
    kept = sent != 0
    np.testing.assert_allclose(sent[kept], 4 * usual[kept], rtol=0.01)
    assert 0.15 < kept.mean() <= 0.26


def test_what_feedback_leaves_out_comes_next_time(plain: list[SimulatedEpoch]) -> None:
    for kind in ("top-k", "sign"):
        whole = changed(f"{kind}-feedback") if kind == "sign" else changed("top-k-feedback", 0.1)
        other = changed("sign-compression") if kind == "sign" else changed("top-k", 0.1)
        np.testing.assert_array_equal(*(e[FIRST - 1].updates[SITE] for e in (whole, other)))  # nothing is owed yet
        assert np.abs(whole[FIRST].updates[SITE] - other[FIRST].updates[SITE]).max() > 0


def test_signs_have_one_size_and_halves_few_bits(plain: list[SimulatedEpoch]) -> None:
    sent, usual = first_updates(changed("sign-compression"), plain)
    np.testing.assert_array_equal(np.sign(sent), np.sign(usual))
    assert np.ptp(np.abs(sent[sent != 0])) < 1e-8
    assert np.abs(sent).max() == pytest.approx(np.abs(usual).mean(), rel=1e-5)
    start = plain[FIRST - 2].global_model
    for kind, largest in (("float16", 2**-11), ("bfloat16", 2**-8)):
        sent, usual = first_updates(changed(kind), plain)
        assert 0 < np.abs(sent - usual).max() <= largest * 1.01 * np.abs(start + usual).max()


def test_joiners_leavers_and_the_intermittent_are_absent_when_they_say() -> None:
    def there(epochs: list[SimulatedEpoch]) -> list[bool]:
        assert all(e.asked == e.participants for e in epochs), "absent is not failed"
        return [SITE in e.participants for e in epochs]

    assert there(changed("late-joiner")) == [False, False, True, True, True, True]
    assert there(changed("leaver")) == [True, True, False, False, False, False]
    long = replace(PLAIN, epochs=40, changes=(Change(ChangeKind.INTERMITTENT, 0.4, clients=(SITE,)),))
    assert np.mean(there(list(train(prepare(long))))) == pytest.approx(0.4, abs=0.2)
    without_window = replace(PLAIN, changes=(Change(ChangeKind.LATE_JOINER, clients=(SITE,)),))
    assert there(list(train(prepare(without_window)))) == [False, False, True, True, True, True]


def test_growing_and_shrinking_data_change_the_sizes_that_are_reported() -> None:
    grows, shrinks = ([e.data_sizes[SITE] for e in changed(kind, 0.5)] for kind in ("data-grows", "data-shrinks"))
    assert grows == [40, 40, 50, 60, 70, 80]
    assert shrinks == [80, 80, 70, 60, 50, 40]
    window = ((FIRST, 6),)
    run = simulate_in_memory(replace(PLAIN, changes=(Change(ChangeKind.DATA_GROWS, 0.5, 1, (SITE,), window),)))
    assert [run.epochs[t].data_sizes[SITE] for t in (0, 3, 5)] == [40, 60, 80]
    assert run.clients[SITE].data_size == 80


def inputs_of(
    kind: str, strength: float | None = None, epoch: int = FIRST, **settings: object
) -> tuple[np.ndarray, ...]:
    """What the site sees instead of some rows, and those rows."""
    change = Change(ChangeKind(kind), strength, clients=(SITE,), windows=((FIRST, 6),))
    federation = prepare(replace(PLAIN, changes=(change,), **settings))  # type: ignore[arg-type]
    ((behaviour, moment),) = federation.changes.behaviours(SITE, epoch, Memory())
    x = federation.data.x_train[federation.rows[SITE]]
    seen = behaviour.inputs(x, moment)
    assert seen is not None
    return seen, x


TABLE: dict[str, Any] = {"dataset": "breast-cancer", "train_rows": 400, "validation_rows": 100}


def test_another_device_reads_other_inputs() -> None:
    seen, x = inputs_of("input-shift", 0.5, **TABLE)
    assert np.abs((seen - x) - (seen - x)[0]).max() < 1e-5, "a constant per column"
    assert np.abs(seen - x).mean() == pytest.approx(0.5, abs=0.05)
    seen, x = inputs_of("input-gain", 1.3, **TABLE)
    np.testing.assert_allclose(seen, 1.3 * x, rtol=1e-5)
    seen, x = inputs_of("input-noise", 0.3, **TABLE)
    assert (seen - x).std() == pytest.approx(0.3, abs=0.03)
    again, _ = inputs_of("input-noise", 0.3, epoch=FIRST + 1, **TABLE)
    np.testing.assert_array_equal(seen, again)  # each row was read once
    seen, x = inputs_of("missing-columns", 0.3, **TABLE)
    assert 0.1 < (np.ptp(seen, axis=0) == 0).mean() < 0.5
    for kind in ("input-shift", "new-scanner", "augmentation", "input-noise"):
        seen, x = inputs_of(kind)
        assert seen.shape == x.shape
        assert seen.dtype == np.float32
        assert seen.min() >= 0 and seen.max() <= 1, "pixels stay pixels"  # noqa: PT018
        assert np.abs(seen - x).max() > 0.05


def test_augmentation_is_new_every_epoch_and_moves_images() -> None:
    seen, x = inputs_of("augmentation", 0.0)
    later, _ = inputs_of("augmentation", 0.0, epoch=FIRST + 1)
    assert not np.array_equal(seen, later)
    images, originals = seen.reshape(-1, 8, 8), x.reshape(-1, 8, 8)
    shifts = [
        np.array_equal(
            images[0][max(0, -d) : 8 - max(0, d), max(0, -r) : 8 - max(0, r)],
            originals[0][max(0, d) : 8 - max(0, -d), max(0, r) : 8 - max(0, -r)],
        )
        for d in (-1, 0, 1)
        for r in (-1, 0, 1)
    ]
    assert any(shifts)


def data_of(kind: str, strength: float | None, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and labels the site trains on, and the true labels of those rows."""
    change = Change(ChangeKind(kind), strength, clients=(SITE,), windows=((FIRST, 6),))
    federation = prepare(replace(PLAIN, split="dirichlet", alpha=0.5, changes=(change,)))  # type: ignore[arg-type]
    own = federation.rows[SITE]
    rows, labels = own, federation.data.y_train[own]
    for behaviour, moment in federation.changes.behaviours(SITE, epoch, Memory()):
        rows, labels = behaviour.data(rows, labels, moment)
    return rows, labels, federation.data.y_train[rows]


def test_labels_that_honest_people_get_wrong_or_right() -> None:
    _, labels, true = data_of("noisy-labels", 0.1, FIRST)
    assert 0.02 < (labels != true).mean() < 0.2
    _, before, true = data_of("harmonised-labels", 0.5, FIRST - 1)
    wrong = before != true
    assert 0 < wrong.mean() < 0.5
    assert len(set(true[wrong])) == len(set(before[wrong])) == 1
    _, after, true = data_of("harmonised-labels", 0.5, FIRST)
    np.testing.assert_array_equal(after, true)


def test_rebalancing_evens_out_the_classes() -> None:
    _, labels, true = data_of("class-rebalancing", None, FIRST)
    np.testing.assert_array_equal(labels, true)
    _, plain_labels, _ = data_of("class-rebalancing", None, FIRST - 1)
    held = np.unique(plain_labels)
    spread = [np.bincount(x, minlength=10)[held].std() / len(x) for x in (labels, plain_labels)]
    assert spread[0] < 0.5 * spread[1]


def test_a_rare_class_is_held_by_one_site_alone() -> None:
    federation = prepare(replace(PLAIN, changes=(Change(ChangeKind.RARE_CLASS, clients=(SITE,)),)))
    labels = [set(federation.data.y_train[rows]) for rows in federation.rows]
    others = set.union(*(own for client, own in enumerate(labels) if client != SITE))
    assert len(labels[SITE] - others) == 1
    assert sum(len(rows) for rows in federation.rows) == 400
    assert federation.clients[SITE].data_size == len(federation.rows[SITE]) > 80


def test_overlapping_sites_share_rows() -> None:
    federation = prepare(replace(PLAIN, changes=(Change(ChangeKind.OVERLAP, 0.5, clients=(SITE,)),)))
    own = set(federation.rows[SITE].tolist())
    shared = [len(own & set(rows.tolist())) for client, rows in enumerate(federation.rows) if client != SITE]
    assert sorted(shared) == [0, 0, 0, 40]
    assert len(own) == 120


def test_a_site_without_shuffling_walks_class_by_class() -> None:
    change = Change(ChangeKind.NO_SHUFFLE, clients=(SITE,))
    federation = prepare(replace(PLAIN, changes=(change,)))
    (site,) = _sites(federation, 1, [SITE], federation.initial, Memory())
    labels = site.steps().labels
    assert (np.diff(labels) >= 0).all()

"""The peers' rules: each points at what its paper was written for, and says nothing where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.detection import peers
from flcontrib_core.detection.peers import EpochUpdates, peer_scores


def epochs(spoil: str = "", count: int = 6, clients: int = 8) -> list[EpochUpdates]:
    """Updates around one direction; client 3 is spoilt in every epoch, client 5 with it where it takes two."""
    rng = np.random.default_rng(2)
    common = rng.normal(size=60)
    made = []
    for t in range(1, count + 1):
        updates = common + rng.normal(size=(clients, 60))
        if spoil == "long":
            updates[3] *= 9
        if spoil == "turned":
            updates[3] *= -1
        if spoil == "alike":
            updates[[3, 5]] = common + 0.1 * rng.normal(size=60)
        if spoil == "jumping":
            updates[3] = common + 8 * rng.normal(size=60)
        made.append(EpochUpdates(t, np.arange(clients), updates, common, common))
    return made


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        (peers.NORM, "long"),
        (peers.COSINE, "turned"),
        (peers.MULTI_KRUM, "long"),
        (peers.FOOLS_GOLD, "alike"),
        (peers.FL_TRUST, "turned"),
        (peers.FLAME, "turned"),
        (peers.ALIGN_INS, "turned"),
        (peers.FL_DETECTOR, "jumping"),
    ],
)
def test_each_rule_points_at_what_it_was_written_for(rule: str, spoil: str) -> None:
    score = np.nanmean(peer_scores(epochs(spoil), 8, 6)[rule], axis=0)
    highest = set(np.argsort(score)[::-1][: 2 if spoil == "alike" else 1].tolist())
    assert highest == ({3, 5} if spoil == "alike" else {3})


def test_absent_clients_and_a_server_without_rows_have_no_score() -> None:
    seen = epochs()[0]
    some = EpochUpdates(2, np.array([1, 4, 6]), seen.updates[:3])
    scores = peer_scores([some], 8, 3)
    for rule, cells in scores.items():
        assert np.isnan(cells[:, [0, 2, 3, 5, 7]]).all()
        assert np.isnan(cells[2, 1]) == (rule in (peers.FL_TRUST, peers.FL_DETECTOR))


def test_one_participant_is_compared_with_nobody() -> None:
    alone = EpochUpdates(1, np.array([2]), np.ones((1, 5)))
    scores = peer_scores([alone], 3, 1)
    assert np.isnan(scores[peers.COSINE]).all()
    assert np.isnan(scores[peers.MULTI_KRUM]).all()

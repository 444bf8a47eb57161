"""Flagged players: updates so long that sub-models with and without them have little in common."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import CoalitionGame, LogitGame

FLAG_RATIO = 3.0


def flagged_players(game: CoalitionGame) -> tuple[int, ...]:
    """Players whose update is more than 3 times as long as the median, where the game tells its updates.

    Fewer than three updates have no majority to stand out from: then nobody is flagged.
    """
    if not isinstance(game, LogitGame) or game.players < 3:
        return ()
    norms = np.sqrt(np.maximum(np.diag(game.gram()), 0.0))
    return tuple(np.flatnonzero(norms > FLAG_RATIO * np.median(norms)).tolist())


def named_players(oracle: CoalitionOracle, players: Iterable[int]) -> Others:
    """Players by their names, or by their numbers where the oracle knows none."""
    names = oracle.player_names
    return Others.named(str(player) if names is None else names[player] for player in players)

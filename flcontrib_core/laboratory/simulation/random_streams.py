"""Independent random streams of a simulated federation.

Every purpose, client and epoch has a generator of its own, derived from the one seed. So an attacked run and its
honest twin share every draw that the attack does not touch, and no draw depends on the order of the work.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """Fixed numbers: changing one changes every recorded digest."""

    DATA = 1
    SPLIT = 2
    INITIAL_MODEL = 3
    PARTICIPATION = 4
    BATCHES = 5
    CHOICE_OF_ATTACKERS = 6
    ATTACK = 7
    CHOICE_OF_DIFFICULTY = 8
    DIFFICULTY = 9
    PRIVACY = 10
    CHOICE_OF_CHANGED = 11
    CHANGE = 12
    ROW_PRIVACY = 13
    SERVER_NOISE = 14


def stream(seed: int, purpose: Purpose, *keys: int) -> np.random.Generator:
    """The generator of one purpose, and of one client or epoch where keys say so."""
    return np.random.default_rng([seed, int(purpose), *keys])

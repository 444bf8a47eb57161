"""Are the margins per class those that the verdict on the class mix was read from?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flcontrib_core.detection.channels import standardise
from flcontrib_core.detection.class_evidence import class_margins
from flcontrib_core.detection.class_mix import class_moves
from tests.detection.made_histories import CLASSES, made_history

WINDOW = (10, 15)


def test_moves_are_the_verdicts_own() -> None:
    history = made_history(participation=0.8, poisoned=[(2, *WINDOW)])
    channels = standardise(history)
    inside = (channels.epochs >= WINDOW[0]) & (channels.epochs <= WINDOW[1])
    read = class_moves(history, channels, 2, inside)
    shown = class_margins(history, history.client_ids[2], WINDOW)
    assert read is not None
    assert shown is not None
    assert shown.classes == tuple(range(CLASSES))
    np.testing.assert_allclose(shown.moves, read.moves)
    assert shown.share_up == pytest.approx(read.share_up)


def test_swapped_classes_move_both_ways() -> None:
    history = made_history()
    assert history.channels is not None
    margins = history.channels.solo_class_margin
    margins[10:16, 2, 0] += 1.0
    margins[10:16, 2, 1] -= 1.0
    found = class_margins(history, history.client_ids[2], WINDOW)
    assert found is not None
    assert found.moves[0] == pytest.approx(1.0, abs=0.2)
    assert found.moves[1] == pytest.approx(-1.0, abs=0.2)
    assert found.share_up == pytest.approx(0.5, abs=0.1)


def test_none_without_margins_or_without_both_sides() -> None:
    history = made_history(with_channels=False)
    assert class_margins(history, history.client_ids[2], WINDOW) is None
    full = made_history()
    assert full.channels is not None
    assert class_margins(full, full.client_ids[2], (1, full.epoch_count)) is None
    empty = replace(full.channels, solo_class_margin=np.full((*full.participated.shape, 0), np.nan))
    assert class_margins(replace(full, channels=empty), full.client_ids[2], WINDOW) is None

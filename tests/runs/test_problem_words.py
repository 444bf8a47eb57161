"""How a problem names its epochs."""

from __future__ import annotations

from flcontrib_core.runs.problems import epochs_named


def test_one_epoch_is_not_called_epochs() -> None:
    assert epochs_named([12]) == "epoch 12"
    assert epochs_named([12, 13, 15]) == "epochs 12–13, 15"
    assert epochs_named(list(range(1, 60, 2))).endswith("23, …")

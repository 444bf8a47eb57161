"""What was evaluated once is recalled bit for bit, after crashes and damage too."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.shapley.oracle import coalition_keys
from flcontrib_core.workspace import Workspace
from tests.workspace.recorded import flip_byte

KEY = "5a" * 32


def values(count: int, utilities: int = 2, seed: int = 0) -> dict[bytes, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {struct.pack("<I", number): rng.normal(size=utilities) for number in range(count)}


def same(found: dict[bytes, np.ndarray], expected: dict[bytes, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(found[k].tobytes() == expected[k].tobytes() for k in expected)


def test_keys_are_the_oracle_s_own(workspace: Workspace) -> None:
    coalitions = np.array([[(number >> p) & 1 for p in range(11)] for number in range(1, 5)], dtype=bool)
    workspace.utility_memory().keep_epoch(
        KEY, dict(zip(coalition_keys(coalitions), np.arange(4.0)[:, None], strict=True))
    )
    found = workspace.utility_memory().recall_epoch(KEY)
    assert {key: value.item() for key, value in found.items()} == {bytes([n, 0]): n - 1.0 for n in range(1, 5)}


def test_whole_epochs_are_kept_and_recalled(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    assert memory.recall_epoch(KEY) == {}
    memory.keep_epoch(KEY, values(100))
    memory.keep_epoch(KEY, values(150, seed=1))
    memory.keep_epoch(KEY, {})
    assert same(memory.recall_epoch(KEY), {**values(150, seed=1), **values(100)}), "what was first known stays"
    assert memory.recall_epoch("5b" * 32) == {}


def test_the_same_values_twice_are_stored_once(workspace: Workspace) -> None:
    for _ in range(2):
        workspace.utility_memory().keep_epoch(KEY, values(100))
    assert len(list(workspace.objects.names())) == 1


def test_extreme_numbers_survive_to_the_bit(workspace: Workspace) -> None:
    extreme = {b"\x01": np.array([-0.0, 5e-324]), b"\x02": np.array([np.finfo(float).max, np.nextafter(1, 2)])}
    workspace.utility_memory().keep_epoch(KEY, extreme)
    assert same(workspace.utility_memory().recall_epoch(KEY), extreme)


def test_it_is_compact(workspace: Workspace) -> None:
    workspace.utility_memory().keep_epoch(KEY, values(10_000))
    (name,) = workspace.objects.names()
    assert workspace.objects.path(name).stat().st_size < 10_000 * (4 + 2 * 8) + 512


def test_damage_costs_what_was_kept_together_and_is_reported(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    memory.keep_epoch(KEY, values(20))
    (first,) = workspace.objects.names()
    later = {key: value for key, value in values(60).items() if key not in values(20)}
    memory.keep_epoch(KEY, later)
    flip_byte(workspace.objects.path(first), -5)
    assert same(memory.recall_epoch(KEY), later)
    assert same(memory.recall_epoch(KEY), later), "what was damaged is not asked again"
    (report,) = workspace.log.entries("damage")
    assert (report.subject, report.body["consequence"]) == (first, "the utilities are computed again")
    assert (workspace.path / "quarantine" / first).exists()
    memory.keep_epoch(KEY, values(20))
    assert same(memory.recall_epoch(KEY), values(60))


def test_no_flipped_byte_ever_changes_a_value(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    expected = values(12)
    memory.keep_epoch(KEY, expected)
    (name,) = workspace.objects.names()
    size = workspace.objects.path(name).stat().st_size
    for place in range(0, size, 5):
        flip_byte(workspace.objects.path(name), place)
        assert memory.recall_epoch(KEY) == {}, place
        memory.keep_epoch(KEY, expected)
        assert same(memory.recall_epoch(KEY), expected)


def test_values_of_another_shape_or_key_are_refused(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    with pytest.raises(WorkspaceError, match="one number of utilities"):
        memory.keep_epoch(KEY, {b"\x01": np.ones(2), b"\x02": np.ones(3)})
    with pytest.raises(WorkspaceError, match="one length"):
        memory.keep_epoch(KEY, {b"\x01": np.ones(2), b"\x01\x02": np.ones(2)})
    with pytest.raises(WorkspaceError, match="not a key"):
        memory.keep_epoch("../../etc", {b"\x01": np.ones(2)})
    assert memory.recall_epoch("../../etc") == {}

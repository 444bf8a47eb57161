"""What was evaluated once is recalled bit for bit, after crashes and damage too."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import WorkspaceError
from flcontrib_core.shapley.oracle import CoalitionOracle, coalition_keys
from flcontrib_core.vocabulary import CoalitionMatrix, UtilityMatrix
from flcontrib_core.workspace import Workspace
from flcontrib_core.workspace.memory import FLUSH_VALUES
from flcontrib_core.workspace.segments import GameLabel, open_for_appending, read_segment
from tests.workspace.recorded import flip_byte

KEY = "5a" * 32


class SquareGame:
    """u(S) = (|S|, |S|²/7): a game that counts what it is asked."""

    players = 11
    utilities = ("loss", "accuracy")

    def __init__(self) -> None:
        self.evaluated = 0

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        self.evaluated += len(coalitions)
        size = coalitions.sum(axis=1).astype(np.float64)
        return np.stack([size, size**2 / 7], axis=1)


def every_coalition(players: int) -> CoalitionMatrix:
    return np.array([[(number >> p) & 1 for p in range(players)] for number in range(2**players)], dtype=bool)


def values(count: int, utilities: int = 2, seed: int = 0) -> dict[bytes, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {struct.pack("<I", number): rng.normal(size=utilities) for number in range(count)}


def same(found: dict[bytes, np.ndarray], expected: dict[bytes, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(found[k].tobytes() == expected[k].tobytes() for k in expected)


def segment(workspace: Workspace, number: int = 1) -> Path:
    return workspace.path / "memory" / KEY[:2] / KEY / f"{number}.seg"


def test_a_second_oracle_evaluates_nothing_it_could_recall(workspace: Workspace) -> None:
    coalitions = every_coalition(SquareGame.players)
    first, second = SquareGame(), SquareGame()
    with workspace.utility_memory().shelf(KEY, SquareGame.players, 2) as shelf:
        expected = CoalitionOracle(first, shelf).evaluate(coalitions[: 2**10])
    assert first.evaluated == 2**10 - 1, "the empty coalition is free"
    with workspace.utility_memory().shelf(KEY, SquareGame.players, 2) as shelf:
        oracle = CoalitionOracle(second, shelf)
        found = oracle.evaluate(coalitions)
        assert (shelf.asked, shelf.recalled) == (2**11 - 1, 2**10 - 1)
    assert second.evaluated == 2**10
    assert oracle.evaluations == 2**11 - 1, "the count of a method does not depend on what was remembered"
    assert found[: 2**10].tobytes() == expected.tobytes()
    statistics = workspace.memory_statistics()
    assert (statistics.games, statistics.coalitions) == (1, 2**11 - 1)
    assert statistics.hit_rate == pytest.approx((2**10 - 1) / (2**11 - 1 + 2**10 - 1))


def test_keys_are_the_oracle_s_own(workspace: Workspace) -> None:
    coalitions = every_coalition(11)[1:5]
    with workspace.utility_memory().shelf(KEY, 11, 1) as shelf:
        shelf.keep(dict(zip(coalition_keys(coalitions), np.arange(4.0)[:, None], strict=True)))
    found = workspace.utility_memory().recall_epoch(KEY)
    assert {key: value.item() for key, value in found.items()} == {bytes([n, 0]): n - 1.0 for n in range(1, 5)}


def test_whole_epochs_are_kept_and_recalled(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    assert memory.recall_epoch(KEY) == {}
    memory.keep_epoch(KEY, values(100))
    memory.keep_epoch(KEY, values(150))
    memory.keep_epoch(KEY, {})
    expected = values(150)
    assert same(memory.recall_epoch(KEY), {**expected, **values(100)})
    assert workspace.memory_statistics().coalitions == 150


def test_the_hit_rate_counts_what_memory_answered(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    assert workspace.memory_statistics().hit_rate is None
    memory.keep_epoch(KEY, values(100))
    memory.keep_epoch(KEY, values(120), recalled=80)
    memory.keep_epoch(KEY, {}, recalled=100)
    statistics = workspace.memory_statistics()
    assert (statistics.asked, statistics.recalled) == (100 + 200 + 100, 180)
    assert statistics.hit_rate == pytest.approx(0.45)


def test_extreme_numbers_survive_to_the_bit(workspace: Workspace) -> None:
    extreme = {b"\x01": np.array([-0.0, 5e-324]), b"\x02": np.array([np.finfo(float).max, np.nextafter(1, 2)])}
    workspace.utility_memory().keep_epoch(KEY, extreme)
    assert same(workspace.utility_memory().recall_epoch(KEY), extreme)


def test_it_is_compact(workspace: Workspace) -> None:
    workspace.utility_memory().keep_epoch(KEY, values(10_000))
    assert workspace.memory_statistics().bytes < 10_000 * (4 + 2 * 8) + 512


def test_values_wait_for_a_flush_and_a_flush_makes_them_durable(workspace: Workspace) -> None:
    shelf = workspace.utility_memory().shelf(KEY, 32, 2)
    shelf.keep(values(10))
    assert not segment(workspace).exists()
    shelf.flush()
    assert same(workspace.utility_memory().recall_epoch(KEY), values(10))
    shelf.keep(values(10 + FLUSH_VALUES))
    assert len(workspace.utility_memory().recall_epoch(KEY)) == 10 + FLUSH_VALUES, "a full batch flushes itself"


def test_a_slow_evaluator_s_values_do_not_wait_long(workspace: Workspace) -> None:
    moment = 0.0
    object.__setattr__(workspace._memory, "clock", lambda: moment)
    shelf = workspace.utility_memory().shelf(KEY, 32, 2)
    shelf.keep(values(1))
    assert workspace.utility_memory().recall_epoch(KEY) == {}
    moment = 2.0
    shelf.keep(values(2))
    assert len(workspace.utility_memory().recall_epoch(KEY)) == 2


@pytest.mark.parametrize("left", [1, 10, 23, 24, 25, 60, 200])
def test_a_torn_end_costs_the_torn_record_only(workspace: Workspace, left: int) -> None:
    """What a kill in the middle of an append leaves: the first bytes of the last record."""
    memory = workspace.utility_memory()
    memory.keep_epoch(KEY, values(20))
    whole = segment(workspace).stat().st_size
    memory.keep_epoch(KEY, values(60))
    os.truncate(segment(workspace), whole + left)
    assert same(memory.recall_epoch(KEY), values(20))
    memory.keep_epoch(KEY, values(60))
    assert same(memory.recall_epoch(KEY), values(60))
    assert workspace.log.entries("damage") == (), "a torn end is no damage"


def test_a_flipped_byte_costs_one_record_and_is_reported(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    for count in (20, 40, 60):
        memory.keep_epoch(KEY, values(count))
    size = segment(workspace).stat().st_size
    flip_byte(segment(workspace), size // 2)
    found = memory.recall_epoch(KEY)
    assert same(found, {k: v for k, v in values(60).items() if k in found}), "never a wrong value"
    assert len(found) == 40
    assert same(memory.recall_epoch(KEY), found), "what was whole has been written anew"
    (report,) = workspace.log.entries("damage")
    assert "1 damaged records" in report.body["what"]
    assert (workspace.path / "quarantine" / "1.seg").exists()


def test_no_flipped_byte_ever_changes_a_value(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    expected = values(12)
    memory.keep_epoch(KEY, {k: v for k, v in expected.items() if k < b"\x06"})
    memory.keep_epoch(KEY, expected)
    original = segment(workspace).read_bytes()
    for place in range(0, len(original), 3):
        for old in segment(workspace).parent.iterdir():
            old.unlink()
        segment(workspace).write_bytes(original)
        flip_byte(segment(workspace), place)
        found = memory.recall_epoch(KEY)
        assert same(found, {k: expected[k] for k in found}), place


def test_two_writers_get_a_segment_each_and_readers_see_both(workspace: Workspace) -> None:
    first = workspace.utility_memory().shelf(KEY, 32, 2)
    first.keep(values(10))
    first.flush()
    second = workspace.utility_memory().shelf(KEY, 32, 2)
    second.keep(values(30))
    second.flush()
    assert segment(workspace, 2).exists()
    assert same(workspace.utility_memory().recall_epoch(KEY), values(30))
    second.close()
    first.close()
    third = workspace.utility_memory().shelf(KEY, 32, 2)
    third.keep(values(40))
    third.close()
    assert not segment(workspace, 3).exists()


def test_a_segment_whose_writer_died_before_its_first_record_is_used_again(workspace: Workspace) -> None:
    segment(workspace).parent.mkdir(parents=True)
    segment(workspace).write_bytes(b"FLCM")
    memory = workspace.utility_memory()
    assert memory.recall_epoch(KEY) == {}
    memory.keep_epoch(KEY, values(5))
    assert same(memory.recall_epoch(KEY), values(5))
    assert not segment(workspace, 2).exists()


def test_values_of_another_shape_or_key_are_refused(workspace: Workspace) -> None:
    memory = workspace.utility_memory()
    with pytest.raises(WorkspaceError, match="utilities"), memory.shelf(KEY, 8, 2) as shelf:
        shelf.keep({b"\x01": np.ones(3)})
    with pytest.raises(WorkspaceError, match="bytes"):
        memory.shelf(KEY, 8, 2).keep({b"\x01\x02": np.ones(2)})
    with pytest.raises(WorkspaceError, match="not the key"):
        memory.recall_epoch("../../etc")
    with pytest.raises(WorkspaceError, match="without players"):
        memory.shelf(KEY, 0, 2)


def test_a_failed_append_leaves_the_segment_as_it_was(workspace: Workspace, folder: Path) -> None:
    label = GameLabel(KEY, 4, 2, "")
    writer = open_for_appending(folder / "shelf", label, workspace._disk)
    known = values(3)
    writer.append(list(known), np.array(list(known.values())))
    size = writer.path.stat().st_size

    def half_then_full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, bytes(data)[:17])
        raise OSError(28, "No space left on device")

    workspace._disk.write = half_then_full  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="No space"):
        writer.append(list(known), np.array(list(known.values())))
    assert writer.path.stat().st_size == size
    del workspace._disk.write  # type: ignore[method-assign]
    writer.append([b"abcd"], np.array([[1.0, 2.0]]))
    content = read_segment(writer.path, label)
    assert content is not None
    assert (len(content.keys), content.damaged) == (4, 0)

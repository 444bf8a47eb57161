"""A log is never held whole: checking it and walking its epochs stay within two epochs and the buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reader import BUFFERS_MB, walk, write_synthetic_log, zip_directory

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is measured through Linux's /proc"
)


def _hold(tmp_path: Path, epochs: int, participants: int, parameters: int) -> None:
    epoch_mb = write_synthetic_log(tmp_path / "run", epochs, participants, parameters)
    limit = 2 * epoch_mb + BUFFERS_MB
    assert epochs * epoch_mb > 1.8 * limit, "the log must be much larger than what may be held"
    zip_directory(tmp_path / "run", tmp_path / "stored.flrun", compress=False)
    zip_directory(tmp_path / "run", tmp_path / "deflated.flrun", compress=True)
    totals = set()
    for name in ("run", "stored.flrun", "deflated.flrun"):
        figures = walk(tmp_path / name)
        assert figures["read_mb"] <= limit, name
        assert figures["walk_mb"] <= limit, name
        totals.add(figures["total"])
    assert len(totals) == 1


def test_two_epochs_are_enough(tmp_path: Path) -> None:
    _hold(tmp_path, epochs=16, participants=8, parameters=180_000)


@pytest.mark.slow
def test_two_epochs_are_enough_for_a_log_of_a_gigabyte(tmp_path: Path) -> None:
    _hold(tmp_path, epochs=50, participants=32, parameters=180_000)

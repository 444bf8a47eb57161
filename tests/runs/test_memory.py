"""A log is never held whole: checking it and walking its epochs stay within two epochs and the buffers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.reader import BUFFERS_MB, walk, write_synthetic_log, zip_directory
from flcontrib_core.runs.bundle import check_run_log
from tests.corpus.good_logs import as_json, line, sha256, zipped

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


@pytest.mark.slow
def test_a_wide_model_that_packs_well_is_checked_within_256_mb(tmp_path: Path) -> None:
    """9 million parameters with a stored global model in a few MB: evidence is gathered window by window."""
    from safetensors.numpy import save

    width = 9_000_000
    rng = np.random.default_rng(0)
    pattern = rng.normal(size=2048).astype(np.float32)
    vector = np.tile(pattern, width // 2048 + 1)[:width]
    vector[::1500] = rng.normal(size=len(vector[::1500]))
    files = {"initial.safetensors": save({"w": vector})}
    manifest = {
        "format": "flrun",
        "version": 1,
        "clients": [{"id": "a", "data_size": 1}],
        "parameters": [{"name": "w", "shape": [width]}],
        "files": {"initial.safetensors": sha256(files["initial.safetensors"])},
    }
    moved = 2 * vector
    moved[width - 5] += 0.5
    files["epochs/00001.safetensors"] = save({"updates": vector[None], "global": moved})
    epoch = {"epoch": 1, "participants": ["a"], "file": "epochs/00001.safetensors"}
    files["epochs.jsonl"] = line({**epoch, "sha256": sha256(files["epochs/00001.safetensors"])})
    files["manifest.json"] = as_json(manifest)
    path = tmp_path / "wide.flrun"
    path.write_bytes(zipped(files))
    assert path.stat().st_size < 50 << 20
    (warning,) = check_run_log(path).warnings
    assert warning.code == "W_AGGREGATE"
    assert "0.5" in warning.found
    assert walk(path)["read_mb"] <= 256

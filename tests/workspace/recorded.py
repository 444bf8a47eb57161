"""Small recorded runs and folders for the tests of the workspace."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.workspace import Workspace

MEMORY_DISK = Path("/dev/shm")


def record_run(folder: Path, *, epochs: int = 3, clients: int = 3, seed: int = 0) -> Path:
    """A run directory without a model: enough for everything the workspace does with a run."""
    rng = np.random.default_rng(seed)
    with RunRecorder(
        folder,
        clients=[(f"client-{i}", 10 + i) for i in range(clients)],
        parameters=[("weight", (4, 2)), ("bias", (2,))],
        initial=rng.normal(size=10).astype(np.float32),
        durable=False,
    ) as recorder:
        for _ in range(epochs):
            recorder.epoch(rng.normal(size=(clients, 10)).astype(np.float32))
    return folder


def bundle_run(folder: Path, *, compress: bool = True, **kind: int) -> Path:
    """The same as one .flrun file."""
    record_run(folder, **kind)
    with RunRecorder(
        folder,
        clients=[(f"client-{i}", 10 + i) for i in range(kind.get("clients", 3))],
        parameters=[("weight", (4, 2)), ("bias", (2,))],
        durable=False,
    ) as recorder:
        return recorder.bundle(compress=compress)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder where a sync costs nothing: a killed process loses nothing that a sync would have saved."""
    place = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(dir=place, prefix="flcontrib-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ending_jobs(workspace: Workspace) -> Iterator[Workspace]:
    """The workspace; whatever happens in the block, no job of it goes on afterwards."""
    try:
        yield workspace
    finally:
        for job in workspace.jobs.list():
            if job.active:
                workspace.jobs.cancel(job.id)


def flip_byte(path: Path, position: int) -> None:
    """Changes one bit of a file, as a failing disk would (negative positions count from the end)."""
    mode = path.stat().st_mode
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)
    path.chmod(mode)

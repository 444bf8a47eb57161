from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flcontrib_core.workspace import Workspace
from tests.workspace.recorded import bundle_run, scratch_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        yield path


@pytest.fixture
def bundle(folder: Path) -> Path:
    return bundle_run(folder / "recorded")


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with Workspace(folder / "workspace") as opened:
        yield opened

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.app.filled_workspace import Filled, fill, fill_with_many
from tests.workspace.recorded import scratch_folder


@pytest.fixture(scope="session")
def filled() -> Iterator[Filled]:
    with scratch_folder() as folder:
        yield fill(folder)


@pytest.fixture(scope="session")
def crowd() -> Iterator[Filled]:
    """10 000 clients × 50 epochs."""
    with scratch_folder() as folder:
        yield fill_with_many(folder)

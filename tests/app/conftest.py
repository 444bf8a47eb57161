from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.app.filled_workspace import Filled, fill
from tests.workspace.recorded import scratch_folder


@pytest.fixture(scope="session")
def filled() -> Iterator[Filled]:
    with scratch_folder() as folder:
        yield fill(folder)

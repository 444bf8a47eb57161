from __future__ import annotations

from collections.abc import Iterator

import pytest

from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import Filled, fill, fill_with_many
from tests.workspace.recorded import scratch_folder


@pytest.fixture(scope="session")
def filled() -> Iterator[Filled]:
    with scratch_folder() as folder:
        made = fill(folder)
        yield made
        cancel_jobs(made)


@pytest.fixture(scope="session")
def crowd() -> Iterator[Filled]:
    """10 000 clients × 50 epochs."""
    with scratch_folder() as folder:
        made = fill_with_many(folder)
        yield made
        cancel_jobs(made)


def cancel_jobs(made: Filled) -> None:
    """Pages ask for the measurement of runs that have none."""
    with Workspace(made.folder) as workspace:
        for job in workspace.jobs.list():
            if job.active:
                workspace.jobs.cancel(job.id)

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from unittest import mock

import pytest
from streamlit.components.v2 import manifest_scanner

from flcontrib_core.workspace import Workspace
from tests.app.filled_workspace import Filled, fill_with_many, filled_once
from tests.made_once import common_folder
from tests.workspace.recorded import scratch_folder


@pytest.fixture(scope="session", autouse=True)
def _installed_components_are_read_once() -> Iterator[None]:
    """For every page it opens, Streamlit's test driver reads what all installed packages say of themselves."""
    scan = cache(manifest_scanner.scan_component_manifests)
    with mock.patch.object(manifest_scanner, "scan_component_manifests", scan):
        yield


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with scratch_folder() as folder:
        made = filled_once(common_folder(tmp_path_factory), folder)
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

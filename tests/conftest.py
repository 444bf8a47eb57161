"""One Chromium per process, and which tests share a process when they run side by side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.browser.provide_browser import on_path
from tests.made_once import common_folder
from tests.patience import PAGE_MILLISECONDS

# Read by torch and numpy when they load, here and in children. Their models are small in tests: a second thread mostly
# spins while it waits for the first, and takes the core from the tests beside it. What must not depend on the number of
# threads sets it itself (tests/laboratory/test_simulated_run.py, tests/games/test_evaluator.py).
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

TESTS = Path(__file__).parent
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
)
LONGEST_FIRST = ("browser", "test_cli_assess.py", "test_cli.py", "app", "execution", "runs")
"""What takes long begins early, so that at the end no process works alone."""


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all processes find the cases of the corpus that one of them has written."""
    return common_folder(tmp_path_factory) / "corpus"


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, object]:
    """A second Chromium cannot start beside one in the same process, so that all tests share this one."""
    found = on_path()
    return {"args": list(FLAGS), "timeout": PAGE_MILLISECONDS, **({"executable_path": found} if found else {})}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {place: rank for rank, place in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.relative_to(TESTS).parts[0], len(ranks)))


class SharedFixtures(LoadScopeScheduling):
    """A file's tests go to one process, and all tests of the dashboard in a browser to one: one server, one
    filled workspace, one Chromium."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "browser" if file.startswith("tests/browser/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SharedFixtures:
    config.option.loadscopereorder = False  # the order above is the better one
    return SharedFixtures(config, log)

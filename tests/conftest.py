"""One Chromium for every test that needs one: a second one in the same process cannot start beside it."""

from __future__ import annotations

import pytest

from tests.browser.provide_browser import on_path

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, object]:
    found = on_path()
    return {"args": list(FLAGS), **({"executable_path": found} if found else {})}

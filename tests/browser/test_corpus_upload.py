"""The corpus of bad inputs on the upload page in a real browser: a dozen kinds always, all in the slow suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import MILLISECONDS, Opener, Served
from tests.corpus.cases import Case, all_cases

pytestmark = pytest.mark.browser
expect.set_options(timeout=MILLISECONDS)
OFFERED = (".flrun", ".zip", ".csv", ".parquet")
ROWS = (2, 3, 4, 8, 15, 18, 21, 24, 27, 31, 33, 40)
"""One case of each of these lines of the table: archives, manifests, tensors, values, order, sizes, hostile names."""


def give(page: Page, case: Case, folder: Path, number: int) -> None:
    """Uploads a case under a name of its own and reads its code, or its acceptance, from the page."""
    place = folder / str(number)
    place.mkdir()
    path = case.write(place)
    if not path.is_file() or path.suffix not in OFFERED or len(list(place.iterdir())) > 1:
        return  # the browser's own dialog does not offer it
    name = f"case-{number:03d}{path.suffix}"
    shutil.copyfile(path, folder / name)
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(folder / name)
    if case.code:
        expect(page.get_by_text(f"{name} was refused")).to_be_visible()
        expect(page.get_by_test_id("stMain").get_by_text(case.code, exact=True).first).to_be_visible()
    else:
        expect(page.get_by_text(f"{name}: ")).to_be_visible()
        expect(page.get_by_text("Ready: ")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_case_of_every_kind(served: Served, open_page: Opener, tmp_path: Path) -> None:
    page = open_page(served.url("upload"))
    for row in ROWS:
        give(page, next(c for c in all_cases() if c.row == row), tmp_path, row)
    give(page, next(c for c in all_cases() if c.row == 28 and not c.code), tmp_path, 28)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_case(served: Served, open_page: Opener, tmp_path: Path) -> None:
    page = open_page(served.url("upload"))
    for number, case in enumerate(all_cases()):
        give(page, case, tmp_path, number)

"""The corpus of bad inputs on the upload page in a real browser: a dozen kinds always, all in the slow suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opener, Served
from tests.corpus.__main__ import write_case
from tests.corpus.cases import Case, all_cases

pytestmark = pytest.mark.browser
OFFERED = (".flrun", ".zip", ".csv", ".parquet")
ROWS = (2, 3, 4, 8, 15, 18, 21, 24, 27, 31, 33, 40)
"""One case of each of these lines of the table: archives, manifests, tensors, values, order, sizes, hostile names."""


def give(page: Page, case: Case, path: Path, folder: Path) -> None:
    """Uploads a written case under a name of its own and reads its code, or its acceptance, from the page."""
    if not path.is_file() or path.suffix not in OFFERED or len(list(path.parent.iterdir())) > 1:
        return  # the browser's own dialog does not offer it
    name = f"case-{path.parent.name}{path.suffix}"
    shutil.copyfile(path, folder / name)
    page.get_by_test_id("stFileUploaderDropzoneInput").last.set_input_files(folder / name)
    if case.code:
        expect(page.get_by_text(f"{name} was refused").last).to_be_visible()
        expect(page.get_by_test_id("stMain").get_by_text(case.code, exact=True).first).to_be_visible()
    else:
        expect(page.get_by_text(f"{name}: ").last).to_be_visible()
        expect(page.get_by_text("Ready: ").last).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_case_of_every_kind(served: Served, open_page: Opener, corpus_folder: Path, tmp_path: Path) -> None:
    page = open_page(served.url("upload"))
    cases = [next(c for c in all_cases() if c.row == row) for row in ROWS]
    for case in (*cases, next(c for c in all_cases() if c.row == 28 and not c.code)):
        give(page, case, write_case(case, corpus_folder), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_case(served: Served, open_page: Opener, corpus_folder: Path, tmp_path: Path) -> None:
    page = open_page(served.url("upload"))
    for case in all_cases():
        give(page, case, write_case(case, corpus_folder), tmp_path)

"""The corpus of bad inputs through the upload page: each one's code is shown, nothing stays, the page lives.

The ordinary tests take one case of every row, code and set of warnings; the slow ones take every case."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from flcontrib_dashboard.uploads import Delivery
from streamlit.testing.v1 import AppTest

from flcontrib_core.workspace import Workspace
from tests.app.own_caches import own_caches
from tests.app.test_pages import ENTRY
from tests.corpus.__main__ import write_case
from tests.corpus.cases import Case, all_cases
from tests.patience import PATIENCE_SECONDS
from tests.workspace.recorded import scratch_folder

OFFERED = (".flrun", ".zip", ".csv", ".parquet")


@dataclass(frozen=True)
class UploadPage:
    """The page in one session, as a reader uses it who tries one log after the other."""

    page: AppTest
    folder: Path

    def give(self, path: Path) -> Delivery:
        """By the file uploader; what it does not offer to take (directories, pipes, other endings, a table with data
        sizes beside it) by its path on the server."""
        alone = len(list(path.parent.iterdir())) == 1
        if not path.is_file() or path.suffix not in OFFERED or not alone:
            self.page.text_input[0].set_value(str(path))
            next(b for b in self.page.button if b.label == "Take it in").click().run()
        else:
            self.page.file_uploader[0].upload(path.name, path.read_bytes(), "application/octet-stream").run()
        delivery = self.page.session_state["delivery"]
        assert isinstance(delivery, Delivery)
        return delivery


@pytest.fixture(scope="module")
def upload_page() -> Iterator[UploadPage]:
    """The jobs that measure accepted runs wait for ever; they run in tests/browser/test_large_logs.py."""
    jobs_wait = mock.patch("flcontrib_core.workspace.jobs.JobQueue._start_next", return_value=False)
    with scratch_folder() as folder, own_caches(), jobs_wait:
        os.environ |= {"FLCONTRIB_WORKSPACE": str(folder / "workspace"), "FLCONTRIB_SAMPLES": "0"}
        page = AppTest.from_file(str(ENTRY), default_timeout=PATIENCE_SECONDS)
        page.switch_page("views/upload.py")
        page.run()
        yield UploadPage(page, folder / "workspace")


def cases() -> Iterator[Any]:
    """Every case; what the page would say again in the same words is left to the slow tests."""
    said = set()
    for case in all_cases():
        words = (case.row, case.code, *case.warnings)
        yield pytest.param(case, id=f"{case.row}-{case.name[:60]}", marks=[pytest.mark.slow] if words in said else [])
        said.add(words)


@pytest.mark.parametrize("case", list(cases()))
def test_case_through_the_upload_page(case: Case, upload_page: UploadPage, corpus_folder: Path) -> None:
    delivery = upload_page.give(write_case(case, corpus_folder))
    page = upload_page.page
    assert [e.value for e in page.exception] == [], "the page lives"
    assert delivery.failure == ""
    assert ([p.code for p in delivery.problems][:1] or [""])[0] == case.code
    if case.code:
        assert delivery.run is None
        assert "was refused" in page.error[0].value
        assert case.code in page.dataframe[0].value.iloc[:, 0].tolist()
    else:
        assert sorted({p.code for p in delivery.remarks}) == sorted(case.warnings)
        assert "Ready: " in " ".join(h.value for h in page.header)
    assert list((upload_page.folder / "incoming").iterdir()) == [], "nothing half received stays"


def test_what_was_refused_left_a_record_and_no_object(upload_page: UploadPage, corpus_folder: Path) -> None:
    """After all the cases above, or some of them: only accepted runs have an object."""
    refused = next(c for c in all_cases() if c.code and c.row == 2)
    accepted = next(c for c in all_cases() if not c.code and c.row == 35)
    for case in (refused, accepted):
        upload_page.give(write_case(case, corpus_folder))
    with Workspace(upload_page.folder) as workspace:
        kept = {name for run in workspace.runs() for name in (run.object, run.companion) if name is not None}
        assert kept == set(workspace.objects.names())
        records = workspace.log.entries("upload-refused")
        assert records
        assert all(r.body["size"] >= 0 and r.body["problems"] for r in records)
        assert list((upload_page.folder / "quarantine").iterdir()) == []

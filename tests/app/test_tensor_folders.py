"""A folder of models on the Upload page, dropped as a zip or named on the server: said first, then made a run."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from flcontrib_core.runs import RunLog, read_run_log
from flcontrib_core.runs.importing import import_folder
from flcontrib_core.workspace import RunEntry, Workspace
from tests.app.test_pages import _own_caches, opened, words
from tests.workspace.recorded import scratch_folder

assert _own_caches  # each case opens its own workspace


def make_folder(folder: Path, rounds: int = 3) -> Path:
    rng = np.random.default_rng(3)
    start = rng.normal(size=6).astype(np.float32)
    (folder / "models").mkdir(parents=True)
    np.savez(folder / "models" / "initial.npz", w=start)
    for number in range(1, rounds + 1):
        for site in ("nord", "süd"):
            np.savez(folder / "models" / f"{site}_round_{number}.npz", w=start + 0.1 * rng.normal(size=6))
    return folder / "models"


def zip_of(folder: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"models/{path.name}")
    return content.getvalue()


def confirmed(page: AppTest, workspace: Workspace) -> RunEntry:
    """Says what it understood before there is a run, and makes one when it is told to."""
    assert [e.value for e in page.exception] == []
    told = words(page)
    assert "Clients' files hold models" in told
    assert "3 rounds, 1 to 3, which become epochs 1 to 3." in told
    assert "No table of data sizes: all clients weigh the same." in told
    assert workspace.runs() == ()
    next(b for b in page.button if b.label == "Make a run of it").click().run()
    assert [e.value for e in page.exception] == []
    (entry,) = workspace.runs()
    assert (entry.name, entry.clients, entry.epochs) == ("models", 2, 3)
    assert entry.note.startswith("Made from models")
    assert "Ready: models" in words(page)
    run = workspace.open_run(entry.digest)
    assert isinstance(run, RunLog)
    assert run.client_ids == ("nord", "süd")
    return entry


@pytest.mark.parametrize("how", ["dropped", "named"])
def test_a_zip_or_a_folder_on_the_server_becomes_the_commands_own_run(how: str) -> None:
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace:
        models = make_folder(folder)
        page = opened(folder / "workspace", "upload")
        if how == "dropped":
            page.file_uploader[0].upload("models.zip", zip_of(models), "application/zip").run()
        else:
            page.text_input[0].set_value(str(models))
            next(b for b in page.button if b.label == "Take it in").click().run()
        entry = confirmed(page, workspace)
        import_folder(models, folder / "run")
        assert entry.digest == read_run_log(folder / "run").digest


def test_a_folder_that_is_not_understood_is_refused_in_words_and_nothing_is_made() -> None:
    with scratch_folder() as folder, Workspace(folder / "workspace") as workspace:
        (make_folder(folder) / "süd_round_2.npz").write_bytes(b"no archive")
        page = opened(folder / "workspace", "upload")
        page.file_uploader[0].upload("models.zip", zip_of(folder / "models"), "application/zip").run()
        assert [e.value for e in page.exception] == []
        assert "E_IMPORT" in words(page)
        assert next(b for b in page.button if b.label == "Make a run of it").disabled
        assert workspace.runs() == ()

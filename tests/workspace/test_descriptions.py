"""A run can be renamed, tagged and annotated; the log keeps every word, and nothing about the run itself changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace import Workspace


def test_the_last_word_on_each_part_counts_and_earlier_names_stay(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run(bundle, "first name")
    workspace.describe_run(entry.digest, by="ada", name="second name", tags=["pilot", " ward 3 ", "pilot", ""])
    found = workspace.describe_run(entry.digest, by="ada", note="asked for it in May")
    assert (found.name, found.tags, found.note) == ("second name", ("pilot", "ward 3"), "asked for it in May")
    assert "first name" in found.names
    assert found == workspace.find_run(entry.digest) == workspace.runs()[0]
    assert (found.digest, found.object) == (entry.digest, entry.object)
    assert workspace.verify_chain() is None


def test_a_deleted_run_comes_back_without_what_was_said_of_it(workspace: Workspace, bundle: Path) -> None:
    entry = workspace.add_run(bundle, "first name")
    workspace.describe_run(entry.digest, by="ada", name="second name", tags=["pilot"])
    workspace.delete_run(entry.digest)
    again = workspace.add_run(bundle, "first name")
    assert (again.name, workspace.runs()[0].name, workspace.runs()[0].tags) == ("first name", "first name", ())


def test_what_cannot_be_kept_is_refused_in_words(workspace: Workspace, bundle: Path) -> None:
    digest = workspace.add_run(bundle).digest
    for wrong in (
        {"name": "  "},
        {"name": "x" * 201},
        {"tags": ["x" * 41]},
        {"tags": list("abcdefghijklmnopqrstu")},
        {},
    ):
        with pytest.raises(SettingsError):
            workspace.describe_run(digest, by="ada", **wrong)
    with pytest.raises(WorkspaceError, match="no run"):
        workspace.describe_run("f" * 64, by="ada", note="x")

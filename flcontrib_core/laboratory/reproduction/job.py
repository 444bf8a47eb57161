"""A figure of the paper as a job of a workspace."""

from __future__ import annotations

from typing import Any

from flcontrib_core.laboratory.reproduction.catalogue import reproduce
from flcontrib_core.laboratory.reproduction.files import write_figure
from flcontrib_core.laboratory.reproduction.grid import Stage
from flcontrib_core.reports.paper_figure import REPRODUCTION
from flcontrib_core.vocabulary import OnProgress, no_progress
from flcontrib_core.workspace import ResultEntry, Workspace


def reproduce_in_workspace(
    workspace: Workspace, run_digest: str, settings: dict[str, Any], on_progress: OnProgress = no_progress
) -> ResultEntry:
    """Makes the figure that the settings name, at the small scale, and keeps it with its files in the workspace.

    Finished instances are kept, so that a job that was stopped goes on where it was.
    """
    folder = workspace.path / "paper"
    stage = Stage(seeds=settings.get("seeds"))
    figure = reproduce(
        settings["figure"], stage, folder / "instances", workspace.preferences.agreed_execution(), on_progress
    )
    assert figure is not None
    write_figure(figure, folder)
    return workspace.store_result(run_digest, settings, REPRODUCTION, figure.shown)

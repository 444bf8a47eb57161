"""What a command computed, kept in the workspace that was named: the dashboard shows it as any other result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flcontrib_core.commands.printing import say


def keep_in_workspace(path: Path, report: Any, options: dict[str, Any]) -> None:
    """Adds the run and the report to ``--workspace`` where one was named."""
    if not _named(options):
        return
    from flcontrib_core.words import result_label
    from flcontrib_core.workspace import Workspace, keep_report

    with Workspace(options["workspace"]) as workspace:
        entry = _add(workspace, path, options)
        kept = keep_report(workspace, entry.digest, dict(report.provenance.settings), report)
        say(f"kept in {workspace.path}: {entry.name}, {result_label(kept.settings)}", err=True)


def keep_measurement(path: Path, options: dict[str, Any]) -> None:
    """Adds the run and its measurement to ``--workspace`` where one was named, so that the page can plan at once."""
    if not _named(options):
        return
    from flcontrib_core.workspace import Workspace, measure_in_workspace

    with Workspace(options["workspace"]) as workspace:
        entry = _add(workspace, path, options)
        if workspace.latest_result(entry.digest, "measurement") is None:
            measure_in_workspace(workspace, entry.digest, {})
        say(f"kept in {workspace.path}: {entry.name}, measured for a plan", err=True)


def keep_asked(path: Path, progress: Any, options: dict[str, Any]) -> None:
    """Adds the run, and how far answers from elsewhere are, to ``--workspace`` where one was named."""
    if not _named(options):
        return
    from flcontrib_core.history.asking import Asked
    from flcontrib_core.workspace import Workspace

    with Workspace(options["workspace"]) as workspace:
        entry = _add(workspace, path, options)
        workspace.store_result(entry.digest, {}, "asked", Asked(progress.epochs, progress.voters))
        say(f"kept in {workspace.path}: {entry.name}, what was asked and answered", err=True)


def _named(options: dict[str, Any]) -> bool:
    return bool(options.get("workspace")) and not options.get("no_memory")


def _add(workspace: Any, path: Path, options: dict[str, Any]) -> Any:
    nonfinite = "absent" if options.get("nonfinite") == "absent" else "refuse"
    return workspace.add_run(path, nonfinite=nonfinite, lower_is_better=options.get("lower_is_better") or ())

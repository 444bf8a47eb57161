"""``track``: an audit in the experiment tracker that people already look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.assessing import JSON, PRESET, RUN, reviews_of, run_audit
from flcontrib_core.commands.keeping import keep_in_workspace
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ENGINE_OPTIONS,
    ESTIMATOR_OPTIONS,
    READING_OPTIONS,
    SectionedCommand,
    with_options,
)
from flcontrib_core.commands.printing import ProgressLine, print_json

PROJECT = "flcontrib"


@click.command(
    cls=SectionedCommand,
    epilog="Example: flcontrib track sample_runs/two-poisoned.flrun --to tensorboard --place board",
)
@RUN
@click.option(
    "--to", required=True, type=click.Choice(["mlflow", "wandb", "tensorboard"]), help="The tracker that gets it."
)
@click.option("--place", help="MLflow's tracking address, or the folder for W&B or TensorBoard [the tracker's own].")
@click.option("--project", default=PROJECT, show_default=True, help="MLflow's experiment, W&B's project.")
@with_options(READING_OPTIONS, ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@PRESET
@JSON
def track(run: Path, to: str, place: str | None, project: str, preset: str, as_json: bool, **options: Any) -> None:
    """Audit a run and write values per epoch, totals and alerts to MLflow, Weights & Biases or TensorBoard.

    Help is up in every series. Alerts that were dismissed are left out. Nothing leaves this machine unless --place or
    the tracker's own environment names an address: W&B writes into a folder unless WANDB_MODE says otherwise.
    """
    from flcontrib_core.reports.trackers import track as write

    progress = ProgressLine()
    report = run_audit(run, preset, options, progress)
    progress.close()
    keep_in_workspace(run, report, options)
    written = write(report, to, place=place, project=project, reviews=reviews_of(report, options))
    if as_json:
        print_json({"tracker": to, "place": written, "digest": report.history.run_digest})
    else:
        click.echo(written)

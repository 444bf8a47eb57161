"""``check``: validates a log and names every fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flcontrib_core.commands.given_files import GivenFile
from flcontrib_core.commands.printing import print_json, say

if TYPE_CHECKING:
    from flcontrib_core.history import LogMeaning
    from flcontrib_core.runs import CheckResult, NonFinite

MOST_LINES = 12
"""Epochs of the curve that the terminal shows; --json has them all."""


@click.command(epilog="Example: flcontrib check sample_runs/two-poisoned.flrun")
@click.argument("run", type=GivenFile())
@click.option("--nonfinite", type=click.Choice(["refuse", "absent"]), default="refuse", show_default=True,
              help="NaN or infinite updates: refuse, or count them as not taking part.")  # fmt: skip
@click.option("--lower-is-better", multiple=True, metavar="NAME", help="Tables: a utility whose small values are good.")
@click.option("--no-model", is_flag=True, help="Do not rebuild the global model: bytes and numbers alone.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
@click.pass_context
def check(
    context: click.Context,
    run: Path,
    nonfinite: str,
    lower_is_better: tuple[str, ...],
    no_model: bool,
    as_json: bool,
) -> None:
    """Validate a run log (directory, .flrun, CSV or Parquet table, or - for standard input) and name every fault found.

    Where the log has a model and validation rows, the global model is rebuilt from it: its loss and accuracy per
    epoch, and a warning where it does not learn or another reading of the log would make a better model.
    """
    from flcontrib_core.runs.bundle import check_run_log, is_table

    treat: NonFinite = "absent" if nonfinite == "absent" else "refuse"
    result = check_run_log(run, nonfinite=treat, lower_is_better=lower_is_better)
    meaning = None
    if result.ok and not no_model and not is_table(run):  # a table has no model: its check need not load what reads one
        from flcontrib_core.history import read_meaning_apart

        meaning = read_meaning_apart(run, treat)
    if as_json:
        print_json(result.to_json() | {"model": None if meaning is None else meaning.to_json()})
    else:
        _print_check(result, meaning)
    if not result.ok:
        context.exit(2)


def _print_check(result: CheckResult, meaning: LogMeaning | None) -> None:
    from flcontrib_core.words import problem_groups
    from flcontrib_core.words.numbers import several

    more = () if meaning is None else meaning.warnings
    for kind, problems in (("error", result.errors), ("warning", (*result.warnings, *more))):
        for group in problem_groups(problems):
            say(f"{kind} {group.sentence()}", err=True)
    if not result.ok:
        click.echo(f"refused: {several(len(result.errors), 'problem')}", err=True)
        return
    most = max(result.participants, default=0)
    size = f"{several(len(result.clients), 'client')}, {several(result.epochs, 'epoch')}"
    click.echo(f"sound: {size}, up to {most} per epoch")
    click.echo(f"digest {result.digest}")
    if meaning is not None and (curve := meaning.curve) is not None:
        click.echo("the global model, rebuilt from the log:")
        click.echo(f"  {'epoch':>6} {curve.names[0]:>9} {curve.names[1]:>9}")
        shown = sorted({round(i * (len(curve.epochs) - 1) / MOST_LINES) for i in range(MOST_LINES + 1)})
        for i in shown:
            values = ("      none" if v is None else f"{v:>9.4f}" for v in (curve.loss[i], curve.accuracy[i]))
            click.echo(f"  {curve.epochs[i]:>6} {' '.join(values)}")

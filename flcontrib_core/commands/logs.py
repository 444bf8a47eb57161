"""``check``: is this log sound?"""

from __future__ import annotations

from pathlib import Path

import click

from flcontrib_core.commands.printing import print_json


@click.command(epilog="Example: flcontrib check sample_runs/two-poisoned.flrun")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--nonfinite", type=click.Choice(["refuse", "absent"]), default="refuse", show_default=True,
              help="NaN or infinite updates: refuse, or count them as not taking part.")  # fmt: skip
@click.option("--lower-is-better", multiple=True, metavar="NAME", help="Tables: a utility whose small values are good.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
@click.pass_context
def check(context: click.Context, run: Path, nonfinite: str, lower_is_better: tuple[str, ...], as_json: bool) -> None:
    """Validate a run log (directory, .flrun, CSV or Parquet table) and name every fault found."""
    from flcontrib_core.runs.bundle import check_run_log
    from flcontrib_core.runs.bundle_reader import NonFinite

    treat: NonFinite = "absent" if nonfinite == "absent" else "refuse"
    found = check_run_log(run, nonfinite=treat, lower_is_better=lower_is_better)
    if as_json:
        print_json(found.to_json())
    else:
        for kind, problems in (("error", found.errors), ("warning", found.warnings)):
            for p in problems:
                words = f"found {p.found}; expected {p.expected}\n  {p.fix}"
                click.echo(f"{kind} {p.code} at {p.where}\n  {words}", err=True)
        if found.ok:
            most = max(found.participants, default=0)
            click.echo(f"sound: {len(found.clients)} clients, {found.epochs} epochs, up to {most} per epoch")
            click.echo(f"digest {found.digest}")
        else:
            click.echo(f"refused: {len(found.errors)} faults", err=True)
    if not found.ok:
        context.exit(2)

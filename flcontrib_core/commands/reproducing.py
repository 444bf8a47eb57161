"""``reproduce``: the paper's experiments."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path

import click

from flcontrib_core.commands.printing import Progress, print_json, table


@click.command(epilog="Example: flcontrib reproduce change-points --data-dir data -o figures")
@click.argument("figure")
@click.option(
    "--dataset", type=click.Choice(["adult", "compas", "cifar10"]), default="adult", show_default=True, help="Data."
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with the data sets ($FLCONTRIB_DATA).")
@click.option(
    "--scale", type=click.Choice(["small", "full"]), default="small", show_default=True, help="Minutes or hours."
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the figure's data (CSV and JSON).")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def reproduce(figure: str, dataset: str, data_dir: Path | None, scale: str, out: Path | None, as_json: bool) -> None:
    """Make a figure's data again: change-points, jaccard, methods, schedulers, approximations or aggregation."""
    from flcontrib_core.laboratory.reproduction import Stage
    from flcontrib_core.laboratory.reproduction import reproduce as run_figure

    progress = Progress()
    found = run_figure(figure, Stage(dataset, data_dir, full=scale == "full"), progress)
    progress.close()
    names = list(dict.fromkeys(k for row in found.rows for k in row))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{found.name}.json").write_text(json.dumps(asdict(found), indent=1))
        with (out / f"{found.name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(found.rows)
        click.echo(f"wrote {out / found.name}.csv and .json", err=True)
    if as_json:
        print_json(asdict(found))
        return
    click.echo(f"{found.question} (paper: {found.paper})")
    cells = [
        [f"{row.get(n):.4g}" if isinstance(row.get(n), float) else str(row.get(n, "")) for n in names]
        for row in found.rows
    ]
    click.echo(table(names, cells))

"""``reproduce``: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.options import WORKER_OPTIONS, execution_of, with_options
from flcontrib_core.commands.printing import ProgressLine, print_json, say
from flcontrib_core.errors import MissingPart

if TYPE_CHECKING:
    from flcontrib_core.reports.paper_figure import PaperFigure


@click.command(epilog="Example: flcontrib reproduce all --data-dir data -o paper --workers 2")
@click.argument("figure")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with the data sets ($FLCONTRIB_DATA).")
@click.option(
    "--scale",
    type=click.Choice(["small", "full"]),
    default="small",
    show_default=True,
    help="Minutes on two cores, or the paper's own grid of 132 instances (days).",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("paper"), show_default=True,
    help="Folder for data (Parquet, CSV, JSON), drawings (SVG, HTML; PNG with flcontrib[png]) and claims. Finished "
         "instances are kept there: the same command goes on where it was stopped.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(1, 20), help="Runs of every setting. Default: 2; for cactus and with --scale full 3."
)
@with_options(WORKER_OPTIONS)
@click.option("--kept", is_flag=True, help="Run nothing: draw what the finished instances in the folder give so far.")
@click.option("--price", is_flag=True, help="Only say about how long it would take.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def reproduce(
    figure: str,
    data_dir: Path | None,
    scale: str,
    out: Path,
    seeds: int | None,
    kept: bool,
    price: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a figure of the paper again, with its claims: cactus, ablations, approximations, change-points, jaccard,
    aggregation, or all."""
    from flcontrib_core.laboratory.reproduction import FIGURES, Stage, price_of_figures, write_claims_page, write_figure
    from flcontrib_core.laboratory.reproduction import reproduce as run_figure
    from flcontrib_core.words import numbers

    if kept and price:
        raise click.UsageError("--kept runs nothing, so it has no price: give one of the two")
    stage = Stage(data_dir, full=scale == "full", seeds=seeds)
    names, where = list(FIGURES) if figure == "all" else [figure], execution_of(options)
    workers = where.processes
    prices = {} if kept else price_of_figures(names, stage, workers)
    for name, seconds in prices.items():
        on = numbers.several(workers, "worker")
        say(f"{name}: about {numbers.seconds(seconds)} on {on}, less what is kept in {out}", err=True)
    if price:
        if as_json:
            print_json({"seconds": prices})
        return
    answers = []
    for name in names:
        progress = ProgressLine()
        made = run_figure(name, stage, out / "instances", where, progress, only_kept=kept)
        progress.close()
        if made is None:
            click.echo(f"{name}: no finished instance in {out}", err=True)
            continue
        shown = made.shown
        files = [*write_figure(made, out), *_images(shown, out)]
        answer = {"name": name, "files": [str(path) for path in files], "cpu_seconds": shown.seconds}
        answers.append({**answer, "claims": [claim.to_json() for claim in shown.claims]})
        if not as_json:
            say("", f"{shown.drawn.title} ({shown.scale}, {shown.seconds / 60:.1f} min of CPU)")
            for claim, paper, ours, holds in (claim.cells for claim in shown.claims):
                say(f"{holds}: {claim}", f"  paper: {paper}; ours: {ours}")
            click.echo(f"drawn: {out / f'{name}.svg'}")
    if not answers:
        raise MissingPart(f"{out} holds no finished instance that could be drawn: run the figure without --kept first")
    click.echo(f"every claim: {write_claims_page(out)}", err=True)
    if as_json:
        print_json({"figures": answers})


def _images(shown: PaperFigure, out: Path) -> list[Path]:
    """The PNGs that were written; where this machine cannot draw one, that is said, and the other files are enough."""
    from flcontrib_core.laboratory.reproduction import write_images

    try:
        return write_images(shown, out)
    except MissingPart as fault:
        click.echo(f"{shown.name}.png was not drawn: {fault}", err=True)
        return []

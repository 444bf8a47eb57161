"""``ask`` and ``tell``: coalitions that somebody else evaluates, and values from the answers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.assessing import JSON, RUN, open_run
from flcontrib_core.commands.keeping import keep_asked, keep_in_workspace
from flcontrib_core.commands.printing import print_json, say, table
from flcontrib_core.errors import SettingsError

if TYPE_CHECKING:
    from flcontrib_core.history.asking import Told


WORKSPACE = click.option("--workspace", metavar="DIR", help="Folder whose dashboard shows what is asked and answered.")


def _metrics(given: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [metric.rpartition(":")[::2] for metric in given]
    if any(not name for name, _ in pairs):
        raise SettingsError(f"--metric {' '.join(given)}: write the name and which way is better, e.g. dice:higher")
    return dict(pairs) or None


def _show(progress: Told, as_json: bool) -> None:
    if as_json:
        epochs = [{"epoch": e.epoch, "asked": e.asked, "answered": e.answered} for e in progress.epochs]
        voters = {"voters": [asdict(voter) for voter in progress.voters]} if progress.voters else {}
        print_json({"epochs": epochs, "complete": progress.complete, **voters})
        return
    from flcontrib_core.history.voting import TURNED

    rows = [[str(e.epoch), str(e.asked), str(e.answered), str(e.asked - e.answered)] for e in progress.epochs]
    click.echo(table(["epoch", "asked", "answered", "open"], rows))
    for voter in progress.voters:
        score = "not known yet" if voter.agreement is None else f"{voter.agreement:.2f}"
        if voter.turned is not None and voter.turned > TURNED:
            score += f", explained by the others' with the sign turned (score {voter.turned:.2f}, limit {TURNED:g})"
        apart = "; disagrees with all others, left out" if voter.left_out else ""
        say(f"voter {voter.client}: {voter.rows} rows, agreement {score}{apart}")


@click.command(epilog="Example: flcontrib ask run.flrun -o work --metric dice:higher")
@RUN
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="Folder for the questions.")
@click.option(
    "--metric",
    multiple=True,
    metavar="METRIC",
    help="A metric and which way is better, e.g. dice:higher or hd95:lower.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which coalitions are drawn.")
@click.option("--voters", is_flag=True, help="The clients answer, each on its own rows; their votes are joined.")
@click.option("--leave-own-out", is_flag=True, help="With --voters: what a client says of itself does not count.")
@click.option("--trim", type=float, default=0.0, show_default=True, help="With --voters: share cut off at either end.")
@WORKSPACE
@JSON
def ask(
    run: Path,
    out: Path,
    metric: tuple[str, ...],
    seed: int,
    voters: bool,
    leave_own_out: bool,
    trim: float,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Which coalitions to evaluate elsewhere: one JSON-lines file per epoch, weights over participants, no tensors.

    Anything may answer: {"id", "weights": {client: w}, "answer": null} asks for the metrics of the model before the
    epoch plus each client's update times its weight. Write them into "answer" and call tell. With --voters each client
    writes its answers into a folder of its own; docs/federations.md shows how.
    """
    from flcontrib_core.history.asking import ask as ask_run
    from flcontrib_core.history.asking import need_log
    from flcontrib_core.history.settings import AssessSettings
    from flcontrib_core.history.voting import VotingRules

    if (leave_own_out or trim) and not voters:
        raise SettingsError("--leave-own-out and --trim are about votes; add --voters")
    log = need_log(open_run(run, {}))
    voting = VotingRules(leave_own_out, trim) if voters else None
    progress = ask_run(log, out, _metrics(metric), AssessSettings(seed=seed), voting)
    keep_asked(run, progress, {"workspace": workspace})
    _show(progress, as_json)


@click.command(epilog="Example: flcontrib tell run.flrun work -o values --report report.html")
@RUN
@click.argument("work", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the values as Parquet, CSV and JSON.")
@click.option("--report", type=click.Path(path_type=Path), help="Write the audit of these values as HTML and JSON.")
@WORKSPACE
@JSON
def tell(run: Path, work: Path, out: Path | None, report: Path | None, workspace: str | None, as_json: bool) -> None:
    """Takes the answers in WORK: closes epochs with values and intervals, or asks for a few more."""
    from flcontrib_core.history.asking import need_log
    from flcontrib_core.history.asking import tell as tell_run

    log = need_log(open_run(run, {}))
    progress = tell_run(log, work)
    keep_asked(run, progress, {"workspace": workspace})
    if progress.history is not None:
        _write(log, progress.history, out, report)
        _keep(run, log, progress.history, {"workspace": workspace})
    _show(progress, as_json)


def _write(log: Any, history: Any, out: Path | None, report: Path | None) -> None:
    from flcontrib_core.reports.tables import write_history_tables
    from flcontrib_core.reports.twin import write_report
    from flcontrib_core.vocabulary import FillPolicy

    if out is not None:
        for path in write_history_tables(history, out, FillPolicy.EQUAL, log.warnings):
            click.echo(f"wrote {path}", err=True)
    if report is not None:
        for path in write_report(_report_on(log, history), report):
            click.echo(f"wrote {path}", err=True)


def _keep(run: Path, log: Any, history: Any, options: dict[str, Any]) -> None:
    """The audit of these values, kept where a workspace was named: its pages show it as any other result."""
    if options["workspace"]:
        keep_in_workspace(run, _report_on(log, history), options)


def _report_on(log: Any, history: Any) -> Any:
    from flcontrib_core.auditing import AuditSettings, report_on
    from flcontrib_core.history.settings import AssessSettings

    settings = AuditSettings(AssessSettings(utilities=history.utilities))
    return report_on(log, history, settings, {"executor": "answers from elsewhere"})

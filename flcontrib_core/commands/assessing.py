"""``assess``, ``schedule``, ``audit``, ``compare``: what a run says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flcontrib_core.commands.given_files import GivenFile
from flcontrib_core.commands.keeping import keep_in_workspace, keep_measurement
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ENGINE_OPTIONS,
    ESTIMATOR_OPTIONS,
    READING_OPTIONS,
    WORKER_OPTIONS,
    WORKSPACE,
    SectionedCommand,
    audit_settings_from,
    computing_of,
    execution_of,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import ProgressLine, print_json, say, table
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.vocabulary import Orientation

if TYPE_CHECKING:
    from flcontrib_core.detection import Reviews

JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
PRESET = click.option(
    "--preset", type=click.Choice(["default", "strict"]), default="default", show_default=True, help="Alert threshold."
)
RUN = click.argument("run", type=GivenFile())


def open_run(path: Path, options: dict[str, Any]) -> Any:
    """The run at a path, read as the options ask."""
    from flcontrib_core.runs.bundle import read_run_log
    from flcontrib_core.runs.frozen import given_to

    run = read_run_log(
        path,
        nonfinite="absent" if options.get("nonfinite") == "absent" else "refuse",
        lower_is_better=options.get("lower_is_better") or (),
    )
    return given_to(run, options.get("frozen"))


def memory_of(options: dict[str, Any], run: Any = None) -> dict[str, Any]:
    """The workspace's checkpoints and evaluation memory, unless --no-memory."""
    if options.get("no_memory"):
        return {}
    from flcontrib_core.workspace import Workspace

    workspace = Workspace(options.get("workspace"))
    return {"checkpoints": workspace.checkpoints(run), "memory": workspace.utility_memory(run)}


def run_assessment(run: Any, settings: AssessSettings, options: dict[str, Any], progress: ProgressLine) -> Any:
    """The contributions of a run, computed as the options ask."""
    from flcontrib_core.history.assess import assess_contributions

    return assess_contributions(
        run,
        settings,
        **computing_of(options),
        on_progress=progress,
        **memory_of(options, run),
    )


@click.command(
    cls=SectionedCommand, epilog="Example: flcontrib assess sample_runs/two-poisoned.flrun --budget 0.5 -o out"
)
@RUN
@with_options(ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@click.option(
    "--orientation",
    type=click.Choice([o.value for o in Orientation]),
    default=Orientation.HELP_UP.value,
    show_default=True,
    help="The totals' sign: up is help, or the paper's (a rising share of the loss is harm). Files keep the paper's.",
)
@click.option("--initial", is_flag=True, help="Totals with every client's share of the initial model, v(F0)/m.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the values as Parquet, CSV and JSON.")
@JSON
def assess(run: Path, orientation: str, initial: bool, out: Path | None, as_json: bool, **options: Any) -> None:
    """Per-epoch Shapley values of every client."""
    from flcontrib_core.reports.as_json import history_json
    from flcontrib_core.words import history_remarks

    settings = settings_from(options)
    progress = ProgressLine()
    log = open_run(run, options)
    history = run_assessment(log, settings, options, progress)
    progress.close()
    if options.get("workspace"):
        from flcontrib_core.auditing import AuditSettings, report_on

        keep_in_workspace(run, report_on(log, history, AuditSettings(settings)), options)
    if out is not None:
        from flcontrib_core.reports.tables import write_history_tables

        for path in write_history_tables(history, out, settings.fill, log.warnings):
            click.echo(f"wrote {path}", err=True)
    if as_json:
        print_json(history_json(history, settings.fill))
        return
    click.echo(_totals_table(history, settings, Orientation(orientation), initial))
    done = int(history.computed[1:].sum())
    methods = sorted({m for m, c in zip(history.estimator[1:], history.computed[1:], strict=True) if c})
    say("", f"{done} of {history.epoch_count} epochs computed ({', '.join(methods)}), {work_of(history)}")
    for line in history_remarks(history)[:10]:
        say(f"note: {line}", err=True)


def work_of(history: Any) -> str:
    """What it took: how many evaluations, how many of them were remembered from earlier work, and the time."""
    if history.without_values is not None:
        return f"no coalition evaluated, {history.seconds:.1f} s"
    asked = int(history.evaluations.sum())
    remembered = "none" if not history.recalled else f"{history.recalled} ({history.recalled / max(asked, 1):.0%})"
    return f"{asked} evaluations, {remembered} of them remembered, {history.seconds:.1f} s"


def _total_words(total: float, error: float, filled: int) -> str:
    """A total with its interval; one that is partly filled in says so, for no interval covers what is."""
    from flcontrib_core.words.numbers import several, signed

    interval = "" if not error > 0 else f" ± {1.96 * error:.3f}"
    return signed(float(total)) + interval + (f" ({several(int(filled), 'epoch')} filled in)" if filled else "")


def _totals_table(history: Any, settings: AssessSettings, orientation: Orientation, initial: bool) -> str:
    from flcontrib_core.words.numbers import credited

    header, columns = ["client"], []
    for u in history.utilities:
        total, error = history.shown_totals(u, settings.fill, orientation, initial), history.total_standard_errors(u)
        named = credited(u, u in history.lower_is_better, orientation, initial)
        header.append(named if orientation is Orientation.PAPER or initial else f"{named} credited")
        filled = history.of(u).missing.sum(axis=0)
        columns.append([_total_words(*cell) for cell in zip(total, error, filled, strict=True)])
    took_part = history.participated.sum(axis=0)
    header.append("epochs")
    columns.append([str(int(n)) for n in took_part])
    first = history.utilities[0]
    order = np.argsort(history.harm_sign(first) * history.totals(first, settings.fill), kind="stable")
    return table(header, [[history.client_ids[i], *(c[i] for c in columns)] for i in order])


@click.command(
    cls=SectionedCommand,
    epilog="Example: flcontrib schedule run.flrun --budget 0.5 --fairness two-sided --gamma 0.3 -o plan.svg",
)
@RUN
@with_options(BUDGET_OPTIONS, ESTIMATOR_OPTIONS, [*WORKER_OPTIONS, WORKSPACE])
@click.option("--prove", is_flag=True, help="Prove optimality with the integer program (may take long).")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Picture of the schedule: .svg, .png or .html.")
@JSON
def schedule(run: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Which epochs are worth computing under a budget, and how fair is that?"""
    from flcontrib_core.history.trajectory import scheduling_problem
    from flcontrib_core.scheduling.choose import choose_epochs, schedule_json
    from flcontrib_core.words import blind_spot_lines, enough_lines, method_words, proof_words, unseen_words
    from flcontrib_core.words.numbers import several, share

    settings = settings_from(options)
    progress = ProgressLine()
    problem = scheduling_problem(open_run(run, options), settings, on_progress=progress, where=execution_of(options))
    progress.close()
    plan = choose_epochs(problem, settings.budget)
    keep_measurement(run, options)
    if out is not None:
        from flcontrib_core.charts import write_schedule

        click.echo(f"wrote {write_schedule(plan, out)}", err=True)
    if as_json:
        print_json(schedule_json(plan))
        return
    if plan.chosen:
        say(f"computing {len(plan.chosen)} of {plan.epoch_count} epochs: {', '.join(map(str, plan.chosen))}")
    else:
        say("the schedule is empty: under these settings every epoch takes away more than it adds")
    found = f"{method_words(plan)}, {proof_words(plan)}"
    say(f"objective {plan.objective:.4f} ({found}); covers {share(plan.coverage)} of the movement")
    if plan.unused_budget:
        say(f"left unused: {several(plan.unused_budget, 'epoch')} of the budget")
    if plan.predicted_evaluations is not None:
        say(f"predicted evaluations: {plan.predicted_evaluations}")
    rows = [[c, "never took part" if e is None else share(e)] for c, e in plan.exposure.items()]
    click.echo(table(["client", "share of its epochs computed"], rows))
    for line in (unseen_words(plan), *blind_spot_lines(plan, 5), *enough_lines(plan)):
        say(line)


@click.command(cls=SectionedCommand, epilog="Example: flcontrib audit sample_runs/two-poisoned.flrun")
@RUN
@with_options(READING_OPTIONS, ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@PRESET
@click.option("--fail-on-alert", is_flag=True, help="Exit code 1 when an alert accuses and was not dismissed.")
@JSON
def audit(run: Path, preset: str, fail_on_alert: bool, as_json: bool, **options: Any) -> int:
    """Assess a run, read its history, and say who changed and when."""
    from flcontrib_core.reports.as_json import audit_json

    progress = ProgressLine()
    report = run_audit(run, preset, options, progress)
    progress.close()
    keep_in_workspace(run, report, options)
    reviews = reviews_of(report, options)
    if as_json:
        print_json({**audit_json(report), "decisions": reviews.to_json(), "declared": reviews.notes_json()})
    else:
        print_audit(report, reviews)
    accusing = any(alert.accuses for alert in reviews.standing(report.detection.alerts))
    return 1 if fail_on_alert and accusing else 0


def reviews_of(report: Any, options: dict[str, Any]) -> Reviews:
    """What the workspace's log holds about this run's alerts; nothing with --no-memory."""
    from flcontrib_core.detection import NO_REVIEWS

    if options.get("no_memory"):
        return NO_REVIEWS
    from flcontrib_core.workspace import Workspace

    with Workspace(options.get("workspace")) as workspace:
        return workspace.alerts.reviews(report.history.run_digest)


def run_audit(path: Path, preset: str, options: dict[str, Any], progress: ProgressLine) -> Any:
    """The audit of the run at a path, computed as the options ask."""
    from flcontrib_core.auditing import audit as audit_run

    run = open_run(path, options)
    return audit_run(
        run,
        audit_settings_from(options, preset),
        **computing_of(options),
        on_progress=progress,
        **memory_of(options, run),
    )


def print_audit(report: Any, reviews: Reviews | None = None) -> None:
    """The audit in words: what was observed, how sure, what speaks against it, what was decided."""
    from flcontrib_core import words
    from flcontrib_core.detection import NO_REVIEWS
    from flcontrib_core.words.numbers import several

    reviews = reviews or NO_REVIEWS
    detection, history = report.detection, report.history
    size = f"{several(len(history.client_ids), 'client')}, {several(history.epoch_count, 'epoch')}"
    say(f"{report.run_name}: {size}", f"{words.headline(report, reviews=reviews)}.")
    shift = words.visible_shift(report)
    if not detection.alerts and shift is not None:
        say(shift)
    for alert in reviews.ordered(detection.alerts):
        about = f"{words.verdict_name(alert.verdict)}, {words.where_words(alert)}, {words.how_sure(alert)}"
        say("", words.manager_line(alert), f"  {about}", f"  {words.engineer_line(alert)}")
        for label, lines in (
            ("for", words.why(alert)),
            ("against", words.counter_evidence(alert)),
            ("rests on", words.context(alert)),
        ):
            for line in lines:
                say(f"  {label}: {line}")
        say(*(f"  declared: {words.note_line(n)}" for n in reviews.notes_on(alert.client, alert.window)))
        if (review := reviews.of(alert)) is not None:
            say(*(f"  recorded: {words.step_line(step)}" for step in review.steps))
    undecided = words.undecided_sentence(report)
    if undecided is not None:
        say("", undecided)
    if (lacking := words.without_values(history)) is not None:
        say("", lacking)
    for remark in words.sentences(detection.remarks, ""):
        say(remark)
    if not detection.alerts:
        say("", words.false_alarm_sentence(detection.false_alarms))
    if (standing := words.stands_on(report)) is not None:
        say("", standing)
    say("", words.OBSERVED_ONLY)
    say("", work_of(history))
    for check in report.axioms:
        if not check.holds:
            place = f"in epoch {check.epoch} ({check.method})"
            say(f"{check.utility}: {check.name} misses by {check.gap:.2g} {place}")
    for warning in report.warnings:
        say(f"log: {warning.sentence()}", err=True)


@click.command(cls=SectionedCommand, epilog="Example: flcontrib compare before.flrun after.flrun")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@with_options(READING_OPTIONS, ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@PRESET
@JSON
def compare(runs: tuple[Path, ...], preset: str, as_json: bool, **options: Any) -> None:
    """Totals, ranks and alerts of two or more runs side by side (the first is the baseline)."""
    from flcontrib_core.reports.comparison import compare_reports
    from flcontrib_core.words import alert_title
    from flcontrib_core.words.numbers import credited, signed

    progress = ProgressLine()
    reports = [run_audit(path, preset, options, progress) for path in runs]
    rows = compare_reports(reports)
    progress.close()
    if as_json:
        print_json(rows)
        return
    for utility, block in rows["utilities"].items():
        lower = utility in reports[0].history.lower_is_better
        click.echo(f"\n{credited(utility, lower)}: total per client (rank)")
        lines = []
        for client, entries in block.items():
            cells = ["–" if e is None else f"{signed(e['credit'])} ({e['rank']})" for e in entries]
            lines.append([client, *cells])
        click.echo(table(["client", *rows["runs"]], lines))
    say("", "alerts")
    for run, report in zip(rows["runs"], reports, strict=True):
        say(f"{run}: " + ("; ".join(map(alert_title, report.detection.alerts)) or "none"))

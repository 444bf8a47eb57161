"""The options that assess, schedule, audit and report share, and the settings they become."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from flcontrib_core.auditing import AuditSettings
from flcontrib_core.detection.change_points import ChangePointSettings, ChangeSeries
from flcontrib_core.detection.segmentation import LengthPrior, SegmentLikelihood
from flcontrib_core.detection.separation import METRICS, GroupingSettings
from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.engine import DEVICES, ENGINES, MOST_WORKERS, Execution
from flcontrib_core.history.settings import PAPER_SETTINGS, AssessOptions, AssessSettings, assess_settings
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, Normalisation
from flcontrib_core.shapley.auto import Auto
from flcontrib_core.shapley.registry import BUILT_IN, estimator_by_name
from flcontrib_core.vocabulary import FillPolicy, WeightMode

if TYPE_CHECKING:
    from flcontrib_core.history.assess import Computing

Command = TypeVar("Command", bound=Callable[..., Any])

BUDGET_OPTIONS = [
    click.option("--epochs", metavar="1,4,7", help="Compute exactly these epochs."),
    click.option("--budget", metavar="0.5|12", help="A share of the epochs (with a point) or a number of epochs."),
    click.option(
        "--fairness",
        type=click.Choice([m.value for m in FairnessMode]),
        help=f"How epochs are chosen. Default: {BudgetSettings().fairness.value}.",
    ),
    click.option("--gamma", type=float, help="Weight of fairness against coverage (0.03 to 3 is the useful range)."),
    click.option("--at-most", is_flag=True, help="Allow fewer than k epochs (the paper's reading)."),
    click.option("--paper-denominator", is_flag=True, help="Count the initial model's utility among the weights."),
    click.option("--normalise", type=click.Choice([n.value for n in Normalisation]),
                 help="Divide each term of the objective by the largest value it can take (the default), or by its own "
                      "sum over all epochs (with --paper)."),
    click.option("--weight-utility", metavar="NAME", help="Utility whose movement weighs an epoch. Default: loss."),
]  # fmt: skip
ESTIMATOR_KNOBS = ("evaluations", "precision", "truncate", "antithetic", "allow_unobserved")
"""Options of single estimators; one that the chosen estimator does not have is refused."""
ESTIMATOR_OPTIONS = [
    click.option("--estimator", metavar="NAME",
                 shell_complete=lambda ctx, param, begun: [name for name in BUILT_IN if name.startswith(begun)],
                 help=f"{', '.join(BUILT_IN)}, or shapiq:NAME for one of shapiq's. Default: auto (exact where that is "
                      "cheap, else the surrogate)."),
    click.option("--evaluations", type=int, metavar="N",
                 help="Distinct coalition evaluations per epoch. Default: as many as the estimator needs."),
    click.option("--precision", type=float, metavar="X",
                 help="Stop when the largest 95% half-width is X times the spread (sd) of the values over clients. "
                      f"Default: {Auto().precision}."),
    click.option("--truncate", is_flag=True, help="monte-carlo: stop a permutation when the rest adds nothing."),
    click.option("--antithetic", is_flag=True, help="monte-carlo: use each permutation with its reverse."),
    click.option("--allow-unobserved", is_flag=True, help="comfedsv: complete columns that were never observed."),
    click.option("--set", "own_options", multiple=True, metavar="NAME=VALUE",
                 help="Any other option of the estimator, e.g. --estimator tmr --set decay=0.9; repeat for more "
                      "(docs/estimators.md lists them)."),
    click.option("--utility", "utilities", multiple=True, metavar="NAME",
                 help="loss, accuracy, macro-f1, worst-class-recall, demographic-parity-gap, or a sum such as "
                      f"0.7*loss-0.3*accuracy; repeat for more. Default: {', '.join(AssessSettings().utilities)}; for "
                      "another task its own metrics (mse, dice, perplexity …)."),
    click.option("--weights", type=click.Choice([m.value for m in WeightMode]),
                 help="Weights inside a coalition: shared anew among its members (adaptive, the default), kept from "
                      "the whole epoch (fixed), or from all clients of the federation (fixed-all)."),
    click.option("--nonfinite", type=click.Choice(["refuse", "absent"]), default="refuse", show_default=True,
                 help="NaN or infinite updates: refuse the log, or count them as not taking part."),
    click.option("--paper", is_flag=True, help="The paper's settings throughout."),
    click.option("--fill", type=click.Choice([m.value for m in FillPolicy]),
                 help="What a skipped epoch adds to totals. Default: equal (its increment, shared equally)."),
    click.option("--lower-is-better", multiple=True, metavar="NAME", help="Tables: small values are good."),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of every random choice."),
]  # fmt: skip
READING_OPTIONS = [
    click.option("--no-values", is_flag=True,
                 help="Audit without Shapley values, at a cost that grows with the participants and not with their "
                      "coalitions. Detection does not need them; they say who contributed what."),
    click.option("--change-series", type=click.Choice([s.value for s in ChangeSeries]),
                 help="What change points are read from. Default: relative (the client against the others of the "
                      "epoch); cumulative is the paper's."),
    click.option("--change-likelihood", type=click.Choice([m.value for m in SegmentLikelihood]),
                 help="What is unknown inside a segment. Default: student-t (mean and variance)."),
    click.option("--change-prior", type=click.Choice([m.value for m in LengthPrior]),
                 help="How long segments are beforehand. Default: constant."),
    click.option("--change-utility", metavar="NAME", help="Whose values change points are read from. Default: loss."),
    click.option("--groups", type=click.IntRange(1), metavar="K",
                 help="Number of groups of clients. Default: the best silhouette's, or one where chance does as well."),
    click.option("--group-metric", type=click.Choice(METRICS), default="euclidean", show_default=True,
                 help="How series are compared; dtw and softdtw warp them, cost clients x epochs squared, and compile "
                      "for half a minute at first."),
]  # fmt: skip
WORKSPACE = click.option(
    "--workspace",
    metavar="DIR",
    envvar="FLCONTRIB_WORKSPACE",
    help="Folder that remembers evaluations (default: the platform's). Where it is named, here, in a settings file or "
    "by FLCONTRIB_WORKSPACE, the run and the result are kept in it too, for the dashboard.",
)
FROZEN = click.option(
    "--frozen", type=click.Path(dir_okay=False), metavar="FILE",
    help="The part of the model that the log names and does not hold (a frozen base, a local part), as safetensors.",
)  # fmt: skip
WORKERS = click.option("--workers", type=click.IntRange(1, MOST_WORKERS),
                       help="Processes; the result does not depend on it. Default: as the named workspace has it, else "
                            "all cores but one where that pays, and all processors of a Ray cluster.")  # fmt: skip
WORKER_OPTIONS = [
    click.option("--engine", type=click.Choice(ENGINES), help="Where work runs. Default: as the named workspace has "
                                                              "it, else local."),
    WORKERS,
    click.option("--address", metavar="ADDRESS", help="Ray: address of a running cluster."),
    click.option("--gpus", type=click.FloatRange(0, 64), metavar="N", help="Ray: GPUs of each task, or a share."),
]  # fmt: skip
ENGINE_OPTIONS = [
    *WORKER_OPTIONS,
    click.option("--device", type=click.Choice(DEVICES),
                 help="What models are evaluated on; auto is the fastest here. The result says which it was. Default: "
                      "as the named workspace has it, else cpu."),
    FROZEN,
    WORKSPACE,
    click.option("--no-memory", is_flag=True, help="Neither read nor write the workspace."),
]  # fmt: skip


SECTIONS = {
    "Estimator": ESTIMATOR_OPTIONS,
    "Budget": BUDGET_OPTIONS,
    "Reading the history": READING_OPTIONS,
    "Where work runs and is kept": ENGINE_OPTIONS,
}
"""How the help of a command with shared options is divided."""


@cache
def shared_options() -> dict[str, str]:
    """Every shared option by its flag without dashes, with the section it stands in."""
    help_of: dict[str, str] = {}
    for title, group in SECTIONS.items():
        holder = with_options(group)(lambda: None)
        params: list[click.Option] = holder.__click_params__  # type: ignore[attr-defined]  # click's own list
        help_of |= {flag[2:]: title for p in params for flag in p.opts if flag.startswith("--")}
    return help_of


class SectionedCommand(click.Command):
    """A command whose help shows its own options first, then the others under headings."""

    def titles(self) -> dict[str, str]:
        """The heading of each option by its flag without dashes, in the order of the headings."""
        return shared_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options by section, those without a heading above."""
        titles = self.titles()
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], **{title: [] for title in titles.values()}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                flags = (flag.lstrip("-") for flag in param.opts)
                title = next((titles[f] for f in flags if f in titles), "Options")
                sections[title].append(_fitting(param, record, formatter.width - formatter.current_indent - 4))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _fitting(param: click.Parameter, record: tuple[str, str], width: int) -> tuple[str, str]:
    """An option's flags and help; choices that are longer than a line move from the flags into the help."""
    flags, text = record
    if len(flags) <= width or not isinstance(param.type, click.Choice):
        return record
    return f"{param.opts[-1]} NAME", f"{text} One of {', '.join(param.type.choices)}."


def with_options(*groups: list[Any]) -> Callable[[Command], Command]:
    """Adds groups of options to a command, in their order."""

    def add(command: Command) -> Command:
        for group in reversed(groups):
            for option in reversed(group):
                command = option(command)
        return command

    return add


def execution_of(options: dict[str, Any]) -> Execution:
    """Where work runs: as the options say, else as the workspace they name is set, else on this machine."""
    names = ("workers", "engine", "address", "gpus", "device")
    given = {name: options[name] for name in names if options.get(name) is not None}
    if not given and options.get("workspace") and not options.get("no_memory"):
        from flcontrib_core.workspace import Workspace

        with Workspace(options["workspace"]) as workspace:
            return workspace.preferences.agreed_execution()
    return Execution(**given)


def computing_of(options: dict[str, Any]) -> Computing:
    """The same as an assessment takes it."""
    where = execution_of(options)
    there: Computing = {"workers": where.workers, "engine": where.engine, "address": where.address}
    return {**there, "gpus": where.gpus, "device": where.device}


def parse_budget(text: str | None) -> float | int | None:
    """'0.5' is a share, '12' a number of epochs."""
    if text is None:
        return None
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise SettingsError(f"--budget {text}: give a share with a point (0.5) or a number of epochs (12)") from None


def parse_epochs(text: str | None) -> tuple[int, ...] | None:
    """Epoch numbers from ``1,4,7``; None where the option was not given."""
    if text is None:
        return None
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError:
        raise SettingsError(f"--epochs {text}: give epoch numbers separated by commas, e.g. 1,4,7") from None


def parse_own_option(text: str) -> tuple[str, object]:
    """'decay=0.9' as a name and its value: a number, true, false, null, or a word."""
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        raise SettingsError(f"--set {text}: give an option and its value, e.g. decay=0.9")
    try:
        return name.strip().replace("-", "_"), json.loads(value)
    except json.JSONDecodeError:
        return name.strip().replace("-", "_"), value


def audit_settings_from(options: dict[str, Any], preset: str) -> AuditSettings:
    """Command-line options -> settings of an audit: the assessment, and how its history is read."""
    asked = {name: options.get(f"change_{name}") for name in ("series", "utility", "likelihood", "prior")}
    if options.get("paper") and asked["series"] is None:
        asked["series"] = ChangeSeries.CUMULATIVE
    metric = options.get("group_metric") or "euclidean"
    grouping = GroupingSettings(options.get("groups"), metric, calibrated=not options.get("paper"))
    return AuditSettings(settings_from(options), preset, ChangePointSettings.from_record(asked), grouping)


def settings_from(options: dict[str, Any]) -> AssessSettings:
    """Command-line options -> settings; what was not given keeps its default (or the paper's with --paper)."""
    base = PAPER_SETTINGS if options.get("paper") else AssessSettings()
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != ()}
    flat = {name: given[name] for name in AssessOptions.__annotations__ if name in given}
    flat |= {"budget": parse_budget(options.get("budget")), "epochs": parse_epochs(options.get("epochs"))}
    if options.get("no_values"):
        unused = [name for name in ("estimator", *ESTIMATOR_KNOBS) if name in given]
        if unused:
            raise SettingsError(f"--no-values leaves nothing to --{unused[0].replace('_', '-')}; leave one of them out")
        flat["values"] = False
    knobs = {name: given[name] for name in ESTIMATOR_KNOBS if name in given}
    knobs |= dict(parse_own_option(text) for text in options.get("own_options") or ())
    if knobs or "estimator" in flat:
        name = flat.get("estimator", base.estimator.name)
        try:
            flat["estimator"] = estimator_by_name(name, **knobs)
        except TypeError as wrong:
            words = [f"{option} is {value!r}" for option, value in knobs.items() if isinstance(value, str)]
            found = f"{', '.join(words)}: it takes a number" if words else str(wrong)
            raise SettingsError(f"an option of {name} has a value of another kind than it takes: {found}") from wrong
    return assess_settings(cast(AssessOptions, flat), base)

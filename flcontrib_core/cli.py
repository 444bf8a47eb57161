"""``flcontrib``: the one entry. Exit code 0 = done, 1 = the answer is no, 2 = bad input or usage."""

from __future__ import annotations

import difflib
import importlib
import json
import keyword
import sys
from pathlib import Path
from typing import NoReturn

import click

from flcontrib_core import __version__
from flcontrib_core.errors import FLContribError, MemoryRefusal, RunLogError

SECTIONS = {
    "Begin": {
        "demo": ("serving", "Open the dashboard on the sample runs."),
        "serve": ("serving", "Open the dashboard on a workspace."),
    },
    "A log": {
        "check": ("logs", "Validate a run log and name every fault found."),
        "import": ("importing", "Make a log from files: models or updates per round, or a table."),
        "template": ("importing", "A small contribution table to fill in."),
        "simulate": ("simulating", "Train a federation with known truth and record it."),
    },
    "Who changed, and who vouches for it": {
        "audit": ("assessing", "Who contributed what, who changed and when."),
        "report": ("reporting", "A self-contained HTML report and its JSON twin."),
        "verify": ("reporting", "Recompute a report and say equal, or where it differs."),
        "key": ("reporting", "Make or show the key that signs reports."),
        "compare": ("assessing", "Totals, ranks and alerts side by side."),
        "watch": ("watching", "Follow a growing log and raise alerts as epochs arrive."),
        "track": ("tracking", "Values, totals and alerts to MLflow, W&B or TensorBoard."),
    },
    "Values, and what they cost": {
        "price": ("pricing", "Evaluations, time and memory before anything is computed."),
        "schedule": ("assessing", "Which epochs are worth computing under a budget."),
        "assess": ("assessing", "Per-epoch Shapley values of every client."),
        "ask": ("asking", "Which coalitions to evaluate elsewhere."),
        "tell": ("asking", "Values from answers that came from elsewhere."),
        "select": ("using", "Whom to invite next, by value, exposure and doubt."),
        "replay": ("using", "What the loss would have been under another aggregation."),
        "stability": ("using", "Shares with the band that other rows, seeds and weights give."),
    },
    "A workspace": {
        "runs": ("stored", "List, add, follow or remove the runs of a workspace."),
        "results": ("stored", "List the stored results of a workspace."),
        "decide": ("deciding", "Record what people decide about an alert."),
        "note": ("noting", "Declare a fact about a client, such as a new GPU."),
        "mark": ("noting", "Mark a client by hand as honest or dishonest."),
        "settings": ("preferring", "Show or change what holds for a workspace."),
        "token": ("granting", "Make, list or revoke tokens of the read-only HTTP API."),
        "share": ("granting", "Make, list or revoke links that open one run until they end."),
        "log": ("workspaces", "Check a workspace's audit log."),
    },
    "Laboratory": {
        "reproduce": ("reproducing", "Make a figure of the paper again, beside its claims."),
        "calibrate": ("calibrating", "Measure the detector's thresholds again on simulated runs."),
    },
}
"""Every command with its module and its line in the help, as the help divides them."""
COMMANDS = {name: about for section in SECTIONS.values() for name, about in section.items()}


class LazyGroup(click.Group):
    """Imports a command's module only when it is used, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"flcontrib_core.commands.{COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or what may have been meant by its name."""
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], COMMANDS, n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), text) for name, (_, text) in commands.items()])


@click.group(cls=LazyGroup, epilog="Example: flcontrib audit sample_runs/two-poisoned.flrun")
@click.version_option(__version__, prog_name="flcontrib")
@click.option("--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), envvar="FLCONTRIB_CONFIG",
              help="File with options (default: flcontrib.toml or [tool.flcontrib] in pyproject.toml here, else "
                   "the user's own).")  # fmt: skip
@click.pass_context
def flcontrib(ctx: click.Context, config: Path | None) -> None:
    """Audits federated learning: who contributed what, who changed and when, and what it costs to know."""
    from flcontrib_core.commands.configuration import defaults_for, find_settings

    settings = find_settings(config)
    name = ctx.invoked_subcommand
    command = None if name is None else flcontrib.get_command(ctx, name)
    if settings is None or name is None or command is None:
        return
    defaults = defaults_for(settings, command, name, set(COMMANDS))
    ctx.default_map = {name: defaults}
    if defaults and not isinstance(command, click.Group):
        click.echo(f"settings from {settings.path}: {', '.join(sorted(defaults))}", err=True)


def main() -> None:
    """Runs a command; every expected fault ends in a typed message, never in a traceback."""
    wants_json = "--json" in sys.argv
    try:
        code = flcontrib(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("stopped; finished epochs are kept, the same command continues", err=True)
        sys.exit(130)
    except KeyboardInterrupt:
        click.echo("stopped; finished epochs are kept, the same command continues", err=True)
        sys.exit(130)
    except click.ClickException as wrong:
        wrong.show()
        if wants_json:
            _print_refusal(type(wrong).__name__, wrong.format_message())
        sys.exit(2)
    except RunLogError as refused:
        from flcontrib_core.commands.printing import say
        from flcontrib_core.words import problem_groups
        from flcontrib_core.words.numbers import several

        click.echo(f"refused: {several(len(refused.problems), 'problem')}", err=True)
        for group in problem_groups(refused.problems):
            say(f"  {group.sentence()}", err=True)
        if wants_json:
            click.echo(json.dumps({"ok": False, "digest": None, "errors": [p.to_json() for p in refused.problems]}))
        sys.exit(2)
    except (FLContribError, OSError) as fault:
        # OSError: a full disk, a folder that vanished or may not be written: the machine's answer, no fault of ours.
        _end_with(fault, wants_json)
    except (MemoryError, RuntimeError) as fault:
        if isinstance(fault, RuntimeError) and "can't allocate memory" not in str(fault):  # torch has no class for it
            raise
        _end_with(MemoryRefusal("this machine has not enough memory for it; nothing was changed"), wants_json)


def _end_with(fault: Exception, as_json: bool) -> NoReturn:
    from flcontrib_core.commands.printing import say

    say(*f"{type(fault).__name__}: {fault}".splitlines(), err=True)
    if as_json:
        _print_refusal(type(fault).__name__, str(fault))
    sys.exit(2)


def _print_refusal(error: str, message: str) -> None:
    click.echo(json.dumps({"ok": False, "digest": None, "error": error, "message": message}))


if __name__ == "__main__":
    main()

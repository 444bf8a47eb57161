"""``simulate``: labelled runs from a simulated federation."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.options import SectionedCommand
from flcontrib_core.commands.printing import ProgressLine, print_json, table
from flcontrib_core.errors import SettingsError

KINDS_HELP = "List every attack and honest change with its strength, and end."
CORPUS_HELP = "A run of the corpus by its id, e.g. report/plain/any/0000; other options are then not allowed."
CHANGE_HELP = "An honest change, e.g. local-epochs:3 (repeatable; --kinds lists them)."
CHANGED_HELP = "How many clients change, or all: one for all changes, or one each. [default: 1]"
WINDOW_HELP = "Epochs of a change: A:B (several with commas), 'from A' or whole; one for all changes, or one each."
SECTIONS = {
    "Data": ("dataset", "data-dir", "train-rows", "validation-rows", "split", "alpha", "sizes"),
    "Training": ("clients", "epochs", "participation", "first-epoch-all", "model", "hidden", "width", "optimizer",
                 "local-epochs", "batch", "lr", "aggregation", "server-rate", "privacy-noise", "privacy-clip"),
    "Attacks": ("attack", "strength", "dishonest", "window", "collude", "ramp"),
    "Honest changes": ("change", "changed", "change-window", "difficulty"),
}  # fmt: skip
"""How the help is divided."""


class SimulateCommand(SectionedCommand):
    """``simulate``, whose many options stand under headings of their own."""

    def titles(self) -> dict[str, str]:
        """By flag without dashes."""
        return {flag: title for title, flags in SECTIONS.items() for flag in flags}


def _show_kinds(context: click.Context, option: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from flcontrib_core.laboratory.simulation.attacks import ATTACKS
    from flcontrib_core.laboratory.simulation.changes import CHANGES

    formatter = context.make_formatter()
    behaviours: dict[str, Any] = {"Attacks": ATTACKS, "Honest changes": CHANGES}
    for title, kinds in behaviours.items():
        with formatter.section(f"{title}, with the strength where none is given"):
            formatter.write_dl(
                [
                    (kind.value if b.default is None else f"{kind.value}:{b.default:.3g}", inspect.getdoc(b) or "")
                    for kind, b in kinds.items()
                ]
            )
    click.echo(formatter.getvalue().rstrip())
    context.exit()


def _simulate_options(command: Any) -> Any:
    from flcontrib_core.laboratory.simulation import settings as known

    def one_of(kind: Any) -> click.Choice[str]:
        return click.Choice([member.value for member in kind])

    default = known.SimulationSettings()
    for name, kind, text in reversed(
        [
            ("dataset", one_of(known.DatasetName), "Data the clients hold."),
            ("clients", int, "Number of clients."),
            ("epochs", int, "Rounds of training."),
            ("train_rows", int, "Rows shared out among the clients (default: all there are)."),
            ("validation_rows", int, "Rows of the validation set (default: all there are)."),
            ("participation", float, "Share of clients that take part in a round."),
            ("split", one_of(known.Split), "How data is spread over clients."),
            ("alpha", float, "Concentration of the dirichlet or beta split; small = heterogeneous."),
            ("sizes", one_of(known.Sizes), "Equal or unequal data sizes."),
            ("model", one_of(known.ModelKind), "Architecture."),
            ("width", int, "Channels of the cnn."),
            ("optimizer", one_of(known.Optimizer), "The clients' optimiser."),
            ("local_epochs", int, "Passes over the own data per round."),
            ("batch", int, "Mini-batch size (incomplete ones are dropped)."),
            ("lr", float, "Learning rate."),
            ("strength", float, "Strength of the attack (flip probability, scale factor, noise ratio)."),
            ("dishonest", int, "How many clients attack."),
            ("difficulty", one_of(known.DifficultyKind), "An honest difficulty instead of an attack."),
            ("aggregation", one_of(known.Aggregation), "Plain mean, the best subset per round, or an adaptive rule."),
            ("server_rate", float, "Rate of the server's step (default: 1, adaptive rules 0.01)."),
            ("seed", int, "Seed of everything."),
        ]
    ):
        flag, usual = "--" + name.replace("_", "-"), getattr(default, name)
        command = click.option(flag, type=kind, help=text if usual is None else f"{text} [default: {usual}]")(command)
    return command


@click.command(
    cls=SimulateCommand,
    epilog="Example: flcontrib simulate run.flrun --attack label-flip --dishonest 2 --window 12:20",
)
@click.argument("out", type=click.Path(path_type=Path))
@_simulate_options
@click.option("--hidden", metavar="64,32", help="Widths of the mlp's hidden layers. [default: 32]")
@click.option("--attack", metavar="NAME", help="What the dishonest clients do (--kinds lists them; default: none).")
@click.option("--window", "windows", multiple=True, metavar="A:B", help="Epochs of the attack (inclusive), or whole.")
@click.option("--change", "changes", multiple=True, metavar="KIND[:STRENGTH]", help=CHANGE_HELP)
@click.option("--changed", multiple=True, metavar="COUNT|all", help=CHANGED_HELP)
@click.option("--change-window", "change_windows", multiple=True, metavar="A:B", help=WINDOW_HELP)
@click.option("--collude", is_flag=True, help="The attackers act together.")
@click.option("--ramp", is_flag=True, help="The attack grows from nothing to its full strength over each window.")
@click.option("--privacy-noise", type=float, help="Every client adds Gaussian noise of this many times the clip.")
@click.option("--privacy-clip", type=float, help="Longest update a client sends before it adds noise. [default: 1]")
@click.option("--first-epoch-all", is_flag=True, help="All clients take part in epoch 1.")
@click.option("--preset", type=click.Choice(["paper"]), help="The paper's training set-up for the dataset.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with the larger data sets ($FLCONTRIB_DATA).")
@click.option("--corpus", "corpus_id", metavar="ID", help=CORPUS_HELP)
@click.option("--kinds", is_flag=True, is_eager=True, expose_value=False, callback=_show_kinds, help=KINDS_HELP)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def simulate(out: Path, as_json: bool, **options: Any) -> None:
    """Train a federation with known truth and record it (OUT ends in .flrun for one file, else a directory)."""
    from flcontrib_core.laboratory.simulation import simulate as run_simulation

    progress = ProgressLine()
    result = run_simulation(_simulation_settings(options), out, progress)
    progress.close()
    labelled, changes = result.truth.dishonest, result.changes
    if as_json:
        truth: dict[str, Any] = {"dishonest": [asdict(d) for d in labelled]}
        if changes:
            truth["changes"] = [change.to_json() for change in changes]
        print_json({"run": str(result.run), "digest": result.digest, "truth": truth})
        return
    click.echo(f"{result.run}\ndigest {result.digest}")
    rows = [[d.client, d.attack, " ".join(f"{a}–{b}" for a, b in d.windows)] for d in labelled]
    click.echo(table(["client", "attack", "epochs"], rows) if rows else "all clients are honest")
    rows = [[c.client or "server", c.kind, " ".join(f"{a}–{b}" for a, b in c.windows)] for c in changes]
    if rows:
        click.echo(table(["client", "honest change", "epochs"], rows))


def _simulation_settings(options: dict[str, Any]) -> Any:
    """Only what was given on the command line overrides the defaults, or the paper's set-up with --preset paper."""
    from flcontrib_core.laboratory.simulation.settings import (
        Privacy,
        SimulationSettings,
        paper_settings,
        parse_changes,
        parse_windows,
    )

    given = {k: v for k, v in options.items() if v is not None and v is not False and v != ()}
    if "corpus_id" in given:
        return _corpus_settings(given)
    preset = given.pop("preset", None)
    if "hidden" in given:
        try:
            given["hidden"] = tuple(int(w) for w in given["hidden"].split(",") if w.strip())
        except ValueError:
            raise SettingsError(f"--hidden {given['hidden']}: give widths separated by commas, e.g. 64,32") from None
    epochs = given.get("epochs", SimulationSettings().epochs)
    if "windows" in given:
        given["windows"] = parse_windows(given["windows"], epochs)
    changes, changed = given.pop("changes", ()), given.pop("changed", ())
    spans = given.pop("change_windows", ())
    if (changed or spans) and not changes:
        raise SettingsError("--changed and --change-window go with --change; --kinds lists the changes there are")
    if changes:
        given["changes"] = parse_changes(changes, changed, spans, epochs)
    privacy = {part: given.pop(f"privacy_{part}") for part in ("noise", "clip") if f"privacy_{part}" in given}
    if privacy:
        given["privacy"] = Privacy(**{"noise": 0.0, **privacy})
    if preset == "paper":
        return paper_settings(given.pop("dataset", "adult"), **given)
    return SimulationSettings(**given)


def _corpus_settings(given: dict[str, Any]) -> Any:
    """The settings of a run of the corpus; only the data folder may be said besides."""
    from dataclasses import replace

    from flcontrib_core.laboratory.corpus import corpus_run

    settings = corpus_run(given.pop("corpus_id")).settings
    if data_dir := given.pop("data_dir", None):
        settings = replace(settings, data_dir=data_dir)
    if given:
        said = ", ".join("--" + name.replace("_", "-") for name in given)
        raise SettingsError(f"--corpus names a whole run; leave out {said}")
    return settings

"""``check`` and ``simulate``: is this log sound, and where do labelled ones come from?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.printing import Progress, print_json, table
from flcontrib_core.errors import SettingsError


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


ATTACK_HELP = (
    "label-flip, targeted-flip, sign-flip, scale, additive-noise, pure-noise, zero, repeat, copy, "
    "hidden-flip or backdoor (default: none)."
)


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
            ("aggregation", one_of(known.Aggregation), "Plain mean, or the best subset per round."),
            ("seed", int, "Seed of everything."),
        ]
    ):
        flag, usual = "--" + name.replace("_", "-"), getattr(default, name)
        command = click.option(flag, type=kind, help=text if usual is None else f"{text} [default: {usual}]")(command)
    return command


@click.command(epilog="Example: flcontrib simulate run.flrun --attack label-flip --dishonest 2 --window 12:20")
@click.argument("out", type=click.Path(path_type=Path))
@_simulate_options
@click.option("--hidden", metavar="64,32", help="Widths of the mlp's hidden layers. [default: 32]")
@click.option("--attack", metavar="NAME", help=ATTACK_HELP)
@click.option("--window", "windows", multiple=True, metavar="A:B", help="Epochs of the attack (inclusive), or whole.")
@click.option("--collude", is_flag=True, help="The attackers act together.")
@click.option("--ramp", is_flag=True, help="The attack grows from nothing to its full strength over each window.")
@click.option("--privacy-noise", type=float, help="Every client adds Gaussian noise of this many times the clip.")
@click.option("--privacy-clip", type=float, help="Longest update a client sends before it adds noise. [default: 1]")
@click.option("--first-epoch-all", is_flag=True, help="All clients take part in epoch 1.")
@click.option("--preset", type=click.Choice(["paper"]), help="The paper's training set-up for the dataset.")
@click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with the larger data sets ($FLCONTRIB_DATA).")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable result on stdout.")
def simulate(out: Path, as_json: bool, **options: Any) -> None:
    """Train a federation with known truth and record it (OUT ends in .flrun for one file, else a directory)."""
    from flcontrib_core.laboratory.simulation import simulate as run_simulation

    progress = Progress()
    result = run_simulation(_simulation_settings(options), out, progress)
    progress.close()
    labelled = result.truth.dishonest
    if as_json:
        truth = {"dishonest": [asdict(d) for d in labelled]}
        print_json({"run": str(result.run), "digest": result.digest, "truth": truth})
        return
    click.echo(f"{result.run}\ndigest {result.digest}")
    rows = [[d.client, d.attack, " ".join(f"{a}–{b}" for a, b in d.windows)] for d in labelled]
    click.echo(table(["client", "attack", "epochs"], rows) if rows else "all clients are honest")


def _simulation_settings(options: dict[str, Any]) -> Any:
    """Only what was given on the command line overrides the defaults, or the paper's set-up with --preset paper."""
    from flcontrib_core.laboratory.simulation.settings import Privacy, SimulationSettings, paper_settings, parse_windows

    given = {k: v for k, v in options.items() if v is not None and v is not False and v != ()}
    preset = given.pop("preset", None)
    if "hidden" in given:
        try:
            given["hidden"] = tuple(int(w) for w in given["hidden"].split(",") if w.strip())
        except ValueError:
            raise SettingsError(f"--hidden {given['hidden']}: give widths separated by commas, e.g. 64,32") from None
    if "windows" in given:
        given["windows"] = parse_windows(given["windows"], given.get("epochs", SimulationSettings().epochs))
    privacy = {part: given.pop(f"privacy_{part}") for part in ("noise", "clip") if f"privacy_{part}" in given}
    if privacy:
        given["privacy"] = Privacy(**{"noise": 0.0, **privacy})
    if preset == "paper":
        return paper_settings(given.pop("dataset", "adult"), **given)
    return SimulationSettings(**given)

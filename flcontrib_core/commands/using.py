"""``select``, ``replay``, ``stability``: what a contribution history is for."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.assessing import JSON, RUN, open_run, run_assessment
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ENGINE_OPTIONS,
    ESTIMATOR_OPTIONS,
    SectionedCommand,
    computing_of,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import ProgressLine, print_json, say, table
from flcontrib_core.errors import SettingsError

if TYPE_CHECKING:
    from flcontrib_core.history.replay import Replay
    from flcontrib_core.history.stability import Stability
    from flcontrib_core.runs.run_log import RunLog

UTILITY = click.option("--by", "utility", default="loss", show_default=True, help="The utility that counts.")


@click.command(cls=SectionedCommand, epilog="Example: flcontrib select sample_runs/two-poisoned.flrun -k 4")
@RUN
@with_options(ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@click.option("-k", "count", type=click.IntRange(1), help="How many to invite. Default: half of the clients.")
@click.option(
    "--explore",
    type=click.FloatRange(0.0),
    default=1.0,
    show_default=True,
    help="How much doubt counts for a client: 0 invites the best known, more the less known.",
)
@UTILITY
@JSON
def select(run: Path, count: int | None, explore: float, utility: str, as_json: bool, **options: Any) -> None:
    """Whom to invite next, by value, exposure and doubt.

    A value counts relative to its epoch (1 = an average participant's); a client seen seldom stands near the average
    with a wide doubt. Alerts are not part of it: read the audit beside it.
    """
    from flcontrib_core.history.selection import rank_candidates
    from flcontrib_core.runs.run_log import RunLog
    from flcontrib_core.words.numbers import signed

    opened, settings = open_run(run, options), settings_from(options)
    if isinstance(opened, RunLog):  # a table brings its own utilities
        _known(utility, settings.utilities)
    progress = ProgressLine()
    history = run_assessment(opened, settings, options, progress)
    progress.close()
    ranked = rank_candidates(history, _known(utility, history.utilities), explore)
    invited = min(count or -(-len(ranked) // 2), len(ranked))
    if as_json:
        rows = [asdict(c) | {"invite": place < invited} for place, c in enumerate(ranked)]
        print_json({"digest": history.run_digest, "utility": utility, "explore": explore, "clients": rows})
        return
    cells = [
        ["yes" if place < invited else "", c.client, signed(c.value), f"± {c.doubt:.2f}", signed(c.score),
         f"{c.valued} of {c.took_part}"]
        for place, c in enumerate(ranked)
    ]  # fmt: skip
    click.echo(table(["invite", "client", "value", "doubt", "score", "epochs valued"], cells))
    say(f"value: mean share of an epoch by {utility}, 1 = average; score = value + {explore:g} · doubt", err=True)


@click.command(cls=SectionedCommand, epilog="Example: flcontrib replay sample_runs/two-poisoned.flrun -o replayed")
@RUN
@with_options(ESTIMATOR_OPTIONS, ENGINE_OPTIONS)
@click.option(
    "--measure-on",
    "share",
    type=click.FloatRange(0.1, 0.9),
    default=0.5,
    show_default=True,
    help="Share of the validation rows that measure; the others choose. Choosing and measuring on the same rows would "
    "flatter the chooser.",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the curves as CSV and SVG.")
@JSON
def replay(run: Path, share: float, out: Path | None, as_json: bool, **options: Any) -> None:
    """What the loss would have been under another aggregation of the recorded updates.

    Three rules: as recorded, the best subset of each epoch (S*), weights by value. One step from the model the
    federation really had is exact; the chained curve adds recorded updates to a model they were not computed from, and
    is a first guess.
    """
    from flcontrib_core.history.replay import replay_held_out

    log = _need_log(run, options)
    replayed = replay_held_out(log, settings_from(options), share=share, computing=computing_of(options))
    if out is not None:
        for path in _write_replay(replayed, out):
            click.echo(f"wrote {path}", err=True)
    if as_json:
        rules = [
            {"rule": r.rule, "applied": r.applied, "one_step": r.one_step.tolist(), "chained": r.chained.tolist()}
            for r in replayed.rules
        ]
        print_json(
            {"digest": log.digest, "utilities": replayed.utilities, "rows": replayed.measured_rows, "rules": rules}
        )
        return
    header = ["rule", "epochs"]
    for utility in replayed.utilities:
        header += [f"{utility}, one step (mean)", f"{utility}, chained (last)"]
    cells = [
        [r.rule, str(r.applied), *(f"{v:.4f}" for u in range(len(replayed.utilities))
                                   for v in (r.one_step[1:, u].mean(), r.chained[-1, u]))]
        for r in replayed.rules
    ]  # fmt: skip
    click.echo(table(header, cells))
    say(f"measured on {replayed.measured_rows} validation rows that chose nothing", err=True)


@click.command(cls=SectionedCommand, epilog="Example: flcontrib stability sample_runs/clean-iid.flrun --repeats 10")
@RUN
@with_options(ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@click.option("--repeats", type=click.IntRange(2, 1000), default=20, show_default=True,
              help="Assessments on resampled validation rows, and as many with other seeds.")  # fmt: skip
@UTILITY
@JSON
def stability(run: Path, repeats: int, utility: str, as_json: bool, **options: Any) -> None:
    """Shares with the band that other validation rows, seeds and coalition weights would give them."""
    from flcontrib_core.history.stability import stability_of

    log, settings = _need_log(run, options), settings_from(options)
    progress = ProgressLine()
    measured = stability_of(
        log,
        settings,
        utility=_known(utility, settings.utilities),
        repeats=repeats,
        computing=computing_of(options),
        on_progress=progress,
    )
    progress.close()
    if as_json:
        bands = [
            {"by": b.by, "low": b.ends[0].tolist(), "high": b.ends[1].tolist(),
             "best_rank": b.ranks[0].tolist(), "worst_rank": b.ranks[1].tolist()}
            for b in measured.bands
        ]  # fmt: skip
        shares = None if measured.shares is None else measured.shares.tolist()
        answer = {"clients": measured.client_ids, "totals": measured.totals.tolist(), "shares": shares, "bands": bands}
        print_json({"digest": log.digest, "utility": utility, "repeats": repeats, **answer})
        return
    click.echo(_stability_table(measured))
    say(f"up is help; rows and seeds: 5 to 95 % of {repeats} assessments, weights: all readings", err=True)


def _stability_table(measured: Stability) -> str:
    from flcontrib_core.words.numbers import percent, signed

    header = ["client", "total", "share", *(f"by {band.by}" for band in measured.bands), "ranks"]
    rows = []
    for i, client in enumerate(measured.client_ids):
        share = "–" if measured.shares is None else percent(float(measured.shares[i]))
        ends = [f"{signed(float(b.ends[0][i]))} … {signed(float(b.ends[1][i]))}" for b in measured.bands]
        best, worst = min(b.ranks[0][i] for b in measured.bands), max(b.ranks[1][i] for b in measured.bands)
        rows.append(
            [client, signed(float(measured.totals[i])), share, *ends, f"{best}" if best == worst else f"{best}–{worst}"]
        )
    return table(header, rows)


def _write_replay(replayed: Replay, folder: Path) -> list[Path]:
    """The curves as CSV, and drawn: one step and chained, a panel per utility."""
    import pandas

    from flcontrib_core.charts.panels import Line, Panel, PanelFacts, draw_panels, panels_alt
    from flcontrib_core.charts.svg import svg_file
    from flcontrib_core.files import write_atomic

    rows, panels = [], []
    for u, utility in enumerate(replayed.utilities):
        for reading in ("one_step", "chained"):
            words = "one step" if reading == "one_step" else "chained, a first guess"
            curves = {r.rule.value: getattr(r, reading)[:, u] for r in replayed.rules}
            lines = tuple(
                Line(rule, tuple(map(float, range(len(v)))), tuple(map(float, v))) for rule, v in curves.items()
            )
            panels.append(Panel(f"{utility}, {words}", "epoch", lines))
            rows += [
                {"epoch": t, "utility": utility, "reading": reading, "rule": rule, "value": float(v)}
                for rule, values in curves.items()
                for t, v in enumerate(values)
            ]
    title = "The run under other aggregations"
    said = f"Recorded updates, aggregated by three rules; measured on {replayed.measured_rows} rows that chose nothing."
    facts = PanelFacts(title, said, tuple(panels), 2)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_atomic(folder / "replay.csv", pandas.DataFrame(rows).to_csv(index=False)),
        write_atomic(
            folder / "replay.svg", svg_file(draw_panels(facts, "light"), title, panels_alt(facts), (title, said))
        ),
    ]


def _known(utility: str, utilities: tuple[str, ...]) -> str:
    if utility not in utilities:
        raise SettingsError(f"{utility!r} was not assessed; choose from {', '.join(utilities)}")
    return utility


def _need_log(path: Path, options: dict[str, Any]) -> RunLog:
    from flcontrib_core.history.asking import need_log

    return need_log(open_run(path, options))

"""``calibrate``: measure the detector's thresholds again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flcontrib_core.commands.printing import ProgressLine


@click.command(epilog="Example: flcontrib calibrate --out calibration.json")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("calibration.json"), show_default=True,
    help="File for thresholds, honest test runs and provenance.",
)  # fmt: skip
@click.option("--tuning-honest", type=click.IntRange(10), default=100, show_default=True, help="Per honest group.")
@click.option("--test-honest", type=click.IntRange(1), default=44, show_default=True, help="Per honest group.")
@click.option("--drift", type=click.IntRange(1), default=40, show_default=True, help="Runs with honest drift.")
@click.option("--tuning-attacks", type=click.IntRange(1), default=24, show_default=True, help="Per kind of attack.")
@click.option("--test-attacks", type=click.IntRange(1), default=16, show_default=True, help="Per kind of attack.")
@click.option(
    "--replayed", type=click.IntRange(4), default=30, show_default=True,
    help="Runs per honest group that are read again after each epoch.",
)  # fmt: skip
@click.option(
    "--first", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the experts' tails and the online preset from this calibration; only the corpus is simulated.",
)  # fmt: skip
@click.option(
    "--corpus-share", type=click.FloatRange(0, 1), default=1.0, show_default=True,
    help="Part of the corpus's usual numbers of runs that is read; 0 leaves the second half out.",
)  # fmt: skip
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path),
    help="Keeps the corpus's assessed runs; an interrupted calibration goes on from there.",
)  # fmt: skip
@click.option(
    "--only-kept", is_flag=True,
    help="Of the corpus read only the runs that --folder holds already; simulate none.",
)  # fmt: skip
@click.option(
    "--also", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Fit the second half to the labelled runs (.history files) of this folder too.",
)  # fmt: skip
def calibrate(
    out: Path,
    tuning_honest: int,
    test_honest: int,
    drift: int,
    tuning_attacks: int,
    test_attacks: int,
    replayed: int,
    first: Path | None,
    corpus_share: float,
    folder: Path | None,
    only_kept: bool,
    also: Path | None,
) -> None:
    """Simulate federations, fit the thresholds, and count false alarms on runs the fit has not seen.

    The first half fits each expert's tail to plain honest runs (about 1 900 federations, some 30 minutes on one core).
    The second half reads the tuning part of the corpus (about 2 500 runs): thresholds rise until few innocents are
    accused, and probabilities are counted verdict by verdict; rates come from innocent runs of its other part.
    """
    from flcontrib_core.detection.calibration import read_calibration, to_json
    from flcontrib_core.laboratory.calibrate import CalibrationPlan
    from flcontrib_core.laboratory.calibrate import calibrate as measure
    from flcontrib_core.laboratory.corpus_calibration import refine_on_corpus

    if only_kept and folder is None:
        raise click.UsageError("--only-kept needs the --folder that holds the runs")
    progress = ProgressLine()
    plan = CalibrationPlan(
        tuning_honest=tuning_honest,
        test_honest=test_honest,
        drift=drift,
        tuning_attacks=tuning_attacks,
        test_attacks=test_attacks,
        replayed=replayed,
    )
    made = measure(plan, progress) if first is None else read_calibration(first)
    if corpus_share > 0:
        made = refine_on_corpus(made, corpus_share, folder, progress, only_kept, also)
    progress.close()
    out.write_text(to_json(made), encoding="utf-8")
    click.echo(f"wrote {out}", err=True)
    click.echo(json.dumps(made.provenance.get("test report"), indent=1, ensure_ascii=False))

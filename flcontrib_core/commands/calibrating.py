"""``calibrate``: measure the detector's thresholds again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flcontrib_core.commands.printing import Progress


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
def calibrate(
    out: Path,
    tuning_honest: int,
    test_honest: int,
    drift: int,
    tuning_attacks: int,
    test_attacks: int,
    replayed: int,
) -> None:
    """Simulate federations, fit the thresholds, and count false alarms on runs the fit has not seen.

    With the default sizes about 1 900 federations from bundled data are trained and assessed (some 30 minutes on one
    core). The shipped thresholds were made by this command with its defaults.
    """
    from flcontrib_core.detection.calibration import to_json
    from flcontrib_core.laboratory.calibrate import CalibrationPlan
    from flcontrib_core.laboratory.calibrate import calibrate as measure

    progress = Progress()
    plan = CalibrationPlan(
        tuning_honest=tuning_honest,
        test_honest=test_honest,
        drift=drift,
        tuning_attacks=tuning_attacks,
        test_attacks=test_attacks,
        replayed=replayed,
    )
    made = measure(plan, progress)
    progress.close()
    out.write_text(to_json(made), encoding="utf-8")
    click.echo(f"wrote {out}", err=True)
    click.echo(json.dumps(made.provenance["test report"], indent=1, ensure_ascii=False))

"""``price``: what an assessment will cost, from the estimator that will run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.assessing import JSON, RUN, open_run
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ESTIMATOR_OPTIONS,
    WORKERS,
    SectionedCommand,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import ProgressLine, print_json, say, table
from flcontrib_core.errors import CostRefusal, SettingsError
from flcontrib_core.execution.engine import usual_workers
from flcontrib_core.history.capacity import Capacity, FederationSize, capacity, federation_with, standing_questions
from flcontrib_core.history.measurement import RunMeasurement
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog


@click.command(cls=SectionedCommand, epilog="Example: flcontrib price run.flrun --budget 0.5 --workers 4")
@RUN
@with_options(ESTIMATOR_OPTIONS, BUDGET_OPTIONS, [WORKERS])
@click.option("--within", type=click.FloatRange(0.01), default=24.0, show_default=True, metavar="HOURS",
              help="How soon a federation of another size should be computed; decides the machines.")  # fmt: skip
@click.option("--federation", "federations", multiple=True, metavar="CLIENTS,PARTICIPANTS,EPOCHS,MODEL",
              help="Another size to ask about, its model by the number of parameters or by a log that holds it; "
              "repeat for more.")  # fmt: skip
@JSON
def price(
    run: Path, workers: int | None, within: float, federations: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Evaluations, time and memory of an assessment, before anything is computed; and of federations of other sizes.

    Walks once through the log (one evaluation per epoch) and times a short probe on this machine. Hours, machines and
    gigabytes for ten thousand clients or a hundred million parameters are scaled from it (docs/capacity.md says how).
    """
    from flcontrib_core.history import price_and_measurement
    from flcontrib_core.words import numbers, price_notes

    settings = settings_from(options)
    asked = {text: _federation(text) for text in federations}
    progress = ProgressLine()
    log = open_run(run, options)
    priced, measured = price_and_measurement(log, settings, workers or usual_workers(), progress)
    progress.close()
    needs = {} if measured is None or measured.pace is None else _capacities(measured, settings, within, asked)
    if as_json:
        answer = {"digest": log.digest, "estimator": settings.estimator.name, **_priced_json(priced)}
        print_json({**answer, "within_hours": within, "capacity": {n: asdict(c) for n, c in needs.items()}})
        return
    for label, value in (
        ("evaluations", None if priced.evaluations is None else numbers.count(priced.evaluations)),
        ("time, about", None if priced.seconds is None else numbers.seconds(priced.seconds)),
        ("memory, about", None if priced.memory_bytes is None else numbers.size(priced.memory_bytes)),
    ):
        if value is not None:
            say(f"{label}: {value}")
    for note in price_notes(priced, log.epoch_count, settings.estimator.name):
        say(note)
    if needs:
        rows = [
            [name, f"{c.core_hours:.1f}", str(c.nodes), f"{c.hours:.1f}", numbers.size(c.log_bytes),
             numbers.size(c.process_bytes), numbers.size(c.result_bytes)]
            for name, c in needs.items()
        ]  # fmt: skip
        header = ["federation", "core hours", "machines", "hours on them", "log", "memory of a worker", "result"]
        click.echo(f"\n{table(header, rows)}")
        say(f"Machines like this one, so many that it ends within {within:g} h; assumptions: docs/capacity.md")


def _federation(text: str) -> FederationSize:
    """``CLIENTS,PARTICIPANTS,EPOCHS,`` and parameters, or the path of a log with the model that is meant."""
    *numbers, model = text.split(",", 3)
    known = model.isdecimal() or Path(model).exists()
    if len(numbers) != 3 or not known or not all(number.strip().isdecimal() for number in numbers):
        expected = "give four whole numbers, e.g. 10000,100,1000,1000000, or three and a log with the model"
        raise SettingsError(f"--federation {text}: {expected}")
    clients, participants, epochs = map(int, numbers)
    if model.isdecimal():
        return FederationSize(clients, participants, epochs, int(model))
    log = read_run_log(model)
    if not isinstance(log, RunLog):
        raise SettingsError(f"--federation {text}: {model} is a table, which holds no model")
    with closing(log):
        return federation_with(log, clients, participants, epochs)


def _capacities(
    measured: RunMeasurement, settings: AssessSettings, within: float, asked: dict[str, FederationSize]
) -> dict[str, Capacity]:
    capacities = {}
    for name, question in {**standing_questions(measured), **asked}.items():
        try:
            capacities[name] = capacity(measured, question, settings, within_hours=within)
        except CostRefusal as refused:
            say(f"{name}: {refused}", err=True)
    return capacities


def _priced_json(priced: Any) -> dict[str, object]:
    """The object that ``flcontrib price --json`` prints, without what identifies the question."""
    import psutil

    nodes = None
    if priced.memory_bytes is not None:  # machines like this one that the memory asks for
        nodes = -(-priced.memory_bytes // psutil.virtual_memory().total)
    return {
        "epochs": priced.epochs,
        "evaluations": priced.evaluations,
        "most_evaluations": priced.most_evaluations,
        "seconds": priced.seconds,
        "bytes": priced.memory_bytes,
        "nodes": nodes,
        "workers": priced.workers,
        "evaluations_per_second": priced.evaluations_per_second,
    }

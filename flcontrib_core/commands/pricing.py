"""``price``: what an assessment will cost, from the estimator that will run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flcontrib_core.commands.assessing import JSON, RUN, open_run
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ENGINE_OPTIONS,
    ESTIMATOR_OPTIONS,
    SectionedCommand,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import Progress, print_json, say


@click.command(cls=SectionedCommand, epilog="Example: flcontrib price run.flrun --budget 0.5 --workers 4")
@RUN
@with_options(ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS[1:2])
@JSON
def price(run: Path, workers: int, as_json: bool, **options: Any) -> None:
    """Evaluations, time and memory of an assessment, before anything is computed.

    Walks once through the log (one evaluation per epoch) and times a short probe on this machine.
    """
    from flcontrib_core.history import price_of
    from flcontrib_core.words import numbers, price_notes

    settings = settings_from(options)
    progress = Progress()
    log = open_run(run, options)
    priced = price_of(log, settings, workers, progress)
    progress.close()
    if as_json:
        print_json({"digest": log.digest, "estimator": settings.estimator.name, **_priced_json(priced)})
        return
    for label, value in (
        ("evaluations", None if priced.evaluations is None else numbers.count(priced.evaluations)),
        ("time, about", None if priced.seconds is None else numbers.seconds(priced.seconds)),
        ("memory, about", None if priced.memory_bytes is None else numbers.size(priced.memory_bytes)),
    ):
        say(f"{label}: {value or 'none'}")
    for note in price_notes(priced, log.epoch_count, settings.estimator.name):
        say(note)


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

"""A schedule as a drawing that stands alone: the page's chart with its finding above it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from flcontrib_core.charts.schedule import draw_schedule, schedule_alt, schedule_facts
from flcontrib_core.charts.svg import svg_file
from flcontrib_core.errors import SettingsError
from flcontrib_core.files import write_atomic
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.words import numbers


def write_schedule(schedule: Schedule, path: str | PathLike[str]) -> Path:
    """Writes the drawing as .svg, or as an .html page that holds it, and returns where it is.

    Raises ``SettingsError`` for other endings: a raster image would need a renderer that the core does not carry.
    """
    kind = Path(path).suffix.lower()
    if kind not in {".svg", ".html", ".htm"}:
        raise SettingsError(f"{path}: the schedule is drawn as vectors; name a file that ends in .svg or .html")
    drawing = schedule_svg(schedule)
    if kind != ".svg":
        drawing = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Schedule</title></head>'
            f'<body style="margin:24px">\n{drawing.partition("?>")[2].strip()}\n</body></html>\n'
        )
    return write_atomic(path, drawing)


def schedule_svg(schedule: Schedule) -> str:
    """The chosen epochs over the model's movement, with the finding as heading."""
    facts = schedule_facts(schedule)
    title = schedule_title(schedule)
    lines = (title, _criterion(schedule), "Bar: share of all movement. Filled: computed. Hatched: skipped.")
    return svg_file(draw_schedule(facts, "light"), title, schedule_alt(facts), lines)


def schedule_title(schedule: Schedule) -> str:
    """What these epochs buy, in one sentence."""
    sentence = (
        f"Computing {len(schedule.chosen)} of {schedule.epoch_count} epochs covers "
        f"{numbers.share(schedule.coverage)} of the model's movement"
    )
    if schedule.lowest_exposure is None:
        return sentence
    if schedule.unseen_clients:
        many = len(schedule.unseen_clients)
        return f"{sentence}; {numbers.several(many, 'client is', 'clients are')} never seen"
    return f"{sentence}; every client is seen in at least {numbers.share(schedule.lowest_exposure)} of its epochs"


def _criterion(schedule: Schedule) -> str:
    how_many = "at most" if schedule.at_most else "exactly"
    parts = [f"{schedule.fairness}, γ = {schedule.gamma:g}, {how_many} {schedule.k}"]
    if schedule.lowest_exposure is not None:
        lowest, highest = numbers.share(schedule.lowest_exposure), numbers.share(schedule.highest_exposure)
        parts.append(f"exposure {lowest} to {highest}, gap {schedule.exposure_gap:.2f}")
    parts.append("proved optimal" if schedule.proved_optimal else f"at most {schedule.gap:.3f} below the best")
    if schedule.unused_budget:
        parts.append(f"{schedule.unused_budget} of the budget unused")
    if schedule.predicted_evaluations is not None:
        parts.append(f"{numbers.count(schedule.predicted_evaluations)} evaluations")
    return " · ".join(parts)

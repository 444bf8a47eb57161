"""A schedule as a drawing that stands alone: the page's chart with its finding above it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from flcontrib_core.charts.raster import png_of
from flcontrib_core.charts.schedule import draw_schedule, schedule_alt, schedule_facts
from flcontrib_core.charts.svg import svg_file
from flcontrib_core.errors import SettingsError
from flcontrib_core.files import write_atomic
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.words.planning import plan_criterion, plan_title


def write_schedule(schedule: Schedule, path: str | PathLike[str]) -> Path:
    """Writes the drawing as .svg, .png, or an .html page that holds it, and returns where it is.

    Raises ``SettingsError`` for other endings, and ``MissingPart`` for a PNG where nothing can draw one.
    """
    kind = Path(path).suffix.lower()
    if kind not in {".svg", ".png", ".html", ".htm"}:
        raise SettingsError(f"{path}: name a file that ends in .svg, .png or .html")
    drawing = schedule_svg(schedule)
    if kind == ".png":
        return write_atomic(path, png_of(drawing))
    if kind != ".svg":
        drawing = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Schedule</title></head>'
            f'<body style="margin:24px">\n{drawing.partition("?>")[2].strip()}\n</body></html>\n'
        )
    return write_atomic(path, drawing)


def schedule_svg(schedule: Schedule) -> str:
    """The chosen epochs over the model's movement, with the finding as heading."""
    facts = schedule_facts(schedule)
    title = plan_title(schedule)
    lines = (title, plan_criterion(schedule), "Bar: share of all movement. Filled: computed. Hatched: skipped.")
    return svg_file(draw_schedule(facts, "light"), title, schedule_alt(facts), lines)

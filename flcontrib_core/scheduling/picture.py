"""What does a schedule look like over the run? A hand-drawn SVG: no plotting library, no outside asset, no script."""

from __future__ import annotations

from html import escape
from pathlib import Path

from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.schedule import Schedule, SchedulingProblem

_INK, _SECONDARY, _GRID, _AXIS, _HATCH, _SOFT = "#171A21", "#5B6270", "#EEF0F3", "#C9CED6", "#9AA2AF", "#F5F6F8"
_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT_HEIGHT = 960.0, 56.0, 20.0, 96.0, 210.0
_STRIP = _TOP + _PLOT_HEIGHT + 14.0
_HEIGHT = _STRIP + 76.0
_LONG_FIRST_BAR = 3.0
"""A bar this many times as tall as the next is cut, with its number on it, so that it does not flatten the rest."""


def write_picture(problem: SchedulingProblem, schedule: Schedule, path: Path) -> Path:
    """Write the picture as .svg, or as an .html page that holds it, and return where it is.

    Raises ``SettingsError`` for other endings: a raster image would need a renderer that the core does not carry.
    """
    picture = schedule_picture(problem, schedule)
    kind = path.suffix.lower()
    if kind not in {".svg", ".html", ".htm"}:
        raise SettingsError(f"{path}: the schedule is drawn as vectors; name a file that ends in .svg or .html")
    if kind != ".svg":
        picture = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Schedule</title></head>'
            f'<body style="margin:24px;background:#FFFFFF">\n{picture}</body></html>\n'
        )
    path.write_text(picture, encoding="utf-8")
    return path


def schedule_picture(problem: SchedulingProblem, schedule: Schedule) -> str:
    """An SVG of the chosen epochs over the model's movement.

    Bars are each epoch's share of all movement, filled where computed and hatched where skipped; the strip of squares
    below says the same where a bar is too small to see. A bar far taller than all others is cut and labelled.
    """
    total = float(problem.movement.sum())
    shares = [float(v) / total if total > 0 else 0.0 for v in problem.movement]
    top = _top_of_axis(shares)
    T = problem.epoch_count
    step = (_WIDTH - _LEFT - _RIGHT) / T
    chosen = set(schedule.chosen)
    take_away = _take_away(schedule)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" '
        f'font-family="Source Sans 3, Source Sans Pro, Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(take_away)}</title>",
        '<defs><pattern id="skipped" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{_SOFT}"/>'
        f'<line x1="0" y1="0" x2="0" y2="6" stroke="{_HATCH}" stroke-width="2"/></pattern></defs>',
        f'<rect width="{_WIDTH:g}" height="{_HEIGHT:g}" fill="#FFFFFF"/>',
        _text(_LEFT, 30, take_away, size=18, weight=600),
        _text(_LEFT, 52, _judgement(schedule), fill=_SECONDARY, size=13),
        _text(_LEFT, 74, "Bar: share of all movement. Filled: computed. Hatched: skipped.", fill=_SECONDARY),
        *_grid(top),
    ]
    for t, share in enumerate(shares):
        x = _LEFT + t * step + 0.14 * step
        parts.append(_bar(x, 0.72 * step, share, top, t + 1 in chosen))
        parts.append(_square(_LEFT + (t + 0.5) * step, min(9.0, 0.72 * step), t + 1 in chosen))
        if share > top:
            parts.append(_text(x + 0.72 * step + 4, _TOP + 12, _percent(share), fill=_SECONDARY))
    parts += [_text(_LEFT + (t - 0.5) * step, _STRIP + 28, str(t), fill=_SECONDARY, anchor="middle") for t in _ticks(T)]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _STRIP + 50, "Epoch", fill=_SECONDARY, anchor="middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _take_away(schedule: Schedule) -> str:
    sentence = (
        f"Computing {len(schedule.chosen)} of {schedule.epoch_count} epochs covers "
        f"{_percent(schedule.coverage)} of the model's movement"
    )
    lowest = schedule.lowest_exposure
    if lowest is None:
        return sentence
    if schedule.unseen_clients:
        many = len(schedule.unseen_clients)
        return f"{sentence}; {many} client{'s are' if many > 1 else ' is'} never seen"
    return f"{sentence}; every client is seen in at least {_percent(lowest)} of its epochs"


def _judgement(schedule: Schedule) -> str:
    words = [
        f"{schedule.fairness}, γ = {schedule.gamma:g}, {'at most' if schedule.at_most else 'exactly'} {schedule.k}"
    ]
    if schedule.lowest_exposure is not None:
        words.append(
            f"exposure {_percent(schedule.lowest_exposure)} to {_percent(schedule.highest_exposure or 0.0)}, "
            f"gap {schedule.exposure_gap:.2f}"
        )
    words.append("proved optimal" if schedule.proved_optimal else f"at most {schedule.gap:.3f} below the best")
    if schedule.unused_budget:
        words.append(f"{schedule.unused_budget} of the budget unused")
    if schedule.predicted_evaluations is not None:
        words.append(f"{schedule.predicted_evaluations:,} evaluations".replace(",", "\u2009"))
    return " · ".join(words)


def _top_of_axis(shares: list[float]) -> float:
    tallest, *rest = sorted(shares, reverse=True)
    second = rest[0] if rest else 0.0
    visible = second * 1.25 if second > 0 and tallest > _LONG_FIRST_BAR * second else tallest * 1.05
    return visible or 1.0


def _grid(top: float) -> list[str]:
    """Horizontal lines at two or three round percentages, and the axis."""
    spacing = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top / s <= 4)
    lines = []
    for n in range(int(top / spacing) + 1):
        y = _height_of(n * spacing, top)
        right = _WIDTH - _RIGHT
        colour = _AXIS if n == 0 else _GRID
        lines.append(f'<line x1="{_LEFT:g}" y1="{y:.1f}" x2="{right:g}" y2="{y:.1f}" stroke="{colour}"/>')
        lines.append(_text(_LEFT - 8, y + 4, f"{100 * n * spacing:g}%", fill=_SECONDARY, anchor="end"))
    return lines


def _bar(x: float, width: float, share: float, top: float, computed: bool) -> str:
    y = _height_of(min(share, top), top)
    height = _TOP + _PLOT_HEIGHT - y
    fill = f'fill="{_INK}"' if computed else f'fill="url(#skipped)" stroke="{_HATCH}" stroke-width="0.8"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" {fill}/>'


def _square(centre: float, size: float, computed: bool) -> str:
    look = f'fill="{_INK}" stroke="{_INK}"' if computed else f'fill="none" stroke="{_HATCH}"'
    return f'<rect x="{centre - size / 2:.2f}" y="{_STRIP:.2f}" width="{size:.2f}" height="{size:.2f}" {look}/>'


def _height_of(share: float, top: float) -> float:
    return _TOP + _PLOT_HEIGHT * (1 - share / top)


def _ticks(epochs: int) -> list[int]:
    spacing = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, epochs) if epochs / s <= 12)
    return sorted({1, *range(spacing, epochs + 1, spacing)} if spacing > 1 else set(range(1, epochs + 1)))


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _text(
    x: float, y: float, words: str, fill: str = _INK, size: int = 12, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )

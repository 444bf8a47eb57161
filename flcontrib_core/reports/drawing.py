"""How is a chart drawn as SVG that follows light, dark and paper, without a plotting library or a script?

Every mark has a class; the colours behind the classes are CSS variables, so one drawing serves the report (inline),
a file of its own (with the style inside) and the printer. Text is escaped in one place, here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

HEAT_LEVELS = 21
"""Steps of the heat map from harm over 0 to help; the middle one is 0."""
_HEAT_STOPS = {
    "light": ("#8F2E04", "#E08A57", "#F4F5F7", "#6BA8DA", "#0A4B85"),
    "dark": ("#FF9A5F", "#9C4A20", "#2A303B", "#24618F", "#7CC6FA"),
}
_COLOURS = {
    "light": (
        "--page:#FFFFFF;--soft:#F5F6F8;--ink:#171A21;--second:#5B6270;--border:#E3E6EB;--grid:#EEF0F3;--axis:#C9CED6;"
        "--context:#AEB5C0;--absent:#AEB5C0;--hatch:#9AA2AF;--harm:#B8400A;--help:#0B62A8;--care:#6B5200;"
        "--care-soft:#FBF3DC;--alert:#8F3A06;--alert-soft:#FDEFE7;"
        "--c0:#305396;--c1:#3BA086;--c2:#5A152A;--c3:#8B4F00;--c4:#B661F6"
    ),
    "dark": (
        "--page:#0F1218;--soft:#171B23;--ink:#E8EAF0;--second:#A9B1BF;--border:#2A303B;--grid:#1E242E;--axis:#3A424F;"
        "--context:#5E6776;--absent:#5E6776;--hatch:#6B7484;--harm:#FF8A4C;--help:#5CB3F0;--care:#EBCB6B;"
        "--care-soft:#332B12;--alert:#FFB08A;--alert-soft:#3A2016;"
        "--c0:#6C84F2;--c1:#5FE3BD;--c2:#F0508A;--c3:#F3A124;--c4:#ADAEF9"
    ),
}


def _mixed(first: str, second: str, share: float) -> str:
    one, two = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (first, second))
    return "#" + "".join(f"{round(v):02X}" for v in one + (two - one) * share)


def _heat_variables(mode: str) -> str:
    stops = _HEAT_STOPS[mode]
    places = np.linspace(0, len(stops) - 1, HEAT_LEVELS)
    cells = [_mixed(stops[min(int(p), 3)], stops[min(int(p), 3) + 1], p - min(int(p), 3)) for p in places]
    return ";".join(f"--h{n}:{colour}" for n, colour in enumerate(cells))


def _variables(mode: str) -> str:
    return f"{_COLOURS[mode]};{_heat_variables(mode)}"


COLOUR_STYLE = (
    f":root{{color-scheme:light dark;{_variables('light')}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables('dark')}}}}}"
)
CHART_STYLE = (
    "svg{font:13px 'Source Sans 3','Source Sans Pro',system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    "svg text{fill:var(--ink)}svg .small{font-size:12px}svg .second{fill:var(--second)}svg .strong{font-weight:600}"
    "svg .end{text-anchor:end}svg .middle{text-anchor:middle}"
    "svg .grid{stroke:var(--grid)}svg .axis{stroke:var(--axis)}svg .rule{stroke:var(--ink)}"
    "svg .band{fill:var(--context);fill-opacity:.22}svg .median{stroke:var(--context);stroke-width:1.5;fill:none}"
    "svg .others{fill:var(--context);fill-opacity:.35;stroke:var(--second);stroke-width:.8}"
    "svg .line{fill:none;stroke:var(--c);stroke-width:2.5;stroke-linejoin:round}"
    "svg .filled-in{fill:none;stroke:var(--c);stroke-width:1.2;stroke-dasharray:1.5 3}"
    "svg .range{fill:var(--c);fill-opacity:.13}svg .window{fill:var(--c);fill-opacity:.1}"
    "svg .edge{stroke:var(--c);stroke-dasharray:2 3;fill:none}svg .rail{stroke:var(--c);stroke-width:4}"
    "svg .mark{fill:var(--c)}svg text.who{fill:var(--c);font-weight:600}"
    "svg .d1{stroke-dasharray:8 4}svg .d2{stroke-dasharray:2 3}svg .d3{stroke-dasharray:8 3 2 3}"
    "svg .harm{fill:var(--harm)}svg .help{fill:var(--help)}svg .ink{fill:var(--ink)}svg .open{fill:var(--page);"
    "stroke:var(--ink);stroke-width:1.5}svg .bar{stroke:var(--ink)}svg .absent{fill:var(--absent)}"
    "svg .outline{fill:none;stroke:var(--ink);stroke-width:1.6}svg .hatched{fill:url(#hatch)}"
    "svg .hatch-line{stroke:var(--hatch);stroke-width:1.6}svg .hatch-ground{fill:var(--soft)}"
    "svg .sheet{fill:var(--page)}"
    + "".join(f"svg .c{i}{{--c:var(--c{i})}}" for i in range(5))
    + "".join(f"svg .h{i}{{fill:var(--h{i})}}" for i in range(HEAT_LEVELS))
)
HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="hatch-ground" width="6" height="6"/><line class="hatch-line" x1="0" y1="0" x2="0" y2="6"/></pattern>'
)
HATCH_ONCE = f'<svg width="0" height="0" aria-hidden="true"><defs>{HATCH}</defs></svg>'
"""Stands once in a page; all its charts refer to it."""


def visible(text: str) -> str:
    """Text as it is, with marks for what would not be seen or would turn the line around (shown literally).

    >>> visible("a\\u202eb"), visible("two\\nlines")
    ('a⟨U+202E⟩b', 'two⟨U+000A⟩lines')
    """
    unseen = ("Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs")
    return "".join(f"⟨U+{ord(c):04X}⟩" if unicodedata.category(c) in unseen else c for c in text)


def markup(text: str) -> str:
    """Text for HTML or SVG: made visible, then escaped."""
    return escape(visible(text), quote=True)


def shortened(text: str, most: int = 16) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Scale:
    """A value's place on the sheet."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low or 1.0
        return self.first + (value - self.low) / span * (self.last - self.first)


@dataclass(frozen=True)
class Chart:
    """A finished drawing: its file name, what it shows in words, and its marks."""

    name: str
    title: str
    alt: str
    width: float
    height: float
    marks: str

    def inline(self) -> str:
        """For a page that has the style and the hatch pattern once."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{markup(self.alt)}">'
            f"{self.marks}</svg>"
        )

    def as_file(self) -> str:
        """A drawing that stands alone, follows the reader's light or dark, and asks for nothing from outside."""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'width="{self.width:g}" height="{self.height:g}"><title>{markup(self.title)}</title>'
            f"<desc>{markup(self.alt)}</desc><style>{COLOUR_STYLE}{CHART_STYLE}</style><defs>{HATCH}</defs>"
            f'<rect class="sheet" width="100%" height="100%"/>{self.marks}</svg>\n'
        )


def client_classes(client_ids: Sequence[str]) -> dict[str, str]:
    """One look per client on every chart: colour i mod 5, dash (i div 5) mod 4, by the place in the sorted ids."""
    return {c: f"c{i % 5} d{i // 5 % 4}" for i, c in enumerate(sorted(client_ids))}


def text(x: float, y: float, words: str, look: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{look}">{markup(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{look}"/>'


def box(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" class="{look}"/>'


def dot(x: float, y: float, radius: float, look: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{look}"/>'


def boxes(corners: Iterable[tuple[float, float, float, float]], look: str) -> str:
    """Many boxes of one look as one path: a large heat map stays a small file."""
    steps = "".join(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z" for x, y, w, h in corners)
    return f'<path d="{steps}" class="{look}"/>' if steps else ""


def curve(points: Iterable[tuple[float, float]], look: str) -> str:
    """A line through the points; a point with NaN interrupts it."""
    steps, pen_down = [], False
    for x, y in points:
        if y != y:
            pen_down = False
            continue
        steps.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    return f'<path d="{"".join(steps)}" class="{look}"/>' if steps else ""


def area(xs: Sequence[float], lower: Sequence[float], upper: Sequence[float], look: str) -> str:
    there = [*zip(xs, upper, strict=True), *reversed(list(zip(xs, lower, strict=True)))]
    return f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in there)}z" class="{look}"/>' if there else ""


def marker(x: float, y: float, client_look: str) -> str:
    """A sign of its own beside the colour: circle, square, diamond, triangle or hexagon."""
    shapes = {
        "c0": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "c1": "M-3.5 -3.5h7v7h-7z",
        "c2": "M0 -5L5 0L0 5L-5 0z",
        "c3": "M0 -5L4.8 3.6L-4.8 3.6z",
        "c4": "M-4.5 0L-2.2 -4H2.2L4.5 0L2.2 4H-2.2z",
    }
    colour = client_look.split()[0]
    return f'<path transform="translate({x:.1f} {y:.1f})" d="{shapes[colour]}" class="mark {colour}"/>'


def epoch_ticks(epochs: int) -> list[int]:
    """1, 5, 10 … – at most about ten labels."""
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 10**9) if epochs / s <= 9)
    return sorted({1, *range(step, epochs + 1, step)}) if epochs else []


def value_ticks(low: float, high: float) -> list[float]:
    """Three to six round values inside the range."""
    rough = (high - low or 1.0) / 4
    size = 10.0 ** np.floor(np.log10(rough))
    step = float(size * next(m for m in (1, 2, 5, 10) if m * size >= rough))
    return [float(n * step) for n in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def spread_apart(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Label positions moved apart so that neighbours keep the gap, inside the sheet."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    placed, last = list(positions), low - gap
    for i in order:
        placed[i] = last = max(positions[i], last + gap)
    ceiling = high + gap
    for i in reversed(order):
        placed[i] = ceiling = min(placed[i], ceiling - gap)
    return placed

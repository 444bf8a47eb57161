"""Two pictures of the house, drawn from the sources when the site is built: who imports whom, and what becomes of what.

Lines and words take the page's own colour, so that they follow its light and dark.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import flcontrib_core

CORE = Path(flcontrib_core.__file__).parent
ROOMS = ("execution", "runs", "games", "shapley", "scheduling", "history", "detection", "auditing", "words", "charts",
         "reports", "notebook", "workspace", "laboratory", "commands", "app")  # fmt: skip
"""In the order in which they may import; ``tests/test_rooms.py`` holds the sources to it, and this list to its own."""
FLOW = ("runs.bundle:read_run_log", "history:scheduling_problem", "scheduling:choose_epochs",
        "history:assess_contributions", "detection:read_verdicts", "auditing:report_on", "words:headline",
        "charts:report_charts", "reports.twin:write_report", "reports.verify:verify_report")  # fmt: skip
"""The public functions that lead from a log to what people read."""
NOUNS = {
    "str | Path": "a log on disk",
    "RunLog | ContributionTable | UtilityTable": "Run",
    "tuple[Path, Path]": "report.html, report.json",
    "Path | dict[str, Any]": "report.html, report.json",
    "str": "a sentence",
    "dict[str, Chart]": "charts",
}
"""What a reader calls a type; every other one is called by its own name."""


def imports_by_room() -> Counter[tuple[str, str]]:
    """How many import statements of each room name each other room."""
    found: Counter[tuple[str, str]] = Counter()
    app = CORE.parent / "app" / "flcontrib_dashboard"
    for path in [*CORE.rglob("*.py"), *app.rglob("*.py")]:
        room = "app" if app in path.parents else path.relative_to(CORE).parts[0].removesuffix(".py")
        room = "commands" if room in ("cli", "console") else room
        for node in ast.walk(ast.parse(path.read_text())):
            if room in ROOMS and isinstance(node, ast.ImportFrom) and str(node.module).startswith("flcontrib_core"):
                inner = str(node.module).split(".")[1:2] or [alias.name for alias in node.names]
                found.update((room, other) for other in set(inner) if other in ROOMS and other != room)
    return found


def rooms_svg() -> str:
    """A square for every pair of rooms, as dark as the imports are many: nothing stands above the diagonal."""
    found, side, left, top = imports_by_room(), 34, 108, 92
    most = max(found.values())
    size = side * len(ROOMS)
    parts = []
    for n, room in enumerate(ROOMS):
        at = n * side + side / 2
        parts.append(_text(left - 8, top + at + 4, room, "end"))
        parts.append(f'<g transform="translate({left + at + 4} {top - 8}) rotate(-60)">{_text(0, 0, room)}</g>')
        parts.append(_rect(left + n * side, top + n * side, side, side, 0.08))
    for (room, other), count in sorted(found.items()):
        x, y = left + ROOMS.index(other) * side, top + ROOMS.index(room) * side
        title = f"{room} imports {other} {count} times"
        parts.append(f"<g><title>{title}</title>{_rect(x + 2, y + 2, side - 4, side - 4, 0.15 + 0.45 * count / most)}")
        parts.append(_text(x + side / 2, y + side / 2 + 4, str(count), "middle", 11) + "</g>")
    parts.append(f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="currentColor"/>')
    words = "Each row is a room; a number says how many of its import statements name the room of that column."
    return _drawing(left + size + 60, top + size + 8, "Imports by rooms", words, parts)


def flow() -> list[tuple[str, str, str]]:
    """(from, function, to) of every step, read from the functions' own signatures."""
    steps = []
    for place in FLOW:
        module, _, name = place.partition(":")
        function: Callable[..., Any] = getattr(import_module(f"flcontrib_core.{module}"), name)
        signature = inspect.signature(function)
        made = noun(str(signature.return_annotation))
        taken = [noun(str(p.annotation)) for p in signature.parameters.values()]
        known = {end for _, _, end in steps} | {"a log on disk"}
        steps += [(start, name, made) for start in dict.fromkeys(taken) if start in known and start != made]
    return steps


def noun(annotation: str) -> str:
    """'Schedule | None' → 'Schedule'"""
    plain = annotation if annotation in NOUNS else re.sub(r" \| None$", "", annotation)
    return NOUNS.get(plain, plain)


def flow_svg() -> str:
    """The nouns below each other; an arrow for every function that makes the lower one from the upper one."""
    steps = flow()
    nouns = list(dict.fromkeys(end for start, _, made in steps for end in (start, made)))
    wide, high, gap = 210, 34, 40
    middle = {name: 20 + n * (high + gap) + high / 2 for n, name in enumerate(nouns)}
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    parts = [f'<defs>{tip}<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>']
    for name in nouns:
        parts.append(_rect(10, middle[name] - high / 2, wide, high, 0.1))
        parts.append(_text(10 + wide / 2, middle[name] + 4, name, "middle", 14))
    for start, function, made in steps:
        a, b = middle[start], middle[made]
        near = nouns.index(made) - nouns.index(start) == 1
        if near:
            line, x = f"M{10 + wide / 2} {a + high / 2}V{b - high / 2}", 10 + wide / 2 + 8
        else:
            out = 10 + wide + 130 + 34 * (nouns.index(made) - nouns.index(start) - 1)
            line, x = f"M{10 + wide} {a}C{out} {a} {out} {b} {10 + wide} {b}", 0.25 * (10 + wide) + 0.75 * out + 6
        parts.append(f'<path d="{line}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>')
        parts.append(_text(x, (a + b) / 2 + 4, f"{function}()", "start", 12))
    height = 20 + len(nouns) * (high + gap)
    words = "; ".join(f"{function} makes {made} from {start}" for start, function, made in steps)
    return _drawing(760, height, "From a log to what people read", words, parts)


def _drawing(width: float, height: float, title: str, words: str, parts: list[str]) -> str:
    head = f"<title>{escape(title)}</title><desc>{escape(words)}</desc>"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" style="max-width:100%;height:auto" role="img" '
        f'font-family="sans-serif">{head}{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = 13) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="currentColor">{escape(words)}</text>'


def _rect(x: float, y: float, width: float, height: float, opacity: float) -> str:
    look = f'fill="currentColor" fill-opacity="{opacity:.2f}"'
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" {look}/>'

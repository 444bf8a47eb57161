"""A figure on disk: rows as Parquet and CSV, the drawing as SVG, PNG, HTML and the facts it is made of, the claims."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from flcontrib_core.charts.panels import PanelFacts, draw_panels, panels_alt
from flcontrib_core.charts.raster import png_of
from flcontrib_core.charts.svg import inline_svg
from flcontrib_core.codec import decode
from flcontrib_core.files import write_atomic
from flcontrib_core.laboratory.reproduction.figure import Figure
from flcontrib_core.reports.page import grid, markup, page, paragraph, section
from flcontrib_core.reports.paper_figure import PaperFigure, claims_markdown, read_paper_figures

DIGITS = 6
"""Significant ones of a number in the CSV; Parquet has them all."""


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    """Writes everything of one figure and returns the files."""
    import pandas

    folder.mkdir(parents=True, exist_ok=True)
    frame = pandas.DataFrame([{k: _cell(v) for k, v in row.items()} for row in figure.rows])
    data = figure.shown.to_json()
    shown = decode(PaperFigure, json.loads(data))  # drawn from what is stored, so that anybody draws the same again
    title = shown.drawn.title
    parts = [
        f"<h1>{markup(title)}</h1>",
        paragraph(shown.drawn.take_away),
        paragraph(shown.scale_words, "second small"),
        _picture(shown.drawn),
        *(section(facts.title, paragraph(facts.take_away) + _picture(facts)) for facts in shown.further),
        section("Claims", grid(("Claim", "Paper", "Ours", ""), [c.cells for c in shown.claims], words=3)),
        section("What was run", paragraph(shown.note)),
    ]
    digest = hashlib.sha256(data.encode()).hexdigest()
    stem = folder / shown.name
    claims = json.dumps([claim.to_json() for claim in shown.claims], indent=1, ensure_ascii=False)
    return [
        write_atomic(stem.with_suffix(".csv"), frame.to_csv(index=False, float_format=f"%.{DIGITS}g")),
        write_atomic(stem.with_suffix(".parquet"), frame.to_parquet(index=False)),
        write_atomic(stem.with_suffix(".json"), data),
        *(write_atomic(folder / f"{name}.svg", svg) for name, svg in shown.svgs().items()),
        write_atomic(stem.with_suffix(".html"), page(title, parts, f"{shown.name}.json", digest)),
        write_atomic(folder / f"{shown.name}-claims.json", claims),
    ]


def write_images(shown: PaperFigure, folder: Path) -> list[Path]:
    """Every drawing as ``NAME.png``. Raises ``MissingPart`` where this machine cannot draw one."""
    return [write_atomic(folder / f"{name}.png", png_of(svg)) for name, svg in shown.svgs().items()]


def _picture(facts: PanelFacts) -> str:
    return inline_svg(draw_panels(facts, "light"), facts.title, panels_alt(facts))


def write_claims_page(folder: Path) -> Path:
    """``claims.md``: every claim of the figures stored in the folder; one that is not there is named as not run."""
    return write_atomic(folder / "claims.md", "\n".join(claims_markdown(read_paper_figures(folder))) + "\n")


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        is_window = all(isinstance(part, int) for part in value)
        return ("–" if is_window else " ").join(map(str, value))
    return None if isinstance(value, float) and not np.isfinite(value) else value

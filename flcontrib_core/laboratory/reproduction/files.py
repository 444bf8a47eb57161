"""A figure on disk: rows as Parquet, CSV and JSON, the drawing as SVG and HTML, the claims as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from flcontrib_core.charts.panels import draw_panels, panels_alt
from flcontrib_core.charts.svg import inline_svg, svg_file
from flcontrib_core.files import write_atomic
from flcontrib_core.laboratory.reproduction.figure import Claim, Figure
from flcontrib_core.reports.page import grid, markup, page, paragraph, section

HOLDS = {True: "holds", False: "holds not", None: "not run"}


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    """Writes everything of one figure and returns the files."""
    import pandas

    folder.mkdir(parents=True, exist_ok=True)
    frame = pandas.DataFrame([{k: _cell(v) for k, v in row.items()} for row in figure.rows])
    content = {
        "name": figure.name,
        "scale": figure.scale,
        "note": figure.note,
        "rows": json.loads(frame.to_json(orient="records")),
        "claims": [claim.to_json() for claim in figure.claims],
    }
    data = json.dumps(content, indent=1, ensure_ascii=False)
    picture, words = draw_panels(figure.drawn, "light"), panels_alt(figure.drawn)
    title = figure.drawn.title
    drawing = svg_file(picture, title, words, (title, figure.drawn.take_away, _scale(figure)))
    claims = json.dumps(content["claims"], indent=1, ensure_ascii=False)
    parts = [
        f"<h1>{markup(title)}</h1>",
        paragraph(figure.drawn.take_away),
        paragraph(_scale(figure), "second small"),
        inline_svg(picture, title, words),
        section("Claims", grid(("Claim", "Paper", "Ours", ""), claim_cells(figure.claims), words=4)),
        section("What was run", paragraph(figure.note)),
    ]
    digest = hashlib.sha256(data.encode()).hexdigest()
    stem = folder / figure.name
    return [
        write_atomic(stem.with_suffix(".csv"), frame.to_csv(index=False)),
        write_atomic(stem.with_suffix(".parquet"), frame.to_parquet(index=False)),
        write_atomic(stem.with_suffix(".json"), data),
        write_atomic(stem.with_suffix(".svg"), drawing),
        write_atomic(stem.with_suffix(".html"), page(title, parts, f"{figure.name}.json", digest)),
        write_atomic(folder / f"{figure.name}-claims.json", claims),
    ]


def claim_cells(claims: tuple[Claim, ...]) -> list[tuple[str, str, str, str]]:
    """Claim · paper · ours · holds, as a table's rows."""
    return [(c.claim, c.paper, c.ours, HOLDS[c.holds]) for c in claims]


def write_claims_page(folder: Path, names: Iterable[str]) -> Path:
    """``claims.md``: every claim of the figures stored in the folder; one that is not there is named as not run."""
    lines = ["| figure | claim | paper | ours | |", "|---|---|---|---|---|"]
    for name in names:
        stored = folder / f"{name}.json"
        if not stored.exists():
            lines.append(f"| {name} | | | | not run |")
            continue
        content = json.loads(stored.read_text())
        for claim in content["claims"]:
            cells = (
                f"{name} ({content['scale']})",
                claim["claim"],
                claim["paper"],
                claim["ours"],
                HOLDS[claim["holds"]],
            )
            lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |")
    return write_atomic(folder / "claims.md", "\n".join(lines) + "\n")


def _scale(figure: Figure) -> str:
    predicted = any(any(line.predicted) for panel in figure.drawn.panels for line in panel.lines)
    return f"Scale: {figure.scale}." + (" Filled signs were measured, open ones predicted." if predicted else "")


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        return "–".join(map(str, value))
    return None if isinstance(value, float) and not np.isfinite(value) else value

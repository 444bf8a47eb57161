"""A figure of the paper made again: what is drawn, each claim beside what came out, and what that took.

The figures that come with the package are the outcome of one ``flcontrib reproduce all --scale small``: the
documentation, the dashboard and the command show claims from the same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flcontrib_core.charts.panels import PanelFacts, draw_panels, panels_alt
from flcontrib_core.charts.svg import svg_file
from flcontrib_core.codec import decode, encode

BUNDLED = Path(__file__).parent / "paper"
"""The outcome that comes with the package, a file per figure."""
QUESTIONS = {
    "cactus": "How many instances within a time, and within an error?",
    "ablations": "What do clients and k/T cost and buy?",
    "approximations": "Which estimator errs least at equal cost?",
    "change-points": "Does the change-point mass show the window?",
    "jaccard": "Are honest clients kept apart from dishonest ones?",
    "aggregation": "Does the best subset train faster?",
}
"""The six figures, in the paper's order, and what each asks."""
REPRODUCTION = "reproduction"
"""The kind of job that makes one of them, and of its result; it belongs to no run."""
HOLDS = {True: "holds", False: "does not hold", None: "not run"}


@dataclass(frozen=True)
class Claim:
    """One statement of the paper (or of ours), what it says in numbers, and what came out here."""

    claim: str
    paper: str
    ours: str
    holds: bool | None
    """None: not run, or not to be decided from what was run"""

    def to_json(self) -> dict[str, object]:
        """As ``flcontrib reproduce --json`` prints it."""
        return {"claim": self.claim, "paper": self.paper, "ours": self.ours, "holds": self.holds}

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Claim · paper · ours · holds."""
        return self.claim, self.paper, self.ours, HOLDS[self.holds]


@dataclass(frozen=True)
class PaperFigure:
    """One figure at the scale it was run."""

    name: str
    scale: str
    note: str
    """What was run, and where that differs from the paper"""
    claims: tuple[Claim, ...]
    drawn: PanelFacts
    seconds: float = 0.0
    """CPU time of all instances that were run"""
    ran: int = 0
    planned: int = 0
    """Instances: of how many at this scale"""
    seeds: int = 1
    """Of every setting"""
    further: tuple[PanelFacts, ...] = ()
    """More drawings of the same runs, as in the paper's appendix"""

    @property
    def drawings(self) -> dict[str, PanelFacts]:
        """Every drawing by the name of its file: NAME, NAME-2, NAME-3 …"""
        return {self.name: self.drawn} | {f"{self.name}-{n}": facts for n, facts in enumerate(self.further, 2)}

    @property
    def price(self) -> float:
        """About the CPU seconds of making it whole, with as many seeds."""
        return self.seconds * self.planned / max(self.ran, 1)

    @property
    def scale_words(self) -> str:
        """At which scale, how far it was run, and what open signs mean where there are any."""
        panels = [panel for facts in self.drawings.values() for panel in facts.panels]
        predicted = any(any(line.predicted) for panel in panels for line in panel.lines)
        some = f"{self.ran} of {self.planned}" if self.ran < self.planned else f"{self.ran}"
        signs = " Filled signs were measured, open ones predicted." if predicted else ""
        return f"Scale: {self.scale}, {some} federations.{signs}"

    def svg(self) -> str:
        """The first drawing as a file of its own."""
        return self.svgs()[self.name]

    def svgs(self) -> dict[str, str]:
        """Every drawing as a file of its own, by name."""
        return {
            name: svg_file(
                draw_panels(facts, "light"), facts.title, panels_alt(facts),
                (facts.title, facts.take_away, self.scale_words),
            )
            for name, facts in self.drawings.items()
        }  # fmt: skip

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps(encode(PaperFigure, self)[0], ensure_ascii=False, separators=(",", ":")) + "\n"


def read_paper_figures(folder: Path = BUNDLED) -> dict[str, PaperFigure]:
    """The figures stored in a folder, by name, in the paper's order; those that are not there were not run."""
    stored = {name: folder / f"{name}.json" for name in QUESTIONS}
    return {name: decode(PaperFigure, json.loads(path.read_text())) for name, path in stored.items() if path.exists()}


def claims_markdown(figures: dict[str, PaperFigure], names: Iterable[str] = QUESTIONS) -> list[str]:
    """Every claim as the lines of a table; a figure that is not there is named as not run."""
    lines = ["| figure | claim | paper | ours | |", "|---|---|---|---|---|"]
    for name in names:
        if name not in figures:
            lines.append(f"| {name} | | | | not run |")
            continue
        for claim in figures[name].claims:
            cells = (f"{name} ({figures[name].scale})", *claim.cells)
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return lines

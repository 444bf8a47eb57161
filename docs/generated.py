"""Pages that are made from the code itself, so that they cannot go stale: porch, problem codes, glossary, house."""

from __future__ import annotations

import ast
import csv
import json
import re
import statistics
from pathlib import Path
from typing import Any

import house
from command_reference import command_reference
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import flcontrib_core
from flcontrib_core.reports.paper_figure import PaperFigure, claims_markdown, read_paper_figures
from flcontrib_core.runs.problem_codes import documentation
from flcontrib_core.words import numbers, wording

CORE = Path(flcontrib_core.__file__).parent


class FromCode(SphinxDirective):
    """A directive whose content is text in the page's own language, made by ``lines``."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """The nodes of the made text."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class Codes(FromCode):
    """Every problem a log can have."""

    def lines(self) -> list[str]:
        return documentation().splitlines()


class Glossary(FromCode):
    """The words of the dashboard's help page."""

    def lines(self) -> list[str]:
        return [line for term, text in wording.GLOSSARY.items() for line in (f"**{term}**", f": {text}", "")]


class Commands(FromCode):
    """Every command with its options."""

    def lines(self) -> list[str]:
        self.env.note_reread()
        return command_reference()


class House(SphinxDirective):
    """A picture of the house, drawn from the sources: ``rooms`` or ``flow``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The drawing, inside the page."""
        self.env.note_reread()  # it depends on every source
        drawing = {"rooms": house.rooms_svg, "flow": house.flow_svg}[self.arguments[0]]()
        return [nodes.raw("", drawing, format="html")]


class Licences(FromCode):
    """What is shipped beside our own code, and under which terms, read from the bill of materials."""

    def lines(self) -> list[str]:
        rows = ["| package | version | licence as its authors declare it |", "|---|---|---|"]
        return rows + [f"| {name} | {version} | {terms} |" for name, version, terms in shipped()]


class Departures(FromCode):
    """Every note in the sources that says where they depart from the paper, or from what a peer published."""

    def lines(self) -> list[str]:
        self.env.note_reread()  # it depends on every source
        return [line for place, text in departures() for line in (f"**`{place}`**", "", *text.splitlines(), "")]


def departures() -> list[tuple[str, str]]:
    """Each source's notes that begin with "Departure", with their lists."""
    found = []
    for path in sorted(CORE.rglob("*.py")):
        texts = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
        paragraphs = [p for text in texts if isinstance(text, str) for p in re.split(r"\n\s*\n", text)]
        notes = [note for p in paragraphs for note in re.split(r"\b(?=Departures?(?::| from))", p)[1:]]
        found += [(str(path.relative_to(CORE)), _unwrapped(note)) for note in notes]
    return found


def _unwrapped(note: str) -> str:
    """A wrapped paragraph as one line, each item of its list as another."""
    items = [" ".join(item.split()) for item in re.split(r"\n\s+\* ", note)]
    return "\n".join([items[0], "", *(f"* {item}" for item in items[1:])] if len(items) > 1 else items)


class Outcome(FromCode):
    """Every claim of the paper beside what came out, and the figures, from the outcome stored in the package."""

    def lines(self) -> list[str]:
        figures = read_paper_figures()
        table = claims_markdown(figures)
        spent = numbers.seconds(sum(figure.seconds for figure in figures.values()))
        return [
            *table,
            "",
            f"All of it together took {spent} of CPU.",
            "",
            *(line for figure in figures.values() for line in self.of_figure(figure)),
        ]

    def of_figure(self, figure: PaperFigure) -> list[str]:
        """A heading, the drawings, and what was run."""
        cost = numbers.seconds(figure.seconds)
        pictures = (f"![{facts.take_away}](figures/{name}.svg)" for name, facts in figure.drawings.items())
        return [
            f"### {figure.drawn.title}",
            "",
            *(line for picture in pictures for line in (picture, "")),
            f"{figure.scale_words} {cost} of CPU. {figure.note} {{download}}`Rows as CSV <figures/{figure.name}.csv>`.",
            "",
        ]


class ByRegime(FromCode):
    """Errors of the estimators by data set and number of evaluations, from the stored rows of the paper's figure."""

    REGIMES = (("adult", "loss", "4"), ("adult", "loss", "16"), ("compas", "loss", "4"), ("compas", "loss", "16"),
               ("compas", "accuracy", "4"), ("compas", "accuracy", "16"))  # fmt: skip

    def lines(self) -> list[str]:
        stored = Path(__file__).parent / "figures" / "approximations.csv"
        self.env.note_dependency(str(stored))
        with stored.open(newline="") as file:
            rows = list(csv.DictReader(file))
        heads = [f"{dataset}, {utility}, {multiple}n" for dataset, utility, multiple in self.REGIMES]
        lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for method in dict.fromkeys(row["method"] for row in rows):
            cells = [self.cell([r for r in rows if r["method"] == method], *regime) for regime in self.REGIMES]
            lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
        return lines

    @staticmethod
    def cell(rows: list[dict[str, str]], dataset: str, utility: str, multiple: str) -> str:
        """Median and largest."""
        kept = [r[f"nmse_{utility}"] for r in rows if (r["dataset"], r["multiple"]) == (dataset, multiple)]
        errors = [float(error) for error in kept if error]
        return f"{statistics.median(errors):.1e} / {max(errors):.1e}" if errors else "not run"


class Porch(SphinxDirective):
    """Signatures and docstrings of every name on the porch."""

    def run(self) -> list[nodes.Node]:
        """autodoc's own directives, one per name."""
        lines: list[str] = []
        for name in sorted(flcontrib_core.__all__, key=str.lower):
            thing: Any = getattr(flcontrib_core, name)
            if isinstance(thing, str):
                continue
            kind = "autoclass" if isinstance(thing, type) else "autofunction"
            lines += [f".. {kind}:: flcontrib_core.{name}", ""]
        return self.parse_text_to_nodes("\n".join(["```{eval-rst}", *lines, "```"]))


def shipped() -> list[tuple[str, str, str]]:
    """Name, version and declared licences of every package in the bill of materials."""
    bill = json.loads((Path(__file__).parent / "sbom.cdx.json").read_text())
    rows = []
    for part in bill["components"]:
        declared = [held.get("license", held) for held in part.get("licenses", ())]
        terms = [term.get("id") or term.get("expression") or term.get("name", "") for term in declared]
        short = [" ".join(term.split())[:80] for term in terms if term]
        rows.append((part["name"], part["version"], ", ".join(dict.fromkeys(short)) or "not declared in its metadata"))
    return sorted(rows, key=lambda row: row[0].lower())


def keep_bars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings write sizes as |S|, which reStructuredText would take for a substitution."""
    lines[:] = [
        line if "``" in line or set(line) <= {"|", "-", "=", "+", " "} else line.replace("|", "\\|") for line in lines
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Makes the directives known."""
    for name, directive in {
        "by-regime": ByRegime,
        "codes": Codes,
        "commands": Commands,
        "departures": Departures,
        "terms": Glossary,
        "house": House,
        "licences": Licences,
        "outcome": Outcome,
        "porch": Porch,
    }.items():
        app.add_directive(name, directive)
    app.connect("autodoc-process-docstring", keep_bars)
    return {"parallel_read_safe": True}

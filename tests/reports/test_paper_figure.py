"""The outcome of the paper's evaluation that comes with the package is the one the documentation shows."""

from __future__ import annotations

import csv
from pathlib import Path

from flcontrib_core.reports.paper_figure import BUNDLED, QUESTIONS, read_paper_figures

SHOWN = Path(__file__).parents[2] / "docs" / "figures"
LARGEST = 2_000_000


def test_every_stored_figure_is_drawn_in_the_documentation_from_the_same_facts() -> None:
    stored = read_paper_figures()
    assert stored
    assert list(stored) == [name for name in QUESTIONS if name in stored]
    for name, figure in stored.items():
        assert figure.name == name
        assert figure.claims
        assert figure.seconds > 0
        assert 0 < figure.ran <= figure.planned
        assert next(iter(figure.drawings)) == name
        for drawing, svg in figure.svgs().items():
            assert (SHOWN / f"{drawing}.svg").read_text() == svg
        with (SHOWN / f"{name}.csv").open() as rows:
            assert sum(1 for _ in csv.DictReader(rows)) >= figure.ran
    assert {path.stem for path in BUNDLED.iterdir()} == set(stored)
    assert {path.stem for path in SHOWN.iterdir()} == {name for figure in stored.values() for name in figure.drawings}
    assert sum(path.stat().st_size for folder in (BUNDLED, SHOWN) for path in folder.iterdir()) < LARGEST

"""Small panels side by side: can every line be told from every other, in the drawing and in its key?"""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.panels import GLYPHS, Line, Panel, PanelFacts, draw_panels


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_no_two_lines_share_their_colour_and_their_sign(mode: str) -> None:
    names = [f"method {n}" for n in range(3 * len(palette_for(mode).clients))]
    lines = tuple(Line(name, (1.0, 2.0), (1.0, float(n))) for n, name in enumerate(names))
    drawn = draw_panels(PanelFacts("Cost", "", (Panel("Time", "clients", lines),)), mode)
    key = [note for note in drawn.layout["annotations"] if note["text"][0] in GLYPHS.values()]
    assert len(key) == len(names)
    assert len({(note["font"]["color"], note["text"][0]) for note in key}) == len(names)
    signs = [trace["marker"] for trace in drawn.data if trace["mode"] == "markers"]
    assert len({(sign["color"], sign["symbol"]) for sign in signs}) == len(names)


def test_a_time_axis_may_be_logarithmic_and_a_long_line_has_a_sign_here_and_there() -> None:
    line = Line("exact", (0.5, 1.0, 4.0, 20.0), (1.0, 2.0, 3.0, 4.0))
    panel = Panel("MSE", "CPU seconds", (line,), logarithmic_x=True, sign_every=2)
    drawn = draw_panels(PanelFacts("Cost", "", (panel,)), "light")
    joined, signs = drawn.data
    np.testing.assert_allclose(joined["x"], np.log10(line.x))
    np.testing.assert_allclose(signs["x"], np.log10([0.5, 4.0]))
    assert drawn.layout["xaxis"]["ticktext"] == ["0.5", "1", "2", "5", "10", "20"]
    assert [list(point) for point in signs["customdata"]] == [[0.5, 1.0], [4.0, 3.0]]

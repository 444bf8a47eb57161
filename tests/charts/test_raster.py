"""A drawing as an image: of the drawing's size, with letters in it, or a word why there is none."""

from __future__ import annotations

import struct
import sys

import pytest

from flcontrib_core.charts import raster
from flcontrib_core.charts.panels import Line, Panel, PanelFacts, draw_panels, panels_alt
from flcontrib_core.charts.raster import png_of
from flcontrib_core.charts.svg import FILE_WIDTH, svg_file
from flcontrib_core.errors import MissingPart


def drawing(heading: str) -> str:
    facts = PanelFacts("Cost", "", (Panel("Time", "clients", (Line("exact", (4, 8), (1, 2)),)),), columns=1)
    return svg_file(draw_panels(facts, "light"), "Cost", panels_alt(facts), [heading])


def test_the_image_is_twice_the_drawing_and_shows_its_words() -> None:
    image = png_of(drawing("one"))
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    width, _ = struct.unpack(">II", image[16:24])
    assert width == 2 * FILE_WIDTH
    assert image != png_of(drawing("two"))


def test_without_the_library_the_extra_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingPart, match=r"flcontrib\[png\]"):
        png_of(drawing("one"))


def test_without_a_font_there_is_no_image_rather_than_one_without_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    import resvg_py

    drawn = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **given: drawn(**given, skip_system_fonts=True))
    raster._has_letters.cache_clear()
    with pytest.raises(MissingPart, match="font"):
        png_of(drawing("one"))
    raster._has_letters.cache_clear()

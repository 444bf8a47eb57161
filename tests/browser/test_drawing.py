"""Does the SVG of a chart look like what Plotly draws, wherever and however wide it is shown?"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import plotly
import pytest
from PIL import Image, ImageFilter
from playwright.sync_api import Browser, Page

from flcontrib_core.charts.palette import palette_for
from flcontrib_core.charts.svg import CHART_RULES, NARROW, inline_svg
from tests.app.drawn import every_picture, grouped_report, history_with_errors
from tests.browser.steps import own_window

pytestmark = pytest.mark.browser
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
DRAW = """async ([figure, svg, width]) => {
  const { data, layout } = JSON.parse(figure)
  svgPlace.innerHTML = svg
  Plotly.purge(plotlyPlace)
  await Plotly.newPlot(plotlyPlace, data, { ...layout, width }, { displayModeBar: false, staticPlot: true })
  const said = (place) => [...place.querySelectorAll("text")].filter((t) => t.textContent.trim()).map((t) => {
    const own = t.getBoundingClientRect(), all = place.getBoundingClientRect()
    return [t.textContent.trim(), own.x - all.x + own.width / 2, own.y - all.y + own.height / 2]
  })
  return [said(svgPlace), said(plotlyPlace)]
}"""
NEAR = 4.0
"""Pixels: fonts are measured by one and not by the other."""


@pytest.fixture(scope="module")
def sheet(browser: Browser) -> Iterator[Page]:
    with own_window(browser) as page:
        page.set_content(
            f"<style>{CHART_RULES} body {{ margin: 0; font: 13px sans-serif }}</style>"
            '<div id="svgPlace"></div><div id="plotlyPlace"></div>'
        )
        page.add_script_tag(path=PLOTLY)
        yield page


def ink(page: Page, place: str) -> np.ndarray:
    """How dark each small field of the place is, blurred so that a pixel's shift does not count."""
    image = Image.open(io.BytesIO(page.locator(place).last.screenshot())).convert("L").filter(ImageFilter.BoxBlur(6))
    return np.asarray(image, dtype=float)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW + 30, 700, 1100])
def test_svg_and_plotly_draw_the_same_picture(sheet: Page, mode: str, width: int) -> None:
    skipping = history_with_errors(computed=(1, 2, 3, 5, 8, 9, 10, 11, 12, 16, 20), participation=0.8)
    sheet.evaluate(f"document.body.style.background = '{palette_for(mode).page}'")
    for place in ("svgPlace", "plotlyPlace"):
        sheet.evaluate(f"{place}.style.width = '{width}px'")
    sheet.set_viewport_size({"width": width, "height": 1500})
    for name, picture in every_picture(grouped_report(skipping), mode).items():
        sheet.evaluate(f"plotlyPlace.style.height = '{picture.layout['height']}px'")
        own, theirs = sheet.evaluate(DRAW, [picture.to_json(), inline_svg(picture), width])
        assert sorted(t for t, *_ in own) == sorted(t for t, *_ in theirs), name
        for text, x, y in theirs:
            distance = min(np.hypot(x - a, y - b) for t, a, b in own if t == text)
            assert distance <= NEAR, f"{name}: {text!r} stands {distance:.1f} px away"
        one, other = ink(sheet, "#svgPlace"), ink(sheet, "#plotlyPlace")
        assert one.shape == other.shape, name
        assert np.abs(one - other).max() < 60, f"{name}: something is drawn by one of them alone"
        assert np.abs(one - other).mean() < 1.5, name

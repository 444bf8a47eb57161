"""Does the part of Plotly's script that is sent draw what the whole one draws?"""

from __future__ import annotations

import pytest
from flcontrib_dashboard.canvas.plotly_script import compiled_ahead, used_part, whole_script
from playwright.sync_api import Browser

from tests.app.drawn import every_figure, grouped_report

pytestmark = pytest.mark.browser
DRAWN = """async (figures) => {
  const pictures = []
  for (const figure of figures) {
    const { data, layout } = JSON.parse(figure)
    let drawn = 0
    Math.random = () => ++drawn / 1000 % 1 // a picture's ids hold random parts
    const size = { width: 700, height: layout.height }
    const address = await Plotly.toImage({ data, layout }, { format: "svg", ...size })
    pictures.push(decodeURIComponent(address))
  }
  return pictures
}"""


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_part_of_the_script_draws_every_chart_as_the_whole_does(browser: Browser, mode: str) -> None:
    figures = [figure.to_json() for figure in every_figure(grouped_report(), mode).values()]
    drawn = []
    for script in (whole_script(), compiled_ahead(used_part(whole_script()))):
        page = browser.new_page()
        page.add_script_tag(content=script)
        drawn.append(page.evaluate(DRAWN, figures))
        page.close()
    assert len(drawn[0]) >= 14
    assert all(len(picture) > 2000 for picture in drawn[0])
    assert drawn[1] == drawn[0]

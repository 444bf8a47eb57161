"""PNG of a drawing: a raster of its SVG in light colours, by a small library that needs no browser and no network."""

from __future__ import annotations

import functools

from flcontrib_core.charts.style import FONT
from flcontrib_core.errors import MissingPart

SHARPNESS = 2
"""Pixels of the image to a pixel of the drawing: 1 920 across, which prints at the width of a page."""
RASTER_FONT = '"DejaVu Sans","Noto Sans","Arial Unicode MS"'
"""Families that hold our signs (● ◆ ▼, raised digits) as well as letters; without one, a line with a sign in it is set
in whatever font has the sign."""
_SAMPLE = f"""<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20"><text x="2" y="15" font-family='{FONT}'>"""


def png_of(svg: str) -> bytes:
    """The image of a drawing that stands alone, on white.

    Raises ``MissingPart`` where the library is not installed, and on a machine without a font: the image would have no
    letter in it.
    """
    try:
        from resvg_py import svg_to_bytes
    except ModuleNotFoundError as error:
        raise MissingPart("a PNG needs resvg_py, which is not installed: pip install 'flcontrib[png]'") from error
    if not _has_letters():
        raise MissingPart("a PNG needs a font, and this machine has none (fonts-dejavu is a small one)")
    return bytes(svg_to_bytes(svg_string=svg.replace(FONT, f"{RASTER_FONT},{FONT}"), zoom=SHARPNESS, background="#fff"))


@functools.cache
def _has_letters() -> bool:
    """Whether a letter leaves a mark: the library leaves out, without a word, what it has no font for."""
    from resvg_py import svg_to_bytes

    return svg_to_bytes(svg_string=f"{_SAMPLE}M</text></svg>") != svg_to_bytes(svg_string=f"{_SAMPLE}</text></svg>")

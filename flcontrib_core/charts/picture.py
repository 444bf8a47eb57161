"""A picture: a Plotly figure as plain data, traces and a layout.

``plotly.graph_objects`` checks each property every time it is set, and costs a page of three charts a fifth of a second
per move of a knob. Our charts have a fixed shape, so they are checked once: the tests put every picture through
``graph_objects`` and want it back unchanged.
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np

_AXIS = re.compile(r"[xy]axis\d*")


class Picture:
    """Traces and a layout in Plotly's own terms; the methods take what those of ``go.Figure`` take.

    ``axis`` and ``bar`` are what every axis and bar has unless it says otherwise. Plotly would take them as a template,
    and draw everything anew whenever it is given one.
    """

    def __init__(
        self, layout: dict[str, Any], *, axis: dict[str, Any] | None = None, bar: dict[str, Any] | None = None
    ) -> None:
        self.data: list[dict[str, Any]] = []
        self.layout: dict[str, Any] = {}
        self._axis, self._bar = axis or {}, bar or {}
        self.update_layout(**layout)

    def add_scatter(self, **trace: Any) -> None:
        """Lines, markers, words or an area."""
        self.data.append({"type": "scatter", **trace})

    def add_bar(self, **trace: Any) -> None:
        """Bars, standing or lying."""
        self.data.append({"type": "bar", **_merged(self._bar, trace)})

    def add_heatmap(self, **trace: Any) -> None:
        """Cells coloured by value."""
        self.data.append({"type": "heatmap", **trace})

    def add_shape(self, **shape: Any) -> None:
        """A rectangle, line or circle."""
        self.layout.setdefault("shapes", []).append(shape)

    def add_annotation(self, **note: Any) -> None:
        """Words beside a point."""
        self.layout.setdefault("annotations", []).append(note)

    def update_layout(self, **properties: Any) -> None:
        """Axes and other mappings keep what is not named anew; anything else is replaced."""
        new_axes = {k: self._axis for k in properties if _AXIS.fullmatch(k) and k not in self.layout and self._axis}
        self.layout = _merged(self.layout | new_axes, properties)

    def axes(self, direction: str) -> list[dict[str, Any]]:
        """What is said of every axis, 'x' or 'y'."""
        return [value for key, value in self.layout.items() if _AXIS.fullmatch(key) and key.startswith(direction)]

    def to_json(self) -> str:
        """As the browser reads it: numbers packed, what is not a number left out."""
        return json.dumps(_sendable({"data": self.data, "layout": self.layout}), separators=(",", ":"))


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = {k: _merged(old[k], v) for k, v in new.items() if isinstance(v, dict) and isinstance(old.get(k), dict)}
    return old | new | both


def _sendable(value: Any) -> Any:
    """Arrays of floats as Plotly's packed form, which also holds NaN; JSON itself has no NaN."""
    if isinstance(value, dict):
        return {k: _sendable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(v) for v in value]
    if isinstance(value, np.ndarray):
        return _packed(value) if value.dtype.kind == "f" else _sendable(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _packed(values: np.ndarray) -> dict[str, Any]:
    cells = np.ascontiguousarray(values, dtype="<f8")
    packed = {"dtype": "f8", "bdata": base64.b64encode(cells.tobytes()).decode("ascii")}
    return packed if cells.ndim == 1 else packed | {"shape": ", ".join(map(str, cells.shape))}

"""Colours of the charts, in light and dark, and the look of every client.

Colour is data, the interface is ink. Lines say who, fills say which sign; never both in one mark. Client colours were
chosen for the largest smallest distance under normal, protan, deutan and tritan vision with at least 3:1 contrast:
five hues plus dash and marker is the honest limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

CLEAR = "rgba(0,0,0,0)"
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "hexagon")


@dataclass(frozen=True)
class Palette:
    page: str
    soft: str
    ink: str
    secondary: str
    border: str
    grid: str
    axis: str
    context: str
    absent: str
    hatch: str
    harm: str
    help: str
    clients: tuple[str, ...]
    heat: tuple[str, ...]
    """harm → 0 → help"""


LIGHT = Palette(
    page="#FFFFFF",
    soft="#F5F6F8",
    ink="#171A21",
    secondary="#5B6270",
    border="#E3E6EB",
    grid="#EEF0F3",
    axis="#C9CED6",
    context="#AEB5C0",
    absent="#C3C8D0",
    hatch="#9AA2AF",
    harm="#B8400A",
    help="#0B62A8",
    clients=("#305396", "#3BA086", "#5A152A", "#8B4F00", "#B661F6"),
    heat=("#8F2E04", "#E08A57", "#F4F5F7", "#6BA8DA", "#0A4B85"),
)
DARK = Palette(
    page="#0F1218",
    soft="#171B23",
    ink="#E8EAF0",
    secondary="#A9B1BF",
    border="#2A303B",
    grid="#1E242E",
    axis="#3A424F",
    context="#5E6776",
    absent="#414957",
    hatch="#6B7484",
    harm="#FF8A4C",
    help="#5CB3F0",
    clients=("#6C84F2", "#5FE3BD", "#F0508A", "#F3A124", "#ADAEF9"),
    heat=("#FF9A5F", "#9C4A20", "#2A303B", "#24618F", "#7CC6FA"),
)


def palette(mode: str) -> Palette:
    """'light' or 'dark', as the browser says."""
    return DARK if mode == "dark" else LIGHT


@dataclass(frozen=True)
class ClientStyle:
    """One client's look on every page: colour, dash and marker by its position in the sorted ids."""

    colour: str
    dash: str
    marker: str


@lru_cache(maxsize=32)
def client_styles(client_ids: tuple[str, ...], mode: str) -> dict[str, ClientStyle]:
    colours = palette(mode).clients
    return {
        client: ClientStyle(colours[i % 5], DASHES[(i // 5) % 4], MARKERS[(i + i // 5) % 5])
        for i, client in enumerate(sorted(client_ids))
    }


def heat_scale(p: Palette) -> list[list[Any]]:
    """From harm over 0 to help, as Plotly takes a colour scale."""
    return [[i / 4, colour] for i, colour in enumerate(p.heat)]


def probability_scale(p: Palette) -> list[list[Any]]:
    """From nothing to certain: small probabilities stay close to the page."""
    return [[0.0, p.soft], [0.15, p.border], [1.0, p.ink]]


def colour_scales(p: Palette) -> tuple[list[list[Any]], ...]:
    """Every scale of the charts."""
    return heat_scale(p), probability_scale(p)


def translucent(colour: str, alpha: float) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"

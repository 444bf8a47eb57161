"""Colours of the charts, in light and dark, and the look of every client.

Colour is data, the interface is ink. Lines say who, fills say which sign; never both in one mark. Client colours were
searched for the largest smallest OKLab distance under normal, protan, deutan and tritan vision with at least 3:1
contrast: 0.17 for the first five (0.13 in the dark). Three more bring it down to 0.08 (0.07), so these are dashed, and
every client has a marker beside its colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

CLEAR = "rgba(0,0,0,0)"
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "hexagon", "cross", "triangle-down", "x")
FAR_APART = 5
"""Colours that a colour-blind reader tells apart by themselves."""
MOST_ALERTED_COLOURS = 4


@dataclass(frozen=True)
class Palette:
    """Every colour by its role."""

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
    care: str
    """What asks for attention, and the ground it stands on; so for alerts."""
    care_soft: str
    alert: str
    alert_soft: str
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
    care="#6B5200",
    care_soft="#FBF3DC",
    alert="#8F3A06",
    alert_soft="#FDEFE7",
    clients=("#305396", "#3BA086", "#5A152A", "#8B4F00", "#B661F6", "#C2255C", "#0B1A66", "#7203D1"),
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
    care="#EBCB6B",
    care_soft="#332B12",
    alert="#FFB08A",
    alert_soft="#3A2016",
    clients=("#6C84F2", "#5FE3BD", "#F0508A", "#F3A124", "#ADAEF9", "#A6E34A", "#F2EE9E", "#6F860E"),
    heat=("#FF9A5F", "#9C4A20", "#2A303B", "#24618F", "#7CC6FA"),
)


def palette_for(mode: str) -> Palette:
    """'light' or 'dark', as the browser says."""
    return DARK if mode == "dark" else LIGHT


@dataclass(frozen=True)
class ClientStyle:
    """One client's look: colour, dash and marker."""

    colour: str
    dash: str
    marker: str


@dataclass(frozen=True)
class ClientStyles:
    """Every client's look in one result, the same on every page, in its report and in light and dark.

    Clients with an alert have colours of their own, so that nobody else stands in the colour of an accused one. Within
    each of the two, the place in the sorted ids decides; where colours come again, the dash differs, then the marker.
    """

    clients: tuple[str, ...]
    alerted: frozenset[str]

    def of(self, client: str, mode: str) -> ClientStyle:
        """One client's look, 'light' or 'dark'."""
        slot, turn = self._places[client]
        dash = DASHES[(turn + (slot >= FAR_APART)) % len(DASHES)]
        return ClientStyle(palette_for(mode).clients[slot], dash, MARKERS[(slot + turn // len(DASHES)) % len(MARKERS)])

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """(which colour, how often it was taken before) of every client."""
        own = min(len(self.alerted), MOST_ALERTED_COLOURS)
        places = {}
        for members, slots in (
            (self.alerted, range(own)),
            ((c for c in self.clients if c not in self.alerted), range(own, len(LIGHT.clients))),
        ):
            for i, client in enumerate(sorted(members)):
                places[client] = slots[i % len(slots)], i // len(slots)
        return places

    @cached_property
    def position(self) -> dict[str, int]:
        """Of every client in the run's own order: what a clicked mark says."""
        return {client: i for i, client in enumerate(self.clients)}


def heat_scale(p: Palette, harm_up: bool = False) -> list[list[Any]]:
    """From harm over 0 to help, or the other way round, as Plotly takes a colour scale."""
    return [[i / 4, colour] for i, colour in enumerate(reversed(p.heat) if harm_up else p.heat)]


def probability_scale(p: Palette) -> list[list[Any]]:
    """From nothing to certain: small probabilities stay close to the page."""
    return [[0.0, p.soft], [0.15, p.border], [1.0, p.ink]]


def colour_scales(p: Palette) -> tuple[list[list[Any]], ...]:
    """Every scale of the charts."""
    return heat_scale(p), heat_scale(p, harm_up=True), probability_scale(p)


def translucent(colour: str, alpha: float) -> str:
    """A colour that lets through what lies under it."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{alpha})"

"""The catalogue: every named group of runs, plain, honestly changing, attacked, or both at once.

Names read like paths: ``plain/REGIME``, ``changing/KIND/EXTENT/WHEN``, ``attacked/VARIANT/WHEN/REGIME``,
``mixed/WHEN``; with ``any`` in the place of a kind or variant, each run draws its own (``changing/any/REGIME``). A
group draws its federation, then who does what in which epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from flcontrib_core.laboratory.corpus.variants import (
    ATTACK_VARIANTS,
    CHANGE_STRENGTHS,
    FLIP_REGIMES,
    FLIPS,
    AttackVariant,
    Extent,
    When,
)
from flcontrib_core.laboratory.corpus.worlds import Part, Regime, draw_world
from flcontrib_core.laboratory.simulation import Attack, Change, ChangeKind, SimulationSettings
from flcontrib_core.laboratory.simulation.changes import CHANGES
from flcontrib_core.laboratory.simulation.kinds import DifficultyKind
from flcontrib_core.laboratory.simulation.windows import Window

DIFFICULTIES = (DifficultyKind.LOW_QUALITY, DifficultyKind.RARE, DifficultyKind.DROP_OUT, DifficultyKind.DRIFT)
FEWEST_FOR_TWO = 6
"""Clients from which on a second one may attack."""


@dataclass(frozen=True)
class Group:
    """One kind of run; the family is the first part of its name."""

    name: str
    regime: Regime = Regime.ANY
    change: ChangeKind | None = None
    extent: Extent = Extent.ONE
    attack: AttackVariant | None = None
    when: When = When.WHOLE
    difficulty: DifficultyKind = DifficultyKind.NONE
    draws: tuple[str, ...] = ()
    """``change`` and ``attack``, where each run draws its own."""

    @property
    def family(self) -> str:
        """``plain``, ``changing``, ``attacked`` or ``mixed``."""
        return self.name.partition("/")[0]

    def draw(self, part: Part, rng: np.random.Generator) -> SimulationSettings:
        """One federation of this group."""
        world = draw_world(part, self.regime, rng)
        attacks = () if self.attack is None else (draw_attack(self.attack, self.when, world, rng),)
        if "attack" in self.draws:
            attacks = (_any_attack(world, rng),)
        changes = () if self.change is None else (draw_change(self.change, self.extent, self.when, world, rng),)
        if "change" in self.draws:
            changes = (_any_change(world, rng, self.when, at_clients=bool(attacks)),)
        return _settings(world, changes, attacks, self.difficulty)


def groups(pattern: str = "*", with_data: bool = False) -> tuple[Group, ...]:
    """The groups whose name fits the pattern; those that need the data folder only where asked for."""
    return tuple(g for g in GROUPS.values() if fnmatchcase(g.name, pattern) and (with_data or not g.regime.needs_data))


def draw_change(
    kind: ChangeKind, extent: Extent, when: When, world: dict[str, Any], rng: np.random.Generator
) -> Change:
    """One honest change in a federation of this size and length."""
    strengths = CHANGE_STRENGTHS.get(kind, (None,))
    clients = world["clients"]
    changed = {Extent.ONE: 1, Extent.SEVERAL: max(2, round(clients / 3)), Extent.ALL: None}[extent]
    strength = strengths[int(rng.integers(len(strengths)))]
    return Change(kind, strength, changed, windows=draw_windows(when, world["epochs"], rng))


def draw_attack(variant: AttackVariant, when: When, world: dict[str, Any], rng: np.random.Generator) -> Attack:
    """One attack in a federation of this size and length; colluders are just under half of the clients."""
    clients = world["clients"]
    strength = variant.strengths[int(rng.integers(len(variant.strengths)))]
    number = 1 if clients < FEWEST_FOR_TWO or variant.alone or rng.random() < 0.6 else 2
    if variant.together:
        number = min(clients - 1, max(2, number))
    if when is When.COLLUDING:
        number = max(2, (clients - 1) // 2)
    return Attack(
        variant.kind,
        dishonest=number,
        windows=draw_windows(when, world["epochs"], rng),
        strength=strength,
        collude=when is When.COLLUDING,
        ramp=when is When.RAMP,
    )


def draw_windows(when: When, epochs: int, rng: np.random.Generator) -> tuple[Window, ...]:
    """The windows of a change or attack in a run of so many epochs; none means the whole run."""
    shortest = min(3, max(2, epochs // 4))
    length = int(rng.integers(shortest, max(shortest + 1, round(0.4 * epochs) + 1)))
    earliest = 4 if epochs >= 12 else 3
    match when:
        case When.WHOLE:
            return ()
        case When.FROM:
            first = int(rng.integers(max(earliest, round(0.3 * epochs)), round(0.6 * epochs) + 1))
            return ((first, epochs),)
        case When.EARLY:
            return ((1, length),)
        case When.LATE:
            return ((epochs - length + 1, epochs),)
        case When.ON_OFF:
            return _alternating(epochs, earliest, rng)
        case _:
            first = int(rng.integers(earliest, max(earliest + 1, epochs - length)))
            return ((first, min(epochs, first + length - 1)),)


def _alternating(epochs: int, earliest: int, rng: np.random.Generator) -> tuple[Window, ...]:
    """Two to four windows of equal length with pauses of at least that length."""
    length = max(2, epochs // 8)
    room = epochs - earliest + 1
    count = max(1, min(int(rng.integers(2, 5)), (room + length) // (2 * length)))
    spare = room - count * length - (count - 1) * length
    gaps = rng.multinomial(max(0, spare), np.full(count + 1, 1 / (count + 1)))
    windows, first = [], earliest
    for gap in gaps[:-1]:
        first += int(gap)
        windows.append((first, first + length - 1))
        first += 2 * length
    return tuple(windows)


def _any_attack(world: dict[str, Any], rng: np.random.Generator) -> Attack:
    """Some attack in one window."""
    variants = [v for v in ATTACK_VARIANTS if When.WINDOW in v.whens]
    return draw_attack(variants[int(rng.integers(len(variants)))], When.WINDOW, world, rng)


def _any_change(world: dict[str, Any], rng: np.random.Generator, when: When, at_clients: bool) -> Change:
    """Some honest change that this federation can have, at one site or at several."""
    kinds = [
        kind
        for kind, behaviour in CHANGES.items()
        if not (behaviour.at_server and at_clients) and not (kind is ChangeKind.DP_SGD and world.get("model") == "cnn")
    ]
    kind = kinds[int(rng.integers(len(kinds)))]
    extent = Extent.ONE if at_clients or rng.random() < 0.7 else Extent.SEVERAL
    return draw_change(kind, extent, When.WHOLE if CHANGES[kind].whole_run else when, world, rng)


def _settings(
    world: dict[str, Any], changes: tuple[Change, ...], attacks: tuple[Attack, ...], difficulty: DifficultyKind
) -> SimulationSettings:
    settings = SimulationSettings(**world, changes=changes, more_attacks=attacks)
    return settings if difficulty is DifficultyKind.NONE else replace(settings, difficulty=difficulty)


def _plain() -> Iterator[Group]:
    for regime in Regime:
        yield Group(f"plain/{regime}", regime)
    for difficulty in DIFFICULTIES:
        family = "changing" if difficulty is DifficultyKind.DRIFT else "plain"
        yield Group(f"{family}/{difficulty}", difficulty=difficulty)


def _changing() -> Iterator[Group]:
    for kind, behaviour in CHANGES.items():
        if behaviour.at_server:
            for when in (When.FROM, When.WINDOW, When.WHOLE):
                yield Group(f"changing/{kind}/server/{when}", change=kind, when=when)
            continue
        whens = (When.WHOLE,) if behaviour.whole_run else (When.FROM, When.WINDOW, When.WHOLE)
        for extent in Extent if not behaviour.not_for_all else (Extent.ONE, Extent.SEVERAL):
            for when in whens:
                if not (behaviour.turning and when is When.WHOLE):
                    yield Group(f"changing/{kind}/{extent}/{when}", change=kind, extent=extent, when=when)


def _attacked() -> Iterator[Group]:
    for variant in ATTACK_VARIANTS:
        for when in variant.whens:
            yield Group(f"attacked/{variant.name}/{when}/any", attack=variant, when=when)
    for variant in FLIPS:
        yield Group(
            f"attacked/{variant.name}/{When.WINDOW}/{Regime.NEAR_IID}",
            Regime.NEAR_IID,
            attack=variant,
            when=When.WINDOW,
        )
    strong = AttackVariant("label-flip", FLIPS[0].kind, (0.5, 0.7, 1.0))
    for regime in FLIP_REGIMES:
        yield Group(f"attacked/{strong.name}/{When.WINDOW}/{regime}", regime, attack=strong, when=When.WINDOW)


def _drawn() -> Iterator[Group]:
    for regime in Regime:
        if regime is not Regime.ANY:
            yield Group(f"changing/any/{regime}", regime, when=When.FROM, draws=("change",))
            yield Group(f"attacked/any/{When.WINDOW}/{regime}", regime, when=When.WINDOW, draws=("attack",))
    for when in (When.FROM, When.WINDOW, When.WHOLE):
        yield Group(f"mixed/{when}", when=when, draws=("attack", "change"))


GROUPS: dict[str, Group] = {
    group.name: group for family in (_plain, _changing, _attacked, _drawn) for group in family()
}
"""Every group by its name."""

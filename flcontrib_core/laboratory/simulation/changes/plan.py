"""One honest change of a run as a setting: which kind, at how many sites, when, how strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.changes.catalogue import CHANGES
from flcontrib_core.laboratory.simulation.kinds import ChangeKind, named
from flcontrib_core.laboratory.simulation.windows import Window, check_windows, parse_windows

ALL = "all"
TURNS_AFTER = 1 / 3
"""Of the run: when a turning point comes that was given no window."""


@dataclass(frozen=True)
class Change:
    """One kind of honest change at ``changed`` clients chosen by the seed (None: all), or at ``clients`` by position.

    No windows means the whole run. The kind's class says what the strength is. A change of the server's names no
    client.
    """

    kind: ChangeKind
    strength: float | None = None
    changed: int | None = 1
    clients: tuple[int, ...] | None = None
    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", named(ChangeKind, self.kind, "change"))
        object.__setattr__(self, "strength", CHANGES[self.kind].checked_strength(self.strength, self.kind))
        if self.clients is not None:
            object.__setattr__(self, "changed", len(self.clients))
        if CHANGES[self.kind].at_server:
            object.__setattr__(self, "changed", 0)
        elif self.changed is not None and self.changed < 1:
            raise SettingsError(f"{self.kind} at {self.changed} clients: at least 1, or {ALL}")

    def check(self, clients: int, epochs: int) -> None:
        """Raises ``SettingsError`` where the run has not so many clients or epochs."""
        check_windows(self.windows, epochs)
        if CHANGES[self.kind].whole_run and any(window != (1, epochs) for window in self.windows):
            raise SettingsError(
                f"{self.kind}: it is about who holds which rows and lasts the whole run; give no window"
            )
        if (self.changed or 0) > clients or any(not 0 <= c < clients for c in self.clients or ()):
            raise SettingsError(f"{self.kind} at {self.clients or self.changed}: the federation has {clients} clients")

    def windows_in(self, epochs: int) -> tuple[Window, ...]:
        """The windows in a run of so many epochs; a turning point that was given none comes after a third."""
        if not self.windows and CHANGES[self.kind].turning:
            return ((min(epochs, int(epochs * TURNS_AFTER) + 1), epochs),)
        return self.windows


def parse_changes(
    changes: Sequence[str], changed: Sequence[str], windows: Sequence[str], epochs: int
) -> tuple[Change, ...]:
    """Changes written as texts: ``KIND[:STRENGTH]``, with a count (or ``all``) and windows each.

    One count or window text serves all changes; otherwise there is one for each, in the same order. Several windows of
    one change are separated by commas: ``"5:8,12:15"``.
    """
    counts = _one_each("counts of changed clients", changed, len(changes))
    spans = _one_each("windows", windows, len(changes))
    parsed = []
    for text, count, span in zip(changes, counts, spans, strict=True):
        kind, colon, strength = text.partition(":")
        try:
            number = float(strength) if colon else None
            sites = None if count == ALL else int(count or 1)
        except ValueError:
            raise SettingsError(
                f"change {text!r} at {count!r}: write KIND or KIND:STRENGTH, and a number of clients or {ALL}"
            ) from None
        parsed.append(Change(named(ChangeKind, kind, "change"), number, sites, None, _windows(span, epochs)))
    return tuple(parsed)


def _windows(text: str | None, epochs: int) -> tuple[Window, ...]:
    return () if text is None or text.strip() == "whole" else parse_windows(text.split(","), epochs)


def _one_each(what: str, given: Sequence[str], count: int) -> Sequence[str | None]:
    if not given:
        return [None] * count
    if len(given) == 1:
        return [*given] * count
    if len(given) != count:
        raise SettingsError(f"{what}: {len(given)} for {count} changes; give one, or one for each")
    return list(given)

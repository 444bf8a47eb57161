"""Windows of epochs: when an attack or an honest change is active, and how the command line writes it."""

from __future__ import annotations

from collections.abc import Iterable

from flcontrib_core.errors import SettingsError

Window = tuple[int, int]
"""First and last epoch, 1-based, inclusive."""
WHOLE = "whole"
FROM = "from"


def inside(windows: tuple[Window, ...], epoch: int) -> bool:
    """Does the epoch lie in one of the windows? No windows means the whole run."""
    return not windows or any(first <= epoch <= last for first, last in windows)


def window_position(windows: tuple[Window, ...], epoch: int) -> int:
    """The position of the window this epoch lies in; 0 where there is none."""
    return next((i for i, (first, last) in enumerate(windows) if first <= epoch <= last), 0)


def check_windows(windows: tuple[Window, ...], epochs: int) -> None:
    """Raises ``SettingsError`` where a window lies outside the run."""
    for first, last in windows:
        if not 1 <= first <= last <= epochs:
            raise SettingsError(f"window {first}:{last}: a window lies within the epochs 1 to {epochs}")


def parse_windows(texts: Iterable[str], epochs: int) -> tuple[Window, ...]:
    """Windows from the command line: ``"12:20"`` (inclusive, 1-based), ``"from 12"`` or ``"whole"``."""
    windows: list[Window] = []
    for text in texts:
        if text.strip() == WHOLE:
            windows.append((1, epochs))
            continue
        opening, _, begin = text.strip().partition(" ")
        first, colon, last = (begin, ":", str(epochs)) if opening == FROM else text.partition(":")
        if not colon or not first.strip().isdecimal() or not last.strip().isdecimal():
            raise SettingsError(f"window {text!r}: write FIRST:LAST, for example 12:20, or {FROM} FIRST, or {WHOLE}")
        windows.append((int(first), int(last)))
    return tuple(windows)

"""Whose replies count less in a training, as a function says that looks at the recording between two rounds.

The function (``on_verdict``) gets the run's folder after each recorded round. What it says holds for the next one: the
strategy gets the named clients' replies with less weight, or not at all. They are recorded as they came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.replies import is_finite

OnVerdict = Callable[[Path], Collection[str] | Mapping[str, float]]
"""From the run's folder to the clients to leave out, or to a factor of weight per client (0 leaves it out)."""
_Answer = TypeVar("_Answer")
logger = logging.getLogger("flcontrib")


class Verdicts:
    """The last verdict on a recording's clients."""

    def __init__(self, on_verdict: OnVerdict | None) -> None:
        self._ask = on_verdict
        self._factors: dict[str, float] = {}

    @property
    def asked_for(self) -> bool:
        """Is there anybody to ask?"""
        return self._ask is not None

    def ask(self, path: Path) -> Exception | None:
        """Asks about the rounds so far; returns what went wrong, after which every client counts in full."""
        self._factors = {}
        if self._ask is None:
            return None
        try:
            self._factors = _checked(self._ask(path))
        except Exception as error:  # broad: the function is the caller's own, and the training must outlive it
            logger.exception("%s: no verdict on this round; every client counts in full in the next", path)
            return error
        return None

    def apply(
        self,
        answers: Sequence[_Answer],
        client_of: Callable[[_Answer], str],
        lighter: Callable[[_Answer, float], _Answer],
    ) -> tuple[Sequence[_Answer], dict[str, float]]:
        """The answers as the strategy gets them, and the factors that were applied."""
        applied = {c: self._factors[c] for answer in answers if (c := client_of(answer)) in self._factors}
        if not applied:
            return answers, {}
        factors = [applied.get(client_of(answer), 1.0) for answer in answers]
        passed = [a if f == 1 else lighter(a, f) for a, f in zip(answers, factors, strict=True) if f > 0]
        return passed, applied


def _checked(verdict: Collection[str] | Mapping[str, float]) -> dict[str, float]:
    if isinstance(verdict, str):
        raise SettingsError(f"on_verdict gave the text {verdict!r}; a collection of client names is meant")
    factors = dict(verdict) if isinstance(verdict, Mapping) else dict.fromkeys(verdict, 0.0)
    for client, factor in factors.items():
        if not is_finite(factor) or factor < 0:
            raise SettingsError(f"on_verdict gave {factor!r} for {client!r}; a factor of weight is 0 or more")
    return {client: float(factor) for client, factor in factors.items()}

"""Titles over totals and over several results: who contributed most, what differs."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.words import numbers


def contribution_title(
    clients: Sequence[str], clearly_below: Sequence[str], skipped: str = "", intervals: bool = True
) -> str:
    """Who contributed most, and who is clearly below zero.

    ``clients`` are those who took part, best first; ``skipped`` says what has no value ("12 of 36 epochs have"): no
    total is certain then, and that nobody's is below zero would only say that it was not looked at. Without
    ``intervals`` none can be clearly anything.
    """
    if not clients:
        return "Nobody took part in this run"
    words = f"{numbers.named(clients[0])} contributed most"
    least = f", {numbers.named(clients[-1])} least" if len(clients) > 1 else ""
    if skipped and not clearly_below:
        return f"{words}{least}; {skipped} no value"
    if not intervals:
        return f"{words}{least}; the values come without an interval"
    if len(clearly_below) == 1:
        return f"{words}; {numbers.named(clearly_below[0])} is the only one clearly below zero"
    below = f"{numbers.count(len(clearly_below))} clients are" if clearly_below else "nobody is"
    return f"{words}; {below} clearly below zero"


def filled_in(history: ContributionHistory) -> str | None:
    """What totals, ranks and curves hold in epochs that were not computed; None where all were."""
    epochs = np.flatnonzero(history.participated.any(axis=1))
    computed = int(history.computed[epochs].sum())
    if history.without_values is not None or computed == len(epochs):
        return None
    return (
        f"{numbers.count(computed)} of {numbers.count(len(epochs))} epochs were computed; in the others totals, ranks "
        "and curves hold an equal share for everybody who took part and say nothing of a single client"
    )


def moved_words(moved: int) -> str:
    """'3 clients changed rank'"""
    return f"{numbers.several(moved, 'client')} changed rank" if moved else "No client changed rank"


def agreement_words(raised: Sequence[Set[tuple[str, VerdictKind]]]) -> str:
    """What several results, each with its alerts by client and verdict, raise alike."""
    every, shared = set[tuple[str, VerdictKind]]().union(*raised), set(raised[0]).intersection(*raised)
    if every == shared:
        return "the alerts agree" if every else "no result raises an alert"
    clients = {frozenset(client for client, _ in alerts) for alerts in raised}
    if len(clients) == 1:
        return "the same clients have alerts, with other verdicts"
    return f"{numbers.count(len(shared))} of {numbers.several(len(every), 'alert')} the same in every result"

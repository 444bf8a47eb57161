"""Titles over totals and over several results: who contributed most, what differs."""

from __future__ import annotations

from collections.abc import Sequence

from flcontrib_core.words import numbers


def contribution_title(best: str | None, clearly_below: Sequence[str]) -> str:
    """Who contributed most, and who is clearly below zero; ``best`` is None where nobody took part."""
    if best is None:
        return "Nobody took part in this run"
    words = f"{numbers.named(best)} contributed most"
    if len(clearly_below) == 1:
        return f"{words}; {numbers.named(clearly_below[0])} is the only one clearly below zero"
    below = f"{numbers.count(len(clearly_below))} clients are" if clearly_below else "nobody is"
    return f"{words}; {below} clearly below zero"


def moved_words(moved: int) -> str:
    """'3 clients changed rank'"""
    return f"{numbers.several(moved, 'client')} changed rank" if moved else "No client changed rank"


def agreement_words(share: float) -> str:
    """How many of the alerts several results raise alike."""
    return "the alerts agree" if share == 1 else f"{share:.0%} of the alerts agree"

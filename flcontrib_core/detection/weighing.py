"""The scorecard of a window: everything measured of it weighed together, for and against poisoning.

A scorecard: each measurement of a window gives points by the step of a ladder it stands on, and the points add up to
log odds. The ladders are fitted to windows of labelled runs, never bent against what a measurement means (more harm
never takes points off), and stand in ``calibration.json``; so every point that counts in a verdict can be read off.
Departure: one rule after the other (does the step help? is the harm material? did classes change places?) accused twice
as many innocents in runs of another hand, at the same recall, because a rule hears nothing of how clear the others are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.detection.channels import CHANNEL_NAMES, OWN_DIRECTION, PEER_DIRECTION, Channels
from flcontrib_core.detection.class_mix import ClassMoves, class_moves
from flcontrib_core.detection.evidence import WindowNumbers, window_numbers
from flcontrib_core.detection.reasons import OversizedHarm, Window
from flcontrib_core.detection.search import FoundWindow, Search, channel_evidence, drawn_window
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory

NEAR = -3.0
"""u from which another client's strongest window counts as standing out in the same epochs."""
OVERSIZED, MANY_STEPS = 3.5, 10.0
"""Growth of the updates, and harm of the own step in usual steps, from which both together need no weighing: of 3 142
development runs, two have an innocent with such a window, and 88 windows of attackers are such. An honest site that
trains more grows too, but its own step does not do worse for it."""
OVERSIZED_SCORE = 2.5
"""u of such a window at least: above every preset."""
CLEAREST = 50.0
"""Means are never further from zero than so many standard errors: beyond, only the spread is small."""


MEANING = {
    "score": 1,
    "value, in standard errors": 1,
    "value beside the others'": 1,
    "value outside": -1,
    "own step's loss": 1,
    "own step against the usual one": 1,
    "own step against the usual one, in standard errors": 1,
    "own step's margin, in standard errors": -1,
    "share of class movement upward": -1,
    "most helped class": -1,
    "most hurt class": 1,
    "concentration on one class": 0,
    "growth of size": 0,
    "participations inside": 1,
    "length of the window": 0,
    "others standing out": -1,
    "strongest other": -1,
    "turn of the own direction": 0,
    "agreement with the others inside": 0,
    "agreement with the others outside": 0,
    "other participants": 0,
    **dict.fromkeys(CHANNEL_NAMES[:5], 1),
    **dict.fromkeys(CHANNEL_NAMES[5:], 0),
}
"""Every measurement: +1 more of it never speaks against poisoning, −1 never for it, 0 either way. A channel's is the
log Bayes factor of the window."""


@dataclass(frozen=True)
class WindowCase:
    """One window of a reading with everything that was measured of it."""

    window: FoundWindow
    epochs: Window
    """as it is drawn, in epochs of the run"""
    numbers: WindowNumbers
    evidence: dict[str, float | None]
    """channel -> log Bayes factor of the window"""
    moves: ClassMoves | None
    others: tuple[FoundWindow, ...]
    """the strongest windows of other clients that stand out in the same epochs"""
    rows: int
    clients: int

    @property
    def oversized_harm(self) -> OversizedHarm | None:
        """Harm was measured, and the client's updates have grown much and its own step is many usual steps worse."""
        numbers, moves = self.numbers, self.moves
        if not numbers.harm_measured or moves is None or numbers.solo_excess is None or numbers.run_solo_loss <= 0:
            return None
        steps = numbers.solo_excess / numbers.run_solo_loss
        grown = moves.size_ratio >= OVERSIZED and steps >= MANY_STEPS
        return OversizedHarm(moves.size_ratio, steps) if grown else None

    def measurements(self) -> dict[str, float]:
        """What is weighed, by the names of ``MEANING``; NaN where it is not known."""
        unknown = float("nan")
        numbers, moves, window = self.numbers, self.moves, self.window
        usual, typical = numbers.usual_value or unknown, numbers.run_solo_loss or unknown
        solo, excess = numbers.solo_loss, numbers.solo_excess
        own, peer = (numbers.movements.get(name, (unknown, unknown)) for name in (OWN_DIRECTION, PEER_DIRECTION))
        return {
            "score": window.u,
            "value, in standard errors": _clear(numbers.mean_inside, numbers.half_width),
            "value beside the others'": unknown if numbers.mean_inside is None else numbers.mean_inside / usual,
            "value outside": unknown if numbers.mean_outside is None else numbers.mean_outside / usual,
            "own step's loss": unknown if solo is None else solo / typical,
            "own step against the usual one": unknown if excess is None else excess / typical,
            "own step against the usual one, in standard errors": _clear(excess, numbers.solo_excess_half_width),
            "own step's margin, in standard errors": _clear(numbers.mean_margin, numbers.mean_margin_half_width),
            "share of class movement upward": unknown if moves is None else moves.share_up,
            "most helped class": unknown if moves is None else min(moves.clear_up, CLEAREST),
            "most hurt class": unknown if moves is None else min(moves.clear_down, CLEAREST),
            "concentration on one class": unknown if moves is None else moves.concentration,
            "growth of size": unknown if moves is None else float(np.log(max(moves.size_ratio, 1e-9))),
            "participations inside": float(numbers.participated_inside),
            "length of the window": (window.end - window.start + 1) / self.rows,
            "others standing out": len(self.others) / self.clients,
            "strongest other": max((w.u for w in self.others), default=NEAR) - window.u,
            "turn of the own direction": own[0] - own[1],
            "agreement with the others inside": peer[0],
            "agreement with the others outside": peer[1],
            "other participants": numbers.usual_peers,
            **{name: unknown if (factor := self.evidence.get(name)) is None else factor for name in CHANNEL_NAMES},
        }


def window_case(
    history: ContributionHistory, channels: Channels, search: Search, window: FoundWindow, model: WindowModel
) -> WindowCase:
    """Everything measured of one window of a search."""
    rows = np.zeros(len(channels.epochs), dtype=bool)
    rows[window.start : window.end + 1] = True
    explained = search.explained[:, window.client]
    epochs = drawn_window(channels, window)
    others = (w for w in search.strongest if w is not None and w.client != window.client and w.u > NEAR)
    return WindowCase(
        window,
        epochs,
        window_numbers(history, channels, window.client, rows, epochs, explained),
        channel_evidence(channels, window.client, window.start, window.end, model),
        class_moves(history, channels, window.client, rows, explained),
        tuple(w for w in others if w.start <= window.end and window.start <= w.end),
        len(channels.epochs),
        len(channels.client_ids),
    )


def _clear(mean: float | None, half_width: float | None) -> float:
    """The mean in standard errors; NaN where either is unknown."""
    if mean is None or half_width is None:
        return float("nan")
    return float(np.clip(1.96 * mean / max(half_width, 1e-300), -CLEAREST, CLEAREST))

"""Change points in words: which series was read, where it deviates and how sure the ends are, and who agrees."""

from __future__ import annotations

from flcontrib_core.detection.change_windows import Agreement, DeviatingWindow, MassInWindow
from flcontrib_core.words import numbers
from flcontrib_core.words.numbers import several

_SERIES = {
    "relative": "the client against the others",
    "solo-margin": "solo margin, relative to the other participants of the epoch",
    "relative-value": "value, relative to the other participants of the epoch",
    "peer-direction": "direction, relative to the other participants of the epoch",
    "increments": "value of each epoch",
    "cumulative": "cumulative contribution, as in the paper",
    "not read": "series, which was not read",
}
_MODELS = {
    "student-t": "mean and variance unknown (Student-t)",
    "gaussian": "mean unknown, one noise (Gaussian)",
    "trend": "a straight line (trend)",
    "constant": "any length alike (constant)",
    "geometric": "short ones more likely (geometric)",
}


def series_words(series: str) -> str:
    """What the series holds: 'solo margin, relative to the other participants of the epoch'."""
    return _SERIES[series]


def model_words(choice: str) -> str:
    """A likelihood or a prior of segments, explained."""
    return _MODELS[choice]


def window_words(deviating: DeviatingWindow) -> str:
    """'epochs 12–20 (0.97); starts in 12–13, ends in 20'."""
    starts = _within("start", deviating.window[0], deviating.first_within)
    ends = _within("end", deviating.window[1], deviating.last_within)
    return f"{numbers.span(deviating.window)} ({numbers.probability(deviating.probability)}); {starts}, {ends}"


def _within(side: str, at: int, within: tuple[int, int] | None) -> str:
    """'starts in 12–13'; a client that was absent for a while may have changed in any of those epochs."""
    return f"open at its {side}" if within is None else f"{side}s in {_span((min(at, within[0]), max(at, within[1])))}"


def _span(window: tuple[int, int]) -> str:
    return numbers.window(*window)


def agreement_sentence(agreement: Agreement) -> str:
    """'ruptures finds 3 of these 4 changes in the same series, and 1 more.'"""
    ours, more = len(agreement.both) + len(agreement.posterior_only), len(agreement.ruptures_only)
    extra = f" and {several(more, 'change')} that the posterior does not" if more else ""
    if not ours:
        return f"ruptures, on the same series, finds {several(more, 'change') if more else 'no change either'}."
    return f"ruptures, on the same series, finds {len(agreement.both)} of these {several(ours, 'change')}{extra}."


def mass_words(share: float) -> str:
    """A share of probability mass, or that there is none."""
    return "no mass" if share != share else f"{share:.2f}"


def others_mass_words(row: MassInWindow) -> str:
    """'0.45 on average, at most 0.61 (6 clients)': the same statistic of the clients without a label."""
    if not row.others:
        return "no client to compare with"
    return f"{row.others_mean:.2f} on average, at most {row.others_largest:.2f} ({several(row.others, 'client')})"

"""Plans and prices in words: what will be computed, what it costs, and what a choice trades for what."""

from __future__ import annotations

from flcontrib_core.history.preflight import Price
from flcontrib_core.words import numbers
from flcontrib_core.words.numbers import several


def price_notes(price: Price, epoch_count: int, estimator: str) -> tuple[str, ...]:
    """What a reader of a price should know: whose price it is, what comes on top, and how it can be wrong."""
    if price.evaluations is None:
        return ("The table holds the values already; only reading them takes a moment.",)
    if not price.epochs and not price.observations:
        return (
            "The log has no model or no validation set: nothing can be evaluated. The updates alone are read; values "
            "and harm are not measurable.",
        )
    if price.seconds is None:
        return ("Utilities come from the table; nothing is evaluated.",)
    if not price.epochs:
        observations = numbers.count(price.observations)
        return (
            f"No Shapley values: {observations} evaluations, one per participation and two per epoch. "
            "Detection does not need more.",
        )
    notes = [
        f"{estimator}: up to {several(price.largest, 'participant')} per epoch; {numbers.count(price.observations)} "
        "cheap observations come on top."
    ]
    if price.epochs < epoch_count:
        notes.append(f"{price.epochs} of {several(epoch_count, 'epoch')} are computed.")
    if price.flagged:
        notes.append(
            f"{several(price.flagged, 'epoch')} {'has' if price.flagged == 1 else 'have'} an update over three times "
            "as long as the median: more is evaluated there."
        )
    if price.most_evaluations is not None and price.most_evaluations > 2 * price.evaluations:
        most = numbers.count(price.most_evaluations)
        notes.append(f"At most {most} evaluations, if the precision asked for is reached late in every epoch.")
    return tuple(notes)

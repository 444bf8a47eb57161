"""Windows that are too faint to alert by themselves, and are looked at for the harm that was measured in them.

An expert's threshold is what few honest runs exceed in that expert alone; a short or interrupted attack stays below it
and does its harm all the same. Such a window is never a question. It accuses where harm was measured and everything
together weighs more than is asked of a window that stands out.
"""

from __future__ import annotations

from flcontrib_core.detection.reading import Reading
from flcontrib_core.detection.reasons import OversizedHarm
from flcontrib_core.detection.search import FoundWindow, Rescorer, experts_for, is_reflection
from flcontrib_core.detection.size_windows import is_size_reflection
from flcontrib_core.detection.weighing import WindowCase

FAINTEST = 3.0
"""Scales of an expert's tail below the threshold down to which a window is looked at."""
FAINT_ASKS, FAINT_STEPS = 1.0, 20.0
"""Units of a preset by which a faint window must weigh more than one above the threshold, and harm of the own step, in
usual steps, from which grown updates need no weighing there. Of 1 858 development runs no innocent is accused so."""


def is_faint(reading: Reading, window: FoundWindow) -> bool:
    """Does the window stay below the threshold of the reading?"""
    return window.u <= reading.threshold


def oversized_harm(reading: Reading, case: WindowCase) -> OversizedHarm | None:
    """What needs no weighing: of a faint window twice the harm."""
    fact = case.oversized_harm
    if fact is not None and is_faint(reading, case.window) and fact.steps < FAINT_STEPS:
        return None
    return fact


def faint_windows(reading: Reading) -> tuple[FoundWindow, ...]:
    """The strongest window of each client that has none above the threshold, where it comes near it.

    None where nothing is weighed (a table of contributions, updates alone), and none of a run that is read again after
    each epoch: every look would be one more chance to be wrong.
    """
    search = reading.search
    nothing_weighed = reading.channels.values_alone or reading.channels.updates_alone
    if reading.online or nothing_weighed or reading.calibration.scorecard is None:
        return ()
    alerting = {window.client for window in (*search.windows, *search.reflected)} | reading.persistent()
    floor = reading.threshold - FAINTEST
    return tuple(
        w for w in search.strongest if w is not None and floor < w.u <= reading.threshold and w.client not in alerting
    )


def stands_alone(reading: Reading, window: FoundWindow) -> bool:
    """Would the faint window be there without the windows that were found, and is it the client's own doing?"""
    search = reading.search
    rescorer = Rescorer(
        reading.channels,
        experts_for(reading.channels),
        reading.calibration,
        reading.threshold - FAINTEST,
        reading.model,
        reading.exact_cells,
        reading.client_count,
    )
    if is_reflection(window, search.windows, (*search.windows, window), rescorer):
        return False
    return not is_size_reflection(reading.history, reading.channels, search, window)

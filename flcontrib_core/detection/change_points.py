"""Change points of every client's series: where a segment begins, and which epochs lie in one that deviates.

By default a client is read relative to the others of the same epoch: its standardised solo margin where the log has
updates, a model and a validation set, else its standardised value, else its direction. The paper's cumulative series is
one of the choices; there an honest client's mass gathers in windows too (.4–.6 of it), so it describes labelled runs
and marks nothing. ruptures reads the same series as a second opinion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np

from flcontrib_core.detection.channels import MARGIN, PEER_DIRECTION, VALUE, standardise
from flcontrib_core.detection.findings import ChangePoints
from flcontrib_core.detection.segmentation import (
    PAPER_MODEL,
    UNIT_MODEL,
    LengthPrior,
    Posterior,
    SegmentLikelihood,
    SegmentModel,
    level_above,
    segment_posterior,
)
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import FloatArray, IntArray

DEVIATION = 1.0
"""Deviations above a client's usual level from which a segment counts as deviating."""
USUAL_QUANTILE, USUAL_OFFSET = 0.3, 0.52
"""A client's usual level is read from its lower third, so that a window may cover most of the run: this quantile of
noise of unit deviation lies so far below its middle."""
VISIBLE = 0.05
SMALLEST_GROUP = 0.15
CREDIBLE = 0.9
RUPTURES_PENALTY = 5.0
"""Times log n, in units of the noise: few honest series break, clear windows do (fitted on tuning runs)."""


class ChangeSeries(StrEnum):
    """Which numbers of a client are read."""

    RELATIVE = "relative"
    """The solo margin where there is one, else the value, else the direction: relative to the other participants."""
    SOLO_MARGIN = "solo-margin"
    RELATIVE_VALUE = "relative-value"
    PEER_DIRECTION = "peer-direction"
    """Cosine to the other participants' updates: what a log of updates alone has."""
    INCREMENTS = "increments"
    """The client's value of each epoch as it is."""
    CUMULATIVE = "cumulative"
    """The paper's: the running sum of the values."""


CHANNELS = {
    ChangeSeries.SOLO_MARGIN: MARGIN,
    ChangeSeries.RELATIVE_VALUE: VALUE,
    ChangeSeries.PEER_DIRECTION: PEER_DIRECTION,
}
"""Series that are a standardised channel, in the order in which ``relative`` takes the first that a run has."""


@dataclass(frozen=True)
class ChangePointSettings:
    """How change points are read; what is None is taken as it suits the series."""

    series: ChangeSeries = ChangeSeries.RELATIVE
    utility: str | None = None
    """None: loss where it was assessed, else the first"""
    likelihood: SegmentLikelihood | None = None
    prior: LengthPrior | None = None

    def record(self) -> dict[str, str | None]:
        """As plain JSON values."""
        parts = {"series": self.series, "utility": self.utility, "likelihood": self.likelihood, "prior": self.prior}
        return {name: None if part is None else str(part) for name, part in parts.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> ChangePointSettings:
        """The inverse of ``record``; raises SettingsError for a name or a value that does not exist."""
        try:
            plain = {name: None if part is None else str(part) for name, part in record.items()}
            return cls(
                ChangeSeries(plain.pop("series", None) or ChangeSeries.RELATIVE),
                plain.pop("utility", None),
                SegmentLikelihood(given) if (given := plain.pop("likelihood", None)) else None,
                LengthPrior(given) if (given := plain.pop("prior", None)) else None,
                **plain,
            )
        except (TypeError, ValueError) as wrong:
            raise SettingsError(f"change points cannot be read so: {wrong}") from wrong

    def model(self, unit: bool) -> SegmentModel:
        """The segments' model; ``unit``: the noise of the series has unit deviation by construction."""
        usual = UNIT_MODEL if unit else PAPER_MODEL
        return replace(usual, likelihood=self.likelihood or usual.likelihood, prior=self.prior or usual.prior)


def read_change_points(history: ContributionHistory, settings: ChangePointSettings | None = None) -> ChangePoints:
    """Where does each client's series start a new segment, and which epochs lie in a deviating one?

    Cells that are missing from the series (absent, not computed, or too early to compare) carry no observation: their
    probability is NaN. Raises SettingsError for a utility or a series that this history does not have.
    """
    asked = settings or ChangePointSettings()
    utility = asked.utility or ("loss" if "loss" in history.utilities else history.utilities[0])
    if utility not in history.utilities:
        raise SettingsError(f"utility {utility!r} was not assessed; this history has {', '.join(history.utilities)}")
    series, cells = _series(history, utility, asked.series)
    unit = series in CHANNELS
    model = asked.model(unit)
    probability, inside = np.full(cells.shape, np.nan), np.full(cells.shape, np.nan)
    probability[0] = 0.0
    segments, changes, opinions = {}, {}, {}
    for column, client in enumerate(history.client_ids):
        epochs = np.flatnonzero(np.isfinite(cells[:, column]))
        observed = cells[epochs, column]
        posterior = segment_posterior(observed, model)
        probability[epochs, column] = posterior.start_probability
        if unit and len(observed) > 1 and model.likelihood is not SegmentLikelihood.TREND:  # a line has no one level
            limit = float(np.quantile(observed, USUAL_QUANTILE)) + USUAL_OFFSET + DEVIATION
            inside[epochs, column] = posterior.inside(level_above(observed, limit, posterior, model))
        # A posterior is (n, n): what is needed of it is taken before the next client's.
        segments[client], changes[client] = _segments(epochs, posterior), _changes(epochs, posterior)
        opinions[client] = tuple(int(epochs[s]) for s in ruptures_starts(observed, unit))
    return ChangePoints(
        client_ids=history.client_ids,
        utility=utility,
        series=str(series),
        probability=probability,
        inside=inside,
        segments=segments,
        changes=changes,
        second_opinion=opinions,
    )


def _series(history: ContributionHistory, utility: str, series: ChangeSeries) -> tuple[ChangeSeries, FloatArray]:
    """The series that is really read and its cells (T + 1, clients); NaN where there is no observation."""
    if series in (ChangeSeries.CUMULATIVE, ChangeSeries.INCREMENTS):
        part = history.of(utility)
        if series is ChangeSeries.CUMULATIVE:  # an absent epoch is a known zero: a flat piece of the curve
            running = np.cumsum(np.where(part.missing, 0.0, part.values), axis=0)
            return series, np.where(part.missing, np.nan, running)
        return series, np.where(part.computed & history.participated, part.values, np.nan)
    channels = standardise(history, utility)
    if series is ChangeSeries.RELATIVE:
        usable = (s for s in CHANNELS if channels.available(CHANNELS[s]))
        series = next(usable, ChangeSeries.RELATIVE_VALUE)
    elif not channels.available(CHANNELS[series]):
        lacking = channels.unavailable[CHANNELS[series]]
        raise SettingsError(f"this run has no {CHANNELS[series]} ({lacking}); read another series")
    name = CHANNELS[series]
    cells = np.full(history.participated.shape, np.nan)
    cells[channels.epochs] = channels.of(name)
    return series, cells


def _segments(epochs: IntArray, posterior: Posterior) -> tuple[tuple[int, int], ...]:
    """The MAP segmentation in epochs, inclusive."""
    starts = [*posterior.map_starts, len(epochs)]
    return tuple((int(epochs[a]), int(epochs[b - 1])) for a, b in pairwise(starts))


def _changes(epochs: IntArray, posterior: Posterior) -> tuple[tuple[int, int, float], ...]:
    """Stretches of neighbouring epochs that share a change: (first, last, probability of at least one among them).

    20–21 with 0.49 and 0.48 are one change of 0.97. The ends are cut where they add less than a tenth, so that the
    stretch is also the credible interval of the change.
    """
    p = posterior.start_probability
    stretches, t = [], 1
    while t < len(p):
        if p[t] < VISIBLE:
            t += 1
            continue
        last = t
        while last + 1 < len(p) and p[last + 1] >= VISIBLE:
            last += 1
        whole = posterior.change_between(t, last)
        if whole >= SMALLEST_GROUP:
            first, end = _narrowed(posterior, t, last, CREDIBLE * whole)
            stretches.append((int(epochs[first]), int(epochs[end]), posterior.change_between(first, end)))
        t = last + 1
    return tuple(stretches)


def _narrowed(posterior: Posterior, first: int, last: int, least: float) -> tuple[int, int]:
    """The stretch without those ends that are not needed for this probability."""
    while first < last:
        p = posterior.start_probability
        a, b = (first + 1, last) if p[first] <= p[last] else (first, last - 1)
        if posterior.change_between(a, b) < least:
            break
        first, last = a, b
    return first, last


def mass_in_window(points: ChangePoints, client: str, window: tuple[int, int]) -> float:
    """Which share of a client's change-point mass falls inside the (inclusive) window? The paper's .91 / .97 / .82.

    A description of labelled runs, never an alert. NaN when there is no mass.
    """
    column = np.nan_to_num(points.probability[:, points.client_ids.index(client)])
    total = float(column.sum())
    return float(column[window[0] : window[1] + 1].sum() / total) if total > 0 else float("nan")


def ruptures_starts(observed: FloatArray, unit: bool = False) -> tuple[int, ...]:
    """Where does ruptures' optimal segmentation (penalised squared error) put the starts? An independent opinion.

    ``unit``: the noise of the series has unit deviation by construction; else it is read from first differences.
    """
    import ruptures

    n = len(observed)
    if n < 4 or np.ptp(observed) == 0:
        return ()
    noise = 1.0
    if not unit:
        noise = max(float(np.median(np.abs(np.diff(observed))) / 0.954), 0.05 * float(observed.std()))
    x = (observed - observed.mean()) / noise
    ends = ruptures.KernelCPD(kernel="linear", min_size=2).fit(x[:, None]).predict(pen=RUPTURES_PENALTY * np.log(n))
    return tuple(int(b) for b in ends if b < n)

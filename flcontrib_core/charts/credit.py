"""Contributions as charts show them: help up and the initial model's share left out, unless asked otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flcontrib_core.auditing import AuditReport
from flcontrib_core.charts.palette import ClientStyles
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import EpochByClient, FillPolicy, FloatArray, Orientation

BAND = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Of the other clients: the middle 80% and 50%, and the median."""


def client_styles(report: AuditReport) -> ClientStyles:
    """How the report's clients look in every chart."""
    return ClientStyles(report.history.client_ids, frozenset(a.client for a in report.detection.alerts))


def windows_of(report: AuditReport, client: str) -> tuple[tuple[int, int], ...]:
    """A client's marked windows, strongest first."""
    marked = [a.window for a in report.detection.alerts if a.client == client and a.window is not None]
    return tuple(dict.fromkeys(marked))


def fill_of(history: ContributionHistory) -> FillPolicy:
    """How epochs without a value count in totals: as the result was asked to, and not at all while a job computes."""
    return FillPolicy.ZERO if history.pending.any() else asked_fill(history)


def asked_fill(history: ContributionHistory) -> FillPolicy:
    """How the result was asked to count epochs without a value."""
    return FillPolicy(str(history.settings.get("fill", FillPolicy.EQUAL)))


def total_credit(
    history: ContributionHistory,
    utility: str,
    fill: FillPolicy | None = None,
    orientation: Orientation = Orientation.HELP_UP,
) -> FloatArray:
    """(clients,) over the whole run; skipped epochs count as the result was asked to, where no ``fill`` is given."""
    return history.shown_totals(utility, fill or fill_of(history), orientation)


def running_credit(
    history: ContributionHistory,
    utility: str,
    fill: FillPolicy | None = None,
    orientation: Orientation = Orientation.HELP_UP,
    initial: bool = False,
) -> EpochByClient:
    """(T + 1, clients) up to each epoch, unknown from the first one that is still to be computed."""
    return np.asarray(np.cumsum(history.shown(utility, fill or asked_fill(history), orientation, initial), axis=0))


def band_of(credit: EpochByClient, clients: Sequence[int]) -> FloatArray:
    """(5, T + 1) quantiles of these clients' credit; empty without any"""
    return np.asarray(np.quantile(credit[:, clients], BAND, axis=1)) if len(clients) else np.empty((0, 0))

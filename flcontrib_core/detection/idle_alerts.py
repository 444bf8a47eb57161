"""Alerts of clients that contribute nothing of their own, or whose updates are those of others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from flcontrib_core.detection.arguments import harm_reasons, objections
from flcontrib_core.detection.calibration import Odds
from flcontrib_core.detection.evidence import WindowNumbers, window_numbers
from flcontrib_core.detection.exact_checks import ExactFinding
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.free_riding import IdleFinding, IdleKind
from flcontrib_core.detection.likeness import AlikeFinding, AlikeRole
from flcontrib_core.detection.objections import (
    BrokenClientLooksTheSame,
    Objection,
    OrdinaryCause,
    OrdinaryCauses,
    SharedWorkLooksTheSame,
    SourceUnknown,
)
from flcontrib_core.detection.reading import Reading
from flcontrib_core.detection.reasons import CopiedClient, CopiesClient, MarginLowered, Reason, TooAlike, Window
from flcontrib_core.tagged import Others

WHOLE_RUN = 0.9
"""Share of a client's participations from which a stretch is its whole run."""
_EMPTY = (IdleKind.NO_DIRECTION.value, IdleKind.TINY.value)
_HARMFUL = (VerdictKind.POISONING_WINDOW, VerdictKind.PERSISTENTLY_HARMFUL)
_LOOKALIKE: dict[IdleKind, Objection] = {
    IdleKind.COPIED_STEP: BrokenClientLooksTheSame(),
    IdleKind.NO_DIRECTION: OrdinaryCauses((OrdinaryCause.PRIVACY_FILTER,)),
    IdleKind.TINY: OrdinaryCauses((OrdinaryCause.LOCAL_STEPS, OrdinaryCause.OPTIMISER)),
}


def idle_alerts(reading: Reading) -> list[Alert]:
    """Contributes nothing: what no exact finding says already."""
    exact = {(finding.client, epoch) for finding in reading.exact for epoch in finding.epochs}
    return [
        _idle_alert(reading, finding)
        for finding in reading.idle
        if not all((finding.client, epoch) in exact for epoch in finding.epochs)
    ]


def copied_by_file(reading: Reading, finding: ExactFinding) -> bool:
    """Is this a bit-equal copy of another client that the likeness of the two tells already, with the part of each?"""
    return isinstance(finding.fact, CopiedClient) and any(
        alike.client == finding.client and set(alike.epochs) & set(finding.epochs) for alike in reading.alike
    )


def alike_alerts(reading: Reading) -> list[Alert]:
    """Copies of a client, groups that act together, and pairs of which nobody can tell who copied whom."""
    copies = {finding.client for finding in reading.alike if finding.role is not AlikeRole.ITSELF}
    alerts = []
    for finding in reading.alike:
        if finding.role is not AlikeRole.ITSELF or not copies & set(finding.others):
            alerts.append(_alike_alert(reading, finding))
    return alerts


def without_told(alerts: Iterable[Alert]) -> list[Alert]:
    """The same list without what another alert of the client tells better.

    A change that is a copy, a group or noise needs no question. Noise whose step alone does harm is told by its harmful
    window; where it does none, the values are only diluted, and the window is told by its emptiness.
    """
    listed = list(alerts)
    return [alert for alert in listed if not any(_tells_better(other, alert) for other in listed)]


def _tells_better(alert: Alert, other: Alert) -> bool:
    if alert.client != other.client or not alert.accuses or not _overlap(alert.window, other.window):
        return False
    if other.verdict in (VerdictKind.BEHAVIOUR_CHANGED, VerdictKind.CLASS_MIX_CHANGED):
        return alert.verdict in (VerdictKind.CONTRIBUTES_NOTHING, VerdictKind.ACTS_TOGETHER)
    if alert.verdict in _HARMFUL:
        return other.expert in _EMPTY and other.reason(MarginLowered) is not None
    return other.verdict in _HARMFUL and alert.expert in _EMPTY and alert.reason(MarginLowered) is None


def _overlap(a: Window | None, b: Window | None) -> bool:
    return a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])


def _idle_alert(reading: Reading, finding: IdleFinding) -> Alert:
    return _alert(
        reading,
        finding,
        VerdictKind.CONTRIBUTES_NOTHING,
        [finding.fact],
        [_LOOKALIKE[finding.kind]],
        finding.kind.value,
        reading.calibration.idle_odds,
    )


def _alike_alert(reading: Reading, finding: AlikeFinding) -> Alert:
    others = Others.named(reading.history.client_ids[j] for j in finding.others)
    kind = VerdictKind.ACTS_TOGETHER
    fact: Reason = TooAlike(finding.epochs, others, finding.cosine, finding.usual_cosine)
    against: list[Objection] = [SharedWorkLooksTheSame()]
    if finding.role is AlikeRole.ITSELF:
        against.append(SourceUnknown())
    elif finding.others_themselves:
        kind = VerdictKind.CONTRIBUTES_NOTHING
        fact = CopiesClient(finding.epochs, others, finding.cosine, finding.usual_cosine)
    exact = [e.fact for e in reading.exact if e.client == finding.client and copied_by_file(reading, e)]
    return _alert(reading, finding, kind, [fact, *exact], against, "likeness", reading.calibration.alike_odds)


def _alert(
    reading: Reading,
    finding: IdleFinding | AlikeFinding,
    kind: VerdictKind,
    facts: list[Reason],
    lookalike: list[Objection],
    expert: str,
    odds: Odds,
) -> Alert:
    history, client = reading.history, finding.client
    numbers = _numbers(reading, finding)
    took_part = int(history.participated[:, client].sum())
    whole = len(finding.epochs) >= WHOLE_RUN * took_part
    return Alert(
        client=history.client_ids[client],
        verdict=kind,
        window=None if whole else (finding.epochs[0], finding.epochs[-1]),
        probability=odds.probability(finding.u),
        score=finding.u,
        expert=expert,
        channels=(),
        evidence_for=(*facts, *harm_reasons(numbers)),
        evidence_against=(*lookalike, *objections(numbers, whole_run=whole)),
        context=(reading.false_alarms(),),
        computed_in_window=len(numbers.computed_inside),
        participated_in_window=numbers.participated_inside,
    )


def _numbers(reading: Reading, finding: IdleFinding | AlikeFinding) -> WindowNumbers:
    rows = np.isin(reading.channels.epochs, finding.epochs)
    window = finding.epochs[0], finding.epochs[-1]
    return window_numbers(reading.history, reading.channels, finding.client, rows, window)

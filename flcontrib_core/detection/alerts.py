"""What should a person be told about this history?

``read_verdicts`` is the door: channels → window search → kinds of verdict → alerts with reasons and counter-evidence.
Nothing here has a run's truth in its hands.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.detection.calibration import Calibration, shipped_calibration
from flcontrib_core.detection.channels import CHANNEL_NAMES, SKIPPED_FIRST_EPOCHS
from flcontrib_core.detection.class_mix import class_moves
from flcontrib_core.detection.evidence import window_facts
from flcontrib_core.detection.exact_checks import ExactFinding
from flcontrib_core.detection.findings import (
    Alert,
    ChangePoints,
    ChannelScore,
    ClientVerdict,
    Detection,
    VerdictKind,
)
from flcontrib_core.detection.reading import Reading, read_history
from flcontrib_core.detection.search import FoundWindow, channel_evidence, drawn_window
from flcontrib_core.detection.sensitivity import Sensitivity, sensitivity
from flcontrib_core.detection.visibility import smallest_visible_shift, value_coverage
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.vocabulary import CellState
from flcontrib_core.words import finding_words as wording
from flcontrib_core.words import numbers

EXACT_SCORE = 10.0
"""u of a fact: above every preset. Its probability is None, for it is not an estimate."""
QUIET = -10.0
"""u of a client whose every window is shut out by the harm gate."""
WEAKENING_COVERAGE = 0.75
FEWEST_PARTICIPATIONS = 6


def read_verdicts(
    history: ContributionHistory,
    preset: str = "default",
    calibration: Calibration | None = None,
    model: WindowModel | None = None,
    check_sensitivity: bool = True,
) -> Detection:
    """Every alert and every client's verdict. ``change_points`` and ``separation`` are left for the caller to fill.

    Raises SettingsError for an unknown preset. Example: ``read_verdicts(history).alerts[0].why``.
    """
    measured = calibration or shipped_calibration()
    reading = read_history(history, measured, measured.preset(preset), model or WindowModel())
    alerts = raise_alerts(reading, check_sensitivity)
    loud, runs, which = reading.false_alarms()
    accused = {a.client for a in alerts}
    quiet = np.array([i for i, name in enumerate(history.client_ids) if name not in accused], dtype=np.int64)
    unread = np.full(history.participated.shape, np.nan)
    return Detection(
        alerts=alerts,
        clients=client_verdicts(reading, alerts),
        change_points=ChangePoints(history.client_ids, "", "not read", unread, unread),
        separation=None,
        preset=preset,
        false_alarm_rate=loud / runs if runs else None,
        false_alarm_source=wording.rate_source(loud, runs, which),
        smallest_visible_shift=smallest_visible_shift(reading, quiet),
        notes=_notes(reading),
        channels_unavailable=dict(reading.channels.unavailable),
        value_coverage=value_coverage(reading.channels),
    )


def raise_alerts(reading: Reading, check_sensitivity: bool = True) -> tuple[Alert, ...]:
    """The alerts of a reading, strongest first: facts, then windows and persistent clients by u."""
    windows = reading.search.windows
    held: tuple[Sensitivity | None, ...] = sensitivity(reading) if check_sensitivity else (None,) * len(windows)
    persistent = reading.persistent()
    alerts = [_exact_alert(reading, finding) for finding in reading.exact]
    alerts += [_window_alert(reading, w, h, w.client in persistent) for w, h in zip(windows, held, strict=True)]
    alerts += [_persistent_alert(reading, i) for i in sorted(persistent - {w.client for w in windows})]
    return tuple(sorted(alerts, key=lambda a: (-a.score, a.client, a.window or (0, 0))))


def _window_alert(reading: Reading, found: FoundWindow, held: Sensitivity | None, persistent: bool) -> Alert:
    history, channels = reading.history, reading.channels
    rows = np.zeros(len(channels.epochs), dtype=bool)
    rows[found.start : found.end + 1] = True
    window = drawn_window(channels, found)
    facts = window_facts(history, channels, found.client, rows, window)
    scores = channel_evidence(channels, found, reading.model)
    moves = class_moves(history, channels, found.client, rows)
    kind = _window_kind(persistent, moves is not None and moves.mix_changed(scores))
    why = wording.window_reason(facts, found, scores)
    against = wording.counter_evidence(facts, reading.moved_too(found), _validation_rows(history))
    if kind is VerdictKind.PERSISTENTLY_HARMFUL:
        why = f"Harmful over the whole run, and more so in {numbers.span(window)}. {why}"
        against.insert(0, wording.LOW_QUALITY)
    if kind is VerdictKind.CLASS_MIX_CHANGED and moves is not None:
        why = f"{wording.mix_reason(facts.client, moves)} {why}"
        against.insert(0, wording.ASK_FIRST)
    return Alert(
        client=facts.client,
        verdict=kind,
        window=window,
        probability=_window_probability(reading, found, kind),
        score=found.u,
        expert=found.expert.name,
        channels=tuple(ChannelScore(name, scores[name]) for name in CHANNEL_NAMES),
        why=why,
        counter_evidence=(*against, *wording.held_sentence(held), wording.rate_sentence(*reading.false_alarms())),
        computed_in_window=len(facts.computed_inside),
        participated_in_window=facts.participated_inside,
        mean_inside=facts.mean_inside,
        mean_outside=facts.mean_outside,
        sensitivity_holds=None if held is None else held.holds,
        sensitivity_settings=None if held is None else held.settings,
    )


def _window_probability(reading: Reading, found: FoundWindow, kind: VerdictKind) -> float:
    if kind is VerdictKind.PERSISTENTLY_HARMFUL:
        return reading.calibration.persistent_odds.probability(float(reading.persistent_u[found.client]))
    return reading.calibration.window_odds.probability(found.u)


def _window_kind(persistent: bool, mix_changed: bool) -> VerdictKind:
    if persistent:
        return VerdictKind.PERSISTENTLY_HARMFUL
    return VerdictKind.CLASS_MIX_CHANGED if mix_changed else VerdictKind.POISONING_WINDOW


def _persistent_alert(reading: Reading, client: int) -> Alert:
    history, channels = reading.history, reading.channels
    rows = np.arange(len(channels.epochs)) >= SKIPPED_FIRST_EPOCHS
    facts = window_facts(history, channels, client, rows, (int(channels.epochs[0]), int(channels.epochs[-1])))
    u = float(reading.persistent_u[client])
    against = wording.counter_evidence(facts, (), _validation_rows(history))
    return Alert(
        client=facts.client,
        verdict=VerdictKind.PERSISTENTLY_HARMFUL,
        window=None,
        probability=reading.calibration.persistent_odds.probability(u),
        score=u,
        expert="persistence",
        channels=(),
        why=wording.persistent_reason(facts, float(reading.persistence.harmful_share[client])),
        counter_evidence=(wording.LOW_QUALITY, *(s for s in against if not s.startswith("The window "))),
        computed_in_window=len(facts.computed_inside),
        participated_in_window=facts.participated_inside,
        mean_inside=facts.mean_inside,
    )


def _exact_alert(reading: Reading, finding: ExactFinding) -> Alert:
    name = reading.history.client_ids[finding.client]
    once = () if len(finding.epochs) > 1 else ("It happened once.",)
    return Alert(
        client=name,
        verdict=VerdictKind.EXACT_FINDING,
        window=(finding.epochs[0], finding.epochs[-1]),
        probability=None,
        score=EXACT_SCORE,
        expert="exact check",
        channels=(),
        why=wording.exact_reason(name, finding),
        counter_evidence=(wording.BROKEN_CLIENT, *once),
        computed_in_window=int(reading.value_known[list(finding.epochs), finding.client].sum()),
        participated_in_window=len(finding.epochs),
        finding=finding.finding,
    )


def client_verdicts(reading: Reading, alerts: tuple[Alert, ...]) -> tuple[ClientVerdict, ...]:
    """One verdict per client: its strongest alert, else an advisory, nothing, or that the data cannot decide."""
    strongest: dict[str, Alert] = {}
    for alert in alerts:  # strongest first; a question about the class mix yields to a plainer verdict
        known = strongest.get(alert.client)
        if known is None or known.verdict is VerdictKind.CLASS_MIX_CHANGED:
            strongest[alert.client] = alert
    return tuple(
        ClientVerdict(name, a.verdict, a.probability, a.window, a.score, a.why)
        if (a := strongest.get(name)) is not None
        else _quiet_verdict(reading, i, name)
        for i, name in enumerate(reading.history.client_ids)
    )


def _quiet_verdict(reading: Reading, client: int, name: str) -> ClientVerdict:
    if not reading.search.heard[client]:
        return ClientVerdict(name, VerdictKind.NO_VERDICT, None, None, None, _why_no_verdict(reading, client, name))
    loudest = reading.search.loudest[client]
    u = QUIET if loudest is None else loudest.u
    reflected = client in reading.reflections()
    probability = reading.calibration.window_odds.probability(min(u, reading.threshold) if reflected else u)
    if reading.persistence.opposed()[client]:
        share = reading.persistence.opposed_share[client]
        why = (
            f"In {share:.0%} of its epochs {name}'s update points away from the other participants'. "
            "Advisory: very different data does the same."
        )
        return ClientVerdict(name, VerdictKind.PERSISTENTLY_OPPOSED, probability, None, u, why)
    if reflected:
        why = "Its strongest window is the reflection of a louder change by another client."
        return ClientVerdict(name, VerdictKind.NOTHING_FOUND, probability, None, u, why)
    why = f"Its strongest window stays {numbers.signed(u - reading.threshold, 1)} scales from the threshold."
    return ClientVerdict(name, VerdictKind.NOTHING_FOUND, probability, None, u, why)


def _why_no_verdict(reading: Reading, client: int, name: str) -> str:
    cells = reading.channels.participated
    present = int(cells[:, client].sum())
    if present == 0:
        return f"{name} never took part: absence is not evidence."
    if present < FEWEST_PARTICIPATIONS:
        return f"{name} took part in {numbers.several(present, 'epoch')}: too few to compare a window with the rest."
    if (cells[cells[:, client]].sum(axis=1) < 2).all():
        return f"{name} was always the only participant: there is nobody to compare it with."
    return f"Too few of {name}'s epochs have an observation that can be compared with other participants."


def _notes(reading: Reading) -> tuple[str, ...]:
    notes = [f"Channel {name} is unavailable: {why}." for name, why in reading.channels.unavailable.items()]
    coverage = value_coverage(reading.channels)
    if coverage is not None and coverage < 1.0:
        text = f"Values were computed for {coverage:.0%} of the participations."
        if not reading.channels.values_alone:
            text += " The channels that need no Shapley value were read in every epoch."
        elif coverage < WEAKENING_COVERAGE:
            text += " Budgets below 0.75 weaken detection."
        notes.append(text)
    for window in reading.search.mirrored:
        name, where = reading.history.client_ids[window.client], numbers.span(drawn_window(reading.channels, window))
        notes.append(f"{name} also stands out in {where}, as a reflection of a louder change by another client.")
    history = reading.history
    known = (history.state == CellState.COMPUTED) & history.participated[:, :, None]
    if np.isnan(history.standard_errors[known]).any():
        notes.append("Some values come without a standard error: their uncertainty could not be counted.")
    return tuple(notes)


def _validation_rows(history: ContributionHistory) -> int | None:
    return None if history.channels is None else history.channels.validation_rows

"""``read_verdicts``: channels → window search → kinds of verdict → alerts with their facts, for and against.

Nothing here has a run's truth in its hands, and nothing makes a sentence.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.detection.arguments import (
    change_reasons,
    classes_moved,
    harm_reasons,
    objections,
    ordinary_causes,
)
from flcontrib_core.detection.calibration import Calibration, shipped_calibration
from flcontrib_core.detection.channels import CHANNEL_NAMES, SKIPPED_FIRST_EPOCHS
from flcontrib_core.detection.evidence import window_numbers
from flcontrib_core.detection.exact_checks import ExactFinding
from flcontrib_core.detection.facts import (
    AlwaysAlone,
    BelowThreshold,
    ChannelUnavailable,
    ErrorsUnknown,
    NeverTookPart,
    OpposedUpdates,
    Quiet,
    ReflectionOfAnother,
    Remark,
    StandsOutByReflection,
    TooFewComparable,
    TooFewParticipations,
    ValuesPartlyComputed,
)
from flcontrib_core.detection.faint_windows import (
    FAINT_ASKS,
    FAINTEST,
    faint_windows,
    is_faint,
    oversized_harm,
    stands_alone,
)
from flcontrib_core.detection.findings import (
    Alert,
    ChangePoints,
    ClientVerdict,
    Detection,
    VerdictKind,
)
from flcontrib_core.detection.idle_alerts import alike_alerts, copied_by_file, idle_alerts, without_told
from flcontrib_core.detection.objections import (
    AskFirst,
    BrokenClientLooksTheSame,
    Context,
    FaintChange,
    HappenedOnce,
    HoldsUnder,
    LooksLikeLowQuality,
    Objection,
    OtherCausesLookTheSame,
    SourceUnknown,
    VanishesUnder,
    WeighsTooLittle,
)
from flcontrib_core.detection.reading import Reading, reading_of
from flcontrib_core.detection.reasons import (
    ChannelScore,
    CopiedClient,
    HarmfulThroughout,
    Points,
    Reason,
    WeighedEvidence,
    WorseInWindow,
)
from flcontrib_core.detection.search import FoundWindow, drawn_window
from flcontrib_core.detection.sensitivity import Sensitivity, sensitivity
from flcontrib_core.detection.visibility import smallest_visible_shift, value_coverage
from flcontrib_core.detection.weighing import OVERSIZED_SCORE, WindowCase, window_case
from flcontrib_core.detection.windows import WindowModel
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import CellState

EXACT_SCORE = 10.0
"""u of a fact: above every preset. Its probability is None, for it is not an estimate."""
QUIET = -10.0
"""u of a client whose every window is shut out by the harm gate."""
FEWEST_PARTICIPATIONS = 6
NAMED_POINTS = 4
"""Measurements that are named where the evidence is weighed."""


def read_verdicts(
    history: ContributionHistory,
    preset: str = "default",
    calibration: Calibration | None = None,
    model: WindowModel | None = None,
    check_sensitivity: bool = True,
) -> Detection:
    """Every alert and every client's verdict. ``change_points`` and ``separation`` are left for the caller to fill.

    Raises SettingsError for an unknown preset. Example: ``read_verdicts(history).alerts[0].evidence_for``.
    """
    measured = calibration or shipped_calibration()
    reading = reading_of(history, measured, measured.preset(preset), model or WindowModel())
    return detection_of(reading, raise_alerts(reading, check_sensitivity), preset)


def detection_of(reading: Reading, alerts: tuple[Alert, ...], preset: str) -> Detection:
    """What a reading says of everybody, given its alerts; change points and groups are left for the caller to fill."""
    history = reading.history
    accused = {a.client for a in alerts}
    quiet = np.array([i for i, name in enumerate(history.client_ids) if name not in accused], dtype=np.int64)
    unread = np.full(history.participated.shape, np.nan)
    return Detection(
        alerts=alerts,
        clients=client_verdicts(reading, alerts),
        change_points=ChangePoints(history.client_ids, "", "not read", unread, unread),
        separation=None,
        preset=preset,
        false_alarms=reading.false_alarms(),
        smallest_visible_shift=smallest_visible_shift(reading, quiet),
        remarks=_remarks(reading),
        channels_unavailable=dict(reading.channels.unavailable),
        value_coverage=value_coverage(reading.channels),
    )


def raise_alerts(reading: Reading, check_sensitivity: bool = True) -> tuple[Alert, ...]:
    """The alerts of a reading: what accuses before what asks, the strongest first."""
    windows = reading.search.windows
    held = _held(reading, windows, reading.threshold, check_sensitivity)
    persistent = reading.persistent()
    alerts = [_exact_alert(reading, f) for f in reading.exact if not copied_by_file(reading, f)]
    alerts += [_window_alert(reading, w, h, w.client in persistent) for w, h in zip(windows, held, strict=True)]
    alerts += _faint_alerts(reading, check_sensitivity)
    alerts += [_persistent_alert(reading, i) for i in sorted(persistent - {w.client for w in windows})]
    alerts = without_told([*alerts, *idle_alerts(reading), *alike_alerts(reading)])
    return tuple(sorted(alerts, key=lambda a: (not a.accuses, -a.score, a.client, a.window or (0, 0))))


def _held(
    reading: Reading, windows: tuple[FoundWindow, ...], threshold: float, check: bool
) -> tuple[Sensitivity | None, ...]:
    return sensitivity(reading, windows, threshold) if check else (None,) * len(windows)


def _faint_alerts(reading: Reading, check_sensitivity: bool) -> list[Alert]:
    """What accuses among the windows below the threshold; the others are nothing, not even a question."""
    accusing = tuple(
        window
        for window in faint_windows(reading)
        if _window_alert(reading, window, None, False).accuses and stands_alone(reading, window)
    )
    held = _held(reading, accusing, reading.threshold - FAINTEST, check_sensitivity)
    return [_window_alert(reading, w, h, False) for w, h in zip(accusing, held, strict=True)]


def _window_alert(reading: Reading, window: FoundWindow, held: Sensitivity | None, persistent: bool) -> Alert:
    case = window_case(reading.history, reading.channels, reading.search, window, reading.model)
    numbers, scores, moves, epochs = case.numbers, case.evidence, case.moves, case.epochs
    faint = is_faint(reading, window)
    weighed = _weighed(reading, case, reading.threshold + (FAINT_ASKS if faint else 0.0))
    oversized = oversized_harm(reading, case)
    enough = weighed is None or weighed.log_odds > weighed.accuses_at
    harmful = numbers.harm_measured and (enough or oversized is not None)
    mix_changed = moves is not None and moves.mix_changed(scores)
    kind = _window_kind(persistent, harmful, mix_changed)
    reasons: list[Reason] = []
    if kind is VerdictKind.PERSISTENTLY_HARMFUL:
        reasons.append(WorseInWindow(epochs))
    if kind is VerdictKind.CLASS_MIX_CHANGED and moves is not None:
        reasons.append(classes_moved(moves))
    against: list[Objection] = [_lookalike(kind, scores), *objections(numbers, reading.moved_too(window))]
    if faint:
        against.append(FaintChange(reading.threshold - window.u))
    if weighed is not None and numbers.harm_measured and not enough:
        against.append(WeighsTooLittle(weighed.log_odds, weighed.accuses_at, weighed.most))
    weighty: list[Reason] = [fact for fact in (oversized, weighed if harmful and enough else None) if fact is not None]
    score = _window_score(reading, case, weighed, oversized is not None) if harmful else window.u
    context: list[Context] = []
    if held is not None:
        context.append(HoldsUnder(held.holds, held.settings))
        if held.vanishes:
            against.append(VanishesUnder(held.vanishes, held.settings))
    return Alert(
        client=reading.history.client_ids[window.client],
        verdict=kind,
        window=epochs,
        probability=_window_probability(reading, window, kind, score),
        score=score,
        expert=window.expert.name,
        channels=tuple(ChannelScore(name, scores[name]) for name in CHANNEL_NAMES),
        evidence_for=(*reasons, *harm_reasons(numbers), *weighty, *change_reasons(numbers, window, scores)),
        evidence_against=tuple(against),
        context=(*context, reading.false_alarms()),
        computed_in_window=len(numbers.computed_inside),
        participated_in_window=numbers.participated_inside,
    )


def _lookalike(kind: VerdictKind, scores: dict[str, float | None]) -> Objection:
    """What else looks like a window of this kind: the first objection to every alert."""
    if kind is VerdictKind.PERSISTENTLY_HARMFUL:
        return LooksLikeLowQuality()
    if kind is VerdictKind.CLASS_MIX_CHANGED:
        return AskFirst()
    return ordinary_causes(scores) if kind is VerdictKind.BEHAVIOUR_CHANGED else OtherCausesLookTheSame()


def _weighed(reading: Reading, case: WindowCase, preset: float) -> WeighedEvidence | None:
    """The window's evidence, weighed for a preset; None where there is nothing but values to weigh."""
    card = reading.calibration.scorecard
    if card is None or reading.channels.values_alone:
        return None
    points = card.points(case.measurements())
    most = sorted(points.items(), key=lambda pair: -abs(pair[1]))[:NAMED_POINTS]
    log_odds = card.base + sum(points.values())
    return WeighedEvidence(log_odds, card.accuses_at(preset), tuple(Points(name, given) for name, given in most))


def _window_score(reading: Reading, case: WindowCase, weighed: WeighedEvidence | None, oversized: bool) -> float:
    """u of a harmful window: of its weighed evidence, and of what needs no weighing."""
    card = reading.calibration.scorecard
    score = case.window.u if weighed is None or card is None else card.excess(weighed.log_odds)
    return max(score, OVERSIZED_SCORE) if oversized else score


def _window_probability(reading: Reading, window: FoundWindow, kind: VerdictKind, score: float) -> float:
    if kind is VerdictKind.PERSISTENTLY_HARMFUL:
        return reading.calibration.persistent_odds.probability(float(reading.persistent_u[window.client]))
    odds = reading.calibration.window_odds if kind.accuses else reading.calibration.question_odds
    return odds.probability(score)


def _window_kind(persistent: bool, harmful: bool, mix_changed: bool) -> VerdictKind:
    """Harm decides the word: a change without measured harm is a question."""
    if persistent:
        return VerdictKind.PERSISTENTLY_HARMFUL
    if harmful:
        return VerdictKind.POISONING_WINDOW
    return VerdictKind.CLASS_MIX_CHANGED if mix_changed else VerdictKind.BEHAVIOUR_CHANGED


def _persistent_alert(reading: Reading, client: int) -> Alert:
    history, channels = reading.history, reading.channels
    rows = np.arange(len(channels.epochs)) >= SKIPPED_FIRST_EPOCHS
    read = channels.epochs[rows]
    numbers = window_numbers(history, channels, client, rows, (int(read[0]), int(read[-1])))
    u = float(reading.persistent_u[client])
    throughout = HarmfulThroughout(float(reading.persistence.harmful_share[client]))
    return Alert(
        client=history.client_ids[client],
        verdict=VerdictKind.PERSISTENTLY_HARMFUL,
        window=None,
        probability=reading.calibration.persistent_odds.probability(u),
        score=u,
        expert="persistence",
        channels=(),
        evidence_for=(*harm_reasons(numbers), throughout),
        evidence_against=(LooksLikeLowQuality(), *objections(numbers, whole_run=True)),
        context=(reading.false_alarms(),),
        computed_in_window=len(numbers.computed_inside),
        participated_in_window=numbers.participated_inside,
    )


def _exact_alert(reading: Reading, finding: ExactFinding) -> Alert:
    epochs = finding.epochs
    against: list[Objection] = [BrokenClientLooksTheSame()]
    if len(epochs) == 1:
        against.append(HappenedOnce(epochs[0]))
    if isinstance(finding.fact, CopiedClient):
        against.append(SourceUnknown())
    return Alert(
        client=reading.history.client_ids[finding.client],
        verdict=VerdictKind.EXACT_FINDING,
        window=(epochs[0], epochs[-1]),
        probability=None,
        score=EXACT_SCORE,
        expert="exact check",
        channels=(),
        evidence_for=(finding.fact,),
        evidence_against=tuple(against),
        computed_in_window=int(reading.value_known[list(epochs), finding.client].sum()),
        participated_in_window=len(epochs),
    )


def client_verdicts(reading: Reading, alerts: tuple[Alert, ...]) -> tuple[ClientVerdict, ...]:
    """One verdict per client: its strongest alert, else an advisory, nothing, or that the data cannot decide."""
    strongest: dict[str, Alert] = {}
    for alert in alerts:  # strongest first; a question yields to an accusation
        present = strongest.get(alert.client)
        if present is None or (alert.accuses and not present.accuses):
            strongest[alert.client] = alert
    return tuple(
        ClientVerdict(name, a.verdict, a.probability, a.window, a.score, a.evidence_for)
        if (a := strongest.get(name)) is not None
        else _quiet_verdict(reading, i, name)
        for i, name in enumerate(reading.history.client_ids)
    )


def _quiet_verdict(reading: Reading, client: int, name: str) -> ClientVerdict:
    if not reading.search.scored[client]:
        return ClientVerdict(name, VerdictKind.NO_VERDICT, None, None, None, (_why_no_verdict(reading, client),))
    strongest = reading.search.strongest[client]
    u = QUIET if strongest is None else strongest.u
    reflected = client in reading.reflections()
    probability = reading.calibration.quiet_odds.probability(min(u, reading.threshold) if reflected else u)
    kind, fact = VerdictKind.NOTHING_FOUND, _why_nothing(reading, u, reflected)
    if reading.persistence.opposed()[client]:
        kind = VerdictKind.PERSISTENTLY_OPPOSED
        fact = OpposedUpdates(float(reading.persistence.opposed_share[client]))
    return ClientVerdict(name, kind, probability, None, u, (fact,))


def _why_nothing(reading: Reading, u: float, reflected: bool) -> Quiet:
    return ReflectionOfAnother() if reflected else BelowThreshold(u - reading.threshold)


def _why_no_verdict(reading: Reading, client: int) -> Quiet:
    cells = reading.channels.participated
    present = int(cells[:, client].sum())
    if present == 0:
        return NeverTookPart()
    if present < FEWEST_PARTICIPATIONS:
        return TooFewParticipations(present)
    if (cells[cells[:, client]].sum(axis=1) < 2).all():
        return AlwaysAlone()
    return TooFewComparable()


def _remarks(reading: Reading) -> tuple[Remark, ...]:
    """What limits the reading as a whole."""
    history, channels = reading.history, reading.channels
    remarks: list[Remark] = [ChannelUnavailable(name, reason) for name, reason in channels.unavailable.items()]
    coverage = value_coverage(channels)
    if coverage is not None and coverage < 1.0 and history.without_values is None:
        remarks.append(ValuesPartlyComputed(coverage, channels.values_alone))
    for window in reading.search.reflected:
        who = Others.named([history.client_ids[window.client]])
        remarks.append(StandsOutByReflection(who, drawn_window(channels, window)))
    known = (history.state == CellState.COMPUTED) & history.participated[:, :, None]
    if np.isnan(history.standard_errors[known]).any():
        remarks.append(ErrorsUnknown())
    return tuple(remarks)

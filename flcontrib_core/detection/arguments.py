"""What speaks for a window and what against it: typed facts from the window's numbers."""

from __future__ import annotations

from collections.abc import Mapping

from flcontrib_core.detection.channels import (
    OWN_DIRECTION,
    PEER_DIRECTION,
    SIZE,
    SPREAD,
)
from flcontrib_core.detection.class_mix import ClassMoves
from flcontrib_core.detection.evidence import WindowNumbers
from flcontrib_core.detection.experts import CONCENTRATION
from flcontrib_core.detection.objections import (
    FewComputed,
    FewPeers,
    IntervalCoversZero,
    NotBetterWithout,
    NotComputedInside,
    NotHarmfulOnAverage,
    Objection,
    OrdinaryCause,
    OrdinaryCauses,
    OthersMovedToo,
    OtherUtilityHelped,
    RareParticipation,
    SmallValidation,
    TouchesEnd,
    TouchesStart,
    UnreliableValues,
    ValuesUnknown,
)
from flcontrib_core.detection.reasons import (
    ChannelScore,
    ClassesMoved,
    DirectionChanged,
    ExpertScore,
    Reason,
    SizeChanged,
    SpreadChanged,
    ValueInWindow,
)
from flcontrib_core.detection.search import FoundWindow
from flcontrib_core.tagged import Others

FEW_COMPUTED = 3
RARE_SHARE = 0.25
RARE_COUNT = 8
FEW_PEERS = 2
SMALL_VALIDATION = 100
SPEAKS = 1.0
"""nats from which a channel's movement is worth a word"""
CAUSES = {
    SIZE: (OrdinaryCause.LOCAL_STEPS, OrdinaryCause.OPTIMISER),
    SPREAD: (OrdinaryCause.PRIVACY_FILTER, OrdinaryCause.COMPRESSION),
    OWN_DIRECTION: (OrdinaryCause.OPTIMISER, OrdinaryCause.NEW_DATA),
    PEER_DIRECTION: (OrdinaryCause.NEW_DATA,),
    CONCENTRATION: (OrdinaryCause.COMPRESSION,),
}


def harm_reasons(numbers: WindowNumbers) -> list[Reason]:
    """What was measured of the model's quality: values, what its step alone does to loss, margin and a class."""
    reasons: list[Reason] = []
    if numbers.mean_inside is not None:
        reasons.append(
            ValueInWindow(
                numbers.window,
                numbers.utility,
                numbers.lower_is_better,
                numbers.mean_inside,
                numbers.mean_outside,
                numbers.half_width,
                numbers.harmful_inside,
                len(numbers.computed_inside),
            )
        )
    return [*reasons, *(fact for fact in (numbers.step_worse, numbers.margin, numbers.worst_class) if fact is not None)]


def change_reasons(numbers: WindowNumbers, window: FoundWindow, scores: Mapping[str, float | None]) -> list[Reason]:
    """What moved in the updates themselves, and the score against its limit."""
    reasons: list[Reason] = []
    for name, (inside, outside) in numbers.movements.items():
        score = scores.get(name)
        if score is None or score <= SPEAKS:
            continue
        if name in (OWN_DIRECTION, PEER_DIRECTION):
            reasons.append(DirectionChanged(name, inside, outside, score))
        elif outside > 0:
            kind = SizeChanged if name == SIZE else SpreadChanged
            reasons.append(kind(inside / outside, score))
    narrowed, (inside, outside) = scores.get(CONCENTRATION), numbers.movements.get(SPREAD, (0.0, 0.0))
    if CONCENTRATION in window.expert.weights and (narrowed or 0.0) > SPEAKS and outside > 0:
        reasons.append(SpreadChanged(inside / outside, narrowed or 0.0))
    weighed = [(name, score) for name in window.expert.weights if (score := scores.get(name)) is not None]
    parts = tuple(ChannelScore(name, score) for name, score in sorted(weighed, key=lambda pair: -pair[1]))
    return [*reasons, ExpertScore(window.expert.name, window.score, window.threshold, parts)]


def classes_moved(moves: ClassMoves) -> ClassesMoved:
    """The counts of classes that moved up and down."""
    up, down = int((moves.moves > 0).sum()), int((moves.moves < 0).sum())
    return ClassesMoved(up, down, len(moves.moves), moves.share_up)


def ordinary_causes(scores: Mapping[str, float | None]) -> OrdinaryCauses:
    """Why an honest site may have changed, by the channels that moved; every cause where none of these did."""
    moved = {cause for name, causes in CAUSES.items() if (scores.get(name) or 0.0) > SPEAKS for cause in causes}
    return OrdinaryCauses(tuple(cause for cause in OrdinaryCause if cause in moved or not moved))


def objections(numbers: WindowNumbers, others_too: tuple[str, ...] = (), *, whole_run: bool = False) -> list[Objection]:
    """What speaks against a finding, from the data alone. A finding of the whole run has no edges to touch."""
    against: list[Objection] = []
    computed = len(numbers.computed_inside)
    if numbers.without_values is not None:
        against.append(ValuesUnknown(numbers.without_values))
    elif numbers.not_computed_inside:
        against.append(NotComputedInside(numbers.not_computed_inside, computed, numbers.participated_inside))
    if computed < FEW_COMPUTED and numbers.without_values is None:
        against.append(FewComputed(computed))
    if others_too:
        against.append(OthersMovedToo(Others.named(others_too)))
    against += _values_against(numbers)
    if numbers.participations < max(RARE_COUNT, RARE_SHARE * numbers.epochs_with_participants):
        against.append(RareParticipation(numbers.participations, numbers.epochs_with_participants))
    if numbers.touches_end and not whole_run:
        against.append(TouchesEnd(numbers.window[1]))
    if numbers.touches_start and not whole_run:
        against.append(TouchesStart(numbers.window[0]))
    if numbers.usual_peers <= FEW_PEERS:
        against.append(FewPeers(numbers.usual_peers))
    if numbers.validation_rows is not None and numbers.validation_rows < SMALL_VALIDATION:
        against.append(SmallValidation(numbers.validation_rows))
    if numbers.unreliable_inside:
        against.append(UnreliableValues(numbers.unreliable_inside))
    if numbers.better_without is not None and numbers.better_without <= 0:
        against.append(NotBetterWithout(numbers.utility, numbers.better_without))
    return against


def _values_against(numbers: WindowNumbers) -> list[Objection]:
    """What the values themselves say against harm: by the utility that was read, and by the others."""
    against: list[Objection] = []
    utility, lower, mean, half = numbers.utility, numbers.lower_is_better, numbers.mean_inside, numbers.half_width
    if mean is not None and mean <= 0:
        against.append(NotHarmfulOnAverage(utility, lower, mean, half))
    elif mean is not None and half is not None and half >= mean:
        against.append(IntervalCoversZero(utility, lower, mean, half))
    for other, helped, of in numbers.helped_by:
        if 2 * helped > of:
            against.append(OtherUtilityHelped(other, helped, of))
    return against

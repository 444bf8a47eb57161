"""A sentence for every fact. The only place where a reason, an objection or a remark becomes text.

Sentences describe what was observed in the log; none of them says why somebody did something. Help is up in words: a
harmful client contributed a negative amount. Facts whose other clients were counted instead of named
(``without_others``) give sentences without names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from flcontrib_core.detection import facts as f
from flcontrib_core.detection import objections as o
from flcontrib_core.detection import reasons as r
from flcontrib_core.detection.channels import OWN_DIRECTION
from flcontrib_core.detection.facts import Fact
from flcontrib_core.detection.objections import Objection
from flcontrib_core.detection.reasons import ExactFact, IdleFact, Reason
from flcontrib_core.tagged import Others
from flcontrib_core.words.fact_terms import ALTERNATIVES, UNAVAILABLE, VALUES_UNKNOWN
from flcontrib_core.words.false_alarms import false_alarm_sentence
from flcontrib_core.words.lookalikes import lookalike
from flcontrib_core.words.numbers import (
    as_times,
    credited,
    digits_for,
    epoch_list,
    have,
    interval,
    listing,
    named,
    plain,
    several,
    share,
    signed,
    span,
    spread,
)

WEAKENING_COVERAGE = 0.75
_WITHOUT_CLASSES = "the model on the validation rows (by their loss, or by the first metric where there is none)"


def sentences(facts: Iterable[Fact], client: str) -> list[str]:
    """One sentence per fact, in their order."""
    return [sentence(fact, client) for fact in facts]


def sentence(fact: Fact, client: str) -> str:
    """The fact in words; ``client`` is whom it is about."""
    client = named(client)
    if isinstance(fact, Reason):
        return _reason(fact, client)
    if isinstance(fact, Objection):
        return _objection(fact, client)
    return _rest(fact, client)


def _reason(fact: Reason, client: str) -> str:
    match fact:
        case r.ValueInWindow():
            return _value(fact, client)
        case r.MarginLowered():
            # Without classes harm stands there with the other sign, and is told as harm.
            sign, what = (1, "changes the mean margin") if fact.classes else (-1, f"worsens {_WITHOUT_CLASSES}")
            inside = interval(sign * fact.inside, fact.half_width, 2)
            beside = "" if fact.outside is None else _beside_interval(sign * fact.outside, fact.inside, 2)
            rest = f", outside {beside}" if beside else ""
            return f"Its own step alone {what} by {inside}{rest}."
        case r.StepWorse():
            digits = max(3, digits_for(fact.own, fact.usual))
            own, usual = signed(fact.own, digits), signed(fact.usual, digits)
            what = "changes the validation loss" if fact.classes else f"worsens {_WITHOUT_CLASSES}"
            return (
                f"Its own step alone {what} by {own}, the usual other participant's by {usual} "
                f"(their difference to within {spread(fact.half_width, digits)})."
            )
        case r.ClassSuffers():
            inside, outside = interval(fact.inside, fact.half_width, 2), _beside_interval(fact.outside, fact.inside, 2)
            return f"Its own step alone changes the margin of class {fact.class_index} by {inside}, outside {outside}."
        case r.DirectionChanged():
            inward = fact.channel == OWN_DIRECTION
            to = "of its updates to its own other updates" if inward else "to the other participants"
            return f"The mean cosine {to} is {plain(fact.inside, 2)} inside, {plain(fact.outside, 2)} outside."
        case r.SizeChanged():
            return f"Its updates are {as_times(fact.ratio)} as large inside as outside."
        case r.SpreadChanged():
            return f"Its updates are {as_times(fact.ratio)} as evenly spread over the parameters inside as outside."
        case r.ExpertScore():
            parts = ", ".join(f"{c.name} {signed(c.score, 1)}" for c in fact.channels)
            channels = f" (log Bayes factors in this window: {parts})" if parts else ""
            scores = f"scores {signed(fact.score, 1)} where {signed(fact.threshold, 1)} alerts"
            return f"The {fact.expert} expert {scores}{channels}."
        case r.OversizedHarm():
            return (
                f"Relative to the others, its updates are {as_times(fact.growth)} as large inside as outside, and its "
                f"own step alone raises the validation loss by {as_times(fact.steps)} what a step usually changes it."
            )
        case r.WeighedEvidence():
            return f"Weighed together, what was measured of the window {_weighed(fact)}."
        case r.ClassesMoved():
            return (
                f"{client}'s update helps {fact.up} of {fact.classes} classes more and {fact.down} less than outside "
                f"({share(fact.share_up)} of the movement is upward): its mix of classes seems to have changed."
            )
        case r.HarmfulThroughout():
            return (
                "It stands apart from the others of the same epochs throughout: "
                f"{share(fact.share)} of its computed epochs are harmful."
            )
        case r.WorseInWindow():
            return f"Harmful over the whole run, and more so in {span(fact.window)}."
        case r.CopiesLastStep() | r.WithoutDirection() | r.TinyUpdates() | r.CopiesClient() | r.TooAlike():
            return _idle(fact, client)
        case _:
            return _exact(fact, client)


def _weighed(fact: r.WeighedEvidence | o.WeighsTooLittle) -> str:
    """The sum, its limit, and what counted most with its sign."""
    most = ", ".join(f"{points.measurement} ({signed(points.points, 1)})" for points in fact.most)
    return (
        f"gives log odds of {signed(fact.log_odds, 1)} where {signed(fact.accuses_at, 1)} accuse; most counted {most}"
    )


def _idle(fact: IdleFact | r.TooAlike, client: str) -> str:
    """Why a client contributes nothing of its own, or acts together with others."""
    match fact:
        case r.CopiesLastStep():
            what = f"is nearly the last step of the global model: {_beside(fact.cosine, fact.usual)}"
        case r.WithoutDirection():
            what = (
                "has no direction of its own and none in common with the others: mean cosine "
                f"{plain(fact.own, 2)} to its own other updates (usually {plain(fact.usual_own, 2)}), "
                f"{plain(fact.peer, 2)} to the other participants (usually {plain(fact.usual_peer, 2)})"
            )
        case r.TinyUpdates():
            what = f"is {as_times(fact.ratio)} as long as the other participants'"
        case r.CopiesClient():
            what = f"is nearly the one of {others(fact.clients)}: {_beside(fact.cosine, fact.usual)}"
        case r.TooAlike():
            what = f"and the one of {others(fact.clients)} are too much alike: {_beside(fact.cosine, fact.usual)}"
        case _:
            assert_never(fact)
    times = several(len(fact.epochs), "participation")
    return f"In {epoch_list(fact.epochs, 6)} ({times}), {client}'s update {what}."


def _beside(cosine: float, usual: float) -> str:
    return f"cosine {plain(cosine, 4)}, where {plain(usual, 2)} is usual among the participants"


def _exact(fact: ExactFact, client: str) -> str:
    match fact:
        case r.ZeroUpdates():
            what = "the update is zero"
        case r.DivergingUpdates():
            what = "the update alone leaves the model without a finite output"
        case r.RepeatedOwnUpdates():
            what = f"the update repeats its own of {epoch_list(fact.sources)}"
        case r.CopiedLastGlobalStep():
            what = f"the update is the last step of the global model (cosine at least {plain(fact.least_cosine, 4)})"
        case r.CopiedClient():
            what = f"the update is bit for bit the one of {others(fact.clients)} in the same epoch"
        case _:
            assert_never(fact)
    times = several(len(fact.epochs), "participation")
    return (
        f"In {epoch_list(fact.epochs)} ({times}) of {client}, {what}. This is a fact about the file, not an estimate."
    )


def _value(fact: r.ValueInWindow, client: str) -> str:
    amount = signed(-fact.mean_inside)
    if fact.half_width is not None:
        amount = interval(-fact.mean_inside, fact.half_width)
    outside = None if fact.mean_outside is None else _beside_interval(-fact.mean_outside, fact.mean_inside)
    rest = "" if outside is None else f", outside {outside} (first epochs left out)"
    verb = "is" if fact.harmful == 1 else "are"
    harmful = f"{fact.harmful} of {several(fact.computed, 'computed epoch')} {verb} harmful"
    return (
        f"{client} contributed {amount} of {credited(fact.utility, fact.lower_is_better)} per epoch "
        f"inside {span(fact.window)}{rest}. {harmful}."
    )


def _objection(fact: Objection, client: str) -> str:
    match fact:
        case o.NotComputedInside():
            times = several(fact.participated, "participation")
            there = f"{fact.computed} of {times} there {have(fact.computed)} a value"
            return f"Not computed: {epoch_list(fact.epochs, 6)}. {there}."
        case o.FewComputed():
            known = f"in only {several(fact.computed, 'epoch')}" if fact.computed else "in no epoch"
            return f"Its value there is known {known}."
        case o.ValuesUnknown():
            return VALUES_UNKNOWN[fact.reason]
        case o.OthersMovedToo():
            return f"{_capital(others(fact.clients))} moved in the same epochs."
        case o.NotHarmfulOnAverage():
            amount = signed(-fact.mean_inside)
            if fact.half_width is not None:
                amount = interval(-fact.mean_inside, fact.half_width)
            what = credited(fact.utility, fact.lower_is_better)
            return f"On average its values there are not harmful: {amount} of {what} per epoch."
        case o.IntervalCoversZero():
            return f"The interval of its mean there covers zero ({interval(-fact.mean_inside, fact.half_width)})."
        case o.OtherUtilityHelped():
            return f"By {fact.utility} it helped in {fact.helped} of {several(fact.of, 'computed epoch')} there."
        case o.RareParticipation():
            return f"{client} took part in only {fact.participations} of {several(fact.epochs, 'epoch')}."
        case o.TouchesEnd():
            return "The window reaches the last epoch: a slow honest change that goes on looks the same."
        case o.TouchesStart():
            return "The window begins where the reading begins: early training moves every client."
        case o.FewPeers():
            return f"It was compared with only {several(round(fact.peers), 'other participant')} per epoch."
        case o.SmallValidation():
            return f"The validation set has only {several(fact.rows, 'row')}."
        case o.UnreliableValues():
            return f"The intervals of {epoch_list(fact.epochs, 6)} are marked unreliable."
        case o.WeighsTooLittle():
            return f"Harm was measured, but weighed together all that was measured {_weighed(fact)}."
        case o.FaintChange():
            return "The change by itself is too faint to alert; the client is accused for the harm measured in it."
        case o.NotBetterWithout():
            return "Leaving it out for one step would not have improved the model in these epochs (not a retraining)."
        case o.VanishesUnder():
            gone = listing([ALTERNATIVES[a] for a in fact.alternatives])
            return f"It vanishes in {len(fact.alternatives)} of {fact.settings} alternative settings: {gone}."
        case o.HappenedOnce():
            return "It happened once."
        case o.StillGrowing():
            return "Provisional: the run was still growing. Read it again when it has ended."
        case _:
            return lookalike(fact)


def _rest(fact: o.Context | f.Quiet | f.Remark, client: str) -> str:
    match fact:
        case o.HoldsUnder():
            return f"It holds in {fact.holds} of {fact.settings} alternative settings."
        case o.FalseAlarmRate():
            return false_alarm_sentence(fact)
        case f.BelowThreshold():
            if fact.scales > 0:
                return (
                    f"Its strongest window is {plain(fact.scales, 1)} scales above the threshold; no alert came of it."
                )
            return f"Its strongest window stays {plain(-fact.scales, 1)} scales below the threshold."
        case f.ReflectionOfAnother():
            return "Its strongest window is the reflection of a stronger change by another client."
        case f.OpposedUpdates():
            return (
                f"In {share(fact.share)} of its epochs {client}'s update points away from the other participants'. "
                "Advisory: very different data does the same."
            )
        case f.NeverTookPart():
            return f"{client} never took part: absence is not evidence."
        case f.TooFewParticipations():
            times = several(fact.participations, "epoch")
            return f"{client} took part in {times}: too few to compare a window with the rest."
        case f.AlwaysAlone():
            return f"{client} was always the only participant: there is nobody to compare it with."
        case f.TooFewComparable():
            return f"Too few of {client}'s epochs have an observation that can be compared with other participants."
        case f.ChannelUnavailable():
            return f"Channel {fact.channel} is unavailable: {UNAVAILABLE[fact.reason]}."
        case f.ValuesPartlyComputed():
            return _coverage(fact)
        case f.StandsOutByReflection():
            where = f"{span(fact.window)}, as a reflection of a stronger change by another client"
            return f"{_capital(others(fact.client))} also stands out in {where}."
        case f.ErrorsUnknown():
            return "Some values come without a standard error: their uncertainty could not be counted."
        case _:
            assert_never(fact)


def _coverage(fact: f.ValuesPartlyComputed) -> str:
    text = f"Values were computed for {share(fact.share)} of the participations."
    if not fact.values_alone:
        return f"{text} The channels that need no Shapley value were read in every epoch."
    return f"{text} Budgets below {WEAKENING_COVERAGE:g} weaken detection." if fact.share < WEAKENING_COVERAGE else text


def others(clients: Others) -> str:
    """The other clients by name, or their number where the names were taken out."""
    if clients.names:
        return listing([named(name) for name in clients.names])
    return "another client" if clients.count == 1 else f"{clients.count} other clients"


def _beside_interval(value: float, inside: float, digits: int = 3) -> str:
    """A number in the digits of the one it is compared with."""
    return signed(value, max(digits, digits_for(inside)))


def _capital(text: str) -> str:
    """A counted subject begins its sentence; a name stays as it is."""
    return f"A{text[1:]}" if text == "another client" else text

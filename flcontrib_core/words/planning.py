"""Plans and prices in words: what will be computed, what it costs, and what a choice trades for what."""

from __future__ import annotations

from flcontrib_core.history.preflight import Price
from flcontrib_core.scheduling.effects import Idle, Trade
from flcontrib_core.scheduling.schedule import Schedule
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
        notes.append(f"The price is that of {price.epochs} of {several(epoch_count, 'epoch')}.")
    if price.flagged:
        notes.append(
            f"{several(price.flagged, 'epoch')} {'has' if price.flagged == 1 else 'have'} an update over three times "
            "as long as the median: more is evaluated there."
        )
    if price.most_evaluations is not None and price.most_evaluations > 2 * price.evaluations:
        most = numbers.count(price.most_evaluations)
        notes.append(f"At most {most} evaluations, if the precision asked for is reached late in every epoch.")
    return tuple(notes)


_IDLE = {
    Idle.ALL_SEEN_ALIKE: "Every client took part in the same epochs, so each choice sees all of them equally often.",
    Idle.EPOCHS_ALIKE: "In this mode every epoch of this run adds the same to fairness, so its weight changes nothing.",
    Idle.MODE_HAS_NO_WEIGHT: "This mode does not weigh fairness.",
    Idle.RULE_FILLS_THE_BUDGET: "This mode always takes exactly k epochs.",
    Idle.EVERY_EPOCH: "Every epoch is computed, so there is nothing to choose.",
}


def idle_reason(reason: Idle) -> str:
    """Why a knob changes nothing here."""
    return _IDLE[reason]


def trade_sentence(trade: Trade) -> str:
    """What fairness costs and buys, in points of a hundred."""
    given, gained = round(100 * trade.coverage_given), round(100 * trade.exposure_gained)
    if trade.same_epochs:
        return "These are the epochs of largest movement: fairness changes nothing at this setting."
    if given <= 0 and gained <= 0:
        return "This choice covers as much as the epochs of largest movement and sees the least-seen client no more."
    if gained <= 0:
        are = "is" if given == 1 else "are"
        return f"{_points(given)} of coverage {are} given up and the least-seen client is not seen more often for it."
    if given <= 0:
        return f"The least-seen client gains {_points(gained)} of exposure at no loss of coverage."
    buy = "buys" if given == 1 else "buy"
    return f"{_points(given)} of coverage {buy} the least-seen client {_points(gained)} of exposure."


def _points(number: int) -> str:
    return several(number, "point")


def plan_title(schedule: Schedule) -> str:
    """What these epochs buy, in one sentence."""
    sentence = (
        f"Computing {len(schedule.chosen)} of {schedule.epoch_count} epochs covers "
        f"{numbers.share(schedule.coverage)} of the model's movement"
    )
    if schedule.lowest_exposure is None:
        return sentence
    if schedule.unseen_clients:
        many = len(schedule.unseen_clients)
        return f"{sentence}; {numbers.several(many, 'client is', 'clients are')} never seen"
    everything = schedule.lowest_exposure > 1 - 1e-9  # a sum of shares, rounded
    seen = "all" if everything else f"at least {numbers.share(schedule.lowest_exposure)} of"
    return f"{sentence}; every client is seen in {seen} its epochs"


def proof_words(schedule: Schedule) -> str:
    """How sure it is that no other epochs are better."""
    if schedule.proved_optimal:
        return "proved optimal"
    return f"at most {numbers.plain(schedule.gap, numbers.digits_for(schedule.gap))} below the best"


def method_words(schedule: Schedule) -> str:
    """How the epochs were found."""
    return {"anytime": "search", "enumeration": "trying every choice"}.get(schedule.method, schedule.method)


def unseen_words(schedule: Schedule) -> str:
    """The clients without a single computed epoch."""
    if not schedule.unseen_clients:
        return "No client is left without a computed epoch."
    return f"Never seen: {numbers.listing([numbers.named(client) for client in schedule.unseen_clients], 6)}."


def blind_spot_lines(schedule: Schedule, most: int) -> list[str]:
    """The longest stretches in which a client took part and nothing was computed."""
    return [
        f"{numbers.named(spot.client)}, {numbers.span((spot.first, spot.last))}: "
        f"{several(spot.missed, 'participation')} without a value"
        for spot in schedule.blind_spots[:most]
    ]


def enough_lines(schedule: Schedule) -> list[str]:
    """Which budgets would see every client, and leave no blind spot; a searched schedule's may not be the smallest."""
    everybody, everywhere = schedule.smallest_k_without_blind_clients, schedule.smallest_k_without_blind_spots
    which = "is enough" if schedule.smallest_k_by_search else "is the smallest budget"
    though = "; found by search, so a smaller one may do" if schedule.smallest_k_by_search else ""
    if everybody is not None and everybody == everywhere:
        return [f"k = {everybody} {which} to see every client and leave no blind spot{though}."]
    lines = [] if everybody is None else [f"k = {everybody} {which} to see every client{though}."]
    return lines if everywhere is None else [*lines, f"k = {everywhere} {which} to leave no blind spot{though}."]


def plan_criterion(schedule: Schedule) -> str:
    """By which measure these epochs were chosen, how sure it is that none are better, and what they cost."""
    how_many = "at most" if schedule.at_most else "exactly"
    parts = [f"{schedule.fairness}, γ = {schedule.gamma:g}, {how_many} {schedule.k}"]
    if schedule.lowest_exposure is not None:
        lowest, highest = numbers.share(schedule.lowest_exposure), numbers.share(schedule.highest_exposure)
        parts.append(f"exposure {lowest} to {highest}, gap {schedule.exposure_gap:.2f}")
    parts.append(proof_words(schedule))
    if schedule.unused_budget:
        parts.append(f"{schedule.unused_budget} of the budget unused")
    if schedule.predicted_evaluations is not None:
        parts.append(f"{numbers.count(schedule.predicted_evaluations)} evaluations")
    return " · ".join(parts)

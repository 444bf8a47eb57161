"""How is a finding said, with its numbers, and what speaks against it?

Sentences describe what was observed in the log; none of them says why somebody did something. Help is up in words:
a harmful client contributed a negative amount.
"""

from __future__ import annotations

from flcontrib_core.detection.channels import OWN_DIRECTION, PEER_DIRECTION, SIZE, SPREAD
from flcontrib_core.detection.class_mix import ClassMoves
from flcontrib_core.detection.evidence import WindowFacts
from flcontrib_core.detection.exact_checks import ExactFinding
from flcontrib_core.detection.search import FoundWindow
from flcontrib_core.detection.sensitivity import Sensitivity
from flcontrib_core.words.numbers import listing, plain, signed, span
from flcontrib_core.words.numbers import several as counted

FEW_COMPUTED = 3
RARE_SHARE = 0.25
RARE_COUNT = 8
FEW_PEERS = 2
SMALL_VALIDATION = 100
SPEAKS = 1.0
"""nats from which a channel's movement is worth a sentence"""

LOW_QUALITY = "A client whose data is of low quality looks the same; the log cannot tell the two apart."
ASK_FIRST = "An honest change of the client's data looks like this: ask before anything else."
BROKEN_CLIENT = "A broken or restarted client that sends an old or empty result looks the same."

_MOVED = {
    OWN_DIRECTION: "The mean cosine of its updates to its own others is {inside} inside, {outside} outside.",
    PEER_DIRECTION: "The mean cosine to the other participants is {inside} inside, {outside} outside.",
    SIZE: "Its updates are {ratio} times as large inside as outside.",
    SPREAD: "Its updates are {ratio} times as evenly spread over the parameters inside as outside.",
}


def window_reason(facts: WindowFacts, found: FoundWindow, scores: dict[str, float | None]) -> str:
    """Why a window was reported: values inside and outside, what else moved, and the score against its limit."""
    parts = [value_sentence(facts)]
    for name, (inside, outside) in facts.movements.items():
        score = scores.get(name)
        if score is not None and score > SPEAKS and (name not in (SIZE, SPREAD) or outside > 0):
            ratio = f"{inside / outside:.1f}" if outside > 0 else ""
            parts.append(_MOVED[name].format(inside=plain(inside, 2), outside=plain(outside, 2), ratio=ratio))
    mine = [(name, score) for name in found.expert.weights if (score := scores.get(name)) is not None]
    spoken = ", ".join(f"{name} {signed(score, 1)}" for name, score in sorted(mine, key=lambda pair: -pair[1]))
    parts.append(
        f"The {found.expert.name} expert scores {signed(found.score, 1)} where {signed(found.threshold, 1)} alerts "
        f"(log Bayes factors in this window: {spoken})."
    )
    return " ".join(parts)


def value_sentence(facts: WindowFacts) -> str:
    where = span(facts.window)
    if facts.mean_inside is None:
        took_part = counted(facts.participated_inside, "time")
        return f"In {where} {facts.client} took part {took_part}; none of its values there was computed."
    what = "loss reduction" if facts.utility == "loss" else facts.utility
    text = f"Inside {where} {facts.client} contributed {signed(-facts.mean_inside)} of {what} per epoch"
    text += "." if facts.mean_outside is None else f", outside {signed(-facts.mean_outside)}."
    verb = "is" if facts.harmful_inside == 1 else "are"
    return f"{text} {facts.harmful_inside} of {counted(len(facts.computed_inside), 'computed epoch')} {verb} harmful."


def counter_evidence(facts: WindowFacts, others_too: tuple[str, ...], validation_rows: int | None) -> list[str]:
    """What speaks against a window, from the data alone; sensitivity and false alarms come from elsewhere."""
    said: list[str] = []
    computed = len(facts.computed_inside)
    if facts.not_computed_inside:
        skipped = listing([str(t) for t in facts.not_computed_inside], 6)
        said.append(
            f"Not computed: epoch {skipped}. {computed} of {counted(facts.participated_inside, 'participation')} "
            "in the window have a value."
        )
    if computed < FEW_COMPUTED:
        said.append(f"{f'Only {computed}' if computed else 'No'} computed epoch{'s' * (computed > 1)} in the window.")
    if others_too:
        said.append(f"{listing(others_too)} moved in the same epochs.")
    if facts.mean_inside is not None and facts.mean_inside <= 0:
        said.append("On average the client's values inside the window are not harmful.")
    elif facts.mean_inside is not None and facts.half_width is not None and facts.half_width >= facts.mean_inside:
        interval = f"{signed(-facts.mean_inside)} ± {facts.half_width:.3g}"
        said.append(f"The interval of its mean inside the window covers zero ({interval}).")
    said += _setting_sentences(facts, validation_rows)
    if facts.unreliable_inside:
        said.append(f"The values of epoch {', '.join(map(str, facts.unreliable_inside[:6]))} are marked unreliable.")
    if facts.better_without is not None and facts.better_without <= 0:
        said.append("Leaving it out for one step would not have improved the model in these epochs (not a retraining).")
    return said


def _setting_sentences(facts: WindowFacts, validation_rows: int | None) -> list[str]:
    said = []
    if facts.participations < max(RARE_COUNT, RARE_SHARE * facts.epochs_with_participants):
        said.append(
            f"{facts.client} took part in only {facts.participations} of {facts.epochs_with_participants} epochs."
        )
    if facts.touches_end:
        said.append("The window reaches the last epoch: a slow honest change that goes on looks the same.")
    if facts.touches_start:
        said.append("The window begins where the reading begins: early training moves every client.")
    if facts.usual_peers <= FEW_PEERS:
        said.append(f"It was compared with only {counted(round(facts.usual_peers), 'other participant')} per epoch.")
    if validation_rows is not None and validation_rows < SMALL_VALIDATION:
        said.append(f"The validation set has only {validation_rows} rows.")
    return said


def persistent_reason(facts: WindowFacts, harmful_share: float) -> str:
    return (
        f"{value_sentence(facts)} It stands apart from the others of the same epochs throughout: "
        f"{harmful_share:.0%} of its computed epochs are harmful."
    )


def mix_reason(client: str, moves: ClassMoves) -> str:
    up, down = int((moves.moves > 0).sum()), int((moves.moves < 0).sum())
    return (
        f"{client}'s update helps {up} of {len(moves.moves)} classes more and {down} less than before "
        f"({moves.share_up:.0%} of the movement is upward): its mix of classes seems to have changed."
    )


def exact_reason(client: str, finding: ExactFinding) -> str:
    window = finding.epochs[0], finding.epochs[-1]
    return (
        f"In {span(window)} ({counted(len(finding.epochs), 'participation')}) of {client}, {finding.detail}. "
        "This is a fact about the file, not an estimate."
    )


def held_sentence(held: Sensitivity | None) -> list[str]:
    if held is None or held.holds == held.settings:
        return []
    return [f"It holds in {held.holds} of {held.settings} alternative settings; not: {listing(held.vanishes)}."]


def rate_sentence(loud: int, runs: int, which: str) -> str:
    """The preset's honest-run rate, as it stands under every alert and in the report."""
    if not runs:
        return "How often honest runs alert at this setting is not known: the calibration holds no honest test runs."
    return f"{loud} of {runs} honest simulated runs alert at this setting ({which})."


def rate_source(loud: int, runs: int, which: str) -> str:
    """The counts behind the rate, to stand inside a sentence."""
    return f"{loud} of {runs} honest simulated runs alert, {which}" if runs else "no honest test runs"

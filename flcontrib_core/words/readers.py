"""One alert for three readers: a line for who answers for the federation, one for who trains the model, and what each
channel measures for who checks the numbers. Also what a report does not say, and what is in it about people."""

from __future__ import annotations

from flcontrib_core.detection import channels as c
from flcontrib_core.detection.findings import Alert, VerdictKind
from flcontrib_core.detection.objections import FewComputed, NotBetterWithout, ValuesUnknown, WeighsTooLittle
from flcontrib_core.detection.reasons import ValueInWindow
from flcontrib_core.words.numbers import credited, digits_for, percent, signed, span
from flcontrib_core.words.verdicts import alert_title, strongest_channels, values_behind

CHANNELS = {
    c.VALUE: "what the update was worth to the model, averaged over all groups of participants",
    c.MARGIN: "how the client's own step alone moves the model's certainty on the validation set",
    c.WORST_CLASS: "how the client's own step alone moves the model's certainty on the class that suffers most",
    c.OWN_DIRECTION: "how far the update points where the client's other updates point",
    c.PEER_DIRECTION: "how far the update points where the other participants' updates point",
    c.SIZE: "the length of the update",
    c.SPREAD: "how evenly the update is spread over the parameters",
    c.ECHO: "how close the update is to an earlier one of the same client",
}
"""What each channel measures, for where it occurs."""
NOT_MEANT = (
    "It does not say why: new data, another label scheme, a broken pipeline or an attack can look the same.",
    "It does not say that anybody acted on purpose, and no word here is a finding about a person.",
    "What the validation set does not measure has no value here.",
)
IN_THE_REPORT = (
    "This report holds the clients' names as the log has them, how often each took part, its data size, its value in "
    "every epoch, what was observed about it, and the names of those who decided. It holds no training data and no "
    "model parameters. Give it to those who may see all clients; for a single client there is the extract."
)
IN_THE_EXTRACT = (
    "This extract holds one client's own series, what was observed about it, what was decided and by whom, and the "
    "sha256 of its own updates. It withholds the run's descriptive name, every other client's name, value, total and "
    "rank, and texts that were not meant for the client. The grey band is the only thing said of the others, and only "
    "where at least five took part."
)


def manager_line(alert: Alert) -> str:
    """What happened, without a technical word; how sure that is."""
    return f"{alert_title(alert)}. {meaning_line(alert)}"


def meaning_line(alert: Alert) -> str:
    """The same where the alert's title stands above it already."""
    sure = "This is a fact about the file, not an estimate."
    if alert.probability is not None:
        sure = f"How sure: {percent(min(alert.probability, 0.99))}{' or more' if alert.probability > 0.99 else ''}."
    return f"{_meaning(alert)} {sure}"


def _meaning(alert: Alert) -> str:
    match alert.verdict:
        case VerdictKind.POISONING_WINDOW:
            though = " Leaving it out of single steps, though, would not have improved the model."
            unmoved = any(isinstance(fact, NotBetterWithout) for fact in alert.evidence_against)
            return f"Measured step by step, its updates of that time did harm.{though if unmoved else ''}"
        case VerdictKind.PERSISTENTLY_HARMFUL:
            return (
                "Its updates made the shared model worse from beginning to end. Data of low quality does the same, and "
                "the log cannot tell the two apart: ask the client."
            )
        case VerdictKind.EXACT_FINDING if alert.accuses:
            return "Ordinary training does not produce such updates; a broken client can."
        case VerdictKind.EXACT_FINDING:
            return "Training does not make two equal updates; which of them was copied, the log cannot tell: ask all."
        case VerdictKind.CONTRIBUTES_NOTHING:
            return "It took part, and the shared model gained nothing from it."
        case VerdictKind.ACTS_TOGETHER:
            return "Its updates are too like those of others to be independent."
        case _:
            return f"{_harm_of_a_question(alert)}; ask the client what changed."


def _harm_of_a_question(alert: Alert) -> str:
    """What is known of harm where nobody is accused: that it weighs too little, or cannot be known, is not none."""
    against = alert.evidence_against
    if any(isinstance(fact, WeighsTooLittle) for fact in against):
        return "Harm was measured, but all that was measured weighs too little to accuse"
    if any(isinstance(fact, ValuesUnknown) and not fact.reason.measurable for fact in against):
        return "Whether the shared model was harmed cannot be measured in this log"
    if any(isinstance(fact, FewComputed) and not fact.computed for fact in against):
        return "No value was computed there that could show harm"
    return "No harm to the shared model was measured"


def engineer_line(alert: Alert) -> str:
    """What was measured, in the words of who trains the model."""
    parts = []
    value = alert.reason(ValueInWindow)
    if value is not None:
        name = credited(value.utility, value.lower_is_better)
        digits = max(3, digits_for(value.mean_inside))
        outside = "" if value.mean_outside is None else f" against {signed(-value.mean_outside, digits)} outside"
        parts.append(f"{name} per epoch {signed(-value.mean_inside, digits)} in {span(value.window)}{outside}")
    speaking = strongest_channels(alert, most=3)
    if speaking:
        parts.append(f"strongest channels: {speaking}")
    parts.append(values_behind(alert))
    said = "; ".join(parts)
    return f"{said[0].upper()}{said[1:]}."


def channel_meaning(name: str) -> str:
    """What a channel measures; empty for one that is not known here."""
    return CHANNELS.get(name, "")

"""What else looks like a finding: the first objection to every alert, as a sentence."""

from __future__ import annotations

from typing import assert_never

from flcontrib_core.detection import objections as o
from flcontrib_core.words.fact_terms import CAUSES
from flcontrib_core.words.numbers import listing


def lookalike(
    fact: o.LooksLikeLowQuality
    | o.AskFirst
    | o.OtherCausesLookTheSame
    | o.OrdinaryCauses
    | o.BrokenClientLooksTheSame
    | o.SharedWorkLooksTheSame
    | o.SourceUnknown,
) -> str:
    """What else looks like this."""
    match fact:
        case o.LooksLikeLowQuality():
            return "A client whose data is of low quality looks the same; the log cannot tell the two apart."
        case o.AskFirst():
            return "An honest change of the client's data looks like this: ask before anything else."
        case o.OtherCausesLookTheSame():
            return "New data, a new label scheme or a broken pipeline look the same from outside."
        case o.OrdinaryCauses():
            causes = listing([CAUSES[c] for c in fact.causes], len(CAUSES))
            return f"Ordinary causes of such a change: {causes}. Ask before anything else."
        case o.BrokenClientLooksTheSame():
            return "A broken or restarted client that sends an old or empty result looks the same."
        case o.SharedWorkLooksTheSame():
            return "Sites that share their rows, a machine or the seed of their software look the same."
        case o.SourceUnknown():
            return "One of them may have been copied without knowing, and the log cannot tell which: ask them all."
        case _:
            assert_never(fact)

"""Every sentence and number format the dashboard shows, in one place.

The tool never calls a client dishonest: it says what was observed, how sure it is, and what speaks against it.
"""

from __future__ import annotations

MINUS = "−"
THIN = "\u2009"


def signed(value: float | None, digits: int = 3) -> str:
    """+0.078, −0.064, 0, or 'not computed'."""
    if value is None or value != value:
        return "not computed"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0.0:
        return "0"
    return ("+" if value > 0 else MINUS) + text


def probability(value: float | None) -> str:
    """Two digits, never more than 0.99: no probability from a finite log is certain."""
    return "–" if value is None or value != value else f"{min(value, 0.99):.2f}"


def count(number: int) -> str:
    """1 152 with thin spaces."""
    return f"{number:,}".replace(",", THIN)


def share(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.0%}"


def window(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}–{last}"


def seconds(value: float) -> str:
    """0.4 s, 41 s, 3 min, 2.1 h."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 90:
        return f"{value:.0f} s"
    if value < 5400:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h"


def several(number: int, one: str, many: str | None = None) -> str:
    """1 client, 2 clients."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def credited(utility: str, lower_is_better: bool) -> str:
    """What a contribution means when help is up."""
    return f"{utility} reduction" if lower_is_better else f"{utility} gain"


TAKEN_PART = "took part, computed"
NOT_COMPUTED = "took part, not computed (budget)"
ABSENT = "absent"
OBSERVED_ONLY = "This describes what was observed in the log. It does not say why."
EMPTY = "No run yet. This is a sample; drop your own log to replace it."

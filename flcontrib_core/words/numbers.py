"""Numbers, probabilities, spans and amounts as text: the one spelling of each, for every skin.

Help is up: contributions are turned so that a positive number helped the model, and every axis says so in words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from flcontrib_core.vocabulary import Orientation

MINUS = "−"
THIN = "\u2009"
NO_VALUE = "–"
_ACRONYMS = {"mse": "MSE", "mae": "MAE", "r2": "R²", "iou": "IoU"}
"""Utilities that are written otherwise than they are named."""


ROUNDING = 1e-15
SMALLEST_DECIMAL = 1e-5
"""What is smaller is written with its power of ten."""


def signed(value: float | None, digits: int = 3) -> str:
    """+0.078, −0.064, 0, or 'not computed'. A value too small for the digits is not called 0: it gets two of its own,
    unless it is what rounding leaves of a difference of numbers around one.

    >>> signed(-0.0781), signed(0.0), signed(0.00042), signed(-3.7e-17), signed(None)
    ('−0.078', '0', '+0.00042', '0', 'not computed')
    """
    if value is None or value != value:
        return "not computed"
    if abs(value) < ROUNDING:
        return "0"
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        small = abs(value) < SMALLEST_DECIMAL
        text = f"{abs(value):.1e}".replace("-", MINUS) if small else f"{abs(value):.{digits_for(value)}f}"
    return ("+" if value > 0 else MINUS) + text


def plain(number: float, digits: int) -> str:
    """A number without a sign of its own unless it is negative: 0.81, −0.12."""
    return f"{number:.{digits}f}".replace("-", MINUS)


def half_width(standard_error: float, digits: int = 3) -> str:
    """What stands behind a number: exact, its 95% half-width, or that the method gives none."""
    if standard_error != standard_error:
        return "error unknown"
    if standard_error == 0:
        return "exact"
    return f"± {1.96 * standard_error:.{digits}f}" if 1.96 * standard_error >= 10**-digits else f"± < {10**-digits:g}"


def interval(value: float, half: float, digits: int = 3) -> str:
    """'−0.062 ± 0.011': a number with the half-width of its 95% interval, in as many digits as both need.

    >>> interval(-0.0621, 0.0108), interval(-0.0621, 0.00004), interval(-0.0016, 0.0003)
    ('−0.062 ± 0.011', '−0.062 ± < 0.001', '−0.0016 ± 0.0003')
    """
    digits = max(digits, digits_for(value, half))
    return f"{signed(value, digits)} ± {spread(half, digits)}"


def spread(half: float, digits: int = 3) -> str:
    """A half-width in so many digits; one that is smaller is not called 0.

    >>> spread(0.0162), spread(0.0002)
    ('0.016', '< 0.001')
    """
    text = f"{half:.{digits}f}"
    return text if float(text) > 0 or half == 0 else f"< {10**-digits:.{digits}f}"


def probability(value: float | None) -> str:
    """Two digits, never more than 0.99 nor less than 0.01: no probability from a finite log is certain."""
    if value is None or value != value:
        return NO_VALUE
    return "< 0.01" if value < 0.01 else f"{min(value, 0.99):.2f}"


def digits_for(*values: float) -> int:
    """Decimals at which numbers of this size still differ: 2 for 0.4, 3 for 0.013, 4 for 0.0026; never above 6."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return 2 if largest == 0 else min(6, max(2, 1 - math.floor(math.log10(largest))))


def count(number: int) -> str:
    """1 152 with thin spaces."""
    return f"{number:,}".replace(",", THIN)


def several(number: int, one: str, many: str | None = None) -> str:
    """1 client, 2 clients."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def have(number: int) -> str:
    """'has' for one, 'have' for any other number."""
    return "has" if number == 1 else "have"


def share(value: float | None) -> str:
    """34%, or a dash where there is none; a part is never called all or nothing: >99%, <1%."""
    if value is None or value != value:
        return NO_VALUE
    if 0.995 <= value < 1 - 1e-9:
        return ">99%"
    return "<1%" if 1e-9 < value < 0.005 else f"{value:.0%}"


def percent(value: float) -> str:
    """34%, 1.6%, 0.02%, 0%: two digits that say something."""
    return f"{100 * value:.2g}%" if value < 0.1 else share(value)


def window(first: int, last: int) -> str:
    """12–20, or 12 alone."""
    return f"{first}" if first == last else f"{first}–{last}"


def span(epochs: tuple[int, int]) -> str:
    """'epochs 12–20', 'epoch 7'."""
    return f"epoch {epochs[0]}" if epochs[0] == epochs[1] else f"epochs {window(*epochs)}"


def epoch_list(epochs: Sequence[int], most: int | None = None) -> str:
    """Epochs as runs of neighbours; beyond ``most`` runs only how many more epochs there are.

    >>> epoch_list([1, 2, 3, 7]), epoch_list([1, 3, 5, 6, 9], 2)
    ('epochs 1–3, 7', 'epochs 1, 3 and 3 more')
    """
    runs: list[list[int]] = []
    for t in sorted(set(epochs)):
        if runs and runs[-1][1] == t - 1:
            runs[-1][1] = t
        else:
            runs.append([t, t])
    listed = ", ".join(window(a, b) for a, b in runs[:most])
    rest = sum(b - a + 1 for a, b in runs[most:]) if most is not None else 0
    more = f" and {rest} more" if rest else ""
    return f"epoch {listed}" if len(runs) == 1 and runs[0][0] == runs[0][1] else f"epochs {listed}{more}"


def named(client: str) -> str:
    """A client as words speak of it: an id without a letter would read as an amount, an epoch or a class, and one of
    small letters alone as a word of the sentence.

    >>> named("hospital-a"), named("Oslo"), named("11"), named("loss"), named("all others")
    ('hospital-a', 'Oslo', 'client 11', 'client loss', 'client all others')
    """
    reads_as_text = all(c.islower() or c == " " for c in client) or not any(c.isalpha() for c in client)
    return f"client {client}" if reads_as_text else client


def in_order(clients: Iterable[str]) -> list[str]:
    """Clients as a reader would list them: 2 stands before 10.

    >>> in_order(["site 10", "site 2", "10", "9"])
    ['9', '10', 'site 2', 'site 10']
    """
    return sorted(clients, key=place_of)


@lru_cache(maxsize=1 << 14)
def place_of(client: str) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """What ``in_order`` compares: digits by their number, all else by its letters."""
    parts = [part for part in re.split(r"(\d+)", client) if part]
    return tuple((not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts), client


def listing(names: Sequence[str], most: int = 4) -> str:
    """The first names and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def seconds(value: float) -> str:
    """0.4 s, 41 s, 3 min, 2.1 h; what would be rounded to nothing is 'under 0.1 s'."""
    if 0 < value < 0.05:
        return "under 0.1 s"
    if value < 10:
        return f"{value:.1f} s"
    if value < 90:
        return f"{value:.0f} s"
    if value < 5400:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h"


def size(number: int) -> str:
    """812 B, 3.4 kB, 210 MB."""
    amount, unit = float(number), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"


def moment(stamp: str) -> str:
    """'2026-11-16 17:20 UTC' from a stored time."""
    return f"{stamp[:16].replace('T', ' ')} UTC" if stamp else ""


def measure(utility: str) -> str:
    """A utility as words speak of it.

    >>> measure("loss"), measure("mse")
    ('loss', 'MSE')
    """
    return _ACRONYMS.get(utility, utility)


def capital(text: str) -> str:
    """The text with a capital first letter, and the others as they are.

    >>> capital("MSE reduction"), capital("loss reduction")
    ('MSE reduction', 'Loss reduction')
    """
    return text[:1].upper() + text[1:]


def titled(utility: str) -> str:
    """A utility at the head of a column or on a button: 'Loss', 'MSE'."""
    return capital(measure(utility))


def credited(
    utility: str, lower_is_better: bool, orientation: Orientation = Orientation.HELP_UP, initial: bool = False
) -> str:
    """What a contribution means: by default help is up; the paper's share of a loss rises with harm.

    >>> credited("loss", True), credited("loss", True, Orientation.PAPER, initial=True)
    ('loss reduction', 'share of the loss (up is harm), initial model included')
    """
    name = measure(utility)
    shown = f"{name} reduction" if lower_is_better else f"{name} gain"
    if orientation is Orientation.PAPER:
        shown = f"share of the {name} (up is {'harm' if lower_is_better else 'help'})"
    return f"{shown}, initial model included" if initial else shown


def visible(text: str) -> str:
    """Text with names for what would not be seen, or would turn a line around: a name shows literally.

    >>> visible("ab\\u202egpj.exe"), visible("two\\nlines")
    ('ab[U+202E]gpj.exe', 'two[U+000A]lines')
    """
    return text if text.isprintable() else "".join(c if _seen(c) else f"[U+{ord(c):04X}]" for c in text)


def _seen(character: str) -> bool:
    return unicodedata.category(character) not in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def as_times(ratio: float) -> str:
    """How many times as large.

    >>> as_times(3.04), as_times(0.123)
    ('3.0 times', '0.12 times')
    """
    return f"{ratio:.1f} times" if ratio >= 0.95 else f"{ratio:.2g} times"

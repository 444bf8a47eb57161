"""Finds client names that a reader could mistake for one another.

A small table of look-alikes (Cyrillic, Greek, and the usual digits) is enough for a warning; it is not the full
Unicode confusables list, and nothing is refused because of it.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

import numpy as np

from flcontrib_core.errors import Problem
from flcontrib_core.runs.log_checks import MAX_PER_CODE
from flcontrib_core.runs.problems import problem, shown

_LOOK_ALIKES = str.maketrans(
    # Cyrillic small, Cyrillic capital, Greek small, Greek capital, Armenian and Latin neighbours, digits
    "аеорсухіјѕԁһԛԝӏкмтвн" "АВЕКМНОРСТХУІЈЅ" "αονρικτυχ" "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" "օսոցıɡ" "0O1I|",
    "aeopcyxijsdhqwlkmtbh" "ABEKMHOPCTXYIJS" "aovpiktux" "ABEZHIKMNOPTYX" "ounqig" "oolll",
)  # fmt: skip


_LONGEST_PIECE = 4
"""A sign that stands for more letters than this is mistaken for nothing but itself."""


class _Signs:
    """What is known of each distinct sign of some ids: names are long and many, their signs are few."""

    def __init__(self, identities: Sequence[str]) -> None:
        signs = _distinct(identities)
        self.invisible = frozenset(sign for sign in signs if _invisible(sign))
        scripts = {sign: unicodedata.name(sign, "").split(" ")[0] for sign in signs if sign.isalpha()}
        self._latin = frozenset(sign for sign, script in scripts.items() if script == "LATIN")
        self._others = frozenset(sign for sign, script in scripts.items() if script in ("CYRILLIC", "GREEK"))
        self._seen_as = {ord(sign): self._piece(sign) for sign in signs}

    def _piece(self, sign: str) -> str:
        """Compatibility forms taken apart, invisible signs gone, look-alikes replaced, case folded."""
        if sign.isspace():
            return " "
        apart = unicodedata.normalize("NFKD", sign)
        pieces = (c for c in (apart if len(apart) <= _LONGEST_PIECE else sign) if not _invisible(c))
        return "".join(pieces).translate(_LOOK_ALIKES).casefold()

    def skeleton(self, identity: str) -> str:
        """What the eye sees of a name."""
        return " ".join(identity.translate(self._seen_as).replace("rn", "m").split())

    def odd(self, identity: str) -> bool:
        """Does the name hold invisible signs, nothing else than spaces, or Latin letters beside Cyrillic or Greek?"""
        if identity.isspace():
            return True
        if self.invisible and not self.invisible.isdisjoint(identity):
            return True
        mixed = bool(self._others) and not self._others.isdisjoint(identity)
        return mixed and not self._latin.isdisjoint(identity)


def _distinct(identities: Sequence[str]) -> list[str]:
    """The signs that occur, by marking their numbers: a set of all characters would look at each in Python."""
    occurs = np.zeros(sys.maxunicode + 1, dtype=bool)
    for begin in range(0, len(identities), 4096):
        text = "".join(identities[begin : begin + 4096]).encode("utf-32-le", "surrogatepass")
        occurs[np.frombuffer(text, dtype="<u4")] = True
    return [chr(code) for code in np.flatnonzero(occurs)]


def skeleton(identity: str) -> str:
    """What the eye sees: compatibility forms joined, invisible signs gone, look-alikes replaced, one kind of space.

    >>> skeleton("cl\u0456ent") == skeleton("client")
    True
    """
    return _Signs([identity]).skeleton(identity)


_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters and marks that are drawn as nothing."""


def _invisible(character: str) -> bool:
    if character in _BLANK or unicodedata.name(character, "").startswith("VARIATION SELECTOR"):
        return True
    return unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()


def confusable_evidence(identities: Sequence[str]) -> list[Problem]:
    """A warning per group of ids that look alike, and per id with invisible signs or letters of two scripts."""
    signs = _Signs(identities)
    alike: dict[str, list[str]] = {}
    skeletons: dict[str, str] = {}
    for identity in identities:
        # Capitals first: a capital I looks like a small l, and yet SITE and site are one name to most people.
        seen = skeletons.setdefault(identity.casefold(), signs.skeleton(identity))
        alike.setdefault(seen, []).append(identity)
    problems: list[Problem] = []
    for group in alike.values():
        if len(group) > 1:
            names = " and ".join(f"{shown(name, 60)} ({_escaped(name)})" for name in group[:3])
            problems.append(_warning(names + (f" and {len(group) - 3} more" if len(group) > 3 else ""), tuple(group)))
        elif signs.odd(group[0]):
            words = "invisible signs or letters of two scripts"
            problems.append(_warning(f"{shown(group[0], 60)} ({_escaped(group[0])}): {words}", (group[0],)))
        if len(problems) == MAX_PER_CODE:
            break
    return problems


def _escaped(name: str) -> str:
    return shown(name.encode("ascii", "backslashreplace").decode(), 60)[1:-1]


def _warning(found: str, clients: tuple[str, ...]) -> Problem:
    return problem("W_CONFUSABLE", "manifest.json:clients", found, clients=clients)

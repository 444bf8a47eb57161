"""Could two client names be mistaken for one another by a reader?

A small table of look-alikes (Cyrillic, Greek, and the usual digits) is enough for a warning; it is not the full
Unicode confusables list, and nothing is refused because of it.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence

from flcontrib_core.errors import Problem
from flcontrib_core.runs.log_checks import MAX_PER_CODE
from flcontrib_core.runs.problems import shown

_LOOK_ALIKES = str.maketrans(
    # Cyrillic small, Cyrillic capital, Greek small, Greek capital, Armenian and Latin neighbours, digits
    "аеорсухіјѕԁһԛԝӏкмтвн" "АВЕКМНОРСТХУІЈЅ" "αονρικτυχ" "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" "օսոցıɡ" "0O1I|",
    "aeopcyxijsdhqwlkmtbh" "ABEKMHOPCTXYIJS" "aovpiktux" "ABEZHIKMNOPTYX" "ounqig" "oolll",
)  # fmt: skip


def skeleton(identity: str) -> str:
    """What the eye sees: compatibility forms joined, invisible signs gone, look-alikes replaced, one kind of space.

    >>> skeleton("cl\u0456ent") == skeleton("client")
    True
    """
    visible = "".join(c for c in unicodedata.normalize("NFKC", identity) if not _invisible(c))
    return " ".join(visible.translate(_LOOK_ALIKES).casefold().replace("rn", "m").split())


def _invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()


def _mixes_scripts(identity: str) -> bool:
    """Latin letters beside Cyrillic or Greek ones inside one name."""
    scripts = {unicodedata.name(c, "").split(" ")[0] for c in identity if c.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "GREEK"})


def confusable_evidence(identities: Sequence[str]) -> list[Problem]:
    """A warning per group of ids that look alike, and per id with invisible signs or letters of two scripts."""
    problems: list[Problem] = []
    alike: dict[str, list[str]] = defaultdict(list)
    for identity in identities:
        alike[skeleton(identity)].append(identity)
    for group in alike.values():
        if len(group) > 1:
            names = " and ".join(f"{shown(name, 60)} ({_escaped(name)})" for name in group[:3])
            problems.append(_warning(names + (f" and {len(group) - 3} more" if len(group) > 3 else ""), tuple(group)))
            continue
        (name,) = group
        if any(_invisible(c) for c in name) or _mixes_scripts(name):
            problems.append(
                _warning(f"{shown(name, 60)} ({_escaped(name)}): invisible signs or letters of two scripts", (name,))
            )
    return problems[:MAX_PER_CODE]


def _escaped(name: str) -> str:
    return shown(name.encode("ascii", "backslashreplace").decode(), 60)[1:-1]


def _warning(found: str, clients: tuple[str, ...]) -> Problem:
    return Problem(
        "W_CONFUSABLE",
        "manifest.json:clients",
        found,
        "names that cannot be mistaken for each other",
        "Compare the escaped forms.",
        clients,
    )

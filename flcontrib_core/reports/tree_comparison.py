"""Two JSON trees side by side: every leaf is compared, numbers to the last bit or within a stated tolerance.

Places are tuples of keys, so that a client called ``notes`` or ``settings`` is never mistaken for a field of that name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str | int, ...]
RELATIVE = 1e-4
ABSOLUTE = 1e-6
"""On another platform, where float32 models differ in their last bits; measured with models moved by 1e-7."""
_MISSING = "missing"
_BY_CLIENT = {"per_epoch", "standard_error", "total", "total_standard_error", "total_worst_case"}


@dataclass(frozen=True)
class Difference:
    """One place where report and recomputation differ."""

    where: str
    report: Any
    recomputed: Any

    def sentence(self) -> str:
        """The place with both values."""
        return f"{self.where}: report {_shown(self.report)}, recomputed {_shown(self.recomputed)}"

    def to_json(self) -> dict[str, Any]:
        """The place with both values, for programs."""
        return {"where": self.where, "report": self.report, "recomputed": self.recomputed}


@dataclass(frozen=True)
class TreeComparison:
    """How strictly two trees are compared. No leaf is ever left out."""

    exact: bool
    """True: same platform and versions, every number to the last bit."""
    clients: Sequence[str] = ()
    """names of the rows of values, to say whose number differs"""
    steps: Mapping[str, float] = field(default_factory=dict)
    """utility that counts rows -> one row's share: a tie that falls otherwise on another platform moves it by that"""

    def differences(self, report: Any, fresh: Any, place: Place = ()) -> Iterator[Difference]:
        """Every leaf that differs, in the order of the fresh tree."""
        if isinstance(report, dict) and isinstance(fresh, dict):
            for key in [*fresh, *(k for k in report if k not in fresh)]:
                yield from self.differences(report.get(key, _MISSING), fresh.get(key, _MISSING), (*place, key))
        elif isinstance(report, list) and isinstance(fresh, list) and len(report) == len(fresh):
            for n, (old, new) in enumerate(zip(report, fresh, strict=True)):
                yield from self.differences(old, new, (*place, n))
        elif isinstance(report, list) and isinstance(fresh, list):
            yield Difference(f"{self.spelled(place)} (length)", len(report), len(fresh))
        elif not self._same(report, fresh, place):
            yield Difference(self.spelled(place), report, fresh)

    def _same(self, report: Any, fresh: Any, place: Place) -> bool:
        if self.exact or not (isinstance(report, float | int) and isinstance(fresh, float)):
            return bool(report == fresh) and type(report) is type(fresh)
        return math.isclose(report, fresh, rel_tol=RELATIVE, abs_tol=ABSOLUTE + self._step(place))

    def _step(self, place: Place) -> float:
        match place:
            case ("utilities" | "server_share", str(utility), *_) | ("clients", int(), "total", str(utility)):
                return self.steps.get(utility, 0.0)
            case _:
                return 0.0

    def spelled(self, place: Place) -> str:
        """'utilities.loss.per_epoch[7].client-03', 'alerts[0].window[1]'."""
        text = ""
        for n, key in enumerate(place):
            if isinstance(key, int):
                whose = self._client_at(place[: n + 1])
                text += f"[{key}]" if whose is None else f".{whose}"
            else:
                text += f".{key}" if text else key
        return text

    def _client_at(self, place: Place) -> str | None:
        """Whose number is at this place of a report's values, which have one entry per client?"""
        match place:
            case ("utilities", str(), str(name), int(n)) if name in _BY_CLIENT and name.startswith("total"):
                return self.clients[n] if n < len(self.clients) else None
            case ("utilities", str(), str(name), int(), int(n)) if name in _BY_CLIENT:
                return self.clients[n] if n < len(self.clients) else None
            case ("participated", int(), int(n)):
                return self.clients[n] if n < len(self.clients) else None
            case _:
                return None


def _shown(value: Any) -> str:
    text = "not computed" if value is None else str(value)
    return text if len(text) <= 200 else text[:197] + "…"

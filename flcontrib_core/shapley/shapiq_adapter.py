"""shapiq's own approximators as estimators of an epoch's game.

``shapiq:NAME`` runs the library's approximator of that name through the same oracle, budget and seed as ours, so
that the field's best library estimators are peers at equal cost. The game is asked one utility at a time with the
same random state; the approximators draw coalitions without looking at values, so all utilities share them. ShaplEIG
chooses them by their values: there each utility has the budget to itself, and all that was evaluated is counted.

Budget: shapiq counts ∅, we do not, hence N + 1. Three approximators count calls instead of distinct coalitions; they
are rehearsed on an empty game to find the library budget that spends N distinct ones. Default:
``costs.default_evaluations``. Regression approximators sample in pairs (S, N∖S), as their authors advise.
No standard errors. Needs the optional package shapiq (``pip install flcontrib[bench]``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isabstract
from typing import Any

import numpy as np

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.base import Sample, SamplingEstimator
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.registry import PREFIX
from flcontrib_core.shapley.remarks import LibraryMessage
from flcontrib_core.vocabulary import FloatArray

NEWER = ("LeverageSHAP", "OddSHAP", "PolySHAP", "RegressionMSR", "ShaplEIG")
"""In shapiq from 1.8 on, which needs Python 3.12."""
APPROXIMATORS = (
    "KernelSHAP",
    "kADDSHAP",
    *NEWER,
    "OwenSamplingSV",
    "PermutationSamplingSV",
    "ProxySPEX",
    "SPEX",
    "StratifiedSamplingSV",
    "SVARM",
    "UnbiasedKernelSHAP",
)
_COUNTS_CALLS = frozenset({"OwenSamplingSV", "PermutationSamplingSV", "StratifiedSamplingSV"})
_FIRST_ORDER = {"index": "SV", "max_order": 1}
_PAIRED = {"pairing_trick": True}
_OPTIONS: dict[str, dict[str, Any]] = {
    "KernelSHAP": _PAIRED,
    "kADDSHAP": _PAIRED,
    "UnbiasedKernelSHAP": _PAIRED,
    "ProxySPEX": _FIRST_ORDER,
    "SPEX": _FIRST_ORDER,
    "RegressionMSR": {"index": "SV"},
    "ShaplEIG": {"show_progress": False},
}

Game = Callable[[np.ndarray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Shapiq(SamplingEstimator):
    """One of shapiq's approximators of the Shapley value as an estimator of ours: ``Shapiq(name="SVARM")``."""

    name: str = "SVARM"
    """The approximator's name in shapiq; kept with the prefix of this adapter, 'shapiq:SVARM'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        by_lower = {name.lower(): name for name in APPROXIMATORS}
        given = self.name.removeprefix(PREFIX)
        if given.lower() not in by_lower:
            raise SettingsError(f"shapiq has no approximator {given!r} here; choose from {', '.join(APPROXIMATORS)}")
        object.__setattr__(self, "name", PREFIX + by_lower[given.lower()])

    @property
    def approximator(self) -> str:
        """The class in shapiq."""
        return self.name.removeprefix(PREFIX)

    def sample(self, ledger: Ledger, rng: np.random.Generator) -> Sample:
        """Every utility with the same draws; no standard errors."""
        oracle = ledger.oracle
        build = self._builder(oracle.players, seed=int(rng.integers(2**31 - 1)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            library_budget = self._library_budget(build, ledger)
            columns = []
            for utility in range(len(oracle.utilities)):
                own = Ledger(oracle, ledger.budget) if self.approximator == "ShaplEIG" else ledger
                columns.append(self._values(build(), library_budget, _one_utility(own, utility), oracle.players))
                ledger.take_over(own)
        said = dict.fromkeys(LibraryMessage("shapiq", str(warning.message)) for warning in caught)
        values = np.stack(columns, axis=1)
        return Sample(values, np.full_like(values, np.nan), tuple(said))

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """As every sampling method; refused without the package even where all coalitions are paid for."""
        self._library()
        return super().estimate(oracle, rng)

    def _library(self) -> Any:
        try:
            import shapiq.approximator as library
        except ImportError as error:
            raise MissingPart(f"{self.name} needs the package shapiq; install it with: pip install shapiq") from error
        return library

    def _builder(self, players: int, seed: int) -> Callable[[], Any]:
        """A factory of freshly seeded approximators, so that each utility sees the same draws."""
        kind = getattr(self._library(), self.approximator, None)
        if kind is None:
            raise MissingPart(f"{self.name} came with shapiq 1.8, which needs Python 3.12; an older one is installed")
        if isabstract(kind):  # what the library puts in the place of a class whose packages are not there
            raise MissingPart(f"{self.name} needs packages that shapiq leaves out; install shapiq with their extra")
        options = {"n": players, "random_state": seed, **_OPTIONS.get(self.approximator, {})}

        def build() -> Any:
            try:
                return kind(**options)
            except ImportError as error:
                raise MissingPart(f"{self.name}: {error}") from error

        return build

    def _library_budget(self, build: Callable[[], Any], ledger: Ledger) -> int:
        """The budget, in the library's counting, that spends the ledger's distinct evaluations and not one more."""
        library_budget = ledger.budget + 1
        if self.approximator not in _COUNTS_CALLS:
            return library_budget
        players = ledger.oracle.players
        best = library_budget
        for _ in range(16):
            seen: set[bytes] = set()
            self._values(build(), library_budget, _rehearsal(seen), players)
            distinct = len(seen - {np.zeros(players, dtype=bool).tobytes()})
            if distinct > ledger.budget:
                break
            best = library_budget
            if distinct == ledger.budget:
                break
            library_budget += ledger.budget - distinct
        return best

    def _values(self, approximator: Any, library_budget: int, game: Game, players: int) -> FloatArray:
        try:
            result = approximator.approximate(budget=library_budget, game=game)
        except ValueError as error:
            raise SettingsError(f"{self.name} with {library_budget - 1} evaluations: {error}") from error
        return np.array([float(result[(player,)]) for player in range(players)])


def _one_utility(ledger: Ledger, utility: int) -> Game:
    """The game shapiq sees: one or many coalitions in, one number each out."""

    def game(coalitions: np.ndarray) -> FloatArray:
        return ledger.evaluate(np.atleast_2d(coalitions).astype(bool))[:, utility]

    return game


def _rehearsal(seen: set[bytes]) -> Game:
    """A game worth nothing that remembers which coalitions were asked."""

    def game(coalitions: np.ndarray) -> FloatArray:
        rows = np.atleast_2d(coalitions).astype(bool)
        seen.update(row.tobytes() for row in rows)
        return np.zeros(len(rows))

    return game

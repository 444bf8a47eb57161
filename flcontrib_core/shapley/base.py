"""Base classes of the estimators here: options as a frozen dataclass, and the course of a sampling method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost, default_evaluations, refuse_too_few
from flcontrib_core.shapley.estimate import ShapleyEstimate
from flcontrib_core.shapley.exact_values import exact_estimate
from flcontrib_core.shapley.ledger import Ledger
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.remarks import EstimatorRemark
from flcontrib_core.vocabulary import PlayerByUtility


@dataclass(frozen=True, kw_only=True)
class BaseEstimator(ABC):
    """An estimator's options, which are its fields: checked when given, compared by value, recorded by name."""

    evaluations: int | None = None
    """Distinct evaluations per epoch; None = the estimator's own default."""

    def __post_init__(self) -> None:
        if self.evaluations is None:
            return
        if isinstance(self.evaluations, bool) or not isinstance(self.evaluations, int | np.integer):
            raise SettingsError(f"evaluations is {self.evaluations!r}; give a whole number, or leave it out")
        object.__setattr__(self, "evaluations", int(self.evaluations))  # a record holds JSON values
        if self.evaluations < 1:
            raise SettingsError(f"evaluations is {self.evaluations}; give at least 1, or leave it out")

    @property
    @abstractmethod
    def name(self) -> str:
        """As the command line, results and messages call it."""

    def record(self) -> dict[str, object]:
        """``name`` and every option, as JSON values."""
        return {"name": self.name, **asdict(self)}

    def budget(self, players: int) -> int:
        """The distinct evaluations it may spend on a game of ``players``."""
        if self.evaluations is None:
            return default_evaluations(players)
        return min(self.evaluations, distinct_coalitions(players))


def one_of(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises SettingsError where an option is none of its choices."""
    if value not in choices:
        raise SettingsError(f"{option} is {value!r}; choose from {', '.join(choices)}")


class Sample(NamedTuple):
    """What a sampling method makes of its draws."""

    values: PlayerByUtility
    errors: PlayerByUtility
    """Standard errors, NaN where the method gives none"""
    remarks: tuple[EstimatorRemark, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SamplingEstimator(BaseEstimator):
    """An estimator that draws coalitions until its evaluations are spent; exact where they pay for all coalitions."""

    @property
    def method(self) -> str:
        """The name with whatever options change the method."""
        return self.name

    def one_draw(self, players: int) -> tuple[int, str]:
        """The fewest evaluations it can do with, and what they are for."""
        return 1, "u(N)"

    @abstractmethod
    def sample(self, ledger: Ledger, rng: np.random.Generator) -> Sample:
        """Draws within the ledger's budget."""

    def cost(self, players: int, multiply_adds: float | None) -> Cost:
        """All it may spend is what it spends."""
        budget = self.budget(players)
        needed, purpose = self.one_draw(players)
        refuse_too_few(self.name, budget, min(needed, distinct_coalitions(players)), purpose)
        return Cost(budget, budget)

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        """Values from the evaluations allowed, with what was done in ``method`` and ``remarks``."""
        budget = self.cost(oracle.players, None).most
        if budget >= distinct_coalitions(oracle.players):
            return exact_estimate(oracle, f"{self.method} (exact: all coalitions)")
        ledger = Ledger(oracle, budget)
        values, errors, remarks = self.sample(ledger, rng)
        return ShapleyEstimate(values, errors, ledger.spent, exact=False, method=self.method, remarks=remarks)

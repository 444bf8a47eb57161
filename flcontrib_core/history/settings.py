"""Which knobs does an assessment have? The same names as on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode
from flcontrib_core.shapley.estimate import EstimatorSettings
from flcontrib_core.vocabulary import FillPolicy, WeightMode


@dataclass(frozen=True)
class AssessSettings:
    """Every knob of an assessment; the same names as on the command line."""

    utilities: tuple[str, ...] = ("loss", "accuracy")
    estimator: str = "auto"
    estimation: EstimatorSettings = field(default_factory=EstimatorSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    weights: WeightMode = WeightMode.ADAPTIVE
    weight_utility: str = "loss"
    fill: FillPolicy = FillPolicy.EQUAL
    nonfinite: str = "refuse"
    """'refuse', or 'absent': non-finite updates count as not taking part, a diverged sub-model skips its epoch."""
    seed: int = 0
    observe: bool = True
    """Record the cheap detection channels in the same pass."""

    def record(self) -> dict[str, object]:
        """The settings as plain JSON values, for provenance, jobs and digests."""
        plain: dict[str, object] = json.loads(json.dumps(asdict(self)))
        return plain


def assess_settings_from_record(record: dict[str, Any]) -> AssessSettings:
    """The inverse of ``AssessSettings.record``; unknown or ill-typed entries are refused by name."""
    try:
        rest = dict(record)
        budget = dict(rest.pop("budget", {}))
        if "fairness" in budget:
            budget["fairness"] = FairnessMode(budget["fairness"])
        if budget.get("epochs") is not None:
            budget["epochs"] = tuple(int(e) for e in budget["epochs"])
        if "utilities" in rest:
            rest["utilities"] = tuple(rest["utilities"])
        for name, kind in (("weights", WeightMode), ("fill", FillPolicy)):
            if name in rest:
                rest[name] = kind(rest[name])
        estimation = EstimatorSettings(**rest.pop("estimation", {}))
        return AssessSettings(**rest, budget=BudgetSettings(**budget), estimation=estimation)
    except (TypeError, ValueError) as wrong:
        raise SettingsError(f"these settings are not ones of this version: {wrong}") from wrong


PAPER_SETTINGS = AssessSettings(
    estimator="complementary",
    budget=BudgetSettings(gamma=1.0, at_most=True, paper_denominator=True),
    fill=FillPolicy.ZERO,
)
"""``--paper``: complementary contributions, at most k, the paper's denominator, zero fill, γ = 1."""

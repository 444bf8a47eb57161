"""Settings of an assessment: the knobs, how they are given flat, and how they are stored and read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypedDict

from flcontrib_core.codec import encode
from flcontrib_core.errors import SettingsError
from flcontrib_core.scheduling.schedule import AuditSpread, BudgetSettings, FairnessMode, Normalisation
from flcontrib_core.shapley.auto import Auto
from flcontrib_core.shapley.complementary import Complementary
from flcontrib_core.shapley.estimate import EpochEstimator, Estimator, RunEstimator
from flcontrib_core.shapley.registry import estimator_by_name, estimator_from_record
from flcontrib_core.vocabulary import FillPolicy, WeightMode

SEEDS = 1 << 32
"""Every library that takes part takes seeds below this."""


@dataclass(frozen=True)
class AssessSettings:
    """Every knob of an assessment; the same names as on the command line.

    ``estimator`` is an object such as ``MonteCarlo(truncate=True)`` or a third party's; a name stands for that
    estimator with its own defaults. One that values the run as a whole takes no budget of epochs.
    """

    utilities: tuple[str, ...] = ("loss", "accuracy")
    estimator: Estimator = field(default_factory=Auto)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    weights: WeightMode = WeightMode.ADAPTIVE
    weight_utility: str = "loss"
    fill: FillPolicy = FillPolicy.EQUAL
    nonfinite: str = "refuse"
    """'refuse', or 'absent': clients whose update holds NaN or infinities count as not taking part there."""
    seed: int = 0
    observe: bool = True
    """Record the cheap detection channels in the same pass."""
    values: bool = True
    """Compute Shapley values. Without them an audit costs about n + 2 evaluations per epoch of n participants."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", _as_estimator(self.estimator))
        for name, kind in (("weights", WeightMode), ("fill", FillPolicy)):
            given = getattr(self, name)  # a word stands for its choice, as on the command line
            if given not in set(kind):
                raise SettingsError(f"{name} is {given!r}; it is one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(given))
        if not 0 <= self.seed < SEEDS:
            raise SettingsError(f"seed is {self.seed}; give a whole number from 0 to {SEEDS - 1}")
        limited = self.budget.budget is not None or self.budget.epochs is not None
        if not self.values and (limited or isinstance(self.estimator, RunEstimator)):
            raise SettingsError(
                "no values are asked for: leave out the budget, which chooses epochs to value, and estimators of the "
                "whole run, which give nothing else"
            )
        if limited and isinstance(self.estimator, RunEstimator):
            raise SettingsError(
                f"{self.estimator.name} values the run as a whole, so a budget of epochs cannot limit it. Leave the "
                "budget out, or use an estimator that works epoch by epoch."
            )

    def record(self) -> dict[str, object]:
        """The settings as plain JSON values, for provenance, jobs and digests.

        ``estimator`` is its name and ``estimation`` its own options.
        """
        estimation = dict(self.estimator.record())
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain |= {"estimator": estimation.pop("name"), "budget": asdict(self.budget)}
        order = {name: plain.pop(name) for name in ("utilities", "estimator")}
        record: dict[str, object] = json.loads(json.dumps({**order, "estimation": estimation, **plain}))
        return record


def _as_estimator(given: object) -> Estimator:
    if isinstance(given, str):
        return estimator_by_name(given)
    if isinstance(given, EpochEstimator | RunEstimator):
        return given
    raise SettingsError(
        f"{given!r} is not an estimator; give a name or an object with name, record() and estimate(oracle, rng)"
    )


class AssessOptions(TypedDict, total=False):
    """The settings of an assessment and its budget, given flat, with plain values for enumerations."""

    utilities: Sequence[str] | str
    estimator: Estimator | str
    budget: float | int | BudgetSettings | None
    epochs: Sequence[int] | None
    fairness: FairnessMode | str
    gamma: float
    at_most: bool
    paper_denominator: bool
    normalise: Normalisation | str
    audit_share: float
    audit_spread: AuditSpread | str
    prove: bool
    proof_seconds: float
    weights: WeightMode | str
    weight_utility: str
    fill: FillPolicy | str
    nonfinite: str
    seed: int
    observe: bool
    values: bool


_CHOICES: dict[
    str, type[FairnessMode] | type[AuditSpread] | type[Normalisation] | type[WeightMode] | type[FillPolicy]
] = {
    "fairness": FairnessMode,
    "audit_spread": AuditSpread,
    "normalise": Normalisation,
    "weights": WeightMode,
    "fill": FillPolicy,
}
_OF_BUDGET = frozenset(f.name for f in fields(BudgetSettings))


def assess_settings(options: AssessOptions, base: AssessSettings | None = None) -> AssessSettings:
    """Settings from flat options, on top of ``base``; an option that does not exist is refused with those that do.

    >>> assess_settings({"estimator": "exact", "budget": 0.5, "fairness": "stride"}).budget.fairness.value
    'stride'
    """
    unknown = [name for name in options if name not in AssessOptions.__annotations__]
    if unknown:
        names = ", ".join(AssessOptions.__annotations__)
        raise SettingsError(f"there is no option {', '.join(unknown)}; the options are {names}")
    plain: dict[str, Any] = {name: _typed(name, value) for name, value in options.items()}
    start = base or AssessSettings()
    budget = plain.pop("budget") if isinstance(plain.get("budget"), BudgetSettings) else start.budget
    own = {name: plain.pop(name) for name in list(plain) if name in _OF_BUDGET and name != "seed"}
    if "seed" in plain:
        own["seed"] = plain["seed"]
    return replace(start, **plain, budget=replace(budget, **own))


def _typed(name: str, value: Any) -> Any:
    """An option's value in the type of its setting."""
    if name in _CHOICES:
        kind = _CHOICES[name]
        try:
            return kind(str(value))
        except ValueError:
            raise SettingsError(f"{name} is {value!r}; choose from {', '.join(kind)}") from None
    if name == "utilities":
        return (value,) if isinstance(value, str) else tuple(value)
    if name == "epochs" and value is not None:
        return tuple(sorted({int(epoch) for epoch in value}))
    return value


_SHARED_OPTIONS = {
    "evaluations": "evaluations",
    "precision": "precision",
    "truncate": "truncate",
    "antithetic": "antithetic",
    "allow_unobserved": "allow_unobserved",
    "exact_multiply_adds": "exact_multiply_adds",
    "rescue_multiply_adds": "rescue_multiply_adds",
    "exact_players": "most_players",
}
"""Options that records of version 0.1.0 hold for every estimator, and what they are called where they belong."""


def assess_settings_from_record(record: dict[str, Any]) -> AssessSettings:
    """The inverse of ``AssessSettings.record``; unknown or ill-typed entries are refused by name."""
    try:
        rest = dict(record)
        name, estimation = str(rest.pop("estimator", "auto")), dict(rest.pop("estimation", {}))
        budget = BudgetSettings(**{k: _typed(k, v) for k, v in dict(rest.pop("budget", {})).items()})
        if "exact_players" in estimation:
            estimator = _from_shared_options(name, estimation)
            if isinstance(estimator, RunEstimator):
                budget = BudgetSettings()  # was recorded and had no effect
        else:
            estimator = estimator_from_record({"name": name, **estimation})
        built = AssessSettings(**{k: _typed(k, v) for k, v in rest.items()}, budget=budget, estimator=estimator)
        _require_declared_types(built)
        return built
    except (TypeError, ValueError) as wrong:
        raise SettingsError(f"these settings are not ones of this version: {wrong}") from wrong


def _require_declared_types(settings: AssessSettings) -> None:
    """Raises TypeError for a value of another type than its setting has: a record may come from anybody."""
    encode(type(settings.estimator), settings.estimator)
    encode(BudgetSettings, settings.budget)
    for own in fields(AssessSettings):
        value, default = getattr(settings, own.name), getattr(_DEFAULTS, own.name)
        if type(value) is not type(default) and own.name not in ("estimator", "budget"):
            raise TypeError(f"{own.name}: {type(value).__name__} is not what its setting takes")
    if not all(isinstance(name, str) for name in settings.utilities):
        raise TypeError("utilities: not all of them are names")


def _from_shared_options(name: str, estimation: dict[str, Any]) -> Estimator:
    """The estimator of a record of version 0.1.0, which lists the options of all estimators; others' had no effect."""
    unknown = [option for option in estimation if option not in _SHARED_OPTIONS]
    if unknown:
        raise SettingsError(f"these settings are not ones of this version: estimation has {', '.join(unknown)}")
    own = estimator_by_name(name).record()
    options = {_SHARED_OPTIONS[option]: value for option, value in estimation.items()}
    return estimator_by_name(name, **{option: value for option, value in options.items() if option in own})


_DEFAULTS = AssessSettings()
PAPER_SETTINGS = AssessSettings(
    estimator=Complementary(),
    budget=BudgetSettings(gamma=1.0, at_most=True, paper_denominator=True, normalise=Normalisation.SUM),
    fill=FillPolicy.ZERO,
)
"""The paper's reading: complementary contributions, at most k, its denominator in the weights shown, each term of the
objective divided by its own sum, zero fill, γ = 1."""

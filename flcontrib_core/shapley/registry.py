"""Which estimators are there, what does each cost, and how does a third party add one?

By name: ``estimator("exact")``. Adding needs no change here: call ``register("mine", MyEstimator)``, or declare an
entry point in the group ``flcontrib.estimators`` whose value is such a factory. A built-in name cannot be replaced.
``shapiq:NAME`` reaches shapiq's approximators. Modules are imported when their estimator is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.costs import Cost, PricedEstimator, surrogate_cost
from flcontrib_core.shapley.estimate import EpochEstimator, EstimatorSettings, RunEstimator
from flcontrib_core.shapley.shapiq_adapter import APPROXIMATORS, PREFIX, ShapiqApproximator

Factory = Callable[[], EpochEstimator | RunEstimator]

ENTRY_POINT_GROUP = "flcontrib.estimators"

BUILT_IN = {
    "auto": "auto:Auto",
    "exact": "exact:Exact",
    "surrogate": "surrogate:LogitSurrogate",
    "surrogate-blackbox": "surrogate_blackbox:BlackBoxSurrogate",
    "complementary": "complementary:Complementary",
    "complementary-neyman": "complementary:ComplementaryNeyman",
    "monte-carlo": "permutation:MonteCarlo",
    "gtg": "gtg:GTGShapley",
    "mr": "mr:MultiRound",
    "tmr": "mr:TruncatedMultiRound",
    "one-round": "one_round:OneRound",
    "fedsv": "fedsv:FedSV",
    "fedsv-group-testing": "fedsv:FedSVGroupTesting",
    "comfedsv": "comfedsv:ComFedSV",
}
"""name -> module of this package and class"""

_registered: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> None:
    """Adds an estimator under a new name; ``factory()`` builds it."""
    if name in BUILT_IN or name.startswith(PREFIX) or name in _registered:
        raise SettingsError(f"there is an estimator {name!r} already; register yours under another name")
    _registered[name] = factory


def unregister(name: str) -> None:
    """Takes back what ``register`` added."""
    if name not in _registered:
        raise SettingsError(f"no estimator was registered as {name!r}")
    del _registered[name]


def names() -> tuple[str, ...]:
    """Every name ``estimator`` understands: built in, registered, from entry points, and shapiq's."""
    added = [*_registered, *(point.name for point in _entry_points())]
    return tuple(dict.fromkeys([*BUILT_IN, *added, *(PREFIX + name for name in APPROXIMATORS)]))


def estimator(name: str) -> EpochEstimator | RunEstimator:
    """A new estimator by name; raises SettingsError listing the names where there is none."""
    if name in BUILT_IN:
        module, kind = BUILT_IN[name].split(":")
        built: EpochEstimator | RunEstimator = getattr(import_module(f"flcontrib_core.shapley.{module}"), kind)()
        return built
    if name.startswith(PREFIX):
        return ShapiqApproximator(name.removeprefix(PREFIX))
    if name in _registered:
        return _registered[name]()
    for point in _entry_points():
        if point.name == name:
            return _from_entry_point(point)
    raise SettingsError(f"no estimator is called {name!r}; choose from {', '.join(names())}")


def is_run_estimator(name: str) -> bool:
    """Whether the method needs the whole sequence of epochs (one-round, comfedsv)."""
    return hasattr(estimator(name), "estimate_run")


def epoch_estimator(name: str) -> EpochEstimator:
    """A method that works epoch by epoch; raises SettingsError for one that needs the whole run."""
    if is_run_estimator(name):
        raise SettingsError(f"{name} values the run as a whole, not one epoch")
    return cast(EpochEstimator, estimator(name))


def run_estimator(name: str) -> RunEstimator:
    """A method that needs the whole run; raises SettingsError for one that works epoch by epoch."""
    if not is_run_estimator(name):
        raise SettingsError(f"{name} values one epoch at a time, not the run as a whole")
    return cast(RunEstimator, estimator(name))


def cost_of(name: str, players: int, multiply_adds: float | None, settings: EstimatorSettings) -> Cost:
    """Likely and largest number of distinct evaluations of an epoch with ``players`` participants.

    ``multiply_adds`` of one evaluation, None for an opaque game. Raises CostRefusal or SettingsError where the
    estimate itself would. A third party's estimator that does not know its price is taken at its budget, or at all
    coalitions. An epoch without participants costs nothing.
    """
    if players == 0:
        return Cost(0, 0)
    if name in ("surrogate", "surrogate-blackbox"):
        return surrogate_cost(players, settings)
    found = estimator(name)
    if isinstance(found, PricedEstimator):
        return found.cost(players, multiply_adds, settings)
    ceiling = distinct_coalitions(players)
    if settings.evaluations is not None:
        ceiling = min(ceiling, settings.evaluations)
    return Cost(ceiling, ceiling)


def refuse_if_exponential(name: str, players: int, settings: EstimatorSettings) -> None:
    """Raises before the first evaluation what the estimator would raise at the epoch with most participants."""
    cost_of(name, players, None, settings)


def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in BUILT_IN)


def _from_entry_point(point: EntryPoint) -> EpochEstimator | RunEstimator:
    try:
        factory: Factory = point.load()
    except (ImportError, AttributeError) as error:
        raise MissingPart(f"the estimator {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    return factory()

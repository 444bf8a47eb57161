"""Estimators by name: for the command line, for stored settings, and for third parties who want a name there.

``estimator_by_name("monte-carlo", truncate=True)`` is ``MonteCarlo(truncate=True)``. From Python nothing has to be
registered: an object is passed as it is. A third party's estimator gets a name by ``register("mine", MyEstimator)``,
or by an entry point in the group ``flcontrib.estimators`` whose value is such a factory; then a stored result that was
computed with it can be replayed. A built-in name cannot be replaced. ``shapiq:NAME`` reaches shapiq's approximators.
Modules are imported when their estimator is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from flcontrib_core.errors import MissingPart, SettingsError
from flcontrib_core.shapley.estimate import EpochEstimator, Estimator, RunEstimator

Factory = Callable[..., Estimator]

ENTRY_POINT_GROUP = "flcontrib.estimators"
PREFIX = "shapiq:"

BUILT_IN: dict[str, tuple[str, str, dict[str, object]]] = {
    "auto": ("auto", "Auto", {}),
    "exact": ("exact", "Exact", {}),
    "surrogate": ("surrogate", "Surrogate", {}),
    "surrogate-blackbox": ("surrogate", "Surrogate", {"outputs": "utilities"}),
    "surrogate-unbiased": ("corrected", "UnbiasedSurrogate", {}),
    "surrogate-blackbox-unbiased": ("corrected", "UnbiasedSurrogate", {"outputs": "utilities"}),
    "complementary": ("complementary", "Complementary", {}),
    "complementary-neyman": ("complementary", "Complementary", {"allocation": "neyman"}),
    "monte-carlo": ("monte_carlo", "MonteCarlo", {}),
    "gradient": ("gradient", "Gradient", {}),
    "gtg": ("gtg", "GTG", {}),
    "mr": ("multi_round", "MultiRound", {}),
    "tmr": ("multi_round", "TruncatedMultiRound", {}),
    "one-round": ("one_round", "OneRound", {}),
    "fedsv": ("fedsv", "FedSV", {}),
    "fedsv-group-testing": ("fedsv", "FedSV", {"sampling": "group-testing"}),
    "comfedsv": ("comfedsv", "ComFedSV", {}),
}
"""name -> module of this package, class, and the options that the name stands for"""

_registered: dict[str, Factory] = {}


def register(name: str, factory: Factory) -> None:
    """Gives a third party's estimator a name; ``factory(**options)`` builds it."""
    if name in BUILT_IN or name.startswith(PREFIX) or name in _registered:
        raise SettingsError(f"there is an estimator {name!r} already; register yours under another name")
    _registered[name] = factory


def unregister(name: str) -> None:
    """Takes back what ``register`` added."""
    if name not in _registered:
        raise SettingsError(f"no estimator was registered as {name!r}")
    del _registered[name]


def names() -> tuple[str, ...]:
    """Every name ``estimator_by_name`` understands: built in, registered, from entry points, and shapiq's."""
    from flcontrib_core.shapley.shapiq_adapter import APPROXIMATORS

    added = [*_registered, *(point.name for point in _entry_points())]
    return tuple(dict.fromkeys([*BUILT_IN, *added, *(PREFIX + name for name in APPROXIMATORS)]))


def estimator_by_name(name: str, **options: object) -> Estimator:
    """A new estimator; raises SettingsError for a name that does not exist or an option it does not have."""
    factory, preset = _factory(name)
    parameters = inspect.signature(factory).parameters
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        unknown = [option for option in options if option not in parameters]
        if unknown:
            own = ", ".join(option for option in parameters if option not in preset) or "none"
            raise SettingsError(f"{name} has no option {', '.join(unknown)}; its options: {own}")
    return factory(**{**preset, **options})


def _factory(name: str) -> tuple[Factory, dict[str, object]]:
    """What builds the estimator, and the options that the name stands for."""
    if name in BUILT_IN:
        module, kind, preset = BUILT_IN[name]
        return getattr(import_module(f"flcontrib_core.shapley.{module}"), kind), preset
    if name.startswith(PREFIX):
        from flcontrib_core.shapley.shapiq_adapter import Shapiq

        return Shapiq, {"name": name}
    if name in _registered:
        return _registered[name], {}
    for point in _entry_points():
        if point.name == name:
            return _from_entry_point(point), {}
    raise SettingsError(f"no estimator is called {name!r}; choose from {', '.join(names())}, or register yours")


def estimator_from_record(record: Mapping[str, object]) -> Estimator:
    """The inverse of an estimator's ``record()``."""
    options = {option: value for option, value in record.items() if option != "name"}
    return estimator_by_name(str(record["name"]), **options)


def epoch_estimator(name: str, **options: object) -> EpochEstimator:
    """A new estimator that works epoch by epoch; raises SettingsError for one that needs the whole run."""
    estimator = estimator_by_name(name, **options)
    if isinstance(estimator, RunEstimator):
        raise SettingsError(f"{name} values the run as a whole, not one epoch")
    return estimator


def _entry_points() -> tuple[EntryPoint, ...]:
    return tuple(point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in BUILT_IN)


def _from_entry_point(point: EntryPoint) -> Factory:
    try:
        factory: Factory = point.load()
    except (ImportError, AttributeError) as error:
        raise MissingPart(f"the estimator {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    return factory

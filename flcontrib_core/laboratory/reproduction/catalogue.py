"""The six figures by name, their price, and how one is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from flcontrib_core.errors import SettingsError
from flcontrib_core.execution.engine import Execution
from flcontrib_core.laboratory.reproduction import (
    ablations,
    aggregation,
    approximations,
    cactus,
    change_points,
    jaccard,
)
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe
from flcontrib_core.laboratory.reproduction.grid import CUT_OFF_SECONDS, Stage, evaluations_per_second, run_instances
from flcontrib_core.vocabulary import OnProgress, no_progress

FIGURES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        cactus.RECIPE,
        ablations.RECIPE,
        approximations.RECIPE,
        change_points.RECIPE,
        jaccard.RECIPE,
        aggregation.RECIPE,
    )
}


def recipe_of(name: str) -> Recipe:
    """Raises SettingsError for an unknown figure, with those there are."""
    if name not in FIGURES:
        raise SettingsError(f"figure {name!r} is unknown; choose from {', '.join(FIGURES)}, or all")
    return FIGURES[name]


def reproduce(
    name: str,
    stage: Stage,
    folder: Path | None = None,
    where: Execution | None = None,
    on_progress: OnProgress = no_progress,
    *,
    only_kept: bool = False,
) -> Figure | None:
    """One figure. ``folder`` keeps every finished instance, so that an interrupted figure goes on where it was;
    ``only_kept`` reads it from those alone, None where there are none, and decides no claim before they are all there.

    Raises SettingsError for an unknown name, MissingPart without the data folder.
    """
    recipe = recipe_of(name)
    instances = recipe.instances(stage)
    outcome = run_instances(
        recipe.name, recipe.work, stage, instances, folder, where or Execution(workers=1), on_progress,
        only_kept=only_kept, price=recipe.evaluations,
    )  # fmt: skip
    if not outcome.instances:
        return None
    figure = recipe.read(stage, outcome.rows)
    spent = replace(figure.shown, seconds=round(outcome.seconds, 3), ran=outcome.instances, planned=len(instances))
    if outcome.instances < len(instances):  # a part of the instances decides nothing
        spent = replace(spent, claims=tuple(replace(claim, holds=None) for claim in spent.claims))
    return replace(figure, shown=replace(spent, seeds=len({i.seed for i in instances})))


def price_of_figures(names: Iterable[str], stage: Stage, workers: int = 1) -> dict[str, float]:
    """About how many seconds each figure takes from the start, from a short measurement on every data set."""
    recipes = [recipe_of(name) for name in names]
    plans = [(recipe, recipe.instances(stage)) for recipe in recipes]
    rates = {d: evaluations_per_second(stage, d) for d in {i.dataset for _, some in plans for i in some}}
    return {
        recipe.name: sum(min(recipe.evaluations(stage, i) / rates[i.dataset], 6 * CUT_OFF_SECONDS) for i in instances)
        / workers
        for recipe, instances in plans
    }

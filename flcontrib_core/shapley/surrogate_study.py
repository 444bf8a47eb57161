"""How does the surrogate spend evaluations, turn them into values, and know when to stop?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.blas import one_blas_thread
from flcontrib_core.errors import NonFiniteUtility, SettingsError
from flcontrib_core.shapley.coalitions import all_coalitions, distinct_coalitions, everybody
from flcontrib_core.shapley.costs import surrogate_cost
from flcontrib_core.shapley.estimate import EstimatorSettings, ShapleyEstimate
from flcontrib_core.shapley.exact import exact_estimate, shapley_from_table
from flcontrib_core.shapley.flagged import flag_words, flagged_players
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.sampled_shapley import sampled_shapley, shapley_of_differences
from flcontrib_core.shapley.simplex_features import AdaptiveFeatures, FixedFeatures
from flcontrib_core.shapley.simplex_kernel import metric_factor, points_of
from flcontrib_core.shapley.surrogate_design import PRIOR, Cell, Guide, next_coalitions
from flcontrib_core.shapley.surrogate_error import SMOOTH, STEPS, standard_errors
from flcontrib_core.shapley.surrogate_model import Evidence, Subject, SurrogateModel
from flcontrib_core.shapley.thresholds import UNIT_RANGE
from flcontrib_core.vocabulary import BoolArray, CoalitionMatrix, FloatArray, PlayerByUtility, UtilityMatrix

SMALL_TABLE, LARGE_TABLE = 12, 16
"""Players up to which the predicted table is always filled, and up to which it is where that is worth its cost."""
SAMPLES = 16384
_DESIGN, _ERROR, _VALUES = 1, 2, 3
"""Independent random streams, so that what one part draws never moves another."""
_READING = 32
"""Multiply-adds that turning one predicted output into utilities is worth in the cost model."""
_TABLE_WORTH = 16.0
"""A table may cost this many times the evaluations behind it; they set the accuracy, it only completes them."""
_ROUNDING = 1e-6
"""Differences below this share of the largest utility are float32 rounding."""


def moves_in_steps(utility: str) -> bool:
    """Whether the utility counts rows (accuracy and its kin, combinations included) instead of varying smoothly."""
    return any(name in utility for name in UNIT_RANGE)


@dataclass(frozen=True)
class Grounds:
    """What the surrogates know of a game besides its values."""

    gram: FloatArray
    """(players, players) ΔΔᵀ, or the identity where the game does not tell its updates"""
    price: float
    """Multiply-adds of one evaluation"""
    row: float
    """What one validation row moves a utility that counts rows: 1/V, or 0 where nothing is known"""


@dataclass(frozen=True)
class Look:
    """What the evaluations so far amount to."""

    values: PlayerByUtility
    errors: PlayerByUtility
    flat: BoolArray
    """(utilities,) no difference between clients: below a tenth of a row, or below rounding"""
    wide: BoolArray
    """(utilities,) not flat, and the widest 95 % half-width exceeds the precision asked for (or is not known)"""


class Study:
    """One epoch under study: what was evaluated, the fits, and what follows from them."""

    def __init__(
        self,
        subject: Subject,
        oracle: CoalitionOracle,
        grounds: Grounds,
        steps: BoolArray,
        flagged: BoolArray,
        seed: int,
        first: int,
    ) -> None:
        """Evaluates everybody, each alone and a design made before anything is known, ``first`` coalitions in all.

        One request, because evaluators fill up chunks.

        ``steps`` (utilities,) says which count rows. With ``flagged`` players those are read from a fit of their own
        for the coalitions without them, because a regression across both kinds is confidently wrong about accuracy;
        the smooth ones are not, and lose by the split.
        """
        self.subject, self.oracle, self.grounds, self.seed = subject, oracle, grounds, seed
        self.steps, self.flagged = steps, flagged
        self.players = n = oracle.players
        whole = [(Cell(flagged, None), metric_factor(grounds.gram))]
        start = [everybody(n), np.eye(n, dtype=bool)]
        self.families = [(np.ones(len(steps), dtype=bool), whole)]
        if flagged.any():
            without = (Cell(flagged, False), metric_factor(grounds.gram, ~flagged))
            self.families = [(~steps, whole), (steps, [without, (Cell(flagged, True), whole[0][1])])]
            start.append(~flagged[None])
        self.adaptive = bool(np.allclose(subject.weights(np.eye(n, dtype=bool)).sum(axis=1), 1.0))
        if not self.adaptive:  # under fixed weights ∅ is a point like any other, and free
            start.append(np.zeros((1, n), dtype=bool))
        coalitions = np.unique(np.concatenate(start), axis=0)
        guides = [self._guide(coalitions, cell, factor) for cell, factor in self.families[-1][1]]
        more = first - int(coalitions.any(axis=1).sum())
        coalitions = np.concatenate([coalitions, self._design(guides, coalitions, more, first)])
        values, outputs = subject.evaluate(coalitions)
        self.evidence = Evidence(coalitions, values, outputs, np.asarray(np.isfinite(outputs).all(axis=1)))
        self.models = self._fit()

    @property
    def evaluated(self) -> int:
        """Distinct coalitions evaluated, ∅ being free."""
        return int(self.evidence.coalitions.any(axis=1).sum())

    def _fit(self) -> list[tuple[BoolArray, SurrogateModel]]:
        """Models and the utilities (a mask) each is asked for; the last one guides the design."""
        for cell, _ in self.families[-1][1]:
            if np.count_nonzero(cell.holds(self.evidence.coalitions) & self.evidence.usable) < 2:
                raise NonFiniteUtility(
                    f"{self.oracle.where or 'this epoch'}: the logits of nearly all evaluated sub-models are not "
                    f"finite (first {self.diverged()[0]}); nothing is left to fit. Leave the epoch out."
                )
        asked = [(mask, cells) for mask, cells in self.families if mask.any()]
        return [(mask, SurrogateModel(self.subject, self.evidence, cells)) for mask, cells in asked]

    def diverged(self) -> list[str]:
        """The coalitions whose logits were not finite, by their players."""
        names = self.oracle.player_names or [str(player) for player in range(self.players)]
        rows = self.evidence.coalitions[~self.evidence.usable]
        return ["{" + ", ".join(names[player] for player in np.flatnonzero(row).tolist()) + "}" for row in rows]

    def grow(self, target: int) -> None:
        """Evaluates up to ``target`` coalitions in all (fewer where a family is exhausted), and fits again."""
        guides = [
            Guide(fitted.cell, fitted.factor, fitted.regressions[0].points, fitted.regressions[0].kernel)
            for fitted in self.models[-1][1].cells
        ]
        coalitions = self._design(guides, self.evidence.coalitions, target - self.evaluated, target)
        if len(coalitions):
            self.evidence = self.evidence.extended(coalitions, *self.subject.evaluate(coalitions))
            self.models = self._fit()

    def _guide(self, coalitions: CoalitionMatrix, cell: Cell, factor: FloatArray) -> Guide:
        """What the design goes by before anything is evaluated."""
        mine = coalitions[cell.holds(coalitions) & coalitions.any(axis=1)]
        return Guide(cell, factor, points_of(self.subject.weights(mine), factor), PRIOR)

    def _design(self, guides: Sequence[Guide], evaluated: CoalitionMatrix, more: int, target: int) -> CoalitionMatrix:
        """(up to ``more``, players) which coalitions to evaluate next, shared among the families."""
        rng = np.random.default_rng([self.seed, _DESIGN, target])
        found = [np.zeros((0, self.players), dtype=bool)]
        for index, guide in enumerate(guides):
            share = -(-(more - sum(map(len, found))) // (len(guides) - index))
            if share > 0:
                found.append(next_coalitions(guide, evaluated, self.subject.weights, share, rng))
        return np.concatenate(found)

    def predict(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """(coalitions, utilities) as the fits see them."""
        values = np.empty((len(coalitions), len(self.steps)))
        for mask, model in self.models:
            values[:, mask] = model.predict(coalitions)[:, mask]
        return values

    def values(self) -> tuple[PlayerByUtility, PlayerByUtility]:
        """(players, utilities) Shapley values of the completed game, and their sampling errors (0 from a table)."""
        evidence, n = self.evidence, self.players
        if self._fills_table():
            table = np.empty((1 << n, evidence.values.shape[1]))
            for masks, members in all_coalitions(n):
                table[masks] = self.predict(members)
            table[evidence.coalitions @ (1 << np.arange(n))] = evidence.values
            found = shapley_from_table(table)
            errors = np.zeros_like(found)
        else:
            rng = np.random.default_rng([self.seed, _VALUES])
            shares = self.subject.weights(everybody(n))[0]
            main_directions = metric_factor(self.grounds.gram)[:, ::-1]
            features = (AdaptiveFeatures if self.adaptive else FixedFeatures)(shares, main_directions)
            found, errors = sampled_shapley(self.predict, self.subject.weights, features, n, SAMPLES, rng)
            missed = evidence.values - self.predict(evidence.coalitions)
            found = found + shapley_of_differences(evidence.coalitions, missed)
        whole = evidence.values[evidence.coalitions.all(axis=1)][0]
        return found + (whole - found.sum(axis=0)) / n, errors

    def look(self, precision: float) -> Look:
        """Values, errors and a verdict on both."""
        values, sampling = self.values()
        errors = np.hypot(self.errors(), sampling)
        spread = values.std(axis=0)
        rounding = _ROUNDING * np.abs(self.evidence.values).max(axis=0)
        flat = spread <= np.where(self.steps, np.maximum(0.1 * self.grounds.row, rounding), rounding)
        precise = 1.96 * errors.max(axis=0) <= precision * spread
        return Look(values, errors, flat, ~(precise | flat))

    def _fills_table(self) -> bool:
        evaluated, columns = self.evidence.outputs.shape
        filling = 2.0**self.players * columns * (evaluated + _READING)
        worth = filling <= _TABLE_WORTH * evaluated * self.grounds.price
        return self.players <= SMALL_TABLE or (self.players <= LARGE_TABLE and worth)

    def errors(self) -> PlayerByUtility:
        """(players, utilities) standard errors of the values, sampling apart."""
        grain = np.where(self.steps, 0.29 * self.grounds.row, 0.0)  # 0.29 = 1/√12: uniform rounding
        independence = np.where(self.steps, STEPS, SMOOTH)
        errors = np.empty((self.players, len(self.steps)))
        for mask, model in self.models:
            rng = np.random.default_rng([self.seed, _ERROR])
            errors[:, mask] = standard_errors(model, grain, independence, rng)[:, mask]
        return errors


def study_epoch(
    name: str,
    subject: Subject,
    oracle: CoalitionOracle,
    grounds: Grounds,
    rng: np.random.Generator,
    settings: EstimatorSettings,
) -> ShapleyEstimate:
    """The surrogates' common course: start with 2n, grow in nested steps of 2n, look from 4n (flagged: 8n) on, stop."""
    n = oracle.players
    steps = np.array([moves_in_steps(utility) for utility in oracle.utilities])
    flagged = np.zeros(n, dtype=bool)
    if steps.any():
        flagged[list(flagged_players(oracle.game))] = True
    most = surrogate_cost(n, settings).most
    if most >= distinct_coalitions(n):
        return exact_estimate(oracle, notes=(f"{name}: {distinct_coalitions(n)} evaluations are all coalitions",))
    least = n + 1 + int(flagged.any())
    if most < least:
        raise SettingsError(
            f"{name} starts with {least} evaluations for {n} participants (everybody and each alone); "
            f"found evaluations = {most}. Allow at least {least}, better {4 * n}."
        )
    with one_blas_thread():
        seed = int(rng.integers(1 << 62))
        study = Study(subject, oracle, grounds, steps, flagged, seed, first=min(2 * n, most))
        first_look = most if settings.evaluations is not None else min(most, (8 if flagged.any() else 4) * n)
        for target in [*range(4 * n, most, 2 * n), most]:
            study.grow(target)
            if target >= first_look:
                look = study.look(settings.precision)
                if not look.wide.any():
                    break
    early = study.evaluated < 8 * n
    unreliable = (steps | early) & flagged.any() | bool(study.diverged())
    return ShapleyEstimate(
        look.values,
        look.errors,
        study.evaluated,
        exact=False,
        method=name,
        notes=tuple(_notes(name, study, look, settings)),
        unreliable=tuple(np.array(oracle.utilities)[unreliable].tolist()),
    )


def _notes(name: str, study: Study, look: Look, settings: EstimatorSettings) -> list[str]:
    """What a reader of the result should know."""
    utilities = np.array(study.oracle.utilities)
    notes = []
    if study.flagged.any():
        who = tuple(np.flatnonzero(study.flagged).tolist())
        notes.append(f"{name}: {flag_words(who)}; coalitions without it were fitted apart")
    diverged = study.diverged()
    if diverged:
        named = ", ".join(diverged[:5]) + (f" and {len(diverged) - 5} more" if len(diverged) > 5 else "")
        notes.append(f"{name}: the sub-models of {named} have logits that are not finite; kept out of the fit")
    if look.flat.any():
        notes.append(f"{name}: no difference between clients in {', '.join(utilities[look.flat])}")
    if look.wide.any():
        notes.append(
            f"{name}: after {study.evaluated} evaluations the interval of {', '.join(utilities[look.wide])} "
            f"is wider than {settings.precision:g} sd"
        )
    return notes

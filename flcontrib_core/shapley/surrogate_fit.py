"""One epoch under a surrogate: what was evaluated, the fits, and the values, errors and checks that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import NonFiniteUtility
from flcontrib_core.shapley.coalitions import all_coalitions, everybody
from flcontrib_core.shapley.exact_values import shapley_from_table
from flcontrib_core.shapley.flagged import named_players
from flcontrib_core.shapley.game_views import GameView, LogitView
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.sampled_shapley import ShapleySample, shapley_of_differences
from flcontrib_core.shapley.simplex_features import AdaptiveFeatures, FixedFeatures, SimplexFeatures
from flcontrib_core.shapley.simplex_kernel import metric_factor, points_of
from flcontrib_core.shapley.surrogate_design import PRIOR_KERNEL, Guide, Stratum, next_coalitions
from flcontrib_core.shapley.surrogate_error import SMOOTH, STEPS, standard_errors
from flcontrib_core.shapley.surrogate_model import Evidence, SurrogateModel
from flcontrib_core.shapley.thresholds import UNIT_RANGE
from flcontrib_core.vocabulary import BoolArray, CoalitionMatrix, FloatArray, PlayerByUtility, UtilityMatrix

SMALL_TABLE, LARGE_TABLE = 12, 16
"""Players up to which the predicted table is always filled, and up to which it is where that is worth its cost."""
SAMPLES, _MOST_SAMPLES = 16384, 65536
"""Coalitions whose prediction is sampled; up to the larger number where sampling is what is not precise enough."""
_AMPLE = 1.1
"""So many times what the sampling error asks for is sampled, because that error is an estimate itself."""
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
class Prior:
    """What is known of a game before it is evaluated."""

    gram: FloatArray
    """(players, players) ΔΔᵀ, or the identity where the game does not tell its updates"""
    price: float
    """Multiply-adds of one evaluation"""
    row: float
    """What one validation row moves a utility that counts rows: 1/V, or 0 where nothing is known"""


@dataclass(frozen=True)
class Check:
    """What the evaluations so far amount to."""

    values: PlayerByUtility
    errors: PlayerByUtility
    flat: BoolArray
    """(utilities,) no difference between clients: below a tenth of a row, or below rounding"""
    wide: BoolArray
    """(utilities,) not flat, and the widest 95 % half-width exceeds the precision asked for (or is not known)"""


class SurrogateFit:
    """What was evaluated of one epoch, the regressions fitted to it, and what follows from them."""

    def __init__(
        self,
        view: GameView,
        oracle: CoalitionOracle,
        prior: Prior,
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
        self.view, self.oracle, self.prior, self.seed = view, oracle, prior, seed
        self.steps, self.flagged = steps, flagged
        self.players = n = oracle.players
        self._known_features: SimplexFeatures | None = None
        self._known_errors: tuple[int, PlayerByUtility] | None = None
        self._known_sample: tuple[int, ShapleySample] | None = None
        whole = [(Stratum(flagged, None), metric_factor(prior.gram))]
        start = [everybody(n), np.eye(n, dtype=bool)]
        self.fits = [(np.ones(len(steps), dtype=bool), whole)]
        if flagged.any():
            without = (Stratum(flagged, False), metric_factor(prior.gram, ~flagged))
            self.fits = [(~steps, whole), (steps, [without, (Stratum(flagged, True), whole[0][1])])]
            start.append(~flagged[None])
        self.adaptive = bool(np.allclose(view.weights(np.eye(n, dtype=bool)).sum(axis=1), 1.0))
        if not self.adaptive:  # under fixed weights ∅ is a point like any other, and free
            start.append(np.zeros((1, n), dtype=bool))
        coalitions = np.unique(np.concatenate(start), axis=0)
        guides = [self._guide(coalitions, stratum, factor) for stratum, factor in self.fits[-1][1]]
        more = first - int(coalitions.any(axis=1).sum())
        coalitions = np.concatenate([coalitions, self._design(guides, coalitions, more, first)])
        values, outputs = view.evaluate(coalitions)
        self.evidence = Evidence(coalitions, values, outputs, np.asarray(np.isfinite(outputs).all(axis=1)))
        self.models = self._fit()

    @property
    def evaluated(self) -> int:
        """Distinct coalitions evaluated, ∅ being free."""
        return int(self.evidence.coalitions.any(axis=1).sum())

    def _fit(self) -> list[tuple[BoolArray, SurrogateModel]]:
        """Models and the utilities (a mask) each is asked for; the last one guides the design."""
        for stratum, _ in self.fits[-1][1]:
            if np.count_nonzero(stratum.holds(self.evidence.coalitions) & self.evidence.usable) < 2:
                first = self.diverged()[0]
                named = ", ".join(named_players(self.oracle, first).names)
                raise NonFiniteUtility(
                    f"{self.oracle.where}: the logits of nearly all evaluated sub-models are not "
                    f"finite (first {{{named}}}); nothing is left to fit. Leave the epoch out.",
                    tuple(first),
                )
        asked = [(mask, strata) for mask, strata in self.fits if mask.any()]
        return [(mask, SurrogateModel(self.view, self.evidence, strata)) for mask, strata in asked]

    def diverged(self) -> list[list[int]]:
        """The coalitions whose logits were not finite, by their players."""
        return [np.flatnonzero(row).tolist() for row in self.evidence.coalitions[~self.evidence.usable]]

    def grow(self, target: int) -> None:
        """Evaluates up to ``target`` coalitions in all (fewer where a family is exhausted), and fits again."""
        guides = [
            Guide(fitted.stratum, fitted.factor, fitted.regressions[0].points, fitted.regressions[0].kernel)
            for fitted in self.models[-1][1].strata
        ]
        coalitions = self._design(guides, self.evidence.coalitions, target - self.evaluated, target)
        if len(coalitions):
            self.evidence = self.evidence.extended(coalitions, *self.view.evaluate(coalitions))
            self.models = self._fit()

    def _guide(self, coalitions: CoalitionMatrix, stratum: Stratum, factor: FloatArray) -> Guide:
        """What the design goes by before anything is evaluated."""
        mine = coalitions[stratum.holds(coalitions) & coalitions.any(axis=1)]
        return Guide(stratum, factor, points_of(self.view.weights(mine), factor), PRIOR_KERNEL)

    def _design(self, guides: Sequence[Guide], evaluated: CoalitionMatrix, more: int, target: int) -> CoalitionMatrix:
        """(up to ``more``, players) which coalitions to evaluate next, shared among the families."""
        rng = np.random.default_rng([self.seed, _DESIGN, target])
        design = [np.zeros((0, self.players), dtype=bool)]
        for index, guide in enumerate(guides):
            share = -(-(more - sum(map(len, design))) // (len(guides) - index))
            if share > 0:
                design.append(next_coalitions(guide, evaluated, self.view.weights, share, rng))
        return np.concatenate(design)

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
            values = shapley_from_table(table)
            errors = np.zeros_like(values)
        else:
            values, errors = self._sample().shapley()
            missed = evidence.values - self.predict(evidence.coalitions)
            values = values + shapley_of_differences(evidence.coalitions, missed)
        whole = evidence.values[evidence.coalitions.all(axis=1)][0]
        return values + (whole - values.sum(axis=0)) / n, errors

    def _sample(self) -> ShapleySample:
        """A sample of what the fits predict; it stays, and may grow, until more is evaluated."""
        if self._known_sample is None or self._known_sample[0] != len(self.evidence):
            rng = np.random.default_rng([self.seed, _VALUES])
            shares = self.view.weights(everybody(self.players))[0]
            sample = ShapleySample(self.predict, self.view.weights, self._features(shares), self.players, rng)
            sample.grow(SAMPLES)
            self._known_sample = len(self.evidence), sample
        return self._known_sample[1]

    def _features(self, shares: FloatArray) -> SimplexFeatures:
        if self._known_features is None:
            main_directions = metric_factor(self.prior.gram)[:, ::-1]
            self._known_features = (AdaptiveFeatures if self.adaptive else FixedFeatures)(shares, main_directions)
        return self._known_features

    def _flat_below(self) -> FloatArray:
        """(utilities,) the spread up to which clients do not differ."""
        rounding = _ROUNDING * np.abs(self.evidence.values).max(axis=0)
        return np.asarray(np.where(self.steps, np.maximum(0.1 * self.prior.row, rounding), rounding))

    def check(self, precision: float) -> Check:
        """Values, errors, and whether they are precise enough. Predictions are sampled more densely where their sample
        is all that stands in the way: further evaluations would not make it any denser."""
        while True:
            values, sampling = self.values()
            errors = np.hypot(self.errors(), sampling)
            allowed = precision * values.std(axis=0) / 1.96
            flat = values.std(axis=0) <= self._flat_below()
            wide = ~((errors.max(axis=0) <= allowed) | flat)
            wanted = self._samples_wanted(sampling[:, wide], allowed[wide], self.errors()[:, wide])
            if wanted is None:
                return Check(values, errors, flat, wide)
            self._sample().grow(wanted)

    def _samples_wanted(self, sampling: PlayerByUtility, allowed: FloatArray, errors: PlayerByUtility) -> int | None:
        """How many predictions bring the wide utilities within what is allowed; None where no sample would, or the
        largest does not."""
        if self._fills_table() or not len(allowed):
            return None
        room = allowed**2 - errors**2
        if not (room > 0).all():
            return None
        sample = self._sample()
        wanted = min(_MOST_SAMPLES, int(_AMPLE * len(sample) * float((sampling**2 / room).max())))
        return wanted if wanted > _AMPLE * len(sample) else None

    def _fills_table(self) -> bool:
        evaluated, columns = self.evidence.outputs.shape
        filling = 2.0**self.players * columns * (evaluated + _READING)
        worth = filling <= _TABLE_WORTH * evaluated * self.prior.price
        return self.players <= SMALL_TABLE or (self.players <= LARGE_TABLE and worth)

    def errors(self) -> PlayerByUtility:
        """(players, utilities) standard errors of the values, sampling apart."""
        if self._known_errors is not None and self._known_errors[0] == len(self.evidence):
            return self._known_errors[1]
        grain = np.where(self.steps, 0.29 * self.prior.row, 0.0)  # 0.29 = 1/√12: uniform rounding
        independence = np.where(self.steps & isinstance(self.view, LogitView), STEPS, SMOOTH)
        errors = np.empty((self.players, len(self.steps)))
        for mask, model in self.models:
            rng = np.random.default_rng([self.seed, _ERROR])
            errors[:, mask] = standard_errors(model, grain, independence, rng)[:, mask]
        self._known_errors = len(self.evidence), errors
        return errors

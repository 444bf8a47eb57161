"""An estimator as somebody else would write it: an object of the documented shape, from nothing of ours."""

from __future__ import annotations

import numpy as np

from flcontrib_core.shapley import CoalitionOracle, ShapleyEstimate


class EqualShares:
    """u(N) in equal parts."""

    name = "equal-shares"

    def record(self) -> dict[str, object]:
        return {"name": self.name}

    def estimate(self, oracle: CoalitionOracle, rng: np.random.Generator) -> ShapleyEstimate:
        total = oracle.evaluate(np.ones((1, oracle.players), dtype=bool))
        values = np.repeat(total / oracle.players, oracle.players, axis=0)
        return ShapleyEstimate(values, np.full_like(values, np.nan), 1, exact=False, method=self.name)

"""What is known about every client's contribution in every epoch, and how was it obtained?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.vocabulary import (
    BoolArray,
    EpochByClient,
    EpochByClientMask,
    EpochVector,
    FillPolicy,
    FloatArray,
    IntArray,
)


@dataclass(frozen=True)
class RawChannels:
    """Cheap observations of every participant in every epoch, also where the budget skipped Shapley values.

    All (T + 1, clients) unless said; NaN where the client was absent or the observation is not available.
    Raw and unstandardised; ``detection.channels`` turns them so that up is suspicious.
    """

    solo_margin: EpochByClient
    """Mean over validation rows of the change of the true-class logit (centred over classes) of F + Δ_i."""
    solo_class_margin: FloatArray
    """(T + 1, clients, classes) the same per true class; NaN for classes without validation rows."""
    solo_worst_class: EpochByClient
    """Largest per-class rise of the validation loss of F + Δ_i."""
    solo_loss: EpochByClient
    """Change of the validation loss of F + Δ_i."""
    own_cosine: EpochByClient
    """Mean cosine of Δ_it to the client's own other updates (from a seeded sketch); NaN with fewer than two."""
    norm: EpochByClient
    """‖Δ_it‖"""
    spread: EpochByClient
    """Participation ratio 1 / (P Σ u⁴), u = Δ/‖Δ‖."""
    peer_cosine: EpochByClient
    """Mean cosine to the other participants' updates of the same epoch."""
    last_step_cosine: EpochByClient
    """Cosine to the previous global step F(t−1) − F(t−2); NaN in epoch 1."""
    repeat_of: IntArray
    """(T + 1, clients) the earlier epoch whose update of the same client is repeated (distance < 1e-3), 0 = none."""
    copy_of: IntArray
    """(T + 1, clients) 1 + position of another participant with the bit-equal update in that epoch, 0 = none."""
    validation_rows: int
    sketch_dimensions: int
    repeat_bit_equal: EpochByClientMask | None = None
    """(T + 1, clients) where the update of ``repeat_of`` is repeated bit for bit; None = not recorded."""
    closest_own_cosine: EpochByClient | None = None
    """Largest cosine of Δ_it to an *earlier* update of the same client; NaN for its first. None = not recorded."""


@dataclass(frozen=True)
class ContributionHistory:
    """Algorithm 1's result. Stored values keep the paper's sign (a rising loss share is harm)."""

    run_digest: str
    run_name: str
    client_ids: tuple[str, ...]
    data_sizes: tuple[int, ...]
    utilities: tuple[str, ...]
    values: dict[str, EpochByClient]
    """Row 0 is v(F⁰)/m; 0 where absent; NaN where not computed."""
    standard_errors: dict[str, EpochByClient]
    """0 = exact, NaN = none available."""
    participated: EpochByClientMask
    computed: BoolArray
    """(T + 1,); row 0 is True."""
    increments: dict[str, EpochVector]
    """v(F_N) − v(F_prev) of each epoch's rebuilt model; row 0 is v(F⁰). Known for every epoch, computed or not."""
    server_share: dict[str, EpochVector]
    """v(global) − v(F_N); 0 where the server is a weighted mean."""
    evaluations: IntArray
    estimator: tuple[str, ...]
    """(T + 1) what was done in each epoch; 'initial' in row 0, 'not computed', or e.g. 'exact'."""
    lower_is_better: frozenset[str]
    best_subset: tuple[tuple[int, ...] | None, ...] = ()
    """(T + 1) positions of the coalition with the best weight utility (greedy aggregation's S*), where known."""
    leave_one_out: dict[str, EpochByClient] = field(default_factory=dict)
    """v(F_{N∖i}) − v(F_N); NaN where not evaluated."""
    unreliable: dict[str, BoolArray] = field(default_factory=dict)
    """utility -> (T + 1,) epochs whose interval must not be trusted."""
    notes: tuple[str, ...] = ()
    totals_given: dict[str, FloatArray] = field(default_factory=dict)
    """Totals of methods that have no per-epoch values (one-round)."""
    channels: RawChannels | None = None
    settings: dict[str, object] = field(default_factory=dict)
    seconds: float = 0.0
    recalled: int = 0
    """Evaluations answered from memory instead of computed."""
    schedule: Schedule | None = None
    """How the computed epochs were chosen; None = all of them."""

    @property
    def epoch_count(self) -> int:
        return len(self.computed) - 1

    def filled(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> EpochByClient:
        """Values with skipped epochs filled by the policy – for totals only, never for detectors."""
        values = self.values[utility].copy()
        partly = np.isnan(values) & self.computed[:, None]  # cells a table left empty in an otherwise known epoch
        values[partly] = 0.0
        for t in np.flatnonzero(~self.computed):
            members = self.participated[t]
            if not members.any():
                values[t] = 0.0
            elif fill is FillPolicy.EQUAL:
                values[t, members] = self.increments[utility][t] / members.sum()
            elif fill is FillPolicy.ZERO:
                values[t, members] = 0.0
            else:
                given = self.leave_one_out.get(utility)
                if given is None or np.isnan(given[t, members]).any():
                    raise ValueError(f"epoch {t}: leave-one-out was not evaluated; assess with --fill leave-one-out")
                share = -given[t, members]
                residual = self.increments[utility][t] - share.sum()
                values[t, members] = share + residual / members.sum()
        return values

    def totals(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> FloatArray:
        """(clients,) Σ_t φ_i(t) + φ_i(0); the method's own totals where it has no per-epoch values."""
        if utility in self.totals_given:
            return np.asarray(self.totals_given[utility] + self.values[utility][0])
        total: FloatArray = self.filled(utility, fill).sum(axis=0)
        return total

    def total_standard_errors(self, utility: str) -> FloatArray:
        """(clients,) √Σ SE² over computed epochs; NaN where a method gives none."""
        se = np.where(self.computed[:, None] & self.participated, self.standard_errors[utility], 0.0)
        return np.asarray(np.sqrt((se**2).sum(axis=0)))

    def worst_case_errors(self, utility: str) -> FloatArray:
        """(clients,) Σ 1.96·SE, the linear sum of Lemma (error_bound)."""
        se = np.where(self.computed[:, None] & self.participated, self.standard_errors[utility], 0.0)
        return np.asarray(1.96 * np.abs(se).sum(axis=0))

    def cumulative(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> EpochByClient:
        """(T + 1, clients) running totals, the initial model's share included."""
        running: EpochByClient = np.cumsum(self.filled(utility, fill), axis=0)
        return running

    def harm_sign(self, utility: str) -> float:
        """+1 where a rising value is harm (loss), −1 where it is help (accuracy)."""
        return 1.0 if utility in self.lower_is_better else -1.0

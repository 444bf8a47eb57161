"""ContributionHistory: what is known about every client's contribution in every epoch, and how it was obtained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.errors import MissingPart
from flcontrib_core.games.raw_channels import RawChannels
from flcontrib_core.history.remarks import EpochRemark, NoValues, WithoutValues
from flcontrib_core.scheduling.schedule import Schedule
from flcontrib_core.vocabulary import (
    BoolArray,
    CellState,
    EpochByClient,
    EpochByClientByUtility,
    EpochByClientMask,
    EpochByUtility,
    EpochVector,
    FillPolicy,
    FloatArray,
    IntArray,
    Orientation,
    StateArray,
)

if TYPE_CHECKING:
    import pandas

SERVER_ROUNDING = 1e-5
"""Share of the largest step below which a difference between stored and rebuilt model is rounding."""


@dataclass(frozen=True)
class UtilitySeries:
    """One utility's part of a history: views, not copies."""

    values: EpochByClient
    standard_errors: EpochByClient
    state: StateArray
    """(T + 1, clients)"""
    increments: EpochVector
    server_share: EpochVector
    leave_one_out: EpochByClient
    """NaN where it was not evaluated"""
    unreliable: BoolArray
    """(T + 1,)"""

    @cached_property
    def computed(self) -> EpochByClientMask:
        """(T + 1, clients) cells whose value is known; row 0 holds the initial model's share."""
        return np.asarray(self.state == CellState.COMPUTED)

    @cached_property
    def missing(self) -> EpochByClientMask:
        """(T + 1, clients) cells of participants whose value is not known, or not yet."""
        return np.asarray(self.state >= CellState.NOT_COMPUTED)


@dataclass(frozen=True)
class ContributionHistory:
    """Algorithm 1's result. Stored values keep the paper's sign (a rising loss share is harm)."""

    run_digest: str
    run_name: str
    client_ids: tuple[str, ...]
    data_sizes: tuple[int, ...]
    utilities: tuple[str, ...]
    values: EpochByClientByUtility
    """Row 0 is v(F⁰)/m; 0 where absent; NaN where ``state`` says that nothing is known."""
    standard_errors: EpochByClientByUtility
    """0 = exact, NaN = none available."""
    state: StateArray
    """(T + 1, clients, utilities) ``CellState`` of every cell; row 0 is computed."""
    increments: EpochByUtility
    """v(F_N) − v(F_prev) of each epoch's rebuilt model; row 0 is v(F⁰). Known for every epoch that is not pending."""
    server_share: EpochByUtility
    """v(global) − v(F_N); 0 where the server is a weighted mean."""
    evaluations: IntArray
    estimator: tuple[str, ...]
    """(T + 1) what was done in each epoch; 'initial' in row 0, 'not computed', or e.g. 'exact'."""
    lower_is_better: frozenset[str]
    best_subset: tuple[tuple[int, ...] | None, ...] = ()
    """(T + 1) positions of the coalition with the best weight utility (greedy aggregation's S*), where known."""
    leave_one_out: EpochByClientByUtility | None = None
    """v(F_{N∖i}) − v(F_N); NaN where not evaluated; None = nowhere."""
    unreliable: BoolArray | None = None
    """(T + 1, utilities) epochs whose interval must not be trusted; None = nowhere."""
    remarks: tuple[EpochRemark, ...] = ()
    totals_given: FloatArray | None = None
    """(clients, utilities) totals of methods that have no per-epoch values (one-round)."""
    channels: RawChannels | None = None
    settings: dict[str, object] = field(default_factory=dict)
    seconds: float = 0.0
    recalled: int = 0
    """Evaluations answered from memory instead of computed."""
    schedule: Schedule | None = None
    """How the computed epochs were chosen; None = all of them."""

    def __post_init__(self) -> None:
        cells = len(self.estimator), len(self.client_ids), len(self.utilities)
        for name in ("values", "standard_errors", "state"):
            if getattr(self, name).shape != cells:
                raise ValueError(f"{name} has shape {getattr(self, name).shape}; the history has {cells}")
        for name in ("increments", "server_share"):
            if getattr(self, name).shape != cells[::2]:
                raise ValueError(f"{name} has shape {getattr(self, name).shape}; the history has {cells[::2]}")

    @property
    def epoch_count(self) -> int:
        """T: the epochs of the run, the initial model not counted."""
        return len(self.estimator) - 1

    def of(self, utility: str) -> UtilitySeries:
        """Everything known in terms of one utility; raises KeyError for one that was not assessed."""
        series = self._series.get(utility)
        if series is None:
            u = self._column(utility)
            nowhere = np.full(self.values.shape[:2], np.nan)
            reliable = np.zeros(len(self.estimator), dtype=bool)
            series = self._series[utility] = UtilitySeries(
                values=self.values[:, :, u],
                standard_errors=self.standard_errors[:, :, u],
                state=self.state[:, :, u],
                increments=self.increments[:, u],
                server_share=self.server_share[:, u],
                leave_one_out=nowhere if self.leave_one_out is None else self.leave_one_out[:, :, u],
                unreliable=reliable if self.unreliable is None else self.unreliable[:, u],
            )
        return series

    @cached_property
    def _series(self) -> dict[str, UtilitySeries]:
        return {}

    def _column(self, utility: str) -> int:
        if utility not in self.utilities:
            raise KeyError(f"utility {utility!r} was not assessed; this history has {', '.join(self.utilities)}")
        return self.utilities.index(utility)

    @cached_property
    def participated(self) -> EpochByClientMask:
        """(T + 1, clients) who took part; nobody in row 0."""
        present = self.state[:, :, 0] != CellState.ABSENT
        present[0] = False
        return np.asarray(present)

    @cached_property
    def computed(self) -> BoolArray:
        """(T + 1,) epochs in which somebody's value is known, or in which nobody took part."""
        known = (self.state == CellState.COMPUTED).any(axis=(1, 2))
        return np.asarray(known | ~self.participated.any(axis=1))

    @cached_property
    def pending(self) -> BoolArray:
        """(T + 1,) epochs that a job at work has yet to compute."""
        return np.asarray((self.state == CellState.PENDING).any(axis=(1, 2)))

    @cached_property
    def without_values(self) -> NoValues | None:
        """Why no epoch has a Shapley value; None where values were computed, or may be."""
        facts = (entry.remark for entry in self.remarks)
        return next((fact.reason for fact in facts if isinstance(fact, WithoutValues)), None)

    def server_moved(self, utility: str) -> bool:
        """Did the server move the model beyond the weighted mean of the updates?

        A stored model is rounded to float32, and so is the rebuilt one: the two differ by about 1e-8 where the server
        did nothing of its own.
        """
        series = self.of(utility)
        moved = np.nan_to_num(np.abs(series.increments[1:])).max(initial=0.0)
        return bool((np.abs(series.server_share) > max(1e-6, SERVER_ROUNDING * moved)).any())

    def filled(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> EpochByClient:
        """Values with skipped epochs filled by the policy – for totals only, never for detectors.

        A cell that a table left empty in an otherwise known epoch counts as 0, and so does an epoch whose model
        diverged: there is no increment to share out. Where the run has no values at all, nothing is
        filled in: NaN.
        """
        series, fill = self.of(utility), FillPolicy(fill)  # from Python a bare word may come
        if self.without_values is not None:
            return np.where(series.missing, np.nan, series.values)
        values = np.where(series.missing, 0.0, series.values)
        shared = series.missing.any(axis=1) & ~series.computed.any(axis=1)
        shared &= np.isfinite(series.increments) | self.pending  # what is still to come stays unknown
        for t in np.flatnonzero(shared):
            members = self.participated[t]
            if fill is FillPolicy.EQUAL:
                values[t, members] = series.increments[t] / members.sum()
            elif fill is FillPolicy.LEAVE_ONE_OUT:
                given = series.leave_one_out[t, members]
                if np.isnan(given).any():
                    raise ValueError(f"epoch {t}: leaving one out was not evaluated; assess the run with that fill")
                values[t, members] = -given + (series.increments[t] + given.sum()) / members.sum()
        return np.asarray(values)

    def totals(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> FloatArray:
        """(clients,) Σ_t φ_i(t) + φ_i(0); the method's own totals where it has no per-epoch values."""
        if self.totals_given is not None:
            return np.asarray(self.totals_given[:, self._column(utility)] + self.of(utility).values[0])
        total: FloatArray = self.filled(utility, fill).sum(axis=0)
        return total

    def ranks(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> dict[str, int]:
        """1 = helped most. Clients that never took part have no rank, and nobody has one without values."""
        if self.without_values is not None:
            return {}
        help_up = -self.harm_sign(utility) * self.totals(utility, fill)
        active = [i for i in range(len(self.client_ids)) if self.participated[:, i].any()]
        order = sorted(active, key=lambda i: (-help_up[i], self.client_ids[i]))
        return {self.client_ids[i]: rank for rank, i in enumerate(order, start=1)}

    def total_standard_errors(self, utility: str) -> FloatArray:
        """(clients,) √Σ SE² over computed epochs; NaN where a method gives none."""
        return np.asarray(np.sqrt((self._known_errors(utility) ** 2).sum(axis=0)))

    def worst_case_errors(self, utility: str) -> FloatArray:
        """(clients,) Σ 1.96·SE, the linear sum of Lemma (error_bound)."""
        return np.asarray(1.96 * np.abs(self._known_errors(utility)).sum(axis=0))

    def _known_errors(self, utility: str) -> EpochByClient:
        series = self.of(utility)
        if self.without_values is not None:
            return np.where(self.participated, np.nan, 0.0)
        return np.where(series.computed & self.participated, series.standard_errors, 0.0)

    def cumulative(self, utility: str, fill: FillPolicy = FillPolicy.EQUAL) -> EpochByClient:
        """(T + 1, clients) running totals, the initial model's share included."""
        running: EpochByClient = np.cumsum(self.filled(utility, fill), axis=0)
        return running

    def to_frame(self) -> pandas.DataFrame:
        """A tidy pandas frame: ``epoch, client, utility, state, value, standard_error, estimator``.

        Values keep the stored sign. Epoch 0 holds the initial model's share. An absent client's value is exactly 0, one
        that was not computed is NaN, and both say so in ``state``.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingPart("a frame needs the package pandas; install it with: pip install pandas") from error
        epochs, clients, utilities = (axis.ravel() for axis in np.indices(self.values.shape))
        missing = self.state >= CellState.NOT_COMPUTED
        words = np.array([state.name.lower().replace("_", " ") for state in CellState])
        return pandas.DataFrame(
            {
                "epoch": epochs,
                "client": np.array(self.client_ids, dtype=object)[clients],
                "utility": np.array(self.utilities, dtype=object)[utilities],
                "state": words[self.state.ravel()],
                "value": np.where(missing, np.nan, self.values).ravel(),
                "standard_error": np.where(missing, np.nan, self.standard_errors).ravel(),
                "estimator": np.array(self.estimator, dtype=object)[epochs],
            }
        )

    def shown(
        self,
        utility: str,
        fill: FillPolicy = FillPolicy.EQUAL,
        orientation: Orientation = Orientation.HELP_UP,
        initial: bool = False,
    ) -> EpochByClient:
        """(T + 1, clients) values as they are shown: turned by ``orientation``, row 0 with v(F⁰)/m or zero."""
        values = self.filled(utility, fill)
        if not initial:
            values[0] = 0.0  # the initial model belongs to nobody in particular
        stored = Orientation(orientation) is Orientation.PAPER
        return values if stored else np.asarray(-self.harm_sign(utility) * values)

    def shown_totals(
        self,
        utility: str,
        fill: FillPolicy = FillPolicy.EQUAL,
        orientation: Orientation = Orientation.HELP_UP,
        initial: bool = False,
    ) -> FloatArray:
        """(clients,) totals as they are shown; the method's own where it has no per-epoch values."""
        total = self.totals(utility, fill)
        if not initial:
            total = total - self.of(utility).values[0]
        stored = Orientation(orientation) is Orientation.PAPER
        return total if stored else np.asarray(-self.harm_sign(utility) * total)

    def harm_sign(self, utility: str) -> float:
        """+1 where a rising value is harm (loss), −1 where it is help (accuracy)."""
        return 1.0 if utility in self.lower_is_better else -1.0


def by_utility(columns: Mapping[str, np.ndarray], utilities: Sequence[str]) -> np.ndarray:
    """Arrays of single utilities as one, the utilities last."""
    return np.stack([columns[u] for u in utilities], axis=-1)


def cell_states(participated: EpochByClientMask, known: np.ndarray, utilities: int) -> StateArray:
    """(T + 1, clients, utilities) states of cells that are computed where ``known`` (broadcast over the cells).

    Row 0, the initial model's share, is computed for everybody.
    """
    shape = (*participated.shape, utilities)
    state = np.where(np.broadcast_to(known, shape), CellState.COMPUTED, CellState.NOT_COMPUTED).astype(np.int8)
    state[~participated] = CellState.ABSENT
    state[0] = CellState.COMPUTED
    return state

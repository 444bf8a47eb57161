"""The cheap channels of a run: what was observed of every participant without Shapley values, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.vocabulary import EpochByClient, EpochByClientMask, FloatArray, IntArray


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
    twin_cosine: EpochByClient | None = None
    """Largest cosine to another participant's update of the same epoch. None = not recorded."""
    twin_of: IntArray | None = None
    """(T + 1, clients) 1 + position of that participant, 0 = none. None = not recorded."""

    @property
    def has_classes(self) -> bool:
        """Whether rows have classes; else their loss, or the first metric, stands for loss and margin."""
        return bool(self.solo_class_margin.shape[2])

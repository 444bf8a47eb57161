"""How one client trains in one epoch: optimiser, rate, passes, batches and what modifies its gradients.

A run has one ``LocalTraining`` for everybody; an honest change or an attack replaces it for a client and an epoch.
Clients with the same one are trained together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flcontrib_core.laboratory.simulation.kinds import Optimizer
from flcontrib_core.vocabulary import BoolArray

if TYPE_CHECKING:
    from flcontrib_core.laboratory.simulation.settings import SimulationSettings


@dataclass(frozen=True, eq=False)
class Trainable:
    """The parameters a client trains (P,); the others keep their value. Two masks are equal only if they are one."""

    mask: BoolArray


@dataclass(frozen=True)
class RowPrivacy:
    """DP-SGD (Abadi et al., CCS 2016): each row's gradient is shortened to ``clip``; to the sum of a batch Gaussian
    noise of deviation ``noise``·``clip`` is added, before it is divided by the batch size."""

    clip: float
    noise: float


@dataclass(frozen=True)
class LocalTraining:
    """Everything that decides how a client gets from the global model to its own."""

    optimizer: Optimizer
    lr: float
    local_epochs: int = 1
    batch: int = 16
    drop_last: bool = True
    shuffle: bool = True
    step_share: float = 1.0
    """Share of the steps that are taken, the first ones."""
    weight_decay: float = 0.0
    """Added to the gradient; decoupled from it in AdamW."""
    gradient_clip: float | None = None
    """Longest gradient of a step."""
    proximal: float = 0.0
    """μ of FedProx (Li et al., MLSys 2020): the step also goes back towards the global model."""
    half_gradients: bool = False
    """Gradients are rounded to bfloat16, as in mixed precision with full-precision weights."""
    ascend: bool = False
    """Climb the loss instead of descending it."""
    trainable: Trainable | None = None
    row_privacy: RowPrivacy | None = None

    @classmethod
    def of(cls, settings: SimulationSettings) -> LocalTraining:
        """What the run's settings ask of every client."""
        return cls(settings.optimizer, settings.lr, settings.local_epochs, settings.batch, settings.drop_last)

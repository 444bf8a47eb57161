"""What every honest change has: the hooks of a behaviour, what leaves the client, and what the server does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Behaviour, Moment
from flcontrib_core.laboratory.simulation.kinds import Aggregation, ChangeKind
from flcontrib_core.vocabulary import Float32Array, IntArray


@dataclass(frozen=True)
class Sent:
    """An update on its way to the server, with what a filter may want to know about its making."""

    update: Float32Array
    """(P,) what was trained."""
    model: Float32Array
    """(P,) the global model it is added to."""
    steps: int
    """Steps of the local training."""


MEANS = (Aggregation.FEDAVG, Aggregation.GREEDY)
"""Rules whose step is a weighted mean of updates."""
Rows = tuple[IntArray, ...]
"""Per client: its training rows."""


@dataclass(frozen=True)
class Held:
    """Who holds which training rows, and the labels of all of them."""

    rows: Rows
    labels: IntArray


@dataclass(frozen=True)
class ServerRule:
    """How the server makes its step: the rule, and the factor or rate that goes with it."""

    aggregation: Aggregation = Aggregation.FEDAVG
    rate: float = 1.0
    momentum: float = 0.9
    noise: float = 0.0
    """Gaussian noise of this many times the step's length, added by the server (central differential privacy)."""

    @property
    def takes_the_mean(self) -> bool:
        """Is the new model nothing but a weighted mean, of everybody or of the best subset?"""
        return self.aggregation in MEANS and self.rate == 1.0 and not self.noise

    @property
    def plain(self) -> bool:
        """Does the new model follow from the updates and the data sizes?"""
        return self.takes_the_mean and self.aggregation is Aggregation.FEDAVG


class ChangeBehaviour(Behaviour):
    """One kind of honest change."""

    kind: ClassVar[ChangeKind]
    at_server: ClassVar[bool] = False
    """It is the server that changes; no client is named."""
    whole_run: ClassVar[bool] = False
    """It is about who holds what, so it has no windows."""
    not_for_all: ClassVar[bool] = False
    """It makes no sense at all sites at once."""
    turning: ClassVar[bool] = False
    """It is about a turning point: without a window it comes after a third of the run."""
    own_size: ClassVar[bool] = False
    """The client reports how many rows it really used."""

    def update(self, sent: Sent, moment: Moment) -> Float32Array:
        """What is sent in place of the update."""
        return sent.update

    def hold(self, held: Held, clients: tuple[int, ...], strength: float, rng: np.random.Generator) -> Rows:
        """Who holds which training rows, before the run begins; ``clients`` are the changed ones."""
        return held.rows

    def server_rule(self, rule: ServerRule, moment: Moment) -> ServerRule:
        """How the server makes its step."""
        return rule

    def server_model(self, model: Float32Array, moment: Moment) -> Float32Array:
        """The model the server hands out after the epoch."""
        return model

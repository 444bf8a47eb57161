"""Changes on the server's side: they concern every client and accuse none."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from flcontrib_core.laboratory.simulation.behaviour import Moment
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, ServerRule
from flcontrib_core.laboratory.simulation.kinds import Aggregation, ChangeKind
from flcontrib_core.vocabulary import Float32Array


class ServerRate(ChangeBehaviour):
    """The server goes only [factor] times as far as the updates' mean (or farther)."""

    kind = ChangeKind.SERVER_RATE
    at_server = True
    default, least = 0.3, 1e-6

    def server_rule(self, rule: ServerRule, moment: Moment) -> ServerRule:
        return replace(rule, rate=rule.rate * moment.strength)


class ServerMomentum(ChangeBehaviour):
    """The server keeps a running mean of its steps with momentum [β].

    FedAvgM (Hsu, Qi and Brown, arXiv 1909.06335), in the normalised form of Reddi et al., ICLR 2021.
    """

    kind = ChangeKind.SERVER_MOMENTUM
    at_server = True
    default, most = 0.9, 0.999

    def server_rule(self, rule: ServerRule, moment: Moment) -> ServerRule:
        return replace(rule, aggregation=Aggregation.FEDAVGM, momentum=moment.strength)


class _AdaptiveServer(ChangeBehaviour):
    """The server steps adaptively at rate [η]: Reddi et al., "Adaptive federated optimization", ICLR 2021."""

    at_server = True
    default, least = 0.01, 1e-6
    aggregation: ClassVar[Aggregation]

    def server_rule(self, rule: ServerRule, moment: Moment) -> ServerRule:
        return replace(rule, aggregation=self.aggregation, rate=moment.strength)


class ServerAdam(_AdaptiveServer):
    """The server steps with FedAdam at rate [η] (Reddi et al., ICLR 2021)."""

    kind, aggregation = ChangeKind.SERVER_ADAM, Aggregation.FEDADAM


class ServerAdagrad(_AdaptiveServer):
    """The server steps with FedAdagrad at rate [η] (Reddi et al., ICLR 2021)."""

    kind, aggregation, default = ChangeKind.SERVER_ADAGRAD, Aggregation.FEDADAGRAD, 0.03


class ServerYogi(_AdaptiveServer):
    """The server steps with FedYogi at rate [η] (Reddi et al., ICLR 2021)."""

    kind, aggregation = ChangeKind.SERVER_YOGI, Aggregation.FEDYOGI


class ServerNoise(ChangeBehaviour):
    """The server adds Gaussian noise [σ] times as long as its step: central differential privacy.

    McMahan et al., "Learning differentially private recurrent language models", ICLR 2018.
    """

    kind = ChangeKind.SERVER_NOISE
    at_server = True
    default = 0.3

    def server_rule(self, rule: ServerRule, moment: Moment) -> ServerRule:
        return replace(rule, noise=moment.strength)


class NewHead(ChangeBehaviour):
    """After the first epoch of each window the server hands out a model whose last layer starts anew."""

    kind = ChangeKind.NEW_HEAD
    at_server, turning = True, True

    def server_model(self, model: Float32Array, moment: Moment) -> Float32Array:
        if moment.epoch != moment.span[0]:
            return model
        head = moment.world.places(moment.world.layers[-1])
        fan_in = int(
            np.prod(next(p for p in moment.world.parameters if p.name == moment.world.layers[-1][0]).shape[1:])
        )
        bound = 1.0 / np.sqrt(max(1, fan_in))
        return np.where(head, moment.steady().uniform(-bound, bound, size=len(model)), model).astype(np.float32)


SERVER_CHANGES: tuple[ChangeBehaviour, ...] = (
    ServerRate(),
    ServerMomentum(),
    ServerAdam(),
    ServerAdagrad(),
    ServerYogi(),
    ServerNoise(),
    NewHead(),
)

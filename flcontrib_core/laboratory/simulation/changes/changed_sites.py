"""Who changes when: the honest clients, and the server, that do something otherwise than before."""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.laboratory.simulation.behaviour import Memory, Moment, World
from flcontrib_core.laboratory.simulation.change_truth import ChangeTruth
from flcontrib_core.laboratory.simulation.changes.catalogue import CHANGES
from flcontrib_core.laboratory.simulation.changes.change import ChangeBehaviour, Held, Rows, Sent, ServerRule
from flcontrib_core.laboratory.simulation.changes.plan import Change
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.windows import inside
from flcontrib_core.vocabulary import Float32Array, IntArray

SERVER = -1
"""The server's place where a client's position is asked for."""


@dataclass(frozen=True)
class ChangedSites:
    """Which clients have which honest change."""

    world: World
    changes: tuple[Change, ...]
    members: tuple[tuple[int, ...], ...]
    """Client positions, one tuple per change."""

    @classmethod
    def choose(cls, settings: SimulationSettings, world: World, dishonest: frozenset[int]) -> ChangedSites:
        """Draws the changed clients among the honest ones; a change of all sites includes the dishonest."""
        honest = [c for c in range(settings.clients) if c not in dishonest]
        members = []
        for position, change in enumerate(settings.changes):
            if change.clients is not None:
                members.append(tuple(sorted(change.clients)))
            elif change.changed is None:
                members.append(tuple(range(settings.clients)))
            else:
                drawn = stream(settings.seed, Purpose.CHOICE_OF_CHANGED, position).permutation(honest)
                members.append(tuple(sorted(int(c) for c in drawn[: change.changed])))
        return cls(world, settings.changes, tuple(members))

    def hold(self, rows: Rows, labels: IntArray) -> Rows:
        """Who holds which training rows once the changes that concern it have been made."""
        for position, (change, clients) in enumerate(zip(self.changes, self.members, strict=True)):
            if clients:
                rng = stream(self.world.seed, Purpose.CHANGE, position, 0)
                rows = CHANGES[change.kind].hold(Held(rows, labels), clients, change.strength or 0.0, rng)
        return rows

    def behaviours(self, client: int, epoch: int, memory: Memory) -> list[tuple[ChangeBehaviour, Moment]]:
        """What this client (or ``SERVER``) does otherwise in this epoch, in the order of the settings."""
        active = []
        for position, (change, clients) in enumerate(zip(self.changes, self.members, strict=True)):
            behaviour, windows = CHANGES[change.kind], change.windows_in(self.world.epochs)
            concerned = behaviour.at_server if client == SERVER else client in clients
            if concerned and (behaviour.lasting or inside(windows, epoch)):
                strength = change.strength or 0.0
                moment = Moment(self.world, memory, Purpose.CHANGE, position, client, epoch, windows, strength, clients)
                active.append((behaviour, moment))
        return active

    def available(self, epoch: int, chosen: list[int], memory: Memory) -> list[int]:
        """Those of the chosen who can be asked; never nobody."""
        if not self.changes:
            return chosen
        there = [c for c in chosen if all(b.attends(moment) for b, moment in self.behaviours(c, epoch, memory))]
        return there or chosen[:1]

    def sent(self, epoch: int, client: int, sent: Sent, memory: Memory) -> Float32Array:
        """What leaves the client once its filters have been applied."""
        for behaviour, moment in self.behaviours(client, epoch, memory):
            sent = Sent(behaviour.update(sent, moment), sent.model, sent.steps)
        return sent.update

    def reports_own_size(self, client: int, epoch: int, memory: Memory) -> bool:
        """Does the client say in this epoch how many rows it used?"""
        return any(b.own_size for b, _ in self.behaviours(client, epoch, memory))

    def server_rule(self, epoch: int, rule: ServerRule, memory: Memory) -> ServerRule:
        """How the server makes its step in this epoch."""
        for behaviour, moment in self.behaviours(SERVER, epoch, memory):
            rule = behaviour.server_rule(rule, moment)
        return rule

    def server_model(self, epoch: int, model: Float32Array, memory: Memory) -> Float32Array:
        """The model the server hands out after this epoch."""
        for behaviour, moment in self.behaviours(SERVER, epoch, memory):
            model = behaviour.server_model(model, moment)
        return model

    def truth(self, ids: tuple[str, ...]) -> tuple[ChangeTruth, ...]:
        """What the manifest says about honest changes afterwards."""
        entries: list[ChangeTruth] = []
        for change, clients in zip(self.changes, self.members, strict=True):
            windows = change.windows_in(self.world.epochs) or ((1, self.world.epochs),)
            named = [None] if CHANGES[change.kind].at_server else [ids[c] for c in clients]
            entries += [ChangeTruth(client, change.kind.value, windows, change.strength) for client in named]
        return tuple(entries)

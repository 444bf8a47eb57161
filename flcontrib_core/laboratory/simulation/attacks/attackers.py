"""Who attacks when: the dishonest clients of a run, what they train on and what they send.

Two moments to cheat: before training (labels, rows, the way to train) and after it (the update). Outside its windows a
dishonest client is honest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.attacks.attack import AttackBehaviour, Scene
from flcontrib_core.laboratory.simulation.attacks.catalogue import ATTACKS
from flcontrib_core.laboratory.simulation.attacks.plan import Attack
from flcontrib_core.laboratory.simulation.behaviour import Memory, Moment, World
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.runs.run_log import DishonestTruth, Truth
from flcontrib_core.vocabulary import Float32Array, IntArray


@dataclass(frozen=True)
class Attackers:
    """Which client carries out which attack."""

    world: World
    attacks: tuple[Attack, ...]
    members: tuple[tuple[int, ...], ...]
    """Client positions, one tuple per attack."""

    @classmethod
    def choose(cls, settings: SimulationSettings, world: World) -> Attackers:
        """Draws the dishonest clients; those named by position are taken first."""
        attacks = settings.attacks()
        named = [position for attack in attacks for position in attack.clients or ()]
        if len(set(named)) != len(named):
            raise SettingsError(f"client positions {sorted(named)}: a client can carry out one attack only")
        free = [c for c in range(settings.clients) if c not in named]
        drawn = [int(c) for c in stream(settings.seed, Purpose.CHOICE_OF_ATTACKERS).permutation(free)]
        members = []
        for attack in attacks:
            if attack.clients is not None:
                members.append(tuple(sorted(attack.clients)))
            else:
                members.append(tuple(sorted(drawn[: attack.dishonest])))
                drawn = drawn[attack.dishonest :]
        return cls(world, attacks, tuple(members))

    @property
    def dishonest(self) -> frozenset[int]:
        """The clients that attack at some time, by position."""
        return frozenset(c for group in self.members for c in group)

    def truth(self, ids: tuple[str, ...]) -> Truth:
        """What the manifest says afterwards, in the clients' order."""
        entries = {
            client: DishonestTruth(
                ids[client], attack.windows or ((1, self.world.epochs),), attack.kind.value, attack.strength
            )
            for attack, group in zip(self.attacks, self.members, strict=True)
            for client in group
        }
        return Truth(tuple(entries[client] for client in sorted(entries)))

    def active(self, client: int, epoch: int) -> int | None:
        """The position of the attack this client carries out in this epoch."""
        for position, (attack, group) in enumerate(zip(self.attacks, self.members, strict=True)):
            if client in group and attack.active(epoch):
                return position
        return None

    def behaviours(self, client: int, epoch: int, memory: Memory) -> list[tuple[AttackBehaviour, Moment]]:
        """What this client does otherwise in this epoch: nothing, or one attack."""
        position = self.active(client, epoch)
        if position is None:
            return []
        attack = self.attacks[position]
        moment = Moment(
            self.world,
            memory,
            Purpose.ATTACK,
            position,
            client,
            epoch,
            attack.windows,
            attack.strength_in(epoch, self.world.epochs),
            self.members[position],
            attack.collude,
        )
        return [(ATTACKS[attack.kind], moment)]

    def updates(
        self,
        epoch: int,
        participants: list[int],
        honest: Float32Array,
        model: Float32Array,
        sizes: IntArray,
        memory: Memory,
    ) -> Float32Array:
        """What the participants send (participants, P), given what they trained from ``model``."""
        sent = honest.copy()
        for position, attack in enumerate(self.attacks):
            rows = [r for r, c in enumerate(participants) if self.active(c, epoch) == position]
            if not rows:
                continue
            scene = Scene(
                model,
                np.delete(honest, rows, axis=0).astype(np.float64),
                sizes,
                sizes[rows],
                tuple(self.behaviours(participants[r], epoch, memory)[0][1] for r in rows),
            )
            forged = ATTACKS[attack.kind].forge(honest[rows].astype(np.float64), scene)
            if forged is not None:
                sent[rows] = forged.astype(np.float32)
        return sent

"""What does a dishonest client train on, and what does it send instead of its update?

Two moments to cheat: before training (labels, rows) and after it (the update). Both are pure functions of the honest
material, the attack and a random stream; outside its windows a dishonest client is honest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import Attack, AttackKind, SimulationSettings
from flcontrib_core.runs.run_log import DishonestTruth, Truth
from flcontrib_core.vocabulary import BoolArray, Float32Array, FloatArray, IntArray

_FLIPS = (AttackKind.LABEL_FLIP, AttackKind.HIDDEN_FLIP)
_ON_LABELS = (*_FLIPS, AttackKind.TARGETED_FLIP, AttackKind.BACKDOOR)
_ON_DATA_ALONE = (AttackKind.LABEL_FLIP, AttackKind.TARGETED_FLIP, AttackKind.BACKDOOR)
TRIGGER_SHARE = 1 / 16
"""Of the columns: those that a backdoor's trigger sets."""


@dataclass(frozen=True)
class Attackers:
    """Which client carries out which attack."""

    seed: int
    classes: int
    epochs: int
    attacks: tuple[Attack, ...]
    members: tuple[tuple[int, ...], ...]
    """Client positions, one tuple per attack."""

    @classmethod
    def choose(cls, settings: SimulationSettings, classes: int) -> Attackers:
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
        return cls(settings.seed, classes, settings.epochs, attacks, tuple(members))

    @property
    def dishonest(self) -> frozenset[int]:
        return frozenset(c for group in self.members for c in group)

    def truth(self, ids: tuple[str, ...], epochs: int) -> Truth:
        """What the manifest says afterwards, in the clients' order."""
        entries = {
            client: DishonestTruth(
                ids[client], attack.windows or ((1, epochs),), attack.kind.value, _strength_on_record(attack)
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

    def triggered(self, client: int, epoch: int, rows: int) -> BoolArray:
        """(rows,) which of its rows this client shows with a backdoor's trigger."""
        position = self.active(client, epoch)
        if position is None or self.attacks[position].kind is not AttackKind.BACKDOOR:
            return np.zeros(rows, dtype=bool)
        return self._poisoned(position, client, epoch, rows)

    def _poisoned(self, position: int, client: int, epoch: int, rows: int) -> BoolArray:
        """(rows,) which rows are poisoned. The chances are drawn once, when the window opens, and kept until it closes;
        a ramp poisons more and more of the same rows."""
        window = self.attacks[position].window_of(epoch)
        chance = stream(self.seed, Purpose.ATTACK, position, 1 + client, window).random(rows)
        return np.asarray(chance < self.attacks[position].strength_in(epoch, self.epochs))

    def labels(self, client: int, epoch: int, honest: IntArray) -> IntArray:
        """The labels this client trains on."""
        position = self.active(client, epoch)
        if position is None or self.attacks[position].kind not in _ON_LABELS:
            return honest
        attack = self.attacks[position]
        agreed = self._plan(position, client, attack.window_of(epoch))
        flipped = self._poisoned(position, client, epoch, len(honest))
        if attack.kind is AttackKind.BACKDOOR:
            return np.where(flipped, int(agreed.integers(self.classes)), honest)
        if attack.kind is AttackKind.TARGETED_FLIP:
            origin, target = agreed.permutation(self.classes)[:2]
            return np.where(flipped & (honest == origin), target, honest)
        if attack.collude:
            shift = int(agreed.integers(1, self.classes))
            return np.where(flipped, (honest + shift) % self.classes, honest)
        return np.where(flipped, (honest + agreed.integers(1, self.classes, len(honest))) % self.classes, honest)

    def _plan(self, position: int, client: int, moment: int) -> np.random.Generator:
        """The random stream of one attacker's plan; a colluding group shares one."""
        shared = self.attacks[position].collude
        return stream(self.seed, Purpose.ATTACK, position, 0, moment, 0 if shared else 1 + client)

    def updates(self, epoch: int, participants: list[int], honest: Float32Array, memory: Memory) -> Float32Array:
        """What the participants send (participants, P), given what they trained."""
        sent = honest.copy()
        for position, attack in enumerate(self.attacks):
            rows = [r for r, c in enumerate(participants) if self.active(c, epoch) == position]
            if not rows or attack.kind in _ON_DATA_ALONE:
                continue
            own = honest[rows].astype(np.float64)
            if attack.kind is AttackKind.HIDDEN_FLIP:
                sent[rows] = _hidden(own, np.delete(honest, rows, axis=0))
                continue
            strength = attack.strength_in(epoch, self.epochs)
            if attack.collude and attack.kind in (AttackKind.SIGN_FLIP, AttackKind.SCALE):
                own = np.tile(own.mean(axis=0), (len(rows), 1))
            for update, row in zip(own, rows, strict=True):
                plan = self._plan(position, participants[row], epoch)
                sent[row] = _tampered(attack.kind, strength, update, memory, participants[row], plan).astype(np.float32)
        return sent


@dataclass
class Memory:
    """What clients still know from earlier epochs: their own last update and the last step of the global model."""

    last_sent: dict[int, Float32Array] = field(default_factory=dict)
    last_step: Float32Array | None = None

    def remember(self, participants: list[int], sent: Float32Array, step: Float32Array) -> None:
        self.last_sent.update({c: sent[r] for r, c in enumerate(participants)})
        self.last_step = step


def _tampered(
    kind: AttackKind, strength: float, update: FloatArray, memory: Memory, client: int, plan: np.random.Generator
) -> FloatArray:
    """One client's false update; a repeat or copy without anything to repeat stays honest in that epoch."""
    match kind:
        case AttackKind.SIGN_FLIP:
            return -strength * update
        case AttackKind.SCALE:
            return strength * update
        case AttackKind.ADDITIVE_NOISE:
            return update + _noise(update, strength, plan)
        case AttackKind.PURE_NOISE:
            return _noise(update, strength, plan)
        case AttackKind.ZERO:
            return np.zeros_like(update)
        case AttackKind.REPEAT:
            stale = memory.last_sent.get(client)
        case _:
            stale = memory.last_step
    if stale is None:
        return update
    old = stale.astype(np.float64)
    return old + _noise(old, strength, plan) if strength else old


def _hidden(own: FloatArray, others: Float32Array) -> Float32Array:
    """Updates (attackers, P) blended half and half with the mean of the others, as long as these are; alone: as is."""
    if not len(others):
        return own.astype(np.float32)
    known = others.astype(np.float64)
    blended = 0.5 * own + 0.5 * known.mean(axis=0)
    length = np.linalg.norm(blended, axis=1, keepdims=True)
    usual = float(np.median(np.linalg.norm(known, axis=1)))
    return np.asarray(blended * usual / np.maximum(length, 1e-12), dtype=np.float32)


def with_trigger(x: Float32Array, image: bool) -> Float32Array:
    """The rows with a backdoor's trigger: the last columns at their largest value, or an image's at the brightest."""
    marked = x.copy()
    columns = max(1, round(TRIGGER_SHARE * x.shape[1]))
    marked[:, -columns:] = x.max() if image else x[:, -columns:].max(axis=0)
    return marked


def _noise(like: FloatArray, factor: float, rng: np.random.Generator) -> FloatArray:
    """Gaussian noise of expected norm ``factor``·‖like‖."""
    scale = factor * float(np.linalg.norm(like)) / len(like) ** 0.5
    return rng.normal(0.0, scale, size=len(like))


def _strength_on_record(attack: Attack) -> float | None:
    return None if attack.kind is AttackKind.ZERO else attack.strength

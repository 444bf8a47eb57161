"""What a client can do otherwise than train plainly: the hooks that honest changes and attacks fill in.

A behaviour is one kind of change or attack. Each hook is a pure function of the honest material, the moment it acts
in and random streams that belong to that moment; a kind overrides the hooks it needs and leaves the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.batches import LocalBatches
from flcontrib_core.laboratory.simulation.datasets import Dataset
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.windows import Window, window_position
from flcontrib_core.runs.run_log import ParameterSpec
from flcontrib_core.vocabulary import BoolArray, Float32Array, IntArray

MODELS_REMEMBERED = 10
"""Global models a client may still start from."""


@dataclass(frozen=True)
class World:
    """What is fixed for all clients and epochs of a run."""

    seed: int
    epochs: int
    data: Dataset
    parameters: tuple[ParameterSpec, ...]

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """The parameter names of each layer, first layer first."""
        grouped: dict[str, list[str]] = {}
        for spec in self.parameters:
            grouped.setdefault(spec.name.rpartition(".")[0], []).append(spec.name)
        return tuple(tuple(names) for names in grouped.values())

    def places(self, names: tuple[str, ...]) -> BoolArray:
        """(P,) the coordinates of these parameters in the flat model."""
        return np.concatenate([np.full(spec.count, spec.name in names) for spec in self.parameters])


@dataclass
class Memory:
    """What is still known from earlier epochs: by a client of its own, and by everybody of the global model."""

    last_sent: dict[int, Float32Array] = field(default_factory=dict)
    last_local: dict[int, Float32Array] = field(default_factory=dict)
    """Per client: its own model after its last participation."""
    last_step: Float32Array | None = None
    """(P,) the last step of the global model."""
    models: list[Float32Array] = field(default_factory=list)
    """The global models the latest epochs started from, oldest first."""
    notes: dict[tuple[str, int, int], Float32Array] = field(default_factory=dict)
    """What a behaviour keeps for itself: by name, position of the behaviour and client."""

    def remember(self, participants: list[int], sent: Float32Array, before: Float32Array, after: Float32Array) -> None:
        """Takes down one epoch: who sent what, and how the global model moved."""
        self.last_sent.update({c: sent[r] for r, c in enumerate(participants)})
        self.last_local.update({c: before + sent[r] for r, c in enumerate(participants)})
        self.last_step = after - before
        self.models = [*self.models, before][-MODELS_REMEMBERED:]


@dataclass(frozen=True)
class Moment:
    """One client in one epoch, as its behaviour sees it."""

    world: World
    memory: Memory
    purpose: Purpose
    position: int
    """Of the change or attack among those of the run."""
    client: int
    epoch: int
    windows: tuple[Window, ...]
    """Empty: the whole run."""
    strength: float
    group: tuple[int, ...] = ()
    """The clients that carry this out, by position."""
    collude: bool = False

    @property
    def span(self) -> Window:
        """First and last epoch of the window this epoch lies in."""
        return self.windows[self.window] if self.windows else (1, self.world.epochs)

    @property
    def window(self) -> int:
        """The position of the window this epoch lies in."""
        return window_position(self.windows, self.epoch)

    @property
    def progress(self) -> float:
        """How much of the time from the first window's start to the last one's end has passed: above 0 within."""
        first = min((a for a, _ in self.windows), default=1)
        last = max((b for _, b in self.windows), default=self.world.epochs)
        return float(np.clip((self.epoch - first + 1) / (last - first + 1), 0.0, 1.0))

    def always(self) -> np.random.Generator:
        """This client's stream for the whole run: the same draws in every epoch."""
        return stream(self.world.seed, self.purpose, self.position, 1 + self.client)

    def steady(self) -> np.random.Generator:
        """This client's stream for all of a window: the same draws in each of its epochs."""
        return stream(self.world.seed, self.purpose, self.position, 1 + self.client, self.window)

    def fresh(self) -> np.random.Generator:
        """This client's stream for this epoch alone."""
        return stream(self.world.seed, self.purpose, self.position, 1 + self.client, self.window, 1 + self.epoch)

    def plan(self, when: int, shared: bool | None = None) -> np.random.Generator:
        """The stream of a plan, by window or epoch; a colluding group shares one."""
        together = self.collude if shared is None else shared
        return stream(self.world.seed, self.purpose, self.position, 0, when, 0 if together else 1 + self.client)

    def note(self, name: str) -> tuple[str, int, int]:
        """The key of what this client's behaviour keeps in memory."""
        return (name, self.position, self.client)


class LocalSite(Protocol):
    """One client in one epoch with all it needs to train, for behaviours that train in a way of their own."""

    @property
    def start(self) -> Float32Array: ...

    @property
    def rows(self) -> IntArray: ...

    @property
    def labels(self) -> IntArray: ...

    @property
    def training(self) -> LocalTraining: ...

    def train(
        self, start: Float32Array, rows: IntArray, labels: IntArray, training: LocalTraining, turn: int
    ) -> Float32Array:
        """Δ of training from ``start`` on these rows; ``turn`` keeps the random streams of several calls apart."""
        ...


class Behaviour:
    """One kind of change or attack; without an override every hook hands back what it got."""

    default: ClassVar[float | None] = None
    """The strength where none is given; None: this kind has no strength."""
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = float("inf")
    lasting: ClassVar[bool] = False
    """Its hooks are also called outside its windows, where ``Moment.progress`` is 0 before and 1 after them."""

    @classmethod
    def checked_strength(cls, strength: float | None, kind: str) -> float | None:
        """The strength to use, or ``SettingsError`` where this one is impossible."""
        if strength is None or cls.default is None:
            return cls.default
        if not cls.least <= strength <= cls.most:
            limit = f"between {cls.least:g} and {cls.most:g}" if cls.most < float("inf") else f"at least {cls.least:g}"
            raise SettingsError(f"strength {strength:g} of {kind}: it is {limit}")
        return strength

    def attends(self, moment: Moment) -> bool:
        """Can the client be asked in this epoch?"""
        return True

    def training(self, training: LocalTraining, moment: Moment) -> LocalTraining:
        """How it trains."""
        return training

    def start(self, model: Float32Array, moment: Moment) -> Float32Array:
        """The model it starts from; the update is what it adds to that."""
        return model

    def data(self, rows: IntArray, labels: IntArray, moment: Moment) -> tuple[IntArray, IntArray]:
        """The training rows it uses, and their labels."""
        return rows, labels

    def inputs(self, x: Float32Array, moment: Moment) -> Float32Array | None:
        """What it sees in place of the inputs ``x`` of its rows; None: the inputs as they are."""
        return None

    def batches(self, batches: LocalBatches, moment: Moment) -> LocalBatches:
        """The steps it takes."""
        return batches

    def local_update(self, site: LocalSite, moment: Moment) -> Float32Array | None:
        """Δ by a training of its own; None: trained with everybody else."""
        return None

"""A federation before its first epoch: data, model, clients, and who will behave how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.attacks.attackers import Attackers
from flcontrib_core.laboratory.simulation.batches import LocalBatches
from flcontrib_core.laboratory.simulation.behaviour import World
from flcontrib_core.laboratory.simulation.change_truth import ChangeTruth
from flcontrib_core.laboratory.simulation.changes.changed_sites import ChangedSites
from flcontrib_core.laboratory.simulation.cnn import Cnn
from flcontrib_core.laboratory.simulation.datasets import Dataset, load_dataset
from flcontrib_core.laboratory.simulation.difficulties import Difficulties
from flcontrib_core.laboratory.simulation.kinds import ModelKind
from flcontrib_core.laboratory.simulation.local_training import LocalTraining
from flcontrib_core.laboratory.simulation.mlp import Mlp
from flcontrib_core.laboratory.simulation.random_streams import Purpose, stream
from flcontrib_core.laboratory.simulation.settings import SimulationSettings
from flcontrib_core.laboratory.simulation.splits import share_out
from flcontrib_core.runs.run_log import Client, ParameterSpec, Truth, Validation
from flcontrib_core.vocabulary import BoolArray, Float32Array, IntArray


class TrainableModel(Protocol):
    """A network as the simulator needs it; ``Mlp`` and ``Cnn`` are the two there are."""

    @property
    def parameters(self) -> tuple[ParameterSpec, ...]: ...

    @property
    def statistics(self) -> BoolArray:
        """(P,) which parameters are running statistics rather than weights."""
        ...

    @property
    def spec(self) -> dict[str, Any]: ...

    def initial(self, rng: np.random.Generator) -> Float32Array: ...

    def train(
        self,
        start: Float32Array,
        x: Float32Array,
        batches: Sequence[LocalBatches],
        training: LocalTraining,
        noise: Sequence[np.random.Generator] = (),
    ) -> Float32Array: ...

    def logits(self, models: Float32Array, x: Float32Array) -> Float32Array: ...


@dataclass(frozen=True)
class Federation:
    """Everything that is fixed before epoch 1."""

    settings: SimulationSettings
    data: Dataset
    model: TrainableModel
    initial: Float32Array
    clients: tuple[Client, ...]
    rows: tuple[IntArray, ...]
    """Per client: its training rows."""
    attackers: Attackers
    difficulties: Difficulties
    changes: ChangedSites

    @property
    def validation(self) -> Validation:
        """The validation set in the shape the model reads."""
        return Validation(self._shaped(self.data.x_validation), self.data.y_validation, self.data.group_validation)

    @property
    def training(self) -> Validation:
        """All clients' training rows as a set to evaluate on."""
        return Validation(self._shaped(self.data.x_train), self.data.y_train, None)

    def _shaped(self, x: Float32Array) -> Float32Array:
        return x.reshape(len(x), *self.model.image) if isinstance(self.model, Cnn) else x

    @property
    def truth(self) -> Truth:
        """Who is dishonest, and when."""
        return self.attackers.truth(tuple(c.id for c in self.clients))

    @property
    def honest_changes(self) -> tuple[ChangeTruth, ...]:
        """Which honest sites, or the server, change what, and when."""
        return self.changes.truth(tuple(c.id for c in self.clients))


def prepare(settings: SimulationSettings) -> Federation:
    """The federation before its first epoch. Raises ``MissingPart`` or ``SettingsError`` where it cannot exist."""
    seed = settings.seed
    data = load_dataset(
        settings.dataset,
        stream(seed, Purpose.DATA),
        settings.data_dir,
        settings.train_rows,
        settings.validation_rows,
    )
    model = _model(settings, data)
    world = World(seed, settings.epochs, data, model.parameters)
    attackers = Attackers.choose(settings, world)
    changes = ChangedSites.choose(settings, world, attackers.dishonest)
    rows = share_out(
        data.y_train, settings.clients, settings.split, settings.alpha, settings.sizes, stream(seed, Purpose.SPLIT)
    )
    rows = changes.hold(rows, data.y_train)
    digits = max(2, len(str(settings.clients)))
    return Federation(
        settings,
        data,
        model,
        model.initial(stream(seed, Purpose.INITIAL_MODEL)),
        tuple(Client(f"client-{i + 1:0{digits}d}", len(own)) for i, own in enumerate(rows)),
        rows,
        attackers,
        Difficulties.choose(settings, data.classes, attackers.dishonest),
        changes,
    )


def _model(settings: SimulationSettings, data: Dataset) -> TrainableModel:
    if settings.model is not ModelKind.CNN:
        return Mlp((data.x_train.shape[1], *settings.hidden, data.classes))
    if data.image is None:
        raise SettingsError(f"model cnn on {data.name}: it needs images; choose mlp or an image data set")
    return Cnn(data.image, settings.width, data.classes)

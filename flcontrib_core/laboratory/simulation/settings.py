"""Settings of a simulated federation: every knob, with the command line's defaults.

>>> SimulationSettings(attack="label-flip", strength=0.7, dishonest=2, windows=((12, 20),), seed=3).dishonest
2
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from flcontrib_core.errors import SettingsError
from flcontrib_core.laboratory.simulation.attacks.plan import Attack
from flcontrib_core.laboratory.simulation.changes.plan import Change, parse_changes
from flcontrib_core.laboratory.simulation.kinds import (
    Aggregation,
    AttackKind,
    ChangeKind,
    DatasetName,
    DifficultyKind,
    ModelKind,
    Optimizer,
    Sizes,
    Split,
    named,
)
from flcontrib_core.laboratory.simulation.windows import WHOLE, Window, check_windows, parse_windows

__all__ = [
    "WHOLE",
    "Aggregation",
    "Attack",
    "AttackKind",
    "Change",
    "ChangeKind",
    "DatasetName",
    "DifficultyKind",
    "ModelKind",
    "Optimizer",
    "Privacy",
    "SimulationSettings",
    "Sizes",
    "Split",
    "Window",
    "paper_settings",
    "parse_changes",
    "parse_windows",
]

DEFAULT_DIFFICULTY: dict[DifficultyKind, float | None] = {
    DifficultyKind.NONE: None,
    DifficultyKind.LOW_QUALITY: 0.3,
    DifficultyKind.DRIFT: 1.0,
    DifficultyKind.RARE: 0.25,
    DifficultyKind.DROP_OUT: 0.2,
}
PAPER_HIDDEN = (64, 128, 256, 512)
PAPER_ALPHA = {DatasetName.ADULT: 50.0, DatasetName.COMPAS: 0.5, DatasetName.CIFAR10: 0.25}


@dataclass(frozen=True)
class Privacy:
    """Every client shortens its update to ``clip`` at most and adds Gaussian noise of length ``noise``·``clip``.

    This is differential privacy with noise added by the clients; in the usual terms the noise multiplier per client is
    ``noise``/√P for a model of P parameters.
    """

    noise: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.noise < 0 or not self.clip > 0:
            raise SettingsError(f"privacy noise {self.noise}, clip {self.clip}: noise of at least 0, a clip above 0")


@dataclass(frozen=True)
class SimulationSettings:
    """One simulated federation. Names may be given as plain text; they are checked and become enums."""

    dataset: DatasetName = DatasetName.DIGITS
    data_dir: Path | None = None
    """Where Adult, COMPAS, CIFAR-10, MNIST and Fashion-MNIST lie; $FLCONTRIB_DATA where None."""
    clients: int = 8
    epochs: int = 30
    participation: float = 1.0
    """Share of the clients asked in each epoch, at least one."""
    split: Split = Split.IID
    alpha: float = 0.5
    """Concentration of the Dirichlet and Beta splits; lower is more heterogeneous."""
    sizes: Sizes = Sizes.EQUAL
    model: ModelKind = ModelKind.MLP
    hidden: tuple[int, ...] = (32,)
    width: int = 32
    optimizer: Optimizer = Optimizer.SGD
    local_epochs: int = 1
    batch: int = 16
    lr: float = 0.1
    attack: AttackKind | None = None
    strength: float | None = None
    dishonest: int = 1
    collude: bool = False
    windows: tuple[Window, ...] = ()
    """Of ``attack``; empty means the whole run."""
    difficulty: DifficultyKind = DifficultyKind.NONE
    difficulty_strength: float | None = None
    difficulty_clients: int | None = None
    """How many honest clients it affects; a quarter of all where None."""
    aggregation: Aggregation = Aggregation.FEDAVG
    first_epoch_all: bool = False
    """Everybody takes part in epoch 1 (ComFedSV's assumption)."""
    seed: int = 0
    drop_last: bool = True
    """Leave out a trailing incomplete batch: one row alone makes an honest client look harmful."""
    train_rows: int | None = None
    """Rows shared out among the clients; all of the data set's where None."""
    validation_rows: int | None = None
    more_attacks: tuple[Attack, ...] = ()
    """Further attacks beside ``attack``, on other clients."""
    ramp: bool = False
    """Of ``attack``: its strength rises over each window."""
    privacy: Privacy | None = None
    changes: tuple[Change, ...] = ()
    """What honest sites, or the server, do otherwise at some time."""
    server_rate: float | None = None
    """Of the server's step; where None, 1 for means and 0.01 for adaptive rules."""
    name: str | None = None

    def __post_init__(self) -> None:
        for key, kind in (
            ("dataset", DatasetName),
            ("split", Split),
            ("sizes", Sizes),
            ("model", ModelKind),
            ("optimizer", Optimizer),
            ("difficulty", DifficultyKind),
            ("aggregation", Aggregation),
        ):
            object.__setattr__(self, key, named(kind, getattr(self, key), key))
        if self.attack is not None:
            object.__setattr__(self, "attack", named(AttackKind, self.attack, "attack"))
        if self.difficulty_strength is None:
            object.__setattr__(self, "difficulty_strength", DEFAULT_DIFFICULTY[self.difficulty])
        if self.model is ModelKind.PAPER_MLP:
            object.__setattr__(self, "hidden", PAPER_HIDDEN)
        self._check_ranges()
        self._check_attacks()
        for change in self.changes:
            change.check(self.clients, self.epochs)

    def _check_ranges(self) -> None:
        for key in ("clients", "epochs", "local_epochs", "batch", "width"):
            if getattr(self, key) < 1:
                raise SettingsError(f"{key} = {getattr(self, key)}: at least 1 is needed")
        for key in ("alpha", "lr", "server_rate"):
            if getattr(self, key) is not None and not getattr(self, key) > 0:
                raise SettingsError(f"{key} = {getattr(self, key)}: a positive number is needed")
        if not 0 < self.participation <= 1:
            raise SettingsError(f"participation = {self.participation}: a share above 0 and up to 1 is needed")
        if any(width < 1 for width in self.hidden):
            raise SettingsError(f"hidden = {self.hidden}: every hidden layer needs at least one unit")
        if self.seed < 0:
            raise SettingsError(f"seed = {self.seed}: a seed is a whole number of at least 0")
        if self.difficulty_strength is not None and not 0 <= self.difficulty_strength <= 1:
            raise SettingsError(f"difficulty_strength = {self.difficulty_strength}: a share between 0 and 1 is needed")

    def _check_attacks(self) -> None:
        attackers = sum(a.dishonest for a in self.attacks())
        if attackers > self.clients or any(a.dishonest < 1 for a in self.attacks()):
            raise SettingsError(f"{attackers} dishonest clients among {self.clients}: choose between 1 and all of them")
        for attack in self.attacks():
            check_windows(attack.windows, self.epochs)
            for position in attack.clients or ():
                if not 0 <= position < self.clients:
                    raise SettingsError(f"client position {position}: the federation has {self.clients} clients")

    def attacks(self) -> tuple[Attack, ...]:
        """All attacks of the run: the one of the flat settings first, then the further ones."""
        if self.attack is None:
            return self.more_attacks
        flat = Attack(self.attack, self.dishonest, None, self.windows, self.strength, self.collude, self.ramp)
        return (flat, *self.more_attacks)


def paper_settings(dataset: DatasetName | str, **changes: Any) -> SimulationSettings:
    """The appendix's training set-up for one of its data sets; ``changes`` win over it.

    Half of the clients per epoch, 10 local epochs, batches of 64, learning rate 0.001, Beta split with β = 50
    (Adult), 0.5 (COMPAS), 0.25 (CIFAR-10), the MLP of 64, 128, 256 and 512 units, or the CNN of depth 3, width 128.

    Departure: the appendix names no optimiser; its learning rate is Adam's customary one, so Adam it is. Data sets
    outside the paper take β = 0.5 and, where they are images other than digits, the CNN only when asked for.
    """
    name = named(DatasetName, dataset, "dataset")
    base = SimulationSettings(
        dataset=name,
        participation=0.5,
        split=Split.BETA,
        alpha=PAPER_ALPHA.get(name, 0.5),
        model=ModelKind.CNN if name is DatasetName.CIFAR10 else ModelKind.PAPER_MLP,
        width=128,
        optimizer=Optimizer.ADAM,
        local_epochs=10,
        batch=64,
        lr=0.001,
    )
    unknown = set(changes) - {field.name for field in fields(SimulationSettings)}
    if unknown:
        raise SettingsError(f"unknown settings: {', '.join(sorted(unknown))}")
    return replace(base, **changes)

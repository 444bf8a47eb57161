"""Which federation is to be simulated? Every knob, with the command line's defaults.

>>> SimulationSettings(attack="label-flip", strength=0.7, dishonest=2, windows=((12, 20),), seed=3).dishonest
2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from flcontrib_core.errors import SettingsError

Window = tuple[int, int]
"""First and last epoch, 1-based, inclusive."""
WHOLE = "whole"


class DatasetName(StrEnum):
    DIGITS = "digits"
    BREAST_CANCER = "breast-cancer"
    WINE = "wine"
    SYNTHETIC = "synthetic"
    """A table of made-up people, drawn anew for each seed."""
    ADULT = "adult"
    COMPAS = "compas"
    CIFAR10 = "cifar10"
    MNIST = "mnist"
    FASHION_MNIST = "fashion-mnist"


class Split(StrEnum):
    """How the classes are shared out among the clients."""

    IID = "iid"
    DIRICHLET = "dirichlet"
    BETA = "beta"


class Sizes(StrEnum):
    EQUAL = "equal"
    UNEQUAL = "unequal"


class ModelKind(StrEnum):
    MLP = "mlp"
    PAPER_MLP = "paper-mlp"
    CNN = "cnn"


class Optimizer(StrEnum):
    SGD = "sgd"
    ADAM = "adam"


class Aggregation(StrEnum):
    FEDAVG = "fedavg"
    GREEDY = "greedy"


class AttackKind(StrEnum):
    """What a dishonest client does inside its windows; ``strength`` means the number in brackets."""

    LABEL_FLIP = "label-flip"
    """Trains on labels changed with probability [p]."""
    TARGETED_FLIP = "targeted-flip"
    """Trains on labels of one class changed into one other with probability [p]."""
    SIGN_FLIP = "sign-flip"
    """Sends −[factor]·Δ."""
    SCALE = "scale"
    """Sends [factor]·Δ."""
    ADDITIVE_NOISE = "additive-noise"
    """Adds Gaussian noise of [factor]·‖Δ‖ to Δ."""
    PURE_NOISE = "pure-noise"
    """Sends Gaussian noise of [factor]·‖Δ‖ instead of Δ."""
    ZERO = "zero"
    """Sends nothing but zeros: a free rider."""
    REPEAT = "repeat"
    """Sends its own last update again, with relative noise [level]."""
    COPY = "copy"
    """Sends the last step of the global model as its own, with relative noise [level]."""
    HIDDEN_FLIP = "hidden-flip"
    """Trains on labels changed with probability [p], and hides it: half of what it sends is the mean of the other
    participants' updates, which it is assumed to know, and the length is their median length."""
    BACKDOOR = "backdoor"
    """Trains on a share [p] of its rows with a trigger (a few columns set to their largest value) and one label."""


class DifficultyKind(StrEnum):
    """What makes honest clients look different; ``difficulty_strength`` means the number in brackets."""

    NONE = "none"
    LOW_QUALITY = "low-quality"
    """Some clients' labels are wrong with probability [p], over the whole run."""
    DRIFT = "drift"
    """Some clients' class mix moves away during the run, until a share [s] of their rows follows the new mix."""
    RARE = "rare"
    """Some clients can be asked only in a share [s] of the epochs."""
    DROP_OUT = "drop-out"
    """Every client that was asked fails to answer with probability [p]."""


DEFAULT_STRENGTH: dict[AttackKind, float | None] = {
    AttackKind.LABEL_FLIP: 0.7,
    AttackKind.TARGETED_FLIP: 1.0,
    AttackKind.SIGN_FLIP: 1.0,
    AttackKind.SCALE: 5.0,
    AttackKind.ADDITIVE_NOISE: 1.0,
    AttackKind.PURE_NOISE: 1.0,
    AttackKind.ZERO: None,
    AttackKind.REPEAT: 0.0,
    AttackKind.COPY: 0.0,
    AttackKind.HIDDEN_FLIP: 0.7,
    AttackKind.BACKDOOR: 0.5,
}
PROBABILITIES = (AttackKind.LABEL_FLIP, AttackKind.TARGETED_FLIP, AttackKind.HIDDEN_FLIP, AttackKind.BACKDOOR)
"""Kinds whose strength is a probability or a share."""
DEFAULT_DIFFICULTY: dict[DifficultyKind, float | None] = {
    DifficultyKind.NONE: None,
    DifficultyKind.LOW_QUALITY: 0.3,
    DifficultyKind.DRIFT: 1.0,
    DifficultyKind.RARE: 0.25,
    DifficultyKind.DROP_OUT: 0.2,
}
PAPER_HIDDEN = (64, 128, 256, 512)
PAPER_ALPHA = {DatasetName.ADULT: 50.0, DatasetName.COMPAS: 0.5, DatasetName.CIFAR10: 0.25}

_Named = TypeVar("_Named", bound=StrEnum)


@dataclass(frozen=True)
class Attack:
    """One kind of dishonesty, carried out by ``dishonest`` clients chosen by the seed, or by ``clients`` by position.

    No windows means the whole run. ``collude``: the group agrees on one plan (one label map, one noise). ``ramp``: the
    strength rises evenly over each window and is full in its last epoch.
    """

    kind: AttackKind
    dishonest: int = 1
    clients: tuple[int, ...] | None = None
    windows: tuple[Window, ...] = ()
    strength: float | None = None
    collude: bool = False
    ramp: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", named(AttackKind, self.kind, "attack"))
        if self.strength is None:
            object.__setattr__(self, "strength", DEFAULT_STRENGTH[self.kind])
        if self.strength is not None and self.strength < 0:
            raise SettingsError(f"strength {self.strength}: an attack's strength is at least 0")
        if self.kind in PROBABILITIES and (self.strength or 0.0) > 1:
            raise SettingsError(f"strength {self.strength}: a flipping probability lies between 0 and 1")
        if self.clients is not None:
            object.__setattr__(self, "dishonest", len(self.clients))

    def active(self, epoch: int) -> bool:
        return not self.windows or any(first <= epoch <= last for first, last in self.windows)

    def window_of(self, epoch: int) -> int:
        """The position of the window this epoch lies in; 0 where the attack has none."""
        return next((i for i, (first, last) in enumerate(self.windows) if first <= epoch <= last), 0)

    def strength_in(self, epoch: int, epochs: int) -> float:
        """The strength in this epoch of a run of ``epochs``: with a ramp, the share of its window that has passed."""
        full = self.strength or 0.0
        if not self.ramp:
            return full
        first, last = self.windows[self.window_of(epoch)] if self.windows else (1, epochs)
        return full * (epoch - first + 1) / (last - first + 1)


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

    def _check_ranges(self) -> None:
        for key in ("clients", "epochs", "local_epochs", "batch", "width"):
            if getattr(self, key) < 1:
                raise SettingsError(f"{key} = {getattr(self, key)}: at least 1 is needed")
        for key in ("alpha", "lr"):
            if not getattr(self, key) > 0:
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
            for first, last in attack.windows:
                if not 1 <= first <= last <= self.epochs:
                    raise SettingsError(f"window {first}:{last}: a window lies within the epochs 1 to {self.epochs}")
            for position in attack.clients or ():
                if not 0 <= position < self.clients:
                    raise SettingsError(f"client position {position}: the federation has {self.clients} clients")

    def attacks(self) -> tuple[Attack, ...]:
        """All attacks of the run: the one of the flat settings first, then the further ones."""
        if self.attack is None:
            return self.more_attacks
        flat = Attack(self.attack, self.dishonest, None, self.windows, self.strength, self.collude, self.ramp)
        return (flat, *self.more_attacks)


def named(kind: type[_Named], value: object, setting: str) -> _Named:
    """An enum's member by its text, or an error that lists the choices."""
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise SettingsError(f"{setting} = {value!r}: choose one of {choices}") from None


def parse_windows(texts: Iterable[str], epochs: int) -> tuple[Window, ...]:
    """Windows from the command line: ``"12:20"`` (inclusive, 1-based) or ``"whole"``."""
    windows: list[Window] = []
    for text in texts:
        if text == WHOLE:
            windows.append((1, epochs))
            continue
        first, colon, last = text.partition(":")
        if not colon or not first.strip().isdecimal() or not last.strip().isdecimal():
            raise SettingsError(f"window {text!r}: write FIRST:LAST, for example 12:20, or {WHOLE}")
        windows.append((int(first), int(last)))
    return tuple(windows)


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

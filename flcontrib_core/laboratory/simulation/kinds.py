"""The names a simulated federation is described with: data, split, model, optimiser, server, attack, honest change."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from flcontrib_core.errors import SettingsError

_Named = TypeVar("_Named", bound=StrEnum)


class DatasetName(StrEnum):
    """Which rows the clients share; ``datasets`` says where each comes from."""

    DIGITS = "digits"
    BREAST_CANCER = "breast-cancer"
    WINE = "wine"
    SYNTHETIC = "synthetic"
    """A table of made-up people, drawn anew for each seed."""
    ADULT_LIKE = "adult-like"
    """A made-up table with the columns, class shares and difficulty of Adult, drawn anew for each seed."""
    COMPAS_LIKE = "compas-like"
    """The same for COMPAS: few columns, classes that overlap almost everywhere."""
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
    """How many rows each client holds; unequal ones differ up to fourfold."""

    EQUAL = "equal"
    UNEQUAL = "unequal"


class ModelKind(StrEnum):
    """The network; ``paper-mlp`` has the widths of the paper's appendix."""

    MLP = "mlp"
    PAPER_MLP = "paper-mlp"
    CNN = "cnn"


class Optimizer(StrEnum):
    """How a client makes its steps; no client keeps moments between epochs."""

    SGD = "sgd"
    ADAM = "adam"
    MOMENTUM = "momentum"
    """SGD with momentum 0.9."""
    ADAMW = "adamw"


class Aggregation(StrEnum):
    """How the server makes one model of many updates."""

    FEDAVG = "fedavg"
    GREEDY = "greedy"
    FEDAVGM = "fedavgm"
    """FedAvg with server momentum."""
    FEDADAM = "fedadam"
    FEDADAGRAD = "fedadagrad"
    FEDYOGI = "fedyogi"


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


class AttackKind(StrEnum):
    """What a dishonest client does inside its windows; the classes in ``attacks`` say what each does."""

    LABEL_FLIP = "label-flip"
    TARGETED_FLIP = "targeted-flip"
    SIGN_FLIP = "sign-flip"
    SCALE = "scale"
    ADDITIVE_NOISE = "additive-noise"
    PURE_NOISE = "pure-noise"
    ZERO = "zero"
    REPEAT = "repeat"
    COPY = "copy"
    HIDDEN_FLIP = "hidden-flip"
    BACKDOOR = "backdoor"
    INVERSE_FLIP = "inverse-flip"
    ONE_CLASS_FLIP = "one-class-flip"
    EDGE_CASE = "edge-case"
    MODEL_REPLACEMENT = "model-replacement"
    DISTRIBUTED_BACKDOOR = "distributed-backdoor"
    NEUROTOXIN = "neurotoxin"
    ALTERNATING = "alternating"
    ALIE = "alie"
    MIN_MAX = "min-max"
    MIN_SUM = "min-sum"
    INNER_PRODUCT = "inner-product"
    FANG_TRIM = "fang-trim"
    FANG_KRUM = "fang-krum"
    MIMIC = "mimic"
    GRADIENT_ASCENT = "gradient-ascent"
    NEAR_ZERO = "near-zero"
    RANDOM_STEP = "random-step"
    STALE_MODEL = "stale-model"
    SCALED_COPY = "scaled-copy"
    INFLATE = "inflate"
    DEFLATE = "deflate"


class ChangeKind(StrEnum):
    """What an honest client, or the server, does otherwise inside its windows; the classes in ``changes`` say how."""

    LOCAL_EPOCHS = "local-epochs"
    LEARNING_RATE = "learning-rate"
    BATCH_SIZE = "batch-size"
    OPTIMIZER_SGD = "optimizer-sgd"
    OPTIMIZER_MOMENTUM = "optimizer-momentum"
    OPTIMIZER_ADAM = "optimizer-adam"
    OPTIMIZER_ADAMW = "optimizer-adamw"
    WEIGHT_DECAY = "weight-decay"
    GRADIENT_CLIP = "gradient-clip"
    PROXIMAL = "proximal"
    COSINE_SCHEDULE = "cosine-schedule"
    STEP_SCHEDULE = "step-schedule"
    STRAGGLER = "straggler"
    DROPPED_BATCHES = "dropped-batches"
    NO_SHUFFLE = "no-shuffle"
    FROZEN_LAYERS = "frozen-layers"
    MIXED_PRECISION = "mixed-precision"
    STALE_START = "stale-start"
    VERSION_UPGRADE = "version-upgrade"
    DP_SGD = "dp-sgd"
    PRIVACY_NOISE = "privacy-noise"
    UPDATE_CLIP = "update-clip"
    PERCENTILE_FILTER = "percentile-filter"
    SVT_FILTER = "svt-filter"
    EXCLUDE_LAYERS = "exclude-layers"
    QUANTISATION = "quantisation"
    TOP_K = "top-k"
    TOP_K_FEEDBACK = "top-k-feedback"
    RANDOM_K = "random-k"
    SIGN_COMPRESSION = "sign-compression"
    SIGN_FEEDBACK = "sign-feedback"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    LATE_JOINER = "late-joiner"
    LEAVER = "leaver"
    INTERMITTENT = "intermittent"
    DATA_GROWS = "data-grows"
    DATA_SHRINKS = "data-shrinks"
    INPUT_SHIFT = "input-shift"
    INPUT_GAIN = "input-gain"
    INPUT_NOISE = "input-noise"
    NEW_SCANNER = "new-scanner"
    MISSING_COLUMNS = "missing-columns"
    HARMONISED_LABELS = "harmonised-labels"
    CLASS_REBALANCING = "class-rebalancing"
    AUGMENTATION = "augmentation"
    NOISY_LABELS = "noisy-labels"
    RARE_CLASS = "rare-class"
    OVERLAP = "overlap"
    SERVER_RATE = "server-rate"
    SERVER_MOMENTUM = "server-momentum"
    SERVER_ADAM = "server-adam"
    SERVER_ADAGRAD = "server-adagrad"
    SERVER_YOGI = "server-yogi"
    SERVER_NOISE = "server-noise"
    NEW_HEAD = "new-head"


def named(kind: type[_Named], value: object, setting: str) -> _Named:
    """An enum's member by its text, or an error that lists the choices."""
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        raise SettingsError(f"{setting} = {value!r}: choose one of {choices}") from None

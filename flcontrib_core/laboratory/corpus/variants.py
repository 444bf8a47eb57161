"""Which strengths, times and extents the corpus has of each honest change and each attack."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flcontrib_core.laboratory.corpus.worlds import Regime
from flcontrib_core.laboratory.simulation.kinds import AttackKind, ChangeKind


class Extent(StrEnum):
    """How many sites change."""

    ONE = "one"
    SEVERAL = "several"
    """A third of the clients, at least two."""
    ALL = "all"


class When(StrEnum):
    """In which epochs."""

    WHOLE = "whole"
    FROM = "from"
    """From somewhere in the middle third to the end."""
    WINDOW = "window"
    EARLY = "early"
    """From epoch 1."""
    LATE = "late"
    """Up to the end."""
    ON_OFF = "on-off"
    """Two to four windows."""
    RAMP = "ramp"
    """One window, growing."""
    COLLUDING = "colluding"
    """One window, by just under half of the clients together."""


CHANGE_STRENGTHS: dict[ChangeKind, tuple[float, ...]] = {
    ChangeKind.LOCAL_EPOCHS: (3.0, 5.0, 1 / 3),
    ChangeKind.LEARNING_RATE: (1 / 3, 3.0, 0.1),
    ChangeKind.BATCH_SIZE: (4.0, 0.25),
    ChangeKind.OPTIMIZER_SGD: (0.05, 0.1),
    ChangeKind.OPTIMIZER_MOMENTUM: (0.01, 0.03),
    ChangeKind.OPTIMIZER_ADAM: (0.001, 0.003, 0.01),
    ChangeKind.OPTIMIZER_ADAMW: (0.001, 0.005),
    ChangeKind.WEIGHT_DECAY: (0.001, 0.01, 0.05),
    ChangeKind.GRADIENT_CLIP: (0.2, 0.5, 1.0),
    ChangeKind.PROXIMAL: (0.1, 1.0),
    ChangeKind.COSINE_SCHEDULE: (0.02, 0.2),
    ChangeKind.STEP_SCHEDULE: (0.3, 0.5),
    ChangeKind.STRAGGLER: (0.1, 0.4),
    ChangeKind.DROPPED_BATCHES: (0.2, 0.5),
    ChangeKind.FROZEN_LAYERS: (1.0,),
    ChangeKind.STALE_START: (1.0, 2.0, 4.0),
    ChangeKind.DP_SGD: (0.3, 1.0),
    ChangeKind.PRIVACY_NOISE: (0.2, 0.5, 1.0, 2.0),
    ChangeKind.UPDATE_CLIP: (0.3, 0.7),
    ChangeKind.PERCENTILE_FILTER: (10.0, 50.0, 90.0),
    ChangeKind.SVT_FILTER: (0.1, 0.3),
    ChangeKind.EXCLUDE_LAYERS: (1.0,),
    ChangeKind.QUANTISATION: (8.0, 4.0, 3.0),
    ChangeKind.TOP_K: (0.01, 0.1),
    ChangeKind.TOP_K_FEEDBACK: (0.05, 0.1),
    ChangeKind.RANDOM_K: (0.1, 0.25, 0.5),
    ChangeKind.INTERMITTENT: (0.3, 0.6),
    ChangeKind.DATA_GROWS: (0.2, 0.5),
    ChangeKind.DATA_SHRINKS: (0.2, 0.5),
    ChangeKind.INPUT_SHIFT: (0.2, 0.5),
    ChangeKind.INPUT_GAIN: (0.7, 1.3),
    ChangeKind.INPUT_NOISE: (0.2, 0.5),
    ChangeKind.NEW_SCANNER: (0.15, 0.3),
    ChangeKind.MISSING_COLUMNS: (0.1, 0.25),
    ChangeKind.HARMONISED_LABELS: (0.2, 0.4),
    ChangeKind.AUGMENTATION: (0.05, 0.15),
    ChangeKind.NOISY_LABELS: (0.05, 0.1),
    ChangeKind.OVERLAP: (0.3, 0.7),
    ChangeKind.SERVER_RATE: (0.3, 0.6, 1.3),
    ChangeKind.SERVER_MOMENTUM: (0.5, 0.9),
    ChangeKind.SERVER_ADAM: (0.005, 0.01),
    ChangeKind.SERVER_ADAGRAD: (0.01, 0.03),
    ChangeKind.SERVER_YOGI: (0.005, 0.01),
    ChangeKind.SERVER_NOISE: (0.1, 0.3),
}
"""Kinds that are not named have no strength."""

IN_WINDOWS = (When.WINDOW, When.WHOLE, When.ON_OFF)
ALWAYS = (When.WINDOW, When.EARLY, When.LATE, When.WHOLE, When.ON_OFF, When.RAMP, When.COLLUDING)


@dataclass(frozen=True)
class AttackVariant:
    """One attack at certain strengths."""

    name: str
    kind: AttackKind
    strengths: tuple[float | None, ...] = (None,)
    whens: tuple[When, ...] = IN_WINDOWS
    alone: bool = False
    """One client suffices, and several would wreck the model."""
    together: bool = False
    """It takes at least two."""


FLIPS = tuple(
    AttackVariant(f"label-flip-{p:g}", AttackKind.LABEL_FLIP, (p,), ALWAYS if p == 0.7 else (When.WINDOW,))
    for p in (0.3, 0.5, 0.7, 1.0)
)
_COLLUDING = (*IN_WINDOWS, When.COLLUDING)
ATTACK_VARIANTS: tuple[AttackVariant, ...] = (
    *FLIPS,
    AttackVariant("targeted-flip", AttackKind.TARGETED_FLIP, (1.0,), _COLLUDING),
    AttackVariant("inverse-flip", AttackKind.INVERSE_FLIP, (0.7, 1.0)),
    AttackVariant("one-class-flip", AttackKind.ONE_CLASS_FLIP, (0.5, 1.0)),
    AttackVariant("hidden-flip", AttackKind.HIDDEN_FLIP, (0.7, 1.0), _COLLUDING),
    AttackVariant("backdoor", AttackKind.BACKDOOR, (0.3, 0.5), _COLLUDING),
    AttackVariant("edge-case", AttackKind.EDGE_CASE, (0.3, 0.5)),
    AttackVariant(
        "model-replacement", AttackKind.MODEL_REPLACEMENT, (0.3, 0.6), (When.WINDOW, When.ON_OFF), alone=True
    ),
    AttackVariant("distributed-backdoor", AttackKind.DISTRIBUTED_BACKDOOR, (0.3, 0.5), together=True),
    AttackVariant("neurotoxin", AttackKind.NEUROTOXIN, (0.05, 0.2), _COLLUDING),
    AttackVariant("alternating", AttackKind.ALTERNATING, (2.0, 5.0)),
    AttackVariant("sign-flip", AttackKind.SIGN_FLIP, (1.0, 1.5), ALWAYS),
    AttackVariant("scale-2", AttackKind.SCALE, (2.0,)),
    AttackVariant("scale-5", AttackKind.SCALE, (5.0,), alone=True),
    AttackVariant("scale-10", AttackKind.SCALE, (10.0,), (When.WINDOW, When.ON_OFF), alone=True),
    AttackVariant("additive-noise", AttackKind.ADDITIVE_NOISE, (1.0, 2.0), _COLLUDING),
    AttackVariant("pure-noise", AttackKind.PURE_NOISE, (1.0, 2.0), _COLLUDING),
    AttackVariant("gradient-ascent", AttackKind.GRADIENT_ASCENT, (0.5, 1.0)),
    AttackVariant("alie", AttackKind.ALIE, (0.5, 1.0, 1.5), _COLLUDING, together=True),
    AttackVariant("min-max", AttackKind.MIN_MAX, (1.0,), _COLLUDING, together=True),
    AttackVariant("min-sum", AttackKind.MIN_SUM, (1.0,), _COLLUDING, together=True),
    AttackVariant("inner-product", AttackKind.INNER_PRODUCT, (0.5, 1.0), _COLLUDING),
    AttackVariant("fang-trim", AttackKind.FANG_TRIM, (1.5, 2.0), _COLLUDING),
    AttackVariant("fang-krum", AttackKind.FANG_KRUM, (None,), _COLLUDING, together=True),
    AttackVariant("mimic", AttackKind.MIMIC, (0.0, 0.05), _COLLUDING),
    AttackVariant("zero", AttackKind.ZERO, (None,)),
    AttackVariant("near-zero", AttackKind.NEAR_ZERO, (0.01, 0.1)),
    AttackVariant("random-step", AttackKind.RANDOM_STEP, (0.7, 1.5)),
    AttackVariant("repeat", AttackKind.REPEAT, (0.0,)),
    AttackVariant("noisy-repeat", AttackKind.REPEAT, (0.05, 0.1)),
    AttackVariant("copy", AttackKind.COPY, (0.0,)),
    AttackVariant("noisy-copy", AttackKind.COPY, (0.05, 0.1)),
    AttackVariant("scaled-copy", AttackKind.SCALED_COPY, (0.3, 0.7)),
    AttackVariant("stale-model", AttackKind.STALE_MODEL, (0.0, 0.05), (When.WINDOW, When.ON_OFF)),
    AttackVariant("inflate", AttackKind.INFLATE, (0.5, 0.9)),
    AttackVariant("deflate", AttackKind.DEFLATE, (0.5, 1.0)),
)
FLIP_REGIMES = tuple(regime for regime in Regime if regime not in (Regime.ANY, Regime.NEAR_IID))
"""Regimes in which flips of at least a half are looked at one by one."""

"""Facts that speak for a verdict: what was measured in a window, over the run, or in the file itself.

Harm is up in the numbers, as everywhere in this room; words turn it so that help is up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flcontrib_core.tagged import Others, Tagged

Window = tuple[int, int]
"""First and last epoch, both inclusive."""


@dataclass(frozen=True)
class ChannelScore:
    """How strongly one named channel speaks for a window (log Bayes factor), and whether it was available."""

    name: str
    score: float | None
    """None = the channel is unavailable for this run."""


@dataclass(frozen=True)
class ValueInWindow(Tagged):
    """Mean harm per computed epoch inside a window, and in the epochs that no window of the client holds."""

    tag: ClassVar[str] = "value-in-window"
    window: Window
    utility: str
    lower_is_better: bool
    mean_inside: float
    mean_outside: float | None
    """None where no epoch outside has a value"""
    half_width: float | None
    """of the 95 % interval of ``mean_inside``; None with a single value"""
    harmful: int
    computed: int


@dataclass(frozen=True)
class MarginLowered(Tagged):
    """The client's own step alone lowers the mean true-class margin on the validation set."""

    tag: ClassVar[str] = "margin-lowered"
    inside: float
    outside: float | None
    half_width: float


@dataclass(frozen=True)
class StepWorse(Tagged):
    """What the client's own step alone does to the validation loss, and the usual other participant's there."""

    tag: ClassVar[str] = "step-worse"
    own: float
    usual: float
    half_width: float
    """of the 95 % interval of their difference"""


@dataclass(frozen=True)
class ClassSuffers(Tagged):
    """The client's own step alone lowers the margin of one class, and more so than outside."""

    tag: ClassVar[str] = "class-suffers"
    class_index: int
    inside: float
    outside: float
    half_width: float


@dataclass(frozen=True)
class DirectionChanged(Tagged):
    """Mean cosine to the client's own other updates, or to the other participants'."""

    tag: ClassVar[str] = "direction-changed"
    channel: str
    inside: float
    outside: float
    score: float


@dataclass(frozen=True)
class SizeChanged(Tagged):
    """Mean length of the updates, inside / outside."""

    tag: ClassVar[str] = "size-changed"
    ratio: float
    score: float


@dataclass(frozen=True)
class SpreadChanged(Tagged):
    """How evenly the updates are spread over the parameters, inside / outside."""

    tag: ClassVar[str] = "spread-changed"
    ratio: float
    score: float


@dataclass(frozen=True)
class ExpertScore(Tagged):
    """The score that raised the alert, the score that alerts in this run, and the channels it is made of."""

    tag: ClassVar[str] = "expert-score"
    expert: str
    score: float
    threshold: float
    channels: tuple[ChannelScore, ...]


@dataclass(frozen=True)
class OversizedHarm(Tagged):
    """Far larger updates than outside, relative to the others', whose step alone does harm of many usual steps."""

    tag: ClassVar[str] = "oversized-harm"
    growth: float
    steps: float
    """harm of its own step to the validation loss beyond the usual other one's, in steps of the run"""


@dataclass(frozen=True)
class Points:
    """What one measurement of a window adds to the log odds of poisoning."""

    measurement: str
    points: float


@dataclass(frozen=True)
class WeighedEvidence(Tagged):
    """Everything measured of the window, weighed together: its log odds, those that accuse, and what counted most."""

    tag: ClassVar[str] = "weighed-evidence"
    log_odds: float
    accuses_at: float
    most: tuple[Points, ...]
    """the largest points, of either sign, largest first"""


@dataclass(frozen=True)
class ClassesMoved(Tagged):
    """How many classes the client's step helps more, and less, inside the window than outside."""

    tag: ClassVar[str] = "classes-moved"
    up: int
    down: int
    classes: int
    share_up: float
    """part of the movement that points up"""


@dataclass(frozen=True)
class HarmfulThroughout(Tagged):
    """Share of the client's computed epochs that are harmful, over the whole run."""

    tag: ClassVar[str] = "harmful-throughout"
    share: float


@dataclass(frozen=True)
class WorseInWindow(Tagged):
    """Harmful over the whole run, and more so in these epochs."""

    tag: ClassVar[str] = "worse-in-window"
    window: Window


@dataclass(frozen=True)
class ZeroUpdates(Tagged):
    """All numbers of these updates are zero."""

    tag: ClassVar[str] = "zero"
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class RepeatedOwnUpdates(Tagged):
    """These updates repeat the client's own of earlier epochs."""

    tag: ClassVar[str] = "repeat"
    epochs: tuple[int, ...]
    sources: tuple[int, ...]


@dataclass(frozen=True)
class CopiedLastGlobalStep(Tagged):
    """These updates are the step that the global model had just made."""

    tag: ClassVar[str] = "copy-of-last-step"
    epochs: tuple[int, ...]
    least_cosine: float


@dataclass(frozen=True)
class CopiedClient(Tagged):
    """These updates are bit for bit those of other clients in the same epochs."""

    tag: ClassVar[str] = "copy-of-client"
    epochs: tuple[int, ...]
    clients: Others


@dataclass(frozen=True)
class DivergingUpdates(Tagged):
    """With each of these updates alone the model has no finite output; with the other participants' it has."""

    tag: ClassVar[str] = "diverging"
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class CopiesLastStep(Tagged):
    """Median cosine to the step that the global model had just made, and the other participants' usual one."""

    tag: ClassVar[str] = "near-copy-of-last-step"
    epochs: tuple[int, ...]
    cosine: float
    usual: float


@dataclass(frozen=True)
class WithoutDirection(Tagged):
    """Median cosines to the client's own other updates and to the other participants', beside the usual ones."""

    tag: ClassVar[str] = "without-direction"
    epochs: tuple[int, ...]
    own: float
    usual_own: float
    peer: float
    usual_peer: float


@dataclass(frozen=True)
class TinyUpdates(Tagged):
    """Median length of the updates / the other participants' usual one."""

    tag: ClassVar[str] = "tiny-updates"
    epochs: tuple[int, ...]
    ratio: float


@dataclass(frozen=True)
class CopiesClient(Tagged):
    """Median cosine to the closest other participant, which is as ever, and the usual one of the epoch."""

    tag: ClassVar[str] = "near-copy-of-client"
    epochs: tuple[int, ...]
    clients: Others
    cosine: float
    usual: float


@dataclass(frozen=True)
class TooAlike(Tagged):
    """The same of clients that change together, or of which none can be told to be the first."""

    tag: ClassVar[str] = "too-alike"
    epochs: tuple[int, ...]
    clients: Others
    cosine: float
    usual: float


ExactFact = DivergingUpdates | ZeroUpdates | RepeatedOwnUpdates | CopiedLastGlobalStep | CopiedClient
"""Facts about the file, not estimates; their tags are the codes of exact findings."""
IdleFact = CopiesLastStep | WithoutDirection | TinyUpdates | CopiesClient
"""In which way a client contributes nothing of its own."""
Reason = (
    ValueInWindow
    | MarginLowered
    | StepWorse
    | ClassSuffers
    | DirectionChanged
    | SizeChanged
    | SpreadChanged
    | ExpertScore
    | OversizedHarm
    | WeighedEvidence
    | ClassesMoved
    | HarmfulThroughout
    | WorseInWindow
    | ExactFact
    | IdleFact
    | TooAlike
)

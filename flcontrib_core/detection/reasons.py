"""Facts that speak for a verdict: what was measured in a window, over the run, or in the file itself.

Harm is up in the numbers, as everywhere in this room; words turn it so that help is up.
"""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.tagged import Others, Tagged

Window = tuple[int, int]
"""First and last epoch, both inclusive."""


@dataclass(frozen=True)
class ChannelScore:
    """How strongly one named channel speaks for a window (log Bayes factor), and whether it was available."""

    name: str
    score: float | None
    """None = the channel is unavailable for this run."""


class ValueInWindow(Tagged, tag="value-in-window"):
    """Mean harm per computed epoch inside a window, and in the epochs that no window of the client holds."""

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


class MarginLowered(Tagged, tag="margin-lowered"):
    """The client's own step alone lowers the mean true-class margin on the validation set."""

    inside: float
    outside: float | None
    half_width: float
    classes: bool = True
    """Whether rows have classes; else the loss of the rows, or the first metric, stands for the margin, turned."""


class StepWorse(Tagged, tag="step-worse"):
    """What the client's own step alone does to the validation loss, and the usual other participant's there."""

    own: float
    usual: float
    half_width: float
    """of the 95 % interval of their difference"""
    classes: bool = True
    """Whether rows have classes; else the first metric may stand for the loss, turned so that a rise is harm."""


class ClassSuffers(Tagged, tag="class-suffers"):
    """The client's own step alone lowers the margin of one class, and more so than outside."""

    class_index: int
    inside: float
    outside: float
    half_width: float


class DirectionChanged(Tagged, tag="direction-changed"):
    """Mean cosine to the client's own other updates, or to the other participants'."""

    channel: str
    inside: float
    outside: float
    score: float


class SizeChanged(Tagged, tag="size-changed"):
    """Mean length of the updates, inside / outside."""

    ratio: float
    score: float


class SpreadChanged(Tagged, tag="spread-changed"):
    """How evenly the updates are spread over the parameters, inside / outside."""

    ratio: float
    score: float


class ExpertScore(Tagged, tag="expert-score"):
    """The score that raised the alert, the score that alerts in this run, and the channels it is made of."""

    expert: str
    score: float
    threshold: float
    channels: tuple[ChannelScore, ...]


class OversizedHarm(Tagged, tag="oversized-harm"):
    """Far larger updates than outside, relative to the others', whose step alone does harm of many usual steps."""

    growth: float
    steps: float
    """harm of its own step to the validation loss beyond the usual other one's, in steps of the run"""


@dataclass(frozen=True)
class Points:
    """What one measurement of a window adds to the log odds of poisoning."""

    measurement: str
    points: float


class WeighedEvidence(Tagged, tag="weighed-evidence"):
    """Everything measured of the window, weighed together: its log odds, those that accuse, and what counted most."""

    log_odds: float
    accuses_at: float
    most: tuple[Points, ...]
    """the largest points, of either sign, largest first"""


class ClassesMoved(Tagged, tag="classes-moved"):
    """How many classes the client's step helps more, and less, inside the window than outside."""

    up: int
    down: int
    classes: int
    share_up: float
    """part of the movement that points up"""


class HarmfulThroughout(Tagged, tag="harmful-throughout"):
    """Share of the client's computed epochs that are harmful, over the whole run."""

    share: float


class WorseInWindow(Tagged, tag="worse-in-window"):
    """Harmful over the whole run, and more so in these epochs."""

    window: Window


class ZeroUpdates(Tagged, tag="zero"):
    """All numbers of these updates are zero."""

    epochs: tuple[int, ...]


class RepeatedOwnUpdates(Tagged, tag="repeat"):
    """These updates repeat the client's own of earlier epochs."""

    epochs: tuple[int, ...]
    sources: tuple[int, ...]


class CopiedLastGlobalStep(Tagged, tag="copy-of-last-step"):
    """These updates are the step that the global model had just made."""

    epochs: tuple[int, ...]
    least_cosine: float


class CopiedClient(Tagged, tag="copy-of-client"):
    """These updates are bit for bit those of other clients in the same epochs."""

    epochs: tuple[int, ...]
    clients: Others


class DivergingUpdates(Tagged, tag="diverging"):
    """With each of these updates alone the model has no finite output; with the other participants' it has."""

    epochs: tuple[int, ...]


class CopiesLastStep(Tagged, tag="near-copy-of-last-step"):
    """Median cosine to the step that the global model had just made, and the other participants' usual one."""

    epochs: tuple[int, ...]
    cosine: float
    usual: float


class WithoutDirection(Tagged, tag="without-direction"):
    """Median cosines to the client's own other updates and to the other participants', beside the usual ones."""

    epochs: tuple[int, ...]
    own: float
    usual_own: float
    peer: float
    usual_peer: float


class TinyUpdates(Tagged, tag="tiny-updates"):
    """Median length of the updates / the other participants' usual one."""

    epochs: tuple[int, ...]
    ratio: float


class CopiesClient(Tagged, tag="near-copy-of-client"):
    """Median cosine to the closest other participant, which is as ever, and the usual one of the epoch."""

    epochs: tuple[int, ...]
    clients: Others
    cosine: float
    usual: float


class TooAlike(Tagged, tag="too-alike"):
    """The same of clients that change together, or of which none can be told to be the first."""

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

"""What people recorded about alerts: decisions, comments, owners and replies, as facts that words are made of.

Nothing here changes a finding. A dismissed alert stays an alert; it only no longer counts in a headline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from flcontrib_core.codec import decode, encode
from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.reasons import Window


class AlertState(StrEnum):
    """What people have said about an alert."""

    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    DISMISSED = "dismissed"
    CONFIRMED = "confirmed"


class StepKind(StrEnum):
    """What somebody recorded about an alert."""

    DECISION = "decision"
    COMMENT = "comment"
    ASSIGNMENT = "assignment"
    REPLY = "reply"
    """What the client itself answered."""


@dataclass(frozen=True)
class ReviewStep:
    """One thing somebody recorded about an alert, as the sealed log holds it."""

    kind: StepKind
    sequence: int
    """Number of its entry in the audit log."""
    hash: str
    """That entry's hash: whoever holds the log finds the entry, or that it is not there."""
    at: str
    by: str
    text: str | None = ""
    """The reason, the comment or the reply; None where it was taken out of an extract."""
    state: AlertState | None = None
    """Of a decision."""
    owner: str | None = None
    """Of an assignment; empty: nobody any more."""
    shared: bool = False
    """May the client read the text in its extract?"""

    def for_client(self) -> ReviewStep:
        """The step as the client's extract shows it: text that was not meant for the client is taken out."""
        return self if self.shared or not self.text else replace(self, text=None)


@dataclass(frozen=True)
class DeclaredNote:
    """A fact that an operator declared about a client: 'new GPU'. It may explain a change; it never hides harm."""

    client: str
    epochs: Window
    text: str
    by: str
    at: str
    sequence: int
    hash: str

    def concerns(self, client: str, window: Window | None) -> bool:
        """Does it fall into these epochs of this client? ``window`` None: the whole run."""
        if client != self.client:
            return False
        return window is None or (self.epochs[0] <= window[1] and window[0] <= self.epochs[1])


class Mark(StrEnum):
    """As what an operator marked a client: a person's word, never the run's truth and never the tool's."""

    HONEST = "honest"
    DISHONEST = "dishonest"
    UNMARKED = "unmarked"


@dataclass(frozen=True)
class ClientMark:
    """An operator's marking of one client, and the epochs it is about where they were named."""

    client: str
    mark: Mark
    epochs: Window | None
    by: str
    at: str


Key = tuple[str, str, Window | None, str]


def alert_key(alert: Alert) -> Key:
    """What makes two alerts of one run the same observation: client, verdict, window and exact finding."""
    return alert.client, alert.verdict.value, alert.window, alert.finding


@dataclass(frozen=True)
class AlertReview:
    """Everything recorded about one alert, oldest first."""

    client: str
    verdict: str
    window: Window | None
    finding: str
    alert: str
    """The alert's name in its workspace."""
    steps: tuple[ReviewStep, ...] = ()

    @property
    def key(self) -> Key:
        """See ``alert_key``."""
        return self.client, self.verdict, self.window, self.finding

    @property
    def decision(self) -> ReviewStep | None:
        """The last decision; None before the first."""
        return next((s for s in reversed(self.steps) if s.kind is StepKind.DECISION), None)

    @property
    def state(self) -> AlertState:
        """That of the last decision."""
        return self.decision.state or AlertState.NEW if self.decision is not None else AlertState.NEW

    @property
    def owner(self) -> str:
        """Who looks after it; empty where nobody was named."""
        return next((s.owner or "" for s in reversed(self.steps) if s.kind is StepKind.ASSIGNMENT), "")

    def for_client(self) -> AlertReview:
        """The review as the client's extract shows it: who looks after it inside stays inside."""
        kept = (s.for_client() for s in self.steps if s.kind is not StepKind.ASSIGNMENT)
        return replace(self, steps=tuple(s for s in kept if s.kind is not StepKind.COMMENT or s.text is not None))


@dataclass(frozen=True)
class Reviews:
    """The reviews of a run's alerts; an alert nobody looked at is simply new."""

    entries: tuple[AlertReview, ...] = ()
    notes: tuple[DeclaredNote, ...] = ()
    """Declared about clients of the run, oldest first"""

    def notes_on(self, client: str, window: Window | None = None) -> tuple[DeclaredNote, ...]:
        """What was declared about these epochs of a client."""
        return tuple(note for note in self.notes if note.concerns(client, window))

    def notes_json(self) -> list[dict[str, Any]]:
        """One entry per declared note."""
        return [encode(DeclaredNote, note)[0] for note in self.notes]

    def of(self, alert: Alert) -> AlertReview | None:
        """The review of an alert, where it is known by name."""
        return self._by_key().get(alert_key(alert))

    def state(self, alert: Alert) -> AlertState:
        """What was decided about an alert; NEW where nothing was."""
        found = self.of(alert)
        return AlertState.NEW if found is None else found.state

    def dismissed(self, alert: Alert) -> bool:
        """Does the alert no longer count?"""
        return self.state(alert) is AlertState.DISMISSED

    def standing(self, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
        """Those that were not dismissed, in their order."""
        return tuple(a for a in alerts if not self.dismissed(a))

    def ordered(self, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
        """All of them, the dismissed ones last."""
        return tuple(sorted(alerts, key=self.dismissed))

    def for_client(self, client: str) -> Reviews:
        """What the client's own extract may say."""
        return Reviews(tuple(r.for_client() for r in self.entries if r.client == client), self.notes_on(client))

    def recorded(self) -> tuple[AlertReview, ...]:
        """Reviews of alerts about which anything was recorded."""
        return tuple(r for r in self.entries if r.steps)

    def to_json(self) -> list[dict[str, Any]]:
        """One entry per alert with anything recorded, each with its state and owner spelled out."""
        return [
            {"state": r.state.value, "owner": r.owner, **encode(AlertReview, r)[0]}  # first what a reader looks for
            for r in self.recorded()
        ]

    def _by_key(self) -> Mapping[Key, AlertReview]:
        return {review.key: review for review in self.entries}


NO_REVIEWS = Reviews()


def reviews_from_json(value: object, declared: object = ()) -> Reviews:
    """The inverse of ``Reviews.to_json`` and ``notes_json``. Raises OtherLayout or ValueError: it may be anybody's."""
    if not isinstance(declared, list | tuple) or not all(isinstance(entry, dict) for entry in declared):
        raise ValueError("declared facts are a list of notes")
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError("decisions are a list of reviews")
    plain = [{k: v for k, v in entry.items() if k not in ("state", "owner")} for entry in value]
    notes = tuple(decode(DeclaredNote, entry) for entry in declared)
    found = Reviews(tuple(decode(AlertReview, entry) for entry in plain), notes)
    if found.to_json() != value:
        raise ValueError("a state or an owner that its own steps do not say")
    return found

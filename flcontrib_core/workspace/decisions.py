"""The alert inbox: what was observed about whom, and what people decided about it.

Alerts, decisions, comments, owners and replies are entries of the audit log; the state of an alert is its last
decision. Nothing is overwritten: a dismissed alert keeps who dismissed it, when, and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flcontrib_core.detection.findings import Alert
from flcontrib_core.detection.reasons import Window
from flcontrib_core.detection.review import (
    AlertReview,
    AlertState,
    ClientMark,
    DeclaredNote,
    Mark,
    Reviews,
    ReviewStep,
    StepKind,
)
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.provenance import canonical_json, digest_of
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.index import Index, conditions

_LONGEST_NAME = 200
_LONGEST_TEXT = 4000


@dataclass(frozen=True)
class AlertEntry:
    """An alert in the inbox: what was found last, and everything recorded about it (oldest first)."""

    id: str
    sequence: int
    run_digest: str
    finding: dict[str, Any]
    """The alert's own fields (client, verdict, window, probability, evidence, …): facts, no sentence."""
    result: str | None
    """Digest of the result it was read from."""
    raised_at: str
    history: tuple[ReviewStep, ...]
    results: tuple[str, ...] = ()
    """Digests of all results that say it, oldest first."""

    @property
    def state(self) -> AlertState:
        """That of the last decision."""
        return self.review.state

    @property
    def owner(self) -> str:
        """Who looks after it; empty where nobody was named."""
        return self.review.owner

    @property
    def review(self) -> AlertReview:
        """What was recorded about it, as words are made of it."""
        window = self.finding.get("window")
        return AlertReview(
            client=self.finding["client"],
            verdict=self.finding["verdict"],
            window=None if window is None else (window[0], window[1]),
            finding=self.finding.get("finding") or "",
            alert=self.id,
            steps=self.history,
        )


def alert_identity(run_digest: str, finding: Mapping[str, Any]) -> str:
    """The same observation keeps its identity (and its decisions) when it is computed again."""
    what = [run_digest, finding["client"], finding["verdict"], finding.get("window"), finding.get("finding") or ""]
    return digest_of(what)[:32]


NOTED = "client-noted"
"""The kind of a declared fact's entry in the audit log"""


MARKED = "client-marked"
"""The kind of an operator's marking of a client"""


def observed_once(alerts: Iterable[AlertEntry], default_results: Mapping[str, str]) -> tuple[AlertEntry, ...]:
    """The alerts without those that another result of the run tells of the same client and epochs.

    ``default_results``: the result that opens first, by run; what it says goes before what another result says, and
    the newer before the older. Two alerts of one result are two.
    """
    given = list(alerts)
    ranked = sorted(given, key=lambda a: (default_results.get(a.run_digest) in a.results, a.sequence), reverse=True)
    counted: dict[tuple[str, str], list[AlertEntry]] = {}
    for alert in ranked:
        of_client = counted.setdefault((alert.run_digest, alert.finding["client"]), [])
        if not any(_tell_the_same(alert, other) for other in of_client):
            of_client.append(alert)
    chosen = {alert.id for entries in counted.values() for alert in entries}
    return tuple(alert for alert in given if alert.id in chosen)


def _tell_the_same(alert: AlertEntry, other: AlertEntry) -> bool:
    """Of one client: do two results, none of which says both, have these epochs in common?"""
    if not alert.results or not other.results or set(alert.results) & set(other.results):
        return False
    one, two = alert.finding.get("window"), other.finding.get("window")
    return bool(one is None or two is None or (one[0] <= two[1] and two[0] <= one[1]))


class AlertBook:
    """The inbox of a workspace."""

    def __init__(self, index: Index, log: AuditLog) -> None:
        self._index = index
        self._log = log

    def raise_alerts(
        self, run_digest: str, alerts: Sequence[Alert | Mapping[str, Any]], result: str | None = None
    ) -> tuple[AlertEntry, ...]:
        """Enters what an audit observed; of an alert known with the same content only that this result says it too."""
        findings = [_plain(alert) for alert in alerts]
        named = [{"id": alert_identity(run_digest, finding), "finding": finding} for finding in findings]
        with self._index.write() as transaction:
            entered = {entry.id: entry for entry in self.list(run_digest)}
            stated = {identity: entry.finding for identity, entry in entered.items()}
            fresh = [alert for alert in named if stated.get(str(alert["id"])) != alert["finding"]]
            same = sorted({str(a["id"]) for a in named} - {str(a["id"]) for a in fresh})
            again = [name for name in same if result is not None and result not in entered[name].results]
            if fresh or again:
                body = {"result": result, "alerts": fresh} | ({"again": again} if again else {})
                self._log.append(transaction, "alerts-raised", run_digest, body)
        named_ids = {alert["id"] for alert in named}
        return tuple(entry for entry in self.list(run_digest) if entry.id in named_ids)

    def list(self, run_digest: str | None = None) -> tuple[AlertEntry, ...]:
        """Alerts of the runs that are here, in the order in which they were last raised."""
        where, given = conditions(digest=run_digest)
        here = self._index.read(f"SELECT digest FROM runs WHERE {where}", given)
        digests = {row["digest"] for row in here}
        steps = [_step(entry) for kind in StepKind for entry in self._log.entries(kind.value, run_digest)]
        history: dict[str, list[ReviewStep]] = {}
        for alert, step in sorted(steps, key=lambda pair: pair[1].sequence):
            history.setdefault(alert, []).append(step)
        entries: dict[str, AlertEntry] = {}
        for raised in self._log.entries("alerts-raised", run_digest):
            if raised.subject not in digests:
                continue
            result = raised.body["result"]
            source = () if result is None else (result,)
            for name in entries.keys() & raised.body.get("again", ()):  # another result says the same
                entries[name] = replace(entries[name], results=(*entries[name].results, *source))
            for alert in raised.body["alerts"]:
                before = entries.pop(alert["id"], None)
                entries[alert["id"]] = AlertEntry(
                    id=alert["id"],
                    sequence=raised.sequence,
                    run_digest=raised.subject,
                    finding=alert["finding"],
                    result=result,
                    raised_at=raised.at,
                    history=tuple(history.get(alert["id"], ())),
                    results=(*(before.results if before else ()), *source),
                )
        return tuple(entries.values())

    def reviews(self, run_digest: str) -> Reviews:
        """What was recorded about a run's alerts, as facts for headline, report and extract."""
        return Reviews(tuple(entry.review for entry in self.list(run_digest)), self.notes(run_digest))

    def notes(self, run_digest: str) -> tuple[DeclaredNote, ...]:
        """Facts that operators declared about the run's clients, oldest first."""
        return tuple(
            DeclaredNote(
                e.body["client"], tuple(e.body["epochs"]), e.body["text"], e.body["by"], e.at, e.sequence, e.hash
            )
            for e in self._log.entries(NOTED, run_digest)
        )

    def marks(self, run_digest: str) -> tuple[ClientMark, ...]:
        """How operators marked the run's clients by hand, the last marking of each; taken back ones are left out."""
        last: dict[str, ClientMark] = {}
        for e in self._log.entries(MARKED, run_digest):
            epochs = None if e.body["epochs"] is None else (e.body["epochs"][0], e.body["epochs"][1])
            last[e.body["client"]] = ClientMark(e.body["client"], Mark(e.body["mark"]), epochs, e.body["by"], e.at)
        return tuple(mark for mark in last.values() if mark.mark is not Mark.UNMARKED)

    def mark(self, run_digest: str, client: str, mark: Mark | str, by: str, epochs: Window | None = None) -> ClientMark:
        """Enters an operator's marking of a client, sealed like a decision."""
        try:
            new_mark = Mark(mark)
        except ValueError:
            raise SettingsError(f"{str(mark)[:40]!r} is no marking; choose from {', '.join(Mark)}") from None
        by = by.strip()
        if not by or len(by) > _LONGEST_NAME:
            raise SettingsError(f"a marking needs the name of who makes it (1 to {_LONGEST_NAME} characters)")
        if epochs is not None and not 1 <= epochs[0] <= epochs[1]:
            raise SettingsError(f"epochs {epochs[0]}:{epochs[1]}: give the first and the last, counted from 1")
        body = {"client": client, "mark": new_mark.value, "epochs": None if epochs is None else list(epochs), "by": by}
        with self._index.write() as transaction:
            entry = self._log.append(transaction, MARKED, run_digest, body)
        return ClientMark(client, new_mark, epochs, by, entry.at)

    def note(self, run_digest: str, client: str, epochs: Window, text: str, by: str) -> DeclaredNote:
        """Declares a fact about a client's epochs, sealed like a decision; durable when it returns."""
        by = by.strip()
        if not by or len(by) > _LONGEST_NAME:
            raise SettingsError(f"a note needs the name of who declares it (1 to {_LONGEST_NAME} characters)")
        if not 1 <= epochs[0] <= epochs[1]:
            raise SettingsError(f"epochs {epochs[0]}:{epochs[1]}: give the first and the last, counted from 1")
        body = {"client": client, "epochs": list(epochs), "text": _text("note", text, needed=True), "by": by}
        with self._index.write() as transaction:
            self._log.append(transaction, NOTED, run_digest, body)
        return self.notes(run_digest)[-1]

    def find(self, alert: str) -> AlertEntry:
        """One alert, by its name or the beginning of it. Raises WorkspaceError when there is none, or more than one."""
        matching = [entry for entry in self.list() if entry.id.startswith(alert)] if alert else []
        if len(matching) > 1 and alert not in [entry.id for entry in matching]:
            raise WorkspaceError(f"{alert[:40]!r} is the beginning of {len(matching)} alerts; give more of the name")
        for entry in matching:
            if len(matching) == 1 or entry.id == alert:
                return entry
        raise WorkspaceError(f"no alert {alert[:40]!r} in this workspace")

    def decide(
        self, alert: str, state: AlertState | str, by: str, reason: str = "", *, shared: bool = False
    ) -> AlertEntry:
        """Enters a decision; durable when it returns. A dismissal needs a reason, every decision a name.

        ``shared``: the client may read the reason in its extract.
        """
        try:
            new_state = AlertState(state)
        except ValueError:
            raise SettingsError(f"{str(state)[:40]!r} is no decision; choose from {', '.join(AlertState)}") from None
        if new_state is AlertState.DISMISSED and not reason.strip():
            raise SettingsError("a dismissal needs a reason: it stays in the log for whoever asks later")
        body = {"state": new_state.value, "reason": _text("reason", reason), "shared": shared}
        return self._enter(StepKind.DECISION, alert, by, body)

    def comment(self, alert: str, by: str, text: str, *, shared: bool = False) -> AlertEntry:
        """Enters a comment. ``shared``: the client may read it in its extract."""
        return self._enter(StepKind.COMMENT, alert, by, {"text": _text("comment", text, needed=True), "shared": shared})

    def assign(self, alert: str, owner: str, by: str) -> AlertEntry:
        """Names who looks after an alert; an empty name takes it back."""
        if len(owner.strip()) > _LONGEST_NAME:
            raise SettingsError(f"the owner's name has more than {_LONGEST_NAME} characters")
        return self._enter(StepKind.ASSIGNMENT, alert, by, {"owner": owner.strip()})

    def reply(self, alert: str, by: str, text: str) -> AlertEntry:
        """Enters what the client itself answers."""
        return self._enter(StepKind.REPLY, alert, by, {"text": _text("reply", text, needed=True)})

    def _enter(self, kind: StepKind, alert: str, by: str, body: dict[str, Any]) -> AlertEntry:
        by = by.strip()
        if not by or len(by) > _LONGEST_NAME:
            raise SettingsError(f"a {kind.value} needs the name of who makes it (1 to {_LONGEST_NAME} characters)")
        entry = self.find(alert)
        with self._index.write() as transaction:
            self._log.append(transaction, kind.value, entry.run_digest, {"alert": entry.id, "by": by, **body})
        return self.find(entry.id)


def _text(what: str, text: str, *, needed: bool = False) -> str:
    text = text.strip()
    if needed and not text:
        raise SettingsError(f"the {what} is empty")
    if len(text) > _LONGEST_TEXT:
        raise SettingsError(f"the {what} has {len(text)} characters; at most {_LONGEST_TEXT} are kept")
    return text


def _plain(alert: Alert | Mapping[str, Any]) -> dict[str, Any]:
    """An alert as JSON keeps it, so that what is read back compares equal."""
    fields = alert.to_json() if isinstance(alert, Alert) else dict(alert)
    plain: dict[str, Any] = json.loads(canonical_json(_finite(fields)))
    return plain


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: null, as everywhere in our JSON, means that there is no number."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step(entry: LogEntry) -> tuple[str, ReviewStep]:
    """(the alert it is about, what was recorded)"""
    body, kind = entry.body, StepKind(entry.kind)
    state = AlertState(body["state"]) if kind is StepKind.DECISION else None
    return body["alert"], ReviewStep(
        kind=kind,
        sequence=entry.sequence,
        hash=entry.hash,
        at=entry.at,
        by=body["by"],
        text=body.get("reason", "") if kind is StepKind.DECISION else body.get("text", ""),
        state=state,
        owner=body.get("owner"),
        shared=kind is StepKind.REPLY or bool(body.get("shared")),
    )

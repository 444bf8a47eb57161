"""The alert inbox: what was observed about whom, and what people decided about it.

Alerts and decisions are entries of the audit log; the state of an alert is its last decision. Nothing is overwritten:
a dismissed alert keeps who dismissed it, when, and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flcontrib_core.detection.findings import Alert
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.provenance import canonical_json, digest_of
from flcontrib_core.workspace.audit_log import AuditLog, LogEntry
from flcontrib_core.workspace.index import Index

_LONGEST_NAME = 200
_LONGEST_REASON = 4000


class AlertState(StrEnum):
    """What people have said about an alert."""

    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    DISMISSED = "dismissed"
    CONFIRMED = "confirmed"


@dataclass(frozen=True)
class Decision:
    """Who decided what about an alert, when and why."""

    sequence: int
    alert: str
    state: AlertState
    by: str
    at: str
    reason: str


@dataclass(frozen=True)
class AlertEntry:
    """An alert in the inbox: what was found last, and every decision about it (oldest first)."""

    id: str
    sequence: int
    run_digest: str
    finding: dict[str, Any]
    """The alert's own fields (client, verdict, window, probability, evidence, …): facts, no sentence."""
    result: str | None
    """Digest of the result it was read from."""
    raised_at: str
    history: tuple[Decision, ...]

    @property
    def state(self) -> AlertState:
        """That of the last decision."""
        return self.history[-1].state if self.history else AlertState.NEW


def alert_identity(run_digest: str, finding: Mapping[str, Any]) -> str:
    """The same observation keeps its identity (and its decisions) when it is computed again."""
    what = [run_digest, finding["client"], finding["verdict"], finding.get("window"), finding.get("finding") or ""]
    return digest_of(what)[:32]


class AlertBook:
    """The inbox of a workspace."""

    def __init__(self, index: Index, log: AuditLog) -> None:
        self._index = index
        self._log = log

    def raise_alerts(
        self, run_digest: str, alerts: Sequence[Alert | Mapping[str, Any]], result: str | None = None
    ) -> tuple[AlertEntry, ...]:
        """Enters what an audit observed; alerts that are known with the same content are not entered again."""
        findings = [_plain(alert) for alert in alerts]
        named = [{"id": alert_identity(run_digest, finding), "finding": finding} for finding in findings]
        with self._index.write() as transaction:
            known = {entry.id: entry.finding for entry in self.list(run_digest)}
            fresh = [alert for alert in named if known.get(str(alert["id"])) != alert["finding"]]
            if fresh:
                self._log.append(transaction, "alerts-raised", run_digest, {"result": result, "alerts": fresh})
        wanted = {alert["id"] for alert in named}
        return tuple(entry for entry in self.list(run_digest) if entry.id in wanted)

    def list(self, run_digest: str | None = None) -> tuple[AlertEntry, ...]:
        """Alerts of the runs that are here, in the order in which they were last raised."""
        here = {row["digest"] for row in self._index.read("SELECT digest FROM runs")}
        history: dict[str, list[Decision]] = {}
        for entry in self._log.entries("decision", run_digest):
            history.setdefault(entry.body["alert"], []).append(_decision(entry))
        found: dict[str, AlertEntry] = {}
        for raised in self._log.entries("alerts-raised", run_digest):
            for alert in raised.body["alerts"] if raised.subject in here else ():
                found.pop(alert["id"], None)
                found[alert["id"]] = AlertEntry(
                    id=alert["id"],
                    sequence=raised.sequence,
                    run_digest=raised.subject,
                    finding=alert["finding"],
                    result=raised.body["result"],
                    raised_at=raised.at,
                    history=tuple(history.get(alert["id"], ())),
                )
        return tuple(found.values())

    def find(self, alert: str) -> AlertEntry:
        """One alert. Raises WorkspaceError when there is none of that name."""
        for entry in self.list():
            if entry.id == alert:
                return entry
        raise WorkspaceError(f"no alert {alert[:40]!r} in this workspace")

    def decide(self, alert: str, state: AlertState | str, by: str, reason: str = "") -> AlertEntry:
        """Enters a decision; durable when it returns. A dismissal needs a reason, every decision a name."""
        wanted = AlertState(state)
        by, reason = by.strip(), reason.strip()
        if not by or len(by) > _LONGEST_NAME:
            raise SettingsError(f"a decision needs the name of who decides (1 to {_LONGEST_NAME} characters)")
        if wanted is AlertState.DISMISSED and not reason:
            raise SettingsError("a dismissal needs a reason: it stays in the log for whoever asks later")
        if len(reason) > _LONGEST_REASON:
            raise SettingsError(f"the reason has {len(reason)} characters; at most {_LONGEST_REASON} are kept")
        entry = self.find(alert)
        body = {"alert": alert, "state": wanted.value, "by": by, "reason": reason}
        with self._index.write() as transaction:
            self._log.append(transaction, "decision", entry.run_digest, body)
        return self.find(alert)


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


def _decision(entry: LogEntry) -> Decision:
    body = entry.body
    return Decision(entry.sequence, body["alert"], AlertState(body["state"]), body["by"], entry.at, body["reason"])

"""What was observed about whom, and what did people decide about it?

Alerts and decisions are entries of the audit log; the state of an alert is its last decision. Nothing is overwritten:
a dismissed alert keeps who dismissed it, when, and why.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from enum import StrEnum
from typing import Any

from flcontrib_core.detection.findings import Alert
from flcontrib_core.errors import SettingsError, WorkspaceError
from flcontrib_core.workspace.audit_log import AuditLog
from flcontrib_core.workspace.index import Index
from flcontrib_core.workspace.provenance import canonical_json, digest_of

_LONGEST_NAME = 200
_LONGEST_REASON = 4000


class AlertState(StrEnum):
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
    """The alert's own fields (client, verdict, window, probability, why, counter_evidence, …)."""
    result: str | None
    """Digest of the result it was read from."""
    raised_at: str
    history: tuple[Decision, ...]

    @property
    def state(self) -> AlertState:
        return self.history[-1].state if self.history else AlertState.NEW


def alert_identity(run_digest: str, finding: Mapping[str, Any]) -> str:
    """The same observation keeps its identity (and its decisions) when it is computed again."""
    what = [run_digest, finding["client"], finding["verdict"], finding.get("window"), finding.get("finding", "")]
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
            rows = transaction.execute("SELECT id, finding FROM alerts WHERE run = ?", (run_digest,))
            known = {row["id"]: json.loads(row["finding"]) for row in rows}
            fresh = [alert for alert in named if known.get(str(alert["id"])) != alert["finding"]]
            if fresh:
                self._log.append(transaction, "alerts-raised", run_digest, {"result": result, "alerts": fresh})
        wanted = {alert["id"] for alert in named}
        return tuple(entry for entry in self.list(run_digest) if entry.id in wanted)

    def list(self, run_digest: str | None = None) -> tuple[AlertEntry, ...]:
        """Alerts of the runs that are here, in the order in which they were last raised."""
        rows = self._index.read(
            "SELECT * FROM alerts WHERE ?1 IS NULL OR run = ?1 ORDER BY sequence, rank", (run_digest,)
        )
        decided = self._index.read(
            "SELECT * FROM decisions WHERE ?1 IS NULL OR run = ?1 ORDER BY sequence", (run_digest,)
        )
        history: dict[str, list[Decision]] = {}
        for row in decided:
            history.setdefault(row["alert"], []).append(_decision(row))
        return tuple(
            AlertEntry(
                id=row["id"],
                sequence=row["sequence"],
                run_digest=row["run"],
                finding=json.loads(row["finding"]),
                result=row["result"],
                raised_at=row["at"],
                history=tuple(history.get(row["id"], ())),
            )
            for row in rows
        )

    def find(self, alert: str) -> AlertEntry:
        rows = self._index.read("SELECT run FROM alerts WHERE id = ?", (alert,))
        for entry in self.list(rows[0]["run"]) if rows else ():
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
    fields = asdict(alert) if is_dataclass(alert) else dict(alert)
    plain: dict[str, Any] = json.loads(canonical_json(_finite(fields)))
    return plain


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: null, as everywhere in our JSON, means that there is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _decision(row: sqlite3.Row) -> Decision:
    return Decision(
        sequence=row["sequence"],
        alert=row["alert"],
        state=AlertState(row["state"]),
        by=row["by"],
        at=row["at"],
        reason=row["reason"],
    )

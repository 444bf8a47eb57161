"""The report's JSON twin: every number, how it was made, and a seal over both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from flcontrib_core.auditing import AuditReport
from flcontrib_core.files import make_folder, write_atomic
from flcontrib_core.reports.as_json import audit_json, history_json
from flcontrib_core.reports.html import html_report
from flcontrib_core.reports.record import NO_RECORD, RECORDED, Record, written_now
from flcontrib_core.reports.sections import Seal
from flcontrib_core.vocabulary import FillPolicy

REPORT_FORMAT, LAYOUT = "flcontrib-report", 2
SEAL_KEY = "report_digest"
SEALS = frozenset({SEAL_KEY, "part_digests", "result_digest"})
TIMES = frozenset({"seconds", "recalled"})
"""How long it took and what was remembered: in no digest, for no two computations agree on it."""
VOLATILE = SEALS | TIMES | frozenset(RECORDED)
"""What may differ between two equal computations."""
_HISTORY_KEYS = (
    "computed",
    "participated",
    "utilities",
    "evaluations",
    "estimator",
    "server_share",
    "best_subset",
    "unreliable",
)


def report_json(report: AuditReport, record: Record = NO_RECORD) -> dict[str, Any]:
    """``audit_json``, the values behind it and what was recorded about it, sealed.

    ``report_digest`` covers the whole content; ``result_digest`` leaves out what differs between two equal
    computations (date, author, decisions, the audit log's head), so that it repeats on the same platform.
    """
    history = report.history
    fill = FillPolicy(str(history.settings.get("fill", FillPolicy.EQUAL)))
    values = history_json(history, fill)
    content: dict[str, Any] = {
        "format": REPORT_FORMAT,
        "layout": LAYOUT,
        **audit_json(report),
        "client_ids": values["clients"],
        "data_sizes": list(history.data_sizes),
        **{key: values[key] for key in _HISTORY_KEYS},
        "history_remarks": values["remarks"],
        "history_notes": values["notes"],
        "recalled": values["recalled"],
        **record.to_json(),
    }
    return sealed(content)


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The content as JSON will give it back, with a digest of each part (so that a change can be named) and of all."""
    plain: dict[str, Any] = json.loads(json.dumps(content, allow_nan=False))
    plain["part_digests"] = {name: content_digest(part) for name, part in parts(plain).items()}
    plain["result_digest"] = content_digest({k: v for k, v in plain.items() if k not in VOLATILE})
    plain[SEAL_KEY] = content_digest(sealed_part(plain))
    return plain


def sealed_part(content: dict[str, Any]) -> dict[str, Any]:
    """What ``report_digest`` covers: everything but itself and the times."""
    return {key: value for key, value in content.items() if key != SEAL_KEY and key not in TIMES}


def parts(content: dict[str, Any]) -> dict[str, Any]:
    """The parts that are sealed one by one: every entry, and each single setting and origin."""
    parts_json: dict[str, Any] = {}
    for key, value in content.items():
        if key in ("settings", "provenance") and isinstance(value, dict):
            parts_json |= {f"{key}.{name}": entry for name, entry in value.items()}
        elif key not in SEALS | TIMES:
            parts_json[key] = value
    return parts_json


def content_digest(content: Any) -> str:
    """sha256 of the canonical text: sorted keys, no blanks, ASCII, shortest decimal form of every number."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_report(report: AuditReport, path: Path, record: Record = NO_RECORD) -> tuple[Path, Path]:
    """Writes the page to ``path`` and its JSON twin beside it, dated now unless the record is; (html, json)."""
    twin = path.with_suffix(".json")
    record = replace(record, written_at=record.written_at or written_now())
    content = report_json(report, record)
    write_pair(content, twin, html_report(report, Seal(content[SEAL_KEY], twin.name), record), path)
    return path, twin


def write_pair(content: dict[str, Any], twin: Path, page: str, path: Path) -> None:
    """Writes a JSON and the page that names its digest, each in one step."""
    make_folder(path.parent)
    write_json(content, twin)
    write_atomic(path, page)


def write_json(content: dict[str, Any], path: Path) -> None:
    """Writes the JSON in one step: a reader finds all of it, or what was there before."""
    write_atomic(path, json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n")

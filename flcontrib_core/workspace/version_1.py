"""Workspaces of schema 1: what they kept in files of their own becomes objects and log entries.

Schema 1 remembered coalition utilities in append-only *segments* (``memory/ab/KEY/1.seg``: a heading with a label, then
records of packed coalitions and float64 utilities, each with a checksum) and described every job in its folder
(``jobs/ID/job.json``). Its log and its other objects are today's. Lifting may be broken off and begun again at any
moment: old files go only when the new index stands.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.workspace.audit_log import AuditLog
from flcontrib_core.workspace.cache import UTILITIES
from flcontrib_core.workspace.index_file import Transaction
from flcontrib_core.workspace.job import SUBMITTED, job_identity
from flcontrib_core.workspace.objects import ObjectStore, pack_record

_MAGIC = b"FLCMEM1\n"
_HEADING = struct.Struct("<8sI16s")
_RECORD = struct.Struct("<4sI16s")
_MARK = b"rec\n"


def lift(root: Path, transaction: Transaction, objects: ObjectStore, log: AuditLog) -> None:
    """Brings what schema 1 kept elsewhere into the objects and the log of an index that is being rebuilt."""
    memory = root / "memory"
    for path in sorted(memory.glob("??/*/*.seg")):
        record = _utilities_in(path.read_bytes())
        if record is not None:
            with objects.staging.stage([record]) as staged:
                objects.publish(staged)
    described = [(path, json.loads(path.read_bytes())) for path in root.glob("jobs/*/job.json")]
    rows = transaction.execute("SELECT json_extract(entry, '$.body.id') AS id FROM log WHERE kind = ?", (SUBMITTED,))
    submitted = {row["id"] for row in rows}
    here = {row["digest"] for row in transaction.execute("SELECT digest FROM runs")}
    for path, job in sorted(described, key=lambda pair: int(pair[1]["sequence"])):
        identity = job_identity(job["kind"], job["run"], job["settings"])
        if path.parent.name == identity and identity not in submitted and job["run"] in here:
            question = {name: job[name] for name in ("kind", "settings", "limits", "version", "submitted_at")}
            log.append(transaction, SUBMITTED, job["run"], {"id": identity, **question})
        transaction.after_commit(path.unlink)
    transaction.after_commit(lambda: shutil.rmtree(memory, ignore_errors=True))


def _utilities_in(segment: bytes) -> bytes | None:
    """The whole records of a segment as one record of today; None where there are none."""
    label = _label_of(segment)
    if label is None:
        return None
    width, utilities = label["key_bytes"], label["utilities"]
    coalitions, values = [], []
    position = _HEADING.size + _HEADING.unpack_from(segment)[1]
    while position + _RECORD.size <= len(segment):
        mark, count, checksum = _RECORD.unpack_from(segment, position)
        start = position + _RECORD.size
        split, end = start + count * width, start + count * (width + 8 * utilities)
        if mark == _MARK and end <= len(segment) and _checksum(segment[start:end]) == checksum:
            coalitions.append(np.frombuffer(segment[start:split], np.uint8).reshape(count, width))
            values.append(np.frombuffer(segment[split:end], "<f8").reshape(count, utilities))
            position = end
            continue
        position = segment.find(_MARK, position + 1)  # a torn or damaged record: go on at the next
        if position < 0:
            break
    if not values:
        return None
    arrays = {"coalitions": np.concatenate(coalitions), "values": np.concatenate(values)}
    return pack_record({"what": UTILITIES, "key": label["key"], "family": label["family"]}, arrays)


def _label_of(segment: bytes) -> dict[str, Any] | None:
    if len(segment) < _HEADING.size:
        return None
    magic, length, checksum = _HEADING.unpack_from(segment)
    text = segment[_HEADING.size : _HEADING.size + length]
    if magic != _MAGIC or _checksum(text) != checksum:
        return None
    label: dict[str, Any] = json.loads(text)
    return label


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()

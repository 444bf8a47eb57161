"""What somebody with access to the database file can do to it with the usual tools, leaving no other trace."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flcontrib_core.provenance import canonical_json


def tamper(path: Path, change: Callable[[sqlite3.Connection], object]) -> None:
    """Changes the index behind the workspace's back; its triggers stand again afterwards, as if nothing had been."""
    connection = sqlite3.connect(path / "index.sqlite")
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    for _, text in triggers:
        connection.execute(text)
    connection.commit()
    connection.close()


def append_decision(db: sqlite3.Connection, **fields: Any) -> None:
    """Repeats the last decision under another name, sealed as the program would seal it unless ``fields`` differ."""
    (text,) = db.execute("SELECT entry FROM log WHERE kind = 'decision' ORDER BY sequence DESC").fetchone()
    last, previous = db.execute("SELECT sequence, hash FROM log ORDER BY sequence DESC").fetchone()
    entry = {**json.loads(text), "sequence": last + 1, "previous": previous, **fields}
    entry["body"] = {**entry["body"], "state": "dismissed", "by": "mallory", "reason": "forged"}
    text = canonical_json(entry)
    db.execute(
        "INSERT INTO log (sequence, kind, subject, previous, hash, entry) VALUES (?, ?, ?, ?, ?, ?)",
        (
            entry["sequence"],
            entry["kind"],
            entry["subject"],
            entry["previous"],
            hashlib.sha256(text.encode()).hexdigest(),
            text,
        ),
    )

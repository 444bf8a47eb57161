"""What people call a run and say of it: another name, tags, a note. Entries of the audit log like everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from flcontrib_core.errors import SettingsError
from flcontrib_core.workspace.audit_log import LogEntry

DESCRIBED = "run-described"
LONGEST_NAME, LONGEST_NOTE, LONGEST_TAG, MOST_TAGS = 200, 4000, 40, 20


@dataclass(frozen=True)
class RunDescription:
    """The last word on each part; a part nobody spoke of keeps what the run itself says."""

    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str = ""

    def followed_by(self, entry: LogEntry) -> RunDescription:
        """This description with what one more entry says."""
        body = entry.body
        return replace(
            self,
            name=body.get("name", self.name),
            tags=tuple(body.get("tags", self.tags)),
            note=body.get("note", self.note),
        )


def described(name: str | None, tags: Iterable[str] | None, note: str | None) -> dict[str, Any]:
    """The body of an entry: the parts that are given. Raises SettingsError where one cannot be kept."""
    body: dict[str, Any] = {}
    if name is not None:
        if not name.strip() or len(name.strip()) > LONGEST_NAME:
            raise SettingsError(f"a run's name has 1 to {LONGEST_NAME} characters")
        body["name"] = name.strip()
    if tags is not None:
        kept = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
        if len(kept) > MOST_TAGS or any(len(tag) > LONGEST_TAG for tag in kept):
            raise SettingsError(f"a run has at most {MOST_TAGS} tags of at most {LONGEST_TAG} characters each")
        body["tags"] = kept
    if note is not None:
        if len(note.strip()) > LONGEST_NOTE:
            raise SettingsError(f"a note has at most {LONGEST_NOTE} characters")
        body["note"] = note.strip()
    if not body:
        raise SettingsError("nothing to record: give a name, tags or a note")
    return body

"""What a report repeats instead of computing: when and by whom it was written, what people decided, and the log's head.

No computation confirms these, so ``verify`` lists them as recorded; the head of the sealed log and the hash beside each
decision let whoever holds that log find the very entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flcontrib_core.codec import OtherLayout
from flcontrib_core.detection.review import NO_REVIEWS, Reviews, reviews_from_json

RECORDED = ("written_at", "written_by", "decisions", "declared", "chain_head")
"""The entries of a report's JSON that come from people and clocks."""


@dataclass(frozen=True)
class Record:
    """The circumstances of a report. ``str`` fields are empty or None where nothing is known."""

    written_at: str | None = None
    written_by: str = ""
    chain_head: str | None = None
    """Where the workspace's audit log ended; None for a report without a workspace behind it."""
    reviews: Reviews = NO_REVIEWS

    def to_json(self) -> dict[str, Any]:
        """The entries named in ``RECORDED``."""
        return {
            "written_at": self.written_at,
            "written_by": self.written_by,
            "decisions": self.reviews.to_json(),
            "declared": self.reviews.notes_json(),
            "chain_head": self.chain_head,
        }


NO_RECORD = Record()


def written_now() -> str:
    """The present time, for the date of a report."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def record_of(content: dict[str, Any]) -> Record:
    """The record in a report's JSON. Raises ValueError where it is not one: the file may be anybody's."""
    at, by, head = content.get("written_at"), content.get("written_by", ""), content.get("chain_head")
    if (
        not (at is None or isinstance(at, str))
        or not isinstance(by, str)
        or not (head is None or isinstance(head, str))
    ):
        raise ValueError("date, author or head of the log is no text")
    try:
        return Record(at, by, head, reviews_from_json(content.get("decisions", []), content.get("declared", [])))
    except OtherLayout as odd:
        raise ValueError(str(odd)) from odd

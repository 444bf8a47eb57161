"""A report's page as a file: which JSON twin it belongs to, and whether it shows what that twin says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from flcontrib_core.auditing import AuditReport
from flcontrib_core.errors import SettingsError
from flcontrib_core.reports.extract_page import extract_page
from flcontrib_core.reports.html import html_report
from flcontrib_core.reports.page import DIGEST_NAME, TWIN_NAME
from flcontrib_core.reports.record import record_of
from flcontrib_core.reports.sections import Seal
from flcontrib_core.reports.tree_comparison import Difference
from flcontrib_core.reports.twin import REPORT_FORMAT, SEAL_KEY

PAGE_ENDINGS = (".html", ".htm")
_LONGEST_HEAD = 1 << 18


@dataclass(frozen=True)
class Paged:
    """A page's text, and the twin it names."""

    text: str
    twin: str
    """file name of the JSON, in the same folder"""
    digest: str
    """the report digest that stands in it"""


class _Head(HTMLParser):
    """The named entries of a page's head."""

    def __init__(self) -> None:
        super().__init__()
        self.named: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        entry = dict(attrs)
        if tag == "meta" and entry.get("name") and entry.get("content"):
            self.named.setdefault(str(entry["name"]), str(entry["content"]))


def read_page(path: Path, data: bytes) -> Paged:
    """The page of a report from an untrusted file; raises SettingsError where it is none."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text; give the page of a report, or its JSON") from None
    head = _Head()
    head.feed(text[:_LONGEST_HEAD].partition("</head>")[0])
    twin, digest = head.named.get(TWIN_NAME, ""), head.named.get(DIGEST_NAME, "")
    if not twin or not digest:
        raise SettingsError(f"{path} names no JSON twin; give the page of a report, or the JSON written beside it")
    if Path(twin).name != twin or twin in (".", ".."):
        raise SettingsError(f"{path} names a twin outside its own folder ({twin[:80]!r}); give the JSON itself")
    return Paged(text, twin, digest)


def wrong_page(page: Paged, content: dict[str, Any], again: AuditReport | None) -> Iterator[Difference]:
    """Where the page is not its twin's. ``again``: the recomputed report, if it is equal to the last bit.

    An extract's page is made of its JSON alone and is made again everywhere; a report's page holds pictures of the
    values and is made again where these are the same to the last bit.
    """
    if page.digest != content.get(SEAL_KEY):
        yield Difference("page: the report digest it names", page.digest, content.get(SEAL_KEY))
    if content.get("format") != REPORT_FORMAT:
        expected = extract_page(content, page.twin)
    elif again is not None:
        expected = html_report(again, Seal(str(content.get(SEAL_KEY)), page.twin), record_of(content))
    else:
        return
    if page.text != expected:
        yield Difference("page", *_first_difference(page.text, expected))


def _first_difference(page: str, expected: str) -> tuple[str, str]:
    """Where two texts part, with what follows in each."""
    both = enumerate(zip(page, expected, strict=False))
    at = next((n for n, (a, b) in both if a != b), min(len(page), len(expected)))
    return page[at : at + 120], expected[at : at + 120]

"""Is the page one file that shows everything, literally, and asks nobody for anything?"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from flcontrib_core import words
from flcontrib_core.charts.of_report import report_charts, write_charts
from flcontrib_core.reports.html import html_report
from flcontrib_core.reports.record import Record
from flcontrib_core.reports.sections import Seal
from flcontrib_core.reports.twin import write_report
from flcontrib_core.words.numbers import visible
from tests.browser.steps import own_window
from tests.detection.made_histories import made_history
from tests.reports.hostile import HOSTILE_NAMES
from tests.reports.made_reports import made_report, with_names

SEAL = Seal("ab" * 32, "report.json")
RECORD = Record(chain_head="7:" + "cd" * 32)


class Reader(HTMLParser):
    """The tags, attributes and text that a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._style = False
        self.style = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        if self._style:
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def test_the_page_says_what_was_found_and_what_speaks_against_it() -> None:
    report = made_report()
    text = Reader(html_report(report, SEAL, RECORD)).text
    assert "2 of 8 clients stand out during this run. Strongest: client-01, epochs 8–12, probability 0.99" in text
    for alert in report.detection.alerts:
        assert " ".join(words.why(alert)) in text
        for sentence in (*words.counter_evidence(alert), *words.context(alert)):
            assert sentence in text
    for expected in (
        "17 of 832 honest simulated runs",
        "W_NORM",
        SEAL.report_digest,
        str(RECORD.chain_head),
        "flcontrib verify report.json",
        report.provenance.run_digest,
        "It holds in 9 of 10 alternative settings.",
        "This describes what was observed in the log. It does not say why.",
        "9 of 20 epochs computed",
    ):
        assert expected in text
    for word in ("dishonest", "guilty", "attacker", "malicious"):
        assert word not in text.lower()


def test_a_quiet_run_says_what_would_have_been_visible() -> None:
    text = Reader(html_report(made_report(alerts=False), SEAL)).text
    assert "None of the 8 clients changed above the threshold" in text
    assert "about 0.021 per epoch over 5 epochs" in text


def test_nothing_is_fetched_and_nothing_runs() -> None:
    page = html_report(made_report(), SEAL)
    reader = Reader(page)
    assert not {"script", "img", "link", "iframe", "object", "embed", "form", "a", "video"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "style")]
    assert all((value or "").startswith("#") for name, value in reader.attributes if name == "href")
    assert "http://" not in page
    assert "https://" not in page
    assert all(inside.startswith("#") for inside in re.findall(r"url\(([^)]*)\)", page))


def test_the_policy_allows_exactly_the_style_of_the_page() -> None:
    reader = Reader(html_report(made_report(), SEAL))
    policy = next(
        value or "" for name, value in reader.attributes if name == "content" and "default-src" in (value or "")
    )
    fingerprint = base64.b64encode(hashlib.sha256(reader.style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{fingerprint}'" in policy
    assert "unsafe" not in policy


def test_hostile_names_are_shown_literally() -> None:
    report = with_names(made_report(), HOSTILE_NAMES[:8])
    reader = Reader(html_report(report, SEAL))
    assert not {"script", "img"} & set(reader.tags)
    for name in HOSTILE_NAMES[:8]:
        assert visible(name) in reader.text
    assert "\u202e" not in reader.text


def test_invisible_characters_are_named() -> None:
    assert visible("ab\u202egpj") == "ab[U+202E]gpj"
    assert visible("two\nlines") == "two[U+000A]lines"
    assert visible("1\u2009152 é 😀") == "1\u2009152 é 😀"


def test_totals_only_methods_get_no_curve() -> None:
    history = made_history(clients=4, epochs=6, computed=())
    report = made_report(replace(history, totals_given=np.arange(8.0).reshape(4, 2)))
    assert set(report_charts(report)) == {"ranking"}
    assert "totals only" in Reader(html_report(report, SEAL)).text


def test_a_large_run_stays_a_small_page() -> None:
    report = made_report(made_history(clients=2000, epochs=50, participation=0.5, with_channels=False))
    page = html_report(report, SEAL)
    assert len(page) < 1_500_000
    assert "40 of 2\u2009000 clients are drawn" in Reader(page).text


def test_charts_are_written_as_files_of_their_own(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    report = with_names(made_report(), HOSTILE_NAMES[:8])
    paths = write_charts(report, tmp_path / "charts")
    assert {p.name for p in paths} == {
        "ranking.svg",
        "cumulative.svg",
        "heat-map.svg",
        "evidence-1.svg",
        "evidence-2.svg",
    }
    for path in paths:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert not {"script", "image", "a", "foreignObject"} & tags


def test_the_page_names_its_twin_and_the_twin_s_digest(tmp_path: Path) -> None:
    page, twin = write_report(made_report(), tmp_path / "a" / "report.html")
    digest = re.search(r'"report_digest": "([0-9a-f]{64})"', twin.read_text())
    assert digest is not None
    assert f'<meta name="flcontrib-report-digest" content="{digest[1]}">' in page.read_text()
    assert '<meta name="flcontrib-twin" content="report.json">' in page.read_text()


def witness(page: Page, asked: list[str], trouble: list[str]) -> None:
    """Notes what the page asks for and what it prints or pops up."""
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on("console", lambda message: trouble.append(message.text))


@pytest.mark.browser
def test_a_real_browser_asks_nobody_and_runs_nothing(tmp_path: Path, browser: Browser) -> None:
    page_path, _ = write_report(with_names(made_report(), HOSTILE_NAMES[:8]), tmp_path / "report.html")
    grounds = []
    for mode in ("light", "dark"):
        with own_window(browser, color_scheme=mode, viewport={"width": 375, "height": 800}) as page:
            asked: list[str] = []
            trouble: list[str] = []
            witness(page, asked, trouble)
            page.goto(page_path.as_uri())
            assert asked == [page_path.as_uri()]
            assert trouble == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 375
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(15, 18, 24)"]

"""The documentation builds without a warning, needs nothing from outside, and every command on its pages works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLLOWED = ("start.md", *(f"how-to/{path.name}" for path in sorted((DOCS / "how-to").glob("*.md"))))
BLOCK = re.compile(r"```(console|python)\n(.*?)```", flags=re.S)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    told = subprocess.run(
        python_command("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "trees"),
                       str(DOCS), str(folder / "html")),
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=child_environment(),
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    return folder / "html"


class Links(HTMLParser):
    """Everything a page loads or points to, and the places in it that can be pointed to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: set[str] = set()
        self.pointed: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.places |= {given["id"]} if "id" in given else set()
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loaded.add(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.add(given.get("href", ""))
        elif tag == "a":
            self.pointed.add(given.get("href", ""))


def links_of(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text())
    return links


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not [link for link in links_of(page).loaded if re.match(r"(https?:)?//", link)], page.name


def test_no_link_is_dead(site: Path) -> None:
    pages = {page.resolve(): links_of(page) for page in site.rglob("*.html")}
    dead = []
    for page, links in pages.items():
        for link in links.pointed:
            if re.match(r"(https?:|mailto:)", link) or not link:
                continue
            path, _, place = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (place and target in pages and place not in pages[target].places):
                dead.append((page.name, link))
    assert not dead


def test_every_name_and_command_has_its_place(site: Path) -> None:
    import flcontrib_core
    from flcontrib_core.cli import COMMANDS

    python = links_of(site / "reference" / "python.html").places
    assert {f"flcontrib_core.{name}" for name in flcontrib_core.__all__ if name != "__version__"} <= python
    commands = links_of(site / "reference" / "commands.html").places
    assert {f"flcontrib-{name}" for name in COMMANDS} <= commands


@pytest.mark.parametrize("page", FOLLOWED)
def test_what_a_page_tells_to_do_can_be_done(page: str, tmp_path: Path) -> None:
    os.symlink(ROOT / "sample_runs", tmp_path / "sample_runs")
    environment = child_environment(FLCONTRIB_WORKSPACE=str(tmp_path / "workspace"))
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for language, text in blocks:
        if language == "python":
            calls = [python_command("-c", text)]
        else:
            lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
            assert lines
            assert all(line.startswith("flcontrib ") for line in lines)
            calls = [python_command("-m", "flcontrib_core.cli", *shlex.split(line)[1:]) for line in lines]
        for call in calls:
            told = subprocess.run(
                call, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment
            )
            assert told.returncode == 0, (call, told.stderr)

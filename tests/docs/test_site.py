"""The documentation builds without a warning, needs nothing from outside, and every command on its pages works."""

from __future__ import annotations

import html
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flcontrib_core.execution.children import child_environment, python_command
from tests.laboratory.test_reproduction import SMALL
from tests.pages import federation, follow, run_command
from tests.patience import PATIENCE_SECONDS
from tests.test_rooms import MODULES, ORDER, imports_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CORE = ROOT / "flcontrib_core"
FOLLOWED = ("start.md", "recording.md", *(f"how-to/{path.name}" for path in sorted((DOCS / "how-to").glob("*.md"))))


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


def test_no_page_shows_markup_that_was_not_understood(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"<p>\s*\.\. [a-z_-]+", page.read_text()), page.name


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


def test_every_chart_of_the_house_is_drawn_in_the_gallery(site: Path) -> None:
    """The build runs the gallery's code and the notebooks' cells; here it is seen that nothing was left out."""
    from flcontrib_core import charts

    text = (DOCS / "gallery.md").read_text()
    assert [name for name in charts.__all__ if name.startswith("draw_") and name not in text] == []
    pictures = {link for link in links_of(site / "gallery.html").loaded if link.startswith("drawings/")}
    assert len(pictures) == text.count("\nchart = ")
    assert all((site / link).read_text().startswith("<?xml") for link in pictures)


def test_notebooks_hold_no_stored_answers_and_show_those_of_this_build(site: Path) -> None:
    books = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert len(books) == 2
    for path in books:
        cells = json.loads(path.read_text())["cells"]
        assert not [cell["outputs"] for cell in cells if cell.get("outputs")]
    assert "2 of 8 clients changed during this run" in (site / "notebooks" / "first-audit.html").read_text()
    assert "rank correlation of the totals" in (site / "notebooks" / "budget-and-fairness.html").read_text()


def test_a_page_shows_what_its_commands_print(site: Path) -> None:
    start = html.unescape(re.sub(r"<[^>]+>", "", (site / "start.html").read_text()))
    assert "sound: 8 clients, 30 epochs" in start
    assert "1 of 8 clients changed during this run. Strongest: client-05, epochs 12–20" in start
    assert "equal: 30 epochs computed again" in start
    assert re.search(r"^─+(  ─+)+$", start, flags=re.M), "the lines of a table are not folded"
    alert = html.unescape(re.sub(r"<[^>]+>", "", (site / "how-to" / "read-an-alert.html").read_text()))
    assert max(map(len, re.findall(r"^ +(?:for|against|rests on): .*$", alert, flags=re.M))) <= 92


def test_the_papers_claims_are_those_of_the_stored_outcome(site: Path) -> None:
    from flcontrib_core.reports.paper_figure import HOLDS, QUESTIONS, read_paper_figures

    page = (site / "paper.html").read_text()
    stored = read_paper_figures()
    expected = []
    for name in QUESTIONS:
        figure = stored.get(name)
        expected += (
            [[name, "", "", "", HOLDS[None]]]
            if figure is None
            else [
                [f"{name} ({figure.scale})", claim.claim, claim.paper, claim.ours, HOLDS[claim.holds]]
                for claim in figure.claims
            ]
        )
    tables = re.findall(r"<table.*?</table>", page, flags=re.S)
    (claims,) = (table for table in tables if "<p>ours</p>" in table)
    rows = [re.findall(r"<td.*?</td>", row, flags=re.S) for row in re.findall(r"<tr.*?</tr>", claims, flags=re.S)]
    said = [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows if row]
    assert [[cell.replace("’", "'") for cell in row] for row in said] == expected  # Sphinx prints curved marks
    assert page.count('src="_images/') == sum(len(figure.drawings) for figure in stored.values())


def test_the_pictures_of_the_house_show_what_the_sources_say(site: Path) -> None:
    """Counted apart from what draws them, by the test that holds imports to their order."""
    rooms = [
        (i.rooms, module, i.target) for module, path in MODULES.items() for i in imports_of(module, path.read_text())
    ]
    pairs = {pair for pair, _, _ in rooms if pair[0] != pair[1] and set(pair) <= set(ORDER)}
    page = (site / "architecture.html").read_text()
    assert set(re.findall(r"<title>(\w+) imports (\w+) \d+ times", page)) == pairs
    flow = re.findall(r"(\w+) makes ([\w., ]+?) from ([\w., ]+?)(?:;|<)", page)
    assert ("choose_epochs", "Schedule", "SchedulingProblem") in flow
    assert ("assess_contributions", "ContributionHistory", "Schedule") in flow
    assert {"read_run_log", "read_verdicts", "report_on", "headline", "report_charts"} <= {name for name, _, _ in flow}


def test_every_departure_stands_in_the_method(site: Path) -> None:
    """Counted in the bare sources, apart from what lists them."""
    listed = re.findall(r"<code[^>]*><span class=\"pre\">([\w/]+\.py)</span>", (site / "method.html").read_text())
    noted = {
        str(path.relative_to(CORE)): len(re.findall(r"\bDepartures?(?::| from)", path.read_text()))
        for path in CORE.rglob("*.py")
    }
    assert {place: listed.count(place) for place in set(listed)} == {p: n for p, n in noted.items() if n}


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all pages: what one of them had evaluated, the next one remembers."""
    return tmp_path_factory.mktemp("pages") / "workspace"


def test_the_sign_in_file_of_the_serving_page_is_taken(tmp_path: Path) -> None:
    from flcontrib_dashboard.accounts import Role, read_accounts

    from flcontrib_core.commands.serving import require_sign_in

    (sample,) = re.findall(r"^```toml\n(.*?)^```", (DOCS / "serving.md").read_text(), flags=re.S | re.M)
    (tmp_path / "sign-in.toml").write_text(sample)
    require_sign_in(tmp_path / "sign-in.toml")
    accounts = read_accounts(tmp_path / "sign-in.toml")
    assert {account.role for account in accounts.values()} == {Role.OPERATOR, Role.AUDITOR, Role.CLIENT}


ASKED = {
    "simulate": "another.flrun --clients 2 --epochs 1 --hidden 4",
    "import": "sample_runs/contributions-table.csv -o t.csv",
    "schedule": "s.flrun --budget 2",
    "stability": "s.flrun --repeats 2",
    "report": "s.flrun -o r.html",
    "verify": "r.json s.flrun",
    "compare": "s.flrun s.flrun",
    "ask": "s.flrun -o work --metric accuracy:higher",
    "tell": "s.flrun work",
    "runs list": "",
    "results list": "",
    "decide": "",
    "log verify": "",
    "reproduce": "aggregation -o figures",
    "watch": "grown --until 10",
}
"""What follows a command's name; where nothing is said here, the run."""


def objects(printed: str) -> list[dict[str, object]]:
    """What was printed: one object, a list of them, or one on each line."""
    answers = [json.loads(line) for line in printed.splitlines()]
    return answers[0] if isinstance(answers[0], list) else answers


def test_the_json_of_every_command_has_the_keys_that_its_page_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setattr("flcontrib_core.laboratory.reproduction.Stage", lambda *_, **__: SMALL)
    (tmp_path / "sample_runs").symlink_to(ROOT / "sample_runs")
    for out in ("s.flrun", "grown"):
        run_command(
            f"flcontrib simulate {out} --clients 6 --epochs 10 --hidden 8 --attack zero --dishonest 1 --window 3:8"
        )
    page = (DOCS / "reference" / "json.md").read_text()
    sections = dict(re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", page, flags=re.S | re.M))
    assert len(sections) == 21
    assert set(ASKED) <= set(sections)
    for command, section in sections.items():
        capsys.readouterr()
        run_command(f"flcontrib {command} {ASKED.get(command, 's.flrun')} {'' if command == 'watch' else '--json'}")
        answers = objects(capsys.readouterr().out)
        whole, _, of_an_alert = section.partition("An alert:")
        alerts = answers[0]["alerts"] if of_an_alert else [{}]
        assert isinstance(alerts, list)
        for table, keys in ((whole, answers[0]), (of_an_alert, alerts[0])):
            told = {
                name
                for row in re.findall(r"^\| (`[^|]*) \|", table, flags=re.M)
                for name in re.findall(r"`(\w+)`", row)
            }
            assert told <= set(keys), (command, told - set(keys))


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_a_page_tells_to_do_can_be_done(
    name: str, tmp_path: Path, remembered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_runs").symlink_to(ROOT / "sample_runs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(remembered))
    assert follow((DOCS / name).read_text(), federation())

"""Habits of a good command: options from a file, standard input, grouped help, completion, a sane first estimate."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from flcontrib_core.cli import flcontrib
from flcontrib_core.commands import printing
from flcontrib_core.errors import SettingsError
from flcontrib_core.workspace import Workspace, default_path
from tests import in_process

SAMPLES = Path(__file__).parents[2] / "sample_runs"
TWO_POISONED = str(SAMPLES / "two-poisoned.flrun")
TABLE = str(SAMPLES / "contributions-table.csv")


def told(*words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(flcontrib, [*words], input=stdin)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of one's own, and a home without a settings file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FLCONTRIB_WORKSPACE", raising=False)
    return tmp_path


def every_command(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """The words that call each command and each group of commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from every_command(command, *above, name)


@pytest.mark.parametrize("words", list(every_command(flcontrib)), ids=" ".join)
def test_the_help_of_every_command_ends_with_an_example_of_it(words: tuple[str, ...]) -> None:
    helped = told(*words, "--help")
    assert helped.exit_code == 0
    _, _, example = " ".join(helped.stdout.split()).rpartition("Example: ")
    assert example.startswith(f"flcontrib {' '.join(words)}"), example


@pytest.mark.parametrize("words", [(), *every_command(flcontrib)], ids=" ".join)
def test_the_help_of_every_command_fits_a_terminal(words: tuple[str, ...]) -> None:
    helped = CliRunner().invoke(flcontrib, [*words, "--help"], terminal_width=80)
    assert [line for line in helped.stdout.splitlines() if len(line) > 80] == []


def test_the_help_divides_the_commands_and_the_options_of_a_simulation() -> None:
    commands = told("--help").stdout
    assert commands.index("A log:") < commands.index("  check ") < commands.index("A workspace:")
    simulation = told("simulate", "--help").stdout
    assert simulation.index("Attacks:") < simulation.index("--strength") < simulation.index("Honest changes:")
    assert "One of digits, breast-cancer" in " ".join(simulation.split())


def test_a_mistyped_command_hears_what_may_have_been_meant() -> None:
    assert "No such command 'adit'. Did you mean audit" in told("adit", "run.flrun").stderr
    assert told("qqq").stderr.strip().endswith("No such command 'qqq'.")


def test_a_folder_of_runs_is_answered_with_the_runs_in_it() -> None:
    refused = in_process.flcontrib("check", str(SAMPLES))
    assert refused.returncode == 2
    assert "no such file, but runs: " in refused.stderr
    assert "Name one of the runs in the folder." in refused.stderr


def test_a_run_in_the_place_of_the_report_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a run: give the report first, then the run"):
        told_strictly("verify", TWO_POISONED, str(tmp_path / "report.json"))


def test_an_estimators_option_of_another_kind_is_named() -> None:
    with pytest.raises(SettingsError, match="decay is 'nine': it takes a number"):
        told_strictly("assess", TWO_POISONED, "--estimator", "tmr", "--set", "decay=nine")


def told_strictly(*words: str) -> None:
    """Runs a command whose fault is to be seen itself."""
    CliRunner().invoke(flcontrib, list(words), standalone_mode=False, catch_exceptions=False)


def test_a_long_line_is_folded_on_a_terminal_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "  for: " + "a word " * 20 + "and an end"
    printing.say(line)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    printing.say(line, "short")
    *folded, short = capsys.readouterr().out.splitlines()
    assert short == "short"
    assert max(map(len, folded)) <= 40
    assert " ".join(part.strip() for part in folded) == line.strip()
    assert all(part[:4] == "    " != part[4] for part in folded[1:])


def test_a_wide_table_has_its_headings_and_its_first_column_on_several_lines() -> None:
    header = ["federation", "core hours", "machines", "hours on them", "log", "memory of a worker", "result"]
    name = "10 000 clients, 100 in each of 1 000 epochs"
    printed = printing.table(header, [[name, "1.7", "1", "1.7", "484 MB", "287 MB", "12 MB"]]).splitlines()
    assert max(map(len, printed)) <= 80
    rule = next(n for n, line in enumerate(printed) if line.startswith("─"))
    first = len(printed[rule].split()[0])
    assert " ".join(line[:first].strip() for line in printed[rule + 1 :]) == name
    long_names = printing.table(["client", *"abcdefg"], [["contributions-table", *["+0.388…416"] * 5, "1", "2"]])
    assert max(map(len, long_names.splitlines())) <= 80, "columns stand closer where nothing can be folded"
    assert printing.table(["a", "b"], [["c", "d"]]) == "a  b\n─  ─\nc  d"


def planned(*words: str) -> dict[str, Any]:
    result = told(*words, "schedule", str(SAMPLES / "late-window.flrun"), "--json", "--fairness", "stride")
    assert result.exit_code == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_the_file_gives_way_to_the_line_and_wins_over_the_default(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.flcontrib]\nbudget = 7\n")
    assert len(planned()["chosen"]) == 7
    (here / "flcontrib.toml").write_text(
        'budget = 5\nchange-series = "cumulative"\n[schedule]\nfairness = "random"\n[audit]\nbudget = 3\n'
    )
    assert planned()["chosen"] == [5, 13, 21, 29, 37], "flcontrib.toml first; the line's stride, not the table's random"
    (here / "other.toml").write_text("[schedule]\nbudget = 0.1\n")
    assert len(planned("--config", "other.toml")["chosen"]) == 4
    result = told("schedule", str(SAMPLES / "late-window.flrun"), "--budget", "2", "--json")
    assert len(json.loads(result.stdout)["chosen"]) == 2
    assert result.stderr.startswith("settings from flcontrib.toml: budget, fairness\n"), (
        "change-series is no option of schedule"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1\n", "colour is no option that commands share"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("[audit]\nseed = " + "9" * 5000 + "\n", "is not TOML"),
        ("[audit.seed]\nx = 1\n", "seed is a dict"),
        ("[audit]\nseed = 2020-01-01\n", "seed is a date"),
        ("[adit]\nbudget = 1\n", r"\[adit\] is no option"),
        ("[audit]\ncolour = 1\n", "colour, which is no option of this command"),
        ('[audit]\nclient_secret = "x"\n', "client_secret, which is no option"),
        ('address = "ray://elsewhere"\n', "address names a place"),
        ("budget = \n", "is not TOML"),
        ("# " + "x" * 200_000, "larger than"),
        ("a" + ".a" * 40_000 + " = 1\n", "200 dots"),
        ("[audit]\nworkers = 0x" + "f" * 5000 + "\n", "in reach"),
        ("precision = inf\n", "in reach"),
        ("precision = nan\n", "in reach"),
        ("[audit]\nworkers = [1, 2]\n", "workers is a list"),
        ("[audit]\nseed = 1.5\n", "whole number"),
        ('workspace = "a\\u0000b"\n', "not printed"),
    ],
)
def test_a_file_that_says_something_else_is_refused(here: Path, text: str, message: str) -> None:
    (here / "flcontrib.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        flcontrib.main(["audit", TABLE], standalone_mode=False)


def test_a_pipe_or_a_device_as_a_file_of_options_is_refused(here: Path) -> None:
    os.mkfifo(here / "pipe.toml")
    for place in ("pipe.toml", "/dev/zero"):
        with pytest.raises(SettingsError, match="pipe or a device"):
            flcontrib.main(["--config", place, "audit", TABLE], standalone_mode=False)


def test_a_precision_without_end_is_refused_in_words(here: Path) -> None:
    assert in_process.flcontrib("audit", TABLE, "--precision", "inf").returncode == 2


@pytest.mark.parametrize("text", ["tool = 3\n", "[tool]\nflcontrib = 3\n"])
def test_a_project_file_without_a_table_of_options_is_refused(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"tool\.flcontrib is not a table"):
        flcontrib.main(["audit", TABLE], standalone_mode=False)


def test_a_named_workspace_keeps_the_result_however_it_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "flcontrib.toml").write_text('workspace = "by-file"\n')
    assert told("audit", TABLE).exit_code == 0
    monkeypatch.setenv("FLCONTRIB_WORKSPACE", str(here / "by-variable"))
    assert told("audit", TABLE).exit_code == 0
    assert default_path() == here / "by-variable"
    for folder in ("by-file", "by-variable"):
        with Workspace(here / folder) as workspace:
            assert len(workspace.runs()) == len(workspace.results()) == 1
    listed = told("runs", "list", "--json")
    assert len(json.loads(listed.stdout)) == 1


def test_standard_input_is_a_file_too_but_only_once(here: Path) -> None:
    log = (SAMPLES / "late-window.flrun").read_bytes()
    answer = json.loads(told("check", "-", "--no-model", "--json", stdin=log).stdout)
    assert (answer["ok"], answer["epochs"]) == (True, 40)
    table = told("check", "-", "--json", stdin=Path(TABLE).read_bytes())
    assert json.loads(table.stdout)["ok"] is True
    twice = told("verify", "-", "-", stdin=b"{}")
    assert twice.exit_code == 2
    assert "only once" in twice.output


def test_help_shows_a_commands_own_options_first_and_the_shared_ones_in_sections() -> None:
    text = told("audit", "--help").output
    places = [text.index(f"\n{title}:\n") for title in ("Options", "Estimator", "Budget", "Reading the history")]
    assert places == sorted(places)
    assert places[0] < text.index("--fail-on-alert") < places[1] < text.index("--estimator") < places[2]
    assert text.count("--budget ") == 1


def test_completion_knows_commands_and_estimators() -> None:
    from click.shell_completion import ShellComplete

    complete = ShellComplete(flcontrib, {}, "flcontrib", "_FLCONTRIB_COMPLETE")
    assert [found.value for found in complete.get_completions([], "au")] == ["audit"]
    found = complete.get_completions(["audit", "run.flrun", "--estimator"], "comp")
    assert [item.value for item in found] == ["complementary", "complementary-neyman"]


def test_the_first_estimate_does_not_count_what_came_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("flcontrib_core.commands.printing.time.monotonic", lambda: clock.now)
    progress = printing.ProgressLine()
    for now, done in ((60.0, 1), (66.0, 2), (72.0, 3)):  # a minute of imports, then six seconds a step
        clock.now = now
        progress(done, 30, f"epoch {done}")
    assert capsys.readouterr().err.splitlines() == [
        "1/30 epoch 1",
        "2/30 epoch 2, about 168 s left",
        "3/30 epoch 3, about 162 s left",
    ]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("schedule", TWO_POISONED, "--budget", "0"), "at least one epoch"),
        (("schedule", TWO_POISONED, "--budget", "0.5", "--gamma", "-1"), "gamma -1.0"),
        (("assess", TWO_POISONED, "--budget", "31"), "the run has 30 epochs"),
        (("assess", TWO_POISONED, "--epochs", "2,40"), "the run has epochs 1 to 30"),
        (("report", TWO_POISONED, "-o", "page.html", "--client", "nobody"), "no client 'nobody'"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused_before_any_work(here: Path, arguments: tuple[str, ...], word: str) -> None:
    answer = in_process.flcontrib(*arguments)
    assert answer.returncode == 2
    assert word in answer.stderr
    assert len(answer.stderr.splitlines()) == 1, "no progress was made, and no traceback shown"

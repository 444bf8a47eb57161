"""A folder of answers may come back from anybody: whatever stands in it is read within bounds or refused by name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flcontrib_core as fl
from flcontrib_core.errors import AnswerError
from flcontrib_core.history.answer_files import Question
from flcontrib_core.history.answering import answer_with, vote_with
from flcontrib_core.history.asking import ask, tell
from flcontrib_core.history.voting import VotingRules, folder_of
from flcontrib_core.runs import RunLog
from tests.corpus.good_logs import CLIENTS, LogWriter, write_directory

METRICS = {"dice": "higher", "hd95": "lower"}
FIRST = "epoch-00001.jsonl"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log, and beside it the work folders ``answers`` and ``votes``, answered throughout."""
    place = tmp_path_factory.mktemp("asked")
    run = opened(write_directory(LogWriter(epochs=2).files(), place / "run"))
    for name, voting in (("answers", None), ("votes", VotingRules())):
        ask(run, place / name, METRICS, voting=voting)
        while not tell(run, place / name).complete:
            if voting is None:
                answer_with(run, place / name, same_for_all)
            for client, rows in CLIENTS if voting is not None else ():
                vote_with(run, place / name, client, rows, same_for_all)
    return place / "answers", place / "votes"


def same_for_all(state: dict[str, Any]) -> dict[str, float]:
    return {"dice": 0.5, "hd95": 2.0}


def opened(path: Path) -> RunLog:
    run = fl.read_run_log(path)
    assert isinstance(run, RunLog)
    return run


def written(name: str, content: bytes) -> Change:
    return lambda work: (work / name).write_bytes(content)


def linked(name: str, target: str) -> Change:
    def change(work: Path) -> None:
        (work / name).unlink()
        (work / name).symlink_to(target)

    return change


def piped(name: str) -> Change:
    def change(work: Path) -> None:
        (work / name).unlink()
        os.mkfifo(work / name)

    return change


def about(**values: Any) -> Change:
    def change(work: Path) -> None:
        said = json.loads((work / "work.json").read_text())
        (work / "work.json").write_text(json.dumps({k: v for k, v in {**said, **values}.items() if v is not ...}))

    return change


def answered(number: str) -> Change:
    def change(work: Path) -> None:
        (work / FIRST).write_text((work / FIRST).read_text().replace('"hd95": 2.0', f'"hd95": {number}'))

    return change


def voter(change: Change) -> Change:
    return lambda work: change(folder_of(work, "hospital-b"))


HOSTILE: dict[str, tuple[Change, str]] = {
    "no seed": (about(seed=...), "not what flcontrib ask writes"),
    "a seed below 0": (about(seed=-1), "not what flcontrib ask writes"),
    "a seed in words": (about(seed="x"), "not what flcontrib ask writes"),
    "a metric without direction": (about(metrics={"dice": 5}), "not what flcontrib ask writes"),
    "metrics without end": (about(metrics=dict.fromkeys(map(str, range(5000)), "higher")), "not what flcontrib ask"),
    "rules that nobody knows": (about(voting={"unknown": 1}), "not what flcontrib ask writes"),
    "rules that are a number": (about(voting=3), "not what flcontrib ask writes"),
    "a pipe that says what it is about": (piped("work.json"), "a link, a pipe"),
    "a device that says what it is about": (linked("work.json", "/dev/zero"), "a link, a pipe"),
    "a pipe of answers": (piped(FIRST), "a link, a pipe"),
    "a device of answers": (linked(FIRST, "/dev/zero"), "a link, a pipe"),
    "a link to what is not there yet": (linked(FIRST, "../elsewhere"), "a link, a pipe"),
    "holes for answers": (lambda work: os.truncate(work / FIRST, 1 << 36), "more than"),
    "lines without end": (written(FIRST, b"\n" * 100_000), "so much is never asked"),
    "answers about an epoch that is not": (
        lambda work: shutil.copy(work / FIRST, work / "epoch-00003.jsonl"),
        "the run has epochs 1 to 2",
    ),
    "an answer whose square is infinite": (answered("1e308"), "finite number up to 1e"),
}
HOSTILE_VOTES: dict[str, tuple[Change, str]] = {
    "a pipe for a voter": (voter(piped("voter.json")), "a link, a pipe"),
    "a device for a voter": (voter(linked("voter.json", "/dev/zero")), "a link, a pipe"),
    "a voter without end": (voter(written("voter.json", b" " * 100_000)), "more than"),
    "a voter whose name is a list": (
        voter(written("voter.json", b'{"client": ["hospital-b"], "rows": 5}')),
        "at least one row",
    ),
    "a pipe of votes": (voter(piped(FIRST)), "a link, a pipe"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_work_folder_is_refused(asked: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    change, message = HOSTILE[name]
    work = shutil.copytree(asked[0], tmp_path / "work")
    change(work)
    with pytest.raises(AnswerError, match=message):
        tell(opened(asked[0].parent / "run"), work)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", HOSTILE_VOTES)
def test_a_hostile_voter_is_refused(asked: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    change, message = HOSTILE_VOTES[name]
    work = shutil.copytree(asked[1], tmp_path / "work")
    change(work)
    with pytest.raises(AnswerError, match=message):
        tell(opened(asked[0].parent / "run"), work)


def test_who_answers_is_not_led_astray_by_who_asks(asked: tuple[Path, Path], tmp_path: Path) -> None:
    run = opened(asked[0].parent / "run")
    answering = {"answers": answer_with, "votes": lambda run, work, it: vote_with(run, work, "hospital-a", 5, it)}
    for name, answer in answering.items():
        work = shutil.copytree(asked[0].parent / name, tmp_path / name)
        (work / FIRST).write_text(Question(1, {"nobody": 1.0}).line() + "\n")
        with pytest.raises(AnswerError, match="did not take part"):
            answer(run, work, same_for_all)


def test_a_name_with_a_line_separator_in_it_is_asked_and_answered(tmp_path: Path) -> None:
    writer = LogWriter(epochs=1, clients=(("a\u2028b", 1), ("c\u0085d", 2)))
    run = opened(write_directory(writer.files(), tmp_path / "run"))
    ask(run, tmp_path / "work", METRICS)
    assert answer_with(run, tmp_path / "work", same_for_all) > 0
    assert tell(run, tmp_path / "work").complete

"""The files between ``ask`` and ``tell``: one JSON line per question, one file per epoch, and what they are about."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.errors import AnswerError, FileNotRead, RunLogError
from flcontrib_core.files import read_plain, write_atomic
from flcontrib_core.runs.limits import MAX_DATA_SIZE, MAX_ID_CHARACTERS, MAX_TABLE_UTILITIES
from flcontrib_core.runs.problems import shown
from flcontrib_core.runs.strict_json import parse_json

WORK = "work.json"
DIRECTIONS = ("higher", "lower")
LARGEST_ANSWER = 1e100
"""Beyond it differences and squares leave what a float64 holds."""
_WORK_BYTES = 1 << 20
_LINES_PER_PLAYER, _FURTHER_LINES = 24, 256
"""At most 4n + 2 questions are asked about n participants; lines may stand there several times."""
_BYTES_PER_PLAYER, _FURTHER_BYTES = 6 * MAX_ID_CHARACTERS + 64, 8192
"""Of one line: a weight for each participant, every character of its id escaped; names and values of the answer."""
_EPOCH_FILE = re.compile(r"epoch-(\d{5,})\.jsonl")


@dataclass(frozen=True)
class Question:
    """One sub-model of one epoch: F(t−1) + Σ w · Δ, or the server's real model after the epoch."""

    epoch: int
    weights: Mapping[str, float]
    of_global: bool = False
    answer: Mapping[str, float] | None = None

    @property
    def id(self) -> str:
        """The same for the same question, whoever asks it and whenever."""
        identity = json.dumps([self.epoch, sorted(self.weights), self.of_global])
        return f"{self.epoch}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    def line(self) -> str:
        """As it stands in the file."""
        asked: dict[str, Any] = {"id": self.id, "weights": dict(self.weights)}
        if self.of_global:
            asked["of"] = "global"
        return json.dumps({**asked, "answer": None if self.answer is None else dict(self.answer)}, ensure_ascii=False)


class WorkFolder:
    """A folder of questions and answers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(
        self, run_digest: str, metrics: dict[str, str], seed: int, voting: Mapping[str, Any] | None = None
    ) -> None:
        """Says what the folder is about; a folder that is about something else is refused."""
        wrong = {name: way for name, way in metrics.items() if way not in DIRECTIONS}
        if wrong or not metrics:
            raise AnswerError(f"metrics {wrong or metrics}: name at least one and which way is better: higher or lower")
        about = {"run": run_digest, "metrics": metrics, "seed": seed, **({} if voting is None else {"voting": voting})}
        if (self.path / WORK).exists():
            if self._about() != about:
                raise AnswerError(
                    f"{self.path} holds the questions of another run or other metrics; give a folder of its own"
                )
            return
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path / WORK, json.dumps(about, indent=1, ensure_ascii=False).encode())

    def metrics(self, run_digest: str) -> tuple[dict[str, str], int]:
        """The metrics with their directions, and the seed; refused where the folder is about another run."""
        about = self._about()
        if about.get("run") != run_digest:
            raise AnswerError(f"{self.path} holds the questions of another run; give the run they were asked about")
        return about["metrics"], about["seed"]

    def voting(self) -> dict[str, Any] | None:
        """How the clients' votes are joined, where they are asked for them."""
        rules: dict[str, Any] | None = self._about().get("voting")
        return rules

    def require_epochs(self, epochs: int) -> None:
        """Refuses answers about epochs that the run has not: whoever wrote them has another run in mind."""
        for path in sorted(self.path.glob("epoch-*.jsonl")):
            found = _EPOCH_FILE.fullmatch(path.name)
            if found is not None and not 1 <= int(found[1]) <= epochs:
                raise AnswerError(f"{path.name}: the run has epochs 1 to {epochs}; take the file away")

    def questions(self, epoch: int, metrics: Sequence[str], players: int) -> list[Question]:
        """The questions of one epoch with so many participants, each once; none where nothing has been asked yet."""
        file = self._file(epoch)
        found: dict[str, Question] = {}
        for number, text in enumerate(_lines(file, players), start=1):
            if not text.strip():
                continue
            question = _read_line(text, f"{file.name} line {number}", epoch, metrics)
            before = found.get(question.id)
            if before is not None and None not in (before.answer, question.answer) and before.answer != question.answer:
                raise AnswerError(
                    f"{file.name} line {number}: question {question.id} is answered twice, and differently; keep one"
                )
            if before is None or before.answer is None:
                found[question.id] = question
        return list(found.values())

    def write(self, epoch: int, questions: Iterable[Question]) -> None:
        """Replaces an epoch's file in one step."""
        write_atomic(self._file(epoch), "".join(q.line() + "\n" for q in questions).encode())

    def _file(self, epoch: int) -> Path:
        return self.path / f"epoch-{epoch:05d}.jsonl"

    def _about(self) -> dict[str, Any]:
        try:
            about = parse_json(read_plain(self.path / WORK, _WORK_BYTES), WORK)
        except FileNotFoundError:
            raise AnswerError(
                f"{self.path} has no {WORK}: nothing was asked there; begin with `flcontrib ask`"
            ) from None
        except FileNotRead as odd:
            raise AnswerError(str(odd)) from None
        if not isinstance(about, dict) or not _is_about(about):
            raise AnswerError(f"{self.path / WORK} is not what flcontrib ask writes; ask again in a new folder")
        return about


def _is_about(about: Mapping[str, Any]) -> bool:
    """Does it say what ``begin`` writes? The folder may come back from anybody."""
    metrics, seed, voting = about.get("metrics"), about.get("seed"), about.get("voting")
    return (
        isinstance(metrics, dict)
        and 1 <= len(metrics) <= MAX_TABLE_UTILITIES
        and all(1 <= len(name) <= MAX_ID_CHARACTERS for name in metrics)
        and all(isinstance(way, str) and way in DIRECTIONS for way in metrics.values())
        and isinstance(seed, int)
        and not isinstance(seed, bool)
        and 0 <= seed <= MAX_DATA_SIZE
        and (voting is None or _are_rules(voting))
    )


def _are_rules(voting: object) -> bool:
    return (
        isinstance(voting, dict)
        and voting.keys() == {"leave_own_out", "trim"}
        and isinstance(voting["leave_own_out"], bool)
        and _number(voting["trim"])
    )


def _lines(file: Path, players: int) -> list[str]:
    """The lines of an epoch's file; none where there is no file. More than can have been asked are refused unread."""
    lines_at_most = _LINES_PER_PLAYER * players + _FURTHER_LINES
    try:
        content = read_plain(file, lines_at_most * (players * _BYTES_PER_PLAYER + _FURTHER_BYTES))
        text = content.decode("utf-8")
    except FileNotFoundError:
        return []
    except FileNotRead as odd:
        raise AnswerError(str(odd)) from None
    except UnicodeDecodeError as odd:
        raise AnswerError(f"{file.name}: bytes that are not UTF-8 at offset {odd.start}") from None
    # Not where Python sees a line's end: ids may hold such characters, and JSON leaves them as they are.
    lines = text.split("\n")
    if len(lines) > lines_at_most + 1:
        raise AnswerError(f"{file.name} has {len(lines)} lines; of {players} participants so much is never asked")
    return lines


def _read_line(text: str, where: str, epoch: int, metrics: Sequence[str]) -> Question:
    try:
        line = parse_json(text.encode(), where)
    except RunLogError as bad:
        raise AnswerError(f"{where}: {bad.problems[0].sentence()}") from None
    weights = line.get("weights") if isinstance(line, dict) else None
    if not isinstance(line, dict) or not isinstance(weights, dict) or not all(map(_number, weights.values())):
        raise AnswerError(f"{where}: no question; a line has id, weights and answer")
    question = Question(epoch, weights, line.get("of") == "global")
    if line.get("id") != question.id:
        raise AnswerError(f"{where}: id {shown(line.get('id'))} does not belong to these weights; leave both as asked")
    answer = line.get("answer")
    if answer is None:
        return question
    if not isinstance(answer, dict):
        raise AnswerError(f"{where}: an answer is an object of metrics, such as {{{metrics[0]!r}: 0.5}}")
    missing = [name for name in metrics if name not in answer]
    if missing:
        raise AnswerError(f"{where}: the answer has no {', '.join(missing)}; every metric that was asked for is needed")
    wrong = [name for name in metrics if not _number(answer[name]) or abs(answer[name]) > LARGEST_ANSWER]
    if wrong:
        given = shown(answer[wrong[0]])
        raise AnswerError(f"{where}: {wrong[0]} is {given}; an answer is a finite number up to {LARGEST_ANSWER:g}")
    return replace(question, answer={name: float(answer[name]) for name in metrics})


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

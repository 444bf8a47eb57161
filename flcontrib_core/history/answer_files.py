"""The files between ``ask`` and ``tell``: one JSON line per question, one file per epoch, and what they are about."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flcontrib_core.errors import AnswerError, RunLogError
from flcontrib_core.files import write_atomic
from flcontrib_core.runs.strict_json import parse_json

WORK = "work.json"
DIRECTIONS = ("higher", "lower")


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
        rules = self._about().get("voting")
        if rules is not None and not isinstance(rules, dict):
            raise AnswerError(f"{self.path / WORK} is not what flcontrib ask writes; ask again in a new folder")
        return rules

    def questions(self, epoch: int, metrics: Sequence[str]) -> list[Question]:
        """The questions of one epoch, each once; none where nothing has been asked yet."""
        file = self._file(epoch)
        if not file.exists():
            return []
        found: dict[str, Question] = {}
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as odd:
            raise AnswerError(f"{file.name}: bytes that are not UTF-8 at offset {odd.start}") from None
        for number, text in enumerate(lines, start=1):
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
            about = parse_json((self.path / WORK).read_bytes(), WORK)
        except FileNotFoundError:
            raise AnswerError(
                f"{self.path} has no {WORK}: nothing was asked there; begin with `flcontrib ask`"
            ) from None
        if not isinstance(about, dict) or not isinstance(about.get("metrics"), dict):
            raise AnswerError(f"{self.path / WORK} is not what flcontrib ask writes; ask again in a new folder")
        return about


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
        raise AnswerError(f"{where}: id {line.get('id')!r} does not belong to these weights; leave both as asked")
    answer = line.get("answer")
    if answer is None:
        return question
    if not isinstance(answer, dict):
        raise AnswerError(f"{where}: an answer is an object of metrics, such as {{{metrics[0]!r}: 0.5}}")
    missing = [name for name in metrics if name not in answer]
    if missing:
        raise AnswerError(f"{where}: the answer has no {', '.join(missing)}; every metric that was asked for is needed")
    wrong = [name for name in metrics if not _number(answer[name])]
    if wrong:
        raise AnswerError(f"{where}: {wrong[0]} is {answer[wrong[0]]!r}; an answer is a finite number")
    return replace(question, answer={name: float(answer[name]) for name in metrics})


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

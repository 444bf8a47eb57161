"""Answers to what ``ask`` wrote, from a function of a sub-model: somebody's central one, or a client's own vote."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from flcontrib_core.errors import AnswerError, SettingsError
from flcontrib_core.history.answer_files import Question, WorkFolder
from flcontrib_core.history.trajectory import WalkStep, walk
from flcontrib_core.history.voting import KEPT_EVERY, cast_votes, register_voter
from flcontrib_core.runs.encoding import split_flat
from flcontrib_core.runs.problems import shown
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.vocabulary import Float32Array

Evaluate = Callable[[dict[str, Any]], Mapping[str, float]]
"""A sub-model's parameters by name -> its metrics"""


def answer_with(run: RunLog, folder: Path, evaluate: Evaluate, epochs: Container[int] | None = None) -> int:
    """Answers every open question with a function of a sub-model's parameters by name; how many there were.

    What anything else that answers has to do too: F(t−1) + Σ w · Δ for the weights of each line (the stored global
    model for a line with ``"of": "global"``), evaluate it, and write the metrics into ``answer``.

    ``epochs``: only the questions of these, so that several processes, or the tasks of an array job, share the work
    without writing into one file: ``epochs=range(1 + task, 1 + run.epoch_count, tasks)``. A kill loses the last few
    answers at most.
    """
    work = WorkFolder(folder)
    metrics, _ = work.metrics(run.digest)
    count = 0
    for step in walk(run):
        if epochs is not None and step.record.epoch not in epochs:
            continue
        questions = work.questions(step.record.epoch, tuple(metrics), len(step.record.participants))
        unanswered = [position for position, question in enumerate(questions) if question.answer is None]
        for done, position in enumerate(unanswered, start=1):
            answers = evaluate(_sub_model(run, step, questions[position]))
            questions[position] = replace(questions[position], answer={name: float(answers[name]) for name in metrics})
            if done % KEPT_EVERY == 0 or done == len(unanswered):
                work.write(step.record.epoch, questions)
        count += len(unanswered)
    return count


def vote_with(run: RunLog, folder: Path, client: str, rows: int, evaluate: Evaluate) -> int:
    """The votes of one client with ``rows`` validation rows of its own on every question that it has not answered.

    Voters may run at the same time, and one that is killed goes on where it was.
    """
    if client not in run.client_ids:
        raise SettingsError(f"the run has no client {client!r}; check the name")
    work = WorkFolder(folder)
    metrics, _ = work.metrics(run.digest)
    own = register_voter(folder, client, rows)
    count = 0
    for step in walk(run):
        answer = partial(_answer, run, step, evaluate)
        players = len(step.record.participants)
        count += cast_votes(work, step.record.epoch, tuple(metrics), own, answer, players)
    return count


def _answer(run: RunLog, step: WalkStep, evaluate: Evaluate, question: Question) -> Mapping[str, float]:
    return evaluate(_sub_model(run, step, question))


def _sub_model(run: RunLog, step: WalkStep, question: Question) -> dict[str, Float32Array]:
    """The parameters in question, by name."""
    if question.of_global and step.data.global_model is not None:
        return split_flat(step.data.global_model, run.parameters)
    row_of = {run.clients[i].id: row for row, i in enumerate(step.record.participants)}
    vector = step.start.astype(np.float32).copy()
    if strangers := sorted(question.weights.keys() - row_of.keys()):
        raise AnswerError(f"epoch {question.epoch}, question {question.id}: {shown(strangers[0])} did not take part")
    for client, weight in question.weights.items():
        vector += np.float32(weight) * step.data.updates[row_of[client]]
    return split_flat(vector, run.parameters)

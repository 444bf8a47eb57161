"""Answers from the clients' own validation sets: votes on coalitions, how they are joined, and who stands apart.

A voter is a client that evaluates sub-models on rows of its own. Its votes stand in a folder of its own under
``votes/``, so that voters never write into the same file: ``voter.json`` says who it is and how many rows it has, and
one file per epoch holds the questions with its answers. The joint answer of a question is the mean of the voters'
changes from the model before the epoch, weighted by their rows; on request the largest and smallest are cut off.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from flcontrib_core.errors import AnswerError, FileNotRead
from flcontrib_core.files import read_plain, write_atomic
from flcontrib_core.history.answer_files import Question, WorkFolder
from flcontrib_core.runs.problems import shown
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.vocabulary import BoolArray, FloatArray, IntArray

VOTES, VOTER = "votes", "voter.json"
_VOTER_BYTES = 1 << 16
NOBODY, USUAL = 0.2, 0.4
"""A voter goes with nobody up to the first; it is named where half of the voters go with somebody by the second.

On splits of eight and 32 clients (iid and Dirichlet 0.5) the lowest honest voter had 0.37, random answers at most 0.05.
Among many voters answers with the sign turned find somebody they go with; they are named by ``TURNED``.
"""
TURNED = 1.0
"""A voter is named where mixtures of the others leave e times as much of its answers unexplained as of their opposite.

Chosen on simulated splits of eight and 32 clients with about eleven rows per voter of 32; docs/federations.md has the
rates on fresh ones.
"""
RELATED, PER_QUESTIONS = 64, 8
"""A voter is compared with mixtures of at most so many others, those closest to it in either direction: one for every
eight questions, as with few questions mixtures of many would explain anything, and its opposite."""
KEPT_EVERY = 8
"""Answers after which they are written down."""
FEWEST_VOTERS = 4
"""With fewer nobody can say which of them stands apart."""


@dataclass(frozen=True)
class VotingRules:
    """How votes are joined."""

    leave_own_out: bool = False
    """A client's vote on itself is replaced by what the others lead one to expect."""
    trim: float = 0.0
    """The share of rows whose votes are cut off at either end of each question."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.trim < 0.5:
            raise AnswerError(f"trim is {self.trim:g}; cut off less than half at either end, e.g. 0.1")


@dataclass(frozen=True)
class Voter:
    """One client's votes, by question id, on every metric."""

    client: str
    rows: int
    votes: Mapping[str, FloatArray]


@dataclass(frozen=True)
class VoterAgreement:
    """How far a voter's answers go with the others'."""

    client: str
    rows: int
    agreement: float | None
    """Concordance with the voter it goes with best, from −1 to 1; None where there are too few to say."""
    left_out: bool
    """Its answers disagree with all others' and were not used."""
    turned: float | None = None
    """How much less of its answers mixtures of the others leave unexplained once their sign is turned (a logarithm)."""


def folder_of(work: Path, client: str) -> Path:
    """Where a client's votes stand; ids may hold anything, so the name is a hash."""
    return work / VOTES / hashlib.sha256(client.encode()).hexdigest()[:16]


def read_voters(work: Path, run: RunLog, metrics: Sequence[str]) -> list[Voter]:
    """All voters of a work folder, in the log's order of clients."""
    voters: dict[str, Voter] = {}
    for path in sorted((work / VOTES).glob(f"*/{VOTER}")):
        about = _about(path)
        client, rows = (about.get("client"), about.get("rows")) if isinstance(about, dict) else (None, None)
        if client not in run.client_ids or not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise AnswerError(
                f"{path}: client {shown(client)} with {shown(rows)} rows; a voter is a client with at least one row"
            )
        if client in voters:
            raise AnswerError(f"{path}: {client!r} has two folders of votes; keep one")
        votes: dict[str, FloatArray] = {}
        for record in run.epochs:
            for question in WorkFolder(path.parent).questions(record.epoch, metrics, len(record.participants)):
                if question.answer is not None:
                    votes[question.id] = np.array([question.answer[name] for name in metrics])
        voters[client] = Voter(client, rows, votes)
    return [voters[client] for client in run.client_ids if client in voters]


def _about(path: Path) -> Any:
    """Who a voter says it is, from a file that the voter wrote."""
    try:
        return parse_json(read_plain(path, _VOTER_BYTES), str(path))
    except FileNotRead as odd:
        raise AnswerError(str(odd)) from None


class VoterPanel:
    """The voters of a run while its answers are taken."""

    def __init__(self, run: RunLog, work: Path, metrics: Sequence[str], rules: VotingRules) -> None:
        self.rules = rules
        everybody = read_voters(work, run, metrics)
        questions = _first_questions(run)
        self.ready = bool(everybody) and all(
            q.id in v.votes and b.id in v.votes for v in everybody for q, b in questions
        )
        """Whether every voter has answered the first questions of all epochs, by which agreement is judged."""
        self.agreements = agreements(everybody, questions if self.ready else ())
        apart = {a.client for a in self.agreements if a.left_out}
        self.voters = [v for v in everybody if v.client not in apart]

    def answer(self, question: Question, without: str | None = None) -> FloatArray | None:
        """The joint answer, on request without one client's vote; None while a vote is missing."""
        voters = [v for v in self.voters if v.client != without]
        return joint_answer(voters, question, Question(question.epoch, {}), self.rules)

    def changes(self, asked: Sequence[tuple[str, str]], without: str | None = None) -> FloatArray:
        """(questions, metrics) joint changes; ``asked``: ids of answered questions, each with the model before."""
        rows = np.array([v.rows for v in self.voters if v.client != without], dtype=np.float64)
        some = [place for place, v in enumerate(self.voters) if v.client != without]
        single = self.single_changes(asked)[some]
        return np.array([_trimmed_mean(single[:, place], rows, self.rules.trim) for place in range(len(asked))])

    def single_changes(self, asked: Sequence[tuple[str, str]]) -> FloatArray:
        """(voters, questions, metrics) what each voter says alone."""
        return np.array([[v.votes[question] - v.votes[before] for question, before in asked] for v in self.voters])

    def votes(self, client: str) -> bool:
        """Is this client among those whose votes count?"""
        return any(v.client == client for v in self.voters)


def _first_questions(run: RunLog) -> list[tuple[Question, Question]]:
    """Of every epoch: everybody together and everybody alone, each with the model before the epoch."""
    questions = []
    for record in run.epochs:
        ids = [run.clients[i].id for i in record.participants]
        coalitions = [ids, *([one] for one in ids)] if len(ids) > 1 else [ids] * len(ids)
        questions += [(Question(record.epoch, dict.fromkeys(c, 1.0)), Question(record.epoch, {})) for c in coalitions]
    return questions


def joint_answer(
    voters: Sequence[Voter], question: Question, before: Question, rules: VotingRules
) -> FloatArray | None:
    """What the voters say together about a question; None while one of them has not answered."""
    if not voters or any(question.id not in v.votes or before.id not in v.votes for v in voters):
        return None
    level = np.array([v.votes[before.id] for v in voters])
    change = np.array([v.votes[question.id] for v in voters]) - level
    rows = np.array([v.rows for v in voters], dtype=np.float64)
    return np.asarray(rows @ level / rows.sum() + _trimmed_mean(change, rows, rules.trim))


def _trimmed_mean(values: FloatArray, rows: FloatArray, trim: float) -> FloatArray:
    """(metrics,) mean over voters, weighted by rows, without the outermost ``trim`` of the rows at either end."""
    means = np.empty(values.shape[1])
    for metric, column in enumerate(values.T):
        order = np.argsort(column, kind="stable")
        upper = np.cumsum(rows[order])
        low, high = trim * upper[-1], (1 - trim) * upper[-1]
        inside = np.clip(np.minimum(upper, high) - np.maximum(upper - rows[order], low), 0.0, None)
        means[metric] = inside @ column[order] / inside.sum()
    return means


def agreements(voters: Sequence[Voter], questions: Sequence[tuple[Question, Question]]) -> tuple[VoterAgreement, ...]:
    """Each voter against the others, on questions (with the question about the model before) that all answered.

    Compared are changes of the first metric, each epoch in the voters' usual unit, so that the level of a voter's rows
    does not count. Clients with other classes may contradict the majority, but hardly every single voter: named is who
    goes with nobody while the others find somebody they go with, and whose answers the others explain with their sign
    turned only.
    """
    if len(voters) < FEWEST_VOTERS or not questions:
        return tuple(VoterAgreement(v.client, v.rows, None, False) for v in voters)
    epochs = np.array([question.epoch for question, _ in questions])
    change = np.array([[v.votes[q.id][0] - v.votes[b.id][0] for q, b in questions] for v in voters])
    middle = np.median(change, axis=0)  # a mean would follow whoever answers with the largest numbers
    scale = np.array([np.sqrt(np.mean(middle[epochs == epoch] ** 2)) for epoch in epochs])
    change = np.divide(change, scale, out=np.zeros_like(change), where=scale > 0)
    pairs = _concordances(change)
    np.fill_diagonal(pairs, -np.inf)
    best = pairs.max(axis=1)
    alone = (best <= NOBODY) & (float(np.median(best)) >= USUAL)
    scores, apart = _turned(change, alone)
    return tuple(
        VoterAgreement(v.client, v.rows, float(score), bool(named), None if math.isnan(turned) else float(turned))
        for v, score, named, turned in zip(voters, best, alone | apart, scores, strict=True)
    )


def _turned(change: FloatArray, alone: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Each voter's score against ``TURNED`` and whether it is named; NaN for those that go with nobody anyway.

    The worst is taken out before the others are looked at again: its answers would explain theirs turned. Half of the
    voters at most are taken out, as nobody could say which half has the sign right.
    """
    # Voters as columns, with the same lengths and products.
    inner = np.asarray(np.linalg.qr(change.T, mode="r"), dtype=np.float64)
    most = max(1, min(RELATED, change.shape[1] // PER_QUESTIONS))
    scores = np.full(len(change), np.nan)
    apart = np.zeros(len(change), dtype=bool)
    while (left := np.flatnonzero(~alone & ~apart)).size >= FEWEST_VOTERS and 2 * (apart.sum() + 1) <= len(change):
        scores[left] = [_unexplained(inner, voter, left, most) for voter in left.tolist()]
        worst = left[int(np.argmax(scores[left]))]
        if scores[worst] <= TURNED:
            break
        apart[worst] = True
    return scores, apart


def _unexplained(inner: FloatArray, voter: int, left: IntArray, most: int) -> float:
    """What mixtures of the others, without negative shares, leave of a voter's answers: as they are over turned."""
    own, others = inner[:, voter], left[left != voter]
    square = float(own @ own)
    if square == 0.0:
        return 0.0
    columns = inner[:, others]
    length = np.sqrt((columns**2).sum(axis=0))
    close = np.abs(own @ columns) / np.where(length > 0, length, 1.0)
    columns = columns[:, np.argsort(-close, kind="stable")[:most]]
    as_sent, turned = (float(nnls(columns, sign * own)[1]) ** 2 + 1e-9 * square for sign in (1.0, -1.0))
    return math.log(as_sent / turned)


def _concordances(rows: FloatArray) -> FloatArray:
    """2 Σab / (Σa² + Σb²) of all pairs: 1 for equal rows, −1 for opposite ones, near 0 for nothing in common."""
    products = rows @ rows.T
    squares = np.diag(products)
    sums = squares[:, None] + squares[None, :]
    return np.asarray(np.divide(2.0 * products, sums, out=np.zeros_like(products), where=sums > 0))


def regressed_values(coalitions: np.ndarray, changes: FloatArray) -> FloatArray:
    """(players, metrics): Shapley values regressed from some coalitions' changes, exact where all are there.

    The weighted least squares of KernelSHAP. ``coalitions`` (m, players) holds the full one and not the empty one.
    """
    players = coalitions.shape[1]
    sizes = coalitions.sum(axis=1)
    total = changes[int(np.argmax(sizes))]
    part = (sizes > 0) & (sizes < players)
    members, count = coalitions[part].astype(np.float64), sizes[part]
    pairs = np.array([math.comb(players, int(size)) for size in count], dtype=np.float64)
    root = np.sqrt((players - 1) / (pairs * count * (players - count)))[:, None]
    # The last player's value follows from the sum.
    left = root * (members[:, :-1] - members[:, -1:])
    right = root * (changes[part] - members[:, -1:] * total)
    first = np.linalg.lstsq(left, right, rcond=None)[0]
    return np.vstack([first, total - first.sum(axis=0)])


def register_voter(work: Path, client: str, rows: int) -> WorkFolder:
    """The folder of a client's votes; it counts as a voter from now on."""
    folder = folder_of(work, client)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / VOTER, json.dumps({"client": client, "rows": rows}, ensure_ascii=False).encode())
    return WorkFolder(folder)


def cast_votes(
    work: WorkFolder,
    epoch: int,
    metrics: Sequence[str],
    own: WorkFolder,
    answer: Callable[[Question], Mapping[str, Any]],
    players: int,
) -> int:
    """Answers an epoch's questions that this voter has not answered yet; a kill loses the last few answers at most."""
    done = {q.id: q for q in own.questions(epoch, metrics, players) if q.answer is not None}
    count = 0
    for question in work.questions(epoch, metrics, players):
        if question.id in done:
            continue
        metric_values = answer(question)
        done[question.id] = replace(question, answer={name: float(metric_values[name]) for name in metrics})
        count += 1
        if count % KEPT_EVERY == 0:
            own.write(epoch, done.values())
    if count:
        own.write(epoch, done.values())
    return count

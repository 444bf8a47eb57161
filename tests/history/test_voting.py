"""Clients answer on rows of their own: the central answer, whoever is killed; who stands apart is named."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr, trim_mean

import flcontrib_core as fl
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import AnswerError, SettingsError
from flcontrib_core.games import Architecture, Evaluator
from flcontrib_core.history import ContributionHistory
from flcontrib_core.history.answer_files import Question, WorkFolder
from flcontrib_core.history.answering import answer_with, vote_with
from flcontrib_core.history.asking import Told, ask, tell
from flcontrib_core.history.own_votes import expected_votes
from flcontrib_core.history.voting import TURNED, VotingRules, _trimmed_mean, _turned, register_voter
from flcontrib_core.runs import RunLog
from flcontrib_core.runs.run_log import Validation
from flcontrib_core.words.remarks import history_remarks

Change = Callable[[Mapping[str, float]], Mapping[str, float]]
Evaluate = Callable[[dict[str, np.ndarray]], Mapping[str, float]]


class Federation:
    """A run whose validation rows are dealt out to its clients."""

    def __init__(self, folder: Path, clients: int, split: str = "iid", epochs: int = 2) -> None:
        self.path = folder / "run.flrun"
        fl.simulate(fl.SimulationSettings(clients=clients, epochs=epochs, hidden=(8,), split=split, seed=1), self.path)
        run = fl.read_run_log(self.path)
        assert isinstance(run, RunLog)
        self.run = run
        rows = run.validation()
        assert rows is not None
        assert run.model is not None
        assert run.classes is not None
        self.rows, self.ids = rows, run.client_ids
        self._architecture = Architecture.from_spec(run.model, run.parameters, run.classes)
        rng = np.random.default_rng(0)
        self.owner = rng.permutation(rows.rows) % clients
        if split != "iid":
            for label in range(run.classes):
                some = np.flatnonzero((rows.y == label) & (np.arange(rows.rows) % 10 > 0))
                self.owner[some] = rng.choice(clients, len(some), p=rng.dirichlet([0.5] * clients))

    def evaluate(self, *owners: int) -> Evaluate:
        """The metrics on the rows of these clients."""
        here = np.isin(self.owner, owners)
        evaluator = Evaluator(
            self._architecture, Validation(self.rows.x[here], self.rows.y[here], None), ("loss", "accuracy")
        )

        def metrics(state: dict[str, np.ndarray]) -> Mapping[str, float]:
            vector = np.concatenate([state[spec.name].reshape(-1) for spec in self.run.parameters])
            loss, accuracy = evaluator.evaluate(vector.astype(np.float32)[None])[0][0]
            return {"loss": float(loss), "accuracy": float(accuracy)}

        return metrics

    def central(self, work: Path, *owners: int) -> ContributionHistory:
        """The values where one place has the rows of these clients."""
        told, evaluate = ask(self.run, work), self.evaluate(*(owners or range(len(self.ids))))
        while not told.complete:
            answer_with(self.run, work, evaluate)
            told = tell(self.run, work)
        assert told.history is not None
        return told.history

    def vote(
        self, work: Path, client: int, change: Callable[[Mapping[str, float]], Mapping[str, float]] = dict
    ) -> None:
        evaluate = self.evaluate(client)
        rows = int((self.owner == client).sum())
        vote_with(self.run, work, self.ids[client], rows, lambda state: change(evaluate(state)))

    def voted(self, work: Path, rules: VotingRules | None = None, liar: int | None = None) -> Told:
        told = ask(self.run, work, voting=rules or VotingRules())
        while not told.complete:
            for client in range(len(self.ids)):
                self.vote(work, client, _opposite if client == liar else dict)
            told = tell(self.run, work)
        return told


def _opposite(answer: Mapping[str, float]) -> Mapping[str, float]:
    return {"loss": -answer["loss"], "accuracy": 1.0 - answer["accuracy"]}


@pytest.mark.parametrize("split", ["iid", "dirichlet"])
def test_votes_give_the_central_order_and_a_liar_is_named(tmp_path: Path, split: str) -> None:
    federation = Federation(tmp_path, 8, split)
    central = federation.central(tmp_path / "central")
    told = federation.voted(tmp_path / "votes")
    assert told.history is not None
    assert spearmanr(told.history.totals("loss"), central.totals("loss"))[0] >= 0.95
    assert not any(voter.left_out for voter in told.voters)
    assert all(epoch.asked == epoch.answered <= 4 * 8 for epoch in told.epochs)
    work = tmp_path / "lies"
    ask(federation.run, work, voting=VotingRules())
    for client in range(8):
        federation.vote(work, client, _opposite if client == 5 else dict)
    lied = tell(federation.run, work)
    assert [voter.client for voter in lied.voters if voter.left_out] == [federation.ids[5]]


def test_no_vote_of_its_own_carries_a_value_beyond_what_others_say(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 4, epochs=1)
    shares = np.bincount(federation.owner, minlength=4) / len(federation.owner)
    single = [federation.central(tmp_path / f"only-{k}", k).of("loss").values[1] for k in range(4)]
    for kind, change in (("honest", dict), ("praise", lambda answer: {"loss": 0.2 * answer["loss"], "accuracy": 1.0})):
        work = tmp_path / kind
        told = ask(federation.run, work, voting=VotingRules(leave_own_out=True))
        while not told.complete:
            for client in range(4):
                federation.vote(work, client, change if client == 2 else dict)
            told = tell(federation.run, work)
        assert told.history is not None
        value = told.history.of("loss").values[1, 2]
        others = [single[k][2] for k in (0, 1, 3)]
        of_others = np.average(others, weights=shares[[0, 1, 3]])
        low, high = ((1 - shares[2]) * of_others + shares[2] * end for end in (min(others), max(others)))
        assert low - 1e-5 <= value <= high + 1e-5, kind


def test_what_a_voter_would_say_of_itself_is_learned_from_all_others() -> None:
    """Voters with few classes each: nearer to their own word than the others' mean is, without ever looking at it."""
    rng = np.random.default_rng(5)
    classes = rng.dirichlet([0.5] * 5, 8)
    seen = np.einsum("vc,tjc->vtj", classes, rng.normal(-1, 0.7, (20, 8, 5))) + 0.02 * rng.normal(size=(8, 20, 8))
    own = np.arange(8)
    expected = expected_votes(seen, np.full(8, 1 / 8), own)
    said = seen[own, :, own]
    mean = np.array([np.delete(seen[:, :, k], k, axis=0).mean(axis=0) for k in own])
    assert np.abs(expected - said).mean() < 0.75 * np.abs(mean - said).mean()
    praised = seen.copy()
    praised[3, :, 3] -= 100
    np.testing.assert_array_equal(expected_votes(praised, np.full(8, 1 / 8), own)[3], expected[3])


def test_a_question_that_is_not_needed_may_wait_for_its_votes(tmp_path: Path) -> None:
    federation, work = Federation(tmp_path, 6, epochs=1), tmp_path / "votes"
    federation.voted(work, VotingRules(leave_own_out=True))
    folder = WorkFolder(work)
    questions = folder.questions(1, ("loss", "accuracy"), 6)
    asked = {frozenset(question.weights) for question in questions}
    sizes = dict(zip(federation.ids, federation.run.data_sizes, strict=True))
    members = next(c for c in combinations(federation.ids, 3) if frozenset(c) not in asked)
    total = sum(sizes[client] for client in members)
    folder.write(1, [*questions, Question(1, {client: sizes[client] / total for client in members})])
    told = tell(federation.run, work)
    assert not told.complete
    assert [epoch.asked - epoch.answered for epoch in told.epochs] == [1]


def test_a_voter_that_goes_with_nobody_is_left_out_of_the_values(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 4, epochs=1)
    told = federation.voted(tmp_path / "votes", liar=2)
    assert told.history is not None
    expected = federation.central(tmp_path / "central", 0, 1, 3)
    np.testing.assert_allclose(told.history.values, expected.values, atol=1e-6)
    assert f"voter {federation.ids[2]} disagree with all others'" in "\n".join(history_remarks(told.history))


def classes_of_voters(rng: np.random.Generator, voters: int, questions: int) -> np.ndarray:
    """(voters, questions) changes: each voter has rows of few classes, and one class gets worse all the time."""
    shares = rng.dirichlet([0.4] * 5, voters)
    classes = rng.normal(np.array([-1.0, -0.8, -0.5, -0.2, 0.8]), 0.7, (questions, 5))
    return np.asarray(shares @ classes.T + 0.1 * rng.normal(size=(voters, questions)))


def test_a_turned_sign_is_found_among_voters_with_few_classes() -> None:
    """Among many everybody finds somebody alike, turned or not; but those with its classes say the opposite."""
    rng = np.random.default_rng(3)
    change, nobody = classes_of_voters(rng, 32, 320), np.zeros(32, dtype=bool)
    assert (change.mean(axis=1) > 0).any(), "some honest voter's rows got worse"
    assert not _turned(change, nobody)[1].any()
    for liars in ([4], [4, 9, 20]):
        told = change.copy()
        told[liars] *= -1
        scores, apart = _turned(told, nobody)
        assert np.flatnonzero(apart).tolist() == liars
        assert (scores[liars] > TURNED).all()
    assert not _turned(rng.normal(size=(32, 320)), nobody)[1].any(), "where they have nothing in common nobody is named"
    assert not _turned(np.zeros((5, 10)), np.zeros(5, dtype=bool))[1].any()


def test_never_more_than_half_are_taken_out() -> None:
    rng = np.random.default_rng(4)
    told = classes_of_voters(rng, 9, 200) * np.where(np.arange(9) < 4, -1, 1)[:, None]
    assert _turned(told, np.zeros(9, dtype=bool))[1].sum() <= 4


def test_votes_are_trimmed_as_scipy_trims() -> None:
    votes = np.random.default_rng(0).normal(size=(10, 3))
    trimmed = _trimmed_mean(votes, np.full(10, 7.0), 0.2)
    np.testing.assert_allclose(trimmed, trim_mean(votes, 0.2, axis=0))
    heavy = _trimmed_mean(np.array([[0.0], [1.0]]), np.array([3.0, 1.0]), 0.0)
    np.testing.assert_allclose(heavy, [0.25])


def test_voters_that_are_killed_go_on_where_they_were(tmp_path: Path) -> None:
    federation, work = Federation(tmp_path, 2, epochs=2), tmp_path / "work"
    ask(federation.run, work, voting=VotingRules())

    def killed_after(count: int, client: int) -> None:
        left = iter(range(count))

        def answer(told: Mapping[str, float]) -> Mapping[str, float]:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return told

        federation.vote(work, client, answer)

    fork = multiprocessing.get_context("fork")
    for count, ended in ((3, -signal.SIGKILL), (100, 0)):
        voters = [fork.Process(target=killed_after, args=(count, client)) for client in (0, 1)]
        for voter in voters:
            voter.start()
        for voter in voters:
            voter.join()
        assert [voter.exitcode for voter in voters] == [ended] * 2
    told = tell(federation.run, work)
    assert told.history is not None
    central = federation.central(tmp_path / "central")
    np.testing.assert_allclose(told.history.values, central.values, atol=1e-6)


def test_the_commands_say_who_voted_and_refuse_what_cannot_be(tmp_path: Path) -> None:
    federation, work = Federation(tmp_path, 2, epochs=1), tmp_path / "work"

    def call(*arguments: str) -> Any:
        words = [arguments[0], str(federation.path), *arguments[1:], "--json"]
        return json.loads(CliRunner().invoke(flcontrib, words, catch_exceptions=False).stdout)

    with pytest.raises(SettingsError, match="--voters"):
        call("ask", "-o", str(work), "--trim", "0.1")
    with pytest.raises(AnswerError, match="less than half"):
        call("ask", "-o", str(work), "--voters", "--trim", "0.6")
    assert call("ask", "-o", str(work), "--voters")["complete"] is False
    federation.vote(work, 0)
    told = call("tell", str(work))
    assert told["complete"] is True
    assert [(v["client"], v["left_out"]) for v in told["voters"]] == [(federation.ids[0], False)]
    register_voter(work, federation.ids[1], 30)
    assert call("tell", str(work))["complete"] is False, "it is waited for now"
    register_voter(work, "nobody", 30)
    with pytest.raises(AnswerError, match="nobody"):
        tell(federation.run, work)

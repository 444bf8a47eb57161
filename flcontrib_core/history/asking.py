"""Coalitions to be evaluated somewhere else, and values from the answers: ``ask`` and ``tell``.

The estimator of each epoch is replayed with the answers that are there. Where it wants a coalition that nobody has
answered yet, that coalition is asked for, and the epoch waits: a replay is cheap, so nothing has to be remembered but
the answers themselves, and whoever is killed starts again where the files stand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from flcontrib_core.errors import AnswerError, SettingsError
from flcontrib_core.history.answer_files import Question, WorkFolder
from flcontrib_core.history.assembly import assemble_history
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.own_votes import EpochVotes, own_votes_replaced, read_epoch
from flcontrib_core.history.remarks import EpochRemark, FromVotes, HistoryRemark, VotersApart, grouped
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.trajectory import WalkStep, walk
from flcontrib_core.history.voting import VoterAgreement, VoterPanel, VotingRules
from flcontrib_core.runs.problems import quoted
from flcontrib_core.runs.run_log import RunLog
from flcontrib_core.shapley.coalitions import distinct_coalitions
from flcontrib_core.shapley.estimate import EpochEstimator, ShapleyEstimate
from flcontrib_core.shapley.exact import Exact
from flcontrib_core.shapley.oracle import CoalitionOracle
from flcontrib_core.shapley.surrogate import Surrogate
from flcontrib_core.tagged import Others
from flcontrib_core.vocabulary import CoalitionMatrix, CoalitionWeights, Float32Array, FloatArray, UtilityMatrix

EVERY_METRIC = {"loss": "lower", "accuracy": "higher"}
"""What is asked for where nobody named a metric."""


@dataclass(frozen=True)
class EpochState:
    """How far one epoch is."""

    epoch: int
    asked: int
    answered: int


@dataclass(frozen=True)
class Told:
    """What ``tell`` made of the answers."""

    epochs: tuple[EpochState, ...]
    history: ContributionHistory | None
    """None while a question is open."""
    voters: tuple[VoterAgreement, ...] = ()
    """Where the clients themselves answer: who did, and how far each goes with the others."""

    @property
    def complete(self) -> bool:
        return self.history is not None


@dataclass(frozen=True)
class Asked:
    """How far the answers from elsewhere are, as a workspace keeps it."""

    epochs: tuple[EpochState, ...]
    voters: tuple[VoterAgreement, ...] = ()


class _Outstanding(Exception):
    """A replayed estimator wants coalitions that nobody answered."""

    def __init__(self, coalitions: CoalitionMatrix) -> None:
        super().__init__(f"{len(coalitions)} coalitions")
        self.coalitions = coalitions


class AnsweredGame:
    """One epoch's game, played from answers (absolute utilities by coalition)."""

    def __init__(
        self,
        players: int,
        utilities: tuple[str, ...],
        answers: Mapping[bytes, FloatArray],
        weights: Callable[[CoalitionMatrix], CoalitionWeights],
    ) -> None:
        self.players, self.utilities = players, utilities
        self._answers = answers
        self.weights = weights

    def evaluate(self, coalitions: CoalitionMatrix) -> UtilityMatrix:
        """u(S); raises ``_Outstanding`` with every coalition of the request that has no answer."""
        keys = [row.tobytes() for row in coalitions]
        missing = [number for number, key in enumerate(keys) if key not in self._answers]
        empty = np.zeros(self.players, dtype=bool)
        if missing or empty.tobytes() not in self._answers:
            raise _Outstanding(coalitions[missing])
        return np.array([self._answers[key] for key in keys]) - self._answers[empty.tobytes()]


def fitting_estimator(players: int) -> EpochEstimator:
    """Exact where 4n questions pay for all coalitions, else the surrogate of utilities with as many as that allows."""
    if distinct_coalitions(players) < 4 * players:
        return Exact()
    return Surrogate(evaluations=4 * players - 1, outputs="utilities")


@dataclass
class _Epoch:
    """One epoch's questions and answers while it is replayed."""

    step: WalkStep
    client_ids: tuple[str, ...]
    settings: AssessSettings
    answers: dict[bytes, FloatArray] = field(default_factory=dict)
    end: FloatArray | None = None
    """The stored global model's utilities."""

    @property
    def players(self) -> int:
        return len(self.step.record.participants)

    def weights(self, coalitions: CoalitionMatrix) -> CoalitionWeights:
        from flcontrib_core.games.submodels import coalition_weights

        return coalition_weights(coalitions, self.step.record.weights, self.settings.weights)

    def question(self, coalition: np.ndarray) -> Question:
        """What is asked about one coalition."""
        of_members = self.weights(coalition[None])[0]
        named = {self.client_ids[i]: float(w) for i, w in enumerate(of_members) if coalition[i]}
        return Question(self.step.record.epoch, named)

    def first_questions(self) -> CoalitionMatrix:
        """The model before, everybody, and everybody alone."""
        n = self.players
        return np.vstack([np.zeros((1, n), bool), np.ones((min(n, 1), n), bool), np.eye(n, dtype=bool)])

    def replay(self, utilities: tuple[str, ...]) -> ShapleyEstimate:
        """The estimate; raises ``_Outstanding`` where an answer is missing."""
        game = AnsweredGame(self.players, utilities, self.answers, self.weights)
        first = self.first_questions()
        open_ = np.array([row.tobytes() not in self.answers for row in first])
        if open_.any():
            raise _Outstanding(first[open_])
        oracle = CoalitionOracle(game, epoch=self.step.record.epoch, player_names=self.client_ids)
        rng = np.random.default_rng([self.settings.seed, self.step.record.epoch])
        return fitting_estimator(self.players).estimate(oracle, rng)


def ask(
    run: RunLog,
    folder: Path,
    metrics: Mapping[str, str] | None = None,
    settings: AssessSettings | None = None,
    voting: VotingRules | None = None,
) -> Told:
    """Writes what is to be evaluated into a folder, one file per epoch; asking again changes nothing that stands.

    With ``voting`` the clients answer, each on rows of its own (``vote_with``), and their votes are joined.
    """
    work = WorkFolder(folder)
    rules = None if voting is None else asdict(voting)
    work.begin(run.digest, dict(metrics or EVERY_METRIC), (settings or AssessSettings()).seed, rules)
    return tell(run, folder)


def tell(run: RunLog, folder: Path) -> Told:
    """Takes the answers: values where they suffice, further questions where they do not.

    Raises ``AnswerError`` for answers that contradict each other, are no numbers, or belong to no question.
    """
    work = WorkFolder(folder)
    metrics, seed = work.metrics(run.digest)
    work.require_epochs(run.epoch_count)
    settings = AssessSettings(utilities=tuple(metrics), weight_utility=next(iter(metrics)), seed=seed)
    rules = work.voting()
    panel = None if rules is None else VoterPanel(run, folder, tuple(metrics), VotingRules(**rules))
    states: list[EpochState] = []
    answers: dict[int, EpochAnswer] = {}
    of_models: dict[bytes, FloatArray] = {}
    votes: dict[int, EpochVotes] = {}
    for step in walk(run):
        epoch = _Epoch(step, tuple(run.clients[i].id for i in step.record.participants), settings)
        asked, answered, estimate = _settle_epoch(epoch, work, tuple(metrics), panel)
        states.append(EpochState(step.record.epoch, asked, answered))
        if epoch.answers:
            of_models[_digest(step.start)] = epoch.answers.get(np.zeros(epoch.players, bool).tobytes(), np.empty(0))
        if epoch.end is not None and step.data.global_model is not None:
            of_models[_digest(step.data.global_model)] = epoch.end
        if estimate is not None and epoch.players:
            answers[step.record.epoch] = _answer_of(epoch, estimate, settings, metrics)
            if panel is not None and panel.rules.leave_own_out:
                questions = work.questions(step.record.epoch, tuple(metrics), epoch.players)
                votes[step.record.epoch] = _votes_of(epoch, questions, panel)
    voters = () if panel is None else panel.agreements
    complete = all(state.asked == state.answered for state in states)
    if not complete:
        return Told(tuple(states), None, voters)
    if panel is not None and votes:
        answers = _without_own_votes(answers, votes, panel)
    history = assemble_history(run, settings, _AnsweredModels(metrics, of_models), answers, None)
    remarks = history.remarks if panel is None else (*history.remarks, *_remarks_on(panel))
    recorded = {**settings.record(), "source": "ask and tell", **({} if rules is None else {"voting": rules})}
    return Told(tuple(states), replace(history, remarks=remarks, settings=recorded), voters)


def _remarks_on(panel: VoterPanel) -> tuple[EpochRemark, ...]:
    """Whose rows the values come from, and whose answers were left out."""
    rows = sum(voter.rows for voter in panel.voters)
    joined = FromVotes(len(panel.voters), rows, panel.rules.trim, panel.rules.leave_own_out)
    said: dict[HistoryRemark, tuple[int, ...]] = {joined: ()}
    if apart := [a.client for a in panel.agreements if a.left_out]:
        said[VotersApart(Others.named(apart))] = ()
    return grouped(said)


def _settle_epoch(
    epoch: _Epoch, work: WorkFolder, utilities: tuple[str, ...], panel: VoterPanel | None
) -> tuple[int, int, ShapleyEstimate | None]:
    """How many questions the epoch has after a replay, how many are answered, and its estimate where all are."""
    number, record = epoch.step.record.epoch, epoch.step.record
    asked = work.questions(number, utilities, epoch.players)
    answered = 0
    for question in asked:
        values = _values(question, utilities, panel)
        if values is None:
            continue
        answered += 1
        if question.of_global:
            epoch.end = values
        else:
            epoch.answers[_members(question, epoch)] = values
    needed: list[Question] = [Question(number, {}, of_global=True)] if record.has_global else []
    estimate: ShapleyEstimate | None = None
    try:
        if epoch.players and panel is not None and not panel.ready:
            raise _Outstanding(epoch.first_questions())
        if epoch.players:
            estimate = epoch.replay(utilities)
    except _Outstanding as outstanding:
        needed += [epoch.question(coalition) for coalition in outstanding.coalitions]
    here = {question.id for question in asked}
    if further := [question for question in needed if question.id not in here]:
        asked = [*asked, *further]
        work.write(number, asked)
    return len(asked), answered, estimate


def _values(question: Question, utilities: tuple[str, ...], panel: VoterPanel | None) -> FloatArray | None:
    """The answer to a question: as written, or as the voters give it together."""
    if panel is not None:
        return panel.answer(question)
    return None if question.answer is None else np.array([question.answer[name] for name in utilities])


def _without_own_votes(
    answers: Mapping[int, EpochAnswer], votes: Mapping[int, EpochVotes], panel: VoterPanel
) -> dict[int, EpochAnswer]:
    """The same answers; the values then need not add up to the joint increment."""
    found = dict(answers)
    for number, added in zip(votes, own_votes_replaced(list(votes.values()), panel), strict=True):
        joint = cast(ShapleyEstimate, found[number].estimate)
        joint = replace(joint, values=joint.values + added, method=f"{joint.method}, own votes left out")
        found[number] = replace(found[number], estimate=joint)
    return found


def _votes_of(epoch: _Epoch, asked: list[Question], panel: VoterPanel) -> EpochVotes:
    """The epoch's values as the voters see them, from the coalitions that were asked for."""
    if len(panel.voters) < 2:
        raise AnswerError("without its own vote a client has none; let at least two clients vote")
    answered = [(_members(q, epoch), q.id) for q in asked if not q.of_global and panel.answer(q) is not None]
    before = next(question for members, question in answered if not any(members))
    changed = [(members, question) for members, question in answered if any(members)]
    coalitions = np.array([np.frombuffer(members, dtype=bool) for members, _ in changed])
    return read_epoch(panel, epoch.client_ids, coalitions, [(question, before) for _, question in changed])


def _members(question: Question, epoch: _Epoch) -> bytes:
    """The coalition that a question is about; refused where it is not one of the epoch's, with its weights."""
    strangers = sorted(set(question.weights) - set(epoch.client_ids))
    coalition = np.array([client in question.weights for client in epoch.client_ids], dtype=bool)
    expected = epoch.question(coalition).weights
    if strangers or any(abs(expected[c] - w) > 1e-9 for c, w in question.weights.items()):
        raise AnswerError(
            f"epoch {question.epoch}, question {question.id}: its weights are not those of a coalition of this epoch"
            f"{f' ({quoted(strangers)} did not take part)' if strangers else ''}. Write into answer alone."
        )
    return coalition.tobytes()


def _answer_of(
    epoch: _Epoch, estimate: ShapleyEstimate, settings: AssessSettings, metrics: Mapping[str, str]
) -> EpochAnswer:
    from flcontrib_core.games.observations import observe_updates

    n, record = epoch.players, epoch.step.record
    start = epoch.answers[np.zeros(n, bool).tobytes()]
    everyone = epoch.answers[np.ones(n, bool).tobytes()]
    alone = np.array([epoch.answers[row.tobytes()] for row in np.eye(n, dtype=bool)])
    harm = (alone[:, 0] - start[0]) * (1.0 if next(iter(metrics.values())) == "lower" else -1.0)
    seen = observe_updates(
        np.ascontiguousarray(epoch.step.data.updates), record.epoch, epoch.step.last_step, settings.seed
    )
    without = [(~row).tobytes() for row in np.eye(n, dtype=bool)]
    unknown = np.full(len(metrics), np.nan)
    return EpochAnswer(
        epoch=record.epoch,
        estimate=estimate,
        start=start,
        increment=everyone - start,
        server_share=np.zeros_like(start) if epoch.end is None else epoch.end - everyone,
        leave_one_out=np.array([epoch.answers.get(key, unknown + everyone) - everyone for key in without]),
        best_subset=None,
        observation=replace(seen, solo_margin=-harm, solo_loss=harm),
        fresh={},
        recalled=0,
        seconds=0.0,
    )


class _AnsweredModels:
    """The answers about whole models, where an assembly asks an evaluator."""

    def __init__(self, metrics: Mapping[str, str], of_models: Mapping[bytes, FloatArray]) -> None:
        self.utilities = tuple(metrics)
        self.lower_is_better = frozenset(name for name, way in metrics.items() if way == "lower")
        self._of_models = of_models

    def evaluate(self, parameters: Float32Array) -> tuple[UtilityMatrix, None]:
        """Values of models that some epoch began or ended with."""
        unknown = np.full(len(self.utilities), np.nan)
        return np.array([self._of_models.get(_digest(vector), unknown) for vector in parameters]), None


def _digest(vector: Float32Array) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(vector, dtype=np.float32).data).digest()


def need_log(run: object) -> RunLog:
    """A log, whose updates can be weighed; tables hold none."""
    if not isinstance(run, RunLog):
        raise SettingsError("a table has no updates to weigh: coalitions can be asked of a run log only")
    return run

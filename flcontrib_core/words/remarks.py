"""Remarks on how values were obtained, in words: one phrase for each, with the epochs it is about."""

from __future__ import annotations

from typing import assert_never

from flcontrib_core.history import remarks as h
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.remarks import EpochRemark, HistoryRemark, NoValues
from flcontrib_core.shapley import remarks as s
from flcontrib_core.shapley.remarks import EstimatorRemark, Handling, Stop
from flcontrib_core.words.facts import others
from flcontrib_core.words.numbers import epoch_list, percent, several

_HANDLED = {
    Handling.EXACT: "computed exactly",
    Handling.FITTED_APART: "coalitions without it were fitted apart",
    Handling.ESTIMATED: "exact is out of reach",
}
_STOPPED = {
    Stop.CONVERGED: "converged after",
    Stop.MOST_ORDERS: "not converged after",
    Stop.EVALUATIONS: "not converged within the evaluations, after",
}


WITHOUT_VALUES = {
    NoValues.NOT_ASKED: "Shapley values were not asked for: this result says who changed, not who contributed what",
    NoValues.NO_MODEL: "the log has no architecture (model.json): neither values nor harm can be measured",
    NoValues.NO_VALIDATION: "the log has no validation set: neither values nor harm can be measured",
    NoValues.NO_FROZEN: "the frozen part of the model was not given: neither values nor harm can be measured",
    NoValues.NO_METRIC: "the log's task has no metric here and none was given: neither values nor harm can be measured",
}
_NO_VALUES_BADGE = {
    NoValues.NOT_ASKED: "values not asked for",
    NoValues.NO_MODEL: "values not measurable: no model",
    NoValues.NO_VALIDATION: "values not measurable: no validation set",
    NoValues.NO_FROZEN: "values not measurable: no frozen part",
    NoValues.NO_METRIC: "values not measurable: no metric",
}


def without_values(history: ContributionHistory) -> str | None:
    """Why there is no value in the whole result, as a sentence; None where there are values."""
    reason = history.without_values
    if reason is None:
        return None
    said = WITHOUT_VALUES[reason]
    return f"{said[0].upper()}{said[1:]}."


def computed_badge(history: ContributionHistory, growing: bool = False) -> str:
    """'12 of 30 epochs computed', or why no value is there; of a ``growing`` run more epochs may be there already."""
    if history.without_values is not None:
        return _NO_VALUES_BADGE[history.without_values]
    done = int(history.computed[1:].sum())
    return (
        f"{several(done, 'epoch')} computed so far" if growing else f"{done} of {history.epoch_count} epochs computed"
    )


def history_remarks(history: ContributionHistory) -> list[str]:
    """A line per remark: 'epochs 1–17, 21: exact is cheap for 6 participants'."""
    return [remark_line(remark) for remark in history.remarks]


def remark_line(remark: EpochRemark) -> str:
    """The remark with its epochs."""
    said = remark_phrase(remark.remark)
    return f"{epoch_list(remark.epochs)}: {said}" if remark.epochs else said


def remark_phrase(remark: HistoryRemark) -> str:
    """The remark alone, to stand behind its epochs."""
    match remark:
        case h.Diverged():
            step = "step" if remark.clients.count == 1 else "steps"
            return f"not computed: with the {step} of {others(remark.clients)} the model has no finite utility"
        case h.StartDiverged():
            return "not computed: the model they start from has no finite utility"
        case h.ValuesMissing():
            cells = several(remark.cells, "participant has", "participants have")
            return f"{cells} no value there; totals leave those cells out"
        case h.WithoutValues():
            return WITHOUT_VALUES[remark.reason]
        case h.ScheduleEmpty():
            budget = several(remark.budget, "epoch")
            best = f"the best {remark.fairness} schedule of at most {budget} is empty"
            return f"no epoch was computed: under these settings {best}"
        case h.OwnWeights() | h.StartedEarlier() | h.SentSeveral() | h.NotedInLog():
            return _log_phrase(remark)
        case h.FromVotes():
            return _votes_phrase(remark)
        case h.VotersApart():
            answers = "answers of the voter" if remark.clients.count == 1 else "answers of the voters"
            return f"the {answers} {others(remark.clients)} disagree with all others' and were left out"
        case _:
            return _estimator_phrase(remark)


def _votes_phrase(remark: h.FromVotes) -> str:
    cut = f", without the outermost {percent(remark.trim)} at either end" if remark.trim else ""
    own = "; what a client says of itself does not count" if remark.own_left_out else ""
    voters = several(remark.voters, "client")
    return f"evaluated by {voters} on {several(remark.rows, 'row')} of their own, weighted by rows{cut}{own}"


def _log_phrase(remark: h.LogRemark) -> str:
    match remark:
        case h.OwnWeights():
            return "weighed as the log says the server did, not by data sizes"
        case h.StartedEarlier():
            verb = "update began" if remark.clients.count == 1 else "updates began"
            return f"the {verb} from an older model: {others(remark.clients)}"
        case h.SentSeveral():
            return f"several updates in one round, counted as one with their joint weight: {others(remark.clients)}"
        case h.NotedInLog():
            signed = " ".join(
                part for part in (remark.by and f"by {remark.by}", remark.when and f"on {remark.when}") if part
            )
            return f"noted about {others(remark.client)}{signed and f' {signed}'}: {remark.text.rstrip('.')}"
        case _:
            assert_never(remark)


def _estimator_phrase(remark: EstimatorRemark) -> str:
    match remark:
        case s.ExactIsCheap():
            return f"exact is cheap for {several(remark.players, 'participant')}"
        case s.ExactIsNotCheap():
            return f"exact is not cheap for {several(remark.players, 'participant')}"
        case s.EvaluationsPayForAll():
            verb = "pay" if remark.pay else "do not pay"
            return f"{several(remark.evaluations, 'evaluation')} {verb} for all coalitions"
        case s.LongUpdates():
            length = f"more than {remark.ratio:g} times the median length"
            return f"the update of {others(remark.clients)} is {length}; {_HANDLED[remark.handling]}"
        case s.SurrogateFellShort():
            return _fell_short(remark)
        case s.SubmodelsNotFinite():
            which = f"one of them of {others(remark.first)}"
            return f"{several(remark.count, 'sub-model')} without finite logits kept out of the fit, {which}"
        case s.NoDifference():
            return f"no difference between clients in {', '.join(remark.utilities)}"
        case s.IntervalWide():
            spent = several(remark.evaluations, "evaluation")
            width = f"is wider than {remark.precision:g} sd"
            return f"after {spent} the interval of {', '.join(remark.utilities)} {width}"
        case s.IncrementSmall():
            return f"{', '.join(remark.utilities)}: skipped, the increment is below the threshold"
        case s.Decayed():
            return f"values multiplied by {remark.decay:g}^{remark.epoch} = {remark.decay**remark.epoch:.3g}"
        case s.FromGradients():
            taken = f"from {several(remark.gradients, 'gradient')} of the loss"
            none = f"; {', '.join(remark.without)} has no gradient and no value" if remark.without else ""
            return f"{taken}{none}"
        case s.LibraryMessage():
            return f"{remark.library}: {remark.text}"
        case _:
            return _sampling_phrase(remark)


def _fell_short(remark: s.SurrogateFellShort) -> str:
    reason = f"{several(remark.evaluations, 'evaluation')} did not bring the interval within {remark.precision:g} sd"
    if remark.untrusted:
        reason = f"the surrogate cannot be trusted for {', '.join(remark.untrusted)} here"
    return f"{reason}{'; computed exactly instead' if remark.exact_instead else ', and exact is out of reach'}"


def _sampling_phrase(
    remark: s.BordersDrawn
    | s.EmptyCells
    | s.Pilot
    | s.SweepEnded
    | s.Orders
    | s.OrdersCut
    | s.GroupTests
    | s.NeverObserved,
) -> str:
    match remark:
        case s.BordersDrawn():
            spent = several(remark.evaluations, "evaluation")
            return f"{spent} cannot pay for the exact borders ({remark.needed} needed): all sizes drawn"
        case s.EmptyCells():
            empty = f"{remark.empty} of {remark.cells} (player, size) cells are empty and take the mean of their size"
            return f"{empty}: the values are biased"
        case s.Pilot():
            pairs = several(remark.pairs, "pair")
            if remark.shared is None:
                return f"the pilot ({pairs}) saw no spread at all: stopped there"
            return f"pilot of {pairs}, {remark.shared} shared by spread"
        case s.SweepEnded():
            return f"{_STOPPED[remark.stop]} {several(remark.orders, 'order')}"
        case s.Orders():
            return several(remark.count, "independent order")
        case s.OrdersCut():
            return f"orders cut within {percent(remark.share)} of u(N): a bias that the standard error does not show"
        case s.GroupTests():
            tests = several(remark.count, "test")
            return tests if remark.count else "one evaluation pays for no test: u(N) shared equally"
        case s.NeverObserved():
            orders = several(remark.orders, "order")
            return f"{orders}, {percent(remark.share)} of the coalitions never observed"
        case _:
            assert_never(remark)

"""How do answers of single epochs, or tables from elsewhere, become one history?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flcontrib_core.history.contribution_history import ContributionHistory, RawChannels
from flcontrib_core.history.epoch_work import EpochAnswer
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.runs.run_log import ContributionTable, RunLog, UtilityTable
from flcontrib_core.scheduling.schedule import Schedule

if TYPE_CHECKING:
    from flcontrib_core.games.evaluator import Evaluator


def assemble_history(
    run: RunLog,
    settings: AssessSettings,
    evaluator: Evaluator,
    answers: dict[int, EpochAnswer],
    plan: Schedule | None,
) -> ContributionHistory:
    """Answers of single epochs -> one history (rows 0..T)."""
    from flcontrib_core.games.utilities import lower_is_better

    rows, clients, names = run.epoch_count + 1, len(run.clients), evaluator.utilities
    values = {u: np.zeros((rows, clients)) for u in names}
    errors = {u: np.zeros((rows, clients)) for u in names}
    without = {u: np.full((rows, clients), np.nan) for u in names}
    increments = {u: np.zeros(rows) for u in names}
    server = {u: np.zeros(rows) for u in names}
    unreliable = {u: np.zeros(rows, dtype=bool) for u in names}
    computed = np.ones(rows, dtype=bool)
    evaluations = np.zeros(rows, dtype=np.int64)
    estimator = ["initial"] + ["no participants"] * run.epoch_count
    best: list[tuple[int, ...] | None] = [None] * rows
    notes: list[str] = []
    initial = evaluator.evaluate(run.initial()[None, :])[0][0]
    for column, u in enumerate(names):
        values[u][0] = initial[column] / clients  # φ_i(0) = v(F⁰)/m
        increments[u][0] = initial[column]
    previous_end = initial
    for record in run.epochs:
        t, members = record.epoch, list(record.participants)
        if not members:  # no client share: what a stored global model moved is the server's
            data = run.epoch_data(t) if record.has_global else None
            if data is not None and data.global_model is not None:
                end = evaluator.evaluate(data.global_model[None, :])[0][0]
                for column, u in enumerate(names):
                    server[u][t] = end[column] - previous_end[column]
                previous_end = end
            continue
        answer = answers.get(t)
        if answer is None:  # a job that is still running: nothing is known about this epoch yet
            computed[t], estimator[t] = False, "pending"
            for u in names:
                values[u][t, members] = errors[u][t, members] = increments[u][t] = np.nan
            continue
        found = answer.estimate
        computed[t] = found is not None
        if found is None:
            estimator[t] = "diverged" if answer.note else "not computed"
        else:
            evaluations[t], estimator[t] = found.evaluations, found.method
            notes.extend(f"epoch {t}: {n}" for n in found.notes)
        if answer.note:
            notes.append(answer.note)
        best[t] = None if answer.best_subset is None else tuple(members[i] for i in answer.best_subset)
        for column, u in enumerate(names):
            values[u][t, members] = np.nan if found is None else found.values[:, column]
            errors[u][t, members] = np.nan if found is None else found.standard_errors[:, column]
            without[u][t, members] = answer.leave_one_out[:, column]
            increments[u][t] = answer.increment[column]
            server[u][t] = answer.server_share[column]
            unreliable[u][t] = found is not None and u in found.unreliable
        previous_end = answer.start + answer.increment + answer.server_share
    return ContributionHistory(
        run_digest=run.digest,
        run_name=run.name,
        client_ids=run.client_ids,
        data_sizes=run.data_sizes,
        utilities=names,
        values=values,
        standard_errors=errors,
        participated=run.participated(),
        computed=computed,
        increments=increments,
        server_share=server,
        evaluations=evaluations,
        estimator=tuple(estimator),
        lower_is_better=frozenset(u for u in names if lower_is_better(u)),
        best_subset=tuple(best),
        leave_one_out=without,
        unreliable=unreliable,
        notes=tuple(notes),
        channels=_channels(run, answers, settings),
        settings=settings.record(),
        schedule=plan,
    )


def history_from_table(table: ContributionTable) -> ContributionHistory:
    """A contribution table as a history: nothing is computed, the detection channels are not available."""
    rows = table.epoch_count + 1
    first = table.values[table.utilities[0]]
    missing = np.isnan(first) & table.participated
    computed = ~(missing.any(axis=1) & (missing.sum(axis=1) == table.participated.sum(axis=1)))
    notes = []
    partial = computed & missing.any(axis=1)
    if partial.any():
        epochs = ", ".join(str(t) for t in np.flatnonzero(partial))
        notes.append(f"epochs {epochs}: some participants have no value; totals leave those cells out")
    return ContributionHistory(
        run_digest=table.digest,
        run_name=table.name,
        client_ids=table.client_ids,
        data_sizes=(),
        utilities=table.utilities,
        values=table.values,
        standard_errors={u: np.where(table.participated, np.nan, 0.0) for u in table.utilities},
        participated=table.participated,
        computed=computed,
        increments={u: np.nansum(v, axis=1) for u, v in table.values.items()},
        server_share={u: np.zeros(rows) for u in table.utilities},
        evaluations=np.zeros(rows, dtype=np.int64),
        estimator=("initial", *("from the table" if c else "not computed" for c in computed[1:])),
        lower_is_better=table.lower_is_better,
        notes=tuple(notes),
        settings={"source": "contribution table"},
    )


def history_from_utilities(
    table: UtilityTable, settings: AssessSettings, schedule: Schedule | None
) -> ContributionHistory:
    """Exact values from a table of coalition utilities.

    The model an epoch starts from is its empty coalition; where that differs from the end of the epoch before, the
    difference is the server's share.
    """
    from flcontrib_core.shapley.exact import shapley_from_table

    rows, clients, names = table.epoch_count + 1, len(table.client_ids), table.utilities
    values = {u: np.zeros((rows, clients)) for u in names}
    without = {u: np.full((rows, clients), np.nan) for u in names}
    increments = {u: np.zeros(rows) for u in names}
    server = {u: np.zeros(rows) for u in names}
    participated = np.zeros((rows, clients), dtype=bool)
    computed = np.ones(rows, dtype=bool)
    evaluations = np.zeros(rows, dtype=np.int64)
    best: list[tuple[int, ...] | None] = [None] * rows
    for column, u in enumerate(names):
        increments[u][0] = table.values[0][0, column] if table.epoch_count else 0.0
        values[u][0] = increments[u][0] / clients
    for t, (members, v) in enumerate(zip(table.participants, table.values, strict=True), start=1):
        who = list(members)
        participated[t, who] = True
        computed[t] = schedule is None or t in schedule.chosen
        phi = shapley_from_table(v - v[0]) if computed[t] else np.full((len(who), len(names)), np.nan)
        evaluations[t] = len(v) - 1 if computed[t] else 0
        everyone = len(v) - 1
        ranking = v[:, names.index(settings.weight_utility)] if settings.weight_utility in names else v[:, 0]
        lower = (settings.weight_utility if settings.weight_utility in names else names[0]) in table.lower_is_better
        top = int(np.argmin(ranking) if lower else np.argmax(ranking))
        best[t] = tuple(who[i] for i in range(len(who)) if top >> i & 1)
        for column, u in enumerate(names):
            values[u][t, who] = phi[:, column]
            increments[u][t] = v[everyone, column] - v[0, column]
            without[u][t, who] = [v[everyone ^ (1 << i), column] - v[everyone, column] for i in range(len(who))]
            if t < table.epoch_count:
                server[u][t] = table.values[t][0, column] - v[everyone, column]
    return ContributionHistory(
        run_digest=table.digest,
        run_name=table.name,
        client_ids=table.client_ids,
        data_sizes=table.data_sizes or (),
        utilities=names,
        values=values,
        standard_errors={u: np.where(np.isnan(v), np.nan, 0.0) for u, v in values.items()},
        participated=participated,
        computed=computed,
        increments=increments,
        server_share=server,
        evaluations=evaluations,
        estimator=("initial", *("exact" if c else "not computed" for c in computed[1:])),
        lower_is_better=table.lower_is_better,
        best_subset=tuple(best),
        leave_one_out=without,
        settings=settings.record(),
        schedule=schedule,
    )


def _channels(run: RunLog, answers: dict[int, EpochAnswer], settings: AssessSettings) -> RawChannels | None:
    """The cheap observations of all epochs, with the ones that compare epochs (own direction, repeats)."""
    if not settings.observe:
        return None
    from flcontrib_core.games.observations import assemble_channels

    seen = {t: a.observation for t, a in answers.items() if a.observation is not None}
    return assemble_channels(run, seen)

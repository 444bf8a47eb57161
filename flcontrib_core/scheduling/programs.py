"""The scheduling programs as a solver reads them, and the checks of its answer.

Three formulations of eq. (two_sided_fairness), all with the same optimum:

* ``DIRECT``: one variable and two dense rows per pair of clients, as the text describes it;
* ``PAIRS``: identical clients merged, one exposure variable per client, and one sparse row per pair, because
  |a − b| = 2·max(a − b, 0) − (a − b);
* ``NETWORK``: the exposures pass a sorting network of O(m log² m) comparators. A comparator only asks low ≤ a,
  low ≤ b, low + high = a + b; anything but the true minimum spreads the outputs further and costs more.

A solver's word is never taken: "Optimal" after a time-out is PuLP's habit, so only ``sol_status`` counts; the chosen
epochs are read off, checked against the budget, and valued by ``objectives`` again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from flcontrib_core.errors import MissingPart, ScheduleError
from flcontrib_core.scheduling.objectives import TwoSidedProgram
from flcontrib_core.vocabulary import BoolArray, FloatArray

MANY_CLIENTS = 64
"""From this many distinct clients the sorting network has fewer variables to offer than the pairs."""


class Formulation(StrEnum):
    """How the fairness term is written as linear constraints."""

    DIRECT = "direct"
    PAIRS = "pairs"
    NETWORK = "sorting-network"


class Solver(StrEnum):
    """Which solver proves the optimum."""

    HIGHS = "highs"
    CBC = "cbc"


@dataclass(frozen=True)
class SolverAnswer:
    """What a solver left behind, checked."""

    schedule: BoolArray | None
    """(T,) feasible by our own count; None when it found nothing in time."""
    proved_optimal: bool
    """To the solver's tolerance, 1e-6 of max(1, γ)."""
    bound: float
    """The solver's dual bound; +inf when it gave none."""
    solver: Solver


def fitting_formulation(program: TwoSidedProgram) -> Formulation:
    """Pairs for few distinct clients, the sorting network for many."""
    distinct = np.unique(program.terms.rates, axis=1).shape[1]
    return Formulation.NETWORK if distinct >= MANY_CLIENTS else Formulation.PAIRS


def solve_here(
    program: TwoSidedProgram, formulation: Formulation, solver: Solver | None = None, seconds: float = 60.0
) -> SolverAnswer:
    """Solve in this process (a solver may overrun its limit: pages and jobs use ``solver_process`` instead).

    ``solver`` None: HiGHS, and CBC where HiGHS is not installed or fails without using up its time.
    """
    import pulp

    model, z = build_two_sided(program, formulation)
    last = SolverAnswer(None, False, np.inf, Solver.HIGHS)
    for candidate in (Solver.HIGHS, Solver.CBC) if solver is None else (solver,):
        engine = _engine(candidate, seconds)
        if not engine.available():
            continue
        model.solve(engine)
        last = _believed(program, model, z, candidate)
        if last.schedule is not None or model.sol_status != pulp.LpSolutionNoSolutionFound:
            return last
        if candidate is Solver.HIGHS and np.isfinite(last.bound):
            return last  # it was at work when the time ran out; that is no reason to start over
    if last.schedule is None and not any(_engine(s, seconds).available() for s in Solver):
        raise MissingPart("no solver: neither highspy nor PuLP's CBC can run; install highspy for proofs")
    return last


def _engine(solver: Solver, seconds: float) -> Any:
    import pulp

    if solver is Solver.CBC:
        bundled = getattr(pulp, "PULP_CBC_CMD", None)  # PuLP 3 carries a CBC; PuLP 4 finds one on the path
        path = None if bundled is None else bundled.pulp_cbc_path
        return pulp.COIN_CMD(path=path, msg=False, gapRel=0, gapAbs=1e-9, threads=1, timeLimit=seconds)
    # without restarts: on these small programs a restart repeats the root node and gains nothing
    return pulp.HiGHS(msg=False, gapRel=0, gapAbs=1e-9, threads=1, timeLimit=seconds, mip_allow_restart=False)


def _believed(program: TwoSidedProgram, model: Any, z: list[Any], solver: Solver) -> SolverAnswer:
    import pulp

    scale = _scale(program)
    bound = np.inf
    if solver is Solver.HIGHS:
        bound = -float(model.solverModel.getInfo().mip_dual_bound) * scale  # PuLP hands HiGHS a minimisation
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return SolverAnswer(None, False, bound, solver)  # "Not Solved" leaves values behind: never read them
    schedule = np.array([variable.varValue is not None and variable.varValue > 0.5 for variable in z])
    proved = model.sol_status == pulp.LpSolutionOptimal
    if not program.admits(schedule[None, :])[0]:
        if proved:
            raise ScheduleError(
                f"{solver} called {int(schedule.sum())} chosen epochs optimal for a budget of {program.k}; "
                "its answer is refused; schedule without a proof"
            )
        return SolverAnswer(None, False, bound, solver)
    return SolverAnswer(schedule, proved, bound, solver)


def build_two_sided(program: TwoSidedProgram, formulation: Formulation) -> tuple[Any, list[Any]]:
    """The PuLP model of eq. (two_sided_fairness) and its epoch variables z."""
    import pulp

    model = pulp.LpProblem("two_sided", pulp.LpMaximize)
    z = _epoch_variables(model, program)
    unfairness = {
        Formulation.DIRECT: _direct_pairs,
        Formulation.PAIRS: _sparse_pairs,
        Formulation.NETWORK: _sorting_network,
    }[formulation](model, program, z)
    scale = _scale(program)
    model.setObjective(
        pulp.LpAffineExpression(list(zip(z, (program.terms.weights / scale).tolist(), strict=True)))
        - (program.price / scale) * unfairness
    )
    _limit_budget(model, z, program.k, program.at_most)
    return model, z


def _scale(program: TwoSidedProgram) -> float:
    """Solver tolerances are absolute: keep the objective near 1 for every γ."""
    return max(1.0, program.gamma)


def _epoch_variables(model: Any, program: TwoSidedProgram) -> list[Any]:
    return [
        model.add_variable(f"z{t}", lowBound=int(forced), upBound=1, cat="Integer")
        for t, forced in enumerate(program.required)
    ]


def _limit_budget(model: Any, z: list[Any], k: int, at_most: bool) -> None:
    import pulp

    model.addConstraint(pulp.lpSum(z) <= k if at_most else pulp.lpSum(z) == k, "budget")


def _direct_pairs(model: Any, program: TwoSidedProgram, z: list[Any]) -> Any:
    """Σ d_ij with d_ij ≥ ±Σ_t (x_it − x_jt) z_t, for every pair of clients once."""
    import pulp

    rates = program.terms.rates
    differences = []
    for i in range(rates.shape[1]):
        for j in range(i + 1, rates.shape[1]):
            difference = model.add_variable(f"d{i}_{j}", lowBound=0)
            signed = pulp.LpAffineExpression(list(zip(z, (rates[:, i] - rates[:, j]).tolist(), strict=True)))
            model.addConstraint(difference - signed >= 0)
            model.addConstraint(difference + signed >= 0)
            differences.append(difference)
    return pulp.lpSum(differences)


def _exposures(model: Any, rates: FloatArray, z: list[Any]) -> list[Any]:
    """E_i = Σ_t x_it z_t as variables in [0, 1]."""
    import pulp

    exposures = []
    for i, column in enumerate(rates.T):
        exposure = model.add_variable(f"e{i}", lowBound=0, upBound=1)
        took_part = np.flatnonzero(column)
        model.addConstraint(pulp.LpAffineExpression([(z[t], float(column[t])) for t in took_part]) - exposure == 0)
        exposures.append(exposure)
    return exposures


def _sparse_pairs(model: Any, program: TwoSidedProgram, z: list[Any]) -> Any:
    """Σ w_a w_b |E_a − E_b| over distinct clients a < b, w counting the clients that share a participation."""
    import pulp

    rates, counts = np.unique(program.terms.rates, axis=1, return_counts=True)
    exposures = _exposures(model, rates, z)
    linear = np.zeros(len(counts))
    terms: list[tuple[Any, float]] = []
    for a in range(len(counts)):
        for b in range(a + 1, len(counts)):
            weight = float(counts[a] * counts[b])
            excess = model.add_variable(f"d{a}_{b}", lowBound=0)
            model.addConstraint(excess - exposures[a] + exposures[b] >= 0)
            terms.append((excess, 2.0 * weight))
            linear[a] -= weight
            linear[b] += weight
    return pulp.LpAffineExpression(terms + list(zip(exposures, linear.tolist(), strict=True)))


def _sorting_network(model: Any, program: TwoSidedProgram, z: list[Any]) -> Any:
    """Σ_r (2r − m − 1)·E_(r) with E sorted by comparators; identical clients share one exposure variable."""
    import pulp

    rates, which = np.unique(program.terms.rates, axis=1, return_inverse=True)
    exposures = _exposures(model, rates, z)
    wires = [exposures[group] for group in np.ravel(which)]
    for n, (low_wire, high_wire) in enumerate(comparators(len(wires))):
        a, b = wires[low_wire], wires[high_wire]
        if a is b:
            continue
        low = model.add_variable(f"l{n}", lowBound=0, upBound=1)
        high = model.add_variable(f"h{n}", lowBound=0, upBound=1)
        model.addConstraint(low - a <= 0)
        model.addConstraint(low - b <= 0)
        model.addConstraint(low + high - a - b == 0)
        wires[low_wire], wires[high_wire] = low, high
    return pulp.lpSum(float(w) * wire for w, wire in zip(program.terms.rank_weights, wires, strict=True))


def comparators(wires: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort: the pairs (low wire, high wire) in order, O(n log² n) of them."""
    pairs = []
    size = 1
    while size < wires:
        step = size
        while step >= 1:
            for start in range(step % size, wires - step, 2 * step):
                for i in range(start, min(start + step, wires - step)):
                    if i // (2 * size) == (i + step) // (2 * size):
                        pairs.append((i, i + step))
            step //= 2
        size *= 2
    return pairs

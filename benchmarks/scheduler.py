"""How fast are the scheduler's answers, and how often are they the best possible?

CPU time of this process and of its solver children, everything on the same instances in the same run. The baseline is
the text's direct formulation on CBC with every pair of clients counted once (ordered pairs, as the text prints them,
would make it about twice as slow and the ratios about twice as large).
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.measurement import Measurement
from flcontrib_core.scheduling.anytime import best_by_search
from flcontrib_core.scheduling.choose import choose_epochs, trace_frontier
from flcontrib_core.scheduling.enumeration import best_by_enumeration
from flcontrib_core.scheduling.explorer import ScheduleExplorer
from flcontrib_core.scheduling.objectives import TwoSidedProgram, program_terms
from flcontrib_core.scheduling.programs import Formulation, Solver, SolverAnswer, solve_here
from flcontrib_core.scheduling.schedule import BudgetSettings, FairnessMode, SchedulingProblem
from flcontrib_core.vocabulary import BoolArray

Result = TypeVar("Result")

_SHORT = 20
"""Repeats of what is shorter than the clock's step."""


def run(scale: str) -> list[Measurement]:
    seeds = range(4 if scale == "small" else 8)
    _warm_up()
    rows: list[Measurement] = []
    for clients in (8, 16):
        rows += _against_the_direct_program(clients, 1.0, seeds)  # the text's γ: programs that need branching
        rows += _against_the_direct_program(clients, 0.3, seeds)  # the default γ: often solved at the root
    rows += _enumeration_against_the_direct_program(seeds)
    rows += _against_enumeration(range(7 if scale == "small" else 20))
    rows += _sizes(repeats=3 if scale == "small" else 7)
    rows += _drag()
    return rows


def cpu_seconds() -> float:
    """User and system time of this process and of every child that has ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = cpu_seconds()
    result = work()
    return result, cpu_seconds() - start


def simulated(epochs: int, clients: int, participation: float, seed: int) -> SchedulingProblem:
    """Movement that falls like a training loss, with noise, and independent participation."""
    rng = np.random.default_rng([2024, epochs, clients, round(100 * participation), seed])
    movement = np.exp(-np.arange(epochs) / (epochs / 4)) * rng.gamma(2, 0.5, epochs) + 0.01 * rng.random(epochs)
    participated = rng.random((epochs, clients)) < participation
    return SchedulingProblem(
        movement,
        participated,
        tuple(map(str, range(clients))),
        evaluations=2 ** np.minimum(participated.sum(axis=1), 20),
    )


def _program(epochs: int, clients: int, participation: float, gamma: float, k: int, seed: int) -> TwoSidedProgram:
    return TwoSidedProgram(program_terms(simulated(epochs, clients, participation, seed)), gamma, k)


def _value(program: TwoSidedProgram, schedule: BoolArray | None) -> float:
    return -np.inf if schedule is None else float(program.values(schedule[None, :])[0])


def _repeat(work: Callable[[TwoSidedProgram], object], program: TwoSidedProgram) -> None:
    for _ in range(_SHORT):
        work(program)


def _warm_up() -> None:
    """Imports, the solver's first call and numpy's first sort belong to nobody's time."""
    program = _program(20, 6, 0.5, 0.3, 8, 0)
    for solver in Solver:
        solve_here(program, Formulation.DIRECT, solver)
    best_by_search(program)
    best_by_enumeration(_program(12, 6, 0.5, 0.3, 6, 0))


def _direct(program: TwoSidedProgram) -> tuple[SolverAnswer, float]:
    answer, seconds = timed(lambda: solve_here(program, Formulation.DIRECT, Solver.CBC, seconds=300))
    if not answer.proved_optimal:
        raise RuntimeError("the direct program was not proved within 300 s; no ratio can be given")
    return answer, seconds


def _against_the_direct_program(clients: int, gamma: float, seeds: range) -> list[Measurement]:
    sparse_ratios, search_ratios, seconds_of_direct = [], [], []
    proved_equal = search_optimal = 0
    for seed in seeds:
        program = _program(25, clients, 0.5, gamma, 12, seed)
        direct, direct_seconds = _direct(program)
        sparse, sparse_seconds = timed(partial(solve_here, program, Formulation.PAIRS, Solver.HIGHS, 300))
        found, search_seconds = timed(partial(best_by_search, program))
        best = _value(program, direct.schedule)
        proved_equal += sparse.proved_optimal and abs(_value(program, sparse.schedule) - best) < 1e-6
        search_optimal += _value(program, found.schedule) > best - 1e-6
        sparse_ratios.append(direct_seconds / sparse_seconds)
        search_ratios.append(direct_seconds / search_seconds)
        seconds_of_direct.append(direct_seconds)
    where = f"T=25, m={clients}, γ={gamma:g}, k=12"
    hard = gamma >= 1
    base = f"direct on CBC: median {median(seconds_of_direct):.2f} s CPU, {len(seeds)} seeds"
    return [
        Measurement(
            f"sparse pairs on HiGHS over direct on CBC, {where}",
            median(sparse_ratios),
            3 if hard else None,
            unit="×",
            note=base,
        ),
        Measurement(f"both proved and equal, {where}", proved_equal / len(seeds), 1, unit="share"),
        Measurement(
            f"anytime over direct on CBC, {where}",
            median(search_ratios),
            30 if hard else None,
            unit="×",
            note=f"optimal in {search_optimal} of {len(seeds)}",
        ),
    ]


def _enumeration_against_the_direct_program(seeds: range) -> list[Measurement]:
    ratios = []
    for clients, seed in product((8, 16), seeds):
        program = _program(12, clients, 0.5, 1.0, 6, seed)
        direct, direct_seconds = _direct(program)
        best = best_by_enumeration(program)
        _, seconds = timed(partial(_repeat, best_by_enumeration, program))
        if abs(_value(program, direct.schedule) - _value(program, best)) > 1e-6:
            raise RuntimeError(f"enumeration and CBC disagree at seed {seed}")
        ratios.append(direct_seconds / (seconds / _SHORT))
    return [Measurement("enumeration over direct on CBC, T=12, m∈{8,16}", median(ratios), 50, unit="×")]


def _against_enumeration(seeds: range) -> list[Measurement]:
    instances = optimal = below = infeasible = 0
    worst = 0.0
    for (epochs, clients), participation, gamma, seed in product(
        ((8, 8), (12, 12), (16, 8), (16, 16)), (0.1, 0.5), (0.03, 0.3, 1.0, 3.0), seeds
    ):
        for at_most in (False, True):
            k = 1 + (seed * 5 + 3) % (epochs - 1)
            terms = program_terms(simulated(epochs, clients, participation, 500 + seed))
            program = TwoSidedProgram(terms, gamma, k, at_most)
            best = _value(program, best_by_enumeration(program))
            found = best_by_search(program)
            value = _value(program, found.schedule)
            instances += 1
            optimal += value >= best - program.tolerance
            below += found.bound < best - program.tolerance
            infeasible += not program.admits(found.schedule[None, :])[0]
            worst = max(worst, best - value)
    note = f"{optimal} of {instances} instances, T ≤ 16, participation 10 % and 50 %; worst loss {worst:.4f}"
    return [
        Measurement("anytime answers that are optimal", optimal / instances, 0.97, unit="share", note=note),
        Measurement("anytime bounds below the optimum", float(below), 0, at_least=False),
        Measurement("infeasible anytime answers", float(infeasible), 0, at_least=False),
    ]


def _sizes(repeats: int) -> list[Measurement]:
    """The slowest of several cases, each the median of some repeats."""

    def slowest(work: Callable[[SchedulingProblem, float], object], sizes: list[tuple[int, int]]) -> float:
        medians = []
        for (epochs, clients), participation, gamma in product(sizes, (0.1, 0.5), (0.3, 3.0)):
            once = partial(work, simulated(epochs, clients, participation, 7), gamma)
            medians.append(median(timed(once)[1] for _ in range(repeats)))
        return 1000 * max(medians)

    def search(problem: SchedulingProblem, gamma: float) -> object:
        return best_by_search(TwoSidedProgram(program_terms(problem), gamma, problem.epoch_count // 2))

    def frontier(problem: SchedulingProblem, gamma: float) -> object:
        return trace_frontier(problem, BudgetSettings(gamma=gamma))

    def sort(problem: SchedulingProblem, gamma: float) -> object:
        settings = BudgetSettings(0.9, FairnessMode.ONE_SIDED, gamma)
        return choose_epochs(problem, settings)

    note = "slowest of participation 10 %/50 % × γ .3/3"
    small = [(50, 64), (200, 64), (200, 256)]
    return [
        Measurement("anytime CPU, T ≤ 200, m ≤ 256", slowest(search, small), 200, False, "ms", note),
        Measurement("anytime CPU, T=500, m=500", slowest(search, [(500, 500)]), 500, False, "ms", note),
        Measurement("frontier over all k, CPU, T=100, m=64", slowest(frontier, [(100, 64)]), 500, False, "ms", note),
        Measurement("frontier over all k, CPU, T=500, m=128", slowest(frontier, [(500, 128)]), unit="ms", note=note),
        Measurement("one-sided with all it shows, CPU, T=m=1000", slowest(sort, [(1000, 1000)]), unit="ms", note=note),
    ]


def _drag() -> list[Measurement]:
    """One answer and one frontier per knob position at T = 100, m = 64, after the nine γ were prepared."""
    problem = simulated(100, 64, 0.5, 11)
    explorer = ScheduleExplorer(problem)
    _, preparing = timed(lambda: explorer.prepare())
    costs, losses = [], []
    for gamma, k in product((0.05, 0.2, 0.7, 2.0), (30, 50, 75)):
        settings = BudgetSettings(k, gamma=gamma)

        def position(s: BudgetSettings = settings) -> object:
            return explorer.frontier(FairnessMode.TWO_SIDED, s.gamma), explorer.answer(s)

        costs.append(1000 * timed(position)[1])
        losses.append(choose_epochs(problem, settings).objective - explorer.answer(settings).objective)
    note = f"median {median(costs):.0f} ms; preparing nine γ took {preparing:.1f} s CPU"
    return [
        Measurement("knob position to answer and frontier, CPU, T=100, m=64", max(costs), 300, False, "ms", note),
        Measurement("largest loss of a drag against a fresh search", max(losses), 1e-9, False),
    ]

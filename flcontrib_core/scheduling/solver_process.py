"""Solvers in a child process that is ended at a hard limit, so that none holds up its caller.

CBC was seen to take 54 s under a limit of 5 s, and a native solver cannot be interrupted from inside. The child gets
the program as JSON on its standard input and answers with one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np

from flcontrib_core.errors import ScheduleError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.scheduling.objectives import ProgramTerms, TwoSidedProgram
from flcontrib_core.scheduling.programs import Formulation, Solver, SolverAnswer, fitting_formulation, solve_here

_START_UP_SECONDS = 20.0
"""Allowed on top of the solver's own limit: starting the interpreter and writing the program down."""


def solve_apart(
    program: TwoSidedProgram,
    formulation: Formulation | None = None,
    solver: Solver | None = None,
    seconds: float = 60.0,
    grace: float = _START_UP_SECONDS,
) -> SolverAnswer:
    """What does a solver find within ``seconds``? After ``seconds + grace`` the child and its solver are ended.

    Raises ``ScheduleError`` when the child fails or its answer does not hold.
    """
    question = json.dumps(
        {
            "weights": program.terms.weights.tolist(),
            "rates": program.terms.rates.tolist(),
            "clients": program.terms.client_count,
            "pair_divisor": program.terms.pair_divisor,
            "gamma": program.gamma,
            "k": program.k,
            "at_most": program.at_most,
            "required": program.required.tolist(),
            "formulation": str(formulation or fitting_formulation(program)),
            "solver": None if solver is None else str(solver),
            "seconds": seconds,
        }
    )
    child = subprocess.Popen(
        python_command("-c", f"from {__name__} import answer_standard_input; answer_standard_input()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(OPENBLAS_NUM_THREADS="1"),
        start_new_session=True,  # so that ending the group also ends a solver the child has started
    )
    try:
        answer, complaint = child.communicate(question, timeout=seconds + grace)
    except subprocess.TimeoutExpired:
        return SolverAnswer(None, False, np.inf, solver or Solver.HIGHS)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    if child.returncode != 0:
        raise ScheduleError(f"the solver process ended with code {child.returncode}: {complaint.strip()[-500:]}")
    return _checked(program, json.loads(answer.splitlines()[-1]))


def _checked(program: TwoSidedProgram, reply: dict[str, object]) -> SolverAnswer:
    """The child's reply as an answer; its epochs are checked again on this side."""
    if reply.get("refused"):
        raise ScheduleError(str(reply["refused"]))
    epochs, bound = reply["chosen"], reply["bound"]
    schedule = None
    if isinstance(epochs, list):
        schedule = np.zeros(program.terms.epoch_count, dtype=np.bool_)
        schedule[np.array(epochs, dtype=np.int64)] = True
        if not program.admits(schedule[None, :])[0]:
            raise ScheduleError(f"the solver process chose {len(epochs)} epochs for a budget of {program.k}")
    return SolverAnswer(
        schedule,
        bool(reply["proved"]),
        float(bound) if isinstance(bound, int | float) else np.inf,
        Solver(str(reply["solver"])),
    )


def answer_standard_input() -> None:
    """The child's whole life: read the program, solve it, print one line."""
    question = json.load(sys.stdin)
    m = int(question["clients"])
    rates = np.array(question["rates"], dtype=np.float64).reshape(len(question["weights"]), m)
    terms = ProgramTerms.of(np.array(question["weights"], dtype=np.float64), rates, np.arange(m))
    terms = replace(terms, pair_divisor=question["pair_divisor"])
    program = TwoSidedProgram(
        terms, question["gamma"], question["k"], question["at_most"], np.array(question["required"], dtype=np.bool_)
    )
    solver = None if question["solver"] is None else Solver(question["solver"])
    try:
        answer = solve_here(program, Formulation(question["formulation"]), solver, question["seconds"])
    except ScheduleError as refusal:
        print(json.dumps({"refused": str(refusal)}))
        return
    print(
        json.dumps(
            {
                "chosen": None if answer.schedule is None else np.flatnonzero(answer.schedule).tolist(),
                "proved": answer.proved_optimal,
                "bound": answer.bound if np.isfinite(answer.bound) else None,
                "solver": str(answer.solver),
            }
        )
    )

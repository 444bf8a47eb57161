"""Each step of the greedy paths is the best single addition or removal there is."""

from __future__ import annotations

import numpy as np
import pytest

from flcontrib_core.scheduling.local_search import Neighbourhood
from flcontrib_core.scheduling.objectives import TwoSidedProgram, program_terms
from tests.scheduling.instances import random_problem

EPOCHS = 12


@pytest.mark.parametrize("gamma", [0.03, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("growing", [True, False])
def test_a_greedy_step_leaves_the_best_objective_of_all_single_steps(growing: bool, gamma: float) -> None:
    for seed in range(4):
        program = TwoSidedProgram(program_terms(random_problem(EPOCHS, 6, 0.4, seed)), gamma, EPOCHS)
        neighbourhood = Neighbourhood(program)
        before = np.full(EPOCHS, not growing)
        steps = list((neighbourhood.grow if growing else neighbourhood.shrink)(before, EPOCHS))
        assert len(steps) == EPOCHS
        for after in steps:
            changed = np.flatnonzero(after != before)
            assert len(changed) == 1
            others = np.flatnonzero(before != growing)
            single = np.repeat(before[None, :], len(others), axis=0)
            single[np.arange(len(others)), others] = growing
            assert program.values(after[None, :])[0] == pytest.approx(program.values(single).max(), abs=1e-12)
            before = after

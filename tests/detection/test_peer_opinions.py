"""Where do other rules place a client? Against levels written by hand and against a run whose attackers are known."""

from __future__ import annotations

import numpy as np

from flcontrib_core import read_run_log
from flcontrib_core.bundled_files import bundled
from flcontrib_core.detection import peer_opinions, scores_of_run
from flcontrib_core.runs import RunLog
from tests.detection.made_histories import made_history


def test_a_place_is_the_rank_among_those_the_rule_could_see() -> None:
    history = made_history(clients=4, epochs=6)
    cells = np.full((7, 4), np.nan)
    cells[2:5, 0], cells[2:5, 1], cells[2:5, 2] = 1.0, [3.0, 5.0, 7.0], 6.0
    cells[1, 0] = 99.0  # outside of the window
    found = {o.rule: o for o in peer_opinions({"rule": cells}, history, "client-01", (2, 4))}
    assert (found["rule"].suspicion, found["rule"].place, found["rule"].of) == (5.0, 2, 3)
    assert "rule" not in {o.rule for o in peer_opinions({"rule": cells}, history, "client-03", (2, 4))}


def test_label_flippers_are_placed_before_everybody_honest_by_most_rules() -> None:
    run = read_run_log(bundled("sample_runs") / "two-poisoned.flrun")
    assert isinstance(run, RunLog)
    scores = scores_of_run(run)
    history = made_history(clients=8, epochs=30)
    names = dict(zip(run.client_ids, history.client_ids, strict=True))
    found = peer_opinions(scores, history, names["client-02"], (12, 20))
    rules = {o.rule: o.place for o in found}
    assert {rules[r] for r in ("cosine", "norm")} <= {1, 2}
    assert sum(place <= 2 for place in rules.values()) >= len(rules) / 2

"""Ask and tell: the same values as the direct way, whoever answers, however often they are interrupted."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import flcontrib_core as fl
from flcontrib_core.cli import flcontrib
from flcontrib_core.errors import AnswerError
from flcontrib_core.history.answering import answer_with
from flcontrib_core.history.asking import ask, fitting_estimator, tell
from flcontrib_core.history.trajectory import evaluator_for
from flcontrib_core.runs import RunLog

Evaluate = Callable[[dict[str, np.ndarray]], Mapping[str, float]]


def simulated(folder: Path, clients: int, epochs: int = 3) -> tuple[RunLog, Evaluate]:
    fl.simulate(fl.SimulationSettings(clients=clients, epochs=epochs, hidden=(5,), seed=clients), folder / "run.flrun")
    run = fl.read_run_log(folder / "run.flrun")
    assert isinstance(run, RunLog)
    inner = evaluator_for(run, ("loss", "accuracy"))

    def evaluate(state: dict[str, np.ndarray]) -> Mapping[str, float]:
        vector = np.concatenate([state[spec.name].reshape(-1) for spec in run.parameters]).astype(np.float32)
        loss, accuracy = inner.evaluate(vector[None])[0][0]
        return {"loss": float(loss), "accuracy": float(accuracy)}

    return run, evaluate


@pytest.mark.parametrize("clients", [4, 10])
def test_the_values_are_those_of_the_direct_way(tmp_path: Path, clients: int) -> None:
    run, evaluate = simulated(tmp_path, clients)
    work = tmp_path / "work"
    told = ask(run, work)
    assert not told.complete
    rounds = 0
    while not told.complete:
        assert answer_with(run, work, evaluate) > 0
        told = tell(run, work)
        rounds += 1
    assert rounds <= 4
    assert all(epoch.asked == epoch.answered <= 4 * clients for epoch in told.epochs)
    assert told.history is not None
    evaluator = fl.FunctionEvaluator(evaluate, {"loss": "lower", "accuracy": "higher"})
    direct = fl.assess(run, evaluator=evaluator, estimator=fitting_estimator(clients))
    np.testing.assert_allclose(told.history.values, direct.values, atol=1e-6)
    np.testing.assert_allclose(told.history.standard_errors, direct.standard_errors, atol=1e-6)
    np.testing.assert_allclose(told.history.increments, direct.increments, atol=1e-6)
    again = tell(run, work)
    assert again.history is not None
    assert np.array_equal(again.history.values, told.history.values)


def test_two_processes_share_the_work_and_go_on_where_they_were_killed(tmp_path: Path) -> None:
    run, evaluate = simulated(tmp_path, 4, epochs=4)
    work = tmp_path / "work"
    ask(run, work)

    def answer(share: int, most: int) -> None:
        left = iter(range(most))

        def mortal(state: dict[str, np.ndarray]) -> Mapping[str, float]:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return evaluate(state)

        answer_with(run, work, mortal, epochs=range(1 + share, 1 + run.epoch_count, 2))

    fork, told = multiprocessing.get_context("fork"), tell(run, work)
    for most, ended in ((9, -signal.SIGKILL), (100, 0), (100, 0)):
        processes = [fork.Process(target=answer, args=(share, most)) for share in (0, 1)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [ended] * 2
        told = tell(run, work)
        assert all(epoch.answered >= 6 for epoch in told.epochs[:2]), "what was answered before a kill is there"
    assert told.history is not None
    direct = fl.assess(run, estimator=fitting_estimator(4))
    np.testing.assert_allclose(told.history.values, direct.values, atol=1e-6)


def test_asking_again_changes_nothing_and_lost_lines_are_asked_again(tmp_path: Path) -> None:
    run, evaluate = simulated(tmp_path, 3)
    work = tmp_path / "work"
    ask(run, work)
    before = {path.name: path.read_bytes() for path in work.iterdir()}
    ask(run, work)
    assert {path.name: path.read_bytes() for path in work.iterdir()} == before
    answer_with(run, work, evaluate)
    file = work / "epoch-00002.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))
    told = tell(run, work)
    assert [epoch.asked - epoch.answered for epoch in told.epochs][1] > 0


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines[1])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


IMPOSSIBLE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a metric left out": (lambda line: line.update(answer={"loss": 1.0}), "no accuracy"),
    "no number": (lambda line: line.update(answer={"loss": 1.0, "accuracy": "high"}), "finite number"),
    "a truth": (lambda line: line.update(answer={"loss": True, "accuracy": 1.0}), "finite number"),
    "other weights": (lambda line: line.update(weights={"c0": 1.0}), "does not belong"),
    "another id": (lambda line: line.update(id="1-0"), "does not belong"),
    "a list": (lambda line: line.update(answer=[1.0]), "object of metrics"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_answers_are_refused(tmp_path: Path, name: str) -> None:
    run, _ = simulated(tmp_path, 3)
    ask(run, tmp_path / "work")
    change, message = IMPOSSIBLE[name]
    _edit(tmp_path / "work" / "epoch-00001.jsonl", change)
    with pytest.raises(AnswerError, match=message):
        tell(run, tmp_path / "work")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    run, _ = simulated(tmp_path, 3)
    ask(run, tmp_path / "work")
    (tmp_path / "work" / "epoch-00001.jsonl").write_bytes(b"{}\n\xff")
    with pytest.raises(AnswerError, match="not UTF-8 at offset 3"):
        tell(run, tmp_path / "work")


def test_changed_weights_of_the_same_members_are_refused(tmp_path: Path) -> None:
    run, evaluate = simulated(tmp_path, 3)
    ask(run, tmp_path / "work")
    answer_with(run, tmp_path / "work", evaluate)
    file = tmp_path / "work" / "epoch-00001.jsonl"
    _edit(file, lambda line: line.update(weights=dict.fromkeys(line["weights"], 0.9)))
    with pytest.raises(AnswerError, match="not those of a coalition"):
        tell(run, tmp_path / "work")


def test_two_different_answers_are_refused_and_two_equal_ones_are_not(tmp_path: Path) -> None:
    run, evaluate = simulated(tmp_path, 3)
    work = tmp_path / "work"
    ask(run, work)
    answer_with(run, work, evaluate)
    file = work / "epoch-00001.jsonl"
    first = file.read_text().splitlines()[0]
    file.write_text(file.read_text() + first + "\n")
    tell(run, work)
    other = json.loads(first)
    other["answer"]["loss"] += 1
    file.write_text(file.read_text() + json.dumps(other) + "\n")
    with pytest.raises(AnswerError, match="twice"):
        tell(run, work)


def test_answers_belong_to_their_run(tmp_path: Path) -> None:
    run, _ = simulated(tmp_path, 3)
    ask(run, tmp_path / "work")
    (tmp_path / "other").mkdir()
    other, _ = simulated(tmp_path / "other", 4)
    for call in (tell, ask):
        with pytest.raises(AnswerError, match="another run"):
            call(other, tmp_path / "work")
    with pytest.raises(AnswerError, match="nothing was asked"):
        tell(run, tmp_path / "nowhere")


def test_the_commands_end_in_values_and_a_report(tmp_path: Path) -> None:
    run, evaluate = simulated(tmp_path, 4)
    path, work, kept = str(tmp_path / "run.flrun"), str(tmp_path / "work"), str(tmp_path / "kept")
    asked = CliRunner().invoke(flcontrib, ["ask", path, "-o", work, "--json"])
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["complete"] is False
    while True:
        answer_with(run, Path(work), evaluate)
        options = ["-o", str(tmp_path / "values"), "--report", str(tmp_path / "report.html"), "--workspace", kept]
        told = CliRunner().invoke(flcontrib, ["tell", path, work, *options, "--json"])
        assert told.exit_code == 0, told.output
        if json.loads(told.stdout)["complete"]:
            break
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "values").iterdir())
    with fl.Workspace(kept) as workspace:
        assert workspace.latest_result(run.digest, "audit") is not None, "the dashboard shows these values"

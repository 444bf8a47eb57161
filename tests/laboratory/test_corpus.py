"""Is the corpus what it promises: every kind in every manner, stable ids, disjoint parts, generation that resumes?"""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core.errors import SettingsError
from flcontrib_core.history import AssessSettings
from flcontrib_core.laboratory.corpus import (
    GROUPS,
    Part,
    assess_corpus,
    corpus,
    corpus_run,
    groups,
    map_corpus,
    simulate_corpus,
)
from flcontrib_core.laboratory.corpus.groups import draw_windows
from flcontrib_core.laboratory.corpus.variants import CHANGE_STRENGTHS, When
from flcontrib_core.laboratory.simulation import AttackKind, ChangeKind, simulate_in_memory
from flcontrib_core.laboratory.simulation.changes import CHANGES
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog


def test_every_change_and_every_attack_is_in_it() -> None:
    changing = [g for g in GROUPS.values() if g.family == "changing" and g.change]
    assert {g.change for g in changing} == set(ChangeKind)
    assert {g.attack.kind for g in GROUPS.values() if g.attack} == set(AttackKind)
    manners = {(g.extent.value, g.when.value) for g in changing if g.change is ChangeKind.LOCAL_EPOCHS}
    assert manners == {(e, w) for e in ("one", "several", "all") for w in ("from", "window", "whole")}
    for kind in CHANGES:
        assert (kind in CHANGE_STRENGTHS) == (CHANGES[kind].default is not None), kind


def test_an_id_is_a_run_for_good() -> None:
    for run in corpus("report", 2, "changing/*/one/from"):
        assert corpus_run(run.id) == run
        assert corpus_run(run.id).settings == run.settings
        assert run.settings.name == run.id
    fixed = corpus_run("tuning/attacked/alie/window/any/0007").settings
    assert (fixed.dataset, fixed.clients, fixed.epochs, fixed.seed) == ("breast-cancer", 16, 10, 469718315)
    for wrong in ("tuning/plain/any", "tuning/plain/nowhere/0001", "training/plain/any/0001", "plain/any/0001"):
        with pytest.raises(SettingsError):
            corpus_run(wrong)


def test_the_parts_share_no_seed_and_differ_in_how_they_train() -> None:
    drawn = {part: [run.settings for run in corpus(part, 3)] for part in Part}
    seeds = {part: {s.seed for s in settings} for part, settings in drawn.items()}
    assert max(seeds[Part.TUNING]) < 2**30 <= min(seeds[Part.REPORT])
    assert all(len(seeds[part]) == len(drawn[part]) for part in Part)
    rates = {part: {(s.optimizer, s.lr, s.batch, s.hidden) for s in settings} for part, settings in drawn.items()}
    shared = rates[Part.TUNING] & rates[Part.REPORT]
    assert len(shared) < 0.05 * len(rates[Part.TUNING])


def test_the_worlds_are_as_wide_as_promised() -> None:
    drawn = [run.settings for part in Part for run in corpus(part, 6, with_data=True)]
    assert {4, 40} <= {s.clients for s in drawn}
    assert min(s.epochs for s in drawn) == 8
    assert max(s.epochs for s in drawn) == 100
    assert min(s.participation for s in drawn) == 0.2
    for setting, least in (("dataset", 11), ("split", 3), ("sizes", 2), ("model", 3), ("optimizer", 4)):
        assert len(Counter(getattr(s, setting) for s in drawn)) == least, setting
    assert len({s.aggregation for s in drawn}) >= 5
    innocents = [s for s in drawn if s.changes and not s.attacks()]
    assert len(innocents) > 1000


def test_groups_are_chosen_by_pattern_and_counted_as_asked() -> None:
    assert not any(g.regime.needs_data for g in groups())
    assert any(g.regime.needs_data for g in groups(with_data=True))
    counted = Counter(run.group.family for run in corpus("tuning", {"plain/*": 3, "attacked/alie/*": 1}))
    assert counted == {"plain": 3 * len(groups("plain/*")), "attacked": len(groups("attacked/alie/*"))}
    assert [run.index for run in corpus("tuning", 2, "plain/any", first=5)] == [5, 6]


@pytest.mark.parametrize("when", list(When))
def test_windows_fit_into_every_run(when: When) -> None:
    for epochs in (8, 10, 12, 25, 100):
        for seed in range(60):
            windows = draw_windows(when, epochs, np.random.default_rng(seed))
            assert all(1 <= first <= last <= epochs for first, last in windows)
            assert all(b < c for (_, b), (c, _) in pairwise(windows))
            if when is When.ON_OFF and epochs >= 12:
                assert len(windows) >= 2
            if when in (When.WINDOW, When.RAMP, When.COLLUDING):
                ((first, last),) = windows
                assert first > 2
                assert last - first + 1 <= 0.5 * epochs


def test_runs_are_simulated_to_files_and_not_again(tmp_path: Path) -> None:
    runs = list(corpus("tuning", 2, "changing/top-k/one/window"))
    paths = list(simulate_corpus(runs, tmp_path))
    assert sorted(p.relative_to(tmp_path).as_posix() for p in paths) == [f"{run.id}.flrun" for run in runs]
    times = {path: path.stat().st_mtime_ns for path in paths}
    paths[0].unlink()
    again = list(simulate_corpus(runs, tmp_path))
    assert sorted(again) == sorted(paths)
    assert paths[1].stat().st_mtime_ns == times[paths[1]], "what exists is skipped"
    log = read_run_log(paths[0])
    assert isinstance(log, RunLog)
    assert log.digest == simulate_in_memory(corpus_run(log.name).settings).digest
    log.close()


def test_runs_are_assessed_on_several_processes_and_kept(tmp_path: Path) -> None:
    runs = list(corpus("tuning", 2, "plain/short", first=4))
    fresh = {a.run_id: a for a in assess_corpus(runs, tmp_path, workers=2)}
    assert set(fresh) == {run.id for run in runs}
    kept = {a.run_id: a for a in assess_corpus(runs, tmp_path)}
    for run_id, assessed in fresh.items():
        np.testing.assert_array_equal(assessed.history.values, kept[run_id].history.values)
        assert assessed.truth == kept[run_id].truth
        assert assessed.changes == kept[run_id].changes == ()
    with pytest.raises(SettingsError, match="choose another folder"):
        list(assess_corpus(runs, tmp_path, AssessSettings(utilities=("accuracy",))))


def last_loss(run_id: str, run: RunLog) -> dict[str, float]:
    """Something to make of a run; counts how often it is asked."""
    with (Path(os.environ["CORPUS_CALLS"]) / "calls").open("a") as calls:
        calls.write(run_id + "\n")
    return {"loss": run.epochs[-1].metrics["loss"]}


def test_any_function_can_be_mapped_over_runs_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORPUS_CALLS", str(tmp_path))
    runs = list(corpus("report", 3, "plain/short"))
    first = dict(map_corpus(last_loss, runs[:2], tmp_path / "out"))
    everything = dict(map_corpus(last_loss, runs, tmp_path / "out"))
    assert {run_id: everything[run_id] for run_id in first} == first
    assert sorted((tmp_path / "calls").read_text().split()) == [run.id for run in runs]


def test_the_page_on_simulation_names_every_change_and_counts_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")
    for kind in ChangeKind:
        name = kind.removeprefix("optimizer-") if kind.startswith("optimizer-") else kind.value
        assert name in page, kind
    assert f"{len(ChangeKind)} kinds of that" in page
    assert f"{len(AttackKind)} kinds, among them the 15" in page
    assert f"names {len(GROUPS)} groups" in page
    assert f"the {len(groups())} groups that need no data folder" in page

"""Is a simulated run the same run every time: on disk, zipped, continued, and in memory?"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.laboratory.simulation import (
    Change,
    ChangeKind,
    SimulationSettings,
    paper_settings,
    simulate,
    simulate_in_memory,
)
from flcontrib_core.laboratory.simulation.aggregation import fedavg
from flcontrib_core.laboratory.simulation.settings import (
    Aggregation,
    AttackKind,
    DatasetName,
    DifficultyKind,
    ModelKind,
    Optimizer,
    Privacy,
    Split,
)
from flcontrib_core.laboratory.simulation.training import prepare, train
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog

SMALL = SimulationSettings(clients=4, epochs=4, train_rows=200, validation_rows=80, hidden=(8,), seed=1)
FOLDER = os.environ.get("FLCONTRIB_DATA")


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines()]


VARIANTS: list[dict[str, Any]] = [
    {},
    {"attack": "label-flip", "windows": ((2, 3),)},
    {"attack": "copy", "participation": 0.5},
    {"difficulty": "drop-out", "split": "dirichlet", "sizes": "unequal"},
    {"aggregation": "greedy", "attack": "scale"},
    {"aggregation": "fedadam", "changes": (Change(ChangeKind.DATA_GROWS, changed=2),)},
    {"changes": (Change(ChangeKind.SERVER_RATE, windows=((2, 3),)), Change(ChangeKind.TOP_K_FEEDBACK))},
    {"dataset": "wine", "train_rows": None, "validation_rows": None, "optimizer": "adam", "lr": 0.01},
    {"model": "cnn", "width": 3, "epochs": 2},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_memory_and_disk_hold_the_same_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = replace(SMALL, **changes)
    recorded = simulate(settings, tmp_path / "run")
    log = simulate_in_memory(settings)
    assert log.digest == recorded.digest
    assert log.truth == recorded.truth
    assert log.epoch_count == settings.epochs
    for entry, record in zip(lines(tmp_path / "run"), log.epochs, strict=True):
        assert [log.client_ids[c] for c in record.participants] == entry["participants"]
        assert record.metrics == entry["metrics"]
        assert [f.client for f in record.failed] == [f["client"] for f in entry.get("failed", [])]
        tensors, data = load_file(tmp_path / "run" / entry["file"]), log.epoch_data(record.epoch)
        np.testing.assert_array_equal(tensors["updates"], data.updates)
        assert ("global" in tensors) == record.has_global == (data.global_model is not None)
    assert json.loads((tmp_path / "run/manifest.json").read_text()) == log.manifest


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_reader_finds_the_run_that_was_simulated(tmp_path: Path, changes: dict[str, Any]) -> None:
    settings = replace(SMALL, **changes)
    log = simulate_in_memory(settings)
    for out in (tmp_path / "run", tmp_path / "run.flrun"):
        read = read_run_log(simulate(settings, out).run)
        assert isinstance(read, RunLog)
        for part in ("digest", "base_digest", "name", "clients", "parameters", "epochs", "classes", "model", "truth"):
            assert getattr(read, part) == getattr(log, part), part
        assert read.epoch_digests() == log.epoch_digests()
        np.testing.assert_array_equal(read.initial(), log.initial())
        for epoch in range(1, settings.epochs + 1):
            np.testing.assert_array_equal(read.epoch_data(epoch).updates, log.epoch_data(epoch).updates)
        mine, theirs = log.validation(), read.validation()
        assert mine is not None
        assert theirs is not None
        np.testing.assert_array_equal(theirs.x, mine.x)
        np.testing.assert_array_equal(theirs.y, mine.y)
        read.close()


def test_a_fresh_process_with_other_threads_gives_the_same_digest(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from flcontrib_core.laboratory.simulation import *\n"
        "s = SimulationSettings(clients=4, epochs=4, train_rows=200, validation_rows=80, hidden=(8,), seed=1)\n"
        "print(simulate(s, Path(sys.argv[1])).digest)"
    )
    threads = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7"}
    out = subprocess.run(
        python_command("-c", script, str(tmp_path / "r.flrun")),
        env=child_environment(**threads),
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.strip() == simulate_in_memory(SMALL).digest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.flrun"], "nothing but the bundle stays behind"


def test_an_interrupted_simulation_is_continued(tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    def stop(done: int, total: int, label: str) -> None:
        assert total == SMALL.epochs
        if done == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        simulate(SMALL, tmp_path / "run", stop)
    assert len(lines(tmp_path / "run")) == 2
    assert simulate(SMALL, tmp_path / "run").digest == simulate_in_memory(SMALL).digest
    with pytest.raises(RunLogError, match="E_OTHER_RUN"):
        simulate(replace(SMALL, attack="zero"), tmp_path / "run")
    with pytest.raises(SettingsError, match="another simulation"):
        simulate(replace(SMALL, lr=0.2), tmp_path / "run")
    simulate(SMALL, tmp_path / "one.flrun")
    with pytest.raises(SettingsError, match="exists already"):
        simulate(SMALL, tmp_path / "one.flrun")


def test_fedavg_runs_follow_from_their_updates_and_other_servers_store_the_model() -> None:
    for aggregation in Aggregation:
        log = simulate_in_memory(replace(SMALL, aggregation=aggregation, attack="sign-flip", strength=3.0))
        federation = prepare(replace(SMALL, aggregation=aggregation, attack="sign-flip", strength=3.0))
        model, left_out = log.initial(), 0
        for epoch in train(federation):
            data = log.epoch_data(epoch.epoch)
            mean = fedavg(model, data.updates, np.array(log.epochs[epoch.epoch - 1].data_sizes))
            if aggregation is Aggregation.FEDAVG:
                assert data.global_model is None
                np.testing.assert_array_equal(epoch.global_model, mean)
            else:
                assert data.global_model is not None
                left_out += int(not np.array_equal(data.global_model, mean))
            model = epoch.global_model
        assert (left_out > 0) == (aggregation is not Aggregation.FEDAVG)


def test_greedy_aggregation_resists_what_fedavg_suffers_from() -> None:
    attacked = replace(SMALL, epochs=12, attack="sign-flip", strength=4.0, dishonest=1)
    plain = simulate_in_memory(attacked).epochs[-1].metrics["loss"]
    greedy = simulate_in_memory(replace(attacked, aggregation="greedy")).epochs[-1].metrics["loss"]
    assert greedy < plain - 0.1


def test_honest_training_learns() -> None:
    metrics = simulate_in_memory(SimulationSettings(epochs=30)).epochs[-1].metrics
    assert metrics["accuracy"] > 0.88


def test_the_manifest_tells_how_the_run_was_made_but_not_where(tmp_path: Path) -> None:
    settings = replace(SMALL, data_dir=tmp_path, difficulty="low-quality")
    manifest = simulate_in_memory(settings).manifest
    assert "created" not in manifest
    assert manifest["source"]["settings"]["seed"] == 1
    told = manifest["source"]["difficulty"]
    assert told["kind"] == manifest["source"]["settings"]["difficulty"] == "low-quality"
    assert len(told["clients"]) == 1
    assert told["clients"][0] in [c["id"] for c in manifest["clients"]]
    assert str(tmp_path) not in json.dumps(manifest)
    assert manifest["truth"] == {"dishonest": []}


@pytest.mark.parametrize("kind", [*AttackKind, *DifficultyKind])
def test_every_attack_and_difficulty_can_be_recorded(kind: AttackKind | DifficultyKind, tmp_path: Path) -> None:
    key = "attack" if isinstance(kind, AttackKind) else "difficulty"
    result = simulate(replace(SMALL, **{key: kind, "epochs": 3, "train_rows": 100}), tmp_path / "r.flrun")
    assert [d.attack for d in result.truth.dishonest] == ([kind.value] if key == "attack" else [])


def test_diverging_training_says_so() -> None:
    with pytest.raises(SettingsError, match=r"epoch 1: .*diverged"):
        simulate_in_memory(replace(SMALL, lr=1e30, local_epochs=3))
    with pytest.raises(SettingsError, match=r"diverged \(loss not finite\)"):
        simulate_in_memory(replace(SMALL, attack=AttackKind.SCALE, strength=1e25))


def test_impossible_federations_are_refused() -> None:
    with pytest.raises(SettingsError, match="needs images"):
        simulate_in_memory(replace(SMALL, dataset="wine", train_rows=None, validation_rows=None, model="cnn"))
    for changes in (
        {"clients": 0},
        {"participation": 0.0},
        {"participation": 1.2},
        {"alpha": 0.0},
        {"lr": -1.0},
        {"hidden": (0,)},
        {"seed": -1},
        {"dataset": "imagenet"},
        {"difficulty": "rare", "difficulty_strength": 2.0},
    ):
        with pytest.raises(SettingsError):
            replace(SMALL, **changes)  # type: ignore[arg-type]


def test_the_paper_s_set_up() -> None:
    adult = paper_settings("adult", clients=16, epochs=25, seed=2)
    assert (adult.participation, adult.local_epochs, adult.batch, adult.lr) == (0.5, 10, 64, 0.001)
    assert (adult.split, adult.alpha, adult.optimizer) == (Split.BETA, 50.0, Optimizer.ADAM)
    assert adult.hidden == (64, 128, 256, 512)
    assert (adult.clients, adult.epochs, adult.seed) == (16, 25, 2)
    assert paper_settings("compas").alpha == 0.5
    cifar = paper_settings(DatasetName.CIFAR10)
    assert (cifar.alpha, cifar.model, cifar.width) == (0.25, ModelKind.CNN, 128)
    with pytest.raises(SettingsError, match="unknown settings: colour"):
        paper_settings("adult", colour="red")


@pytest.mark.data
@pytest.mark.skipif(not FOLDER or not Path(FOLDER).is_dir(), reason="set FLCONTRIB_DATA to the data folder")
@pytest.mark.parametrize("dataset", ["adult", "compas", "cifar10", "mnist", "fashion-mnist"])
def test_every_data_set_of_the_folder_trains(dataset: str) -> None:
    image = dataset == "cifar10"
    settings = SimulationSettings(
        dataset=dataset,  # type: ignore[arg-type]
        clients=3,
        epochs=2,
        train_rows=600,
        validation_rows=200,
        model="cnn" if image else "mlp",  # type: ignore[arg-type]
        width=4,
        local_epochs=2,
    )
    log = simulate_in_memory(settings)
    assert log.classes is not None
    assert log.epochs[-1].metrics["loss"] < np.log(log.classes), "better than guessing"
    validation = log.validation()
    assert validation is not None
    assert (validation.group is not None) == (dataset in ("adult", "compas"))
    assert list(validation.x.shape[1:]) == (log.model or {})["input"]


def test_settings_that_came_later_are_recorded_only_where_they_are_used() -> None:
    plain = simulate_in_memory(SMALL).manifest["source"]["settings"]
    assert "privacy" not in plain
    assert not {"ramp", "changes", "server_rate"} & set(plain)
    used = simulate_in_memory(replace(SMALL, privacy=Privacy(0.5), attack="label-flip", ramp=True)).manifest
    assert used["source"]["settings"]["privacy"] == {"noise": 0.5, "clip": 1.0}
    assert used["source"]["settings"]["ramp"] is True

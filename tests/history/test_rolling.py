"""Is a recording that is read on, epoch by epoch, the history that its whole log gives, at a cost that stays?"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core.history.assess import assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory
from flcontrib_core.history.rolling import RollingHistory
from flcontrib_core.history.settings import AssessSettings
from flcontrib_core.history.updates_only import history_of_updates, lacking_part
from flcontrib_core.runs import RunLog, RunRecorder, read_run_log

P, SITES = 8, [("a", 30), ("b", 20), ("c", 10)]
MODEL = {"input": [3], "layers": [{"op": "linear", "weight": "w", "bias": "b"}]}
GAP = 5
SHAPES = [("w", (2, 3)), ("b", (2,))]


class Recording:
    """A recording with what happens in one: a late joiner, broken numbers, a gap, a server of its own, weights."""

    def __init__(self, folder: Path, with_model: bool) -> None:
        rng = np.random.default_rng(7)
        self.rng = rng
        rows = (rng.normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2)
        given: dict[str, Any] = {"model": MODEL, "validation": rows, "classes": 2} if with_model else {}
        self.recorder = RunRecorder(
            folder, clients=SITES, parameters=SHAPES, initial=np.zeros(P), durable=False, **given
        )

    def epoch(self, number: int) -> None:
        names = [client["id"] for client in self.recorder.manifest["clients"]]
        updates = {name: self.rng.normal(size=P).astype(np.float32) for name in names}
        more: dict[str, Any] = {}
        if number == 3:
            self.recorder.add_client("late", 25)
        if number == 4:
            updates["b"][2] = np.nan
        if number == GAP:
            updates, more = {}, {"gap": "the disk was full", "global_model": self.rng.normal(size=P)}
        if number == 6:
            more = {"global_model": self.rng.normal(size=P)}
        if number == 7:
            more = {"weights": {name: 0.5 + place for place, name in enumerate(updates)}, "start_epoch": {"a": 4}}
        if number == 8:
            del updates["c"]
        self.recorder.epoch(updates, **more)


def whole(folder: Path) -> ContributionHistory:
    run = read_run_log(folder, nonfinite="absent")
    assert isinstance(run, RunLog)
    settings, lacking = AssessSettings(values=False), lacking_part(run)
    return assess_contributions(run, settings) if lacking is None else history_of_updates(run, settings, lacking)


def differences(left: Any, right: Any) -> list[str]:
    """The fields in which two histories, or their channels, are not the same to the bit."""
    found = []
    for field in fields(left):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if field.name == "channels":
            found += differences(one, other)
        elif isinstance(one, np.ndarray):
            found += [field.name] * (not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
        elif field.name not in ("run_digest", "seconds", "recalled") and one != other:
            found.append(field.name)
    return found


@pytest.mark.parametrize("with_model", [True, False])
def test_epoch_by_epoch_it_is_the_history_of_the_whole_log(tmp_path: Path, with_model: bool) -> None:
    recording = Recording(tmp_path / "run", with_model)
    recording.epoch(1)
    rolling = RollingHistory(tmp_path / "run", epochs=100)
    assert differences(rolling.read_on(), whole(tmp_path / "run")) == []
    for number in range(2, 11):
        recording.epoch(number)
        assert differences(rolling.read_on(), whole(tmp_path / "run")) == [], number
    assert differences(RollingHistory(tmp_path / "run", epochs=100).read_on(), whole(tmp_path / "run")) == []


def test_what_was_read_is_not_read_again_and_old_epochs_are_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recording = Recording(folder, with_model=True)
    recording.epoch(1)
    rolling = RollingHistory(folder, epochs=4)
    for number in range(2, 10):
        text = (folder / "epochs.jsonl").read_bytes()
        recording.epoch(number)
        expected = whole(folder)
        for file in (folder / "epochs").iterdir():
            if int(file.stem) < number and int(file.stem) != GAP:  # a gap's model alone is asked for again
                file.rename(folder / file.name)
        with (folder / "epochs.jsonl").open("r+b") as lines:
            lines.write(b" " * len(text))
        seen = rolling.read_on()
        for file in folder.glob("0*.safetensors"):
            file.rename(folder / "epochs" / file.name)
        with (folder / "epochs.jsonl").open("r+b") as lines:
            lines.write(text)
        assert (rolling.epoch, seen.epoch_count) == (number, min(number, 4))
        assert expected.channels is not None
        assert seen.channels is not None
        assert seen.channels.norm.shape[0] == seen.epoch_count + 1
        for name in ("norm", "solo_loss", "solo_margin", "peer_cosine", "last_step_cosine"):
            tail = getattr(expected.channels, name)[-seen.epoch_count :]
            np.testing.assert_array_equal(getattr(seen.channels, name)[1:], tail, err_msg=f"{name} {number}")
        np.testing.assert_array_equal(seen.increments[1:], expected.increments[-seen.epoch_count :])

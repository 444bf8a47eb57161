"""``add_contribution_audit``: an NVFlare job recorded by one line; its server gets a component that listens.

NVFlare tells its components what happens: a model goes to a client, a client's result was accepted, results were
aggregated. Names are NVFlare's own: a client is who its certificate says. Its weights are steps, not examples: the
log's data sizes of an epoch are the steps of that round.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from flcontrib_core.runs.inputs import as_array, as_model
from flcontrib_core.runs.live_recording import LiveRecording
from flcontrib_core.runs.replies import Reply

STEPS = "NUM_STEPS_CURRENT_ROUND"
_Arrays = dict[str, np.ndarray]


def add_contribution_audit(
    recipe: Any, path: str | os.PathLike[str], *, model: Any = None, validation: str | os.PathLike[str] | None = None
) -> None:
    """Records the job of a recipe into ``path`` on the server; the recipe is changed in no other way.

    ``model`` and ``validation`` (a .npz with ``x`` and ``y`` that the server can read) make values and harm
    computable; without them the log holds the updates.
    """
    spec = None
    if model is not None and validation is not None:
        with np.load(validation, allow_pickle=False) as rows:
            spec = as_model(model, (rows["x"], rows["y"]))
    place = None if validation is None else str(Path(validation).resolve())
    job = getattr(recipe, "job", None) or recipe._job  # recipes of 2.9 keep it to themselves, jobs have none
    job.to_server(ContributionAudit(str(Path(path).resolve()), spec, place), id="contribution_audit")


class ContributionAudit(FLComponent):  # type: ignore[misc]
    """The server's component; NVFlare makes it again from its arguments, which are plain data."""

    def __init__(self, path: str, model: dict[str, Any] | None = None, validation: str | None = None) -> None:
        super().__init__()
        self.path = path
        self.model = model
        self.validation = validation
        self._recording: LiveRecording | None = None
        self._sent: _Arrays = {}
        self._asked: list[str] = []
        self._replies: list[Reply] = []

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listens to the rounds of the job."""
        if event_type == EventType.START_RUN:
            self._recording = self._opened()
        elif self._recording is None:
            return
        elif event_type == AppEventType.ROUND_STARTED:
            self._sent, self._asked, self._replies = {}, [], []
        elif event_type == AppEventType.BEFORE_TRAIN_TASK:
            self._goes_out(fl_ctx)
        elif event_type == AppEventType.AFTER_CONTRIBUTION_ACCEPT:
            self._comes_in(fl_ctx, self._recording)
        elif event_type == AppEventType.AFTER_AGGREGATION:
            self._ends(fl_ctx, self._recording)
        elif event_type == EventType.END_RUN:
            self._recording.close()

    def _opened(self) -> LiveRecording:
        source = {"framework": f"nvflare {metadata.version('nvflare')}", "weights": "steps"}
        options: dict[str, Any] = {"model": self.model}
        if self.validation is not None:
            with np.load(self.validation, allow_pickle=False) as rows:
                options["validation"] = (rows["x"], rows["y"])
        return LiveRecording(self.path, source=source, **options)

    def _goes_out(self, fl_ctx: FLContext) -> None:
        self._asked.append(_peer(fl_ctx))
        if not self._sent:
            self._sent = _arrays(FLModelUtils.from_shareable(fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)))

    def _comes_in(self, fl_ctx: FLContext, recording: LiveRecording) -> None:
        result, name = fl_ctx.get_prop(AppConstants.TRAINING_RESULT), _peer(fl_ctx)
        if result is None or not fl_ctx.get_prop(AppConstants.AGGREGATION_ACCEPTED, True):
            return
        errors: dict[str, str] = {}
        self._replies += recording.readable([(name, result)], self._reply, errors)

    def _reply(self, name: str, result: Any) -> Reply:
        model = FLModelUtils.from_shareable(result)
        arrays = _arrays(model)
        if model.params_type == ParamsType.DIFF:
            arrays = {key: self._sent[key] + change for key, change in arrays.items() if key in self._sent}
        return Reply(name, name, arrays, (model.meta or {}).get(STEPS))

    def _ends(self, fl_ctx: FLContext, recording: LiveRecording) -> None:
        result = fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT)
        after = None
        if isinstance(result, FLModel) and result.params:
            after = _arrays(result)
            if result.params_type == ParamsType.DIFF:
                after = {key: old + after[key] if key in after else old for key, old in self._sent.items()}
            after = {**self._sent, **after}
        recording.sent(self._sent, self._asked)
        metrics = getattr(result, "metrics", None)
        recording.received(self._replies, {}, after, metrics if isinstance(metrics, dict) else {})
        recording.end_round()


def _peer(fl_ctx: FLContext) -> str:
    peer = fl_ctx.get_peer_context()
    return str(peer.get_identity_name()) if peer is not None else "unknown"


def _arrays(model: FLModel) -> _Arrays:
    """A model's named arrays; copies, because the aggregation may write into what it was sent."""
    return {str(name): np.array(as_array(value)) for name, value in (model.params or {}).items()}

"""``add_contribution_audit``: an NVFlare job recorded by one line; its server gets a component that listens.

NVFlare tells its components what happens: a model goes to a client, a client's result came in, the server has a new
model. Names are NVFlare's own: a client is who its certificate says. Its weights are steps, not examples: the log's
data sizes of an epoch are the steps of that round. Only under a guard's verdict does the component touch anything: the
named client's result goes on with fewer steps, or empty.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from nvflare.apis.dxo import from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, FLMetaKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.inputs import as_array, as_classes, as_model
from flcontrib_core.runs.live_recording import LiveRecording
from flcontrib_core.runs.replies import Reply
from flcontrib_core.runs.verdicts import OnVerdict

STEPS = FLMetaKey.NUM_STEPS_CURRENT_ROUND
PACKAGE = "flcontrib_core"
_Arrays = dict[str, np.ndarray]


def add_contribution_audit(
    recipe: Any,
    path: str | os.PathLike[str],
    *,
    model: Any = None,
    validation: str | os.PathLike[str] | None = None,
    classes: int | None = None,
    dtype: str = "float32",
    on_verdict: OnVerdict | None = None,
) -> None:
    """Records the job of a recipe into ``path`` on the server; the recipe is changed in no other way.

    ``model`` and ``validation`` (a .npz with ``x`` and ``y`` that the server can read) make values and harm
    computable; without them the log holds the updates. ``classes``, ``dtype``, ``on_verdict``: as for ``record``, but
    ``on_verdict`` has to be an object that NVFlare can make again from its class and arguments, as a ``Guard`` is.
    """
    if (model is None) != (validation is None):
        raise SettingsError("model and validation belong together: give both, or neither for updates alone")
    if isinstance(on_verdict, FunctionType | MethodType):
        raise SettingsError(
            f"on_verdict is {on_verdict!r}: NVFlare makes its server's components again from plain data, so give an "
            "object of an importable class whose arguments are its attributes, such as flcontrib_core.detection.Guard()"
        )
    spec = place = None
    if validation is not None:
        place = str(Path(validation).resolve())
        rows = _rows(place)
        classes = as_classes(classes, model, rows)
        spec = as_model(model, rows) if hasattr(model, "state_dict") else model
    job = _job_of(recipe)
    # Else NVFlare copies the modules it finds named, without their data, in front of the installed package.
    job.set_app_packages([*job.job.app_packages, PACKAGE])
    audit = ContributionAudit(str(Path(path).resolve()), spec, place, classes, dtype, on_verdict)
    job.to_server(audit, id="contribution_audit")


def _job_of(recipe: Any) -> Any:
    """The FedJob of a recipe, which keeps it to itself in 2.9, or what was given if it is one."""
    for found in (recipe, getattr(recipe, "job", None), getattr(recipe, "_job", None)):
        if hasattr(found, "to_server") and hasattr(found, "set_app_packages"):
            return found
    raise SettingsError(f"{type(recipe).__name__} is neither an NVFlare recipe nor a FedJob")


def _rows(place: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(place, allow_pickle=False) as rows:
        if missing := {"x", "y"} - set(rows.files):
            raise SettingsError(f"{place} holds {sorted(rows.files)}; missing: {sorted(missing)}")
        return rows["x"], rows["y"]


class ContributionAudit(FLComponent):  # type: ignore[misc]
    """The server's component; NVFlare makes it again from its arguments, which are plain data."""

    def __init__(
        self,
        path: str,
        model: dict[str, Any] | None = None,
        validation: str | None = None,
        classes: int | None = None,
        dtype: str = "float32",
        on_verdict: OnVerdict | None = None,
    ) -> None:
        super().__init__()
        self.path, self.model, self.validation, self.classes = path, model, validation, classes
        self.dtype, self.on_verdict = dtype, on_verdict
        self._recording: LiveRecording | None = None
        self._begin()

    def _begin(self) -> None:
        """A round without anything in it yet."""
        self._sent: _Arrays = {}
        self._asked: list[str] = []
        self._replies: list[Reply] = []
        self._errors: dict[str, str] = {}
        self._metrics: dict[str, Any] = {}

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listens to the rounds of the job."""
        if event_type == EventType.START_RUN:
            self._recording = self._opened()
        elif self._recording is None:
            return
        elif event_type == AppEventType.ROUND_STARTED:
            self._begin()
        elif event_type == AppEventType.BEFORE_TRAIN_TASK:
            self._goes_out(fl_ctx, self._recording)
        elif event_type == EventType.BEFORE_PROCESS_SUBMISSION:
            self._comes_in(fl_ctx, self._recording)
        elif event_type == AppEventType.AFTER_AGGREGATION:
            metrics = getattr(fl_ctx.get_prop(AppConstants.AGGREGATION_RESULT), "metrics", None)
            self._metrics = metrics if isinstance(metrics, dict) else {}
        elif event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
            self._ends(fl_ctx, self._recording)
        elif event_type == EventType.END_RUN:
            self._recording.close()

    def _opened(self) -> LiveRecording:
        return LiveRecording(
            self.path,
            source={"framework": f"nvflare {metadata.version('nvflare')}", "weights": "steps"},
            on_verdict=self.on_verdict,
            model=self.model,
            validation=None if self.validation is None else _rows(self.validation),
            classes=self.classes,
            dtype=self.dtype,
        )

    def _goes_out(self, fl_ctx: FLContext, recording: LiveRecording) -> None:
        if not self._sent:
            self._sent = _arrays(FLModelUtils.from_shareable(fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)))
            recording.sent(self._sent, self._asked)
        self._asked.append(_peer(fl_ctx))

    def _comes_in(self, fl_ctx: FLContext, recording: LiveRecording) -> None:
        """A result on its way to the controller, which may throw it away afterwards: it was sent all the same."""
        result, name = fl_ctx.get_prop(FLContextKey.TASK_RESULT), _peer(fl_ctx)
        if not isinstance(result, Shareable) or name not in self._asked:
            return
        code = result.get_return_code(ReturnCode.OK)
        if code != ReturnCode.OK:
            self._errors[name] = str(code)
            return
        self._replies += recording.readable([(name, result)], self._reply, self._errors)
        if not recording.passed_on([result], lambda _: name, _lighter):
            _emptied(result)

    def _reply(self, name: str, result: Any) -> Reply:
        model = FLModelUtils.from_shareable(result)
        arrays = _arrays(model)
        if model.params_type == ParamsType.DIFF:
            arrays = {key: self._sent[key] + change for key, change in arrays.items() if key in self._sent}
        return Reply(name, name, arrays, (model.meta or {}).get(STEPS))

    def _ends(self, fl_ctx: FLContext, recording: LiveRecording) -> None:
        if not self._sent:  # a model that nobody was asked to train
            return
        learnable = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
        weights = (learnable or {}).get(ModelLearnableKey.WEIGHTS) or {}
        after = {**self._sent, **_copied(weights)} if weights else None
        recording.received(self._replies, self._errors, after, self._metrics)
        recording.end_round()
        self._begin()


def _lighter(result: Shareable, factor: float) -> Shareable:
    """The result with another weight; the recording has read its own before."""
    dxo = from_shareable(result)
    dxo.set_meta_prop(STEPS, (dxo.get_meta_prop(STEPS) or 1) * factor)
    return dxo.update_shareable(result)


def _emptied(result: Shareable) -> None:
    """NVFlare's aggregations pass over a result without numbers."""
    dxo = from_shareable(result)
    dxo.data = {}
    dxo.update_shareable(result)


def _peer(fl_ctx: FLContext) -> str:
    peer = fl_ctx.get_peer_context()
    return str(peer.get_identity_name()) if peer is not None else "unknown"


def _arrays(model: FLModel) -> _Arrays:
    return _copied(model.params or {})


def _copied(values: Any) -> _Arrays:
    """Named arrays; copies, because the aggregation may write into what it was sent."""
    return {str(name): np.array(as_array(value)) for name, value in values.items()}

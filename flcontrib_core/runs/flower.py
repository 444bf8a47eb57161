"""``record``: a Flower federation recorded by one line, without changing it.

``strategy = record(strategy, "my-run")`` wraps the methods of a strategy object that see every model: the one that
sends it out and the one that takes the replies. Both of Flower's interfaces are known: messages (``configure_train`` /
``aggregate_train``) and the older one (``configure_fit`` / ``aggregate_fit``). The strategy gets the same arguments and
its answers are passed on untouched.

Flower's node ids change from run to run. A client may give its name as ``client-id`` in the ConfigRecord of its reply
(older interface: in its metrics), or ``record(…, names=…)`` maps nodes to names on the server; otherwise its node id
is its name. A name is bound to the first node that gave it: see ``identities``.
"""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import metadata
from inspect import signature
from typing import Any, TypeVar

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.identities import NameOfNode
from flcontrib_core.runs.inputs import NO_REPLY, as_array
from flcontrib_core.runs.live_recording import LiveRecording, OnError
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.replies import LONGEST_REASON, Reply
from flcontrib_core.runs.run_log import Truth
from flcontrib_core.runs.verdicts import OnVerdict

CLIENT_ID = "client-id"
USUAL_WEIGHT = "num-examples"
FROM_CLIENTS, FROM_SERVER = "evaluate/", "server/"
"""What the names of metrics begin with that come from the clients' evaluation and from the server's own."""

_Strategy = TypeVar("_Strategy")
_Arrays = dict[str, np.ndarray]


def record(
    strategy: _Strategy,
    path: str | os.PathLike[str],
    *,
    clients: Iterable[Any] | None = None,
    names: NameOfNode | None = None,
    model: Any = None,
    validation: Any = None,
    classes: int | None = None,
    parameters: Any = None,
    local: Mapping[str, Any] | None = None,
    name: str | None = None,
    truth: Truth | Mapping[str, Any] | None = None,
    dtype: str = "float32",
    on_error: OnError = "log",
    on_verdict: OnVerdict | None = None,
) -> _Strategy:
    """Records everything this strategy object does from now on, and returns the same object.

    Needed is the path: tensors and the initial model come from the first model sent out, clients from replies.
    ``clients``: those known beforehand, ``(id, data_size)``. ``names``: the server's own map from node to client, which
    no reply can overrule. ``model``, ``validation``, ``classes``, ``dtype``: as for ``RunRecorder``; without them the
    log holds the updates. ``parameters``: names of tensors, for the older interface (default: ``model``'s, or numbers).
    Tensors that ``model`` has and nobody sends are named with a digest; ``local``: those every client has for itself.

    What cannot be recorded is refused before the first round. A later error is logged and becomes a gap in the log;
    ``on_error="raise"`` raises it. A path that holds another run is left alone: ``strategy.recording.path`` says where
    the run is. ``on_verdict``: names who counts less in the next round (``flcontrib_core.detection.Guard()``).
    """
    recording = LiveRecording(
        path,
        source={"framework": _framework(), "aggregator": type(strategy).__name__},
        clients=clients,
        names=names,
        on_error=on_error,
        on_verdict=on_verdict,
        model=model,
        validation=validation,
        classes=classes,
        local=local,
        name=name,
        truth=truth,
        dtype=dtype,
    )
    _wrap(strategy, recording, _Names(parameters, model))
    strategy.recording = _announced(recording)  # type: ignore[attr-defined]
    return strategy


def _wrap(strategy: Any, recording: LiveRecording, older: _Names) -> None:
    """Wraps both of Flower's interfaces where the strategy has them; raises SettingsError where it has neither."""
    wrapped = False
    for configure, aggregate, wrap in (
        ("configure_train", "aggregate_train", _wrap_messages),
        ("configure_fit", "aggregate_fit", lambda strategy, recording: _wrap_fit(strategy, recording, older)),
    ):
        if callable(getattr(strategy, configure, None)) and callable(getattr(strategy, aggregate, None)):
            wrap(strategy, recording)
            wrapped = True
    if not wrapped:
        raise SettingsError(
            f"{type(strategy).__name__} is not a Flower strategy: it has neither configure_train and aggregate_train "
            "nor configure_fit and aggregate_fit"
        )


def _announced(recording: LiveRecording) -> LiveRecording:
    """Says where in Flower's own log: under ``flwr run`` the working folder is wherever the SuperLink was started."""
    logging.getLogger("flwr").info("recording this training into %s", recording.path.absolute())
    return recording


class _Names:
    """Names for the older interface's nameless arrays."""

    def __init__(self, parameters: Any, model: Any) -> None:
        self._given = None if parameters is None else [p[0] if isinstance(p, tuple) else p for p in parameters]
        self._of_model = model.state_dict() if hasattr(model, "state_dict") else {}

    def of(self, arrays: list[np.ndarray]) -> _Arrays:
        names = self._given
        if names is None:
            own = [tuple(tensor.shape) for tensor in self._of_model.values()]
            fits = own == [array.shape for array in arrays]
            names = list(self._of_model) if fits else [str(position) for position in range(len(arrays))]
        if len(names) != len(arrays):
            raise refusal("E_SHAPE:names", "parameters", f"{len(names)} names for {len(arrays)} arrays")
        return dict(zip(names, arrays, strict=True))


def _wrap_messages(strategy: Any, recording: LiveRecording) -> None:
    """Flower's message interface: ArrayRecords by name, replies with a source node, errors as messages."""
    configure, aggregate = strategy.configure_train, strategy.aggregate_train

    @wraps(configure)
    def configure_train(*args: Any, **named: Any) -> Any:
        model = _arrays_of(_argument("arrays", 1, args, named))
        messages = _kept(configure(*args, **named))
        recording.sent(model, [str(m.metadata.dst_node_id) for m in messages])
        return messages

    @wraps(aggregate)
    def aggregate_train(server_round: int, replies: Iterable[Any]) -> Any:
        received = _kept(replies)
        weight, key = getattr(strategy, "weighted_by_key", USUAL_WEIGHT), getattr(strategy, "arrayrecord_key", None)
        # Read before the strategy has its turn: clipping strategies write into the replies.
        errors = {str(m.metadata.src_node_id): _in_short(m.error.reason) for m in received if m.has_error()}
        sound = [(str(m.metadata.src_node_id), m) for m in received if not m.has_error()]
        answers = recording.readable(sound, lambda node, m: _reply_of(node, m, weight, key), errors)
        passed = recording.passed_on(
            received, lambda m: str(m.metadata.src_node_id), lambda m, factor: _lighter(m, weight, factor)
        )
        answer = aggregate(server_round, passed)
        after, metrics = answer
        recording.received(answers, errors, None if after is None else _arrays_of(after), dict(metrics or {}))
        return answer

    strategy.configure_train, strategy.aggregate_train = configure_train, aggregate_train
    _wrap_evaluation(strategy, recording, lambda answer: answer or {})
    _wrap_start(strategy, recording)


def _wrap_evaluation(strategy: Any, recording: LiveRecording, metrics_of: Callable[[Any], Mapping[str, Any]]) -> None:
    """What the clients measured on the new model belongs to the round that made it."""
    aggregate = getattr(strategy, "aggregate_evaluate", None)
    if not callable(aggregate):
        return

    @wraps(aggregate)
    def aggregate_evaluate(*args: Any, **named: Any) -> Any:
        answer = aggregate(*args, **named)
        recording.measured(metrics_of(answer), FROM_CLIENTS)
        return answer

    strategy.aggregate_evaluate = aggregate_evaluate


def _wrap_start(strategy: Any, recording: LiveRecording) -> None:
    """The message interface's own loop: its evaluation on the server is recorded, and its end ends the recording."""
    start = getattr(strategy, "start", None)
    if not callable(start):
        return

    @wraps(start)
    def recorded_start(*args: Any, **named: Any) -> Any:
        told = signature(start).bind(*args, **named)
        if callable(evaluate := told.arguments.get("evaluate_fn")):

            @wraps(evaluate)
            def evaluate_fn(*arguments: Any) -> Any:
                answer = evaluate(*arguments)
                recording.measured(answer or {}, FROM_SERVER)
                return answer

            told.arguments["evaluate_fn"] = evaluate_fn
        try:
            return start(*told.args, **told.kwargs)
        finally:
            recording.release()

    strategy.start = recorded_start


def _wrap_fit(strategy: Any, recording: LiveRecording, names: _Names) -> None:
    """Flower's older interface: nameless arrays, one ClientProxy per client, failures that may carry no name."""
    configure, aggregate = strategy.configure_fit, strategy.aggregate_fit

    @wraps(configure)
    def configure_fit(*args: Any, **named: Any) -> Any:
        model = names.of(_decoded(_argument("parameters", 1, args, named)))
        instructions = configure(*args, **named)
        recording.sent(model, [str(proxy.cid) for proxy, _ in instructions])
        return instructions

    @wraps(aggregate)
    def aggregate_fit(server_round: int, results: list[Any], failures: list[Any]) -> Any:
        told = [failure for failure in failures if isinstance(failure, tuple)]  # the others carry no name
        errors = {str(proxy.cid): _in_short(result.status.message) for proxy, result in told}

        def read(node: str, result: Any) -> Reply:
            arrays = names.of(_decoded(result.parameters))
            return Reply(node, _name(result.metrics.get(CLIENT_ID)), arrays, result.num_examples)

        answers = recording.readable([(str(proxy.cid), result) for proxy, result in results], read, errors)
        passed = recording.passed_on(results, lambda r: str(r[0].cid), _lighter_result)
        answer = aggregate(server_round, passed, failures)
        after, metrics = answer
        recording.received(answers, errors, None if after is None else names.of(_decoded(after)), metrics or {})
        return answer

    strategy.configure_fit, strategy.aggregate_fit = configure_fit, aggregate_fit
    _wrap_evaluation(strategy, recording, _loss_and_metrics)
    evaluate = getattr(strategy, "evaluate", None)
    if callable(evaluate):

        @wraps(evaluate)
        def recorded_evaluate(*args: Any, **named: Any) -> Any:
            answer = evaluate(*args, **named)
            recording.measured(_loss_and_metrics(answer), FROM_SERVER)
            return answer

        strategy.evaluate = recorded_evaluate


def _loss_and_metrics(answer: Any) -> Mapping[str, Any]:
    """What the older interface's evaluations give: (loss, metrics), or nothing."""
    if answer is None:
        return {}
    loss, metrics = answer
    return {"loss": loss, **(metrics or {})}


def _argument(name: str, position: int, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return named[name] if name in named else args[position]


def _kept(messages: Iterable[Any]) -> list[Any]:
    """Messages that can be walked through twice; a list stays the very list it is."""
    return messages if isinstance(messages, list) else list(messages)


def _arrays_of(record: Any) -> _Arrays:
    """The named arrays of an ArrayRecord."""
    return {str(name): _array(array) for name, array in record.items()}


def _array(array: Any) -> np.ndarray:
    data = getattr(array, "data", None)
    return _view(data) if isinstance(data, bytes) else as_array(array.numpy())


def _view(npy: bytes) -> np.ndarray:
    """The array inside a .npy text, never a pickle, and without a copy: nobody can write into bytes."""
    text = io.BytesIO(npy)
    version = np.lib.format.read_magic(text)
    if version not in _HEADERS:
        raise SettingsError(f"an array in version {version} of numpy's format: only 1.0 and 2.0 are known")
    shape, by_columns, dtype = _HEADERS[version](text)
    if dtype.hasobject:
        raise SettingsError("an array of Python objects: only numbers are read")
    return np.frombuffer(npy, dtype, offset=text.tell()).reshape(shape, order="F" if by_columns else "C")


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _reply_of(node: str, message: Any, weight_key: str, array_key: str | None) -> Reply:
    content = message.content
    arrays = dict(content.array_records)
    if not arrays:
        raise SettingsError("a reply without arrays")
    chosen = arrays[array_key] if array_key in arrays else next(iter(arrays.values()))
    weights = [m[weight_key] for m in content.metric_records.values() if weight_key in m]
    names = [c[CLIENT_ID] for c in content.config_records.values() if CLIENT_ID in c]
    return Reply(node, _name(names[0] if names else None), _arrays_of(chosen), weights[0] if weights else None)


def _lighter(message: Any, weight_key: str, factor: float) -> Any:
    """The reply with another weight; the recording has read its own before."""
    for metrics in () if message.has_error() else message.content.metric_records.values():
        if weight_key in metrics:
            metrics[weight_key] = metrics[weight_key] * factor
    return message


def _lighter_result(answer: tuple[Any, Any], factor: float) -> tuple[Any, Any]:
    proxy, result = answer
    return proxy, replace(result, num_examples=result.num_examples * factor)


def _name(says: Any) -> str | None:
    return None if says is None else str(says)


def _decoded(parameters: Any) -> list[np.ndarray]:
    """The arrays inside the older interface's Parameters: one .npy text per array, never a pickle."""
    if parameters.tensor_type != "numpy.ndarray":
        raise SettingsError(f"Flower parameters of type {parameters.tensor_type!r}: only 'numpy.ndarray' is known")
    return [_view(tensor) for tensor in parameters.tensors]


def _in_short(reason: Any) -> str:
    """What names the error in what is often a whole coloured traceback: after "Message:", else the last line."""
    lines = [line.strip().removesuffix("'>") for line in re.sub(r"\x1b\[[0-9;]*m", "", str(reason)).splitlines()]
    told = [line for line in lines if line]
    first = max((place for place, line in enumerate(told) if "Message: " in line), default=len(told) - 1)
    return " ".join(told[first:])[:LONGEST_REASON] if told else NO_REPLY


def _framework() -> str:
    try:
        return f"flower {metadata.version('flwr')}"
    except metadata.PackageNotFoundError:
        return "flower"

"""How is a Flower federation recorded without changing it?

``record(strategy, "run", clients=…)`` wraps the two methods of a strategy object that see every model: the one that
sends it out and the one that takes the replies. Both of Flower's interfaces are known: messages
(``configure_train`` / ``aggregate_train``) and the older one (``configure_fit`` / ``aggregate_fit``). The strategy
gets the same arguments and its answers are passed on untouched; an error of the recording is raised, never hidden.

Flower's node ids change from run to run. A client says who it is by a ``client-id`` in the ConfigRecord of its reply
(older interface: in its metrics); without one, its node id is its name.

Departure: Flower's replies carry models, the log carries updates: Δ is the reply minus the model that was sent out,
in float64, then float32. ``global`` is stored only where it is not the replies' weighted mean up to rounding (server
optimisers, robust aggregation, a round the strategy threw away).
"""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flcontrib_core.errors import SettingsError
from flcontrib_core.runs.encoding import MANIFEST
from flcontrib_core.runs.inputs import NO_REPLY, as_array
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.run_log import Truth

CLIENT_ID = "client-id"
USUAL_WEIGHT = "num-examples"
LONGEST_REASON = 200
ROUNDING = 1e-6
"""Relative to the model's largest number: a server model this close to the weighted mean is the weighted mean."""

_Strategy = TypeVar("_Strategy")
_Arrays = dict[str, np.ndarray]


def record(
    strategy: _Strategy,
    path: str | os.PathLike[str],
    *,
    clients: Iterable[Any],
    model: Any = None,
    validation: Any = None,
    classes: int | None = None,
    parameters: Any = None,
    name: str | None = None,
    truth: Truth | Mapping[str, Any] | None = None,
) -> _Strategy:
    """Records everything this strategy object does from now on, and returns the same object.

    ``clients``: all clients that may ever take part, ``(id, data_size)``; a reply's own example count holds for its
    epoch. ``parameters``: the tensors' names in order (a list or a ``state_dict()``), needed only by the older
    interface, whose models have no names. ``model``, ``validation``, ``classes``: as for ``RunRecorder``. The run can
    be read while it grows; ``strategy.recording.bundle()`` zips it at the end.
    """
    options = {"clients": clients, "model": model, "validation": validation, "classes": classes}
    options |= {"name": name, "truth": truth}
    recording = FlowerRecording(Path(path), type(strategy).__name__, parameters, options)
    wrapped = False
    for configure, aggregate, wrap in (
        ("configure_train", "aggregate_train", _wrap_messages),
        ("configure_fit", "aggregate_fit", _wrap_fit),
    ):
        if callable(getattr(strategy, configure, None)) and callable(getattr(strategy, aggregate, None)):
            wrap(strategy, recording)
            wrapped = True
    if not wrapped:
        raise SettingsError(
            f"{type(strategy).__name__} is not a Flower strategy: it has neither configure_train and aggregate_train "
            "nor configure_fit and aggregate_fit"
        )
    strategy.recording = recording  # type: ignore[attr-defined]
    return strategy


@dataclass(frozen=True)
class _Reply:
    """One node's answer."""

    node: str
    says: Any
    """Its client-id, if it gave one."""
    arrays: _Arrays
    weight: Any


class FlowerRecording:
    """The recording behind a wrapped strategy."""

    def __init__(self, path: Path, aggregator: str, parameters: Any, options: Mapping[str, Any]) -> None:
        self._path = path
        self._aggregator = aggregator
        self._names = None if parameters is None else [p[0] if isinstance(p, tuple) else p for p in parameters]
        self._options = dict(options)
        self._options["clients"] = list(options["clients"])
        self._recorder: RunRecorder | None = None
        self._before: _Arrays = {}
        self._asked: list[str] | None = None
        self._client_of: dict[str, str] = {}

    def bundle(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Zips what was recorded into one ``.flrun`` file."""
        if self._recorder is None:
            raise SettingsError(f"{self._path}: no round has been recorded yet")
        return self._recorder.bundle(path)

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    def named(self, arrays: list[np.ndarray]) -> _Arrays:
        """Names for the older interface's nameless arrays."""
        names = self._names or [str(position) for position in range(len(arrays))]
        if len(names) != len(arrays):
            raise refusal("E_SHAPE:names", f"{self._path}, parameters", f"{len(names)} names for {len(arrays)} arrays")
        return dict(zip(names, arrays, strict=True))

    def sent(self, arrays: _Arrays, nodes: list[str]) -> None:
        """A round begins: this model goes to these nodes."""
        if self._asked is not None:  # the older interface skips the aggregation of a round without clients
            self.received([], {}, None, {})
        recorder = self._opened(arrays)
        self._before = {n: a.astype(np.float64) for n, a in arrays.items() if n in recorder.parameter_names}
        self._asked = nodes

    def received(
        self, replies: list[_Reply], errors: Mapping[str, str], after: _Arrays | None, metrics: Mapping[str, Any]
    ) -> None:
        """A round ends: these replies came, and the server's model is now ``after`` (None: it kept the old one)."""
        recorder, asked = self._recorder, self._asked
        if recorder is None or asked is None:
            raise SettingsError(f"{self._path}: replies to a round that was never sent out")
        self._asked = None
        named = {self._identify(reply): reply for reply in replies}
        order = [c["id"] for c in recorder.manifest["clients"] if c["id"] in named]  # replies come in any order
        updates = {c: {n: named[c].arrays[n] - old for n, old in self._before.items()} for c in order}
        sizes = {self._client_of[r.node]: int(r.weight) for r in replies if _is_count(r.weight)}
        silent = {n: errors.get(n, NO_REPLY) for n in {**dict.fromkeys(asked), **errors}}
        failed = {self._shown(n): why for n, why in silent.items() if n not in {r.node for r in replies}}
        server = self._before if after is None else {n: after[n].astype(np.float64) for n in self._before}
        recorder.epoch(
            updates,
            data_sizes=sizes,
            global_model=None if self._explained(updates, sizes, server) else server,
            asked=[self._shown(n) for n in asked],
            failed=failed,
            metrics={k: v for k, v in metrics.items() if _is_finite(v)},
            source={"nodes": {c: named[c].node for c in order}},
        )

    def _opened(self, arrays: _Arrays) -> RunRecorder:
        """The recorder, opened when the first model is known: it names the parameters and is the initial model."""
        if self._recorder is None:
            go_on = (self._path / MANIFEST).exists()
            names = [name for name, array in arrays.items() if array.dtype.kind == "f"]
            if go_on:  # by now the server may have averaged whole-number counters into floats: ask the log
                recorded = json.loads((self._path / MANIFEST).read_bytes())["parameters"]
                names = [p["name"] for p in recorded if p["name"] in arrays]
            floats = {name: arrays[name] for name in names}
            self._recorder = RunRecorder(
                self._path,
                parameters=[(name, array.shape) for name, array in floats.items()],
                initial=floats,
                source={"framework": _framework(), "aggregator": self._aggregator},
                created=None if go_on else datetime.now(UTC).isoformat(timespec="seconds"),
                **self._options,
            )
            if not self._recorder.goes_on_from(floats):
                raise SettingsError(
                    f"{self._path} holds {self._recorder.next_epoch - 1} rounds that ended with another model; start "
                    "from that model (RunRecorder.last_model) or record into a new folder"
                )
        return self._recorder

    def _identify(self, reply: _Reply) -> str:
        client = reply.node if reply.says is None else str(reply.says)
        known = {c["id"] for c in self._recorder.manifest["clients"]} if self._recorder else set()
        if client not in known:
            raise refusal("E_PARTICIPANTS:flower", f"{self._path}, node {reply.node}", f"a reply of {client!r}")
        self._client_of[reply.node] = client
        return client

    def _shown(self, node: str) -> str:
        """The client behind a node, or the node itself while nobody knows."""
        return self._client_of.get(node, node)

    def _explained(self, updates: Mapping[str, _Arrays], sizes: Mapping[str, int], server: _Arrays) -> bool:
        """Is the server's model the weighted mean of the replies, up to rounding?"""
        assert self._recorder is not None
        usual = {c["id"]: c["data_size"] for c in self._recorder.manifest["clients"]}
        weights = {client: sizes.get(client, usual[client]) for client in updates}
        total = max(sum(weights.values()), 1)
        largest = max((float(np.abs(a).max(initial=0.0)) for a in server.values()), default=0.0)
        for name, old in self._before.items():
            mean = old + sum((weights[c] / total * u[name] for c, u in updates.items()), np.zeros_like(old))
            if not np.abs(mean - server[name]).max(initial=0.0) <= ROUNDING * max(largest, 1.0):
                return False
        return True


def _wrap_messages(strategy: Any, recording: FlowerRecording) -> None:
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
        sound = [_reply_of(m, weight, key) for m in received if not m.has_error()]
        errors = {str(m.metadata.src_node_id): _in_short(m.error.reason) for m in received if m.has_error()}
        answer = aggregate(server_round, received)
        after, metrics = answer
        recording.received(sound, errors, None if after is None else _arrays_of(after), dict(metrics or {}))
        return answer

    strategy.configure_train, strategy.aggregate_train = configure_train, aggregate_train


def _wrap_fit(strategy: Any, recording: FlowerRecording) -> None:
    """Flower's older interface: nameless arrays, one ClientProxy per client, failures that may carry no name."""
    configure, aggregate = strategy.configure_fit, strategy.aggregate_fit

    @wraps(configure)
    def configure_fit(*args: Any, **named: Any) -> Any:
        model = recording.named(_decoded(_argument("parameters", 1, args, named)))
        instructions = configure(*args, **named)
        recording.sent(model, [str(proxy.cid) for proxy, _ in instructions])
        return instructions

    @wraps(aggregate)
    def aggregate_fit(server_round: int, results: list[Any], failures: list[Any]) -> Any:
        replies = [
            _Reply(
                str(proxy.cid),
                result.metrics.get(CLIENT_ID),
                recording.named(_decoded(result.parameters)),
                result.num_examples,
            )
            for proxy, result in results
        ]
        told = [failure for failure in failures if isinstance(failure, tuple)]  # the others carry no name
        errors = {str(proxy.cid): _in_short(result.status.message) for proxy, result in told}
        answer = aggregate(server_round, results, failures)
        after, metrics = answer
        model = None if after is None else recording.named(_decoded(after))
        recording.received(replies, errors, model, metrics or {})
        return answer

    strategy.configure_fit, strategy.aggregate_fit = configure_fit, aggregate_fit


def _argument(name: str, position: int, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    return named[name] if name in named else args[position]


def _kept(messages: Iterable[Any]) -> list[Any]:
    """Messages that can be walked through twice; a list stays the very list it is."""
    return messages if isinstance(messages, list) else list(messages)


def _arrays_of(record: Any) -> _Arrays:
    """The named arrays of an ArrayRecord."""
    return {str(name): as_array(array.numpy()) for name, array in record.items()}


def _reply_of(message: Any, weight_key: str, array_key: str | None) -> _Reply:
    content = message.content
    arrays = dict(content.array_records)
    chosen = arrays[array_key] if array_key in arrays else next(iter(arrays.values()))
    weights = [m[weight_key] for m in content.metric_records.values() if weight_key in m]
    names = [c[CLIENT_ID] for c in content.config_records.values() if CLIENT_ID in c]
    node = str(message.metadata.src_node_id)
    return _Reply(node, names[0] if names else None, _arrays_of(chosen), weights[0] if weights else None)


def _decoded(parameters: Any) -> list[np.ndarray]:
    """The arrays inside the older interface's Parameters: one .npy text per array, never a pickle."""
    if parameters.tensor_type != "numpy.ndarray":
        raise SettingsError(f"Flower parameters of type {parameters.tensor_type!r}: only 'numpy.ndarray' is known")
    return [np.load(io.BytesIO(tensor), allow_pickle=False) for tensor in parameters.tensors]


def _in_short(reason: Any) -> str:
    """The last line of what is often a whole coloured traceback: the line that names the error."""
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(reason)).splitlines() if line.strip(" \t'>")]
    return lines[-1].strip()[:LONGEST_REASON] if lines else NO_REPLY


def _is_count(value: Any) -> bool:
    """Can this weight stand as a number of examples?"""
    return _is_finite(value) and float(value) >= 1 and float(value).is_integer()


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _framework() -> str:
    try:
        return f"flower {metadata.version('flwr')}"
    except metadata.PackageNotFoundError:
        return "flower"

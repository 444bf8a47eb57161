"""The recording of a federation while it trains, whatever the framework: rounds in, a growing run out.

A framework's adapter tells what it sees: the model that was sent out and to whom, the replies, the server's new model,
the metrics. Replies are models, the log carries updates: Δ is the reply minus the model that was sent out. The numbers
are written by a thread of its own, from the framework's own buffers, so that training does not wait for the disk; one
round is written while the next one trains. An error of the recording never ends the training: it is logged, and the
round stands in the log as a gap.

Departure: ``global`` is stored only where it is not the replies' weighted mean up to rounding (server optimisers,
robust aggregation, a round the strategy threw away).
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from flcontrib_core.errors import FLContribError, RunLogError, SettingsError
from flcontrib_core.files import require_writable
from flcontrib_core.runs.encoding import EPOCHS, MANIFEST
from flcontrib_core.runs.finished_round import FinishedRound, StoredEpoch, counts_of, epoch_of
from flcontrib_core.runs.identities import Identities, NameOfNode
from flcontrib_core.runs.inputs import EpochOptions, as_classes, as_clients, as_model
from flcontrib_core.runs.limits import MAX_METRICS
from flcontrib_core.runs.manifest import id_fault
from flcontrib_core.runs.opening import opening_of
from flcontrib_core.runs.problems import refusal
from flcontrib_core.runs.recorder import RunRecorder
from flcontrib_core.runs.replies import LONGEST_REASON, Arrays, Reply, is_finite
from flcontrib_core.runs.run_log import Client
from flcontrib_core.runs.validation_rows import gathered
from flcontrib_core.runs.verdicts import OnVerdict, Verdicts
from flcontrib_core.runs.write_behind import WriteBehind

WORTH_SAYING = 0.5
"""Seconds from which training is told that it waited for the recording."""
_OTHER_FOLDERS = ("E_OTHER_RUN", "E_NOT_EMPTY", "E_IN_USE", "E_SHAPE", "E_HASH", "E_EPOCH_ORDER")

OnError = Literal["log", "raise"]
_Answer = TypeVar("_Answer")
logger = logging.getLogger("flcontrib")


class LiveRecording:
    """Writes a federation's rounds into a run; ``sent`` and ``received`` come once per round, in this order."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        source: Mapping[str, Any],
        clients: Iterable[Any] | None = None,
        names: NameOfNode | None = None,
        on_error: OnError = "log",
        on_verdict: OnVerdict | None = None,
        **options: Any,
    ) -> None:
        """``options``: what ``RunRecorder`` takes beside (model, validation, classes, task, name, dtype …)."""
        if on_error not in ("log", "raise"):
            raise SettingsError(f"on_error must be 'log' or 'raise', not {on_error!r}")
        self.path = Path(path)
        """Where the run is written: a new folder beside the wanted one where that holds another run."""
        require_writable(self.path)  # before any training: every round would be lost
        self._source = dict(source)
        self._clients = () if clients is None else as_clients(clients)
        self._identities = Identities(names)
        self._raise = on_error == "raise"
        self._tensors: Mapping[str, Any] = {}
        """What the module holds; whatever nobody sends is its frozen base."""
        model, validation = options.get("model"), gathered(options.get("validation"))
        options["validation"] = validation
        options["classes"] = as_classes(options.get("classes"), model, validation, options.get("task"))
        if model is not None and hasattr(model, "state_dict"):
            # Now, and not in the writing thread: while torch traces one module, calls of any module are taken for its
            # own, also those of a training that goes on meanwhile.
            options["model"] = as_model(model, validation)
            self._tensors = model.state_dict()
        self._options = options
        self._recorder: RunRecorder | None = None
        self._behind = WriteBehind()
        self._round = 0
        self._before: Arrays = {}
        self._asked: Sequence[str] | None = None
        self._metrics: dict[str, float] = {}
        self._line: Mapping[str, Any] | None = None
        self._stored: StoredEpoch | None = None
        self._released = False
        self._verdicts = Verdicts(on_verdict)
        self._factors: dict[str, float] = {}
        """What the verdict did to this round's weights."""
        self._lost: str | None = None
        """Why rounds before the next one are missing in the log, where not even that could be written."""
        atexit.register(self.close)

    def sent(self, arrays: Arrays, nodes: Sequence[str]) -> None:
        """A round begins: this model goes to these nodes; their list may grow until the replies are in."""
        if self._asked is not None:  # some frameworks skip the aggregation of a round without clients
            self.received([], {}, None, {})
        self.end_round(arrays)
        if self._tensors:
            self._name_the_base(arrays)
        if self._released:  # another training: it goes on where the last one ended, or elsewhere
            self._behind.wait()
            self._recorder, self._released = None, False
        if self._recorder is None and self._clients:  # before any training: a refusal here costs nothing
            self._open(arrays, self._clients)
            self._identities.resume(_nodes_before(self.path))
        elif self._round == 0 and not (self.path / MANIFEST).exists():
            self._refuse_unreadable(arrays)
        self._round += 1
        self._before = dict(arrays)
        self._asked = nodes

    def received(
        self, replies: Sequence[Reply], errors: Mapping[str, str], after: Arrays | None, metrics: Mapping[str, Any]
    ) -> None:
        """A round ends: these replies came, and the server's model is now ``after`` (None: it kept the old one)."""
        if self._asked is None:
            raise SettingsError(f"{self.path}: replies to a round that was never sent out")
        finished = FinishedRound(
            self._round, self._before, self._asked, list(replies), dict(errors), after, self._factors
        )
        self._asked, self._metrics, self._factors = None, {}, {}
        self.measured(metrics)
        self._tell_of(self._behind.submit(lambda: self._record(finished), large=True))

    def readable(
        self, answers: Iterable[tuple[str, Any]], read: Callable[[str, Any], Reply], errors: dict[str, str]
    ) -> list[Reply]:
        """The replies of (node, answer) pairs; one that cannot be read goes to ``errors`` with its reason."""
        replies = []
        for node, answer in answers:
            try:
                replies.append(read(node, answer))
            except Exception as error:  # broad: a reply is whatever a client sent; its fault must not end the training
                if self._raise:
                    raise
                logger.exception("%s: the reply of node %s cannot be read; training goes on", self.path, node)
                errors[node] = f"reply not recorded: {type(error).__name__}: {error}"[:LONGEST_REASON]
        return replies

    def passed_on(
        self,
        answers: Sequence[_Answer],
        node_of: Callable[[_Answer], str],
        lighter: Callable[[_Answer, float], _Answer],
    ) -> Sequence[_Answer]:
        """The answers as the strategy gets them under the last verdict; they are recorded as they came."""
        if not self._verdicts.asked_for:
            return answers
        self._tell_of(self._behind.wait())
        passed, applied = self._verdicts.apply(answers, lambda answer: self._shown(node_of(answer)), lighter)
        self._factors |= applied  # some frameworks hand over one answer at a time
        if applied:
            told = ", ".join(f"{client} × {factor:g}" for client, factor in sorted(applied.items()))
            logger.warning("%s: weights in round %d: %s", self.path, self._round, told)
        return passed

    def measured(self, metrics: Mapping[str, Any], prefix: str = "") -> None:
        """Metrics of the round that has just ended, as the framework gives them; only finite numbers are kept."""
        numbers = {f"{prefix}{name}": float(value) for name, value in metrics.items() if is_finite(value)}
        self._metrics |= dict(islice(numbers.items(), MAX_METRICS - len(self._metrics)))

    def end_round(self, sent: Arrays | None = None) -> None:
        """No more metrics of the last round will come: it becomes part of the run. ``sent``: the next one's model."""
        metrics, self._metrics = self._metrics, {}
        self._behind.submit(lambda: self._append(metrics, sent), large=False)
        self._tell_error()

    def finish(self) -> None:
        """Ends the last round and returns when all of it is written; training may go on afterwards."""
        self.end_round()
        self._behind.wait()
        self._tell_error()

    def release(self) -> None:
        """The training has ended: its last round is written, and the folder may be recorded into by another one."""
        self.finish()
        if self._recorder is not None:
            self._recorder.close()
            self._released = True

    def _tell_error(self) -> None:
        error, self._behind.error = self._behind.error, None
        if error is not None and self._raise:
            raise error

    def bundle(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Zips what was recorded into one ``.flrun`` file."""
        self.finish()
        if self._recorder is None:
            raise SettingsError(f"{self.path}: no round has been recorded yet")
        return self._recorder.bundle(path)

    def close(self) -> None:
        """Writes what is still to be written and lets go of the run's folder."""
        atexit.unregister(self.close)
        self.release()

    def _tell_of(self, waited: float) -> None:
        if waited >= WORTH_SAYING:
            logger.warning("%s: recording is slower than training, which waited %.1f s for it", self.path, waited)

    def _open(self, arrays: Arrays, clients: Sequence[Client]) -> None:
        """Opens the run, or goes on with it; a folder that holds something else is left alone for one beside it."""
        wanted = self.path
        for number in count(2):
            try:
                self._recorder = self._opened(arrays, clients)
                return
            except RunLogError as refused:
                code = refused.problems[0].code
                if code not in _OTHER_FOLDERS or (code == "E_SHAPE" and not (self.path / MANIFEST).exists()):
                    raise
                self.path = wanted.with_name(f"{wanted.name}-{number}")
                logger.warning("%s; recording into %s instead", refused, self.path)

    def _name_the_base(self, arrays: Arrays) -> None:
        """Tensors of the module that are not sent; where others are sent, the module is another one, and is refused."""
        if all(name in self._tensors for name, array in arrays.items() if array.dtype.kind == "f"):
            self._options["frozen"] = {n: tensor for n, tensor in self._tensors.items() if n not in arrays} or None
        self._tensors = {}

    def _refuse_unreadable(self, arrays: Arrays) -> None:
        """Before anybody trains, also where nobody is known yet: what no reader would take."""
        options = {name: option for name, option in self._options.items() if name != "durable"}
        opening_of(clients=[("anybody", 1)], parameters=arrays, initial=arrays, **options)

    def _opened(self, arrays: Arrays, clients: Sequence[Client]) -> RunRecorder:
        goes_on = (self.path / MANIFEST).exists()
        known = list(clients)
        names = [name for name, array in arrays.items() if array.dtype.kind == "f"]
        if goes_on:  # by now the server may have averaged whole-number counters into floats: ask the log
            recorded = json.loads((self.path / MANIFEST).read_bytes())
            names = [p["name"] for p in recorded["parameters"] if p["name"] in arrays]
            known = [Client(c["id"], c["data_size"]) for c in recorded["clients"]]
        floats = {name: arrays[name] for name in names}
        recorder = RunRecorder(
            self.path,
            clients=known,
            parameters=[(name, array.shape) for name, array in floats.items()],
            initial=floats,
            source=self._source,
            created=None if goes_on else datetime.now(UTC).isoformat(timespec="seconds"),
            **self._options,
        )
        if not recorder.goes_on_from(floats):
            recorder.close()
            found = f"{recorder.next_epoch - 1} rounds that ended with another model"
            raise refusal("E_OTHER_RUN", str(self.path), found)
        for client in clients if goes_on else ():
            if client.id not in {k.id for k in known}:
                recorder.add_client(client.id, client.data_size)
        return recorder

    # ---- from here on in the writing thread

    def _record(self, finished: FinishedRound) -> None:
        """Stores a round; whatever goes wrong is logged, and the round becomes a gap."""
        try:
            self._store(finished)
        except Exception as error:  # broad: nothing of the recording (disk, shapes, names) may end the training
            logger.exception("%s: round %d could not be recorded; training goes on", self.path, finished.number)
            self._behind.error = error
            self._store_gap(finished, f"round {finished.number}: {type(error).__name__}: {error}"[:LONGEST_REASON])

    def _store_gap(self, finished: FinishedRound, reason: str) -> None:
        """A line that says why this round has no updates, with the server's model, from which the next one starts."""
        recorder = self._recorder
        self._lost = reason
        if recorder is None:
            return
        try:
            told: EpochOptions = {"global_model": _part(finished.model, recorder), "gap": reason}
            self._keep(StoredEpoch({}, told, finished.model), recorder)
            self._lost = None
        except Exception:  # broad, as above: what kept the round from being written may keep the gap from it too
            logger.exception("%s: the gap is written with the next round", self.path)

    def _append(self, metrics: Mapping[str, float], sent: Arrays | None) -> None:
        line, stored, self._line, self._stored = self._line, self._stored, None, None
        if line is None or stored is None or self._recorder is None:
            return
        try:
            if sent is not None and stored.differs(sent, self._recorder.parameter_names):
                # Noise added around the strategy, a return to an older model: the next round starts from this one.
                told: EpochOptions = {**stored.options, "global_model": _part(sent, self._recorder)}
                line = self._recorder.store_epoch(stored.updates, **told)
            self._recorder.append_epoch(line, metrics)
        except Exception as error:  # broad, as above; the round is told as a gap with the next one
            logger.exception("%s: a round could not be recorded; training goes on", self.path)
            self._behind.error = error
            self._lost = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
            return
        self._behind.error = self._verdicts.ask(self.path) or self._behind.error

    def _store(self, finished: FinishedRound) -> None:
        for node in {r.node for r in finished.replies if r.says is not None and id_fault(r.says) is not None}:
            logger.warning("%s: node %s gave a name that can be no client's; it counts as none", self.path, node)
        clients, claims = self._identities.assign([(r.node, r.says) for r in finished.replies])
        named = dict(zip(clients, finished.replies, strict=True))
        named.pop("", None)
        counts = counts_of(named)
        if self._recorder is None:
            if not named:
                logger.warning("%s: round %d had no replies and no client is known yet", self.path, finished.number)
                return
            self._open(finished.before, [Client(c, counts.get(c, 1)) for c in sorted(named)])
            claims += self._identities.resume(_nodes_before(self.path))
        recorder = self._recorder
        assert recorder is not None
        if self._lost is not None:
            recorder.epoch({}, global_model=_part(finished.before, recorder), gap=self._lost)
            self._lost = None
        known = {c["id"]: c["data_size"] for c in recorder.manifest["clients"]}
        for client in sorted(named.keys() - known.keys()):
            known[client] = counts.get(client, 1)
            recorder.add_client(client, known[client])
        self._keep(epoch_of(finished, named, claims, known, recorder.parameter_names, self._shown), recorder)

    def _keep(self, stored: StoredEpoch, recorder: RunRecorder) -> None:
        """Writes an epoch's tensors, and its line where a crash before the next round finds it again."""
        self._line, self._stored = recorder.store_epoch(stored.updates, **stored.options), stored
        try:
            recorder.keep_line(self._line)
        except (FLContribError, OSError) as full:  # the round itself is stored, and is lost in a crash only
            logger.warning("%s", full)

    def _shown(self, node: str) -> str:
        """The client behind a node, or the node itself while nobody knows."""
        return self._identities.client_of(node) or node


def _part(arrays: Arrays, recorder: RunRecorder) -> Arrays:
    return {name: arrays[name] for name in recorder.parameter_names}


def _nodes_before(path: Path) -> dict[str, str]:
    """client → node as the recorded rounds have it."""
    nodes: dict[str, str] = {}
    for line in (path / EPOCHS).read_bytes().splitlines():
        nodes |= json.loads(line).get("source", {}).get("nodes", {})
    return nodes

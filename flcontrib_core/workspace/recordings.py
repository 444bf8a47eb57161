"""Recordings that are followed while a training writes them: one run of the workspace from its first epoch to its end.

A followed recording is an entry among the runs whose content stays in its folder, so it never becomes a second run of
the same name. When the training has ended, the whole of it is taken in as an ordinary run, and every link to the
recording leads there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from flcontrib_core.codec import decode, encode
from flcontrib_core.detection.online import ProvisionalAlert
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.runs.encoding import EPOCHS, MANIFEST
from flcontrib_core.runs.limits import MAX_JSON_BYTES
from flcontrib_core.runs.manifest import Manifest, read_manifest
from flcontrib_core.runs.problems import Findings
from flcontrib_core.runs.strict_json import parse_json
from flcontrib_core.workspace.audit_log import LogEntry
from flcontrib_core.workspace.import_run import ReadingOptions
from flcontrib_core.workspace.stored_runs import RunEntry, StoredRuns

RECORDING = "recording"
"""The kind of a run that is still being written."""
_RAISED, _ENDED, _SETTLED = "alerts-provisional", "recording-ended", "recording-settled"


class Recordings(StoredRuns):
    """The part of a workspace that follows recordings."""

    def enter_recording(self, folder: Path, name: str | None = None, nonfinite: str = "refuse") -> RunEntry:
        """The run that stands for this folder while it grows; the same one however often it is asked for.

        Raises WorkspaceError where no recording has been started there.
        """
        place = folder.expanduser().resolve()
        manifest = _manifest_of(place)
        digest = hashlib.sha256(f"{place}\0{json.dumps(manifest.files, sort_keys=True)}".encode()).hexdigest()
        entry = self.find_run(digest)
        if entry is not None:
            return entry
        reading = ReadingOptions.of("", nonfinite, ())
        described = {
            "name": name or manifest.name,
            "source": str(place),
            "kind": RECORDING,
            "clients": len(manifest.clients),
            "epochs": 0,
            "size": 0,
            "object": None,
            "companion": None,
            "family": digest,
            "reading": asdict(reading),
        }
        with self._index.write() as transaction:
            if self._run_in(transaction, digest) is None:
                self.log.append(transaction, "run-added", digest, described)
        found = self.find_run(digest)
        assert found is not None
        return found

    def say_ended(self, digest: str, by: str) -> None:
        """Notes that the training of a followed recording has ended; whoever follows it then takes all of it in."""
        self._recording(digest)
        with self._index.write() as transaction:
            self.log.append(transaction, _ENDED, digest, {"by": by.strip()})

    def is_ended(self, digest: str) -> bool:
        """Did somebody say that its training has ended?"""
        return bool(self._said(_ENDED, digest))

    def raise_provisional(self, digest: str, alerts: Iterable[ProvisionalAlert]) -> None:
        """Enters alerts of a growing recording, each once."""
        raised = [encode(ProvisionalAlert, alert)[0] for alert in alerts]
        if raised:
            with self._index.write() as transaction:
                self.log.append(transaction, _RAISED, digest, {"alerts": raised})

    def provisional_alerts(self, digest: str) -> tuple[ProvisionalAlert, ...]:
        """What was raised while this recording, or the recording that this run came from, was growing; oldest first."""
        settled = self._said(_SETTLED, digest)
        growing = [alert for entry in self._said(_RAISED, digest) for alert in entry.body["alerts"]]
        raised = settled[-1].body["raised"] if settled else growing
        return tuple(decode(ProvisionalAlert, alert) for alert in raised)

    def settle_recording(self, digest: str, became: str) -> None:
        """Lets a finished run stand for its recording, whose links lead there from now on."""
        entry = self._recording(digest)
        raised = [encode(ProvisionalAlert, alert)[0] for alert in self.provisional_alerts(digest)]
        with self._index.write() as transaction:
            self.log.append(transaction, _SETTLED, became, {"recording": digest, "raised": raised})
            self.log.append(transaction, "run-deleted", digest, {"name": entry.name, "kept": [], "became": became})

    def settled_as(self, beginning: str) -> RunEntry | None:
        """The run that a recording became, by the beginning of the recording's digest; None where there is none."""
        ended = [e for e in self.log.entries("run-deleted") if e.subject.startswith(beginning) and "became" in e.body]
        return self.find_run(ended[-1].body["became"]) if beginning and ended else None

    def _recording(self, digest: str) -> RunEntry:
        entry = self.find_run(digest)
        if entry is None or entry.kind != RECORDING:
            raise WorkspaceError(f"{digest[:12]}… is no recording that is followed in {self.path}")
        return entry

    def _said(self, kind: str, digest: str) -> tuple[LogEntry, ...]:
        rows = self._index.read(
            "SELECT entry, hash FROM standing WHERE kind = ? AND subject = ? ORDER BY sequence", (kind, digest)
        )
        return tuple(LogEntry.of(row) for row in rows)


def recorder_at_work(folder: Path) -> bool:
    """Does a recorder on this machine hold the folder open? A training that was killed does not."""
    try:
        with (folder / EPOCHS).open("rb") as text:
            fcntl.flock(text, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _manifest_of(folder: Path) -> Manifest:
    """The manifest with which a recorder began; refused in words where there is none."""
    if not (folder / MANIFEST).is_file():
        there = "holds no recording yet: start the training first" if folder.is_dir() else "is no folder"
        raise WorkspaceError(f"{folder} {there}")
    findings = Findings()
    with (folder / MANIFEST).open("rb") as file:
        content = parse_json(file.read(MAX_JSON_BYTES + 1), MANIFEST)
    manifest = read_manifest(content, folder.name, findings)
    findings.raise_errors()
    assert manifest is not None
    return manifest

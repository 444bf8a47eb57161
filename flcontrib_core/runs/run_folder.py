"""The folder a recorder writes into: files that are absent or whole, an appended text, one recorder at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from flcontrib_core.errors import FileNotWritten
from flcontrib_core.runs import encoding
from flcontrib_core.runs.encoding import EPOCHS, INITIAL, MANIFEST, MODEL, VALIDATION
from flcontrib_core.runs.problems import refusal

_PARTIAL = ".partial"
_KEPT = ".next-epoch.json"
"""Hidden, so that no reader looks at it."""
logger = logging.getLogger("flcontrib")


@contextmanager
def _named_fault(path: Path) -> Iterator[None]:
    """What the system refuses has a name of ours, and says what still holds."""
    try:
        yield
    except OSError as fault:
        raise FileNotWritten(
            f"{path} cannot be written: {fault.strerror or fault}; every epoch before is whole. Free some space "
            "or mend the disk, then record the epoch again: a recorder opened on the folder goes on at its end"
        ) from fault


class RunFolder:
    """An open run folder; ``durable=False`` skips the syncs."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path = path
        self._durable = durable
        self._log: BinaryIO | None = None

    @property
    def is_open(self) -> bool:
        return self._log is not None

    @property
    def holds_a_run(self) -> bool:
        return (self.path / MANIFEST).exists()

    def require_room(self, size: int) -> None:
        """Refuses a disk that could not take this many bytes: better before the training than in its first epoch."""
        place = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if (free := shutil.disk_usage(place).free) < size:
            raise refusal("E_FILE_SIZE:disk", str(self.path), f"{free} bytes free", f"{size} for an update and a model")

    def claim(self) -> None:
        """Opens the folder for one recorder: an empty or new one, or one that holds a run."""
        with _named_fault(self.path):
            self._claim()

    def _claim(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise refusal("E_NOT_EMPTY", str(self.path), "a file of this name")
        if not self.holds_a_run:
            (self.path / "epochs").mkdir(parents=True, exist_ok=True)
            ours = {"epochs", EPOCHS, INITIAL, MODEL, VALIDATION}
            strangers = [f.name for f in self.path.iterdir() if f.name not in ours and not f.name.endswith(_PARTIAL)]
            if strangers:
                raise refusal(
                    "E_NOT_EMPTY", str(self.path), f"a folder with other files ({', '.join(sorted(strangers)[:3])})"
                )
        log = (self.path / EPOCHS).open("ab", buffering=0)
        _claim(log, self.path)
        self._log = log

    def close(self) -> None:
        """Lets go of the folder."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def tell_goes_on(self, epoch: int) -> None:
        """Somebody who runs a script twice should know that its epochs are added to those of the first time."""
        logger.warning("%s goes on at epoch %d: train on from last_model(), or record elsewhere", self.path, epoch)

    def remove_leftovers(self) -> None:
        """Removes what a crash left half written."""
        for leftover in [*self.path.glob(f".*{_PARTIAL}"), *self.path.glob(f"epochs/.*{_PARTIAL}")]:
            leftover.unlink()

    def write(self, name: str, pieces: Iterable[encoding.Piece]) -> str:
        """Temporary name, sync, rename: the file is either absent or whole. Returns the sha256 of its content."""
        with _named_fault(self.path / name):
            return self._write(self.path / name, pieces)

    def _write(self, target: Path, pieces: Iterable[encoding.Piece]) -> str:
        partial = target.with_name(f".{target.name}{_PARTIAL}")
        digest = hashlib.sha256()
        try:
            with partial.open("wb") as out:
                for piece in pieces:
                    digest.update(piece)
                    out.write(piece)
                if self._durable:
                    out.flush()
                    os.fsync(out.fileno())
            partial.replace(target)
        except BaseException:  # raised again, whatever it is
            partial.unlink(missing_ok=True)
            raise
        self._sync(target.parent)
        return digest.hexdigest()

    def keep_line(self, line: Mapping[str, Any]) -> None:
        """Keeps the line of an epoch whose tensors are stored, until it is appended: a crash may come before that."""
        self.write(_KEPT, [encoding.json_bytes(line, strict=False)])

    def kept_line(self, epoch: int) -> dict[str, Any] | None:
        """The line of this epoch that a crash left behind, if its tensors are there as they were stored."""
        kept = self.path / _KEPT
        line: dict[str, Any] = json.loads(kept.read_bytes()) if kept.exists() else {}
        if line.get("epoch") != epoch:
            return None
        stored = self.path / line["file"] if "file" in line else None
        if stored is not None and (not stored.exists() or encoding.sha256(stored.read_bytes()) != line["sha256"]):
            return None
        return line

    def forget_line(self) -> None:
        """The epoch's line stands in the log."""
        (self.path / _KEPT).unlink(missing_ok=True)

    def append(self, line: bytes) -> None:
        """Appends a line to epochs.jsonl, or nothing of it."""
        with _named_fault(self.path / EPOCHS):
            self._append(line)

    def _append(self, line: bytes) -> None:
        assert self._log is not None
        before = (self.path / EPOCHS).stat().st_size
        try:
            if self._log.write(line) != len(line):
                raise OSError(errno.ENOSPC, "the disk took only part of the epoch's line", str(self.path / EPOCHS))
            if self._durable:
                os.fsync(self._log.fileno())
        except OSError:
            self.truncate(before)  # a full disk must not leave half a line behind
            raise

    def truncate(self, size: int) -> None:
        """Cuts epochs.jsonl."""
        os.truncate(self.path / EPOCHS, size)

    def _sync(self, path: Path) -> None:
        """Makes a rename (of a folder's entry) or a file's content survive a power cut, where the system can."""
        if self._durable and os.name == "posix":
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _claim(log: BinaryIO, path: Path) -> None:
    """Keeps a second recorder out of the same run, where the system has advisory locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.close()
        raise refusal("E_IN_USE", str(path), "another recorder at work") from None

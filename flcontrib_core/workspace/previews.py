"""What can a page show of a job that is still at work?

A job leaves what it has so far beside its status, as one small file that is replaced as a whole. It is no result: it
has no digest, no entry in the log, and nothing is lost with it, so a damaged one simply does not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from flcontrib_core.workspace.disk import Staging
from flcontrib_core.workspace.faults import storage_faults
from flcontrib_core.workspace.objects import pack_record, unpack_record

_NAME = "preview"
_DIGEST_BYTES = 32


class Previews:
    """The unfinished reports of a workspace's jobs, by job."""

    def __init__(self, folder: Path, staging: Staging) -> None:
        self._folder = folder
        self._staging = staging

    def wanted(self, job_id: str) -> bool:
        """Is this a job of the workspace? A computation outside of one has nobody who would look."""
        return (self._folder / job_id).is_dir()

    def keep(self, job_id: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Replaces what was there."""
        content = pack_record({"kind": _NAME}, arrays)
        with storage_faults(self._folder):
            self._staging.write_file(self._folder / job_id / _NAME, hashlib.sha256(content).digest() + content)

    def stamp(self, job_id: str) -> str | None:
        """Changes when the preview does; None while there is none. Cheap enough to be asked every second."""
        try:
            status = (self._folder / job_id / _NAME).stat()
        except FileNotFoundError:
            return None
        return f"{status.st_mtime_ns:x}-{status.st_ino:x}"

    def load(self, job_id: str) -> dict[str, np.ndarray] | None:
        """The arrays; None where there are none, or not the ones that were kept."""
        try:
            content = (self._folder / job_id / _NAME).read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
            return None
        return unpack_record(content[_DIGEST_BYTES:])[1]

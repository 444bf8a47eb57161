"""Packs a run's folder into one ``.flrun`` file.

The same files always give the same bytes: names sorted, one fixed time, no trace of the machine. The file appears
under its name only when it is whole.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from flcontrib_core.runs.limits import BOMB_FLOOR, MAX_WRITTEN_RATIO

EPOCH_OF_ZIP = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip entry can carry."""
PIECE = 1 << 20


def write_bundle(folder: str | Path, names: Iterable[str], target: str | Path, *, compress: bool = True) -> Path:
    """Zips these files of ``folder`` (names with forward slashes) into ``target``."""
    folder, target = Path(folder), Path(target)
    partial = target.with_name(f".{target.name}.partial")
    with partial.open("wb") as file, zipfile.ZipFile(file, "w") as bundle:
        for name in sorted(names):
            entry = zipfile.ZipInfo(name, date_time=EPOCH_OF_ZIP)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            source = folder / name
            entry.compress_type = zipfile.ZIP_DEFLATED if compress and _may_deflate(source) else zipfile.ZIP_STORED
            large = source.stat().st_size >= 2**31
            with source.open("rb") as content, bundle.open(entry, "w", force_zip64=large) as out:
                shutil.copyfileobj(content, out, PIECE)
        bundle.close()
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)
    return target


def _may_deflate(source: Path) -> bool:
    """Would the reader take it for a bomb? Numbers that pack so well (zeros, a pattern) are stored as they are."""
    if source.stat().st_size <= BOMB_FLOOR:
        return True
    packer = zlib.compressobj()
    packed = 0
    with source.open("rb") as content:
        while piece := content.read(PIECE):
            packed += len(packer.compress(piece))
    return source.stat().st_size <= MAX_WRITTEN_RATIO * (packed + len(packer.flush()))

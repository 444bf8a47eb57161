"""Zip archives written field by field, so that any of their claims can be made false."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from tests.corpus.good_logs import Files


@dataclass
class Entry:
    """One entry; None = the honest value."""

    name: bytes
    content: bytes
    method: int = 0
    flags: int = 0x800
    mode: int = 0o100644
    crc: int | None = None
    size: int | None = None
    compressed: int | None = None
    central_size: int | None = None
    """A size that only the directory claims."""
    extra: bytes = b""
    offset: int | None = None
    """Where the directory says the entry begins."""
    data: bytes | None = None
    """The stored bytes, where they are not simply the content stored or deflated."""
    hidden: bytes = b""
    """Bytes between this entry and the next that nobody declares."""
    local: bool = True
    """False = in the directory only, with no header or data of its own."""
    at: int = field(default=0, init=False)

    def stored(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.method != 8:
            return self.content
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(self.content) + packer.flush()

    def fields(self) -> tuple[int, int, int]:
        stored = self.stored()
        return (
            zlib.crc32(self.content) if self.crc is None else self.crc,
            len(stored) if self.compressed is None else self.compressed,
            len(self.content) if self.size is None else self.size,
        )


def entries_of(files: Files, method: int = 0) -> list[Entry]:
    return [Entry(name.encode(), content, method) for name, content in files.items()]


def write_zip(entries: list[Entry], count: int | None = None, comment: bytes = b"", prefix: bytes = b"") -> bytes:
    out = bytearray(prefix)
    for entry in entries:
        if not entry.local:
            continue
        entry.at = len(out)
        crc, compressed, size = entry.fields()
        out += struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, entry.flags, entry.method, 0, 0x21, crc, compressed, size, len(entry.name), 0
        )
        out += entry.name + entry.stored() + entry.hidden
    start = len(out)
    for entry in entries:
        crc, compressed, size = entry.fields()
        size = size if entry.central_size is None else entry.central_size
        out += struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2",
            (3 << 8) | 20,
            20,
            entry.flags,
            entry.method,
            0,
            0x21,
            crc,
            compressed,
            size,
            len(entry.name),
            len(entry.extra),
            0,
            0,
            0,
            entry.mode << 16,
            entry.at if entry.offset is None else entry.offset,
        )
        out += entry.name + entry.extra
    total = len(entries) if count is None else count
    out += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, total, total, len(out) - start, start, len(comment)) + comment
    return bytes(out)

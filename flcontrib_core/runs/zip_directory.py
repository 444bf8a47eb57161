"""Checks a zip file by its own directory, before any content is read.

Python's zipfile trusts the directory: overlapping entries expand 17 kB to gigabytes, and with duplicate names two
readers see two manifests. So the end record, the central directory and every local header are parsed and compared
here; what is accepted is a plain archive in which each byte belongs to at most one entry.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from itertools import pairwise

from flcontrib_core.errors import Problem, RunLogError
from flcontrib_core.runs.containers import folded, name_fault
from flcontrib_core.runs.limits import BOMB_FLOOR, MAX_DIRECTORY_BYTES, MAX_ENTRIES, MAX_RATIO, most_expanded
from flcontrib_core.runs.problems import MAX_PROBLEMS, problem, refusal, shown

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_DESCRIPTOR = 0x8
_PATCHED = 0x20
_UTF8_NAME = 0x800
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_STORED, _DEFLATED = 0, 8


@dataclass(frozen=True)
class ZipEntry:
    """One file of an archive, as its directory declares it."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    mode: int
    header_offset: int
    data_offset: int = 0

    @property
    def end(self) -> int:
        """The first byte after the entry's data."""
        return self.data_offset + self.compressed

    @property
    def is_directory(self) -> bool:
        """Is it a folder, which holds nothing?"""
        return self.name.endswith("/")


def read_zip_directory(handle: int, size: int) -> dict[str, ZipEntry]:
    """The entries of the zip file behind this descriptor, by name; ``RunLogError`` with every fault found."""
    directory_offset, directory_size, declared = _find_directory(handle, size)
    entries, faults = _read_central(_read_at(handle, directory_offset, directory_size), declared)
    located: list[ZipEntry] = []
    for entry in entries:
        faults += _entry_faults(entry)
        found = _locate_data(handle, entry, directory_offset, faults)
        if found is not None:
            located.append(found)
        if len(faults) >= MAX_PROBLEMS:
            break
    # What two entries do to each other first: it explains most of what is then wrong with each.
    problems = _overlap_faults(located) + _duplicate_faults(entries) + _expansion_faults(entries, size) + faults
    problems += _gap_faults(handle, located, directory_offset)
    if problems:
        raise RunLogError(tuple(problems[:MAX_PROBLEMS]))
    return {entry.name: entry for entry in located if not entry.is_directory}


def _read_at(handle: int, offset: int, count: int) -> bytes:
    data = os.pread(handle, count, offset)
    if len(data) != count:
        raise refusal("E_ZIP", f"offset {offset}", "the end of the file", f"{count} bytes")
    return data


def _find_directory(handle: int, size: int) -> tuple[int, int, int]:
    """Offset, size and entry count of the central directory."""
    tail_length = min(size, _END.size + _FULL16)
    tail = _read_at(handle, size - tail_length, tail_length)
    ends = []
    at = tail.rfind(b"PK\5\6")
    while at >= 0:
        if at + _END.size <= len(tail) and at + _END.size + _END.unpack_from(tail, at)[7] == len(tail):
            ends.append(at)
        at = tail.rfind(b"PK\5\6", 0, at)
    if not ends:
        begins = tail_length >= 4 and os.pread(handle, 4, 0) in (b"PK\3\4", b"PK\5\6")
        found = "no end record: the file is cut off or damaged" if begins else "not a zip file"
        raise refusal("E_ZIP", "archive", found, "a run directory, a .flrun zip, a CSV or Parquet table")
    if len(ends) > 1:
        raise refusal("E_ZIP", "archive", "two end records", "one, so that all readers see the same files")
    end_offset = size - tail_length + ends[0]
    _, disk, start_disk, here, total, directory_size, offset, _ = _END.unpack_from(tail, ends[0])
    end = end_offset
    if end_offset >= _END64_LOCATOR.size:
        locator = _read_at(handle, end_offset - _END64_LOCATOR.size, _END64_LOCATOR.size)
        if locator.startswith(b"PK\6\7"):
            end, values = _read_end64(handle, locator, end_offset - _END64_LOCATOR.size)
            narrow = (disk, start_disk, here, total, directory_size, offset)
            for value, wide, full in zip(narrow, values, (*(4 * [_FULL16]), _FULL32, _FULL32), strict=True):
                if value not in (full, wide):
                    raise refusal("E_ZIP", "archive", "end records that disagree", "one directory")
            disk, start_disk, here, total, directory_size, offset = values
    if disk or start_disk or here != total:
        raise refusal("E_ZIP", "archive", "a part of a split archive", "one file")
    if offset + directory_size != end:
        raise refusal("E_ZIP", "archive", "a directory that does not end at its end record")
    if total > MAX_ENTRIES or directory_size > MAX_DIRECTORY_BYTES:
        raise refusal("E_ZIP_ENTRIES", "archive", f"{total} entries, directory of {directory_size} bytes")
    return offset, directory_size, total


def _read_end64(handle: int, locator: bytes, locator_offset: int) -> tuple[int, tuple[int, ...]]:
    _, _, offset, disks = _END64_LOCATOR.unpack(locator)
    if disks > 1 or offset + _END64.size > locator_offset:
        raise refusal("E_ZIP", "archive", "a zip64 end record outside the file")
    signature, length, _, _, *values = _END64.unpack(_read_at(handle, offset, _END64.size))
    if signature != b"PK\6\6" or offset + 12 + length != locator_offset:
        raise refusal("E_ZIP", "archive", "a broken zip64 end record")
    return offset, tuple(values)


def _read_central(data: bytes, declared: int) -> tuple[list[ZipEntry], list[Problem]]:
    entries: list[ZipEntry] = []
    problems: list[Problem] = []
    at = 0
    while at < len(data):
        if at + _CENTRAL.size > len(data) or not data.startswith(b"PK\1\2", at):
            raise refusal("E_ZIP", f"directory entry {len(entries) + 1}", "no entry header", "a whole directory")
        (_, _, _, flags, method, _, _, crc, compressed, size, name_length, extra_length, comment_length, disk, _,
         attributes, offset) = _CENTRAL.unpack_from(data, at)  # fmt: skip
        at += _CENTRAL.size
        raw_name = data[at : at + name_length]
        extra = data[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment_length
        if at > len(data) or disk not in (0, _FULL16):
            raise refusal("E_ZIP", f"directory entry {len(entries) + 1}", "an entry cut off", "a whole directory")
        name = _decode_name(raw_name, flags, problems)
        fields = _extra_fields(extra, name)
        size, compressed, offset = _widen(fields.get(1, b""), (size, compressed, offset), name)
        if 0x7075 in fields and fields[0x7075][5:] != raw_name:
            problems.append(_name_problem(name, "a second name in an extra field", "one name per entry"))
        entries.append(ZipEntry(name, raw_name, flags, method, crc, compressed, size, attributes >> 16, offset))
        if len(entries) > MAX_ENTRIES:
            raise refusal("E_ZIP_ENTRIES", "archive", "more entries than declared", f"at most {MAX_ENTRIES}")
    if len(entries) != declared:
        raise refusal("E_ZIP", "archive", f"{len(entries)} entries", f"the declared {declared}")
    return entries, problems


def _decode_name(raw: bytes, flags: int, problems: list[Problem]) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8_NAME else "cp437")
    except UnicodeDecodeError:
        name = raw.decode("utf-8", "backslashreplace")
        problems.append(_name_problem(name, "bytes that are not UTF-8", "UTF-8 names"))
        return name


def _extra_fields(extra: bytes, name: str) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if at + 4 + length > len(extra) or tag in fields:
            raise refusal("E_ZIP", shown(name), "broken extra fields", "whole extra fields, each once")
        fields[tag] = extra[at + 4 : at + 4 + length]
        at += 4 + length
    return fields


def _widen(extra: bytes, values: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Replace each saturated 32-bit value by the next 64-bit one of the zip64 field."""
    wide: list[int] = []
    at = 0
    for value in values:
        if value == _FULL32:
            if at + 8 > len(extra):
                raise refusal("E_ZIP", shown(name), "a zip64 entry without its sizes", "the zip64 field")
            value = struct.unpack_from("<Q", extra, at)[0]
            at += 8
        wide.append(value)
    return tuple(wide)


def _entry_faults(entry: ZipEntry) -> list[Problem]:
    """What is wrong with one entry as the directory describes it?"""
    problems: list[Problem] = []
    where = shown(entry.name)
    if (wanted := name_fault(entry.name)) is not None:
        problems.append(_name_problem(entry.name, "an unsafe name", wanted))
    kind = stat.S_IFMT(entry.mode)
    wrong_kind = kind not in (0, stat.S_IFDIR if entry.is_directory else stat.S_IFREG)
    if wrong_kind or (entry.is_directory and entry.size):
        problems.append(problem("E_ZIP_TYPE", where, "a link, device, pipe or folder with content"))
    if entry.flags & _ENCRYPTED:
        problems.append(problem("E_ZIP_ENC", where, "an encrypted entry"))
    elif entry.method not in (_STORED, _DEFLATED) or entry.flags & _PATCHED:
        problems.append(problem("E_ZIP_METHOD", where, f"method {entry.method}"))
    elif entry.method == _STORED and entry.compressed != entry.size:
        problems.append(
            _lie(entry, f"{entry.compressed} stored bytes declared as {entry.size}", "one size for a stored entry")
        )
    return problems


def _locate_data(handle: int, entry: ZipEntry, limit: int, problems: list[Problem]) -> ZipEntry | None:
    """The entry with the offset of its data, its local header compared with the directory."""
    if entry.header_offset + _LOCAL.size > limit:
        problems.append(_lie(entry, f"a header at {entry.header_offset}", f"an offset inside the first {limit} bytes"))
        return None
    header = _read_at(handle, entry.header_offset, _LOCAL.size)
    signature, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = _LOCAL.unpack(header)
    if signature != b"PK\3\4":
        problems.append(_lie(entry, "no entry at the declared offset", "a local header"))
        return None
    data_offset = entry.header_offset + _LOCAL.size + name_length + extra_length
    if data_offset + entry.compressed > limit:
        problems.append(_lie(entry, f"{entry.compressed} declared bytes", "data that ends before the directory"))
        return None
    rest = _read_at(handle, entry.header_offset + _LOCAL.size, name_length + extra_length)
    extra = _extra_fields(rest[name_length:], entry.name).get(1, b"")
    size, compressed = _widen(extra, (size, compressed), entry.name)
    if (rest[:name_length], method, flags & _ENCRYPTED) != (entry.raw_name, entry.method, entry.flags & _ENCRYPTED):
        problems.append(_lie(entry, "a local header with another name or method", "headers that agree"))
    elif flags & _DESCRIPTOR != entry.flags & _DESCRIPTOR:
        problems.append(_lie(entry, "a local header with other flags", "headers that agree"))
    else:
        real = (entry.crc, entry.compressed, entry.size)
        # With a trailing descriptor the local header may leave all three open.
        if (crc, compressed, size) != real and not (flags & _DESCRIPTOR and not (crc or compressed or size)):
            found = f"sizes {entry.compressed}/{entry.size} in the directory, {compressed}/{size} at the entry"
            problems.append(_lie(entry, found, "headers that agree"))
    return ZipEntry(**{**entry.__dict__, "data_offset": data_offset})


def _duplicate_faults(entries: list[ZipEntry]) -> list[Problem]:
    problems: list[Problem] = []
    first: dict[str, str] = {}
    for entry in entries:
        key = folded(entry.name)
        if key in first:
            problems.append(problem("E_ZIP_DUP", shown(entry.name), f"the same name as {shown(first[key])}"))
        first.setdefault(key, entry.name)
    # Where the slash comes before every other sign, what lies in a folder follows it: no name is looked at twice.
    ordered = sorted(first, key=lambda key: key.replace("/", "\0"))
    for key, following in pairwise(ordered):
        # A name with a slash at its end is the folder itself, as zip tools list it.
        if following.startswith(f"{key}/") and not first[key].endswith("/"):
            problems.append(problem("E_ZIP_DUP", shown(first[key]), "a file with the name of a folder"))
    return problems


def _overlap_faults(entries: list[ZipEntry]) -> list[Problem]:
    """Does any byte belong to two entries?"""
    problems: list[Problem] = []
    furthest: ZipEntry | None = None
    for entry in sorted(entries, key=lambda e: (e.header_offset, e.end)):
        if furthest is not None and entry.header_offset < furthest.end:
            found = f"bytes shared with {shown(furthest.name)}"
            problems.append(problem("E_ZIP_OVERLAP", shown(entry.name), found))
        if furthest is None or entry.end > furthest.end:
            furthest = entry
    return problems


def _gap_faults(handle: int, entries: list[ZipEntry], limit: int) -> list[Problem]:
    """Does every byte before the directory belong to an entry (or to the descriptor that it announces)?"""
    ordered = sorted(entries, key=lambda e: e.header_offset)
    begins = [entry.header_offset for entry in ordered] + [limit]
    problems: list[Problem] = []
    if begins[0] > 0:
        problems.append(problem("E_ZIP", "archive", f"{begins[0]} bytes before the first entry", "none"))
    for entry, following in zip(ordered, begins[1:], strict=True):
        gap = following - entry.end
        if gap >= 0 and not _descriptor_fills(handle, entry, gap):
            expected = "declared sizes that are the real ones"
            problems.append(_lie(entry, f"{gap} bytes after its declared end", expected))
    return problems


def _descriptor_fills(handle: int, entry: ZipEntry, gap: int) -> bool:
    """Is the gap after an entry empty, or exactly the data descriptor that its flag announces?"""
    if not entry.flags & _DESCRIPTOR:
        return gap == 0
    if gap not in (12, 16, 20, 24):
        return False
    data = _read_at(handle, entry.end, gap)
    if gap in (16, 24):
        if not data.startswith(b"PK\7\10"):
            return False
        data = data[4:]
    found: tuple[int, ...] = struct.unpack("<3L" if len(data) == 12 else "<LQQ", data)
    return found == (entry.crc, entry.compressed, entry.size)


def _expansion_faults(entries: list[ZipEntry], archive_size: int) -> list[Problem]:
    problems = [
        _bomb(shown(entry.name), entry.size, entry.compressed)
        for entry in entries
        if entry.size > BOMB_FLOOR and entry.size > MAX_RATIO * max(entry.compressed, 1)
    ]
    total = sum(entry.size for entry in entries)
    if not problems and total > BOMB_FLOOR and total > MAX_RATIO * archive_size:
        problems.append(_bomb("archive", total, archive_size))
    inflated = sum(entry.size for entry in entries if entry.method != _STORED)
    if not problems and inflated > (most := most_expanded(archive_size)):
        found = f"{archive_size} bytes that become {inflated}"
        problems.append(problem("E_ZIP_BOMB:all", "archive", found, f"at most {most} for its size"))
    return problems


def _bomb(where: str, size: int, compressed: int) -> Problem:
    found = f"{compressed} bytes that become {size}"
    return problem("E_ZIP_BOMB", where, found, f"at most {MAX_RATIO} times as many")


def _lie(entry: ZipEntry, found: str, expected: str) -> Problem:
    return problem("E_ZIP_LIE", shown(entry.name), found, expected)


def _name_problem(name: str, found: str, expected: str) -> Problem:
    return problem("E_ZIP_NAME", shown(name), found, expected)

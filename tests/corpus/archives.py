"""Archives that are not what they claim to be (rows 1–13), and directories with the same ideas."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.corpus.cases import Write, add, bundle, directory, edited, file
from tests.corpus.good_logs import Files, LogWriter, rehash, sha256, write_directory, zipped
from tests.corpus.raw_zip import Entry, entries_of, write_zip


def _good() -> Files:
    return LogWriter().files()


def _crafted(change: Callable[[list[Entry]], object], method: int = 0) -> Write:
    def build() -> bytes:
        entries = entries_of(_good(), method)
        change(entries)
        return write_zip(entries)

    return file(build)


def _find(entries: list[Entry], name: str) -> Entry:
    return next(entry for entry in entries if entry.name == name.encode())


def register() -> None:
    _not_an_archive()
    _damage()
    _names_and_types()
    _bombs_and_overlaps()
    _lies_and_methods()
    _directories()


def _not_an_archive() -> None:
    add(1, "empty file", file(b""), "E_ZIP", names="not a zip")
    add(1, "PDF renamed to .zip", file(b"%PDF-1.7\n" + b"x" * 4000, ".zip"), "E_ZIP", names="not a zip")
    add(1, "end record only", file(b"PK\5\6" + bytes(18)), "E_MISSING")
    add(1, "end record twice", file(lambda: write_zip(entries_of(_good()), comment=b"PK\5\6" + bytes(18))), "E_ZIP")
    add(1, "bytes before the archive", file(lambda: b"#!/bin/sh\n" + zipped(_good())), "E_ZIP")
    add(1, "entries start late", file(lambda: write_zip(entries_of(_good()), prefix=b"#!/bin/sh\n")), "E_ZIP")
    add(2, "cut at half", file(lambda: zipped(_good())[: len(zipped(_good())) // 2]), "E_ZIP")
    add(2, "last byte missing", file(lambda: zipped(_good())[:-1]), "E_ZIP")
    add(2, "directory shorter than declared", file(lambda: write_zip(entries_of(_good()), count=3)), "E_ZIP")


def _flipped(entry: str, distance: int) -> Write:
    """One bit turned over in a stored entry, that many bytes into its content."""

    def build() -> bytes:
        files = _good()
        archive = bytearray(zipped(files, zipfile.ZIP_STORED))
        at = archive.index(files[entry]) + (distance if distance >= 0 else len(files[entry]) + distance)
        archive[at] ^= 0x10
        return bytes(archive)

    return file(build)


def _damage() -> None:
    epoch = "epochs/00002.safetensors"
    add(3, "bit flipped in updates", _flipped(epoch, -5), "E_ZIP_DATA", names=epoch)
    add(3, "bit flipped in a tensor header", _flipped(epoch, 12), "E_ZIP_DATA", names=epoch)
    add(3, "bit flipped in a header length", _flipped(epoch, 1), "E_ZIP_DATA", names=epoch)
    add(3, "bit flipped in the manifest", _flipped("manifest.json", 30), "E_ZIP_DATA", names="manifest.json")
    add(3, "bit flipped in the epoch lines", _flipped("epochs.jsonl", 3), "E_ZIP_DATA", names="epochs.jsonl")

    def torn(entries: list[Entry]) -> None:
        entry = _find(entries, epoch)
        entry.data = entry.stored()[:-40] + b"\xff" * 40

    add(3, "deflated data overwritten", _crafted(torn, 8), "E_ZIP_DATA", names=epoch)


def _names_and_types() -> None:
    for name in (
        "../../x", "/etc/x", "a\\..\\b", "C:x", "epochs/../manifest2.json", "./x", "epochs//x", "x\0.json", "a\nb", "",
    ):  # fmt: skip
        extra = Entry(name.encode(), b"x")
        add(4, f"name {name!r}", _crafted(lambda entries, extra=extra: entries.append(extra)), "E_ZIP_NAME")
    add(4, "name not UTF-8", _crafted(lambda entries: entries.append(Entry(b"\xff\xfe", b""))), "E_ZIP_NAME")
    second = struct.pack("<2HBL", 0x7075, 5 + 13, 1, 0) + b"manifest.json"
    other = Entry(b"innocent.txt", b"{}", extra=second)
    add(4, "second name in an extra field", _crafted(lambda entries: entries.append(other)), "E_ZIP_NAME")
    for kind, mode in (("symlink", 0o120777), ("device", 0o020666), ("fifo", 0o010666), ("socket", 0o140777)):

        def typed(entries: list[Entry], mode: int = mode) -> None:
            _find(entries, "model.json").mode = mode

        add(5, kind, _crafted(typed), "E_ZIP_TYPE", names="model.json")
    folder = Entry(b"epochs/", b"hidden", mode=0o040755)
    add(5, "folder with content", _crafted(lambda entries: entries.append(folder)), "E_ZIP_TYPE")
    plain = Entry(b"epochs/", b"", mode=0o040755)
    add(5, "ordinary folder entry", _crafted(lambda entries: entries.insert(0, plain)))
    again = Entry(b"manifest.json", b"{}")
    add(6, "manifest twice", _crafted(lambda entries: entries.append(again)), "E_ZIP_DUP", names="manifest.json")
    upper = Entry(b"Manifest.json", b"{}")
    add(7, "manifest in another case", _crafted(lambda entries: entries.append(upper)), "E_ZIP_DUP")
    forms = [Entry("é.txt".encode(), b""), Entry("e\u0301.txt".encode(), b"")]
    add(7, "names equal after NFC", _crafted(lambda entries: entries.extend(forms)), "E_ZIP_DUP")


def _bombs_and_overlaps() -> None:
    zeros = Entry(b"zeros.bin", bytes(20 << 20), 8)
    add(8, "bomb beside the log", _crafted(lambda entries: entries.append(zeros)), "E_ZIP_BOMB", names="zeros.bin")

    def swollen() -> Files:
        files = _good()
        files["epochs/00002.safetensors"] = bytes(4 << 20)
        return files

    add(8, "bomb in the place of updates", bundle(swollen), "E_ZIP_BOMB", names="epochs/00002.safetensors")

    def many(entries: list[Entry]) -> None:
        entries.extend(Entry(f"z{i}".encode(), bytes(1 << 20), 8) for i in range(400))

    add(8, "many small bombs", _crafted(many), "E_ZIP_BOMB", names="archive")

    def same_bytes(name: bytes) -> Callable[[list[Entry]], None]:
        def change(entries: list[Entry]) -> None:
            original = entries[0]
            entries.append(Entry(name, original.content, offset=0, local=False))

        return change

    add(9, "two names for one entry", _crafted(same_bytes(b"other.json")), "E_ZIP_OVERLAP", names="other.json")
    add(9, "one entry listed twice", _crafted(same_bytes(b"manifest.json")), "E_ZIP_OVERLAP")
    add(9, "quoted entries", file(_quoted_overlap), "E_ZIP_OVERLAP")

    def into_directory(entries: list[Entry]) -> None:
        last = entries[-1]
        last.size = last.compressed = len(last.content) + 40

    add(9, "data reaching into the directory", _crafted(into_directory), "E_ZIP_LIE")


def _quoted_overlap() -> bytes:
    """A stored entry whose content is the whole next entry, header and all."""
    inner = Entry(b"inner.txt", b"y" * 100)
    packed = write_zip([inner])
    inner_bytes = packed[: packed.index(b"PK\1\2")]
    outer = Entry(b"outer.txt", inner_bytes)
    entries = [*entries_of(_good()), outer]
    archive = write_zip(entries)
    ghost = Entry(b"inner.txt", inner.content, offset=archive.index(inner_bytes), local=False)
    return write_zip([*entries, ghost])


def _lies_and_methods() -> None:
    target = "epochs/00003.safetensors"
    for words, by in (("smaller", -4), ("larger", 4)):
        for method in (0, 8):

            def everywhere(entries: list[Entry], by: int = by) -> None:
                entry = _find(entries, target)
                entry.size = len(entry.content) + by

            def directory_only(entries: list[Entry], by: int = by) -> None:
                entry = _find(entries, target)
                entry.central_size = len(entry.content) + by

            kind = "deflated" if method else "stored"
            add(10, f"{kind} size declared {words}", _crafted(everywhere, method), "E_ZIP_LIE", names=target)
            add(
                10, f"{kind} size {words} in the directory", _crafted(directory_only, method), "E_ZIP_LIE", names=target
            )

    def hidden(entries: list[Entry]) -> None:
        _find(entries, target).hidden = b"who reads this?"

    def trailing(entries: list[Entry]) -> None:
        entry = _find(entries, target)
        entry.data = entry.stored() + b"who reads this?"

    def elsewhere(entries: list[Entry]) -> None:
        _find(entries, target).offset = 7

    add(10, "bytes that no entry declares", _crafted(hidden), "E_ZIP_LIE")
    add(10, "bytes after deflated data", _crafted(trailing, 8), "E_ZIP_LIE")
    add(10, "offset without an entry", _crafted(elsewhere), "E_ZIP_LIE")
    for name, method in (("bzip2", 12), ("lzma", 14), ("zstd", 93), ("unknown", 77)):

        def packed(entries: list[Entry], method: int = method) -> None:
            _find(entries, target).method = method

        add(11, f"method {name}", _crafted(packed), "E_ZIP_METHOD", names=target)
    for name, flag in (("encrypted", 0x1), ("strong encryption", 0x41), ("masked headers", 0x2001)):

        def locked(entries: list[Entry], flag: int = flag) -> None:
            _find(entries, target).flags |= flag

        add(12, name, _crafted(locked), "E_ZIP_ENC", names=target)

    def crowd(entries: list[Entry]) -> None:
        entries.extend(Entry(f"f{i}".encode(), b"") for i in range(20_001 - len(entries)))

    add(13, "20,001 entries", _crafted(crowd), "E_ZIP_ENTRIES")

    def deep(entries: list[Entry]) -> None:
        entries.extend(Entry(f"{i}/{'a/' * 32_000}x".encode(), b"") for i in range(30))

    add(4, "thirty names thirty-two thousand folders deep", _crafted(deep), "E_ZIP_NAME")

    def nested(files: Files) -> None:
        files["epochs/00001.safetensors"] = zipped({"inner": b"x" * 500})

    def as_tensors() -> Files:
        files = _good()
        nested(files)
        return rehash(files)

    add(13, "nested zip as tensor file", bundle(as_tensors), "E_ST_HDR", names="epochs/00001.safetensors")
    add(13, "extra file", edited(lambda files: files.update({"README.txt": b"hello"})), warnings=("W_EXTRA_FILE",))
    add(13, "folder bundled instead of its content", bundle(_in_folder), "E_MISSING", names="content of that folder")
    add(13, "zip64 archive", file(_zip64))


def _in_folder() -> Files:
    return {f"run1/{name}": content for name, content in _good().items()}


def _zip64() -> bytes:
    """A good log by a writer that uses zip64 records and data descriptors everywhere."""

    class Pipe(io.RawIOBase):
        """Not seekable, so that zipfile writes descriptors."""

        def __init__(self) -> None:
            self.content = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:  # type: ignore[override]
            piece = bytes(data)  # type: ignore[call-overload]
            self.content += piece
            return len(piece)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, content in _good().items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as out:
                out.write(content)
    return bytes(pipe.content)


def _directories() -> None:
    def linked(folder: Path) -> Path:
        run = write_directory(_good(), folder / "run")
        (run / "model.json").unlink()
        os.symlink("/etc/hostname", run / "model.json")
        return run

    def linked_epochs(folder: Path) -> Path:
        run = write_directory(_good(), folder / "run")
        (run / "epochs").rename(folder / "elsewhere")
        os.symlink(folder / "elsewhere", run / "epochs")
        return run

    def piped(folder: Path) -> Path:
        run = write_directory(_good(), folder / "run")
        (run / "manifest.json").unlink()
        os.mkfifo(run / "manifest.json")
        return run

    def pipe_itself(folder: Path) -> Path:
        os.mkfifo(folder / "run.flrun")
        return folder / "run.flrun"

    def two_cases(files: Files) -> Files:
        return {**files, "Manifest.json": b"{}"}

    def long_text() -> Files:
        return {**_good(), "epochs.jsonl": b" " * (40 << 20)}

    def one_long_line() -> Files:
        return {**_good(), "epochs.jsonl": b"[" + b"1," * (6 << 20) + b"1]\n"}

    add(5, "directory with a link", linked, "E_FILE_TYPE", names="model.json")
    add(5, "directory with linked epochs", linked_epochs, "E_FILE_TYPE", names="epochs")
    add(5, "directory with a pipe", piped, "E_FILE_TYPE", names="manifest.json")
    add(5, "a pipe instead of a log", pipe_itself, "E_FILE_TYPE")
    add(7, "directory with two manifests", directory(lambda: two_cases(_good())), "E_FILE_DUP")
    add(0, "nothing at that path", lambda folder: folder / "nowhere", "E_MISSING")
    add(0, "directory without files", _empty, "E_MISSING")
    add(16, "epoch lines of 40 MB", directory(long_text), "E_FILE_SIZE", names="epochs.jsonl")
    add(16, "one epoch line of 12 MB", directory(one_long_line), "E_FILE_SIZE", names="epochs.jsonl")
    add(0, "directory as it should be", directory(_good))
    more = {".git/config": b"x", "checkpoints/notes.txt": b"x"}
    add(
        13,
        "directory with other folders",
        directory(lambda: {**_good(), **more}),
        warnings=("W_EXTRA_FILE",),
        names="1 un",
    )
    trap = {"checkpoints/last/model.pt": b"x"}
    add(
        26,
        "directory with a pickle further inside",
        directory(lambda: {**_good(), **trap}),
        "E_PICKLE",
        names="model.pt",
    )
    add(0, "stored archive as it should be", bundle(_good, zipfile.ZIP_STORED))
    add(0, "deflated archive as it should be", bundle(_good))
    add(21, "directory with a changed update", directory(_changed_update), "E_HASH", names="epochs/00002.safetensors")


def _empty(folder: Path) -> Path:
    (folder / "run").mkdir()
    return folder / "run"


def _changed_update() -> Files:
    files = _good()
    content = bytearray(files["epochs/00002.safetensors"])
    content[-1] ^= 1
    assert sha256(bytes(content)) != sha256(files["epochs/00002.safetensors"])
    assert np.isfinite(np.frombuffer(bytes(content[-4:]), "<f4")).all()
    files["epochs/00002.safetensors"] = bytes(content)
    return files

"""Turns a Parquet file into comma-separated text, as a process of its own with little memory and little time.

Arrow decodes pages at the sizes they claim, and a file of a few kilobytes may claim gigabytes. So the library never
sees an untrusted file in the process that has work to lose: this script is started by ``parquet`` with the file as
its standard input, limits itself, and writes frames (a letter, a length, that many bytes) to its standard output:

    R  a refusal: JSON [code, found, expected]        H  the columns and the number of rows, as JSON
    D  text: rows of comma-separated values           Z  all rows were written

It imports nothing of this package: its folder is not on its path, and the limits come as arguments.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

PIECE = 1 << 16
BATCH = 4096
"""Rows decoded at a time."""


class _Frames:
    """A writable file whose every write is a frame of text; Arrow's writer asks no more of it."""

    closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for begin in range(0, len(view), PIECE):
            self.send(b"D", view[begin : begin + PIECE])
        return len(view)

    def send(self, kind: bytes, payload: bytes | memoryview) -> None:
        sys.stdout.buffer.write(kind + len(payload).to_bytes(4, "big") + bytes(payload))

    def refuse(self, code: str, found: str, expected: str) -> None:
        self.send(b"R", json.dumps([code, found[:400], expected]).encode())

    def flush(self) -> None:
        sys.stdout.buffer.flush()

    def close(self) -> None:
        self.flush()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _limit(memory: int, seconds: float) -> None:
    """From here on: this much more memory, this much processor time, no file, no dump."""
    try:
        import resource
    except ImportError:  # not a POSIX system: only the caps on what the file says remain
        return
    try:
        with open("/proc/self/statm") as text:
            taken = int(text.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _lower(resource.RLIMIT_AS, taken + memory)
    except OSError:  # no /proc: the address space in use is unknown
        pass
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody listens any more: end
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the default action ends the process, whatever C++ is doing


def _lower(kind: int, wanted: int) -> None:
    import resource

    _, hard = resource.getrlimit(kind)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (limit, limit))


def _too_large(metadata: Any, limits: dict[str, int]) -> tuple[str, str] | None:
    """What the file's own directory says, compared with the caps before a page is touched."""
    rows, columns, groups = metadata.num_rows, metadata.num_columns, metadata.num_row_groups
    if columns > limits["columns"]:
        return f"{columns} columns", f"at most {limits['columns']}"
    if rows > limits["rows"] or rows * columns > limits["cells"]:
        return f"{rows} rows × {columns} columns", f"at most {limits['rows']} rows and {limits['cells']} cells"
    if groups > limits["row_groups"]:
        return f"{groups} row groups", f"at most {limits['row_groups']}"
    expanded = sum(metadata.row_group(group).total_byte_size for group in range(groups))
    if expanded > limits["expanded"]:
        return f"{expanded} bytes when expanded", f"at most {limits['expanded']}"
    return None


def _footer(file: Any) -> int:
    """The length of the file's directory, which the library reads and unpacks as a whole."""
    size = os.fstat(file.fileno()).st_size
    end = os.pread(file.fileno(), 8, size - 8) if size >= 12 else b""
    length = int.from_bytes(end[:4], "little")
    return length if end[4:] == b"PAR1" and length <= size - 12 else 0  # anything else is no Parquet file


def _kind(field: Any, pa: Any) -> Any:
    """The type a column is written as; None where it holds neither texts nor numbers."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.large_string()
    if pa.types.is_dictionary(field.type):
        return None
    if pa.types.is_integer(kind):
        return kind
    # A float32 written with the fewest digits that tell it from its neighbours would be read as another float64.
    return pa.float64() if pa.types.is_floating(kind) else None


def _epoch_numbers(column: Any, pa: Any) -> Any:
    """Epochs that a data frame kept as floating-point numbers, as the whole numbers they are."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _write(rows: Any, options: tuple[Any, Any], frames: _Frames, pa: Any) -> None:
    """A batch as text; first to memory, for a sign that has to be quoted may come late."""
    import pyarrow.csv

    for option in options:
        text = pa.BufferOutputStream()
        try:
            pyarrow.csv.write_csv(rows, text, write_options=option)
        except pa.ArrowInvalid:
            if option is options[-1]:
                raise
            continue
        frames.write(text.getvalue())
        return


def convert(limits: dict[str, int], frames: _Frames) -> None:
    """Decodes the table on standard input into frames of CSV, within the limits."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _limit(limits["memory"], limits["milliseconds"] / 1000)
    table = sys.stdin.buffer
    if (footer := _footer(table)) > limits["footer"]:
        frames.refuse("E_FILE_SIZE", f"metadata of {footer} bytes", f"at most {limits['footer']}")
        return
    try:
        # Buffered: pages are read one after the other, not a whole column at once.
        with pq.ParquetFile(table, pre_buffer=False, buffer_size=PIECE) as file:
            if (fault := _too_large(file.metadata, limits)) is not None:
                frames.refuse("E_FILE_SIZE", *fault)
                return
            schema = file.schema_arrow
            kinds = [_kind(field, pa) for field in schema]
            if None in kinds:
                odd = schema[kinds.index(None)]
                frames.refuse("E_TABLE", f"column {odd.name!r} of type {odd.type}", "texts and numbers")
                return
            frames.send(b"H", json.dumps([schema.names, file.metadata.num_rows]).encode())
            # Without quotes where there is nothing to quote: such text is cut three times as fast.
            plain = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
            quoted = pyarrow.csv.WriteOptions(include_header=False)
            for batch in file.iter_batches(batch_size=BATCH, use_threads=False):
                columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
                if "epoch" in schema.names and pa.types.is_floating(kinds[schema.names.index("epoch")]):
                    at = schema.names.index("epoch")
                    columns[at] = _epoch_numbers(columns[at], pa)
                rows = pa.Table.from_arrays(columns, names=schema.names)
                _write(rows, (plain, quoted), frames, pa)
    except (MemoryError, pa.ArrowMemoryError):
        frames.refuse("E_FILE_SIZE", "pages that take more memory", f"at most {limits['memory']} bytes at a time")
        return
    except (pa.ArrowException, OSError, UnicodeDecodeError) as bad:
        frames.refuse("E_TABLE", str(bad), "a whole Parquet file")
        return
    frames.send(b"Z", b"")


if __name__ == "__main__":
    sys.path += json.loads(sys.argv[2])
    output = _Frames()
    convert(json.loads(sys.argv[1]), output)
    output.flush()

"""Inputs that are small or honest-looking and cost a careless reader minutes or gigabytes."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from tests.corpus.cases import Write, add, bundle, changed, file
from tests.corpus.good_logs import Files, LogWriter, as_json, line, sha256
from tests.corpus.tables import UTILITIES, arrow_table, csv, parquet

HEAD, GAMES = "epoch,client,loss\n", "epoch,coalition,loss\n"
LONG = "1" * 130_000 + "x"
"""A number followed by a letter: a pattern that backtracks looks at it 130 000 times."""


def register() -> None:
    _texts()
    _text_rows()
    _parquet_pages()
    _data_sizes()
    _long_logs()
    _wide_logs()
    _texts_inside_logs()


def _large(text: Callable[[], str]) -> Write:
    return file(lambda: text().encode(), ".csv")


def _texts() -> None:
    add(0, "table: number and letter of 130 kB", csv(f"{HEAD}1,a,{LONG}\n"), "E_TABLE_VALUE")
    add(0, "table: epoch of 130 kB", csv(f"{HEAD}{LONG},a,1\n"), "E_TABLE_VALUE")
    add(0, "table: spaces of 130 kB", csv(f"{HEAD}1,a,{' ' * 130_000}x\n"), "E_TABLE_VALUE")
    add(0, "table: number of a thousand digits", csv(f"{HEAD}1,a,{'1' * 1000}\n"), "E_TABLE_VALUE")
    add(0, "table: row of commas", _large(lambda: HEAD + "," * 20_000_000), "E_TABLE", names="262144")
    add(0, "table: header of commas", _large(lambda: "," * 20_000_000), "E_TABLE", names="262144")
    add(0, "table: one quoted row over many lines", _large(lambda: HEAD + '"a\n' + '","b\n' * 900_000), "E_TABLE")
    add(0, "table: quotes without end", _large(lambda: HEAD + '"' * 20_000_000), "E_TABLE")
    add(0, "table: only line breaks", _large(lambda: HEAD + "\n" * 20_000_000), "E_FILE_SIZE", names="1048576 rows")
    add(0, "table: only carriage returns", _large(lambda: HEAD + "\r" * 20_000_000), "E_FILE_SIZE")
    columns = ",".join(f"u{i}" for i in range(100))
    add(0, "table: a hundred utilities", csv(f"epoch,client,{columns}\n"), "E_TABLE", names="at most 64")


def _text_rows() -> None:
    add(0, "table: 3.9 million equal rows", _large(lambda: HEAD + "1,a,0\n" * 3_900_000), "E_FILE_SIZE")
    wide = "epoch,client," + ",".join(f"u{i}" for i in range(64)) + "\n"
    add(
        0,
        "table: 200,000 rows of 64 empty cells",
        _large(lambda: wide + "".join(f"{i // 1000 + 1},c{i % 1000}" + "," * 64 + "\n" for i in range(200_000))),
        "E_FILE_SIZE",
        names="4194304 cells",
    )
    add(0, "table: epoch 20000 alone", csv(HEAD + "20000,a,1\n"), "E_EPOCH_ORDER", names="19999")
    add(0, "table: every tenth epoch", csv(HEAD + "".join(f"{t},a,1\n" for t in range(10, 2001, 10))))
    marks = "".join(f"1,{i:05d}{'ﷺ' * 195},1\n" for i in range(20_000))
    add(0, "table: 20,000 ids of long ligatures", _large(lambda: HEAD + marks))
    members = ("1," + "a;" * 60_000 + "a,1\n") * 100
    add(0, "utility table: a coalition of 60,000", _large(lambda: GAMES + members), "E_FILE_SIZE", names="2^n")
    games = "".join(f"{t},,0\n{t},a,1\n{t},b,1\n{t},a;b,2\n" for t in range(1, 20_001))
    add(0, "utility table: 20,000 epochs", _large(lambda: GAMES + games))


def _repeated(value: str, count: int, column: str = "client") -> Callable[[], Any]:
    """A long text stored once and meant many times."""

    def build() -> Any:
        import pyarrow as pa

        texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))
        columns: dict[str, Any] = {
            "epoch": pa.array(np.ones(count, dtype=np.int64)),
            "client": pa.repeat("a", count),
            "loss": pa.array(np.zeros(count)),
        }
        return pa.table({**columns, column: texts})

    return build


def _packed(build: Callable[[], Any], **options: Any) -> Write:
    def content() -> bytes:
        import pyarrow.parquet as pq

        out = io.BytesIO()
        pq.write_table(build(), out, **options)
        return out.getvalue()

    return file(content, ".parquet")


def _parquet_pages() -> None:
    million = "x" * 1_000_000
    add(0, "parquet: dictionary bomb", _packed(_repeated(million, 1_000_000), compression="gzip"), "E_FILE_SIZE")
    add(
        0,
        "parquet: dictionary bomb without Arrow's schema",
        _packed(_repeated(million, 4000), compression="gzip", store_schema=False),
        "E_FILE_SIZE",
    )
    add(
        0,
        "parquet: dictionary bomb in a utility",
        _packed(_repeated(LONG * 7, 100_000, "loss"), compression="zstd", store_schema=False),
        "E_FILE_SIZE",
    )
    add(
        0,
        "parquet: delta-prefix bomb",
        _packed(
            arrow_table(epoch=[1] * 1500, client=[million] * 1500, loss=[0.0] * 1500),
            use_dictionary=False,
            column_encoding={"client": "DELTA_BYTE_ARRAY"},
            compression="gzip",
        ),
        "E_FILE_SIZE",
    )
    add(
        0,
        "parquet: number and letter of 130 kB",
        parquet(arrow_table(epoch=[1], client=["a"], loss=[LONG])),
        "E_TABLE_VALUE",
    )
    rows = arrow_table(epoch=[1] * 5000, client=[f"c{i}" for i in range(5000)], loss=[0.0] * 5000)
    add(0, "parquet: 5000 row groups", _packed(rows, row_group_size=1), "E_FILE_SIZE", names="4096")
    add(0, "parquet: 20,000 columns", parquet(lambda: _columns(20_000)), "E_FILE_SIZE", names="66")
    named = arrow_table(epoch=[1], client=["a"], **{"x" * 2_000_000: [1.0]})
    add(0, "parquet: a column's name of two megabytes", parquet(named), "E_FILE_SIZE")
    add(0, "parquet: long metadata", parquet(lambda: _columns(1, note="y" * 10_000_000)), "E_FILE_SIZE")


def _columns(count: int, note: str = "") -> Any:
    import pyarrow as pa

    table = pa.table({"epoch": [1], "client": ["a"], **{f"u{i}": [1.0] for i in range(count)}})
    return table.replace_schema_metadata({"note": note}) if note else table


def _data_sizes() -> None:
    def beside(suffix: str, sizes: Write, table: Write) -> Write:
        def write(folder: Path) -> Path:
            sizes(folder).rename(folder / f"input.data_sizes{suffix}")
            return table(folder)

        return write

    games = csv(UTILITIES)
    sizes = "client,data_size\n"
    add(0, "data sizes: number and letter", beside(".csv", csv(f"{sizes}a,{LONG}\n"), games), "E_TABLE_VALUE")
    add(
        0,
        "data sizes: row of commas",
        beside(".csv", _large(lambda: sizes + "," * 20_000_000), games),
        "E_TABLE",
        names="data_sizes",
    )
    add(
        0,
        "data sizes: 3.9 million rows",
        beside(".csv", _large(lambda: sizes + "a,1\n" * 3_900_000), games),
        "E_FILE_SIZE",
        names="data_sizes",
    )
    add(
        0,
        "data sizes: one client under two spellings",
        beside(".csv", csv(sizes + "\u00e9,1\ne\u0301,2\na,1\nb,1\nc,1\n"), games),
        "E_CLIENT_DUP",
    )
    bomb = _repeated("x" * 1_000_000, 4000)
    add(
        0,
        "data sizes: dictionary bomb",
        beside(
            ".parquet",
            _packed(lambda: _renamed(bomb()), compression="gzip"),
            parquet(arrow_table(epoch=[1, 1], coalition=["", "a"], loss=[0.0, 1.0])),
        ),
        "E_FILE_SIZE",
        names="data_sizes",
    )


def _renamed(table: Any) -> Any:
    return table.select(["client", "epoch"]).rename_columns(["client", "data_size"])


def packed(files: Files) -> bytes:
    """The files as one archive; what would be refused as a bomb by its own ratio is stored."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            small = len(content) < 1 << 20 or len(content) < 190 * len(zlib.compress(content))
            entry = zipfile.ZipInfo(name, date_time=(2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, compress_type=8 if small else 0)
    return buffer.getvalue()


def long_log(
    ids: list[str],
    epochs: int,
    updates: Callable[[int], np.ndarray] | None = None,
    further: Callable[[int], dict[str, Any]] = lambda epoch: {},
    present: bool = True,
) -> Files:
    """A log of a one-parameter model: what is large about it is who took part and how often."""
    files: Files = {"initial.safetensors": save({"w": np.zeros(1, dtype=np.float32)})}
    rng = np.random.default_rng(0)
    everybody = json.dumps(ids if present else [], ensure_ascii=False)
    lines = []
    for epoch in range(1, epochs + 1):
        entry: dict[str, Any] = {"epoch": epoch}
        if present:
            rows = rng.normal(size=(len(ids), 1)).astype(np.float32) if updates is None else updates(epoch)
            name = f"epochs/{epoch:05d}.safetensors"
            files[name] = save({"updates": rows})
            entry |= {"file": name, "sha256": sha256(files[name])}
        text = json.dumps(entry | further(epoch), ensure_ascii=False)
        lines.append(f'{text[:-1]}, "participants": {everybody}}}\n'.encode())
    files["epochs.jsonl"] = b"".join(lines)
    manifest = {
        "format": "flrun",
        "version": 1,
        "clients": [{"id": name, "data_size": 1} for name in ids],
        "parameters": [{"name": "w", "shape": [1]}],
        "files": {"initial.safetensors": sha256(files["initial.safetensors"])},
    }
    return {**files, "manifest.json": json.dumps(manifest, ensure_ascii=False).encode()}


def _long_logs() -> None:
    many = [str(i) for i in range(100_000)]
    ten = many[:60_000]

    def ones(epoch: int) -> np.ndarray:
        return np.ones((len(ten), 1), dtype=np.float32)

    def apart(epoch: int) -> np.ndarray:
        rows = np.arange(1, len(ten) + 1, dtype=np.float32)[:, None]
        rows[len(ten) // 2 :] *= 1e9
        return rows

    def add_log(name: str, write: Callable[[], Files], code: str = "", **rest: Any) -> None:
        add(0, name, file(lambda: packed(write())), code, **rest)

    add_log("100,000 clients × 37 epochs", lambda: long_log(many, 37), "E_FILE_SIZE", names="2000000")
    add_log("60,000 equal updates × 8", lambda: long_log(ten, 8, ones), warnings=("W_DUPLICATE_DELTA",))
    add_log("60,000 zero updates × 8", lambda: long_log(ten, 8, lambda t: 0 * ones(t)), warnings=("W_ZERO_DELTA",))
    both = ("W_DUPLICATE_DELTA", "W_NORM")
    add_log("60,000 updates far apart × 8", lambda: long_log(ten, 8, apart), warnings=both)
    tiny = ("W_DUPLICATE_DELTA",)
    add_log("60,000 tiny updates × 8", lambda: long_log(ten, 8, lambda t: ones(t) * np.float32(1e-20)), warnings=tiny)
    add_log("everybody fails, 8 times", lambda: long_log(ten, 8, None, _all_failed(ten), present=False))
    marks = [f"{i:06d}a" + "\u0301\u0323" * 96 for i in range(10_000)]
    add_log("10,000 ids of 192 accents", lambda: long_log(marks, 1, None, present=False))
    long = [f"{i:x>200}" for i in range(35_000)]
    add_log("35,000 ids of 200 characters", lambda: long_log(long, 1, None, present=False))
    names = {f"metric {i:02d}": i / 8 for i in range(64)}
    add_log("15,000 epochs of 64 metrics", lambda: long_log(["a"], 15_000, None, lambda t: {"metrics": names}, False))
    sizes = {"\u00e9": 7, "e\u0301": 8}
    one_client = LogWriter(clients=(("\u00e9", 5), ("b", 6)))
    one_client.lines[0]["data_sizes"] = sizes
    add(0, "two sizes under two spellings of one client", bundle(one_client.files), "E_CLIENT_DUP")


def _all_failed(ids: list[str]) -> Callable[[int], dict[str, Any]]:
    return lambda epoch: {"failed": [{"client": name, "reason": "busy"} for name in ids]}


def _wide_logs() -> None:
    pattern = np.random.default_rng(0).normal(size=2048).astype(np.float32)

    def wide(parameters: int, epochs: int, with_global: bool) -> Write:
        def files() -> bytes:
            vector = np.resize(pattern, parameters)
            files: Files = {"initial.safetensors": save({"w": vector})}
            lines = b""
            for epoch in range(1, epochs + 1):
                name = f"epochs/{epoch:05d}.safetensors"
                files[name] = save({"updates": vector[None], **({"global": 2 * vector} if with_global else {})})
                entry = {"epoch": epoch, "participants": ["a"], "file": name}
                lines += line({**entry, "sha256": sha256(files[name])})
            files["epochs.jsonl"] = lines
            manifest = {
                "format": "flrun",
                "version": 1,
                "clients": [{"id": "a", "data_size": 1}],
                "parameters": [{"name": "w", "shape": [parameters]}],
                "files": {"initial.safetensors": sha256(files["initial.safetensors"])},
            }
            return packed({**files, "manifest.json": as_json(manifest)})

        return file(files)

    add(0, "a wide model whose windows take long", wide(12_000_000, 1, True), "E_ZIP_BOMB", names="3 times")
    add(0, "an archive that becomes half a gigabyte", wide(5_000_000, 24, False), "E_ZIP_BOMB", names="402653184")


def _texts_inside_logs() -> None:
    def surrogate(writer: LogWriter) -> None:
        writer.extra_manifest["k" * 3_000_000] = [1] * 300_000
        writer.extra_manifest["half"] = "\ud800"

    def files() -> Files:
        writer = LogWriter()
        surrogate(writer)
        found = writer.manifest({})
        content = LogWriter().files()
        return {**content, "manifest.json": json.dumps(found).encode()}

    add(0, "half a character far below a long key", file(lambda: packed(files())), "E_JSON", names="half")

    def headers() -> Files:
        content = LogWriter(epochs=20).files()
        notes = json.dumps({"__metadata__": {str(i): "x" for i in range(100_000)}}).encode()[:-1]
        lines = [json.loads(text) for text in content["epochs.jsonl"].splitlines()]
        for entry in lines:
            old = content[entry["file"]]
            length = struct.unpack("<Q", old[:8])[0]
            header = notes + b"," + old[8 : 8 + length].rstrip(b" ")[1:]
            content[entry["file"]] = struct.pack("<Q", len(header)) + header + old[8 + length :]
            entry["sha256"] = sha256(content[entry["file"]])
        return {**content, "epochs.jsonl": b"".join(map(line, lines))}

    add(0, "long notes in every tensor header", file(lambda: packed(headers())), "E_ST_HDR", names="65536")
    add(0, "a log with a note in its name", changed(lambda writer: writer.extra_manifest.update(name="x" * 2000)))

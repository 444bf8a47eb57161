"""Tables that are wrong in every way a spreadsheet knows."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.corpus.cases import Write, add, file

CONTRIBUTIONS = (
    "epoch,client,loss,accuracy\n"
    "1,a,-0.5,0.1\n1,b,-0.25,0.05\n"
    "2,a,-0.125,\n2,c,0.5,0.0\n"
    "4,b,0.0,1e-3\n"
)  # fmt: skip
UTILITIES = "epoch,coalition,loss\n" + "".join(
    f"{epoch},{coalition},{1.0 - 0.1 * len(coalition) - 0.01 * epoch}\n"
    for epoch in (1, 2)
    for coalition in ("", "a", "b", "c", "a;b", "b;a;c", "a;c", "c;b")
)


def csv(text: str) -> Write:
    return file(text.encode(), ".csv")


def parquet_bytes(table: Any) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def parquet(build: Callable[[], Any]) -> Write:
    return file(lambda: parquet_bytes(build()), ".parquet")


def arrow_table(**columns: Any) -> Callable[[], Any]:
    def build() -> Any:
        import pyarrow as pa

        return pa.table(columns)

    return build


def register() -> None:
    add(0, "contribution table", csv(CONTRIBUTIONS))
    add(
        0,
        "contribution table with a BOM and CRLF",
        file(b"\xef\xbb\xbf" + CONTRIBUTIONS.replace("\n", "\r\n").encode(), ".csv"),
    )
    add(0, "utility table", csv(UTILITIES))
    for words, text, code in (
        ("empty", "", "E_TABLE"),
        ("header only", "epoch,client,loss\n", "E_TABLE"),
        ("semicolons", CONTRIBUTIONS.replace(",", ";"), "E_TABLE"),
        ("no utility", "epoch,client\n1,a\n", "E_TABLE"),
        ("no epoch", "client,loss\na,1\n", "E_TABLE"),
        ("client and coalition", "epoch,client,coalition,loss\n1,a,a,1\n", "E_TABLE"),
        ("column twice", "epoch,client,loss,loss\n1,a,1,1\n", "E_TABLE"),
        ("column without name", "epoch,client,\n1,a,1\n", "E_TABLE"),
        ("row too short", CONTRIBUTIONS + "4,c,1\n", "E_TABLE"),
        ("open quote", CONTRIBUTIONS + '4,"c,1,1\n', "E_TABLE"),
        ("decimal comma", CONTRIBUTIONS + '4,c,"0,5",1\n', "E_TABLE_VALUE"),
        ("control character in a number", CONTRIBUTIONS + "4,c,\x1d.5,1\n", "E_TABLE_VALUE"),
        ("text value", CONTRIBUTIONS + "4,c,low,1\n", "E_TABLE_VALUE"),
        ("Python number", CONTRIBUTIONS + "4,c,1_000,1\n", "E_TABLE_VALUE"),
        ("epoch text", CONTRIBUTIONS + "last,c,1,1\n", "E_TABLE_VALUE"),
        ("epoch fraction", CONTRIBUTIONS + "1.5,c,1,1\n", "E_TABLE_VALUE"),
        ("epoch below 0", CONTRIBUTIONS + "-1,c,1,1\n", "E_TABLE_VALUE"),
        ("epoch of a billion", CONTRIBUTIONS + "999999999,c,1,1\n", "E_TABLE_VALUE"),
        ("row twice", CONTRIBUTIONS + "1,a,1,1\n", "E_TABLE_DUP"),
        ("NaN", CONTRIBUTIONS + "4,c,NaN,1\n", "E_NONFINITE"),
        ("infinity", CONTRIBUTIONS + "4,c,-inf,1\n", "E_NONFINITE"),
        ("1e999", CONTRIBUTIONS + "4,c,1e999,1\n", "E_NONFINITE"),
        ("empty client", CONTRIBUTIONS + "4,,1,1\n", "E_CLIENT_ID"),
        ("client of 10 kB", CONTRIBUTIONS + f"4,{'x' * 10_000},1,1\n", "E_CLIENT_ID"),
        ("clients equal after NFC", CONTRIBUTIONS + "4,é,1,1\n4,e\u0301,1,1\n", "E_CLIENT_DUP"),
        ("only epoch 0", "epoch,client,loss\n0,a,1\n", "E_EPOCH_NONE"),
        (
            "many epochs and clients",
            "epoch,client,loss\n" + "".join(f"{t},c{t % 500},1\n" for t in range(1, 20_001)),
            "E_FILE_SIZE",
        ),
    ):
        add(0, f"table: {words}", csv(text), code)
    add(0, "table: not UTF-8", file(CONTRIBUTIONS.encode() + b"4,\xff,1,1\n", ".csv"), "E_TABLE")
    add(0, "table: cell of a megabyte", csv(CONTRIBUTIONS + f"4,{'x' * 10**6},1,1\n"), "E_TABLE")
    rows = UTILITIES.splitlines(keepends=True)
    for words, text, code, names in (
        ("coalition missing", "".join(r for r in rows if not r.startswith("2,a;b,")), "E_COALITION", "a;b"),
        (
            "empty coalition missing",
            "".join(r for r in rows if not r.startswith("1,,")),
            "E_COALITION",
            "the empty coalition",
        ),
        ("coalition twice", UTILITIES + "2,b;a,1\n", "E_TABLE_DUP", "a;b"),
        ("member twice", UTILITIES + "2,a;a,1\n", "E_TABLE", "a;a"),
        ("value missing", UTILITIES + "2,d,\n", "E_TABLE_VALUE", "d"),
        ("NaN for a coalition", UTILITIES + "2,d,nan\n", "E_NONFINITE", "d"),
        ("epoch missing", "".join(r for r in rows if not r.startswith("1,")), "E_EPOCH_ORDER", "1"),
        ("epoch 0", UTILITIES + "0,,1\n", "E_EPOCH_ORDER", "0"),
        ("40 participants", UTILITIES + "2," + ";".join(f"p{i}" for i in range(40)) + ",1\n", "E_FILE_SIZE", "2^n"),
        ("every row broken", "epoch,coalition,loss\n1,,low\n", "E_TABLE_VALUE", "low"),
        ("empty member", UTILITIES + "2,a;;b,1\n", "E_CLIENT_ID", ""),
    ):
        add(0, f"utility table: {words}", csv(text), code, names=names)
    _parquet_tables()
    _data_sizes()


def _parquet_tables() -> None:
    good: dict[str, Any] = {"epoch": [1, 1, 2], "client": ["a", "NA", "a"], "loss": [0.5, None, -1.0]}
    add(0, "parquet table", parquet(arrow_table(**good)))
    add(0, "parquet: empty file", file(b"", ".parquet"), "E_TABLE")
    add(0, "parquet: not parquet", file(b"PAR1" + b"x" * 100 + b"PAR1", ".parquet"), "E_TABLE")
    add(0, "parquet: cut", lambda folder: _cut(parquet(arrow_table(**good))(folder)), "E_TABLE")
    add(0, "parquet: nested column", parquet(arrow_table(**{**good, "loss": [[1.0], [2.0], []]})), "E_TABLE")
    add(0, "parquet: infinite value", parquet(arrow_table(**{**good, "loss": [1.0, float("inf"), 2.0]})), "E_NONFINITE")
    add(0, "parquet: boolean value", parquet(arrow_table(**{**good, "loss": [True, False, True]})), "E_TABLE")
    add(0, "parquet: other columns", parquet(arrow_table(a=[1], b=[2])), "E_TABLE")
    add(0, "parquet: 5 million equal rows", parquet(_equal_rows), "E_FILE_SIZE")


def _equal_rows(count: int = 5_000_000) -> Any:
    import pyarrow as pa

    return pa.table({"epoch": pa.repeat(1, count), "client": pa.repeat("a", count), "loss": pa.repeat(0.0, count)})


def _cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-30])
    return path


def _data_sizes() -> None:
    def with_sizes(text: str) -> Write:
        def write(folder: Path) -> Path:
            (folder / "input.data_sizes.csv").write_text(text)
            return csv(UTILITIES)(folder)

        return write

    add(0, "data sizes beside a utility table", with_sizes("client,data_size\nb,20\na,10\nc,30\n"))
    for words, text, code in (
        ("missing client", "client,data_size\na,10\nb,20\n", "E_CLIENT_SIZE"),
        ("zero", "client,data_size\na,0\nb,20\nc,30\n", "E_CLIENT_SIZE"),
        ("fraction", "client,data_size\na,1.5\nb,20\nc,30\n", "E_CLIENT_SIZE"),
        ("client twice", "client,data_size\na,1\na,2\nb,20\nc,30\n", "E_TABLE_DUP"),
        ("other columns", "id,n\na,1\n", "E_TABLE"),
    ):
        add(0, f"data sizes: {words}", with_sizes(text), code)

"""However a text is cut, by columns or a record at a time, the records are those of Python's own ``csv``."""

from __future__ import annotations

import csv
import io
import random

import pytest

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs import table_records
from flcontrib_core.runs.table_records import Columns, read_records

CELLS = ["1", "0.25", "", "ä;ö", "a b", " x", "\u2028", "\ufeff", "-1e-5", "x" * 50, "\x0b", "it's"]


def cut(text: bytes) -> list[list[str]]:
    return [record for chunk in read_records(io.BytesIO(text), "t.csv") for record in chunk]


def as_csv(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_any_table_is_cut_as_csv_cuts_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_records, "_BLOCK", 300)  # many blocks, and many places where one ends
    rng = random.Random(seed)
    for _ in range(30):
        width, end = rng.choice([1, 2, 3, 5]), rng.choice(["\n", "\r\n", "\r"])
        rows = [[rng.choice(CELLS) for _ in range(width)] for _ in range(rng.randint(1, 60))]
        odd = rng.choice([[], ['"quoted, comma"'], ['"a\nbreak"'], ["one", "too", "many", "of", "them", "here"], [""]])
        if odd:
            rows.insert(rng.randint(0, len(rows)), odd)
        text = end.join(",".join(row) for row in rows) + rng.choice(["", end])
        data = rng.choice([b"", b"\xef\xbb\xbf"]) + text.encode()
        assert cut(data) == as_csv(data), data


def test_a_plain_table_is_cut_by_columns_and_one_with_a_late_quote_as_far_as_it_is_plain() -> None:
    plain = b"epoch,client,loss\n" + b"1,a,0.5\n" * 100_000
    chunks = list(read_records(io.BytesIO(plain), "t.csv"))
    assert sum(map(len, chunks)) == 100_001
    assert all(isinstance(chunk, Columns) for chunk in chunks[1:])
    late = plain + b'2,"a",0.5\n' + b"3,a,0.5\n"
    assert cut(late) == as_csv(late)


@pytest.mark.parametrize(
    "text", ["", "\ufeff", "\n", "\ufeff\n", "a", "a,b", "a,b\n\n", ",", '"', '\ufeff""', "a,b\n1"]
)
def test_a_text_of_next_to_nothing_is_cut_as_csv_cuts_it(text: str) -> None:
    if text == '"':
        with pytest.raises(RunLogError, match="unexpected end"):
            cut(text.encode())
    else:
        assert cut(text.encode()) == as_csv(text.encode())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"a,b\n" + b"1,2\n" * 9 + b"1,\xff\n", "not UTF-8"),
        (b"a,b\n1," + b"x" * 400_000 + b"\n", "more than"),
        (b"a,b\n" + b"1,2\n" * 9 + b'1,"', "unexpected end"),
        (b"a,b\n1," + b"x" * 140_000 + b"\n", "field larger"),
    ],
)
def test_what_cannot_be_cut_is_refused(text: bytes, found: str) -> None:
    with pytest.raises(RunLogError, match=found):
        cut(text)

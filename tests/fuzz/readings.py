"""What two further doors of the fuzzer read: a table's records beside Python's ``csv``, and answers to questions."""

from __future__ import annotations

import csv
import io
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest import mock

from flcontrib_core.errors import AnswerError, RunLogError
from flcontrib_core.history.answer_files import Question, WorkFolder
from flcontrib_core.runs import table_records

METRICS = ("dice", "hd95")
SMALL_BLOCK = 200
"""Bytes that are cut at a time here, so that small inputs have many ends of blocks."""


def records(data: bytes) -> None:
    """A text has one reading, however it is cut: that of ``csv``, or none."""
    try:
        expected = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        expected = None
    try:
        with mock.patch.object(table_records, "_BLOCK", SMALL_BLOCK):
            cut = [record for chunk in table_records.read_records(io.BytesIO(data), "input") for record in chunk]
    except RunLogError:
        cut = None
    assert cut == expected


def answers(data: bytes) -> None:
    """The answers about one epoch of three participants, or a word why they are none."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, suppress(AnswerError):
        (Path(folder) / "epoch-00001.jsonl").write_bytes(data)
        for question in WorkFolder(Path(folder)).questions(1, METRICS, 3):
            assert question.answer is None or set(question.answer) == set(METRICS)


def good_answers() -> bytes:
    """Three questions, two of them answered."""
    answer = {"dice": 0.5, "hd95": 2.0}
    asked = [Question(1, {}, answer=answer), Question(1, {"a": 0.5, "b": 0.5}, answer=answer), Question(1, {}, True)]
    return "".join(question.line() + "\n" for question in asked).encode()

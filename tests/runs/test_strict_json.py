"""Strict JSON against Python's own parser: equal on everything it accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.limits import MAX_JSON_DEPTH
from flcontrib_core.runs.strict_json import parse_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_json_writes_is_read_back(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert parse_json(text, "x") == value


@pytest.mark.parametrize(
    "text",
    [
        b'"[[[[{{{"',
        b'"\\"[[["',
        b'["\\\\", "]"]',
        b'{"a": "\\ud83d\\ude00"}',
        b'"' + b"[" * 1000 + b'"',
        b" [1 , 2]\r\n",
    ],
)
def test_brackets_in_strings_and_whole_pairs_are_fine(text: bytes) -> None:
    assert parse_json(text, "x") == json.loads(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "E_JSON"),
        (b"{", "E_JSON"),
        (b"[1,]", "E_JSON"),
        (b"{'a': 1}", "E_JSON"),
        (b"[01]", "E_JSON"),
        (b'"tab\there"', "E_JSON"),
        (b'"\\x41"', "E_JSON"),
        (b"\xef\xbb\xbf{}", "E_JSON"),
        (b'"\xed\xa0\x80"', "E_JSON"),
        (b'["\\ud800"]', "E_JSON"),
        (b'{"\\udc00": 1}', "E_JSON"),
        (b'{"clients": [{"id": "\\ud800"}]}', "E_CLIENT_ID"),
        (b"[NaN]", "E_JSON_NONFINITE"),
        (b"[-Infinity]", "E_JSON_NONFINITE"),
        (b"[1e400]", "E_JSON_NONFINITE"),
        (b'{"a": {"b": 1, "b": 2}}', "E_JSON_DUPKEY"),
        (b'{"a": 1, "\\u0061": 2}', "E_JSON_DUPKEY"),
        (str(2**63).encode(), "E_JSON_INT"),
        (b"1" * 5000, "E_JSON_INT"),
        (b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1), "E_JSON_DEPTH"),
        (b'{"a":' * 10**5, "E_JSON_DEPTH"),
        (b" " * (9 << 20), "E_FILE_SIZE"),
    ],
)
def test_each_refusal_has_its_code(text: bytes, code: str) -> None:
    with pytest.raises(RunLogError) as refused:
        parse_json(text, "x")
    assert [problem.code for problem in refused.value.problems] == [code]


def test_deepest_allowed_nesting() -> None:
    assert parse_json(b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH, "x")

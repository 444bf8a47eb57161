"""JSON in the one reading that every parser agrees on.

Python's parser takes NaN, duplicate keys, unbounded integers and lone surrogates; two readers of such a file may see
two different runs. Here each is a named refusal, and depth and number of values are bounded before parsing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES, PIECE_BYTES
from flcontrib_core.runs.problems import refusal, shown

if TYPE_CHECKING:
    from flcontrib_core.runs.containers import ByteStream

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LARGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")
_DIGITS = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else byte for byte in range(256))
_DEPTH_STEP = np.zeros(256, dtype=np.int8)
_DEPTH_STEP[list(b"[{")] = 1
_DEPTH_STEP[list(b"]}")] = -1


def parse_json(data: bytes, where: str, limit: int = MAX_JSON_BYTES, most_values: int = MAX_JSON_VALUES) -> Any:
    """The value of a JSON text, or ``RunLogError`` with an E_JSON… code that says where it goes wrong."""
    if len(data) > limit:
        raise refusal("E_FILE_SIZE:text", where, f"{len(data)} bytes", f"at most {limit}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as bad:
        raise refusal("E_JSON", where, f"bytes that are not UTF-8 at offset {bad.start}") from None
    if text.startswith("\ufeff"):
        raise refusal("E_JSON", where, "a byte order mark")
    _bound_structure(data, where, most_values)
    # Numbers that cannot leave their range need no look of their own.
    long = b"0" * 19 in data.translate(_DIGITS)
    large = long or _LARGE_EXPONENT.search(data) is not None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys(where),
            parse_int=_bounded_int(where) if long else None,
            parse_float=_finite_float(where) if large else None,
            parse_constant=_refuse_constant(where),
        )
    except json.JSONDecodeError as bad:
        raise refusal("E_JSON", where, f"{bad.msg} at line {bad.lineno}, column {bad.colno}") from None
    if _SURROGATE_ESCAPE.search(data):
        _refuse_lone_surrogates(value, where, ())
    return value


def _bound_structure(data: bytes, where: str, most_values: int) -> None:
    """Depth and number of values, without building anything. Strings are cut out first: brackets there are text."""
    opened = data.count(b"[") + data.count(b"{")
    if opened <= MAX_JSON_DEPTH and opened + data.count(b",") <= most_values:
        return
    # Without escapes every quote begins or ends a string. (A pattern for strings looks at one that never ends again
    # and again, from each of its escaped quotes: minutes for 60 kB.)
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    skeleton = np.frombuffer(plain, dtype=np.uint8)
    skeleton = skeleton[~np.logical_xor.accumulate(skeleton == ord('"'))]
    depth = int(np.cumsum(_DEPTH_STEP[skeleton], dtype=np.int32).max(initial=0))
    if depth > MAX_JSON_DEPTH:
        raise refusal("E_JSON_DEPTH", where, f"nesting of {depth}")
    values = int(np.isin(skeleton, np.frombuffer(b",[{", dtype=np.uint8)).sum())
    if values > most_values:
        raise refusal("E_FILE_SIZE:text", where, f"about {values} values", f"at most {most_values}")


def _unique_keys(where: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(pairs)
        if len(built) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise refusal("E_JSON_DUPKEY", where, f"key {shown(twice)} twice")
        return built

    return build


def _bounded_int(where: str) -> Callable[[str], int]:
    def read(digits: str) -> int:
        if len(digits) <= 20 and -(2**63) <= (number := int(digits)) < 2**63:
            return number
        raise refusal("E_JSON_INT", where, f"an integer of {len(digits.lstrip('-'))} digits")

    return read


def _finite_float(where: str) -> Callable[[str], float]:
    def read(digits: str) -> float:
        number = float(digits)
        if math.isfinite(number):
            return number
        raise refusal("E_JSON_NONFINITE", where, shown(digits))

    return read


def _refuse_constant(where: str) -> Callable[[str], NoReturn]:
    def refuse(name: str) -> NoReturn:
        raise refusal("E_JSON_NONFINITE", where, name)

    return refuse


def _refuse_lone_surrogates(value: Any, where: str, path: tuple[str | int, ...]) -> None:
    if isinstance(value, str):
        if _SURROGATE.search(value):
            code = "E_CLIENT_ID" if path[:1] + path[2:] == ("clients", "id") else "E_JSON"
            raise refusal(
                code, f"{where}:{_place(path)}", f"half of a surrogate pair in {shown(value)}", "whole characters"
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_lone_surrogates(key, where, path)
            _refuse_lone_surrogates(item, where, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _refuse_lone_surrogates(item, where, (*path, position))


def _place(path: tuple[str | int, ...]) -> str:
    """A path in words; built only for the message, because keys may be as long as the file."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{shown(part, 60)[1:-1]}" for part in path)[1:]


def whole_lines(stream: ByteStream, can_grow: bool, where: str) -> Iterator[bytes]:
    """The lines of a file of JSON lines, each with its newline; an unfinished last one only where it is whole."""
    rest = b""
    while piece := stream.read(PIECE_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(rest) > MAX_JSON_BYTES:
            raise refusal("E_FILE_SIZE:text", where, "a line without end", f"lines of at most {MAX_JSON_BYTES} bytes")
    if rest and not (can_grow and not _is_json(rest, where)):
        yield rest


def _is_json(line: bytes, where: str) -> bool:
    try:
        parse_json(line, where)
    except RunLogError:
        return False
    return True

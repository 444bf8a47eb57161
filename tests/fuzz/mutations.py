"""Changes that keep an input's outer form, so that a search gets behind the first check of the reader.

Bytes alone seldom make another JSON text: here a text is parsed, one value of it is changed, moved, doubled or taken
away, and it is written again. A tensor file's header is changed like that, and its length made right.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.0, 1e-320, 1e308, 10**30, [], {}, [[]], {"": {}}, [0], [-1]),
    *(2**31 - 1, 2**31, 2**53, -(2**53), 2**63 - 1, 2**63, [1, 1], [2**31 - 1, 2**31 - 1], [1] * 40, {"op": "relu"}),
    *("", "input", "\u0000", "e\u0301", "\u00e9", "\ud83d\ude00", "a" * 250, "x;y", "..", "epochs/00001.safetensors"),
    *("updates", "global", "hospital-a", "F32", "F16", "BF16", "I64", "bool"),
)
"""Values at the edges of what a field may hold."""

CELLS = (
    *(
        b"",
        b"nan",
        b"-inf",
        b"1e999",
        b"1e-400",
        b"0x1",
        b"1_0",
        b"0",
        b"-0",
        b"9" * 40,
        b"\r",
        b"\xef\xbb\xbf",
        b"\x00",
    ),
    *(b'"', b'""', b'"a,b"', b'"a\nb"', b";", b"a;a", b";;", b"epoch", b"client", b"coalition", b"loss", b"data_size"),
)
"""Texts that a cell of a table may hold."""


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 4000:
        inside = waiting.pop()
        keys = (
            list(inside) if isinstance(inside, dict) else list(range(len(inside))) if isinstance(inside, list) else []
        )
        found += [(inside, key) for key in keys]
        waiting += [inside[key] for key in keys if isinstance(inside[key], dict | list)]
    return found


def change_value(value: Any, rng: random.Random, words: tuple[str, ...] = ()) -> Any:
    """One to four changes to a parsed JSON value."""
    whole = [value]
    for _ in range(rng.randint(1, 4)):
        places = _places(whole)
        inside, key = rng.choice(places)
        other, other_key = rng.choice(places)
        match rng.randrange(7):
            case 0 | 1:
                inside[key] = copy.deepcopy(rng.choice(HOSTILE))
            case 2:
                inside[key] = copy.deepcopy(other[other_key])
            case 3 if inside is not whole:
                del inside[key]
            case 4 if isinstance(inside, list) and inside is not whole:
                inside.insert(key, copy.deepcopy(inside[key]))
            case 5 if isinstance(inside, dict):
                name = rng.choice((*words, *(str(k) for _, k in places[:50])) or ("x",))
                inside[name] = copy.deepcopy(rng.choice((inside[key], rng.choice(HOSTILE))))
            case 6 if isinstance(inside[key], int | float) and not isinstance(inside[key], bool):
                inside[key] = rng.choice(
                    (inside[key] + 1, inside[key] - 1, -inside[key], inside[key] * 2, inside[key] / 2)
                )
            case 6 if isinstance(inside[key], str) and words:
                inside[key] = rng.choice(words)
            case _:
                pass
    return whole[0]


def change_json(text: bytes, rng: random.Random, words: tuple[str, ...] = ()) -> bytes:
    """One JSON text changed by value; a text that is none comes back as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        return json.dumps(change_value(value, rng, words), ensure_ascii=rng.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
    except (ValueError, RecursionError):
        return text


def change_lines(text: bytes, rng: random.Random, words: tuple[str, ...] = ()) -> bytes:
    """One line of JSON lines changed, doubled or moved."""
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(8):
        case 0:
            lines.insert(at, lines[rng.randrange(len(lines))])
        case 1:
            del lines[at]
        case _:
            lines[at] = change_json(lines[at], rng, words)
    return b"\n".join(lines)


def change_tensors(data: bytes, rng: random.Random) -> bytes:
    """A tensor file whose header says something else, its length made right."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data):
        return data
    header = change_json(
        data[8 : 8 + length], rng, ("__metadata__", "dtype", "shape", "data_offsets", "F32", "F16", "BF16", "I64")
    )
    rest = data[8 + length :]
    if rng.random() < 0.2:
        rest = rest[: rng.randrange(len(rest) + 1)] + bytes(rng.choice((0, 0, 4, 64)))
    return len(header).to_bytes(8, "little") + header + rest


def change_cells(data: bytes, rng: random.Random) -> bytes:
    """A table with a cell, a row or a column of another kind."""
    rows = [row.split(b",") for row in data.split(b"\n")]
    for _ in range(rng.randint(1, 4)):
        row = rng.choice(rows)
        at = rng.randrange(len(row))
        match rng.randrange(6):
            case 0 | 1:
                row[at] = rng.choice(CELLS)
            case 2:
                rows.insert(rng.randrange(len(rows)), list(row))
            case 3:
                row.insert(at, rng.choice((rng.choice(CELLS), row[at])))
            case 4 if len(row) > 1:
                del row[at]
            case _:
                row[at] = rng.choice(rng.choice(rows))
    return b"\n".join(b",".join(row) for row in rows)


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut, copied or put in; a whole run of the seed's own bytes as often as noise."""
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(5):
            case 0 if at < len(mutated):
                mutated[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 1:
                del mutated[at : at + rng.randint(1, 40)]
            case 2 if data:
                start = rng.randrange(len(data))
                mutated[at:at] = data[start : start + rng.randint(1, 60)]
            case 3:
                mutated[at:at] = rng.randbytes(rng.randint(1, 8))
            case _ if at < len(mutated):
                mutated[at] ^= 1 << rng.randrange(8)
            case _:
                pass
    return bytes(mutated)


Change = Callable[[bytes, random.Random], bytes]

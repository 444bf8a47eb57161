"""Whatever the types declare comes back as it was; what they do not declare is refused, never guessed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Literal, TypeVar

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.bundled_files import bundled
from flcontrib_core.codec import DOCUMENT, OtherLayout, decode, encode, layout_of, pack, unpack
from flcontrib_core.errors import WorkspaceError
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.workspace.objects import pack_record, unpack_record
from tests.reports.made_reports import made_report


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class CellState(IntEnum):
    ABSENT = 0
    COMPUTED = 1


@dataclass(frozen=True)
class Repeats:
    epoch: int
    earlier: int


@dataclass(frozen=True)
class Copies:
    epoch: int
    other: str
    distance: float = 0.0


@dataclass(frozen=True)
class Rises:
    by: float
    series: NDArray[np.float64]


Fact = Repeats | Copies | Rises


class Objection:
    """A base class stands for everything derived from it."""


@dataclass(frozen=True)
class FewPoints(Objection):
    points: int


@dataclass(frozen=True)
class Everybody(Objection):
    others: tuple[str, ...]


@dataclass(frozen=True)
class Noun:
    """One of everything a stored noun may hold."""

    text: str
    count: int
    share: float
    sure: bool
    colour: Colour
    state: CellState
    how: Literal["exact", "auto"]
    raw: bytes
    states: NDArray[np.int8]
    values: dict[str, NDArray[np.float64]]
    mask: NDArray[np.bool_] | None
    window: tuple[int, int] | None
    names: tuple[str, ...]
    either: int | float | str | None
    best: tuple[tuple[int, ...] | None, ...]
    kinds: frozenset[str]
    by_number: dict[int, float]
    segments: dict[str, tuple[tuple[int, int], ...]]
    settings: dict[str, object]
    fact: Fact | None
    facts: tuple[Fact, ...]
    objections: tuple[Objection, ...]
    inner: Noun | None = None
    notes: list[str] = field(default_factory=list)


numbers = st.integers(-(2**53), 2**53)
floats = st.floats(allow_nan=True, allow_infinity=True)
texts = st.text(alphabet=st.characters(), max_size=8)  # surrogates, too: names of clients may hold anything
matrices = st.sampled_from(["int8", "uint8", "int64", "float32", "float64", "bool"]).flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
loose = st.recursive(
    st.none() | st.booleans() | numbers | floats | texts | st.binary(max_size=4) | matrices,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts | numbers, inner, max_size=3)
    ),
    max_leaves=6,
)
facts = (
    st.builds(Repeats, numbers, numbers)
    | st.builds(Copies, numbers, texts, floats)
    | st.builds(Rises, floats, matrices)
)
nouns = st.builds(
    Noun,
    text=texts,
    count=numbers,
    share=floats,
    sure=st.booleans(),
    colour=st.sampled_from(Colour),
    state=st.sampled_from(CellState),
    how=st.sampled_from(["exact", "auto"]),
    raw=st.binary(max_size=5),
    states=matrices,
    values=st.dictionaries(texts, matrices, max_size=3),
    mask=st.none() | matrices,
    window=st.none() | st.tuples(numbers, numbers),
    names=st.lists(texts, max_size=3).map(tuple),
    either=st.none() | numbers | floats | texts,
    best=st.lists(st.none() | st.lists(numbers, max_size=3).map(tuple), max_size=3).map(tuple),
    kinds=st.frozensets(texts, max_size=3),
    by_number=st.dictionaries(numbers, floats, max_size=3),
    segments=st.dictionaries(texts, st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple), max_size=2),
    settings=st.dictionaries(texts, loose, max_size=3),
    fact=st.none() | facts,
    facts=st.lists(facts, max_size=3).map(tuple),
    objections=st.lists(
        st.builds(FewPoints, numbers) | st.builds(Everybody, st.lists(texts, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    notes=st.lists(texts, max_size=2),
)


unhurried = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
"""A loaded machine is no finding."""


def same(left: Any, right: Any) -> bool:
    """Equal in type and value, numbers to the bit, the order of dictionaries included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    return repr(left) == repr(right) if isinstance(left, float) else bool(left == right)


def stored(kind: type[Any], value: Any) -> Any:
    """Through the bytes of an object, as the workspace keeps them."""
    return unpack(kind, unpack_record(pack_record({}, pack(kind, value)))[1])


@unhurried
@given(nouns, st.none() | nouns)
def test_every_value_comes_back_as_it_was(noun: Noun, inner: Noun | None) -> None:
    whole = replace(noun, inner=inner)
    assert same(stored(Noun, whole), whole)


@unhurried
@given(nouns)
def test_equal_values_are_equal_bytes(noun: Noun) -> None:
    assert pack_record({}, pack(Noun, noun)) == pack_record({}, pack(Noun, stored(Noun, noun)))


def test_a_member_of_a_union_is_stored_with_its_name() -> None:
    document, _ = encode(tuple[Fact, ...], (Repeats(4, 2), Copies(5, "b")))
    assert document == [
        {"is": "Repeats", "epoch": 4, "earlier": 2},
        {"is": "Copies", "epoch": 5, "other": "b", "distance": 0.0},
    ]
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert encode(Repeats, Repeats(4, 2))[0] == {"epoch": 4, "earlier": 2}, (
        "where only one class fits, no tag is needed"
    )


@pytest.mark.parametrize("value", [1, 1.0, "1", None, float("nan")])
def test_a_share_and_a_count_are_not_confused(value: object) -> None:
    kind = int | float | str | None
    for union in (kind, float | int | str | None):
        document, _ = encode(union, value)
        assert same(decode(union, json.loads(json.dumps(document))), value)  # type: ignore[arg-type]


def test_an_array_by_a_named_alias_is_an_array() -> None:
    """As NDArray is from numpy 2.5 on, which needs Python 3.12."""
    extensions = pytest.importorskip("typing_extensions")
    kind: Any = TypeVar("kind", bound=np.generic)
    named = extensions.TypeAliasType("named", np.ndarray[Any, np.dtype[kind]], type_params=(kind,))
    aliased, plain = (make_dataclass("Held", [("values", t)]) for t in (named[np.float64], NDArray[np.float64]))
    assert layout_of(aliased) == layout_of(plain)


def test_numbers_of_numpy_become_plain_ones() -> None:
    made = Copies(np.int64(3), "b", np.float32(0.5))  # type: ignore[arg-type]
    assert same(stored(Copies, made), Copies(3, "b", 0.5))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Repeats, Repeats("four", 2)),  # type: ignore[arg-type]
        (Repeats, Copies(1, "b")),
        (Fact, FewPoints(3)),
        (tuple[int, int], (1, 2, 3)),
        (Literal["exact"], "auto"),
        (dict[str, object], {"x": object()}),
    ],
)
def test_a_value_that_is_not_what_was_declared_is_refused_at_once(kind: Any, value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(kind, value)


@pytest.mark.parametrize("kind", [Repeats | object, tuple[int, ...] | list[str], Colour | str, set[int], complex])
def test_types_that_could_not_be_read_back_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError):
        layout_of(kind)


@pytest.mark.parametrize(
    "document",
    [
        {"is": "Forged", "epoch": 1},
        {"is": "FewPoints", "points": 1},
        {"is": "Repeats", "epoch": 1, "earlier": 2, "more": 3},
        {"is": "Repeats", "epoch": "1", "earlier": 2},
        {"is": "Repeats", "epoch": 1},
        {"array": "elsewhere"},
        [1, 2],
        "text",
        None,
    ],
)
def test_a_document_can_only_become_what_was_declared(document: object) -> None:
    with pytest.raises(OtherLayout, match="recompute"):
        decode(Fact, document)  # type: ignore[arg-type]


def test_a_missing_field_takes_its_default() -> None:
    assert decode(Copies, {"epoch": 1, "other": "b"}) == Copies(1, "b", 0.0)


def version(**types: Any) -> type[Any]:
    return make_dataclass("Noun", list(types.items()), frozen=True)


def test_every_change_of_a_type_is_another_layout() -> None:
    layouts = {
        layout_of(version(a=int)),
        layout_of(version(a=float)),
        layout_of(version(b=int)),
        layout_of(version(a=int, b=int)),
        layout_of(version(a=int | None)),
        layout_of(version(a=tuple[int, ...])),
        layout_of(version(a=tuple[int, int])),
        layout_of(version(a=Fact)),
        layout_of(version(a=Repeats | Copies)),
        layout_of(version(a=version(inner=int))),
        layout_of(version(a=version(inner=str))),
        layout_of(version(a=Colour)),
        layout_of(version(a=StrEnum("Colour", {"RED": "red"}))),
    }
    assert len(layouts) == 13
    assert layout_of(version(a=int, b=str)) == layout_of(version(a=int, b=str))


def test_a_subclass_that_only_shows_its_base_changes_no_layout() -> None:
    plain, shown = version(a=int, b=str), version(a=int, b=str)
    with_fields = version(a=int, b=str)

    class Shown(shown):  # type: ignore[valid-type]
        def __repr__(self) -> str:
            return "shown"

    make_dataclass("More", [("c", int)], bases=(with_fields,), frozen=True)
    assert layout_of(shown) == layout_of(plain)
    assert unpack(plain, pack(shown, Shown(a=1, b="x"))) == plain(a=1, b="x")
    assert layout_of(with_fields) != layout_of(plain)


def test_a_value_of_another_layout_says_that_it_is_to_be_recomputed() -> None:
    before = version(a=int)
    old = pack(before, before(a=1))
    with pytest.raises(WorkspaceError, match=r"computed by an older version \(layout .*\): recompute"):
        unpack(version(a=int, b=int), old)
    for strange in ({}, {DOCUMENT: np.frombuffer(b"{", dtype=np.uint8)}, {"words": old[DOCUMENT]}):
        with pytest.raises(OtherLayout, match="older version"):
            unpack(version(a=int), strange)


def test_reports_come_back_whole() -> None:
    for report in (made_report(), audit(read_run_log(bundled("sample_runs") / "contributions-table.csv"))):
        assert same(stored(AuditReport, report), report)

"""The one way in which typed values are stored: frozen dataclasses as JSON and named arrays, by their declared types.

``encode`` turns a value into a JSON document and the arrays it holds, ``decode`` builds the value again. Both follow
the annotations, and a document can name no class that they do not: a file can only become the nouns of this package.
``pack`` and ``unpack`` add the *layout*, a digest of all types concerned: no value of another layout is guessed at.

Known are numbers, text, bytes, enums, literals, tuples, lists, frozensets, dictionaries, optionals, arrays, dataclasses
and unions of dataclasses (or a base class of some); where more than one class may stand, the document carries the
class's name as a tag: ``{"is": …}``.
"""

from __future__ import annotations

import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np

from flcontrib_core.errors import WorkspaceError

T = TypeVar("T")
Arrays = dict[str, np.ndarray]
DOCUMENT = "document"
"""The array that holds the JSON of a packed value."""
_TAG = "is"


class OtherLayout(WorkspaceError):
    """A stored value does not fit the types of this version; it has to be computed again."""


def encode(kind: Any, value: Any) -> tuple[Any, Arrays]:
    """The value as JSON and the arrays it refers to. Raises TypeError where it is not what its type declares."""
    arrays: Arrays = {}
    return _write(_shape(kind), value, "", arrays), arrays


def decode(kind: type[T], document: Any, arrays: Mapping[str, np.ndarray] | None = None) -> T:
    """The inverse of ``encode``; missing fields take their defaults. Raises OtherLayout where the types do not fit."""
    try:
        value: T = _read(_shape(kind), document, arrays or {})
    except (KeyError, TypeError, ValueError, AttributeError) as odd:
        raise OtherLayout(f"a stored {_name(kind)} cannot be read by this version ({odd}): recompute it") from odd
    return value


def pack(kind: Any, value: Any) -> Arrays:
    """The value as named arrays alone, with its layout."""
    document, arrays = encode(kind, value)
    text = json.dumps({"layout": layout_of(kind), "value": document}, allow_nan=False)
    return {**arrays, DOCUMENT: np.frombuffer(text.encode(), dtype=np.uint8)}


def unpack(kind: type[T], arrays: Mapping[str, np.ndarray]) -> T:
    """The inverse of ``pack``. Raises OtherLayout for a value of another version."""
    try:
        packed = json.loads(arrays[DOCUMENT].tobytes())
        layout, document = packed["layout"], packed["value"]
    except (KeyError, TypeError, ValueError):
        layout, document = "unknown", None
    if layout != (expected := layout_of(kind)):
        words = f"computed by an older version (layout {layout}; this one reads {expected}): recompute it"
        raise OtherLayout(f"this {_name(kind)} was {words}")
    return decode(kind, document, arrays)


def layout_of(kind: Any) -> str:
    """A short digest of a type and every type inside it: their names, fields and members."""
    if kind not in _layouts:
        described: dict[type, Any] = {}
        outline = [_outline(_shape(kind), described), *described.values()]
        _layouts[kind] = hashlib.sha256(json.dumps(outline).encode()).hexdigest()[:16]
    return _layouts[kind]


_declared: dict[str, type] = {}
_layouts: dict[Any, str] = {}


def declare(**names: type) -> None:
    """Makes types known that a module names in annotations but imports for the type checker only."""
    _declared.update(names)


Form = Literal["any", "plain", "float", "bytes", "enum", "literal", "array", "class", "union", "row", "items", "pairs"]


@dataclass(frozen=True)
class _Shape:
    """What a declared type is to the codec: its form, the types it is made of, and what builds a value."""

    form: Form
    parts: tuple[Any, ...] = ()
    make: Any = None

    @property
    def look(self) -> str:
        """What a document of this type is recognised by inside a union."""
        if self.form in ("enum", "literal"):
            return type(next(iter(self.make)).value if self.form == "enum" else self.parts[0]).__name__
        if self.form in ("class", "plain"):
            return f"{_TAG} {self.make.__name__}" if self.form == "class" else str(self.make.__name__)
        return "list" if self.form in ("row", "items", "pairs") else self.form

    @property
    def tagged(self) -> bool:
        """Must a document of this union say which of several classes it is?"""
        return len([member for member in self.parts if member.form == "class"]) > 1

    def member(self, look: str) -> _Shape:
        """The member of a union that looks so; a whole number may stand for a float."""
        for member in self.parts:
            if member.look in (look, "float" if look == "int" else look):
                shape: _Shape = member
                return shape
        raise TypeError(f"{look} is none of {', '.join(member.look for member in self.parts)}")


def _shape_of(kind: Any) -> _Shape:
    """Raises TypeError for a type whose values could not be told apart or built again."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    origin = (
        typing.get_origin(getattr(origin, "__value__", None)) or origin
    )  # NDArray is a named alias from numpy 2.5 on
    if kind in (Any, object):
        return _Shape("any")
    if kind in (str, int, bool, None, type(None)):
        return _Shape("plain", make=kind or type(None))
    if kind in (float, bytes):
        return _Shape("float" if kind is float else "bytes")
    if origin is Literal:
        return _Shape("literal", parts)
    if np.ndarray in (kind, origin):
        return _Shape("array")
    if origin in (typing.Union, types.UnionType):
        return _union([_shape(part) for part in parts])
    if origin is tuple and parts[-1] is not Ellipsis:
        return _Shape("row", parts)
    if origin in (tuple, list, frozenset, Sequence):
        return _Shape("items", parts[:1], tuple if origin is Sequence else origin)
    if origin in (dict, Mapping):
        return _Shape("pairs", parts)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Shape("enum", make=kind)
    if isinstance(kind, type) and (family := list(_family(kind))):
        return _class(kind) if family == [kind] else _union([_class(member) for member in family])
    raise TypeError(f"values of type {kind!r} cannot be stored")


_shape: Callable[[Any], _Shape] = cache(_shape_of)


def _union(shapes: list[_Shape]) -> _Shape:
    """Inner unions are unfolded; no two members may look alike when stored."""
    members = [m for shape in shapes for m in (shape.parts if shape.form == "union" else (shape,))]
    looks = [member.look for member in members]
    if len(set(looks)) < len(looks) or "any" in looks:
        raise TypeError(f"members of a union could not be told apart when stored: {', '.join(looks)}")
    return _Shape("union", tuple(sorted(members, key=lambda m: m.look != "int")))  # a whole number is first an int


def _class(kind: Any) -> _Shape:
    return _Shape("class", tuple(field.name for field in fields(kind)), kind)


def _type_hints(kind: Any) -> dict[str, Any]:
    """The declared types of a dataclass's fields."""
    return typing.get_type_hints(kind, localns=_declared)


_types: Callable[[Any], dict[str, Any]] = cache(_type_hints)


def _family(kind: Any) -> Iterator[Any]:
    """The dataclasses among a class and everything derived from it.

    A subclass that only shows its base differently adds no field and is stored as its base: which module happens to be
    imported must not change what a stored result looks like.
    """
    if "__dataclass_fields__" in vars(kind):
        yield kind
    for derived in type.__subclasses__(kind):
        yield from _family(derived)


def _outline(shape: _Shape, described: dict[type, Any]) -> Any:
    """The structure of a type; a class is described once and then named by its place."""
    if shape.form == "class":
        if shape.make not in described:
            described[shape.make] = None  # first, for a class that holds itself
            types_of = _types(shape.make)
            outlines = [[f, _outline(_shape(types_of[f]), described)] for f in shape.parts]
            described[shape.make] = [shape.make.__qualname__, outlines]
        return list(described).index(shape.make)
    if shape.form == "enum":
        return [shape.make.__qualname__, *(str(member.value) for member in shape.make)]
    if shape.form == "union":
        return sorted(json.dumps(_outline(member, described)) for member in shape.parts)
    inner = map(str, shape.parts) if shape.form == "literal" else (_outline(_shape(p), described) for p in shape.parts)
    return [shape.form, getattr(shape.make, "__name__", ""), *inner]


def _write(shape: _Shape, value: Any, path: str, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    match shape.form:
        case "any":
            return _write_any(value, path, arrays)
        case "plain" if isinstance(value, shape.make):
            return None if value is None else shape.make(value)
        case "float" if isinstance(value, float | int):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        case "bytes" if isinstance(value, bytes):
            return {"bytes": value.hex()}
        case "enum" if isinstance(value, shape.make):
            return value.value
        case "literal" if value in shape.parts:
            return value
        case "array" if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        case "class" if _is_a(shape.make, value):
            hints = _types(shape.make)
            return {f: _write(_shape(hints[f]), getattr(value, f), _under(path, f), arrays) for f in shape.parts}
        case "union":
            member = shape.member(_look_of_value(value))
            written = _write(member, value, path, arrays)
            return {_TAG: member.make.__name__, **written} if shape.tagged and member.form == "class" else written
        case "row" if isinstance(value, tuple):
            pairs = enumerate(zip(shape.parts, value, strict=True))
            return [_write(_shape(part), v, _under(path, n), arrays) for n, (part, v) in pairs]
        case "items" if isinstance(value, list | tuple | frozenset):
            item, ordered = _shape(shape.parts[0]), sorted(value) if shape.make is frozenset else value
            return [_write(item, v, _under(path, n), arrays) for n, v in enumerate(ordered)]
        case "pairs" if isinstance(value, Mapping):
            keys, values = map(_shape, shape.parts)
            return [
                [_write(keys, k, _under(path, f"key{n}"), arrays), _write(values, v, _under(path, n), arrays)]
                for n, (k, v) in enumerate(value.items())
            ]
    raise TypeError(f"{path or 'the value'}: {type(value).__name__} is not what its type declares ({shape.look})")


def _write_any(value: Any, path: str, arrays: Arrays) -> Any:
    """A value declared as plain ``object`` (settings): what is not JSON by itself says what it is."""
    if isinstance(value, Mapping):
        return {"pairs": _write(_shape(dict[Any, Any]), value, path, arrays)}
    if isinstance(value, tuple):
        return {"tuple": _write(_shape(list[Any]), value, path, arrays)}
    if isinstance(value, Enum):
        return value.value
    for kind in (type(None), bool, int, str, float, bytes, np.ndarray, list):
        if isinstance(value, kind):
            return _write(_shape(list[Any] if kind is list else kind), value, path, arrays)
    raise TypeError(f"{path}: {type(value).__name__} cannot be stored without a declared type")


def _is_a(declared: Any, value: Any) -> bool:
    """Is this of the declared class, or of one that only shows it (a subclass without a field of its own)?"""
    return isinstance(value, declared) and type(value).__dataclass_fields__ is declared.__dataclass_fields__


def _look_of_value(value: Any) -> str:
    if is_dataclass(value):
        return f"{_TAG} {type(value).__name__}"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, Enum):
        return type(value.value).__name__
    return "list" if isinstance(value, tuple | list | frozenset | Mapping) else type(value).__name__


def _read(shape: _Shape, document: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    match shape.form:
        case "any":
            return _read_any(document, arrays)
        case "plain" if type(document) is shape.make:
            return document
        case "float":
            return float(document["float"] if isinstance(document, dict) else document)
        case "bytes":
            return bytes.fromhex(document["bytes"])
        case "enum":
            return shape.make(document)
        case "literal" if document in shape.parts:
            return document
        case "array":
            return arrays[document["array"]]
        case "class":
            return _build(shape.make, document, arrays)
        case "union":
            return _read(shape.member(_look_of_document(shape, document)), document, arrays)
        case "row":
            return tuple(_read(_shape(p), d, arrays) for p, d in zip(shape.parts, document, strict=True))
        case "items" if isinstance(document, list):
            item = _shape(shape.parts[0])
            return shape.make(_read(item, d, arrays) for d in document)
        case "pairs":
            keys, values = map(_shape, shape.parts)
            return {_read(keys, k, arrays): _read(values, v, arrays) for k, v in document}
    raise TypeError(f"{json.dumps(document)[:60]} is no {shape.look}")


def _look_of_document(union: _Shape, document: Any) -> str:
    if not isinstance(document, dict):
        return type(document).__name__
    looks = [str(member.look) for member in union.parts]
    alone = [look for look in looks if document.keys() == {look}]  # {"array": …}, {"float": …}, {"bytes": …}
    if union.tagged:
        return alone[0] if alone else f"{_TAG} {document[_TAG]}"
    return next((look for look in (*alone, *looks) if look in alone or look.startswith(f"{_TAG} ")), "dict")


def _build(kind: Any, document: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    hints = _types(kind)
    given = {name: value for name, value in document.items() if name != _TAG}
    if unknown := given.keys() - hints.keys():
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**{name: _read(_shape(hints[name]), value, arrays) for name, value in given.items()})


def _read_any(document: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(document, list):
        return [_read_any(d, arrays) for d in document]
    if not isinstance(document, dict):
        return document
    ((what, inner),) = document.items()
    if what in ("pairs", "tuple"):
        return _read(_shape(dict[Any, Any] if what == "pairs" else tuple[Any, ...]), inner, arrays)
    return _read(_shape({"float": float, "bytes": bytes, "array": np.ndarray}[what]), document, arrays)


def _under(path: str, name: object) -> str:
    return f"{path}/{name}" if path else str(name)


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))

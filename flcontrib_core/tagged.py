"""Tagged records: small frozen dataclasses of numbers and ids that travel as JSON, by tag, without any text.

Facts of the detector and remarks of the estimators are such records. Whoever is not their subject stands in an
``Others`` and nowhere else, so that ``without_others`` can take every name out before a sentence is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, dataclass_transform

from flcontrib_core.codec import OtherLayout, decode, encode

TAG = "fact"
"""The key of the tag in JSON."""


@dataclass(frozen=True)
class Others:
    """Clients that a record names beside its subject: how many, and which, unless the names were taken out."""

    count: int
    names: tuple[str, ...] = ()

    @classmethod
    def named(cls, names: Iterable[str]) -> Others:
        """All of these clients, by name."""
        listed = tuple(names)
        return cls(len(listed), listed)

    def unnamed(self) -> Others:
        """Their number alone."""
        return Others(self.count)


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Tagged:
    """Base of every fact and remark. Fields are numbers, codes, tuples of them, or ``Others``; never a sentence.

    ``class FewPeers(Tagged, tag="few-peers")`` is all a record needs: it becomes a frozen dataclass of its fields.
    """

    tag: ClassVar[str]
    """How JSON names the kind. It stands in stored results: a class may change its name, never its tag."""

    def __init_subclass__(cls, *, tag: str) -> None:
        super().__init_subclass__()
        cls.tag = tag
        dataclass(frozen=True)(cls)

    def to_json(self) -> dict[str, Any]:
        """``{"fact": tag, field: value, …}``"""
        return {TAG: self.tag, **encode(type(self), self)[0]}

    def without_others(self) -> Self:
        """The same record with the other clients counted instead of named."""
        reduced = {f.name: value.unnamed() for f in fields(self) if isinstance(value := getattr(self, f.name), Others)}
        return replace(self, **reduced) if reduced else self


def by_tag(kinds: Sequence[type[Tagged]]) -> dict[str, type[Tagged]]:
    """The kinds of a union by their tags, each of which must be its own."""
    tags = {kind.tag: kind for kind in kinds}
    if len(tags) != len(kinds):
        raise ValueError(f"two of {', '.join(k.__name__ for k in kinds)} share a tag")
    return tags


def from_json(value: object, kinds: Mapping[str, type[Tagged]]) -> Tagged:
    """The record that ``to_json`` wrote; raises ValueError for anything else (the JSON may come from anybody)."""
    if not isinstance(value, dict) or not isinstance(tag := value.get(TAG), str) or tag not in kinds:
        raise ValueError(f"{str(value)[:80]!r} is none of the known records")
    try:
        return decode(kinds[tag], {k: v for k, v in value.items() if k != TAG})
    except OtherLayout as odd:
        raise ValueError(f"{tag!r} with other fields than it has") from odd

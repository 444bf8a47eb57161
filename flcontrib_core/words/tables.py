"""How somebody's table was understood: which column is what, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flcontrib_core.words import numbers

LONGEST_NOTE = 4000
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def table_understood(understood: Mapping[str, Any]) -> str:
    """The whole of ``TableUnderstanding.to_json`` in a few sentences."""
    ignored = ", ".join(f"“{name}”" for name in understood["ignored"] if name)
    left_out = f" Not read: {ignored}." if ignored else ""
    decimal = "comma" if understood["decimal"] == "," else "point"
    signs = f"separated by {SEPARATORS[understood['separator']]}, decimal {decimal}"
    return f"{numbers.several(understood['rows'], 'row')}, {signs}. {_columns(understood)}.{left_out}"


def table_note(name: str, understood: Mapping[str, Any]) -> str:
    """Where a table came from, for the run's own note."""
    return f"Read from {name}: {_columns(understood)}."[:LONGEST_NOTE]


def _columns(understood: Mapping[str, Any]) -> str:
    columns = understood["columns"]
    roles = [f"{role} is “{columns[role]}”" for role in ("epoch", "client", "participated") if role in columns]
    values = [f"“{c}”" if c == name else f"“{c}” as {name}" for name, c in columns["utilities"].items()]
    ways = ["lower" if name in understood["lower_is_better"] else "higher" for name in columns["utilities"]]
    said = ", ".join(roles)
    told = ", ".join(f"{value} ({way} is better)" for value, way in zip(values, ways, strict=True))
    return f"{said[0].upper()}{said[1:]}; values: {told}"

"""What the house promises about its size: short functions, modules one can read in one go, documented names.

A module's documentation begins with what the module provides, which is what ``help()`` and a search show of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST_FUNCTION = 60
LONGEST_MODULE = 350
DOCUMENTED = 0.90
LONGER_MODULES: dict[str, int] = {}
"""What is not yet so. The list only shrinks."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sources(*rooms: str) -> dict[str, str]:
    """The text of every module under these folders, by its path."""
    paths = (path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(paths)}


def public(source: str) -> Iterator[tuple[str, bool]]:
    """The module and every public class, function and method of it, and whether it says what it is."""
    tree = ast.parse(source)
    yield "the module", ast.get_docstring(tree) is not None
    open_bodies: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    while open_bodies:
        prefix, owner = open_bodies.pop()
        for node in owner.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield prefix + node.name, ast.get_docstring(node) is not None
                if isinstance(node, ast.ClassDef):
                    open_bodies.append((f"{prefix}{node.name}.", node))


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Every function and how many lines it takes, signature and docstring included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path}: {name} has {lines} lines"
        for path, source in sources("flcontrib_core", "app", "benchmarks").items()
        for name, lines in functions(source)
        if lines > LONGEST_FUNCTION
    ]
    assert long == []


def test_no_module_is_longer_than_one_reads_in_one_go() -> None:
    lines = {path: source.count("\n") for path, source in sources("flcontrib_core", "app").items()}
    assert {path: n for path, n in lines.items() if n > LONGER_MODULES.get(path, LONGEST_MODULE)} == {}


def test_what_is_public_is_documented() -> None:
    said = [
        (path, name, documented)
        for path, source in sources("flcontrib_core", "app").items()
        for name, documented in public(source)
    ]
    silent = [f"{path}: {name}" for path, name, documented in said if not documented]
    assert 1 - len(silent) / len(said) >= DOCUMENTED, silent[:40]


def test_a_module_says_what_it_provides_before_it_asks_anything() -> None:
    modules = sources("flcontrib_core", "app")
    asking = [path for path, source in modules.items() if re.match(r'"""[^.:]*\?', source)]
    assert asking == []
    assert len(modules) > 400


@pytest.mark.parametrize(
    ("source", "counted"),
    [
        ('"""m"""\ndef f(): ...\n', [("the module", True), ("f", False)]),
        ('class A:\n    """a"""\n    def b(self): ...\n    def _c(self): ...\n', None),
    ],
)
def test_the_count_counts(source: str, counted: list[tuple[str, bool]] | None) -> None:
    expected = counted or [("the module", False), ("A", True), ("A.b", False)]
    assert list(public(source)) == expected

"""Imports go down only: the rooms of the core in one order, the laboratory apart, the app by the rooms' doors.

Every import counts, also one inside a function or only for types: what a module names, it depends on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ORDER = (
    "execution",
    "runs",
    "games",
    "shapley",
    "scheduling",
    "history",
    "detection",
    "auditing",
    "words",
    "charts",
    "reports",
    "notebook",
    "workspace",
    "laboratory",
    "commands",
    "app",
)
"""A room imports from those before it. Below all of them is the ground: modules of their own beside the rooms
(errors, vocabulary, files …). ``execution`` stands first because it knows nothing of what it runs."""
MAY_IMPORT_THE_LABORATORY = {"commands"}


@dataclass(frozen=True)
class Import:
    """One module names another one."""

    source: str
    target: str

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.source), room_of(self.target)


def sources() -> dict[str, Path]:
    """Every module of the core and of the app by its full name."""
    found = {}
    for top, package in ((ROOT, "flcontrib_core"), (ROOT / "app", "flcontrib_dashboard")):
        for path in (top / package).rglob("*.py"):
            parts = path.relative_to(top).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = sources()
VERSION = "flcontrib_core.__version__"
"""The one thing that the porch says by itself; whatever else it offers comes from the rooms."""
OFFERED = {
    f"flcontrib_core.{room}.{name}"
    for room in ORDER
    if f"flcontrib_core.{room}" in MODULES
    for name in getattr(import_module(f"flcontrib_core.{room}"), "__all__", ())
}
"""What the doors offer; a few modules are among it as a whole."""


def room_of(module: str) -> str:
    """The room a module lies in; ``ground`` for modules beside the rooms, ``porch`` for the package itself."""
    package, _, rest = module.partition(".")
    if package == "flcontrib_dashboard":
        return "app"
    if not rest:
        return "porch"
    name = rest.partition(".")[0]
    if name in ("cli", "console"):
        return "commands"
    return name if name in ORDER else "ground"


def imports_of(module: str, code: str) -> Iterator[Import]:
    """What a module imports from us: the module meant, where ``from x import y`` may mean ``x.y`` or a name in x."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} line {node.lineno}: imports are written with the full name"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in {*MODULES, VERSION} - OFFERED else str(node.module) for name in inner]
        else:
            continue
        for name in dict.fromkeys(names):
            if name.partition(".")[0] in ("flcontrib_core", "flcontrib_dashboard") and name != module:
                yield Import(module, name)


def goes_up(found: Import) -> bool:
    """Does this import lead to a room above, to the porch, or into the laboratory from a place that may not?"""
    source, target = found.rooms
    if source == target or source == "porch":
        return False
    if target == "laboratory":
        return source not in MAY_IMPORT_THE_LABORATORY
    levels = {"ground": -1, **{room: level for level, room in enumerate(ORDER)}, "porch": len(ORDER)}
    return levels[target] > levels[source]


def passes_a_door(found: Import) -> bool:
    """Does the app reach into a room instead of asking at its door?"""
    source, target = found.rooms
    return source == "app" and target not in ("app", "ground") and found.target.count(".") > 1


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return [found for module, path in MODULES.items() for found in imports_of(module, path.read_text())]


def test_imports_go_down_only(imports: list[Import]) -> None:
    found = {(i.source, i.target) for i in imports if goes_up(i)}
    assert sorted(found) == []


def test_the_app_enters_by_the_doors(imports: list[Import]) -> None:
    found = {(i.source, i.target) for i in imports if passes_a_door(i)}
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("code", "past"),
    [
        ("from flcontrib_core.words import numbers", False),
        ("from flcontrib_core.words.numbers import signed", True),
        ("from flcontrib_core.words import facts", True),
        ("import flcontrib_core.charts.palette", True),
    ],
)
def test_a_module_is_entered_only_where_its_door_offers_it(code: str, past: bool) -> None:
    (only,) = imports_of("flcontrib_dashboard.views.x", code)
    assert passes_a_door(only) is past


def test_every_room_stands_in_the_order() -> None:
    rooms = {path.parent.name for path in (ROOT / "flcontrib_core").glob("*/__init__.py")}
    assert rooms <= set(ORDER)
    assert {"runs", "history", "workspace", "laboratory"} <= rooms


@pytest.mark.parametrize(
    ("source", "target", "up"),
    [
        ("flcontrib_core.runs.x", "flcontrib_core.errors", False),
        ("flcontrib_core.errors", "flcontrib_core.runs.x", True),
        ("flcontrib_core.history.x", "flcontrib_core.shapley", False),
        ("flcontrib_core.shapley.x", "flcontrib_core.history", True),
        ("flcontrib_core.commands.x", "flcontrib_core.laboratory", False),
        ("flcontrib_core.workspace.x", "flcontrib_core.laboratory", True),
        ("flcontrib_dashboard.views.x", "flcontrib_core.laboratory", True),
        ("flcontrib_core.words.x", "flcontrib_dashboard.state", True),
    ],
)
def test_the_order_bites(source: str, target: str, up: bool) -> None:
    assert goes_up(Import(source, target)) is up


def test_an_import_inside_a_function_or_for_types_counts() -> None:
    code = "def f():\n    from flcontrib_core import history\nif T:\n    import flcontrib_core.charts.x as c\n"
    assert {i.target for i in imports_of("m", code)} == {"flcontrib_core.history", "flcontrib_core.charts.x"}


def test_a_class_has_a_name_of_its_own() -> None:
    homes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert len(homes) > 500
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}

"""No browser test minds that a page shows an element twice for a moment.

While a script runs again, Streamlit leaves what the last run drew until the new run is through, so a locator may match
two elements; Playwright then refuses to act ("strict mode violation"). Every locator says which one it means.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FINDS = ("locator", "filter")
NEEDS_ONE = {
    *(
        "click",
        "dblclick",
        "tap",
        "clear",
        "uncheck",
        "set_checked",
        "fill",
        "press",
        "press_sequentially",
        "hover",
        "focus",
        "check",
        "type",
        "evaluate",
    ),
    *("set_input_files", "select_option", "inner_text", "text_content", "get_attribute", "input_value"),
    *("bounding_box", "wait_for", "scroll_into_view_if_needed", "screenshot", "drag_to", "dispatch_event"),
    *("to_be_visible", "to_be_attached", "to_be_in_viewport", "not_to_be_in_viewport", "to_contain_text"),
    *("to_have_text", "to_have_value", "not_to_have_value", "to_have_js_property", "to_be_enabled", "to_be_focused"),
    *("to_have_attribute", "to_be_disabled", "to_be_checked"),
}


def strict(node: ast.expr, names: set[str]) -> bool:
    """May this locator match several elements, of which it names none?"""
    if isinstance(node, ast.Name):
        return node.id in names
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in names or (node.func.id == "expect" and strict(node.args[0], names))
    return isinstance(node.func, ast.Attribute) and (node.func.attr.startswith("get_by_") or node.func.attr in FINDS)


def strict_uses(code: str) -> Iterator[int]:
    """The lines that act on such a locator, or expect something of it."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    finders = {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None and strict(node.value, set())
    }
    for function in functions:
        names = finders | {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and strict(node.value, finders)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(attr=act, value=place)) if act in NEEDS_ONE and strict(place, names):
                    yield node.lineno


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.name)
def test_every_locator_says_which_element_it_means(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [f"{line}: {lines[line - 1].strip()}" for line in strict_uses(path.read_text())] == []


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("page.get_by_text('x').click()", True),
        ("expect(page.get_by_text('x')).to_be_visible()", True),
        ("x = page.get_by_role('button')\n    x.click()", True),
        ("page.locator('a').filter(has_text='x').inner_text()", True),
        ("page.get_by_text('x').last.click()", False),
        ("x = page.get_by_role('button').first\n    expect(x).to_be_visible()", False),
        ("expect(page.get_by_text('x')).to_have_count(0)", False),
        ("page.keyboard.press('Tab')", False),
        ("def box():\n        return page.get_by_role('button')\n    box().click()", True),
        ("def box():\n        return page.get_by_role('button').last\n    box().click()", False),
    ],
)
def test_the_scan_bites(code: str, refused: bool) -> None:
    assert bool(list(strict_uses(f"def f(page):\n    {code}\n"))) is refused

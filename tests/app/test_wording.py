"""Are numbers and names written so that a reader cannot misread them?"""

from __future__ import annotations

import re

import pytest
from flcontrib_dashboard import controls

from flcontrib_core.charts.style import plain
from flcontrib_core.words import budget, numbers


@pytest.mark.parametrize(
    ("values", "digits"), [((0.4, 0.01), 2), ((0.013, -0.002), 3), ((0.0026,), 4), ((1e-12,), 6), ((0.0,), 2), ((), 2)]
)
def test_digits_follow_the_size(values: tuple[float, ...], digits: int) -> None:
    assert numbers.digits_for(*values) == digits


@pytest.mark.parametrize(
    ("value", "said"), [(1.0, "0.99"), (0.994, "0.99"), (0.5, "0.50"), (0.003, "< 0.01"), (0.0, "< 0.01"), (None, "–")]
)
def test_no_probability_is_certain(value: float | None, said: str) -> None:
    assert numbers.probability(value) == said


def test_numbers_that_differ_look_different() -> None:
    totals = [0.0129, 0.0117, 0.0026]
    shown = {numbers.signed(t, numbers.digits_for(*totals)) for t in totals}
    assert shown == {"+0.013", "+0.012", "+0.003"}


def test_direction_marks_are_spelled_out_in_text_and_charts() -> None:
    name = "ab\u202egpj.exe"
    assert plain(name) == "ab[U+202E]gpj.exe"
    assert controls.text_of(name).replace("\\", "") == "ab[U+202E]gpj.exe"


@pytest.mark.parametrize("address", ["http://a.b/c", "HTTPS://a.b", "www.a.b", "x@a.bc"])
def test_addresses_never_become_links(address: str) -> None:
    """Markdown's automatic links start at http://, https://, www. and around @, also in escaped text."""
    shown = controls.text_of(address).replace("\\", "")
    assert shown.replace("\u2060", "") == address
    assert not re.search(r"https?://|www\.|@\w", shown, re.IGNORECASE)


def test_names_are_neither_markdown_nor_markup() -> None:
    assert controls.text_of("![x](y)") == r"\!\[x\]\(y\)"
    assert plain("<b>&amp;</b>") == "&lt;b&gt;&amp;amp;&lt;/b&gt;"


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0%"), (0.0156, "1.6%"), (0.02, "2%"), (0.0002, "0.02%"), (0.34, "34%")]
)
def test_percentages_have_no_digits_without_meaning(value: float, said: str) -> None:
    assert numbers.percent(value) == said


@pytest.mark.parametrize(("number", "said"), [(812, "812 B"), (3_400, "3.4 kB"), (77_000, "77 kB"), (2.1e8, "210 MB")])
def test_sizes_are_rounded(number: int, said: str) -> None:
    assert numbers.size(int(number)) == said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "all epochs"),
        ({"budget": None}, "all epochs"),
        ({"budget": 0.6}, "60% of the epochs"),
        ({"budget": 18}, "18 epochs"),
        ({"budget": 3, "epochs": (4,)}, "1 epoch"),
    ],
)
def test_a_budget_is_said_in_words(asked: dict[str, object], said: str) -> None:
    assert budget({"budget": asked}) == said

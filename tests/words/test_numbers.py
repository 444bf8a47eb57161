"""One spelling of every number, at the edges where spellings change."""

from __future__ import annotations

import doctest

import pytest

from flcontrib_core.words import numbers
from flcontrib_core.words.numbers import (
    count,
    digits_for,
    epoch_list,
    half_width,
    interval,
    listing,
    moment,
    named,
    percent,
    plain,
    probability,
    seconds,
    several,
    share,
    signed,
    size,
    span,
)

NAN = float("nan")
SPELLINGS = [
    (signed(0.0006), "+0.001"),
    (signed(-0.0004), "−0.00040"),
    (signed(0.0000031), "+3.1e−06"),
    (interval(-0.0039, 0.0004, 2), "−0.0039 ± 0.0004"),
    (interval(-0.0039, 0.000004, 2), "−0.0039 ± < 0.0001"),
    (named("loss"), "client loss"),
    (named("all others"), "client all others"),
    (named("Oslo"), "Oslo"),
    (named("site-7"), "site-7"),
    (named("مستشفى"), "مستشفى"),
    (signed(2e-15, 2), "+2.0e−15"),
    (signed(NAN), "not computed"),
    (plain(-0.125, 1), "−0.1"),
    (half_width(NAN), "error unknown"),
    (half_width(0.0), "exact"),
    (half_width(0.01), "± 0.020"),
    (half_width(0.0001), "± < 0.001"),
    (half_width(0.001, 1), "± < 0.1"),
    (interval(0.5, 0.0), "+0.500 ± 0.000"),
    (interval(0.5, 0.0001, 2), "+0.50 ± < 0.01"),
    (probability(None), "–"),
    (probability(0.004), "< 0.01"),
    (probability(0.01), "0.01"),
    (probability(0.999), "0.99"),
    (str(digits_for(0.4, -0.1)), "2"),
    (str(digits_for(0.0026, NAN)), "4"),
    (str(digits_for(1e-9)), "6"),
    (str(digits_for()), "2"),
    (count(1_234_567), "1\u2009234\u2009567"),
    (several(1, "client"), "1 client"),
    (several(2, "entry", "entries"), "2 entries"),
    (several(0, "client"), "0 clients"),
    (share(0.344), "34%"),
    (share(None), "–"),
    (share(0.997), ">99%"),
    (share(1.0), "100%"),
    (share(1.0 - 1e-12), "100%"),
    (share(0.003), "<1%"),
    (share(0.0), "0%"),
    (percent(0.1), "10%"),
    (percent(0.0163), "1.6%"),
    (percent(0.0002), "0.02%"),
    (span((7, 7)), "epoch 7"),
    (span((7, 9)), "epochs 7–9"),
    (epoch_list([5]), "epoch 5"),
    (epoch_list([9, 5, 5]), "epochs 5, 9"),
    (listing(["a", "b"], 2), "a, b"),
    (listing(list("abcdefg"), 3), "a, b, c and 4 more"),
    (seconds(9.94), "9.9 s"),
    (seconds(10), "10 s"),
    (seconds(89), "89 s"),
    (seconds(90), "2 min"),
    (seconds(5399), "90 min"),
    (seconds(7560), "2.1 h"),
    (size(812), "812 B"),
    (size(9), "9 B"),
    (size(1000), "1.0 kB"),
    (size(3_400), "3.4 kB"),
    (size(210_000_000), "210 MB"),
    (size(9_900_000_000_000), "9900 GB"),
    (moment("2026-11-16T17:20:31Z"), "2026-11-16 17:20 UTC"),
    (moment(""), ""),
]


@pytest.mark.parametrize(("text", "expected"), SPELLINGS)
def test_spelling(text: str, expected: str) -> None:
    assert text == expected


def test_the_examples_in_the_docstrings_hold() -> None:
    outcome = doctest.testmod(numbers)
    assert outcome.attempted >= 5
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("client", "called"),
    [
        ("7", "client 7"),
        ("007", "client 007"),
        ("10.0.0.3", "client 10.0.0.3"),
        ("٣", "client ٣"),
        ("a7", "a7"),
        ("病院", "病院"),
    ],
)
def test_only_a_name_without_a_letter_is_introduced(client: str, called: str) -> None:
    assert numbers.named(client) == called
    assert numbers.named(called) == called


def test_clients_are_listed_by_their_numbers() -> None:
    ids = [str(i) for i in range(1, 13)]
    assert numbers.in_order(sorted(ids)) == ids
    assert numbers.in_order(["b2", "b10", "a"]) == ["a", "b2", "b10"]
    assert sorted(numbers.in_order(["1", "01", "٠١"])) == sorted(["1", "01", "٠١"])


def test_a_measure_is_written_as_its_readers_write_it() -> None:
    assert numbers.capital(numbers.credited("mse", True)) == "MSE reduction"
    assert numbers.capital(numbers.credited("loss", True)) == "Loss reduction"
    assert numbers.credited("r2", False) == "R² gain"

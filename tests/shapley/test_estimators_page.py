"""docs/estimators.md names every estimator there is, and no benchmark that is not."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from flcontrib_core.shapley.registry import BUILT_IN, estimator_by_name

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "estimators.md").read_text()


def test_every_estimator_is_on_the_page() -> None:
    for name in BUILT_IN:
        assert f"`{name}`" in PAGE or f"**{name}**" in PAGE, name


def test_every_benchmark_on_the_page_exists() -> None:
    named = set(re.findall(r"python -m benchmarks (\w+)", PAGE)) | {"throughput", "whole_run", "scale"}
    assert named <= {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert all(f"`{name}`" in PAGE for name in ("throughput", "whole_run", "scale"))


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "mr"] + ["shapiq:SVARM"])
def test_every_option_stands_beside_its_object(name: str) -> None:
    kind = type(estimator_by_name(name))
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.__name__}` |"))
    _, _, names, options, _ = row.split("|")
    assert f"`{name.replace('SVARM', 'NAME')}`" in names
    assert set(re.findall(r"`(\w+)`", options)) == {f.name for f in fields(kind)} - {"evaluations"}

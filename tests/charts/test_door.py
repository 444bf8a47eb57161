"""Does the door of the charts open by every name it offers, and load no more than was asked for?"""

from __future__ import annotations

import subprocess

import pytest

from flcontrib_core import charts
from flcontrib_core.execution.children import child_environment, python_command


@pytest.mark.parametrize("name", charts.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(charts, name) is not None
    assert name in dir(charts)


def test_one_chart_does_not_load_the_others_nor_plotly() -> None:
    code = "import sys; from flcontrib_core.charts import schedule_facts; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        python_command("-c", code), env=child_environment(), capture_output=True, text=True, check=True
    ).stdout.split()
    assert "flcontrib_core.charts.schedule" in loaded
    assert not {"plotly", "streamlit", "torch", "flcontrib_core.charts.evidence"} & {*loaded}

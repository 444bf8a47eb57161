"""Tables: long forms in CSV and Parquet, the three cell states, and complete coalition games."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flcontrib_core.errors import RunLogError, SettingsError
from flcontrib_core.execution.children import child_environment, python_command
from flcontrib_core.runs import limits, parquet
from flcontrib_core.runs.bundle import STAGES, check_run_log, read_run_log
from flcontrib_core.runs.contribution_table import table_template
from flcontrib_core.runs.run_log import ContributionTable, UtilityTable
from tests.corpus.tables import CONTRIBUTIONS, UTILITIES
from tests.in_process import flcontrib


def written(text: str, path: Path) -> Path:
    path.write_text(text)
    return path


def contributions(path: Path, **options: object) -> ContributionTable:
    run = read_run_log(path, **options)  # type: ignore[arg-type]
    assert isinstance(run, ContributionTable)
    return run


def utilities(path: Path) -> UtilityTable:
    run = read_run_log(path)
    assert isinstance(run, UtilityTable)
    return run


def test_contribution_table_keeps_the_three_states_apart(tmp_path: Path) -> None:
    table = contributions(written(CONTRIBUTIONS, tmp_path / "values.csv"))
    assert table.client_ids == ("a", "b", "c")
    assert table.utilities == ("loss", "accuracy")
    assert table.lower_is_better == {"loss"}
    assert table.epoch_count == 4
    nan = np.nan
    np.testing.assert_array_equal(
        table.values["accuracy"], [[0, 0, 0], [0.1, 0.05, 0], [nan, 0, 0.0], [0, 0, 0], [0, 0.001, 0]]
    )
    np.testing.assert_array_equal(table.values["loss"][2], [-0.125, 0, 0.5])
    expected = np.array([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool)
    np.testing.assert_array_equal(table.participated, expected)
    assert table.name == "values"


def test_table_digest_is_that_of_one_entry_called_table(tmp_path: Path) -> None:
    path = written(CONTRIBUTIONS, tmp_path / "values.csv")
    content = hashlib.sha256(CONTRIBUTIONS.encode()).hexdigest()
    assert contributions(path).digest == hashlib.sha256(f"table\0{content}\n".encode()).hexdigest()
    path.rename(tmp_path / "other.csv")
    assert contributions(tmp_path / "other.csv").digest == hashlib.sha256(f"table\0{content}\n".encode()).hexdigest()


def test_rows_of_epoch_0_are_the_initial_models_share(tmp_path: Path) -> None:
    table = contributions(written("epoch,client,loss\n0,a,0.7\n0,b,0.7\n1,a,-0.1\n", tmp_path / "t.csv"))
    np.testing.assert_array_equal(table.values["loss"], [[0.7, 0.7], [-0.1, 0]])
    assert not table.participated[0].any()


def test_direction_of_columns_can_be_named(tmp_path: Path) -> None:
    path = written("epoch,client,loss,error\n1,a,1,1\n", tmp_path / "t.csv")
    assert contributions(path).lower_is_better == {"loss"}
    assert contributions(path, lower_is_better=["error"]).lower_is_better == {"loss", "error"}
    with pytest.raises(SettingsError, match="recall"):
        contributions(path, lower_is_better=["recall"])


@pytest.mark.parametrize("column", ["Loss", "LOSS", "loss ", " loss"])
def test_a_loss_is_a_loss_however_it_is_spelled(column: str, tmp_path: Path) -> None:
    """Read as a gain, help would be shown as harm."""
    path = written(f"epoch,client,{column},recall\n1,a,1,1\n", tmp_path / "t.csv")
    assert contributions(path).lower_is_better == {column}


def test_nonfinite_rows_can_be_treated_as_absent(tmp_path: Path) -> None:
    path = written("epoch,client,loss\n1,a,0.5\n1,b,nan\n2,b,1\n", tmp_path / "t.csv")
    assert [p.code for p in check_run_log(path).errors] == ["E_NONFINITE"]
    table = contributions(path, nonfinite="absent")
    assert not table.participated[1, 1]
    assert table.values["loss"][1, 1] == 0
    assert [w.code for w in table.warnings] == ["W_NONFINITE_ABSENT"]


def test_every_broken_row_is_reported(tmp_path: Path) -> None:
    path = written("epoch,client,loss\n1,a,x\n1,b,0.5\none,c,1\n2,a\n2,,1\n", tmp_path / "t.csv")
    errors = check_run_log(path).errors
    assert [(p.code, p.where) for p in errors] == [
        ("E_TABLE_VALUE", 't.csv row 1, column "loss"'),
        ("E_TABLE_VALUE", 't.csv row 3, column "epoch"'),
        ("E_TABLE", "t.csv row 4"),
        ("E_CLIENT_ID", 't.csv row 5, column "client"'),
    ]


def test_a_cell_that_is_not_finite_names_its_column(tmp_path: Path) -> None:
    path = written("epoch,client,loss,recall\n1,a,0.5,inf\n1,b,,nan\n", tmp_path / "t.csv")
    errors = check_run_log(path).errors
    assert [(p.code, p.where) for p in errors] == [
        ("E_NONFINITE", 't.csv row 1, column "recall"'),
        ("E_NONFINITE", 't.csv row 2, column "recall"'),
    ]


def test_the_template_is_a_sound_table_with_every_state_of_a_cell(tmp_path: Path) -> None:
    table = contributions(written(table_template(), tmp_path / "template.csv"))
    took_part = table.participated[1:]
    assert not took_part.all(), "somebody was absent"
    assert np.isnan(table.values["loss"][1:][took_part]).any(), "something was not computed"
    assert np.isfinite(table.values["loss"][1:][took_part]).any()


def test_ids_that_look_like_missing_values_stay_ids(tmp_path: Path) -> None:
    names = ["NA", "null", "None", "nan", "007", "7", "=1+1", "TRUE", "a;b"]
    lines = "".join(f'1,"{name}",0.5\n' for name in names)
    assert contributions(written("epoch,client,loss\n" + lines, tmp_path / "t.csv")).client_ids == tuple(names)


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [line.split(",") for line in CONTRIBUTIONS.splitlines()[1:]]
    table = pa.table(
        {
            "epoch": pa.array([int(r[0]) for r in rows], pa.int32()),
            "client": pa.array([r[1] for r in rows]).dictionary_encode(),
            "loss": pa.array([float(r[2]) for r in rows], pa.float64()),
            "accuracy": pa.array([float(r[3]) if r[3] else None for r in rows], pa.float64()),
        }
    )
    pq.write_table(table, tmp_path / "values.parquet", compression="zstd")
    ours = contributions(tmp_path / "values.parquet")
    plain = contributions(written(CONTRIBUTIONS, tmp_path / "values.csv"))
    assert ours.client_ids == plain.client_ids
    np.testing.assert_array_equal(ours.participated, plain.participated)
    for name in plain.utilities:
        np.testing.assert_array_equal(ours.values[name], plain.values[name])


def test_utility_table_is_indexed_by_bitmask_whatever_the_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clients = ["a", "b", "c", "d"]
    epochs = {1: ["c", "a"], 2: ["d", "b", "c"], 3: [], 4: ["a", "b", "c", "d"]}
    truth: dict[tuple[int, frozenset[str]], tuple[float, float]] = {}
    lines = []
    for epoch, members in epochs.items():
        for size in range(len(members) + 1):
            for coalition in itertools.combinations(members, size):
                values = (float(rng.normal()), float(rng.normal()))
                truth[epoch, frozenset(coalition)] = values
                order = list(rng.permutation(coalition)) if coalition else []
                lines.append(f"{epoch},{';'.join(order)},{values[0]!r},{values[1]!r}\n")
    rng.shuffle(lines)
    table = utilities(written("epoch,coalition,loss,accuracy\n" + "".join(lines), tmp_path / "games.csv"))
    assert sorted(table.client_ids) == clients
    assert table.epoch_count == 4
    for epoch, (players, game) in enumerate(zip(table.participants, table.values, strict=True), start=1):
        assert {table.client_ids[m] for m in players} == set(epochs[epoch])
        assert game.shape == (2 ** len(players), 2)
        for mask in range(2 ** len(players)):
            named = frozenset(table.client_ids[m] for bit, m in enumerate(players) if mask >> bit & 1)
            assert tuple(game[mask]) == truth[epoch, named]


def test_missing_coalition_is_named(tmp_path: Path) -> None:
    lines = [line for line in UTILITIES.splitlines(keepends=True) if not line.startswith("2,c;b,")]
    with pytest.raises(RunLogError) as refused:
        read_run_log(written("".join(lines), tmp_path / "games.csv"))
    (problem,) = refused.value.problems
    assert problem.code == "E_COALITION"
    assert "epoch 2" in problem.where
    assert '"b;c"' in problem.found


def test_data_sizes_beside_a_utility_table(tmp_path: Path) -> None:
    path = written(UTILITIES, tmp_path / "games.csv")
    without = utilities(path)
    assert without.data_sizes is None
    written("client,data_size\nc,30\na,10\nb,20\nunused,5\n", tmp_path / "games.data_sizes.csv")
    table = utilities(path)
    assert dict(zip(table.client_ids, table.data_sizes or (), strict=True)) == {"a": 10, "b": 20, "c": 30}
    assert table.digest != without.digest


@pytest.mark.parametrize("text", [CONTRIBUTIONS, UTILITIES])
def test_check_speaks_of_tables_too(text: str, tmp_path: Path) -> None:
    heard: list[str] = []
    result = check_run_log(written(text, tmp_path / "t.csv"), on_stage=heard.append)
    assert result.ok
    assert result.clients == ("a", "b", "c")
    assert result.epochs == len(result.participants)
    assert tuple(heard) == STAGES


@pytest.mark.parametrize("text", [CONTRIBUTIONS, UTILITIES])
def test_the_command_reads_a_table_once(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no model to rebuild, and reading a million rows takes half of what a check may take."""
    opened: list[str] = []
    monkeypatch.setattr("flcontrib_core.history.meaning.call_apart", lambda *order: opened.append("again"))
    told = flcontrib("check", written(text, tmp_path / "t.csv"), "--json")
    assert json.loads(told.stdout)["model"] is None
    assert opened == []


@pytest.mark.parametrize(("row", "code"), [("1,a;a,1", "E_TABLE"), ("1,a;;b,1", "E_CLIENT_ID"),
                         ("1,;,1", "E_CLIENT_ID"), ("2,a,nan", "E_NONFINITE"), ("1,k,1", "E_COALITION")])  # fmt: skip
def test_the_last_of_many_known_coalitions_is_read_as_strictly(row: str, code: str, tmp_path: Path) -> None:
    """Coalitions of known members take a short way through the reader, chunk by chunk."""
    games = [
        f"{epoch},{';'.join(coalition)},{len(coalition)}\n"
        for size in range(11)
        for coalition in itertools.combinations("abcdefghij", size)
        for epoch in (1, 2)
    ]
    sound = "epoch,coalition,loss\n" + "".join(games)
    for game in utilities(written(sound, tmp_path / "games.csv")).values:
        assert game.ravel().tolist() == [mask.bit_count() for mask in range(1024)]
    refused = check_run_log(written(sound + row + "\n", tmp_path / "more.csv"))
    assert refused.errors[0].code == code


def test_parquet_numbers_keep_every_bit(tmp_path: Path) -> None:
    """Decoded as text by another process, and yet the numbers that Arrow itself gives."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    doubles = rng.normal(size=3000) * 10.0 ** rng.integers(-300, 300, 3000)
    singles = rng.normal(size=3000).astype(np.float32)
    columns: dict[str, Any] = {
        "epoch": np.repeat(np.arange(1.0, 301.0), 10),  # a data frame with a gap keeps whole numbers as floats
        "client": [f'wärd, "{i % 10}"\n' for i in range(3000)],
        "loss": doubles,
        "accuracy": singles,
        "gap": rng.integers(-(2**40), 2**40, 3000),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = contributions(tmp_path / "t.parquet")
    assert table.client_ids == tuple(columns["client"][:10])
    for name in ("loss", "accuracy", "gap"):
        expected = np.asarray(columns[name], dtype=np.float64).reshape(300, 10)
        np.testing.assert_array_equal(table.values[name][1:], expected)


def test_long_tables_are_read_across_pieces_as_the_csv_module_reads_them(tmp_path: Path) -> None:
    """Quotes, line breaks of three kinds and chunks: compared with Python's own reader over the whole text."""
    rng = np.random.default_rng(5)
    ids = ["plain", "with, comma", 'with ""quotes""', "line\nbreak", "return\rhere", "both\r\nhere", "ünï;cödé"]
    rows = [(t, name, rng.normal()) for t in range(1, 2001) for name in ids]
    for end in ("\n", "\r\n", "\r"):
        text = "epoch,client,loss" + end + "".join(f'{t},"{name}",{value!r}{end}' for t, name, value in rows)
        path = tmp_path / "t.csv"
        path.write_bytes(text.encode())
        table = contributions(path)
        assert table.client_ids == tuple(name.replace('""', '"') for name in ids)
        np.testing.assert_array_equal(table.values["loss"][1:].reshape(-1), [value for _, _, value in rows])


def test_nothing_beside_a_parquet_file_is_imported(tmp_path: Path) -> None:
    """The process that decodes it starts where hostile modules lie, with names that it imports."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    planted = f"from pathlib import Path\nPath({str(tmp_path / 'executed')!r}).write_text(__name__)\n"
    for name in ("json", "signal", "resource", "pyarrow", "numpy", "encodings", "sitecustomize", "parquet_child"):
        (tmp_path / f"{name}.py").write_text(planted)
    pq.write_table(pa.table({"epoch": [1], "client": ["a"], "loss": [0.5]}), tmp_path / "t.parquet")
    command = "from flcontrib_core.runs.bundle import check_run_log; print(check_run_log('t.parquet').ok)"
    done = subprocess.run(
        python_command("-c", command),
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr
    assert not (tmp_path / "executed").exists()


def test_a_child_that_dies_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"epoch": [1], "client": ["a"], "loss": [0.5]}), tmp_path / "t.parquet")
    for script in ("import os; os.abort()", "print('D', flush=True)", "raise SystemExit(0)"):
        (tmp_path / "child.py").write_text(script)
        monkeypatch.setattr(parquet, "_CHILD", tmp_path / "child.py")
        (problem,) = check_run_log(tmp_path / "t.parquet").errors
        assert problem.code == "E_FILE_SIZE"


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time at all even a small file is too much; the limit is the child's own processor time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = 200_000
    columns = {"epoch": np.ones(count), "client": [f"c{i}" for i in range(count)], "loss": np.zeros(count)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    monkeypatch.setattr(limits, "PARQUET_MILLISECONDS", 1)
    (problem,) = check_run_log(tmp_path / "t.parquet").errors
    assert (problem.code, "0.001 s" in problem.found) == ("E_FILE_SIZE", True)

"""Does a folder of what people already have become the log it is, and a wrong one a refusal that says what was seen?"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save, save_file

from flcontrib_core.commands.importing import import_
from flcontrib_core.errors import RunLogError
from flcontrib_core.runs import ContributionTable, RunLog, holds_tensor_files, import_apart, read_run_log
from flcontrib_core.runs.import_layout import read_layout
from flcontrib_core.runs.import_table import ForeignTable
from flcontrib_core.runs.importing import Understanding, import_folder
from flcontrib_core.words import folder_understood

SITES = {"site-a": 120, "site-b": 60, "site-c": 20}
ROUNDS = 4


class Federation:
    """Models of a tiny federation, as its server and its sites had them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(4)
        self.servers = [self._state(rng.normal(size=(3, 5)), rng.normal(size=3))]
        self.models: list[dict[str, dict[str, torch.Tensor]]] = []
        for _ in range(ROUNDS):
            before = self.servers[-1]
            trained = {
                site: {k: v + 0.1 * torch.tensor(rng.normal(size=v.shape)).float() for k, v in before.items()}
                for site in SITES
            }
            self.models.append(trained)
            self.servers.append({k: sum(SITES[s] / 200 * trained[s][k] for s in SITES) for k in before})  # type: ignore[misc]

    @staticmethod
    def _state(weight: np.ndarray, bias: np.ndarray) -> dict[str, torch.Tensor]:
        tensors = {"fc.weight": weight, "fc.bias": bias}
        return {name: torch.tensor(values, dtype=torch.float32) for name, values in tensors.items()}

    def update(self, number: int, site: str) -> dict[str, torch.Tensor]:
        return {k: v - self.servers[number][k] for k, v in self.models[number][site].items()}


@pytest.fixture(scope="module")
def federation() -> Federation:
    return Federation()


def flat(state: dict[str, torch.Tensor], run: RunLog) -> np.ndarray:
    return np.concatenate([state[spec.name].numpy().ravel() for spec in run.parameters])


def the_same_federation(path: Path, federation: Federation, first: int = 0) -> RunLog:
    run = read_run_log(path)
    assert isinstance(run, RunLog)
    assert run.client_ids == tuple(SITES)
    assert run.epoch_count == ROUNDS - first
    np.testing.assert_allclose(run.initial(), flat(federation.servers[first], run), atol=1e-6)
    for epoch in range(1, run.epoch_count + 1):
        expected = np.stack([flat(federation.update(epoch - 1 + first, s), run) for s in SITES])
        np.testing.assert_allclose(run.epoch_data(epoch).updates, expected, atol=1e-6)
    return run


def imported(folder: Path, target: Path, **options: Any) -> Understanding:
    heard: list[Understanding] = []

    def tell(understood: Understanding) -> None:
        assert not target.exists(), "it says what it understood before it writes"
        heard.append(understood)

    understood = import_folder(folder, target, tell=tell, **options)
    assert heard == [understood]
    return understood


def test_state_dicts_per_round_with_the_servers_model_and_counts(federation: Federation, tmp_path: Path) -> None:
    source = tmp_path / "checkpoints"
    for number in range(ROUNDS):
        folder = source / f"round_{number + 1}"
        folder.mkdir(parents=True)
        for site in SITES:
            torch.save(federation.models[number][site], folder / f"{site}.pt")
        torch.save(federation.servers[number + 1], folder / "global_model.pt")
    torch.save(federation.servers[0], source / "initial.pt")
    (source / "counts.json").write_text(json.dumps(SITES))
    understood = imported(source, tmp_path / "run")
    assert (understood.kind, understood.server_files) == ("models", "after"), (
        "a folder of models is recognised as models"
    )
    assert understood.counts == SITES
    run = the_same_federation(tmp_path / "run", federation)
    assert not any(e.has_global for e in run.epochs), "the server's models are the means"


def test_updates_in_one_flat_folder_with_a_semicolon_table_of_counts(federation: Federation, tmp_path: Path) -> None:
    source = tmp_path / "updates"
    source.mkdir()
    for number in range(ROUNDS):
        for site in SITES:
            arrays = {k: v.numpy() for k, v in federation.update(number, site).items()}
            np.savez(source / f"{site}_epoch_{number + 1}.npz", **arrays)
    np.savez(source / "initial.npz", **{k: v.numpy() for k, v in federation.servers[0].items()})
    rows = "\n".join(f"{site};{count}" for site, count in SITES.items())
    (source / "sizes.csv").write_text(f"Site;Samples\n{rows}\n")
    understood = imported(source, tmp_path / "run")
    assert (understood.kind, understood.server_files, understood.counts) == ("updates", "none", SITES)
    the_same_federation(tmp_path / "run", federation)


def test_a_job_folder_with_rounds_from_0_wrapped_models_and_the_model_that_was_sent_out(
    federation: Federation, tmp_path: Path
) -> None:
    """As NVFlare's persistors write: a folder per site, the state dict under "model", rounds from 0."""
    source = tmp_path / "workspace"
    for number in range(ROUNDS):
        for site in SITES:
            folder = source / site / "models" / f"round_{number}"
            folder.mkdir(parents=True)
            torch.save(
                {"model": federation.models[number][site], "train_conf": {"train": {"model": "net"}}},
                folder / "model.pt",
            )
        folder = source / "server" / f"round_{number}"
        folder.mkdir(parents=True)
        torch.save({"model": federation.servers[number]}, folder / "FL_global_model.pt")
    (source / "meta.json").write_text(
        json.dumps({"name": "job", "clients": [{"site": s, "n": c} for s, c in SITES.items()]})
    )
    understood = imported(source, tmp_path / "run")
    assert (understood.kind, understood.server_files, understood.first_round) == ("models", "before", 0)
    the_same_federation(tmp_path / "run", federation)


def test_checkpoints_that_tell_their_own_counts_with_names_that_a_wrapper_changed(
    federation: Federation, tmp_path: Path
) -> None:
    source = tmp_path / "checkpoints"
    for number in range(ROUNDS):
        for site, count in SITES.items():
            folder = source / f"round={number}" / f"client={site}"
            folder.mkdir(parents=True)
            saved = {"epoch": 5, "model_state_dict": federation.models[number][site], "num_samples": count}
            torch.save(saved, folder / "last.pt")
        server = {f"module.{name}": tensor for name, tensor in federation.servers[number].items()}
        torch.save(server, source / f"round={number}" / "server.pt")
    understood = imported(source, tmp_path / "run")
    assert (understood.counts, understood.counts_vary, understood.server_files) == (SITES, False, "before")
    the_same_federation(tmp_path / "run", federation)


@pytest.mark.parametrize("as_table", [True, False])
def test_counts_of_single_rounds_weigh_in_these_rounds(as_table: bool, tmp_path: Path) -> None:
    source, counts = tmp_path / "in", {1: {"a": 10, "b": 30}, 2: {"a": 20, "b": 20}}
    server = np.zeros(3, np.float32)
    for number, told in counts.items():
        (source / f"round_{number}").mkdir(parents=True)
        models = {site: server + np.float32(place + number) for place, site in enumerate(told)}
        for site, model in models.items():
            np.savez(source / f"round_{number}" / f"{site}.npz", w=model)
        np.savez(source / f"round_{number}" / "server.npz", w=server)
        server = np.average(list(models.values()), axis=0, weights=list(told.values())).astype(np.float32)
        about = {site: {"num_examples": count, "loss": 0.3} for site, count in told.items()}
        if not as_table:
            (source / f"round_{number}" / "metrics.json").write_text(json.dumps(about))
    if as_table:
        rows = "".join(f"{t},{site},{n},0.3\n" for t, told in counts.items() for site, n in told.items())
        (source / "history.csv").write_text(f"round,client_id,num_samples,train_loss\n{rows}")
    understood = imported(source, tmp_path / "run")
    assert (understood.counts, understood.counts_vary) == ({"a": 10, "b": 30}, True)
    assert any("others have their own" in sentence for sentence in folder_understood(understood.to_json()))
    run = read_run_log(tmp_path / "run")
    assert isinstance(run, RunLog)
    assert [epoch.data_sizes for epoch in run.epochs] == [(10, 30), (20, 20)]
    assert not run.epochs[0].has_global, "its mean is the model that the next round was sent"


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_counts_the_servers_files_are_still_told_apart(
    when: str, federation: Federation, tmp_path: Path
) -> None:
    """The mean without weights is no server's model, but nearer to the one than to the other."""
    source = tmp_path / "in"
    for number in range(ROUNDS):
        (source / f"r{number + 1}").mkdir(parents=True)
        for site in SITES:
            save_file(federation.models[number][site], source / f"r{number + 1}" / f"site_{site}.safetensors")
        server = federation.servers[number + (when == "after")]
        save_file(server, source / f"r{number + 1}" / f"server_{when}.safetensors")
    assert imported(source, tmp_path / "equal").server_files == when
    (source / "counts.csv").write_text("Client;Samples\n" + "".join(f"{s};{n}\n" for s, n in SITES.items()))
    understood = imported(source, tmp_path / "run")
    assert (understood.server_files, understood.counts["site_site-a"]) == (when, 120), "a name without its role"


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "in" / "round_1").mkdir(parents=True)
    (tmp_path / "in" / "round_1" / "a.h5").write_bytes(b"\x89HDF")
    assert "1 .h5 files, which are not read" in refused(tmp_path / "in", tmp_path / "run")
    torch.save(torch.nn.Linear(2, 2), tmp_path / "in" / "round_1" / "a.pt")
    assert "it holds a pickled torch.nn.modules.linear.Linear, which is code" in refused(
        tmp_path / "in", tmp_path / "run"
    )


def test_a_count_of_nothing_is_no_count(federation: Federation, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "round_1").mkdir(parents=True)
    for site in SITES:
        save_file(federation.models[0][site], source / "round_1" / f"{site}.safetensors")
    save_file(federation.servers[0], source / "initial.safetensors")
    (source / "counts.json").write_text(json.dumps({**SITES, "site-b": 0}))
    assert 'none for "site-b" in round 1' in refused(source, tmp_path / "run")


def test_models_alone_begin_with_the_first_rounds_mean(federation: Federation, tmp_path: Path) -> None:
    source = tmp_path / "models"
    source.mkdir()
    for number in range(ROUNDS):
        for site in SITES:
            save_file(federation.models[number][site], source / f"r{number + 1}_{site}.safetensors")
    (source / "clients.json").write_text(
        json.dumps({"clients": [{"id": s, "num_examples": c} for s, c in SITES.items()]})
    )
    understood = imported(source, tmp_path / "run")
    assert "no epoch" in understood.initial
    the_same_federation(tmp_path / "run", federation, first=1)


def test_a_table_with_other_names_signs_and_separators(tmp_path: Path) -> None:
    (tmp_path / "werte.csv").write_text(
        "Runde;Klinik;Verlust-Anteil;Bemerkung\n0;Nord;-0,25;gut\n0;Süd;0,125;\n1;Nord;-1.000,5;\n1;Süd;;ausgefallen\n"
    )
    told = CliRunner().invoke(import_, [str(tmp_path / "werte.csv"), "-o", str(tmp_path / "v.csv"), "--json"])
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert answer["understood"]["columns"] == {
        "epoch": "Runde",
        "client": "Klinik",
        "utilities": {"Verlust-Anteil": "Verlust-Anteil"},
    }
    assert answer["understood"]["ignored"] == ["Bemerkung"]
    table = read_run_log(tmp_path / "v.csv")
    assert isinstance(table, ContributionTable)
    assert answer["digest"] == table.digest
    assert answer["understood"]["lower_is_better"] == sorted(table.lower_is_better) == []
    assert table.client_ids == ("Nord", "Süd")
    np.testing.assert_array_equal(table.values["Verlust-Anteil"][1:], [[-0.25, 0.125], [-1000.5, np.nan]])


def test_columns_are_named_one_by_one_and_who_did_not_take_part_has_no_row(tmp_path: Path) -> None:
    given = "Wann;Wer;Verlust;Dabei\n1;Nord;-0,25;ja\n1;Süd;;nein\n2;Süd;0,5;ja\n"
    (tmp_path / "werte.csv").write_bytes(given.encode("cp1252"))
    named = ["epoch=Wann", "client=Wer", "loss=Verlust", "participated=Dabei"]
    options = [part for name in named for part in ("--column", name)]
    told = CliRunner().invoke(import_, [str(tmp_path / "werte.csv"), "-o", str(tmp_path / "v.csv"), *options])
    assert told.exit_code == 0, told.output
    assert "values: “Verlust” as loss (lower is better)" in told.output
    assert (tmp_path / "v.csv").read_text() == "epoch,client,loss\n1,Nord,-0.25\n2,Süd,0.5\n"
    marked = ForeignTable(_table(tmp_path, "epoch,client,Loss,auc,risk (harm is up)\n1,a,1,2,3\n")).understood
    assert marked.lower_is_better == ("Loss", "risk (harm is up)")


def _table(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_a_parquet_table_is_understood_like_a_text(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"round": [1, 2], "site": ["a", "b"], "value": [0.5, None]}), tmp_path / "v.parquet")
    ForeignTable(tmp_path / "v.parquet", {"loss": "value"}).write(tmp_path / "v.csv")
    assert (tmp_path / "v.csv").read_text() == "epoch,client,loss\n1,a,0.5\n2,b,\n"


def test_every_cell_of_a_named_column_that_is_no_number_is_said_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("round,site,score\n1,a,good\nsoon,a,1\n2,b,bad\n")
    with pytest.raises(RunLogError) as refused:
        ForeignTable(tmp_path / "v.csv", {"loss": "score"}).write(tmp_path / "out.csv")
    assert [p.where for p in refused.value.problems] == [
        f'v.csv row {row}, column "{column}"' for row, column in ((1, "score"), (2, "round"), (3, "score"))
    ]
    assert not (tmp_path / "out.csv").exists()


def test_a_dry_run_says_what_it_understood_and_writes_nothing(federation: Federation, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in (1, 2):
        for site in SITES:
            torch.save(federation.models[number][site], source / f"{site}_round_{number}.pt")
    told = CliRunner().invoke(import_, [str(source), "-o", str(tmp_path / "run"), "--dry-run", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["understood"]["clients"] == list(SITES)
    assert "understood:" in told.stderr
    assert not (tmp_path / "run").exists()
    before = sorted(tmp_path.rglob("*"))
    nowhere = CliRunner().invoke(import_, [str(source), "--dry-run", "--json"])
    assert json.loads(nowhere.stdout) == json.loads(told.stdout), "looking needs no place to write to"
    assert sorted(tmp_path.rglob("*")) == before
    assert "--dry-run" in CliRunner().invoke(import_, [str(source)]).stderr, (
        "without either the command says what to add"
    )


@pytest.fixture
def zipped(federation: Federation, tmp_path: Path) -> Path:
    """A zip of a folder of models, as a Mac makes it."""
    with zipfile.ZipFile(tmp_path / "wards.zip", "w") as archive:
        for number in range(ROUNDS):
            for site in SITES:
                content = save(federation.models[number][site])
                archive.writestr(f"wards/round_{number + 1}/{site}.safetensors", content)
                archive.writestr(f"__MACOSX/wards/round_{number + 1}/._{site}.safetensors", b"\0")
        archive.writestr("wards/initial.safetensors", save(federation.servers[0]))
        archive.writestr("wards/counts.json", json.dumps(SITES))
        archive.writestr("wards/run.sh", b"exit 1")
    return tmp_path / "wards.zip"


def test_a_zip_of_a_folder_is_looked_at_before_it_is_a_log(
    federation: Federation, zipped: Path, tmp_path: Path
) -> None:
    assert holds_tensor_files(zipped)
    seen = import_apart(zipped, "wards.zip")
    assert (seen.problems, seen.understood["kind"], seen.understood["data_sizes"]) == ((), "models", SITES)
    sentences = " ".join(folder_understood(seen.understood))
    assert "4 rounds, 1 to 4, which become epochs 1 to 4." in sentences
    assert "Data sizes: site-a 120, site-b 60, site-c 20." in sentences
    told = CliRunner().invoke(import_, [str(zipped), "-o", str(tmp_path / "run"), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["understood"] == seen.understood
    assert the_same_federation(tmp_path / "run", federation).name == "wards"


def test_a_zip_with_code_or_a_way_out_is_refused_in_its_own_words(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        hostile = io.BytesIO()
        torch.save({"w": torch.ones(3), "x": Hostile(tmp_path / "ran")}, hostile)
        archive.writestr("a_round_1.pt", hostile.getvalue())
    (problem,) = import_apart(tmp_path / "bad.zip", "bad.zip", target=tmp_path / "run").problems
    assert (problem.code, problem.where) == ("E_IMPORT", "a_round_1.pt")
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as archive:
        archive.writestr("../a_round_1.npz", b"")
    assert not holds_tensor_files(tmp_path / "out.zip")
    assert import_apart(tmp_path / "out.zip", "out.zip").problems[0].code.startswith("E_ZIP")
    assert not any((tmp_path / name).exists() for name in ("ran", "run", "a_round_1.npz"))


# ---- refusals


def refused(folder: Path, target: Path, **options: Any) -> str:
    with pytest.raises(RunLogError) as error:
        import_folder(folder, target, **options)
    assert not target.exists()
    (problem,) = error.value.problems
    return f"{problem.code} {problem.found} {problem.fix}"


def test_files_without_rounds_are_refused_with_what_was_understood(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    torch.save(federation.servers[0], tmp_path / "in" / "best.pt")
    (tmp_path / "in" / "notes.txt").write_text("hello")
    words = refused(tmp_path / "in", tmp_path / "run")
    assert words.startswith("E_IMPORT 0 files of clients, 0 of the server, 1 tensor files")


def test_updates_without_an_initial_model_and_rounds_with_a_gap(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in (1, 3):
        torch.save(federation.update(number, "site-a"), tmp_path / "in" / f"site-a_round_{number}.pt")
    assert "round 2" in refused(tmp_path / "in", tmp_path / "run")
    torch.save(federation.update(2, "site-a"), tmp_path / "in" / "site-a_round_2.pt")
    assert "no initial model" in refused(tmp_path / "in", tmp_path / "run", kind="updates")


class Hostile:
    """A pickle that runs a command when it is loaded by the ordinary means."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_checkpoint_with_code_in_it_is_refused_and_nothing_of_it_runs(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    torch.save({"w": torch.ones(3), "x": Hostile(tmp_path / "ran")}, tmp_path / "in" / "a_round_1.pt")
    (tmp_path / "in" / "b_round_1.npz").write_bytes(b"PK\3\4 not a zip")
    words = refused(tmp_path / "in", tmp_path / "run")
    assert words.startswith("E_IMPORT ")
    assert "Weights only load failed" in words or "UnpicklingError" in words
    assert not (tmp_path / "ran").exists()


def test_counts_of_some_clients_only_and_too_many_files_are_refused(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for site in SITES:
        for number in range(ROUNDS):
            torch.save(federation.models[number][site], source / f"{site}_round_{number + 1}.pt")
    first, second, *_ = SITES
    (source / "counts.json").write_text(json.dumps({first: 120}))
    with pytest.raises(RunLogError, match=f"a count for 1 of {len(SITES)} clients, none for .*{second}") as refused:
        import_folder(source, tmp_path / "run")
    assert f"{len(SITES) * ROUNDS} files of clients" in str(refused.value), "with what was understood"
    monkeypatch.setattr("flcontrib_core.runs.import_layout.MOST_FILES", 3)
    with pytest.raises(RunLogError, match=f"{len(SITES) * ROUNDS + 1} files"):
        import_folder(source, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_models_of_another_shape_are_refused(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    torch.save(federation.models[0]["site-a"], tmp_path / "in" / "a_round_1.pt")
    torch.save({"fc.weight": torch.ones(2)}, tmp_path / "in" / "b_round_1.pt")
    assert refused(tmp_path / "in", tmp_path / "run").startswith("E_SHAPE")


@pytest.mark.parametrize(
    ("path", "number", "client"),
    [
        ("round_3/site-a.pt", 3, "site-a"),
        ("3/hospital b.npz", 3, "hospital b"),
        ("client_a_round_03.npz", 3, "a"),
        ("epoch-3/clients/7.pt", 3, "7"),
        ("site-1/round_3/local_model.pt", 3, "site-1"),
        ("r3_site-a_model.pt", 3, "site-a"),
        ("comm_round_3_site-a.npz", 3, "site-a"),
        ("round=3/client=site-a/model.safetensors", 3, "site-a"),
        ("2026-03-04_round3_site-a.pt", 3, "site-a"),
        ("20260304-101559/r3/site-a.pt", 3, "site-a"),
    ],
)
def test_paths_tell_round_and_client(tmp_path: Path, path: str, number: int, client: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    assert list(read_layout(tmp_path).clients) == [(number, client)]


def _two_rounds(folder: Path, odd: bytes, suffix: str) -> Path:
    """Two rounds of two sites; one file of the second is what somebody hostile wrote."""
    for number in (1, 2):
        (folder / f"round_{number}").mkdir(parents=True)
        for site in "ab":
            np.savez(folder / f"round_{number}" / f"site-{site}.npz", w=np.full((2, 3), number, np.float32))
    np.savez(folder / "initial.npz", w=np.ones((2, 3), np.float32))
    (folder / "round_2" / "site-a.npz").unlink()
    (folder / "round_2" / f"site-a{suffix}").write_bytes(odd)
    return folder


def _deflated_zeros(megabytes: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", bytes(megabytes << 20))
    return packed.getvalue()


def _one_number_many_times() -> bytes:
    saved = io.BytesIO()
    torch.save({"w": torch.zeros(1).as_strided((2**15, 2**16), (0, 0))}, saved)
    return saved.getvalue()


@pytest.mark.parametrize(("content", "suffix"), [(_deflated_zeros(300), ".npz"), (_one_number_many_times(), ".pt")])
def test_a_file_that_becomes_far_more_than_it_is_gets_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(RunLogError, match="it becomes"):
        import_folder(_two_rounds(tmp_path / "in", content, suffix), tmp_path / "run")


def test_a_pickle_that_computes_without_end_is_ended(tmp_path: Path) -> None:
    """A key of tuples in tuples: its hash looks at 2^45 of them, inside C code that no handler interrupts."""
    nested = b"".join(b"h%c\x86q%c" % (place, place + 1) for place in range(1, 46))
    pickled = io.BytesIO()
    with zipfile.ZipFile(pickled, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00X\x01\x00\x00\x00x\x85q\x01" + nested + b"K\x01s.")
        archive.writestr("archive/version", "3\n")
    with pytest.raises(RunLogError, match="more time than allowed"):
        import_folder(_two_rounds(tmp_path / "in", pickled.getvalue(), ".pt"), tmp_path / "run")


def test_many_files_that_cannot_be_read_are_not_all_opened(tmp_path: Path) -> None:
    for place in range(100):
        (tmp_path / "in" / f"round_{place}").mkdir(parents=True)
        (tmp_path / "in" / f"round_{place}" / "site.npz").write_bytes(b"")
    with pytest.raises(RunLogError, match="and many more such files"):
        import_folder(tmp_path / "in", tmp_path / "run")


@pytest.mark.parametrize("count", ["\u00b2", "9" * 5000, "x" * 200_000])
def test_a_table_of_odd_counts_is_no_table_of_counts(count: str, tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text(f"client,count\nsite-a,{count}\n")
    (tmp_path / "round_1").mkdir()
    (tmp_path / "round_1" / "site-a.npz").write_bytes(b"")
    assert read_layout(tmp_path).counts.of(1, "site-a") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Round,Site," + ",".join(f"c{i}" for i in range(30_000)) + "\n1,a\n", "E_FILE_SIZE"),
        ("Round,Site,v\n" + "1\n" * 2_000_000, "E_FILE_SIZE"),
        ("Round,Site,v\n1,a,1\n1,a,2\n", "E_TABLE_DUP"),
    ],
)
def test_a_table_that_makes_no_run_is_refused_by_its_code(text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "values.csv").write_text(text)
    done = CliRunner().invoke(import_, [str(tmp_path / "values.csv"), "-o", str(tmp_path / "out.csv")])
    assert isinstance(done.exception, RunLogError)
    assert done.exception.problems[0].code == code


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("b.npz"), lambda path: path.symlink_to("/dev/zero"),
                                  lambda path: path.symlink_to("nowhere.npz"), os.mkfifo])  # fmt: skip
def test_a_clients_file_that_is_a_link_or_a_pipe_is_not_taken_for_absence(make: Any, tmp_path: Path) -> None:
    """Left out without a word, the client would be recorded as one that did not take part."""
    (tmp_path / "round_1").mkdir()
    np.savez(tmp_path / "round_1" / "b.npz", w=np.zeros(2, np.float32))
    make(tmp_path / "round_1" / "a.npz")
    with pytest.raises(RunLogError) as refused:
        read_layout(tmp_path)
    assert refused.value.problems[0].code == "E_FILE_TYPE"
    assert "round_1/a.npz" in refused.value.problems[0].where


def test_a_link_to_a_folder_is_named_among_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "round_1").mkdir()
    np.savez(tmp_path / "round_1" / "a.npz", w=np.zeros(2, np.float32))
    (tmp_path / "latest").symlink_to("round_1")
    layout = read_layout(tmp_path)
    assert [path.name for path in layout.unclear] == ["latest"]
    assert layout.names == ["a"]

"""A log without a model or a validation set: read by its updates, nothing said of harm, nothing invented."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flcontrib_core import read_run_log
from flcontrib_core.auditing import AuditReport, audit
from flcontrib_core.bundled_files import bundled
from flcontrib_core.detection.alerts import read_verdicts
from flcontrib_core.detection.calibration import shipped_calibration
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.presets import preset_rates
from flcontrib_core.errors import MissingPart
from flcontrib_core.history import AssessSettings, NoValues, assess_contributions, lacking_part, price_of
from flcontrib_core.history.epoch_stream import Growth
from flcontrib_core.history.updates_only import history_of_updates
from flcontrib_core.laboratory.corpus_calibration import of_updates
from flcontrib_core.reports.as_json import audit_json
from flcontrib_core.reports.extract import write_extract
from flcontrib_core.reports.tables import write_history_tables
from flcontrib_core.reports.twin import write_report
from flcontrib_core.reports.verify import verify_report
from flcontrib_core.runs.epoch_source import BundleSource
from flcontrib_core.runs.run_log import EpochData, EpochRecord, Run, RunLog
from flcontrib_core.words import counter_evidence, headline
from tests.history.test_rolling import differences

PARTS = {NoValues.NO_MODEL: "model.json", NoValues.NO_VALIDATION: "validation.safetensors"}


def without(part: str, folder: Path, sample: str = "two-poisoned.flrun") -> Run:
    """A sample run whose log leaves one part out."""
    path = folder / f"without-{part}.flrun"
    with zipfile.ZipFile(bundled("sample_runs") / sample) as whole, zipfile.ZipFile(path, "w") as bare:
        for name in whole.namelist():
            content = whole.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                del manifest["files"][part]
                content = json.dumps(manifest).encode()
            if name != part:
                bare.writestr(name, content)
    return read_run_log(path)


@pytest.fixture(scope="module", params=list(PARTS))
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[NoValues, Run]:
    return request.param, without(PARTS[request.param], tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def audited(bare: tuple[NoValues, Run]) -> AuditReport:
    return audit(bare[1])


def test_the_channels_of_the_updates_are_those_of_the_whole_log(audited: AuditReport) -> None:
    whole = audit(read_run_log(bundled("sample_runs") / "two-poisoned.flrun")).history.channels
    own = audited.history.channels
    assert whole is not None
    assert own is not None
    for name in ("norm", "spread", "peer_cosine", "own_cosine", "last_step_cosine", "closest_own_cosine"):
        np.testing.assert_array_equal(getattr(own, name), getattr(whole, name))
    assert np.isnan(own.solo_margin).all()


def test_a_change_is_seen_and_called_no_poisoning(bare: tuple[NoValues, Run], audited: AuditReport) -> None:
    alerts = audited.detection.alerts
    assert {(a.client, a.window) for a in alerts} == {("client-02", (12, 20)), ("client-03", (12, 20))}
    assert {a.verdict for a in alerts} == {VerdictKind.BEHAVIOUR_CHANGED}
    assert not any(a.accuses for a in alerts)
    assert "harm is not measurable in this log" in headline(audited)
    assert all(any("Harm is not measurable" in line for line in counter_evidence(a)) for a in alerts)
    assert len(audited.detection.channels_unavailable) == 3
    assert audited.detection.change_points.series == "peer-direction"


def test_an_honest_run_stays_quiet(tmp_path: Path) -> None:
    assert not audit(without("model.json", tmp_path, "clean-iid.flrun")).detection.alerts


def test_its_rate_of_false_alarms_is_that_of_logs_read_the_same_way(audited: AuditReport) -> None:
    own = shipped_calibration().updates_alone
    assert own is not None
    assert audited.detection.false_alarms.runs > 100
    assert {rate.rate.runs for rate in preset_rates(audited.history)} == {audited.detection.false_alarms.runs}
    unmeasured = replace(shipped_calibration(), updates_alone=None)
    assert {rate.rate.runs for rate in preset_rates(audited.history, unmeasured)} == {0}
    assert read_verdicts(audited.history, calibration=unmeasured).false_alarms.runs == 0


def test_a_calibration_s_runs_are_stripped_to_what_such_a_log_holds(audited: AuditReport) -> None:
    whole = audit(read_run_log(bundled("sample_runs") / "two-poisoned.flrun")).history
    stripped = read_verdicts(of_updates(whole), check_sensitivity=False)
    own = read_verdicts(audited.history, check_sensitivity=False)
    assert [(a.client, a.verdict, a.window, a.score) for a in stripped.alerts] == [
        (a.client, a.verdict, a.window, a.score) for a in own.alerts
    ]
    assert stripped.channels_unavailable == own.channels_unavailable


def test_every_value_is_unknown_and_says_why(bare: tuple[NoValues, Run], audited: AuditReport, tmp_path: Path) -> None:
    reason, run = bare
    assert lacking_part(run) is reason
    assert audited.history.without_values is reason
    content = json.loads(json.dumps(audit_json(audited), allow_nan=False))
    assert content["without_values"] == reason.value
    assert {total for c in content["clients"] for total in c["total"].values()} == {None}
    write_history_tables(audited.history, tmp_path)
    page, twin = write_report(audited, tmp_path / "report.html")
    assert "neither values nor harm can be measured" in page.read_text()
    assert verify_report(twin, run).equal
    own, own_twin = write_extract(audited, "client-02", tmp_path / "extract.html", run)
    assert "neither values nor harm can be measured" in own.read_text()
    assert verify_report(own_twin, run).equal


def test_values_alone_are_still_refused(bare: tuple[NoValues, Run]) -> None:
    with pytest.raises(MissingPart):
        assess_contributions(bare[1])
    price = price_of(bare[1], AssessSettings())
    assert (price.epochs, price.evaluations, price.observations) == (0, 0, 0)


def test_the_calibration_of_updates_alone_carries_no_earlier_one_of_its_kind() -> None:
    own = shipped_calibration().updates_alone
    assert own is not None
    assert own.updates_alone is None


def test_a_look_at_a_growing_log_reads_what_is_new(bare: tuple[NoValues, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    reason, run = bare
    assert isinstance(run, RunLog)
    settings, growth, read = AssessSettings(), Growth(), list[int]()
    shorter, longer = replace(run, epochs=run.epochs[:4]), replace(run, epochs=run.epochs[:6])
    history_of_updates(shorter, settings, reason, growth=growth)
    kept = BundleSource.epoch

    def noting(source: BundleSource, record: EpochRecord) -> EpochData:
        read.append(record.epoch)
        return kept(source, record)

    monkeypatch.setattr(BundleSource, "epoch", noting)
    grown = history_of_updates(longer, settings, reason, threads=2, growth=growth)
    assert set(read) == {5, 6}
    assert not differences(grown, history_of_updates(longer, settings, reason))
    read.clear()
    history_of_updates(replace(longer, base_digest="another run"), settings, reason, growth=growth)
    assert set(read) == {1, 2, 3, 4, 5, 6}

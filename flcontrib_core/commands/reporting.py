"""``report`` and ``verify``: what leaves the house, and how anybody checks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flcontrib_core.commands.assessing import JSON, PRESET, RUN, open_run
from flcontrib_core.commands.given_files import GivenFile
from flcontrib_core.commands.options import (
    BUDGET_OPTIONS,
    ENGINE_OPTIONS,
    ESTIMATOR_OPTIONS,
    FROZEN,
    READING_OPTIONS,
    SectionedCommand,
    audit_settings_from,
    computing_of,
    settings_from,
    with_options,
)
from flcontrib_core.commands.printing import ProgressLine, print_json, say
from flcontrib_core.errors import SettingsError

if TYPE_CHECKING:
    from flcontrib_core.detection import Reviews
    from flcontrib_core.reports.record import Record
    from flcontrib_core.reports.signature import OperatorKey


@click.command(
    cls=SectionedCommand,
    epilog="Example: flcontrib report sample_runs/two-poisoned.flrun -o report.html --charts pictures",
)
@RUN
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The page; report.json goes beside it."
)
@click.option("--client", metavar="ID", help="Write this client's extract instead: nothing of the others.")
@click.option("--charts", type=click.Path(path_type=Path), metavar="DIR", help="Also write every chart as SVG.")
@click.option(
    "--tables", type=click.Path(path_type=Path), metavar="DIR", help="Also write the values as CSV and Parquet."
)
@click.option("--sign", is_flag=True, help="Sign the JSON with the workspace's key, or the one of --key-file.")
@click.option("--key-file", type=click.Path(path_type=Path), metavar="FILE", help="The private key that signs.")
@click.option("--by", default="", metavar="NAME", help="Who writes it; stands in the report beside the date.")
@with_options(READING_OPTIONS, ESTIMATOR_OPTIONS, BUDGET_OPTIONS, ENGINE_OPTIONS)
@PRESET
@JSON
def report(
    run: Path,
    out: Path,
    client: str | None,
    charts: Path | None,
    tables: Path | None,
    sign: bool,
    key_file: Path | None,
    by: str,
    preset: str,
    as_json: bool,
    **options: Any,
) -> None:
    """One self-contained HTML page and its JSON twin; with --client that client's extract.

    Both carry the date, the decisions that the workspace's sealed log holds about this run, and where that log ends.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"-o {out}: name a file that ends in .html; the JSON is written beside it")
    if client is not None and (charts or tables):
        raise SettingsError("--client writes an extract of one client; --charts and --tables would show the others")
    key = _signing_key(key_file, options) if sign or key_file is not None else None
    progress = ProgressLine()
    log = open_run(run, options)
    if client is not None:
        from flcontrib_core.reports.extract import require_client, write_extract

        require_client(log.client_ids, client)  # before anything is computed: a mistyped name must not cost an audit
    audited, record = _audit(log, preset, options, progress)
    record = replace(record, written_by=by.strip())
    progress.close()
    if client is not None:
        page, twin = write_extract(audited, client, out, log, record)
    else:
        from flcontrib_core.reports.twin import write_report

        page, twin = write_report(audited, out, record)
    for path in _more(audited, charts, tables, options, record.reviews):
        click.echo(f"wrote {path}", err=True)
    answer = {
        "html": str(page),
        "json": str(twin),
        "digest": audited.history.run_digest,
        "report_digest": _seal_of(twin),
    }
    if key is not None:
        answer |= {"signature": str(key.sign(twin)), "public_key": key.public_key}
    if as_json:
        print_json(answer)
        return
    if key is not None:
        click.echo(f"{answer['signature']}\nsigned with the key {key.public_key}")
    click.echo(f"{page}\n{twin}\nrun digest {answer['digest']}\nreport digest {answer['report_digest']}")
    click.echo(f"check it with: flcontrib verify {twin} {run}")


def _signing_key(file: Path | None, options: dict[str, Any]) -> OperatorKey:
    """Before anything is computed: a missing key must not cost an audit."""
    from flcontrib_core.reports.signature import OperatorKey

    return OperatorKey.read(_key_place(file, options.get("workspace")))


def _key_place(file: Path | None, workspace: Path | None) -> Path:
    from flcontrib_core.reports.signature import KEY_FILE
    from flcontrib_core.workspace import default_path

    return file or Path(workspace or default_path()) / KEY_FILE


@click.group(epilog="Example: flcontrib key new operator-key.pem")
def key() -> None:
    """The operator's key: it signs reports, so that readers know who vouches for them."""


@key.command(epilog="Example: flcontrib key new operator-key.pem")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
def new(file: Path | None, workspace: Path | None) -> None:
    """Make a key in FILE, or in the workspace. Keep it secret; give the printed public key to your readers."""
    from flcontrib_core.files import make_folder
    from flcontrib_core.reports.signature import OperatorKey

    place = _key_place(file, workspace)
    make_folder(place.parent)
    made = OperatorKey.create(place)
    click.echo(f"{place}: only you can read it\npublic key {made.public_key}")


@key.command(epilog="Example: flcontrib key show operator-key.pem")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--workspace", type=click.Path(path_type=Path), help="Folder of runs and results.")
def show(file: Path | None, workspace: Path | None) -> None:
    """Print the public key that belongs to a private one."""
    from flcontrib_core.reports.signature import OperatorKey

    click.echo(OperatorKey.read(_key_place(file, workspace)).public_key)


def _audit(log: Any, preset: str, options: dict[str, Any], progress: ProgressLine) -> tuple[Any, Record]:
    """The audit, and what the workspace's log holds about the run where one stands behind it."""
    from flcontrib_core.auditing import audit
    from flcontrib_core.reports.record import Record

    kept: dict[str, Any] = {}
    workspace = None
    if not options.get("no_memory"):
        from flcontrib_core.workspace import Workspace

        workspace = Workspace(options.get("workspace"))
        kept = {"checkpoints": workspace.checkpoints(), "memory": workspace.utility_memory()}
    audited = audit(
        log,
        audit_settings_from(options, preset),
        **computing_of(options),
        on_progress=progress,
        **kept,
    )
    if workspace is None:
        return audited, Record()
    return audited, Record(
        chain_head=str(workspace.head()), reviews=workspace.alerts.reviews(audited.history.run_digest)
    )


def _more(
    audited: Any, charts: Path | None, tables: Path | None, options: dict[str, Any], reviews: Reviews
) -> list[Path]:
    written: list[Path] = []
    if charts is not None:
        from flcontrib_core.charts import write_charts

        written += write_charts(audited, charts)
    if tables is not None:
        from flcontrib_core.reports.tables import alerts_table, write_history_tables

        alerts = alerts_table(audited, reviews) if audited.detection.alerts else None
        written += write_history_tables(audited.history, tables, settings_from(options).fill, audited.warnings, alerts)
    return written


def _seal_of(twin: Path) -> str:
    from flcontrib_core.reports.twin import SEAL_KEY
    from flcontrib_core.reports.verify import read_report

    return str(read_report(twin)[SEAL_KEY])


@click.command(epilog="Example: flcontrib verify report.json sample_runs/two-poisoned.flrun")
@click.argument("report", type=GivenFile())
@RUN
@click.option("--public-key", metavar="BASE64", help="The operator's: the report must be signed with it.")
@FROZEN
@JSON
def verify(report: Path, run: Path, public_key: str | None, frozen: str | None, as_json: bool) -> int:
    """Recompute a report (or a client's extract) from the log and say equal, or where it differs.

    REPORT is the JSON, or the page beside it; a page is also compared with what its JSON says. A signature beside the
    JSON is checked; with --public-key there must be one, made with that key. One of the two may be - (standard input).
    """
    from flcontrib_core.reports.signature import check_signature
    from flcontrib_core.reports.verify import cells_at, read_report_or_page, recorded_reading, verify_report
    from flcontrib_core.words.numbers import several

    if report.is_dir() or report.suffix.lower() in (".flrun", ".csv", ".parquet"):
        raise SettingsError(f"{report} is a run: give the report first, then the run it is about")
    content, page = read_report_or_page(report, lambda: cells_at(run))
    progress = ProgressLine()
    twin = report if page is None else report.parent / page.twin
    signed = check_signature(twin, public_key)
    trusted = signed.state == "valid" or (signed.state == "absent" and public_key is None)
    log = open_run(run, {**recorded_reading(content), "frozen": frozen})
    answer = verify_report(content, log, page=page, on_progress=progress)
    progress.close()
    if as_json:
        print_json({**answer.to_json(), "signature": {"state": signed.state, "public_key": signed.public_key}})
        return 0 if answer.equal and trusted else 1
    how = "to the last bit" if answer.bit_equal else "within the stated tolerance (another platform)"
    if answer.equal:
        say(f"equal: {several(len(answer.epochs_replayed), 'epoch')} computed again, every number agrees {how}")
    else:
        say(f"differs in {several(len(answer.differences), 'place')}")
    say(*(f"  {difference.sentence()}" for difference in answer.differences))
    say(f"cannot be computed again: {', '.join(answer.unverified)}")
    say(f"signature: {signed.state}" + (f", key {signed.public_key}" if signed.public_key else ""))
    say(*(f"this machine: {difference.sentence()}" for difference in answer.environment), err=True)
    return 0 if answer.equal and trusted else 1

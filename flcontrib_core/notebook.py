"""The verbs of a person at a keyboard: a path or a run and plain options in, results that show themselves out."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

import numpy as np

from flcontrib_core import auditing
from flcontrib_core.auditing import AuditReport, AuditSettings
from flcontrib_core.errors import SettingsError
from flcontrib_core.history.assess import Computing, assess_contributions
from flcontrib_core.history.contribution_history import ContributionHistory, cell_states
from flcontrib_core.history.settings import AssessOptions, AssessSettings, assess_settings
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.frozen import Given, given_to
from flcontrib_core.runs.run_log import Run, RunLog
from flcontrib_core.vocabulary import FloatArray, OnProgress, no_progress

if TYPE_CHECKING:
    import pandas

    from flcontrib_core.games import Evaluator
    from flcontrib_core.games.task_reader import OwnMetrics
    from flcontrib_core.reports.verify import Verification
    from flcontrib_core.scheduling import Schedule

AnyRun = Run | str | PathLike[str]
"""A run that was read, or where one lies: a folder, a ``.flrun`` file or a table."""
Values = TypeVar("Values", "pandas.DataFrame", "np.ndarray")


class NotebookReport(AuditReport):
    """An audit's report that shows itself: as a sentence, in a notebook, as a file, as a table."""

    @classmethod
    def of(cls, report: AuditReport) -> NotebookReport:
        """The same report, which shows itself."""
        return cls(**{f.name: getattr(report, f.name) for f in fields(report)})

    def __repr__(self) -> str:
        from flcontrib_core.words import alert_title, headline, how_sure

        seen = (f"{alert_title(alert)} ({how_sure(alert)})" for alert in self.detection.alerts)
        return "\n".join([f"{self.run_name}: {headline(self)}", *seen])

    def _repr_html_(self) -> str:
        """Verdict, curves and table, for a notebook."""
        from flcontrib_core.charts import cumulative_chart, has_epoch_values
        from flcontrib_core.reports.page import bullets, markup, paragraph
        from flcontrib_core.reports.sections import totals_section
        from flcontrib_core.words import OBSERVED_ONLY, alert_title, headline, how_sure

        parts = [f"<h3>{markup(headline(self))}</h3>", paragraph(OBSERVED_ONLY)]
        seen = [f"{alert_title(alert)} ({how_sure(alert)})" for alert in self.detection.alerts]
        parts += [bullets(seen)] if seen else []
        if has_epoch_values(self):
            chart = cumulative_chart(self)
            drawing = base64.b64encode(chart.as_file().encode()).decode()
            source = f"data:image/svg+xml;base64,{drawing}"  # an image cannot reach into the notebook's own page
            parts.append(f'<img style="max-width:100%" alt="{markup(chart.alt)}" src="{source}">')
        return f"<div>{''.join(parts)}{totals_section(self, None)}</div>"

    def write(self, path: str | PathLike[str]) -> tuple[Path, Path]:
        """Writes the HTML page to ``path`` and its JSON beside it, which ``verify`` checks; both paths."""
        from flcontrib_core.reports.twin import write_report

        page = Path(path)
        if page.suffix.lower() not in (".html", ".htm"):
            raise SettingsError(f"{page}: name a file that ends in .html; the JSON is written beside it")
        return write_report(self, page)

    def to_frame(self) -> pandas.DataFrame:
        """The values behind it: ``ContributionHistory.to_frame``."""
        return self.history.to_frame()


class Options(AssessOptions, Computing, total=False):
    """What ``assess`` and ``audit`` take beside: the settings given flat, and how to compute."""


def assess(
    run: AnyRun,
    settings: AssessSettings | None = None,
    *,
    schedule: Schedule | None = None,
    evaluator: Evaluator | None = None,
    metrics: OwnMetrics | None = None,
    frozen: Given | None = None,
    lower_is_better: Sequence[str] = (),
    on_progress: OnProgress = no_progress,
    **options: Unpack[Options],
) -> ContributionHistory:
    """Per-epoch Shapley values of every client of a run, or of the log at a path.

    Options are the settings given flat, on top of ``settings``: ``estimator`` (an object or a name), ``budget`` (0.5:
    a share of the epochs, 12: a number of them), ``epochs``, ``fairness``, ``gamma``, ``utilities``, ``weights``,
    ``fill``, ``seed`` and all others of ``AssessSettings`` and ``BudgetSettings``. ``evaluator``: a ``ModuleEvaluator``
    where the log does not declare its model. ``metrics``: own ones for a model that it declares, each a function of
    outputs and targets with its direction: ``{"c-index": (c_index, "higher")}``. ``frozen``: the part of the model that
    the log names and does not hold, a safetensors file or tensors by name. ``lower_is_better`` names such columns of a
    table. ``device``: 'cpu', 'cuda', 'mps' or 'auto'. ``workers``: processes that compute epochs side by side;
    ``engine="ray"`` and ``address`` for a cluster's.

    Example: ``assess("run.flrun", estimator=MonteCarlo(truncate=True), budget=0.5).to_frame()``.
    """
    flat, computing = _split(options)
    asked = _settings(flat, settings, evaluator)
    log = opened(run, asked, lower_is_better, frozen)
    evaluator = _with_own(log, evaluator, metrics, asked, computing)
    return assess_contributions(
        log, asked, schedule=schedule, evaluator=evaluator, on_progress=on_progress, **computing
    )


def audit(
    run: AnyRun,
    settings: AuditSettings | AssessSettings | None = None,
    *,
    preset: str | None = None,
    evaluator: Evaluator | None = None,
    metrics: OwnMetrics | None = None,
    frozen: Given | None = None,
    lower_is_better: Sequence[str] = (),
    on_progress: OnProgress = no_progress,
    **options: Unpack[Options],
) -> NotebookReport:
    """Assess a run or the log at a path, read its history, and say what was observed.

    ``preset``: 'default' or 'strict', the threshold of alerts. Further options are those of ``assess``. In a notebook
    the report shows its verdict, curves and table; ``report.write("report.html")`` writes the page and its JSON.

    Example: ``audit("run.flrun", budget=0.5).detection.alerts``.
    """
    base = settings if isinstance(settings, AuditSettings) else AuditSettings(settings or AssessSettings())
    flat, computing = _split(options)
    assessment = _settings(flat, base.assess if settings else None, evaluator)
    asked = replace(base, assess=assessment, preset=preset or base.preset)
    log = opened(run, asked.assess, lower_is_better, frozen)
    evaluator = _with_own(log, evaluator, metrics, asked.assess, computing)
    report = auditing.audit(log, asked, evaluator=evaluator, on_progress=on_progress, **computing)
    return NotebookReport.of(report)


def verify(
    report: str | PathLike[str] | dict[str, Any],
    run: AnyRun,
    *,
    frozen: Given | None = None,
    on_progress: OnProgress = no_progress,
) -> Verification:
    """Recompute a report (its JSON) from the log: ``equal``, or ``differences`` that say where."""
    from flcontrib_core.reports.verify import cells_at, read_report, recorded_reading, verify_report

    at = (lambda: cells_at(Path(run))) if isinstance(run, str | PathLike) else None
    content = report if isinstance(report, dict) else read_report(Path(report), at)
    log = read_run_log(Path(run), **recorded_reading(content)) if isinstance(run, str | PathLike) else run
    return verify_report(content, given_to(log, frozen), on_progress=on_progress)


def change_points(values: Values, *, series: str = "relative") -> Values:
    """Probability that a client's contributions start a new segment at each epoch, from a table of them.

    ``values`` is an array or a frame, epochs × clients; NaN where a client did not take part or is not known. The
    answer has the same form; a client's first epoch is 0, as nothing changed there yet, and NaN stays NaN. ``series``:
    'relative' (each client against the others of the same epoch; the first two epochs, in which everybody moves most,
    are left out as NaN), 'increments' (as it is) or 'cumulative' (the paper's running sum).
    """
    from flcontrib_core.detection.change_points import ChangePointSettings, ChangeSeries, read_change_points

    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise SettingsError(f"values have shape {table.shape}; give a table of epochs × clients")
    if np.isinf(table).any():
        raise SettingsError("values hold infinite numbers; leave them out (NaN)")
    named = getattr(values, "columns", range(table.shape[1]))
    readable = [kind for kind in ChangeSeries if kind is not ChangeSeries.SOLO_MARGIN]
    if series not in readable:
        raise SettingsError(f"series is {series!r}; choose from {', '.join(readable)}")
    history = _history_of(table, tuple(str(name) for name in named))
    points = read_change_points(history, ChangePointSettings(series=ChangeSeries(series)))
    probability = points.probability[1:]
    if isinstance(values, np.ndarray):
        return probability
    return type(values)(probability, index=values.index, columns=values.columns)


def _history_of(values: FloatArray, clients: tuple[str, ...]) -> ContributionHistory:
    """A history that knows nothing but values: (T, clients), NaN where there is none."""
    rows = np.concatenate([np.zeros((1, len(clients))), values])
    finite = np.isfinite(rows)
    everybody = np.ones_like(finite)
    everybody[0] = False
    sums = np.nansum(rows, axis=1)[:, None]
    return ContributionHistory(
        run_digest="",
        run_name="values",
        client_ids=clients,
        data_sizes=(),
        utilities=("value",),
        values=rows[:, :, None],
        standard_errors=np.full((*rows.shape, 1), np.nan),
        state=cell_states(everybody, finite[:, :, None], 1),
        increments=sums,
        server_share=np.zeros_like(sums),
        evaluations=np.zeros(len(rows), dtype=np.int64),
        estimator=("initial", *["given"] * len(values)),
        lower_is_better=frozenset(),
    )


def opened(
    run: AnyRun, settings: AssessSettings, lower_is_better: Sequence[str] = (), frozen: Given | None = None
) -> Run:
    """The run itself; what lies at a path is read as the settings ask."""
    if not isinstance(run, str | PathLike):
        return given_to(run, frozen)
    absent = settings.nonfinite == "absent"
    log = read_run_log(Path(run), nonfinite="absent" if absent else "refuse", lower_is_better=lower_is_better)
    return given_to(log, frozen)


def _with_own(
    run: Run, evaluator: Evaluator | None, own: OwnMetrics | None, settings: AssessSettings, computing: Computing
) -> Evaluator | None:
    """The evaluator, or the log's own model with metrics of the caller's."""
    if not own:
        return evaluator
    if evaluator is not None or not isinstance(run, RunLog):
        raise SettingsError("metrics= is for a log's own model; give an evaluator its metrics when it is made")
    from flcontrib_core.history.trajectory import evaluator_for

    return evaluator_for(run, settings.utilities, device=computing.get("device", "cpu"), metrics=own)


def _split(options: Options) -> tuple[AssessOptions, Computing]:
    """The settings among the options, and how to compute."""
    how = {name: value for name, value in options.items() if name in Computing.__annotations__}
    flat = {name: value for name, value in options.items() if name not in how}
    return cast(AssessOptions, flat), cast(Computing, how)


def _settings(options: AssessOptions, base: AssessSettings | None, evaluator: Evaluator | None) -> AssessSettings:
    """Flat options on top of settings; the evaluator's utilities are meant where nobody named any."""
    if evaluator is not None and base is None and "utilities" not in options:
        options = cast(AssessOptions, {**options, "utilities": evaluator.utilities})
    return assess_settings(options, base)

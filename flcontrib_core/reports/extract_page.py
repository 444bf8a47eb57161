"""The page of an extract: a client reads only itself, and how to check it."""

from __future__ import annotations

from typing import Any

import numpy as np

from flcontrib_core.charts import Chart, OwnSeriesFacts, draw_own_series, own_series_alt
from flcontrib_core.detection.facts import fact_from_json
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.review import AlertState, Key, Reviews
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.reports.page import (
    badge,
    bullets,
    command,
    drawn,
    facts_list,
    flattened,
    grid,
    markup,
    page,
    paragraph,
    section,
)
from flcontrib_core.reports.record import Record, record_of
from flcontrib_core.reports.tables import STATE_NAMES
from flcontrib_core.vocabulary import CellState, FloatArray
from flcontrib_core.words import OBSERVED_ONLY, sentence, step_line, verdict_name, wording
from flcontrib_core.words.decisions import DECLARED, NOT_DECIDED, note_line
from flcontrib_core.words.numbers import (
    capital,
    credited,
    half_width,
    moment,
    named,
    probability,
    several,
    signed,
    span,
)
from flcontrib_core.words.readers import IN_THE_EXTRACT
from flcontrib_core.words.remarks import WITHOUT_VALUES

_RIGHTS = (
    "You can compare the sha256 of every update above with what you sent. If one differs, the log does not hold your "
    "update. If all agree, ask the operator to run the verify command: it computes every number again from the log. "
    "You may also ask for the counter-evidence to be examined: what is listed there speaks for you."
)


def extract_page(content: dict[str, Any], json_name: str) -> str:
    """The page of one client, from the extract's JSON and nothing else."""
    client, record = content["client"], record_of(content)
    return page(
        f"Extract for {named(client)}",
        [
            _head(content, record),
            *(_alert(alert, record.reviews) for alert in content["alerts"]),
            _series(content),
            _updates(content),
            _origin(content, json_name),
            section("Data protection", paragraph(IN_THE_EXTRACT)),
        ],
        json_name,
        content["report_digest"],
        f"FLContrib extract, run {content['digest'][:12]} {moment(record.written_at or '')}".strip(),
    )


def _head(content: dict[str, Any], record: Record) -> str:
    alerts, client = content["alerts"], content["client"]
    said = f"{named(client)}: {verdict_name(VerdictKind(content['verdict'])).lower()}"
    if alerts:
        dismissed = sum(r.state is AlertState.DISMISSED for r in record.reviews.entries if r.key in map(_key, alerts))
        of_them = f", {'' if dismissed == len(alerts) else f'{dismissed} '}dismissed" if dismissed else ""
        said = f"{named(client)}: {several(len(alerts), 'alert')} in this run{of_them}"
    badges = [badge(f"extract for {named(client)}"), badge(f"{content['preset']} threshold")]
    if content["warnings"]:
        badges.append(badge(several(len(content["warnings"]), "warning") + " about the log", "care"))
    warned = bullets(content["warnings"]) if content["warnings"] else ""
    written = f" · written {moment(record.written_at)}" if record.written_at else ""
    return (
        f'<header><p class="crumbs">run {markup(content["digest"][:12])}…{markup(written)}</p>'
        f"<h1>{markup(said)}</h1>{paragraph('' if alerts else content['why'])}"
        f"{paragraph(f'{OBSERVED_ONLY} This page shows nothing of other clients but an anonymous band.', 'second')}"
        f'<div class="badges">{"".join(badges)}</div>{warned}</header>'
    )


def _key(alert: dict[str, Any]) -> Key:
    """What the review of an alert is found by."""
    window = None if alert["window"] is None else (alert["window"][0], alert["window"][1])
    return alert["client"], alert["verdict"], window, alert.get("finding") or ""


def _alert(alert: dict[str, Any], reviews: Reviews) -> str:
    kind, window = VerdictKind(alert["verdict"]), _key(alert)[2]
    steps = [step_line(step) for review in reviews.entries if review.key == _key(alert) for step in review.steps]
    notes = [note_line(note) for note in reviews.notes_on(alert["client"], window)]
    declared = f"<h3>{DECLARED}</h3>{bullets(notes)}" if notes else ""
    decided = bullets(steps) if steps else paragraph(NOT_DECIDED)
    where = "" if alert["window"] is None else f", {span((alert['window'][0], alert['window'][1]))}"
    observed = [sentence(fact_from_json(fact), alert["client"]) for fact in alert["evidence"]["for"]]
    sure = "exact: a fact about the file"
    if alert["probability"] is not None:
        sure = f"probability {probability(alert['probability'])} (calibrated)"
    return (
        f'<div class="card"><h3>{markup(verdict_name(kind) + where)}</h3><div class="badges">{badge(sure)}</div>'
        f'<div class="pair"><div><h3>What was observed</h3>{bullets(observed)}</div>'
        f"<div><h3>What speaks against it</h3>{bullets(alert['counter_evidence'])}</div></div>"
        f"{paragraph(' '.join(alert['context']), 'second small')}{declared}<h3>What was decided</h3>{decided}</div>"
    )


def _series(content: dict[str, Any]) -> str:
    parts = []
    for utility in content["utilities"]:
        chart = own_chart(content, utility)
        parts.append(f'<div class="card"><h3>{markup(chart.title)}</h3>{drawn(chart)}</div>')
    if content["without_values"] is not None:
        said = WITHOUT_VALUES[NoValues(content["without_values"])]
        return section("Your contributions", paragraph(f"{said[0].upper()}{said[1:]}."), _states(content))
    words = (
        "Help is up. Bars: your values ± 95%. Hatched: took part, not computed. Dot: absent. Grey: the mean of the "
        "lowest and of the highest third of the others, only in epochs with at least five others."
    )
    totals = [
        [capital(credited(u, s["lower_is_better"])), signed(_sign(s) * s["total_of_computed_epochs"])]
        for u, s in content["utilities"].items()
    ]
    return section(
        "Your contributions",
        paragraph(words, "second small"),
        *parts,
        grid(["Utility", "Total over computed epochs"], totals),
        _table(content),
    )


def own_chart(content: dict[str, Any], utility: str) -> Chart:
    """Bars per epoch with the band of the others, and the probability of a change below."""
    series = content["utilities"][utility]
    sign = _sign(series)
    codes = {STATE_NAMES[CellState.COMPUTED]: CellState.COMPUTED, STATE_NAMES[CellState.ABSENT]: CellState.ABSENT}
    state = np.array([CellState.ABSENT, *(codes.get(s, CellState.NOT_COMPUTED) for s in content["state"][1:])])
    ends = sign * _array(series["others_low"]), sign * _array(series["others_high"])
    facts = OwnSeriesFacts(
        client=content["client"],
        axis=credited(utility, series["lower_is_better"]),
        values=np.where(state == CellState.COMPUTED, sign * _array(series["per_epoch"]), np.nan),
        half_widths=1.96 * _array(series["standard_error"]),
        state=state,
        low=np.minimum(*ends),
        high=np.maximum(*ends),
        change=_array(content["change_points"]),
        windows=tuple((a["window"][0], a["window"][1]) for a in content["alerts"] if a["window"] is not None),
    )
    title = f"{capital(facts.axis)} per epoch"
    return Chart(f"own-{utility}", title, own_series_alt(facts), draw_own_series(facts, "light"))


def _states(content: dict[str, Any]) -> str:
    """Where there are no values: in which epochs the client took part, and how probable a change is there."""
    rows = [
        [str(t), content["state"][t], probability(content["change_points"][t])] for t in range(1, content["epochs"] + 1)
    ]
    return grid(["Epoch", "State", "Probability of a change"], rows, words=3)


def _table(content: dict[str, Any]) -> str:
    header = ["Epoch", "State", "Method"]
    for utility, series in content["utilities"].items():
        header += [capital(credited(utility, series["lower_is_better"])), "95%"]
    rows = []
    for t in range(1, content["epochs"] + 1):
        row = [str(t), content["state"][t], content["estimator"][t]]
        for series in content["utilities"].values():
            value, error = series["per_epoch"][t], series["standard_error"][t]
            computed = content["state"][t] == STATE_NAMES[CellState.COMPUTED]
            row.append(
                signed(_sign(series) * value if computed and value is not None else None, 4) if computed else "–"
            )
            row.append(half_width(np.nan if error is None else error, 4) if computed else "–")
        rows.append(row)
    return grid(header, rows, words=3)


def _updates(content: dict[str, Any]) -> str:
    updates = content["updates"]
    if updates is None:
        return section("Your recorded updates", paragraph(wording.NO_UPDATES))
    rows = [[str(r["epoch"]), str(r["data_size"]), r["sha256"]] for r in updates["rows"]]
    words = f"sha256 of the {updates['hashed']}."
    if updates["stored_in_16_bits"]:
        words += " The log stores 16-bit numbers: hash your update after rounding it to them and back."
    names = ", ".join(f"{p['name']} {tuple(p['shape'])}" for p in updates["parameters"])
    return section(
        "Your recorded updates",
        paragraph(words),
        paragraph(f"Order: {names}.", "second small"),
        grid(["Epoch", "Data size", "sha256"], rows, words=3),
        paragraph(_RIGHTS),
    )


def _origin(content: dict[str, Any], json_name: str) -> str:
    origin = content["provenance"]
    lines = [
        ("run digest", content["digest"]),
        ("extract digest", content["report_digest"]),
        *([("audit-log head", content["chain_head"])] if content.get("chain_head") else []),
        ("version", f"flcontrib {origin['version']}, seed {origin['seed']}, {origin['platform']}"),
    ]
    return section(
        "How to check this extract",
        command(f"flcontrib verify {json_name} RUN.flrun"),
        facts_list(lines),
        f"<h3>All settings</h3>{facts_list(flattened(content['settings']), 'two')}",
    )


def _sign(series: dict[str, Any]) -> float:
    return -1.0 if series["lower_is_better"] else 1.0


def _array(cells: list[float | None]) -> FloatArray:
    return np.array([np.nan if c is None else c for c in cells])

"""What a reading said of labelled runs, as plain answers, and the tables of docs/detection.md made of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.detection_corpus import ATTACKS, INNOCENT
from flcontrib_core.detection.change_points import read_change_points
from flcontrib_core.detection.findings import Detection, VerdictKind
from flcontrib_core.laboratory.corpus import AssessedRun, Regime
from flcontrib_core.laboratory.corpus_scoring import (
    ScoredRun,
    Share,
    accused,
    acted,
    mean_overlap,
    recall,
    score_corpus,
    stated_and_true,
    stated_error,
)

Answer = dict[str, Any]
HANDS = ("report", "other", "third")
NEAR = 1
"""Epochs by which a change point may miss a window's end."""


def answer_of(run: AssessedRun, detection: Detection) -> Answer:
    """Everything that is counted of one run, in words of JSON."""
    (scored,) = score_corpus([run], read=lambda _: detection)
    attacks = {label.client: str(label.attack) for label in run.truth.dishonest}
    alerts = {alert.client: alert for alert in reversed(detection.alerts) if alert.accuses}
    return {
        "run": run.run_id,
        "group": scored.group,
        "found": [[attacks[client], hit] for client, hit in zip(acted(run), scored.found, strict=True)],
        "innocents": [[client, str(kind), alerts[client].window] for client, kind in scored.innocents_accused],
        "probabilities": [[p, guilty, str(kind)] for p, guilty, kind in scored.probabilities],
        "overlaps": scored.overlaps,
        "changes": [[change.client, change.kind, change.strength] for change in run.changes],
        **_change_points(run),
    }


def _change_points(run: AssessedRun) -> Answer:
    """Of flips in one window inside a run at full participation: mass at its ends; of plain runs: who has a change."""
    history = run.history
    plain, flips = run.run_id.split("/")[1] == "plain", []
    if not history.participated[1:].all():
        return {"ends": [], "jumps": []}
    for label in run.truth.dishonest:
        inside = [w for w in label.windows if w[0] > 3 and w[1] < history.epoch_count]
        if str(label.attack) == "label-flip" and len(label.windows) == len(inside) == 1:
            flips.append((history.client_ids.index(label.client), inside[0]))
    if not plain and not flips:
        return {"ends": [], "jumps": []}
    mass = np.nan_to_num(read_change_points(history).probability)
    jumps = [bool((column > 0.5).any()) for column in mass.T] if plain else []
    return {"ends": [_at_ends(mass[:, client], window) for client, window in flips], "jumps": jumps}


def _at_ends(mass: np.ndarray[Any, Any], window: tuple[int, int]) -> tuple[float, bool]:
    """The share of all mass at the two ends, and whether more than .5 lies at each."""
    ends = [float(mass[epoch - NEAR : epoch + NEAR + 1].sum()) for epoch in (window[0], window[1] + 1)]
    return sum(ends) / max(float(mass.sum()), 1e-12), min(ends) > 0.5


def tables(answers: Sequence[Answer]) -> str:
    """Every table as Markdown."""
    hands = {hand: [a for a in answers if a["run"].startswith(f"{hand}/")] for hand in HANDS}
    report = [_scored(a) for a in hands["report"]]
    parts = [_by_hand(hands), _by_attack_row(report), _by_kind(hands), _by_regime(report), _ends(answers)]
    return "\n\n".join([*parts, _accused(answers)])


def _scored(answer: Answer) -> ScoredRun:
    return ScoredRun(
        answer["group"],
        tuple(hit for _, hit in answer["found"]),
        tuple((client, VerdictKind(kind)) for client, kind, _ in answer["innocents"]),
        tuple((p, guilty, VerdictKind(kind)) for p, guilty, kind in answer["probabilities"]),
        tuple(answer["overlaps"]),
    )


def _share(share: Share) -> str:
    if not share.of:
        return "–"
    low, high = share.interval
    return f"{share.value:.3f} ({share.hits} of {share.of}; {low:.3f}–{high:.3f})"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _by_hand(hands: dict[str, list[Answer]]) -> str:
    everything = [answer for mine in hands.values() for answer in mine]
    columns = [[_scored(a) for a in mine] for mine in (*hands.values(), everything)]
    figures: list[tuple[str, Callable[[list[ScoredRun]], str]]] = [
        (f"innocents accused: {name}", lambda s, groups=groups: _share(accused(s, *groups, *(g[:-2] for g in groups))))
        for name, groups, _ in INNOCENT
    ]
    figures += [
        ("attackers found", lambda s: _share(recall(s, "*"))),
        ("overlap (IoU)", lambda s: f"{mean_overlap(s, '*'):.2f}"),
        ("calibration error", lambda s: f"{stated_error(s):.4f}" if s else "–"),
        ("dishonest where nothing was found", _nothing_found),
    ]
    return _table(("", *hands, "all"), ([name, *(of(column) for column in columns)] for name, of in figures))


def _nothing_found(scored: list[ScoredRun]) -> str:
    stated, true = stated_and_true(scored, VerdictKind.NOTHING_FOUND)
    return f"stated {stated:.4f}, true {_share(true)}"


def _by_attack_row(report: list[ScoredRun]) -> str:
    rows = (
        [name, _share(recall(report, *groups)), "–" if goal is None else f"{goal:g}"] for name, groups, goal in ATTACKS
    )
    overlap = ["on and off: IoU", f"{mean_overlap(report, 'attacked/*/on-off/*'):.2f}", "0.6"]
    on_off = ["on and off, all attacks", _share(recall(report, "attacked/*/on-off/*")), "0.75"]
    return _table(("report part", "found", "goal"), [*rows, on_off, overlap])


def _by_kind(hands: dict[str, list[Answer]]) -> str:
    """Attackers found by the kind of attack, hand by hand."""
    counts: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: {hand: Counter() for hand in HANDS})
    for hand, mine in hands.items():
        for attack, hit in (found for answer in mine for found in answer["found"]):
            counts[attack][hand][hit] += 1
    return _table(
        ("attack", *HANDS),
        ([attack, *(f"{c[True]} of {c.total()}" for c in by.values())] for attack, by in sorted(counts.items())),
    )


def _by_regime(report: list[ScoredRun]) -> str:
    rows = []
    for regime in Regime:
        innocent, found = accused(report, f"*/{regime}"), recall(report, f"attacked/*/{regime}")
        if innocent.of:
            rows.append([str(regime), f"{innocent.hits} of {innocent.of}", _share(found)])
    return _table(("regime", "runs with an accused innocent", "attackers found"), rows)


def _ends(answers: Sequence[Answer]) -> str:
    ends = [end for answer in answers for end in answer["ends"]]
    jumps = [jump for answer in answers for jump in answer["jumps"]]
    mass = float(np.mean([share for share, _ in ends])) if ends else float("nan")
    rows = [
        ["mass at both ends of a flip's window, mean", f"{mass:.2f} of {len(ends)}"],
        ["… more than .5 at each end", _share(Share(sum(both for _, both in ends), len(ends)))],
        ["honest clients of plain runs with any p > .5", _share(Share(sum(jumps), len(jumps)))],
    ]
    return _table(("change points, full participation", ""), rows)


def _accused(answers: Sequence[Answer]) -> str:
    """Every accused innocent: where, of what, and which honest changes the run has."""
    rows = [
        [answer["run"], client, kind, str(window), "; ".join(f"{who} {what}" for who, what, _ in answer["changes"])]
        for answer in answers
        for client, kind, window in answer["innocents"]
    ]
    return _table(("run", "accused innocent", "verdict", "window", "honest changes"), rows)

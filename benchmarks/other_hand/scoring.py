"""How often is an innocent client accused, and how many attackers are found? Counted, with Clopper–Pearson intervals.

A client is innocent in a run where it did not attack (an attacker that was never drawn in its window did not). An
attacker is found where an accusing alert has no window or one that meets an epoch in which it attacked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.stats import beta

from benchmarks.other_hand.attacks import FREE_RIDING
from benchmarks.other_hand.changes import CHANGES
from benchmarks.other_hand.examining import with_values

Truth = dict[str, Any]
Answer = dict[str, Any]
Pairs = list[tuple[Truth, Answer]]
BINS = 10


def interval(hits: int, of: int) -> tuple[float, float]:
    """Clopper–Pearson, 95 %."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, of - hits + 1))
    high = 1.0 if hits == of else float(beta.ppf(0.975, hits + 1, of - hits))
    return low, high


def attackers_of(truth: Truth) -> dict[str, dict[str, Any]]:
    """Those who attacked in at least one epoch that they took part in."""
    return {a["client"]: a for a in truth["attackers"] if a["acts"]}


def accusing(answer: Answer, client: str | None = None) -> list[dict[str, Any]]:
    """The accusing alerts, all or one client's."""
    return [a for a in answer["alerts"] if a["accuses"] and client in (None, a["client"])]


def innocents_accused(truth: Truth, answer: Answer) -> list[dict[str, Any]]:
    """The accusing alerts against clients that did nothing."""
    guilty = attackers_of(truth)
    return [a for a in accusing(answer) if a["client"] not in guilty]


def meets(alert: dict[str, Any], acts: list[int]) -> bool:
    """Does the alert's window hold an epoch of the attack?"""
    window = alert["window"]
    return window is None or any(window[0] <= t <= window[1] for t in acts)


def overlap(alert: dict[str, Any], attacker: dict[str, Any]) -> float:
    """Intersection over union, in the epochs that the client took part in."""
    a, b = alert["window"]
    said = {t for t in attacker["took_part"] if a <= t <= b}
    done = set(attacker["acts"])
    return len(said & done) / max(1, len(said | done))


def expected_calibration_error(pairs: Pairs) -> tuple[float, int]:
    """Of the clients' stated probabilities, in ten bins of equal width; and how many were stated."""
    stated = [
        (client["probability"], client["id"] in attackers_of(truth))
        for truth, answer in pairs for client in answer["clients"] if client["probability"] is not None
    ]  # fmt: skip
    if not stated:
        return float("nan"), 0
    p, hit = np.array(stated, dtype=float).T
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == b).sum() * abs(p[bins == b].mean() - hit[bins == b].mean()) for b in range(BINS) if (bins == b).any()
    ]
    return float(sum(gaps) / len(p)), len(p)


def _at(points: list[float | None], epoch: int) -> float:
    """Mass of a new segment within one epoch of this one."""
    return float(sum(p or 0.0 for p in points[max(1, epoch - 1) : epoch + 2]))


def mass_at_ends(pairs: Pairs) -> list[float]:
    """Per true begin or end of a label flip inside the run: mass there (± 1 epoch), at most 1."""
    masses = []
    for truth, answer in pairs:
        for client, attacker in attackers_of(truth).items():
            points = answer["change_points"].get(client)
            if not attacker["attack"].startswith("label-flip") or attacker["attack"].endswith("ramp") or points is None:
                continue
            for a, b in attacker["windows"]:
                masses += [min(1.0, _at(points, e)) for e in (a, b + 1) if 1 < e < len(points)]
    return masses


def jumpy_innocents(pairs: Pairs) -> tuple[int, int]:
    """Clients that have a change point with p > .5, and how many clients there are."""
    series = [points for _, answer in pairs for points in answer["change_points"].values()]
    return sum(any(p is not None and p > 0.5 for p in points) for points in series), len(series)


def grouped(pairs: Pairs, names: Callable[[Truth], Iterable[str]]) -> dict[str, Pairs]:
    """The runs by the groups that each belongs to."""
    groups: dict[str, Pairs] = defaultdict(list)
    for truth, answer in pairs:
        for name in dict.fromkeys(names(truth)):
            groups[name].append((truth, answer))
    return dict(sorted(groups.items()))


def wrongly_accused_runs(pairs: Pairs) -> tuple[int, int]:
    """Runs in which an innocent is accused, and how many runs there are."""
    return sum(bool(innocents_accused(*pair)) for pair in pairs), len(pairs)


def innocent_clients(pairs: Pairs) -> tuple[int, int]:
    """Innocent clients that are accused, and how many innocents there are."""
    accused = sum(len({a["client"] for a in innocents_accused(*pair)}) for pair in pairs)
    return accused, sum(len(truth["clients"]) - len(attackers_of(truth)) for truth, _ in pairs)


def found(
    pairs: Pairs, which: Callable[[dict[str, Any]], bool] = lambda attacker: True, any_alert: bool = False
) -> tuple[int, int]:
    """Attackers found and how many there are; ``any_alert`` counts alerts that do not accuse too."""
    hits = total = 0
    for truth, answer in pairs:
        for client, attacker in attackers_of(truth).items():
            if which(attacker):
                total += 1
                said = [a for a in answer["alerts"] if a["client"] == client and (any_alert or a["accuses"])]
                hits += any(meets(a, attacker["acts"]) for a in said)
    return hits, total


def overlaps(pairs: Pairs) -> list[float]:
    """The best accusing window's overlap of every attacker found with a window."""
    values = []
    for truth, answer in pairs:
        for client, attacker in attackers_of(truth).items():
            mine = [overlap(a, attacker) for a in accusing(answer, client) if a["window"]]
            values += [max(mine)] if mine and max(mine) > 0 else []
    return values


def _rate(name: str, hits: int, of: int) -> str:
    low, high = interval(hits, of) if of else (float("nan"), float("nan"))
    return f"| {name} | {hits} | {of} | {hits / of if of else float('nan'):.3f} | {low:.3f}–{high:.3f} |"


def _section(title: str, what: str, rows: Iterable[str]) -> list[str]:
    return ["", f"**{title}**", "", f"| {what} | count | of | rate | 95 % |", "|---|---|---|---|---|", *rows]


def table(pairs: Pairs) -> str:
    """Everything as markdown."""
    kinds = grouped(pairs, lambda truth: [truth["kind"]])
    ways = grouped(pairs, lambda truth: ["with values" if with_values(truth["setup"]) else "without values"])
    lines = _section("Runs in which an innocent client is accused", "runs", [
        _rate("all", *wrongly_accused_runs(pairs)),
        *(_rate(kind, *wrongly_accused_runs(some)) for kind, some in kinds.items()),
        *(_rate(f"audited {way}", *wrongly_accused_runs(some)) for way, some in ways.items()),
    ])  # fmt: skip
    verdicts = sorted({a["verdict"] for pair in pairs for a in innocents_accused(*pair)})
    lines += _section("By what they are accused of", "verdict", (
        _rate(v, sum(any(a["verdict"] == v for a in innocents_accused(*pair)) for pair in pairs), len(pairs))
        for v in verdicts
    ))  # fmt: skip
    lines += _section("Innocent clients, one by one", "clients", [_rate("accused", *innocent_clients(pairs))])
    changing = kinds.get("changing", [])
    changes = grouped(changing, lambda truth: [c["what"] for c in truth["changed"]])
    lines += _section("The same by honest change (runs without attack)", "change", (
        _rate(name, *wrongly_accused_runs(changes.get(name, []))) for name in CHANGES if name in changes
    ))  # fmt: skip
    for part in ("net", "split", "server", "pool"):
        parts = grouped(pairs, lambda truth, part=part: [str(truth["setup"][part])])
        lines += _section(f"The same by {part}", part, (_rate(k, *wrongly_accused_runs(v)) for k, v in parts.items()))
    lines += _section("Attackers found by an accusing alert", "attackers", _found_rows(pairs))
    return "\n".join([*lines, "", *_figures(pairs, kinds)])


def _found_rows(pairs: Pairs) -> list[str]:
    attacks = grouped(pairs, lambda truth: [a["attack"] for a in truth["attackers"]])
    shares = sorted({a["strength"] for truth, _ in pairs for a in truth["attackers"] if a["attack"] == "label-flip"})
    return [
        _rate("all", *found(pairs)),
        _rate("all, by any alert", *found(pairs, any_alert=True)),
        _rate("who acted in three epochs or more", *found(pairs, lambda a: len(a["acts"]) >= 3)),
        _rate("harming", *found(pairs, lambda a: a["attack"] not in FREE_RIDING)),
        _rate("free riding", *found(pairs, lambda a: a["attack"] in FREE_RIDING)),
        *(_rate(name, *found(pairs, lambda a, name=name: a["attack"] == name)) for name in attacks),
        *(
            _rate(
                f"label-flip, {share:.0%} of the rows",
                *found(pairs, lambda a, p=share: a["attack"] == "label-flip" and a["strength"] == p),
            )
            for share in shares
        ),
    ]


def _figures(pairs: Pairs, kinds: dict[str, Pairs]) -> list[str]:
    error, stated = expected_calibration_error(pairs)
    windows, masses = overlaps(pairs), mass_at_ends(pairs)
    jumpy, honest = jumpy_innocents(kinds.get("honest", []))
    return [
        f"Window overlap (IoU) of attackers found with a window: mean {np.mean(windows or [np.nan]):.3f}, "
        f"median {np.median(windows or [np.nan]):.3f} ({len(windows)}).",
        f"Expected calibration error of the clients' probabilities: {error:.3f} ({stated} clients).",
        f"Clients of plain honest runs with a change point of p > .5: {jumpy} of {honest}.",
        f"Change-point mass at the true ends of label flips (± 1 epoch): mean {np.mean(masses or [np.nan]):.3f} "
        f"({len(masses)} ends).",
    ]


def _by_client(alerts: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for alert in alerts:
        grouped[alert["client"]].append(alert)
    return dict(grouped)


def failures(pairs: Pairs) -> str:
    """One line per accused innocent and per attacker that no alert accuses, as markdown."""
    lines = ["| seed | run | client | what happened | the audit said |", "|---|---|---|---|---|"]
    for truth, answer in pairs:
        s = truth["setup"]
        run = f"{truth['kind']}, {s['pool']}, {s['net']}, {s['split']}, {s['clients']} clients, {s['epochs']} epochs"
        done = {c["client"]: f"{c['what']} {c['epochs']}" for c in truth["changed"]}
        for client, alerts in _by_client(innocents_accused(truth, answer)).items():
            first = alerts[0]
            said = f"ACCUSED {first['verdict']} {first['window']} p={first['probability']}, {len(alerts)} alerts"
            lines.append(f"| {truth['seed']} | {run} | {client} | {done.get(client, 'nothing')} | {said} |")
        for client, attacker in attackers_of(truth).items():
            if not any(meets(a, attacker["acts"]) for a in accusing(answer, client)):
                did = (
                    f"{attacker['attack']} ×{attacker['strength']} {attacker['windows']}, {len(attacker['acts'])} acts"
                )
                others = [a["verdict"] for a in answer["alerts"] if a["client"] == client]
                lines.append(f"| {truth['seed']} | {run} | {client} | {did} | missed {others or ''} |")
    return "\n".join(lines)

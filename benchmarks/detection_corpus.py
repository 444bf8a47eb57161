"""The report part of the corpus, group by group: innocents accused, attackers found, and the peers on the same runs.

Nothing is fitted to these runs. ``$FLCONTRIB_BENCH_CACHE`` keeps assessed runs and the peers' scores.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cached_runs import CACHE
from benchmarks.measurement import Measurement
from flcontrib_core.detection.findings import VerdictKind
from flcontrib_core.detection.peers import EpochUpdates, peer_scores
from flcontrib_core.laboratory.corpus import Regime, assess_corpus, corpus, map_corpus
from flcontrib_core.laboratory.corpus_scoring import (
    ScoredRun,
    Share,
    accused,
    mean_overlap,
    recall,
    score_corpus,
    stated_and_true,
    stated_error,
)
from flcontrib_core.runs.run_log import RunLog

COUNTS = {
    "small": {"plain/*": 1, "changing/any/*": 1, "attacked/any/*": 1},
    "full": {"plain/*": 12, "changing/rare-class/*": 75, "changing/*": 1, "attacked/*": 2, "mixed/*": 20},
}
PEER_COUNTS = {"small": {"plain/any": 2, "attacked/any/*": 1}, "full": {"plain/*": 6, "attacked/*": 1}}
FIRST_RUN = 300
"""Number of each group's first run: no rule was made on runs from here on; the calibration counts its rates below."""
PEER_RATE = 0.01
"""Share of plain honest runs of the *tuning* part in which a peer's rule may accuse somebody; sets its threshold."""
SILENT = -1e9
"""The number of a rule that cannot say anything of a client."""
INNOCENT = (
    ("plain honest runs", ("plain/*",), 0.01),
    ("honestly changing runs", ("changing/*",), 0.02),
    ("attacked runs", ("attacked/*", "mixed/*"), 0.01),
    ("runs with a client that alone holds a class", ("changing/rare-class/*",), 0.02),
)
"""name, groups, largest share of runs with an accused innocent"""


def _each(form: str, *names: str) -> tuple[str, ...]:
    return tuple("attacked/" + form.format(name) for name in names)


ATTACKS: tuple[tuple[str, tuple[str, ...], float | None], ...] = (
    ("near-iid flips, p ≥ .5", _each("label-flip-{}/window/near-iid", "0.5", "0.7", "1"), 0.95),
    ("windowed flips, all regimes", ("attacked/label-flip*/window/*",), 0.80),
    ("flips, p = .3", ("attacked/label-flip-0.3/*",), 0.65),
    ("flips, Adult- and COMPAS-like", _each("label-flip/window/{}", "adult-like", "compas-like"), 0.75),
    ("flips, sparse participation", ("attacked/label-flip/window/sparse",), 0.65),
    ("flips from epoch 1", ("attacked/label-flip*/early/*",), 0.60),
    ("flips, just under half collude", ("attacked/label-flip*/colluding/*",), 0.90),
    ("flips on and off", ("attacked/label-flip*/on-off/*",), 0.75),
    ("sign flips in a window", ("attacked/sign-flip/window/*",), 0.85),
    ("scaled ×5 and ×10 in a window", ("attacked/scale-5/window/*", "attacked/scale-10/window/*"), 0.95),
    ("pure noise", ("attacked/pure-noise/*",), 0.90),
    ("added noise", ("attacked/additive-noise/*",), 0.60),
    ("targeted flips", ("attacked/targeted-flip/*",), 0.60),
    ("backdoors", ("attacked/backdoor/*",), 0.60),
    ("free riders: zero, near zero, random, copies",
     _each("{}/*", "zero", "near-zero", "random-step", "repeat", "copy"), 0.90),
    ("free riders: noisy and scaled copies", ("attacked/noisy-copy/*", "attacked/scaled-copy/*"), 0.80),
    ("ALIE, min-max, min-sum", ("attacked/alie/*", "attacked/min-max/*", "attacked/min-sum/*"), 0.50),
    ("mimic", ("attacked/mimic/*",), None),
    ("noisy repeats and stale models", ("attacked/noisy-repeat/*", "attacked/stale-model/*"), None),
    ("score inflation and deflation", ("attacked/inflate/*", "attacked/deflate/*"), None),
    ("all attacks", ("attacked/*", "mixed/*"), None),
)  # fmt: skip
"""name, groups, recall wanted"""


def corpus_rows(scale: str) -> list[Measurement]:
    """Every figure of the corpus at this scale."""
    with _folder() as folder:
        runs = assess_corpus(corpus("report", COUNTS[scale], first=FIRST_RUN), folder / "histories")
        return rows_of(score_corpus(runs))


def rows_of(scored: Sequence[ScoredRun]) -> list[Measurement]:
    """The figures of runs that were scored already."""
    rows = [
        _share(f"innocents accused: {name}", accused(scored, *groups), goal, at_least=False)
        for name, groups, goal in INNOCENT
    ]
    rows.append(
        _share(
            "innocents accused: plain, low quality left out",
            accused(scored, "plain/*", without="plain/low-*"),
            0.01,
            False,
        )
    )
    rows += [_share(f"found: {name}", recall(scored, *groups), goal) for name, groups, goal in ATTACKS]
    rows += regime_rows(scored)
    rows.append(Measurement("on/off: IoU of what was found", mean_overlap(scored, "attacked/*/on-off/*"), 0.6))
    rows.append(Measurement("windowed flips: IoU", mean_overlap(scored, "attacked/label-flip*/window/*")))
    rows.append(Measurement("calibration error (ECE), all regimes", stated_error(scored), 0.015, False))
    stated, true = stated_and_true(scored, VerdictKind.NOTHING_FOUND)
    rows.append(_share(f"dishonest among 'nothing found' (stated {stated:.3f})", true, None))
    return rows


def regime_rows(scored: Sequence[ScoredRun]) -> list[Measurement]:
    """Innocents accused and attackers found, regime by regime, in every family of runs that fixes one."""
    rows = []
    for regime in Regime:
        innocent, found = accused(scored, f"*/{regime}"), recall(scored, f"attacked/*/{regime}")
        if innocent.of:
            rows.append(_share(f"{regime}: runs with an accused innocent", innocent, None))
        if found.of:
            rows.append(_share(f"{regime}: attackers found", found, None))
    return rows


def _share(name: str, share: Share, goal: float | None, at_least: bool = True) -> Measurement:
    low, high = share.interval
    note = f"{share.hits} of {share.of}, 95 % {low:.3f}–{high:.3f}"
    return Measurement(name, share.value, goal, at_least, note=note)


def peer_rows(scale: str) -> list[Measurement]:
    """What the peers' rules find at one accused innocent in a hundred plain runs, each with a threshold of its own."""
    with _folder() as folder:
        tuning = list(map_corpus(peer_answers, corpus("tuning", PEER_COUNTS[scale], "plain/*"), folder / "peers"))
        report = list(map_corpus(peer_answers, corpus("report", PEER_COUNTS[scale], first=FIRST_RUN), folder / "peers"))
    rows = []
    for rule in tuning[0][1]["scores"]:
        highest = np.array([max(answer["scores"][rule], default=-np.inf) for _, answer in tuning])
        limit = float(np.sort(highest)[::-1][int(PEER_RATE * len(highest))])
        if limit > SILENT:  # FLTrust needs rows of the server's own, which no log has
            rows += _peer(rule, limit, [answer for _, answer in report])
    return rows


def _peer(rule: str, limit: float, answers: Sequence[dict[str, Any]]) -> list[Measurement]:
    found, innocent, runs = [], 0, 0
    for answer in answers:
        named = [score > limit for score in answer["scores"][rule]]
        found += [n for n, guilty in zip(named, answer["dishonest"], strict=True) if guilty]
        innocent += any(n for n, guilty in zip(named, answer["dishonest"], strict=True) if not guilty)
        runs += 1
    return [
        _share(f"peer {rule}: attackers found", Share(sum(found), len(found)), None),
        _share(f"peer {rule}: runs with an accused innocent", Share(innocent, runs), None),
    ]


def peer_answers(run_id: str, run: RunLog) -> dict[str, Any]:
    """Each rule's number per client of one run: its largest mean over five participations in a row."""
    scores = peer_scores(_epochs(run), len(run.clients), run.epoch_count)
    guilty = {d.client for d in run.truth.dishonest} if run.truth is not None else set()
    return {
        "scores": {rule: [_loudest(column) for column in cells.T] for rule, cells in scores.items()},
        "dishonest": [client.id in guilty for client in run.clients],
    }


def _epochs(run: RunLog) -> Iterator[EpochUpdates]:
    step: np.ndarray | None = None
    for record in run.epochs:
        updates = run.epoch_data(record.epoch).updates.astype(np.float64)
        yield EpochUpdates(record.epoch, np.array(record.participants), updates, step)
        step = updates.mean(axis=0)  # the server's own step is not in every log; the rules only ask for its direction


def _loudest(column: np.ndarray, length: int = 5) -> float:
    seen = column[np.isfinite(column)]
    if not len(seen):
        return SILENT
    width = min(length, len(seen))
    return float(np.convolve(seen, np.full(width, 1.0 / width), mode="valid").max())


@contextmanager
def _folder() -> Iterator[Path]:
    kept = os.environ.get(CACHE)
    if kept:
        yield Path(kept) / "corpus"
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)

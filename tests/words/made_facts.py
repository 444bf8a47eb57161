"""One example of every fact and a report that holds all of them, with an alert of every kind; no detector involved."""

from __future__ import annotations

import typing
from dataclasses import replace

from flcontrib_core.auditing import AuditReport
from flcontrib_core.detection import facts as f
from flcontrib_core.detection import objections as o
from flcontrib_core.detection import reasons as r
from flcontrib_core.detection.facts import Fact, Quiet
from flcontrib_core.detection.findings import ALERT_KINDS, Alert, ClientVerdict, VerdictKind
from flcontrib_core.detection.objections import Context, Objection
from flcontrib_core.detection.reasons import ChannelScore, ExactFact, Reason
from flcontrib_core.history.remarks import NoValues
from flcontrib_core.tagged import Others
from tests.detection.made_histories import made_history
from tests.reports.made_reports import made_report

CLIENTS = 18
WINDOW = (8, 12)
PLAIN = tuple(f"client-{i:02d}" for i in range(CLIENTS))
DIGITS = tuple(str(i) for i in range(1, CLIENTS + 1))
WORDS = ("epoch", "of", "the", "notes", "a", "0", "loss", "inside", "window", "clients", "why", "for", "not", "1", "20",
         "alerts", "utilities", "in")  # fmt: skip
SCRIPTS = ("مستشفى الأمل", "מרכז", "病院", '"quoted"', "it's", "tab\there", "two\nlines", "ab\u202egpj.exe", "<b>x</b>",
           "a and b", "x, y", "client-1", "client-10", "&amp;", "\\", "😀", " padded ", "[U+202E]")  # fmt: skip


def examples(others: tuple[str, ...]) -> dict[type, Fact]:
    """One fact of each class; ``others`` are the clients it may name."""
    them = Others.named(others)
    made: list[Fact] = [
        r.ValueInWindow(WINDOW, "loss", True, 0.0613, -0.0107, 0.0039, 4, 5),
        r.MarginLowered(-0.52, 0.19, 0.08),
        r.StepWorse(0.41, -0.02, 0.11),
        r.OversizedHarm(8.7, 121.4),
        r.WeighedEvidence(1.7, 0.9, (r.Points("solo margin", 1.2), r.Points("strongest other", -0.4))),
        r.ClassSuffers(4, -0.79, 0.3, 0.15),
        r.DirectionChanged("own direction", -0.13, 0.37, 41.7),
        r.SizeChanged(1.87, 20.5),
        r.SpreadChanged(3.31, 12.5),
        r.ExpertScore("consensus", 44.02, -1.83, (ChannelScore("peer direction", 67.4), ChannelScore("size", 0.2))),
        r.ClassesMoved(3, 5, 8, 0.41),
        r.HarmfulThroughout(0.86),
        r.WorseInWindow(WINDOW),
        r.ZeroUpdates((8, 9, 12)),
        r.DivergingUpdates((7,)),
        r.RepeatedOwnUpdates((8, 9), (3, 4)),
        r.CopiedLastGlobalStep((10,), 0.99981),
        r.CopiedClient((11,), Others.named(others[:1])),
        r.CopiesLastStep((8, 9, 10), 0.9951, 0.31),
        r.WithoutDirection((8, 9), 0.01, 0.62, -0.02, 0.33),
        r.TinyUpdates((8, 12), 0.0031),
        r.CopiesClient((9, 10), Others.named(others[:1]), 0.9999, 0.42),
        r.TooAlike((8, 9, 10, 11), them, 0.9998, 0.57),
        o.NotComputedInside((9, 11), 3, 5),
        o.FewComputed(2),
        o.ValuesUnknown(NoValues.NO_MODEL),
        o.OthersMovedToo(them),
        o.NotHarmfulOnAverage("loss", True, -0.0042, 0.0019),
        o.IntervalCoversZero("loss", True, 0.0042, 0.0061),
        o.OtherUtilityHelped("accuracy", 8, 9),
        o.RareParticipation(6, 30),
        o.TouchesEnd(20),
        o.TouchesStart(3),
        o.FewPeers(2.0),
        o.SmallValidation(57),
        o.UnreliableValues((9, 10)),
        o.NotBetterWithout("loss", -0.01),
        o.WeighsTooLittle(0.6, 0.9, (r.Points("most helped class", -1.1),)),
        o.FaintChange(1.2),
        o.LooksLikeLowQuality(),
        o.AskFirst(),
        o.OtherCausesLookTheSame(),
        o.OrdinaryCauses((o.OrdinaryCause.LOCAL_STEPS, o.OrdinaryCause.COMPRESSION)),
        o.BrokenClientLooksTheSame(),
        o.SharedWorkLooksTheSame(),
        o.SourceUnknown(),
        o.HappenedOnce(10),
        o.VanishesUnder((o.Alternative.WITHOUT_VALUES, o.Alternative.WIDER_NOISE), 11),
        o.StillGrowing(17),
        o.HoldsUnder(9, 11),
        o.FalseAlarmRate(2, 144, 0.0493, (4, 16), False),
        f.BelowThreshold(-2.31),
        f.ReflectionOfAnother(),
        f.OpposedUpdates(0.93),
        f.NeverTookPart(),
        f.TooFewParticipations(4),
        f.AlwaysAlone(),
        f.TooFewComparable(),
        f.ChannelUnavailable("spread", f.Unavailable.NOT_RECORDED),
        f.ValuesPartlyComputed(0.43, True),
        f.StandsOutByReflection(Others.named(others[:1]), WINDOW),
        f.ErrorsUnknown(),
    ]
    return {type(fact): fact for fact in made}


def of_union(made: dict[type, Fact], union: typing.Any) -> list[typing.Any]:
    """The examples of one part of the list of facts."""
    return [made[kind] for kind in typing.get_args(union)]


def every_alert(names: tuple[str, ...]) -> tuple[Alert, ...]:
    """An alert of every kind, of every exact finding, which together hold every reason, objection and context."""
    exact = typing.get_args(ExactFact)
    kinds = [k for k in ALERT_KINDS if k is not VerdictKind.EXACT_FINDING] + [VerdictKind.EXACT_FINDING] * len(exact)
    alerts = []
    for n, kind in enumerate(kinds):
        made = examples(tuple(names[(n + k) % CLIENTS] for k in (1, 2, 3)))
        reasons = [fact for fact in of_union(made, Reason) if not isinstance(fact, ExactFact)]
        against = of_union(made, Objection)
        is_exact = kind is VerdictKind.EXACT_FINDING
        plain = len(kinds) - len(exact)
        alerts.append(
            Alert(
                client=names[n],
                verdict=kind,
                window=None if kind is VerdictKind.PERSISTENTLY_HARMFUL else WINDOW,
                probability=None if is_exact else 0.97 - 0.1 * n,
                score=9.0 - 0.5 * n,
                expert="consensus",
                channels=(ChannelScore("size", 20.5), ChannelScore("spread", None)),
                evidence_for=(made[exact[n - plain]],) if is_exact else tuple(reasons[n::plain]),  # type: ignore[arg-type]
                evidence_against=tuple(against[n :: len(kinds)]),
                context=tuple(of_union(made, Context)),
                computed_in_window=3,
                participated_in_window=5,
            )
        )
    return tuple(alerts)


def quiet_verdicts(names: tuple[str, ...], first: int) -> list[ClientVerdict]:
    """A client for every reason to have no alert, from position ``first`` on; the rest has nothing found."""
    kinds = {
        f.BelowThreshold: VerdictKind.NOTHING_FOUND,
        f.ReflectionOfAnother: VerdictKind.NOTHING_FOUND,
        f.OpposedUpdates: VerdictKind.PERSISTENTLY_OPPOSED,
    }
    facts = of_union(examples(names[:3]), Quiet)
    verdicts = []
    for n, name in enumerate(names[first:]):
        fact = facts[n] if n < len(facts) else f.BelowThreshold(-2.31)
        kind = kinds.get(type(fact), VerdictKind.NO_VERDICT)
        verdicts.append(
            ClientVerdict(name, kind, None if kind is VerdictKind.NO_VERDICT else 0.04, None, -2.31, (fact,))
        )
    return verdicts


def full_report(names: tuple[str, ...] = PLAIN) -> AuditReport:
    """A report with every verdict kind and every fact, whose clients have these names."""
    history = made_history(
        clients=CLIENTS, epochs=20, participation=0.9, computed=(1, 2, 3, 5, 8, 9, 10, 12, 16), seed=5
    )
    report = made_report(replace(history, client_ids=names))
    alerts = every_alert(names)
    accused = [ClientVerdict(a.client, a.verdict, a.probability, a.window, a.score, a.evidence_for) for a in alerts]
    made = examples((names[-1],))
    detection = replace(
        report.detection,
        alerts=alerts,
        clients=(*accused, *quiet_verdicts(names, len(accused))),
        false_alarms=made[o.FalseAlarmRate],  # type: ignore[arg-type]
        remarks=tuple(of_union(made, f.Remark)),
    )
    return replace(report, detection=detection, run_name=f"a run of {names[3]} and others")

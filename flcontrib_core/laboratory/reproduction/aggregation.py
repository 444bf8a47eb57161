"""FedAvg against greedy aggregation (figures adult_loss, cifar10_loss): does the best subset train faster?"""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage
from flcontrib_core.reports.paper_figure import Claim, PaperFigure

RULES = {"fedavg": "FedAvg", "greedy": "FedAvg + best subset"}


def instances(stage: Stage) -> list[Instance]:
    """Adult and CIFAR-10, four numbers of clients each (small: two and one)."""
    tables = stage.sizes(*((4, 8, 16, 32) if stage.full else (4, 8)))
    images = ((4, 8, 16) if stage.full else (4,)) if "cifar10" in stage.datasets else ()
    epochs = 25 if stage.full else 12
    return [
        Instance(dataset, m, epochs, s, aggregation=rule)
        for dataset, sizes in ((stage.tables[0], tables), ("cifar10", images))
        for m in sizes
        for rule in RULES
        for s in stage.repeats
    ]


def evaluations(stage: Stage, instance: Instance) -> float:
    """Greedy aggregation looks at every coalition; training counts beside it."""
    return instance.epochs * ((2.0**instance.participants if instance.aggregation == "greedy" else 1.0) + 60)


def work(stage: Stage, instance: Instance) -> list[Row]:
    """The validation loss of every global model."""
    run = stage.train(instance)
    evaluator = evaluator_for(run, ("loss",))
    models = [run.initial(), *(step.end for step in walk(run))]
    losses = evaluator.evaluate(np.stack(models))[0][:, 0]
    return [{"epoch": t, "loss": float(v)} for t, v in enumerate(losses)]


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Loss over epochs, one panel per data set and number of clients."""
    panels, claims = [], []
    for dataset in dict.fromkeys(r["dataset"] for r in rows):
        lower, quicker = [], []
        for clients in sorted({int(r["clients"]) for r in where(rows, dataset=dataset)}):
            here = where(rows, dataset=dataset, clients=clients)
            epochs = sorted({int(r["epoch"]) for r in here})
            tracks = {rule: [mean_of(where(here, aggregation=rule, epoch=t), "loss") for t in epochs] for rule in RULES}
            lines = [Line(words, tuple(map(float, epochs)), tuple(tracks[rule])) for rule, words in RULES.items()]
            panels.append(Panel(f"{dataset}, {clients} clients: validation loss", "epoch", tuple(lines)))
            lower.append((clients, tracks["greedy"][-1], tracks["fedavg"][-1]))
            quicker.append((clients, float(np.mean(tracks["greedy"][1:])), float(np.mean(tracks["fedavg"][1:]))))
        for words, pairs in (("mean over the epochs", quicker), ("after the last epoch", lower)):
            said = ", ".join(f"{m} clients {number(a)} against {number(b)}" for m, a, b in pairs)
            claim = f"{dataset}: the best subset has a lower loss than FedAvg, {words}"
            known = bool(np.isfinite([v for _, *both in pairs for v in both]).all())
            claims.append(Claim(claim, "decreases quickly", said, all(a < b for _, a, b in pairs) if known else None))
    title = "FedAvg beside aggregation of the best subset"
    facts = PanelFacts(title, "Validation loss of the global model, means over seeds.", tuple(panels), 3)
    return Figure(PaperFigure("aggregation", stage.scale, stage.describe(), tuple(claims), facts), tuple(rows))


RECIPE = Recipe("aggregation", instances, work, evaluations, read)

"""FedAvg against greedy aggregation (figures adult_loss, cifar10_loss): does the best subset train faster?

The paper draws the training loss and chooses S* on the validation rows. So do we, and draw the validation loss too,
which flatters the chooser: it is measured on the rows that chose.
"""

from __future__ import annotations

import numpy as np

from flcontrib_core.charts.panels import Line, Panel, PanelFacts
from flcontrib_core.games.architecture import Architecture
from flcontrib_core.games.evaluator import Evaluator
from flcontrib_core.history.trajectory import evaluator_for, walk
from flcontrib_core.laboratory.reproduction.figure import Figure, Recipe, Row, mean_of, number, where
from flcontrib_core.laboratory.reproduction.grid import Instance, Stage
from flcontrib_core.reports.paper_figure import Claim, PaperFigure

RULES = {"fedavg": "FedAvg", "greedy": "FedAvg + best subset"}
LOSSES = {"training_loss": "training loss", "loss": "validation loss"}


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
    """The loss of every global model on all clients' training rows, and on the rows that choose."""
    run = stage.train(instance)
    models = np.stack([run.initial(), *(step.end for step in walk(run))])
    assert run.model is not None
    architecture = Architecture.from_spec(run.model, run.parameters, run.classes)
    training = Evaluator(architecture, stage.training_rows(instance), ("loss",))
    of_training, of_validation = (e.evaluate(models)[0][:, 0] for e in (training, evaluator_for(run, ("loss",))))
    return [
        {"epoch": t, "training_loss": float(of_training[t]), "loss": float(of_validation[t])}
        for t in range(len(models))
    ]  # fmt: skip


def read(stage: Stage, rows: list[Row]) -> Figure:
    """Both losses over epochs, one panel per data set and number of clients."""
    panels, claims = [], []
    for column, words in LOSSES.items():
        for dataset in dict.fromkeys(r["dataset"] for r in rows):
            here = where(rows, dataset=dataset)
            sizes = sorted({int(r["clients"]) for r in here})
            panels += [_panel(where(here, clients=m), f"{dataset}, {m} clients: {words}", column) for m in sizes]
            claims += _claims(here, sizes, f"{dataset}, {words}", column)
    title = "FedAvg beside aggregation of the best subset"
    facts = PanelFacts(title, "Losses of the global model, means over seeds.", tuple(panels), len(panels) // 2)
    note = f"{stage.describe()} The best subset is chosen on the validation rows; on them it looks better than it is."
    return Figure(PaperFigure("aggregation", stage.scale, note, tuple(claims), facts), tuple(rows))


def _track(rows: list[Row], rule: str, column: str) -> list[float]:
    """Over the epochs, from the initial model on."""
    some = where(rows, aggregation=rule)
    return [mean_of(where(some, epoch=t), column) for t in sorted({int(r["epoch"]) for r in some})]


def _mean_from(first: int, track: list[float]) -> float:
    """The mean from this epoch on; NaN where none of its instances is finished yet."""
    return float(np.mean(track[first:])) if track[first:] else float("nan")


def _panel(rows: list[Row], title: str, column: str) -> Panel:
    tracks = {words: _track(rows, rule, column) for rule, words in RULES.items()}
    lines = tuple(Line(words, tuple(map(float, range(len(track)))), tuple(track)) for words, track in tracks.items())
    losses = [v for track in tracks.values() for v in track if np.isfinite(v)] or [0.0, 1.0]
    return Panel(title, "epoch", lines, y_range=(min(losses), max(losses)))


def _claims(rows: list[Row], sizes: list[int], about: str, column: str) -> list[Claim]:
    claims = []
    for words, first in (("mean over the epochs", 1), ("after the last epoch", -1)):
        pairs = []
        for clients in sizes:
            here = where(rows, clients=clients)
            greedy, fedavg = (_mean_from(first, _track(here, rule, column)) for rule in ("greedy", "fedavg"))
            pairs.append((clients, greedy, fedavg))
        said = ", ".join(f"{m} clients {number(a)} against {number(b)}" for m, a, b in pairs)
        claim = f"{about}: lower with the best subset than with FedAvg, {words}"
        comparable = bool(np.isfinite([v for _, *both in pairs for v in both]).all())
        claims.append(Claim(claim, "decreases quickly", said, all(a < b for _, a, b in pairs) if comparable else None))
    return claims


RECIPE = Recipe("aggregation", instances, work, evaluations, read)

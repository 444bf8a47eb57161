"""How somebody's folder of tensor files was understood: models or updates, whose and when, and from which model on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flcontrib_core.words import numbers

LONGEST_NOTE = 4000
SERVER_FILES = {
    "after": "The server's files are its models after each round.",
    "before": "The server's files are the models that were sent out.",
    "none": "There is no file of the server's.",
}


def folder_understood(understood: Mapping[str, Any]) -> tuple[str, ...]:
    """``Understanding.to_json`` in sentences, one per fact."""
    last = understood["first_round"] + understood["rounds"] - 1
    clients, rounds, sizes = understood["clients"], understood["rounds"], understood["data_sizes"]
    varying = " (in the first round of each; others have their own)" if understood["data_sizes_vary"] else ""
    when = f"{understood['first_round']} to {last}"
    sentences = [
        f"Clients' files hold {understood['kind']}: {understood['kind_from']}.",
        f"{numbers.several(rounds, 'round')}, {when}, which become epochs 1 to {rounds}.",
        f"{numbers.several(len(clients), 'client')}: {numbers.listing([numbers.named(c) for c in clients], 12)}.",
        f"{numbers.count(understood['parameters'])} parameters in {numbers.several(understood['tensors'], 'tensor')}.",
        SERVER_FILES[understood["server_files"]],
        f"The initial model: {understood['initial_model']}.",
        f"Data sizes: {numbers.listing([f'{name} {size}' for name, size in sizes.items()], 12)}{varying}."
        if sizes
        else "No table of data sizes: all clients weigh the same.",
    ]
    if understood["ignored"]:
        sentences.append(
            f"Not read, for their path tells no round or client: {numbers.listing(understood['ignored'], 6)}."
        )
    return tuple(sentences)


def folder_note(name: str, understood: Mapping[str, Any]) -> str:
    """Where a log came from, for the run's own note."""
    return f"Made from {name}: {' '.join(folder_understood(understood))}"[:LONGEST_NOTE]

"""The model, the sites' rows and one round of local training."""

from functools import cache

import torch
from sklearn.datasets import load_digits

SITES = 8


def make_net() -> torch.nn.Module:
    """The same initial model everywhere."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


@cache
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """All digits in a fixed random order."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    return torch.tensor(digits.data, dtype=torch.float32)[order] / 16, torch.tensor(digits.target)[order]


def validation_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """The server's own rows, which no site has."""
    x, y = rows()
    return x[:300], y[:300]


def site_rows(site: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One site's rows."""
    x, y = rows()
    return x[300 + site :: SITES], y[300 + site :: SITES]


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, seed: int) -> None:
    """One pass over the rows."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
    for batch in torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).split(32):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimiser.step()


def accuracy(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The share of rows that the model gets right."""
    with torch.no_grad():
        return float((net(x).argmax(dim=1) == y).float().mean())

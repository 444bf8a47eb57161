"""The model and the sites' rows."""

import torch
from sklearn.datasets import load_digits

SITES = 4


class Net(torch.nn.Sequential):
    """A small network for 8 × 8 digits, the same initial model everywhere."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """All digits in a fixed random order."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    return torch.tensor(digits.data, dtype=torch.float32)[order] / 16, torch.tensor(digits.target)[order]


def site_rows(site: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One site's rows; the first 300 are the server's."""
    x, y = rows()
    return x[300 + site :: SITES], y[300 + site :: SITES]

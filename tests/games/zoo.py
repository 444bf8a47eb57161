"""One small module per kind of network that a run log can declare, with a fitting input shape."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.games.models import mlp


class ConvNet(nn.Module):
    """Convolutions with BatchNorm, written with functions and methods."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.conv2, self.norm2 = nn.Conv2d(6, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 3 * 3, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = self.norm2(self.conv2(x)).relu()
        x = F.dropout(x, 0.5, training=self.training)
        return self.head(x.view(x.size(0), -1))


class ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(channels, channels, 3, padding="same"), nn.BatchNorm2d(channels)
        self.b, self.norm_b = nn.Conv2d(channels, channels, 3, padding=1, groups=2), nn.GroupNorm(2, channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm_b(self.b(F.relu(self.norm_a(self.a(x))))))


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, dilation=2)
        self.blocks = nn.Sequential(ResidualBlock(4), ResidualBlock(4))
        self.shrink = nn.AvgPool2d(2, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.shrink(self.blocks(self.stem(x)))
        return self.head(x.mean((2, 3)))


class ResidualMLP(nn.Module):
    """Flat features with two readers of one value, LayerNorm, BatchNorm, gates and concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.batch = nn.Linear(9, 8), nn.LayerNorm(8), nn.BatchNorm1d(8)
        self.gate, self.second = nn.Linear(8, 8), nn.Linear(8, 8, bias=False)
        self.head = nn.Linear(8 + 9, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x))
        h = h + torch.relu(self.second(h)) * torch.sigmoid(self.gate(h))
        h = F.leaky_relu(self.batch(h), 0.2)
        return self.head(torch.cat([h, x], dim=1))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 6)
        self.norm = nn.LayerNorm(6, elementwise_affine=False)
        self.head = nn.Linear(5 * 6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(F.gelu(self.norm(self.words(x))), 1))


class Reshaping(nn.Module):
    """Rows of features that become images inside."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.conv = nn.Linear(7, 2 * 4 * 4), nn.Conv2d(2, 3, 2)
        self.pool = nn.AdaptiveAvgPool2d((2, 1))
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.silu(self.up(x)).reshape(-1, 2, 4, 4))
        return self.head(self.pool(x).flatten(1))


Example = tuple[Callable[[], nn.Module], tuple[int, ...], int]
ZOO: dict[str, Example] = {
    "logistic regression": (lambda: nn.Linear(7, 3), (7,), 3),
    "single logit": (lambda: nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 1)), (7,), 1),
    "mlp": (lambda: mlp(10, 16, 8, 4), (10,), 4),
    "mlp of images": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Dropout(), nn.GELU(), nn.Linear(6, 3)),
        (3, 2, 2),
        3,
    ),
    "mlp of sigmoids": (lambda: mlp(4, 5, 5, 2, activation=nn.Sigmoid), (4,), 2),
    "mlp of silu": (lambda: mlp(4, 5, 5, 2, activation=nn.SiLU), (4,), 2),
    "residual mlp": (ResidualMLP, (9,), 4),
    "batch norm first": (lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2)), (6,), 2),
    "convolutions": (ConvNet, (3, 14, 14), 5),
    "sequential convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(3, 2, 1), nn.Identity(), nn.Flatten(), nn.Linear(36, 3)
        ),
        (1, 8, 8),
        3,
    ),
    "residual convolutions": (ResidualNet, (1, 10, 10), 3),
    "tokens": (Tokens, (5,), 3),
    "reshaping": (Reshaping, (7,), 2),
}

"""Networks whose layers are ordinary and whose glue is not: turned, cut and padded the way people write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class QkvViT(nn.Module):
    """Queries, keys and values from one layer, turned to the front and taken apart, as in timm's networks."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.patch = heads, nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(width))
        self.qkv, self.out, self.head = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), 1, -1), x), dim=1)
        rows, steps, width = x.shape
        turned = self.qkv(x).reshape(rows, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = turned.unbind(0)
        scores = torch.softmax(q @ turned[1].transpose(-2, -1) * k.shape[-1] ** -0.5, dim=-1)
        return self.head(self.out((scores @ v).transpose(1, 2).reshape(rows, steps, width))[:, 0])


class EEGNet(nn.Module):
    """Even kernels that pad one side more, and a convolution around the electrodes' ring."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Conv2d(1, 4, (1, 16), padding="same", bias=False)
        self.ring = nn.Conv2d(4, 4, (3, 1), padding=(1, 0), padding_mode="circular")
        self.space, self.norm = nn.Conv2d(4, 8, (6, 1), groups=4, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 16, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.elu(self.norm(self.space(self.ring(self.time(x.unsqueeze(1))))))
        return self.head(F.avg_pool2d(x, (1, 4)).flatten(1))


class AttentiveLSTM(nn.Module):
    """A score for each step from one output of a linear layer, and first states made of sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(30, 8), nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.score, self.head = nn.Linear(12, 1), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        start = torch.zeros(2, x.size(0), 6), torch.zeros(2, x.size(0), 6)
        steps, _ = self.lstm(self.words(x), start)
        weights = torch.softmax(self.score(torch.tanh(steps)).squeeze(-1), dim=1)
        return self.head(torch.bmm(weights.unsqueeze(1), steps).squeeze(1))


class XVector(nn.Module):
    """Speaker embeddings: means and spreads over time, scaled to length 1; attention by Einstein's sums."""

    def __init__(self) -> None:
        super().__init__()
        self.frames, self.keys = nn.Conv1d(8, 12, 3), nn.Linear(12, 12)
        self.embed, self.classes = nn.Linear(24, 8), nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.frames(x))
        keys = self.keys(x.transpose(1, 2))
        x = x + torch.einsum("bts,bcs->bct", torch.einsum("b t c, b s c -> b t s", keys, keys).softmax(-1), x)
        pooled = self.embed(torch.cat([x.mean(dim=2), x.std(dim=2, unbiased=False)], 1))
        return 16 * (pooled / pooled.norm(dim=1, keepdim=True)) @ self.classes.t()


class Forecast(nn.Module):
    """N-BEATS: blocks in a loop over a sum that begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 15)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        told = torch.zeros(x.shape[0], 3) + x.new_zeros(3)
        for block in self.blocks:
            back, ahead = (part for part in block(x).split([12, 3], dim=1))
            x, told = x - back, told + ahead
        return told


class RotaryDecoder(nn.Module):
    """Positions as rotations, written with halves and a negated one; a loop over what the input's length says."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(30, width)
        self.qkv, self.scale = nn.Linear(width, 3 * width, bias=False), nn.Parameter(torch.ones(width))
        angles = torch.outer(torch.arange(16.0), 0.1 ** torch.arange(0.0, 2.0)).repeat(1, 2)
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def _rotated(self, x: Tensor, steps: int) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * self.cos[:steps] + torch.cat((-second, first), dim=-1) * self.sin[:steps]

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        rows, steps, width = x.shape
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scale
        q, k, v = (part.view(rows, steps, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=-1))
        x = F.scaled_dot_product_attention(self._rotated(q, steps), self._rotated(k, steps), v, is_causal=True)
        x = x.transpose(1, 2).reshape(rows, steps, width)
        pooled = x[:, 0]
        for step in range(1, tokens.size(1)):
            pooled = 0.5 * pooled + x[:, step]
        return pooled

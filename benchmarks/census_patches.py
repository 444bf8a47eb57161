"""Networks that see an image as patches, in small widths: plain torch, written for the model census."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, LayerNorm over channels, layer scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up, self.down = (
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )
        self.scale = nn.Parameter(torch.full((width, 1, 1), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


def convnext() -> nn.Module:
    """A patch stem and two blocks."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 4, 4),
        ConvNeXtBlock(8),
        ConvNeXtBlock(8),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


class ViT(nn.Module):
    """Vision transformer with a class token and learned positions."""

    def __init__(self, attention: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        self.blocks = nn.ModuleList(attention(16) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class MultiHeadBlock(nn.Module):
    """torchvision's encoder block: nn.MultiheadAttention between two norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.n2(x))


class WindowAttention(nn.Module):
    """Swin's attention inside shifted windows, with a table of relative positions."""

    index: Tensor

    def __init__(self, width: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, shift, 2
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, self.heads) * 0.02)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]) + window - 1
        self.register_buffer("index", (apart[0] * (2 * window - 1) + apart[1]).flatten())

    def forward(self, x: Tensor) -> Tensor:
        rows, height, width, channels = x.shape
        n, w = height // self.window, self.window
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = y.view(rows, n, w, n, w, channels).permute(0, 1, 3, 2, 4, 5).reshape(rows * n * n, w * w, channels)
        qkv = self.qkv(y).reshape(y.size(0), w * w, 3, self.heads, channels // self.heads)
        q, k, v = qkv.transpose(1, 3).unbind(2)
        scores = (q * (channels // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.index].view(w * w, w * w, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        y = F.softmax(scores + bias, dim=-1) @ v
        y = self.out(y.transpose(1, 2).reshape(y.size(0), w * w, channels))
        y = y.view(rows, n, n, w, w, channels).permute(0, 1, 3, 2, 4, 5).reshape(rows, height, width, channels)
        if self.shift:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        return x + y


class Swin(nn.Module):
    """Two windowed blocks, one of them shifted, and patch merging between them."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.a, self.b = nn.Conv2d(3, 8, 2, 2), WindowAttention(8, 4, 0), WindowAttention(8, 4, 2)
        self.merge, self.norm, self.head = nn.Linear(32, 16, bias=False), nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.b(self.a(self.patches(x).permute(0, 2, 3, 1)))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.head(self.norm(self.merge(x)).permute(0, 3, 1, 2).flatten(2).mean(2))


class Mixer(nn.Module):
    """MLP-Mixer: tokens and channels mixed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.n1, self.n2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.tokens = nn.Sequential(nn.Linear(16, 12), nn.GELU(), nn.Linear(12, 16))
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).mT
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.n2(x))
        return self.head(x.mean(dim=1))

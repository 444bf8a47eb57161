"""Networks for volumes, signals, text and tables as federated learning uses them, in small widths, for the census."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UNet(nn.Module):
    """A U-Net with transposed convolutions; gives a class for every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.d1, self.d2 = self._pair(1, 4), self._pair(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.u1, self.out = self._pair(8, 4), nn.Conv2d(4, 2, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
            *(nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
        )

    def forward(self, x: Tensor) -> Tensor:
        fine = self.d1(x)
        coarse = self.d2(F.max_pool2d(fine, 2))
        return self.out(self.u1(torch.cat([self.up(coarse), fine], dim=1)))


class ResidualUnit3d(nn.Module):
    """MONAI's unit: convolution, InstanceNorm, PReLU, with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv3d(inputs, outputs, 3, stride, 1), nn.InstanceNorm3d(outputs), nn.Dropout3d(0.1), nn.PReLU()),
            *(nn.Conv3d(outputs, outputs, 3, 1, 1), nn.InstanceNorm3d(outputs, affine=True), nn.PReLU()),
        )
        self.skip = nn.Conv3d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.skip(x)


class UNet3d(nn.Module):
    """A MONAI-like U-Net for volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = ResidualUnit3d(1, 4, 2), ResidualUnit3d(4, 8, 2)
        self.up2, self.up1 = nn.ConvTranspose3d(8, 4, 3, 2, 1, output_padding=1), nn.ConvTranspose3d(8, 2, 3, 2, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down1(x)
        return self.up1(torch.cat((fine, F.elu(self.up2(self.down2(fine)))), dim=1))


class DeepLab(nn.Module):
    """Dilated convolutions side by side, enlarged to the input's size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6())
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=r, dilation=r) for r in (1, 2, 4))
        self.pooled, self.out = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        h = self.stem(x)
        whole = F.interpolate(self.pooled(h.mean((2, 3), keepdim=True)), size=h.shape[-2:], mode="nearest")
        h = torch.cat([*(F.relu(rate(h)) for rate in self.rates), whole], 1)
        return F.interpolate(self.out(h), size=size, mode="bilinear", align_corners=False)


class VideoNet(nn.Module):
    """3-d convolutions over frames."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(3, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d((1, 2, 2)))
        self.pool, self.head = nn.AdaptiveAvgPool3d(1), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.body(x)).squeeze(-1).squeeze(-1).squeeze(-1))


class FrameNet(nn.Module):
    """Frames through one image network, then a GRU: the batch holds frames in between."""

    def __init__(self) -> None:
        super().__init__()
        self.frame = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ELU(), nn.AdaptiveMaxPool2d(2), nn.Flatten())
        self.over_time, self.head = nn.GRU(16, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows, frames, channels, height, width = x.shape
        h = self.frame(x.reshape(rows * frames, channels, height, width))
        _, last = self.over_time(h.reshape(rows, frames, -1))
        return self.head(last.squeeze(0))


class AudioNet(nn.Module):
    """1-d convolutions over a signal (M5)."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1, self.p1 = nn.Conv1d(1, 8, 9, 4), nn.BatchNorm1d(8), nn.MaxPool1d(2)
        self.c2, self.b2 = nn.Conv1d(8, 12, 3), nn.BatchNorm1d(12)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.p1(F.relu(self.b1(self.c1(x))))
        x = F.relu(self.b2(self.c2(x)))
        x = F.avg_pool1d(x, x.shape[-1]).permute(0, 2, 1)
        return F.log_softmax(self.head(x), dim=2).squeeze(1)


class TemporalConv(nn.Module):
    """A causal network of dilated convolutions, padded on the left alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(3 if k == 0 else 8, 8, 3, dilation=2**k) for k in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            y = F.leaky_relu(layer(F.pad(x, (2 * 2**number, 0))), 0.1)
            x = y if number == 0 else x + y
        return self.head(x[:, :, -1])


class CharLSTM(nn.Module):
    """Two layers over characters; the last step predicts the next one (Shakespeare)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = (
            nn.Embedding(30, 8),
            nn.LSTM(8, 12, 2, batch_first=True),
            nn.Linear(12, 30),
        )

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.lstm(self.embedding(x))
        return self.head(steps[:, -1, :])


class SentimentLSTM(nn.Module):
    """Both directions; the last states side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8, padding_idx=0)
        self.lstm, self.head = nn.LSTM(8, 6, bidirectional=True, batch_first=True), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        _, (hidden, _cell) = self.lstm(self.embedding(x))
        return self.head(F.dropout(torch.cat((hidden[-2], hidden[-1]), dim=1), 0.3, self.training))


class GRUNet(nn.Module):
    """A GRU over measurements, its first state zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, 10, 2, batch_first=True), nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        start = torch.zeros(2, x.size(0), 10)
        steps, _ = self.gru(x, start)
        return self.head(steps.mean(1))


class TextCNN(nn.Module):
    """Kim's convolutions over words, the largest response of each."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 8)
        self.convs = nn.ModuleList(nn.Conv1d(8, 5, k) for k in (2, 3, 4))
        self.head = nn.Linear(15, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x).transpose(1, 2)
        return self.head(torch.cat([F.relu(conv(x)).max(dim=2).values for conv in self.convs], 1))


def fasttext() -> nn.Module:
    """A mean of word vectors."""
    return nn.Sequential(nn.EmbeddingBag(30, 8, mode="mean"), nn.Linear(8, 4))


class TextTransformer(nn.Module):
    """torch's encoder with sinusoidal positions; a mean over the words that are not padding."""

    waves: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        at, rate = torch.arange(10)[:, None], torch.exp(torch.arange(0, 16, 2) * (-math.log(1e4) / 16))
        waves = torch.zeros(1, 10, 16)
        waves[0, :, 0::2], waves[0, :, 1::2] = torch.sin(at * rate), torch.cos(at * rate)
        self.register_buffer("waves", waves, persistent=False)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.encoder(self.embedding(x) * math.sqrt(16) + self.waves[:, : x.size(1)])
        real = (x != 0).float().unsqueeze(-1)
        return self.head((h * real).sum(1) / real.sum(1).clamp(min=1))


class CausalBlock(nn.Module):
    """GPT's block: attention that looks back only, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, steps, width = x.size()
        q, k, v = self.qkv(self.n1(x)).split(width, dim=2)
        q, k, v = (t.view(rows, steps, 4, width // 4).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(rows, steps, width))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class GPT(nn.Module):
    """A small language model: the next token at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30, 16), nn.Embedding(10, 16)
        self.blocks = nn.ModuleList(CausalBlock(16) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 30, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.words(x) + self.positions(torch.arange(0, x.size(1), dtype=torch.long))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LoRALinear(nn.Module):
    """A frozen matrix and two thin ones that are trained."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(inputs, outputs)
        self.a, self.b = nn.Parameter(torch.randn(rank, inputs) * 0.1), nn.Parameter(torch.randn(outputs, rank) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + (x @ self.a.T @ self.b.T) * 2.0


class LoRANet(nn.Module):
    """Two adapted layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = LoRALinear(12, 16, 2), LoRALinear(16, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.silu(self.first(x)))


class Autoencoder(nn.Module):
    """A code, and the row again."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(12, 6), nn.ELU(), nn.Linear(6, 3))
        self.decode = nn.Sequential(nn.Linear(3, 6), nn.ELU(), nn.Linear(6, 12), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


class GatedTable(nn.Module):
    """Tabular features behind gates, with ghost normalisation (TabNet-like)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.gate = nn.BatchNorm1d(12), nn.Linear(12, 16), nn.Linear(12, 12)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        chosen = x * torch.softmax(self.gate(x), dim=-1)
        return self.head(F.glu(self.up(chosen), dim=-1) * math.sqrt(0.5))


class TimeFirstLSTM(nn.Module):
    """An LSTM that wants time in front; model.json has the batch there, and turns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps, _ = self.lstm(x.permute(1, 0, 2))
        return self.head(steps[-1])


class Experts(nn.Module):
    """A mixture whose expert is chosen by the data: no fixed list of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(12, 2), nn.ModuleList(nn.Linear(12, 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.experts[int(self.gate(x).mean(0).argmax())](x)

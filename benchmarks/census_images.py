"""Networks for images as federated learning uses them, in small widths: plain torch, written for the model census."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Norm = Callable[[int], nn.Module]


def conv_bn(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type = nn.ReLU
) -> nn.Module:
    """Convolution, BatchNorm, activation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        act(),
    )


class LeNet(nn.Module):
    """LeNet-5, written with functions."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.c1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = x.view(-1, x.shape[1] * x.shape[2] * x.shape[3])
        return F.log_softmax(self.f3(F.relu(self.f2(F.relu(self.f1(x))))), dim=1)


def alexnet() -> nn.Module:
    """AlexNet with its local response normalisation."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(inplace=True), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten()),
        *(nn.Dropout(), nn.Linear(48, 16), nn.ReLU(inplace=True), nn.Linear(16, 5)),
    )


def vgg(norm: bool) -> nn.Module:
    """VGG with or without BatchNorm."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (8, 0, 12, 0, 16, 16, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


class Block(nn.Module):
    """A residual block: two 3×3 convolutions, or a bottleneck of groups."""

    def __init__(
        self, inputs: int, width: int, stride: int, norm: Norm, groups: int = 1, bottleneck: bool = False
    ) -> None:
        super().__init__()
        outputs = width * 2 if bottleneck else width
        if bottleneck:
            self.body = nn.Sequential(
                *(nn.Conv2d(inputs, width, 1, bias=False), norm(width), nn.ReLU()),
                *(nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False), norm(width), nn.ReLU()),
                *(nn.Conv2d(width, outputs, 1, bias=False), norm(outputs)),
            )
        else:
            self.body = nn.Sequential(
                *(nn.Conv2d(inputs, width, 3, stride, 1, bias=False), norm(width), nn.ReLU()),
                *(nn.Conv2d(width, width, 3, 1, 1, bias=False), norm(width)),
            )
        same = stride == 1 and inputs == outputs
        self.skip = None if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.skip is None else self.skip(x)
        out = self.body(x)
        out += kept
        return F.relu(out)


class ResNet(nn.Module):
    """ResNet of these blocks."""

    def __init__(self, norm: Norm = nn.BatchNorm2d, groups: int = 1, bottleneck: bool = False, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), norm(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        grown = 2 if bottleneck else 1
        self.layers = nn.Sequential(
            Block(width, width, 1, norm, groups, bottleneck),
            Block(width * grown, width * 2, 2, norm, groups, bottleneck),
            Block(width * 2 * grown, width * 2, 1, norm, groups, bottleneck),
        )
        self.pool, self.head = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(width * 2 * grown, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.layers(self.stem(x))), 1))


class DenseNet(nn.Module):
    """Dense blocks: every layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.dense = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(8 + 4 * k), nn.ReLU(), nn.Conv2d(8 + 4 * k, 4, 3, padding=1, bias=False))
            for k in range(3)
        )
        self.transition = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2))
        self.head = nn.Linear(10, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.stem(x)]
        for layer in self.dense:
            features.append(layer(torch.cat(features, 1)))
        x = self.transition(torch.cat(features, dim=1))
        return self.head(F.adaptive_avg_pool2d(F.relu(x), (1, 1)).flatten(1))


class Fire(nn.Module):
    """SqueezeNet's module."""

    def __init__(self, inputs: int, squeezed: int, each: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.e1, self.e3 = nn.Conv2d(squeezed, each, 1), nn.Conv2d(squeezed, each, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.e1(x)), F.relu(self.e3(x))], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet, whose pooling rounds up."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 6)),
        *(nn.MaxPool2d(3, 2, ceil_mode=True), Fire(12, 4, 8), nn.Dropout(0.5), nn.Conv2d(16, 5, 1)),
        *(nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten()),
    )


class Inception(nn.Module):
    """Four branches side by side, as in GoogLeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(3, 8)
        self.b1, self.b2 = conv_bn(8, 4, 1), nn.Sequential(conv_bn(8, 4, 1), conv_bn(4, 6))
        self.b3 = nn.Sequential(conv_bn(8, 2, 1), conv_bn(2, 4, 5))
        self.b4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv_bn(8, 4, 1))
        self.head = nn.Linear(18, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.cat([branch(x) for branch in (self.b1, self.b2, self.b3, self.b4)], 1)
        return self.head(x.mean([2, 3]))


class SqueezeExcite(nn.Module):
    """Channels weighed by what all pixels say."""

    def __init__(self, channels: int, inner: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)
        self.inner, self.gate = inner, gate

    def forward(self, x: Tensor) -> Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.up(self.inner(self.down(scale))))


class Inverted(nn.Module):
    """The inverted residual of MobileNet and EfficientNet."""

    def __init__(self, inputs: int, outputs: int, stride: int, act: type, excite: nn.Module | None = None) -> None:
        super().__init__()
        wide = inputs * 3
        excited = [] if excite is None else [excite]
        self.body = nn.Sequential(
            *(conv_bn(inputs, wide, 1, act=act), conv_bn(wide, wide, 3, stride, groups=wide, act=act), *excited),
            *(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobile(act: type, inner: nn.Module | None = None, gate: nn.Module | None = None) -> nn.Module:
    """MobileNetV2 (plain), V3 and EfficientNet (with squeeze and excitation)."""

    def excite(channels: int) -> nn.Module | None:
        return None if inner is None or gate is None else SqueezeExcite(channels, inner, gate)

    return nn.Sequential(
        *(conv_bn(3, 8, 3, 2, act=act), Inverted(8, 8, 1, act, excite(24)), Inverted(8, 12, 2, act, excite(24))),
        *(conv_bn(12, 16, 1, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 5)),
    )


class ShuffleUnit(nn.Module):
    """ShuffleNetV2: half of the channels pass, then all are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            conv_bn(half, half, 1),
            nn.Conv2d(half, half, 3, padding=1, groups=half),
            nn.BatchNorm2d(half),
            conv_bn(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, dim=1)
        x = torch.cat((kept, self.branch(changed)), dim=1)
        rows, channels, height, width = x.size()
        x = x.view(rows, 2, channels // 2, height, width)
        return torch.transpose(x, 1, 2).contiguous().view(rows, channels, height, width)


def shufflenet() -> nn.Module:
    """A stem, two units and a head."""
    return nn.Sequential(
        conv_bn(3, 8, 3, 2), ShuffleUnit(8), ShuffleUnit(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )

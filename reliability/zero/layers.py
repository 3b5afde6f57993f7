"""The usual layers of `torch.nn`, each with one example. Every axis of the example is made dynamic in turn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Layer = tuple[Callable[[], nn.Module], tuple[int, ...]]

_SEQUENCE, _PICTURE, _VOLUME = (2, 4, 6), (2, 4, 6, 6), (2, 4, 6, 6, 6)

# Name -> a function that makes the layer, and the sizes of its input.
FLOAT_LAYERS: dict[str, Layer] = {
    "Linear": (lambda: nn.Linear(4, 3), (2, 3, 4)),
    "Bilinear": (lambda: Twice(nn.Bilinear(4, 4, 3)), (2, 3, 4)),
    "Identity": (nn.Identity, (2, 3)),
    "Conv1d": (lambda: nn.Conv1d(4, 3, 3, padding=1), _SEQUENCE),
    "Conv1d, stride 2": (lambda: nn.Conv1d(4, 3, 3, stride=2), _SEQUENCE),
    "Conv2d": (lambda: nn.Conv2d(4, 3, 3), _PICTURE),
    "Conv2d, groups": (lambda: nn.Conv2d(4, 4, 3, padding="same", groups=2, dilation=2), _PICTURE),
    "Conv2d, reflect": (lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), _PICTURE),
    "Conv3d": (lambda: nn.Conv3d(4, 3, 3, padding=1), _VOLUME),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 3, stride=2, padding=1, output_padding=1), _SEQUENCE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 3, 3), _PICTURE),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(4, 3, 2, stride=2), _VOLUME),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), _SEQUENCE),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1), _PICTURE),
    "MaxPool2d, indices": (lambda: nn.MaxPool2d(2, return_indices=True), _PICTURE),
    "MaxPool2d, ceil_mode": (lambda: nn.MaxPool2d(2, 3, ceil_mode=True), _PICTURE),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), _VOLUME),
    "MaxUnpool2d": (lambda: Unpooled(), _PICTURE),
    "AvgPool1d": (lambda: nn.AvgPool1d(2), _SEQUENCE),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), _PICTURE),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), _VOLUME),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), _PICTURE),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, 3, _random_samples=torch.full((2, 4, 2), 0.5)), _PICTURE),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(2), _SEQUENCE),
    "AdaptiveAvgPool2d(1)": (lambda: nn.AdaptiveAvgPool2d(1), _PICTURE),
    "AdaptiveAvgPool2d(4)": (lambda: nn.AdaptiveAvgPool2d(4), _PICTURE),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(3), _VOLUME),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(4), _SEQUENCE),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(2), _PICTURE),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (2, 4)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), _PICTURE),
    "LayerNorm": (lambda: nn.LayerNorm(6), _SEQUENCE),
    "RMSNorm": (lambda: nn.RMSNorm(6), _SEQUENCE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), _PICTURE),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), _SEQUENCE),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), _PICTURE),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), _PICTURE),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), _PICTURE),
    "RNN": (lambda: nn.RNN(4, 3), (3, 2, 4)),
    "RNN, 2 layers, both ways": (lambda: nn.RNN(4, 3, 2, bidirectional=True, batch_first=True), (3, 2, 4)),
    "RNNCell": (lambda: nn.RNNCell(4, 3), (2, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (2, 4)),
    "GRUCell": (lambda: nn.GRUCell(4, 3), (2, 4)),
    "MultiheadAttention": (lambda: Attending(), (2, 3, 4)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2), (2, 3, 4)),
    "TransformerDecoderLayer": (lambda: Twice(nn.TransformerDecoderLayer(4, 2, 8)), (2, 3, 4)),
    "Transformer": (lambda: Twice(nn.Transformer(4, 2, 1, 1, 8)), (2, 3, 4)),
    "Softmax": (lambda: nn.Softmax(-1), (2, 3, 4)),
    "Softmax2d": (nn.Softmax2d, _PICTURE),
    "Softmin": (lambda: nn.Softmin(1), (2, 3)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (2, 3, 4)),
    "AdaptiveLogSoftmaxWithLoss": (lambda: Likely(), (2, 4)),
    "GLU": (lambda: nn.GLU(1), (2, 4, 3)),
    "PReLU": (lambda: nn.PReLU(4), _PICTURE),
    "GELU": (nn.GELU, (2, 3)),
    "ReLU6": (nn.ReLU6, (2, 3)),
    "SiLU": (nn.SiLU, (2, 3)),
    "Hardswish": (nn.Hardswish, (2, 3)),
    "Mish": (nn.Mish, (2, 3)),
    "Softplus": (nn.Softplus, (2, 3)),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), (2, 3)),
    "Dropout": (nn.Dropout, (2, 3)),
    "Flatten": (nn.Flatten, _PICTURE),
    "Unflatten": (lambda: nn.Unflatten(1, (2, -1)), (2, 4, 3)),
    "Fold": (lambda: nn.Fold((4, 5), 2), (2, 8, 12)),
    "Unfold": (lambda: nn.Unfold(2), _PICTURE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), _PICTURE),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), _PICTURE),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), _PICTURE),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(1), _PICTURE),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((-1, 2), 3.0), _SEQUENCE),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), _PICTURE),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d(1), _PICTURE),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), _PICTURE),
    "Upsample, nearest": (lambda: nn.Upsample(scale_factor=2), _PICTURE),
    "Upsample, size": (lambda: nn.Upsample(size=(5, 7), mode="bilinear"), _PICTURE),
    "Upsample, bicubic": (lambda: nn.Upsample(scale_factor=1.5, mode="bicubic", align_corners=True), _PICTURE),
    "Upsample, trilinear": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), _VOLUME),
    "CosineSimilarity": (lambda: Twice(nn.CosineSimilarity(1)), (2, 3, 4)),
    "PairwiseDistance": (lambda: Twice(nn.PairwiseDistance()), (2, 3)),
    "MSELoss": (lambda: Twice(nn.MSELoss()), (2, 3)),
    "L1Loss": (lambda: Twice(nn.L1Loss(reduction="none")), (2, 3)),
    "SmoothL1Loss": (lambda: Twice(nn.SmoothL1Loss()), (2, 3)),
    "HuberLoss": (lambda: Twice(nn.HuberLoss(reduction="sum")), (2, 3)),
    "KLDivLoss": (lambda: Twice(nn.KLDivLoss(reduction="batchmean")), (2, 3)),
    "BCEWithLogitsLoss": (lambda: Twice(nn.BCEWithLogitsLoss()), (2, 3)),
    "CrossEntropyLoss": (lambda: Twice(nn.CrossEntropyLoss()), (2, 3)),
    "CosineEmbeddingLoss": (lambda: Thrice(nn.CosineEmbeddingLoss()), (2, 3)),
    "TripletMarginLoss": (lambda: Thrice(nn.TripletMarginLoss()), (2, 3)),
    "GaussianNLLLoss": (lambda: Thrice(nn.GaussianNLLLoss()), (2, 3)),
}

# The same for layers that take ids.
ID_LAYERS: dict[str, Layer] = {
    "Embedding": (lambda: nn.Embedding(7, 4), (2, 3)),
    "Embedding, padding_idx": (lambda: nn.Embedding(7, 4, padding_idx=1), (2, 3)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(7, 4), (2, 3)),
    "EmbeddingBag, sum": (lambda: nn.EmbeddingBag(7, 4, mode="sum"), (2, 3)),
    "EmbeddingBag, max": (lambda: nn.EmbeddingBag(7, 4, mode="max"), (2, 3)),
}


class Twice(nn.Module):
    """A layer of two inputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x.sigmoid())


class Thrice(Twice):
    """A layer of three inputs, the last of one number per row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        third = x.sign()[:, 0] if isinstance(self.layer, nn.CosineEmbeddingLoss) else x.abs() + 1
        return self.layer(x, x.sigmoid(), third)


class Unpooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled, places = nn.functional.max_pool2d(x, 2, return_indices=True)
        return nn.functional.max_unpool2d(pooled, places, 2, output_size=x.shape[-2:])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x, key_padding_mask=x[..., 0] > 2)[0]  # without elements PyTorch gives no weights


class Likely(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer.log_prob(x)


def names() -> list[str]:
    return [*FLOAT_LAYERS, *ID_LAYERS]


def layer(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A layer for inference, and its example."""
    torch.manual_seed(0)
    make, sizes = FLOAT_LAYERS.get(name) or ID_LAYERS[name]
    example = torch.randint(0, 7, sizes) if name in ID_LAYERS else torch.randn(sizes)
    return make().eval(), (example,)

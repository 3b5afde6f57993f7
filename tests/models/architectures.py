"""The models of contract row D2 that torchvision does not have, written out here at test size."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Generator(nn.Module):
    """DCGAN: a latent vector grown to a 64x64 picture by transposed convolutions."""

    def __init__(self, latent: int = 100, width: int = 16, channels: int = 3) -> None:
        super().__init__()
        widths = [width * 8, width * 4, width * 2, width]
        layers: list[nn.Module] = [*_grow(latent, widths[0], stride=1, padding=0)]
        for narrow_in, narrow_out in itertools.pairwise(widths):
            layers += _grow(narrow_in, narrow_out, stride=2, padding=1)
        layers += [nn.ConvTranspose2d(width, channels, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(*layers)

    def forward(self, noise: Tensor) -> Tensor:
        return self.main(noise)


def _grow(inputs: int, outputs: int, *, stride: int, padding: int) -> list[nn.Module]:
    convolution = nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


class Discriminator(nn.Module):
    """DCGAN: a 64x64 picture reduced to the probability that it is real."""

    def __init__(self, width: int = 16, channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        for factor in (1, 2, 4):
            inputs, outputs = width * factor, width * factor * 2
            layers += [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs)]
            layers += [nn.LeakyReLU(0.2, inplace=True)]
        layers += [nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid()]
        self.main = nn.Sequential(*layers)

    def forward(self, picture: Tensor) -> Tensor:
        return self.main(picture).view(-1, 1).squeeze(1)


class SuperResolution(nn.Module):
    """ESPCN: convolutions at low resolution, then channels rearranged into pixels."""

    def __init__(self, upscale: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 32, 3, padding=1)
        self.conv4 = nn.Conv2d(32, upscale * upscale, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.shuffle = nn.PixelShuffle(upscale)

    def forward(self, luminance: Tensor) -> Tensor:
        x = self.relu(self.conv1(luminance))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return self.shuffle(self.conv4(x))


class WordLanguageModel(nn.Module):
    """Embedding, a recurrent network with its state passed in and out, and a softmax over the vocabulary."""

    def __init__(self, kind: str, vocabulary: int = 97, embedded: int = 20, hidden: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.dropout = nn.Dropout(0.2)
        self.encoder = nn.Embedding(vocabulary, embedded)
        if kind in ("LSTM", "GRU"):
            self.rnn = getattr(nn, kind)(embedded, hidden, layers, dropout=0.2)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[kind]
            self.rnn = nn.RNN(embedded, hidden, layers, nonlinearity=nonlinearity, dropout=0.2)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor, state: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, object]:
        embedded = self.dropout(self.encoder(tokens))
        output, state = self.rnn(embedded, state)
        decoded = self.decoder(self.dropout(output)).view(-1, self.vocabulary)
        return F.log_softmax(decoded, dim=1), state


class PillarLayer(nn.Module):
    """One linear layer shared by all points of a pillar, followed by the maximum over the points."""

    def __init__(self, inputs: int, outputs: int, *, last: bool) -> None:
        super().__init__()
        self.last = last
        self.units = outputs if last else outputs // 2
        self.linear = nn.Linear(inputs, self.units, bias=False)
        self.norm = nn.BatchNorm1d(self.units, eps=1e-3, momentum=0.01)

    def forward(self, points: Tensor) -> Tensor:
        x = self.norm(self.linear(points).permute(0, 2, 1).contiguous()).permute(0, 2, 1).contiguous()
        x = F.relu(x)
        strongest = torch.max(x, dim=1, keepdim=True)[0]
        if self.last:
            return strongest
        return torch.cat([x, strongest.repeat(1, points.shape[1], 1)], dim=2)


class PillarFeatures(nn.Module):
    """Point pillars: lidar points grouped in columns, each turned into one feature vector.

    The three inputs share their first axis, the number of columns that contain points, which changes with every scan.
    """

    def __init__(self, features: int = 32, cell: tuple[float, float] = (0.16, 0.16)) -> None:
        super().__init__()
        self.cell_x, self.cell_y = cell
        self.offset_x, self.offset_y = self.cell_x / 2, self.cell_y / 2 - 39.68
        self.layers = nn.ModuleList([PillarLayer(9, 32, last=False), PillarLayer(32, features, last=True)])

    def forward(self, voxels: Tensor, num_points: Tensor, coords: Tensor) -> Tensor:
        position = voxels[:, :, :3]
        count = num_points.type_as(voxels).view(-1, 1, 1)
        from_mean = position - position.sum(dim=1, keepdim=True) / count
        from_centre = torch.zeros_like(voxels[:, :, :2])
        from_centre[:, :, 0] = voxels[:, :, 0] - (coords[:, 3].to(voxels).unsqueeze(1) * self.cell_x + self.offset_x)
        from_centre[:, :, 1] = voxels[:, :, 1] - (coords[:, 2].to(voxels).unsqueeze(1) * self.cell_y + self.offset_y)
        x = torch.cat([voxels, from_mean, from_centre], dim=-1)
        x = x * self.filled(num_points, x.shape[1]).unsqueeze(-1).type_as(x)
        for layer in self.layers:
            x = layer(x)
        return x.squeeze(1)

    @staticmethod
    def filled(num_points: Tensor, slots: int) -> Tensor:
        """Which of a pillar's slots hold a point; the others are padding."""
        slot = torch.arange(slots, dtype=torch.int32, device=num_points.device).view(1, -1)
        return num_points.unsqueeze(1).int() > slot


class TextCNN(nn.Module):
    """Convolutions of several widths over a sentence, each followed by the maximum over its whole length."""

    def __init__(self, vocabulary: int = 97, embedded: int = 16, filters: int = 12, classes: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedded, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedded, filters, width) for width in (3, 4, 5))
        self.dropout = nn.Dropout(0.5)
        self.classifier = nn.Linear(3 * filters, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens).transpose(1, 2)
        features = [F.relu(convolution(x)) for convolution in self.convolutions]
        pooled = [F.max_pool1d(feature, feature.size(2)).squeeze(2) for feature in features]
        return self.classifier(self.dropout(torch.cat(pooled, dim=1)))

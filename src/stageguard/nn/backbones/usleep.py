"""U-Sleep: a fully convolutional U over the whole recording.

M. Perslev, S. Darkner, L. Kempfner, M. Nikolic, P. J. Jennum, C. Igel (2021). U-Sleep: resilient
high-frequency sleep staging. npj Digital Medicine 4: 72.
"""

from __future__ import annotations

from math import log2, sqrt
from typing import Any

from stageguard.nn.backbones.shared import Backbone, scaled
from stageguard.nn.pytorch import Tensor, functional, nn, torch

KERNEL = 9
LEVELS = 12  # of the published network: halving 3,840 samples this often leaves about one place per epoch
COMPLEXITY = sqrt(1.67)
# Of the 12 levels and of the bottom: 5 filters times COMPLEXITY, then sqrt(2) times more per level.
FILTERS = (6, 9, 11, 15, 20, 28, 40, 55, 77, 108, 152, 214, 302)


class USleep(Backbone):
    """Encoder and decoder joined level by level, then the mean over each epoch; `small` is half the width.

    `depth` is the number of levels, by default as many as halve an epoch to one place, 4 to 12. Fewer than
    the published 12 are the innermost ones, as the outer ones only shorten the epoch.
    """

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        n_stages, width = self.n_stages, self.width / 2 if self.small else self.width
        self.n_levels = self.depth_or(min(LEVELS, max(4, round(log2(self.n_frames)))), high=LEVELS)
        filters = [scaled(n, width) for n in FILTERS[LEVELS - self.n_levels :]]
        inner = filters[:-1]
        self.down = nn.ModuleList(
            _convolution(a, b) for a, b in zip([self.n_features, *inner], filters, strict=True)
        )
        self.up = nn.ModuleList(_UpLevel(a, b) for a, b in zip(filters[:0:-1], inner[::-1], strict=True))
        n_votes = int(n_stages * COMPLEXITY)
        self.vote = nn.Sequential(nn.Conv1d(filters[0], n_votes, 1), nn.Tanh())
        self.output = nn.Sequential(
            nn.Conv1d(n_votes, n_stages, 1), nn.ELU(), nn.Conv1d(n_stages, n_stages, 1)
        )
        self.apply(_initialise)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        n_epochs, n_frames = x.shape[1:3]
        places = x.flatten(1, 2).transpose(1, 2)  # (batch, features, epochs * frames)
        places = functional.pad(places, (0, -places.shape[2] % (1 << self.n_levels)))
        levels = []
        for down in self.down[:-1]:
            levels.append(down(places))
            places = functional.max_pool1d(levels[-1], 2)
        places = self.down[-1](places)
        for up, beside in zip(self.up, reversed(levels), strict=True):
            places = up(places, beside)
        votes = self.vote(places[:, :, : n_epochs * n_frames])  # (batch, votes, epochs * frames)
        result: Tensor = self.output(functional.avg_pool1d(votes, n_frames))  # (batch, stages, epochs)
        return result.transpose(1, 2)


class _UpLevel(nn.Module):
    """Double the length, concatenate with the encoder's level, and convolve."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.doubled = _convolution(n_in, n_out, kernel=2)
        self.joined = _convolution(2 * n_out, n_out)

    def forward(self, x: Tensor, beside: Tensor) -> Tensor:
        doubled = self.doubled(functional.pad(x.repeat_interleave(2, dim=2), (0, 1)))
        result: Tensor = self.joined(torch.cat([beside, doubled], dim=1))
        return result


def _convolution(n_in: int, n_out: int, kernel: int = KERNEL) -> nn.Sequential:
    padding = KERNEL // 2 if kernel == KERNEL else 0  # a kernel of 2 is padded on the right, in `_UpLevel`
    return nn.Sequential(nn.Conv1d(n_in, n_out, kernel, padding=padding), nn.ELU(), nn.BatchNorm1d(n_out))


def _initialise(part: nn.Module) -> None:
    if isinstance(part, nn.Conv1d) and part.bias is not None:
        nn.init.xavier_uniform_(part.weight)
        nn.init.zeros_(part.bias)

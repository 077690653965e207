"""SleepTransformer: attention within each epoch, then over the sequence of epochs.

H. Phan, K. Mikkelsen, O. Y. Chén, P. Koch, A. Mertins, M. De Vos (2022). SleepTransformer: automatic sleep
staging with interpretability and uncertainty quantification. IEEE Trans. Biomed. Eng. 69(8): 2456-2467.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from stageguard import checks
from stageguard.nn.backbones.shared import RAW_FRAMES, AttentionPool, Backbone, Spectrogram, scaled
from stageguard.nn.pytorch import Tensor, functional, nn, torch

N_HEADS = 8
DROPOUT = 0.1


class SleepTransformer(Backbone):
    """Epoch transformer with attention pooling, sequence transformer, two dense layers.

    `depth` is the number of blocks in each of the two, 4 as published. A sequence has `training_length`
    epochs, 21 as published. `small` is half the width, two blocks and 100 epochs.
    """

    def __init__(self, *, training_length: int | None = None, **sizes: Any) -> None:
        super().__init__(**sizes)
        length, width, depth = (100, self.width / 2, 2) if self.small else (21, self.width, 4)
        length = length if training_length is None else training_length
        self.training_length = checks.count(length, "training_length")
        depth = self.depth_or(depth)
        n_frames, n_features = self.n_frames, self.n_features
        size = N_HEADS * scaled(16, width)
        n_hidden = scaled(1024, width)
        self.spectrogram: Spectrogram | None = None
        if n_frames >= RAW_FRAMES:
            self.spectrogram = Spectrogram(n_frames, n_features, self.epoch_seconds, skip_zero=True)
            n_frames, n_features = self.spectrogram.n_frames, n_features * self.spectrogram.n_bins
        # The original attends to the 128 bins of a spectrum directly, so 128 features need no projection.
        embed = nn.Identity() if n_features == size else nn.Linear(n_features, size)
        if n_frames == 1:
            self.within = nn.Sequential(
                embed, nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(size, size), nn.LayerNorm(size), nn.Flatten()
            )
        else:
            pool = AttentionPool(size, scaled(64, width))
            self.within = nn.Sequential(embed, _Encoder(size, n_hidden, depth, sqrt(size)), pool)
        # As published, features outweigh positions. That is too much for one vector per epoch and few
        # recordings.
        self.between = _Encoder(size, n_hidden, depth, 1.0 if n_frames == 1 else sqrt(size))
        self.output = nn.Sequential(
            nn.Linear(size, n_hidden),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(n_hidden, n_hidden),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(n_hidden, self.n_stages),
        )

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        if self.spectrogram is not None:
            x = self.spectrogram(x)
        epochs = self.within(x.flatten(0, 1)).view(*x.shape[:2], -1)  # (batch, epochs, size)
        result: Tensor = self.output(self.between(epochs))
        return result


class _Encoder(nn.Module):
    """Positions added to scaled features, then blocks of attention and two dense layers."""

    def __init__(self, size: int, n_hidden: int, depth: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.blocks = nn.Sequential(*(_Block(size, n_hidden) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.blocks(x * self.scale + _positions(x))
        return result


class _Block(nn.Module):
    """Self-attention without an output projection, two dense layers; normalised after each sum."""

    def __init__(self, size: int, n_hidden: int) -> None:
        super().__init__()
        self.projections = nn.Linear(size, 3 * size)
        self.norm = nn.LayerNorm(size)
        self.dense = nn.Sequential(nn.Linear(size, n_hidden), nn.ReLU(), nn.Linear(n_hidden, size))
        self.dense_norm = nn.Sequential(nn.LayerNorm(size), nn.Dropout(DROPOUT))

    def forward(self, x: Tensor) -> Tensor:
        # (3, batch, heads, length, size of a head)
        heads = self.projections(x).unflatten(2, (3, N_HEADS, -1)).permute(2, 0, 3, 1, 4)
        drop = DROPOUT if self.training else 0.0
        attended = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], dropout_p=drop)
        x = self.norm(x + attended.transpose(1, 2).flatten(2))
        result: Tensor = self.dense_norm(x + self.dense(x))
        return result


def _positions(x: Tensor) -> Tensor:
    """Return sines and cosines of the position, (length, size)."""
    length, size = x.shape[1:]
    position = torch.arange(length, device=x.device, dtype=x.dtype)[:, None]
    rate = torch.exp(torch.arange(0, size, 2, device=x.device, dtype=x.dtype) * (-log(10_000) / size))
    return torch.stack([(position * rate).sin(), (position * rate).cos()], dim=2).flatten(1)

"""AttnSleep: convolutions at two resolutions and attention within one epoch.

E. Eldele, Z. Chen, C. Liu, M. Wu, C.-K. Kwoh, X. Li, C. Guan (2021). An attention-based deep learning
approach for sleep stage classification with single-channel EEG. IEEE Trans. Neural Syst. Rehabil. Eng. 29:
809-818.
"""

from __future__ import annotations

from typing import Any

from stageguard.nn.backbones.shared import Backbone, sampling_rate, scaled
from stageguard.nn.pytorch import Tensor, functional, nn, torch

# Features attend to each other by their values at the places that pooling leaves of an epoch. If there are
# fewer places than this, a dense layer makes this many: two for each of the five heads.
FEWEST_PLACES = 10


class AttnSleep(Backbone):
    """Multi-resolution CNN, adaptive feature recalibration and temporal context encoder, per epoch.

    `depth` is the number of encoder layers, 2 as published, small 1. `small` halves the width, for one
    feature vector per epoch only behind the convolutions.
    """

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        n_frames, n_features = self.n_frames, self.n_features
        width = self.width / 2 if self.small and n_frames > 1 else self.width
        rate = sampling_rate(n_frames, self.epoch_seconds)
        filters = [scaled(64, width), scaled(128, width)]
        behind = self.width / 2 if self.small else self.width
        n_kept, n_hidden = scaled(30, behind), scaled(120, behind)
        drop = 0.5 if n_frames > 1 else 0.1  # half of a single vector is too much to drop
        self.fine = _ResolutionBranch(
            n_frames,
            [n_features, *filters],
            first=(max(3, round(rate / 2)), max(1, round(rate / 16))),
            pools=((8, 2), (4, 4)),
            kernel=8,
            drop=drop,
            less=1,  # padding 24 for a kernel of 50, as in the authors' code
        )
        self.coarse = _ResolutionBranch(
            n_frames,
            [n_features, *filters],
            first=(max(9, round(rate * 4)), max(1, round(rate / 2))),
            pools=((4, 2), (2, 2)),
            kernel=7,
            drop=drop,
        )
        self.recalibration = _Recalibration(filters[1], n_kept)
        n_places = self.fine.n_places + self.coarse.n_places
        self.dropout = nn.Dropout(drop)
        self.spread: nn.Module = nn.Identity()
        if n_places < FEWEST_PLACES:
            dense = nn.Linear(n_kept * n_places, n_kept * FEWEST_PLACES)
            self.spread = nn.Sequential(nn.Flatten(), dense, nn.Unflatten(1, (n_kept, FEWEST_PLACES)))
            n_places = FEWEST_PLACES
        depth = self.depth_or(1 if self.small else 2)
        encoder = [_EncoderLayer(n_places, n_kept, n_hidden) for _ in range(depth)]
        self.encoder = nn.Sequential(*encoder, nn.LayerNorm(n_places), nn.Flatten())
        self.output = nn.Linear(n_places * n_kept, self.n_stages)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        epochs = x.flatten(0, 1).transpose(1, 2)  # (batch * epochs, features, frames)
        # (batch * epochs, filters, places)
        places = self.dropout(torch.cat([self.fine(epochs), self.coarse(epochs)], dim=2))
        result: Tensor = self.output(self.encoder(self.spread(self.recalibration(places))))
        return result.view(*x.shape[:2], self.n_stages)


class _ResolutionBranch(nn.Sequential):
    """One resolution; kernels and pools never exceed the remaining length of the epoch.

    All layers are padded by half a kernel. If the first kernel is even, its padding is smaller by `less`.
    """

    def __init__(
        self,
        length: int,
        channels: list[int],
        *,
        first: tuple[int, int],
        pools: tuple[tuple[int, int], tuple[int, int]],
        kernel: int,
        drop: float,
        less: int = 0,
    ) -> None:
        def slide(kernel: int, step: int, less: int = 0) -> tuple[int, int, int]:
            """Return kernel, step and padding for the remaining length, and shorten it."""
            nonlocal length
            kernel, step = min(kernel, length), min(step, length)
            padding = kernel // 2 - (less if kernel % 2 == 0 else 0)
            length = (length + 2 * padding - kernel) // step + 1
            return kernel, step, padding

        def convolution(n_in: int, n_out: int, *sizes: int) -> list[nn.Module]:
            convolve = nn.Conv1d(n_in, n_out, *slide(*sizes), bias=False)
            return [convolve, nn.BatchNorm1d(n_out), nn.GELU()]

        n_features, n_fewer, n_more = channels
        layers = convolution(n_features, n_fewer, *first, less)
        layers += [nn.MaxPool1d(*slide(*pools[0])), nn.Dropout(drop)]
        layers += convolution(n_fewer, n_more, kernel, 1)
        layers += convolution(n_more, n_more, kernel, 1)
        super().__init__(*layers, nn.MaxPool1d(*slide(*pools[1])))
        self.n_places = length


class _Recalibration(nn.Module):
    """Residual block with features weighted by squeeze and excitation."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv1d(n_in, n_out, 1),
            nn.BatchNorm1d(n_out),
            nn.ReLU(),
            nn.Conv1d(n_out, n_out, 1),
            nn.BatchNorm1d(n_out),
        )
        n_squeezed = max(1, n_out // 16)
        self.weights = nn.Sequential(
            nn.Linear(n_out, n_squeezed, bias=False),
            nn.ReLU(),
            nn.Linear(n_squeezed, n_out, bias=False),
            nn.Sigmoid(),
        )
        self.shortcut = nn.Sequential(nn.Conv1d(n_in, n_out, 1, bias=False), nn.BatchNorm1d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        main = self.main(x)
        return functional.relu(main * self.weights(main.mean(dim=2)).unsqueeze(2) + self.shortcut(x))


class _EncoderLayer(nn.Module):
    """Attention among the features of an epoch, through causal convolutions over its places; dense layers."""

    def __init__(self, n_places: int, n_kept: int, n_hidden: int) -> None:
        super().__init__()
        self.n_heads = next(n for n in (5, 4, 3, 2, 1) if n_places % n == 0)
        self.query, self.key, self.value = (nn.Conv1d(n_kept, n_kept, 7) for _ in range(3))
        self.mix = nn.Linear(n_places, n_places)
        self.dropout = nn.Dropout(0.1)
        self.feed = _Residual(n_places, _feed_forward(n_places, n_hidden))

    def forward(self, x: Tensor) -> Tensor:
        past = functional.pad(x, (6, 0))  # a causal convolution sees a place and the six before it
        query = self.query(past)
        attended = functional.scaled_dot_product_attention(
            self._heads(query),
            self._heads(self.key(past)),
            self._heads(self.value(past)),
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        mixed = self.mix(attended.transpose(1, 2).flatten(2))
        result: Tensor = self.feed(query + self.dropout(mixed))
        return result

    def _heads(self, x: Tensor) -> Tensor:
        # (n, heads, features, places of a head)
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)


def _feed_forward(n_in: int, n_hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(n_hidden, n_in))


class _Residual(nn.Module):
    """Normalise, transform, drop out, add."""

    def __init__(self, size: int, transform: nn.Module) -> None:
        super().__init__()
        self.norm, self.transform, self.dropout = nn.LayerNorm(size), transform, nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.dropout(self.transform(self.norm(x)))
        return result

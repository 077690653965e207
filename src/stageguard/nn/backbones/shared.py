"""The base class of networks with its checks, and parts that several networks share."""

from __future__ import annotations

from math import sqrt

from stageguard import checks
from stageguard.errors import InputError
from stageguard.nn.pytorch import Tensor, functional, nn, torch

# Epochs with at least this many frames are raw samples; with fewer, frames are columns of a spectrogram.
RAW_FRAMES = 200
WIDEST, DEEPEST = 100, 1000  # layers or levels


class Backbone(nn.Module):
    """A network that maps the epochs of a recording to the logits of their stages.

    Subclasses implement ``logits``; ``forward`` checks the input and calls it. Their constructors take the
    sizes of this constructor and their own options. Each class says what ``depth`` and ``small`` mean for it.
    """

    def __init__(
        self,
        *,
        n_frames: int,
        n_features: int,
        n_stages: int,
        width: float = 1.0,
        depth: int | None = None,
        small: bool = False,
        epoch_seconds: float = 30.0,
    ) -> None:
        super().__init__()
        self.n_frames, self.n_features, self.n_stages = n_frames, n_features, n_stages  # features per frame
        self.width = checks.number(width, "width", positive=True, high=WIDEST)
        self.small = checks.flag(small, "small")
        self.depth, self.epoch_seconds = depth, epoch_seconds
        # epochs of a training sequence, the most the network takes; None for any number
        self.training_length: int | None = None

    def depth_or(self, default: int, high: int = DEEPEST) -> int:
        """Return the depth option, or the network's default."""
        return checks.count(default if self.depth is None else self.depth, "depth", high=high)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for features (batch, epochs, frames, features)."""
        shape, most = tuple(x.shape), self.training_length
        if len(shape) != 4 or shape[2:] != (self.n_frames, self.n_features) or 0 in shape:
            wanted = f"(batch, epochs, {self.n_frames}, {self.n_features})"
            raise InputError(f"the input has shape {shape}, expected {wanted}.")
        if most is not None and shape[1] > most:
            raise InputError(f"the input has {shape[1]} epochs, expected at most {most}, as in training.")
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        raise NotImplementedError


class Spectrogram(nn.Module):
    """Log-power spectra of raw samples in windows of two seconds, one second apart.

    Hamming windows are padded to the next power of two, as in the input of SeqSleepNet and SleepTransformer:
    29 frames of 129 bins for 30 s at 100 Hz. Every bin is standardised by running means over training
    batches; the originals used the whole training set.
    """

    def __init__(
        self, n_samples: int, n_channels: int, epoch_seconds: float, *, skip_zero: bool = False
    ) -> None:
        super().__init__()
        self.first_bin = int(skip_zero)
        self.length = min(n_samples, max(8, round(2 * sampling_rate(n_samples, epoch_seconds))))
        self.hop = max(1, self.length // 2)
        self.n_fft = 1 << (self.length - 1).bit_length()
        self.n_frames = 1 + (n_samples - self.length) // self.hop
        self.n_bins = self.n_fft // 2 + 1 - self.first_bin
        self.window: Tensor
        self.register_buffer("window", torch.hamming_window(self.length), persistent=False)
        self.standardise = nn.BatchNorm1d(n_channels * self.n_bins, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, epochs, windows, channels * bins) for samples (batch, epochs, samples, channels)."""
        # (batch, epochs, channels, windows, samples of a window)
        pieces = x.transpose(2, 3).unfold(-1, self.length, self.hop) * self.window.to(x)
        spectra = torch.fft.rfft(pieces, n=self.n_fft)[..., self.first_bin :]
        spectra = spectra.abs().square().clamp_min(1e-20).log()
        spectra = spectra.transpose(2, 3).flatten(3)  # (batch, epochs, windows, channels * bins)
        rows: Tensor = self.standardise(spectra.flatten(0, 2))
        return rows.view(spectra.shape)


class AttentionPool(nn.Module):
    """Weighted mean over the frames of an epoch, with learned weights (Yang et al. 2016)."""

    def __init__(self, n_features: int, n_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_features, n_hidden)
        self.score = nn.Parameter(torch.randn(n_hidden) / sqrt(n_hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, features) for (n, frames, features)."""
        weights = functional.softmax(self.hidden(x).tanh() @ self.score, dim=1)  # (n, frames)
        return torch.einsum("nf,nfd->nd", weights, x)


def sampling_rate(n_samples: int, epoch_seconds: float) -> float:
    """Return samples per second."""
    return n_samples / epoch_seconds


def scaled(n: int, width: float) -> int:
    """Return a published layer size times the width, at least 1."""
    return max(1, round(n * width))

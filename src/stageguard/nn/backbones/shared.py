"""The base class of networks with its checks, and parts that several networks share."""

from __future__ import annotations

import inspect
from math import sqrt
from typing import Any, ClassVar

from stageguard import checks
from stageguard.errors import InputError
from stageguard.nn.pytorch import Tensor, functional, nn, torch

# Epochs with at least this many frames are raw samples; with fewer, frames are columns of a spectrogram.
RAW_FRAMES = 200
DEEPEST = 1000  # layers or levels


class Backbone(nn.Module):
    """A network that maps the epochs of a recording to the logits of their stages.

    Subclasses implement ``logits``; ``forward`` checks the input and calls it. Their constructors take the
    sizes of this constructor and their own options. Each class says what ``depth`` and ``small`` mean for it.

    Attributes
    ----------
    n_frames, n_features, n_stages : int
        Frames per epoch, features per frame (channels, for raw samples), and stages of the network.
    training_length : int or None
        Number of epochs of a training sequence, the most the network takes; None for any number.
    """

    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Write the sizes into the class's signature, by which `build_backbone` checks options."""
        super().__init_subclass__(**keywords)
        _, *sizes, seconds = inspect.signature(Backbone.__init__).parameters.values()
        _, *options, _ = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature([*sizes, *options, seconds])

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
        self.n_frames = checks.count(n_frames, "n_frames")
        self.n_features = checks.count(n_features, "n_features")
        self.n_stages = checks.count(n_stages, "n_stages", low=2)
        self.width, self.depth, self.small, self.epoch_seconds = width, depth, small, epoch_seconds
        self.training_length: int | None = None

    def depth_or(self, default: int, high: int = DEEPEST) -> int:
        """Return the depth option, or the network's default."""
        return checks.count(default if self.depth is None else self.depth, "depth", high=high)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for features (batch, epochs, frames, features)."""
        self._check(x)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        raise NotImplementedError

    def _check(self, x: Tensor) -> None:
        wanted = f"(batch, epochs, {self.n_frames}, {self.n_features})"
        if not torch.is_tensor(x):
            raise InputError(f"the input is a {type(x).__name__}, expected a torch.Tensor {wanted}.")
        if x.ndim != 4:
            raise InputError(
                f"the input has shape {tuple(x.shape)}, expected {wanted}: batch, epochs, frames, features. "
                "One recording needs x.unsqueeze(0), one feature vector per epoch x.unsqueeze(2)."
            )
        if x.shape[2:] != (self.n_frames, self.n_features):
            raise InputError(
                f"the input has {x.shape[2]} frames of {x.shape[3]} features per epoch, but this "
                f"{type(self).__name__} was built for {self.n_frames} of {self.n_features}. "
                "Build one for these features, or compute the features it was trained on."
            )
        if 0 in x.shape:
            raise InputError(f"the input has shape {tuple(x.shape)}, expected at least one epoch.")
        if not x.is_floating_point():
            raise InputError(f"the input holds {x.dtype}, expected floating-point numbers. Use x.float().")
        if self.training_length is not None and x.shape[1] > self.training_length:
            raise InputError(
                f"the input has {x.shape[1]} epochs, but this {type(self).__name__} takes at most the "
                f"{self.training_length} it is trained on. Run it on overlapping windows and average them."
            )
        if (
            self.training
            and self._fewest_values(x) == 1
            and any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in self.modules())
        ):
            raise InputError(
                f"a batch of {x.shape[0]} x {x.shape[1]} epochs is too little to train {type(self).__name__} "
                "on, expected two values or more to normalise. Use longer sequences or larger batches; to "
                "predict, call .eval() first."
            )

    def _fewest_values(self, x: Tensor) -> int:
        """Return the smallest number of values over which any batch normalisation averages."""
        return x.shape[0] * x.shape[1]


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
        # Fourier transforms need at least single precision
        samples = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        # (batch, epochs, channels, windows, samples of a window)
        pieces = samples.transpose(2, 3).unfold(-1, self.length, self.hop) * self.window.to(samples)
        spectra = torch.fft.rfft(pieces, n=self.n_fft)[..., self.first_bin :]
        spectra = spectra.abs().square().clamp_min(1e-20).log().to(x.dtype)
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
    return n_samples / checks.epoch_seconds(epoch_seconds)


def scaled(n: int, width: float) -> int:
    """Return a published layer size times the width, at least 1."""
    return max(1, round(n * width))

"""AccuSleep: a compact convolutional network on a picture of the epochs around each epoch.

Z. Barger, C. G. Frye, D. Liu, Y. Dan, K. E. Bouchard (2019). Robust, automated sleep scoring by a compact
neural network with distributional shift correction. PLOS ONE 14(12): e0224642.
"""

from __future__ import annotations

from typing import Any, cast

from stageguard import checks
from stageguard.errors import InputError
from stageguard.nn.backbones.shared import RAW_FRAMES, Backbone, Spectrogram, scaled
from stageguard.nn.pytorch import Tensor, nn, torch


class AccuSleep(Backbone):
    """Three convolutions (`depth`) over a picture of the epochs around each epoch, then one linear layer.

    The picture has `window_epochs` epochs, an odd number, of which the middle one is scored. With `spectrum`,
    features are neighbouring frequency bins, and filters slide over them too, as published; otherwise every
    feature is a channel. `small` halves the filters where there is no spectrum.
    """

    def __init__(self, *, window_epochs: int = 13, spectrum: bool = False, **sizes: Any) -> None:
        super().__init__(**sizes)
        self.window_epochs = checks.count(window_epochs, "window_epochs")
        if self.window_epochs % 2 == 0:
            raise InputError(f"window_epochs is {window_epochs}, expected an odd number.")
        spectrum = checks.flag(spectrum, "spectrum")
        n_frames, n_features = self.n_frames, self.n_features
        self.spectrogram: Spectrogram | None = None
        if n_frames >= RAW_FRAMES:  # one spectrum per epoch, as published
            self.spectrogram = Spectrogram(n_frames, n_features, self.epoch_seconds)
            n_frames, n_features, spectrum = 1, n_features * self.spectrogram.n_bins, True
        self.spectrum = spectrum
        width = self.width / 2 if self.small and not spectrum else self.width
        convolve = nn.Conv2d if spectrum else nn.Conv1d
        normalise = nn.BatchNorm2d if spectrum else nn.BatchNorm1d
        pool = nn.MaxPool2d if spectrum else nn.MaxPool1d
        # lengths that pooling shortens: features if they are a spectrum, and frames
        size = [n_features, self.window_epochs * n_frames] if spectrum else [self.window_epochs * n_frames]
        n_in, n_out = (1, scaled(8, width)) if spectrum else (n_features, scaled(64, width))
        layers: list[nn.Module] = []
        depth = self.depth_or(3)
        for level in range(depth):
            layers += [convolve(n_in, n_out, 3, padding=1), normalise(n_out), nn.ReLU()]
            if level < depth - 1:
                step = [min(2, length) for length in size]
                layers.append(pool(cast(int, tuple(step))))
                size = [length // by for length, by in zip(size, step, strict=True)]
            n_in, n_out = n_out, n_out * 2 if spectrum else n_out
        self.picture = nn.Sequential(*layers)
        self.output = nn.Linear(n_in * torch.Size(size).numel(), self.n_stages)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        if self.spectrogram is not None:
            x = self.spectrogram(x).mean(dim=2, keepdim=True)
        n_batch, n_epochs = x.shape[:2]
        beside = self.window_epochs // 2  # the first and last epochs are repeated at the ends, as published
        x = torch.cat([x[:, :1].expand(-1, beside, -1, -1), x, x[:, -1:].expand(-1, beside, -1, -1)], dim=1)
        # (batch, epochs, window, frames, features); by index, since ONNX has no `unfold` of any length
        around = torch.arange(self.window_epochs, device=x.device)
        windows = x[:, torch.arange(n_epochs, device=x.device)[:, None] + around]
        # (batch * epochs, features, window * frames)
        windows = windows.permute(0, 1, 4, 2, 3).reshape(n_batch * n_epochs, x.shape[3], -1)
        pictures = self.picture(windows.unsqueeze(1) if self.spectrum else windows)
        result: Tensor = self.output(pictures.flatten(1))
        return result.view(n_batch, n_epochs, self.n_stages)

"""SeqSleepNet: recurrence within each epoch, then over the sequence of epochs.

H. Phan, F. Andreotti, N. Cooray, O. Y. Chén, M. De Vos (2019). SeqSleepNet: end-to-end hierarchical
recurrent neural network for sequence-to-sequence automatic sleep staging. IEEE Trans. Neural Syst. Rehabil.
Eng. 27(3): 400-410.
"""

from __future__ import annotations

from typing import Any

from stageguard import checks
from stageguard.errors import InputError
from stageguard.nn.backbones.shared import RAW_FRAMES, AttentionPool, Backbone, Spectrogram, scaled
from stageguard.nn.pytorch import Tensor, nn, torch


class SeqSleepNet(Backbone):
    """Filter bank, bidirectional GRU and attention per epoch; bidirectional GRU over epochs.

    `depth` is the number of layers over the sequence, 1 as published; `small` changes nothing. With
    `spectrum`, the features are the bins of `n_channels` spectra one after the other, and the filter bank
    consists of triangles, as published; otherwise it is a plain linear layer.
    """

    def __init__(self, *, spectrum: bool = False, n_channels: int = 1, **sizes: Any) -> None:
        super().__init__(**sizes)
        spectrum = checks.flag(spectrum, "spectrum")
        n_frames, n_features = self.n_frames, self.n_features
        n_units, n_filters = scaled(64, self.width), scaled(32, self.width)
        self.spectrogram: Spectrogram | None = None
        if n_frames >= RAW_FRAMES:
            self.spectrogram = Spectrogram(n_frames, n_features, self.epoch_seconds)
            n_frames, spectrum, n_channels = self.spectrogram.n_frames, True, n_features
            n_features = n_channels * self.spectrogram.n_bins
        self.dropout = nn.Dropout(0.25)
        self.within: _FrameRecurrence | nn.Sequential
        if n_frames == 1:
            self.within = nn.Sequential(
                nn.Linear(n_features, 2 * n_units),
                nn.ReLU(),
                self.dropout,
                nn.Linear(2 * n_units, 2 * n_units),
                nn.ReLU(),
                nn.Flatten(),
            )
        else:
            bank: nn.Module = nn.Linear(n_features, n_filters, bias=False)
            if spectrum:
                bank = _Filterbank(n_features, n_channels, n_filters)
                n_filters = bank.n_outputs
            self.within = _FrameRecurrence(bank, n_filters, n_units)
        self.between = nn.GRU(2 * n_units, n_units, self.depth_or(1), batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * n_units, self.n_stages)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        if self.spectrogram is not None:
            x = self.spectrogram(x)
        epochs = self.within(x.flatten(0, 1)).view(*x.shape[:2], -1)  # (batch, epochs, 2 * units)
        context, _ = self.between(self.dropout(epochs))
        result: Tensor = self.output(self.dropout(context))
        return result


class _FrameRecurrence(nn.Module):
    """Filter bank, bidirectional GRU over frames, attention over its outputs."""

    def __init__(self, bank: nn.Module, n_filters: int, n_units: int) -> None:
        super().__init__()
        self.bank = bank
        self.recurrence = nn.GRU(n_filters, n_units, batch_first=True, bidirectional=True)
        self.pool = AttentionPool(2 * n_units, n_units)
        self.dropout = nn.Dropout(0.25)

    def forward(self, frames: Tensor) -> Tensor:
        states, _ = self.recurrence(self.dropout(self.bank(frames)))
        pooled: Tensor = self.pool(self.dropout(states))
        return pooled


class _Filterbank(nn.Module):
    """Learned positive weights in fixed triangles over the frequency axis, one bank per channel."""

    def __init__(self, n_features: int, n_channels: int, n_filters: int) -> None:
        super().__init__()
        n_channels = checks.count(n_channels, "n_channels")
        n_bins, left_over = divmod(n_features, n_channels)
        if left_over or n_bins < 3:
            found = f"{n_features} features cannot be the spectra of {n_channels} channels"
            raise InputError(f"{found}, expected 3 bins or more for each.")
        n_filters = min(n_filters, n_bins - 2)  # narrower triangles would miss every bin
        self.n_channels, self.n_outputs = n_channels, n_channels * n_filters
        self.weight = nn.Parameter(torch.randn(n_channels, n_bins, n_filters))
        spacing = (n_bins - 1) / (n_filters + 1)
        centres = spacing * torch.arange(1, n_filters + 1)
        distance = (torch.arange(n_bins)[:, None] - centres).abs()
        self.triangles: Tensor
        self.register_buffer("triangles", (1 - distance / spacing).clamp_min(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        spectra = x.view(*x.shape[:-1], self.n_channels, -1)  # (n, frames, channels, bins)
        return torch.einsum("nfcb,cbk->nfck", spectra, self.weight.sigmoid() * self.triangles).flatten(2)

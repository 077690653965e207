"""DeepSleepNet: two convolutional networks per epoch, recurrence over epochs, a shortcut.

A. Supratak, H. Dong, C. Wu, Y. Guo (2017). DeepSleepNet: a model for automatic sleep stage scoring based on
raw single-channel EEG. IEEE Trans. Neural Syst. Rehabil. Eng. 25(11): 1998-2008.
"""

from __future__ import annotations

from typing import Any

from stageguard.nn.backbones.shared import Backbone, sampling_rate, scaled
from stageguard.nn.pytorch import Tensor, functional, nn, torch


class DeepSleepNet(Backbone):
    """Fine and coarse filters within each epoch, LSTM layers in each direction over the sequence.

    `depth` is the number of layers per direction, 2 as published. `small` is a quarter of the width, 1 layer.
    """

    def __init__(self, **sizes: Any) -> None:
        super().__init__(**sizes)
        n_frames, n_features = self.n_frames, self.n_features
        width, depth = (self.width / 4, self.depth_or(1)) if self.small else (self.width, self.depth_or(2))
        rate = sampling_rate(n_frames, self.epoch_seconds)
        filters = [scaled(64, width), scaled(128, width)]
        self.fine = _ConvolutionBranch(
            n_frames,
            [n_features, *filters],
            first=(max(3, round(rate / 2)), max(1, round(rate / 16))),
            pools=(8, 4),
            kernel=8,
        )
        self.coarse = _ConvolutionBranch(
            n_frames,
            [n_features, *filters],
            first=(max(9, round(rate * 4)), max(1, round(rate / 2))),
            pools=(4, 2),
            kernel=6,
        )
        n_epoch, n_units = self.fine.n_outputs + self.coarse.n_outputs, scaled(512, width)
        self.dropout = nn.Dropout(0.5)
        self.shortcut = nn.Sequential(
            nn.Linear(n_epoch, 2 * n_units, bias=False), nn.BatchNorm1d(2 * n_units), nn.ReLU()
        )
        # Two separate stacks: the upper layer of one direction never sees the other direction, as published.
        between = 0.5 if depth > 1 else 0.0
        self.forwards = nn.LSTM(n_epoch, n_units, depth, batch_first=True, dropout=between)
        self.backwards = nn.LSTM(n_epoch, n_units, depth, batch_first=True, dropout=between)
        self.output = nn.Linear(2 * n_units, self.n_stages)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (batch, epochs, stages) for a checked input."""
        epochs = x.flatten(0, 1).transpose(1, 2)  # (batch * epochs, features, frames)
        features = self.dropout(torch.cat([self.fine(epochs), self.coarse(epochs)], dim=1))
        sequence = features.view(*x.shape[:2], -1)  # (batch, epochs, outputs of both branches)
        onward, _ = self.forwards(sequence)
        back, _ = self.backwards(sequence.flip(1))
        context = self.dropout(torch.cat([onward, back.flip(1)], dim=2))  # (batch, epochs, 2 * units)
        shortcut = self.shortcut(features).view_as(context)
        result: Tensor = self.output(self.dropout(shortcut + context))
        return result


class _ConvolutionBranch(nn.Sequential):
    """One of the two convolutional networks; kernels and pools never exceed the remaining epoch length."""

    def __init__(
        self, length: int, channels: list[int], *, first: tuple[int, int], pools: tuple[int, int], kernel: int
    ) -> None:
        n_features, n_fewer, n_more = channels
        stride = min(length, first[1])
        layers = _convolution(n_features, n_fewer, min(length, first[0]), stride)
        length = -(-length // stride)
        pool = min(length, pools[0])
        layers += [nn.MaxPool1d(pool, ceil_mode=True), nn.Dropout(0.5)]
        length = -(-length // pool)
        for n_in in (n_fewer, n_more, n_more):
            layers += _convolution(n_in, n_more, min(length, kernel), 1)
        pool = min(length, pools[1])
        super().__init__(*layers, nn.MaxPool1d(pool, ceil_mode=True), nn.Flatten())
        self.n_outputs = n_more * -(-length // pool)


def _convolution(n_in: int, n_out: int, kernel: int, stride: int) -> list[nn.Module]:
    return [_SameConvolution(n_in, n_out, kernel, stride, bias=False), nn.BatchNorm1d(n_out), nn.ReLU()]


class _SameConvolution(nn.Conv1d):
    """A convolution with one output per stride, whatever the kernel ("same" padding)."""

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride, length = self.kernel_size[0], self.stride[0], x.shape[-1]
        missing = max(0, (-(-length // stride) - 1) * stride + kernel - length)
        return super().forward(functional.pad(x, (missing // 2, missing - missing // 2)))

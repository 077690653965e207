"""Windows at the training length, overlapped and averaged; and the temperature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from stageguard.nn.inference import best_temperature, stretch_probabilities
from stageguard.nn.windows import soften, window_starts


class Position(nn.Module):
    """Logits that show where in its window an epoch was, and how long the window."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.lengths.append(x.shape[1])
        place = torch.arange(x.shape[1], dtype=x.dtype).expand(x.shape[0], -1)
        return torch.stack([place / 10, torch.zeros_like(place)], dim=2)


@pytest.mark.parametrize("n_epochs", [1, 9, 10, 11, 14, 15, 1003])
def test_windows_cover_everything_and_end_with_the_recording(n_epochs):
    starts = window_starts(n_epochs, 10)
    assert starts[0] == 0
    assert {t for s in starts for t in range(s, min(s + 10, n_epochs))} == set(range(n_epochs))
    assert max(starts) + 10 == max(n_epochs, 10)
    assert len(starts) == len(set(starts))
    assert all(b - a <= 5 for a, b in pairwise(starts))


def test_overlapping_windows_are_averaged():
    network = Position()
    p = stretch_probabilities(network, np.zeros((17, 1, 2), dtype=np.float32), length=10)
    assert set(network.lengths) == {10}
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    for t in range(17):
        seen = [sigmoid((t - s) / 10) for s in (0, 5, 7) if s <= t < s + 10]
        assert p[t, 0] == pytest.approx(np.mean(seen), abs=1e-6)


def test_a_network_without_a_length_sees_everything_at_once():
    network = Position()
    stretch_probabilities(network, np.zeros((170, 1, 2), dtype=np.float32), length=None)
    assert network.lengths == [170]


def test_a_short_stretch_is_padded_to_the_length():
    network = Position()
    p = stretch_probabilities(network, np.zeros((3, 1, 2), dtype=np.float32), length=10)
    assert network.lengths == [10]
    assert p.shape == (3, 2)


def test_dropout_is_off_and_the_mode_is_put_back():
    network = nn.Sequential(nn.Flatten(2), nn.Linear(4, 3), nn.Dropout(0.9))
    network.train()
    x = np.ones((50, 1, 4), dtype=np.float32)
    first, again = (stretch_probabilities(network, x, length=10) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert network.training


def test_the_temperature_undoes_overconfidence():
    rng = np.random.default_rng(0)
    honest = rng.dirichlet([2.0, 1.0, 1.0], size=20_000)
    labels = (honest.cumsum(axis=1) < rng.random(20_000)[:, None]).sum(axis=1)
    ones = np.ones(3)
    assert best_temperature(honest, labels, ones) == pytest.approx(1.0, abs=0.05)
    assert best_temperature(soften(honest, 0.5), labels, ones) == pytest.approx(2.0, rel=0.05)
    assert best_temperature(np.full((3, 3), np.nan), np.zeros(3, dtype=int), ones) == 1.0
    np.testing.assert_allclose(soften(honest, 1.0), honest, atol=1e-9)

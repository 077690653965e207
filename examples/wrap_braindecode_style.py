"""Wrap a network with braindecode's layout: raw signals in, (batch, stages, epochs) out.

Run: python examples/wrap_braindecode_style.py
"""

from __future__ import annotations

import torch

from stageguard import simulate_night
from stageguard.nn import Guarded, StageGuardLoss

PROFILE = "human-psg-5"
N_CHANNELS, N_SAMPLES = 2, 60  # per epoch


class Segmenter(torch.nn.Module):
    """Takes (batch, channels, samples) and gives (batch, stages, epochs), as braindecode's USleep does."""

    def __init__(self, n_chans: int, n_times: int, n_outputs: int) -> None:
        super().__init__()
        self.per_epoch = torch.nn.Conv1d(n_chans, 24, kernel_size=n_times, stride=n_times)
        self.over_epochs = torch.nn.Conv1d(24, n_outputs, kernel_size=7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits with the stages on axis 1."""
        logits: torch.Tensor = self.over_epochs(torch.relu(self.per_epoch(x)))
        return logits


def signals_of(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a made-up signal (channels, samples) whose rhythm depends on the stage, and the stages."""
    labels = torch.tensor(simulate_night(PROFILE, seed=seed).expert.labels, dtype=torch.long)
    time = torch.arange(len(labels) * N_SAMPLES)
    cycles = (labels + 1).repeat_interleave(N_SAMPLES) / N_SAMPLES
    rhythm = torch.sin(2 * torch.pi * cycles * (time % N_SAMPLES))
    noise = torch.randn(N_CHANNELS, len(time), generator=torch.Generator().manual_seed(seed))
    return rhythm + 2.0 * noise, labels


def main() -> None:
    """Train with the paper's penalty, decode another night."""
    torch.manual_seed(42)
    network = Segmenter(N_CHANNELS, N_SAMPLES, n_outputs=5)
    loss = StageGuardLoss("kdd2026-psg-5")  # whose profile has rare transitions
    guarded = Guarded(network, PROFILE, class_axis=1, criterion=loss, trained="natural")
    optimiser = torch.optim.AdamW(guarded.parameters(), lr=5e-3)
    nights = [signals_of(seed) for seed in range(6)]
    for step in range(24):
        signal, labels = nights[step % len(nights)]
        optimiser.zero_grad()
        value = guarded.loss(signal[None], labels[None])
        value.backward()
        optimiser.step()
        if step % 8 == 0:
            print(f"step {step:2d}  loss {value.item():.3f}")

    signal, labels = signals_of(99)
    (result,) = guarded.predict(signal[None])
    for name, found in (("network", result.argmax), ("decoded", result.hypnogram.labels)):
        print(f"{name}: {(torch.tensor(found) == labels).float().mean():.1%} of epochs as simulated")
    print(result.strength)

    # The same network with a softmax of its own.
    probable = torch.nn.Sequential(network, torch.nn.Softmax(dim=1))
    same = Guarded(probable, PROFILE, class_axis=1, outputs="probabilities", trained="natural")
    assert (same.predict(signal[None])[0].hypnogram.labels == result.hypnogram.labels).all()


if __name__ == "__main__":
    main()

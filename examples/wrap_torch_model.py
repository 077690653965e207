"""Train a plain torch network on simulated nights, first by itself, then under a profile, and decode it.

Run: python examples/wrap_torch_model.py
"""

from __future__ import annotations

import torch

from stageguard import Profile, decode, simulate_night
from stageguard.nn import Guarded, StageGuardLoss

PROFILE = Profile.load("kdd2026-cardiorespiratory").replace(flip_flop=None)
STAGES = PROFILE.scheme.names


def features_of(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return six noisy features per epoch (epochs, 6), and the stages behind them (epochs,)."""
    night = simulate_night(PROFILE, seed=seed)
    labels = torch.tensor(night.expert.labels, dtype=torch.long)
    generator = torch.Generator().manual_seed(seed)
    shown = torch.nn.functional.one_hot(labels, len(STAGES)).float() @ torch.eye(len(STAGES), 6)
    return shown + 1.2 * torch.randn(len(labels), 6, generator=generator), labels


class Network(torch.nn.Module):
    """A small convolutional network over epochs: (batch, epochs, 6) to (batch, epochs, stages)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv1d(6, 16, kernel_size=5, padding=2),
            torch.nn.ReLU(),
            torch.nn.Conv1d(16, len(STAGES), kernel_size=5, padding=2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        logits: torch.Tensor = self.layers(x.transpose(1, 2)).transpose(1, 2)
        return logits


def main() -> None:
    """Train for a few passes, then decode a night nobody trained on."""
    torch.manual_seed(42)
    nights = [features_of(seed) for seed in range(8)]
    shortest = min(len(labels) for _, labels in nights)
    x = torch.stack([features[:shortest] for features, _ in nights])
    targets = torch.stack([labels[:shortest] for _, labels in nights])

    guarded = Guarded(Network(), PROFILE, criterion=StageGuardLoss(PROFILE, weight=0.5), trained="natural")
    optimiser = torch.optim.AdamW(guarded.parameters(), lr=1e-2)
    for step in range(40):
        optimiser.zero_grad()
        loss = guarded.loss(x, targets)
        loss.backward()
        optimiser.step()
        if step % 13 == 0:
            print(f"step {step:2d}  loss {loss.item():.3f}")

    features, labels = features_of(99)
    (result,) = guarded.predict([features])
    for name, found in (("network", result.argmax), ("decoded", result.hypnogram.labels)):
        print(f"{name}: {(torch.tensor(found) == labels).float().mean():.1%} of epochs as simulated")
    print(result.strength)
    same = decode(
        guarded.probabilities([features])[0], PROFILE, trained="natural"
    )  # what predict did, in two steps
    assert (same.hypnogram.labels == result.hypnogram.labels).all()


if __name__ == "__main__":
    main()

"""What the training loss costs: the penalty beside a network's step.

A loss is timed by itself, forward and backward on logits of the network's shape, so that the share does not
drown in the noise of a whole step. Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from _common import Row, race, report
from torch import Tensor, nn
from torch.nn import functional

import stageguard as sg
from stageguard.nn import StageGuardLoss, build_backbone

BATCH, N_EPOCHS, N_FEATURES = 32, 100, 20
# The share of a step the penalty may cost: the smallest network is the hardest.
GOALS = {"accusleep": 3.0, "sleeptransformer": 1.0, "usleep": 1.0}
ROUNDS = 15


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape).requires_grad_()


def step_of(network: nn.Module, x: Tensor, targets: Tensor) -> Callable[[], None]:
    """One training step without the optimiser's: forward, cross-entropy as usually written, backward."""

    def run() -> None:
        network.zero_grad(set_to_none=True)
        logits = network(x)
        functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()

    return run


def pass_of(loss: Callable[[Tensor], Tensor], logits: Tensor) -> Callable[[], None]:
    def run() -> None:
        logits.grad = None
        loss(logits).backward()

    return run


def naive_penalty(logits: Tensor) -> Tensor:
    """The equation as one would first write it, for W, N, R with W->R and R->N rare."""
    p = logits.softmax(-1)
    return sum((p[:, :-1, s] * p[:, 1:, r]).mean() for s, r in ((0, 2), (2, 1)))


def penalty_rows() -> list[Row]:
    profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    rows = []
    for name, goal in GOALS.items():
        for size in ("small", "full"):
            network = build_backbone(
                name, n_frames=1, n_features=N_FEATURES, n_stages=3, small=size == "small"
            )
            n_epochs = min(N_EPOCHS, network.training_length or N_EPOCHS)
            x, targets = torch.randn(BATCH, n_epochs, 1, N_FEATURES), torch.randint(0, 3, (BATCH, n_epochs))
            logits, loss = leaf(BATCH, n_epochs, 3), StageGuardLoss(profile)
            plain = pass_of(
                lambda z, y=targets: functional.cross_entropy(z.flatten(0, 1), y.flatten()), logits
            )
            with_penalty = pass_of(lambda z, y=targets, loss=loss: loss(z, y), logits)
            best = race({"plain": plain, "penalty": with_penalty}, rounds=2 * ROUNDS)
            best |= race({"step": step_of(network, x, targets)}, rounds=3 if size == "full" else ROUNDS)
            share = 100 * (best["penalty"] - best["plain"]) / best["step"]
            unit = f"% of {1e3 * best['step']:.3g} ms ({BATCH} x {n_epochs} epochs)"
            rows.append(Row(f"penalty, share of a step of {name}, {size}", share, unit, goal))
    return rows


def loss_rows() -> list[Row]:
    profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    logits, targets = leaf(BATCH, N_EPOCHS, 3), torch.randint(0, 3, (BATCH, N_EPOCHS))
    loss = StageGuardLoss(profile)

    def plain(z: Tensor) -> Tensor:
        return functional.cross_entropy(z.flatten(0, 1), targets.flatten())

    runners = {
        "cross-entropy as usually written": plain,
        "cross-entropy and a naive penalty": lambda z: plain(z) + 0.5 * naive_penalty(z),
        "StageGuardLoss": lambda z: loss(z, targets),
    }
    best = race({name: pass_of(run, logits) for name, run in runners.items()}, rounds=2 * ROUNDS)
    return [Row(f"{name}, {BATCH} x {N_EPOCHS} epochs", 1e6 * best[name], "µs") for name in runners]


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(42)
    rows = [*penalty_rows(), *loss_rows()]
    report("losses", "Training losses, forward and backward, one thread", rows, torch=torch.__version__)


if __name__ == "__main__":
    main()

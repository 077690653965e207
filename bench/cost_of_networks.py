"""Processor time of every network: forward, and in its small size a step, a pass and a whole run.

python bench/cost_of_networks.py        writes bench/results/cost_of_networks.md; wants a quiet machine
"""

from __future__ import annotations

import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from stageguard.night.stages import WNR3
from stageguard.nn.backbones import backbones, build_backbone
from stageguard.nn.data import Normalisation, make_batch, round_of_batches
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.options import TrainingOptions
from stageguard.nn.training import train
from stageguard.signals.features import Features

N_SUBJECTS, N_EPOCHS, LENGTH, BATCH = 30, 900, 100, 16
# The input each network was published for.
PUBLISHED = {
    "accusleep": {"n_frames": 1, "n_features": 185, "spectrum": True},
    "attnsleep": {"n_frames": 3000, "n_features": 1},
    "deepsleepnet": {"n_frames": 3000, "n_features": 1},
    "seqsleepnet": {"n_frames": 29, "n_features": 129, "spectrum": True},
    "sleeptransformer": {"n_frames": 29, "n_features": 128, "training_length": LENGTH},
    "usleep": {"n_frames": 3840, "n_features": 2},
}


def cohort(n_features: int) -> list[Features]:
    """Noise of the size of a cohort: time does not depend on what there is to learn."""
    rng = np.random.default_rng(0)
    return [
        Features(
            f"night{k}",
            f"s{k}",
            rng.normal(size=(N_EPOCHS, n_features)),
            tuple(f"f{i}" for i in range(n_features)),
            None,
            rng.integers(0, 3, N_EPOCHS),
            WNR3,
        )
        for k in range(N_SUBJECTS)
    ]


def forward_seconds(name: str, n_times: int = 15, **sizes: object) -> float:
    """Least processor time of one recording of 100 epochs."""
    torch.manual_seed(42)
    network = build_backbone(name, n_stages=5, **sizes).eval()
    x = torch.randn(1, LENGTH, network.n_frames, network.n_features)
    times = []
    with torch.inference_mode():
        for _ in range(n_times + 2):
            began = time.process_time()
            network(x)
            times.append(time.process_time() - began)
    return min(times[2:])


def step_seconds(name: str, n_features: int, n_steps: int = 15) -> tuple[float, int]:
    """Least processor time of forward, loss, backward and update; steps of one pass."""
    stretches = Normalisation().stretches(cohort(n_features))
    batches = round_of_batches(stretches, LENGTH, BATCH, (42, 0))
    torch.manual_seed(42)
    network = build_backbone(name, n_frames=1, n_features=n_features, n_stages=3, small=True)
    criterion = StageGuardLoss("kdd2026-cardiorespiratory")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    times = []
    for windows in batches[: n_steps + 2]:
        began = time.process_time()
        features, labels, mask = map(torch.from_numpy, make_batch(stretches, windows, LENGTH))
        logits = network(features)
        loss = criterion(logits, labels, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.process_time() - began)
    return min(times[2:]), len(batches)


def run_seconds(name: str, n_features: int) -> tuple[float, int]:
    """Processor time of `train` with its defaults, evaluations and checkpoints included; its steps."""
    options = TrainingOptions(name, "human-psg-3", network={"small": True}, penalty_weight=0.0, device="cpu")
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        model = train(cohort(n_features), options, Path(folder) / "model")
    return time.process_time() - began, model.card.training["stopped_at"]


def main() -> None:
    torch.set_num_threads(1)
    lines = [
        "# Cost of the networks\n",
        f"Written by `cost_of_networks.py`: processor time on one core of a CPU, the least of several, torch "
        f"{torch.__version__}, Python {platform.python_version()}.\n",
        f"Forward, {LENGTH} epochs, five stages: in the published size on the published input, and in the "
        "small size on 80 features per epoch.\n",
        "| network | published, ms | small, ms |",
        "| --- | --: | --: |",
    ]
    for name in backbones():
        published = forward_seconds(name, **PUBLISHED[name])
        small = forward_seconds(name, n_frames=1, n_features=80, small=True)
        lines.append(f"| {name} | {1000 * published:.0f} | {1000 * small:.1f} |")
        print(lines[-1], flush=True)
    lines += [
        f"\nTraining in the small size: a pass is {N_SUBJECTS} nights of {N_EPOCHS} epochs in batches of "
        f"{BATCH} sequences of {LENGTH}; a run is `train` with its defaults on that cohort, reading aside.\n",
        "| network | features | ms per step | s per pass | s per run | steps of the run |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for name in backbones():
        for n_features in (5, 80):
            seconds, n_steps = step_seconds(name, n_features)
            whole, run_steps = run_seconds(name, n_features)
            cells = f"{1000 * seconds:.0f} | {seconds * n_steps:.1f} | {whole:.0f} | {run_steps}"
            lines.append(f"| {name} | {n_features} | {cells} |")
            print(lines[-1], flush=True)
    (Path(__file__).parent / "results" / "cost_of_networks.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

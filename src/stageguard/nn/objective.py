"""What training minimises, in parts that can be logged. The losses themselves are defined elsewhere."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from stageguard.nn.data import Labels
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.options import TrainingOptions
from stageguard.profile import Profile


class Objective(nn.Module):
    """The loss of a training run with its parts: cross-entropy and penalty, or the semi-Markov likelihood.

    Parameters
    ----------
    profile : Profile
        Rare pairs of the penalty, or the model of the likelihood.
    options : TrainingOptions
        Which loss, and its weights.
    counts : array (n_stages,)
        Epochs of each stage in training, for balanced weights.
    """

    stage_weights: Tensor

    def __init__(self, profile: Profile, options: TrainingOptions, counts: Labels) -> None:
        super().__init__()
        weights = counts.sum() / (len(counts) * counts) if options.balanced else np.ones(len(counts))
        self.register_buffer("stage_weights", torch.tensor(weights, dtype=torch.float32), persistent=False)
        self.penalised: StageGuardLoss | None = None
        self.semi_markov: nn.Module | None = None
        if options.loss == "semi-markov":
            from stageguard.nn.semi_markov import SemiMarkovLoss

            self.semi_markov = SemiMarkovLoss(profile, epoch_seconds=options.epoch_seconds)
        else:
            own = self.stage_weights if options.balanced else None
            self.penalised = StageGuardLoss(profile, options.penalty_weight, own, options.label_smoothing)

    def forward(self, logits: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Return the loss and its parts for logits (batch, epochs, stages); masked epochs do not count."""
        if self.penalised is not None:
            total, cross_entropy, penalty = self.penalised.parts(logits, targets, mask)
            return {"loss": total, "cross_entropy": cross_entropy, "penalty": penalty}
        assert self.semi_markov is not None
        loss: Tensor = self.semi_markov(logits, targets, mask)
        return {"loss": loss}

"""What training minimises, in parts that can be logged. The losses themselves are defined elsewhere."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Ints
from stageguard.nn.losses import StageGuardLoss
from stageguard.nn.options import TrainingOptions
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.nn.semi_markov import SemiMarkovLoss
from stageguard.profile.profile import Profile


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
    epoch_seconds : float, optional
        Length of an epoch, if not the profile's.
    """

    stage_weights: Tensor

    def __init__(
        self, profile: Profile, options: TrainingOptions, counts: Ints, epoch_seconds: float | None = None
    ) -> None:
        super().__init__()
        weights = counts.sum() / (len(counts) * counts) if options.balanced else np.ones(len(counts))
        self.register_buffer("stage_weights", torch.tensor(weights, dtype=torch.float32), persistent=False)
        self.criterion: StageGuardLoss | SemiMarkovLoss
        if options.loss == "semi-markov":
            # sequences are cut out of nights, so that their first bout may have begun before
            cut = profile if profile.ends == "censored" else profile.replace(ends="censored")
            self.criterion = SemiMarkovLoss(cut, epoch_seconds=epoch_seconds)
        else:
            assert options.penalty_weight is not None
            own = self.stage_weights if options.balanced else None
            self.criterion = StageGuardLoss(profile, options.penalty_weight, own, options.label_smoothing)

    def forward(self, logits: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Return the loss and its parts for logits (batch, epochs, stages); masked epochs do not count."""
        if isinstance(self.criterion, SemiMarkovLoss):
            return {"loss": self.criterion(logits, targets, mask)}
        total, cross_entropy, penalty = self.criterion.parts(logits, targets, mask)
        return {"loss": total, "cross_entropy": cross_entropy, "penalty": penalty}

"""Score probabilities against expert stages over many recordings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from stageguard.base.arrays import CLIP, Floats, Ints
from stageguard.base.errors import StageGuardWarning
from stageguard.guard.decode import decode
from stageguard.measures.agreement import cohen_kappa
from stageguard.nn.feature_table import FeatureTable
from stageguard.nn.inference import best_temperature, table_probabilities
from stageguard.nn.normalise import Normalisation
from stageguard.nn.pytorch import Tensor, nn
from stageguard.profile.profile import Profile


@dataclass(frozen=True, slots=True)
class Score:
    """Agreement of the most probable stage with the expert's, over all scored epochs pooled."""

    kappa: float
    accuracy: float
    log_loss: float

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def score_probabilities(probabilities: Floats, labels: Ints, chosen: Ints | None = None) -> Score:
    """Score rows that have both an expert's stage and probabilities.

    `chosen` replaces the most probable stages. Where only one stage occurs on both sides kappa is 0.
    """
    keep = (labels >= 0) & ~np.isnan(probabilities[:, 0])
    p, y = probabilities[keep], labels[keep]
    if not len(y):
        return Score(-1.0, 0.0, float("inf"))
    confusion = np.zeros((p.shape[1], p.shape[1]), dtype=np.int64)
    np.add.at(confusion, (y, p.argmax(axis=1) if chosen is None else chosen[keep]), 1)
    loss = float(-np.log(np.maximum(p[np.arange(len(y)), y], CLIP)).mean())
    kappa = cohen_kappa(confusion)
    return Score(0.0 if np.isnan(kappa) else kappa, float(np.trace(confusion) / len(y)), loss)


@dataclass(frozen=True, slots=True)
class Validation:
    """Recordings kept aside, and how a network is run on them.

    With a decoder, and the length of an epoch if not its own, the decoded stages are judged: a network
    trained under the semi-Markov likelihood leaves to the transitions what they know, so that its most
    probable stages alone say little.
    """

    tables: Sequence[FeatureTable]
    normalisation: Normalisation
    n_stages: int
    length: int | None
    decoder: Profile | None = None
    epoch_seconds: float | None = None

    def score(self, network: nn.Module) -> Score:
        """Score a network as it is."""
        probabilities = self._probabilities(network)
        return score_probabilities(probabilities, self._labels(), self._decoded(probabilities))

    def temperature(self, network: nn.Module, stage_weights: Tensor) -> float:
        """Return the temperature that suits the network best, stages weighted as in training."""
        weights = stage_weights.cpu().numpy().astype(np.float64)
        return best_temperature(self._probabilities(network), self._labels(), weights)

    def _probabilities(self, network: nn.Module) -> Floats:
        scale, n, length = self.normalisation, self.n_stages, self.length
        return np.concatenate(
            [table_probabilities(network, table, scale, n, length=length) for table in self.tables]
        )

    def _decoded(self, probabilities: Floats) -> Ints | None:
        if self.decoder is None:
            return None
        nights = np.split(probabilities, np.cumsum([table.n_epochs for table in self.tables])[:-1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # an early network is far off, and no news
            starts = [[first for first, _ in table.stretches()][1:] for table in self.tables]
            decoded = decode(nights, self.decoder, segments=starts, epoch_seconds=self.epoch_seconds)
        return np.concatenate([night.hypnogram.labels for night in decoded]).astype(np.int64)

    def _labels(self) -> Ints:
        return np.concatenate([table.labels for table in self.tables if table.labels is not None])

"""The training losses of the paper: cross-entropy and the soft transition penalty."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stageguard.base import checks
from stageguard.base.errors import StageGuardWarning
from stageguard.night.hypnogram import UNSCORED
from stageguard.nn import inputs
from stageguard.nn.pytorch import Tensor, functional, nn, torch, warn
from stageguard.profile.profile import Profile


class LossParts(NamedTuple):
    """What a training loss is made of.

    Attributes
    ----------
    total : Tensor
        Cross-entropy plus the weighted penalty; the one to call ``backward`` on.
    cross_entropy, penalty : Tensor
        The parts, the penalty before its weight.
    """

    total: Tensor
    cross_entropy: Tensor
    penalty: Tensor


class TransitionPenalty(nn.Module):
    """Probability a network gives to rare transitions, averaged over adjacent epochs.

    For each pair of adjacent epochs, the sum over the profile's rare pairs (s, s') of
    p(s at the first) * p(s' at the second); the mean over all pairs of the batch. It is not divided
    by the number of rare pairs, as published. The product takes neighbouring epochs for independent.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name. Warns when its rare set is empty, because the penalty then is zero.

    Examples
    --------
    >>> penalty = TransitionPenalty("kdd2026-mouse-eeg-emg")
    >>> loss = functional.cross_entropy(logits.transpose(1, 2), targets) + 0.5 * penalty(logits)
    """

    _rare: Tensor

    def __init__(self, profile: Profile | str) -> None:
        super().__init__()
        self.profile = inputs.as_profile(profile)
        names = self.profile.scheme.names
        rare = torch.zeros(len(names), len(names))  # [first, second]
        for pair in self.profile.rare:
            rare[names.index(pair.source), names.index(pair.target)] = 1.0
        self.register_buffer("_rare", rare, persistent=False)
        if not self.profile.rare:
            warn(
                f"profile {self.profile.name!r} has no rare transitions: the transition penalty is zero. "
                'Name some in the profile, such as rare = [["W", "R"]], or set the penalty\'s weight to 0.'
            )

    def forward(
        self, logits: Tensor, mask: Tensor | None = None, *, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Return the mean rare-transition probability as a scalar, in the logits' own dtype.

        Parameters
        ----------
        logits : Tensor (batch, epochs, stages)
            A network's output before softmax; one recording may come as (epochs, stages).
        mask : bool Tensor (batch, epochs), optional
            True where an epoch counts. Pairs that touch another epoch are left out.
        segment_ids : integer Tensor (batch, epochs), optional
            Epochs with the same number follow each other in time; no pair crosses a change.

        Returns
        -------
        Tensor
            A scalar; 0 where the batch has no pair.
        """
        logits = inputs.check_logits(logits, self.profile.scheme)
        mask = inputs.check_mask(mask, logits)
        segment_ids = inputs.check_segment_ids(segment_ids, logits)
        scores = inputs.stages_first(logits, mask)
        penalty = self._of(scores, mask, segment_ids)
        # without a pair to look at the penalty is 0, whatever the network says
        seen = penalty if self._has_pairs(scores) else scores.softmax(0).sum()
        if not math.isfinite(seen.item()):
            raise inputs.explain_not_finite(seen.item(), logits, mask, self.profile.scheme)
        return penalty.to(logits.dtype)

    def _has_pairs(self, scores: Tensor) -> bool:
        return bool(self.profile.rare) and scores.shape[-1] > 1

    def _of(self, scores: Tensor, mask: Tensor | None, segment_ids: Tensor | None) -> Tensor:
        """Return the penalty of checked logits (stages, batch, epochs)."""
        if not self._has_pairs(scores):
            return scores[..., :0].sum()
        p = scores.softmax(0)
        # [s', b, t]: probability at t of the stages from which s' is rare
        arriving = _exactly(self._rare.to(p).t(), p.flatten(1)).view_as(p)
        joint = arriving[..., :-1] * p[..., 1:]
        paired = inputs.paired_epochs(mask, segment_ids)
        if paired is None:
            return joint.sum() / (p.shape[1] * (p.shape[2] - 1))
        return (joint * paired).sum() / paired.sum().clamp(min=1)

    def extra_repr(self) -> str:
        """Return the rare pairs, for a person to read."""
        pairs = ", ".join(f"{pair.source}->{pair.target}" for pair in self.profile.rare)
        return f"{self.profile.name!r}, rare: {pairs or 'none'}"


def _exactly(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in their own precision, inside autocast too."""
    device = a.device.type
    if not torch.is_autocast_enabled(device):
        return a @ b
    with torch.autocast(device, enabled=False):
        return a @ b


class StageGuardLoss(inputs.SequenceLoss[LossParts]):
    """Cross-entropy plus `weight` times the transition penalty: the paper's training loss.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name.
    weight : float
        What the penalty is multiplied by (the paper's lambda).
    class_weights : sequence, mapping of stage to number, or Tensor, optional
        Weight of each stage in the cross-entropy, in the scheme's order or by name.
    label_smoothing : float
        Share of each label that is spread evenly over all stages, its own included, 0 to 1.

    Examples
    --------
    >>> loss = StageGuardLoss("kdd2026-mouse-eeg-emg", weight=0.5)
    >>> loss(logits, targets).backward()  # targets: -1 where an epoch is not scored
    >>> loss.parts(logits, targets).penalty
    """

    _class_weights: Tensor | None

    def __init__(
        self,
        profile: Profile | str,
        weight: float = 0.5,
        class_weights: Sequence[float] | Mapping[str, float] | Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.profile = inputs.as_profile(profile)
        self.weight = checks.number(weight, "weight", low=0.0)
        self.label_smoothing = checks.number(label_smoothing, "label_smoothing", low=0.0, high=1.0)
        weights = inputs.class_weights_for(class_weights, self.profile.scheme)
        self.register_buffer("_class_weights", weights, persistent=False)
        with warnings.catch_warnings():
            if self.weight == 0.0:
                warnings.simplefilter("ignore", StageGuardWarning)
            self.penalty = TransitionPenalty(self.profile)

    def parts_of(self, batch: inputs.Batch) -> LossParts:
        """Return means over the epochs or pairs that count; half precision is raised to single."""
        scores = inputs.stages_first(batch.logits, batch.mask)
        scored = batch.targets if batch.mask is None else batch.targets.masked_fill(~batch.mask, UNSCORED)
        cross_entropy = functional.cross_entropy(
            scores.flatten(1)[None],
            scored.flatten()[None],
            weight=None if self._class_weights is None else self._class_weights.to(scores),
            ignore_index=UNSCORED,
            label_smoothing=self.label_smoothing,
        )
        penalty = self.penalty._of(scores, batch.mask, batch.segment_ids)
        total = cross_entropy + self.weight * penalty
        if not math.isfinite(total.item()):
            raise inputs.explain_not_finite(total.item(), batch.logits, batch.mask, self.profile.scheme)
        return LossParts(total, cross_entropy, penalty)

    def extra_repr(self) -> str:
        """Return the options, for a person to read."""
        return f"{self.profile.name!r}, weight={self.weight:g}, label_smoothing={self.label_smoothing:g}"

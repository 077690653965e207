"""The paper's training loss: cross-entropy plus the probability of rare transitions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from stageguard import checks
from stageguard.errors import InputError, StageGuardWarning, warn
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.nn.pytorch import Tensor, functional, nn, torch
from stageguard.profile.profile import Profile, as_profile

IGNORED = -100  # what torch's own cross-entropy takes for an epoch that is not scored


class LossParts(NamedTuple):
    """The parts of a training loss."""

    total: Tensor  # cross-entropy plus the weighted penalty; call ``backward`` on it
    cross_entropy: Tensor
    penalty: Tensor  # without its weight


class TransitionPenalty(nn.Module):
    """Probability a network gives to rare transitions, averaged over adjacent epochs.

    For each pair of adjacent epochs, p(s at the first) * p(s' at the second) is summed over the profile's
    rare pairs (s, s'). The penalty is the mean over all pairs of epochs in the batch. As published, it is not
    divided by the number of rare pairs. The product assumes that adjacent epochs are independent.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name. A warning is given if it has no rare pairs, as the penalty is then zero.

    Examples
    --------
    >>> penalty = TransitionPenalty("kdd2026-mouse-eeg-emg")
    >>> loss = functional.cross_entropy(logits.transpose(1, 2), targets) + 0.5 * penalty(logits)
    """

    rare: Tensor

    def __init__(self, profile: Profile | str) -> None:
        super().__init__()
        self.profile = as_profile(profile)
        names = self.profile.scheme.names
        rare = torch.zeros(len(names), len(names))  # (stages, stages): [first, second]
        for pair in self.profile.rare:
            rare[names.index(pair.source), names.index(pair.target)] = 1.0
        self.register_buffer("rare", rare, persistent=False)
        if not self.profile.rare:
            warn(f"profile {self.profile.name!r} has no rare transitions: the transition penalty is zero.")

    def forward(
        self, logits: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Return the mean rare-transition probability as a scalar; 0 without pairs.

        Arguments are those of `StageGuardLoss`. Pairs with a masked epoch, or across a change of segment, are
        left out.
        """
        check_shapes(logits, self.profile.scheme, mask=mask, segment_ids=segment_ids)
        return self.of_scores(_stages_first(logits, mask), mask, segment_ids)

    def of_scores(self, scores: Tensor, mask: Tensor | None, segment_ids: Tensor | None) -> Tensor:
        """Return the penalty of checked logits (stages, batch, epochs)."""
        if not self.profile.rare or scores.shape[-1] < 2:
            return scores[..., :0].sum()
        p = scores.softmax(0)  # (stages, batch, epochs)
        with torch.autocast(p.device.type, enabled=False):  # which would multiply in half precision
            # [s', b, t]: probability at t of the stages from which s' is rare
            arriving = (self.rare.to(p).t() @ p.flatten(1)).view_as(p)
        joint = arriving[..., :-1] * p[..., 1:]  # (stages, batch, epochs - 1)
        paired = torch.ones_like(joint[0], dtype=torch.bool)  # (batch, epochs - 1)
        if mask is not None:
            paired = mask[:, :-1] & mask[:, 1:]
        if segment_ids is not None:
            paired = paired & (segment_ids[:, :-1] == segment_ids[:, 1:])
        return (joint * paired).sum() / paired.sum().clamp(min=1)


class StageGuardLoss(nn.Module):
    """Cross-entropy plus `weight` times the transition penalty: the paper's training loss.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name.
    weight : float
        Factor on the penalty (the paper's lambda).
    class_weights : sequence of float, optional
        Weight of each stage in the cross-entropy, in the scheme's order.

    Examples
    --------
    >>> loss = StageGuardLoss("kdd2026-mouse-eeg-emg", weight=0.5)
    >>> loss(logits, targets).backward()  # targets: -1 or -100 where an epoch is not scored
    >>> loss.parts(logits, targets).penalty
    """

    class_weights: Tensor | None

    def __init__(
        self, profile: Profile | str, weight: float = 0.5, class_weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        self.profile = as_profile(profile)
        self.weight = checks.number(weight, "weight", low=0.0)
        weights = None if class_weights is None else torch.as_tensor(class_weights, dtype=torch.float64)
        n_stages = self.profile.scheme.n_stages
        if weights is not None and (weights.shape != (n_stages,) or not (weights > 0).all()):
            wanted = f"{n_stages} numbers above 0, for {', '.join(self.profile.scheme.names)}"
            raise InputError(f"class_weights are {checks.shown(class_weights)}, expected {wanted}.")
        self.register_buffer("class_weights", weights, persistent=False)
        with warnings.catch_warnings():
            if self.weight == 0.0:
                warnings.simplefilter("ignore", StageGuardWarning)
            self.penalty = TransitionPenalty(self.profile)

    def forward(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Return the loss of a batch: a mean over the epochs, and over the pairs of epochs, that count.

        Parameters
        ----------
        logits : Tensor (batch, epochs, stages)
            A network's output before softmax.
        targets : integer Tensor (batch, epochs)
            Stage indices in the profile's order, -1 or -100 where an epoch is not scored.
        mask : bool Tensor (batch, epochs), optional
            True where an epoch counts, False on padding, where targets may have any value.
        segment_ids : integer Tensor (batch, epochs), optional
            Epochs with the same number follow each other in time; a change begins another recording.
        """
        return self.parts(logits, targets, mask, segment_ids).total

    def parts(
        self, logits: Tensor, targets: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None
    ) -> LossParts:
        """Return the loss with its parts; arguments as in `forward`."""
        check_shapes(logits, self.profile.scheme, targets=targets, mask=mask, segment_ids=segment_ids)
        scored = (targets != UNSCORED) & (targets != IGNORED)
        scored = scored if mask is None else scored & mask
        targets = targets.long().masked_fill(~scored, UNSCORED)
        scores = _stages_first(logits, scored)
        weight = None if self.class_weights is None else self.class_weights.to(scores)
        summed = functional.cross_entropy(
            scores.flatten(1)[None],  # (1, stages, batch * epochs)
            targets.flatten()[None],  # (1, batch * epochs)
            weight=weight,
            ignore_index=UNSCORED,
            reduction="sum",
        )
        counted = scored.to(scores) if weight is None else weight[targets] * scored
        # a mean over no epoch would be 0/0
        cross_entropy = summed / counted.sum().clamp(min=torch.finfo(scores.dtype).tiny)
        penalty = self.penalty.of_scores(scores, scored, segment_ids)
        return LossParts(cross_entropy + self.weight * penalty, cross_entropy, penalty)


def check_shapes(logits: Any, scheme: StageScheme, **per_epoch: Any) -> None:
    """Refuse logits that are not (batch, epochs, stages), and others that are not (batch, epochs)."""
    shape = tuple(logits.shape) if isinstance(logits, Tensor) and logits.is_floating_point() else None
    if shape is None or len(shape) != 3 or shape[2] != scheme.n_stages or 0 in shape:
        got = type(logits).__name__ if shape is None else f"shape {shape}"
        wanted = f"(batch, epochs, {scheme.n_stages}) for {', '.join(scheme.names)}"
        raise InputError(f"logits: got {got}, expected a floating point tensor {wanted}.")
    for name, values in per_epoch.items():
        if values is None:
            continue
        got, kind = type(values).__name__, "a bool" if name == "mask" else "an integer"
        if isinstance(values, Tensor):
            is_right = values.dtype == torch.bool if name == "mask" else not values.is_floating_point()
            if is_right and tuple(values.shape) == shape[:2]:
                continue
            got = f"shape {tuple(values.shape)} of {values.dtype}"
        raise InputError(f"{name}: got {got}, expected {kind} tensor (batch, epochs) = {shape[:2]}.")


def _stages_first(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return logits as (stages, batch, epochs), in single precision or better, with 0 in masked epochs."""
    # torch's softmax over a short last axis takes ten times as long as one over the first axis; logits of
    # masked epochs, NaN included, must not reach the loss or its gradient
    laid = logits if logits.dtype == torch.float64 else logits.float()
    laid = laid.permute(2, 0, 1).contiguous()
    return laid if mask is None else laid.masked_fill(~mask, 0.0)

"""The training losses of the paper, cross-entropy and transition penalty, and the checks of every loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from stageguard import checks
from stageguard.errors import InputError, StageGuardWarning, did_you_mean, warn
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.nn.pytorch import Tensor, functional, nn, outside_graph, torch
from stageguard.profile.profile import Profile, as_profile

# What marks an epoch without a score: our own value, and the one that torch's cross-entropy ignores.
UNSCORED_TARGETS = (UNSCORED, -100)


class Batch(NamedTuple):
    """The checked input of a loss: logits (batch, epochs, stages), the others (batch, epochs)."""

    logits: Tensor
    targets: Tensor  # int64; UNSCORED where an epoch does not count
    scored: Tensor  # bool: which epochs count
    segment_ids: Tensor | None
    wrong: Tensor  # bool: which epochs should count, but have a target that is no stage
    given: Tensor  # targets as they came


class Parts(Protocol):
    """The parts of a loss."""

    @property
    def total(self) -> Tensor:
        """The part that is minimised."""


P = TypeVar("P", bound=Parts)


class SequenceLoss(nn.Module, Generic[P]):
    """A loss of logits and scored stages that has parts; the part `total` is minimised."""

    profile: Profile
    check_values: bool

    def forward(
        self,
        logits: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        *,
        segment_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

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
        return self.parts(logits, targets, mask, segment_ids=segment_ids).total

    def parts(
        self,
        logits: Tensor,
        targets: Tensor,
        mask: Tensor | None = None,
        *,
        segment_ids: Tensor | None = None,
    ) -> P:
        """Return the loss with its parts; arguments as in `forward`."""
        logits = check_logits(logits, self.profile.scheme)
        targets = check_epochs(targets, logits, "targets", "stage indices").to(torch.int64)
        is_stage = (targets >= 0) & (targets < self.profile.scheme.n_stages)
        wrong = ~is_stage
        for value in UNSCORED_TARGETS:
            wrong = wrong & (targets != value)
        mask = check_mask(mask, logits)
        scored = is_stage if mask is None else is_stage & mask
        return self.parts_of(
            Batch(
                logits,
                targets.masked_fill(~scored, UNSCORED),
                scored,
                check_segment_ids(segment_ids, logits),
                wrong if mask is None else wrong & mask,
                targets,
            )
        )

    def parts_of(self, batch: Batch) -> P:
        """Return the parts for a checked batch."""
        raise NotImplementedError


def check_logits(logits: Any, scheme: StageScheme) -> Tensor:
    """Return logits as (batch, epochs, stages); a single recording (epochs, stages) is a batch of one."""
    if not isinstance(logits, Tensor):
        raise InputError(f"logits are a {type(logits).__name__}, expected a torch.Tensor.")
    if not logits.is_floating_point():
        raise InputError(f"logits are {logits.dtype}, expected floating point numbers: a network's output.")
    if logits.layout != torch.strided:
        raise InputError(f"logits are {logits.layout}, expected a dense tensor. Give logits.to_dense().")
    shape = tuple(logits.shape)
    n_stages = scheme.n_stages
    if logits.ndim not in (2, 3) or shape[-1] != n_stages:
        hint = ""
        if logits.ndim == 3 and shape[1] == n_stages:
            hint = " The stages are on axis 1: give logits.transpose(1, 2)."
        raise InputError(
            f"logits have shape {shape}, expected (batch, epochs, {n_stages}): "
            f"the profile's stages are {', '.join(scheme.names)}.{hint}"
        )
    if logits.numel() == 0:
        raise InputError(f"logits have shape {shape}, expected at least one epoch.")
    result: Tensor = logits if logits.ndim == 3 else logits[None]
    return result


def check_mask(mask: Any, logits: Tensor) -> Tensor | None:
    """Return which epochs count (batch, epochs), or None if all do."""
    if mask is None:
        return None
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        raise InputError(f"mask is {mask.dtype}, expected torch.bool: True where an epoch is scored.")
    return check_epochs(mask, logits, "mask", "True where an epoch is scored")


def check_segment_ids(segment_ids: Tensor | None, logits: Tensor) -> Tensor | None:
    """Return the number of each epoch's stretch (batch, epochs)."""
    if segment_ids is None:
        return None
    return check_epochs(segment_ids, logits, "segment_ids", "one number per unbroken stretch of a recording")


def check_epochs(values: Any, logits: Tensor, what: str, meaning: str) -> Tensor:
    """Return one value per epoch as (batch, epochs), on the logits' device."""
    if not isinstance(values, Tensor):
        raise InputError(f"{what}: got a {type(values).__name__}, expected a torch.Tensor ({meaning}).")
    if values.is_floating_point() or values.is_complex():
        raise InputError(f"{what}: got {values.dtype}, expected whole numbers ({meaning}).")
    expected = tuple(logits.shape[:2])
    if values.ndim == 1 and expected[0] == 1:
        values = values[None]
    if tuple(values.shape) != expected:
        raise InputError(
            f"{what}: got shape {tuple(values.shape)} for logits of shape {tuple(logits.shape)}, "
            f"expected (batch, epochs) = {expected}."
        )
    result: Tensor = values.to(logits.device)
    return result


def paired_epochs(mask: Tensor | None, segment_ids: Tensor | None) -> Tensor | None:
    """Return which adjacent epochs count as a pair (batch, epochs - 1), or None if all do."""
    paired = None
    if mask is not None:
        paired = mask[:, :-1] & mask[:, 1:]
    if segment_ids is not None:
        same = segment_ids[:, :-1] == segment_ids[:, 1:]
        paired = same if paired is None else paired & same
    return paired


def stages_first(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Return logits as (stages, batch, epochs), in single precision or better, with 0 in masked epochs."""
    # torch's softmax over a short last axis takes ten times as long as one over the first axis; logits of
    # masked epochs, NaN included, must not reach the loss or its gradient
    laid = at_least_single(logits.permute(2, 0, 1)).contiguous()
    return laid if mask is None else laid.masked_fill(~mask, 0.0)


def at_least_single(values: Tensor) -> Tensor:
    """Return values in single precision or better."""
    return values.float() if values.dtype.itemsize < 4 else values


def class_weights_for(
    weights: Tensor | Sequence[float] | Mapping[str, float] | None, scheme: StageScheme
) -> Tensor | None:
    """Return one positive weight per stage in the scheme's order."""
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        unknown = [str(name) for name in weights if name not in scheme.names]
        missing = [name for name in scheme.names if name not in weights]
        if unknown or missing:
            wrong = f"name {unknown[0]!r}" if unknown else f"lack {missing[0]!r}"
            hint = did_you_mean(unknown[0], scheme.names) if unknown else ""
            raise InputError(
                f"class_weights {wrong}, expected one for each of {', '.join(scheme.names)}.{hint}"
            )
        weights = [weights[name] for name in scheme.names]
    values: Any = weights.tolist() if isinstance(weights, Tensor) else weights
    if not isinstance(values, Iterable) or len(values := list(values)) != scheme.n_stages:
        got = len(values) if isinstance(values, list) else checks.shown(values)
        raise InputError(
            f"class_weights: got {got}, expected {scheme.n_stages}, one for each of "
            f"{', '.join(scheme.names)}."
        )
    checked = [
        checks.number(value, f"class weight of {name}", positive=True)
        for name, value in zip(scheme.names, values, strict=True)
    ]
    return torch.tensor(checked, dtype=torch.float64)


def explain_targets(batch: Batch, scheme: StageScheme) -> InputError:
    """Return the error for targets that are no stages; it names the first."""
    sequence, epoch = batch.wrong.nonzero()[0].tolist()
    unscored = " or ".join(map(str, UNSCORED_TARGETS))
    return InputError(
        f"targets hold {batch.given[sequence, epoch].item()} (sequence {sequence}, epoch {epoch}), expected "
        f"0 to {scheme.n_stages - 1} ({', '.join(scheme.names)}), or {unscored} where an epoch is not scored."
    )


def explain_not_finite(loss: float, logits: Tensor, mask: Tensor | None, scheme: StageScheme) -> InputError:
    """Return the error for a loss that is not finite; it names the first epoch that causes it."""
    wrong = ~logits.isfinite()
    if mask is not None:
        wrong = wrong & mask[..., None]
    if not wrong.any():
        return InputError(
            f"the loss is {loss:g} although the logits are finite: they are too large. Scale them."
        )
    sequence, epoch, stage = wrong.nonzero()[0].tolist()
    value = logits[sequence, epoch, stage].item()
    return InputError(
        f"logits: {value:g} for {scheme.names[stage]} at sequence {sequence}, epoch {epoch}, expected "
        "finite numbers. Look for NaN in the features, or lower the learning rate."
    )


class LossParts(NamedTuple):
    """The parts of a training loss.

    Attributes
    ----------
    total : Tensor
        Cross-entropy plus the weighted penalty; call ``backward`` on it.
    cross_entropy, penalty : Tensor
        The parts; the penalty is without its weight.
    """

    total: Tensor
    cross_entropy: Tensor
    penalty: Tensor


class TransitionPenalty(nn.Module):
    """Probability a network gives to rare transitions, averaged over adjacent epochs.

    For each pair of adjacent epochs, p(s at the first) * p(s' at the second) is summed over the profile's
    rare pairs (s, s'). The penalty is the mean over all pairs of epochs in the batch. As published, it is not
    divided by the number of rare pairs. The product assumes that adjacent epochs are independent.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name. A warning is given if it has no rare pairs, as the penalty is then zero.
    check_values : bool
        As in `StageGuardLoss`.

    Examples
    --------
    >>> penalty = TransitionPenalty("kdd2026-mouse-eeg-emg")
    >>> loss = functional.cross_entropy(logits.transpose(1, 2), targets) + 0.5 * penalty(logits)
    """

    _rare: Tensor

    def __init__(self, profile: Profile | str, *, check_values: bool = True) -> None:
        super().__init__()
        self.profile = as_profile(profile)
        self.check_values = checks.flag(check_values, "check_values")
        names = self.profile.scheme.names
        rare = torch.zeros(len(names), len(names))  # (stages, stages): [first, second]
        for pair in self.profile.rare:
            rare[names.index(pair.source), names.index(pair.target)] = 1.0
        self.register_buffer("_rare", rare, persistent=False)
        if not self.profile.rare:
            warn(_explain_zero_penalty(self.profile))

    def forward(
        self, logits: Tensor, mask: Tensor | None = None, *, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Return the mean rare-transition probability as a scalar in the logits' dtype; 0 without pairs.

        Arguments are those of `StageGuardLoss`; logits of one recording may have shape (epochs, stages).
        Pairs with a masked epoch, or across a change of segment, are left out.
        """
        logits = check_logits(logits, self.profile.scheme)
        mask = check_mask(mask, logits)
        segment_ids = check_segment_ids(segment_ids, logits)
        scores = stages_first(logits, mask)
        penalty = self._loss_of(scores, mask, segment_ids)
        if self.check_values and not penalty.is_meta:
            # without pairs the penalty is 0 whatever the logits are, so check the probabilities instead
            self._check(penalty if self._has_pairs(scores) else scores.softmax(0).sum(), logits, mask)
        return penalty.to(logits.dtype)

    @outside_graph
    def _check(self, seen: Tensor, logits: Tensor, mask: Tensor | None) -> None:
        """Raise an error for a value that is not finite."""
        value = seen.item()  # the one wait for the device
        if not math.isfinite(value):
            raise explain_not_finite(value, logits, mask, self.profile.scheme)

    def _has_pairs(self, scores: Tensor) -> bool:
        return bool(self.profile.rare) and scores.shape[-1] > 1

    def _loss_of(self, scores: Tensor, mask: Tensor | None, segment_ids: Tensor | None) -> Tensor:
        """Return the penalty of checked logits (stages, batch, epochs)."""
        if not self._has_pairs(scores):
            return scores[..., :0].sum()
        p = scores.softmax(0)  # (stages, batch, epochs)
        # [s', b, t]: probability at t of the stages from which s' is rare
        arriving = _exactly(self._rare.to(p).t(), p.flatten(1)).view_as(p)
        joint = arriving[..., :-1] * p[..., 1:]  # (stages, batch, epochs - 1)
        paired = paired_epochs(mask, segment_ids)
        if paired is None:
            return joint.sum() / (p.shape[1] * (p.shape[2] - 1))
        return (joint * paired).sum() / paired.sum().clamp(min=1)

    def extra_repr(self) -> str:
        """Return the profile and its rare pairs, for `repr`."""
        pairs = ", ".join(f"{pair.source}->{pair.target}" for pair in self.profile.rare)
        return f"{self.profile.name!r}, rare: {pairs or 'none'}"


# Profiles that discourage no transition, and the paper's profile of the same stages that does.
TRAINED_WITH = {
    "human-bioradar-3": "kdd2026-bioradar",
    "human-cardiorespiratory-3": "kdd2026-cardiorespiratory",
    "human-psg-3": "kdd2026-cardiorespiratory",  # the paper has no polysomnography with three stages
    "human-psg-5": "kdd2026-psg-5",
    "mouse-eeg-emg-3": "kdd2026-mouse-eeg-emg",
}


def _explain_zero_penalty(profile: Profile) -> str:
    """Return the warning for a profile without rare transitions, with what to train with."""
    other, names = TRAINED_WITH.get(profile.name), profile.scheme.names
    paired = f"Train with {other!r} and decode with {profile.name!r}. " if other else ""
    own = f'Or name some: profile.replace(rare=[["{names[0]}", "{names[-1]}"]]). ' if len(names) > 2 else ""
    return (
        f"profile {profile.name!r} has no rare transitions: the transition penalty is zero. {paired}{own}"
        "For the profile's own rules train with SemiMarkovLoss, for cross-entropy alone with weight=0."
    )


def _exactly(a: Tensor, b: Tensor) -> Tensor:
    """Return a @ b in their own precision, also inside autocast."""
    device = a.device.type
    if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
        return a @ b
    with torch.autocast(device, enabled=False):
        return a @ b


class StageGuardLoss(SequenceLoss[LossParts]):
    """Cross-entropy plus `weight` times the transition penalty: the paper's training loss.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name.
    weight : float
        Factor on the penalty (the paper's lambda).
    class_weights : sequence, mapping of stage to number, or Tensor, optional
        Weight of each stage in the cross-entropy, in the scheme's order or by name.
    label_smoothing : float
        Share of each label that is spread evenly over all stages, including its own, 0 to 1.
    check_values : bool
        Whether a target that is no stage, and a loss that is not finite, raise an error; the check waits for
        the device once. With False nothing waits, and the loss is NaN or infinite for the training loop to
        handle: a gradient scaler skips the step.

    Examples
    --------
    >>> loss = StageGuardLoss("kdd2026-mouse-eeg-emg", weight=0.5)
    >>> loss(logits, targets).backward()  # targets: -1 or -100 where an epoch is not scored
    >>> loss.parts(logits, targets).penalty
    """

    _class_weights: Tensor | None

    def __init__(
        self,
        profile: Profile | str,
        weight: float = 0.5,
        class_weights: Sequence[float] | Mapping[str, float] | Tensor | None = None,
        label_smoothing: float = 0.0,
        *,
        check_values: bool = True,
    ) -> None:
        super().__init__()
        self.profile = as_profile(profile)
        self.check_values = checks.flag(check_values, "check_values")
        self.weight = checks.number(weight, "weight", low=0.0)
        self.label_smoothing = checks.number(label_smoothing, "label_smoothing", low=0.0, high=1.0)
        weights = class_weights_for(class_weights, self.profile.scheme)
        self.register_buffer("_class_weights", weights, persistent=False)
        with warnings.catch_warnings():
            if self.weight == 0.0:
                warnings.simplefilter("ignore", StageGuardWarning)
            self.penalty = TransitionPenalty(self.profile)

    def parts_of(self, batch: Batch) -> LossParts:
        """Return means over the epochs or pairs that count, in single precision or better."""
        scores = stages_first(batch.logits, batch.scored)
        weight = None if self._class_weights is None else self._class_weights.to(scores)
        summed = functional.cross_entropy(
            scores.flatten(1)[None],  # (1, stages, batch * epochs)
            batch.targets.flatten()[None],  # (1, batch * epochs)
            weight=weight,
            ignore_index=UNSCORED,
            reduction="sum",  # vmap cannot map over torch's mean with weights and smoothing
            label_smoothing=self.label_smoothing,
        )
        counted = batch.scored.to(scores) if weight is None else weight[batch.targets] * batch.scored
        # a mean over no epoch would be 0/0
        cross_entropy = summed / counted.sum().clamp(min=torch.finfo(scores.dtype).tiny)
        penalty = self.penalty._loss_of(scores, batch.scored, batch.segment_ids)
        total = cross_entropy + self.weight * penalty
        if not self.check_values:  # a factor, so that gradients are NaN too
            total = total * torch.where(batch.wrong.any(), math.nan, 1.0)
        elif not total.is_meta:
            self._check(batch, total)
        return LossParts(total, cross_entropy, penalty)

    @outside_graph
    def _check(self, batch: Batch, total: Tensor) -> None:
        """Raise an error for a target that is no stage, or a loss that is not finite."""
        is_wrong = batch.wrong.any()
        if (total.isfinite() & ~is_wrong).item():  # the one wait for the device
            return
        if is_wrong.item():
            raise explain_targets(batch, self.profile.scheme)
        raise explain_not_finite(total.item(), batch.logits, batch.scored, self.profile.scheme)

    def extra_repr(self) -> str:
        """Return the options, for `repr`."""
        return f"{self.profile.name!r}, weight={self.weight:g}, label_smoothing={self.label_smoothing:g}"

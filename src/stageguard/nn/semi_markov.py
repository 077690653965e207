"""The likelihood of scored stages under a profile's whole model, as a training loss.

Where cross-entropy asks that each epoch be right by itself, this loss asks that the scored path be likely
among all paths the decoder could take: it trains what `decode` decodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError
from stageguard.guard.strength import fixed_log_weight
from stageguard.nn import inputs
from stageguard.nn.lattice import Lattice, Paths, cut
from stageguard.nn.pytorch import Tensor, nn, torch, warn
from stageguard.profile.profile import Profile

# Beyond this share of labels no path can hold, the profile is not the right one for them.
_MANY_FREED = 0.10


class SemiMarkovParts(NamedTuple):
    """The loss, and how many of the labels it rests on.

    Attributes
    ----------
    total : Tensor
        The loss; the one to call ``backward`` on.
    n_epochs : int
        Scored epochs.
    n_freed : int
        Those whose label no path of the model can hold, which were taken as unknown.
    """

    total: Tensor
    n_epochs: int
    n_freed: int


class SemiMarkovLoss(inputs.SequenceLoss[SemiMarkovParts]):
    """Exact negative log-likelihood of the scored stages under the constrained model.

    The model is the decoder's: p(path) = exp(score(path)) / Z with the score that `stageguard.decode`
    maximises (evidence, transitions, minimum bouts, bout lengths, flip-flop window) and Z the sum over
    every path the profile allows. Temperature, biases and prior of the profile apply as they do there;
    evidence is not clipped, so that a confident mistake still has a gradient.

    A label that no allowed path can hold, such as one epoch of a stage whose bouts last at least two, would
    have probability zero. As few labels as possible are then taken as unknown and summed over; among equally
    few, those that leave the likeliest path. Their number is in `parts`, and a warning is given once if
    it exceeds a tenth. To train on such labels as they are, drop the minimum bouts:
    ``SemiMarkovLoss(profile.replace(min_bout_seconds=None))``.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name.
    learn_transitions : bool
        Make the transition scores a parameter, which starts at the profile's; `learned_profile` turns what
        was learned into a profile. Forbidden transitions stay forbidden.
    transition_weight : float, optional
        How much transitions count; the profile's own by default, or 1 where a rule sets it per recording.
    epoch_seconds : float, optional
        Epoch length, if not the profile's.
    reduction : "mean", "sum" or "none"
        Per scored epoch, in all, or in all for each sequence of the batch.

    Attributes
    ----------
    transition_scores : Parameter (stages, stages)
        With `learn_transitions`: nats from the row's stage to the column's, staying on the diagonal.
    assumed : tuple of str
        Where this model differs from what the profile says.

    Examples
    --------
    >>> loss = SemiMarkovLoss("human-psg-5")
    >>> loss(logits, targets).backward()  # targets: -1 where an epoch is not scored
    """

    def __init__(
        self,
        profile: Profile | str,
        learn_transitions: bool = False,
        *,
        transition_weight: float | None = None,
        epoch_seconds: float | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        self.profile = inputs.as_profile(profile)
        self.reduction = checks.choice(reduction, "reduction", ("mean", "sum", "none"))
        seconds = self.profile.epoch_seconds if epoch_seconds is None else checks.epoch_seconds(epoch_seconds)
        self.assumed: tuple[str, ...] = ()
        weight = self._weight_of(transition_weight)
        flip = self.profile.flip_flop
        if flip.penalty_nats > 0 and flip.method == "greedy":
            self.assumed += ("the flip-flop window is exact: the greedy pass exists for decode only",)
        self._lattice = Lattice.of(self.profile, seconds, weight)
        self._has_warned = False
        if learn_transitions:
            scores = torch.tensor(self._lattice.scores, dtype=torch.get_default_dtype())
            self.transition_scores: nn.Parameter | None = nn.Parameter(scores)
        else:
            self.register_parameter("transition_scores", None)

    def _weight_of(self, transition_weight: float | None) -> float:
        if transition_weight is not None:
            return checks.number(transition_weight, "transition_weight", low=0.0)
        if self.profile.transition_weight is not None:
            return self.profile.transition_weight
        self.assumed += ("transition weight 1: the profile sets it per recording, when decoding",)
        return 1.0

    def parts_of(self, batch: inputs.Batch) -> SemiMarkovParts:
        """Return the loss in nats; each run of epochs that count is a recording with its ends."""
        evidence = self._evidence(batch.logits)
        paths = self._read(evidence, batch)
        apply: Callable[..., Tensor] = _NegativeLogLikelihood.apply
        nll = apply(evidence, self.transition_scores, paths)  # (batch,)
        self._warn_of_many(paths)
        if self.reduction == "mean":
            nll = nll.sum() / paths.n_epochs
        elif self.reduction == "sum":
            nll = nll.sum()
        half = batch.logits.dtype in (torch.float16, torch.bfloat16)
        return SemiMarkovParts(
            nll.to(torch.float32 if half else batch.logits.dtype), paths.n_epochs, paths.n_freed
        )

    def _evidence(self, logits: Tensor) -> Tensor:
        """Return what the decoder makes of logits, up to a constant per epoch, which no likelihood sees."""
        calibration, prior = self.profile.calibration, fixed_log_weight(self.profile)
        evidence = logits.double()
        if calibration.temperature != 1.0:
            evidence = evidence / calibration.temperature
        for biases in (calibration.biases, prior):
            if biases is not None:
                evidence = evidence + torch.tensor(biases, dtype=torch.float64, device=logits.device)
        return evidence

    def _read(self, evidence: Tensor, batch: inputs.Batch) -> Paths:
        n_sequences, n_epochs = batch.targets.shape
        scored, ids = (None if x is None else x.cpu().numpy() for x in (batch.mask, batch.segment_ids))
        paths = Paths(
            self._lattice,
            None if self.transition_scores is None else self._learned_scores(),
            np.ascontiguousarray(evidence.detach().cpu().numpy()),
            batch.targets.cpu().numpy(),
            cut((n_sequences, n_epochs), scored, ids),
        )
        if not math.isfinite(paths.spread):
            raise inputs.explain_not_finite(paths.spread, evidence, batch.mask, self.profile.scheme)
        return paths

    def _learned_scores(self) -> Floats:
        """Return the transition scores, all of them numbers."""
        if self.transition_scores is None:
            raise InputError("no transitions were learned: make the loss with learn_transitions=True.")
        scores: Floats = self.transition_scores.detach().cpu().double().numpy()
        wrong = np.argwhere(~np.isfinite(scores))
        if len(wrong):
            source, target = (self.profile.scheme.names[i] for i in wrong[0])
            raise InputError(
                f"transition_scores: {scores[tuple(wrong[0])]:g} from {source} to {target}, expected finite "
                "numbers. Lower the learning rate."
            )
        return scores

    def _warn_of_many(self, paths: Paths) -> None:
        if self._has_warned or paths.n_freed <= _MANY_FREED * paths.n_epochs:
            return
        self._has_warned = True
        warn(
            f"{paths.n_freed / paths.n_epochs:.0%} of the labels contradict profile {self.profile.name!r} "
            "(minimum bouts or forbidden transitions) and were taken as unknown. If they are right, train "
            "with a profile without min_bout_seconds that allows the transitions that do occur."
        )

    def learned_profile(self, name: str) -> Profile:
        """Return the profile with the transitions that were learned.

        Scores become probabilities by way of their leading eigenvector: every path keeps its score but for
        a constant and a term for the stages at its two ends, so that `decode` decides alike.
        """
        scores = self._learned_scores()
        if self.profile.durations:
            raise InputError(
                "transitions learned beside a table of bout lengths cannot be written as a profile. "
                "Remove the durations, or keep the loss itself."
            )
        matrix = self._lattice.normalised(scores)
        names = self.profile.scheme.names
        rows = {a: dict(zip(names, row, strict=True)) for a, row in zip(names, matrix.tolist(), strict=True)}
        changes: dict[str, Any] = {
            "name": name,
            "epoch_seconds": self._lattice.automaton.epoch_seconds,
            "stay": "self",
            "transition_weight": 1.0,
            "rare": None,
            "tvr_pairs": [list(pair) for pair in self.profile.tvr_pairs],
            "transitions": rows,
        }
        return self.profile.replace(**changes)

    def extra_repr(self) -> str:
        """Return what the model is, for a person to read."""
        learned = ", transitions learned" if self.transition_scores is not None else ""
        states = self._lattice.automaton.n_states
        return f"{self.profile.name!r}, {states} states{learned}, reduction={self.reduction!r}"


class _NegativeLogLikelihood(torch.autograd.Function):
    """Negative log-likelihood per sequence; its gradient is expected minus observed."""

    @staticmethod
    def forward(ctx: Any, evidence: Tensor, scores: Tensor | None, paths: Paths) -> Tensor:
        result = paths.negative_log_likelihood(want_edges=scores is not None and scores.requires_grad)
        by_evidence = torch.from_numpy(result.by_evidence).to(evidence.device)
        by_scores = None
        if result.by_scores is not None and scores is not None:
            by_scores = torch.from_numpy(result.by_scores).to(scores.device)
        ctx.save_for_backward(by_evidence, by_scores)
        ctx.scores_dtype = None if scores is None else scores.dtype
        return torch.from_numpy(result.value).to(evidence.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        by_evidence, by_scores = ctx.saved_tensors
        each = gradient[:, None, None]
        if by_scores is None:
            return by_evidence * each, None, None
        summed = (by_scores * each.to(by_scores)).sum(0)
        return by_evidence * each, summed.to(ctx.scores_dtype), None

"""The likelihood of scored stages under a profile's whole model, as a training loss.

Cross-entropy wants each epoch to be right by itself. This loss wants the scored path to be likely among all
paths of the decoder: it trains the model that `decode` uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard import checks
from stageguard.arrays import PRODUCT_RANGE_NATS, Floats, Ints, Mask
from stageguard.errors import InputError, warn
from stageguard.guard import kernels
from stageguard.guard.automaton import Automaton, compile_automaton, compile_tables, weigh
from stageguard.guard.kernels import reference
from stageguard.guard.solver import prior_nats
from stageguard.nn.losses import Batch, SequenceLoss, at_least_single, explain_not_finite, explain_targets
from stageguard.nn.pytorch import Tensor, nn, outside_graph, torch
from stageguard.profile.profile import Profile, as_profile

# Far above any sum of transition scores, and small enough not to cost their digits.
_MISMATCH_NATS = 1e6

_NEARLY = 100  # steps of the power method


class Pieces(NamedTuple):
    """Which epochs of a batch (batch, epochs) are scored, and where pieces of recordings begin."""

    kept: Mask | None  # (batch * epochs,) whether scored; None if all are
    first: Ints  # (n_pieces,) first epoch of each piece, counted in scored epochs
    sequence: Ints  # (n_pieces,) sequence of each piece


def cut_pieces(shape: tuple[int, int], scored: Mask | None, segment_ids: Ints | None) -> Pieces:
    """Return the runs of scored epochs, cut where the segment changes."""
    n_sequences, n_epochs = shape
    if scored is None and segment_ids is None:
        index = np.arange(n_sequences)
        return Pieces(None, index * n_epochs, index)
    counted = np.ones(shape, dtype=bool) if scored is None else scored
    begins = counted.copy()
    begins[:, 1:] &= ~counted[:, :-1]
    if segment_ids is not None:
        begins[:, 1:] |= counted[:, 1:] & (segment_ids[:, :-1] != segment_ids[:, 1:])
    kept = counted.ravel()
    return Pieces(kept, np.flatnonzero(begins.ravel()[kept]), np.flatnonzero(begins.ravel()) // n_epochs)


@dataclass(frozen=True, slots=True)
class Lattice:
    """A profile's automaton at one transition weight, split into learnable scores and the rest."""

    automaton: Automaton
    scores: Floats  # (n_stages, n_stages) nats; staying is on the diagonal; 0 where forbidden
    base: Floats  # (n_edges,) weight of an edge without its score; -inf where forbidden
    pair: Ints  # (n_edges,) index of an edge's score: row * n_stages + column
    final: Floats  # (1, n_states)
    reach_epochs: float  # number of worst epochs by which a state can lag behind the best one

    @classmethod
    def of(cls, profile: Profile, epoch_seconds: float, transition_weight: float) -> Lattice:
        """Compile a profile to a lattice."""
        a = compile_automaton(profile, epoch_seconds)
        tables = compile_tables(profile, epoch_seconds)
        n = profile.scheme.n_stages
        scores = weigh(tables.change, transition_weight)
        np.fill_diagonal(scores, weigh(tables.stay, transition_weight))
        forbidden = scores == -np.inf
        scores[forbidden] = 0.0
        target = np.repeat(np.arange(a.n_states), np.diff(a.first))
        pair = (a.stage[a.source].astype(np.int64) * n + a.stage[target]).astype(np.int64)
        base = weigh(a.scaled, transition_weight) + a.fixed - scores.ravel()[pair]
        longest = int(max(tables.minimum_epochs.max(), a.age_epochs.max()))
        hops = n - 1 if forbidden.any() else 1
        final = weigh(a.final, transition_weight)[None]
        return cls(a, scores, base, pair, final, float(hops * (longest + 1) + longest))

    def weights(self, scores: Floats | None) -> Floats:
        """Return the weight of every edge (1, n_edges), with these scores or by default the profile's."""
        weight: Floats = self.base + (self.scores if scores is None else scores).ravel()[self.pair]
        return weight[None]

    def nearest_paths(self, labels: Ints, first: Ints, weight: Floats) -> tuple[Mask, Floats]:
        """Return in which epochs the nearest allowed path differs, and its transition score per piece.

        The nearest path differs from the labels in the fewest epochs and, among such paths, has the highest
        score.
        """
        if self.automaton.n_states == len(self.scores):  # a plain chain: a path is allowed if its steps are
            chain = np.full(self.scores.size, -np.inf)
            chain[self.pair] = weight[0]
            steps = np.zeros(len(labels))
            steps[1:] = chain[labels[:-1] * len(self.scores) + labels[1:]]
            steps[first] = 0.0
            if steps.min() > -np.inf:
                return np.zeros(len(labels), dtype=bool), np.add.reduceat(steps, first)
        a = self.automaton
        costs = np.full((len(labels), len(self.scores)), -_MISMATCH_NATS)
        costs[np.arange(len(labels)), labels] = 0.0
        rules = (a.stage, a.first, a.source, weight[0], a.initial, self.final[0])
        paths = [kernels.active.automaton(piece, *rules) for piece in np.split(costs, first[1:])]
        scores = [score for _, score in paths]
        if min(scores) == -np.inf:
            n_epochs = np.diff([*first, len(labels)])[np.argmin(scores)]
            raise InputError(
                f"no path of {n_epochs} epochs obeys the profile's forbidden transitions, bout lengths and "
                "minimum bouts. Give every transition that may occur a probability above 0, or shorten "
                "min_bout_seconds."
            )
        return np.concatenate([path for path, _ in paths]) != labels, np.array(scores)

    def sums(
        self, pieces: list[Floats], weight: Floats, spread: float, want_edges: bool
    ) -> tuple[Floats, Floats, Floats]:
        """Return log-partitions (n,), stage marginals of all epochs, and expected uses of each edge.

        `spread` is the largest difference between the stages of an epoch. Hundreds of nats would underflow in
        the compiled kernel's products; the reference kernel, which works with logarithms, takes over then.
        """
        a = self.automaton
        worst = spread + float(np.abs(weight[weight > -np.inf]).max(initial=0.0))
        kernel = kernels.active if worst * self.reach_epochs <= PRODUCT_RANGE_NATS else reference
        result: tuple[Floats, Floats, Floats] = kernel.forward_backward(
            pieces, np.zeros(len(pieces), dtype=np.int32), a.stage, a.first, a.source, weight,
            a.initial[None], self.final, want_edges, kernels.threads_for(len(pieces)),
        )  # fmt: skip
        return result

    def uses(self, edges: Floats) -> Floats:
        """Return the number of uses of each score (n_stages, n_stages) from the uses of each edge."""
        flat: Floats = np.bincount(self.pair, weights=edges, minlength=self.scores.size).astype(np.float64)
        return flat.reshape(self.scores.shape)

    def normalised(self, scores: Floats) -> Floats:
        """Return transition probabilities that score paths alike, up to a constant and the two ends."""
        forbidden = np.ones(scores.size, dtype=bool)
        forbidden[self.pair[self.base > -np.inf]] = False
        allowed = np.where(forbidden.reshape(scores.shape), -np.inf, scores)
        ends = np.zeros(len(scores))  # log of the leading right eigenvector of exp(scores)
        for _ in range(_NEARLY):  # close enough that the rest can be exponentiated
            ends = np.logaddexp.reduce(allowed + ends, axis=1)
            ends -= ends.max()
            if not np.isfinite(ends).all():
                raise InputError("some stage cannot be left: its transitions cannot be made probabilities.")
        balanced = allowed + ends - ends[:, None]
        odds = np.exp(balanced - balanced.max())
        values, vectors = np.linalg.eig(odds)
        leading = np.abs(vectors[:, int(np.argmax(values.real))].real)
        if leading.min() <= 1e-9 * leading.max():
            raise InputError(
                "some stage cannot be reached: transitions into it cannot be made probabilities."
            )
        rows: Floats = odds * leading / leading[:, None]
        rows /= rows.sum(axis=1, keepdims=True)
        return rows


class Likelihood(NamedTuple):
    """Negative log-likelihood per sequence, and its derivatives."""

    value: Floats  # (batch,)
    by_evidence: Floats  # (batch, epochs, stages)
    by_scores: Floats | None  # (batch, stages, stages)


class Paths:
    """Evidence and labels of a batch under a lattice: one row per scored epoch, cut into pieces."""

    def __init__(
        self, lattice: Lattice, scores: Floats | None, evidence: Floats, labels: Ints, where: Pieces
    ) -> None:
        self.lattice = lattice
        self.where = where
        self.shape = evidence.shape
        rows, stages = evidence.reshape(-1, evidence.shape[-1]), labels.ravel()
        self.rows = rows if where.kept is None else rows[where.kept]  # (n_epochs, n_stages)
        self.labels = stages if where.kept is None else stages[where.kept]  # (n_epochs,)
        self.spread = float(self.rows.max() - self.rows.min())
        self.weight = lattice.weights(scores)
        self.freed, self.transition_scores = lattice.nearest_paths(self.labels, where.first, self.weight)
        self.n_epochs = len(self.labels)
        self.n_freed = int(np.count_nonzero(self.freed))

    def negative_log_likelihood(self, *, want_edges: bool) -> Likelihood:
        """Return log Z minus the log of the sum over paths that agree with the labels, per sequence."""
        n_sequences, _, n_stages = self.shape
        first, sequence = self.where.first, self.where.sequence
        pieces = np.split(self.rows, first[1:])
        total, expected, edges = self.lattice.sums(pieces, self.weight, self._row_spread(), want_edges)
        at = np.arange(self.n_epochs)
        observed = np.add.reduceat(self.rows[at, self.labels], first) + self.transition_scores
        expected[at[~self.freed], self.labels[~self.freed]] -= 1.0
        by_scores = None
        if want_edges:
            by_scores = np.zeros((n_sequences, n_stages, n_stages))
            np.add.at(by_scores, sequence, [self.lattice.uses(piece) for piece in edges])
            by_scores -= self._pair_counts()
        for i in np.flatnonzero(np.logical_or.reduceat(self.freed, first)):
            observed[i] = self._free(pieces[i], int(first[i]), int(sequence[i]), expected, by_scores)
        value: Floats = np.bincount(sequence, weights=total - observed, minlength=n_sequences).astype(
            np.float64
        )
        if self.where.kept is None:
            return Likelihood(value, expected.reshape(self.shape), by_scores)
        by_evidence = np.zeros(self.shape)
        by_evidence.reshape(-1, n_stages)[self.where.kept] = expected
        return Likelihood(value, by_evidence, by_scores)

    def _row_spread(self) -> float:
        # the range of all rows together is an upper bound of each row's range, and usually small enough
        if self.spread < 50.0:
            return self.spread
        return float((self.rows.max(axis=1) - self.rows.min(axis=1)).max())

    def _pair_counts(self) -> Floats:
        """Return how often the labels use each score (batch, stages, stages)."""
        n_sequences, _, n = self.shape
        joined = np.ones(self.n_epochs, dtype=bool)
        joined[self.where.first] = False
        joined = joined[1:]
        lengths = np.diff([*self.where.first, self.n_epochs])
        sequence = np.repeat(self.where.sequence, lengths)[1:][joined]
        code = (sequence * n + self.labels[:-1][joined]) * n + self.labels[1:][joined]
        return np.bincount(code, minlength=n_sequences * n * n).reshape(n_sequences, n, n).astype(np.float64)

    def _free(
        self, piece: Floats, begin: int, sequence: int, gradient: Floats, by_scores: Floats | None
    ) -> float:
        """Sum over the freed labels of a piece: correct the gradients, and return the log of the sum."""
        free, labels = self.freed[begin : begin + len(piece)], self.labels[begin : begin + len(piece)]
        n_stages = piece.shape[1]
        is_labelled = np.arange(n_stages) == labels[:, None]
        clamped = np.where(is_labelled | free[:, None], piece, -np.inf)
        total, observed, edges = self.lattice.sums(
            [clamped], self.weight, self._row_spread(), by_scores is not None
        )
        gradient[begin : begin + len(piece)][free] -= observed[free]
        if by_scores is not None:
            pairs = np.bincount(labels[:-1] * n_stages + labels[1:], minlength=n_stages * n_stages)
            by_scores[sequence] += pairs.reshape(n_stages, n_stages) - self.lattice.uses(edges[0])
        return float(total[0])


# If a larger share of labels contradicts the profile, it is the wrong profile for them.
_MANY_FREED = 0.10


class SemiMarkovParts(NamedTuple):
    """The loss, and how many labels it uses.

    Attributes
    ----------
    total : Tensor
        The loss; call ``backward`` on it.
    n_epochs : int
        Number of scored epochs.
    n_freed : int
        Number of scored epochs whose label contradicts the model and was taken as unknown.
    """

    total: Tensor
    n_epochs: int
    n_freed: int


class SemiMarkovLoss(SequenceLoss[SemiMarkovParts]):
    """Exact negative log-likelihood of the scored stages under the constrained model.

    The model is that of the decoder: p(path) = exp(score(path)) / Z, with the score that `stageguard.decode`
    maximises (evidence, transitions, minimum bouts, bout lengths, flip-flop window) and Z the sum over
    every path that the profile allows. Temperature, biases and prior of the profile apply as in `decode`.
    Evidence is not clipped, so that a confident mistake still has a gradient.

    A label that fits no allowed path, such as one epoch of a stage whose bouts last at least two, would have
    probability zero. In that case as few labels as possible are taken as unknown and summed over; among
    equally few, those that leave the likeliest path. `parts` has their number, and a warning is given once if
    they are more than a tenth. To train on such labels as they are, drop the minimum bouts:
    ``SemiMarkovLoss(profile.replace(min_bout_seconds=None))``.

    Parameters
    ----------
    profile : Profile or str
        A profile or its name.
    learn_transitions : bool
        Whether the transition scores are a parameter that starts at the profile's scores. `learned_profile`
        returns the learned transitions as a profile. Forbidden transitions stay forbidden.
    transition_weight : float, optional
        Weight of the transitions. Default: the profile's, or 1 if the profile sets it per recording.
    epoch_seconds : float, optional
        Length of an epoch. Default: the profile's.
    reduction : "mean", "sum" or "none"
        The mean over scored epochs, the sum, or the sum per sequence of the batch.
    check_values : bool
        As in `StageGuardLoss`. This loss is computed on the CPU and waits for the device in any case.

    Attributes
    ----------
    transition_scores : Parameter (stages, stages)
        With `learn_transitions`: nats from the row's stage to the column's; staying is on the diagonal.
    assumed : tuple of str
        Differences between this model and the profile.

    Examples
    --------
    >>> loss = SemiMarkovLoss("human-psg-5")
    >>> loss(logits, targets).backward()  # targets: -1 or -100 where an epoch is not scored
    """

    def __init__(
        self,
        profile: Profile | str,
        learn_transitions: bool = False,
        *,
        transition_weight: float | None = None,
        epoch_seconds: float | None = None,
        reduction: Literal["mean", "sum", "none"] = "mean",
        check_values: bool = True,
    ) -> None:
        super().__init__()
        self.profile = as_profile(profile)
        self.check_values = checks.flag(check_values, "check_values")
        self.reduction = checks.choice(reduction, "reduction", ("mean", "sum", "none"))
        seconds = self.profile.epoch_seconds if epoch_seconds is None else checks.epoch_seconds(epoch_seconds)
        self.assumed: tuple[str, ...] = ()
        weight = self.profile.transition_weight
        if transition_weight is not None:
            weight = checks.number(transition_weight, "transition_weight", low=0.0)
        elif weight is None:
            weight = 1.0
            self.assumed += ("transition weight 1: the profile sets it per recording, when decoding",)
        flip = self.profile.flip_flop
        if flip.penalty_nats > 0 and flip.method == "greedy":
            self.assumed += ("the flip-flop window is exact: the greedy pass exists for decode only",)
        self._lattice = Lattice.of(self.profile, seconds, weight)
        self._has_warned = False
        if checks.flag(learn_transitions, "learn_transitions"):
            scores = torch.tensor(self._lattice.scores, dtype=torch.get_default_dtype())
            self.transition_scores: nn.Parameter | None = nn.Parameter(scores)
        else:
            self.register_parameter("transition_scores", None)

    @outside_graph  # NumPy and the compiled core do the work
    def parts_of(self, batch: Batch) -> SemiMarkovParts:
        """Return the loss in nats; each run of epochs that count is treated as a whole recording."""
        evidence = self._evidence(batch.logits)
        paths = self._read(evidence, batch)
        n_epochs, n_freed = (0, 0) if paths is None else (paths.n_epochs, paths.n_freed)
        if paths is None:
            nll = self._without_paths(evidence, batch)
        else:
            apply: Callable[..., Tensor] = _NegativeLogLikelihood.apply
            nll = apply(evidence, self.transition_scores, paths)  # (batch,)
            self._warn_of_many(paths)
        if self.reduction == "mean":
            nll = nll.sum() / max(n_epochs, 1)
        elif self.reduction == "sum":
            nll = nll.sum()
        return SemiMarkovParts(nll.to(at_least_single(batch.logits).dtype), n_epochs, n_freed)

    def _without_paths(self, evidence: Tensor, batch: Batch) -> Tensor:
        """Return 0 per sequence (batch,) if no epoch is scored, else NaN; the gradients are the same."""
        is_empty = not (batch.scored | batch.wrong).any()
        summed = evidence.masked_fill(~batch.scored[..., None], 0.0).sum((1, 2))
        if self.transition_scores is not None:
            summed = summed + self.transition_scores.sum()
        return summed * (0.0 if is_empty else math.nan)

    def _evidence(self, logits: Tensor) -> Tensor:
        """Return the decoder's evidence, up to a constant per epoch that does not change the loss."""
        calibration, prior = self.profile.calibration, prior_nats(self.profile)
        evidence = logits.double()
        if calibration.temperature != 1.0:
            evidence = evidence / calibration.temperature
        for biases in (calibration.biases, prior):
            if biases is not None:
                evidence = evidence + torch.tensor(biases, dtype=torch.float64, device=logits.device)
        return evidence

    def _read(self, evidence: Tensor, batch: Batch) -> Paths | None:
        """Return the paths of a batch; None if no epoch is scored, or values are wrong and not checked."""
        scheme = self.profile.scheme
        if _array(batch.wrong).any():
            if self.check_values:
                raise explain_targets(batch, scheme)
            return None
        scored = _array(batch.scored)
        if not scored.any():
            return None
        scores = None if self.transition_scores is None else self._learned_scores()
        if scores is not None and not np.isfinite(scores).all():
            if self.check_values:
                raise self._explain_scores(scores)
            return None
        ids = None if batch.segment_ids is None else _array(batch.segment_ids)
        paths = Paths(
            self._lattice,
            scores,
            np.ascontiguousarray(_array(evidence)),
            _array(batch.targets),
            cut_pieces(scored.shape, None if scored.all() else scored, ids),
        )
        if not math.isfinite(paths.spread):
            if self.check_values:
                raise explain_not_finite(paths.spread, evidence, batch.scored, scheme)
            return None
        return paths

    def _learned_scores(self) -> Floats:
        """Return the transition scores (stages, stages)."""
        if self.transition_scores is None:
            raise InputError("no transitions were learned: make the loss with learn_transitions=True.")
        scores: Floats = self.transition_scores.detach().cpu().double().numpy()
        return scores

    def _explain_scores(self, scores: Floats) -> InputError:
        row, column = np.argwhere(~np.isfinite(scores))[0]
        source, target = self.profile.scheme.names[row], self.profile.scheme.names[column]
        return InputError(
            f"transition_scores: {scores[row, column]:g} from {source} to {target}, expected finite "
            "numbers. Lower the learning rate."
        )

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

        Scores become probabilities through their leading eigenvector. Every path keeps its score up to a
        constant and a term for the stages at its two ends, so that `decode` decides alike.
        """
        scores = self._learned_scores()
        if not np.isfinite(scores).all():
            raise self._explain_scores(scores)
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
        """Return profile, number of states and options, for `repr`."""
        learned = ", transitions learned" if self.transition_scores is not None else ""
        states = self._lattice.automaton.n_states
        return f"{self.profile.name!r}, {states} states{learned}, reduction={self.reduction!r}"


def _array(values: Tensor) -> Any:
    if values.is_meta:
        raise InputError("logits are on the meta device, which keeps no numbers, expected a real device.")
    try:
        return values.detach().cpu().numpy()
    except RuntimeError as error:  # the tensors that torch.func passes have no numbers of their own
        raise InputError(
            "SemiMarkovLoss is computed outside torch, so that torch.func and torch.export cannot take "
            "it. Call backward() on it, or use StageGuardLoss."
        ) from error


class _NegativeLogLikelihood(torch.autograd.Function):
    """Negative log-likelihood per sequence; its gradient is expected minus observed counts."""

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
        each = gradient[:, None, None]  # (batch, 1, 1)
        if by_scores is None:
            return by_evidence * each, None, None
        summed = (by_scores * each.to(by_scores)).sum(0)  # (stages, stages)
        return by_evidence * each, summed.to(ctx.scores_dtype), None

"""Several experts' scorings of one night: their consensus, their soft agreement, a stager's rank among them.

A scorer who agrees more with the others counts for more.

Soft agreement after Warby et al. 2014 (doi 10.1038/nmeth.2855) and Guillot et al. 2020 (doi
10.1109/TNSRE.2020.3011181): at each epoch, the value of a scorer's stage is its share of the other scorers'
votes, divided by the share of the most voted stage. The soft agreement of a scorer is the mean over epochs: 1
for a scorer who always sides with most of the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from stageguard import checks
from stageguard.arrays import ComparedByValue, Floats, Ints, Labels
from stageguard.errors import InputError, StageGuardError
from stageguard.measures.agreement import cohen_kappa
from stageguard.measures.bouts import ScoredNight, contingency, expert_of, hypnogram_of
from stageguard.measures.samples import mean_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import UNSCORED, Hypnogram

Method = Literal["soft-agreement", "majority"]

# A scorer disagrees with all if the mean kappa with the others is lower than theirs by more than this: over
# the 25 nights of DOD-H, that of its five scorers is at most .07 lower; on two of the nights, one is.
DISAGREES = 0.3
LEAST_CHANGES = 10  # of stage: scorings with fewer may be equal by chance


def consensus(experts: Sequence[Hypnogram], method: Method = "soft-agreement") -> Hypnogram:
    """Merge several experts' scorings of one night into one hypnogram.

    Parameters
    ----------
    experts : sequence of Hypnogram
        Two or more scorings of the same epochs. Finer schemes are merged into the coarsest.
    method : {"soft-agreement", "majority"}
        Both take the most voted stage. A tie goes, by ``soft-agreement``, to the scorer with the highest
        soft agreement among those who voted for a tied stage; by ``majority`` it is left unscored.

    Returns
    -------
    Hypnogram
        Unscored where nobody scored. Its scorer is "consensus of 5 scorers (soft-agreement)".

    Notes
    -----
    An unscored epoch is no vote. Guillot et al. give every tie to the first-ranked scorer, even if that
    scorer voted for neither tied stage; here the next-ranked scorer who voted for one of them decides.

    Examples
    --------
    >>> import stageguard as sg
    >>> scorings = [sg.read_hypnogram(list(stages)) for stages in ("WNRR", "WNNR", "WNNR")]
    >>> sg.consensus(scorings).stages.tolist()
    ['W', 'N', 'N', 'R']
    """
    checks.choice(method, "method", get_args(Method))
    labels, first = _panel(experts)
    votes = _votes(labels, first.scheme.n_stages)  # (n_epochs, n_stages)
    merged = votes.argmax(axis=1).astype(np.int8)
    most = votes.max(axis=1)
    tied = (votes == most[:, None]).sum(axis=1) > 1
    # so far nobody decides; the best scorers do below, one after the other
    merged[tied] = UNSCORED
    if method == "soft-agreement":
        epochs = np.arange(len(merged))
        # a scorer who shares no epoch with the others decides last
        agreements = np.nan_to_num(_soft_agreements(labels, first.scheme.n_stages), nan=-1.0)
        for chosen in labels[np.argsort(-agreements, kind="stable")]:  # of equals, the first in the list
            decides = tied & (merged == UNSCORED) & (chosen >= 0) & (votes[epochs, chosen] == most)
            merged[decides] = chosen[decides]
    merged[most == 0] = UNSCORED
    who = f"consensus of {len(labels)} scorers ({method})"
    return replace(first, labels=merged, scorer=who, assumed=())


def soft_agreement(experts: Sequence[Hypnogram]) -> tuple[float, ...]:
    """Return the soft agreement of each scorer of one night with the others: 0 to 1, NaN without overlap."""
    labels, first = _panel(experts)
    return _soft_agreements(labels, first.scheme.n_stages)


def scorer_kappas(experts: Sequence[Hypnogram]) -> Floats:
    """Return Cohen's kappa of each pair of scorers, (n_scorers, n_scorers); NaN on the diagonal."""
    labels, first = _panel(experts)
    return _kappas(labels, first.scheme.n_stages)


def disagreeing(kappas: Floats) -> list[int]:
    """Return the scorers whose kappa with the others is far below that of the others with one another.

    That is by more than `DISAGREES`, in the mean. Of two scorers none can be told from the other.
    """
    found = []
    for scorer in range(len(kappas)):
        # only the pairs without this scorer say how well the others agree
        others = np.arange(len(kappas)) != scorer
        own, theirs = mean_of(kappas[scorer, others]), mean_of(kappas[np.ix_(others, others)].ravel())
        if own < theirs - DISAGREES:
            found.append(scorer)
    return found


def refuse_copies(experts: Sequence[Hypnogram | None], *stager: Hypnogram | None) -> None:
    """Refuse one scoring given as that of two experts, or of an expert and the stager."""
    seen: dict[tuple[object, ...], str] = {}
    for index, night in enumerate((*experts, *stager)):
        if night is None:
            continue
        labels = night.labels[: np.max(np.flatnonzero(night.labels >= 0), initial=-1) + 1]
        if np.count_nonzero(np.diff(labels)) < LEAST_CHANGES:
            continue
        is_expert = index < len(experts)
        who = f"expert {index + 1}" if is_expert else "the stager"
        first = seen.setdefault((night.scheme.names, night.epoch_seconds, labels.tobytes()), who)
        if first != who:
            raise InputError(f"{first} and {who} are one scoring, expected each scorer's own. Leave one out.")


def _kappas(labels: Labels, n_stages: int) -> Floats:
    kappas = np.full((len(labels), len(labels)), np.nan)
    for i, j in combinations(range(len(labels)), 2):
        kappas[i, j] = kappas[j, i] = cohen_kappa(contingency(labels[i], labels[j], n_stages))
    return kappas


@dataclass(frozen=True, slots=True, eq=False)
class AmongExperts(ComparedByValue):
    """A stager's agreement with each expert, and the experts' with one another, as means over nights.

    The stager's soft agreement is the mean over panels that leave one scorer out: all panels have one size.
    """

    scorers: tuple[str, ...]
    n_nights: int
    kappa: tuple[float, ...]  # of the stager with each scorer
    accuracy: tuple[float, ...]  # the same
    mean_kappa: float  # of the stager with the scorers
    soft_agreement: float  # of the stager
    scorer_kappa: tuple[float, ...]  # of each scorer, mean with the other scorers
    scorer_soft_agreement: tuple[float, ...]

    @property
    def reason(self) -> str:
        """Why the stager has no place among the scorers, else empty."""
        if not math.isnan(self.mean_kappa) and self._scorer_kappas():
            return ""
        whom = "the stager with the scorers" if math.isnan(self.mean_kappa) else "the scorers"
        nothing = "they share no scored epochs, or hold one and the same stage throughout"
        return f"kappa of {whom} does not exist: {nothing}"

    @property
    def rank(self) -> int | None:
        """Rank by mean kappa, 1 for the best of the scorers and the stager; None without a kappa."""
        return None if self.reason else 1 + sum(other > self.mean_kappa for other in self._scorer_kappas())

    @property
    def place(self) -> Literal["below", "inside", "above"] | None:
        """Where the stager's mean kappa lies in the range of the scorers'; None without a kappa."""
        if self.reason:
            return None
        kappas = self._scorer_kappas()
        if min(kappas) <= self.mean_kappa <= max(kappas):
            return "inside"
        return "below" if self.mean_kappa < min(kappas) else "above"

    def __str__(self) -> str:
        """Return the finding as one sentence."""
        if self.reason:
            return f"No place among {len(self.scorers)} scorers: {self.reason}."
        kappas, n = self._scorer_kappas(), len(self.scorers)
        others = "" if len(kappas) == n else f" ({n - len(kappas)} of them without kappa)"
        return (
            f"Mean kappa with {n} scorers{others} {self.mean_kappa:.3f}, {self.place} the scorers' range "
            f"({min(kappas):.3f} to {max(kappas):.3f}): rank {self.rank} of {len(kappas) + 1}."
        )

    def _scorer_kappas(self) -> list[float]:
        return [kappa for kappa in self.scorer_kappa if not math.isnan(kappa)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        keys = ("scorer", "stager_kappa", "stager_accuracy", "kappa_with_others", "soft_agreement")
        columns = self.scorers, self.kappa, self.accuracy, self.scorer_kappa, self.scorer_soft_agreement
        return {
            "n_nights": self.n_nights,
            "mean_kappa": self.mean_kappa,
            "soft_agreement": self.soft_agreement,
            "rank": self.rank,
            "of": len(self._scorer_kappas()) + 1,
            "place": self.place,
            "reason": self.reason,
            "scorers": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)],
        }


def among_experts(
    experts: Sequence[Hypnogram] | Sequence[Sequence[Hypnogram]],
    night: ScoredNight | Sequence[ScoredNight],
) -> AmongExperts:
    """Compare a stager with each of several experts, and its agreement with theirs.

    Parameters
    ----------
    experts : list of Hypnogram, or a list of such lists
        Two or more scorings of each night; for several nights by the same scorers in the same order.
    night : Hypnogram or Decoding, or a list of either
        The stager's scoring of one night, or of several.

    Returns
    -------
    AmongExperts
        The stager's kappa with each scorer and its place in the range of the scorers with one another.

    Examples
    --------
    >>> import stageguard as sg
    >>> experts = [sg.read_hypnogram(list(stages)) for stages in ("WWNNRR", "WNNNRR", "WWNNNR")]
    >>> sg.among_experts(experts, sg.read_hypnogram(list("WWNNRR"))).kappa
    (1.0, 0.75, 0.75)
    """
    nights: Sequence[Any] = night if isinstance(night, list | tuple) else [night]
    panels: Any = experts if night is nights else [experts]
    if not isinstance(panels, list | tuple) or len(panels) != len(nights) or not nights:
        raise InputError(f"experts are {checks.shown(experts)}, expected a list of scorings per night.")
    compared = []
    for number, (scored, panel) in enumerate(zip(nights, panels, strict=True)):
        try:
            if not isinstance(panel, list | tuple):
                raise InputError(f"experts are {checks.shown(panel)}, expected a list of hypnograms, first.")
            compared.append(_compare(hypnogram_of(scored), [expert_of(each) for each in panel]))
        except StageGuardError as error:
            raise InputError(f"night {number}: {error}" if len(nights) > 1 else str(error)) from None
    sizes = [len(each.scorers) for each in compared]
    if len(set(sizes)) > 1:
        raise InputError(f"nights have {min(sizes)} to {max(sizes)} experts, expected the same on all.")
    means: dict[str, Any] = {}
    names = "kappa accuracy scorer_kappa scorer_soft_agreement mean_kappa soft_agreement"
    for name in names.split():
        mean = mean_of(np.array([getattr(each, name) for each in compared]), axis=0).tolist()
        means[name] = tuple(mean) if isinstance(mean, list) else mean
    return AmongExperts(scorers=compared[0].scorers, n_nights=len(compared), **means)


def _compare(night: Hypnogram, panel: Sequence[Hypnogram]) -> AmongExperts:
    """Compare one night."""
    if len(panel) < 2:
        raise InputError(f"got {len(panel)} expert, expected two or more to compare among themselves.")
    labels, first = _panel([*panel, night])
    refuse_copies(panel)
    n_stages = first.scheme.n_stages
    kappas = _kappas(labels, n_stages)
    accuracies = [_accuracy(scored, labels[-1]) for scored in labels[:-1]]
    # each scorer is judged by a panel without that scorer, so the stager's panels must lose one, too
    rest = [np.delete(labels[:-1], j, axis=0) for j in range(len(panel))]
    without_one = [_soft_agreement(labels[-1], others, n_stages) for others in rest]
    return AmongExperts(
        scorers=tuple(scoring.scorer or f"scorer {i + 1}" for i, scoring in enumerate(panel)),
        n_nights=1,
        kappa=tuple(kappas[-1, :-1].tolist()),
        accuracy=tuple(accuracies),
        mean_kappa=float(mean_of(kappas[-1, :-1])),
        soft_agreement=float(mean_of(np.array(without_one))),
        scorer_kappa=tuple(mean_of(kappas[:-1, :-1]).tolist()),
        scorer_soft_agreement=_soft_agreements(labels[:-1], n_stages),
    )


def _accuracy(first: Labels, second: Labels) -> float:
    both = (first >= 0) & (second >= 0)
    return float(np.mean(first[both] == second[both])) if both.any() else float("nan")


def _panel(experts: Any) -> tuple[Labels, Hypnogram]:
    """Return labels (n_scorers, n_epochs) in one scheme, and the first hypnogram, which describes them."""
    if not isinstance(experts, list | tuple) or len(experts) < 2:
        raise InputError(f"got {checks.shown(experts)}, expected two or more scorings of one night.")
    scorings = [hypnogram_of(scoring) for scoring in experts]
    # whoever scored fewer stages sets what can be compared
    coarsest = min((scoring.scheme for scoring in scorings), key=lambda scheme: scheme.n_stages)
    merged = [on_epochs_of(scorings[0], scoring).merge(coarsest) for scoring in scorings]
    return np.stack([scoring.labels for scoring in merged]), merged[0]


def _votes(labels: Labels, n_stages: int) -> Ints:
    """Return how many scorers chose each stage: (n_epochs, n_stages)."""
    return np.asarray((labels[:, :, None] == np.arange(n_stages)).sum(axis=0))


def _soft_agreement(chosen: Labels, others: Labels, n_stages: int) -> float:
    """Return one scorer's soft agreement with others, over the epochs that it and any of them scored."""
    votes = _votes(others, n_stages)
    most = votes.max(axis=1)
    # epochs that none of the others scored cannot be agreed with
    both = (chosen >= 0) & (most > 0)
    if not both.any():
        return float("nan")
    return float(np.mean(votes[both, chosen[both]] / most[both]))


def _soft_agreements(labels: Labels, n_stages: int) -> tuple[float, ...]:
    scorers = np.arange(len(labels))
    return tuple(_soft_agreement(labels[j], labels[scorers != j], n_stages) for j in scorers)

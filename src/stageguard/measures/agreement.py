"""Agreement of a night with an expert's scoring of the same epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, ComparedByValue, Floats, Ints, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import TOLERANCE_EPOCHS, ScoredNight, contingency, expert_of, hypnogram_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Agreement(ComparedByValue):
    """How far a night agrees with an expert. NaN fields have their reason in `reasons`."""

    scheme: StageScheme  # the stages compared, the coarser scheme of the two
    n_epochs: int  # that both scored
    n_left_out: int  # the others, which do not count
    accuracy: float  # share of `n_epochs` with the same stage, 0 to 1
    majority_stage: str | None  # the expert's most frequent one
    majority_accuracy: float  # of scoring only that stage
    kappa: float  # Cohen's, unweighted
    f1: Mapping[str, float]  # of every stage, 0 to 1; NaN for a stage that neither scored
    macro_f1: float  # mean of the stages that have one
    confusion: Ints = field(repr=False)  # epochs by the expert's stage (rows) and the night's (columns)
    pairs: Pairs  # which stage changes count as rare
    n_rare: int  # rare changes that the expert scored
    rare_recall_0: float  # share of them that the night has at the same epoch
    rare_recall_2: float  # or within two epochs of it
    reasons: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        numbers = "n_epochs n_left_out accuracy kappa macro_f1 majority_stage majority_accuracy n_rare"
        names = f"{numbers} rare_recall_0 rare_recall_2".split()
        return {name: getattr(self, name) for name in names} | {
            "f1": dict(self.f1),
            "pairs": [list(pair) for pair in self.pairs],
            "stages": list(self.scheme.names),
            "confusion": self.confusion.tolist(),
            "reasons": dict(self.reasons),
        }


def agreement(
    expert: Hypnogram, night: ScoredNight, *, pairs: Iterable[tuple[str, str]] | None = None
) -> Agreement:
    """Compare a night with an expert's scoring, over the epochs both scored.

    Parameters
    ----------
    expert : Hypnogram
        The expert's scoring.
    night : Hypnogram or Decoding
        The night to compare with it, epoch by epoch. If one scheme is finer, it is merged into the other.
    pairs : iterable of pairs of str, optional
        Stage changes whose recall to report, such as ``[("W", "R")]``; by default the ``tvr_pairs`` of the
        decoding's profile.

    Returns
    -------
    Agreement
        Accuracy and that of the majority stage, kappa, F1 over the whole scheme, confusion, rare recall.

    Raises
    ------
    InputError
        The two differ in length or epoch length, neither scheme can be merged into the other, or the expert
        is a stager's output: then the two are swapped.

    Examples
    --------
    >>> import stageguard as sg
    >>> expert = sg.Hypnogram([0, 0, 1, 1], "ws2", 30)
    >>> sg.agreement(expert, sg.Hypnogram([0, 1, 1, 1], "ws2", 30)).kappa
    0.5
    """
    scoring = expert_of(expert)
    compared = hypnogram_of(night)
    reference = on_epochs_of(compared, scoring)
    scheme = common_scheme(reference.scheme, compared.scheme)
    truth, labels = reference.merge(scheme).labels, compared.merge(scheme).labels
    rare = merged_pairs(night.profile, scheme) if isinstance(night, Decoding) else ()
    if pairs is not None:
        rare = tuple(_pair(pair, scheme) for pair in pairs)
    both = (truth >= 0) & (labels >= 0)
    n_epochs = int(np.count_nonzero(both))
    confusion = contingency(truth, labels, scheme.n_stages)
    # results are read-only, and share their arrays
    confusion.flags.writeable = False
    # F1 is twice the hits over this sum, so that no division by a precision of 0 occurs
    scored = confusion.sum(axis=0) + confusion.sum(axis=1)  # 2 TP + FP + FN
    f1 = {
        name: float(2 * confusion[label, label] / scored[label])
        for label, name in enumerate(scheme.names)
        if scored[label]
    }
    reasons = {f"f1_{name}": f"neither scored {name}" for name in scheme.names if name not in f1}
    recalled = _recall(truth, labels, both, [(scheme.index(a), scheme.index(b)) for a, b in rare])
    n_rare = len(recalled[0])
    kappa = cohen_kappa(confusion)
    if not n_epochs:
        nothing = ("accuracy", "kappa", "macro_f1", "majority_accuracy")
        reasons |= dict.fromkeys(nothing, "no epoch is scored by both")
    # agreement by chance is then complete, and nothing is left to exceed it
    elif np.isnan(kappa):
        reasons["kappa"] = "both scored one and the same stage only"
    if not n_rare:
        why = "the expert scored none of the pairs" if rare else "no pairs are named: give pairs=[('W', 'R')]"
        reasons |= {"rare_recall_0": why, "rare_recall_2": why}
    # what anybody would get who scores one stage all night
    commonest = int(confusion.sum(axis=1).argmax())
    return Agreement(
        scheme=scheme,
        n_epochs=n_epochs,
        n_left_out=len(truth) - n_epochs,
        accuracy=float(np.trace(confusion)) / n_epochs if n_epochs else NAN,
        majority_stage=scheme.names[commonest] if n_epochs else None,
        majority_accuracy=float(confusion[commonest].sum()) / n_epochs if n_epochs else NAN,
        kappa=kappa,
        f1={name: f1.get(name, NAN) for name in scheme.names},
        macro_f1=float(np.mean(list(f1.values()))) if f1 else NAN,
        confusion=confusion,
        pairs=rare,
        n_rare=n_rare,
        rare_recall_0=float(np.mean(recalled[0])) if n_rare else NAN,
        rare_recall_2=float(np.mean(recalled[1])) if n_rare else NAN,
        reasons=reasons,
    )


def common_scheme(a: StageScheme, b: StageScheme) -> StageScheme:
    """Return the scheme into which both can be merged."""
    if a == b:
        return a
    # stages can be merged but not split, so the coarser scheme decides
    fine, coarse = (a, b) if a.n_stages >= b.n_stages else (b, a)
    fine.merge_map(coarse)  # raises an error that names the stage without a counterpart
    return coarse


def merged_pairs(profile: Profile, scheme: StageScheme) -> Pairs:
    """Return a profile's uncommon transitions in a coarser scheme."""
    fine = profile.scheme
    merge = range(fine.n_stages) if fine == scheme else fine.merge_map(scheme)
    rare = [(fine.index(a), fine.index(b)) for a, b in profile.tvr_pairs]
    common = {(i, j) for i in range(fine.n_stages) for j in range(fine.n_stages) if i != j} - set(rare)
    # A merged pair is rare only if all pairs merged into it are: W to N3 is, W to NREM is not.
    spoilt = {(merge[i], merge[j]) for i, j in common}
    merged = dict.fromkeys((merge[i], merge[j]) for i, j in rare)
    return tuple((scheme.names[i], scheme.names[j]) for i, j in merged if i != j and (i, j) not in spoilt)


def _pair(pair: object, scheme: StageScheme) -> tuple[str, str]:
    names = [scheme.names[scheme.index(stage)] for stage in pair] if isinstance(pair, list | tuple) else []
    if len(names) != 2 or names[0] == names[1]:
        raise InputError(f"a rare pair is {checks.shown(pair)}, expected two stages such as ('W', 'R').")
    return names[0], names[1]


def cohen_kappa(confusion: Ints) -> float:
    """Return Cohen's unweighted kappa of a confusion matrix; NaN if both scored only one stage or nothing."""
    return float(cohen_kappas(confusion[None])[0])


def cohen_kappas(confusions: Ints) -> Floats:
    """Return Cohen's unweighted kappa of each of several confusion matrices; see `cohen_kappa`."""
    n_epochs = confusions.sum(axis=(1, 2))
    met = (confusions.sum(axis=1) * confusions.sum(axis=2)).sum(axis=1)
    by_chance = met / np.maximum(n_epochs, 1)
    # where chance explains everything, kappa is 0 / 0
    beyond = np.where(by_chance == n_epochs, NAN, n_epochs - by_chance)
    return np.asarray((np.trace(confusions, axis1=1, axis2=2) - by_chance) / beyond)


LEAST_GAIN = 0.2  # in kappa, by which another night's scoring fits better
MOST_COMPARED = 20  # nights of the lowest kappa


def swapped_words(names: Sequence[str], pairs: Sequence[tuple[Hypnogram, Hypnogram] | None]) -> list[str]:
    """Return a remark if the experts' scorings of some nights fit one another's nights clearly better.

    `pairs` are an expert's scoring and the night; None of a night without a scoring. Only the nights of the
    lowest kappa are compared with one another.
    """
    known = {name: pair for name, pair in zip(names, pairs, strict=True) if pair is not None}
    own = {name: _kappa_of(*pair) for name, pair in known.items()}
    low = sorted((name for name in known if own[name] == own[name]), key=own.__getitem__)[:MOST_COMPARED]
    found: dict[str, tuple[str, float]] = {}
    for name in low:
        fits = {other: _kappa_of(known[other][0], known[name][1]) for other in low}
        best = max(fits, key=lambda other: np.nan_to_num(fits[other], nan=-1.0))
        if fits[best] >= own[name] + LEAST_GAIN:
            found[name] = best, fits[best]
    # a bad night may fit another by chance; swapped nights fit one another's
    while lost := [name for name, (best, _) in found.items() if best not in found]:
        for name in lost:
            del found[name]
    said = [
        f"{name} fits that of {best} (κ {own[name]:.2f} → {fit:.2f})" for name, (best, fit) in found.items()
    ]
    words = f"experts' scorings may be swapped: {', '.join(said)}. Check the names of the files"
    return [words] if said else []


def _kappa_of(expert: Hypnogram, night: Hypnogram) -> float:
    """Return kappa over the epochs that both have; NaN if their stages cannot be compared."""
    try:
        scheme = common_scheme(expert.scheme, night.scheme)
        one, other = (each.merge(scheme).labels for each in (expert, night))
    except InputError:
        return NAN
    n = min(len(one), len(other))
    return cohen_kappa(contingency(one[:n], other[:n], scheme.n_stages))


def stage_kappas(confusion: Ints) -> Floats:
    """Return Cohen's kappa of each stage against all others; NaN where chance explains everything."""
    both = np.diagonal(confusion)
    first, second, n_epochs = confusion.sum(axis=1), confusion.sum(axis=0), confusion.sum()
    apart = [[both, first - both], [second - both, n_epochs - first - second + both]]
    return cohen_kappas(np.moveaxis(np.array(apart), -1, 0))


def _recall(truth: Labels, labels: Labels, both: Mask, pairs: list[tuple[int, int]]) -> tuple[Mask, Mask]:
    """Return, for each rare pair of the expert, whether the night has it there, and nearby."""
    exact, nearby = [np.zeros(0, dtype=bool)], [np.zeros(0, dtype=bool)]
    for a, b in pairs:
        expected = (truth[:-1] == a) & (truth[1:] == b) & both[:-1] & both[1:]
        there = (labels[:-1] == a) & (labels[1:] == b)
        near = there.copy()
        # a pair found an epoch or two away was seen, but placed differently
        for shift in range(1, min(TOLERANCE_EPOCHS, len(there) - 1) + 1):
            near[shift:] |= there[:-shift]
            near[:-shift] |= there[shift:]
        exact.append(there[expected])
        nearby.append(near[expected])
    return np.concatenate(exact), np.concatenate(nearby)

"""Variants: the ways from a network's probabilities to stages that a study compares, and their numbers.

Rules are learned per fold. A network trained with cross-entropy is guarded by everything that needs no
training, one trained with the penalty by the published rules and by parts of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stageguard.arrays import NAN, Labels
from stageguard.errors import StageGuardWarning
from stageguard.fitting.fit import fit
from stageguard.guard.decode import decode
from stageguard.measures.agreement import agreement
from stageguard.measures.bouts import bouts_of, pair_counts
from stageguard.measures.cohort import architecture, never_shown
from stageguard.measures.experts import among_experts
from stageguard.measures.validity import validity
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.study.config import BASE, StudyConfig
from stageguard.study.nights import StudyNight
from stageguard.study.store import ARGMAX, CALIBRATED, ERRORS, PAPER, RELEASED

LONGEST_BOUT = 8  # epochs, of the counts by length
CALIBRATION_SUBJECTS = 2  # with fewer, cross-validation is impossible and there is no calibrated guard


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything learned from one fold's training subjects."""

    paper: Profile  # the published rules, with transitions counted on the fold
    released: Profile | None  # the rules of the authors' code, which counts nothing
    base: Profile  # the start of the calibrated guard, with numbers counted on the fold
    shares: Mapping[str, float]  # of stages
    subjects: tuple[str, ...]  # on whom transitions and shares were counted
    calibrated: Profile | None = None
    calibrated_on: tuple[str, ...] = ()  # subjects on whom the calibrated guard was fitted


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to stages; without a profile, the most probable stage."""

    variant: str
    profile: Profile | None = None
    change: str = ""  # of the published rules
    value: float | None = None
    pair: str | None = None
    uses_quality: bool = False

    @property
    def way(self) -> dict[str, Any]:
        """The columns `store.WAY`."""
        return {"variant": self.variant, "change": self.change, "value": self.value, "pair": self.pair}

    def apply(
        self, densities: Sequence[Hypnodensity], nights: Sequence[StudyNight], stager: str
    ) -> list[Labels]:
        """Return the stages of nights, -1 where an epoch has no probabilities."""
        chosen = [density.argmax for density in densities]
        if self.profile is None:
            return chosen
        quality = [night.beta() for night in nights] if self.uses_quality else None
        options: dict[str, Any] = {"quality": quality} if quality and quality[0] is not None else {}
        options |= {"trained": "natural", "cohort": self.profile.cohort, "stager": stager}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # the rows have the changes
            decoded = decode(list(densities), self.profile, **options)
        pairs = zip(chosen, decoded, strict=True)
        return [np.where(before < 0, np.int8(-1), after.hypnogram.labels) for before, after in pairs]


def learn(config: StudyConfig, training: Sequence[StudyNight]) -> Learned:
    """Count transitions and shares on the training nights of a fold."""
    experts = [night.expert() for night in training]
    scored = np.concatenate([expert.labels[expert.labels >= 0] for expert in experts])
    counts = 1 + np.bincount(scored, minlength=config.scheme.n_stages)
    paper, base = (counted(experts, Profile.load(name)) for name in (config.guard.paper, config.guard.base))
    flip_flop = paper.to_dict().get("flip_flop")
    if flip_flop is not None:
        paper = paper.replace(flip_flop=flip_flop | {"penalty_nats": config.guard.flip_flop_nats})
    strength = base.to_dict().get("strength")
    if strength is not None and "fi_target" in strength:
        pairs = [pair_counts(expert.labels, config.scheme.n_stages) for expert in experts]
        target = float(np.mean([1 - np.trace(p) / p.sum() for p in pairs if p.sum()]))
        base = base.replace(strength=strength | {"fi_target": round(target, 6)})
    released = None if config.guard.released is None else Profile.load(config.guard.released)
    shares = dict(zip(config.scheme.names, (counts / counts.sum()).tolist(), strict=True))
    subjects = tuple(sorted({night.subject for night in training}))
    base = base if config.guard.clock else base.replace(clock=None)
    return Learned(paper, released, base, shares, subjects)


def counted(experts: Sequence[Hypnogram], base: Profile) -> Profile:
    """Return a profile with its transitions counted on nights as in the paper, and every rule kept.

    A probability is its share of the pairs of adjacent scored epochs that begin with its first stage,
    unsmoothed. A stage with which no pair begins keeps its row.
    """
    pairs = np.sum([pair_counts(o.labels, base.scheme.n_stages) for o in experts], axis=0)
    totals = pairs.sum(axis=1, keepdims=True)
    rows = np.where(totals > 0, pairs / np.maximum(totals, 1), base.transitions).tolist()
    names = base.scheme.names
    return base.replace(
        name=f"{base.name}-recounted",
        transitions={a: dict(zip(names, row, strict=True)) for a, row in zip(names, rows, strict=True)},
        provenance={"base": base.name, "transitions": "counted on the training nights of a fold"},
        **dict.fromkeys(("bands", "joint", "intervals")),  # of the nights counted before
    )


def calibrate(
    learned: Learned, densities: Sequence[Hypnodensity], nights: Sequence[StudyNight], stager: str
) -> Learned:
    """Fit the calibrated guard on nights of training subjects on which the network was not trained."""
    subjects = sorted({night.subject for night in nights})
    if len(subjects) < CALIBRATION_SUBJECTS:
        return learned
    experts, whose = [night.expert() for night in nights], [night.subject for night in nights]
    about: dict[str, Any] = {"base": learned.base, "subjects": whose, "cohort": "study", "stager": stager}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        fitted = fit(experts, list(densities), **about)
    return replace(learned, calibrated=fitted, calibrated_on=tuple(subjects))


def variants_of(loss: str, config: StudyConfig, learned: Learned) -> Iterator[Variant]:
    """Yield the variants of the network of one loss."""
    paper = learned.paper
    yield Variant(ARGMAX)
    if loss == BASE and learned.calibrated is not None:
        yield Variant(CALIBRATED, learned.calibrated)
    yield Variant(PAPER, paper, uses_quality=True)
    if learned.released is not None:
        yield Variant(RELEASED, learned.released)
    if loss == BASE and config.has_penalty:
        return  # parts and changes of the published rules are those of the network with the penalty
    for name, changes in ablations(paper).items():
        yield Variant(PAPER, paper.replace(**changes), name, uses_quality=True)
    yield Variant(PAPER, paper, "no quality")
    robust = config.robustness
    for epsilon in robust.rare_probabilities:
        relaxed = paper.replace(rare_probability=epsilon)
        yield Variant(PAPER, relaxed, "epsilon", epsilon, uses_quality=True)
    largest = max(robust.rare_probabilities, default=0.0)
    for one in paper.rare if largest else ():
        pairs = [(p.source, p.target, largest if p is one else p.probability) for p in paper.rare]
        pair = f"{one.source}→{one.target}"
        yield Variant(PAPER, paper.replace(rare=pairs), "relaxed", largest, pair, uses_quality=True)
    for scale in robust.minimum_scales:
        seconds = {stage: scale * value for stage, value in paper.min_bout_seconds.items()}
        scaled = paper.replace(min_bout_seconds={k: v for k, v in seconds.items() if v} or None)
        yield Variant(PAPER, scaled, "minimum x", scale, uses_quality=True)


def ablations(paper: Profile) -> dict[str, dict[str, Any]]:
    """Return changes of the published rules, by name."""
    flip_flop = paper.to_dict().get("flip_flop", {})
    return {
        "transitions alone": {"min_bout_seconds": None, "flip_flop": None},
        "no flip-flop": {"flip_flop": None},
        "no transitions": {"transition_weight": 0.0},
        "no minimum bouts": {"min_bout_seconds": None},
        "exact flip-flop": {"flip_flop": flip_flop | {"method": "exact"}},
    }


def measure(expert: Hypnogram, labels: Labels, pairs: Sequence[tuple[str, str]]) -> dict[str, float]:
    """Return agreement, validity and sleep architecture of a night, on the epochs that the expert scored.

    An error is what is shown less the expert's; REM that is never shown comes at the end: see `never_shown`.
    """
    scheme = expert.scheme
    night = replace(expert, labels=np.where(expert.labels < 0, np.int8(-1), labels))
    compared = agreement(expert, night, pairs=pairs)
    counted = pair_counts(night.labels, scheme.n_stages)
    n_pairs = int(counted.sum())
    n_rare = sum(int(counted[scheme.index(a), scheme.index(b)]) for a, b in pairs)
    row = {
        "n_epochs": float(compared.n_epochs),
        "accuracy": compared.accuracy,
        "kappa": compared.kappa,
        "macro_f1": compared.macro_f1,
        "fi": float(n_pairs - np.trace(counted)) / n_pairs if n_pairs else NAN,
        "tvr_percent": 100.0 * n_rare / n_pairs if n_pairs and pairs else NAN,
        "n_rare_expert": float(compared.n_rare),
        "rare_recall": compared.rare_recall_2,
        "rare_recall_exact": compared.rare_recall_0,
    }
    row |= {f"f1_{stage}": value for stage, value in compared.f1.items()}
    own, truth = architecture(night), architecture(expert)
    minutes = compared.n_epochs * expert.epoch_seconds / 60
    shown = {key: never_shown(key, minutes) if np.isnan(value) else value for key, value in own.items()}
    return row | own | {ERRORS[key]: shown[key] - truth[key] for key in truth}


def measure_panel(panel: Sequence[Hypnogram], labels: Labels | None) -> dict[str, float]:
    """Return the mean agreement of labels with several scorers; for None, of the scorers with each other."""
    if len(panel) < 2:
        return {}
    night = panel[0] if labels is None else replace(panel[0], labels=labels, scorer=None)
    compared = among_experts(panel, night)
    if labels is None:
        kappa, soft = np.nanmean(compared.scorer_kappa), np.nanmean(compared.scorer_soft_agreement)
        return {"scorers_kappa": float(kappa), "scorers_soft": float(soft)}
    return {"scorers_kappa": compared.mean_kappa, "scorers_soft": compared.soft_agreement}


def shape(expert: Hypnogram, labels: Labels, base: Profile) -> dict[str, Any]:
    """Return a night's joint score by a profile, and counts: pairs of epochs, and bouts by length.

    The counts of bouts are of 1 to `LONGEST_BOUT` epochs, and of longer ones.
    """
    scored = replace(expert, labels=np.where(expert.labels < 0, np.int8(-1), labels))
    lengths = np.minimum(bouts_of(labels).lengths, LONGEST_BOUT + 1)
    bouts = np.bincount(lengths, minlength=LONGEST_BOUT + 2)[1:].tolist()
    pairs = pair_counts(labels, expert.scheme.n_stages).ravel().tolist()
    return {"joint": validity(scored, base).joint.value, "pairs": pairs, "bouts": bouts}

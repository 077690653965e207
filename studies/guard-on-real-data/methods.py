"""The ways from probabilities to stages that the study compares. All learn from training nights only."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from tasks import Task, TaskNight

import stageguard as sg
from stageguard.fitting import cross_validation
from stageguard.fitting.candidates import (
    ARGMAX,
    MATCH_PRIOR_EXPONENTS,
    MATCH_REM_EPOCHS,
    Candidate,
    Recipe,
)
from stageguard.fitting.material import read_material
from stageguard.fitting.scoring import mean_over_subjects
from stageguard.guard import inputs

Decoder = Callable[[Sequence[TaskNight]], list[np.ndarray]]

# The paper has no profile for five stages; these are its rules for three with the minimum bouts of its text.
PAPER_5 = {
    "stay": "free",
    "ends": "paper",
    "transition_weight": 1.0,
    "rare": [["W", "R"], ["R", "N1"], ["R", "N2"], ["R", "N3"]],
    "rare_probability": 0.001,
    "min_bout_seconds": {"W": 60, "N1": 60, "N2": 90, "N3": 90, "R": 60},
    "flip_flop": {"penalty_nats": 2.0, "window_epochs": 5, "method": "greedy"},
}


def experts(task: Task, nights: Sequence[TaskNight]) -> list[sg.Hypnogram]:
    return [sg.Hypnogram(n.labels.astype(np.int8), task.scheme, task.epoch_seconds) for n in nights]


def argmax(nights: Sequence[TaskNight]) -> list[np.ndarray]:
    return [
        np.where(np.isnan(n.probabilities[:, 0]), -1, np.nan_to_num(n.probabilities).argmax(axis=1))
        for n in nights
    ]


def majority(nights: Sequence[TaskNight]) -> list[np.ndarray]:
    """Most frequent stage of three epochs; ties and epochs beside gaps keep their own."""
    smoothed = []
    for labels in argmax(nights):
        before, after = np.r_[-1, labels[:-1]], np.r_[labels[1:], -1]
        smoothed.append(np.where((before == after) & (before >= 0) & (labels >= 0), before, labels))
    return smoothed


def decoder(profile: sg.Profile, task: Task) -> Decoder:
    def run(nights: Sequence[TaskNight]) -> list[np.ndarray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            found = sg.decode(
                [n.probabilities for n in nights],
                profile,
                epoch_seconds=task.epoch_seconds,
                trained=task.trained,
            )
        own = argmax(nights)
        return [np.where(before < 0, -1, r.hypnogram.labels) for before, r in zip(own, found, strict=True)]

    return run


def matched(task: Task, train: Sequence[TaskNight]) -> sg.Profile:
    """Return `match` by the rule it was first described by: w and the shortest REM bout by inner
    cross-validation on kappa - 2 |FI - FI of the expert|, argmax where none keeps its kappa."""
    material = read_material(
        [n.probabilities for n in train],
        experts(task, train),
        sg.Profile.load(task.base),
        options=inputs.GuardOptions(epoch_seconds=task.epoch_seconds),
        groups=[n.subject for n in train],
    )
    recipe = Recipe(sg.Profile.load(task.base), task.epoch_seconds)
    candidates = [ARGMAX] + [
        Candidate("match", prior_exponent=w, rem_epochs=epochs)
        for epochs in (MATCH_REM_EPOCHS if task.scheme.rem else (1,))
        for w in MATCH_PRIOR_EXPONENTS
    ]
    folds = cross_validation.split(material, 5, 0)
    learned = [recipe.learn(part, biases=False) for part, _ in folds]
    scores = cross_validation._evaluate(folds, learned, recipe, candidates, material)
    subjects = [night.subject for night in material.nights]
    kappa = mean_over_subjects(scores.kappa, subjects)
    value = mean_over_subjects(scores.kappa - 2.0 * scores.fi_distance, subjects)
    kept = [i for i in range(1, len(candidates)) if kappa[i] >= kappa[0]]
    chosen = candidates[max(kept, key=lambda i: value[i]) if kept else 0]
    return recipe.whole_profile(chosen, recipe.learn(material, biases=False))


def learn(task: Task, train: Sequence[TaskNight]) -> tuple[dict[str, Decoder], sg.Profile]:
    """Return every method by name, and the fitted profile."""
    scored = experts(task, train)
    subjects = [n.subject for n in train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        counted = sg.fit(None, scored, base=task.base, groups=subjects)
        fitted = sg.fit(
            [n.probabilities for n in train],
            scored,
            base=task.base,
            groups=subjects,
            cohort=task.cohort,
            epoch_seconds=task.epoch_seconds,
            learning_curve=False,
        )
    transitions = counted.to_dict()["transitions"]
    if task.paper is None:
        document = {k: v for k, v in counted.to_dict().items() if k not in ("strength", *PAPER_5)}
        paper = sg.Profile.from_dict(document | PAPER_5)
    else:
        paper = sg.Profile.load(task.paper).replace(transitions=transitions)
    hmm = counted.replace(transition_weight=1.0, min_bout_seconds=None, durations=None)
    methods = {
        "argmax": argmax,
        "majority of 3": majority,
        "HMM": decoder(hmm, task),
        "paper": decoder(paper, task),
        "shipped": decoder(sg.Profile.load(task.base), task),
        "band": decoder(counted, task),
        "match": decoder(matched(task, train), task),
        "fitted": decoder(fitted, task),
    }
    return methods, fitted

"""The ways from probabilities to stages that the study compares, as profiles."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from judging import fragmentation
from tasks import Task, TaskNight

import stageguard as sg
from stageguard.fitting.fit import FitReport
from stageguard.profile.rules import FEWEST_NIGHTS

EXPERTS = Path(__file__).parents[1] / "expert-scorings" / "results.json"

# The paper has no rules for five stages; these are those for three, with the minimum bouts of its mice, in
# epochs. Its text has 1 epoch of wake and 2 of sleep, as `kdd2026-psg-5` has.
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


def decode(
    profile: sg.Profile,
    task: Task,
    nights: Sequence[TaskNight],
    *,
    cohort: str | None = None,
    stager: str | None = None,
) -> list[np.ndarray]:
    """Return the stages of nights; without `cohort` and `stager`, neither counts as the profile's own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        results = sg.decode(
            given_to(profile, task, nights),
            profile,
            trained=task.trained,
            cohort=cohort,
            stager=stager,
        )
    return [
        np.where(before < 0, -1, result.hypnogram.labels)
        for before, result in zip(argmax(nights), results, strict=True)
    ]


def has_own_shares(profile: sg.Profile) -> bool:
    """Whether a profile was fitted to labels alone."""
    return profile.labels is not None and profile.labels.own is not None


def said(task: Task, nights: Sequence[TaskNight]) -> list[sg.Hypnogram]:
    """Return the labels of a stager that gives nothing else."""
    return [sg.Hypnogram(own.astype(np.int8), task.scheme, task.epoch_seconds) for own in argmax(nights)]


def given_to(
    profile: sg.Profile, task: Task, nights: Sequence[TaskNight]
) -> list[sg.Hypnogram] | list[sg.Hypnodensity]:
    """Return probabilities to decode; labels, if the profile knows the confusions of their stager."""
    if has_own_shares(profile):
        return said(task, nights)
    from_labels = {"labels": "typical", "published": "own"}.get(task.kind)
    return [
        sg.Hypnodensity(n.probabilities, task.scheme, task.epoch_seconds, from_labels=from_labels)
        for n in nights
    ]


def clock_of(task: Task) -> dict | None:
    """Return the shipped profile's clock, its curve counted without the task's own cohort."""
    clock = sg.Profile.load(task.base).to_dict().get("clock")
    if clock is None:
        return None
    without = json.loads(EXPERTS.read_text())["clock"][task.scheme.name]["curves_without"].get(task.cohort)
    if without is None:
        return clock
    return clock | {"curves": {name: without[name][: len(own)] for name, own in clock["curves"].items()}}


def shares_without(task: Task) -> dict:
    """Return the experts' shares of people, counted without the task's own cohort."""
    counted = json.loads(EXPERTS.read_text())["shares"][task.scheme.name]
    return {"cohorts": {name: own["mean_and_sd"] for name, own in counted.items() if name != task.cohort}}


def stager_fi(task: Task, nights: Sequence[TaskNight]) -> float:
    """Return the median fragmentation of the stager's own choice, at the shipped profile's epoch length."""
    ratio = sg.Profile.load(task.base).epoch_seconds / task.epoch_seconds
    return ratio * float(np.nanmedian([fragmentation(own) for own in argmax(nights)]))


def without_labels(task: Task, nights: Sequence[TaskNight]) -> dict[str, sg.Profile]:
    """Return the profiles that need no scored night, `tune` from the nights' own probabilities."""
    shipped, clock = sg.Profile.load(task.base), clock_of(task)
    target = shipped.to_dict()["strength"]
    if target["rule"] != "target":  # mice
        target = {"rule": "target", "fi_target": shipped.strength.fi_target}
    band = {"rule": "band", "fi_target": shipped.strength.fi_target, "floor": 0.5, "cap": 2.0}
    shares = None if shipped.shares is None else shares_without(task)
    tuned = sg.tune(
        given_to(shipped, task, nights),
        shipped.replace(strength=target, shares=shares),
        stager=task.stager,
        subjects=[night.subject for night in nights],
        trained=task.trained,
    )
    return {
        "band": shipped.replace(strength=band, clock=None),
        "clock": shipped.replace(strength=None, transition_weight=0.0, clock=clock),
        "target": shipped.replace(strength=target, clock=None),
        "tune": tuned.replace(clock=None),
        "clock + target": shipped.replace(strength=target, clock=clock),
        "clock + tune": tuned.replace(clock=clock),
    }


def with_labels(task: Task, train: Sequence[TaskNight]) -> dict[str, sg.Profile]:
    """Return the profiles that training nights give."""
    return {"paper": _paper(task, train), "fit": fit(task, train)}


def default(task: Task, train: Sequence[TaskNight]) -> sg.Profile:
    """Return what is done on nights of the task if nobody had scored the training nights."""
    base = sg.Profile.load(task.base).replace(clock=clock_of(task))
    if len(train) < FEWEST_NIGHTS:
        return base
    people = [night.subject for night in train]
    return sg.tune(given_to(base, task, train), base, subjects=people, stager=task.stager)


def fit(task: Task, train: Sequence[TaskNight]) -> sg.Profile:
    """Fit the shipped profile, its clock counted without the task's own cohort."""
    return fit_report(task, train).profile


def fit_report(task: Task, train: Sequence[TaskNight]) -> FitReport:
    """Fit and return all that was learned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        return sg.fit_report(
            experts(task, train),
            said(task, train) if task.kind == "labels" else [n.probabilities for n in train],
            base=sg.Profile.load(task.base).replace(clock=clock_of(task)),
            subjects=[n.subject for n in train],
            cohort=task.cohort,
            stager=task.stager,
            epoch_seconds=task.epoch_seconds,
            trained=task.trained,
        )


def _paper(task: Task, train: Sequence[TaskNight]) -> sg.Profile:
    """Return the paper's rules with transitions counted on training nights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        counted = sg.fit(experts(task, train), base=task.base, subjects=[n.subject for n in train])
    if task.paper is not None:
        return sg.Profile.load(task.paper).replace(transitions=counted.to_dict()["transitions"])
    kept = {k: v for k, v in counted.to_dict().items() if k not in ("strength", "clock", *PAPER_5)}
    return sg.Profile.from_dict(kept | PAPER_5)

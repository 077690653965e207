"""What smoothing does to the first REM of a night: which bouts it removes, and whether experts score them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np

import stageguard as sg
from stageguard.guard.clock import bridged_bouts

BOUT_MINUTES = (2.0, 3.0, 5.0, 8.0)
WINDOW_MINUTES = 10.0
EXPECTED_MINUTES = (1.0, 1.5, 2.0, 3.0)  # of REM in a window, by the probabilities
FROM_MINUTES = 40.0  # after sleep onset: before that, the clock decides


def smoothed(task, profile: sg.Profile, nights: Sequence) -> Iterator[tuple]:
    """Yield nights that the rule smoothed and experts scored REM in, and their decoding."""
    for night in nights:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            result = sg.decode(
                night.probabilities,
                profile,
                epoch_seconds=task.epoch_seconds,
                trained=task.trained,
                cohort=task.cohort,
                stager=task.stager,
            )
        has_sleep = (result.hypnogram.labels > 0).any()
        if result.strength.step == "lowered" and has_sleep and (night.labels == task.scheme.rem_index).any():
            yield night, result


def first_bouts(task, profile: sg.Profile, nights: Sequence) -> dict[str, dict[str, int]]:
    """Count first bouts of REM in argmax, those that smoothing removes whole, and those with an expert's REM.

    The clock is left out: it removes early REM on purpose. A single other epoch does not end a bout.
    """
    rem, found = task.scheme.rem_index, {}
    if rem is None:
        return found
    every = list(smoothed(task, profile.replace(clock=None), nights))
    for minutes in BOUT_MINUTES:
        count = found[f"{minutes:g}"] = {"nights": 0, "removed": 0, "scored": 0}
        for night, result in every:
            onset = int(np.flatnonzero(result.hypnogram.labels > 0)[0])
            bouts = bridged_bouts(result.argmax, (rem,), len(night.labels))
            least = minutes * 60.0 / task.epoch_seconds
            lasting = [bout for bout in bouts if bout.start >= onset and bout.stop - bout.start >= least]
            if lasting:
                first = slice(lasting[0].start, lasting[0].stop)
                is_removed = not (result.hypnogram.labels[first] == rem).any()
                count["nights"] += 1
                count["removed"] += is_removed
                count["scored"] += bool(is_removed and (night.labels[first] == rem).any())
    return found


def windows(task, profile: sg.Profile, nights: Sequence) -> dict[str, dict[str, int]]:
    """Count windows before the decoded REM in which the probabilities expect REM, and those with an expert's.

    They are what a rule could give back that looks at more than bouts of argmax: the first one of a night.
    """
    rem, found = task.scheme.rem_index, {}
    if rem is None:
        return found
    every = list(smoothed(task, profile, nights))
    per_minute = 60.0 / task.epoch_seconds
    n_window, n_from = round(WINDOW_MINUTES * per_minute), round(FROM_MINUTES * per_minute)
    for minutes in EXPECTED_MINUTES:
        count = found[f"{minutes:g}"] = {"nights": 0, "scored": 0}
        for night, result in every:
            labels = result.hypnogram.labels
            onset = int(np.flatnonzero(labels > 0)[0])
            decoded = np.flatnonzero(labels == rem)
            end = int(decoded[0]) if len(decoded) else len(labels)
            sums = np.convolve(np.nan_to_num(night.probabilities[:, rem]), np.ones(n_window), "valid")
            here = np.flatnonzero(sums[onset + n_from : max(0, end - n_window)] >= minutes * per_minute)
            if len(here):
                start = onset + n_from + int(here[0])
                count["nights"] += 1
                count["scored"] += bool((night.labels[start : start + n_window] == rem).any())
    return found

"""Find epoch length and missing epochs of a table from when its rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from stageguard.arrays import Floats, Indices
from stageguard.files import file_error
from stageguard.formats.night import Where
from stageguard.formats.tables.table import row_name

TIMING_COLUMNS = ("onset", "duration", "epoch")
TOLERANCE = 0.01  # of an epoch, because onsets are often rounded
SAID_ABOVE = 0.001  # of an epoch: a larger difference between onsets and durations is worth a remark
MOST_MISSING = 100_000  # epochs that one file may leave out


@dataclass(frozen=True, slots=True)
class RowTimes:
    """When rows are, in seconds from the recording's start, or from the first row if only a clock tells."""

    onset: Floats | None = None
    lasting: Floats | None = None  # duration; NaN if a row does not say
    epoch: Floats | None = None
    start: datetime | None = None  # date and time of second 0
    used: tuple[str, ...] = ()  # names of the columns that tell times
    notes: tuple[str, ...] = ()
    onset_name: str = "onset"
    length_name: str = "duration"  # of the column that says how long rows last


@dataclass(frozen=True, slots=True)
class Timing:
    """Epoch length, the columns that tell it, and the epoch of every row if some epochs are missing."""

    epoch_seconds: float | None = None
    source: str = ""
    places: Indices | None = None
    notes: tuple[str, ...] = ()
    offset_seconds: float = 0.0  # from the recording's start to the first epoch
    start: datetime | None = None  # of the first epoch


def read_timing(
    path: Where,
    times: RowTimes,
    lines: Sequence[int] | None,
    *,
    given: float | None = None,
    missing: str = "read as without evidence",
    fills_lead: bool = True,
) -> Timing:
    """Return epoch length and gaps of rows that are one epoch each; refuse anything but forward steps.

    Onsets count from the recording's start. Skipped epochs are `missing`, and so are whole epochs before the
    first row if `fills_lead`. Columns that disagree are an error. Errors name rows by their `lines`, or count
    them from 0 without lines. With a single row, the epoch length is `given` by the caller.
    """
    lasting = times.lasting if times.lasting is not None and np.isfinite(times.lasting).all() else None
    n_rows = next((len(each) for each in (times.onset, lasting, times.epoch) if each is not None), 0)
    seconds = None if lasting is None else _one_duration(path, lasting, lines)
    source = "" if seconds is None else "duration column"
    by_column: dict[str, Indices] = {}
    name = times.onset_name
    if times.onset is not None and n_rows > 1:
        by_column[name], step = _epochs(path, name, times.onset, lines, seconds)
        source = f"{name} column" if seconds is None else f"{name} and {times.length_name} columns"
        seconds = step if seconds is None else seconds
    if times.epoch is not None and n_rows > 1:
        by_column["epoch"], _ = _epochs(path, "epoch", times.epoch, lines, 1.0)
    column, epochs = next(iter(by_column.items()), (name, np.zeros(min(n_rows, 1), dtype=np.intp)))
    apart = np.flatnonzero(epochs != by_column.get("epoch", epochs))
    if len(apart):
        row = int(apart[0])
        raise file_error(
            path,
            f"{row_name(lines, row)} is epoch {epochs[row]} by its {column} column and "
            f"{by_column['epoch'][row]} by its epoch column, counted from 0. Correct one, or leave it out.",
        )
    lead, offset = _lead(path, times, lines, seconds if seconds is not None else given)
    if not fills_lead and times.onset is not None:
        lead, offset = 0, max(float(times.onset[0]), 0.0)
    n_missing = int(epochs[-1]) + 1 - len(epochs) if len(epochs) else 0
    notes, owner = times.notes, f"the {'object' if lines is None else 'file'}'s {column} column"
    if lead:
        notes += (f"{lead:,} epoch{'s' * (lead != 1)} before the first row by {owner}: {missing}",)
    if n_missing:
        first = row_name(lines, int(np.argmax(np.diff(epochs) > 1)) + 1)
        many = f"{n_missing:,} epoch{'s' * (n_missing != 1)}"
        notes += (f"{many} missing by {owner} (first before {first}): {missing}",)
    start = None if times.start is None else times.start + timedelta(seconds=offset)
    return Timing(seconds, source, epochs + lead if lead or n_missing else None, notes, offset, start)


def _lead(
    path: Where, times: RowTimes, lines: Sequence[int] | None, seconds: float | None
) -> tuple[int, float]:
    """Return how many whole epochs precede the first row, and the seconds before the first epoch."""
    if times.onset is None and times.epoch is not None and times.epoch[0] not in (0.0, 1.0):
        raise file_error(
            path,
            f"{row_name(lines, 0)}, column 'epoch': begins with {times.epoch[0]:.10g}, expected 0 or 1. Add "
            "a column onset in seconds, or rows for the epochs before it.",
        )
    if times.onset is None or seconds is None or seconds <= 0:
        return 0, 0.0
    first = float(times.onset[0])
    with np.errstate(over="ignore"):
        n_before = np.float64(first) / seconds
    if not -TOLERANCE <= n_before <= MOST_MISSING:
        raise file_error(
            path,
            f"{row_name(lines, 0)}: begins at {first:.10g} s, expected seconds from the recording's start, "
            f"and at most {MOST_MISSING:,} epochs before it.",
        )
    lead = int(n_before + TOLERANCE)
    offset = first - lead * seconds
    return lead, 0.0 if abs(offset) <= TOLERANCE * seconds else offset


def durations_by_onsets(onsets: Floats, lasting: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return durations corrected to agree with the onsets, and a remark if they were off by over 0.1 %.

    This is for epochs of one length whose ends are a little early or late. Durations that are off by more
    than 1 % stay as they are, because they fit no grid of epochs.
    """
    steps = np.diff(onsets)
    seconds = float(lasting[0]) if len(steps) else 0.0
    alike = np.abs(lasting - seconds) <= 1e-6 * seconds
    if not seconds > 0 or not alike[:-1].all() or not steps.min() > 0:
        return lasting, ()
    shortest = float(steps.min())
    if not np.isfinite(shortest / seconds):  # durations near 0 fit no grid of epochs
        return lasting, ()
    n_epochs = np.rint(steps / (shortest / max(round(shortest / seconds), 1)))
    step = round(float(steps.sum() / n_epochs.sum()), 9)
    off = max(abs(seconds - step), float(np.abs(steps - n_epochs * step).max()))
    if off > TOLERANCE * step or abs(seconds - step) <= 1e-6 * step:  # the same apart from rounding
        return lasting, ()
    notes: tuple[str, ...] = ()
    if abs(seconds - step) > SAID_ABOVE * step:
        notes = (f"epochs last {seconds:g} s by their ends, but begin every {step:g} s: {step:g} s taken",)
    return np.where(alike, step, lasting), notes


def _one_duration(path: Where, durations: Floats, lines: Sequence[int] | None) -> float:
    different = np.flatnonzero(~(np.abs(durations - durations[0]) <= 1e-6 * abs(durations[0])))
    if len(different):
        row = int(different[0])
        raise file_error(
            path,
            f"{row_name(lines, row)} lasts {durations[row]:g} s and the first row {durations[0]:g} s. "
            "Expected one row per epoch, all of one length.",
        )
    if durations[0] <= 0:
        raise file_error(
            path, f"{row_name(lines, 0)}, column 'duration': expected seconds above 0, got {durations[0]:g}."
        )
    return float(durations[0])


def _epochs(
    path: Where, name: str, values: Floats, lines: Sequence[int] | None, step: float | None
) -> tuple[Indices, float]:
    """Return the epoch of every row, counted from the first, and the length of a step."""

    def refuse(row: int, problem: str) -> None:
        raise file_error(path, f"{row_name(lines, row)}, column {name!r}: {problem}")

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        steps = np.diff(values)
        typical = float(np.sort(steps)[(len(steps) - 1) // 2])
        step = typical if step is None else step
        jumps = np.rint(steps / step)
        odd = (jumps < 1) | (np.abs(steps / step - jumps) > TOLERANCE)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        expected = "expected a larger number. Sort the rows, and remove those that are there twice."
        refuse(row, f"{values[row]:.10g} comes after {values[row - 1]:.10g}, {expected}")
    if name == "epoch" and typical != 1:
        refuse(1, f"counts by {typical:.10g}, expected by 1. Name the column onset if it holds seconds.")
    if odd.any():
        row = int(np.argmax(odd)) + 1
        expected = f"expected {step:.10g} or a whole multiple. Give every epoch the same length."
        refuse(row, f"{values[row]:.10g} is {steps[row - 1]:.10g} after the row before, {expected}")
    if jumps.sum() - len(jumps) > MOST_MISSING:
        row = int(np.argmax(jumps)) + 1
        expected = f"expected at most {MOST_MISSING:,} missing epochs."
        refuse(row, f"{jumps[row - 1]:,.0f} epochs after the row before, {expected}")
    epochs = np.concatenate([[0], np.cumsum(jumps)]).astype(np.intp)
    mean, spread = float((values[-1] - values[0]) / epochs[-1]), float(np.ptp(steps / jumps))
    whole = float(round(mean))
    is_jittered = whole >= 1 and spread > 1e-6 and abs(mean - whole) <= min(TOLERANCE * whole, spread)
    return epochs, whole if is_jittered else round(mean, 6)

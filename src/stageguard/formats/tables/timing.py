"""What a table's onset, duration and epoch columns say about its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats, Indices
from stageguard.base.files import file_error
from stageguard.formats.density import Where

TIMING_COLUMNS = ("onset", "duration", "epoch")
TOLERANCE = 0.01  # of an epoch: onsets are often rounded
SAID_ABOVE = 0.001  # of an epoch: onsets and durations that differ by less are the same
MOST_MISSING = 100_000  # epochs that one file may leave out


@dataclass(frozen=True, slots=True)
class Timing:
    """Length of an epoch, the columns that tell it, and the place of every row where some are missing."""

    epoch_seconds: float | None = None
    source: str = ""
    places: Indices | None = None
    notes: tuple[str, ...] = ()
    offset_seconds: float = 0.0  # from the recording's start to the first epoch


def read_timing(
    path: Where,
    columns: Mapping[str, Floats],
    lines: Sequence[int] | None,
    *,
    given: float | None = None,
    onset_name: str = "onset",
    length_name: str = "duration",
    missing: str = "read as without evidence",
    fills_lead: bool = True,
) -> Timing:
    """Epoch length and gaps from the columns there are; anything but forward steps is refused.

    Onsets count from the recording's start. Epochs that are skipped are epochs without evidence, and so are
    whole ones before the first row, unless the night is known to begin there. Of two columns that disagree,
    neither is believed. Rows are named by their lines, and counted from 0 where there are no lines.

    Parameters
    ----------
    path : Path or str
        For the errors.
    columns : mapping of str to array
        Onset and duration in seconds, epoch as a count.
    lines : sequence of int or None
        Where each row stands.
    given : float, optional
        Epoch length the caller says, for the place of a single row.
    onset_name : str
        What the column of onsets is called.
    length_name : str
        What the column is called that says how long rows last.
    missing : str
        What missing epochs are, for the note.
    fills_lead : bool
        Whether whole epochs before the first row belong to the night.
    """
    n_rows = len(next(iter(columns.values()))) if columns else 0
    seconds = None
    if "duration" in columns:
        seconds = _one_duration(path, columns["duration"], lines)
    source = "" if seconds is None else "duration column"
    found: dict[str, Indices] = {}
    if "onset" in columns and n_rows > 1:
        found[onset_name], step = _places(path, onset_name, columns["onset"], lines, seconds)
        source = f"{onset_name} column" if seconds is None else f"{onset_name} and {length_name} columns"
        seconds = step if seconds is None else seconds
    if "epoch" in columns and n_rows > 1:
        found["epoch"], _ = _places(path, "epoch", columns["epoch"], lines, 1.0)
    if len(found) == 2:
        _refuse_disagreement(path, found, lines)
    lead, offset = _lead(path, columns, lines, seconds if seconds is not None else given)
    if not fills_lead and "onset" in columns:
        lead, offset = 0, max(float(columns["onset"][0]), 0.0)
    places = next(iter(found.values())) if found else np.zeros(min(n_rows, 1), dtype=np.intp)
    column = next(iter(found), onset_name)
    notes = _missing_notes(places, lines, column, missing, lead)
    if len(places) and lead + int(places[-1]) + 1 > max(n_rows, 1):
        return Timing(seconds, source, places + lead, notes, offset)
    return Timing(seconds, source, None, notes, offset)


def _lead(
    path: Where, columns: Mapping[str, Floats], lines: Sequence[int] | None, seconds: float | None
) -> tuple[int, float]:
    """Return how many epochs are before the first row, and seconds from the start to the first epoch."""
    if "onset" not in columns:
        first = float(columns["epoch"][0]) if "epoch" in columns else 0.0
        if first not in (0.0, 1.0):
            raise file_error(
                path,
                f"{row_name(lines, 0)}, column 'epoch': begins with {first:.10g}, expected 0 or 1, so that "
                "the epochs before it are known. Add a column onset in seconds, or rows for those epochs.",
            )
        return 0, 0.0
    first = float(columns["onset"][0])
    if seconds is None or seconds <= 0:
        return 0, 0.0
    if first < -TOLERANCE * seconds:
        raise file_error(
            path,
            f"{row_name(lines, 0)}: begins at {first:.10g} s, before the recording. Expected times from 0.",
        )
    with np.errstate(over="ignore"):
        n_before = np.float64(first) / seconds
    if n_before > MOST_MISSING:
        raise file_error(
            path,
            f"{row_name(lines, 0)}: begins at {first:.10g} s, {n_before:,.0f} epochs after the start. "
            f"Expected at most {MOST_MISSING:,}. Count seconds from the start of the recording.",
        )
    lead = int(n_before + TOLERANCE)
    offset = first - lead * seconds
    return lead, 0.0 if abs(offset) <= TOLERANCE * seconds else offset


def _missing_notes(
    places: Indices,
    lines: Sequence[int] | None,
    column: str,
    missing: str,
    lead: int,
) -> tuple[str, ...]:
    """Say which epochs have no row."""
    notes = []
    owner = "the object" if lines is None else "the file"
    if lead:
        notes.append(
            f"{lead:,} epoch{'s' * (lead != 1)} before the first row by {owner}'s {column} column: {missing}"
        )
    n_missing = int(places[-1]) + 1 - len(places) if len(places) else 0
    if n_missing > 0:
        line = row_name(lines, int(np.argmax(np.diff(places) > 1)) + 1)
        notes.append(
            f"{n_missing:,} epoch{'s' * (n_missing != 1)} missing by {owner}'s {column} column (first before "
            f"{line}): {missing}"
        )
    return tuple(notes)


def durations_by_onsets(onsets: Floats, lasting: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return durations that agree with onsets, which decide, and a remark where they are off by over 0.1 %.

    This is about epochs of one length whose ends are told a little early or late. What differs by more than
    1 % is left as it is: no grid of epochs has room for it.
    """
    steps = np.diff(onsets)
    seconds = float(lasting[0]) if len(steps) else 0.0
    alike = np.abs(lasting - seconds) <= 1e-6 * seconds
    if not seconds > 0 or not alike[:-1].all() or not steps.min() > 0:
        return lasting, ()
    shortest = float(steps.min())
    if not np.isfinite(shortest / seconds):  # durations next to nothing, which no grid of epochs has
        return lasting, ()
    n_epochs = np.rint(steps / (shortest / max(round(shortest / seconds), 1)))
    step = round(float(steps.sum() / n_epochs.sum()), 9)
    if abs(seconds - step) <= 1e-6 * step:  # the same but for the last digits, which stay as they are
        return lasting, ()
    if abs(seconds - step) > TOLERANCE * step or (np.abs(steps - n_epochs * step) > TOLERANCE * step).any():
        return lasting, ()
    notes: tuple[str, ...] = ()
    if abs(seconds - step) > SAID_ABOVE * step:
        notes = (f"epochs last {seconds:g} s by their ends, but begin every {step:g} s: {step:g} s taken",)
    return np.where(alike, step, lasting), notes


def row_name(lines: Sequence[int] | None, row: int) -> str:
    """Return what a row is called in a message."""
    return f"row {row}" if lines is None else f"line {lines[row]}"


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


def _places(
    path: Where, name: str, values: Floats, lines: Sequence[int] | None, step: float | None
) -> tuple[Indices, float]:
    """Place of every row, counted in epochs from the first, and the length of a step."""
    with np.errstate(over="ignore"):
        steps = np.diff(values)
    back = np.flatnonzero(steps <= 0)
    if len(back):
        row = int(back[0]) + 1
        raise file_error(
            path,
            f"{row_name(lines, row)}, column {name!r}: {values[row]:.10g} comes after "
            f"{values[row - 1]:.10g}, expected a larger number. Sort the rows, and remove those that are "
            "there twice.",
        )
    typical = float(np.sort(steps)[(len(steps) - 1) // 2])
    if name == "epoch" and typical != 1:
        raise file_error(
            path,
            f"{row_name(lines, 1)}, column 'epoch': counts by {typical:.10g}, expected by 1. Name the column "
            "onset if it holds seconds.",
        )
    step = typical if step is None else step
    with np.errstate(over="ignore", invalid="ignore"):
        jumps = np.rint(steps / step)
        odd = np.flatnonzero((jumps < 1) | (np.abs(steps / step - jumps) > TOLERANCE))
    if len(odd):
        row = int(odd[0]) + 1
        raise file_error(
            path,
            f"{row_name(lines, row)}, column {name!r}: {values[row]:.10g} is {steps[row - 1]:.10g} after the "
            f"row before, expected {step:.10g} or a whole multiple. Give every epoch the same length.",
        )
    if jumps.sum() - len(jumps) > MOST_MISSING:
        row = int(np.argmax(jumps)) + 1
        raise file_error(
            path,
            f"{row_name(lines, row)}, column {name!r}: {jumps[row - 1]:,.0f} epochs after the row before. "
            f"Expected at most {MOST_MISSING:,} missing epochs. Is the number right?",
        )
    places = np.concatenate([[0], np.cumsum(jumps)]).astype(np.intp)
    return places, _even(float((values[-1] - values[0]) / places[-1]), steps / jumps)


def _even(mean: float, steps: Floats) -> float:
    """Return the mean length of a step; the whole number of seconds it is where times are jittered."""
    whole = float(round(mean))
    spread = float(np.ptp(steps))
    if whole >= 1 and spread > 1e-6 and abs(mean - whole) <= min(TOLERANCE * whole, spread):
        return whole
    return round(mean, 6)


def _refuse_disagreement(path: Where, found: Mapping[str, Indices], lines: Sequence[int] | None) -> None:
    (one, first), (other, second) = found.items()
    apart = np.flatnonzero(first != second)
    if len(apart):
        row = int(apart[0])
        raise file_error(
            path,
            f"{row_name(lines, row)} is epoch {first[row]} by its {one} column and {second[row]} by its "
            f"{other} column, counted from 0. Correct one, or leave it out.",
        )

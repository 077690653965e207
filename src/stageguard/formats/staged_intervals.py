"""From stages with onset and duration to one per epoch; what fits no grid, or another stage, is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats, Ints
from stageguard.base.errors import Argument
from stageguard.base.files import file_error
from stageguard.formats.density import LONGEST_EPOCH, MOST_EPOCHS, SHORTEST_EPOCH
from stageguard.formats.hypnogram import RawHypnogram
from stageguard.formats.tables.timing import durations_by_onsets
from stageguard.night.stages import UNSCORED_NAME

USUAL_SECONDS = (30.0, 20.0)  # epochs of AASM and of Rechtschaffen and Kales; runs of equal stages are joined
TOLERANCE = 0.01  # of an epoch: onsets are often rounded
LONGEST_SECONDS = 62 * 86_400.0
LONGEST_GUESS = 60.0  # equal durations beyond this are joined epochs rather than epochs
SHORTEST_GUESS = 1.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A stage between two times; `seconds` is None where it lasts until the next one."""

    onset: float
    seconds: float | None
    stage: str


def stage_epochs(
    path: Path,
    intervals: Sequence[Interval],
    epoch_seconds: float | None = None,
    *,
    may_be_cut: bool = False,
    end_seconds: float | None = None,
) -> RawHypnogram:
    """Put intervals on a grid of epochs; what none covers is unscored.

    Without `epoch_seconds` epochs are what onsets and durations are multiples of. Only the last interval may
    end within an epoch, which is then dropped, with a note; so is a first one that begins within an epoch if
    it `may_be_cut`, since recordings are cropped. A last stage without a duration lasts until `end_seconds`.
    """
    ordered = sorted(intervals, key=lambda interval: interval.onset)
    onsets = np.array([interval.onset for interval in ordered])
    if not np.isfinite(onsets).all() or onsets[0] < -SHORTEST_GUESS or onsets[-1] > LONGEST_SECONDS:
        worst = onsets[0] if onsets[0] < 0 else onsets[-1]
        raise file_error(
            path,
            f"has a stage at {worst:g} s, expected times from 0 to {LONGEST_SECONDS:g} s. Is it damaged?",
        )
    lasting = _durations(path, ordered, onsets)
    lasting, notes = _until_end(onsets, lasting, end_seconds)
    lasting, told = durations_by_onsets(onsets, lasting)
    notes += told
    if may_be_cut:
        n_cut, onsets, lasting, epoch_seconds, cut = _without_cut(onsets, lasting, epoch_seconds)
        notes += cut
        ordered = ordered[n_cut:]
    if epoch_seconds is None:
        epoch_seconds = _grid_seconds(path, onsets, lasting)
        notes += (f"epochs last {epoch_seconds:g} s: what its stages' times are multiples of",)
    if not SHORTEST_EPOCH <= epoch_seconds <= LONGEST_EPOCH:
        raise file_error(
            path,
            f"an epoch lasts {epoch_seconds:g} s, expected {SHORTEST_EPOCH:g} to {LONGEST_EPOCH:g} s.",
        )
    lasting = np.where(np.isnan(lasting), epoch_seconds, lasting)
    offset = float(max(onsets[0], 0.0) % epoch_seconds)
    if min(offset, epoch_seconds - offset) <= TOLERANCE * epoch_seconds:
        offset = 0.0
    first, end = _places(path, onsets - offset, lasting, epoch_seconds)
    stages = _filled(path, ordered, first, end, onsets)
    left = float((onsets - offset + lasting).max() - end.max() * epoch_seconds)
    if left > TOLERANCE * epoch_seconds:
        notes += (f"its last {left:.6g} s are less than an epoch of {epoch_seconds:g} s: left out",)
    lines = tuple(range(1, len(stages) + 1))
    return RawHypnogram(stages, lines, epoch_seconds, offset_seconds=offset, notes=notes)


def _until_end(onsets: Floats, lasting: Floats, end_seconds: float | None) -> tuple[Floats, tuple[str, ...]]:
    """Return durations with that of a last stage that has none, where stages change, and a remark on it.

    Stages at equal distances are epochs, and so is the last of them.
    """
    steps = lasting[:-1]
    if not np.isnan(lasting[-1]) or (len(steps) > 1 and np.ptp(steps) <= TOLERANCE * steps[0]):
        return lasting, ()
    if end_seconds is None or not onsets[-1] < end_seconds <= LONGEST_SECONDS:
        return lasting, ("nothing says when the last stage ends: read as one epoch",)
    return np.append(steps, end_seconds - onsets[-1]), ("the last stage lasts until the recording's end",)


def _without_cut(
    onsets: Floats, lasting: Floats, epoch_seconds: float | None
) -> tuple[int, Floats, Floats, float | None, tuple[str, ...]]:
    """Return times from the first whole epoch on, where all but the first stage's fit a usual epoch length.

    That is: how many intervals are dropped, onsets, durations, the epoch length if that told it, and a note.
    """
    unchanged = (0, onsets, lasting, epoch_seconds, ())
    lengths = USUAL_SECONDS if epoch_seconds is None else (epoch_seconds,)
    rest = np.concatenate([np.diff(onsets[1:]), lasting[1:-1]])
    if not len(rest) or any(_fits(np.append(rest, lasting[0]), seconds) for seconds in lengths):
        return unchanged
    is_joined = abs(onsets[0] + lasting[0] - onsets[1]) <= TOLERANCE * lengths[-1]
    found = next((seconds for seconds in lengths if _fits(rest, seconds)), None)
    if found is None or not is_joined:
        return unchanged
    cut = float(lasting[0] % found)
    note = f"its first {cut:.6g} s are less than an epoch of {found:g} s: left out"
    onsets, lasting = onsets.copy(), lasting.copy()
    onsets[0] += cut
    lasting[0] -= cut
    n_cut = int(lasting[0] <= TOLERANCE * found)
    return n_cut, onsets[n_cut:], lasting[n_cut:], found, (note,)


def _fits(steps: Floats, seconds: float) -> bool:
    """Whether times are multiples of an epoch length."""
    return bool((np.abs(steps - np.rint(steps / seconds) * seconds) <= TOLERANCE * seconds).all())


def _durations(path: Path, ordered: Sequence[Interval], onsets: Floats) -> Floats:
    """Seconds of each interval; NaN for a last one that has none."""
    until_next = np.append(np.diff(onsets), np.nan)
    lasting = np.array(
        [until_next[i] if each.seconds is None else each.seconds for i, each in enumerate(ordered)]
    )
    bad = ~np.isnan(lasting) & ~((lasting > 0) & (lasting <= LONGEST_SECONDS))
    bad[:-1] |= np.isnan(lasting[:-1])
    if bad.any():
        where = int(np.argmax(bad))
        raise file_error(
            path,
            f"the stage at {onsets[where]:g} s lasts {lasting[where]:g} s, expected more than 0 and at most "
            f"{LONGEST_SECONDS:g} s.",
        )
    return lasting


def _grid_seconds(path: Path, onsets: Floats, lasting: Floats) -> float:
    """Epoch length that all times are multiples of."""
    known = lasting[~np.isnan(lasting)]
    if len(known) > 1 and np.ptp(known) <= 1e-6 * known[0] and SHORTEST_EPOCH <= known[0] <= LONGEST_GUESS:
        return float(known[0])
    steps = np.concatenate([np.diff(onsets), lasting[:-1]])
    if not len(steps):
        steps = known if len(known) else np.array([USUAL_SECONDS[0]])
    for seconds in USUAL_SECONDS:
        if _fits(steps, seconds):
            return seconds
    whole = np.rint(steps * 1000).astype(np.int64)
    guess = float(np.gcd.reduce(whole)) / 1000
    if not SHORTEST_GUESS <= guess <= LONGEST_GUESS:
        raise file_error(
            path,
            "its stages' times are multiples of no epoch length (the largest common one is "
            f"{guess:g} s). Give the epoch length: ",
            Argument("epoch_seconds", 30),
            ".",
        )
    return guess


def _places(path: Path, onsets: Floats, lasting: Floats, epoch_seconds: float) -> tuple[Ints, Ints]:
    """First epoch of each interval and the one after its last; times between two epochs are refused."""
    first, end = onsets / epoch_seconds, (onsets + lasting) / epoch_seconds
    first_place, end_place = np.rint(first).astype(np.int64), np.rint(end).astype(np.int64)
    odd = (np.abs(first - first_place) > TOLERANCE) | (np.abs(end - end_place) > TOLERANCE)
    odd |= first_place < 0
    last = int(np.argmax(end))
    if odd[last] and first_place[last] >= 0 and abs(first[last] - first_place[last]) <= TOLERANCE:
        odd[last] = False  # the recording stopped within the last epoch
        end_place[last] = int(end[last])
    if odd.any():
        where = int(np.argmax(odd))
        raise file_error(
            path,
            f"the stage from {onsets[where]:g} to {onsets[where] + lasting[where]:g} s does not begin and "
            f"end with an epoch of {epoch_seconds:g} s. Give the epoch length, or correct the file.",
        )
    if end_place.max() > MOST_EPOCHS:
        raise file_error(
            path, f"has {end_place.max():,} epochs of {epoch_seconds:g} s, expected at most {MOST_EPOCHS:,}."
        )
    return first_place, end_place


def _filled(
    path: Path, ordered: Sequence[Interval], first: Ints, end: Ints, onsets: Floats
) -> tuple[str, ...]:
    n_epochs = int(end.max())
    if n_epochs < 1:
        raise file_error(path, "has no stage that lasts a whole epoch.")
    names = [UNSCORED_NAME, *sorted({each.stage for each in ordered} - {UNSCORED_NAME})]
    codes = np.full(n_epochs, -1, dtype=np.int64)
    for each, low, high, onset in zip(ordered, first, end, onsets, strict=True):
        code = names.index(each.stage)
        part = codes[low:high]
        clash = (part >= 0) & (part != code)
        if clash.any():
            other = names[int(part[int(np.argmax(clash))])]
            raise file_error(
                path,
                f"the stage at {onset:g} s is {each.stage}, but another one there is {other}. Expected one "
                "stage per epoch. Are there two scorings in the file?",
            )
        part[:] = code
    return tuple(np.array(names)[np.maximum(codes, 0)].tolist())

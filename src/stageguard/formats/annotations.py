"""Sort texts with times into stages, put on a grid of epochs, and other annotations."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from statistics import median

import numpy as np

from stageguard.arrays import Floats, Ints
from stageguard.errors import warn
from stageguard.files import file_error
from stageguard.formats.density import LONGEST_EPOCH, MOST_EPOCHS, SHORTEST_EPOCH, listed
from stageguard.formats.hypnogram import STAGE_COLUMNS, UNSCORED_WORDS, is_stage, unknown_stage
from stageguard.formats.night import Event, Events, FileOptions, Night, RawHypnogram
from stageguard.formats.recordings.raw import LONGEST_SECONDS
from stageguard.formats.tables.table import Table, as_number
from stageguard.formats.tables.times import TOLERANCE, durations_by_onsets
from stageguard.night.stages import AASM5, UNSCORED_NAME, StageScheme, canonical_name

_PREFIX = re.compile(r"(sleep[ _])?stage\b", re.IGNORECASE)
_LONG_PREFIX = re.compile(r"sleep[ _]stage\b", re.IGNORECASE)
MOVING = ("Movement time", "Movement Time", "movement time", "MT", "mt")
BARE_UNSCORED = ("?", "unscored", "unknown", "undefined", "movement time", "mt")
MARKS = ("art", "artefact", "artifact", "movement")  # of an unscored epoch, or of a stretch within epochs
_NO_STAGES = (UNSCORED_WORDS | {"m", "u", "l", "g"}) - {*MARKS}  # read as unscored epochs
COARSE = frozenset(("N", "S"))  # alone, these may stand for something else
USUAL_SECONDS = (30.0, 20.0)  # epochs of AASM and of Rechtschaffen and Kales; runs of equal stages are joined
LONGEST_GUESS = 60.0  # longer equal durations are joined epochs rather than epochs
SHORTEST_GUESS = 1.0
CHANNEL_MARK = "@@"  # before the channel that EDF+ may append to a text

Chosen = tuple[Event, str | None]  # an annotation that is a stage, and its name if known


def stages_among(
    path: Path,
    annotations: Sequence[Event],
    options: FileOptions,
    *,
    start: datetime | None = None,
    only_stages: bool = False,
    expected: str = "texts such as 'Sleep stage W'",
    end_seconds: float | None = None,
    may_lack_end: bool = False,
) -> RawHypnogram:
    """Return the sleep stages among annotations in any order, whose onsets count from a recording's start.

    Stages without the words "Sleep stage" (W, N2, REM) count if no annotation has these words, or for whole
    epochs that no other stage covers. Unknown stages are unscored, with a warning. Other texts are left out,
    with a note. If all stages are unknown, that is an error.

    `start` is from a clock of the file. With `only_stages`, one kind of stage is enough, and other texts are
    worth a remark. `end_seconds` is the end of the recording, for a last stage without a duration. With
    `may_lack_end`, bare names are stages even if nothing says how long they last.
    """
    chosen = stage_annotations(annotations, least=1 if only_stages else 2, may_lack_end=may_lack_end)
    if not chosen:
        texts = [text for text, _ in Counter(event.text for event in annotations).most_common()]
        content = f"its annotations are: {listed(texts)}" if texts else "it has no annotations"
        raise file_error(path, f"holds no sleep stages: {content}. Expected {expected}.", code="no-stages")
    remarks = _remarks(path, chosen)
    chosen += _unscored_ends(annotations, chosen)
    prefixed = any(_LONG_PREFIX.match(event.text) for event, _ in chosen)
    intervals, without_length = _intervals(chosen)
    staged = stage_epochs(path, intervals, options.epoch_seconds, may_be_cut=True, end_seconds=end_seconds)
    remarks += without_length
    scheme = AASM5 if {*staged.stages} <= {*AASM5.names, UNSCORED_NAME} else None
    scheme = scheme if prefixed or not only_stages else None
    return raw_of(staged, start, scheme, remarks)


def raw_of(
    staged: RawHypnogram,
    start: datetime | None = None,
    scheme: StageScheme | None = None,
    notes: tuple[str, ...] = (),
) -> RawHypnogram:
    """Return staged epochs with start, scheme and notes; `start` is that of the recording."""
    if start is not None:
        start += timedelta(seconds=staged.offset_seconds)
    return replace(staged, start=start, scheme=scheme, notes=staged.notes + notes)


def stage_annotations(
    annotations: Sequence[Event], *, least: int = 2, may_lack_end: bool = False
) -> list[Chosen]:
    """Return the annotations that are sleep stages, each with its name, "?", or None if not known.

    Bare names ("W", "N2") are stages only if there are `least` different ones.
    """
    prefixed = [(event, _stage(_words(event))) for event in annotations if _PREFIX.match(event.text)]
    # an unknown text that begins with just "Stage" may be anything
    chosen = [(event, stage) for event, stage in prefixed if stage or _LONG_PREFIX.match(event.text)]
    if chosen:
        moving = [event for event in annotations if _words(event).casefold() in ("movement time", "mt")]
        return chosen + _bare_stages(annotations, chosen) + [(event, UNSCORED_NAME) for event in moving]
    lasting = [event for event in annotations if event.seconds or (may_lack_end and event.seconds is None)]
    named = [(event, canonical_name(_words(event))) for event in lasting]
    stages: list[Chosen] = [(event, stage) for event, stage in named if stage]
    kinds = {stage for _, stage in stages}
    if len(kinds) < least or kinds <= COARSE:
        return []
    return stages + [
        (event, UNSCORED_NAME) for event, _ in named if _words(event).casefold() in BARE_UNSCORED
    ]


def _words(annotation: Event) -> str:
    """Return a text without the channel that EDF+ may append: "Sleep stage W@@C3"."""
    return annotation.text.partition(CHANNEL_MARK)[0].strip()


def _bare_stages(annotations: Sequence[Event], chosen: Sequence[Chosen]) -> list[Chosen]:
    """Return stages that are bare names, for whole epochs that no other stage covers."""
    others = whole_epochs(annotations, chosen)
    if not others:
        return []
    step = _shortest(chosen)
    spans = sorted((event.onset, event.onset + (event.seconds or step)) for event, _ in chosen)
    begins, ends = [begin for begin, _ in spans], list(accumulate((end for _, end in spans), max))
    bare: list[Chosen] = []
    for event in others:
        stage = canonical_name(_words(event))
        n_before = bisect_left(begins, event.onset + (event.seconds or step) - TOLERANCE * step)
        is_free = not n_before or ends[n_before - 1] <= event.onset + TOLERANCE * step
        if stage is not None and stage not in COARSE and is_free:
            bare.append((event, stage))
    return bare


def _shortest(chosen: Sequence[Chosen]) -> float:
    """Return the seconds of the shortest stage with a duration, or 0."""
    return min((event.seconds for event, _ in chosen if event.seconds), default=0.0)


def whole_epochs(annotations: Sequence[Event], chosen: Sequence[Chosen]) -> list[Event]:
    """Return annotations other than the chosen ones that are whole epochs on their grid."""
    step = _shortest(chosen)
    if not step:
        return []
    taken = {id(event) for event, _ in chosen}
    first = min(event.onset for event, _ in chosen)
    return [
        event
        for event in annotations
        if id(event) not in taken
        and event.seconds
        and all(abs(n - round(n)) <= TOLERANCE for n in ((event.onset - first) / step, event.seconds / step))
    ]


def _intervals(chosen: Sequence[Chosen]) -> tuple[list[Event], tuple[str, ...]]:
    """Return stages with their times, without stages of no length if others last: cropping leaves them."""
    lasting = [event.seconds for event, _ in chosen if event.seconds]
    shortest = TOLERANCE * median(lasting) if lasting else 0.0
    kept, n_left = [], 0
    for event, stage in chosen:
        if lasting and event.seconds is not None and event.seconds <= shortest:
            n_left += 1
            continue
        kept.append(Event(event.onset, event.seconds or None, stage or UNSCORED_NAME))
    what = "stage of no length" if n_left == 1 else "stages of no length"
    return kept, (f"{n_left} {what} left out, as cropping leaves them",) if n_left else ()


@lru_cache(maxsize=1024)
def _stage(text: str) -> str | None:
    """Return the name of a stage, "?" if the text says unscored, or None if it is not known."""
    bare = _PREFIX.sub("", text).strip(" -:_")
    if not bare:
        return None
    if bare.casefold() in UNSCORED_WORDS:
        return UNSCORED_NAME
    return canonical_name(f"stage {bare}")


def _unscored_ends(annotations: Sequence[Event], chosen: Sequence[Chosen]) -> list[Chosen]:
    """Return whole epochs before the first and after the last stage that are marked as unscored."""
    first = min(event.onset for event, _ in chosen)
    end = max(event.onset + (event.seconds or 0.0) for event, _ in chosen)
    margin = TOLERANCE * _shortest(chosen)
    return [
        (event, UNSCORED_NAME)
        for event in whole_epochs(annotations, chosen)
        if _words(event).casefold() in (*UNSCORED_WORDS, "m")
        and not end > event.onset > first - (event.seconds or 0.0) + margin
    ]


def _remarks(path: Path, chosen: Sequence[Chosen]) -> tuple[str, ...]:
    """Return remarks on unknown stages, with a warning, or on stages that are bare names among others."""
    unknown = sorted({event.text for event, stage in chosen if stage is None})
    if not unknown:
        bare = sorted({event.text for event, stage in chosen if not _PREFIX.match(event.text)} - {*MOVING})
        is_mixed = any(_PREFIX.match(event.text) for event, _ in chosen)
        return (
            (f"{listed(bare)} read as stages without the words 'Sleep stage'",) if bare and is_mixed else ()
        )
    if not any(stage not in (None, UNSCORED_NAME) for _, stage in chosen):
        raise file_error(
            path, f"none of its stages is known: {listed(unknown)}. Expected texts such as 'Sleep stage W'."
        )
    remark = f"{listed(unknown)} read as unscored: no stage of that name is known"
    warn(f"{path.name}: {remark}.")
    return (remark,)


def staged_rows(
    path: Path,
    rows: Iterable[tuple[int, float, float | None, str]],
    options: FileOptions,
    start: datetime | None = None,
    scheme: StageScheme | None = None,
    notes: tuple[str, ...] = (),
) -> RawHypnogram:
    """Return stages from rows of line, onset, duration and text; any other text is an error with its line."""
    known = options.scheme or options.default_scheme
    stages = []
    for line, onset, seconds, text in rows:
        if not is_stage(text, known):
            raise file_error(path, f"line {line}: {unknown_stage(text, known or AASM5)}")
        stages.append(Event(onset, seconds, UNSCORED_NAME if text.casefold() in UNSCORED_WORDS else text))
    return raw_of(stage_epochs(path, stages, options.epoch_seconds), start, scheme, notes)


def events_among(
    annotations: Iterable[Event], start: datetime | None = None, seconds: float | None = None
) -> Events:
    """Return annotations that a reader of stages does not take for stages; start and length are passed on."""
    texts = list(annotations)
    chosen = stage_annotations(texts, least=1)
    taken = {id(event) for event, _ in chosen}
    unscored = {id(event) for event in whole_epochs(texts, chosen)}
    others = []
    for event in texts:
        word = event.text.casefold()
        is_mark = word in MARKS and id(event) not in unscored
        if id(event) not in taken and event.text and (is_mark or word not in UNSCORED_WORDS):
            others.append(replace(event, seconds=event.seconds or None))
    return Events(in_order(others), start, seconds)


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return annotations in the order of their onsets."""
    return tuple(sorted(events, key=lambda event: event.onset))


def is_taken_for_stage(event: Event, night: Night) -> bool:
    """Whether a reader would take another annotation for a stage of the night, or for an unscored epoch."""
    words, onsets = _words(event), night.onsets
    if _LONG_PREFIX.match(words) or canonical_name(words) is not None or words.casefold() in _NO_STAGES:
        return True
    is_outside = event.onset > onsets[-1] or event.onset + (event.seconds or 0.0) <= onsets[0]
    return words.casefold() in MARKS and bool(event.seconds) and is_outside


def row_events(table: Table) -> Events:
    """Return annotations other than stages from a table with the columns onset and duration."""
    column = next((name for name in STAGE_COLUMNS if name in table.header), None)
    if column is None:
        return Events(())
    onsets, lasting = ([as_number(cell) for cell in table.column(n)] for n in ("onset", "duration"))
    channels = table.column("channel") if "channel" in table.header else [""] * len(onsets)
    rows = zip(onsets, lasting, table.column(column), map(_filled, channels), strict=True)
    # numbers are stages, which the JSON beside the table explains
    return events_among(
        Event(onset, seconds or None, text, channel=channel)
        for onset, seconds, text, channel in rows
        if onset is not None and as_number(text) is None
    )


def _filled(cell: str) -> str:
    """Return a cell of BIDS, where n/a alone is missing: a channel may be called NULL."""
    return "" if cell.casefold() == "n/a" else cell


def stage_epochs(
    path: Path,
    intervals: Sequence[Event],
    epoch_seconds: float | None = None,
    *,
    may_be_cut: bool = False,
    end_seconds: float | None = None,
) -> RawHypnogram:
    """Put stages on a grid of epochs; epochs without a stage are unscored.

    A stage without a duration lasts until the next, and the last one until `end_seconds`. The epoch length is
    `epoch_seconds`, else one that all onsets and durations are multiples of. Only the last interval may end
    within an epoch, which is then dropped, with a note. So is a first part of an epoch if it `may_be_cut`,
    since recordings are cropped.
    """
    ordered = sorted(intervals, key=lambda each: each.onset)
    onsets = np.array([each.onset for each in ordered])
    if not np.isfinite(onsets).all() or onsets[0] < -SHORTEST_GUESS or onsets[-1] > LONGEST_SECONDS:
        worst = onsets[0] if onsets[0] < 0 else onsets[-1]
        raise file_error(
            path,
            f"has a stage at {worst:g} s, expected times from 0 to {LONGEST_SECONDS:g} s. Is it damaged?",
        )
    lasting = _durations(path, ordered, onsets)
    lasting, notes = _last_duration(onsets, lasting, end_seconds)
    lasting, remarks = durations_by_onsets(onsets, lasting)
    notes += remarks
    if may_be_cut:
        n_cut, onsets, lasting, epoch_seconds, cut = _drop_first_part(onsets, lasting, epoch_seconds)
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
    stages = _fill_epochs(path, ordered, first, end, onsets)
    left = float((onsets - offset + lasting).max() - end.max() * epoch_seconds)
    if left > TOLERANCE * epoch_seconds:
        notes += (f"its last {left:.6g} s are less than an epoch of {epoch_seconds:g} s: left out",)
    lines = range(1, len(stages) + 1)
    return RawHypnogram(stages, lines, epoch_seconds, offset_seconds=offset, notes=notes)


def _last_duration(
    onsets: Floats, lasting: Floats, end_seconds: float | None
) -> tuple[Floats, tuple[str, ...]]:
    """Return durations, completed for a last stage without one, and a remark.

    Nothing is done if stages are at equal distances: then they are epochs, and so is the last one.
    """
    steps = lasting[:-1]
    if not np.isnan(lasting[-1]) or (len(steps) > 1 and np.ptp(steps) <= TOLERANCE * steps[0]):
        return lasting, ()
    if end_seconds is None or not onsets[-1] < end_seconds <= LONGEST_SECONDS:
        return lasting, ("nothing says when the last stage ends: read as one epoch",)
    return np.append(steps, end_seconds - onsets[-1]), ("the last stage lasts until the recording's end",)


def _drop_first_part(
    onsets: Floats, lasting: Floats, epoch_seconds: float | None
) -> tuple[int, Floats, Floats, float | None, tuple[str, ...]]:
    """Cut a first part of an epoch, if all other times fit the epoch length, or a usual one.

    Return how many intervals were dropped, onsets, durations, the epoch length if now known, and a note.
    """
    unchanged = (0, onsets, lasting, epoch_seconds, ())
    lengths = USUAL_SECONDS if epoch_seconds is None else (epoch_seconds,)
    rest = np.concatenate([np.diff(onsets[1:]), lasting[1:-1]])
    if not len(rest) or any(_fits(np.append(rest, lasting[0]), seconds) for seconds in lengths):
        return unchanged
    is_joined = abs(onsets[0] + lasting[0] - onsets[1]) <= TOLERANCE * lengths[-1]
    length = next((seconds for seconds in lengths if _fits(rest, seconds)), None)
    if length is None or not is_joined:
        return unchanged
    cut = float(lasting[0] % length)
    note = f"its first {cut:.6g} s are less than an epoch of {length:g} s: left out"
    onsets, lasting = onsets.copy(), lasting.copy()
    onsets[0] += cut
    lasting[0] -= cut
    n_cut = int(lasting[0] <= TOLERANCE * length)
    return n_cut, onsets[n_cut:], lasting[n_cut:], length, (note,)


def _fits(steps: Floats, seconds: float) -> bool:
    """Whether times are multiples of an epoch length."""
    return bool((np.abs(steps - np.rint(steps / seconds) * seconds) <= TOLERANCE * seconds).all())


def _durations(path: Path, ordered: Sequence[Event], onsets: Floats) -> Floats:
    """Return the seconds of each interval; NaN for a last one without a duration."""
    until_next = np.append(np.diff(onsets), np.nan)
    lasting = np.array(
        [until_next[i] if event.seconds is None else event.seconds for i, event in enumerate(ordered)]
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
    """Return an epoch length that all times are multiples of."""
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
            f"{guess:g} s). Give the epoch length: epoch_seconds=30.",
        )
    return guess


def _places(path: Path, onsets: Floats, lasting: Floats, epoch_seconds: float) -> tuple[Ints, Ints]:
    """Return the first epoch of each interval and the epoch after its last; refuse times within epochs."""
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


def _fill_epochs(
    path: Path, ordered: Sequence[Event], first: Ints, end: Ints, onsets: Floats
) -> tuple[str, ...]:
    n_epochs = int(end.max())
    if n_epochs < 1:
        raise file_error(path, "has no stage that lasts a whole epoch.")
    names = [UNSCORED_NAME, *sorted({event.text for event in ordered} - {UNSCORED_NAME})]
    codes = np.full(n_epochs, -1, dtype=np.int64)
    for event, low, high, onset in zip(ordered, first, end, onsets, strict=True):
        code = names.index(event.text)
        part = codes[low:high]
        clash = (part >= 0) & (part != code)
        if clash.any():
            other = names[int(part[int(np.argmax(clash))])]
            raise file_error(
                path,
                f"the stage at {onset:g} s is {event.text}, but another one there is {other}. Expected one "
                "stage per epoch. Are there two scorings in the file?",
            )
        part[:] = code
    return tuple(np.array(names)[np.maximum(codes, 0)].tolist())

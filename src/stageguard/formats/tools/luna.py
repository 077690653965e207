"""Read and write Luna's `.annot`; read `.eannot`, tables of STAGE, and tables of posteriors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard.arrays import DAY_SECONDS
from stageguard.files import file_error
from stageguard.formats.annotations import MARKS, in_order, staged_rows, stages_among, whole_epochs
from stageguard.formats.density import listed
from stageguard.formats.file_format import (
    PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    START,
    TYPES,
    Contents,
    FileFormat,
)
from stageguard.formats.hypnogram import UNSCORED_WORDS
from stageguard.formats.night import (
    Event,
    Events,
    FileOptions,
    Night,
    RawDensity,
    RawHypnogram,
    Where,
)
from stageguard.formats.sniffing import has_columns, header_cells, holds_words, read_head, whole_lines
from stageguard.formats.tables.delimited import read_rows, read_text, split_line, text_lines
from stageguard.formats.tables.probabilities import choose_columns, load_table, stage_values
from stageguard.formats.tables.table import Table, as_number, refuse_several, row_name
from stageguard.formats.tables.times import MOST_MISSING
from stageguard.formats.tools.text import read_stage_lines
from stageguard.formats.write import number, plain_text, stage_words
from stageguard.night.stages import canonical_name

# Words other than stages: unknown, movement, lights on, gap, and unscored.
UNSCORED = dict.fromkeys(("u", "m", "l", "g", "?"), "?")
WORDS = frozenset(
    (
        *("w", "wake", "n1", "n2", "n3", "n4", "nrem1", "nrem2", "nrem3", "nrem4", "r", "rem", "nr"),
        *UNSCORED,
    )
)
COLUMNS = ("class", "instance", "channel", "start", "stop", "meta")
STAGE_COLUMNS = ("e", "stage", "start_sec")  # of the command STAGE
STAGE_CLASSES = ("sleepstage", "sleepstages")
UNTIL_NEXT = "..."
TOOL, USUAL_SECONDS = "Luna", 30.0
FIVE = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")  # posteriors
THREE = ("PP_W", "PP_NR", "PP_R")
LUNA_WORDS: dict[str, dict[str, str]] = {"aasm5": {}, "wnr3": {"N": "NR"}}
_CLOCK = re.compile(
    r"(?:(\d{1,2})[/.-](\d{1,2})[/.-](\d{2,4})-)?(0\+)?(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?"
)


class Row(NamedTuple):
    """An interval of an `.annot` as it is written; "." where a cell is missing."""

    line: int
    name: str
    instance: str
    channel: str
    start: str
    stop: str
    meta: str


class Intervals(NamedTuple):
    """The intervals of an `.annot`: their cells, onsets and durations, the time of second 0, and remarks."""

    rows: list[Row]
    times: list[tuple[float, float | None]]
    start: datetime | None
    notes: tuple[str, ...]


def read_annot(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages among intervals of any class.

    Times are seconds from the recording's start, or times of day. Times of day count from the first interval,
    since the file does not say when the recording began.
    """
    found = _read_intervals(path)
    annotations = [
        Event(*time, _plain(row.instance if is_stage_class(row.name) else row.name))
        for row, time in zip(found.rows, found.times, strict=True)
    ]
    stages = [
        event
        for event in annotations
        if canonical_name(event.text) is not None or event.text.casefold() in UNSCORED_WORDS
    ]
    raw = stages_among(
        path,
        stages or annotations,
        options,
        start=found.start,
        only_stages=True,
        expected="classes such as W, N1, N2",
        may_lack_end=True,
    )
    return replace(raw, notes=raw.notes + found.notes)


def read_annot_events(path: Path) -> Events:
    """Read the intervals other than stages."""
    found, others = _read_intervals(path), []
    events = [Event(*time, row.name) for row, time in zip(found.rows, found.times, strict=True)]
    stages = [(event, None) for event in events if _is_stage(event.text)]
    unscored = {event.onset for event in whole_epochs(events, stages) if event.text.casefold() in MARKS}
    for row, event in zip(found.rows, events, strict=True):
        word = row.name.casefold()
        is_mark = word in MARKS and event.onset not in unscored
        if _is_stage(row.name) or (word in (*UNSCORED_WORDS, *"umlg") and not is_mark):
            continue
        details = tuple(
            (name, cell) for name, cell in (("instance", row.instance), ("meta", row.meta)) if cell.strip(".")
        )
        others.append(replace(event, channel=row.channel.strip("."), details=details))
    return Events(in_order(others))


def _read_intervals(path: Path) -> Intervals:
    rows = []
    header: tuple[str, ...] = COLUMNS
    for line, text in enumerate(text_lines(path), start=1):
        cells = split_line(text, "\t")
        if not text.strip() or text.startswith("#"):
            continue
        names = tuple(cell.casefold() for cell in cells)
        if {"class", "start", "stop"} <= {*names}:
            if len({*names}) < len(names):
                raise file_error(path, f"line {line} names a column twice, expected it once.")
            header = names
            continue
        named = header
        if header == COLUMNS and len(cells) in (3, 4):
            named = (*COLUMNS[: len(cells) - 2], "start", "stop")
        if len(cells) != len(named):
            raise file_error(path, f"line {line} has {len(cells)} cells, expected: {', '.join(named)}.")
        by_name = dict(zip(named, cells, strict=True))
        rows.append(Row(line, *(by_name.get(name, ".") for name in COLUMNS)))
    if not rows:
        raise file_error(path, "has no annotations. Was it written completely?")
    times, start, notes = _times(path, rows)
    begins = sorted({begin for begin, _ in times})
    following = dict(pairwise(begins))
    ended = [
        (begin, following[begin] - begin if seconds is None and begin in following else seconds)
        for begin, seconds in times
    ]
    return Intervals(rows, ended, start, notes)


def _times(
    path: Path, rows: Sequence[Row]
) -> tuple[list[tuple[float, float | None]], datetime | None, tuple[str, ...]]:
    """Return onset and duration of each row in seconds, the date and time of second 0, and remarks."""
    begins = [_moment(path, row.line, row.start) for row in rows]
    lasting = [_duration(path, row, begin) for row, begin in zip(rows, begins, strict=True)]
    kinds = {kind for kind, _ in begins}
    if len(kinds) > 1:
        raise file_error(path, f"mixes times told as {' and '.join(sorted(kinds))}, expected one of them.")
    onsets = [seconds for _, seconds in begins]
    if kinds == {"seconds"}:
        return list(zip(onsets, lasting, strict=True)), None, ()
    notes = ("its times are of the clock: counted from its first interval",)
    if kinds == {"dates"}:
        first = min(onsets)
        times = [(onset - first, seconds) for onset, seconds in zip(onsets, lasting, strict=True)]
        return times, datetime.min + timedelta(seconds=first), notes
    after = [(onset - onsets[0]) % DAY_SECONDS for onset in onsets]
    for row, (one, other) in zip(rows[1:], pairwise(after), strict=True):
        if other < one:
            told = f"line {row.line} is earlier than the line before"
            raise file_error(path, f"{told}. Sort it, or write seconds.")
    return list(zip(after, lasting, strict=True)), None, notes


def _duration(path: Path, row: Row, begin: tuple[str, float]) -> float | None:
    """Return the seconds of an interval; None if it lasts until the next one."""
    if row.stop == UNTIL_NEXT:
        return None
    if row.stop.startswith("+"):
        lasting = as_number(row.stop[1:])
        if lasting is None:
            told = f"line {row.line} lasts {row.stop[:40]!r}"
            raise file_error(path, f"{told}, expected seconds such as +30.")
        return lasting
    kind, end = _moment(path, row.line, row.stop)
    if kind != begin[0]:
        raise file_error(path, f"line {row.line} mixes {begin[0]} and {kind}, expected one of them.")
    return (end - begin[1]) % DAY_SECONDS if kind == "clock" else end - begin[1]


def _moment(path: Path, line: int, text: str) -> tuple[str, float]:
    """Return a time and its kind: "seconds" since the start, "clock" since midnight, "dates" since year 1."""
    seconds = as_number(text)
    if seconds is not None:
        return "seconds", seconds
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise file_error(path, f"line {line} has the time {text[:40]!r}, expected seconds or hh:mm:ss.")
    of_day = 3600.0 * int(match[5]) + 60.0 * int(match[6]) + float(match[7] or 0)
    if not match[1]:
        return "seconds" if match[4] else "clock", of_day
    year = int(match[3]) + (0 if len(match[3]) == 4 else 1900 if int(match[3]) >= 85 else 2000)
    try:
        day = datetime(year, int(match[2]), int(match[1]))
    except ValueError:
        raise file_error(path, f"line {line} has the date {text[:40]!r}, which does not exist.") from None
    return "dates", (day - datetime.min).total_seconds() + of_day


def write_annot(night: Night, path: Path) -> Contents:
    """Write one interval per epoch, then the other annotations, in seconds from the recording's start."""
    words, seconds = stage_words(night, LUNA_WORDS, "Luna"), night.any.epoch_seconds
    rows = ["\t".join(COLUMNS)]
    for onset, word in zip(night.onsets, words, strict=True):
        rows.append(f"{word}\t.\t.\t{number(onset)}\t+{number(seconds)}\t.")
    events = [event for event in night.events if event.onset >= 0]  # Luna has no times before the start
    for event in events:
        details = dict(event.details)
        name, channel = plain_text(event.text), plain_text(event.channel) or "."
        instance, meta = details.pop("instance", "."), details.pop("meta", "")
        more = "|".join([*([meta] if meta else []), *(f"{key}={text}" for key, text in details.items())])
        times = f"{number(event.onset)}\t+{number(event.seconds or 0)}"
        rows.append(f"{name}\t{plain_text(instance)}\t{channel}\t{times}\t{plain_text(more) or '.'}")
    return {path: "\n".join(rows) + "\n"}


def from_stage_rows(path: Path, table: Table, options: FileOptions) -> RawHypnogram:
    """Return the stages of the command STAGE, from a file or lunapi; epochs count from 1 and may skip."""
    if "id" in table.header and len(set(table.column("id"))) > 1:
        raise file_error(path, "holds several recordings, expected one. Keep the rows of one ID.")
    epochs, onsets = table.seconds("e"), table.seconds("start_sec")
    seconds = options.epoch_seconds
    if len(epochs) > 1:
        steps = np.diff(onsets) / np.where(np.diff(epochs) > 0, np.diff(epochs), np.nan)
        seconds = float(np.nanmedian(steps)) if np.isfinite(steps).any() else None
        if seconds is None or not np.allclose(steps, seconds, rtol=1e-3):
            raise file_error(
                path, "its columns E and START_SEC do not agree, expected epochs of one length in order."
            )
    seconds = seconds or USUAL_SECONDS
    texts = [_plain(text) for text in table.column("stage")]
    rows = zip(table.lines, onsets, [seconds] * len(epochs), texts, strict=True)
    return staged_rows(path, rows, replace(options, epoch_seconds=seconds))


def is_stage_class(name: str) -> bool:
    """Whether the instances of a class are stages: SleepStage, sleep_stage."""
    return re.sub(r"[\s_-]+", "", name.casefold()) in STAGE_CLASSES


def _plain(text: str) -> str:
    return UNSCORED.get(text.strip().casefold(), text.strip())


def _is_stage(name: str) -> bool:
    return is_stage_class(name) or canonical_name(name) is not None


def _is_annot(head: bytes, path: Path) -> bool:
    """Whether a file has Luna's column names, or is called .annot and has as many columns."""
    if has_columns("class", "instance", "channel", "start", "stop")(head, path):
        return True
    lines = [line for line in whole_lines(head) if line and not line.startswith("#")]
    is_named = path.name.lower().endswith(".annot")
    return is_named and bool(lines) and all(len(line.split("\t")) in (3, 4, 6) for line in lines)


def is_pops(header: Iterable[str]) -> bool:
    """Whether columns have Luna's names of posteriors."""
    names = {name.upper() for name in header}
    return {"E", "PP_W", "PP_R"} <= names


def read_luna_pops(path: Path, options: FileOptions) -> RawDensity:
    """Read posteriors from a text table."""
    stages = options.stages or posterior_columns(path, header_cells(read_head(path)))
    table, _ = load_table(path, read_text(path), replace(options, stages=stages))
    return density_of_pops(table, options)


def posterior_columns(where: Where, header: Iterable[str]) -> tuple[str, ...]:
    """Return the columns to read: Luna may write PP_NR, too, the sum of three others."""
    names = {name.upper() for name in header}
    for columns in (FIVE, THREE):
        if names >= set(columns):
            return columns
    posteriors = sorted(name for name in names if name.startswith("PP_"))
    has = f"the posteriors {listed(posteriors)}" if posteriors else "no posteriors of Luna"
    raise file_error(where, f"has {has}, expected {', '.join(FIVE)}, or {', '.join(THREE)}.")


def density_of_pops(table: Table, options: FileOptions) -> RawDensity:
    """Return the posteriors of a table whose column E says which epoch a row is."""
    where, lines = table.path, table.lines_of_file
    names = options.stages or posterior_columns(where, table.header)
    chosen = choose_columns(where, table.header, replace(options, stages=names))
    values, _ = stage_values(table, chosen)
    refuse_several(table)
    header = [name.casefold() for name in table.header]
    if "e" not in header:
        raise file_error(where, "has no column E. Expected Luna's table of one row per epoch.")
    epochs, _ = table.numbers(header.index("e"))
    flags, starts, stops = (
        table.column(header.index(name)) if name in header else () for name in ("flag", "start", "stop")
    )
    odd = ~((epochs >= 1) & (epochs == np.rint(epochs)) & (epochs < 1e9))
    odd[1:] |= ~(np.diff(epochs) > 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise file_error(
            where,
            f"{row_name(lines, row)}, column 'E': got {epochs[row]:.10g}, expected to count up from 1.",
        )
    places = epochs.astype(np.intp) - 1
    n_missing = int(places[-1]) + 1 - len(places)
    if n_missing > MOST_MISSING:
        raise file_error(where, f"leaves out {n_missing:,} epochs, expected at most {MOST_MISSING:,}.")
    notes = []
    if n_missing:
        notes.append(
            f"{n_missing:,} epoch{'s' * (n_missing != 1)} that Luna left out: read as without evidence"
        )
    excluded = np.array([flag.strip() in ("-1", "-1.0") for flag in flags or [""] * len(values)])
    excluded &= ~np.isnan(values).all(axis=1)
    if excluded.any():
        values = np.where(excluded[:, None], np.nan, values)
        notes.append(f"{np.count_nonzero(excluded):,} with FLAG -1 (excluded): read as without evidence")
    return RawDensity(
        values,
        chosen.names,
        epoch_seconds=_seconds(starts, stops),
        notes=tuple(notes),
        lines=lines,
        places=places if n_missing else None,
        usual_seconds=USUAL_SECONDS,
        tool=TOOL,
    )


def _seconds(starts: Sequence[str], stops: Sequence[str]) -> float | None:
    """Return the epoch length from the first row's start and stop, or None without both."""
    if not starts or not stops:
        return None
    start, stop = _clock(starts[0]), _clock(stops[0])
    if start is None or stop is None:
        return None
    seconds = round((stop - start) % DAY_SECONDS, 3)
    return seconds if seconds > 0 else None


def _clock(text: str) -> float | None:
    """Return the seconds of a number, or of a time of day such as 22:30:00 or 22.30.00."""
    match = re.fullmatch(r"([01]?\d|2[0-3])([:.])([0-5]?\d)\2([0-5]?\d(?:\.\d+)?)", text)
    if match is None:
        return as_number(text)
    return 3600.0 * int(match[1]) + 60.0 * int(match[3]) + float(match[4])


FORMATS = (
    FileFormat(
        "luna-annot",
        "Luna .annot",
        (".annot",),
        _is_annot,
        stages=read_annot,
        events=read_annot_events,
        write=write_annot,
        loses=(PROBABILITIES, START, SCORER, TYPES),
        tells_events_by_text=True,
    ),
    FileFormat(
        "luna-eannot",
        "Luna .eannot",
        (".eannot",),
        holds_words(WORDS, ".eannot"),
        stages=lambda path, options: read_stage_lines(path, UNSCORED),
        loses=STAGES_ALONE,
        is_plain=True,
    ),
    FileFormat(
        "luna-stages",
        "table of Luna's command STAGE",
        (".txt", ".tsv", ".csv"),
        has_columns(*STAGE_COLUMNS),
        stages=lambda path, options: from_stage_rows(path, read_rows(path, STAGE_COLUMNS), options),
        loses=(PROBABILITIES, START, SCORER),
    ),
    FileFormat(
        "luna-pops",
        "Luna's POPS or SOAP table per epoch",
        (".txt", ".tsv", ".csv"),
        lambda head, path: is_pops(header_cells(head)),
        probabilities=read_luna_pops,
        loses=(START, "excluded epochs at the end"),
    ),
)

"""Annotations and stages of Luna: `.annot`, `.eannot`, and tables of its command STAGE."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.files import file_error
from stageguard.formats.file_format import PROBABILITIES, SCORER, STAGES_ALONE, START, FileFormat
from stageguard.formats.hypnogram import UNSCORED_WORDS, HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Event, Outgoing, number, plain_text, stage_words
from stageguard.formats.sniffing import has_columns, holds_words, whole_lines
from stageguard.formats.staged_annotations import Annotation, annotated, named_intervals, raw_of
from stageguard.formats.staged_intervals import stage_epochs
from stageguard.formats.tables.delimited import TextTable, as_number, split_line, text_lines
from stageguard.formats.tables.delimited import read_rows as read_table_rows
from stageguard.formats.tools.text import read_stage_lines
from stageguard.night.stages import canonical_name

# Beside stages: unknown, movement, lights on, gap, and artefact.
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
LUNA_WORDS: dict[str, dict[str, str]] = {"aasm5": {}, "wnr3": {"N": "NR"}}
_CLOCK = re.compile(
    r"(?:(\d{1,2})[/.-](\d{1,2})[/.-](\d{2,4})-)?(0\+)?(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?"
)


class Moment(NamedTuple):
    """A time, and what it counts from: "seconds" of the recording, the "clock" of a day, or "dates"."""

    kind: str
    seconds: float


def read_eannot(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """One stage per line and epoch; U, M, L and G are unscored."""
    return read_stage_lines(path, UNSCORED)


def read_annot(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages among intervals of any class; other classes are left alone.

    Times are seconds from the recording's start, or times of day: those count from the first interval, since
    the file does not say when the recording began.
    """
    rows, times, start, notes = read_intervals(path)
    annotations = []
    for row, (begin, seconds) in zip(rows, times, strict=True):
        text = row[1] if is_stage_class(row[0]) and len(row) > 3 else row[0]
        annotations.append(Annotation(begin, seconds, _plain(text)))
    stages = [each for each in annotations if _is_stage(each.text)]
    raw = annotated(
        path,
        stages or annotations,
        options,
        start=start,
        has_clock=start is not None,
        only_stages=True,
        expected="classes such as W, N1, N2",
        may_lack_end=True,
    )
    return replace(raw, notes=raw.notes + notes)


def read_intervals(
    path: Path,
) -> tuple[list[tuple[str, ...]], list[tuple[float, float | None]], datetime | None, tuple[str, ...]]:
    """Cells of every interval, its onset and duration, when second 0 is, and what was assumed."""
    lines, rows = [], []
    header: tuple[str, ...] | None = None
    for place, line in enumerate(text_lines(path), start=1):
        cells = split_line(line, "\t")
        if not line.strip() or line.startswith("#"):
            continue
        if _is_header(cells):
            header = _columns(path, place, cells)
            continue
        if header not in (None, COLUMNS):
            assert header is not None
            if len(cells) != len(header):
                raise file_error(path, f"line {place} has {len(cells)} cells, the header has {len(header)}.")
            by_name = dict(zip(header, cells, strict=True))
            cells = tuple(by_name.get(name, ".") for name in COLUMNS)
        elif len(cells) not in (3, 4, 6):
            raise file_error(path, f"line {place} has {len(cells)} cells, expected: {', '.join(COLUMNS)}.")
        lines.append(place)
        rows.append(cells)
    if not rows:
        raise file_error(path, "has no annotations. Was it written completely?")
    times, start, notes = _times(path, lines, rows)
    begins = sorted({begin for begin, _ in times})
    ended = []
    for begin, seconds in times:
        if seconds is None:
            following = bisect_right(begins, begin)
            seconds = begins[following] - begin if following < len(begins) else None
        ended.append((begin, seconds))
    return rows, ended, start, notes


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a line names the columns, in whatever order."""
    return {"class", "start", "stop"} <= {cell.casefold() for cell in cells}


def _columns(path: Path, place: int, cells: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a header's columns, each once."""
    names = tuple(cell.casefold() for cell in cells)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise file_error(path, f"line {place} names the column {twice} twice, expected it once.")
    return names


def write_eannot(night: Outgoing, path: Path) -> Content:
    """One stage per line and epoch; unscored is ?."""
    words = stage_words(night.from_recording_start(), LUNA_WORDS, "Luna")
    return Content({path: "\n".join(words) + "\n"}, notes=_remarks(words))


def write_annot(night: Outgoing, path: Path) -> Content:
    """One interval per epoch, then the other annotations, in seconds from the recording's start."""
    words, seconds = stage_words(night, LUNA_WORDS, "Luna"), night.epoch_seconds
    rows = ["\t".join(COLUMNS)]
    for onset, word in zip(night.onsets, words, strict=True):
        rows.append(f"{word}\t.\t.\t{number(onset)}\t+{number(seconds)}\t.")
    events = [event for event in night.events if event.onset >= 0]  # Luna knows no time before the start
    for event in events:
        told = dict(event.details)
        name, channel = plain_text(event.text), plain_text(event.channel) or "."
        instance, meta = told.pop("instance", "."), told.pop("meta", "")
        more = "|".join([*([meta] if meta else []), *(f"{key}={text}" for key, text in told.items())])
        times = f"{number(event.onset)}\t+{number(event.seconds or 0)}"
        rows.append(f"{name}\t{plain_text(instance)}\t{channel}\t{times}\t{plain_text(more) or '.'}")
    kept = frozenset(("channel", "details"))
    return Content({path: "\n".join(rows) + "\n"}, n_events=len(events), keeps=kept, notes=_remarks(words))


def _remarks(words: Sequence[str]) -> tuple[str, ...]:
    return ("Luna's own tables count NR as N2",) if "NR" in words else ()


def read_stage_table(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Rows of the command STAGE: epochs from 1 that may skip, and when each of them begins."""
    return from_stage_rows(path, read_table_rows(path, STAGE_COLUMNS), options)


def from_stage_rows(path: Path, table: TextTable, options: HypnogramOptions) -> RawHypnogram:
    """Stages of such a table, also of one that lunapi returned."""
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
    lasting = [seconds or 30.0] * len(epochs)
    texts = [_plain(text) for text in table.column("stage")]
    intervals = named_intervals(path, table.lines, onsets.tolist(), lasting, texts, options)
    return raw_of(stage_epochs(path, intervals, seconds or 30.0))


def is_stage_class(name: str) -> bool:
    """Whether a class says that its instances are stages: SleepStage, sleep_stage."""
    return re.sub(r"[\s_-]+", "", name.casefold()) in STAGE_CLASSES


def _plain(text: str) -> str:
    return UNSCORED.get(text.strip().casefold(), text.strip())


def _is_stage(text: str) -> bool:
    return canonical_name(text) is not None or text.casefold() in UNSCORED_WORDS


def _times(
    path: Path, lines: Sequence[int], rows: Sequence[tuple[str, ...]]
) -> tuple[list[tuple[float, float | None]], datetime | None, tuple[str, ...]]:
    """Onset and duration of each row in seconds, the date and time of second 0, and what was assumed."""
    found = []
    for line, row in zip(lines, rows, strict=True):
        start, stop = (row[3], row[4]) if len(row) == 6 else (row[-2], row[-1])
        found.append((_moment(path, line, start), _duration(path, line, start, stop)))
    kinds = {moment.kind for moment, _ in found}
    if len(kinds) > 1:
        raise file_error(path, f"mixes times told as {' and '.join(sorted(kinds))}, expected one of them.")
    origin = found[0][0].seconds
    if kinds == {"seconds"}:
        return [(moment.seconds, lasting) for moment, lasting in found], None, ()
    notes = ("its times are of the clock: counted from its first interval",)
    if kinds == {"dates"}:
        origin = min(moment.seconds for moment, _ in found)
        times = [(moment.seconds - origin, lasting) for moment, lasting in found]
        return times, datetime.min + timedelta(seconds=origin), notes
    times = [((moment.seconds - origin) % DAY_SECONDS, lasting) for moment, lasting in found]
    for line, (before, _), (after, _) in zip(lines[1:], times, times[1:], strict=False):
        if after < before:
            raise file_error(path, f"line {line} is earlier than the line before. Sort it, or write seconds.")
    return times, None, notes


def _duration(path: Path, line: int, start: str, stop: str) -> float | None:
    """Seconds of an interval; None where it lasts until the next one."""
    if stop == UNTIL_NEXT:
        return None
    if stop.startswith("+"):
        lasting = as_number(stop[1:])
        if lasting is None:
            raise file_error(path, f"line {line} lasts {stop[:40]!r}, expected seconds such as +30.")
        return lasting
    begin, end = _moment(path, line, start), _moment(path, line, stop)
    if begin.kind != end.kind:
        raise file_error(path, f"line {line} mixes {begin.kind} and {end.kind}, expected one of them.")
    return (
        (end.seconds - begin.seconds) % DAY_SECONDS if begin.kind == "clock" else end.seconds - begin.seconds
    )


def _moment(path: Path, line: int, text: str) -> Moment:
    """Seconds since the recording's start, since midnight, or since year 1."""
    seconds = as_number(text)
    if seconds is not None:
        return Moment("seconds", seconds)
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise file_error(path, f"line {line} has the time {text[:40]!r}, expected seconds or hh:mm:ss.")
    of_day = 3600.0 * int(found[5]) + 60.0 * int(found[6]) + float(found[7] or 0)
    if not found[1]:
        return Moment("seconds" if found[4] else "clock", of_day)
    year = int(found[3]) + (0 if len(found[3]) == 4 else 1900 if int(found[3]) >= 85 else 2000)
    try:
        day = datetime(year, int(found[2]), int(found[1]))
    except ValueError:
        raise file_error(path, f"line {line} has the date {text[:40]!r}, which does not exist.") from None
    return Moment("dates", (day - datetime.min).total_seconds() + of_day)


def read_events(path: Path) -> Iterable[Event]:
    """Annotations besides stages."""
    rows, times, _, _ = read_intervals(path)
    for row, (onset, seconds) in zip(rows, times, strict=True):
        is_stage = is_stage_class(row[0]) or canonical_name(row[0]) is not None
        if is_stage or row[0].casefold() in (*UNSCORED_WORDS, *"umlg"):
            continue
        told = dict(zip(COLUMNS, row, strict=True)) if len(row) == 6 else {}
        more = tuple(
            (name, told[name]) for name in ("instance", "meta") if told.get(name, ".") not in ("", ".")
        )
        channel = told.get("channel", ".")
        yield Event(onset, seconds, row[0], "", "" if channel == "." else channel, details=more)


def _are_taken(night: Outgoing) -> list[bool]:
    """Whether each other annotation is called like a stage."""
    return [_is_word(event.text) for event in night.events]


def _is_word(text: str) -> bool:
    plain = text.strip().casefold()
    is_word = plain in WORDS or plain in UNSCORED_WORDS or is_stage_class(text)
    return is_word or canonical_name(text) is not None


def _is_annot(head: bytes, path: Path) -> bool:
    """Whether it has Luna's columns; without their names it must be called .annot."""
    if has_columns("class", "instance", "channel", "start", "stop")(head, path):
        return True
    lines = [line for line in whole_lines(head) if line and not line.startswith("#")]
    is_named = path.name.lower().endswith(".annot")
    return is_named and bool(lines) and all(len(line.split("\t")) in (3, 4, 6) for line in lines)


FORMATS = (
    FileFormat(
        "luna-annot",
        "Luna .annot",
        (".annot",),
        _is_annot,
        hypnogram=read_annot,
        write=write_annot,
        loses=(PROBABILITIES, "start time, unless its times are dates", SCORER),
        events=read_events,
        are_taken=_are_taken,
    ),
    FileFormat(
        "luna-eannot",
        "Luna .eannot",
        (".eannot",),
        holds_words(WORDS, ".eannot"),
        hypnogram=read_eannot,
        write=write_eannot,
        loses=STAGES_ALONE,
        is_plain=True,
    ),
    FileFormat(
        "luna-stages",
        "table of Luna's command STAGE",
        (".txt", ".tsv", ".csv"),
        has_columns(*STAGE_COLUMNS),
        hypnogram=read_stage_table,
        loses=(PROBABILITIES, START, SCORER),
    ),
)

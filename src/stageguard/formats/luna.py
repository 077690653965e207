"""Read and write stages of Luna: `.annot` and `.eannot`; read tables of its command STAGE. No signals."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stageguard.base.arrays import DAY_SECONDS, Floats, Mask
from stageguard.base.files import file_error, open_file
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.hypnogram import UNSCORED_WORDS, HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Outgoing, number, plain_text, stage_words
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.sniffing import HEAD_BYTES, header_cells
from stageguard.formats.staged_annotations import Annotation, annotated, named_intervals, raw_of
from stageguard.formats.staged_intervals import stage_epochs
from stageguard.formats.tables.delimited import TextTable, as_number, split_line, text_lines
from stageguard.formats.tables.delimited import read_rows as read_table_rows
from stageguard.formats.tables.frame_columns import numbers_of
from stageguard.formats.tables.probabilities import choose_columns, load_table
from stageguard.formats.tables.several import refuse_many
from stageguard.formats.tables.timing import MOST_MISSING, row_name
from stageguard.formats.text import read_stage_lines
from stageguard.night.recording import Signal
from stageguard.night.stages import canonical_name

# Beside stages: unknown, movement, lights on, gap, and artefact.
UNSCORED = dict.fromkeys(("u", "m", "l", "g", "?"), "?")
WORDS = frozenset(("w", "n1", "n2", "n3", "nrem4", "n4", "r", "nr", "wake", "rem", *UNSCORED))
COLUMNS = ("class", "instance", "channel", "start", "stop", "meta")
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
    return from_stage_rows(path, read_table_rows(path, ("e", "stage", "start_sec")), options)


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


TOOL, USUAL_SECONDS = "Luna", 30.0
FIVE = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")
THREE = ("PP_W", "PP_NR", "PP_R")


def is_pops(header: Sequence[str]) -> bool:
    """Whether columns are named as Luna names posteriors."""
    names = {name.upper() for name in header}
    return {"E", "PP_W", "PP_R"} <= names


def read_luna_pops(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of a text table."""
    with open_file(path, "a recording") as file:
        header = header_cells(file.read(HEAD_BYTES))
    options = replace(options, stages=options.stages or _posteriors(path, header))
    table = load_table(path, options, "e")
    refuse_many(path, "CH", table.texts("ch"))
    texts = {name: table.texts(name) for name in ("flag", "start", "stop")}
    epochs = next(iter(table.timing.values()), None)
    if epochs is None:
        raise file_error(path, "has no numbers in its column E. Expected Luna's table of one row per epoch.")
    return _placed(path, table.values, table.names, epochs, texts, table.lines)


def density_of_pops(where: Where, columns: Sequence[tuple[str, Any]], options: DensityOptions) -> RawDensity:
    """Posteriors of the columns of a frame that lunapi returned."""
    header = [name for name, _ in columns]
    places, names = choose_columns(where, header, options.stages or _posteriors(where, header))
    values = np.column_stack([numbers_of(where, *columns[place]) for place in places])
    by_name = {name.casefold(): cells for name, cells in columns}
    texts = {
        name: [str(cell) for cell in np.asarray(by_name[name]).tolist()] if name in by_name else None
        for name in ("flag", "start", "stop", "ch")
    }
    refuse_many(where, "CH", texts["ch"])
    return _placed(where, values, names, numbers_of(where, "E", by_name["e"]), texts, None)


def _posteriors(where: Where, header: Iterable[str]) -> tuple[str, ...]:
    """Columns to read: Luna may write PP_NR, the sum of three others, beside them."""
    names = {name.upper() for name in header}
    for columns in (FIVE, THREE):
        if names >= set(columns):
            return columns
    found = sorted(name for name in names if name.startswith("PP_"))
    has = f"the posteriors {listed(found)}" if found else "no posteriors of Luna"
    raise file_error(where, f"has {has}, expected {', '.join(FIVE)}, or {', '.join(THREE)}.")


def _placed(
    where: Where,
    values: Floats,
    names: tuple[str, ...],
    epochs: Floats,
    texts: Mapping[str, Sequence[str] | None],
    lines: Sequence[int] | None,
) -> RawDensity:
    """Put rows where their epochs are, counted from the recording's start."""
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
    excluded = _excluded(texts["flag"], len(values)) & ~np.isnan(values).all(axis=1)
    if excluded.any():
        values = np.where(excluded[:, None], np.nan, values)
        n_excluded = int(np.count_nonzero(excluded))
        notes.append(f"{n_excluded:,} with FLAG -1 (excluded): read as without evidence")
    return RawDensity(
        values,
        names,
        epoch_seconds=_seconds(texts["start"], texts["stop"]),
        notes=tuple(notes),
        lines=lines,
        places=places if n_missing else None,
        usual_seconds=USUAL_SECONDS,
        tool=TOOL,
    )


def _excluded(flags: Sequence[str] | None, n_rows: int) -> Mask:
    if flags is None:
        return np.zeros(n_rows, dtype=np.bool_)
    return np.array([flag.strip() in ("-1", "-1.0") for flag in flags], dtype=np.bool_)


def _seconds(starts: Sequence[str] | None, stops: Sequence[str] | None) -> float | None:
    """Epoch length by the first row's clock or seconds, where both are there."""
    if not starts or not stops:
        return None
    start, stop = _clock(starts[0]), _clock(stops[0])
    if start is None or stop is None:
        return None
    seconds = round((stop - start) % 86_400, 3)
    return seconds if seconds > 0 else None


def _clock(text: str) -> float | None:
    """Seconds of a number, or of a time of day."""
    try:
        return float(text)
    except ValueError:
        pass
    for layout in ("%H:%M:%S", "%H:%M:%S.%f", "%H.%M.%S"):
        try:
            moment = datetime.strptime(text, layout)
        except ValueError:
            continue
        return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    return None


PREFIX = "PP_"
MOST_SAMPLES = 10_000_000  # of one channel: a night has one per 5 or 30 s
ROUNDING = 1e-3  # how far below 0 the 16 bits of a sample may put a probability


def read_luna_edf(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of `RUN-POPS hypnodensity` or of POPS with posterior channels, one row per sample."""
    recording = read_edf_recording(path)
    channels = {
        name.upper(): signal
        for name, signal in recording.signals.items()
        if name.upper().startswith(PREFIX) and isinstance(signal, Signal)
    }
    if len(channels) < 2:
        raise file_error(
            path, f"has no channels of posteriors such as PP_W (got: {listed(list(recording.signals))})."
        )
    header = tuple(channels)
    places, names = choose_columns(path, header, options.stages, options.scheme)
    chosen = [channels[header[place]] for place in places]
    shapes = {(signal.n_samples, signal.rate_hz) for signal in chosen}
    if len(shapes) != 1:
        raise file_error(path, "has channels of posteriors of different lengths or sampling rates.")
    n_samples, rate_hz = shapes.pop()
    if n_samples > MOST_SAMPLES:
        raise file_error(path, f"has {n_samples:,} samples of posteriors, expected at most {MOST_SAMPLES:,}.")
    values = np.column_stack([signal.read(0, n_samples) for signal in chosen])
    values = np.where((values < 0) & (values >= -ROUNDING), 0.0, values)
    is_empty = (values == 0).all(axis=1)
    values[is_empty] = np.nan
    n_empty = int(np.count_nonzero(is_empty))
    note = f"{n_empty:,} rows of zeros: read as without evidence"
    return RawDensity(
        values,
        names,
        epoch_seconds=round(1 / rate_hz, 6),
        start=recording.start,
        notes=recording.notes + ((note,) if n_empty else ()),
    )

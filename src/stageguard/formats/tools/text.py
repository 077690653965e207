"""Read text, tables and arrays of stages: names, or numbers in a numbering that the caller names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from stageguard.arrays import Floats, Indices
from stageguard.checks import MISSING_WORDS
from stageguard.errors import FileFormatError, ProfileError, record_fault
from stageguard.files import file_error
from stageguard.formats.annotations import COARSE, LONGEST_GUESS, staged_rows, stages_among
from stageguard.formats.density import listed
from stageguard.formats.file_format import STAGES_ALONE, Contents, FileFormat
from stageguard.formats.hypnogram import (
    DIGITS,
    NPY,
    NUMBERINGS,
    column_of_stages,
    is_stage,
    names_of,
    number_list,
    numbered_stages,
    stage_column,
    stage_numbers,
)
from stageguard.formats.night import (
    Event,
    FileOptions,
    Night,
    RawHypnogram,
    Recorded,
)
from stageguard.formats.outputs import (
    OWN_HEAD,
    check_recorded,
    is_output,
    output_paths,
    read_sidecar,
)
from stageguard.formats.shared_profile import recorded_profile
from stageguard.formats.sniffing import Sniff, integers, is_number_list, is_text, read_head
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    find_rows,
    first_filled,
    split_line,
    text_lines,
)
from stageguard.formats.tables.table import (
    NAMELESS,
    IndexColumns,
    Meaning,
    Table,
    as_number,
    refuse_several,
    row_name,
)
from stageguard.formats.tables.times import INDEX, TOLERANCE, RowTimes, nameless_index, read_timing, row_times
from stageguard.formats.tools.arrays import load_plain
from stageguard.measures.cohort import DecodedFacts
from stageguard.night.period import Period
from stageguard.night.quantities import STEERED_BY
from stageguard.night.stages import UNSCORED_NAME, StageScheme, canonical_name
from stageguard.profile.profile import Profile

ARGMAX_COLUMN = "argmax_stage"
LEAST_SHORT = 0.75  # this share of steps between rows must be the shortest step; then others are gaps
EVENT_COLUMNS = frozenset(("trial_type", "description", "label", "annotation"))


def read_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of a table with a column of stages, or of text with one stage per line."""
    return stages_of_lines(path, text_lines(path), options)


def stages_of_lines(path: Path, lines: Sequence[str], options: FileOptions) -> RawHypnogram:
    """Return the stages of a table with a column of stages, or of text with one stage per line."""
    table = _find_table(path, lines, options)
    if table is None and (name := column_of_stages(lines, is_only=True)) is not None:
        options = replace(options, column=name)
        table = _find_table(path, lines, options)
    if table is not None:
        return from_table(path, table, options)
    number = first_filled(lines)
    first = lines[number].strip()
    is_mixed = first in DIGITS and any(canonical_name(line.strip()) in ("W", "R") for line in lines)
    if not is_mixed and not is_stage(first, options.scheme or options.default_scheme):
        raise file_error(
            path,
            f"line {number + 1} is {first[:40]!r}, expected a stage name such as W, N1, N2, N3, R, or a "
            "header with a column named stage; of another name, say column. Numbers are not read, since "
            "tools number stages differently.",
        )
    if len(lines) == number + 1 and canonical_name(first) in COARSE:
        raise file_error(path, f"holds {first!r} and nothing else. Was it written completely?")
    return _line_stages(path, lines, first=number)


def write_text(night: Night, path: Path) -> Contents:
    """Write one stage name per line, ? if unscored."""
    stages = night.from_recording_start().hypnogram.stages
    return {path: "\n".join(stages.tolist()) + "\n"}


def _find_table(path: Path, lines: Sequence[str], options: FileOptions) -> Table | None:
    """Return the table below the first line that names the column of stages, or None."""
    wanted = options.column
    table = find_rows(path, lines, lambda header: stage_column(header, wanted) is not None)
    is_list = is_stage(lines[first_filled(lines)].strip(), options.scheme or options.default_scheme)
    if table is None and wanted is not None and not is_list:
        there = listed(max((split_line(lines[0], mark) for mark in DELIMITERS), key=len))
        raise file_error(path, f"has no column {wanted[:40]!r}. Columns: {there}.")
    return table


def from_table(path: Path, table: Table, options: FileOptions) -> RawHypnogram:
    """Return the stages of a table's rows: one row per epoch, or stages with onset and duration.

    Onsets count from the recording's start. Epochs that rows skip are unscored, and so are whole epochs
    before the first row, unless this package wrote the table.
    """
    column = stage_column(table.header, options.column)
    if column is None:
        if options.column is not None:
            raise file_error(path, f"has no column {options.column[:40]!r}. Columns: {listed(table.header)}.")
        raise file_error(
            path, f"has the columns {listed(table.header)}, expected one named stage. Say which with column."
        )
    name = table.header[column]
    recorded = _read_record(path, len(table.lines))  # before missing rows are added as unscored
    _refuse_several(path, table, name)
    table = _name_index(path, table)
    others = [column_name for column_name in dict.fromkeys(table.header) if column_name != name]
    times = row_times(
        path, [(each, table.column(each)) for each in others], table.index.meanings, table.lines
    )
    is_own = recorded is not None or ARGMAX_COLUMN in table.header or _is_own_table(table.header)
    if (
        times.onset is not None
        and times.lasting is not None
        and not _is_tiled(times.onset - (times.onset[0] if is_own else 0.0), times.lasting)
    ):
        return _event_stages(path, table, name, times, options)
    _refuse_doubtful(path, table, times)
    timing = read_timing(
        path, times, table.lines, given=options.epoch_seconds, missing="unscored", fills_lead=not is_own
    )
    start = timing.start if recorded is None else recorded[1]
    raw = RawHypnogram(
        table.column(name),
        table.lines,
        epoch_seconds=timing.epoch_seconds,
        start=start,
        profile=None if recorded is None else recorded[0],
        recorded=None if recorded is None else recorded[2],
        argmax_stages=table.column(ARGMAX_COLUMN) if ARGMAX_COLUMN in table.header else None,
        offset_seconds=timing.offset_seconds,
        has_clock=recorded is None,
        notes=_other_columns(table, name, times, is_own=recorded is not None) + table.notes + timing.notes,
        scorer=None if recorded is None else f"StageGuard {recorded[0].name}",
    )
    return raw if timing.places is None else _spread_rows(raw, timing.places)


def _name_index(path: Path, table: Table) -> Table:
    """Name a nameless column, as pandas writes its index, like the index in memory."""
    nameless = [name for name in table.header if name in NAMELESS]
    if len(nameless) != 1 or table.index.meanings or INDEX in table.header:
        return table
    index = nameless_index(path, np.array(table.column(nameless[0]), dtype=object))
    new_name = INDEX if index.columns else nameless[0]
    header = tuple(new_name if name in NAMELESS else name for name in table.header)
    return replace(table, header=header, notes=table.notes + index.notes, index=index)


def _spread_rows(raw: RawHypnogram, places: Indices) -> RawHypnogram:
    """Put rows at their epochs; epochs in between are unscored."""

    def put(cells: Sequence[str]) -> tuple[str, ...]:
        by_epoch = dict(zip(places.tolist(), cells, strict=True))
        return tuple(by_epoch.get(epoch, UNSCORED_NAME) for epoch in range(int(places[-1]) + 1))

    lines = None if raw.lines is None else np.repeat(raw.lines, np.diff(places, prepend=-1)).tolist()
    by_stager = None if raw.argmax_stages is None else put(raw.argmax_stages)
    return replace(raw, stages=put(raw.stages), lines=lines, argmax_stages=by_stager)


def _refuse_several(path: Path, table: Table, name: str) -> None:
    """Refuse a table of several nights or scorers, or with several columns of stages with one name."""
    if table.header.count(name) > 1:
        raise file_error(
            path, f"has {table.header.count(name)} columns named {name}, expected one. Rename or remove one."
        )
    refuse_several(table, of_channels=name not in EVENT_COLUMNS)


def _refuse_doubtful(path: Path, table: Table, times: RowTimes) -> None:
    """Refuse rows that may be runs of epochs."""
    if times.onset is None or len(times.onset) < 3 or times.epoch is not None:
        return
    steps = np.diff(times.onset)
    is_short = steps <= (1 + TOLERANCE) * steps.min()
    if is_short.all() or steps.min() <= 0:
        return
    if is_short.mean() < LEAST_SHORT or steps.min() > LONGEST_GUESS:
        row = int(np.argmin(is_short))
        raise file_error(
            path,
            f"{row_name(table.lines, row + 1)} is {steps[row]:g} s after the row before, others are "
            f"{steps.min():g} s apart: stages that last, or epochs that are missing? Add a column duration "
            "in seconds, or write one row per epoch, ? for unscored epochs.",
        )


def _other_columns(table: Table, name: str, times: RowTimes, *, is_own: bool = False) -> tuple[str, ...]:
    """Return remarks on columns that are not read, except those that this package wrote."""
    others = [each for each in table.header if each.startswith("stage") and each not in (name, "stage_n")]
    notes: tuple[str, ...] = ()
    if others:
        notes = (f"stages are those of the column {name}; left out: {listed(others)}",)
    taken = {name, ARGMAX_COLUMN, "stage_n", *others, *times.used}
    ignored = [each or "(unnamed)" for each in table.header if each not in taken]
    if ignored and not is_own and not _is_own_table(table.header):
        notes += (f"columns ignored: {listed(ignored)}",)
    return notes


def _is_own_table(header: Sequence[str]) -> bool:
    """Whether columns are those of this package's table of one night or of a cohort."""
    names = tuple(header)
    return OWN_HEAD in (names[: len(OWN_HEAD)], names[1 : len(OWN_HEAD) + 1])


def read_stage_lines(path: Path, words: Mapping[str, str], scheme: StageScheme | None = None) -> RawHypnogram:
    """Read one stage per line; replace another tool's `words`, in lower case."""
    lines = text_lines(path)
    return _line_stages(path, lines, words, scheme, first_filled(lines))


def _line_stages(
    path: Path,
    lines: Sequence[str],
    words: Mapping[str, str] | None = None,
    scheme: StageScheme | None = None,
    first: int = 0,
) -> RawHypnogram:
    """Return one stage per line, from line `first` on."""
    lines = [line.strip() for line in lines]
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line:
            raise file_error(path, f"line {number} is empty. Write ? for an unscored epoch.")
    stages = tuple((words or {}).get(line.casefold(), line) for line in lines[first:])
    return RawHypnogram(stages, range(first + 1, len(lines) + 1), scheme=scheme)


def _is_tiled(onsets: Floats, lasting: Floats) -> bool:
    """Whether every row is one epoch that begins where the last one ended, from 0."""
    if not lasting[0] > 0 or not np.abs(lasting - lasting[0]).max() <= 1e-6:
        return False
    expected = lasting[0] * np.arange(len(onsets))
    return bool(np.abs(onsets - expected).max() <= TOLERANCE * lasting[0])


def _event_stages(path: Path, table: Table, name: str, times: RowTimes, options: FileOptions) -> RawHypnogram:
    """Return stages with onset and duration in seconds: runs of epochs, with unscored gaps."""
    assert times.onset is not None and times.lasting is not None
    onsets, texts = times.onset.tolist(), table.column(name)
    lasting = [None if seconds != seconds else seconds for seconds in times.lasting.tolist()]
    notes = _other_columns(table, name, times) + table.notes + times.notes
    if name in EVENT_COLUMNS:
        annotations = list(map(Event, onsets, lasting, texts))
        raw = stages_among(path, annotations, options, start=times.start, only_stages=True)
        return replace(raw, notes=raw.notes + notes)
    lasting = [seconds or None for seconds in lasting]
    stages = [text or UNSCORED_NAME for text in texts]
    rows = zip(table.lines, onsets, lasting, stages, strict=True)
    return staged_rows(path, rows, options, start=times.start, notes=notes)


def _period(recorded: list[int] | None, n_rows: int) -> Period | None:
    """Return a sleep period as `decode` recorded it."""
    if recorded is None:
        return None
    first, stop = recorded
    if not all(type(epoch) is int for epoch in recorded) or not 0 <= first <= stop <= n_rows:
        raise ValueError(f"period {recorded}")
    return first, stop


def _read_record(path: Path, n_rows: int) -> tuple[Profile, datetime | None, Recorded] | None:
    """Return the profile, start and measures that `decode` recorded beside its table, or None."""
    sidecar = output_paths(path).sidecar
    if not is_output(path) or not sidecar.is_file():
        return None
    record = read_sidecar(sidecar)
    try:
        check_recorded(path, record, n_rows)
        start = record["hypnogram"]["start"]
        profile = recorded_profile(sidecar, record["profile"])
        steered = frozenset(what for what in STEERED_BY if what in record["steered"])
        period = _period(record.get("period"), n_rows)
        look_at = str(record.get("measured", {}).get("look_at", ""))
        decoded = DecodedFacts.from_record(record) if "n_scored" in record else None  # a row of a table
        recorded = Recorded(steered, decoded, period, look_at)
        return profile, None if start is None else datetime.fromisoformat(start), recorded
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, ProfileError) as error:
        raise file_error(sidecar, record_fault(error)) from None


def read_numbers(path: Path, options: FileOptions, *, numbering: str) -> RawHypnogram:
    """Read the stages of a file with the numbers of `NUMBERINGS[numbering]`."""
    if options.format is None:  # numbers that fit only one numbering may still be an unknown tool's
        say = f"Say whose: format='numbers-{numbering}'."
        raise file_error(path, f"holds numbers, and tools number stages differently. {say}")
    head = read_head(path)
    if not head.startswith(NPY) and not is_number_list(head, path):
        return numbers_of_lines(path, text_lines(path), options, numbering=numbering)
    numbers = _array_numbers(path) if head.startswith(NPY) else number_list(path)
    return numbered_stages(path, numbers, NUMBERINGS[numbering], what="epoch")


def numbers_of_lines(
    path: Path, lines: Sequence[str], options: FileOptions, *, numbering: str
) -> RawHypnogram:
    """Return the stages of a text of numbers, one per line or in a table's column of stages."""
    first = first_filled(lines)
    if as_number(lines[first]) is None:
        table = _find_table(path, lines, options)
        if table is None:
            raise file_error(
                path,
                f"line {first + 1} is {lines[first][:40]!r}, expected a number, or a column named stage.",
            )
        return read_numbered_table(path, table, numbering, options)
    codes = stage_numbers(path, lines[first:], range(first + 1, len(lines) + 1), MISSING_WORDS - {""})
    return numbered_stages(path, codes, NUMBERINGS[numbering], what="line", first=first + 1)


def read_numbered_table(
    path: Path,
    table: Table,
    numbering: str,
    options: FileOptions,
) -> RawHypnogram:
    """Return the stages of a table whose column of stages holds numbers, timed by its other columns."""
    if numbering == "wav2sleep" and {"timestamp", "pred"} <= {*table.header}:  # beside the expert's stages
        ends = IndexColumns(meanings={"timestamp": Meaning("end", 1.0, True)})
        table, options = replace(table, index=ends), replace(options, column=options.column or "pred")
    column = stage_column(table.header, options.column)
    if column is None:
        return from_table(path, table, options)  # raises the error
    codes = stage_numbers(path, table.column(column), table.lines, MISSING_WORDS)
    names = names_of(path, codes, NUMBERINGS[numbering].codes, what="line", first=table.lines[0])
    columns = [*table.columns[:column], names, *table.columns[column + 1 :]]
    raw = from_table(path, replace(table, columns=columns), options)
    return replace(raw, scheme=NUMBERINGS[numbering].scheme)


def _array_numbers(path: Path) -> list[float]:
    values = load_plain(path)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not len(values):
        raise file_error(
            path,
            f"holds {values.dtype} of shape {values.shape}, expected one number per epoch. Are these "
            "probabilities? Then use read_density.",
        )
    return list(values.tolist())


def _holds(codes: Collection[int]) -> Sniff:
    """Return the test for text with one of these numbers per line."""

    def test(head: bytes, path: Path) -> bool:
        values = integers(head)
        return values is not None and values <= set(codes)

    return test


FORMATS = (
    *(
        FileFormat(
            f"numbers-{name}",
            f"stage numbers of {numbering.whose}",
            (".txt", ".csv", ".npy"),
            _holds(numbering.codes),
            stages=partial(read_numbers, numbering=name),
            loses=STAGES_ALONE,
        )
        for name, numbering in NUMBERINGS.items()
    ),
    FileFormat(
        "text",
        "text or a table with one stage per epoch",
        (".txt", ".csv", ".tsv"),
        is_text,
        stages=read_stages,
        write=write_text,
        loses=STAGES_ALONE,
        is_general=True,
        is_plain=True,
    ),
)

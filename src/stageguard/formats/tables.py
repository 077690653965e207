"""Read CSV and TSV tables of stage probabilities by column name. Does not guess what unnamed columns mean."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stageguard.errors import did_you_mean
from stageguard.formats._density_file import DensityOptions, RawDensity, file_error, listed
from stageguard.formats._timing import TIMING_COLUMNS, FloatVector, read_timing
from stageguard.stages import StageScheme, canonical_name

DELIMITERS = ("\t", ";", ",")
NO_EVIDENCE = frozenset({"", "nan", "na", "n/a", "null", "none"})
HEADER_SEARCH_LINES = 20


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the table begins and which columns are stages."""

    delimiter: str
    header: tuple[str, ...]
    first_line: int
    columns: tuple[int, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    timing: Mapping[str, int] = field(default_factory=dict)  # place of onset, duration and epoch
    is_told: bool = False  # the file says when epochs are, in a way that is not read


def read_table(path: Path, options: DensityOptions) -> RawDensity:
    """Probabilities from a delimited text file with one row per epoch.

    Columns are matched by stage name in any order and any known alias. Onset, duration and epoch say how
    long epochs are and which are missing; other columns are ignored and listed. A row whose stage cells are
    all empty or NaN is an epoch without evidence.
    """
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise file_error(path, "holds nothing but blank space. Expected a header such as W,N1,N2,N3,R.")
    layout = _find_layout(path, lines, options.stages, options.scheme)
    body = lines[layout.first_line :]
    if not body:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    values = _fast_values(body, layout)
    notes = layout.notes
    if values is None:
        values, decimal_comma = _careful_values(path, body, layout)
        notes += ("decimal commas were read as points",) if decimal_comma else ()
    numbers = [layout.first_line + 1 + row for row in range(len(values))]
    timing = read_timing(path, _timing_values(path, body, layout), numbers)
    return RawDensity(
        values,
        layout.names,
        epoch_seconds=timing.epoch_seconds,
        notes=notes + timing.notes,
        lines=numbers,
        epoch_source=timing.source,
        places=timing.places,
        is_told=layout.is_told,
    )


def read_text(path: Path) -> str:
    """Text of a file in UTF-8, with plain line ends; anything else is one line that names the file."""
    data = path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise file_error(path, "is UTF-16 text. Save it as UTF-8.")
    if b"\x00" in data:
        raise file_error(path, f"holds binary data (a NUL at byte {data.index(0)}), not a CSV or TSV table.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise file_error(
            path, f"line {line} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_line(line: str, delimiter: str) -> tuple[str, ...]:
    """Cells of one line, without the space around them; none when the quotes do not match."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return ()
    return tuple(cell.strip() for cell in rows[0]) if rows else ()


def _find_layout(
    path: Path, lines: Sequence[str], stages: Sequence[str] | None, own: StageScheme | None = None
) -> Layout:
    """Header line and delimiter: the pair under which most cells are stage names."""
    wanted = set() if stages is None else {stage.casefold() for stage in stages}
    own_names = set() if own is None or stages is not None else set(own.names)

    def n_stages(cells: Sequence[str]) -> int:
        if own_names and own_names <= set(cells):
            return len(own_names)
        return sum(canonical_name(cell) is not None or cell.casefold() in wanted for cell in cells)

    best: tuple[int, str, int] = (1, "", -1)
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            n_found = n_stages(split_line(line, delimiter))
            if n_found > best[0]:
                best = (n_found, delimiter, number)
    if best[2] < 0:
        return _headerless_layout(path, lines, stages)
    header = split_line(lines[best[2]], best[1])
    if own is not None and own_names and own_names <= set(header):
        stages = own.names
    if stages is None:
        columns = tuple(i for i, cell in enumerate(header) if canonical_name(cell))
        _refuse_twins(path, header, columns)
    else:
        columns = tuple(_column_of(path, stage, header) for stage in stages)
    names = tuple(header[i] for i in columns) if stages is None else tuple(stages)
    layout = Layout(best[1], header, best[2] + 1, columns, names, ())
    timing, unused = _timing_columns(layout, lines)
    taken = {*columns, *timing.values()}
    ignored = [
        cell or "(unnamed)"
        for i, cell in enumerate(header)
        if i not in taken and cell.casefold() not in unused
    ]
    notes = (f"columns ignored: {listed(ignored)}",) if ignored else ()
    is_told = bool(unused.keys() & {"onset", "duration"})
    return replace(layout, notes=(*notes, *unused.values()), timing=timing, is_told=is_told)


def _timing_columns(layout: Layout, lines: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """Places of onset, duration and epoch; and why a column of such a name cannot be used."""
    names = [cell.casefold() for cell in layout.header]
    used, unused = {}, {}
    for name in TIMING_COLUMNS:
        if name not in names or names.index(name) in layout.columns:
            continue
        place = names.index(name)
        cell = _first_cell(layout, lines, place)
        if _is_number(_point(cell, layout)) and cell.casefold() not in NO_EVIDENCE:
            used[name] = place
        else:
            found = f"begins with {cell[:40]!r}, no number" if cell else "is empty"
            unused[name] = f"the {name} column {found}: not used"
    return used, unused


def _first_cell(layout: Layout, lines: Sequence[str], place: int) -> str:
    """Return the first cell of a column that says anything."""
    for line in lines[layout.first_line :]:
        row = split_line(line, layout.delimiter)
        if place < len(row) and row[place].casefold() not in NO_EVIDENCE:
            return row[place]
    return ""


def _timing_values(path: Path, body: Sequence[str], layout: Layout) -> dict[str, FloatVector]:
    """Numbers of the columns that say when an epoch is; the first cell that holds none is named."""
    if not layout.timing:
        return {}
    clean = _fast_values(body, replace(layout, columns=tuple(layout.timing.values())))
    if clean is not None and np.isfinite(clean).all():
        return dict(zip(layout.timing, clean.T, strict=True))
    found: dict[str, list[float]] = {name: [] for name in layout.timing}
    for line, row in _rows(path, body, layout):
        for name, i in layout.timing.items():
            cell = _point(row[i].strip(), layout)
            if not _is_number(cell) or not np.isfinite(float(cell)):
                raise file_error(
                    path, f"line {line}, column {layout.header[i]!r}: expected a number, got {cell[:40]!r}."
                )
            found[name].append(float(cell))
    return {name: np.array(values) for name, values in found.items()}


def _point(cell: str, layout: Layout) -> str:
    return cell if layout.delimiter == "," else cell.replace(",", ".")


def _headerless_layout(path: Path, lines: Sequence[str], stages: Sequence[str] | None) -> Layout:
    """Bare numbers are read only when the caller names every column."""
    delimiter = max(DELIMITERS, key=lambda mark: len(split_line(lines[0], mark)))
    cells = split_line(lines[0], delimiter)
    if not cells or not all(_is_number(cell) for cell in cells):
        shown = ", ".join(cells[:8]) or lines[0][:40]
        raise file_error(
            path,
            f"line 1 names no stages (got: {shown[:80]}). "
            "Expected a header with stage names such as W,N1,N2,N3,R.",
        )
    if stages is None or len(stages) != len(cells):
        raise file_error(
            path,
            f"has no header: line 1 holds {len(cells)} number{'s' * (len(cells) != 1)}. Add a header with "
            "stage names such as W,N1,N2,N3,R, or name every column in order: --stages W,N1,N2,N3,R.",
        )
    names = tuple(stages)
    note = f"no header: columns read as {listed(names)}"
    return Layout(delimiter, names, 0, tuple(range(len(names))), names, (note,))


def _refuse_twins(path: Path, header: Sequence[str], columns: Sequence[int]) -> None:
    seen: dict[str | None, str] = {}
    for i in columns:
        stage = canonical_name(header[i])
        if stage in seen:
            raise file_error(
                path,
                f"columns {seen[stage]!r} and {header[i]!r} both mean stage {stage}. "
                "Keep one, or say which columns to read with stages (--stages).",
            )
        seen[stage] = header[i]


def _column_of(path: Path, stage: str, header: Sequence[str]) -> int:
    """Column of a stage the caller named: by its exact name, then ignoring case, then by alias."""
    tests = (
        lambda cell: cell == stage,
        lambda cell: cell.casefold() == stage.casefold(),
        lambda cell: canonical_name(cell) is not None and canonical_name(cell) == canonical_name(stage),
    )
    for test in tests:
        found = [i for i, cell in enumerate(header) if test(cell)]
        if len(found) > 1:
            raise file_error(path, f"{len(found)} columns could be stage {stage!r}. Keep one.")
        if found:
            return found[0]
    raise file_error(
        path, f"has no column for stage {stage!r}. Columns: {listed(header)}.{did_you_mean(stage, header)}"
    )


def _fast_values(body: Sequence[str], layout: Layout) -> npt.NDArray[np.float64] | None:
    """Numbers of a clean table in one call, or None when a careful look is needed."""
    n_marks = len(layout.header) - 1
    if any('"' in line or line.count(layout.delimiter) != n_marks for line in body):
        return None
    try:
        return np.loadtxt(
            body, delimiter=layout.delimiter, usecols=layout.columns, comments=None, ndmin=2, dtype=np.float64
        )
    except ValueError:
        return None


def _careful_values(path: Path, body: Sequence[str], layout: Layout) -> tuple[npt.NDArray[np.float64], bool]:
    """Numbers cell by cell; the first thing wrong is named by line and column."""
    decimal_comma = layout.delimiter != "," and any(
        "," in row[i] for _, row in _rows(path, body, layout) for i in layout.columns
    )
    values = np.empty((len(body), len(layout.columns)))
    n_rows = 0
    for line, row in _rows(path, body, layout):
        for j, i in enumerate(layout.columns):
            cell = row[i].strip()
            if cell.casefold() in NO_EVIDENCE:
                values[n_rows, j] = np.nan
                continue
            number = cell.replace(",", ".") if decimal_comma else cell
            if not _is_number(number):
                raise file_error(
                    path, f"line {line}, column {layout.header[i]!r}: expected a number, got {cell[:40]!r}."
                )
            values[n_rows, j] = float(number)
        empty = np.isnan(values[n_rows])
        if empty.any() and not empty.all():
            column = layout.header[layout.columns[int(np.argmax(empty))]]
            raise file_error(
                path,
                f"line {line}, column {column!r}: no number, but other stages of this row have one. "
                "Fill it, or leave all stages of the row empty where there is no evidence.",
            )
        n_rows += 1
    return values[:n_rows], decimal_comma


def _rows(path: Path, body: Sequence[str], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1, as editors count) and cells of each row; ragged rows are refused."""
    reader = csv.reader(io.StringIO("\n".join(body)), delimiter=layout.delimiter)
    try:
        for row in reader:
            line = layout.first_line + reader.line_num
            if len(row) != len(layout.header):
                raise file_error(
                    path,
                    f"line {line} has {len(row)} cell{'s' * (len(row) != 1)}, the header has "
                    f"{len(layout.header)}. Every row needs one cell per column.",
                )
            yield line, row
    except csv.Error as error:
        raise file_error(path, f"line {layout.first_line + reader.line_num}: {error}.") from None


def _is_number(cell: str) -> bool:
    if "_" in cell:  # Python reads 1_000 as a number; no table means that
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True

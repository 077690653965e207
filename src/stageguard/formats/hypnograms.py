"""Read hypnograms: what `decode` wrote, text with one stage per epoch, EDF+ and XML. Does not judge them.

A reader for another format returns a `RawHypnogram`; `build_hypnogram` does the rest. `scorings` lists the
formats that are told apart by their content.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from stageguard.errors import FileFormatError, InputError, ProfileError, did_you_mean
from stageguard.formats._density_file import file_error, settle_epoch_seconds
from stageguard.formats._timing import read_timing
from stageguard.formats.outputs import TSV_SUFFIX, output_paths, read_sidecar
from stageguard.formats.scorings import reader_for
from stageguard.formats.tables import DELIMITERS, HEADER_SEARCH_LINES, read_text, split_line
from stageguard.hypnogram import UNSCORED, Hypnogram
from stageguard.measures.bouts import in_scheme
from stageguard.profile import Profile
from stageguard.stages import AASM5, SCHEMES, WNR3, WS2, StageScheme, as_scheme, canonical_name

STAGE_COLUMNS = ("stage", "sleep_stage", "sleep stage", "stages", "hypnogram", "trial_type", "description")
UNSCORED_WORDS = frozenset(
    (
        *("?", "-1", "", "n/a", "na", "nan", "none", "uns", "unscored", "unknown", "undefined"),
        *("art", "artefact", "artifact", "movement", "movement time", "mt", "sleep stage ?"),
    )
)
DEFAULT_EPOCH_SECONDS = 30.0
ARGMAX_COLUMN = "argmax_stage"


@dataclass(frozen=True, slots=True)
class HypnogramOptions:
    """What the caller says about a file; the defaults fill in what neither caller nor file says."""

    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    default_scheme: StageScheme | None = None
    default_epoch_seconds: float = DEFAULT_EPOCH_SECONDS


@dataclass(frozen=True, slots=True)
class RawHypnogram:
    """What a format found in a file: one name per epoch, and what it says about them."""

    stages: tuple[str, ...]
    lines: tuple[int, ...]  # where each of them stands, as editors count
    epoch_seconds: float | None = None
    start: datetime | None = None
    profile: Profile | None = None
    argmax: tuple[str, ...] | None = None
    scheme: StageScheme | None = None  # the format's own, where it has one
    offset_seconds: float = 0.0  # from the recording's start to the first epoch, less than one epoch
    has_clock: bool = False  # `start` was told by a clock of the file's own
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HypnogramFile:
    """A file's hypnogram, what it came from where `decode` wrote it, and what was assumed."""

    hypnogram: Hypnogram
    argmax: Hypnogram | None = None
    profile: Profile | None = None
    notes: tuple[str, ...] = ()
    offset_seconds: float = 0.0
    has_clock: bool = False


def read_hypnogram(
    path: str | os.PathLike[str],
    *,
    scheme: StageScheme | str | None = None,
    epoch_seconds: float | None = None,
) -> Hypnogram:
    """One scored night from a file.

    Parameters
    ----------
    path : path-like
        A `.hypnogram.tsv` that `stageguard decode` wrote, a CSV or TSV with a column `stage`, text with one
        stage per line, EDF+ annotations, or XML of Compumedics Profusion or of the NSRR. Stages are names
        (W, N2, REM, "Sleep stage 2", ...); ? or -1 is unscored.
    scheme : StageScheme or str, optional
        The scheme to return; finer stages are merged into it. By default the one the names belong to.
    epoch_seconds : float, optional
        Epoch length in seconds; by default what the file says, else 30. Must not contradict the file.

    Raises
    ------
    FileFormatError
        With one line that names the file, the line in it, and what was expected.
    """
    given = None if scheme is None else as_scheme(scheme)
    return read_hypnogram_file(path, HypnogramOptions(given, epoch_seconds)).hypnogram


def read_hypnogram_file(path: str | os.PathLike[str], options: HypnogramOptions) -> HypnogramFile:
    """Like `read_hypnogram`, with the argmax, the profile, and remarks on what was assumed."""
    path = Path(path)
    if path.is_dir():
        raise file_error(path, "is a folder, expected a file.")
    read = reader_for(path) or _read_text_hypnogram
    return build_hypnogram(path, read(path, options), options)


def is_hypnogram(path: Path, scheme: StageScheme | None = None) -> bool:
    """Whether a file holds stages, also those of a scheme of one's own, rather than probabilities."""
    if path.name.endswith(TSV_SUFFIX):
        return True
    try:
        if reader_for(path) is not None:
            return True
        lines = read_text(path).split("\n")
    except FileFormatError:
        return False
    for line in lines[:HEADER_SEARCH_LINES]:
        heads = [split_line(line, mark) for mark in DELIMITERS]
        if any(sum(_names_stage(cell, scheme) for cell in head) > 1 for head in heads):
            return False  # several columns named after stages are probabilities
        if any(_stage_column(head) is not None for head in heads):
            return True
    return _is_stage(next((line.strip() for line in lines if line.strip()), ""), scheme)


def _names_stage(cell: str, scheme: StageScheme | None) -> bool:
    return canonical_name(cell) is not None or (scheme is not None and cell in scheme.names)


def build_hypnogram(path: Path, raw: RawHypnogram, options: HypnogramOptions) -> HypnogramFile:
    """Check a raw hypnogram and turn names into labels; every complaint names the file."""
    notes = list(raw.notes)
    epoch_seconds = settle_epoch_seconds(path, options.epoch_seconds, raw.epoch_seconds)
    if epoch_seconds is None:
        epoch_seconds = options.default_epoch_seconds
        notes.append(f"the file does not say how long an epoch is: {epoch_seconds:g} s assumed")
    own = raw.profile.scheme if raw.profile is not None else _scheme_of(path, raw, options)
    try:
        scored = Hypnogram(
            _labels(path, raw.stages, raw.lines, own), own, epoch_seconds, raw.start, path.name
        )
        wanted = options.scheme or own
        argmax = None
        if raw.argmax is not None:
            labels = _labels(path, raw.argmax, raw.lines, own)
            argmax = in_scheme(Hypnogram(labels, own, epoch_seconds, raw.start, "argmax"), wanted)
        night = in_scheme(scored, wanted)
        return HypnogramFile(night, argmax, raw.profile, tuple(notes), raw.offset_seconds, raw.has_clock)
    except InputError as error:
        raise file_error(path, str(error)) from None


def _read_text_hypnogram(path: Path, options: HypnogramOptions) -> RawHypnogram:
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise file_error(path, "is empty. Expected one stage per epoch.")
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = split_line(line, delimiter)
            column = _stage_column(header)
            if column is not None:
                return _from_table(path, lines, number, delimiter, header, column)
    return _from_bare_lines(path, lines, options.scheme or options.default_scheme)


def _from_bare_lines(path: Path, lines: Sequence[str], scheme: StageScheme | None) -> RawHypnogram:
    if not _is_stage(lines[0].strip(), scheme):
        raise file_error(
            path,
            f"line 1 is {lines[0].strip()[:40]!r}, expected a stage name such as W, N1, N2, N3, R, or a "
            "header with a column named stage. Numbers are not read, since tools number stages differently.",
        )
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise file_error(path, f"line {number} is empty. Write ? for an unscored epoch.")
    return RawHypnogram(tuple(line.strip() for line in lines), tuple(range(1, len(lines) + 1)))


def _from_table(
    path: Path, lines: Sequence[str], header_line: int, delimiter: str, header: Sequence[str], column: int
) -> RawHypnogram:
    numbers, rows = [], []
    for number, line in enumerate(lines[header_line + 1 :], start=header_line + 2):
        row = split_line(line, delimiter)
        if len(row) != len(header):
            raise file_error(
                path,
                f"line {number} has {len(row)} cell{'s' * (len(row) != 1)}, the header has {len(header)}. "
                "Every row needs one cell per column.",
            )
        numbers.append(number)
        rows.append(row)
    if not rows:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    names = [name.casefold() for name in header]
    argmax = None
    if ARGMAX_COLUMN in names:
        argmax = tuple(row[names.index(ARGMAX_COLUMN)] for row in rows)
    recorded = _recorded(path)
    return RawHypnogram(
        tuple(row[column] for row in rows),
        tuple(numbers),
        epoch_seconds=_row_seconds(path, names, rows, numbers),
        start=None if recorded is None else recorded[1],
        profile=None if recorded is None else recorded[0],
        argmax=argmax,
    )


def _row_seconds(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]
) -> float | None:
    """Length of an epoch where a table gives durations; every row must be one epoch after the last."""
    if "duration" not in names:
        return _step_seconds(path, names, rows, numbers)
    durations = _numbers(path, names.index("duration"), "duration", rows, numbers)
    different = np.flatnonzero(np.abs(durations - durations[0]) > 1e-6)
    if len(different):
        line = numbers[int(different[0])]
        raise file_error(
            path,
            f"line {line} lasts {durations[different[0]]:g} s and the first row {durations[0]:g} s. "
            "Expected one row per epoch, all of one length.",
        )
    if "onset" in names:
        onsets = _numbers(path, names.index("onset"), "onset", rows, numbers)
        expected = onsets[0] + durations[0] * np.arange(len(onsets))
        apart = np.flatnonzero(np.abs(onsets - expected) > 0.01 * durations[0])
        if len(apart):
            place = int(apart[0])
            raise file_error(
                path,
                f"line {numbers[place]} begins at {onsets[place]:g} s, expected {expected[place]:g} s: one "
                "row per epoch without gaps. Write ? for unscored epochs.",
            )
    return float(durations[0])


def _step_seconds(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]
) -> float | None:
    """Length of an epoch where a table gives onsets only; rows that skip epochs are refused."""
    columns = {}
    for name in ("onset", "epoch"):
        if name in names and _is_number(rows[0][names.index(name)]):
            columns[name] = _numbers(path, names.index(name), name, rows, numbers)
    timing = read_timing(path, columns, numbers)
    if timing.places is not None:
        line = numbers[int(np.argmax(np.diff(timing.places) > 1)) + 1]
        raise file_error(path, f"epochs are missing before line {line}. Write ? for unscored epochs.")
    return timing.epoch_seconds


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _numbers(
    path: Path, column: int, name: str, rows: Sequence[Sequence[str]], lines: Sequence[int]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.empty(len(rows))
    for place, row in enumerate(rows):
        try:
            values[place] = float(row[column])
        except ValueError:
            raise file_error(
                path, f"line {lines[place]}, column {name!r}: expected seconds, got {row[column][:40]!r}."
            ) from None
    return values


def _recorded(path: Path) -> tuple[Profile, datetime | None] | None:
    """Profile and start that `decode` recorded beside its table, or None."""
    sidecar = output_paths(path).sidecar
    if not path.name.endswith(TSV_SUFFIX) or not sidecar.is_file():
        return None
    record = read_sidecar(sidecar)
    try:
        start = record["hypnogram"]["start"]
        profile = Profile.from_dict(record["profile"]["definition"])
        return profile, None if start is None else datetime.fromisoformat(start)
    except (KeyError, TypeError, ValueError, ProfileError) as error:
        raise file_error(sidecar, f"is incomplete or was edited ({error!r}).") from None


def _stage_column(header: Sequence[str]) -> int | None:
    """Place of the column that holds stages, or None."""
    names = [cell.casefold() for cell in header]
    return next((names.index(name) for name in STAGE_COLUMNS if name in names), None)


def _is_stage(text: str, scheme: StageScheme | None) -> bool:
    known = scheme is not None and text in scheme.names
    return bool(text) and (known or text.casefold() in UNSCORED_WORDS or canonical_name(text) is not None)


def _scheme_of(path: Path, raw: RawHypnogram, options: HypnogramOptions) -> StageScheme:
    """Scheme the names belong to: the one given if they fit it, else the standard one they name."""
    names = {name for name in raw.stages if name.casefold() not in UNSCORED_WORDS}
    for scheme in (options.scheme, options.default_scheme):
        if scheme is not None and _all_known(names, scheme):
            return scheme
    if raw.scheme is not None:
        return raw.scheme
    meanings = {canonical_name(name) for name in names}
    if None in meanings:
        return (
            options.scheme or options.default_scheme or AASM5
        )  # `_labels` names the line of the unknown one
    fitting = [scheme for scheme in SCHEMES.values() if meanings <= set(scheme.names)]
    if not fitting:
        raise file_error(
            path,
            f"mixes the stages {', '.join(sorted(map(str, meanings)))}, expected those of one scheme: "
            + "; ".join(f"{scheme.name} = {' '.join(scheme.names)}" for scheme in (AASM5, WNR3, WS2))
            + ".",
        )
    if len(fitting) == 1:
        return fitting[0]
    raise file_error(
        path,
        f"names {' and '.join(sorted(map(str, meanings))) or 'no stage'} only, so its scheme may be "
        f"{' or '.join(scheme.name for scheme in fitting)}. Say which with scheme='{fitting[0].name}'.",
    )


def _all_known(names: set[str], scheme: StageScheme) -> bool:
    try:
        return all(scheme.index(name) >= 0 for name in names)
    except InputError:
        return False


def _labels(
    path: Path, stages: Sequence[str], lines: Sequence[int], scheme: StageScheme
) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    known: dict[str, int] = {}
    labels = np.empty(len(stages), dtype=np.int8)
    for place, stage in enumerate(stages):
        if stage not in known:
            known[stage] = UNSCORED if stage.casefold() in UNSCORED_WORDS else _label(stage, scheme)
            if known[stage] < UNSCORED:
                raise file_error(path, f"line {lines[place]}: {_unknown(stage, scheme)}")
        labels[place] = known[stage]
    return labels


def _label(stage: str, scheme: StageScheme) -> int:
    try:
        return scheme.index(stage)
    except InputError:
        return UNSCORED - 1


def _unknown(stage: str, scheme: StageScheme) -> str:
    """Say why a cell is no stage."""
    expected = f"expected {', '.join(scheme.names)}, or ? for unscored"
    if stage.lstrip("+-").replace(".", "", 1).isdecimal():
        return f"{stage[:40]!r} is a number, and tools number stages differently: {expected}."
    return f"{stage[:40]!r} is not a stage: {expected}.{did_you_mean(stage, scheme.names)}"

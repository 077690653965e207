"""Make a Hypnogram from the stage names that readers of scored nights return."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

import numpy as np

from stageguard.checks import MISSING_WORDS
from stageguard.errors import InputError, did_you_mean
from stageguard.files import file_error, load_json
from stageguard.formats.density import DEFAULT_EPOCH_SECONDS, MOST_EPOCHS, settle_epoch_seconds
from stageguard.formats.night import NOTHING_RECORDED, FileOptions, Night, RawHypnogram
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.formats.tables.table import NAMELESS, as_number
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import AASM5, SCHEMES, UNSCORED_NAME, WLDR4, WNR3, StageScheme, canonical_name

STAGE_COLUMNS = (
    *("stage", "sleep_stage", "sleep stage", "stages", "hypnogram"),
    *("stagename", "stage_name", "trial_type", "description", "label", "annotation"),
)
# Columns of stages by the names that people give; two of them in one table may be two scorings.
ANY_STAGE_COLUMNS = ("hypno", "y_pred", "y_true", "pred", "prediction", "predicted")
UNSCORED_WORDS = frozenset(
    (
        *(*MISSING_WORDS, "?", "-1", "uns", "unscored", "unknown", "undefined"),
        *("art", "artefact", "artifact", "movement", "movement time", "mt", "sleep stage ?", "unsure"),
    )
)
DIGITS = {"1": "N1", "2": "N2", "3": "N3", "4": "N3"}  # if the other stages are the letters W and R
YASA_INDEX = ("Epoch", "Time")  # the index of a series of `yasa.Hypnogram`
NPY = b"\x93NUMPY"


def stage_column(header: Sequence[str], column: str | None = None) -> int | None:
    """Return the index of the column that holds stages, or None; `column` is its name if the caller knows."""
    names = [cell.casefold() for cell in header]
    if column is not None:
        return names.index(column.casefold()) if column.casefold() in names else None
    found = next((names.index(name) for name in STAGE_COLUMNS if name in names), None)
    others = [index for index, name in enumerate(names) if name in ANY_STAGE_COLUMNS]
    if found is None and len(others) == 1:
        return others[0]
    if found is None and len(names) == 2 and names[0] in NAMELESS and names[1] == "0":
        return 1  # a series of pandas without a name, beside its index
    return found


def column_of_stages(lines: Sequence[str], *, is_only: bool = False) -> str | None:
    """Return the name of the first column of a text table whose first cells are all stages, or None.

    With `is_only`, the table has one other column, as the series of `yasa.Hypnogram` with a named scorer.
    """
    filled = [line for line in lines[:HEADER_SEARCH_LINES] if line.strip()]
    for mark in DELIMITERS if filled else ():
        header, *rows = (split_line(line, mark) for line in filled)
        found = []
        for column, name in enumerate(header):
            cells = {row[column].casefold() for row in rows if len(row) == len(header)} - UNSCORED_WORDS
            is_name = not is_stage(name, None) or (is_only and header[0] in YASA_INDEX)  # of a scorer, as W
            if name and cells and is_name and all(map(canonical_name, cells)):
                found.append(name)
        if found and (not is_only or (len(header), len(found)) == (2, 1)):
            return found[0]
    return None


def build_hypnogram(path: Path, raw: RawHypnogram, options: FileOptions) -> Night:
    """Check a raw hypnogram and turn names into labels; every error names the file."""
    if len(raw.stages) > MOST_EPOCHS:
        raise file_error(path, f"has {len(raw.stages):,} epochs, expected at most {MOST_EPOCHS:,}.")
    stages, remarks = _replace_digits(raw.stages)
    raw = replace(raw, stages=stages, notes=raw.notes + remarks)
    notes = [*raw.notes]
    epoch_seconds = settle_epoch_seconds(path, options.epoch_seconds, raw.epoch_seconds)
    is_assumed = epoch_seconds is None
    if epoch_seconds is None:
        epoch_seconds = options.default_epoch_seconds or DEFAULT_EPOCH_SECONDS
        notes.append(f"the file does not say how long an epoch is: {epoch_seconds:g} s assumed")
    file_scheme = raw.profile.scheme if raw.profile is not None else _scheme_of(path, raw, options)
    try:
        lines = range(len(raw.stages)) if raw.lines is None else raw.lines
        labels = _labels(path, raw.stages, lines, file_scheme)
        scorer = raw.scorer or path.name
        scored = Hypnogram(
            labels, file_scheme, epoch_seconds, raw.start, scorer, tuple(notes), raw.offset_seconds
        )
        scheme = options.scheme or file_scheme
        before = None
        if raw.argmax_stages is not None:
            best = _labels(path, raw.argmax_stages, lines, file_scheme)
            before = (replace(scored, labels=best, scorer="argmax", assumed=())).merge(scheme)
        night = scored.merge(scheme)
        has_clock = raw.has_clock and raw.start is not None
        recorded = raw.recorded if raw.recorded is not None and scheme == file_scheme else NOTHING_RECORDED
        return Night(
            scoring=night,
            before=before,
            profile=raw.profile,
            notes=tuple(notes),
            has_clock=has_clock,
            recorded=recorded,
            is_length_assumed=is_assumed,
        )
    except InputError as error:
        raise file_error(path, str(error)) from None


def _replace_digits(stages: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace digits by stage names if W and R are letters, so that the digits are clear; add a note."""
    kinds = {name for name in stages if name.casefold() not in UNSCORED_WORDS}
    digits = kinds & DIGITS.keys()
    if not digits or {canonical_name(name) for name in kinds - digits} != {"W", "R"}:
        return stages, ()
    replaced = ", ".join(f"{digit} as {DIGITS[digit]}" for digit in sorted(digits))
    return tuple(DIGITS.get(name, name) for name in stages), (f"beside letters, {replaced}",)


def is_stage(text: str, scheme: StageScheme | None) -> bool:
    """Whether a text is the name of a stage, or means unscored."""
    known = scheme is not None and text in scheme.names
    return bool(text) and (known or text.casefold() in UNSCORED_WORDS or canonical_name(text) is not None)


def _scheme_of(path: Path, raw: RawHypnogram, options: FileOptions) -> StageScheme:
    """Return the scheme of the names: the caller's or default scheme if they fit, else a standard one."""
    names = {name for name in raw.stages if name.casefold() not in UNSCORED_WORDS}
    for scheme in (options.scheme, options.default_scheme):
        if scheme is not None and all(_label(name, scheme) is not None for name in names):
            return scheme
    if raw.scheme is not None:
        return raw.scheme
    meanings = {canonical_name(name) for name in names}
    if None in meanings:  # `_labels` names the line of the unknown stage
        return options.scheme or options.default_scheme or AASM5
    fitting = [scheme for scheme in SCHEMES.values() if meanings <= set(scheme.names)]
    if not fitting:
        mixed = ", ".join(sorted(map(str, meanings)))
        known = "; ".join(f"{scheme.name} = {' '.join(scheme.names)}" for scheme in SCHEMES.values())
        raise file_error(path, f"mixes the stages {mixed}, expected those of one scheme: {known}.")
    if len(fitting) == 1:
        return fitting[0]
    named = " and ".join(sorted(map(str, meanings)))
    may_be = " or ".join(scheme.name for scheme in fitting)
    raise file_error(
        path,
        f"names {f'{named} only' if named else 'no stage'}, so its scheme may be {may_be}. Say which with "
        f"scheme={fitting[0].name!r}.",
    )


def _labels(
    path: Path, stages: Sequence[str], lines: Sequence[int], scheme: StageScheme
) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    known: dict[str, int] = {}
    for index, stage in enumerate(stages):
        if stage not in known:
            label = UNSCORED if stage.casefold() in UNSCORED_WORDS else _label(stage, scheme)
            if label is None:
                raise file_error(path, f"line {lines[index]}: {unknown_stage(stage, scheme)}")
            known[stage] = label
    return np.array([known[stage] for stage in stages], dtype=np.int8)


def _label(stage: str, scheme: StageScheme) -> int | None:
    try:
        return scheme.index(stage)
    except InputError:
        return None


def unknown_stage(stage: str, scheme: StageScheme) -> str:
    """Return the message for a cell that is not a stage."""
    expected = f"expected {', '.join(scheme.names)}, or ? for unscored"
    if stage.lstrip("+-").replace(".", "", 1).isdecimal():
        whose = "Or say whose numbers they are: format='numbers-yasa' (see docs/formats.md)."
        return f"{stage[:40]!r} is a number, and tools number stages differently: {expected}. {whose}"
    return f"{stage[:40]!r} is not a stage: {expected}.{did_you_mean(stage, scheme.names)}"


# How tools number stages: the same number means different stages in different tools.
_AASM = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "R"}


@dataclass(frozen=True, slots=True)
class Numbering:
    """A numbering of stages: the stage of each number, the tools that use it, and the scheme."""

    codes: Mapping[int, str]
    whose: str
    scheme: StageScheme = AASM5


NUMBERINGS: Mapping[str, Numbering] = {
    "yasa": Numbering({**_AASM, -1: UNSCORED_NAME, -2: UNSCORED_NAME}, "YASA, Dreem or GSSC (4 is REM)"),
    "rk": Numbering(
        {
            **{0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"},
            **dict.fromkeys((-1, 6, 7, 9), UNSCORED_NAME),
        },
        "Rechtschaffen and Kales or NSRR (5 is REM)",
    ),
    "usleep": Numbering({**_AASM, 5: UNSCORED_NAME, -1: UNSCORED_NAME}, "U-Sleep (4 is REM, 5 unknown)"),
    "sleepecg": Numbering(
        {0: UNSCORED_NAME, 1: "N3", 2: "N2", 3: "N1", 4: "R", 5: "W"}, "SleepECG (1 is N3, 5 is W)"
    ),
    "accusleep": Numbering(
        {1: "R", 2: "W", 3: "N", **dict.fromkeys((-1, 0, 4), UNSCORED_NAME)},
        "AccuSleep (1 is REM, 2 W, 3 NREM)",
        WNR3,
    ),
    "wav2sleep": Numbering(
        {0: "W", 1: "Light", 2: "Deep", 3: "R", -1: UNSCORED_NAME},
        "wav2sleep (1 is light, 2 deep, 3 REM)",
        WLDR4,
    ),
}


def names_of(
    path: Path, codes: Iterable[float], numbering: Mapping[int, str], *, what: str, first: int = 1
) -> tuple[str, ...]:
    """Return the stages of whole numbers, unscored for NaN; a number not in the numbering is an error.

    The error names a `what`, such as "line" or "epoch", counted from `first`.
    """
    stages = []
    for position, code in enumerate(codes, start=first):
        if code != code:
            stages.append(UNSCORED_NAME)
            continue
        if code not in numbering:
            known = ", ".join(f"{number} {name}" for number, name in sorted(numbering.items()))
            text = str(code) if isinstance(code, int) else f"{code:g}"  # JSON may hold very long numbers
            raise file_error(path, f"{what} {position} is {text[:20]}, expected one of: {known}.")
        stages.append(numbering[int(code)])
    return tuple(stages)


def numbered_stages(
    path: Path, codes: Iterable[float], numbering: Numbering, *, what: str, first: int = 0
) -> RawHypnogram:
    """Return the stages of numbers; errors and lines count `what` from `first`."""
    stages = names_of(path, codes, numbering.codes, what=what, first=first)
    return RawHypnogram(stages, range(first, first + len(stages)), scheme=numbering.scheme)


def stage_numbers(
    path: Path, cells: Sequence[str], lines: Sequence[int], missing: Collection[str] = ()
) -> list[float]:
    """Return the numbers in cells, NaN for words that mean missing."""
    codes = [nan if cell.strip().casefold() in missing else as_number(cell.strip()) for cell in cells]
    if None in codes:
        row = codes.index(None)
        raise file_error(
            path, f"line {lines[row]} is {cells[row].strip()[:40]!r}, expected a number of a stage."
        )
    return [float(code) for code in codes if code is not None]


def number_list(path: Path) -> list[int]:
    """Return a bare list of whole numbers in JSON, one per epoch."""
    values = load_json(path)
    if not isinstance(values, list) or not all(type(value) is int for value in values) or not values:
        raise file_error(path, "is not a list of whole numbers, expected one per epoch.")
    if len(values) > MOST_EPOCHS:
        raise file_error(path, f"has {len(values):,} epochs, expected at most {MOST_EPOCHS:,}.")
    return values

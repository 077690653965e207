"""Tables of one stage and its confidence per epoch, which are distributions only by the caller's word.

AccuSleePy writes `brain_state,confidence_score`: digits, and the sigmoid of the largest logit. YASA's FAQ
writes `Stage,Confidence`: names, and the largest probability. What the other stages had is lost in both.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats, Indices
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import Argument, StageGuardWarning
from stageguard.base.files import file_error
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    TextTable,
    rows_below,
    split_line,
    text_lines,
)
from stageguard.night.stages import AASM5, SCHEMES, canonical_name

UNDEFINED = MISSING_WORDS | {"-1", "?", "art", "uns"}


@dataclass(frozen=True, slots=True)
class Tool:
    """Who writes such a table, and what its columns and numbers mean."""

    name: str
    format: str
    label: str
    confidence: str
    digits: tuple[str, ...]  # stages of the digits from 1 on; none where labels are names
    usual_seconds: float
    meaning: str


ACCUSLEEPY = Tool(
    "AccuSleePy", "accusleepy-csv", "brain_state", "confidence_score", ("R", "W", "N"), 2.5,
    "the sigmoid of the largest logit, and belongs to the label before short bouts were replaced",
)  # fmt: skip
YASA = Tool(
    "YASA", "yasa-confidence-csv", "stage", "confidence", (), 30.0, "the probability of that stage alone"
)


def read_accusleepy_csv(path: Path, options: DensityOptions) -> RawDensity:
    """Labels and confidences of AccuSleePy, where the caller named the format."""
    return _read(path, options, ACCUSLEEPY)


def read_yasa_confidence(path: Path, options: DensityOptions) -> RawDensity:
    """Stages and confidences that YASA's examples write, where the caller named the format."""
    return _read(path, options, YASA)


def _read(path: Path, options: DensityOptions, tool: Tool) -> RawDensity:
    labels, confidences, lines = _columns(path, tool)
    if options.format != tool.format:
        raise file_error(
            path,
            "holds one stage and its confidence per epoch, not a distribution over the stages: the "
            f"confidence of {tool.name} is {tool.meaning}. To decode it all the same, with the rest "
            "spread evenly, say so: ",
            Argument("format", tool.format),
            ".",
        )
    return spread(path, labels, confidences, options, tool, lines)


def spread(
    where: Where,
    labels: Sequence[str],
    confidences: Floats,
    options: DensityOptions,
    tool: Tool,
    lines: Sequence[int] | None,
) -> RawDensity:
    """Give the label its confidence and the other stages equal parts of the rest, and warn of it.

    A confidence that does not exceed an equal part says nothing for the label: no evidence.
    """
    names, places = _stages(where, labels, options, tool, lines)
    n_stages = len(names)
    scored = places >= 0
    bad = scored & ~((confidences >= 0) & (confidences <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        line = f"row {row}" if lines is None else f"line {lines[row]}"
        raise file_error(where, f"{line}: the confidence is {confidences[row]:g}, expected 0 to 1.")
    known = scored & (confidences > 1 / n_stages)
    values = np.repeat(((1 - confidences) / (n_stages - 1))[:, None], n_stages, axis=1)
    values[np.flatnonzero(known), places[known]] = confidences[known]
    values[~known] = np.nan
    name = where if isinstance(where, str) else where.name
    others = f"the other {n_stages - 1} stages equal parts of the rest"
    notes = [f"not a distribution: each label got its confidence, {others}"]
    text = f"{name}: {notes[0]}. Decisions on it are weaker than they look."
    warnings.warn(StageGuardWarning(text), stacklevel=2)
    n_weak = int(np.count_nonzero(scored & ~known))
    if n_weak:
        notes.append(f"{n_weak:,} with a confidence of at most 1/{n_stages}: read as without evidence")
    return RawDensity(
        values,
        names,
        notes=tuple(notes),
        lines=lines,
        usual_seconds=tool.usual_seconds,
        tool=tool.name,
        is_chosen=bool(tool.digits),
    )


def _stages(
    where: Where, labels: Sequence[str], options: DensityOptions, tool: Tool, lines: Sequence[int] | None
) -> tuple[tuple[str, ...], Indices]:
    """Stage names, and the place of each label among them, -1 where undefined."""
    if tool.digits:
        names = tool.digits if options.stages is None else tuple(options.stages)
        meaning = {str(digit): digit - 1 for digit in range(1, len(names) + 1)}
        expected = ", ".join(f"{digit} {name}" for digit, name in enumerate(names, start=1))
    else:
        named = {canonical_name(label) for label in labels if label.casefold() not in UNDEFINED}
        fitting = [scheme for scheme in SCHEMES.values() if named <= set(scheme.names)]
        names = tuple(options.stages or (fitting[0] if fitting else AASM5).names)
        meaning = {str(canonical_name(name) or name): place for place, name in enumerate(names)}
        expected = ", ".join(names)
    places = np.full(len(labels), -1, dtype=np.intp)
    for row, label in enumerate(labels):
        key = label.removesuffix(".0") if tool.digits else str(canonical_name(label) or label)
        if key in meaning and key.casefold() not in UNDEFINED:
            places[row] = meaning[key]
        elif key.casefold() not in UNDEFINED:
            line = f"row {row}" if lines is None else f"line {lines[row]}"
            raise file_error(
                where,
                f"{line}: the stage is {label[:40]!r}, expected {expected}, or -1. Name others with stages.",
            )
    return names, places


def _columns(path: Path, tool: Tool) -> tuple[list[str], Floats, Sequence[int]]:
    """Labels, confidences, and the lines they stand in."""
    table = _table(path, tool)
    if tool.confidence not in table.header:
        raise file_error(
            path,
            f"holds the labels of {tool.name} without confidence (got: {listed(table.header)}), so no "
            "probabilities. Read it with read_hypnogram.",
        )
    confidences, _ = table.numbers(table.header.index(tool.confidence))
    return list(table.column(tool.label)), confidences, table.lines


def _table(path: Path, tool: Tool) -> TextTable:
    """Return the table below the first line that names the tool's column of labels."""
    lines = text_lines(path)
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = tuple(cell.casefold() for cell in split_line(line, delimiter))
            if tool.label in header:
                return rows_below(path, lines, number, delimiter, header)
    raise file_error(path, f"has no column {tool.label}, so it is not a table of {tool.name}.")

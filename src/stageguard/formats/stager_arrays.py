"""Read bare arrays, and tables of one stage and its confidence per epoch.

The meaning of columns is never guessed: the caller names the stages, or the tool. AccuSleePy writes
`brain_state,confidence_score`: digits, and the sigmoid of the largest logit. YASA's FAQ writes
`Stage,Confidence`: names, and the largest probability. Both lose the values of the other stages.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Indices
from stageguard.base.checks import MISSING_WORDS, array_of, array_of_tensor, type_name
from stageguard.base.errors import Argument, Message, StageGuardWarning, did_you_mean, fault_text
from stageguard.base.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.raw_night import FileOptions, RawDensity, Where
from stageguard.formats.tables.delimited import find_rows, text_lines
from stageguard.formats.tables.timing import RowTimes, read_timing
from stageguard.night.stages import AASM5, SCHEMES, canonical_name

FIVE = ("W", "N1", "N2", "N3", "R")
NO_LABEL = MISSING_WORDS | {"-1", "?", "art", "uns"}


@dataclass(frozen=True, slots=True)
class ArrayTool:
    """A tool that returns arrays: the order of its columns, if fixed, and its epoch length."""

    name: str
    title: str
    order: tuple[str, ...] | None = None
    usual_seconds: float | None = None
    stage_axes: tuple[int, ...] = (1, 2)  # axes of windows on which the stages may be


# By name of the format. In braindecode, users choose the order; in SleepECG it depends on the number.
TOOLS = {
    "usleep-npy": ArrayTool("U-Sleep", "an array of U-Time or U-Sleep", FIVE, 30.0),
    "gssc": ArrayTool("GSSC", "an array of GSSC", FIVE, 30.0),
    "physioex": ArrayTool("PhysioEx", "logits of PhysioEx, windows of (epochs, stages)", FIVE, 30.0, (2,)),
    "braindecode": ArrayTool(
        "braindecode", "logits of braindecode, windows of (stages, epochs)", stage_axes=(1,)
    ),
    "sleepecg": ArrayTool("SleepECG", "an array of SleepECG", usual_seconds=30.0),
}
UNKNOWN = ArrayTool("", "")
UNDEFINED = "UNDEFINED"
# SleepECG's columns after UNDEFINED, by their number: from deep sleep to wake.
SLEEPECG = {
    2: ("S", "W"),
    3: ("N", "R", "W"),
    4: ("DEEP", "LIGHT", "R", "W"),
    5: ("N3", "N2", "N1", "R", "W"),
}
SOFT, LEAST_SOFT, LEAST_SOFT_ROWS = 0.01, 0.1, 3  # margin from 0 and 1; share and number of rows


def density_of_torch(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of a `torch.Tensor`, on any device and of any precision."""
    try:
        values = array_of_tensor(source)
    except (RuntimeError, TypeError) as error:  # a tensor without numbers, or of a type that NumPy lacks
        name = type_name(source)
        raise file_error(
            name, f"has no numbers to read ({fault_text(error)}), expected a plain tensor."
        ) from None
    return array_density(type_name(source), values, options)


def density_of_array(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of an array, or of anything that NumPy converts to one."""
    where = type_name(source)
    return array_density(where, array_of(source, f"{where}: probabilities", "read_hypnogram"), options)


def density_of_gssc(source: tuple[Any, Any, Any], options: FileOptions) -> RawDensity:
    """Return the probabilities from GSSC's `EEGInfer.mne_infer`: stages, times and probabilities."""
    where = type_name(source)
    stages, times, probabilities = (array_of(part, where, "read_hypnogram") for part in source)
    if stages.ndim != 1 or probabilities.ndim != 2 or probabilities.shape != (len(stages), len(FIVE)):
        raise file_error(
            where,
            f"has parts of shapes {', '.join(str(np.shape(part)) for part in source)}, expected GSSC's "
            "stages, times and probabilities (epochs, 5). Pass the array of probabilities alone.",
        )
    if options.format not in (None, "gssc"):
        raise file_error(
            where, "is read as GSSC's, got ", Argument("format", options.format), ". Leave it out."
        )
    if stages.dtype.kind not in "iu" or not np.array_equal(probabilities.argmax(axis=1), stages):
        raise file_error(
            where,
            "has stages that are not the most probable columns, so it is not GSSC's (stages, times, "
            "probabilities). Pass the array of probabilities alone, with stages.",
        )
    raw = array_density(where, probabilities, replace(options, format="gssc"))
    if times.shape != stages.shape or times.dtype.kind not in "fiu":  # GSSC may return too few times
        return raw
    timing = read_timing(where, RowTimes(times.astype(np.float64)), None, given=options.epoch_seconds)
    return replace(
        raw,
        epoch_seconds=timing.epoch_seconds,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        notes=raw.notes + timing.notes,
    )


def density_of_pair(source: tuple[Any, Any], options: FileOptions) -> RawDensity:
    """Read a classifier's (probabilities, classes), or AccuSleePy's (labels, confidences) if named so."""
    where = type_name(source)
    values, classes = (array_of(part, where, "read_hypnogram") for part in source)
    if values.ndim == 1 and values.shape == classes.shape:
        return _labels_and_confidences(where, values, classes, options)
    if values.ndim != 2 or classes.ndim != 1:
        raise file_error(
            where,
            f"has parts of shapes {values.shape} and {classes.shape}, expected probabilities (epochs, "
            "classes) and the names of the classes.",
        )
    if len(classes) != values.shape[1]:
        raise file_error(
            where, f"has {values.shape[1]} columns and {len(classes)} classes. Expected as many."
        )
    if options.stages is not None:
        return array_density(where, values, options)
    names = [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in classes.tolist()
    ]
    if classes.dtype.kind in "biuf":
        raise file_error(
            where,
            f"has the classes {listed(names)}, and tools number stages differently. Name them with stages in "
            "this order, for example stages=['W', 'N1', 'N2', 'N3', 'R'].",
        )
    unknown = next((name for name in names if canonical_name(name) is None), None)
    if unknown is not None and options.scheme is None:
        hint = did_you_mean(unknown, FIVE)
        raise file_error(
            where, f"has the class {unknown[:40]!r}, which is no stage.{hint} Name them with stages."
        )
    return RawDensity(values, tuple(names))


def _labels_and_confidences(
    where: str, labels: npt.NDArray[Any], confidences: npt.NDArray[Any], options: FileOptions
) -> RawDensity:
    if options.format != ACCUSLEEPY.format:
        raise file_error(
            where,
            "has one label and one number per epoch, which is not a distribution over the stages. "
            "Expected probabilities (epochs, classes). AccuSleePy's labels and confidences need ",
            Argument("format", ACCUSLEEPY.format),
            ".",
        )
    if confidences.dtype.kind not in "fiu":
        raise file_error(where, f"has confidences of type {confidences.dtype}, expected numbers.")
    words = [str(label) for label in labels.tolist()]
    return spread(where, words, confidences.astype(np.float64), options, ACCUSLEEPY, None)


def array_density(where: Where, array: npt.NDArray[Any], options: FileOptions) -> RawDensity:
    """Return the rows of an array of (epochs, stages), or of windows of epochs, joined end to end."""
    tool = TOOLS.get(options.format or "", UNKNOWN)
    if options.format is not None and tool is UNKNOWN and options.format not in ("npy", "npz"):
        hint = did_you_mean(options.format, TOOLS)
        raise file_error(where, f"format {options.format!r} is not one of arrays: {', '.join(TOOLS)}.{hint}")
    if options.format == "sleepecg":
        return _sleepecg(where, array, options, tool)
    names, assumed = _names(where, tool, options)
    matrix, joined = _join_windows(where, array, len(names), tool)
    return RawDensity(
        matrix,
        names,
        notes=(*assumed, *joined),
        usual_seconds=tool.usual_seconds,
        tool=tool.name,
    )


def _names(where: Where, tool: ArrayTool, options: FileOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the columns, and what was assumed."""
    if options.stages is not None:
        return tuple(options.stages), ()
    if tool.order is not None:
        return tool.order, (f"columns read as {', '.join(tool.order)}, the order of {tool.name}",)
    why, tools = f"the order is not that of {tool.name} but of whoever trained the network", Message()
    if tool is UNKNOWN:
        why = "their order differs between tools"
        tools = Message(" Or say who wrote it with ", Argument("format"), f": {', '.join(TOOLS)}.")
    example = Argument("stages", ["W", "N1", "N2", "N3", "R"])
    raise file_error(
        where,
        f"names no stages, and {why}. Say what the columns are with stages, for example ",
        *(example, ".", tools),
    )


def _join_windows(
    where: Where, array: npt.NDArray[Any], n_stages: int, tool: ArrayTool
) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Return rows of epochs from windows of (epochs, stages) or of (stages, epochs)."""
    if array.ndim != 3:
        return array, ()
    axes = [axis for axis in tool.stage_axes if array.shape[axis] == n_stages]
    if len(axes) != 1:
        why = "both may be the stages" if axes else f"expected {n_stages} stages on one of the last two"
        raise file_error(
            where,
            f"has shape {array.shape}: {why}. Windows are (windows, epochs, stages) or (windows, stages, "
            "epochs): ",
            Argument("format", "physioex"),
            " or ",
            Argument("format", "braindecode"),
            ".",
        )
    windows = array if axes[0] == 2 else np.swapaxes(array, 1, 2)
    n_windows, n_epochs = windows.shape[:2]
    note = f"{n_windows} window{'s' * (n_windows != 1)} of {n_epochs} epochs joined end to end"
    return windows.reshape(n_windows * n_epochs, n_stages), (note,) if n_epochs > 1 else ()


def _sleepecg(where: Where, array: npt.NDArray[Any], options: FileOptions, tool: ArrayTool) -> RawDensity:
    """Return the probabilities of SleepECG's `stage(..., return_mode="prob")`: column 0 is UNDEFINED."""
    n_stages = array.shape[1] - 1 if array.ndim == 2 else 0
    if n_stages not in SLEEPECG or array.dtype.kind not in "fiu":
        raise file_error(
            where,
            f"has shape {array.shape} of {array.dtype}, expected SleepECG's (epochs, 3 to 6): {UNDEFINED} "
            "and the stages.",
        )
    names = SLEEPECG[n_stages]
    if options.stages is not None:  # with or without the name of column 0
        names = tuple(options.stages)
        if len(names) == n_stages + 1 and names[0].casefold() == UNDEFINED.casefold():
            names = names[1:]
        if len(names) != n_stages:
            raise file_error(
                where, f"has {n_stages} stages behind {UNDEFINED}, got {len(options.stages)} names in stages."
            )
    plain = array.astype(np.float64)
    if options.stages is None or len(options.stages) == n_stages:  # else column 0 is named UNDEFINED
        _refuse_soft_undefined(where, plain[:, 0], names)
    values, note = without_undefined(plain[:, 1:], plain[:, 0], (UNDEFINED,))
    order = list(reversed(range(n_stages)))  # from wake to deep sleep
    order = [order[0], *order[2:], order[1]] if n_stages > 2 else order
    notes = (f"columns read as {UNDEFINED}, {', '.join(names)}, the order of SleepECG", note)
    return RawDensity(
        values[:, order],
        tuple(names[column] for column in order),
        notes=notes if options.stages is None else (note,),
        usual_seconds=tool.usual_seconds,
        tool=tool.name,
    )


def _refuse_soft_undefined(where: Where, undefined: Floats, names: Sequence[str]) -> None:
    """Refuse a first column that looks like a stage's, since SleepECG's UNDEFINED is always near 0 or 1."""
    n_soft = int(np.count_nonzero((undefined > SOFT) & (undefined < 1 - SOFT)))
    if n_soft >= LEAST_SOFT_ROWS and n_soft >= LEAST_SOFT * len(undefined):
        raise file_error(
            where,
            f"its column 0 is between 0 and 1 in {n_soft:,} of {len(undefined):,} rows, expected "
            f"{UNDEFINED}, which is 0 or 1. Was it left out already? Then name the columns with stages "
            "and without format, for example ",
            Argument("stages", list(SLEEPECG.get(len(names) + 1, SLEEPECG[5]))),
            ".",
        )


def without_undefined(values: Floats, undefined: Floats, names: Sequence[str]) -> tuple[Floats, str]:
    """Return probabilities given that the stage is defined; rows without any such stage have no evidence."""
    left = values.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        kept = np.where((left > 0)[:, None], values * ((left + undefined) / left)[:, None], np.nan)
    return kept, f"column {' and '.join(names)} left out: the stages divided by what remains"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that writes a table of confidences, and what its columns and numbers mean."""

    name: str
    format: str
    label: str
    confidence: str
    digits: tuple[str, ...]  # stages of the digits from 1; empty if labels are names
    usual_seconds: float
    meaning: str


ACCUSLEEPY = Tool(
    "AccuSleePy", "accusleepy-csv", "brain_state", "confidence_score", ("R", "W", "N"), 2.5,
    "the sigmoid of the largest logit, and belongs to the label before short bouts were replaced",
)  # fmt: skip
YASA = Tool(
    "YASA", "yasa-confidence-csv", "stage", "confidence", (), 30.0, "the probability of that stage alone"
)


def read_confidences(path: Path, options: FileOptions, *, tool: Tool) -> RawDensity:
    """Read labels and confidences from a tool's table; refuse unless the caller named the format."""
    table = find_rows(path, text_lines(path), lambda header: tool.label in header)
    if table is None:
        raise file_error(path, f"has no column {tool.label}, so it is not a table of {tool.name}.")
    if tool.confidence not in table.header:
        raise file_error(
            path,
            f"holds the labels of {tool.name} without confidence (got: {listed(table.header)}), so no "
            "probabilities. Read it with read_hypnogram.",
        )
    confidences, _ = table.numbers(table.header.index(tool.confidence))
    if options.format != tool.format:
        raise file_error(
            path,
            "holds one stage and its confidence per epoch, not a distribution over the stages: the "
            f"confidence of {tool.name} is {tool.meaning}. To decode it all the same, with the rest "
            "spread evenly, say so: ",
            Argument("format", tool.format),
            ".",
        )
    return spread(path, table.column(tool.label), confidences, options, tool, table.lines)


def spread(
    where: Where,
    labels: Sequence[str],
    confidences: Floats,
    options: FileOptions,
    tool: Tool,
    lines: Sequence[int] | None,
) -> RawDensity:
    """Give the label its confidence and the other stages equal parts of the rest, with a warning.

    A confidence that does not exceed an equal share does not support the label: no evidence.
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
    where: Where, labels: Sequence[str], options: FileOptions, tool: Tool, lines: Sequence[int] | None
) -> tuple[tuple[str, ...], Indices]:
    """Return stage names, and the index of each label among them, -1 if undefined."""
    if tool.digits:
        names = tool.digits if options.stages is None else tuple(options.stages)
        meaning = {str(digit): digit - 1 for digit in range(1, len(names) + 1)}
        expected = ", ".join(f"{digit} {name}" for digit, name in enumerate(names, start=1))
    else:
        named = {canonical_name(label) for label in labels if label.casefold() not in NO_LABEL}
        fitting = [scheme for scheme in SCHEMES.values() if named <= set(scheme.names)]
        names = tuple(options.stages or (fitting[0] if fitting else AASM5).names)
        meaning = {str(canonical_name(name) or name): index for index, name in enumerate(names)}
        expected = ", ".join(names)
    places = np.full(len(labels), -1, dtype=np.intp)
    for row, label in enumerate(labels):
        key = label.removesuffix(".0") if tool.digits else str(canonical_name(label) or label)
        if key in meaning and key.casefold() not in NO_LABEL:
            places[row] = meaning[key]
        elif key.casefold() not in NO_LABEL:
            line = f"row {row}" if lines is None else f"line {lines[row]}"
            raise file_error(
                where,
                f"{line}: the stage is {label[:40]!r}, expected {expected}, or -1. Name others with stages.",
            )
    return names, places

"""Read arrays of stage probabilities, from .npy and .npz files and in memory; write .npz.

The meaning of columns is never guessed: the caller names the stages, or the tool.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.errors import FileFormatError, did_you_mean
from stageguard.files import damaged_file, file_error, read_file
from stageguard.formats.density import listed
from stageguard.formats.file_format import ANNOTATIONS, NUMBERS_ALONE, SCORER, STAGES, Contents, FileFormat
from stageguard.formats.night import FileOptions, Night, RawDensity, Where
from stageguard.formats.sniffing import begins_with, never, read_head
from stageguard.night.stages import canonical_name

Value = TypeVar("Value")

MOST_BYTES = 2**30  # of the arrays in an archive, unpacked

SOMNOTATE_STATES, SOMNOTATE_SECONDS = {"awake", "non-REM", "REM"}, 1.0  # its time_resolution by default
KNOWN_KEYS = ("probabilities", "stages", "epoch_seconds", "offset_seconds", "start")
FIVE = ("W", "N1", "N2", "N3", "R")


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


def read_npy(path: Path, options: FileOptions) -> RawDensity:
    """Read an (epochs, stages) array; the caller must name the stages, or the tool that wrote it."""
    return array_density(path, load_plain(path), options)


def load_plain(path: Path) -> npt.NDArray[Any]:
    """Return the array of a .npy file; refuse one with Python objects."""
    stream = io.BytesIO(read_file(path))
    array = _load(path, stream, lambda loaded: loaded)
    if stream.read(1):
        raise file_error(path, "has data behind its array. Are two files joined in it?")
    return _plain(path, array, "the array")


def read_npz(path: Path, options: FileOptions) -> RawDensity:
    """Read one array, or the keys probabilities, stages, epoch_seconds, offset_seconds and start (ISO)."""
    keys, content = _load(path, io.BytesIO(read_file(path)), lambda archive: _known_arrays(path, archive))
    if len(keys) == 1:
        content = {"probabilities": content[keys[0]]}
    if "probabilities" not in content and len(content) > 1:
        return _named_columns(path, content)
    if "probabilities" not in content:
        names = listed(keys) if keys else "nothing"
        raise file_error(path, f"holds {names}. Expected one array, or an array named 'probabilities'.")
    ignored = [key for key in keys if len(keys) > 1 and key not in KNOWN_KEYS]
    stored = content.get("stages")
    if stored is not None:
        options = replace(options, stages=_check_names(path, stored, options))
    raw = array_density(path, _plain(path, content["probabilities"], "'probabilities'"), options)
    return replace(
        raw,
        epoch_seconds=_scalar(path, content, "epoch_seconds", float),
        offset_seconds=_scalar(path, content, "offset_seconds", float) or 0.0,
        start=_scalar(path, content, "start", _moment),
        notes=((f"arrays ignored: {listed(ignored)}",) if ignored else ()) + raw.notes,
    )


def _named_columns(path: Path, content: Mapping[str, Any]) -> RawDensity:
    """Return probabilities from one array per stage, named after it, as Somnotate writes them."""
    columns = {key: _plain(path, values, f"column {key!r}") for key, values in content.items()}
    for key, values in columns.items():
        if values.ndim != 1:
            raise file_error(path, f"column {key!r} has shape {values.shape}, expected one number per epoch.")
    if len({len(values) for values in columns.values()}) > 1:
        raise file_error(path, "has columns of different lengths, expected one number per epoch.")
    is_somnotate = set(columns) == SOMNOTATE_STATES
    return RawDensity(
        np.column_stack(list(columns.values())),
        tuple(columns),
        usual_seconds=SOMNOTATE_SECONDS if is_somnotate else None,
        tool="Somnotate" if is_somnotate else "",
        is_chosen=is_somnotate,
    )


def write_npz(night: Night, path: Path) -> Contents:
    """Write probabilities, stages, epoch_seconds, offset_seconds and start, as `read_npz` reads them."""
    density = night.density
    content: dict[str, Any] = {
        "probabilities": density.probabilities,
        "stages": np.array(density.scheme.names),
        "epoch_seconds": density.epoch_seconds,
        "offset_seconds": density.offset_seconds,
    }
    if density.start is not None:
        content["start"] = density.start.isoformat()
    stream = io.BytesIO()
    np.savez_compressed(stream, **content)
    return {path: stream.getvalue()}


def read_tool_array(path: Path, options: FileOptions) -> RawDensity:
    """Read an array whose columns have the order of the tool that `format` names."""
    return (read_npz if read_head(path).startswith(b"PK") else read_npy)(path, options)


def _known_arrays(path: Path, archive: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return all keys, and the arrays with known keys, or the only array."""
    keys = tuple(archive.files)
    if any(key.startswith("xl/") for key in keys):  # also a zip archive
        raise file_error(path, "is an Excel workbook, expected a table as text. Save it as CSV.")
    wanted = keys if len(keys) == 1 else [key for key in keys if key in KNOWN_KEYS]
    if "probabilities" not in keys and len(keys) > 1 and all(map(canonical_name, keys)):
        wanted = keys
    sizes = {each.filename.removesuffix(".npy"): each.file_size for each in archive.zip.infolist()}
    n_bytes = sum(sizes.get(key, 0) for key in wanted)
    if n_bytes > MOST_BYTES:
        raise file_error(
            path,
            f"would take {n_bytes / 1e6:,.0f} MB unpacked, expected at most {MOST_BYTES / 1e6:,.0f} MB. Save "
            "it as .npy.",
        )
    return keys, {key: archive[key] for key in wanted}


def _load(path: Path, stream: io.BytesIO, take: Callable[[Any], Any]) -> Any:
    """Let NumPy parse a file; whatever it raises for a damaged file becomes an error in one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return take(np.load(stream, allow_pickle=False))
    except (FileFormatError, OSError):
        raise
    except MemoryError:
        raise file_error(path, "needs more memory than there is. Is it damaged? Else cut it.") from None
    except Exception as error:
        if str(error).startswith(("Object arrays", "Cannot load file containing pickled")):
            raise file_error(
                path,
                "holds Python objects, which could run code when loaded. Save plain numbers: "
                "np.save(path, array.astype(float)).",
            ) from None
        raise damaged_file(path, error) from None


def _plain(path: Path, values: Any, what: str) -> npt.NDArray[Any]:
    if not isinstance(values, np.ndarray):
        raise file_error(path, f"{what} is not a NumPy array.")
    if values.dtype.names is not None:
        raise file_error(
            path, f"{what} has named fields. Expected a plain (epochs, stages) array of numbers."
        )
    return values


def _check_names(path: Path, stored: npt.NDArray[Any], options: FileOptions) -> tuple[str, ...]:
    """Return the names of the columns; refuse names of the caller that contradict the file."""
    if stored.dtype.kind not in "US" or stored.ndim != 1:
        raise file_error(path, "'stages' must be a list of names, one per column.")
    own = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in stored)
    given = options.stages or own
    if [canonical_name(name) or name for name in given] != [canonical_name(name) or name for name in own]:
        raise file_error(
            path, f"names its columns {listed(own)}, got stages {listed(given)}. Leave that out."
        )
    return given


def _scalar(
    path: Path, content: Mapping[str, npt.NDArray[Any]], key: str, read: Callable[[Any], Value]
) -> Value | None:
    """Return a single value, or None without it."""
    if key not in content:
        return None
    values = content[key].reshape(-1).tolist()
    if len(values) == 1 and values[0] == "":
        return None
    try:
        (value,) = values
        return read(value)
    except (TypeError, ValueError):
        expected = "one number of seconds" if read is float else "a time such as 2024-05-01T22:30:00"
        raise file_error(path, f"{key!r} is {str(values)[:40]}, expected {expected}.") from None


def _moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


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
    why, tools = f"the order is not that of {tool.name} but of whoever trained the network", ""
    if tool is UNKNOWN:
        why = "their order differs between tools"
        tools = f" Or say who wrote it with format: {', '.join(TOOLS)}."
    raise file_error(
        where,
        f"names no stages, and {why}. Say what the columns are with stages, for example "
        f"stages=['W', 'N1', 'N2', 'N3', 'R'].{tools}",
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
            "epochs): format='physioex' or format='braindecode'.",
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
    n_soft = int(np.count_nonzero((plain[:, 0] > 0.01) & (plain[:, 0] < 0.99)))
    if n_soft >= max(3, 0.1 * len(plain)) and len(options.stages or names) == n_stages:
        raise file_error(
            where,
            f"its column 0 is between 0 and 1 in {n_soft:,} of {len(plain):,} rows, expected {UNDEFINED}, "
            "which is 0 or 1. If it was left out, name the columns with stages, without format.",
        )
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


def without_undefined(values: Floats, undefined: Floats, names: Sequence[str]) -> tuple[Floats, str]:
    """Return probabilities given that the stage is defined; rows without any such stage have no evidence."""
    left = values.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        kept = np.where((left > 0)[:, None], values * ((left + undefined) / left)[:, None], np.nan)
    return kept, f"column {' and '.join(names)} left out: the stages divided by what remains"


FORMATS = (
    FileFormat(
        "npy",
        "a NumPy array (.npy)",
        (".npy",),
        begins_with(b"\x93NUMPY"),
        probabilities=read_npy,
        loses=NUMBERS_ALONE,
    ),
    FileFormat(
        "npz",
        "a ZIP archive (.npz)",
        (".npz",),
        begins_with(b"PK\x03\x04", b"PK\x05\x06"),
        probabilities=read_npz,
        write=write_npz,
        loses=(STAGES, SCORER, ANNOTATIONS),
        writes_probabilities_alone=True,
    ),
    # columns of an array may have any order, so the user must name the tool
    *(
        FileFormat(
            name,
            tool.title,
            (".npy", ".npz"),
            never,
            probabilities=read_tool_array,
            loses=NUMBERS_ALONE,
        )
        for name, tool in TOOLS.items()
    ),
)

"""Read arrays of stage probabilities, from .npy and .npz files and in memory; write .npz.

The meaning of columns is never guessed: the caller names the stages, or the tool.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.errors import (
    FileFormatError,
    InputError,
    did_you_mean,
)
from stageguard.files import damaged_file, file_error, open_file, read_file
from stageguard.formats.density import listed
from stageguard.formats.file_format import ANNOTATIONS, NUMBERS_ALONE, SCORER, FileFormat
from stageguard.formats.night import FileOptions, RawDensity, Where, of_probabilities
from stageguard.formats.outgoing import Content, Outgoing
from stageguard.formats.sniffing import begins_with, never
from stageguard.night.stages import canonical_name

MOST_BYTES = 4 * 2**30  # of one array in an archive, uncompressed
MOST_EXPANSION = 200  # of an array above EXPANDED_BYTES, compared with the archive
EXPANDED_BYTES = 100_000_000
MOST_HEADER_BYTES = 12_000  # of an array: NumPy refuses longer headers

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
SOFT, LEAST_SOFT, LEAST_SOFT_ROWS = 0.01, 0.1, 3  # margin from 0 and 1; share and number of rows


def read_npy(path: Path, options: FileOptions) -> RawDensity:
    """Read an (epochs, stages) array; the caller must name the stages, or the tool that wrote it."""
    return array_density(path, load_plain(path, is_whole=True), options)


def load_plain(path: Path, *, is_whole: bool = False) -> npt.NDArray[Any]:
    """Return the array of a .npy file; refuse one with Python objects."""
    return _plain(path, _load(path, lambda loaded: loaded, is_whole=is_whole), "the array")


def read_npz(path: Path, options: FileOptions) -> RawDensity:
    """Read one array, or the keys probabilities, stages, epoch_seconds, offset_seconds and start (ISO)."""
    keys, content = _load(path, lambda archive: _known_arrays(path, archive))
    if any(key.startswith("xl/") for key in keys):  # also a zip archive
        raise file_error(path, "is an Excel workbook, expected a table as text. Save it as CSV.")
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
        options = replace(options, stages=_check_names(path, _stages(path, stored), options))
    raw = array_density(path, _plain(path, content["probabilities"], "'probabilities'"), options)
    return replace(
        raw,
        epoch_seconds=_seconds(path, content, "epoch_seconds"),
        offset_seconds=_seconds(path, content, "offset_seconds") or 0.0,
        start=_start(path, content),
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


def write_npz(night: Outgoing, path: Path) -> Content:
    """Write probabilities, stages, epoch_seconds, offset_seconds and start, as `read_npz` reads them."""
    density = night.density
    if density is None:
        raise InputError(
            "an .npz file holds probabilities, but the night has stages alone. Write another format."
        )
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
    return Content({path: stream.getvalue()}, has_stages=False, has_probabilities=True)


def read_tool_array(path: Path, options: FileOptions) -> RawDensity:
    """Read an array whose columns have the order of the tool that `format` names."""
    with open_file(path) as file:
        is_archive = file.read(2) == b"PK"
    return (read_npz if is_archive else read_npy)(path, options)


def _known_arrays(path: Path, archive: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return all keys, and the arrays with known keys, or the only array."""
    keys = tuple(archive.files)
    wanted = keys if len(keys) == 1 else [key for key in keys if key in KNOWN_KEYS]
    if "probabilities" not in keys and len(keys) > 1 and all(map(canonical_name, keys)):
        wanted = keys
    n_archive = path.stat().st_size
    if min((member.header_offset for member in archive.zip.infolist()), default=0) > 0:
        raise file_error(path, "has data before its archive. Are two files joined in it?")
    for member in archive.zip.infolist():
        if member.filename.removesuffix(".npy") in wanted:
            _refuse_bomb(path, member.filename, member.file_size, n_archive)
            with archive.zip.open(member) as file:
                _refuse_promises(path, file.read(MOST_HEADER_BYTES), member.file_size)
    return keys, {key: archive[key] for key in wanted}


def _refuse_bomb(path: Path, name: str, n_bytes: int, n_archive: int) -> None:
    """Refuse an array that would fill the memory before it is unpacked."""
    if n_bytes > MOST_BYTES or n_bytes > max(EXPANDED_BYTES, MOST_EXPANSION * n_archive):
        raise file_error(
            path,
            f"{name} would take {n_bytes / 1e6:,.0f} MB unpacked from a file of {n_archive / 1e6:,.2f} MB, "
            f"expected at most {MOST_BYTES / 2**30:g} GiB and {MOST_EXPANSION} times the file. Save "
            "it as .npy.",
        )


def _refuse_promises(path: Path, head: bytes, n_bytes: int) -> None:
    """Refuse an array whose header promises more data than there are, before memory is allocated for it."""
    stream = io.BytesIO(head)
    try:
        is_first = np.lib.format.read_magic(stream) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        promised = math.prod(shape) * dtype.itemsize
    except Exception:  # NumPy reports any other fault
        return
    if promised > n_bytes:
        raise damaged_file(path, f"its header promises {promised:,} bytes, there are {n_bytes:,}")


def _load(path: Path, take: Callable[[Any], Any], *, is_whole: bool = False) -> Any:
    """Let NumPy parse a file; whatever it raises for a damaged file becomes an error in one line.

    If `is_whole`, bytes after the array are an error: two files may have been joined.
    """
    try:
        data = read_file(path)
        _refuse_promises(path, data[:MOST_HEADER_BYTES], len(data))
        stream = io.BytesIO(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = take(np.load(stream, allow_pickle=False))
        n_behind = len(data) - stream.tell()
        if is_whole and n_behind:
            raise file_error(path, f"has {n_behind:,} bytes behind its array. Are two files joined in it?")
        return content
    except (FileFormatError, OSError):
        raise
    except Exception as error:
        raise _explain(path, error) from None


def _explain(path: Path, error: Exception) -> FileFormatError:
    if isinstance(error, MemoryError):
        return file_error(path, "is too large: it needs more memory than there is. Cut it into parts.")
    if str(error).startswith(("Object arrays", "Cannot load file containing pickled")):
        return file_error(
            path, "holds Python objects, which could run code when loaded. Save plain numbers: "
            "np.save(path, array.astype(float))."
        )  # fmt: skip
    return damaged_file(path, error)


def _plain(path: Path, values: Any, what: str) -> npt.NDArray[Any]:
    if not isinstance(values, np.ndarray):
        raise file_error(path, f"{what} is not a NumPy array.")
    if values.dtype.names is not None:
        raise file_error(
            path, f"{what} has named fields. Expected a plain (epochs, stages) array of numbers."
        )
    return values


def _stages(path: Path, stored: npt.NDArray[Any]) -> tuple[str, ...]:
    """Return the names that are stored in the file."""
    if stored.dtype.kind not in "US" or stored.ndim != 1:
        raise file_error(path, "'stages' must be a list of names, one per column.")
    return tuple(
        name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in stored.tolist()
    )


def _check_names(path: Path, stored: tuple[str, ...], options: FileOptions) -> tuple[str, ...]:
    """Return the names of the columns; refuse names of the caller or tool that contradict the file."""
    names_by = {
        "stages": options.stages,
        f"format={options.format!r}": TOOLS.get(options.format or "", UNKNOWN).order,
    }
    for argument, names in names_by.items():
        if names is not None and [canonical_name(n) or n for n in names] != [
            canonical_name(n) or n for n in stored
        ]:
            raise file_error(
                path,
                f"names its columns {listed(stored)}, but ",
                argument,
                f" says {listed(names)}. Leave that out, or correct the file.",
            )
    return stored if options.stages is None else options.stages


def _scalar(path: Path, content: Mapping[str, npt.NDArray[Any]], key: str) -> Any:
    if key not in content:
        return None
    if content[key].size != 1:
        raise file_error(path, f"{key!r} must be a single value, got {content[key].size}.")
    return content[key].reshape(-1)[0].item()


def _seconds(path: Path, content: Mapping[str, npt.NDArray[Any]], key: str) -> float | None:
    value = _scalar(path, content, key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise file_error(path, f"{key!r} must be a number of seconds, got {value!r}.")
    return float(value)


def _start(path: Path, content: Mapping[str, npt.NDArray[Any]]) -> datetime | None:
    value = _scalar(path, content, "start")
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise file_error(
            path, f"'start' must be a date and time such as 2024-05-01T22:30:00, got {value!r}."
        ) from None


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
    example = f"stages={['W', 'N1', 'N2', 'N3', 'R']!r}"
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
            "format='physioex'",
            " or ",
            "format='braindecode'",
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
            f"stages={list(SLEEPECG.get(len(names) + 1, SLEEPECG[5]))!r}",
            ".",
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
        reader=of_probabilities(read_npy),
        loses=NUMBERS_ALONE,
    ),
    FileFormat(
        "npz",
        "a ZIP archive (.npz)",
        (".npz",),
        begins_with(b"PK\x03\x04", b"PK\x05\x06"),
        reader=of_probabilities(read_npz),
        write=write_npz,
        loses=("stages", SCORER, ANNOTATIONS),
        writes_probabilities_alone=True,
    ),
    # columns of an array may have any order, so the user must name the tool
    *(
        FileFormat(
            name,
            tool.title,
            (".npy", ".npz"),
            never,
            reader=of_probabilities(read_tool_array),
            loses=NUMBERS_ALONE,
        )
        for name, tool in TOOLS.items()
    ),
)

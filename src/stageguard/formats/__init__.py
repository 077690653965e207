"""Read stagers' probabilities and write hypnograms, one module per format. Decides nothing about stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stageguard.formats._density_file import (
    DensityFile,
    DensityOptions,
    RawDensity,
    build_density,
    file_error,
)
from stageguard.formats.arrays import read_npy, read_npz
from stageguard.formats.tables import read_table
from stageguard.hypnodensity import Hypnodensity


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: how its content begins, what its files are called, who reads it."""

    name: str
    magic: tuple[bytes, ...]
    suffixes: tuple[str, ...]
    read: Callable[[Path, DensityOptions], RawDensity] | None


FORMATS = (
    Format("a NumPy array (.npy)", (b"\x93NUMPY",), (".npy",), read_npy),
    Format("a ZIP archive (.npz)", (b"PK\x03\x04", b"PK\x05\x06"), (".npz",), read_npz),
    Format("a CSV or TSV table", (), (".csv", ".tsv", ".txt"), read_table),
)

# Contents that are told apart only to say what was found.
STRANGERS = (
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"%PDF", "a PDF document"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
    (b"\x80", "a Python pickle or other binary data"),
    (b"\x89PNG", "a picture"),
    (b"\xd0\xcf\x11\xe0", "an old Excel or Word file"),
    (b"0       ", "an EDF recording"),
)


def read_density(
    path: str | os.PathLike[str],
    *,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    logits: bool = False,
    log: bool = False,
) -> Hypnodensity:
    """Stage probabilities of one recording from a file.

    Parameters
    ----------
    path : path-like
        CSV or TSV with stage-named columns, `.npy`, or `.npz`.
    stages : sequence of str, optional
        Names of the columns. Needed for bare arrays; in a table it selects columns by name.
    epoch_seconds : float, optional
        Epoch length in seconds; by default what the file says, else 30. Must not contradict the file.
    logits, log : bool
        The file holds logits (a softmax is taken) or natural log-probabilities.

    Returns
    -------
    Hypnodensity
        Probabilities in the scheme's order; epochs without evidence are NaN rows.

    Raises
    ------
    FileFormatError
        With one line that names the file, the row or column, and what was expected.
    """
    options = DensityOptions(_names(stages), epoch_seconds, logits=logits, log=log)
    return read_density_file(path, options).density


def read_density_file(path: str | os.PathLike[str], options: DensityOptions) -> DensityFile:
    """Like `read_density`, with remarks on what was assumed or ignored."""
    path = Path(path)
    if path.is_dir():
        raise file_error(path, "is a folder. Name the files in it.")
    read = _format_of(path).read
    assert read is not None
    return build_density(path, read(path, options), options)


def _names(stages: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if stages is None:
        return None
    return tuple(part.strip() for part in stages.split(",")) if isinstance(stages, str) else tuple(stages)


def _format_of(path: Path) -> Format:
    """Format by content; a name that promises another one is an error, any other name is not."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise file_error(path, "is empty (0 bytes). Was it written completely?")
    table = FORMATS[-1]
    by_content = next((form for form in FORMATS if head.startswith(form.magic or (b"\x00none",))), None)
    by_name = next((form for form in FORMATS if path.suffix.lower() in form.suffixes), None)
    if by_content is None:
        stranger = next((name for magic, name in STRANGERS if head.startswith(magic)), None)
        if stranger is not None or (b"\x00" in head and head[:2] not in (b"\xff\xfe", b"\xfe\xff")):
            expected = (by_name or table).name
            raise file_error(path, f"holds {stranger or 'binary data'}, not {expected}. Convert it first.")
        by_content = table
    if by_name is not None and by_name is not by_content:
        hint = " Is it an Excel workbook? Save it as CSV." if head.startswith(b"PK") else ""
        raise file_error(path, f"holds {by_content.name}, not {by_name.name} as its name says.{hint}")
    return by_content

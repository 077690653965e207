"""What an earlier run left of a night's output: nothing, a part, a damaged record, or all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import FileFormatError
from stageguard.base.files import load_json
from stageguard.formats.outputs import WrittenFiles, is_as_written, read_hypnogram_tsv, read_sidecar
from stageguard.guard.decoding import Decoding

# Exceptions that reading a record may raise when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError)


def is_full(path: Path) -> bool:
    """Whether a file is there and not empty."""
    return path.is_file() and path.stat().st_size > 0


def is_torn(files: WrittenFiles) -> bool:
    """Whether an output is missing or only half there, as after a power cut."""
    return not all(is_full(path) for path in (files.tsv, files.sidecar))


def whole_record(files: WrittenFiles) -> dict[str, Any] | None:
    """Return the record in a sidecar, or None if it was damaged or edited after it was written."""
    try:
        content = load_json(files.sidecar)
        if isinstance(content, dict) and "stageguard" in content and not is_as_written(content):
            return None
    except (FileFormatError, RecursionError, *MALFORMED):
        return None
    return read_sidecar(files.sidecar)  # refuses a file of somebody else, and the layout of another version


def may_complete(decoding: Decoding, files: WrittenFiles) -> bool:
    """Whether a torn or damaged output may be replaced: a table, if any, has the stages of this decoding."""
    try:
        if not is_full(files.tsv):
            if is_full(files.sidecar):
                read_sidecar(files.sidecar)
            return True
        table = read_hypnogram_tsv(files.tsv)
        names = np.array((*decoding.hypnogram.scheme.names, "?"))
        labels = decoding.hypnogram.labels
        return np.array_equal(table.labels, labels) and table.stages == tuple(names[labels].tolist())
    except (FileFormatError, OSError):
        return False


def hashes_beside(record: Mapping[str, Any]) -> dict[str, str]:
    """Return names and hashes of the files written beside an output, as far as they are recorded."""
    try:
        return {str(file["file"]): str(file["sha256"]) for file in record.get("beside", ())}
    except MALFORMED:
        return {}

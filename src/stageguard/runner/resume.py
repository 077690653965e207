"""Whether a night was decoded before, by what its sidecar records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.errors import OVERWRITE, FileFormatError, OutputExistsError, message_of
from stageguard.base.files import parse_json, read_file
from stageguard.base.version import __version__
from stageguard.formats.outputs import (
    WrittenFiles,
    describe_file,
    plain,
    read_hypnogram_tsv,
    read_sidecar,
)

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.profile.profile import Profile

MISSING = object()
# What reading a record raises when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError)


def recorded_before(
    files: WrittenFiles, path: Path, profile: Profile, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the record of the same input, profile, options and version decoded before, or None.

    Outputs of anything else are an error that says what differs; half an output counts as none.
    """
    if is_torn(files):
        return None
    record = _record(files)
    if record is None:
        return None
    try:
        reason = _difference(files, path, profile, record, options)
    except MALFORMED:
        reason = "its record is incomplete or was edited"
    if reason:
        raise OutputExistsError(
            f"{files.tsv} exists already, and {reason}. " + OVERWRITE + " to decode it again."
        )
    return record


def is_torn(files: WrittenFiles) -> bool:
    """Whether an output is not there, or only half of it, as after a power cut."""
    return not all(_is_full(path) for path in (files.tsv, files.sidecar))


def may_complete(decoding: Decoding, files: WrittenFiles) -> bool:
    """Whether half an output may be replaced: its table, if there is one, says what this decoding says."""
    if not _is_full(files.tsv):
        return not _is_full(files.sidecar) or _is_ours(files.sidecar)
    if _is_full(files.sidecar) and _record(files) is not None:
        return False
    try:
        table = read_hypnogram_tsv(files.tsv)
    except (FileFormatError, OSError):
        return False
    names = np.array((*decoding.hypnogram.scheme.names, "?"))
    labels = decoding.hypnogram.labels
    return np.array_equal(table.labels, labels) and table.stages == tuple(names[labels].tolist())


def lacks(beside: Sequence[Path], record: Mapping[str, Any]) -> bool:
    """Whether one of the files wanted beside an output is not there as it was written."""
    hashes = written_beside(record)
    return any(
        not path.is_file() or hashes.get(path.name) != describe_file(path)["sha256"] for path in beside
    )


def refuse_strangers(texts: Mapping[Path, str], record: Mapping[str, Any] | None) -> None:
    """Refuse to replace a file beside an output that no record tells of and that holds something else."""
    known = written_beside(record or {})
    for path, text in texts.items():
        if path.name not in known and _is_full(path) and read_file(path, "text") != text.encode():
            raise OutputExistsError(f"{path} exists already. " + OVERWRITE + " to replace it.")


def _is_full(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _is_ours(sidecar: Path) -> bool:
    try:
        read_sidecar(sidecar)
    except (FileFormatError, OSError):
        return False
    return True


def _record(files: WrittenFiles) -> dict[str, Any] | None:
    """Return what a sidecar records; None where it was cut off."""
    try:
        return read_sidecar(files.sidecar)
    except FileFormatError as error:
        try:
            parse_json(read_file(files.sidecar, "JSON"))
        except (ValueError, RecursionError):
            return None
        raise OutputExistsError(message_of(error) + " " + OVERWRITE + " to replace it.") from None


def _difference(
    files: WrittenFiles, path: Path, profile: Profile, record: Mapping[str, Any], options: Mapping[str, Any]
) -> str:
    """Return what is not as recorded, or nothing; the input, the largest, is looked at last."""
    used, asked = record["profile"], plain(options)
    if used["sha256"] != profile.sha256:
        same = used["name"] == profile.name
        return f"was decoded with {'another version of ' * same}the profile {used['name']}"
    recorded = record["options"]
    differing = [
        key for key in asked.keys() | recorded.keys() if asked.get(key, MISSING) != recorded.get(key, MISSING)
    ]
    if differing:
        return f"was decoded with other options ({', '.join(sorted(differing))})"
    version = record["provenance"]["stageguard"]
    if version != __version__:
        return f"was decoded by stageguard {version}, this is {__version__}"
    if hashlib.sha256(read_file(files.tsv, "text")).hexdigest() != record["hypnogram"]["sha256"]:
        return "was changed after it was written"
    source = record["input"]
    if source is None or describe_file(path)["sha256"] != source["sha256"]:
        return f"{path.name} has changed since"
    return ""


def written_beside(record: Mapping[str, Any]) -> dict[str, str]:
    """Return names and hashes of the files that were written with an output, as far as it tells them."""
    try:
        return {str(one["file"]): str(one["sha256"]) for one in record.get("beside", ())}
    except MALFORMED:
        return {}

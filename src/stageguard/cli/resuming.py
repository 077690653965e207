"""Whether a night was decoded before, by what its sidecar records. Decodes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.errors import FileFormatError, OutputExistsError
from stageguard.base.files import parse_json, read_file
from stageguard.base.version import __version__
from stageguard.formats.outputs import (
    WrittenFiles,
    describe_file,
    output_paths,
    plain,
    read_hypnogram_tsv,
    read_sidecar,
)

if TYPE_CHECKING:
    from stageguard.cli.decode_file import Job
    from stageguard.guard.decoding import Decoding

MISSING = object()
# What reading a record raises when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError)


def recorded_before(job: Job, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of the same input, profile, options and version decoded before, or None.

    Outputs of anything else are an error that says what differs; half an output counts as none.
    """
    files = output_paths(job.output)
    if job.overwrite or is_torn(files):
        return None
    record = _record(files)
    if record is None:
        return None
    try:
        reason = _difference(job, files, record, options)
    except MALFORMED:
        reason = "its record is incomplete or was edited"
    if reason:
        raise OutputExistsError(
            f"{files.tsv} exists already, and {reason}. Use --overwrite to decode it again."
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


def lacks(job: Job, files: WrittenFiles, record: Mapping[str, Any]) -> bool:
    """Whether a picture or a table of changes that is wanted is not there as it was written."""
    hashes = _beside(record)
    for path, is_wanted in ((files.svg, job.picture), (files.changes, job.explain)):
        if is_wanted and path is not None:
            is_whole = path.is_file() and path.name in hashes
            if not is_whole or describe_file(path)["sha256"] != hashes[path.name]:
                return True
    return False


def refuse_strangers(texts: Mapping[Path, str], record: Mapping[str, Any] | None) -> None:
    """Refuse to replace a file beside an output that no record tells of and that holds something else."""
    known = _beside(record or {})
    for path, text in texts.items():
        if path.name not in known and _is_full(path) and read_file(path, "text") != text.encode():
            raise OutputExistsError(f"{path} exists already. Use --overwrite to replace it.")


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
        raise OutputExistsError(f"{error} Use --overwrite to replace it.") from None


def _difference(job: Job, files: WrittenFiles, record: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return what is not as recorded, or nothing; the input, the largest, is looked at last."""
    profile, own = record["profile"], plain(options)
    if profile["sha256"] != job.profile.sha256:
        same = profile["name"] == job.profile.name
        return f"was decoded with {'another version of ' * same}the profile {profile['name']}"
    recorded = record["options"]
    differing = [
        key for key in own.keys() | recorded.keys() if own.get(key, MISSING) != recorded.get(key, MISSING)
    ]
    if differing:
        return f"was decoded with other options ({', '.join(sorted(differing))})"
    version = record["provenance"]["stageguard"]
    if version != __version__:
        return f"was decoded by stageguard {version}, this is {__version__}"
    if hashlib.sha256(read_file(files.tsv, "text")).hexdigest() != record["hypnogram"]["sha256"]:
        return "was changed after it was written"
    found = record["input"]
    if found is None or describe_file(job.path)["sha256"] != found["sha256"]:
        return f"{job.path.name} has changed since"
    return ""


def report_of(record: Mapping[str, Any], files: WrittenFiles) -> dict[str, Any]:
    """Return what a record says about a night, under the names of a fresh report."""
    strength, hypnogram = record["strength"], record["hypnogram"]
    return {
        "done_before": True,
        "profile": {"name": record["profile"]["name"], "sha256": record["profile"]["sha256"]},
        "stages": list(hypnogram["scheme"]["stages"]),
        "n_epochs": hypnogram["n_epochs"],
        "epoch_seconds": hypnogram["epoch_seconds"],
        "n_changed": record["n_changed"],
        "n_filled": record["n_filled"],
        "strength": strength["why"],
        "strength_used": used_strength(strength),
        "outputs": {"tsv": str(files.tsv), "json": str(files.sidecar)}
        | {
            kind: str(place)
            for kind, place in (("svg", files.svg), ("changes", files.changes))
            if place is not None and place.name in _beside(record)
        },
        "notes": [],
    }


def _beside(record: Mapping[str, Any]) -> dict[str, str]:
    """Return names and hashes of the files that were written with an output, as far as it tells them."""
    try:
        return {str(one["file"]): str(one["sha256"]) for one in record.get("beside", ())}
    except MALFORMED:
        return {}


def used_strength(strength: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a strength that a row has room for."""
    return {key: strength[key] for key in ("rule", "step", "transition_weight", "fi_before", "fi_after")}

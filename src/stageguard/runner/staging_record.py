"""The record beside staged probabilities, ``NAME.staging.json``: how they were made, what the guard needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stageguard import documents
from stageguard.documents import Positive, Share, Text
from stageguard.errors import InputError
from stageguard.files import file_error, file_sha256, load_json
from stageguard.profile.stagers import Training
from stageguard.runner.decode_one import MALFORMED

DENSITY_SUFFIX, RECORD_SUFFIX = ".hypnodensity.csv", ".staging.json"


@dataclass(frozen=True, slots=True)
class StagingRecord:
    """How a file of probabilities was made."""

    request: Mapping[str, object]  # what the probabilities depend on
    density_sha256: Text
    epoch_seconds: Positive
    trained: Training | None
    notes: tuple[Text, ...]  # what was staged, for the reader
    quality: tuple[Share, ...] | None  # beta per epoch
    disagreement: tuple[Share, ...] | None  # share of the stagings that chose another stage, of two or more


def read_record(densities: Path) -> StagingRecord | None:
    """Return the record of a file of probabilities, or None if `stage` did not write the file.

    A damaged record, and one of other probabilities, is an error that names it.
    """
    record_file = densities.with_name(densities.name.removesuffix(DENSITY_SUFFIX) + RECORD_SUFFIX)
    if not densities.name.endswith(DENSITY_SUFFIX) or not record_file.is_file():
        return None
    try:
        record = documents.read_fields(StagingRecord, load_json(record_file))
        is_its_own = record.density_sha256 == file_sha256(densities)
    except (InputError, *MALFORMED):
        is_its_own = False
    if not is_its_own:
        raise file_error(
            record_file, f"is no record of how {densities.name} was staged. Stage it again, or remove it."
        )
    return record

"""The record beside staged probabilities, ``NAME.staging.json``: how they were made, what the guard needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stageguard import checks, schema
from stageguard.errors import InputError
from stageguard.files import file_error, file_sha256, load_json
from stageguard.profile.stagers import Training
from stageguard.runner.decode_one import MALFORMED
from stageguard.schema import REQUIRED

DENSITY_SUFFIX, RECORD_SUFFIX = ".hypnodensity.csv", ".staging.json"


def _shares(value: object, where: str) -> tuple[float, ...]:
    def share(item: object, name: str) -> float:
        return checks.number(item, name, low=0.0, high=1.0)

    return checks.items(value, where, check=share)


@dataclass(frozen=True, slots=True)
class StagingRecord:
    """How a file of probabilities was made."""

    request: Mapping[str, Any] = schema.declare(REQUIRED, checks.mapping)  # what the probabilities depend on
    density_sha256: str = schema.text()
    epoch_seconds: float = schema.number(positive=True)
    trained: Training | None = schema.declare(
        REQUIRED, schema.optional(lambda value, where: checks.choice(value, where, ("natural", "balanced")))
    )
    notes: tuple[str, ...] = schema.declare(REQUIRED, schema.text_list)  # what was staged, for the reader
    quality: tuple[float, ...] | None = schema.declare(REQUIRED, schema.optional(_shares))  # beta per epoch
    # share of the stagings that chose another stage, per epoch; None of one staging alone
    disagreement: tuple[float, ...] | None = schema.declare(REQUIRED, schema.optional(_shares))


def read_record(densities: Path) -> StagingRecord | None:
    """Return the record of a file of probabilities, or None if `stage` did not write the file.

    A damaged record, and one of other probabilities, is an error that names it.
    """
    record_file = densities.with_name(densities.name.removesuffix(DENSITY_SUFFIX) + RECORD_SUFFIX)
    if not densities.name.endswith(DENSITY_SUFFIX) or not record_file.is_file():
        return None
    try:
        record = schema.read_table(StagingRecord, load_json(record_file), complete=True)
        is_its_own = record.density_sha256 == file_sha256(densities)
    except (InputError, *MALFORMED):
        is_its_own = False
    if not is_its_own:
        raise file_error(
            record_file, f"is no record of how {densities.name} was staged. Stage it again, or remove it."
        )
    return record

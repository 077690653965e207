"""The record beside staged probabilities, ``NAME.staging.json``: where several stagings disagree."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError
from stageguard.base.files import file_error, file_sha256, load_json
from stageguard.runner.decode_one import MALFORMED

DENSITY_SUFFIX, RECORD_SUFFIX = ".hypnodensity.csv", ".staging.json"


def read_disagreement(densities: Path) -> Floats | None:
    """Return the share of stagings that chose another stage, per epoch of a file of probabilities.

    None for probabilities of one stager alone, and for files that `stage` did not write.
    """
    record_file = densities.with_name(densities.name.removesuffix(DENSITY_SUFFIX) + RECORD_SUFFIX)
    if not densities.name.endswith(DENSITY_SUFFIX) or not record_file.is_file():
        return None
    try:
        record = load_json(record_file)
        shares = record["disagreement"]
        is_its_own = record["density_sha256"] == file_sha256(densities, "text")
        values = None if shares is None else np.array(shares, dtype=np.float64)
    except (InputError, *MALFORMED):
        is_its_own = False
    if not is_its_own or (values is not None and not ((values >= 0) & (values <= 1)).all()):
        raise file_error(
            record_file, f"is no record of how {densities.name} was staged. Stage it again, or remove it."
        )
    return values

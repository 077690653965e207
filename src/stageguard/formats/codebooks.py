"""Tables as TSV with a JSON codebook beside them: what `stats`, `intervals` and `quality` write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import Any

from stageguard.base.files import write_cell
from stageguard.formats.outputs import plain

MISSING = "n/a"


def table_with_codebook(
    path: Path,
    columns: Iterable[str],
    rows: Iterable[Iterable[Any]],
    codebook: Mapping[str, Any],
    *,
    digits: int,
) -> dict[Path, str | bytes]:
    """Return a table and its codebook, the same name with .json, by their paths.

    Numbers have as many significant digits; None, NaN and empty text are `n/a`.
    """
    lines = ["\t".join(columns), *("\t".join(_cell(value, digits) for value in row) for row in rows)]
    text = json.dumps(plain(codebook), indent=2, ensure_ascii=False, allow_nan=False)
    return {path: "\n".join(lines) + "\n", path.with_suffix(".json"): text + "\n"}


def _cell(value: Any, digits: int) -> str:
    if value is None or value == "" or (isinstance(value, float) and isnan(value)):
        return MISSING
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return write_cell(value) if isinstance(value, str) else str(value)

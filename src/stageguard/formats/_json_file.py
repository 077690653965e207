"""Read JSON that comes from outside: bounded size and depth, one line when it is damaged. Knows no format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stageguard.formats._density_file import file_error

MOST_BYTES = 64 * 2**20  # a night with probabilities is below 1 MB


def load_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise file_error(path, f"is JSON of {size:,} bytes, expected at most {MOST_BYTES:,}.")
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise file_error(path, f"is not readable JSON ({reason}). Was it copied completely?") from None

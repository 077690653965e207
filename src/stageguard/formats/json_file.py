"""Read JSON that comes from outside: bounded size and depth, one line when it is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stageguard.base.files import file_error, parse_json, read_file
from stageguard.formats.density import MOST_EPOCHS


def load_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    data = read_file(path, "JSON")
    try:
        return parse_json(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise file_error(path, f"is not readable JSON ({reason}). Was it copied completely?") from None


def number_list(path: Path) -> list[int]:
    """Return a bare list of whole numbers, one per epoch."""
    values = load_json(path)
    if not isinstance(values, list) or not all(type(value) is int for value in values) or not values:
        raise file_error(path, "is not a list of whole numbers, expected one per epoch.")
    if len(values) > MOST_EPOCHS:
        raise file_error(path, f"has {len(values):,} epochs, expected at most {MOST_EPOCHS:,}.")
    return values

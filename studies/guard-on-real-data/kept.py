"""Results in a JSON file that several processes add to."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path


def read(path: Path) -> dict:
    """Return what is kept so far."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def keep(path: Path, entries: Mapping) -> None:
    """Add entries, one line each, while no other process may."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        held = read(path) | dict(entries)
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in held.items())
        part = path.with_suffix(".part")
        part.write_text(f"{{\n{lines}\n}}\n", "utf-8")
        part.replace(path)
    finally:
        os.close(folder)  # which unlocks it

"""Results that several processes add to: facts of tasks as JSON, and records of their subjects as Parquet."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path


def read(path: Path) -> dict:
    """Return what is kept so far; a task that has records has their names in `columns`, them in `rows`."""
    if not path.exists():
        return {}
    held = json.loads(path.read_text("utf-8"))
    if (records := path.with_suffix(".parquet")).exists():
        import pyarrow.parquet as pq

        for record in pq.read_table(records).to_pylist():
            task = held[record["task"]]
            task.setdefault("rows", []).append([record[name] for name in task["columns"]])
    return held


def keep(path: Path, entries: Mapping) -> None:
    """Add entries while no other process may."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        held = read(path) | dict(entries)
        records = [
            {"task": name, **dict(zip(task["columns"], row, strict=True))}
            for name, task in held.items()
            for row in task.get("rows", ())
        ]
        if records:
            import pyarrow as pa
            import pyarrow.parquet as pq

            names = list(dict.fromkeys(name for record in records for name in record))
            columns = {name: [record.get(name) for record in records] for name in names}
            _replace(path.with_suffix(".parquet"), lambda part: pq.write_table(pa.table(columns), part))
        facts = {name: {k: v for k, v in task.items() if k != "rows"} for name, task in held.items()}
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items())
        _replace(path, lambda part: part.write_text(f"{{\n{lines}\n}}\n", "utf-8"))
    finally:
        os.close(folder)  # which unlocks it


def _replace(path: Path, write) -> None:
    part = path.with_suffix(".part")
    write(part)
    part.replace(path)

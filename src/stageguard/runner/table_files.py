"""A cohort's table to decode, and the files that are written with the decoded table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from stageguard.base.files import file_sha256
from stageguard.base.version import __version__
from stageguard.formats.cohort_output import column_meanings
from stageguard.formats.cohort_table import ID
from stageguard.formats.outputs import (
    CHANGE_COLUMNS,
    LAYOUT_VERSION,
    REVIEW_SENTENCE,
    describe_file,
    describe_profile,
    plain,
    relative_path,
    sidecar_sha256,
)
from stageguard.profile.profile import Profile
from stageguard.runner.cohort_tables import FAILURE_COLUMNS, NightRow, Tally, table_text
from stageguard.runner.decode_one import DecodeOptions


@dataclass(frozen=True, slots=True)
class TableTask:
    """A cohort's table to decode, and the table to write."""

    path: Path
    output: Path
    profile: Profile
    options: DecodeOptions
    overwrite: bool = False
    explain: bool = False
    only: tuple[str, ...] = ()  # ids of the nights to decode; empty means all

    @property
    def parts(self) -> Path:
        """The folder of the parts."""
        return self.output.with_name(f".{self.output.name}.parts")

    def beside(self, what: str) -> Path:
        """Return a file beside the output; its name keeps the suffix: out.csv and out.tsv may coexist."""
        return self.output.with_name(f"{self.output.name}.{what}")

    @property
    def sidecar(self) -> Path:
        """The file that says what the output is and how it was made."""
        return self.beside("json")

    def identity(self) -> dict[str, Any]:
        """Return everything that affects the output, in JSON types."""
        return {
            "stageguard": __version__,
            "input": {
                "file": self.path.name,
                "bytes": self.path.stat().st_size,
                "sha256": file_sha256(self.path, "a recording"),
            },
            "profile_sha256": self.profile.sha256,
            "options": plain(self.options.to_dict()),
            "explain": self.explain,
        } | ({"only": sorted(self.only)} if self.only else {})


@dataclass(frozen=True, slots=True)
class Part:
    """The nights of one block as rows of the tables; their epochs are in a file."""

    nights: list[NightRow]
    failures: list[tuple[str, str]]  # id and error
    notes: dict[str, int]
    warnings: dict[str, int]
    changes: list[list[str]]

    def to_json(self) -> str:
        """Return JSON for `from_dict`."""
        content = {item.name: getattr(self, item.name) for item in fields(self)}
        content["nights"] = [row.to_dict() for row in self.nights]
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_dict(cls, recorded: dict[str, Any]) -> Part:
        """Return the part that `to_json` wrote."""
        nights = [NightRow.from_dict(row) for row in recorded["nights"]]
        failures = [(night, error) for night, error in recorded["failures"]]
        return cls(nights, failures, recorded["notes"], recorded["warnings"], recorded["changes"])


def beside_texts(task: TableTask, tally: Tally, changes: list[list[str]]) -> dict[Path, str]:
    """Return the texts of the tables beside the output; an empty one is not written."""
    failures = [
        dict(zip(FAILURE_COLUMNS, (outcome.id, outcome.file, str(outcome.error), __version__), strict=True))
        for outcome in tally.failures
    ]
    return {
        task.beside("nights.tsv"): table_text([row.cells for row in tally.nights]),
        task.beside("failures.tsv"): table_text(failures),
        task.beside("changes.tsv"): _changes_text(changes) if task.explain else "",
    }


def table_sidecar(
    task: TableTask, identity: dict[str, Any], tally: Tally, sha256: str, tables: Mapping[Path, str]
) -> dict[str, Any]:
    """Return the sidecar of a table with this hash; `tables` are the texts of those beside it."""
    content = {
        "layout": LAYOUT_VERSION,
        "review": REVIEW_SENTENCE,
        "table": {
            "file": task.output.name,
            "sha256": sha256,
            "n_nights": len(tally.nights),
            "n_failed": len(tally.failures),
            "n_epochs": sum(row.n_epochs for row in tally.nights),
        },
        "run": identity,
        "input": identity["input"] | {"path": relative_path(task.path, task.output.parent)},
        "profile": describe_profile(task.profile, task.profile.to_dict()),
        "assumptions": dict(tally.notes),
        "beside": [describe_file(path, text.encode()) for path, text in tables.items()],
    }
    meanings = column_meanings(task.profile.scheme.names)
    sidecar: dict[str, Any] = {**meanings, "stageguard": plain(content)}
    sidecar["stageguard"]["sha256"] = sidecar_sha256(sidecar)
    return sidecar


def _changes_text(changes: Sequence[Sequence[str]]) -> str:
    """Return the table of changes; without any its header, which says that changes were looked for."""
    columns = (ID, *CHANGE_COLUMNS)
    rows = [dict(zip(columns, cells, strict=True)) for cells in changes]
    return table_text(rows) or "\t".join(columns) + "\n"

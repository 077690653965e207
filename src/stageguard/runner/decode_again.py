"""Decode the input of an output again, and compare what `decode` would write now with what is there."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.errors import StageGuardError, StageGuardWarning, fault_text
from stageguard.files import read_cell
from stageguard.formats.cohort_nights import ID, OWN_COLUMNS, CohortTable
from stageguard.formats.cohort_table import CellRow, output_rows, part_bytes, part_rows
from stageguard.formats.outputs import (
    HypnogramTable,
    changes_text,
    describe_file,
    output_paths,
    output_texts,
    read_hypnogram_tsv,
    relative_path,
)
from stageguard.guard.explain import explain
from stageguard.measures.statistics import StatisticsOptions
from stageguard.profile.profile import Profile
from stageguard.report.summary import measures_of
from stageguard.runner.decode_one import DecodeOptions, decode_file
from stageguard.runner.decode_table import TableTask, decode_block
from stageguard.runner.manifest import Manifest
from stageguard.version import __version__

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

NUMBER_TOLERANCE = 1e-6  # other processors may add numbers in another order
MOST_SHOWN = 5
OWN = "stageguard"  # holds all fields but the meanings of the columns
HASH = (OWN, "sha256")  # of the sidecar itself, checked on its own
# Nothing derives with which programs an output was made, who reviewed it, and how a network staged the
# recording; only the hash of the sidecar covers these fields.
UNDERIVED = (
    *("provenance.stageguard", "provenance.numpy", "provenance.python", "provenance.core"),
    *("run.stageguard", "options.reviewed_by", "options.review", "options.staging"),
)
VERSIONS = ((OWN, "provenance", "stageguard"), (OWN, "run", "stageguard"))  # of a night, of a table
_ABSENT = object()

# Keys and places in lists, not a dotted text: no key may pass for a path, and no list for a dictionary.
Way = tuple[str | int, ...]

STAGE = OWN_COLUMNS.index("stage") + 1  # after the id
NightRows = tuple[str, list[CellRow]]  # the id as written in the table, and the rows of the night


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one comparison."""

    name: str
    ok: bool
    finding: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields of a sidecar that differ from those derived again, and those that could not be compared."""

    n_same: int
    differing: tuple[str, ...]  # each field with what is derived and what is recorded
    unchecked: tuple[str, ...]  # fields that nothing derives
    other_version: str | None  # that wrote the sidecar, as far as it says so

    @property
    def finding(self) -> str:
        """What to say about the fields, on one line."""
        if not self.differing:
            return f"{self.n_same} fields as recorded"
        n_more = len(self.differing) - MOST_SHOWN
        return "; ".join((*self.differing[:MOST_SHOWN], *([f"and {n_more} more"] if n_more > 0 else [])))


@dataclass(frozen=True, slots=True)
class Fresh:
    """What came of decoding again: checks of the stages, the sidecar's fields, and the texts beside it."""

    checks: list[Check] = field(default_factory=list)
    compared: Comparison | None = None  # None if the input could not be decoded
    texts: Mapping[Path, str] = field(default_factory=dict)


def night_again(path: Path, profile: Profile, content: dict[str, Any], tsv: Path) -> Fresh:
    """Decode the input of a single night again, as recorded."""
    record, table = content["stageguard"], read_hypnogram_tsv(tsv)
    files = output_paths(tsv)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            decoding, fresh = _night_and_sidecar(path, profile, record, table, tsv)
    except StageGuardError as error:
        return Fresh([Check("decoded again", False, f"failed: {error}")])
    texts = {} if files.changes is None else {files.changes: changes_text(explain(decoding))}
    # the files beside a night are checked on their own: a picture cannot be derived
    alone = {**content, "stageguard": {key: value for key, value in record.items() if key != "beside"}}
    compared = compare_sidecars(fresh, alone, _moved_fields(path, files.sidecar, record["input"]))
    return Fresh([_check_labels(decoding, table)], compared, texts)


def _night_and_sidecar(
    path: Path, profile: Profile, record: dict[str, Any], table: HypnogramTable, tsv: Path
) -> tuple[Decoding, dict[str, Any]]:
    """Decode as recorded; return the decoding and the whole sidecar that `decode` would write now."""
    files, recorded = output_paths(tsv), record["options"]
    options = DecodeOptions.from_dict(recorded, table.quality)
    start = datetime.fromisoformat(recorded["start"]) if "start" in recorded else None
    decoding, notes = decode_file(path, profile, options, start)
    lights = StatisticsOptions(lights_off=options.lights_off, lights_on=options.lights_on)
    measures = measures_of(decoding, lights)
    texts = output_texts(
        decoding,
        files,
        describe_file(path, folder=files.sidecar.parent),
        options.record(start),
        options.quality,
        notes,
        joint_score=asdict(measures.joint),
        measured=measures.to_dict(),
        shares_profile="definition" not in record["profile"],
    )
    return decoding, json.loads(texts[files.sidecar])


def _check_labels(decoding: Decoding, table: HypnogramTable) -> Check:
    fresh, written = decoding.hypnogram.labels, table.labels
    if len(fresh) != len(written):
        return Check("decoded again", False, f"{len(fresh)} epochs, but {len(written)} are written")
    names = (*decoding.hypnogram.scheme.names, "?")
    stages = np.array(names)[fresh]
    different = np.flatnonzero((fresh != written) | (stages != np.array(table.stages)))
    if not len(different):
        return Check("decoded again", True, f"all {len(fresh):,} epoch{'s' * (len(fresh) != 1)} the same")
    shown = ", ".join(f"{t + 1}: {table.stages[t]} now {stages[t]}" for t in different[:5].tolist())
    more = f" and {len(different) - 5} more" if len(different) > 5 else ""
    return Check(
        "decoded again", False, f"{len(different)} of {len(fresh)} epochs differ (epoch {shown}{more})"
    )


def table_again(
    path: Path,
    profile: Profile,
    content: dict[str, Any],
    table: Path,
    say: Callable[[object], str],
) -> Fresh:
    """Decode the input of a table again, as recorded, and compare night by night."""
    record = content["stageguard"]
    run = record["run"]
    options = DecodeOptions.from_dict(run["options"] | {"format": None}, None)  # a table's is known
    only = tuple(map(str, run.get("only", ())))
    files = tuple(path / place for place in record["input"].get("files", ()))
    task = TableTask(
        path, table, profile, options, explain=bool(run["explain"]), only=only, say=say, files=files
    )
    source, manifest = task.table(), Manifest()
    written = {key: record["table"][key] for key in ("sha256", "files") if key in record["table"]}
    places = [str(file["file"]) for file in written.get("files", ())]
    checks = _check_nights(task, source, places, manifest)
    texts = {path: text for path, text in task.texts_beside(manifest).items() if text}
    fresh = task.sidecar_of(task.identity(source), manifest, written, texts)
    compared = compare_sidecars(fresh, content, _moved_fields(path, task.sidecar, record["input"]))
    is_renamed = path.name != run["input"]["file"]  # and the tables beside the output name it
    return Fresh(checks, compared, {} if is_renamed else texts)


def _check_nights(
    task: TableTask, source: CohortTable, places: Sequence[str], manifest: Manifest
) -> list[Check]:
    """Return a check for every night that differs, or one for all nights; fill the manifest.

    `places` are the files of a dataset, in the order in which they were written.
    """
    checks = list[Check]()
    try:
        table = output_rows(task.output, places)
        if next(table, []) != [ID, *OWN_COLUMNS]:
            return [Check("decoded again", False, f"{task.output.name} has other columns than decode writes")]
        written = _by_night(table)
        for expected, fresh in _decoded_again(task, source, manifest):
            name, rows = next(written, ("", []))
            if name != expected:
                where = f"night {read_cell(name)[:40]!r}" if rows else "the end of the table"
                finding = f"{where} stands in its place; the nights from here on were not compared"
                return [*checks, Check(f"night {read_cell(expected)[:40]}", False, finding)]
            if rows != fresh:
                checks.append(Check(f"night {read_cell(name)[:40]}", False, _difference(rows, fresh)))
        if (more := next(written, None)) is not None:
            finding = "stands in the table, but the input does not give it"
            checks.append(Check(f"night {read_cell(more[0])[:40]}", False, finding))
    except StageGuardError as error:
        return [*checks, Check("decoded again", False, f"failed: {error}")]
    except (csv.Error, UnicodeDecodeError, OSError, ValueError) as error:  # pyarrow's are the last two
        return [
            *checks,
            Check("decoded again", False, f"{task.output.name} cannot be read ({fault_text(error)})"),
        ]
    if not checks:
        n_nights, n_epochs = len(manifest.nights), manifest.n_epochs
        finding = f"all {n_epochs:,} epochs of {n_nights:,} night{'s' * (n_nights != 1)} the same"
        checks.append(Check("decoded again", True, finding))
    return checks


def _by_night(rows: Iterator[CellRow]) -> Iterator[NightRows]:
    """Group the rows of a table by night."""
    for name, of_night in groupby(rows, key=lambda row: row[0] if row else ""):
        yield name, list(of_night)


def _decoded_again(task: TableTask, source: CohortTable, manifest: Manifest) -> Iterator[NightRows]:
    """Yield the nights as `decode` would write them now, and add them to the manifest."""
    table = source.knowing_its_first()
    reading = table.reading()
    for chunk in table.chunks():
        decoded = decode_block(task, reading(chunk))
        for outcome in decoded.outcomes:
            manifest.add(outcome)
        if decoded.decodings:
            yield from _by_night(part_rows(task.output, part_bytes(task.output, decoded.decodings)))


def _difference(written: list[CellRow], fresh: list[CellRow]) -> str:
    if len(written) != len(fresh):
        return f"{len(fresh)} epochs, but {len(written)} are written"
    different = [t for t, (mine, now) in enumerate(zip(written, fresh, strict=True)) if mine != now]
    first = different[0]
    stages = [rows[first][STAGE] if len(rows[first]) > STAGE else "?" for rows in (written, fresh)]
    text = f"{stages[0]} now {stages[1]}" if stages[0] != stages[1] else "another column than the stage"
    return f"{len(different)} of {len(fresh)} epochs differ (the first is epoch {first + 1}: {text})"


def _moved_fields(path: Path, sidecar: Path, recorded: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the fields that say where the input was, if it is elsewhere now; its hash is compared anyway."""
    if recorded is None or path.name != Path(recorded["file"]).name:
        return "input.file", "input.path", "run.input.file", "beside"  # tables beside a table name its input
    was = recorded.get("path")
    is_moved = relative_path(path, sidecar.parent) != was and Path(str(was)).name == path.name
    return ("input.path",) if is_moved else ()


# comparing two sidecars field by field


def compare_sidecars(
    fresh: dict[str, Any], content: dict[str, Any], underived: Collection[str] = ()
) -> Comparison:
    """Compare all fields; `underived` adds fields, or groups of them, to those that nothing derives.

    Whatever version a sidecar names, a difference is one: the version itself may be forged.
    """
    recorded, derived = _leaves(content), _leaves(fresh)
    without = [(OWN, *name.split(".")) for name in (*UNDERIVED, *underived)]
    unchecked = [path for path in recorded if any(path[: len(part)] == part for part in without)]
    paths = [path for path in {**derived, **recorded} if path != HASH and path not in unchecked]
    pairs = {path: (recorded.get(path, _ABSENT), derived.get(path, _ABSENT)) for path in paths}
    differing = {path: pair for path, pair in pairs.items() if not _same(*pair)}
    version = next((str(recorded[path]) for path in VERSIONS if path in recorded), "of an unknown version")
    return Comparison(
        len(paths) - len(differing),
        tuple(
            f"{_name(path)} is {_shown(now)}, but {_shown(was)} is recorded"
            for path, (was, now) in differing.items()
        ),
        tuple(map(_name, unchecked)),
        None if version == __version__ else version,
    )


def _name(path: Way) -> str:
    """Return the name of a field for people."""
    is_own = path[0] == OWN and len(path) > 1
    return ".".join(map(str, path[1:])) if is_own else f"{'.'.join(map(str, path))} at the top level"


def _leaves(content: Any, path: Way = ()) -> dict[Way, Any]:
    """Return all values inside nested dictionaries and lists, also empty ones of these, by their paths."""
    items: dict[Any, Any] = dict(enumerate(content)) if isinstance(content, list) else {}
    items = content if isinstance(content, dict) else items
    if not items:
        return {path: content}
    leaves: dict[Way, Any] = {}
    for key, item in items.items():
        leaves |= _leaves(item, (*path, key))
    return leaves


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(was: Any, now: Any) -> bool:
    if _is_number(was) and _is_number(now):
        return bool(abs(was - now) <= NUMBER_TOLERANCE * max(1.0, abs(now)))
    return type(was) is type(now) and bool(was == now)


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return f"{value:.10g}" if isinstance(value, float) else str(value)[:60]

"""Check an output by decoding its input again into a temporary folder, and a grade card by its hashes."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.errors import (
    FileFormatError,
    ProfileError,
    StageGuardError,
    StageGuardWarning,
    fault_text,
    record_fault,
)
from stageguard.files import file_error, file_sha256, load_json, read_cell
from stageguard.formats.cohort import ID, TABLE_SUFFIXES, list_sha256, table_rows
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    TSV_SUFFIX,
    is_output,
    output_paths,
    read_hypnogram_tsv,
    read_sidecar,
)
from stageguard.formats.shared_profile import recorded_profile
from stageguard.measures.grade import KIND, read_card
from stageguard.profile.profile import Profile
from stageguard.runner.decode_files import DecodeTask, decode_task
from stageguard.runner.decode_one import MALFORMED, DecodeOptions, decode_file, is_as_described
from stageguard.runner.decode_table import TableTask, is_table_unchanged, table_source
from stageguard.runner.manifest import decode_source
from stageguard.storage import files_below, inside, is_folder
from stageguard.version import __version__

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one comparison."""

    name: str
    ok: bool
    finding: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one output."""

    checks: tuple[Check, ...]
    other_version: str | None = None  # that wrote the output, if it names another one than this

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {"ok": self.ok} | asdict(self)


def verify_output(output: Path, source: Path | None = None) -> Verification:
    """Compare an output's files, profile and input with the hashes in its sidecar; decode again and compare.

    An output is a night with files of its own, or a table of nights, named by its table or its sidecar.
    """
    table, sidecar = _table_and_sidecar(output)
    record = read_sidecar(sidecar)
    with errors_of_record(sidecar):
        is_night = "table" not in record
        is_written = is_table_unchanged(table, record["hypnogram" if is_night else "table"])
        profile, profile_check = check_profile(sidecar, record)
        path, input_check = check_input(sidecar, record, source)
        checks = [
            as_written("hypnogram file" if is_night else "table", table, same=is_written),
            *(profile_check, input_check),
        ]
        for described in record.get("beside", ()):
            beside = sidecar.parent / Path(described["file"]).name
            checks.append(as_written(beside.name, beside, same=is_as_described(sidecar.parent, described)))
        if path is not None:
            with TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore", StageGuardWarning)
                checks.append(_decoded_again(path, profile, record, table, Path(folder) / table.name))
        version = str((record["provenance"] if is_night else record["run"])["stageguard"])
    return Verification(tuple(checks), None if version == __version__ else version)


def _decoded_again(
    path: Path,
    profile: Profile,
    record: dict[str, Any],
    table: Path,
    again: Path,
) -> Check:
    """Decode an input as recorded, and compare the table with that of the output."""
    try:
        if "table" not in record:
            options = DecodeOptions.from_dict(record["options"], read_hypnogram_tsv(table).quality)
            start = record["options"].get("start")
            start = None if start is None else datetime.fromisoformat(start)
            decode_task(DecodeTask(path, again, profile, options, start=start, in_full=False))
        else:
            run = record["run"]
            options = DecodeOptions.from_dict(run["options"] | {"format": None}, None)  # a table's is known
            files = tuple(path / place for place in record["input"].get("files", ()))
            only = tuple(map(str, run["options"].get("only", ())))
            task = TableTask(path, again, profile, options, only=only, files=files)
            decode_source(table_source(task))
        return _compared(_rows(table), _rows(again))
    except StageGuardError as error:
        return Check("decoded again", False, f"failed: {error}")
    except (csv.Error, UnicodeDecodeError, OSError, ValueError) as error:  # pyarrow's are the last two
        return Check("decoded again", False, f"{table.name} cannot be read ({fault_text(error)})")


def _rows(table: Path) -> Iterator[list[str]]:
    """Yield the rows of an output; files of a dataset are in the order in which they were written."""
    files = sorted(files_below(table), key=lambda path: path.name) if is_folder(table) else []
    return table_rows(table, [str(path.relative_to(table)) for path in files])


def _compared(written: Iterator[list[str]], again: Iterator[list[str]]) -> Check:
    """Compare two tables row by row, and say which row differs first."""
    header = next(again)
    if next(written, []) != header:
        return Check("decoded again", False, "has other columns than decode writes")
    n_rows = n_different = 0
    first, nothing = "", list[str]()
    for was, now in zip_longest(written, again, fillvalue=nothing):
        n_rows += 1
        if was != now:
            n_different += 1
            night = f"night {read_cell((now or was)[0])[:40]}, " if header[0] == ID else ""
            stages = [dict(zip(header, row, strict=False)).get("stage", "nothing") for row in (was, now)]
            first = first or f"{night}row {n_rows}: {stages[0]} now {stages[1]}"
    if n_different:
        finding = f"{n_different:,} of {n_rows:,} epochs differ (the first is {first})"
        return Check("decoded again", False, finding)
    return Check("decoded again", True, f"all {n_rows:,} epoch{'s' * (n_rows != 1)} the same")


def _table_and_sidecar(output: Path) -> tuple[Path, Path]:
    """Return the table and the sidecar of an output, given either; both must be there."""
    table = output.with_suffix("") if output.suffix == ".json" else output
    sidecar = table.with_name(f"{table.name}.json")
    if not (sidecar.is_file() and (table.suffix.lower() in TABLE_SUFFIXES or is_folder(table))):
        if not is_output(output):
            raise file_error(
                output,
                f"is not an output of decode: expected a {TSV_SUFFIX} or {JSON_SUFFIX} file, or a table or "
                "dataset with its .json beside it.",
            )
        table, sidecar = output_paths(output).tsv, output_paths(output).sidecar
    for path in (sidecar, table):
        if not path.exists():
            raise file_error(path, "is missing, expected a table and its sidecar together.")
    return table, sidecar


def decode_recorded(
    output: Path, start: datetime | None = None, source: Path | None = None
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode the input of an output again, as recorded; refuse an output that differs from the result."""
    files = output_paths(output)
    record, table = read_sidecar(files.sidecar), read_hypnogram_tsv(files.tsv)
    with errors_of_record(files.sidecar):
        profile, _ = check_profile(files.sidecar, record)
        options = DecodeOptions.from_dict(record["options"], table.quality)
        source, check = check_input(files.sidecar, record, source)
        if source is None:
            raise file_error(
                output, "comes without the probabilities it was decoded from, expected them beside it. "
                "Name the file that holds them instead, or in a list's column probabilities (--list)."
            )  # fmt: skip
        decoding, notes = decode_file(source, profile, options, start)
    same = np.array_equal(decoding.hypnogram.labels, table.labels)
    if not check.ok or not same:
        raise file_error(
            output, f"is not what {source.name} gives, expected an output that was not edited. "
            f"See: stageguard verify {output.name}."
        )  # fmt: skip
    return decoding, notes


@contextmanager
def errors_of_record(sidecar: Path) -> Iterator[None]:
    """Turn errors from malformed values in a record into one error that names the sidecar."""
    try:
        yield
    except (StageGuardError, OSError):
        raise
    except MALFORMED as error:
        raise file_error(sidecar, record_fault(error)) from None


def as_written(name: str, path: Path, *, same: bool) -> Check:
    """Return the check that a file has not changed since it was written."""
    problem = "was changed after writing" if path.exists() else "is missing"
    return Check(name, same, "as written" if same else f"{path.name} {problem}")


def check_profile(sidecar: Path, record: dict[str, Any]) -> tuple[Profile, Check]:
    """Return the recorded profile, and the check that its hash is the recorded one."""
    recorded = record["profile"]
    try:
        profile = recorded_profile(sidecar, recorded)
    except ProfileError as error:
        raise ProfileError(f"the recorded profile is not valid: {error}") from None
    return profile, _check_hash("profile", profile.name, profile.sha256, recorded["sha256"])


def check_input(sidecar: Path, record: dict[str, Any], source: Path | None) -> tuple[Path | None, Check]:
    """Return the input, if it exists, and the check that it is the recorded one."""
    recorded = record["input"]
    if recorded is None and source is None:
        return None, Check("input", False, "no input file is recorded. Name it with --input.")
    path = source if source is not None else _recorded_input(sidecar.parent, recorded)
    places = [str(place) for place in (recorded or {}).get("files", ())]
    missing = [file for file in ([path / place for place in places] or [path]) if not file.is_file()]
    if missing:
        return None, Check("input", False, f"{missing[0]} not found. Name it with --input.")
    if places:
        sha256 = list_sha256({place: file_sha256(path / place) for place in places})
    else:
        sha256 = file_sha256(path)
    return path, _check_hash("input", path.name, sha256, (recorded or {"sha256": sha256})["sha256"])


def _check_hash(name: str, file: str, found: str, recorded: str) -> Check:
    finding = f"{file}, sha256 {found[:12]}"
    same = found == recorded
    return Check(name, same, finding if same else f"{finding}, but {str(recorded)[:12]} is recorded")


def _recorded_input(folder: Path, recorded: dict[str, Any]) -> Path:
    """Return the input: the file beside the output, else the one at the recorded path if its hash fits."""
    beside = folder / Path(recorded["file"]).name
    if beside.is_file() or not recorded.get("path"):
        return beside
    path = inside(folder, recorded["path"])
    if "files" in recorded:  # a folder: of others, nobody would take it for the dataset by its name
        return path
    is_it = path.name == beside.name and path.is_file()
    return path if is_it and file_sha256(path) == recorded["sha256"] else beside


# grade cards


def is_card(path: Path) -> bool:
    """Whether a file is a grade card, by its content."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    try:
        content = load_json(path)
    except FileFormatError:
        return False
    record = content.get("stageguard") if isinstance(content, dict) else None
    return isinstance(record, dict) and record.get("kind") == KIND


def verify_card(path: Path) -> Verification:
    """Check a card's SHA-256, and its files where they are still beside it."""
    card, is_whole = read_card(path)
    checks = [as_written("card", path, same=is_whole)]
    with errors_of_record(path):
        files = [night.files for night in card.nights if night.files]
        described = [each for one in files for each in (one["night"], *one["experts"]) if each]
        wrong = list(_wrong_files(path.parent, described))
    if described:
        finding = f"other: {', '.join(wrong[:3])}" if wrong else f"{len(described)} as recorded"
        checks.append(Check("files", not wrong, finding))
    version = card.facts.version
    return Verification(tuple(checks), version if version != __version__ else None)


def _wrong_files(folder: Path, described: Sequence[dict[str, Any]]) -> Iterator[str]:
    for each in described:
        path = inside(folder, str(each.get("path") or each["file"]))
        if not path.is_file():
            yield f"{each['file']} (missing)"
        elif file_sha256(path) != each["sha256"]:
            yield f"{each['file']} (changed)"

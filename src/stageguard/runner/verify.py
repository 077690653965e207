"""Compare a written output with a fresh decoding of its input."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.errors import ProfileError, StageGuardError, record_fault
from stageguard.files import file_error, file_sha256
from stageguard.formats.cohort_dataset import describe_dataset
from stageguard.formats.cohort_table import TABLE_SUFFIXES
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    TSV_SUFFIX,
    describe_file,
    is_as_written,
    is_output,
    output_paths,
    read_hypnogram_tsv,
    read_whole_sidecar,
)
from stageguard.formats.shared_profile import recorded_profile
from stageguard.profile.profile import Profile, profiles
from stageguard.runner.decode_again import Check, Fresh, night_again, table_again
from stageguard.runner.decode_one import MALFORMED, DecodeOptions, decode_file, is_as_described
from stageguard.runner.decode_table import is_table_unchanged
from stageguard.storage import inside, is_folder

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one output, the fields that nothing derives, and remarks that are not failures."""

    checks: tuple[Check, ...]
    unchecked: tuple[str, ...]
    notes: tuple[str, ...]
    other_version: str | None = None  # that wrote the output, if it names another one than this

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            "ok": self.ok,
            "checks": [asdict(check) for check in self.checks],
            "unchecked": list(self.unchecked),
            "notes": list(self.notes),
            "other_version": self.other_version,
        }


def verify_output(
    output: Path, source: Path | None = None, *, say: Callable[[object], str] = str
) -> Verification:
    """Check an output's files, profile and input against its sidecar; then decode again and compare.

    An output is a night with files of its own, or a table of nights, named by its table or its sidecar.
    Failures in a table of nights are worded by `say`, as `decode` words them.
    """
    table, sidecar = _table_and_sidecar(output)
    content = read_whole_sidecar(sidecar)
    record = content["stageguard"]
    with errors_of_record(sidecar):
        is_night = "table" not in record
        described = record["hypnogram" if is_night else "table"]
        is_written = is_table_unchanged(table, described)
        profile, profile_check = check_profile(sidecar, record)
        path, input_check = check_input(sidecar, record, source)
        fresh = Fresh()
        if path is not None and is_night:
            fresh = night_again(path, profile, content, table)
        elif path is not None:
            fresh = table_again(path, profile, content, table, say)
        checks = [
            as_written("hypnogram file" if is_night else "table", table, same=is_written),
            check_sidecar(sidecar, content),
            *(profile_check, input_check, *fresh.checks),
            *check_beside(sidecar.parent, record, fresh.texts),
        ]
        notes = profile_notes(record["profile"], (record if is_night else record["run"])["options"])
    compared = fresh.compared
    if compared is None:
        return Verification((*checks,), (), (*notes,))
    checks.append(Check("record", not compared.differing, compared.finding))
    return Verification((*checks,), compared.unchecked, (*notes,), compared.other_version)


def _table_and_sidecar(output: Path) -> tuple[Path, Path]:
    """Return the table and the sidecar of an output, given either; both must be there."""
    table = output.with_suffix("") if output.suffix == ".json" else output
    sidecar = table.with_name(f"{table.name}.json")
    if sidecar.is_file() and (table.suffix.lower() in TABLE_SUFFIXES or is_folder(table)):
        if not table.exists():
            raise file_error(table, f"is missing, expected the table that {sidecar.name} tells of.")
        return table, sidecar
    if not is_output(output):
        raise file_error(
            output,
            f"is not an output of decode: expected a {TSV_SUFFIX} or {JSON_SUFFIX} file, or a table or "
            "dataset with its .json beside it.",
        )
    files = output_paths(output)
    for path in (files.sidecar, files.tsv):
        if not path.is_file():
            raise file_error(
                path, "is missing: an output is a .hypnogram.tsv with a .hypnogram.json beside it."
            )
    return files.tsv, files.sidecar


def decode_recorded(
    output: Path, start: datetime | None = None, source: Path | None = None
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode the input of an output again, as recorded; refuse an output that differs from the result."""
    files = output_paths(output)
    content, table = read_whole_sidecar(files.sidecar), read_hypnogram_tsv(files.tsv)
    record = content["stageguard"]
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
    if not check.ok or not same or not is_as_written(content):
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
    except StageGuardError:
        raise
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # no file that can be there has such a name
            raise
        raise file_error(sidecar, "records a file name that is too long, so it was edited.") from None
    except MALFORMED as error:
        raise file_error(sidecar, record_fault(error)) from None


def as_written(name: str, path: Path, *, same: bool) -> Check:
    """Return the check that a file has not changed since it was written."""
    problem = "was changed after writing" if path.exists() else "is missing"
    return Check(name, same, "as written" if same else f"{path.name} {problem}")


def check_sidecar(path: Path, content: dict[str, Any]) -> Check:
    """Return the check that a sidecar holds the hash of its content."""
    if "sha256" not in content["stageguard"]:
        return Check("sidecar", False, f"{path.name} has no hash of its own, so it was edited")
    return as_written("sidecar", path, same=is_as_written(content))


def check_profile(sidecar: Path, record: dict[str, Any]) -> tuple[Profile, Check]:
    """Return the recorded profile, and the check that its hash is the recorded one."""
    recorded = record["profile"]
    try:
        profile = recorded_profile(sidecar, recorded)
    except ProfileError as error:
        raise ProfileError(f"the recorded profile is not valid: {error}") from None
    same = profile.sha256 == recorded["sha256"]
    finding = f"{profile.name}, sha256 {profile.sha256[:12]}"
    return profile, Check(
        "profile", same, finding if same else f"{finding}, but {recorded['sha256'][:12]} is recorded"
    )


def check_input(sidecar: Path, record: dict[str, Any], source: Path | None) -> tuple[Path | None, Check]:
    """Return the input file, if it exists, and the check that it is the recorded one."""
    recorded = record["input"]
    if recorded is None and source is None:
        return None, Check("input", False, "no input file is recorded. Name it with --input.")
    path = source if source is not None else _recorded_input(sidecar.parent, recorded)
    is_dataset = recorded is not None and "files" in recorded
    if not (is_folder(path) if is_dataset else path.is_file()):
        return None, Check("input", False, f"{path} not found. Name it with --input.")
    if is_dataset:
        found = describe_dataset(path, [str(place) for place in recorded["files"]])
    else:
        found = {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    sha256, n_bytes = found["sha256"], found["bytes"]
    finding = f"{path.name}, sha256 {sha256[:12]}"
    if recorded is None:
        return path, Check("input", True, f"{finding} (none recorded)")
    if sha256 != recorded["sha256"]:
        return path, Check("input", False, f"{finding}, but {recorded['sha256'][:12]} is recorded")
    if n_bytes != recorded["bytes"]:
        finding = f"{path.name}, {n_bytes} bytes, but {str(recorded['bytes'])[:20]} is recorded"
    return path, Check("input", n_bytes == recorded["bytes"], finding)


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


def check_beside(folder: Path, record: dict[str, Any], derived: Mapping[Path, str]) -> list[Check]:
    """Check that the files beside an output are as they were written, and as derived again where they are."""
    checks = []
    for recorded in record.get("beside", ()):
        path = folder / Path(recorded["file"]).name
        same = is_as_described(folder, recorded)
        if path in derived:
            same = same and describe_file(path, derived[path].encode()) == recorded
        checks.append(as_written(path.name, path, same=same))
    return checks


def profile_notes(recorded: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """Return a remark if another profile of that name is installed, which is not a failure."""
    if recorded["name"] not in profiles():
        return []
    installed = Profile.load(recorded["name"])
    named = options.get("stager"), options.get("cohort")
    used = installed.at_strength(options.get("strength")).for_nights_of(*named)
    if recorded["sha256"] in (used.sha256, installed.sha256):  # cohort tables record the latter
        return []
    name = recorded["name"]
    return [f"the profile {name!r} installed here differs from the recorded one, which was used."]

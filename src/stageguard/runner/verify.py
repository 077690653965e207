"""Compare a written hypnogram with a fresh decoding of its input."""

from __future__ import annotations

import errno
import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.errors import ProfileError, StageGuardError, StageGuardWarning, record_fault
from stageguard.base.files import file_error, file_sha256, parse_json, read_file, special
from stageguard.formats.companions import parse_moment
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    TSV_SUFFIX,
    HypnogramTable,
    WrittenFiles,
    changes_text,
    describe_file,
    describe_input,
    is_as_written,
    is_output,
    output_paths,
    output_texts,
    read_hypnogram_tsv,
    read_whole_sidecar,
    relative_path,
)
from stageguard.formats.shared_profile import recorded_profile
from stageguard.guard.explain import explain
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import measures_of
from stageguard.profile.profile import Profile, profiles
from stageguard.runner.compare_sidecars import Comparison, compare_sidecars
from stageguard.runner.decode_files import MALFORMED, DecodeTask
from stageguard.runner.decode_one import DecodeOptions, decode_file

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

LIGHTS = ("lights_off", "lights_on")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one comparison."""

    name: str
    ok: bool
    finding: str


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


def verification(checks: Sequence[Check], notes: Sequence[str], compared: Comparison | None) -> Verification:
    """Return all checks, with that of the fields of the sidecar if they could be compared."""
    if compared is None:
        return Verification((*checks,), (), (*notes,))
    record = Check("record", not compared.differing, compared.finding)
    return Verification((*checks, record), compared.unchecked, (*notes,), compared.other_version)


def verify_output(output: Path, source: Path | None = None) -> Verification:
    """Check table, profile and input against the sidecar, then decode again and compare labels."""
    if not is_output(output):
        raise file_error(
            output,
            f"is not an output of decode: expected a {TSV_SUFFIX} or {JSON_SUFFIX} file, or a table "
            "with its .json beside it.",
        )
    files = output_paths(output)
    for path in (files.sidecar, files.tsv):
        if not path.is_file():
            raise file_error(
                path, "is missing: an output is a .hypnogram.tsv with a .hypnogram.json beside it."
            )
    content = read_whole_sidecar(files.sidecar)
    record = content["stageguard"]
    table = read_hypnogram_tsv(files.tsv)
    with errors_of_record(files.sidecar):
        is_table = hashlib.sha256(read_file(files.tsv, "text")).hexdigest() == record["hypnogram"]["sha256"]
        checks = [as_written("hypnogram file", files.tsv, same=is_table)]
        checks.append(check_sidecar(files.sidecar, content))
        profile, profile_check = check_profile(files.sidecar, record)
        input_path, input_check = check_input(files.sidecar, record, source)
        checks += [profile_check, input_check]
        decoding, compared = None, None
        if input_path is not None:
            decoding, again, compared = _check_again(input_path, profile, content, table, files)
            checks.append(again)
        derived = {}
        if decoding is not None and files.changes is not None:
            derived[files.changes] = changes_text(explain(decoding))
        checks += check_beside(files.sidecar.parent, record, derived)
        return verification(checks, profile_notes(record["profile"], record["options"]), compared)


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
    problem = "was changed after writing" if path.is_file() else "is missing"
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
    if not path.is_file():
        return None, Check("input", False, special(path) or f"{path} not found. Name it with --input.")
    sha256, n_bytes = file_sha256(path, "a recording"), path.stat().st_size
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
    path = Path(os.path.normpath(folder / recorded["path"]))
    is_it = path.name == beside.name and path.is_file()
    return path if is_it and file_sha256(path, "a recording") == recorded["sha256"] else beside


def _check_again(
    path: Path, profile: Profile, content: dict[str, Any], table: HypnogramTable, files: WrittenFiles
) -> tuple[Decoding | None, Check, Comparison | None]:
    """Decode the input again, and compare the stages and the whole sidecar."""
    record = content["stageguard"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            decoding, fresh = _written_again(path, profile, record, table, files)
    except StageGuardError as error:
        return None, Check("decoded again", False, f"failed: {error}"), None
    moved = moved_fields(path, files.sidecar, record["input"])
    alone = {**content, "stageguard": {key: value for key, value in record.items() if key != "beside"}}
    return decoding, _check_labels(decoding, table), compare_sidecars(fresh, alone, moved)


def _written_again(
    path: Path, profile: Profile, record: dict[str, Any], table: HypnogramTable, files: WrittenFiles
) -> tuple[Decoding, dict[str, Any]]:
    """Decode as recorded; return the decoding and the whole sidecar that `decode` would write now."""
    recorded = record["options"]
    options = DecodeOptions.from_dict(recorded, table.quality)
    off, on = (parse_moment(str(recorded[key])) if key in recorded else None for key in LIGHTS)
    start = datetime.fromisoformat(recorded["start"]) if "start" in recorded else None
    decoding, notes = decode_file(path, profile, options, start)
    measures = measures_of(decoding, StatisticsOptions(lights_off=off, lights_on=on))
    texts = output_texts(
        decoding,
        files,
        describe_input(path, None, files.sidecar.parent),
        DecodeTask(path, files.tsv, profile, options, lights_off=off, lights_on=on).to_dict(start),
        options.quality,
        notes,
        joint_score=asdict(measures.joint),
        measured=measures.to_dict(),
        shares_profile="definition" not in record["profile"],
    )
    return decoding, parse_json(texts[files.sidecar])


def moved_fields(path: Path, sidecar: Path, recorded: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the fields that say where the input was, if it is elsewhere now; its hash is compared anyway."""
    if recorded is None or path.name != Path(recorded["file"]).name:
        return "input.file", "input.path", "run.input.file", "beside"  # tables beside a table name its input
    was = recorded.get("path")
    is_moved = relative_path(path, sidecar.parent) != was and Path(str(was)).name == path.name
    return ("input.path",) if is_moved else ()


def check_beside(folder: Path, record: dict[str, Any], derived: Mapping[Path, str]) -> list[Check]:
    """Check that the files beside an output are as they were written, and as derived again where they are."""
    checks = []
    for recorded in record.get("beside", ()):
        path = folder / Path(recorded["file"]).name
        same = path.is_file() and describe_file(path) == recorded
        if path in derived:
            same = same and describe_file(path, derived[path].encode()) == recorded
        checks.append(as_written(path.name, path, same=same))
    return checks


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


def profile_notes(recorded: dict[str, Any], options: dict[str, Any]) -> list[str]:
    """Return a remark if another profile of that name is installed, which is not a failure."""
    if recorded["name"] not in profiles():
        return []
    installed = Profile.load(recorded["name"])
    used = installed.at_strength(options.get("strength")).for_cohort(options.get("cohort"))
    if recorded["sha256"] in (used.sha256, installed.sha256):  # cohort tables record the latter
        return []
    name = recorded["name"]
    return [f"the profile {name!r} installed here differs from the recorded one, which was used."]

"""Compare a written hypnogram with a fresh decoding of its input."""

from __future__ import annotations

import errno
import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.errors import ProfileError, StageGuardError, StageGuardWarning
from stageguard.base.files import file_error, file_sha256, read_file, special
from stageguard.base.records import dataclass
from stageguard.base.version import __version__
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    TSV_SUFFIX,
    HypnogramTable,
    WrittenFiles,
    derived_sidecar,
    describe_file,
    is_output,
    output_paths,
    read_hypnogram_tsv,
    read_sidecar,
    read_whole_sidecar,
    sidecar_sha256,
)
from stageguard.formats.shared_profile import recorded_profile
from stageguard.profile.profile import Profile, profiles
from stageguard.runner.decode_files import MALFORMED
from stageguard.runner.decode_one import DecodeOptions, decode_file

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

SCORE_TOLERANCE = 1e-6  # other processors may add numbers in another order


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one comparison."""

    name: str
    ok: bool
    finding: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one output, and remarks that are not failures."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks], "notes": list(self.notes)}


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
        checks += _check_beside(files.sidecar, record)
        if "sha256" in record:
            is_sidecar = sidecar_sha256(content) == record["sha256"]
            checks.append(as_written("sidecar", files.sidecar, same=is_sidecar))
        profile, profile_check = check_profile(files.sidecar, record)
        input_path, input_check = check_input(files.sidecar, record, source)
        checks += [profile_check, input_check]
        if input_path is not None:
            checks += _check_again(input_path, profile, content, table, files)
        return Verification(tuple(checks), version_notes(record))


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
    if not check.ok or not np.array_equal(decoding.hypnogram.labels, table.labels):
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
        raise file_error(sidecar, f"is incomplete or was edited ({error!r:.120}).") from None


def as_written(name: str, path: Path, *, same: bool) -> Check:
    """Return the check that a file has not changed since it was written."""
    problem = "was changed after writing" if path.is_file() else "is missing"
    return Check(name, same, "as written" if same else f"{path.name} {problem}")


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
) -> list[Check]:
    """Decode the input again, and compare the labels and the rest of the sidecar."""
    record = content["stageguard"]
    options = DecodeOptions.from_dict(record["options"], table.quality)
    start = record["options"].get("start")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            decoding, notes = decode_file(
                path, profile, options, None if start is None else datetime.fromisoformat(start)
            )
    except StageGuardError as error:
        return [Check("decoded again", False, f"failed: {error}")]
    shares_profile = "definition" not in record["profile"]
    fresh = derived_sidecar(decoding, files, options.quality, notes, shares_profile=shares_profile)
    fresh["stageguard"]["options"] = options.to_dict()
    return [_check_labels(decoding, table), _check_record(fresh, content)]


def _check_record(fresh: dict[str, Any], content: dict[str, Any]) -> Check:
    """Compare the sidecar with a fresh one; texts only if the same version wrote both."""
    # older versions knew no offset, so their outputs do not record one
    recorded = {"stageguard.night.hypnogram.offset_seconds": 0.0} | _leaves(content)
    is_same_version = content["stageguard"]["provenance"].get("stageguard") == __version__
    compared = {
        name: value for name, value in _leaves(fresh).items() if is_same_version or not isinstance(value, str)
    }
    wrong = [
        f"{name.removeprefix('stageguard.')} is {_shown(now)}, but {_shown(recorded.get(name))} is recorded"
        for name, now in compared.items()
        if not _same(recorded.get(name), now)
    ]
    more = [f"and {len(wrong) - 5} more"] if len(wrong) > 5 else []
    return Check("record", not wrong, "; ".join(wrong[:5] + more) or f"{len(compared)} fields as recorded")


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Return all values inside nested dictionaries and lists, by their dotted paths."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        return {name: value}
    leaves: dict[str, Any] = {}
    for key, item in items:
        leaves |= _leaves(item, f"{name}.{key}" if name else str(key))
    return leaves


def _shown(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)[:60]


def _same(said: Any, now: Any) -> bool:
    if isinstance(now, bool) or not isinstance(now, int | float):
        return type(said) is type(now) and bool(said == now)
    if said is None:  # JSON has no NaN or infinity: the sidecar has null instead
        return not np.isfinite(now)
    if isinstance(said, bool) or not isinstance(said, int | float):
        return False
    return bool(abs(said - now) <= SCORE_TOLERANCE * max(1.0, abs(now)))


def _check_beside(sidecar: Path, record: dict[str, Any]) -> list[Check]:
    """Check that the picture and the table of changes are as they were written."""
    checks = []
    for recorded in record.get("beside", ()):
        path = sidecar.parent / Path(recorded["file"]).name
        same = path.is_file() and describe_file(path) == recorded
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


def version_notes(record: dict[str, Any]) -> tuple[str, ...]:
    """Return remarks on versions, which may explain a difference but are not failures."""
    recorded = record["profile"]
    notes = []
    if "sha256" not in record:
        notes.append(
            "the sidecar was written before sidecars had a hash of their own: what does not follow from the "
            "input, such as versions, is not checked."
        )
    if recorded["name"] in profiles():
        installed, options = Profile.load(recorded["name"]), record["options"]
        used = installed.at_strength(options.get("strength")).for_cohort(options.get("cohort"))
        if recorded["sha256"] not in (used.sha256, installed.sha256):  # cohort tables record the latter
            notes.append(
                f"the profile {recorded['name']!r} installed here differs from the recorded one, which was "
                "used."
            )
    return tuple(notes)

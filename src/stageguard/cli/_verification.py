"""Compare a written hypnogram with a fresh decoding of its input. Prints nothing."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard._input_files import read_file
from stageguard.cli._decode_file import DecodeOptions, decode_file
from stageguard.errors import ProfileError, StageGuardError, StageGuardWarning
from stageguard.formats._density_file import file_error
from stageguard.formats.outputs import (
    JSON_SUFFIX,
    TSV_SUFFIX,
    HypnogramTable,
    describe_file,
    output_paths,
    read_hypnogram_tsv,
    read_sidecar,
)
from stageguard.profile import Profile, profiles

if TYPE_CHECKING:
    from datetime import datetime

    from stageguard.decoded import Decoding

# What reading a record raises when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
SCORE_TOLERANCE = 1e-6  # other processors may add up in another order


@dataclass(frozen=True, slots=True)
class Check:
    """One thing compared."""

    name: str
    ok: bool
    finding: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one output, and remarks that are no failures."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        checks = [{"name": c.name, "ok": c.ok, "finding": c.finding} for c in self.checks]
        return {"ok": self.ok, "checks": checks, "notes": list(self.notes)}


def verify_output(output: Path, source: Path | None = None) -> Verification:
    """Check table, profile and input against the sidecar, then decode again and compare labels."""
    if not output.name.endswith((TSV_SUFFIX, JSON_SUFFIX)):
        raise file_error(
            output, f"is not an output of decode: expected a {TSV_SUFFIX} or {JSON_SUFFIX} file."
        )
    files = output_paths(output)
    for path in (files.sidecar, files.tsv):
        if not path.is_file():
            raise file_error(
                path, "is missing: an output is a .hypnogram.tsv with a .hypnogram.json beside it."
            )
    record = read_sidecar(files.sidecar)
    table = read_hypnogram_tsv(files.tsv)
    try:
        checks = [_check_table(files.tsv, record)]
        profile, profile_check = _check_profile(record)
        input_path, input_check = _check_input(files.sidecar, record, source)
        checks += [profile_check, input_check]
        if input_path is not None:
            checks += _check_again(input_path, profile, record, table)
        notes = _notes(record)
    except StageGuardError:
        raise
    except MALFORMED as error:
        raise file_error(files.sidecar, f"is incomplete or was edited ({error!r:.120}).") from None
    return Verification(tuple(checks), notes)


def decode_recorded(
    output: Path, start: datetime | None = None, source: Path | None = None
) -> tuple[Decoding, tuple[str, ...]]:
    """Decode the input of an output again, as recorded; an output that this does not give is refused."""
    files = output_paths(output)
    record, table = read_sidecar(files.sidecar), read_hypnogram_tsv(files.tsv)
    try:
        profile, _ = _check_profile(record)
        options = _recorded_options(record, table)
        source, check = _check_input(files.sidecar, record, source)
        if source is None:
            raise file_error(
                output, "comes without the probabilities it was decoded from, expected them beside it. "
                "Name the file that holds them instead, or in a list's column probabilities (--list)."
            )  # fmt: skip
        decoding, notes = decode_file(source, profile, options, start)
    except StageGuardError:
        raise
    except MALFORMED as error:
        raise file_error(files.sidecar, f"is incomplete or was edited ({error!r:.120}).") from None
    if not check.ok or not np.array_equal(decoding.hypnogram.labels, table.labels):
        raise file_error(
            output, f"is not what {source.name} gives, expected an output that was not edited. "
            f"See: stageguard verify {output.name}."
        )  # fmt: skip
    return decoding, notes


def _check_table(path: Path, record: dict[str, Any]) -> Check:
    same = hashlib.sha256(read_file(path, "text")).hexdigest() == record["hypnogram"]["sha256"]
    return Check("hypnogram file", same, "as written" if same else f"{path.name} was changed after writing")


def _check_profile(record: dict[str, Any]) -> tuple[Profile, Check]:
    recorded = record["profile"]
    try:
        profile = Profile.from_dict(recorded["definition"])
    except ProfileError as error:
        raise ProfileError(f"the recorded profile is not valid: {error}") from None
    same = profile.sha256 == recorded["sha256"]
    finding = f"{profile.name}, sha256 {profile.sha256[:12]}"
    return profile, Check(
        "profile", same, finding if same else f"{finding}, but {recorded['sha256'][:12]} is recorded"
    )


def _check_input(sidecar: Path, record: dict[str, Any], source: Path | None) -> tuple[Path | None, Check]:
    recorded = record["input"]
    if recorded is None and source is None:
        return None, Check("input", False, "no input file is recorded. Name it with --input.")
    path = source if source is not None else sidecar.parent / Path(recorded["file"]).name
    if not path.is_file():
        return None, Check("input", False, f"{path} not found. Name it with --input.")
    found = describe_file(path)
    if recorded is None:
        return path, Check("input", True, f"{path.name}, sha256 {found['sha256'][:12]} (none recorded)")
    same = found["sha256"] == recorded["sha256"]
    finding = f"{path.name}, sha256 {found['sha256'][:12]}"
    return path, Check(
        "input", same, finding if same else f"{finding}, but {recorded['sha256'][:12]} is recorded"
    )


def _check_again(path: Path, profile: Profile, record: dict[str, Any], table: HypnogramTable) -> list[Check]:
    """Decode once more, and compare labels and the numbers of the sidecar."""
    options = _recorded_options(record, table)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            decoding, _ = decode_file(path, profile, options)
    except StageGuardError as error:
        return [Check("decoded again", False, f"failed: {error}")]
    return [_check_labels(decoding, table), _check_numbers(decoding, record)]


def _check_numbers(decoding: Decoding, record: dict[str, Any]) -> Check:
    """Compare what the sidecar says of the night with the night."""
    hypnogram = record["hypnogram"]
    pairs = {
        "n_epochs": (hypnogram["n_epochs"], decoding.hypnogram.n_epochs),
        "epoch_seconds": (hypnogram["epoch_seconds"], decoding.hypnogram.epoch_seconds),
        "offset_seconds": (hypnogram.get("offset_seconds", 0.0), decoding.hypnogram.offset_seconds),
        "n_changed": (record["n_changed"], int(np.count_nonzero(decoding.changed))),
        "n_filled": (record["n_filled"], int(np.count_nonzero(decoding.filled))),
        "score": (record["score"], decoding.score),
    }
    wrong = [
        f"{name} is {now:.10g}, but {str(said)[:40]} is recorded"
        for name, (said, now) in pairs.items()
        if not _same_number(said, now)
    ]
    return Check("numbers", not wrong, "; ".join(wrong) or f"{', '.join(pairs)} as recorded")


def _same_number(said: Any, now: float) -> bool:
    if said is None:  # how the sidecar writes a number that is none
        return not np.isfinite(now)
    if isinstance(said, bool) or not isinstance(said, int | float):
        return False
    return bool(abs(said - now) <= SCORE_TOLERANCE * max(1.0, abs(now)))


def _check_labels(decoding: Decoding, table: HypnogramTable) -> Check:
    fresh, written = decoding.hypnogram.labels, table.labels
    if len(fresh) != len(written):
        return Check("decoded again", False, f"{len(fresh)} epochs, but {len(written)} are written")
    names = (*decoding.hypnogram.scheme.names, "?")
    stages = np.array(names)[fresh]
    different = np.flatnonzero((fresh != written) | (stages != np.array(table.stages)))
    if not len(different):
        return Check("decoded again", True, f"all {len(fresh):,} epoch{'s' * (len(fresh) != 1)} the same")
    shown = ", ".join(f"{t}: {table.stages[t]} now {stages[t]}" for t in different[:5].tolist())
    more = f" and {len(different) - 5} more" if len(different) > 5 else ""
    return Check(
        "decoded again", False, f"{len(different)} of {len(fresh)} epochs differ (epoch {shown}{more})"
    )


def _recorded_options(record: dict[str, Any], table: HypnogramTable) -> DecodeOptions:
    options = record["options"]
    pins = options.get("pins")
    stages = options.get("stages")
    return DecodeOptions(
        stages=None if stages is None else tuple(stages),
        epoch_seconds=options.get("epoch_seconds"),
        logits=bool(options.get("logits")),
        log=bool(options.get("log")),
        quality=table.quality if options.get("quality") else None,
        pins=None if pins is None else {int(epoch): stage for epoch, stage in pins.items()},
        cohort=options.get("cohort"),
        trained=options.get("trained"),
        format=options.get("format"),
        pool_to_seconds=options.get("pool_to_seconds"),
    )


def _notes(record: dict[str, Any]) -> tuple[str, ...]:
    """Remarks on versions that explain a difference and are none themselves."""
    recorded = record["profile"]
    if recorded["name"] in profiles() and Profile.load(recorded["name"]).sha256 != recorded["sha256"]:
        return (
            f"the profile {recorded['name']!r} installed here differs from the recorded one, which was used.",
        )
    return ()

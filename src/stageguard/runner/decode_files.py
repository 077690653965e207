"""Decode files of probabilities and write the hypnograms, except those that are already there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.base.errors import OVERWRITE, FileFormatError, OutputExistsError
from stageguard.base.files import file_error, load_json, read_file, remove_leftovers
from stageguard.base.lazy import load
from stageguard.base.version import __version__
from stageguard.formats.companions import by_the_list
from stageguard.formats.outputs import (
    PLAIN_SUFFIXES,
    WrittenFiles,
    change_row,
    changes_text,
    describe_file,
    is_as_written,
    output_paths,
    plain,
    read_hypnogram_tsv,
    read_sidecar,
    write_decoding,
)
from stageguard.guard.decoding import Decoding
from stageguard.guard.effect import Effect
from stageguard.guard.strength import Strength
from stageguard.measures.estimates import Estimates
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import (
    UNJUDGED,
    JointScores,
    NightFacts,
    NightMeasures,
    NightSummary,
    measures_of,
    summary_of,
)
from stageguard.night.moments import Moment
from stageguard.profile.profile import Profile
from stageguard.runner.decode_one import DecodeOptions, decode_file, refuse_output, start_of

if TYPE_CHECKING:
    from stageguard.guard.explain import Change

# Exceptions that reading a record may raise when its values are not what `decode` wrote.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
_MISSING = object()


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """One file to decode, where its outputs go, and what a sample list says about it."""

    path: Path
    output: Path
    profile: Profile
    options: DecodeOptions
    overwrite: bool = False
    draw: Callable[[Decoding], str] | None = None  # the picture to write beside the output
    explain: bool = False
    edf: Path | None = None  # the recording, whose header says when it began
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    start: datetime | None = None  # start of the recording, if neither `path` nor `edf` says
    durable: bool = True
    shares_profile: bool = False  # one copy of the profile serves all nights in the output folder
    in_full: bool = True  # whether to measure everything that is shown of a single night
    error: str | None = None  # why the file cannot be read

    @property
    def file(self) -> str:
        """The path as text."""
        return str(self.path)

    @property
    def id(self) -> str:
        """The name of the night."""
        return self.output.stem if self.output.suffix in PLAIN_SUFFIXES else self.output.name

    def to_dict(self, start: datetime | None) -> dict[str, Any]:
        """Return everything that affects the result besides file and profile, in JSON types."""
        listed = {"start": start, "lights_off": self.lights_off, "lights_on": self.lights_on}
        return self.options.to_dict() | {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in listed.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True)
class StrengthUsed:
    """The parts of a strength that go into a row of the cohort's table."""

    rule: str
    step: str
    transition_weight: float | None
    fi_before: float | None
    fi_after: float | None

    @classmethod
    def of(cls, strength: Strength) -> StrengthUsed:
        """Return the parts of a strength."""
        return cls(*(getattr(strength, item.name) for item in fields(cls)))

    @classmethod
    def from_dict(cls, strength: Mapping[str, Any]) -> StrengthUsed:
        """Return the parts of a recorded strength."""
        return cls(**{item.name: strength[item.name] for item in fields(cls)})


@dataclass(frozen=True, slots=True)
class DecodedNight:
    """A night that was decoded and written, now or earlier; only nights shown in full have a `summary`."""

    facts: NightFacts
    n_changed: int
    n_filled: int
    strength: str
    strength_used: StrengthUsed
    outputs: Mapping[str, Path]
    notes: tuple[str, ...] = ()
    summary: NightSummary | None = None
    changes: tuple[Change, ...] | None = None
    joint: JointScores = UNJUDGED
    n_early_rem_removed: int = 0
    estimates: Estimates | None = None
    is_done_before: bool = False
    effect: Effect | None = None

    @classmethod
    def fresh(
        cls,
        decoding: Decoding,
        measures: NightMeasures,
        outputs: Mapping[str, Path | None],
        notes: Sequence[str],
        changes: Sequence[Change] | None = None,
        summary: NightSummary | None = None,
    ) -> DecodedNight:
        """Return a night that was decoded in this run."""
        return cls(
            facts=NightFacts.of(decoding.hypnogram, decoding.profile),
            n_changed=int(np.count_nonzero(decoding.changed)),
            n_filled=int(np.count_nonzero(decoding.filled)),
            strength=str(decoding.strength),
            strength_used=StrengthUsed.of(decoding.strength),
            outputs={kind: path for kind, path in outputs.items() if path is not None},
            joint=measures.joint,
            notes=tuple(notes if summary else dict.fromkeys((*notes, *decoding.assumed))),
            summary=summary,
            changes=None if changes is None else tuple(changes),
            n_early_rem_removed=len(measures.early_rem_removed),
            estimates=measures.estimates,
            effect=Effect.of(decoding),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, apart from messages."""
        if self.summary is not None:
            data = self.summary.to_dict() | {"done_before": False}
        else:
            counts = {"n_changed": self.n_changed, "n_filled": self.n_filled, "strength": self.strength}
            data = {"done_before": self.is_done_before} | self.facts.to_dict() | counts
        outputs = {kind: str(path) for kind, path in self.outputs.items()}
        data |= {"strength_used": asdict(self.strength_used), "outputs": outputs, "notes": list(self.notes)}
        return data if self.changes is None else data | {"changes": [change_row(one) for one in self.changes]}


class Ready(NamedTuple):
    """A decoded night, remarks on its file, and its measures if they are known already."""

    decoding: Decoding
    notes: tuple[str, ...]
    measures: NightMeasures | None = None


def decode_task(task: DecodeTask, ready: Ready | None = None) -> DecodedNight:
    """Decode one file unless it is `ready`, and write it unless an earlier run has."""
    if ready is None:
        refuse_output(task.path)
    start = start_of(task.edf, task.start)
    options, files = task.to_dict(start), output_paths(task.output)
    is_there = files.tsv.exists() or files.sidecar.exists()
    record = _recorded_before(task, files, options) if is_there else None
    if record is not None and not _lacks(task, files, record):
        remove_leftovers(path for path in (files.tsv, files.sidecar, files.svg, files.changes) if path)
        return _night_of(record, files)
    if ready is None:
        with by_the_list():
            listed_options = replace(task.options, lights_off=task.lights_off, lights_on=task.lights_on)
            ready = Ready(*decode_file(task.path, task.profile, listed_options, start))
    decoding = ready.decoding
    may_replace = record is not None or (is_there and _may_complete(decoding, files))
    if is_there and not may_replace and not task.overwrite and not _is_torn(files):
        raise file_error(
            files.sidecar, "was cut off or edited, and its table has other stages than this run gives. "
            + OVERWRITE + " to decode the night again."
        )  # fmt: skip
    try:
        return _write(task, ready, options, record, may_replace=may_replace)
    except OutputExistsError:
        # another run may have written the night meanwhile, or part of it before being killed
        record = _recorded_before(task, files, options)
        if record is not None and not _lacks(task, files, record):
            return _night_of(record, files)
        if task.overwrite or may_replace or not _may_complete(decoding, files):
            raise
        return _write(task, ready, options, record, may_replace=True)


def _night_of(record: Mapping[str, Any], files: WrittenFiles) -> DecodedNight:
    """Return the night that a record describes."""
    strength, hypnogram, measured = record["strength"], record["hypnogram"], record["measured"]
    known, beside = _hashes_beside(record), {"svg": files.svg, "changes": files.changes}
    written = {kind: path for kind, path in beside.items() if path is not None and path.name in known}
    return DecodedNight(
        facts=NightFacts(
            profile_name=record["profile"]["name"],
            profile_sha256=record["profile"]["sha256"],
            stages=tuple(hypnogram["scheme"]["stages"]),
            n_epochs=hypnogram["n_epochs"],
            epoch_seconds=hypnogram["epoch_seconds"],
        ),
        n_changed=record["n_changed"],
        n_filled=record["n_filled"],
        strength=strength["why"],
        strength_used=StrengthUsed.from_dict(strength),
        outputs={"tsv": files.tsv, "json": files.sidecar} | written,
        joint=JointScores(
            **{name: NAN if score is None else score for name, score in record.get("joint_score", {}).items()}
        ),
        n_early_rem_removed=len(measured["early_rem_removed"]),
        estimates=Estimates.from_dict(measured["estimates"]),
        is_done_before=True,
        effect=Effect.from_record(record),
    )


def _write(
    task: DecodeTask,
    ready: Ready,
    options: Mapping[str, Any],
    record: Mapping[str, Any] | None,
    *,
    may_replace: bool,
) -> DecodedNight:
    decoding, notes, measured = ready
    lights = StatisticsOptions(lights_off=task.lights_off, lights_on=task.lights_on)
    with by_the_list():  # before anything is written: the list's lights may not fit the night
        summary = summary_of(decoding, lights) if task.in_full else None
        measures = measured or (measures_of(decoding, lights) if summary is None else summary.measures)
    svg = None if task.draw is None else task.draw(decoding)
    changes = load("guard.explain:explain")(decoding) if task.explain else None
    changes_table = None if changes is None else changes_text(changes)
    if may_replace and not task.overwrite:
        files = output_paths(task.output)
        known = _hashes_beside(record or {})
        for path, text in ((files.svg, svg), (files.changes, changes_table)):
            if path is None or text is None or path.name in known:
                continue
            if _is_full(path) and read_file(path, "text") != text.encode():
                raise OutputExistsError(f"{path} exists already. " + OVERWRITE + " to replace it.")
    written = write_decoding(
        decoding,
        task.output,
        source_path=task.path,
        overwrite=task.overwrite or may_replace,
        options=options,
        quality=task.options.quality,
        notes=notes,
        joint_score=asdict(measures.joint),
        svg=svg,
        changes=changes_table,
        measured=measures.to_dict(),
        durable=task.durable,
        shares_profile=task.shares_profile,
    )
    outputs = {"tsv": written.tsv, "json": written.sidecar, "svg": written.svg, "changes": written.changes}
    return DecodedNight.fresh(decoding, measures, outputs, notes, changes, summary)


def _recorded_before(
    task: DecodeTask, files: WrittenFiles, options: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the record of an earlier run with the same input, profile, options and version, or None.

    An output of any other run is an error that says what differs; half an output, and one whose record was
    damaged or edited, count as none.
    """
    record = None if task.overwrite or _is_torn(files) else _whole_record(files)
    if record is None:
        return None
    try:
        reason = _difference(task, files, record, options)
        if not reason:
            _night_of(record, files)
            if not _counts_fit(record, files):
                return None
    except MALFORMED:
        return None
    if reason:
        raise OutputExistsError(
            f"{files.tsv} exists already, and {reason}. " + OVERWRITE + " to decode it again."
        )
    return record


def _counts_fit(record: Mapping[str, Any], files: WrittenFiles) -> bool:
    """Whether a record counts the epochs as its table does."""
    header, *rows = (line.split("\t") for line in read_file(files.tsv, "text").decode().splitlines())
    changed, filled = header.index("changed"), header.index("filled")
    counted = (len(rows), sum(row[changed] == "1" for row in rows), sum(row[filled] == "1" for row in rows))
    return counted == (record["hypnogram"]["n_epochs"], record["n_changed"], record["n_filled"])


def _lacks(task: DecodeTask, files: WrittenFiles, record: Mapping[str, Any]) -> bool:
    """Whether a file wanted beside an output is missing, or has changed since it was written."""
    hashes = _hashes_beside(record)
    wanted = ((files.svg, task.draw is not None), (files.changes, task.explain))
    return any(
        not path.is_file() or hashes.get(path.name) != describe_file(path)["sha256"]
        for path, is_wanted in wanted
        if is_wanted and path is not None
    )


def _difference(
    task: DecodeTask, files: WrittenFiles, record: Mapping[str, Any], options: Mapping[str, Any]
) -> str:
    """Return what differs from the record, or nothing; the input, the largest file, is compared last."""
    used, options_now = record["profile"], plain(options)
    recorded = record["options"]
    keys = sorted(options_now.keys() | recorded.keys())
    differing = [key for key in keys if options_now.get(key, _MISSING) != recorded.get(key, _MISSING)]
    if differing:
        return f"was decoded with other options ({', '.join(differing)})"
    profile = task.profile.at_strength(task.options.strength).for_cohort(task.options.cohort)
    if used["sha256"] not in (profile.sha256, profile.for_other_stager().sha256):
        same = used["name"] == task.profile.name
        return f"was decoded with {'another version of ' * same}the profile {used['name']}"
    version = record["provenance"]["stageguard"]
    if version != __version__:
        return f"was decoded by stageguard {version}, this is {__version__}"
    if "measured" not in record:
        return "its record holds no measures"
    if sha256(read_file(files.tsv, "text")).hexdigest() != record["hypnogram"]["sha256"]:
        return "was changed after it was written"
    source = record["input"]
    if source is None or describe_file(task.path)["sha256"] != source["sha256"]:
        return f"{task.path.name} has changed since"
    return ""


def _is_full(path: Path) -> bool:
    """Whether a file is there and not empty."""
    return path.is_file() and path.stat().st_size > 0


def _is_torn(files: WrittenFiles) -> bool:
    """Whether an output is missing or only half there, as after a power cut."""
    return not all(_is_full(path) for path in (files.tsv, files.sidecar))


def _whole_record(files: WrittenFiles) -> dict[str, Any] | None:
    """Return the record in a sidecar, or None if it was damaged or edited after it was written."""
    try:
        content = load_json(files.sidecar)
        if isinstance(content, dict) and "stageguard" in content and not is_as_written(content):
            return None
    except (FileFormatError, RecursionError, *MALFORMED):
        return None
    return read_sidecar(files.sidecar)  # refuses a file of somebody else, and the layout of another version


def _may_complete(decoding: Decoding, files: WrittenFiles) -> bool:
    """Whether a torn or damaged output may be replaced: a table, if any, has the stages of this decoding."""
    try:
        if not _is_full(files.tsv):
            if _is_full(files.sidecar):
                read_sidecar(files.sidecar)
            return True
        table = read_hypnogram_tsv(files.tsv)
        names = np.array((*decoding.hypnogram.scheme.names, "?"))
        labels = decoding.hypnogram.labels
        return np.array_equal(table.labels, labels) and table.stages == tuple(names[labels].tolist())
    except (FileFormatError, OSError):
        return False


def _hashes_beside(record: Mapping[str, Any]) -> dict[str, str]:
    """Return names and hashes of the files written beside an output, as far as they are recorded."""
    try:
        return {str(file["file"]): str(file["sha256"]) for file in record.get("beside", ())}
    except MALFORMED:
        return {}

"""Decode one file and write its outputs, in this process or a worker's. Prints nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError, OutputExistsError, StageGuardWarning
from stageguard.base.files import file_error, remove_leftovers
from stageguard.cli.summary import range_note, summarise
from stageguard.cli.terminal import failure_text, in_options, warned_of
from stageguard.formats.density import DensityOptions
from stageguard.formats.outputs import TSV_SUFFIX, change_row, changes_text, output_paths, write_decoding
from stageguard.formats.read import read_density_file
from stageguard.formats.registry import is_own_table
from stageguard.measures.day import Moment, lights_words
from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.night.timing import begun

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.guard.inputs import Training
    from stageguard.measures.statistics import StatisticsOptions
    from stageguard.profile.profile import Profile


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Everything that shapes a result besides the file and the profile."""

    stages: tuple[str, ...] | None = None
    epoch_seconds: float | None = None
    logits: bool = False
    log: bool = False
    quality: Floats | None = None
    pins: dict[int, str] | None = None
    cohort: str | None = None
    trained: Training | None = None
    format: str | None = None
    pool_to_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; the quality values themselves are a column of the output."""
        quality = (
            {} if self.quality is None else {"quality_sha256": sha256(self.quality.tobytes()).hexdigest()}
        )
        return quality | {
            "stages": None if self.stages is None else list(self.stages),
            "epoch_seconds": self.epoch_seconds,
            "logits": self.logits,
            "log": self.log,
            "quality": self.quality is not None,
            "pins": None if self.pins is None else {str(epoch): stage for epoch, stage in self.pins.items()},
            "cohort": self.cohort,
            "trained": self.trained,
            "format": self.format,
            "pool_to_seconds": self.pool_to_seconds,
        }


def decode_options(
    stages: str | None,
    epoch_seconds: float | None,
    quality: Path | None,
    pins: Sequence[str] | None,
    cohort: str | None,
    trained: str | None,
    logits: bool,
    log: bool,
    format: str | None = None,
    pool: float | None = None,
) -> DecodeOptions:
    """Return what the command line said, with the files it names read."""
    from stageguard.formats.companions import parse_pins, read_quality

    return DecodeOptions(
        stages=None if stages is None else tuple(part.strip() for part in stages.split(",")),
        epoch_seconds=epoch_seconds,
        logits=logits,
        log=log,
        quality=None if quality is None else read_quality(quality),
        pins=parse_pins(pins) if pins else None,
        cohort=cohort,
        trained=cast("Training | None", None if trained is None else str(trained)),
        format=format,
        pool_to_seconds=pool,
    )


@dataclass(frozen=True, slots=True)
class Job:
    """One file to decode, where its outputs go, and what a sample list says about it."""

    path: Path
    output: Path
    profile: Profile
    options: DecodeOptions
    overwrite: bool = False
    picture: bool = False
    explain: bool = False
    edf: Path | None = None  # the recording, which knows when it began
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    start: datetime | None = None  # when it began, where neither its file nor its edf says so
    durable: bool = True

    def to_dict(self, start: datetime | None) -> dict[str, Any]:
        """Return what shapes the result besides file and profile, in JSON types."""
        listed = {"start": start, "lights_off": self.lights_off, "lights_on": self.lights_on}
        return self.options.to_dict() | {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in listed.items()
            if value is not None
        }


def own_scheme(scheme: StageScheme | None) -> StageScheme | None:
    """Return a scheme whose names a file may use as they are, or None for the standard ones."""
    return None if scheme is None or scheme in SCHEMES.values() else scheme


def decode_file(
    path: Path, profile: Profile, options: DecodeOptions, start: datetime | None = None
) -> tuple[Decoding, tuple[str, ...]]:
    """Read and decode a file, which begins at `start` unless it says otherwise; also returns remarks."""
    from stageguard.guard.decode import decode

    reading = DensityOptions(
        options.stages,
        options.epoch_seconds,
        profile.epoch_seconds,
        options.logits,
        options.log,
        own_scheme(profile.scheme),
        options.format,
        options.pool_to_seconds,
    )
    _refuse(path)
    found = read_density_file(path, reading)
    density = begun(found.density, start)
    decoding = decode(
        density,
        profile,
        quality=options.quality,
        pins=options.pins,
        cohort=options.cohort,
        trained=options.trained,
    )
    return decoding, found.notes


def _refuse(path: Path) -> None:
    """Refuse what is no file, and what `decode` wrote: its stages are decoded already."""
    from stageguard.cli.inputs import special

    problem = special(path)
    if problem is not None:
        raise InputError(problem)
    if path.is_file() and (path.name.endswith(TSV_SUFFIX) or is_own_table(path)):
        raise file_error(path, "is a hypnogram that decode wrote, expected the stager's probabilities.")


def run_job(job: Job) -> dict[str, Any]:
    """Decode and write one file, unless that was done before; a failure comes back as its `error`."""
    began = time.perf_counter()
    report: dict[str, Any] = {"file": str(job.path), "id": job.output.name, "ok": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        try:
            report |= _decode_unless_done(job)
        except Exception as error:
            report["error"] = failure_text(error, job.path)
            return report
    report["notes"] = [in_options(note) for note in report["notes"]]
    report["warnings"] = warned_of(caught)
    report["seconds"] = time.perf_counter() - began
    report["ok"] = True
    return report


def _decode_unless_done(job: Job) -> dict[str, Any]:
    from stageguard.cli.inputs import start_of
    from stageguard.cli.resuming import is_torn, lacks, may_complete, recorded_before, report_of

    _refuse(job.path)
    start = start_of(job.edf, job.start)
    options, files = job.to_dict(start), output_paths(job.output)
    is_there = files.tsv.exists() or files.sidecar.exists()
    record = recorded_before(job, options) if is_there else None
    if record is not None and not lacks(job, files, record):
        remove_leftovers(path for path in (files.tsv, files.sidecar, files.svg, files.changes) if path)
        return report_of(record, files)
    decoding, notes = decode_file(job.path, job.profile, job.options, start)
    may_replace = record is not None or (is_there and may_complete(decoding, files))
    if is_there and not may_replace and not job.overwrite and not is_torn(files):
        raise file_error(files.sidecar, "was cut off. Use --overwrite to decode the night again.")
    try:
        return _write(job, decoding, notes, options, record, may_replace=may_replace)
    except OutputExistsError:
        # another run may have written the night in the meantime, or one that was killed a part of it
        record = None if job.overwrite or is_torn(files) else recorded_before(job, options)
        if record is not None and not lacks(job, files, record):
            return report_of(record, files)
        if job.overwrite or may_replace or not may_complete(decoding, files):
            raise
        return _write(job, decoding, notes, options, record, may_replace=True)


def _write(
    job: Job,
    decoding: Decoding,
    notes: tuple[str, ...],
    options: Mapping[str, Any],
    record: Mapping[str, Any] | None,
    *,
    may_replace: bool,
) -> dict[str, Any]:
    from stageguard.cli.inputs import in_list_words
    from stageguard.cli.resuming import refuse_strangers, used_strength
    from stageguard.measures.statistics import StatisticsOptions

    statistics = StatisticsOptions(lights_off=job.lights_off, lights_on=job.lights_on)
    try:  # before anything is written, for the list's lights may not fit the night
        report = describe(decoding, statistics)
    except InputError as error:
        raise in_list_words(error) from None
    svg = None
    if job.picture:
        from stageguard.report.hypnogram_svg import hypnogram_svg

        svg = hypnogram_svg(decoding)
    changes = None
    if job.explain:
        from stageguard.guard.explain import explain

        changes = explain(decoding)
    changes_table = None if changes is None else changes_text(changes)
    if may_replace and not job.overwrite:
        files = output_paths(job.output)
        beside = {files.svg: svg, files.changes: changes_table}
        refuse_strangers({path: text for path, text in beside.items() if path and text is not None}, record)
    written = write_decoding(
        decoding,
        job.output,
        source_path=job.path,
        overwrite=job.overwrite or may_replace,
        options=options,
        quality=job.options.quality,
        notes=notes,
        svg=svg,
        changes=changes_table,
        durable=job.durable,
    )
    outputs = {"tsv": written.tsv, "json": written.sidecar, "svg": written.svg, "changes": written.changes}
    report |= {
        "done_before": False,
        "strength_used": used_strength(asdict(decoding.strength)),
        "outputs": {kind: str(place) for kind, place in outputs.items() if place is not None},
        "notes": list(notes),
    }
    return report if changes is None else report | {"changes": [change_row(change) for change in changes]}


def describe(decoding: Decoding, statistics: StatisticsOptions | None = None) -> dict[str, Any]:
    """Return what a person wants to know about a decoding, in plain types."""
    hypnogram, rows = decoding.hypnogram, summarise(decoding, statistics)
    return {
        "profile": {"name": decoding.profile.name, "sha256": decoding.profile.sha256},
        "stages": list(hypnogram.scheme.names),
        "n_epochs": hypnogram.n_epochs,
        "epoch_seconds": hypnogram.epoch_seconds,
        "offset_seconds": hypnogram.offset_seconds,
        "n_scored": int(np.count_nonzero(decoding.argmax >= 0)),
        "n_changed": int(np.count_nonzero(decoding.changed)),
        "n_filled": int(np.count_nonzero(decoding.filled)),
        "n_unscored": int(np.count_nonzero(hypnogram.labels < 0)),
        "indicators": {row.key: row.to_dict() for row in rows},
        "strength": str(decoding.strength),
        "assumptions": [in_options(text) for text in decoding.assumed],
        "advice": [in_options(text) for text in decoding.advice()],
        "range_note": range_note(decoding, rows),
        "table": [row.cells() for row in rows],
        "lights": ""
        if statistics is None
        else lights_words(hypnogram, statistics.lights_off, statistics.lights_on),
    }

"""Decode files of probabilities and write the hypnograms, except those that are already there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.errors import FileFormatError, OutputExistsError, record_fault
from stageguard.files import exists_error, file_error, file_sha256, load_json, read_file
from stageguard.formats.outputs import (
    PLAIN_SUFFIXES,
    WrittenFiles,
    changes_text,
    output_paths,
    plain,
    read_sidecar,
    table_columns,
    write_decoding,
)
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import explain
from stageguard.measures.cohort import DecodedFacts
from stageguard.measures.statistics import StatisticsOptions
from stageguard.profile.profile import Profile
from stageguard.report.summary import DecodingSummary, RecordingFacts, RowMeasures, measures_of, summary_of
from stageguard.runner.decode_one import (
    MALFORMED,
    DecodeOptions,
    decode_file,
    refuse_output,
    start_of,
    what_differs,
)
from stageguard.runner.manifest import DecodedFile, DecodedNight, Manifest, ManifestRow, table_text
from stageguard.runner.run import Outcome, run_files
from stageguard.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor

Decoded = tuple[Decoding, tuple[str, ...]]  # with remarks on how the file was read


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


@dataclass(frozen=True, slots=True)
class FileSource:
    """Nights in files; each has outputs of its own, and is kept, written or fails alone."""

    tasks: Sequence[Any]  # such as `DecodeTask`, with the path of its `output`
    folder: Path | None = None  # for the tables of the manifest, if they are wanted
    work: Callable[[Any], DecodedNight] | None = None  # by default `decode_task`

    def opened(self) -> AbstractContextManager[None]:
        """Hold nothing: each night is written alone."""
        return nullcontext()

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the outcome of each file, in order."""
        work = self.work or decode_task
        return run_files(work, self.tasks, output_of=attrgetter("output"), jobs=jobs, executor=executor)

    def finish(self, manifest: Manifest) -> None:
        """Write the tables of the manifest."""
        if self.folder is not None:
            manifest.write_tables(self.folder)


def decode_task(task: DecodeTask, decoded: Callable[[], Decoded] | None = None) -> DecodedFile:
    """Decode and write one file, unless an earlier run has; `decoded` decodes it instead of `decode_file`."""
    if decoded is None:
        refuse_output(task.path)
    start = start_of(task.edf, task.start)
    options, files = task.options.record(start), output_paths(task.output)
    if kept := _kept(task, files, options):
        return kept
    # before anything is written: the list's lights may not fit the night
    if decoded is None:
        decoding, notes = decode_file(task.path, task.profile, task.options, start)
    else:
        decoding, notes = decoded()
    lights = StatisticsOptions(lights_off=task.options.lights_off, lights_on=task.options.lights_on)
    summary = summary_of(decoding, lights, with_intervals=True) if task.in_full else None
    measures = measures_of(decoding, lights) if summary is None else summary.measures
    try:
        return _write(task, decoding, notes, options, summary, measures)
    except OutputExistsError:  # another run may have written the night meanwhile
        if kept := _kept(task, files, options):
            return kept
        raise


def _kept(task: DecodeTask, files: WrittenFiles, options: Mapping[str, Any]) -> DecodedFile | None:
    """Return the night that an earlier run with the same recipe wrote, if all that is wanted is there.

    None, too, if there is only a part of an output, as after a power cut. An output of any other run is an
    error that says what differs.
    """
    if task.overwrite or not _is_full(files.sidecar):
        return None
    try:
        load_json(files.sidecar)
    except FileFormatError:  # cut off
        return None
    record = read_sidecar(files.sidecar)  # refuses a file of somebody else, and the layout of another version
    try:
        night = _recorded_night(task, record, files)
        made_by = {key: record[key] for key in ("options", "profile")}
        made_by |= {"input": record["input"] or {"sha256": ""}}
        made_by |= {"stageguard": record["provenance"]["stageguard"]}
        reason = what_differs(made_by, _recipe(task, options))
        hashes = {files.tsv.name: record["hypnogram"]["sha256"]}
        hashes |= {str(file["file"]): str(file["sha256"]) for file in record.get("beside", ())}
    except MALFORMED as error:
        raise file_error(files.sidecar, record_fault(error)) from None
    wanted = {files.tsv: True, files.svg: task.draw is not None, files.changes: task.explain}
    there = {path for path, is_wanted in wanted.items() if is_wanted and path is not None and _is_full(path)}
    if not reason and files.tsv in there and file_sha256(files.tsv) != hashes[files.tsv.name]:
        reason = "was changed after it was written"
    if reason:
        raise exists_error(files.tsv, f", and {reason}", to="decode it again")
    is_whole = all(file_sha256(path) == hashes.get(path.name) for path in there)
    return night if is_whole and len(there) == sum(wanted.values()) else None


def _recipe(task: DecodeTask, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that affects the output of a task."""
    given = task.profile.at_strength(task.options.strength)
    used = given.for_nights_of(task.options.stager, task.options.cohort)
    return {
        "options": plain(options),
        "profile": {"name": task.profile.name, "sha256": used.sha256},
        "input": {"file": task.path.name, "sha256": file_sha256(task.path)},
        "stageguard": __version__,
    }


def _recorded_night(task: DecodeTask, record: Mapping[str, Any], files: WrittenFiles) -> DecodedFile:
    """Return the night that a record describes."""
    hypnogram, beside = record["hypnogram"], {file["file"] for file in record.get("beside", ())}
    more = {"svg": files.svg, "changes": files.changes}
    written = {kind: path for kind, path in more.items() if path is not None and path.name in beside}
    return DecodedFile(
        ManifestRow.from_sidecar(task.id, task.file, record),
        is_done_before=True,
        facts=RecordingFacts(
            profile_name=record["profile"]["name"],
            profile_sha256=record["profile"]["sha256"],
            stages=tuple(hypnogram["scheme"]["stages"]),
            n_epochs=hypnogram["n_epochs"],
            epoch_seconds=hypnogram["epoch_seconds"],
        ),
        n_filled=record["n_filled"],
        strength=record["strength"]["why"],
        outputs={"tsv": files.tsv, "json": files.sidecar} | written,
        decoded=DecodedFacts.from_record(record),
    )


def _write(
    task: DecodeTask,
    decoding: Decoding,
    notes: tuple[str, ...],
    options: Mapping[str, Any],
    summary: DecodingSummary | None,
    measures: RowMeasures,
) -> DecodedFile:
    """Write the outputs; a file that exists is replaced only by the same, unless all may be overwritten."""
    files, quality = output_paths(task.output), task.options.quality
    svg = None if task.draw is None else task.draw(decoding)
    changes = explain(decoding) if task.explain else None
    changes_table = None if changes is None else changes_text(changes)
    if not task.overwrite:
        columns = table_columns(decoding, quality)
        table = table_text(columns, zip(*columns.values(), strict=True))
        for path, text in ((files.tsv, table), (files.svg, svg), (files.changes, changes_table)):
            if path is not None and text is not None and _is_full(path) and read_file(path) != text.encode():
                raise exists_error(path)
    written = write_decoding(
        decoding,
        task.output,
        source_path=task.path,
        overwrite=task.overwrite or any(path.exists() for path in (files.tsv, files.sidecar)),
        options=options,
        quality=quality,
        notes=notes,
        joint_score=asdict(measures.joint),
        svg=svg,
        changes=changes_table,
        measured=measures.to_dict(),
        durable=task.durable,
        shares_profile=task.shares_profile,
    )
    outputs = {"tsv": written.tsv, "json": written.sidecar, "svg": written.svg, "changes": written.changes}
    row = ManifestRow.of(task.id, task.file, decoding, measures)
    return DecodedFile.fresh(row, decoding, outputs, notes, changes, summary)


def _is_full(path: Path) -> bool:
    """Whether a file is there and not empty."""
    return path.is_file() and path.stat().st_size > 0

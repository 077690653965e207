"""Decode files of probabilities and write the hypnograms, except those that are already there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.errors import FileFormatError, OutputExistsError
from stageguard.files import exists_error, file_error, load_json, read_file
from stageguard.formats.companions import by_the_list
from stageguard.formats.outputs import (
    PLAIN_SUFFIXES,
    WrittenFiles,
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
from stageguard.guard.explain import explain
from stageguard.measures.cohort import DecodedFacts
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.timing import with_start
from stageguard.profile.profile import Profile
from stageguard.report.summary import DecodingSummary, RecordingFacts, RowMeasures, measures_of, summary_of
from stageguard.runner.decode_one import (
    MALFORMED,
    DecodeOptions,
    Recipe,
    decode_density,
    read_with,
    refuse_output,
    start_of,
)
from stageguard.runner.manifest import DecodedFile, DecodedNight, Manifest, ManifestRow
from stageguard.runner.run import Outcome, run_files
from stageguard.runner.stopping import Stopped
from stageguard.storage import is_folder
from stageguard.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor


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
    say: Callable[[object], str] = str  # words failures in the table
    work: Callable[[Any], DecodedNight] | None = None  # by default `decode_task`

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Count what was written if the run is stopped."""
        before = self._written()
        try:
            yield
        except Stopped as stopped:
            n_files, n_written = len(self.tasks), len(self._written() - before)
            files = f"{n_files:,} file{'s' * (n_files != 1)}"
            stopped.done = f"{n_written:,} of {files} written. The same command goes on from there."
            raise

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the outcome of each file, in order."""
        work = self.work or decode_task
        return run_files(work, self.tasks, output_of=attrgetter("output"), jobs=jobs, executor=executor)

    def finish(self, manifest: Manifest) -> None:
        """Write the tables of the manifest."""
        if self.folder is not None:
            manifest.write_tables(self.folder, self.say)

    def _written(self) -> set[tuple[Path, int]]:
        """Return the existing outputs and when each was written.

        Counting outcomes would miss some: workers may have written more than they reported.
        """
        folders = {task.output.parent for task in self.tasks}
        folders = {folder for folder in folders if is_folder(folder)}
        sidecars = [output_paths(task.output).sidecar for task in self.tasks if task.output.parent in folders]
        return {(path, path.stat().st_mtime_ns) for path in sidecars if path.is_file()}


def decode_task(task: DecodeTask, decoded: tuple[Decoding, tuple[str, ...]] | None = None) -> DecodedFile:
    """Decode and write one file, unless an earlier run has; `decoded` has a decoding and remarks already."""
    refuse_output(task.path)
    start = start_of(task.edf, task.start)
    options, files = task.options.record(start), output_paths(task.output)
    is_there = not task.overwrite and (files.tsv.exists() or files.sidecar.exists())
    record = _recorded_before(task, files, options) if is_there else None
    if record is not None and not _lacks(task, files, record):
        return _recorded_night(task, record, files)
    lights = StatisticsOptions(lights_off=task.options.lights_off, lights_on=task.options.lights_on)
    with by_the_list():  # before anything is written: the list's lights may not fit the night
        if decoded is None:
            read = read_with(
                task.path,
                task.profile,
                task.options.density,
                task.profile.for_nights_of(task.options.stager, task.options.cohort),
            )
            density = with_start(read.density, start)
            decoded = decode_density(density, task.profile, task.options), read.notes
        decoding, notes = decoded
        summary = summary_of(decoding, lights) if task.in_full else None
        measures = measures_of(decoding, lights) if summary is None else summary.measures
    write = partial(_write, task, decoding, notes, options, summary, measures)
    may_replace = record is not None or (is_there and _may_complete(decoding, files))
    if is_there and not may_replace and not _is_torn(files):
        raise file_error(
            files.sidecar,
            "was cut off or edited, and its table has other stages than this run gives. "
            "Use overwrite=True to decode the night again.",
        )
    try:
        return write(record, may_replace=may_replace)
    except OutputExistsError:
        # another run may have written the night meanwhile, or part of it before being killed
        record = _recorded_before(task, files, options)
        if record is not None and not _lacks(task, files, record):
            return _recorded_night(task, record, files)
        if task.overwrite or may_replace or not _may_complete(decoding, files):
            raise
        return write(record, may_replace=True)


def _recorded_night(task: DecodeTask, record: Mapping[str, Any], files: WrittenFiles) -> DecodedFile:
    """Return the night that a record describes."""
    hypnogram, hashes = record["hypnogram"], _hashes_beside(record)
    beside = {"svg": files.svg, "changes": files.changes}
    written = {kind: path for kind, path in beside.items() if path is not None and path.name in hashes}
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
    record: Mapping[str, Any] | None,
    *,
    may_replace: bool,
) -> DecodedFile:
    svg = None if task.draw is None else task.draw(decoding)
    changes = explain(decoding) if task.explain else None
    changes_table = None if changes is None else changes_text(changes)
    if may_replace and not task.overwrite:
        files = output_paths(task.output)
        hashes = _hashes_beside(record or {})
        for path, text in ((files.svg, svg), (files.changes, changes_table)):
            if path is None or text is None or path.name in hashes:
                continue
            if _is_full(path) and read_file(path) != text.encode():
                raise exists_error(path)
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
    row = ManifestRow.of(task.id, task.file, decoding, measures)
    return DecodedFile.fresh(row, decoding, outputs, notes, changes, summary)


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
            _recorded_night(task, record, files)
            if not _counts_fit(record, files):
                return None
    except MALFORMED:
        return None
    if reason:
        raise exists_error(files.tsv, f", and {reason}", to="decode it again")
    return record


def _counts_fit(record: Mapping[str, Any], files: WrittenFiles) -> bool:
    """Whether a record counts the epochs as its table does."""
    header, *rows = (line.split("\t") for line in read_file(files.tsv).decode().splitlines())
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
    """Return what keeps an existing output from being that of this run, or nothing."""
    given = task.profile.at_strength(task.options.strength)
    used = given.for_nights_of(task.options.stager, task.options.cohort)
    now = Recipe(
        plain(options),
        task.profile.name,
        used.sha256,
        task.path.name,
        describe_file(task.path)["sha256"],
        __version__,
    )
    source = record["input"] or {"file": "", "sha256": ""}
    made_by = Recipe(
        record["options"],
        record["profile"]["name"],
        record["profile"]["sha256"],
        source["file"],
        source["sha256"],
        record["provenance"]["stageguard"],
    )
    if reason := made_by.difference(now):
        return reason
    if "measured" not in record:
        return "its record holds no measures"
    if sha256(read_file(files.tsv)).hexdigest() != record["hypnogram"]["sha256"]:
        return "was changed after it was written"
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

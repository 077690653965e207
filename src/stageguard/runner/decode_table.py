"""Decode a cohort's table or dataset into another, chunk by chunk; an interrupted run can be resumed.

Each chunk of nights becomes a part in a hidden folder beside the output: a record of its nights, and the rows
of their epochs. A run that is killed leaves its finished parts, and the same call goes on from there. The
last step joins the parts to one table, or moves the folder of a dataset into place, so the output appears
only once it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stageguard.errors import (
    FileFormatError,
    OutputError,
    StageGuardError,
    StageGuardWarning,
    visible,
    warn,
)
from stageguard.files import (
    check_apart,
    check_places,
    exists_error,
    file_error,
    file_sha256,
    json_lines,
    load_json,
    locked,
    make_folder,
    move_file,
    open_file,
    read_file,
    real_path,
    remove_file,
    remove_folder,
    write_together,
)
from stageguard.formats.cohort_nights import ID, Chunk, CohortTable, TableNight
from stageguard.formats.cohort_table import (
    describe_parts,
    joining,
    open_table,
    output_form,
    part_bytes,
    table_meanings,
)
from stageguard.formats.outputs import (
    CHANGE_COLUMNS,
    LAYOUT_VERSION,
    REVIEW_SENTENCE,
    change_cells,
    describe_file,
    describe_profile,
    is_as_written,
    plain,
    relative_path,
    sidecar_sha256,
)
from stageguard.guard.decode import check_cohort, decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import explain
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile
from stageguard.report.summary import measures_of
from stageguard.report.words import shared_warnings
from stageguard.runner.decode_one import DecodeOptions, Recipe, is_as_described, reading_with
from stageguard.runner.executors import broken_executors_named
from stageguard.runner.manifest import (
    DecodedNight,
    Manifest,
    ManifestRow,
    recorded_outcomes,
    table_text,
)
from stageguard.runner.run import LOGGER, Outcome, attempt, collect_warnings, log_outcome
from stageguard.runner.stopping import Stopped
from stageguard.storage import files_below, is_folder, is_remote, place_in, put_object, scratch_file
from stageguard.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor

LOCK, RUN, JOINING, JOINED, DATASET, OLD = "lock", "run.json", "joining", "joined", "dataset", "old"
RECORD = re.compile(r"[0-9]+\.json")  # of a part
PARTS_LAYOUT = 6  # parts of another layout are thrown away
Reading = Callable[[Any], Iterator[TableNight]]  # of a chunk


def is_table_name(path: Path) -> bool:
    """Whether an output is meant as one table and not as a folder."""
    return output_form(path) != "dataset"


@dataclass(frozen=True, slots=True)
class TableTask:
    """A cohort's table or dataset to decode, and the table or the folder of a dataset to write."""

    path: Path
    output: Path
    profile: Profile
    options: DecodeOptions
    overwrite: bool = False
    explain: bool = False
    only: tuple[str, ...] = ()  # ids of the nights to decode; empty means all
    say: Callable[[object], str] = str  # words failures in their table
    files: tuple[Path, ...] = ()  # of a dataset, if not all in the folder `path`

    @property
    def is_dataset(self) -> bool:
        """Whether the output is a folder of files."""
        return not is_table_name(self.output)

    @property
    def parts(self) -> Path:
        """The folder of the parts."""
        return self.output.with_name(f".{self.output.name}.parts")

    def beside(self, what: str) -> Path:
        """Return a file beside the output; its name keeps the suffix: out.csv and out.tsv may coexist."""
        return self.output.with_name(f"{self.output.name}.{what}")

    @property
    def sidecar(self) -> Path:
        """The file that says what the output is and how it was made."""
        return self.beside("json")

    def table(self) -> CohortTable:
        """Return the input; of a dataset, footers are read, and of a text nothing yet."""
        return open_table(self.files or (self.path,), reading_with(self.profile, self.options.density))

    def identity(self, table: CohortTable) -> dict[str, Any]:
        """Return everything that affects the output, in JSON types."""
        return {
            "stageguard": __version__,
            "input": table.describe(),
            "profile_sha256": self.profile.sha256,
            "options": plain(self.options.to_dict()),
            "explain": self.explain,
        } | ({"only": sorted(self.only)} if self.only else {})

    def texts_beside(self, manifest: Manifest) -> dict[Path, str]:
        """Return the texts of the tables beside the output; an empty one is not written."""
        changes = ""
        if self.explain:  # without any change the header is written: changes were looked for
            columns = (ID, *CHANGE_COLUMNS)
            rows = [dict(zip(columns, cells, strict=True)) for cells in manifest.change_rows]
            changes = table_text(rows) or "\t".join(columns) + "\n"
        return {
            self.beside("nights.tsv"): manifest.nights_text(),
            self.beside("failures.tsv"): manifest.failures_text(),
            self.beside("changes.tsv"): changes,
        }

    def sidecar_of(
        self,
        identity: Mapping[str, Any],
        manifest: Manifest,
        written: Mapping[str, Any],
        tables: Mapping[Path, str],
    ) -> dict[str, Any]:
        """Return the sidecar of an output.

        `written` has its hash, and those of a dataset's files; `tables` are the texts of tables beside it.
        """
        content = {
            "layout": LAYOUT_VERSION,
            "review": REVIEW_SENTENCE,
            "table": {
                "file": self.output.name,
                "n_nights": len(manifest.nights),
                "n_failed": len(manifest.failures),
                "n_epochs": manifest.n_epochs,
                **written,
            },
            "run": identity,
            "input": identity["input"] | {"path": relative_path(self.path, self.output.parent)},
            "profile": describe_profile(self.profile),
            "assumptions": dict(manifest.notes),
            "beside": [describe_file(path, text.encode()) for path, text in tables.items()],
        }
        meanings = table_meanings(self.profile.scheme.names)
        sidecar: dict[str, Any] = {**meanings, "stageguard": plain(content)}
        sidecar["stageguard"]["sha256"] = sidecar_sha256(sidecar)
        return sidecar


# decoding a chunk


class DecodedBlock(NamedTuple):
    """The outcomes of the nights of a chunk, and the decodings of those that did not fail."""

    outcomes: list[Outcome[DecodedNight]]
    rows: list[int]  # of its file where each night begins, counted from 1
    decodings: list[tuple[str, Decoding]]  # with the id


class NightTask(NamedTuple):
    """One night of a table that could be read."""

    file: str
    id: str
    density: Hypnodensity
    notes: tuple[str, ...]
    error: str | None = None


def decode_block(task: TableTask, nights: Iterable[TableNight], cautions: Sequence[str] = ()) -> DecodedBlock:
    """Decode the nights of a chunk one by one; `cautions` are warnings that hold for all of them."""
    block = DecodedBlock([], [], [])
    work = partial(_decode_night, task, block.decodings, cautions)
    for night in nights:
        if task.only and night.id not in task.only:
            continue
        file = night.file
        outcome: Outcome[DecodedNight] = Outcome(file, night.id, error=night.error)
        if night.density is not None:
            one = NightTask(file, night.id, night.density, night.notes)
            outcome = attempt(work, one, place=f"{file}, night {night.id[:40]}")
        if outcome.error is not None:
            outcome = replace(outcome, error=f"{task.say(outcome.error)}")
        block.outcomes.append(outcome)
        block.rows.append(night.row)
    return block


def _decode_night(
    task: TableTask, decodings: list[tuple[str, Decoding]], cautions: Sequence[str], night: NightTask
) -> DecodedNight:
    """Decode one night, add it to the decodings, and return what the manifest says of it."""
    options = task.options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # their words are for single nights
        decoding = decode(
            night.density,
            task.profile,
            cohort=options.cohort,
            stager=options.stager,
            trained=options.trained,
            strength=options.strength,
        )
    for text in (*cautions, *shared_warnings(decoding)):
        warn(text)
    changes = explain(decoding) if task.explain else ()
    row = ManifestRow.of(night.id, night.file, decoding, measures_of(decoding))
    decodings.append((night.id, decoding))
    return DecodedNight(
        row,
        tuple(dict.fromkeys((*night.notes, *decoding.assumed))),
        change_rows=tuple((night.id, *change_cells(change)) for change in changes),
    )


# parts: the record of a chunk, which is complete as soon as it is there, and the rows of its epochs


def _record_of(decoded: DecodedBlock) -> list[dict[str, Any]]:
    """Return the outcomes of a part's nights in JSON types."""
    return [
        {"id": each.id, "file": each.file, "begins": row, "error": each.error}
        if each.error is not None
        else {
            "id": each.id,
            "begins": row,
            "row": each.result.row.to_dict(),
            "notes": each.result.notes,
            "change_rows": each.result.change_rows,
            "warnings": each.warnings,
        }
        for each, row in zip(decoded.outcomes, decoded.rows, strict=True)
    ]


def _recorded(night: Mapping[str, Any], *, is_done_before: bool) -> Outcome[DecodedNight]:
    """Return the outcome of a night that `_record_of` described."""
    if "error" in night:
        return Outcome(night["file"], night["id"], error=f"{night['error']}")
    row = ManifestRow.from_dict(night["row"])
    change_rows = tuple(tuple(cells) for cells in night["change_rows"])
    value = DecodedNight(row, tuple(night["notes"]), is_done_before, change_rows)
    return Outcome(row.file, row.id, value, warnings=tuple(night["warnings"]))


# the two sources of outcomes: a table to decode, and one that an earlier run has finished


def table_source(task: TableTask) -> TableSource | FinishedTable:
    """Return the nights of a table as a source; if all were decoded before, their recorded outcomes.

    Raises
    ------
    OutputExistsError
        The output exists, and is not what this call would write.
    """
    outputs = [task.sidecar, *map(task.beside, ("nights.tsv", "failures.tsv", "changes.tsv"))]
    outputs += [] if task.is_dataset else [task.output]
    check_apart(outputs, [task.path])
    check_places(outputs, overwrite=True)
    _refuse_nested(task)
    table = task.table()
    identity = task.identity(table)
    if not task.overwrite and _is_finished(task, identity):
        return FinishedTable(task)
    _refuse_others(task, identity)
    with collect_warnings() as cautions:
        check_cohort(task.profile, task.options.cohort)
    return TableSource(task, table, identity, tuple(cautions))


def _refuse_nested(task: TableTask) -> None:
    """Refuse an output inside a dataset, or around it: one would be taken for a part of the other."""
    output = real_path(task.output)
    for path in map(real_path, task.files or (task.path,)):
        if is_remote(output) != is_remote(path):
            continue
        if output.is_relative_to(path) or (task.is_dataset and path.is_relative_to(output)):
            raise OutputError(
                f"cannot write {task.output}: it lies in the input {path}, or the input in it. Choose "
                "another folder."
            )


def _refuse_others(task: TableTask, identity: Mapping[str, Any]) -> None:
    """Refuse to replace a folder that holds anything but the dataset of an earlier run."""
    if not is_folder(task.output) or _is_joining(task, identity):
        return
    own = set[Path]()
    with contextlib.suppress(StageGuardError, OSError, KeyError, TypeError, AttributeError):
        written = load_json(task.sidecar)["stageguard"]["table"]["files"]
        own = {task.output / file["file"] for file in written}
    others = [place_in(path, task.output) for path in files_below(task.output) if path not in own]
    if others:
        name = min(others)
        raise OutputError(
            f"cannot replace {task.output}: it holds {name}, which is no file of a decoded dataset. Choose "
            "another folder."
        )


def _is_finished(task: TableTask, identity: Mapping[str, Any]) -> bool:
    """Whether an earlier identical call wrote the output; refuse any other output."""
    is_empty = is_folder(task.output) and not any(task.output.iterdir())
    if (is_empty or not task.output.exists()) and not task.sidecar.exists():
        return False
    reason = "it is not known how it was made"
    if task.sidecar.is_file() and task.output.exists():
        with contextlib.suppress(StageGuardError, KeyError, TypeError, AttributeError):
            content = load_json(task.sidecar)
            record = content["stageguard"]
            reason = _recipe(record["run"], record["profile"]["name"]).difference(
                _recipe(identity, task.profile.name)
            )
            if not reason and is_as_written(content) and _is_unchanged(task, record):
                return True
            reason = reason or "was changed after it was written"
    elif _is_joining(task, identity):
        return False
    raise exists_error(task.output, f", and {reason}", to="decode the table again")


def _recipe(identity: Mapping[str, Any], profile_name: str) -> Recipe:
    more = {key: identity[key] for key in ("explain", "only") if key in identity}
    source = identity["input"]
    return Recipe(
        identity["options"] | more,
        profile_name,
        identity["profile_sha256"],
        source["file"],
        source["sha256"],
        identity["stageguard"],
    )


def _is_unchanged(task: TableTask, record: Mapping[str, Any]) -> bool:
    """Whether a table and those beside it are what was written."""
    return is_table_unchanged(task.output, record["table"]) and all(
        is_as_described(task.output.parent, described) for described in record["beside"]
    )


def is_table_unchanged(output: Path, recorded: Mapping[str, Any]) -> bool:
    """Whether a table is what was written, or the files of a dataset are, and no other is among them."""
    if "files" not in recorded:
        return output.is_file() and file_sha256(output) == recorded["sha256"]
    hashes = {place_in(path, output): file_sha256(path) for path in files_below(output)}
    written = {file["file"]: file["sha256"] for file in recorded["files"]}
    return hashes == written and describe_parts(written)["sha256"] == recorded["sha256"]


def _is_joining(task: TableTask, identity: Mapping[str, Any]) -> bool:
    """Whether the same run was killed while it moved its outputs into place."""
    try:
        return (task.parts / JOINING).is_file() and load_json(task.parts / RUN) == _run_record(identity)
    except (StageGuardError, OSError):
        return False


def _run_record(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the parts of a run."""
    return {**identity, "parts": PARTS_LAYOUT}


@dataclass(frozen=True, slots=True)
class FinishedTable:
    """A table that an earlier identical call has decoded."""

    task: TableTask

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Nothing is held, and nothing can be lost."""
        yield

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the recorded outcome of each night, those of failures last."""
        yield from recorded_outcomes(self.task.beside("nights.tsv"), self.task.beside("failures.tsv"))

    def finish(self, manifest: Manifest) -> None:
        """Add the files that are there to the manifest."""
        tables = [path for path in self.task.texts_beside(manifest) if path.is_file()]
        manifest.written += [self.task.output, *tables, self.task.sidecar]


@dataclass(frozen=True, slots=True)
class TableSource:
    """The nights of a table or dataset; they are decoded chunk by chunk, and written together at the end."""

    task: TableTask
    table: CohortTable
    identity: Mapping[str, Any]
    cautions: tuple[str, ...]  # warnings that hold for every night
    hashes: dict[str, str] = field(default_factory=dict)  # of the files of a dataset, as they are made

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the folder of parts and empty it of other runs'; remove it unless the run may be resumed."""
        task, run = self.task, _run_record(self.identity)
        folder, record = task.parts, task.parts / RUN
        try:
            make_folder(folder)
            with locked(folder / LOCK):
                with contextlib.suppress(StageGuardError, OSError):
                    if load_json(record) != run:
                        remove_file(record)
                if not record.is_file():
                    for path in files_below(folder):
                        if path.name != LOCK:
                            remove_file(path)
                    write_together({record: json.dumps(run)})
                try:
                    yield
                except FileFormatError:  # the table is wrong, so its parts are of no use
                    remove_folder(folder)
                    raise
                except Stopped as stopped:
                    n_kept = sum(len(load_json(part)["nights"]) for part in self._records())
                    nights = f"{n_kept:,} night{'s' * (n_kept != 1)}"
                    stopped.done = f"{nights} done. The same command goes on from there."
                    raise
                remove_folder(folder)
        except BlockingIOError:
            raise OutputError(
                f"cannot write {task.output}: another run is writing it. Wait for it, or choose another name."
            ) from None
        except OSError as error:
            raise OutputError(
                f"cannot write {task.output}: {error.strerror or error}. Choose a folder you can write to."
            ) from error

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the outcome of each night, in order, and append the parts to the joined table.

        Outcomes are read from the records of the parts, wherever those were made: workers return next to
        nothing.
        """
        chunks = deque[Chunk]()  # under way; a table of text is cut while it is read
        results = self._results(chunks, jobs, executor)
        seen = dict[str, int]()  # the ids of all nights, with their parts
        LOGGER.info("table %s, decoded to %s", visible(str(self.task.path)), visible(str(self.task.output)))
        with self._appending() as append, contextlib.closing(results):
            for is_done_before in results:
                chunk = chunks.popleft()
                content = load_json(self._record_path(chunk))
                for night in content["nights"]:
                    if seen.setdefault(night["id"], chunk.number) != chunk.number:
                        raise self._begins_again(night, seen[night["id"]])
                if content["rows_sha256"]:
                    append(self._rows_path(chunk), content["rows_sha256"])
                for night in content["nights"]:
                    outcome = _recorded(night, is_done_before=is_done_before)
                    log_outcome(replace(outcome, is_in_table=True))
                    yield outcome
        if missing := set(self.task.only).difference(seen):
            problem = f"has no night {min(missing)!r}, expected the ids of its column {ID}."
            raise file_error(self.task.path, problem)

    def _results(
        self, under_way: deque[Chunk], jobs: int, executor: Executor | None
    ) -> Generator[bool, None, None]:
        """Decode all chunks in order, and yield of each whether an earlier run had decoded it."""
        table = self.table
        if executor is None:
            table = table.knowing_its_first()
        else:
            with broken_executors_named():
                table = executor.submit(_knowing_its_first, table).result()
        source, chunks = replace(self, table=table), table.chunks()

        def kept(chunks: Iterable[Any]) -> Iterator[Any]:
            for chunk in chunks:
                under_way.append(Chunk(chunk.number, chunk.folder))  # without the rows of a text
                yield chunk

        if jobs == 1 and executor is None:
            reading = table.reading()
            yield from (source.decode_part(chunk, reading) for chunk in kept(chunks))
            return
        from stageguard.runner.processes import run_all  # loads multiprocessing

        under_way.extend(chunks if isinstance(chunks, list) else ())
        items = chunks if isinstance(chunks, list) else kept(chunks)
        yield from run_all(source.decode_part, items, jobs, executor=executor, at_once=1)

    def decode_part(self, chunk: Any, reading: Reading | None = None) -> bool:
        """Decode a chunk and write its part unless an earlier run has; return whether it had."""
        record_path, rows_path = self._record_path(chunk), self._rows_path(chunk)
        if _is_whole(record_path, rows_path):
            return True
        reading = reading or self.table.reading()
        decoded = decode_block(self.task, reading(chunk), self.cautions)
        rows = part_bytes(self.task.output, decoded.decodings) if decoded.decodings else b""
        nights = json.dumps(_record_of(decoded), allow_nan=False)
        hashes = f'"rows_sha256": "{_sha256(rows)}", "sha256": "{_sha256(nights.encode())}"'
        record = f'{{{hashes}, "nights": {nights}}}'
        files: dict[Path, str | bytes] = {rows_path: rows} if rows else {}
        contents = {**files, record_path: record}  # the record last
        write_together(contents, overwrite=True, make_folders=True, durable=False)
        return False

    def _records(self) -> list[Path]:
        """Return the records of the parts that are done."""
        return [path for path in files_below(self.task.parts) if RECORD.fullmatch(path.name)]

    @property
    def _joined(self) -> Path:
        """The file in which the parts are joined; a store takes it when it is complete."""
        path = self.task.parts / JOINED
        return scratch_file(path) if is_remote(path) else path

    def _record_path(self, chunk: Chunk) -> Path:
        return self.task.parts / f"{chunk.number:06d}.json"

    def _rows_path(self, chunk: Chunk) -> Path:
        if not self.task.is_dataset:
            return self.task.parts / f"{chunk.number:06d}.rows"
        return self.task.parts / DATASET / chunk.folder / f"part-{chunk.number:06d}.parquet"

    @contextlib.contextmanager
    def _appending(self) -> Iterator[Callable[[Path, str], None]]:
        """Yield what takes a part with its hash: it is appended to the table, or listed as a file."""
        if self.task.is_dataset:
            folder = self.task.parts / DATASET

            def add_file(part: Path, sha256: str) -> None:
                self.hashes[place_in(part, folder)] = sha256

            yield add_file
            return
        with self._joined.open("wb") as stream, joining(self.task.output, stream) as append:
            yield lambda part, _: append(part)

    def _begins_again(self, night: Mapping[str, Any], number: int) -> FileFormatError:
        """Return the error for a night that two chunks have."""
        record = load_json(self.task.parts / f"{number:06d}.json")
        first = next(each for each in record["nights"] if each["id"] == night["id"])
        places = [
            f"row {each['begins']:,} of {each['file'] if 'file' in each else each['row']['file']}"
            for each in (night, first)
        ]
        return file_error(
            self.task.path,
            f"night {night['id'][:40]!r} begins again at {places[0]}, and begins first at {places[1]}. "
            f"Expected the rows of a night together, and an {ID} of its own for each: sort the table by {ID} "
            "first, and by time within it.",
        )

    def finish(self, manifest: Manifest) -> None:
        """Move the table or the dataset into place and write the files beside it, the sidecar last."""
        task, joined = self.task, self._joined
        texts = task.texts_beside(manifest)
        tables = {path: text for path, text in texts.items() if text}
        write_together({task.parts / JOINING: ""}, overwrite=True)
        for path in texts.keys() - tables.keys():
            remove_file(path)
        if not manifest.nights:
            write_together(tables, overwrite=True)
            manifest.written += tables
            return
        if task.is_dataset:
            written = describe_parts(self.hashes)
        else:
            with open_file(joined) as stream:
                os.fsync(stream.fileno())
            written = {"sha256": file_sha256(joined)}
        sidecar = json_lines(task.sidecar_of(self.identity, manifest, written, tables)) + "\n"
        remove_file(task.sidecar)  # the old one: a sidecar means that its table is complete
        if task.is_dataset:
            self._put_dataset()
        else:
            move_file(joined, task.output)
        write_together({**tables, task.sidecar: sidecar}, overwrite=True)
        manifest.written += [task.output, *tables, task.sidecar]

    def _put_dataset(self) -> None:
        """Move the folder of the dataset into place, and what was there into the folder of parts."""
        folder, old = self.task.parts / DATASET, self.task.parts / OLD
        if is_remote(folder):
            for path in files_below(self.task.output):
                if place_in(path, self.task.output) not in self.hashes:
                    remove_file(path)
            for place in self.hashes:
                put_object(folder / place, self.task.output / place)
            return
        listed = {folder / place for place in self.hashes}
        for path in folder.rglob("*"):
            if path.is_file() and path not in listed:  # of a process that was killed
                path.unlink()
        if self.task.output.exists():
            shutil.rmtree(old, ignore_errors=True)
            self.task.output.rename(old)
        folder.rename(self.task.output)


def _knowing_its_first(table: CohortTable) -> CohortTable:
    return table.knowing_its_first()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data else ""


def _is_whole(record_path: Path, rows_path: Path) -> bool:
    """Whether an earlier run has written a part, and nothing of it is damaged."""
    if not record_path.is_file():
        return False
    with contextlib.suppress(StageGuardError, OSError, KeyError, TypeError, ValueError):
        content = load_json(record_path)
        rows = read_file(rows_path) if content["rows_sha256"] else b""
        nights = json.dumps(content["nights"])
        return bool(content["rows_sha256"] == _sha256(rows) and content["sha256"] == _sha256(nights.encode()))
    return False

"""Decode a cohort's table or dataset into another: nights are read in order, decoded in chunks, kept, joined.

Each chunk becomes a part in a hidden folder beside the output: what became of its nights, and their rows. A
run that is killed leaves its parts, and the same call goes on from there. The output appears only once it is
complete, its sidecar last.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    write_cell,
    write_together,
)
from stageguard.formats.cohort import (
    ID,
    CohortTable,
    Rows,
    TableNight,
    chunks,
    decoded_rows,
    list_sha256,
    open_cohort,
    output_form,
    table_meanings,
    table_writer,
)
from stageguard.formats.outputs import (
    CHANGE_COLUMNS,
    LAYOUT_VERSION,
    REVIEW_SENTENCE,
    change_cells,
    describe_file,
    describe_profile,
    plain,
    relative_path,
)
from stageguard.guard.decode import check_cohort, decode
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import explain
from stageguard.profile.profile import Profile
from stageguard.report.summary import measures_of
from stageguard.report.words import shared_warnings
from stageguard.runner.decode_one import MALFORMED, DecodeOptions, is_as_described, reading_with, what_differs
from stageguard.runner.manifest import DecodedNight, Manifest, ManifestRow, recorded_outcomes
from stageguard.runner.run import LOGGER, Outcome, attempt, collect_warnings, log_outcome
from stageguard.storage import files_below, is_folder, is_remote, own_folder, place_in, put_object
from stageguard.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor

LOCK, RUN, JOINED, OLD = "lock", "run.json", "joined", "old"  # in the folder of parts


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
    files: tuple[Path, ...] = ()  # of a dataset, if not all in the folder `path`

    @property
    def is_dataset(self) -> bool:
        """Whether the output is a folder of files."""
        return output_form(self.output) == "dataset"

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

    def identity(self, table: CohortTable) -> dict[str, Any]:
        """Return everything that affects the output, in JSON types."""
        options = plain(self.options.to_dict()) | {"explain": self.explain}
        return {
            "stageguard": __version__,
            "input": table.describe(),
            "profile": {"name": self.profile.name, "sha256": self.profile.sha256},
            "options": options | ({"only": sorted(self.only)} if self.only else {}),
        }

    def texts_beside(self, manifest: Manifest) -> dict[Path, str]:
        """Return the texts of the tables beside the output; an empty one is not written."""
        changes = ""
        if self.explain:  # without any change the header is written: changes were looked for
            rows = ((ID, *CHANGE_COLUMNS), *manifest.change_rows)
            changes = "".join("\t".join(cells) + "\n" for cells in rows)
        return {
            self.beside("nights.tsv"): manifest.nights_text(),
            self.beside("failures.tsv"): manifest.failures_text(),
            self.beside("changes.tsv"): changes,
        }

    def sidecar_text(
        self,
        identity: Mapping[str, Any],
        manifest: Manifest,
        written: Mapping[str, Any],
        tables: Mapping[Path, str],
    ) -> str:
        """Return the sidecar of an output, whose hashes are `written`, with the texts beside it."""
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
        return json_lines({**meanings, "stageguard": plain(content)}) + "\n"


class DecodedChunk(NamedTuple):
    """The outcomes of the nights of a chunk, and the rows of those that did not fail."""

    outcomes: list[Outcome[DecodedNight]]
    folder: str
    rows: bytes

    def to_bytes(self) -> bytes:
        """Return the chunk as a part: a line of JSON, then the rows."""
        nights = list(map(asdict, self.outcomes))
        return json.dumps({"folder": self.folder, "nights": nights}).encode() + b"\n" + self.rows

    @classmethod
    def from_bytes(cls, part: bytes) -> DecodedChunk:
        """Return the chunk of a part that an earlier run wrote."""
        record, _, rows = part.partition(b"\n")
        content = json.loads(record)
        return cls([_recorded(night) for night in content["nights"]], content["folder"], rows)


def _recorded(night: Mapping[str, Any]) -> Outcome[DecodedNight]:
    value = night["value"]
    if value is not None:
        changes = tuple(map(tuple, value["change_rows"]))
        row, notes = ManifestRow(*value["row"]), tuple(value["notes"])
        value = DecodedNight(row, notes, is_done_before=True, change_rows=changes)
    return Outcome(**{**night, "value": value, "warnings": tuple(night["warnings"])})


@dataclass(frozen=True, slots=True)
class ChunkDecoder:
    """Decodes chunks of nights, in any process."""

    task: TableTask
    table: CohortTable
    cautions: tuple[str, ...]  # warnings that hold for every night

    def __call__(self, chunk: Sequence[Rows]) -> DecodedChunk | None:
        """Return the decoded nights; None if there are none, because an earlier run has them."""
        if not chunk:
            return None
        outcomes, decodings = list[Outcome[DecodedNight]](), list[tuple[str, Decoding]]()
        for night in map(self.table.read, chunk):
            outcome: Outcome[DecodedNight] = Outcome(night.file, night.id, error=night.error)
            if night.error is None:
                place = f"{night.file}, night {night.id[:40]}"
                outcome = attempt(partial(self._decode, decodings), night, place=place)
            outcomes.append(outcome)
        rows = decoded_rows(self.task.output, decodings) if decodings else b""
        return DecodedChunk(outcomes, chunk[0].folder, rows)

    def _decode(self, decodings: list[tuple[str, Decoding]], night: TableNight) -> DecodedNight:
        options = self.task.options
        assert night.density is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # their words are for single nights
            decoding = decode(
                night.density,
                self.task.profile,
                cohort=options.cohort,
                stager=options.stager,
                trained=options.trained,
                strength=options.strength,
            )
        for text in (*self.cautions, *shared_warnings(decoding)):
            warn(text)
        changes = explain(decoding) if self.task.explain else ()
        row = ManifestRow.of(night.id, night.file, decoding, measures_of(decoding))
        decodings.append((night.id, decoding))
        return DecodedNight(
            row,
            tuple(dict.fromkeys((*night.notes, *decoding.assumed))),
            change_rows=tuple((write_cell(night.id), *change_cells(change)) for change in changes),
        )


@dataclass
class TableSource:
    """The nights of a table or dataset: decoded chunk by chunk, and written together at the end."""

    task: TableTask
    table: CohortTable
    identity: Mapping[str, Any]
    cautions: tuple[str, ...] = ()
    is_finished: bool = False  # whether an earlier identical call wrote the output
    n_parts: int = field(default=0, init=False)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder of parts, which stays if the run is stopped."""
        task = self.task
        if self.is_finished and not task.parts.exists():
            yield
            return
        try:
            make_folder(task.parts)
            with locked(task.parts / LOCK):
                if not _is_of(task.parts, self.identity):
                    for path in files_below(task.parts):
                        if path.name != LOCK:
                            remove_file(path)
                    write_together({task.parts / RUN: json.dumps(self.identity)}, overwrite=True)
                yield
                remove_folder(task.parts)
        except BlockingIOError:
            raise OutputError(f"another run is decoding to {task.output}. Wait for it.") from None
        except FileFormatError:
            remove_folder(task.parts)
            raise
        except StageGuardError:
            raise
        except OSError as error:
            reason = error.strerror or error
            raise OutputError(
                f"cannot write {task.output}: {reason}. Choose a folder you can write to."
            ) from error

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the outcome of each night, in order; those of failures last if all were decoded before."""
        task, missing = self.task, set(self.task.only)
        if self.is_finished:
            yield from recorded_outcomes(task.beside("nights.tsv"), task.beside("failures.tsv"))
            return
        from stageguard.runner.pool import run_all  # loads multiprocessing

        work = ChunkDecoder(task, self.table, self.cautions)
        LOGGER.info("table %s, decoded to %s", visible(str(task.path)), visible(str(task.output)))
        with contextlib.closing(run_all(work, self._chunks(), jobs, executor)) as results:
            for number, decoded in enumerate(results):
                if decoded is None:
                    outcomes = DecodedChunk.from_bytes(read_file(self._part(number))).outcomes
                else:
                    outcomes = decoded.outcomes
                    write_together({self._part(number): decoded.to_bytes()}, overwrite=True)
                self.n_parts = number + 1
                for outcome in outcomes:
                    missing.discard(outcome.id)
                    log_outcome(replace(outcome, is_in_table=True))
                    yield outcome
        if missing:
            raise file_error(
                task.path, f"has no night {min(missing)!r}, expected the ids of its column {ID}."
            )

    def _chunks(self) -> Iterator[Sequence[Rows]]:
        """Yield the chunks of the table, without their nights if there is a part of an earlier run."""
        task = self.task
        wanted = (night for night in self.table.nights() if not task.only or night.id in task.only)
        for number, chunk in enumerate(chunks(wanted)):
            yield () if self._part(number).is_file() else chunk

    def _part(self, number: int) -> Path:
        return self.task.parts / f"{number:06d}.part"

    def finish(self, manifest: Manifest) -> None:
        """Move the table or the dataset into place and write the files beside it, the sidecar last."""
        task = self.task
        texts = task.texts_beside(manifest)
        if self.is_finished:
            manifest.written += [task.output, *(path for path, text in texts.items() if text), task.sidecar]
            return
        tables = {path: text for path, text in texts.items() if text}
        if manifest.nights:
            made, written = self._join()
            if not is_table_unchanged(task.output, written):  # as after a kill before the sidecar
                self._put(made, written)
            manifest.written.append(task.output)
            tables[task.sidecar] = task.sidecar_text(self.identity, manifest, written, tables)
        for path in texts.keys() - tables.keys():
            remove_file(path)
        write_together(tables, overwrite=True)
        manifest.written += tables

    def _join(self) -> tuple[Path, dict[str, Any]]:
        """Join the parts to one table, or to the files of a dataset; return it and its hashes."""
        task, places = self.task, list[str]()
        made = (own_folder() if is_remote(task.output) else task.parts) / JOINED
        remove_folder(made) if made.is_dir() else remove_file(made)
        with table_writer(task.output, made, places) as add:
            for number in range(self.n_parts):
                part = DecodedChunk.from_bytes(read_file(self._part(number)))
                if part.rows:
                    add(part.rows, part.folder)
        for path in [made / place for place in places] or [made]:
            with open_file(path) as stream:
                os.fsync(stream.fileno())
        if not task.is_dataset:
            return made, {"sha256": file_sha256(made)}
        hashes = {place: file_sha256(made / place) for place in places}
        files = [{"file": place, "sha256": each} for place, each in hashes.items()]
        return made, {"sha256": list_sha256(hashes), "files": files}

    def _put(self, made: Path, written: Mapping[str, Any]) -> None:
        """Move what was made into place; of a dataset, what was there goes to the folder of parts first."""
        output, old = self.task.output, self.task.parts / OLD
        if not self.task.is_dataset:
            if output.exists() and not self.task.overwrite:  # since the run began
                raise exists_error(output)
            move_file(made, output)
            return
        places = {file["file"] for file in written["files"]}
        _refuse_others(self.task, places)
        if is_remote(output):
            for path in files_below(output):
                if place_in(path, output) not in places:
                    remove_file(path)
            for place in places:
                put_object(made / place, output / place)
        else:
            remove_folder(old)
            if output.exists():
                output.rename(old)
            made.rename(output)


def table_source(task: TableTask) -> TableSource:
    """Return the nights of a table as a source, which is finished if an identical call wrote the output.

    An output that is not what this call would write is an `OutputExistsError`.
    """
    outputs = [task.sidecar, *map(task.beside, ("nights.tsv", "failures.tsv", "changes.tsv"))]
    outputs += [] if task.is_dataset else [task.output]
    check_apart(outputs, [task.path])
    check_places(outputs, overwrite=True)
    _refuse_nested(task)
    reading = reading_with(task.profile, task.options.density)
    table = open_cohort(task.files or (task.path,), reading)
    identity = task.identity(table)
    goes_on = _is_of(task.parts, identity)
    if not task.overwrite and _is_finished(task, identity, goes_on=goes_on):
        return TableSource(task, table, identity, is_finished=True)
    if not goes_on:  # else the output may be that of the run that was killed: it is compared at the end
        _refuse_others(task)
    with collect_warnings() as cautions:
        check_cohort(task.profile, task.options.cohort)
    return TableSource(task, table, identity, tuple(cautions))


def _is_of(parts: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a folder holds parts of this call."""
    with contextlib.suppress(StageGuardError, OSError):
        return bool(load_json(parts / RUN) == json.loads(json.dumps(identity)))
    return False


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


def _refuse_others(task: TableTask, places: Collection[str] = ()) -> None:
    """Refuse to replace a folder that holds anything but the dataset of an earlier run, or `places`."""
    if not is_folder(task.output):
        return
    own = set(places)
    with contextlib.suppress(StageGuardError, OSError, *MALFORMED):
        own |= {file["file"] for file in load_json(task.sidecar)["stageguard"]["table"]["files"]}
    others = {place_in(path, task.output) for path in files_below(task.output)} - own
    if others:
        raise OutputError(
            f"cannot replace {task.output}: it holds {min(others)}, which is no file of a decoded dataset. "
            "Choose another folder."
        )


def _is_finished(task: TableTask, identity: Mapping[str, Any], *, goes_on: bool) -> bool:
    """Whether an earlier identical call wrote the output; refuse any other, unless a killed run goes on."""
    is_there = bool(files_below(task.output)) if is_folder(task.output) else task.output.exists()
    if not is_there and not task.sidecar.exists():
        return False
    reason = "it is not known how it was made"
    with contextlib.suppress(StageGuardError, OSError, *MALFORMED):
        record = load_json(task.sidecar)["stageguard"]
        reason = what_differs(record["run"], identity)
        is_whole = is_table_unchanged(task.output, record["table"]) and all(
            is_as_described(task.output.parent, described) for described in record["beside"]
        )
        if not reason and is_whole:
            return True
        reason = reason or "was changed after it was written"
    if goes_on:
        return False
    raise exists_error(task.output, f", and {reason}", to="decode the table again")


def is_table_unchanged(output: Path, recorded: Mapping[str, Any]) -> bool:
    """Whether a table is what was written, or the files of a dataset are, and no other is among them."""
    if "files" not in recorded:
        return output.is_file() and file_sha256(output) == recorded["sha256"]
    found = {place_in(path, output): file_sha256(path) for path in files_below(output)}
    return found == {file["file"]: file["sha256"] for file in recorded["files"]}

"""Decode a cohort's table into one table, block by block; an interrupted run can be resumed.

Each block of nights becomes a part in a hidden folder beside the output. A run that is killed leaves its
finished parts, and the same call goes on from there. The last step joins the parts and removes them, so the
output appears only once it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stageguard.base.errors import (
    FileFormatError,
    Message,
    OutputError,
    StageGuardError,
    StageGuardWarning,
    warn,
)
from stageguard.base.files import (
    check_apart,
    check_places,
    exists_error,
    file_error,
    file_sha256,
    json_lines,
    load_json,
    locked,
    open_file,
    read_file,
    write_together,
)
from stageguard.base.version import __version__
from stageguard.formats.cohort_table import (
    ID,
    TABLE_SUFFIXES,
    TableBlock,
    TableNight,
    joining,
    part_bytes,
    read_nights,
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
from stageguard.report.guard_words import shared_warnings
from stageguard.report.summary import measures_of
from stageguard.runner.decode_one import DecodeOptions, Recipe, is_as_described, reading_with
from stageguard.runner.manifest import (
    DecodedNight,
    Manifest,
    ManifestRow,
    recorded_outcomes,
    table_text,
)
from stageguard.runner.run import Outcome, attempt, collect_warnings
from stageguard.runner.stopping import Stopped

if TYPE_CHECKING:
    from concurrent.futures import Executor

NumberedBlock = tuple[int, TableBlock]
LOCK, RUN, JOINING, JOINED = "lock", "run.json", "joining", "joined"
PARTS_LAYOUT = 5  # parts of another layout are thrown away


def is_table_name(path: Path) -> bool:
    """Whether an output is meant as a table and not as a folder."""
    return path.suffix.lower() in TABLE_SUFFIXES and not path.is_dir()


@dataclass(frozen=True, slots=True)
class TableTask:
    """A cohort's table to decode, and the table to write."""

    path: Path
    output: Path
    profile: Profile
    options: DecodeOptions
    overwrite: bool = False
    explain: bool = False
    only: tuple[str, ...] = ()  # ids of the nights to decode; empty means all
    say: Callable[[object], str] = str  # words failures in their table

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

    def identity(self) -> dict[str, Any]:
        """Return everything that affects the output, in JSON types."""
        return {
            "stageguard": __version__,
            "input": {
                "file": self.path.name,
                "bytes": self.path.stat().st_size,
                "sha256": file_sha256(self.path, "a recording"),
            },
            "profile_sha256": self.profile.sha256,
            "options": plain(self.options.to_dict()),
            "explain": self.explain,
        } | ({"only": sorted(self.only)} if self.only else {})

    def blocks(self) -> Iterator[NumberedBlock]:
        """Yield numbered blocks of nights, the same in every run."""
        blocks = read_nights(self.path, reading_with(self.profile, self.options.density))
        if self.only:
            blocks = self._chosen(blocks)
        yield from enumerate(block for block in blocks if block.ids)

    def _chosen(self, blocks: Iterator[TableBlock]) -> Iterator[TableBlock]:
        """Yield the nights in `only`; refuse a missing one after all were read."""
        missing = set(self.only)
        for block in blocks:
            chosen = tuple(name for name in block.ids if name in self.only)
            missing -= {*chosen}
            yield TableBlock(chosen, partial(_nights_of, chosen, block.nights))
        if missing:
            problem = f"has no night {min(missing)!r}, expected the ids of its column {ID}."
            raise file_error(self.path, problem)

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
        self, identity: Mapping[str, Any], manifest: Manifest, sha256: str, tables: Mapping[Path, str]
    ) -> dict[str, Any]:
        """Return the sidecar of the output with this hash; `tables` are the texts of those beside it."""
        content = {
            "layout": LAYOUT_VERSION,
            "review": REVIEW_SENTENCE,
            "table": {
                "file": self.output.name,
                "sha256": sha256,
                "n_nights": len(manifest.nights),
                "n_failed": len(manifest.failures),
                "n_epochs": sum(row.n_epochs for row in manifest.nights),
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


def _nights_of(ids: Sequence[str], nights: Callable[[], list[TableNight]]) -> list[TableNight]:
    return [night for night in nights() if night.id in ids]


# decoding a block


class DecodedBlock(NamedTuple):
    """The outcomes of the nights of a block, and the decodings of those that did not fail."""

    outcomes: list[Outcome[DecodedNight]]
    decodings: list[tuple[str, Decoding]]  # with the id


class NightTask(NamedTuple):
    """One night of a table that could be read."""

    file: str
    id: str
    density: Hypnodensity
    notes: tuple[str, ...]
    error: str | None = None


def decode_block(
    task: TableTask, nights: Sequence[TableNight], cautions: Sequence[Message] = ()
) -> DecodedBlock:
    """Decode the nights of a block one by one; `cautions` are warnings that hold for all of them."""
    block, file = DecodedBlock([], []), task.path.name
    work = partial(_decode_night, task, block.decodings, cautions)
    for night in nights:
        outcome: Outcome[DecodedNight] = Outcome(file, night.id, error=night.error)
        if night.density is not None:
            one = NightTask(file, night.id, night.density, night.notes)
            outcome = attempt(work, one, place=f"{file}, night {night.id[:40]}")
        if outcome.error is not None:
            outcome = replace(outcome, error=Message(task.say(outcome.error)))
        block.outcomes.append(outcome)
    return block


def _decode_night(
    task: TableTask, decodings: list[tuple[str, Decoding]], cautions: Sequence[Message], night: NightTask
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


# parts: the record of a block, which is complete as soon as it is there, and the rows of its epochs


def _record_of(outcomes: Sequence[Outcome[DecodedNight]]) -> list[dict[str, Any]]:
    """Return the outcomes of a part's nights in JSON types."""
    return [
        {"id": each.id, "error": each.error}
        if each.error is not None
        else {
            "id": each.id,
            "row": each.result.row.to_dict(),
            "notes": each.result.notes,
            "change_rows": each.result.change_rows,
            "warnings": each.warnings,
        }
        for each in outcomes
    ]


def _recorded(task: TableTask, record: Sequence[Mapping[str, Any]]) -> list[Outcome[DecodedNight]]:
    """Return the outcomes that `_record_of` described, as done before."""
    outcomes = list[Outcome[DecodedNight]]()
    for night in record:
        if "error" in night:
            outcomes.append(Outcome(task.path.name, night["id"], error=Message(night["error"])))
            continue
        row = ManifestRow.from_dict(night["row"])
        change_rows = tuple(tuple(cells) for cells in night["change_rows"])
        value = DecodedNight(row, tuple(night["notes"]), is_done_before=True, change_rows=change_rows)
        texts = tuple(map(Message, night["warnings"]))
        outcomes.append(Outcome(task.path.name, row.id, value, warnings=texts))
    return outcomes


def _part_sha256(rows: bytes, record: str) -> str:
    return hashlib.sha256(rows + record.encode()).hexdigest()


# the two sources of outcomes: a table to decode, and one that an earlier run has finished


def table_source(task: TableTask) -> TableSource | FinishedTable:
    """Return the nights of a table as a source; if all were decoded before, their recorded outcomes.

    Raises
    ------
    OutputExistsError
        The output exists, and is not what this call would write.
    """
    outputs = [task.output, task.sidecar, *map(task.beside, ("nights.tsv", "failures.tsv", "changes.tsv"))]
    check_apart(outputs, [task.path])
    check_places(outputs, overwrite=True)
    identity = task.identity()
    if not task.overwrite and _is_finished(task, identity):
        return FinishedTable(task)
    with collect_warnings() as cautions:
        check_cohort(task.profile, task.options.cohort)
    return TableSource(task, identity, tuple(cautions))


def _is_finished(task: TableTask, identity: Mapping[str, Any]) -> bool:
    """Whether an earlier identical call wrote the output; refuse any other output."""
    if not task.output.exists() and not task.sidecar.exists():
        return False
    reason = "it is not known how it was made"
    if task.sidecar.is_file() and task.output.is_file():
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
    return record["table"]["sha256"] == file_sha256(task.output, "a recording") and all(
        is_as_described(task.output.parent, described) for described in record["beside"]
    )


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
    """The nights of one table; they are decoded block by block, and written together at the end."""

    task: TableTask
    identity: Mapping[str, Any]
    cautions: tuple[Message, ...]  # warnings that hold for every night

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the folder of parts and empty it of other runs'; remove it unless the run may be resumed."""
        task, run = self.task, _run_record(self.identity)
        folder, record = task.parts, task.parts / RUN
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / LOCK):
                with contextlib.suppress(StageGuardError, OSError):
                    if load_json(record) != run:
                        record.unlink()
                if not record.is_file():
                    for path in folder.iterdir():
                        if path.name != LOCK:
                            path.unlink()
                    write_together({record: json.dumps(run)})
                try:
                    yield
                except FileFormatError:  # the table is wrong, so its parts are of no use
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                except Stopped as stopped:
                    n_kept = sum(len(load_json(part)["nights"]) for part in folder.glob("[0-9]*.json"))
                    nights = f"{n_kept:,} night{'s' * (n_kept != 1)}"
                    stopped.done = f"{nights} done. The same command goes on from there."
                    raise
                shutil.rmtree(folder)
        except BlockingIOError:
            raise OutputError(
                f"cannot write {task.output}: another run is writing it. Wait for it, or choose another name."
            ) from None
        except OSError as error:
            raise OutputError(
                f"cannot write {task.output}: {error.strerror or error}. Choose a folder you can write to."
            ) from error

    def outcomes(self, jobs: int, executor: Executor | None) -> Generator[Outcome[DecodedNight], None, None]:
        """Yield the outcome of each night, in order, and append the parts to the joined table."""
        results: Generator[list[Outcome[DecodedNight]], None, None]
        if jobs == 1 and executor is None:
            results = (self.decode_part(block) for block in self.task.blocks())
        else:
            from stageguard.runner.processes import run_all  # loads multiprocessing

            results = run_all(self.decode_part, self.task.blocks(), jobs, executor=executor)
        with (
            (self.task.parts / JOINED).open("wb") as stream,
            joining(self.task.output, stream) as append,
            contextlib.closing(results),
        ):
            for number, outcomes in enumerate(results):
                if any(outcome.ok for outcome in outcomes):
                    append(self._part(number)[1])
                yield from outcomes

    def decode_part(self, block: NumberedBlock) -> list[Outcome[DecodedNight]]:
        """Return the outcomes of a block; decode it and write its part unless an earlier run has."""
        number, of_block = block
        record_path, rows_path = self._part(number)
        if record_path.is_file():
            with contextlib.suppress(StageGuardError, KeyError, TypeError, ValueError):
                content = load_json(record_path)
                nights = content["nights"]
                rows = read_file(rows_path, "a recording") if any("row" in each for each in nights) else b""
                if content["sha256"] == _part_sha256(rows, json.dumps(nights)):
                    return _recorded(self.task, nights)
        decoded = decode_block(self.task, of_block.nights(), self.cautions)
        rows = part_bytes(self.task.output, decoded.decodings) if decoded.decodings else b""
        record = json.dumps(_record_of(decoded.outcomes), allow_nan=False)
        text = f'{{"sha256": "{_part_sha256(rows, record)}", "nights": {record}}}'
        files: dict[Path, str | bytes] = {rows_path: rows} if decoded.decodings else {}
        write_together({**files, record_path: text}, overwrite=True, durable=False)  # the record last
        return decoded.outcomes

    def _part(self, number: int) -> tuple[Path, Path]:
        """Return the paths of a part: its record, and its rows."""
        stem = self.task.parts / f"{number:06d}"
        return stem.with_suffix(".json"), stem.with_suffix(".rows")

    def finish(self, manifest: Manifest) -> None:
        """Move the joined table into place and write the files beside it, the sidecar last."""
        task, joined = self.task, self.task.parts / JOINED
        texts = task.texts_beside(manifest)
        tables = {path: text for path, text in texts.items() if text}
        (task.parts / JOINING).touch()
        for path in texts.keys() - tables.keys():
            path.unlink(missing_ok=True)
        if not manifest.nights:
            write_together(tables, overwrite=True)
            manifest.written += tables
            return
        with open_file(joined, "a recording") as stream:
            os.fsync(stream.fileno())
        sha256 = file_sha256(joined, "a recording")
        sidecar = json_lines(task.sidecar_of(self.identity, manifest, sha256, tables)) + "\n"
        task.sidecar.unlink(missing_ok=True)  # the old one: a sidecar means that its table is complete
        joined.replace(task.output)
        write_together({**tables, task.sidecar: sidecar}, overwrite=True)
        manifest.written += [task.output, *tables, task.sidecar]

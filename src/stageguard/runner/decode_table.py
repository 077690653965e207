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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.base.errors import (
    OVERWRITE,
    FileFormatError,
    Message,
    OutputError,
    OutputExistsError,
    StageGuardError,
    StageGuardWarning,
    error_message,
)
from stageguard.base.files import (
    check_apart,
    check_places,
    file_error,
    file_sha256,
    load_json,
    locked,
    new_temporary,
    open_file,
    read_cell,
    read_file,
    write_together,
)
from stageguard.base.json_text import json_lines
from stageguard.formats.cohort_output import joining, part_bytes, part_suffix
from stageguard.formats.cohort_table import ID, TABLE_SUFFIXES, NightBlock, TableNight, read_nights
from stageguard.formats.outputs import (
    change_cells,
    describe_file,
    is_as_written,
)
from stageguard.guard.decode import check_cohort, decode
from stageguard.guard.decoding import Decoding, warnings_of
from stageguard.guard.explain import explain
from stageguard.measures.estimates import estimates_of_all
from stageguard.measures.joint_scores import joint_scores_of_all
from stageguard.measures.rare_events import early_rem_removed_of_all
from stageguard.measures.statistics import StatisticsOptions
from stageguard.runner.cohort_tables import FAILURE_COLUMNS, NightRow, Tally, read_table
from stageguard.runner.decode_one import reading_with
from stageguard.runner.run import Outcome, collect_warnings
from stageguard.runner.stopping import Stopped
from stageguard.runner.table_files import Part, TableTask, beside_texts, table_sidecar

if TYPE_CHECKING:
    from concurrent.futures import Executor

Block = tuple[int, NightBlock]  # its number, and its nights
LOCK, RUN, JOINING = "lock", "run.json", "joining"
PARTS_LAYOUT = 3  # parts of another layout are thrown away
OTHER = {  # keys of a run's identity, and the words for a difference in them
    "stageguard": "another version",
    "input": "another input",
    "profile_sha256": "another profile",
    "options": "other options",
    "explain": "another --explain",
    "only": "other nights (--only)",
}


@dataclass(frozen=True, slots=True)
class TableResult:
    """The outcome of decoding a table, and the files that were written."""

    tally: Tally
    written: tuple[Path, ...]
    n_failed_before: int = 0  # failures recorded by an earlier call that wrote the whole output


def nights_before(task: TableTask) -> Iterator[dict[str, Any]]:
    """Yield the results of an earlier call, night by night, in plain types."""
    for cells in read_table(task.beside("nights.tsv")):
        yield {"ok": True} | NightRow.from_cells(cells).to_dict()
    for cells in read_table(task.beside("failures.tsv")):
        night, file, error = (read_cell(cells[column]) for column in FAILURE_COLUMNS[:3])
        yield Outcome[Any](file, night, error=Message(error)).to_dict()


def is_table_name(path: Path) -> bool:
    """Whether an output is meant as a table and not as a folder."""
    return path.suffix.lower() in TABLE_SUFFIXES and not path.is_dir()


def decode_table(
    task: TableTask,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    say: Callable[[object], str] = str,
    on_block: Callable[[Tally], None] | None = None,
) -> TableResult:
    """Decode a cohort's table; `say` words failures, and `on_block` is called after every block.

    With several `jobs`, this process reads blocks and the others decode them; 0 means one per core.

    Raises
    ------
    OutputExistsError
        The output exists, and is not what this call would write.
    OutputError
        The output cannot be written, or another run is writing it.
    """
    outputs = [task.output, task.sidecar, *map(task.beside, ("nights.tsv", "failures.tsv", "changes.tsv"))]
    check_apart(outputs, [task.path])
    check_places(outputs, overwrite=True)
    identity = task.identity()
    done = None if task.overwrite else _done_before(task, identity)
    if done is not None:
        return done
    with collect_warnings() as cautions:
        check_cohort(task.profile, task.options.cohort, stacklevel=2)
    with _parts_folder(task, identity), _saying_what_is_kept(task):
        tally, changes = Tally(), list[list[str]]()
        joined, stream = new_temporary(task.parts / task.output.name)
        results = _results(partial(_part, task, say), table_blocks(task), jobs, executor)
        with stream, joining(task.output, stream) as add, contextlib.closing(results):
            for number, (part, is_old) in enumerate(results):
                add_part(tally, part, task, is_old=is_old)
                changes += part.changes
                if part.nights:
                    add(_stem(task, number).with_suffix(part_suffix(task.output)))
                if on_block is not None:
                    on_block(tally)
        tally.warnings.update(dict.fromkeys(cautions, len(tally.nights)))
        written = _finish(task, identity, tally, joined, changes)
    return TableResult(tally, written)


def table_blocks(task: TableTask) -> Iterator[Block]:
    """Yield numbered blocks of nights, the same in every run."""
    blocks = read_nights(task.path, reading_with(task.profile, task.options.density))
    if task.only:
        blocks = _chosen(task, blocks)
    yield from enumerate(block for block in blocks if block.ids)


def _chosen(task: TableTask, blocks: Iterator[NightBlock]) -> Iterator[NightBlock]:
    """Yield the nights in `task.only`; refuse a missing one after all were read."""
    missing = set(task.only)
    for block in blocks:
        chosen = tuple(name for name in block.ids if name in task.only)
        missing -= {*chosen}
        yield NightBlock(chosen, partial(_those_of, chosen, block.nights))
    if missing:
        raise file_error(task.path, f"has no night {min(missing)!r}, expected the ids of its column {ID}.")


def _those_of(ids: Sequence[str], nights: Callable[[], list[TableNight]]) -> list[TableNight]:
    return [night for night in nights() if night.id in ids]


def _results(
    make: Callable[[Block], tuple[Part, bool]], blocks: Iterator[Block], jobs: int, executor: Executor | None
) -> Generator[tuple[Part, bool], None, None]:
    if jobs == 1 and executor is None:
        yield from map(make, blocks)
        return
    from stageguard.runner.processes import run_blocks  # loads multiprocessing

    yield from run_blocks(make, blocks, jobs, executor)


def _stem(task: TableTask, number: int) -> Path:
    """Return the path of a part without its suffix."""
    return task.parts / f"{number:06d}"


def _done_before(task: TableTask, identity: dict[str, Any]) -> TableResult | None:
    """Return the result of an earlier identical call, or None without an output; refuse any other output."""
    if not task.output.exists() and not task.sidecar.exists():
        return None
    reason = "it is not known how it was made"
    if task.sidecar.is_file() and task.output.is_file():
        try:
            content = load_json(task.sidecar)
            record = content["stageguard"]
            differing = [key for key in OTHER if record["run"].get(key) != identity.get(key)]
            if not differing:
                if is_as_written(content) and _is_unchanged(task, record):
                    tally = Tally(n_before=record["table"]["n_nights"])
                    return TableResult(tally, (task.output,), int(record["table"]["n_failed"]))
                reason = "was changed after it was written"
            else:
                reason = f"was decoded with {', '.join(OTHER[key] for key in differing)}"
        except (StageGuardError, KeyError, TypeError, AttributeError):
            pass
    elif _is_joining(task, identity):
        return None
    raise OutputExistsError(
        Message(f"{task.output} exists already, and {reason}. ", OVERWRITE, " to decode the table again.")
    )


def _is_unchanged(task: TableTask, record: Mapping[str, Any]) -> bool:
    """Whether a table and those beside it are what was written."""
    beside = [task.output.with_name(Path(each["file"]).name) for each in record["beside"]]
    return record["table"]["sha256"] == file_sha256(task.output, "a recording") and all(
        path.is_file() and describe_file(path) == each
        for path, each in zip(beside, record["beside"], strict=True)
    )


def _is_joining(task: TableTask, identity: dict[str, Any]) -> bool:
    """Whether the same run was killed while it moved its outputs into place."""
    try:
        return (task.parts / JOINING).is_file() and load_json(task.parts / RUN) == _begun(identity)
    except (StageGuardError, OSError):
        return False


def _begun(identity: dict[str, Any]) -> dict[str, Any]:
    """Return what identifies the parts of a run."""
    return identity | {"parts": PARTS_LAYOUT}


@contextlib.contextmanager
def _parts_folder(task: TableTask, identity: dict[str, Any]) -> Iterator[None]:
    """Lock the folder of parts and empty it of other runs'; remove it unless the run may be resumed."""
    folder, run = task.parts, _begun(identity)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK):
            record = folder / RUN
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
            shutil.rmtree(folder)
    except BlockingIOError:
        raise OutputError(
            f"cannot write {task.output}: another run is writing it. Wait for it, or choose another name."
        ) from None
    except OSError as error:
        raise OutputError(
            f"cannot write {task.output}: {error.strerror or error}. Choose a folder you can write to."
        ) from error


@contextlib.contextmanager
def _saying_what_is_kept(task: TableTask) -> Iterator[None]:
    """Let who stops the run know how many nights are in its parts: also those that are not joined yet."""
    try:
        yield
    except Stopped as stopped:
        parts = [load_json(record)["part"] for record in task.parts.glob("[0-9]*.json")]
        n_kept = sum(len(part["nights"]) + len(part["failures"]) for part in parts)
        stopped.done = f"{n_kept:,} night{'s' * (n_kept != 1)} done. The same command goes on from there."
        raise


def _part(task: TableTask, say: Callable[[object], str], block: Block) -> tuple[Part, bool]:
    """Return the part of a block, and whether an earlier run made it; make it if not."""
    number, of_block = block
    stem = _stem(task, number)
    record, data = stem.with_suffix(".json"), stem.with_suffix(part_suffix(task.output))
    if record.is_file():
        with contextlib.suppress(StageGuardError, KeyError, TypeError, ValueError):
            content = load_json(record)
            part = Part.from_dict(content["part"])
            rows = read_file(data, "a recording") if part.nights else b""
            if content["sha256"] == _part_sha256(rows, part):
                return part, True
    part, decoded = decode_block(task, of_block.nights(), say)
    rows = part_bytes(task.output, decoded) if decoded else b""
    text = f'{{"sha256": "{_part_sha256(rows, part)}", "part": {part.to_json()}}}'
    files: dict[Path, str | bytes] = {data: rows} if decoded else {}
    write_together({**files, record: text}, overwrite=True, durable=False)  # the record last
    return part, False


def _part_sha256(rows: bytes, part: Part) -> str:
    return hashlib.sha256(rows + part.to_json().encode()).hexdigest()


def decode_block(
    task: TableTask, nights: Sequence[TableNight], say: Callable[[object], str]
) -> tuple[Part, list[tuple[str, Decoding]]]:
    """Decode the nights of a block, all at once unless one of them fails."""
    part = Part([], [], {}, {}, [])
    readable = [night for night in nights if night.density is not None]
    decodings = _decode_nights(task, readable)
    decoded: list[tuple[str, Decoding]] = []
    results = dict(zip((night.id for night in readable), decodings, strict=True))
    whole = {name: result for name, result in results.items() if isinstance(result, Decoding)}
    rows = dict(zip(whole, _rows(task, whole), strict=True))
    for night in nights:
        result = results.get(night.id, night.error)
        if not isinstance(result, Decoding):
            where = f"{task.path.name}, night {night.id[:40]}"
            problem = result if isinstance(result, Message) else error_message(result, where)
            part.failures.append((night.id, say(problem)))
            continue
        part.nights.append(rows[night.id])
        decoded.append((night.id, result))
        for note in dict.fromkeys((*night.notes, *result.assumed)):
            part.notes[note] = part.notes.get(note, 0) + 1
        for text in warnings_of(result):
            part.warnings[text] = part.warnings.get(text, 0) + 1
        if task.explain:
            part.changes.extend([night.id, *change_cells(change)] for change in explain(result))
    return part, decoded


def _decode_nights(task: TableTask, nights: Sequence[TableNight]) -> list[Decoding | StageGuardError]:
    densities = [night.density for night in nights if night.density is not None]
    options = task.options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # about many changes: `decode_block` counts these
        try:
            names = ("cohort", "stager", "trained", "strength")
            arguments: dict[str, Any] = {name: getattr(options, name) for name in names}
            if len(densities) == 1:  # not as a list, or an error would speak of a night's number
                return [decode(densities[0], task.profile, **arguments)]
            return [*decode(densities, task.profile, **arguments)]
        except StageGuardError as error:
            if len(nights) == 1:
                return [error]
    return [result for night in nights for result in _decode_nights(task, [night])]


def _rows(task: TableTask, decodings: Mapping[str, Decoding]) -> list[NightRow]:
    """Return a row for every night; only columns of the table are measured."""
    nights = [*decodings.values()]
    measured = (
        estimates_of_all(nights, StatisticsOptions()),
        joint_scores_of_all(nights),
        early_rem_removed_of_all(nights),
    )
    return [
        NightRow.of(
            *(name, task.path.name, decoding.hypnogram.n_epochs, int(np.count_nonzero(decoding.changed))),
            strength=decoding.strength,
            joint=scores,
            n_early_rem_removed=n_removed,
            estimates=estimated,
        )
        for (name, decoding), estimated, scores, n_removed in zip(decodings.items(), *measured, strict=True)
    ]


def add_part(tally: Tally, part: Part, task: TableTask, *, is_old: bool) -> None:
    """Add the nights of a part to the tally."""
    tally.nights += part.nights
    tally.failures += [Outcome(task.path.name, night, error=Message(error)) for night, error in part.failures]
    tally.notes.update(part.notes)
    tally.warnings.update(part.warnings)
    if is_old:
        tally.n_before += len(part.nights)
    else:
        tally.n_decoded += len(part.nights)


def _finish(
    task: TableTask, identity: dict[str, Any], tally: Tally, joined: Path, changes: list[list[str]]
) -> tuple[Path, ...]:
    """Move the joined table into place and write the files beside it, the sidecar last."""
    texts = beside_texts(task, tally, changes)
    tables = {path: text for path, text in texts.items() if text}
    (task.parts / JOINING).touch()
    for path in texts.keys() - tables.keys():
        path.unlink(missing_ok=True)
    if not tally.nights:
        write_together(tables, overwrite=True)
        return tuple(tables)
    with open_file(joined, "a recording") as stream:
        os.fsync(stream.fileno())
    content = table_sidecar(task, identity, tally, file_sha256(joined, "a recording"), tables)
    sidecar = json_lines(content) + "\n"
    task.sidecar.unlink(missing_ok=True)  # the old one: a sidecar means that its table is complete
    joined.replace(task.output)
    write_together({**tables, task.sidecar: sidecar}, overwrite=True)
    return task.output, *tables, task.sidecar

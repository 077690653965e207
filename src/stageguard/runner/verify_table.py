"""Compare a decoded table with a fresh decoding of its input, a block of nights at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from stageguard.base.errors import StageGuardError, fault_text
from stageguard.base.files import file_error, file_sha256, load_json, read_cell, read_file
from stageguard.formats.cohort_output import part_bytes
from stageguard.formats.cohort_split import Cells, part_rows, table_rows
from stageguard.formats.cohort_table import ID, OWN_COLUMNS, TABLE_SUFFIXES
from stageguard.runner.cohort_tables import Tally
from stageguard.runner.compare_sidecars import compare_sidecars
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.decode_table import add_part, decode_block, table_blocks
from stageguard.runner.table_files import TableTask, beside_texts, table_sidecar
from stageguard.runner.verify import (
    Check,
    Verification,
    as_written,
    check_beside,
    check_input,
    check_profile,
    check_sidecar,
    errors_of_record,
    moved_fields,
    profile_notes,
    verification,
)

STAGE = OWN_COLUMNS.index("stage") + 1  # after the id
Night = tuple[str, list[Cells]]  # its id as written in the table, and its rows


def table_and_sidecar(output: Path) -> tuple[Path, Path] | None:
    """Return a decoded table and its sidecar, given either; None for any other file."""
    is_sidecar = output.suffix == ".json"
    table = output.with_suffix("") if is_sidecar else output
    sidecar = table.with_name(f"{table.name}.json")
    if table.suffix.lower() not in TABLE_SUFFIXES or not sidecar.is_file():
        return None
    return table, sidecar


def verify_table(
    table: Path, sidecar: Path, source: Path | None = None, *, say: Callable[[object], str] = str
) -> Verification:
    """Check table, profile and input against the sidecar, then decode again and compare night by night.

    The tables beside it are compared, too, unless the input has another name; `say` is as in `decode_table`.
    """
    content = load_json(sidecar)
    with errors_of_record(sidecar):
        record = content["stageguard"]
        run, recorded = record["run"], record["table"]
        if not table.is_file():
            raise file_error(table, f"is missing, expected the table that {sidecar.name} tells of.")
        profile, profile_check = check_profile(sidecar, record)
        input_record = {"input": record.get("input", run["input"])}
        path, input_check = check_input(sidecar, input_record, source)
        is_table = file_sha256(table, "a recording") == recorded["sha256"]
        checks = [as_written("table", table, same=is_table), check_sidecar(sidecar, content)]
        checks += [profile_check, input_check]
        compared = None
        if path is not None:
            options = DecodeOptions.from_dict(run["options"] | {"format": None}, None)  # a table's is known
            only = tuple(map(str, run.get("only", ())))
            task = TableTask(path, table, profile, options, explain=bool(run["explain"]), only=only)
            tally, changes = Tally(), list[list[str]]()
            checks += _check_again(task, say, tally, changes)
            texts = {path: text for path, text in beside_texts(task, tally, changes).items() if text}
            is_renamed = path.name != run["input"]["file"]  # and the tables beside the output name it
            checks += check_beside(sidecar.parent, record, {}) if is_renamed else _check_beside(texts)
            fresh = table_sidecar(task, task.identity(), tally, recorded["sha256"], texts)
            compared = compare_sidecars(fresh, content, moved_fields(path, sidecar, input_record["input"]))
        return verification(checks, profile_notes(record["profile"], run["options"]), compared)


def _check_again(
    task: TableTask, say: Callable[[object], str], tally: Tally, changes: list[list[str]]
) -> list[Check]:
    """Return a check for every night that differs, or one for all nights; fill the tally and the changes."""
    checks = list[Check]()
    try:
        table = table_rows(task.output)
        if next(table, []) != [ID, *OWN_COLUMNS]:
            return [Check("decoded again", False, f"{task.output.name} has other columns than decode writes")]
        written = _nights(table)
        for expected, fresh in _decoded_again(task, tally, changes, say):
            name, rows = next(written, ("", []))
            if name != expected:
                where = f"night {read_cell(name)[:40]!r}" if rows else "the end of the table"
                finding = f"{where} stands in its place; the nights from here on were not compared"
                return [*checks, Check(f"night {read_cell(expected)[:40]}", False, finding)]
            if rows != fresh:
                checks.append(Check(f"night {read_cell(name)[:40]}", False, _difference(rows, fresh)))
        if (more := next(written, None)) is not None:
            finding = "stands in the table, but the input does not give it"
            checks.append(Check(f"night {read_cell(more[0])[:40]}", False, finding))
    except StageGuardError as error:
        return [*checks, Check("decoded again", False, f"failed: {error}")]
    except (csv.Error, UnicodeDecodeError, OSError, ValueError) as error:  # pyarrow's are the last two
        return [
            *checks,
            Check("decoded again", False, f"{task.output.name} cannot be read ({fault_text(error)})"),
        ]
    if not checks:
        n_nights, n_epochs = len(tally.nights), sum(row.n_epochs for row in tally.nights)
        finding = f"all {n_epochs:,} epochs of {n_nights:,} night{'s' * (n_nights != 1)} the same"
        checks.append(Check("decoded again", True, finding))
    return checks


def _nights(rows: Iterator[Cells]) -> Iterator[Night]:
    """Group the rows of a table by night."""
    for name, of_night in groupby(rows, key=lambda row: row[0] if row else ""):
        yield name, list(of_night)


def _decoded_again(
    task: TableTask, tally: Tally, changes: list[list[str]], say: Callable[[object], str]
) -> Iterator[Night]:
    """Yield the nights as `decode` would write them now, and add them to the tally."""
    for _, block in table_blocks(task):
        part, decoded = decode_block(task, block.nights(), say)
        add_part(tally, part, task, is_old=False)
        changes += part.changes
        if decoded:
            yield from _nights(part_rows(task.output, part_bytes(task.output, decoded)))


def _difference(written: list[Cells], fresh: list[Cells]) -> str:
    if len(written) != len(fresh):
        return f"{len(fresh)} epochs, but {len(written)} are written"
    different = [t for t, (mine, now) in enumerate(zip(written, fresh, strict=True)) if mine != now]
    first = different[0]
    stages = [rows[first][STAGE] if len(rows[first]) > STAGE else "?" for rows in (written, fresh)]
    text = f"{stages[0]} now {stages[1]}" if stages[0] != stages[1] else "another column than the stage"
    return f"{len(different)} of {len(fresh)} epochs differ (the first is epoch {first + 1}: {text})"


def _check_beside(texts: Mapping[Path, str]) -> list[Check]:
    """Compare the tables beside the output with those that `decode` would write now."""
    return [
        as_written(path.name, path, same=path.is_file() and read_file(path, "text") == text.encode())
        for path, text in texts.items()
    ]

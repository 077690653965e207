"""Decide by content which files of a folder are nights."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from stageguard.base.errors import FileFormatError, InputError
from stageguard.formats.file_format import Kind
from stageguard.formats.hypnogram import is_stage, stage_column
from stageguard.formats.outputs import TSV_SUFFIX
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.read import read_hypnogram_file
from stageguard.formats.registry import detect, formats, named
from stageguard.formats.sniffing import read_head
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.night.stages import canonical_name


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as a night: its kind, its format if named, and additional stage names."""

    kind: Kind
    format: str | None = None
    stages: Collection[str] = ()

    def check(self) -> None:
        """Refuse an unknown format, once instead of for every file."""
        name = self.format
        if name is not None and not any(form.name == name and form.does(self.kind) for form in formats()):
            named(name, "density")


def is_night(path: Path, wanted: Wanted) -> bool | None:
    """Whether a file is a night by its content; None if the content is of no known kind."""
    if path.name.endswith(TSV_SUFFIX):
        return True
    if wanted.format is not None:
        suffixes = next((form.suffixes for form in formats() if form.name == wanted.format), ())
        return path.name.lower().endswith(suffixes)
    kinds: tuple[Kind, ...] = ("density",) if wanted.kind == "density" else ("density", "hypnogram")
    answers = [_is_of_kind(path, kind, wanted.stages) for kind in kinds]
    return True if True in answers else False if False in answers else None


def _is_of_kind(path: Path, kind: Kind, stages: Collection[str]) -> bool | None:
    try:
        form = detect(path, kind)
    except FileFormatError as error:
        return True if kind == "hypnogram" and error.code == "ambiguous-format" else None
    except OSError:
        return None
    if form.may_be_recording:
        return _is_scored(path)
    if not form.is_general:
        return True
    name = (
        path.name.lower()
    )  # programs and web pages may name stages, too, so names without a table's suffix need more proof
    if not name.endswith(form.suffixes) and not any(name.endswith(each.suffixes) for each in formats()):
        return _is_surely(path, kind, stages)
    if any(sum(_names_stage(cell, stages) for cell in head) > 1 for head in _heads(path)):
        return True  # mostly found in the first line, so the other lines are not read
    if kind == "density":
        return False
    heads = list(_heads(path))
    first = next((head[0] for head in heads if head and head[0]), "")
    return is_stage(first, None) or any(stage_column(head) is not None for head in heads)


def _is_scored(path: Path) -> bool:
    """Whether a recording holds stages; if they cannot be read, reading the night will raise the error."""
    try:
        read_hypnogram_file(path, FileOptions())
    except FileFormatError as error:
        return error.code != "no-stages"
    except (InputError, OSError):
        pass
    return True


def _is_surely(path: Path, kind: Kind, stages: Collection[str]) -> bool:
    """Whether a text file with an unknown suffix has numbers below stage names, or a stage per line."""
    lines = _head_lines(path)
    if kind == "hypnogram" and len(lines) > 1 and all(is_stage(line.strip(), None) for line in lines[:-1]):
        return True
    for head, below in pairwise(lines):
        for mark in DELIMITERS:
            cells, numbers = split_line(head, mark), split_line(below, mark)
            n_named = sum(_names_stage(cell, stages) for cell in cells)
            if n_named > 1 and len(cells) == len(numbers) and sum(map(_is_number, numbers)) >= n_named:
                return True
    return False


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _head_lines(path: Path) -> list[str]:
    text = read_head(path).decode("utf-8-sig", errors="replace")
    return [line for line in text.splitlines()[:HEADER_SEARCH_LINES] if line.strip()]


def _heads(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line that may be a header, split by each delimiter."""
    for line in _head_lines(path):
        yield from (split_line(line, mark) for mark in DELIMITERS if mark in line or mark == ",")


def _names_stage(cell: str, stages: Collection[str]) -> bool:
    return canonical_name(cell) is not None or cell in stages

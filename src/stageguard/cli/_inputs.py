"""Which nights a command is given: files, patterns, folders, sample lists. Reads their first bytes only."""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stageguard.errors import FileFormatError, InputError
from stageguard.formats._density_file import file_error, listed
from stageguard.formats._file_format import Kind
from stageguard.formats._sniffing import HEAD_BYTES
from stageguard.formats.hypnograms import is_hypnogram, is_stage, stage_column
from stageguard.formats.outputs import CHANGES_SUFFIX, JSON_SUFFIX, SVG_SUFFIX, TSV_SUFFIX
from stageguard.formats.posteriors import DRAWS_SUFFIX, SIDECAR_SUFFIX, TABLE_SUFFIX
from stageguard.formats.registry import FORMATS, detect
from stageguard.formats.tables import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.stages import canonical_name

if TYPE_CHECKING:
    from datetime import datetime

    from stageguard.measures.day import Moment

COHORT_TABLE, FAILURES_TABLE = "cohort.tsv", "failures.tsv"  # what `decode` writes about a cohort
POSTERIOR_SUFFIXES = (TABLE_SUFFIX, SIDECAR_SUFFIX, DRAWS_SUFFIX)
OWN_SUFFIXES = (TSV_SUFFIX, JSON_SUFFIX, SVG_SUFFIX, CHANGES_SUFFIX, *POSTERIOR_SUFFIXES)
MAGIC = re.compile(r"[*?\[]")
NOUNS = {"density": "probabilities", "hypnogram": "hypnograms or probabilities"}


@dataclass(frozen=True, slots=True)
class Input:
    """A night to read, and what a sample list says about it."""

    path: Path
    name: str
    scoring: Path | None = None
    edf: Path | None = None
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    error: str | None = None  # why it cannot be read

    def refuse(self) -> None:
        """Raise what is wrong with it, if anything is."""
        if self.error is not None:
            raise InputError(self.error)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All nights in order, remarks on what was left out, and whether they are meant as a cohort."""

    nights: tuple[Input, ...]
    notes: tuple[str, ...] = ()
    is_cohort: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as a night: of which kind, in a named format, with stage names of one's own."""

    kind: Kind
    format: str | None = None
    stages: Collection[str] = field(default=())


def night_id(path: Path) -> str:
    """Return a file's name without `.hypnogram.tsv`, or without its last suffix."""
    for suffix in (TSV_SUFFIX, JSON_SUFFIX):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.stem


def natural(path: Path) -> tuple[Any, ...]:
    """Sort key by which n2 comes before n10, and that depends on nothing but the path."""
    pieces = re.split(r"(\d+)", str(path))
    return tuple((int(one), one) if one.isdecimal() else (0, one.casefold()) for one in pieces), str(path)


def find_inputs(arguments: Sequence[Path] | None, samples: Path | None, wanted: Wanted) -> Inputs:
    """Return the nights that arguments and a sample list name.

    A file is a night, or a sample list by its header; a pattern stands for the files it matches, a folder for
    those in it whose content is known. A list alone names the nights; with files it says more about them.
    """
    from stageguard.cli._listed import describe_by, is_sample_list, read_samples

    if not arguments:
        if samples is None:
            raise typer.BadParameter("Missing argument 'FILES...': name files, folders, or a list (--list).")
        return Inputs(tuple(read_samples(samples, wanted.kind)))
    nights: list[Input] = []
    notes: list[str] = []
    is_cohort = len(arguments) > 1 or samples is not None
    for path in arguments:
        if _is_there(path) and path.is_dir():
            found, left = _in_folder(path, wanted)
            nights += [Input(file, night_id(file)) for file in found]
            notes += left
        elif not _is_there(path) and MAGIC.search(str(path)):
            nights += [Input(file, night_id(file)) for file in _matching(path, wanted)]
        elif samples is None and is_sample_list(path):
            nights += read_samples(path, wanted.kind)
        else:
            nights.append(Input(path, night_id(path)))
            continue
        is_cohort = True
    if samples is not None:
        nights, more = describe_by(samples, nights)
        notes += more
    return Inputs(tuple(nights), tuple(notes), is_cohort)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, for one
        return False


def _matching(pattern: Path, wanted: Wanted) -> list[Path]:
    """Return the files a pattern matches, except hidden ones and what no command of this kind reads."""
    found = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 - pathlib's matches hidden files
    files = [path for path in map(Path, found) if path.is_file() and not _is_own(path, wanted)]
    if not files:
        raise InputError(f"no file matches {str(pattern)!r}. Check the folder and the pattern.")
    return sorted(files, key=natural)


def _is_own(path: Path, wanted: Wanted) -> bool:
    """Whether `decode` wrote it and this command does not read it."""
    if path.name.endswith(TSV_SUFFIX):
        return wanted.kind == "density"
    return path.name.endswith(OWN_SUFFIXES)


def _in_folder(folder: Path, wanted: Wanted) -> tuple[list[Path], list[str]]:
    """Return the nights in a folder, and a remark on files that are something else.

    What is no such file at all is a night nevertheless where it is called like one: a night that was cut off
    or is empty must be seen to fail.
    """
    files = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()]
    known: dict[Path, bool | None] = {}
    for path in sorted(files, key=natural):
        if not _is_own(path, wanted) and path.name not in (COHORT_TABLE, FAILURES_TABLE):
            known[path] = _is_night(path, wanted)
    suffixes = {path.suffix.lower() for path, is_night in known.items() if is_night}
    found = [
        path for path, is_night in known.items()
        if is_night or (is_night is None and path.suffix.lower() in suffixes)
    ]  # fmt: skip
    if wanted.kind == "hypnogram":  # an output says more about a night than what it was decoded from
        decoded = {night_id(path) for path in found if path.name.endswith(TSV_SUFFIX)}
        found = [path for path in found if path.name.endswith(TSV_SUFFIX) or night_id(path) not in decoded]
        known = {path: own for path, own in known.items() if night_id(path) not in decoded}
    if not found:
        raise file_error(folder, f"this folder holds no {NOUNS[wanted.kind]}. Name files, or another folder.")
    taken = set(found)
    left = [path.name for path in known if path not in taken]
    return found, [f"left out in {folder}, no {NOUNS[wanted.kind]}: {listed(left, 5)}"] if left else []


def _is_night(path: Path, wanted: Wanted) -> bool | None:
    """Whether the content is that of a night; None where it is of no kind that is known."""
    if path.name.endswith(TSV_SUFFIX):
        return True
    if wanted.format is not None:
        suffixes = next((form.suffixes for form in FORMATS if form.name == wanted.format), ())
        return path.name.lower().endswith(suffixes)
    kinds: tuple[Kind, ...] = ("density",) if wanted.kind == "density" else ("density", "hypnogram")
    answers = [_is_of_kind(path, kind, wanted.stages) for kind in kinds]
    return True if True in answers else False if False in answers else None


def _is_of_kind(path: Path, kind: Kind, stages: Collection[str]) -> bool | None:
    try:
        form = detect(path, kind)
    except FileFormatError as error:
        return True if kind == "hypnogram" and "format='numbers-" in str(error) else None
    except OSError:
        return None
    if not form.is_general:
        return True
    if any(sum(_names_stage(cell, stages) for cell in head) > 1 for head in _heads(path)):
        return True  # mostly in the first line, so that most lines are not looked at
    if kind == "density":
        return False
    heads = list(_heads(path))
    first = next((head[0] for head in heads if head and head[0]), "")
    return is_stage(first, None) or any(stage_column(head) is not None for head in heads)


def _heads(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each line that may be a header, by each delimiter."""
    with path.open("rb") as file:
        text = file.read(HEAD_BYTES).decode("utf-8-sig", errors="replace")
    for line in text.splitlines()[:HEADER_SEARCH_LINES]:
        yield from (split_line(line, mark) for mark in DELIMITERS if mark in line or mark == ",")


def _names_stage(cell: str, stages: Collection[str]) -> bool:
    return canonical_name(cell) is not None or cell in stages


def scoring_of(night: Input) -> Path | None:
    """Return where the expert's scoring of a listed night is: in a file, else in the recording's notes."""
    if night.path in (night.scoring, night.edf):
        return None
    if night.scoring is not None or night.edf is None:
        return night.scoring
    from stageguard.formats.hypnograms import HypnogramOptions, read_hypnogram_file

    try:
        if is_hypnogram(night.edf):
            read_hypnogram_file(night.edf, HypnogramOptions())
            return night.edf
    except FileFormatError:  # annotations there may be, but they are no stages
        pass
    return None


def start_of(edf: Path | None) -> datetime | None:
    """Return when a recording began, where its header says so."""
    if edf is None:
        return None
    from stageguard.formats._edf_header import read_edf_header

    return read_edf_header(edf).start

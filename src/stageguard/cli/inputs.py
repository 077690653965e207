"""Which nights a command is given: files, patterns, folders, sample lists. Reads their first bytes only."""

from __future__ import annotations

import contextlib
import glob
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stageguard.base.errors import FileFormatError, InputError
from stageguard.base.files import checked_file, file_error, real_path
from stageguard.cli.recognising import Wanted as Wanted
from stageguard.cli.recognising import is_night
from stageguard.formats.density import listed
from stageguard.formats.file_format import Kind
from stageguard.formats.outputs import CHANGES_SUFFIX, JSON_SUFFIX, SVG_SUFFIX, TSV_SUFFIX
from stageguard.formats.posteriors import DRAWS_SUFFIX, SIDECAR_SUFFIX, TABLE_SUFFIX
from stageguard.formats.read import is_hypnogram
from stageguard.formats.sources import night_name

if TYPE_CHECKING:
    from datetime import datetime

    from stageguard.measures.day import Moment

COHORT_TABLE, FAILURES_TABLE = "cohort.tsv", "failures.tsv"  # what `decode` writes about a cohort
OWN_TABLES = (COHORT_TABLE, FAILURES_TABLE)
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
    source: Path | None = None  # the probabilities an output was decoded from
    is_listed: bool = False
    start: datetime | None = None  # when it began, where neither its file nor its edf says so

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


def night_id(path: Path) -> str:
    """Return a file's name without `.hypnogram.tsv`, `_events.tsv` or the like, or its last suffix."""
    if path.name.endswith(JSON_SUFFIX) and path.name != JSON_SUFFIX:
        return path.name.removesuffix(JSON_SUFFIX)
    return night_name(path)


def natural(path: Path) -> tuple[Any, ...]:
    """Sort key by which n2 comes before n10, and that depends on nothing but the path."""
    pieces = re.split(r"(\d+)", str(path))
    return tuple((int(one), one) if one.isdecimal() else (0, one.casefold()) for one in pieces), str(path)


def find_inputs(arguments: Sequence[Path] | None, samples: Path | None, wanted: Wanted) -> Inputs:
    """Return the nights that arguments and a sample list name.

    A file is a night, or a sample list by its header; a pattern stands for the files it matches, a folder for
    those in it whose content is known. A list alone names the nights; with files it says more about them.
    """
    from stageguard.cli.listed import describe_by, is_sample_list, read_samples

    if not arguments:
        if samples is None:
            raise typer.BadParameter("Missing argument 'FILES...': name files, folders, or a list (--list).")
        return Inputs(tuple(read_samples(samples, wanted.kind)))
    wanted.check()
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
            nights.append(Input(path, night_id(path), error=special(path)))
            continue
        is_cohort = True
    nights, twice = _once(nights)
    notes += twice
    if samples is not None:
        nights, more = describe_by(samples, nights)
        notes += more
    return Inputs(tuple(nights), tuple(notes), is_cohort)


def _once(nights: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return nights without those whose file was there before by another name, and a remark on them.

    A file goes before a link to it. Rows of a sample list stay: each says something of its own.
    """
    first: dict[Path, int] = {}
    kept: list[Input] = []
    twice: dict[str, None] = {}
    for night in nights:
        place = len(kept) if night.is_listed else first.setdefault(real_path(night.path), len(kept))
        if place == len(kept):
            kept.append(night)
            continue
        earlier = kept[place]
        if earlier.path.is_symlink() and not night.path.is_symlink():
            kept[place], night = night, earlier
        if kept[place].path != night.path:
            twice.setdefault(str(night.path))
    remarks = [f"another name for a file that is taken already: {listed(list(twice), 5)}"] if twice else []
    return kept, remarks


def special(path: Path) -> str | None:
    """Say why something that is no regular file is not read, such as a pipe that nobody writes into."""
    with contextlib.suppress(OSError):
        try:
            checked_file(path, "a recording")
        except FileFormatError as error:
            return str(error)
    return None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, for one
        return False


def _matching(pattern: Path, wanted: Wanted) -> list[Path]:
    """Return the files a pattern matches, except hidden ones and what no command of this kind reads.

    Outputs are among them where the pattern itself ends like one: `*.posterior.csv`.
    """
    asked = tuple(suffix for suffix in OWN_SUFFIXES if pattern.name.endswith(suffix))
    found = glob.glob(str(pattern), recursive=True)  # noqa: PTH207 - pathlib's matches hidden files
    files = [
        path for path in map(Path, found)
        if path.is_file() and (not is_own(path, wanted.kind) or (asked and path.name.endswith(asked)))
    ]  # fmt: skip
    if not files:
        raise InputError(f"no file matches {str(pattern)!r}. Check the folder and the pattern.")
    return sorted(files, key=natural)


def is_own(path: Path, kind: Kind = "hypnogram") -> bool:
    """Whether `decode` wrote it and commands that want this kind do not read it."""
    if path.name.endswith(TSV_SUFFIX):
        return kind == "density"
    return path.name.endswith(OWN_SUFFIXES) or path.name in OWN_TABLES


def _in_folder(folder: Path, wanted: Wanted) -> tuple[list[Path], list[str]]:
    """Return the nights in a folder, and a remark on files that are something else.

    What is no such file at all is a night nevertheless where it is called like one: a night that was cut off
    or is empty must be seen to fail.
    """
    files = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file()]
    known: dict[Path, bool | None] = {}
    for path in sorted(files, key=natural):
        if not is_own(path, wanted.kind):
            known[path] = is_night(path, wanted)
    suffixes = {path.suffix.lower() for path, is_one in known.items() if is_one}
    found = [
        path for path, is_one in known.items()
        if is_one or (is_one is None and path.suffix.lower() in suffixes)
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


def scoring_of(night: Input) -> Path | None:
    """Return where the expert's scoring of a listed night is: in a file, else in the recording's notes."""
    if night.path in (night.scoring, night.edf):
        return None
    if night.scoring is not None or night.edf is None:
        return night.scoring
    from stageguard.formats.hypnogram import HypnogramOptions
    from stageguard.formats.read import read_hypnogram_file

    try:
        if is_hypnogram(night.edf):
            read_hypnogram_file(night.edf, HypnogramOptions())
            return night.edf
    except FileFormatError:  # annotations there may be, but they are no stages
        pass
    return None


def start_of(edf: Path | None, listed_start: datetime | None) -> datetime | None:
    """Return when a recording began: by its header, else by the sample list."""
    if edf is None:
        return listed_start
    from stageguard.formats.recordings.edf_header import read_edf_header

    return read_edf_header(edf).start or listed_start

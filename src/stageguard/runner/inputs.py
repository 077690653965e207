"""Find the nights that a call names: files, patterns, folders and sample lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from stageguard.errors import FileFormatError, InputError, NoInputError, record_fault
from stageguard.files import file_error, real_path
from stageguard.formats.companions import (
    MOMENT_WORDS,
    START_WORDS,
    numbered_rows,
    parse_moment,
    parse_start,
)
from stageguard.formats.density import listed
from stageguard.formats.file_format import Kind
from stageguard.formats.hypnogram import column_of_stages, is_stage, stage_column
from stageguard.formats.night import FileOptions
from stageguard.formats.outputs import (
    CHANGES_SUFFIX,
    JSON_SUFFIX,
    POSTERIOR_SUFFIXES,
    SVG_SUFFIX,
    TSV_SUFFIX,
    is_output,
    output_paths,
    read_sidecar,
)
from stageguard.formats.read import is_hypnogram, night_name, read_hypnogram_file
from stageguard.formats.registry import detect, formats, named
from stageguard.formats.shared_profile import PROFILE_DIGITS
from stageguard.formats.sniffing import UTF16_MARKS, read_head
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.night.stages import canonical_name
from stageguard.night.timing import Moment
from stageguard.profile.profile import Profile
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.manifest import COHORT_TABLE, FAILURES_TABLE, METHODS_TEXT
from stageguard.storage import files_in, is_folder

OWN_SUFFIXES = (
    *(TSV_SUFFIX, JSON_SUFFIX, SVG_SUFFIX, CHANGES_SUFFIX, ".html", ".days.tsv", ".days.json"),
    *POSTERIOR_SUFFIXES,
)
SLEEP = re.compile(r"\.sleep-\d+\.csv$")  # one sleep of a recording of days, as stages alone
MAGIC = re.compile(r"[*?\[]")
_table_folders: list[TemporaryDirectory[str]] = []  # removed when this process ends
NOUNS = {"density": "probabilities", "hypnogram": "hypnograms or probabilities"}


@dataclass(frozen=True, slots=True)
class Input:
    """A night to read, and what a sample list says about it."""

    path: Path
    id: str
    scoring: Path | None = None
    edf: Path | None = None
    lights_off: Moment | None = None
    lights_on: Moment | None = None
    error: str | None = None  # why the night cannot be read
    source: Path | None = None  # the probabilities an output was decoded from
    is_listed: bool = False
    start: datetime | None = None  # start of the recording, if neither `path` nor `edf` says
    table: Path | None = None  # the table of many nights that holds this one

    @property
    def file(self) -> str:
        """The file, or the table and the night in it."""
        return str(self.path) if self.table is None else f"{self.table}, night {self.id}"

    @property
    def files(self) -> list[Path]:
        """All files that are read for this night."""
        sidecar = output_paths(self.path).sidecar if is_output(self.path) else None
        paths = (self.table or self.path, self.scoring, self.edf, self.source, sidecar)
        return [path for path in paths if path is not None]

    def output(self, folder: Path | None) -> Path:
        """Return folder and name of the outputs; without a folder they go beside the night."""
        return (self.path.parent if folder is None else folder) / self.id

    def refuse(self) -> None:
        """Raise the error of this night, if there is one."""
        if self.error is not None:
            raise InputError(self.error)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All nights in order, remarks on what was left out, and whether they are meant as a cohort."""

    nights: tuple[Input, ...]
    notes: tuple[str, ...] = ()
    is_cohort: bool = True

    def files(self, *others: Path | None) -> list[Path]:
        """Return all files that are read, for the nights and besides: no output may replace them."""
        paths = (*others, *(path for night in self.nights for path in night.files))
        return [path for path in paths if path is not None]


def night_id(path: Path) -> str:
    """Return a file's name without `.hypnogram.tsv`, `_events.tsv` or the like, or its last suffix."""
    if path.name.endswith(JSON_SUFFIX) and path.name != JSON_SUFFIX:
        return path.name.removesuffix(JSON_SUFFIX)
    return night_name(path)


def natural(path: Path) -> tuple[Any, ...]:
    """Return a sort key that puts n2 before n10 and depends only on the path."""
    parts = re.split(r"(\d+)", str(path))
    return tuple((int(part), part) if part.isdecimal() else (0, part.casefold()) for part in parts), str(path)


def find_inputs(arguments: Sequence[Path], samples: Path | None, wanted: Wanted) -> Inputs:
    """Return the nights that arguments and a sample list name.

    A file is a night, or a sample list if its header says so. A pattern stands for the files it matches, and
    a folder for its files with known content. A list alone names the nights; beside files it describes them.
    """
    if not arguments:
        if samples is None:
            raise NoInputError("Missing argument FILES: name files, folders, or a list (--list).")
        return Inputs(tuple(read_samples(samples, wanted.kind)))
    wanted.check()
    nights: list[Input] = []
    notes: list[str] = []
    is_cohort = len(arguments) > 1 or samples is not None
    for path in arguments:
        if _is_there(path) and is_folder(path):
            try:
                files, left = _in_folder(path, wanted)
            except FileFormatError as error:
                if len(arguments) == 1:
                    raise
                nights.append(Input(path, path.name, error=str(error)))  # the other nights go on
                continue
            nights += map(_input, files)
            notes += left
        elif not _is_there(path) and MAGIC.search(str(path)):
            nights += map(_input, _matching(path, wanted))
        elif samples is None and is_sample_list(path):
            nights += read_samples(path, wanted.kind)
        else:
            nights.append(_input(path))
            continue
        is_cohort = True
    nights, twice = _once(nights)
    notes += twice
    if wanted.kind == "hypnogram":
        nights, beside = _without_beside(nights)
        notes += beside
    if samples is not None:
        nights, more = describe_by(samples, nights)
        notes += more
    return Inputs(tuple(nights), tuple(notes), is_cohort)


def _input(path: Path) -> Input:
    return Input(path, night_id(path))


def _once(nights: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return nights without files that occur again under another name, and a remark on those.

    A file is preferred to a link to it. Rows of a sample list stay, because each may say something else.
    """
    kept = dict[object, Input]()
    twice: dict[str, None] = {}
    for number, night in enumerate(nights):
        key = number if night.is_listed else real_path(night.path)
        first = kept.setdefault(key, night)
        if first.path.is_symlink() and not night.path.is_symlink():
            kept[key], night = night, first
        if kept[key].path != night.path:
            twice.setdefault(str(night.path))
    remarks = [f"another name for a file that is taken already: {listed(list(twice), 5)}"] if twice else []
    return list(kept.values()), remarks


def _without_beside(nights: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return nights without the files beside an output that are named after it, and a remark on those."""
    outputs = {night.path for night in nights if night.path.suffix == ".tsv" and is_output(night.path)}
    places = {str(path.with_name(night_id(path))) for path in outputs}
    beside = {
        night.path for night in nights
        if not night.is_listed and night.path not in outputs and is_named_after(str(night.path), places)
    }  # fmt: skip
    names = listed(sorted(path.name for path in beside), 5)
    remarks = [f"left out, beside outputs of decode: {names}"] if beside else []
    return [night for night in nights if night.path not in beside], remarks


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # for example if the name is too long
        return False


def _is_file(path: Path) -> bool:
    return _is_there(path) and path.is_file()


def _matching(pattern: Path, wanted: Wanted) -> list[Path]:
    """Return the files a pattern matches, except hidden ones and outputs that this command does not read.

    Such outputs are included if the pattern ends like one: `*.posterior.csv`.
    """
    import glob

    own_suffixes = tuple(suffix for suffix in OWN_SUFFIXES if pattern.name.endswith(suffix))
    paths = map(Path, glob.glob(str(pattern), recursive=True))  # noqa: PTH207 - pathlib's matches hidden files
    files = [
        path for path in paths
        if not is_folder(path) and (not is_own(path, wanted.kind) or path.name.endswith(own_suffixes))
    ]  # fmt: skip
    if not files:
        raise InputError(f"no file matches {str(pattern)!r}. Check the folder and the pattern.")
    return sorted(files, key=natural)


def is_own(path: Path, kind: Kind = "hypnogram") -> bool:
    """Whether `decode` or `report` wrote a file, and commands for this kind of night do not read it."""
    if path.name.endswith(TSV_SUFFIX):
        return kind == "density"
    if (
        path.name.endswith(OWN_SUFFIXES)
        or SLEEP.search(path.name)
        or path.name in (COHORT_TABLE, FAILURES_TABLE, METHODS_TEXT)
    ):
        return True
    if path.suffix != ".toml":
        return False
    return re.fullmatch(rf"profile-[0-9a-f]{{{PROFILE_DIGITS}}}\.toml", path.name) is not None


def _in_folder(folder: Path, wanted: Wanted) -> tuple[list[Path], list[str]]:
    """Return the nights in a folder, and a remark on other files.

    A file of unknown content counts as a night if it has the suffix of one: a file that is cut off or empty,
    a pipe or a broken link must be seen to fail.
    """
    files = [path for path in files_in(folder) if not path.name.startswith(".")]
    candidates = [path for path in sorted(files, key=natural) if not is_own(path, wanted.kind)]
    known = {path: is_night(path, wanted) for path in candidates}
    suffixes = {path.suffix.lower() for path, answer in known.items() if answer}
    nights = [
        path for path, answer in known.items()
        if answer or (answer is None and path.suffix.lower() in suffixes)
    ]  # fmt: skip
    # a folder that `decode` or `stage` wrote is read through its hypnograms
    outputs = [path for path in nights if wanted.kind == "hypnogram" and is_output(path)]
    nights = outputs or nights
    if not nights:
        scored = [path.name for path in candidates if is_night(path, replace(wanted, kind="hypnogram"))]
        if scored:
            what = f"this folder holds labels and no probabilities ({listed(scored, 3)})"
            raise file_error(folder, f"{what}. Name the files: decode takes labels, too.")
        raise file_error(folder, f"this folder holds no {NOUNS[wanted.kind]}. Name files, or another folder.")
    chosen, ids = set(nights), {night_id(path) for path in outputs}
    left = [path.name for path in known if path not in chosen and not is_named_after(path.name, ids)]
    why = "beside outputs of decode" if outputs else f"no {NOUNS[wanted.kind]}"
    return nights, [f"left out in {folder}, {why}: {listed(left, 5)}"] if left else []


def is_named_after(name: str, ids: Collection[str]) -> bool:
    """Whether a file's name is that of a night and a suffix."""
    return any(name[: dot.start()] in ids for dot in re.finditer(r"\.", name))


def scoring_of(night: Input) -> Path | None:
    """Return the file with the expert's scoring of a listed night: its scoring, else the recording."""
    if night.path in (night.scoring, night.edf):
        return None
    if night.scoring is not None or night.edf is None:
        return night.scoring
    try:
        if not is_hypnogram(night.edf):
            return None
        read_hypnogram_file(night.edf, FileOptions())
    except FileFormatError:  # there may be annotations, but no stages
        return None
    return night.edf


Parsed = TypeVar("Parsed")
FILE_COLUMNS = ("probabilities", "scoring", "edf")
LIST_SUFFIXES = (".tsv", ".csv")


def is_sample_list(path: Path) -> bool:
    """Whether a table is a sample list: its header has `id` and a column of files."""
    if path.suffix.lower() not in LIST_SUFFIXES or not path.is_file():
        return False
    head = read_head(path)
    text = head.decode("utf-16" if head.startswith(UTF16_MARKS) else "utf-8-sig", errors="replace")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    cells = {cell.strip(' "').casefold() for cell in re.split(r"[\t;,]", next(lines, ""))}
    return "id" in cells and not cells.isdisjoint(FILE_COLUMNS)


def read_samples(path: Path, kind: Kind) -> list[Input]:
    """Return the nights of a list; a density is in `probabilities`, a hypnogram in any column of files."""
    columns = ("probabilities",) if kind == "density" else FILE_COLUMNS
    used = ("probabilities", "edf") if kind == "density" else FILE_COLUMNS  # scorings are not decoded
    return [_sample(path, number, row, columns, used) for number, row in numbered_rows(path, columns)]


def describe_by(path: Path, nights: Sequence[Input]) -> tuple[list[Input], list[str]]:
    """Return nights as a list describes them, matched by id, and a remark on rows without a night."""
    rows = {}
    for number, row in numbered_rows(path, ("id", *FILE_COLUMNS)):
        name = row.get("id") or night_id(Path(next(row[column] for column in FILE_COLUMNS if column in row)))
        sample = _sample(path, number, row | {"id": name}, (), ("scoring", "edf"))
        source = path.parent / row["probabilities"] if "probabilities" in row else None
        rows[name] = replace(sample, source=source if source and _is_file(source) else None)
    without = [night.id for night in nights if night.id not in rows]
    if without:
        raise file_error(path, f"has no row for {listed(without, 3)}, expected their ids. Add them.")
    described = [replace(rows[night.id], path=night.path) for night in nights]
    named_nights = {night.id for night in nights}
    rest = [name for name in rows if name not in named_nights]
    return described, [f"in {path.name}, but not among the files: {listed(rest, 5)}"] if rest else []


def _sample(
    path: Path, number: int, row: Mapping[str, str], columns: Sequence[str], used: Sequence[str]
) -> Input:
    """Return the night of a row: its file is the first of `columns`; all files in `used` must exist."""
    files = {column: path.parent / row[column] for column in used if column in row}
    file = next((files[column] for column in columns if column in files), Path())
    name = row.get("id") or night_id(file)
    if Path(name).name != name or name.startswith(".") or "\\" in name:
        raise file_error(path, f"row {number}: the id {name[:40]!r} cannot name a file. Leave out / and \\.")
    problems = [
        f"{path.name}, row {number}: {column} {row[column][:200]} is not there. Correct the list."
        for column, needed in files.items()
        if not _is_file(needed)
    ]

    def moment(column: str, parse: Callable[[str], Parsed], words: str) -> Parsed | None:
        try:
            return parse(row[column]) if column in row else None
        except ValueError:
            problem = f"row {number}: {column} {row[column][:40]!r} is not a time, expected {words}."
            raise file_error(path, problem) from None

    return Input(
        file,
        name,
        files.get("scoring"),
        files.get("edf"),
        moment("lights_off", parse_moment, MOMENT_WORDS),
        moment("lights_on", parse_moment, MOMENT_WORDS),
        problems[0] if problems else None,
        is_listed=True,
        start=moment("start", parse_start, START_WORDS),
    )


@dataclass(frozen=True, slots=True)
class Lights:
    """When lights went off and on in a night, and remarks on times that were overruled."""

    off: Moment | None
    on: Moment | None
    notes: tuple[str, ...] = ()


def lights_of(night: Input, off: Moment | None = None, on: Moment | None = None) -> Lights:
    """Return the lights of a night: from the options, else from the list, else as `decode` recorded."""
    recorded = _recorded_lights(night.path)
    notes, chosen = [], []
    for key, option, by_list in (("lights_off", off, night.lights_off), ("lights_on", on, night.lights_on)):
        if option is not None and by_list is not None and option != by_list:
            notes.append(f"--{key.replace('_', '-')} is taken, not the {by_list} of the list")
        stated = by_list if option is None else option
        chosen.append(recorded.get(key) if stated is None else stated)
    return Lights(chosen[0], chosen[1], tuple(notes))


def _recorded_lights(path: Path) -> dict[str, Moment]:
    """Return the lights recorded in the sidecar of an output of `decode`."""
    sidecar = output_paths(path).sidecar
    if not is_output(path) or not sidecar.is_file():
        return {}
    try:
        options = read_sidecar(sidecar)["options"]
        return {key: parse_moment(str(options[key])) for key in ("lights_off", "lights_on") if key in options}
    except (KeyError, TypeError, ValueError) as error:
        raise file_error(sidecar, record_fault(error)) from None


def find_densities(
    files: Sequence[Path], samples: Path | None, profile: Profile | None, options: DecodeOptions
) -> Inputs:
    """Return the nights of probabilities to decode with a profile, if one is given."""
    return find_inputs(files, samples, _wanted_densities(profile, options))


def is_density(path: Path, profile: Profile, options: DecodeOptions) -> bool:
    """Whether a file in a folder is a night of probabilities to decode with a profile."""
    wanted = _wanted_densities(profile, options)
    return not is_own(path, wanted.kind) and is_night(path, wanted) is True


def _wanted_densities(profile: Profile | None, options: DecodeOptions) -> Wanted:
    names = (*(profile.scheme.names if profile else ()), *(options.density.stages or ()))
    return Wanted("density", options.density.format, names)


def with_table_nights(inputs: Inputs) -> Inputs:
    """Replace every table that has the column id by its nights.

    Of tables with the same nights, the first is read: `out.csv` and not `out.parquet`, which a remark names;
    a table of another name may be another stager's, and fails.
    """
    nights: list[Input] = []
    notes: list[str] = []
    tables: dict[frozenset[str], Path] = {}
    for night in inputs.nights:
        files = {} if night.error is not None else nights_of(night.path)
        first = tables.setdefault(frozenset(files), night.path) if files else night.path
        if first == night.path:
            of_table = [replace(night, path=path, id=name, table=first) for name, path in files.items()]
            nights += of_table or [night]
        elif first.with_suffix("") == night.path.with_suffix(""):
            notes.append(f"left out, holds the nights of {first.name}: {night.path.name}")
        else:
            problem = f"{night.path.name}: holds the same nights as {first.name}. Name one of the two."
            nights.append(replace(night, error=problem))
    return Inputs(tuple(nights), (*inputs.notes, *notes), inputs.is_cohort or len(nights) > 1)


def named_once(inputs: Inputs) -> Inputs:
    """Return the nights, with an error for each whose name occurred before."""
    first: dict[str, Input] = {}
    nights = []
    for night in inputs.nights:
        other = first.setdefault(night.id, night)
        if other is not night and night.error is None:
            problem = f"{night.path.name}: is night {night.id!r} like {other.path.name}."
            night = replace(night, error=f"{problem} Rename one, or leave one out.")
        nights.append(night)
    return replace(inputs, nights=tuple(nights))


def nights_of(path: Path) -> dict[str, Path]:
    """Return a temporary file for each night of a table, by id; none for any other file."""
    is_table = re.search(r"\.(csv|tsv|parquet|pq)$", path.name.lower()) and not path.name.endswith(TSV_SUFFIX)
    if not is_table or not path.is_file():
        return {}
    from stageguard.formats.cohort_split import split_table  # which one night does without

    folder = TemporaryDirectory(prefix="stageguard-")
    files: dict[str, Path] = {}
    try:
        files = split_table(path, Path(folder.name))
    except UnicodeDecodeError:  # not text: reading it as a night will raise the error
        return {}
    finally:
        if not files:
            folder.cleanup()
    if files:
        _table_folders.append(folder)
    return files


@dataclass(frozen=True, slots=True)
class Wanted:
    """What counts as a night: its kind, its format if named, and additional stage names."""

    kind: Kind
    format: str | None = None
    stages: Collection[str] = ()

    def check(self) -> None:
        """Refuse an unknown format, once instead of for every file."""
        if self.format is None:
            return
        able = {form.name for form in formats() if form.does("density") or form.does("hypnogram")}
        if self.format not in able:
            named(self.format, "density")


def is_night(path: Path, wanted: Wanted) -> bool | None:
    """Whether a file in a folder is a night by its content; None if the content is of no known kind."""
    if path.name.endswith(TSV_SUFFIX):
        return True
    if wanted.format is not None:
        suffixes = next((form.suffixes for form in formats() if form.name == wanted.format), ())
        return path.name.lower().endswith(suffixes)
    kinds: tuple[Kind, ...] = ("density",) if wanted.kind == "density" else ("density", "hypnogram")
    answers = [_is_of_kind(path, kind, wanted.stages) for kind in kinds]
    return True if True in answers else False if False in answers else None


def _is_of_kind(path: Path, kind: Kind, stages: Collection[str]) -> bool | None:
    """Whether a file is of a kind; a table of any program must have the suffix of one, and name stages."""
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
    if not any(path.name.lower().endswith(each.suffixes) for each in formats()):
        return False
    text = read_head(path).decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines()[:HEADER_SEARCH_LINES] if line.strip()]
    rows = [split_line(line, max(DELIMITERS, key=line.count)) for line in lines]
    if any(sum(canonical_name(cell) is not None or cell in stages for cell in row) > 1 for row in rows):
        return True
    return kind == "hypnogram" and (
        any(row and is_stage(row[0], None) for row in rows[:1])
        or any(stage_column(row) is not None for row in rows)
        or column_of_stages(lines, is_only=True) is not None
    )


def _is_scored(path: Path) -> bool:
    """Whether a recording holds stages; if they cannot be read, reading the night will raise the error."""
    try:
        read_hypnogram_file(path, FileOptions())
    except FileFormatError as error:
        return error.code != "no-stages"
    except (InputError, OSError):
        pass
    return True

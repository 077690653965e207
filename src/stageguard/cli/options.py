"""Options that several commands share, single and in groups."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any, get_args

import click

from stageguard.cli.command import MORE, Function, more, option, packed
from stageguard.errors import InputError, StageGuardError
from stageguard.formats.companions import (
    MOMENT_WORDS,
    START_WORDS,
    parse_moment,
    parse_pins,
    parse_start,
    read_quality,
)
from stageguard.formats.night import FileOptions
from stageguard.profile.profile import Profile
from stageguard.profile.stagers import Training
from stageguard.runner.decode_one import DecodeOptions, read_with
from stageguard.runner.pool import Cluster
from stageguard.storage import is_folder, local_only, location

TABLES = (".csv", ".tsv", ".parquet")  # suffixes of an output that is a table
# Suffixes of files that are not written, so that an output of such a name is refused.
OTHER_FILES = (
    *(".json", ".txt", ".edf", ".xml", ".html", ".svg", ".png", ".pdf", ".xlsx", ".npz", ".npy"),
    *(".mat", ".h5", ".fif", ".toml"),
)


class PathType(click.Path):
    """A file or a folder, which need not exist: the command says what is wrong with it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, on this computer or in a store; refuse what names no file."""
        text = str(value)
        if not text.strip():  # as from an unset variable: Path("") would be the current folder
            self.fail("an empty name, expected a file or a folder.", param, ctx)
        if "\0" in text:
            self.fail(f"{text!r} holds a zero character, which no path has.", param, ctx)
        return location(value if isinstance(value, Path) else text)


class LocalPathType(PathType):
    """A file or a folder of this computer, for commands that change files in place."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; refuse an address."""
        return local_only(super().convert(value, param, ctx), "this command")


class OutputType(PathType):
    """The folder of outputs, or a file whose suffix is one of `suffixes`."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__()
        self._suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; refuse the name of a file of another kind."""
        path = super().convert(value, param, ctx)
        suffix = path.suffix.lower()
        if suffix in (*TABLES, *OTHER_FILES) and suffix not in self._suffixes and not is_folder(path):
            table = f", or a table named {', '.join(self._suffixes)}" if self._suffixes else ""
            self.fail(f"{path.name!r} names a file, expected a folder{table}.", param, ctx)
        return path


class Number(click.FloatRange):
    """A number within bounds, which NaN never is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class NumberOrWord(Number):
    """A number within bounds, or one of some words."""

    def __init__(self, *words: str, min: float, max: float) -> None:
        super().__init__(min=min, max=max)
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word or the number."""
        return value if value in self._words else super().convert(value, param, ctx)


class Time(click.ParamType):  # type: ignore[type-arg] # older versions of click take none
    """A time, as `parse` reads it."""

    name = "time"

    def __init__(self, parse: Callable[[str], Any], words: str) -> None:
        self._parse, self._words = parse, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time."""
        try:
            return self._parse(value)
        except ValueError:
            assert param is not None
            raise InputError(f"{param.opts[0]} is {value!r}, expected {self._words}.") from None


PATH = PathType()
HERE = LocalPathType()
MOMENT = Time(parse_moment, MOMENT_WORDS)
START = Time(parse_start, START_WORDS)
SECONDS = Number(min=0.1, max=3600)
COUNT = click.IntRange(min=0)
SCHEME = click.Choice(["aasm5", "wldr4", "wnr3", "ws2"])
DEVICE = click.Choice(["auto", "cpu", "cuda"])
TRAINED = get_args(Training)


def output(metavar: str, text: str, kind: PathType = PATH, **settings: Any) -> Callable[[Function], Function]:
    """Declare where a command writes."""
    return option("--output", "-o", metavar=metavar, type=kind, help=text, **settings)


def experts(text: str) -> Callable[[Function], Function]:
    """Declare the scorings of one or several experts."""
    return option("--expert", metavar="FOLDER", type=PATH, multiple=True, help=text)


profile = option(
    "--profile", "-p", metavar="NAME", required=True, help="Name (stageguard profiles) or .toml file."
)
overwrite = option("--overwrite", is_flag=True, help="Replace existing outputs.")
as_json = option("--json", "as_json", is_flag=True, help="Print JSON only.")
jobs = option("--jobs", metavar="N", type=COUNT, default=1, help="Processes at a time; 0 means one per core.")
grade_card = option(
    "--grade", metavar="CARD.json", type=PATH, help="Grade card of the stager: adds its verdicts."
)
lights_on_phase = option(
    "--lights-on-phase", metavar="07:00", help="For rodents: when the lights go on. Adds light and dark."
)
density_files = click.argument(
    "files", nargs=-1, type=PATH, help="Probabilities (CSV, .npy, ...), folders, patterns or a sample list."
)
scored_files = click.argument(
    "files", nargs=-1, type=PATH, help="Hypnograms or probabilities, folders, patterns or a sample list."
)

sample_list = option(
    *("--list", "samples"),
    metavar="SAMPLES.tsv",
    type=PATH,
    heading=MORE,
    help="Table of id, probabilities, scoring, edf, start, lights.",
)
start = more("--start", "TIME", "Start of files that do not say it: 22:30, 2024-05-01T22:30.", type=START)
cohort = more("--cohort", "NAME", "Diagnosis or group (narcolepsy). Some profiles warn or refuse.")
stager = more("--stager", "NAME", "The stager, for a profile tuned or fitted to one.")
trained = more(
    *("--trained", "|".join(TRAINED), "How the stager was trained. Default: by its format, or balanced."),
    type=click.Choice(TRAINED),
)
scheme = more("--scheme", "NAME", "Merge into aasm5, wldr4, wnr3 or ws2.", type=SCHEME)
aligned = more("--align", None, "Compare the epochs all have, at the first expert's epoch length.")
expert_epoch_seconds = more(
    *("--expert-epoch-seconds", "SECONDS", "Epoch length of experts' files that do not say it."), type=SECONDS
)
column = more("--column", "NAME", "Column of the stages in tables of scorings, or annotator.")
scoring_format = more("--scoring-format", "NAME", "Format of scorings, if unclear: numbers-yasa, ...")
scheduler = more(
    "--scheduler", "ADDRESS", "Dask cluster: tcp://HOST:PORT or local; --wait-for-workers MINUTES."
)
wait_for_workers = more(
    *("--wait-for-workers", "MINUTES", "Longest wait for the first worker. Default: 10 s."),
    type=Number(min=0, max=10_000),
    hidden=True,
)


def _cluster(scheduler: str | None, wait_for_workers: float | None) -> Cluster | None:
    if scheduler is None:
        if wait_for_workers is not None:
            raise click.UsageError("--wait-for-workers goes with --scheduler, which is not given.")
        return None
    return Cluster(scheduler, wait_for_workers)


cluster = packed("cluster", _cluster, scheduler, wait_for_workers)


def column_names(stages: str | None) -> tuple[str, ...] | None:
    """Return the names in a comma-separated list."""
    return None if stages is None else tuple(part.strip() for part in stages.split(","))


def parse_pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    """Return the pairs of ``KEY=VALUE`` options."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not key or not value:
            raise click.UsageError(f"{option} is {text!r}, expected {example}.")
        if pairs.setdefault(key, value) != value:
            raise click.UsageError(f"{option} says {key!r} twice. Keep one.")
    return pairs


def parse_dataset_options(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Return the options of a dataset's reader, with booleans and numbers converted."""
    pairs = parse_pairs(texts, option, "KEY=VALUE, such as scheme=wnr3")
    return {key: _typed(text) for key, text in pairs.items()}


def _typed(text: str) -> str | int | float | bool:
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,9}\.\d{1,9}", text) else text


LIGHTS = (
    option(
        "--lights-off",
        metavar="TIME",
        type=MOMENT,
        help="Lights off: 22:30, or seconds from the start; likewise --lights-on.",
    ),
    option("--lights-on", metavar="TIME", type=MOMENT, hidden=True, help="Lights on, likewise."),
)
lights = packed("lights", lambda lights_off, lights_on: (lights_off, lights_on), *LIGHTS)

epoch_seconds = more(
    *("--epoch-seconds", "SECONDS", "Epoch length. Default: the file's, else the profile's, else 30."),
    type=SECONDS,
)
logits = more("--logits", None, "Files hold logits, or with --log log-probabilities.")
log = more("--log", None, "Files hold log-probabilities.", hidden=True)
stages = more("--stages", "W,N1,...", "Columns in order; needed for bare arrays.")
file_format = more("--format", "NAME", "Format of probabilities, if unclear: usleep-npy, ...")
pool = more("--pool", "SECONDS", "Average shorter rows to epochs of this length.", type=SECONDS)
normalize = more("--normalize", None, "Rescale rows that sum to 0.98–1.02.")
READING = (epoch_seconds, logits, log, stages, file_format, pool, normalize)


def file_options(
    epoch_seconds: float | None,
    logits: bool,
    log: bool,
    stages: str | None,
    format: str | None,
    pool: float | None,
    normalize: bool,
) -> FileOptions:
    """Return how files are read."""
    if logits and log:
        raise click.UsageError("--logits and --log exclude each other: give the one the files hold.")
    return FileOptions(
        stages=column_names(stages),
        epoch_seconds=epoch_seconds,
        logits=logits,
        log=log,
        format=format,
        pool_to_seconds=pool,
        normalize=normalize,
    )


reading = packed("reading", file_options, *READING)


def _decode_options(
    cohort: str | None, stager: str | None, trained: Training | None, **reading: Any
) -> DecodeOptions:
    return DecodeOptions(file_options(**reading), cohort=cohort, stager=stager, trained=trained)


decoding = packed("options", _decode_options, cohort, stager, trained, *READING)


@dataclass(frozen=True, slots=True)
class Companions:
    """The signal quality and the pins of one night: files, or pins as they were typed."""

    quality: Path | None
    pins: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.quality is not None or bool(self.pins)

    @property
    def files(self) -> list[Path]:
        """The files among them that exist."""
        paths = [*([] if self.quality is None else [self.quality]), *map(Path, self.pins)]
        return [path for path in paths if path.is_file()]

    def add_to(
        self, options: DecodeOptions, nights: Sequence[Path], profile: Profile | None
    ) -> DecodeOptions:
        """Return options with the pins and the quality of the one night they are for."""
        if self and len(nights) > 1:
            raise click.UsageError("--quality and --pins belong to one file: take the files one by one.")
        if self.pins:
            options = replace(options, pins=parse_pins(self.pins))
        if self.quality is None:
            return options
        table = read_quality(self.quality)
        unmatched = replace(options, quality=table.values)
        if profile is None:  # an output of `decode`, for which the caller refuses options
            return unmatched
        used = profile.for_nights_of(options.stager, options.cohort)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same warnings follow when the night is decoded
                density = read_with(nights[0], profile, options.density, used).density
        except (StageGuardError, OSError):  # the same error follows
            return unmatched
        return replace(options, quality=table.of(density))


companions = packed(
    "companions",
    Companions,
    more("--quality", "FILE", "Signal quality per epoch, 0 clean to 1 lost (.npy or table).", type=PATH),
    more("--pins", "120=R|FILE", "Epochs you are sure of, counted from 1, or a table.", multiple=True),
)

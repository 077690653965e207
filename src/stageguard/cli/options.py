"""Options that several commands share, single and in groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any, get_args

import click
from click.shell_completion import CompletionItem

from stageguard.base.errors import InputError
from stageguard.base.files import refuse_address
from stageguard.cli.command import option, packed
from stageguard.formats.companions import MOMENT_WORDS, parse_moment
from stageguard.formats.raw_night import FileOptions
from stageguard.guard.options import Training
from stageguard.night.timing import Moment
from stageguard.runner.decode_one import DecodeOptions


class PathType(click.Path):
    """A file or a folder, which need not exist: the command says what is wrong with it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; refuse what names no file, such as an address of the web."""
        text = str(value)
        if not text.strip():  # as from an unset variable: Path("") would be the current folder
            self.fail("an empty name, expected a file or a folder.", param, ctx)
        if "\0" in text:
            self.fail(f"{text!r} holds a zero character, which no path has.", param, ctx)
        refuse_address(text)
        return Path(text)


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

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows for the value."""
        return f"[{'|'.join(self._words)}|NUMBER]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word or the number."""
        return value if value in self._words else super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin like this."""
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


PATH = PathType()
SECONDS = Number(min=0.1, max=3600)
COUNT = click.IntRange(min=0)
SCHEME = click.Choice(["aasm5", "wldr4", "wnr3", "ws2"])
DEVICE = click.Choice(["auto", "cpu", "cuda"])

HOW_READ = "How files are read"
WHAT_ELSE = "What else is known of a night"

profile_option = option(
    "--profile",
    "-p",
    metavar="NAME",
    required=True,
    help="Name (see: stageguard profiles) or a .toml file.",
)
stages_option = option(
    "--stages",
    metavar="W,N1,...",
    heading=HOW_READ,
    help="Names of the columns in order. Needed for bare arrays.",
)
epoch_seconds_option = option(
    "--epoch-seconds",
    metavar="SECONDS",
    type=SECONDS,
    heading=HOW_READ,
    help="Epoch length. Default: the file's, else the profile's, else 30.",
)
format_option = option(
    "--format",
    metavar="NAME",
    heading=HOW_READ,
    help="Who wrote the probabilities, where content cannot tell: usleep-npy, ...",
)
scheme_option = option(
    "--scheme",
    type=SCHEME,
    heading=HOW_READ,
    help="Scheme of the hypnograms; finer stages are merged into it.",
)
scoring_format_option = option(
    "--scoring-format",
    metavar="NAME",
    heading=HOW_READ,
    help="Who wrote the scorings, where content cannot tell: numbers-yasa, ...",
)
cohort_option = option(
    "--cohort",
    metavar="NAME",
    heading=WHAT_ELSE,
    help="Who was recorded, e.g. narcolepsy: warns or refuses if need be.",
)
stager_option = option(
    "--stager",
    metavar="NAME",
    heading=WHAT_ELSE,
    help="Whose probabilities these are, where the profile is tuned or fitted to one.",
)
overwrite_option = option("--overwrite", is_flag=True, help="Replace existing outputs.")
json_option = option("--json", "as_json", is_flag=True, help="Print JSON only.")
jobs_option = option(
    "--jobs",
    metavar="N",
    type=COUNT,
    default=1,
    help="Files, or blocks of a table, at a time; 0 means one per core.",
)
scheduler_option = option(
    "--scheduler",
    metavar="tcp://HOST:PORT|local",
    help="Run on a Dask cluster; its workers see the same folders.",
)
density_files_argument = click.argument(
    "files",
    nargs=-1,
    type=PATH,
    help="Probabilities (CSV, .npy, YASA JSON ...), folders of them, quoted patterns, or a sample list.",
)
scored_files_argument = click.argument(
    "files",
    nargs=-1,
    type=PATH,
    help="Hypnograms or probabilities, folders of them, quoted patterns, or a sample list.",
)
output_folder_option = option(
    "--output", "-o", metavar="FOLDER", type=PATH, help="For the outputs. Default: beside each file."
)
sample_list_option = option(
    "--list",
    "samples",
    metavar="SAMPLES.tsv",
    type=PATH,
    help="Table of nights: id, probabilities, scoring, edf, start, lights_off, lights_on. With FILES, it "
    "tells more about them.",
)
lights_on_phase_option = option(
    "--lights-on-phase",
    metavar="07:00",
    help="For rodents: when the lights go on. Adds light, dark and hours.",
)
start_option = option(
    "--start", metavar="TIME", help="When files begin that do not say so: 22:30, or 2024-05-01T22:30."
)


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


def parse_dataset_options(texts: Sequence[str], option: str) -> dict[str, str | int | float | bool]:
    """Return the options of a dataset's reader, with booleans and numbers converted."""
    pairs = parse_pairs(texts, option, "KEY=VALUE, such as scheme=wnr3")
    return {key: _typed(text) for key, text in pairs.items()}


def _typed(text: str) -> str | int | float | bool:
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,9}\.\d{1,9}", text) else text


def _lights(lights_off: str | None, lights_on: str | None) -> tuple[Moment | None, Moment | None]:
    return _moment(lights_off, "--lights-off"), _moment(lights_on, "--lights-on")


def _moment(text: str | None, option: str) -> Moment | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected {MOMENT_WORDS}.") from None


lights_options = packed(
    "lights",
    _lights,
    option(
        "--lights-off",
        metavar="TIME",
        help="Lights off: 22:30, or seconds since the beginning of the recording.",
    ),
    option("--lights-on", metavar="TIME", help="Lights on, likewise."),
)


def refuse_two_scales(*, logits: bool, log: bool) -> None:
    """Refuse options that contradict each other."""
    if logits and log:
        raise click.UsageError("--logits and --log exclude each other: give the one the files hold.")


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
    refuse_two_scales(logits=logits, log=log)
    return FileOptions(
        stages=column_names(stages),
        epoch_seconds=epoch_seconds,
        logits=logits,
        log=log,
        format=format,
        pool_to_seconds=pool,
        normalize=normalize,
    )


logits_option = option("--logits", is_flag=True, heading=HOW_READ, help="Probability files hold logits.")
log_option = option("--log", is_flag=True, heading=HOW_READ, help="Probability files hold log-probabilities.")
pool_option = option(
    "--pool",
    metavar="SECONDS",
    type=SECONDS,
    heading=HOW_READ,
    help="Average shorter rows of probabilities to epochs of this length.",
)
normalize_option = option(
    "--normalize",
    is_flag=True,
    heading=HOW_READ,
    help="Divide rows that rounding took off a sum of 1, by 0.02 at most.",
)
READING = (
    *(epoch_seconds_option, logits_option, log_option, stages_option),
    *(format_option, pool_option, normalize_option),
)
reading_options = packed("reading", file_options, *READING)


def _decode_options(
    cohort: str | None, stager: str | None, trained: Training | None, **reading: Any
) -> DecodeOptions:
    return DecodeOptions(file_options(**reading), cohort=cohort, stager=stager, trained=trained)


decoding_options = packed(
    "options",
    _decode_options,
    *READING,
    cohort_option,
    stager_option,
    option(
        "--trained",
        type=click.Choice(get_args(Training)),
        heading=WHAT_ELSE,
        help="How the stager was trained; unknown counts as balanced.",
    ),
)
quality_option = option(
    "--quality",
    metavar="FILE",
    type=PATH,
    heading=WHAT_ELSE,
    help="Signal quality per epoch, 0 clean to 1 lost (.npy or table).",
)
pins_option = option(
    "--pins",
    metavar="120=R|FILE",
    multiple=True,
    heading=WHAT_ELSE,
    help="Epochs you are sure of (counted from 1), or a table with epoch and stage.",
)


def check_one_file(n_files: int, quality: Path | None, pins: Sequence[str]) -> None:
    """Refuse several files with options that belong to one file."""
    if n_files > 1 and (quality is not None or pins):
        raise click.UsageError("--quality and --pins belong to one file: take the files one by one.")


def files_named(quality: Path | None, pins: Sequence[str]) -> list[Path]:
    """Return the existing files that these options name."""
    paths = [*([] if quality is None else [quality]), *map(Path, pins)]
    return [path for path in paths if path.is_file()]

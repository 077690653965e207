"""Options that several commands share, single and in groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from stageguard.base.errors import InputError
from stageguard.cli.parser import Argument, Option, UsageError
from stageguard.formats.companions import MOMENT_WORDS, parse_moment
from stageguard.night.moments import Moment

SchemeNames = Literal["aasm5", "wldr4", "wnr3", "ws2"]


def output_option(metavar: str, help: str) -> Option:
    """Return the option that says where to write."""
    return Option("--output", "-o", metavar=metavar, help=help)


def profile_option(help: str) -> Option:
    """Return the option that names a profile."""
    return Option("--profile", "-p", metavar="NAME", help=help)


def seconds_option(help: str) -> Option:
    """Return an option for an epoch length."""
    return Option(metavar="SECONDS", min=0.1, max=3600, help=help)


def text_option(metavar: str, help: str, *names: str) -> Option:
    """Return an option for a text, or for a value that is read from a text."""
    return Option(*names, metavar=metavar, help=help)


Text = str | None
File = Path | None

ProfileName = Annotated[str, profile_option("Name (see: stageguard profiles) or a .toml file.")]
Stages = Annotated[Text, text_option("W,N1,...", "Names of the columns in order. Needed for bare arrays.")]
EpochSeconds = Annotated[
    float | None, seconds_option("Epoch length. Default: the file's, else the profile's, else 30.")
]
Quality = Annotated[File, text_option("FILE", "Signal quality per epoch, 0 clean to 1 lost (.npy or table).")]
Pins = Annotated[
    list[str] | None,
    text_option("120=R|FILE", "Epochs you are sure of (counted from 1), or a table with epoch and stage."),
]
Cohort = Annotated[
    Text, text_option("NAME", "Who was recorded, e.g. narcolepsy: warns or refuses if need be.")
]
Stager = Annotated[
    Text, text_option("NAME", "Whose probabilities these are, where the profile is tuned or fitted to one.")
]
TrainedOn = Annotated[
    Literal["natural", "balanced"] | None,
    Option(help="How the stager was trained; unknown counts as balanced."),
]
FormatName = Annotated[
    Text,
    text_option(
        "NAME", "Who wrote the probabilities, where content cannot tell: usleep-npy, ...", "--format"
    ),
]
Pool = Annotated[
    float | None, seconds_option("Average shorter rows of probabilities to epochs of this length.")
]
Logits = Annotated[bool, Option("--logits", help="Probability files hold logits.")]
Log = Annotated[bool, Option("--log", help="Probability files hold log-probabilities.")]
Normalize = Annotated[
    bool, Option("--normalize", help="Divide rows that rounding took off a sum of 1, by 0.02 at most.")
]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace existing outputs.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON only.")]
Jobs = Annotated[
    int, Option(min=0, metavar="N", help="Files, or blocks of a table, at a time; 0 means one per core.")
]
Scheduler = Annotated[
    Text, text_option("tcp://HOST:PORT|local", "Run on a Dask cluster; its workers see the same folders.")
]
DensityFiles = Annotated[
    list[Path] | None,
    Argument(
        "FILES",
        "Probabilities (CSV, .npy, YASA JSON ...), folders of them, quoted patterns, or a sample list.",
    ),
]
ScoredFiles = Annotated[
    list[Path] | None,
    Argument("FILES", "Hypnograms or probabilities, folders of them, quoted patterns, or a sample list."),
]
OutputFolder = Annotated[File, output_option("FOLDER", "For the outputs. Default: beside each file.")]
SampleList = Annotated[
    File,
    text_option(
        "SAMPLES.tsv",
        "Table of nights: id, probabilities, scoring, edf, start, lights_off, lights_on. With FILES, it "
        "tells more about them.",
        "--list",
    ),
]
ScoringFormat = Annotated[
    Text, text_option("NAME", "Who wrote the scorings, where content cannot tell: numbers-yasa, ...")
]
StageColumn = Annotated[
    Text, text_option("NAME", "Column of the stages in tables of scorings, where its name does not tell.")
]
SchemeName = Annotated[
    SchemeNames | None,
    Option("--scheme", help="Scheme of the hypnograms; finer stages are merged into it."),
]
LightsOff = Annotated[
    Text, text_option("TIME", "Lights off: 22:30, or seconds since the beginning of the recording.")
]
LightsOn = Annotated[Text, text_option("TIME", "Lights on, likewise.")]
LightsOnPhase = Annotated[
    Text, text_option("07:00", "For rodents: when the lights go on. Adds light, dark and hours.")
]
Start = Annotated[
    Text, text_option("TIME", "When files begin that do not say so: 22:30, or 2024-05-01T22:30.")
]


Device = Literal["auto", "cpu", "cuda"]


def column_names(stages: str | None) -> tuple[str, ...] | None:
    """Return the names in a comma-separated list."""
    return None if stages is None else tuple(part.strip() for part in stages.split(","))


def parse_pairs(texts: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """Return the pairs of ``KEY=VALUE`` options."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        key, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not key or not value:
            raise UsageError(f"{option} is {text!r}, expected {example}.")
        if pairs.setdefault(key, value) != value:
            raise UsageError(f"{option} says {key!r} twice. Keep one.")
    return pairs


def parse_dataset_options(texts: Sequence[str] | None, option: str) -> dict[str, str | int | float | bool]:
    """Return the options of a dataset's reader, with booleans and numbers converted."""
    pairs = parse_pairs(texts, option, "KEY=VALUE, such as scheme=wnr3")
    return {key: _typed(text) for key, text in pairs.items()}


def _typed(text: str) -> str | int | float | bool:
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,9}\.\d{1,9}", text) else text


@dataclass(frozen=True, slots=True)
class LightsTimes:
    """When lights went off and on."""

    lights_off: LightsOff = None
    lights_on: LightsOn = None

    def moments(self) -> tuple[Moment | None, Moment | None]:
        """Return when lights went off and on."""
        return _moment(self.lights_off, "--lights-off"), _moment(self.lights_on, "--lights-on")


def _moment(text: str | None, option: str) -> Moment | None:
    try:
        return None if text is None else parse_moment(text)
    except ValueError:
        raise InputError(f"{option} is {text!r}, expected {MOMENT_WORDS}.") from None


@dataclass(frozen=True, slots=True)
class Rows:
    """What rows of probabilities hold: logits, log-probabilities or neither; and their epoch length."""

    HEADING: ClassVar = "How files are read"

    epoch_seconds: EpochSeconds = None
    logits: Logits = False
    log: Log = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if self.logits and self.log:
            raise UsageError("--logits and --log exclude each other: give the one the files hold.")


@dataclass(frozen=True, slots=True)
class Reading(Rows):
    """How files of probabilities are read."""

    stages: Stages = None
    format: FormatName = None
    pool: Pool = None
    normalize: Normalize = False


@dataclass(frozen=True, slots=True)
class ScoredReading(Reading):
    """How files of hypnograms or probabilities are read."""

    scheme: SchemeName = None
    scoring_format: ScoringFormat = None
    column: StageColumn = None


@dataclass(frozen=True, slots=True)
class DecodingGiven(Reading):
    """How files of probabilities are read, and what else is known for their decoding."""

    HEADING: ClassVar = "What else is known of a night"

    quality: Quality = None
    pins: Pins = None
    cohort: Cohort = None
    stager: Stager = None
    trained: TrainedOn = None

    @property
    def files(self) -> list[Path]:
        """The existing files that the options name."""
        paths = [*([] if self.quality is None else [self.quality]), *map(Path, self.pins or ())]
        return [path for path in paths if path.is_file()]

    def check_one_file(self, n_files: int) -> None:
        """Refuse several files with options that belong to one file."""
        if n_files > 1 and (self.quality is not None or self.pins):
            raise UsageError("--quality and --pins belong to one file: take the files one by one.")

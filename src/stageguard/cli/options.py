"""Options that several commands share, one by one and in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose help tells what arguments are for, not which Python types they have."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for own in self.params:
            if own.param_type_name == "argument":
                own.display_type_rich = lambda ctx: None  # type: ignore[attr-defined]


SchemeNames = Literal["aasm5", "wldr4", "wnr3", "ws2"]


def given_path(text: str) -> Path:
    """Return a path; an empty one, such as a variable that was never set, is no folder to work in."""
    if not text.strip():
        raise typer.BadParameter("an empty name, expected a file or a folder.")
    return Path(text)


def one_of(names: Iterable[str]) -> dict[str, Any]:
    """Return what makes an option one of some names, for names that stand in a table."""
    known = tuple(names)

    def parse(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(map(repr, known))}.")
        return text

    return {"parser": parse, "metavar": f"<{'|'.join(known)}>"}


def check_epoch_seconds(seconds: float | None) -> float | None:
    """Refuse what is no length of an epoch."""
    if seconds is not None and not 0.1 <= seconds <= 3600:  # NaN is neither
        raise typer.BadParameter(f"{seconds:g} is not a length of 0.1 to 3600 seconds, for example 30.")
    return seconds


def path_argument(metavar: str, help: str) -> Any:
    """Return an argument that names files."""
    return typer.Argument(metavar=metavar, parser=given_path, help=help)


def path_option(metavar: str, help: str, *names: str) -> Any:
    """Return an option that names a file or a folder."""
    return typer.Option(*names, metavar=metavar, parser=given_path, help=help)


def output_option(metavar: str, help: str) -> Any:
    """Return the option that says where to write."""
    return path_option(metavar, help, "--output", "-o")


def profile_option(help: str) -> Any:
    """Return the option that names a profile."""
    return typer.Option("--profile", "-p", metavar="NAME", help=help)


def seconds_option(help: str) -> Any:
    """Return an option that is a length of epochs."""
    return typer.Option(metavar="SECONDS", callback=check_epoch_seconds, help=help)


def text_option(metavar: str, help: str, *names: str) -> Any:
    """Return an option that is a text, or something that is read from it."""
    return typer.Option(*names, metavar=metavar, help=help)


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
    text_option("120=R|FILE", "Epochs you are sure of (from 0), or a table with epoch and stage."),
]
Cohort = Annotated[
    Text, text_option("NAME", "Who was recorded, e.g. narcolepsy: warns or refuses if need be.")
]
Stager = Annotated[
    Text, text_option("NAME", "Whose probabilities these are, where the profile is tuned or fitted to one.")
]
TrainedOn = Annotated[
    Literal["natural", "balanced"] | None,
    typer.Option(help="How the stager was trained; unknown counts as balanced."),
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
Logits = Annotated[bool, typer.Option("--logits", help="Probability files hold logits.")]
Log = Annotated[bool, typer.Option("--log", help="Probability files hold log-probabilities.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Jobs = Annotated[int, typer.Option(min=0, metavar="N", help="Files at a time; 0 means one per core.")]
DensityFiles = Annotated[
    list[Path] | None,
    path_argument(
        "FILES",
        "Probabilities (CSV, .npy, YASA JSON ...), folders of them, quoted patterns, or a sample list.",
    ),
]
ScoredFiles = Annotated[
    list[Path] | None,
    path_argument(
        "FILES", "Hypnograms or probabilities, folders of them, quoted patterns, or a sample list."
    ),
]
OutputFolder = Annotated[File, output_option("FOLDER", "For the outputs. Default: beside each file.")]
SampleList = Annotated[
    File,
    path_option(
        "SAMPLES.tsv",
        "Columns id, probabilities, scoring, edf, start, lights_off, lights_on. FILES: about these.",
        "--list",
    ),
]
ScoringFormat = Annotated[
    Text, text_option("NAME", "Who wrote the scorings, where content cannot tell: numbers-yasa, ...")
]
SchemeName = Annotated[
    SchemeNames | None,
    typer.Option("--scheme", help="Scheme of the hypnograms; finer stages are merged into it."),
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
    """Return the names between commas."""
    return None if stages is None else tuple(part.strip() for part in stages.split(","))


def parse_pairs(texts: Sequence[str] | None, option: str, example: str) -> dict[str, str]:
    """Return what ``KEY=VALUE`` options say."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        key, mark, value = (part.strip() for part in text.partition("="))
        if not mark or not key or not value:
            raise typer.BadParameter(f"{option} is {text!r}, expected {example}.")
        if pairs.setdefault(key, value) != value:
            raise typer.BadParameter(f"{option} says {key!r} twice. Keep one.")
    return pairs


def parse_dataset_options(texts: Sequence[str] | None, option: str) -> dict[str, str | int | float | bool]:
    """Return the options of a dataset's reader: true, false and numbers as what they are."""
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


@dataclass(frozen=True, slots=True)
class Rows:
    """What rows of probabilities are: logits, log-probabilities or neither, of which epoch length."""

    epoch_seconds: EpochSeconds = None
    logits: Logits = False
    log: Log = False

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.logits and self.log:
            raise typer.BadParameter("--logits and --log exclude each other: give the one the files hold.")


@dataclass(frozen=True, slots=True)
class Reading(Rows):
    """How files of probabilities are read."""

    stages: Stages = None
    format: FormatName = None
    pool: Pool = None


@dataclass(frozen=True, slots=True)
class ScoredReading(Reading):
    """How files of hypnograms or probabilities are read."""

    scheme: SchemeName = None
    scoring_format: ScoringFormat = None


@dataclass(frozen=True, slots=True)
class DecodingGiven(Reading):
    """How files of probabilities are read, and what goes into their decoding besides."""

    quality: Quality = None
    pins: Pins = None
    cohort: Cohort = None
    stager: Stager = None
    trained: TrainedOn = None

    @property
    def files(self) -> list[Path]:
        """The files among them, as far as they are there."""
        given = [*([] if self.quality is None else [self.quality]), *map(Path, self.pins or ())]
        return [path for path in given if path.is_file()]

    def check_one_file(self, n_files: int) -> None:
        """Refuse several files where something belongs to one of them."""
        if n_files > 1 and (self.quality is not None or self.pins):
            raise typer.BadParameter("--quality and --pins belong to one file: take the files one by one.")


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of a group in the place of a parameter that is a group.

    Typer makes an option of each parameter; a parameter whose type is a dataclass of options, such as
    `Reading`, stands for all of them, so that commands list them once and pass them on together.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in signature(command).parameters.values():
        hint = hints[parameter.name]
        if not is_dataclass(hint):
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = hint
        kinds = get_type_hints(hint, include_extras=True)
        parameters += [
            Parameter(item.name, Parameter.KEYWORD_ONLY, default=item.default, annotation=kinds[item.name])
            for item in fields(hint)
        ]

    @wraps(command)
    def spread_out(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{item.name: given.pop(item.name) for item in fields(group)})
        command(**given)

    spread_out.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    spread_out.__annotations__ = {each.name: each.annotation for each in parameters}
    return spread_out

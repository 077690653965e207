"""Options that several commands share. Declares them only."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand


class PlainCommand(TyperCommand):
    """A command whose help tells what arguments are for, not which Python types they have."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for own in self.params:
            if own.param_type_name == "argument":
                own.display_type_rich = lambda ctx: None  # type: ignore[attr-defined]


class Trained(StrEnum):
    """How the stager's training nights were weighted."""

    natural = "natural"
    balanced = "balanced"


class Convention(StrEnum):
    """Whose definitions of the sleep statistics."""

    aasm = "aasm"
    yasa = "yasa"
    luna = "luna"


class Scheme(StrEnum):
    """The standard schemes."""

    aasm5 = "aasm5"
    wldr4 = "wldr4"
    wnr3 = "wnr3"
    ws2 = "ws2"


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


def _check_epoch_seconds(seconds: float | None) -> float | None:
    if seconds is not None and not 0.1 <= seconds <= 3600:  # NaN is neither
        raise typer.BadParameter(f"{seconds:g} is not a length of 0.1 to 3600 seconds, for example 30.")
    return seconds


ProfileName = Annotated[
    str,
    typer.Option("--profile", "-p", metavar="NAME", help="Name (see: stageguard profiles) or a .toml file."),
]
Stages = Annotated[
    str | None,
    typer.Option(metavar="W,N1,...", help="Names of the columns in order. Needed for bare arrays."),
]
EpochSeconds = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=_check_epoch_seconds,
        help="Epoch length. Default: the file's, else the profile's, else 30.",
    ),
]
Quality = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Signal quality per epoch, 0 clean to 1 lost (.npy or table)."),
]
Pins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="120=R|FILE", help="Epochs you are sure of (from 0), or a table with epoch and stage."
    ),
]
Cohort = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who was recorded, e.g. narcolepsy: warns or refuses if need be."),
]
TrainedOn = Annotated[
    Trained | None, typer.Option(help="How the stager was trained; unknown counts as balanced.")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Who wrote the probabilities, where content cannot tell: usleep-npy, ...",
    ),
]
Pool = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        callback=_check_epoch_seconds,
        help="Average shorter rows of probabilities to epochs of this length.",
    ),
]
Logits = Annotated[bool, typer.Option("--logits", help="Probability files hold logits.")]
Log = Annotated[bool, typer.Option("--log", help="Probability files hold log-probabilities.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]

ScoredFiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        parser=given_path,
        help="Hypnograms or probabilities, folders of them, quoted patterns, or a sample list.",
    ),
]
SampleList = Annotated[
    Path | None,
    typer.Option(
        "--list",
        metavar="SAMPLES.tsv",
        parser=given_path,
        help="Columns id, probabilities, scoring, edf, start, lights_off, lights_on. FILES: about these.",
    ),
]
ScoringFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Who wrote the scorings, where content cannot tell: numbers-yasa, ...",
    ),
]
SchemeName = Annotated[
    Scheme | None,
    typer.Option("--scheme", help="Scheme of the hypnograms; finer stages are merged into it."),
]
LightsOff = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Lights off: 22:30, or seconds since the beginning of the recording."),
]
LightsOn = Annotated[str | None, typer.Option(metavar="TIME", help="Lights on, likewise.")]
Start = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When files begin that do not say so: 22:30, or 2024-05-01T22:30."),
]
LightsOnPhase = Annotated[
    str | None,
    typer.Option(metavar="07:00", help="For rodents: when the lights go on. Adds light, dark and hours."),
]


class Device(StrEnum):
    """The devices torch is asked for."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"

"""Montages of a laboratory: which channels or differences are shown, in which order, filtered and scaled how.

They are written by people, in `montage.toml` beside the review.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from stageguard import checks, documents
from stageguard.documents import Range
from stageguard.errors import InputError
from stageguard.files import file_error

FILE_NAME = "montage.toml"
MOST_MONTAGES = 50
MOST_LANES = 32
MOST_TEXT = 80  # characters of a name


def printable(value: object, where: str, most: int = MOST_TEXT) -> str:
    """Return a name, after checking that a terminal, the page and a journal can show it."""
    name = checks.text(value, where, empty=False)
    if len(name) > most or not name.isprintable():
        raise InputError(f"{where} is {checks.shown(name)}, expected at most {most} printable characters.")
    return name


def _colour(value: object, where: str) -> str:
    colour = checks.text(value, where)
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", colour):
        raise InputError(f"{where} is {checks.shown(colour)}, expected a colour such as #1b7f5c.")
    return colour.lower()


Name = Annotated[str, printable]
Hertz = Annotated[float, Range(0.01, 10_000)]


@dataclass(frozen=True, slots=True)
class Filters:
    """Frequencies in Hz; None turns a filter off. Only voltages are filtered."""

    low: float | None = None
    high: float | None = None
    notch: float | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A channel, or the difference of two, and how it is shown."""

    plus: Name
    minus: Name | None = None
    label: Name | None = None
    high_pass_hz: Hertz | None = None
    low_pass_hz: Hertz | None = None
    notch_hz: Hertz | None = None
    scale_uv: Annotated[float, Range(0.1, 1e6)] | None = None  # to the edge
    colour: Annotated[str, _colour] | None = None

    def __post_init__(self) -> None:
        """Refuse a difference of a channel with itself, and filters that leave nothing."""
        if self.plus == self.minus:
            raise InputError(f"minus is {checks.shown(self.minus)}, expected another channel than plus.")
        low, high = self.high_pass_hz, self.low_pass_hz
        if low is not None and high is not None and low >= high:
            raise InputError(f"high_pass_hz is {low:g}, expected less than low_pass_hz, {high:g}.")

    @property
    def name(self) -> str:
        """What the lane is called on the page."""
        return self.label or (self.plus if self.minus is None else f"{self.plus}-{self.minus}")

    @property
    def filters(self) -> Filters:
        """The filters of the lane."""
        return Filters(self.high_pass_hz, self.low_pass_hz, self.notch_hz)


@dataclass(frozen=True, slots=True)
class Montage:
    """Lanes from top to bottom."""

    name: Name
    channels: tuple[Lane, ...]

    def __post_init__(self) -> None:
        """Refuse a montage without lanes, or with more than a screen shows."""
        if not 1 <= len(self.channels) <= MOST_LANES:
            raise InputError(
                f"montage {checks.shown(self.name)} has {len(self.channels)} channels, expected 1 to "
                f"{MOST_LANES}."
            )


@dataclass(frozen=True, slots=True)
class View:
    """How signals are first shown."""

    seconds: Annotated[float, Range(1, 3600)] | None = None
    negative_up: bool = True
    guides: bool = True


@dataclass(frozen=True, slots=True)
class Laboratory:
    """The montages of a laboratory, the first of which is shown first."""

    montage: tuple[Montage, ...] = ()
    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        """Refuse montages of the same name, and too many."""
        names = [montage.name for montage in self.montage]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"montage {checks.shown(twice)} is there twice, expected it once.")
        if len(names) > MOST_MONTAGES:
            raise InputError(f"there are {len(names)} montages, expected at most {MOST_MONTAGES}.")

    @classmethod
    def from_dict(cls, document: object) -> Laboratory:
        """Return the montages of a document; whatever is wrong with it is an `InputError`."""
        return documents.read_fields(cls, document)

    def to_dict(self) -> dict[str, Any]:
        """Return the document, without values that are defaults."""
        table: dict[str, Any] = documents.plain(self)
        return {"montage": []} | table


def read_montages(path: Path) -> Laboratory:
    """Read a file of montages; an error names the file and the key."""
    document = documents.read_toml(path, "montages")
    try:
        return Laboratory.from_dict(document)
    except InputError as error:
        raise file_error(path, str(error)) from None

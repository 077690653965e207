"""One night as a file or an object holds it, what the caller said about it, and what readers return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from stageguard.arrays import Indices
from stageguard.errors import InputError
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.night.stages import StageScheme
from stageguard.night.timing import from_recording_start, recording_start
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.measures.cohort import DecodedFacts

Where = Path | str  # a file, or the name of an object's type


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What the caller says about a file or an object, before it is opened.

    A `scheme` names columns of probabilities that are exactly its stages; stages are returned in it, so finer
    ones are merged. Defaults are those of the profile or night that the file goes with, and are used if
    neither caller nor file says.
    """

    format: str | None = None
    scheme: StageScheme | None = None
    default_scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    default_epoch_seconds: float | None = None
    column: str | None = None  # that holds the stages of a table
    stages: tuple[str, ...] | None = None  # names of the columns of probabilities
    logits: bool = False
    log: bool = False
    pool_to_seconds: float | None = None
    normalize: bool = False  # divide rows whose sum is off 1 only by rounding

    @property
    def may_be_labels(self) -> bool:
        """Whether the caller says nothing that only probabilities have."""
        return not (self.stages or self.logits or self.log or self.pool_to_seconds or self.normalize)


@dataclass(frozen=True, slots=True)
class Event:
    """A text at a time: a stage, an arousal, an apnoea, lights off.

    `onset` counts from the recording's start; `seconds` is None if the duration is unknown. `kind` and
    `concept` are categories of the source, `details` its other entries by name.
    """

    onset: float
    seconds: float | None
    text: str
    kind: str = ""
    channel: str = ""
    concept: str = ""
    details: tuple[tuple[str, str], ...] = ()


class Events(NamedTuple):
    """The annotations of a file other than stages, by onset, and what it says about its recording."""

    events: tuple[Event, ...]
    recording_start: datetime | None = None  # from which onsets count
    recording_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `decode` recorded about a night in the sidecar."""

    steered: frozenset[Steering] = frozenset()  # what the profile steered
    decoded: DecodedFacts | None = None
    period: Period | None = None  # the sleep period that the rules measured
    look_at: str = ""  # why somebody should look at the night


NOTHING_RECORDED = Recorded()


@dataclass(frozen=True, slots=True)
class RawDensity:
    """The probabilities in a file, unchecked: numbers, their column names, and remarks."""

    values: npt.ArrayLike
    names: tuple[str, ...]
    epoch_seconds: float | None = None
    start: datetime | None = None
    notes: tuple[str, ...] = ()
    lines: Sequence[int] | None = None  # line of each row, counted from 1, if rows are lines
    epoch_source: str = ""  # the columns that tell the epoch length
    places: Indices | None = None  # epoch of each row, if some epochs have no row
    usual_seconds: float | None = None  # the tool's epoch length, if its files do not tell
    tool: str = ""  # the tool that usually writes epochs of `usual_seconds`
    is_chosen: bool = False  # users of the tool choose the epoch length, and `usual_seconds` is its default
    source: str | None = None  # of the night, instead of the file's name
    offset_seconds: float = 0.0  # from the recording's start to the first epoch
    ignored: tuple[str, ...] = ()  # columns that are neither stages nor times
    stager: str | None = None  # the known stager that writes the format


@dataclass(frozen=True, slots=True)
class RawHypnogram:
    """The stages in a file, unchecked: one name per epoch, and more about the night."""

    stages: tuple[str, ...]
    lines: Sequence[int] | None = None  # line of each epoch, counted from 1; by default epochs from 0
    epoch_seconds: float | None = None
    start: datetime | None = None
    profile: Profile | None = None
    recorded: Recorded | None = None
    argmax_stages: tuple[str, ...] | None = None
    scheme: StageScheme | None = None  # of the format, if it has one
    offset_seconds: float = 0.0  # from the recording's start to the first epoch
    notes: tuple[str, ...] = ()
    has_clock: bool = True  # whether `start`, if any, is from a clock in the file
    scorer: str | None = None  # by default the file's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night that was read, or is to be written: stages, probabilities or both, and other annotations."""

    scoring: Hypnogram | None = None
    probabilities: Hypnodensity | None = None
    events: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()  # what was assumed or left out
    has_clock: bool = False  # whether the start is from a clock in the file
    is_length_assumed: bool = False  # whether neither file nor caller said how long an epoch is
    before: Hypnogram | None = None  # the stager's own choice, if `decode` wrote the file
    profile: Profile | None = None
    recorded: Recorded = NOTHING_RECORDED
    decoding: Decoding | None = None
    id: str = ""
    lost: tuple[str, ...] = ()  # what is lost already, in any format

    @property
    def hypnogram(self) -> Hypnogram:
        """The stages; refused without any."""
        if self.scoring is None:
            raise InputError("there are only probabilities, expected stages. Decode them first.")
        return self.scoring

    @property
    def density(self) -> Hypnodensity:
        """The probabilities; refused without any."""
        if self.probabilities is None:
            raise InputError("the night has stages alone, expected probabilities.")
        return self.probabilities

    @property
    def any(self) -> Hypnogram | Hypnodensity:
        """The stages, or without stages the probabilities."""
        return self.density if self.scoring is None else self.scoring

    @property
    def recording_start(self) -> datetime | None:
        """When the recording began, from which onsets count."""
        return recording_start(self.any)

    @property
    def onsets(self) -> list[float]:
        """Seconds from the recording's start to each epoch."""
        first, seconds = self.any.offset_seconds, self.any.epoch_seconds
        # rounded to nanoseconds, to remove rounding errors of floating point
        return [round(first + epoch * seconds, 9) for epoch in range(self.any.n_epochs)]

    def changed(self, change: Callable[[Any], Any]) -> Night:
        """Return the night with `change` applied to stages and probabilities."""
        parts = (None if part is None else change(part) for part in (self.scoring, self.probabilities))
        scoring, probabilities = parts
        return replace(self, scoring=scoring, probabilities=probabilities)

    def from_recording_start(self) -> Night:
        """Return the night for a format without onsets, with unscored epochs from the recording's start."""
        return self.changed(from_recording_start)


def night_of(source: Decoding | Hypnogram | Hypnodensity) -> Night:
    """Return a result of this package as a night to write."""
    if isinstance(source, Hypnogram):
        return Night(scoring=source)
    if isinstance(source, Hypnodensity):
        return Night(probabilities=source)
    return Night(
        scoring=source.hypnogram, probabilities=source.density, decoding=source, profile=source.profile
    )

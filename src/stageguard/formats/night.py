"""One night as a file or an object holds it: what a reader returns, and what the caller said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from stageguard.arrays import Indices
from stageguard.measures.cohort import DecodedFacts
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile

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


@dataclass(frozen=True, slots=True)
class RawDensity:
    """The probabilities in a file: numbers, their column names, and remarks."""

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
class Recorded:
    """What `decode` recorded about a night in the sidecar."""

    steered: frozenset[Steering] = frozenset()  # what the profile steered
    decoded: DecodedFacts | None = None
    period: Period | None = None  # the sleep period that the rules measured
    look_at: str = ""  # why somebody should look at the night


NOTHING_RECORDED = Recorded()


@dataclass(frozen=True, slots=True)
class RawHypnogram:
    """The stages in a file: one name per epoch, and more about the night."""

    stages: tuple[str, ...]
    lines: Sequence[int] | None = None  # line of each epoch, counted from 1; by default epochs from 0
    epoch_seconds: float | None = None
    start: datetime | None = None
    profile: Profile | None = None
    recorded: Recorded | None = None
    argmax_stages: tuple[str, ...] | None = None
    scheme: StageScheme | None = None  # of the format, if it has one
    offset_seconds: float = 0.0  # from the recording's start to the first epoch
    has_clock: bool = True  # whether `start`, if any, is from a clock in the file
    notes: tuple[str, ...] = ()
    scorer: str | None = None  # by default the file's name
    left_out: tuple[str, ...] = ()  # remarks on annotations that are not stages


def _nothing() -> tuple[()]:
    return ()


def _unknown() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawNight:
    """What a file or an object holds about one night. It is parsed once, before this is made.

    The parts are functions of what was parsed, since one may be damaged where another is not: stages are
    read although the probabilities beside them make no sense. A part is None if the format never holds it.
    """

    stages: Callable[[], RawHypnogram] | None = None
    probabilities: Callable[[], RawDensity] | None = None
    events: Callable[[], Iterable[Event]] = _nothing  # annotations other than stages
    recording_start: Callable[[], datetime | None] = _unknown  # from which the onsets of events count
    recording_seconds: Callable[[], float | None] = _unknown
    stage_texts: Callable[[], Iterable[str]] = _nothing  # as they are written, to look for stage 4
    left_columns: Callable[[], Iterable[str]] = _nothing  # of a table, which hold something that is not read


Part = Literal["density", "hypnogram"]
ONLY_STAGES: frozenset[Part] = frozenset({"hypnogram"})
ONLY_PROBABILITIES: frozenset[Part] = frozenset({"density"})
BOTH: frozenset[Part] = ONLY_STAGES | ONLY_PROBABILITIES


@dataclass(frozen=True, slots=True)
class Reader:
    """The function that reads a format or a kind of object, and the parts of a night that it returns."""

    parts: frozenset[Part]
    read: Callable[[Any, FileOptions], RawNight]  # of a path or an object


def of_stages(read: Callable[[Any, FileOptions], RawHypnogram]) -> Reader:
    """Return the reader of a source that holds only stages."""
    return Reader(ONLY_STAGES, lambda source, options: RawNight(stages=partial(read, source, options)))


def of_probabilities(read: Callable[[Any, FileOptions], RawDensity]) -> Reader:
    """Return the reader of a source that holds only probabilities."""
    return Reader(
        ONLY_PROBABILITIES, lambda source, options: RawNight(probabilities=partial(read, source, options))
    )


def of_both(
    stages: Callable[[Any, FileOptions], RawHypnogram],
    probabilities: Callable[[Any, FileOptions], RawDensity],
) -> Reader:
    """Return the reader of a source whose stages and probabilities are read apart."""
    return Reader(
        BOTH,
        lambda source, options: RawNight(
            stages=partial(stages, source, options), probabilities=partial(probabilities, source, options)
        ),
    )

"""The night that a writer gets, and the files that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import InputError
from stageguard.formats.night import Event
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import SCHEMES, UNSCORED_NAME, StageScheme
from stageguard.night.timing import from_recording_start, recording_start
from stageguard.profile.profile import Profile

GENERAL = "stageguard-csv"  # carries any scheme
_PREFIX = "Sleep stage "


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A night to write: stages, probabilities or both, other annotations, and where it came from."""

    hypnogram: Hypnogram | None
    density: Hypnodensity | None = None
    events: tuple[Event, ...] = ()
    decoding: Decoding | None = None
    profile: Profile | None = None
    id: str = ""
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # other content of its source, which is lost in any format

    @property
    def any(self) -> Hypnogram | Hypnodensity:
        """The stages, or without stages the probabilities."""
        night = self.hypnogram if self.hypnogram is not None else self.density
        assert night is not None
        return night

    @property
    def scheme(self) -> StageScheme:
        """What the labels mean."""
        return self.any.scheme

    @property
    def epoch_seconds(self) -> float:
        """Epoch length."""
        return self.any.epoch_seconds

    @property
    def offset_seconds(self) -> float:
        """Seconds from the recording's start to the first epoch."""
        return self.any.offset_seconds

    def changed(self, change: Callable[[Any], Any]) -> Outgoing:
        """Return the night with `change` applied to stages and probabilities."""
        parts = (None if part is None else change(part) for part in (self.hypnogram, self.density))
        hypnogram, density = parts
        return replace(self, hypnogram=hypnogram, density=density)

    def from_recording_start(self) -> Outgoing:
        """Return the night for a format without onsets, with unscored epochs from the recording's start."""
        return self.changed(from_recording_start)

    @property
    def recording_start(self) -> datetime | None:
        """When the recording began, from which onsets count."""
        return recording_start(self.any)

    @property
    def onsets(self) -> list[float]:
        """Seconds from the recording's start to each epoch."""
        seconds = self.epoch_seconds
        # rounded to nanoseconds, to remove rounding errors of floating point
        return [round(self.offset_seconds + epoch * seconds, 9) for epoch in range(self.any.n_epochs)]

    def stages(self, tool: str) -> Hypnogram:
        """Return the stages for a format that holds only stages; refuse a night without them."""
        if self.hypnogram is None:
            raise InputError(f"{tool} holds stages, but there are only probabilities. Decode them first.")
        return self.hypnogram


@dataclass(frozen=True, slots=True)
class Content:
    """What a writer made: files and their contents, the main file first, and what they hold."""

    files: Mapping[Path, str | bytes]
    has_stages: bool = True
    has_probabilities: bool = False
    has_profile: bool = False
    n_events: int = 0
    keeps: frozenset[str] = frozenset()  # kept fields of events besides time and text, such as "channel"
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def standard_scheme(scheme: StageScheme) -> tuple[StageScheme, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Return the standard scheme with the same stages, and its label for each stage of this scheme.

    A scheme without a standard equivalent is returned as it is.
    """
    for standard in SCHEMES.values():
        if standard.n_stages == scheme.n_stages:
            try:
                places = scheme.merge_map(standard)
            except InputError:
                continue
            if len(set(places.tolist())) == scheme.n_stages:
                return standard, places
    return scheme, np.arange(scheme.n_stages, dtype=np.intp)


def stage_words(
    night: Outgoing, words: Mapping[str, Mapping[str, str]], tool: str, unscored: str = UNSCORED_NAME
) -> list[str]:
    """Return each epoch's stage in the words of a tool.

    `words` has each scheme that the tool knows, by its name, and the tool's words for stages if they differ
    from the scheme's.
    """
    hypnogram = night.stages(tool)
    standard, places = standard_scheme(hypnogram.scheme)
    if standard.name not in words:
        raise _unknown(hypnogram.scheme, words, tool)
    names = [words[standard.name].get(name, name) for name in (standard.names[place] for place in places)]
    return [(*names, unscored)[label] for label in hypnogram.labels.tolist()]


def stage_texts(night: Outgoing, tool: str) -> list[str]:
    """Return each epoch's stage as EDF+ spells it: "Sleep stage N2", "Sleep stage ?"."""
    words = stage_words(night, {name: {} for name in SCHEMES}, tool)
    return [_PREFIX + word for word in words]


def timed_texts(night: Outgoing, tool: str) -> list[tuple[float, float | None, str]]:
    """Return onset, duration and text of each epoch's stage and of the other annotations, by onset."""
    texts = stage_texts(night, tool)
    rows: list[tuple[float, float | None, str]] = [
        (onset, night.epoch_seconds, text) for onset, text in zip(night.onsets, texts, strict=True)
    ]
    rows += [(event.onset, event.seconds, event.text) for event in night.events]
    return sorted(rows, key=lambda row: row[0])


def _unknown(scheme: StageScheme, words: Mapping[str, Mapping[str, str]], tool: str) -> InputError:
    known = "; ".join(", ".join(words[name].get(s, s) for s in SCHEMES[name].names) for name in words)
    for name in words:
        try:
            scheme.merge_map(SCHEMES[name])
        except InputError:
            continue
        do: str = f"Merge the stages first: merge_to={name!r}."
        break
    else:
        do = f"Write another format, such as {GENERAL}."
    got = f"{tool} knows the stages {known}, but the night has {', '.join(scheme.names)}. "
    return InputError(f"{got}{do}")


def plain_text(text: str) -> str:
    """Return a text on one line, without characters that end a cell or an annotation."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def number(value: float) -> str:
    """Return a number in the shortest digits that read back exactly; whole numbers have no point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def outgoing_of_night(night: Decoding | Hypnogram | Hypnodensity) -> Outgoing:
    """Return a night of this package as one to write."""
    if isinstance(night, Decoding):
        return Outgoing(night.hypnogram, night.density, decoding=night, profile=night.profile)
    return Outgoing(night) if isinstance(night, Hypnogram) else Outgoing(None, night)

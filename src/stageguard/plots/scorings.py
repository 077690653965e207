"""The series of a figure: scorings of nights, and decodings before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import ScoredNight, cuts_of, hypnogram_before, hypnogram_of
from stageguard.night.hypnogram import Hypnogram


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Scorings of several nights by one scorer, and the epochs of each that begin a new segment."""

    name: str
    scorings: tuple[Hypnogram, ...]
    cuts: tuple[Sequence[int], ...]
    nights: tuple[ScoredNight, ...]  # whose sleep period is measured


def as_nights(nights: Any, what: str = "nights") -> list[ScoredNight]:
    """Return one night or several nights as a list; an empty list is an error."""
    if isinstance(nights, Hypnogram | Decoding):
        return [nights]
    if isinstance(nights, str) or not isinstance(nights, Iterable):
        raise InputError(
            f"{what} are {checks.shown(nights)}, expected a Hypnogram or a Decoding, or a list of them."
        )
    several = list(nights)
    if not several:
        raise InputError(f"{what} are an empty list, expected at least one Hypnogram or Decoding.")
    for night in several:
        hypnogram_of(night)
    return several


def series_of(nights: Any, number: int) -> list[Series]:
    """Return the series of nights: before and after for decodings, one series for hypnograms."""
    several = as_nights(nights)
    scorings, cuts = tuple(map(hypnogram_of, several)), tuple(map(cuts_of, several))
    nights = tuple(several)
    decoded = [night for night in several if isinstance(night, Decoding)]
    if len(decoded) == len(several):
        before = tuple(map(hypnogram_before, decoded))
        return [Series("before", before, cuts, nights), Series("after", scorings, cuts, nights)]
    if decoded:
        raise InputError("nights are hypnograms and decodings, expected a list of one or of the other.")
    scorers = {scoring.scorer for scoring in scorings}
    name = scorers.pop() if len(scorers) == 1 else None
    return [Series(name or f"scoring {number}", scorings, cuts, nights)]

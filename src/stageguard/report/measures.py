"""Everything a report shows of one night, measured once: before, after, and the expert's. Shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from stageguard.decoded import Decoding
from stageguard.hypnogram import UNSCORED, Hypnogram
from stageguard.measures.agreement import Agreement, agreement
from stageguard.measures.bouts import check_aligned, cuts_of, hypnogram_before, in_scheme
from stageguard.measures.rare_events import RareEvent, rare_events
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.measures.validity import Validity, validity
from stageguard.report.hypnogram_svg import expert_name

if TYPE_CHECKING:
    from stageguard.measures.day import Moment


class Lights(TypedDict):
    """When time in bed begins and ends, and when a rodent's light phase begins."""

    lights_off: Moment | None
    lights_on: Moment | None
    lights_on_phase: str | None


@dataclass(frozen=True, slots=True)
class Scoring:
    """One column of the report: a scoring and its measures."""

    name: str
    statistics: SleepStatistics
    validity: Validity


@dataclass(frozen=True, slots=True)
class Measured:
    """All measures of one night; `expert`, and the agreement with it, are None without one."""

    before: Scoring
    after: Scoring
    expert: Scoring | None
    agreement: tuple[Agreement, Agreement] | None  # before, after
    events: tuple[RareEvent, ...]

    @property
    def columns(self) -> tuple[Scoring, ...]:
        """The scorings there are."""
        return (self.before, self.after) if self.expert is None else (self.before, self.after, self.expert)


def aligned(expert: Hypnogram, decoding: Decoding) -> Hypnogram:
    """Return an expert's scoring in the night's stages and on its clock, or say why it does not fit."""
    check_aligned(expert, decoding.hypnogram)
    return replace(in_scheme(expert, decoding.hypnogram.scheme), start=decoding.hypnogram.start)


def measure(decoding: Decoding, expert: Hypnogram | None, lights: Lights) -> Measured:
    """Measure a night, what it was before, and the expert's scoring of it."""
    before, cuts, profile = hypnogram_before(decoding), cuts_of(decoding), decoding.profile

    def scoring(name: str, night: Hypnogram) -> Scoring:
        return Scoring(name, sleep_statistics(night, **lights), validity(_cut(night, cuts), profile))

    own = validity(decoding, expert=expert)
    after = Scoring("after", sleep_statistics(decoding, **lights), own)
    if expert is None:
        return Measured(scoring("before", before), after, None, None, rare_events(decoding))
    pairs = profile.tvr_pairs
    agreed = agreement(expert, before, pairs=pairs), agreement(expert, decoding, pairs=pairs)
    return Measured(
        scoring("before", before), after, scoring(expert_name(expert), expert), agreed, rare_events(decoding)
    )


def _cut(night: Hypnogram, cuts: Sequence[int]) -> Hypnogram:
    """Return a scoring with an unscored epoch between segments, across which nothing is adjacent."""
    if not cuts:
        return night
    return replace(night, labels=np.insert(night.labels, cuts, UNSCORED))

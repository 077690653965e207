"""Everything a report shows of one night, measured once: before, after, and the expert's. Shows nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import Agreement, agreement, common_scheme
from stageguard.measures.bouts import check_aligned, cuts_of, hypnogram_before
from stageguard.measures.rare_events import RareEvent, rare_events
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.hypnogram import Hypnogram
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
class ExpertScoring:
    """The expert's column; stages coarser than the profile's have no indicators to hold against its bands."""

    name: str
    statistics: SleepStatistics
    validity: Validity | None

    def indicator(self, key: str) -> float:
        """Return the value of an indicator, NaN where there is none."""
        return float("nan") if self.validity is None else self.validity.indicators[key].value


@dataclass(frozen=True, slots=True)
class Measured:
    """All measures of one night; `expert`, and the agreement with it, are None without one."""

    before: Scoring
    after: Scoring
    expert: ExpertScoring | None
    agreement: tuple[Agreement, Agreement] | None  # before, after
    events: tuple[RareEvent, ...]

    @property
    def columns(self) -> tuple[Scoring | ExpertScoring, ...]:
        """The scorings there are."""
        return (self.before, self.after) if self.expert is None else (self.before, self.after, self.expert)


def aligned(expert: Hypnogram, decoding: Decoding) -> Hypnogram:
    """Return an expert's scoring in the night's stages and on its clock, or say why it does not fit.

    Stages coarser than the night's stay as they are.
    """
    own = decoding.hypnogram
    check_aligned(expert, own)
    scheme = common_scheme(expert.scheme, own.scheme)
    return replace(expert.merge(scheme), start=own.start, offset_seconds=own.offset_seconds)


def measure(decoding: Decoding, expert: Hypnogram | None, lights: Lights) -> Measured:
    """Measure a night, what it was before, and the expert's scoring of it."""
    before, cuts, profile = hypnogram_before(decoding), cuts_of(decoding), decoding.profile
    bedtime = lights["lights_off"], lights["lights_on"]

    def scoring(name: str, night: Hypnogram) -> Scoring:
        return Scoring(name, sleep_statistics(night, **lights), validity_of(night, profile, cuts, bedtime))

    is_coarser = expert is not None and expert.scheme != decoding.hypnogram.scheme
    own = validity_of(decoding.hypnogram, profile, cuts, bedtime, None if is_coarser else expert)
    after = Scoring("after", sleep_statistics(decoding, **lights), own)
    if expert is None:
        return Measured(scoring("before", before), after, None, None, rare_events(decoding))
    now = agreement(expert, decoding)
    agreed = agreement(expert, before, pairs=now.pairs), now
    compared = ExpertScoring(
        expert_name(expert),
        sleep_statistics(expert, **lights),
        None if is_coarser else validity_of(expert, profile, cuts, bedtime),
    )
    return Measured(scoring("before", before), after, compared, agreed, rare_events(decoding))

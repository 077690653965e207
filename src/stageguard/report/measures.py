"""All measures of a night's report, measured once: before, after, and the expert's."""

from __future__ import annotations

from dataclasses import dataclass

from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import Agreement, agreement, common_scheme, merged_pairs
from stageguard.measures.bouts import cuts_of, hypnogram_before, hypnogram_of
from stageguard.measures.estimates import Estimates, estimates_of
from stageguard.measures.period import period_for
from stageguard.measures.rare_events import RareEvent, rare_events
from stageguard.measures.statistics import SleepStatistics, StatisticsOptions
from stageguard.measures.taught import NO_TEST, taught_by, taught_words
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.matching import on_epochs_of
from stageguard.report.hypnogram_svg import expert_name


@dataclass(frozen=True, slots=True)
class Scoring:
    """One column of the report: a scoring and its measures."""

    name: str
    statistics: SleepStatistics
    validity: Validity


@dataclass(frozen=True, slots=True)
class ExpertScoring:
    """The expert's column; a scoring in stages coarser than the profile's has no validity."""

    name: str
    statistics: SleepStatistics
    validity: Validity | None

    def indicator(self, key: str) -> float:
        """Return the value of an indicator; NaN if there is none."""
        return float("nan") if self.validity is None else self.validity.indicators[key].value


@dataclass(frozen=True, slots=True)
class Measured:
    """All measures of one night; `expert` and `agreement` are None without an expert's scoring."""

    before: Scoring
    after: Scoring
    expert: ExpertScoring | None
    agreement: tuple[Agreement, Agreement] | None  # before, after
    events: tuple[RareEvent, ...]
    estimates: Estimates
    taught: str = ""  # the first line, if the night taught its profile and an expert scored it

    @property
    def columns(self) -> tuple[Scoring | ExpertScoring, ...]:
        """The columns of the report."""
        return (self.before, self.after) if self.expert is None else (self.before, self.after, self.expert)


def aligned(expert: Hypnogram, decoding: Decoding) -> Hypnogram:
    """Return an expert's scoring in the night's stages and epochs; raise an error if it does not fit.

    Stages coarser than the night's are kept.
    """
    night = decoding.hypnogram
    expert = hypnogram_of(expert)
    return on_epochs_of(night, expert).merge(common_scheme(expert.scheme, night.scheme))


def measure(decoding: Decoding, expert: Hypnogram | None, options: StatisticsOptions) -> Measured:
    """Measure a night before and after decoding, and the expert's scoring."""
    before, night, cuts = hypnogram_before(decoding), decoding.hypnogram, cuts_of(decoding)

    period = period_for(decoding, decoding.profile, options.lights)

    def validity(scoring: Hypnogram, expert: Hypnogram | None = None) -> Validity:
        return validity_of(scoring, decoding.profile, period, cuts, expert)

    estimates = estimates_of(decoding, options)
    is_coarser = expert is not None and expert.scheme != night.scheme
    columns = (
        Scoring("before", options.measure(before), validity(before)),
        Scoring("after", options.measure(decoding), validity(night, None if is_coarser else expert)),
    )
    if expert is None:
        return Measured(*columns, None, None, rare_events(decoding), estimates)
    scored = ExpertScoring(
        expert_name(expert), options.measure(expert), None if is_coarser else validity(expert)
    )
    pairs = merged_pairs(decoding.profile, expert.scheme)
    agreed = agreement(expert, before, pairs=pairs), agreement(expert, night, pairs=pairs)
    taught = taught_words([taught_by(decoding.profile, before, expert)], NO_TEST)
    return Measured(*columns, scored, agreed, rare_events(decoding), estimates, taught)

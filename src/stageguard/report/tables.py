"""The measures of a night's report, taken once, and the rows of its tables with the notes below them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan

import numpy as np

from stageguard.arrays import Indices
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import Agreement, agreement, common_scheme, merged_pairs
from stageguard.measures.bouts import cuts_of, hypnogram_before, hypnogram_of, pair_counts, period_for
from stageguard.measures.grade import GradeCard
from stageguard.measures.intervals import DEFAULT_DRAWS, OF_GOOD_STAGERS, WITHHELD, Intervals, hinges_of
from stageguard.measures.rare import RareEvent, rare_events
from stageguard.measures.statistics import SleepStatistics, StatisticsOptions
from stageguard.measures.validity import Indicator, Validity, validity_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import (
    JOINT,
    NIGHT,
    STAGE,
    STAGE_INDICATORS,
    STEERED_MARK,
    Quantity,
    quantity_of,
)
from stageguard.night.stages import StageScheme
from stageguard.report.hypnogram_svg import expert_name
from stageguard.report.numbers import ABSENT, count, interval_text
from stageguard.report.pictures import BandRow
from stageguard.report.summary import HEADLINES, interval_title
from stageguard.report.words import accuracy_words, hinge_words


@dataclass(frozen=True, slots=True)
class Column:
    """A scoring and its measures; one in stages coarser than the profile's has no validity."""

    name: str
    statistics: SleepStatistics
    validity: Validity | None


@dataclass(frozen=True, slots=True)
class ReportMeasures:
    """All measures of one night; `expert` and `agreement` are None without an expert's scoring."""

    before: Column
    after: Column
    valid: tuple[Validity, Validity]  # before, after
    expert: Column | None
    agreement: tuple[Agreement, Agreement] | None  # before, after
    events: tuple[RareEvent, ...]
    hinges: Mapping[str, tuple[int, int]]  # doubtful epochs that a statistic depends on

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the report."""
        return (self.before, self.after) if self.expert is None else (self.before, self.after, self.expert)


def align_expert(expert: Hypnogram, decoding: Decoding) -> Hypnogram:
    """Return an expert's scoring in the night's stages and epochs; raise an error if it does not fit.

    Stages coarser than the night's are kept.
    """
    night, expert = decoding.hypnogram, hypnogram_of(expert)
    return on_epochs_of(night, expert).merge(common_scheme(expert.scheme, night.scheme))


def measure(decoding: Decoding, expert: Hypnogram | None, options: StatisticsOptions) -> ReportMeasures:
    """Measure a night before and after decoding, and the expert's scoring."""
    before, night, cuts = hypnogram_before(decoding), decoding.hypnogram, cuts_of(decoding)
    period = period_for(decoding, decoding.profile, options.lights)
    first, second = (validity_of(each, decoding.profile, period, cuts) for each in (before, night))
    stager = Column("stager", options.measure(before), first)
    guarded = Column("guarded", options.measure(decoding), second)
    scored, agreed = None, None
    if expert is not None:
        is_coarser = expert.scheme != night.scheme
        valid = None if is_coarser else validity_of(expert, decoding.profile, period, cuts)
        scored = Column(expert_name(expert), options.measure(expert), valid)
        pairs = merged_pairs(decoding.profile, expert.scheme)
        agreed = agreement(expert, before, pairs=pairs), agreement(expert, night, pairs=pairs)
    events, hinges = rare_events(decoding), hinges_of(decoding, options)
    return ReportMeasures(stager, guarded, (first, second), scored, agreed, events, hinges)


# Sleep statistics

ROWS = tuple(sorted(NIGHT, key=lambda quantity: quantity.report_row))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """A measure of all scorings."""

    name: str
    decimals: int
    before: float
    after: float
    expert: float = nan
    unit: str = ""
    interval: str = ""  # "" without an interval
    flag: str = ""  # early, or steered by the profile
    hinge: str = ""  # advice to look at the doubtful epochs that it depends on
    grade: str = ""  # "" without a grade card
    is_headline: bool = False


def statistic_groups(
    decoding: Decoding, measured: ReportMeasures, intervals: Intervals | None, card: GradeCard | None
) -> dict[str, list[MeasureRow]]:
    """Return rows by heading: of the whole night, then of each stage."""
    columns = [column.statistics for column in measured.columns]

    def row(quantity: Quantity, name: str, values: Sequence[float], key: str, reported: str) -> MeasureRow:
        is_steered = quantity.follows in decoding.steered
        # a day of an animal has no time in bed, from which most headlines count
        exists = decoding.profile.species == "human" or not all(map(isnan, values))
        return MeasureRow(
            name=name,
            decimals=quantity.decimals,
            before=values[0],
            after=values[1],
            expert=values[2] if len(values) > 2 else nan,
            unit=quantity.unit,
            interval=interval_of(intervals, reported, quantity.decimals),
            flag=STEERED_MARK if is_steered else "early" * any(map(quantity.is_early, values)),
            hinge=hinge_words(measured.hinges.get(key)),
            grade=accuracy_words(card, key),
            is_headline=key in HEADLINES and exists,
        )

    groups = {
        "Whole night": [
            row(q, q.label, [getattr(each, q.key) for each in columns], q.key, q.key) for q in ROWS
        ]
    }
    for kind in STAGE:
        by_stage = [getattr(column, kind.key) for column in columns]
        groups[kind.label] = [
            row(
                *(kind, stage, [each.get(stage, nan) for each in by_stage]),
                *(f"{kind.key}_{stage}", f"{kind.reported_key}_{stage}"),
            )
            for stage in columns[1].scheme.names
            if stage in by_stage[1]
        ]
    return groups


def interval_of(intervals: Intervals | None, key: str, decimals: int) -> str:
    """Return an interval as text, a dash if it does not exist, "" for statistics without intervals."""
    if intervals is None or key not in intervals:
        return ""
    if intervals[key].reason:
        return ABSENT
    return interval_text(intervals[key].low, intervals[key].high, decimals)


def coverage_words(measured: ReportMeasures) -> str:
    """Return the remark on an expert who scored less than the night; empty if there is none."""
    expert = measured.expert
    less = 0.0 if expert is None else expert.statistics.unscored_minutes
    less -= measured.after.statistics.unscored_minutes
    if expert is None or less <= 0:
        return ""
    return (
        f"{expert.name.capitalize()} covers {less:,.1f} min less than stager and guarded, which are of the "
        "whole night: compare them with care. The agreement is on the epochs that both scored."
    )


def interval_notes(decoding: Decoding, intervals: Intervals | None) -> Iterator[str]:
    """Yield notes on the source of the intervals and their measured coverage."""
    fitted = decoding.profile.intervals
    if intervals is None:
        if decoding.profile.posterior is not None or fitted.get("errors"):
            yield f"No intervals are shown ({WITHHELD})."
        return
    title, share = interval_title(intervals), covered_share(intervals)
    if intervals.method == "model":
        covered = f", which held {share} of the experts' values on other cohorts" if share else ""
        yield f"The {title} holds nine tenths of {DEFAULT_DRAWS} drawn nights{covered}."
        yield "Each draw adds a night-long bias, sized from other stagers."
        if decoding.stager is None:
            yield OF_GOOD_STAGERS
        return
    people = count(int(fitted.get("n_subjects", 0)), "subject")
    covered = f"; it held {share} of the values of subjects left out" if share else ""
    yield (
        f"The {title} is as wide as the errors against experts on "
        f"{count(intervals.n_nights, 'scored night')} of {people} held out from the fit{covered}. It holds "
        "for the same stager and the same kind of people."
    )


def covered_share(intervals: Intervals) -> str:
    """Return the lowest and highest measured coverage in words; "" if none was measured."""
    measured = [each.measured_coverage for each in intervals.values() if not isnan(each.measured_coverage)]
    if not measured:
        return ""
    low, high = 100 * min(measured), 100 * max(measured)
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


# Validity


def joint_row(measured: ReportMeasures) -> BandRow | None:
    """Return the joint score before and after with the experts' range, or None without a range."""
    before, after = (each.joint for each in measured.valid)
    if isnan(after.high):
        return None
    valid = None if measured.expert is None else measured.expert.validity
    expert = nan if valid is None else valid.joint.value
    return _band_row(JOINT.key, "Distance from expert scoring", before, after, expert, unit="of all below")


def indicator_rows(measured: ReportMeasures) -> tuple[BandRow, ...]:
    """Return all indicators, with or without a band: first those of the whole night, then kind by kind."""
    kinds = [kind.key for kind in STAGE_INDICATORS]

    def rank(key: str) -> int:
        return next((number for number, kind in enumerate(kinds) if key.startswith(kind)), -1)

    before, after = (each.indicators for each in measured.valid)
    valid = None if measured.expert is None else measured.expert.validity
    expert = {} if valid is None else {key: each.value for key, each in valid.indicators.items()}
    return tuple(
        _band_row(key, quantity_of(key).label, before[key], after[key], expert.get(key, nan))
        for key in sorted(after, key=rank)
    )


def _band_row(
    key: str, name: str, before: Indicator, after: Indicator, expert: float, unit: str = ""
) -> BandRow:
    was, now = ("" if each.place == "no band" else each.place for each in (before, after))
    values = after.low, after.high, before.value, after.value
    return BandRow(name, unit or after.unit, *values, was, now, expert, key)


def reasons(measured: ReportMeasures) -> Iterator[str]:
    """Yield a sentence for each reason why statistics or indicators do not exist, with their names."""
    found: dict[str, dict[str, list[str]]] = {}  # scorings by reason and name
    for column in measured.columns:
        why = {
            quantity.label: column.statistics.reasons.get(quantity.key, "") for quantity in (*ROWS, *STAGE)
        }
        indicators = {} if column.validity is None else column.validity.indicators
        why |= {quantity_of(key).label: each.reason for key, each in indicators.items()}
        for name, reason in why.items():
            if reason:
                found.setdefault(reason.rstrip("."), {}).setdefault(name, []).append(column.name)
    for reason, by_name in found.items():
        names = [
            name if len(columns) == len(measured.columns) else f"{name} ({', '.join(columns)})"
            for name, columns in by_name.items()
        ]
        yield f"{'; '.join(names)}: {reason}."
    expert = measured.expert
    if expert is not None and expert.validity is None:
        stages = ", ".join(expert.statistics.scheme.names)
        yield f"{expert.name.capitalize()}: scored in {stages}, too coarse for the profile's bands."


# Agreement and transitions


def agreement_rows(before: Agreement, after: Agreement) -> Iterator[MeasureRow]:
    """Yield accuracy, kappa, F1 by stage and the recall of rare transitions."""
    rare = f"Rare transitions found, of {after.n_rare:,}"
    rows = {
        "Accuracy (%)": (1, [100 * each.accuracy for each in (before, after)]),
        "Cohen's κ": (3, [before.kappa, after.kappa]),
        "Macro F1": (3, [before.macro_f1, after.macro_f1]),
        **{f"F1, {stage}": (3, [before.f1[stage], after.f1[stage]]) for stage in after.f1},
        f"{rare}, same epoch (%)": (0, [100 * each.rare_recall_0 for each in (before, after)]),
        f"{rare}, ± 2 epochs (%)": (0, [100 * each.rare_recall_2 for each in (before, after)]),
    }
    for name, (decimals, values) in rows.items():
        if after.n_rare or not name.startswith(rare):
            yield MeasureRow(name=name, decimals=decimals, before=values[0], after=values[1])


def agreement_caption(after: Agreement, scheme: StageScheme) -> str:
    """Return the number of epochs, the stages if not the night's, and the accuracy of guessing, as text."""
    merged = "" if after.scheme == scheme else f" Compared in {', '.join(after.scheme.names)}."
    left_out = f", {after.n_left_out:,} left out" if after.n_left_out else ""
    scored = f"{count(after.n_epochs, 'epoch')} scored by both{left_out}.{merged}"
    if not after.n_epochs:
        return scored
    right = f"{100 * after.majority_accuracy:.1f} %"
    return f"{scored} Calling every epoch {after.majority_stage} would be right in {right}."


HEAT = (1e-9, 1.0, 3.0, 10.0, 30.0)  # percentages from which a cell of a matrix is darker
# name, stages, and by stage the count, the percentage of the row and the shade of each cell
Matrix = tuple[str, tuple[str, ...], list[tuple[str, list[tuple[int, float, int]]]]]


def matrix(name: str, stages: tuple[str, ...], counts: Indices) -> Matrix:
    """Return counts by stage and stage with their percentages of the row, NaN where it has none."""
    rows = []
    for stage, row in zip(stages, counts.tolist(), strict=True):
        shares = [100 * n / sum(row) if any(row) else nan for n in row]
        levels = [sum(share >= low for low in HEAT) for share in shares]
        rows.append((stage, list(zip(row, shares, levels, strict=True))))
    return name, stages, rows


def transition_matrices(scorings: Iterable[tuple[str, Hypnogram]], cuts: Sequence[int]) -> list[Matrix]:
    """Return by which stage each stage is followed, for each scoring."""
    # an unscored epoch at every cut between segments, so that no pair spans a cut
    return [
        matrix(
            name, each.scheme.names, pair_counts(np.insert(each.labels, cuts, UNSCORED), each.scheme.n_stages)
        )
        for name, each in scorings
    ]

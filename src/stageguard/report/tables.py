"""The measures of a night's report, taken once, and the rows of its tables with the sentences beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import Agreement, agreement, common_scheme, merged_pairs
from stageguard.measures.bouts import cuts_of, hypnogram_before, hypnogram_of, pair_counts, period_for
from stageguard.measures.cohort import count_steered
from stageguard.measures.grade import GradeCard
from stageguard.measures.intervals import (
    DEFAULT_DRAWS,
    OF_GOOD_STAGERS,
    WITHHELD,
    Intervals,
    Method,
    hinges_of,
    intervals,
    why_withheld,
)
from stageguard.measures.rare import RareEvent, rare_events
from stageguard.measures.statistics import SleepStatistics, StatisticsOptions
from stageguard.measures.validity import Indicator, Validity, validity_of
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import (
    EARLY_WORDS,
    NIGHT,
    STAGE,
    STAGE_INDICATORS,
    STEERED_MARK,
    Quantity,
    Steering,
    quantity_of,
    steered_words,
)
from stageguard.night.stages import StageScheme
from stageguard.report.hypnogram_svg import expert_name
from stageguard.report.numbers import ABSENT, count, number_text
from stageguard.report.pictures import OUTSIDE, BandRow
from stageguard.report.summary import hinge_words


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column of the report: a scoring and its measures."""

    name: str
    statistics: SleepStatistics
    validity: Validity


@dataclass(frozen=True, slots=True)
class ExpertColumn:
    """The expert's column; a scoring in stages coarser than the profile's has no validity."""

    name: str
    statistics: SleepStatistics
    validity: Validity | None

    def indicator(self, key: str) -> float:
        """Return the value of an indicator; NaN if there is none."""
        return float("nan") if self.validity is None else self.validity.indicators[key].value


@dataclass(frozen=True, slots=True)
class ReportMeasures:
    """All measures of one night; `expert` and `agreement` are None without an expert's scoring."""

    before: ReportColumn
    after: ReportColumn
    expert: ExpertColumn | None
    agreement: tuple[Agreement, Agreement] | None  # before, after
    events: tuple[RareEvent, ...]
    hinges: Mapping[str, tuple[int, int]]  # doubtful epochs that a statistic depends on

    @property
    def columns(self) -> tuple[ReportColumn | ExpertColumn, ...]:
        """The columns of the report."""
        return (self.before, self.after) if self.expert is None else (self.before, self.after, self.expert)


def align_expert(expert: Hypnogram, decoding: Decoding) -> Hypnogram:
    """Return an expert's scoring in the night's stages and epochs; raise an error if it does not fit.

    Stages coarser than the night's are kept.
    """
    night = decoding.hypnogram
    expert = hypnogram_of(expert)
    return on_epochs_of(night, expert).merge(common_scheme(expert.scheme, night.scheme))


def measure(decoding: Decoding, expert: Hypnogram | None, options: StatisticsOptions) -> ReportMeasures:
    """Measure a night before and after decoding, and the expert's scoring."""
    before, night, cuts = hypnogram_before(decoding), decoding.hypnogram, cuts_of(decoding)

    period = period_for(decoding, decoding.profile, options.lights)

    def validity(scoring: Hypnogram, expert: Hypnogram | None = None) -> Validity:
        return validity_of(scoring, decoding.profile, period, cuts, expert)

    hinges = hinges_of(decoding, options)
    is_coarser = expert is not None and expert.scheme != night.scheme
    columns = (
        ReportColumn("before", options.measure(before), validity(before)),
        ReportColumn("after", options.measure(decoding), validity(night, None if is_coarser else expert)),
    )
    if expert is None:
        return ReportMeasures(*columns, None, None, rare_events(decoding), hinges)
    scored = ExpertColumn(
        expert_name(expert), options.measure(expert), None if is_coarser else validity(expert)
    )
    pairs = merged_pairs(decoding.profile, expert.scheme)
    agreed = agreement(expert, before, pairs=pairs), agreement(expert, night, pairs=pairs)
    return ReportMeasures(*columns, scored, agreed, rare_events(decoding), hinges)


ROWS = tuple(sorted(NIGHT, key=lambda quantity: quantity.report_row))
MOST_EVENTS = 150  # a mouse's day can have hundreds; events that decoding lost or made take precedence
HEAT = (1e-9, 1.0, 3.0, 10.0, 30.0)  # percentages from which a cell of a transition matrix is darker


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """A measure of all scorings; `flag` is "" if nothing is unusual, `grade` without a grade card."""

    name: str
    decimals: int
    before: float
    after: float
    expert: float = math.nan
    _: KW_ONLY
    unit: str = ""
    interval: str = ""  # "" without an interval
    flag: str = ""
    hinge: str = ""  # advice to look at the doubtful epochs that it depends on
    grade: str = ""


def agreement_rows(before: Agreement, after: Agreement) -> Iterator[MeasureRow]:
    """Yield accuracy, kappa, F1 by stage and the recall of rare transitions."""
    yield MeasureRow("Accuracy (%)", 1, 100 * before.accuracy, 100 * after.accuracy)
    yield MeasureRow("Cohen's κ", 3, before.kappa, after.kappa)
    yield MeasureRow("Macro F1", 3, before.macro_f1, after.macro_f1)
    for stage in after.f1:
        yield MeasureRow(f"F1, {stage}", 3, before.f1[stage], after.f1[stage])
    if after.n_rare:
        title = f"Rare transitions found, of {after.n_rare:,}"
        yield MeasureRow(f"{title}, same epoch (%)", 0, 100 * before.rare_recall_0, 100 * after.rare_recall_0)
        yield MeasureRow(f"{title}, ± 2 epochs (%)", 0, 100 * before.rare_recall_2, 100 * after.rare_recall_2)


def agreement_caption(after: Agreement, scheme: StageScheme) -> str:
    """Return the number of epochs, the stages if not the night's, and the accuracy of guessing, as text."""
    merged = "" if after.scheme == scheme else f" Compared in {', '.join(after.scheme.names)}."
    left_out = f", {after.n_left_out:,} left out" if after.n_left_out else ""
    majority = (
        f"Calling every epoch {after.majority_stage} would be right in {100 * after.majority_accuracy:.1f} %."
    )
    scored = f"{count(after.n_epochs, 'epoch')} scored by both{left_out}.{merged}"
    return f"{scored} {majority}" if after.n_epochs else scored


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """Epochs of one stage of the expert's that a scoring gave one stage; `percent` is of the expert's."""

    n_epochs: int
    percent: float

    @property
    def level(self) -> int:
        """How dark the cell is."""
        return sum(self.percent >= low for low in HEAT)


def confusion_tables(
    before: Agreement, after: Agreement
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, list[ConfusionCell]]]]]:
    """Yield name, stages, and rows of cells by the expert's stage, before and after."""
    for name, agreed in (("Before", before), ("After", after)):
        rows = []
        for stage, counts in zip(agreed.scheme.names, agreed.confusion.tolist(), strict=True):
            total = sum(counts)
            rows.append((stage, [ConfusionCell(n, 100 * n / total if total else math.nan) for n in counts]))
        yield name, agreed.scheme.names, rows


def transition_matrices(
    scorings: Iterable[tuple[str, Hypnogram]], cuts: Sequence[int]
) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, list[tuple[float, int]]]]]]:
    """Yield name, stages, and rows of percentages with their darkness, for each scoring."""
    for name, scoring in scorings:
        # an unscored epoch at every cut between segments, so that no pair spans a cut
        pairs = pair_counts(np.insert(scoring.labels, cuts, UNSCORED), scoring.scheme.n_stages)
        stages = scoring.scheme.names
        rows = []
        for stage, counts in zip(stages, pairs.tolist(), strict=True):
            total = sum(counts)
            percents = [100 * n / total if total else math.nan for n in counts]
            rows.append((stage, [(each, sum(each >= low for low in HEAT)) for each in percents]))
        yield name, stages, rows


def joint_row(measured: ReportMeasures) -> BandRow | None:
    """Return the joint score before and after with the experts' range, or None without a range."""
    before, after = measured.before.validity.joint, measured.after.validity.joint
    if math.isnan(after.high):
        return None
    expert = None if measured.expert is None else measured.expert.validity
    row = _band_row("", "Joint score", before, after, math.nan if expert is None else expert.joint.value)
    return replace(row, unit="of all below", is_verdict=True)


def indicator_rows(measured: ReportMeasures) -> tuple[BandRow, ...]:
    """Return all indicators, with or without a band: first those of the whole night, then kind by kind."""
    kinds = [kind.key for kind in STAGE_INDICATORS]

    def rank(key: str) -> int:
        return next((number for number, kind in enumerate(kinds) if key.startswith(kind)), -1)

    before, after = measured.before.validity.indicators, measured.after.validity.indicators
    expert = measured.expert
    return tuple(
        _band_row(
            key,
            quantity_of(key).label,
            before[key],
            after[key],
            math.nan if expert is None else expert.indicator(key),
        )
        for key in sorted(after, key=rank)
    )


def _band_row(key: str, name: str, before: Indicator, after: Indicator, expert: float) -> BandRow:
    was, now = ("" if each.place == "no band" else each.place for each in (before, after))
    values = after.low, after.high, before.value, after.value
    return BandRow(name, after.unit, *values, was, now, expert, key)


def bands_sentence(rows: Sequence[BandRow]) -> str:
    """Return one or two sentences on indicators inside and outside their bands."""
    rows = [row for row in rows if not (math.isnan(row.before) and math.isnan(row.after))]
    if not rows:
        return "No indicator with an expert band could be measured."
    n_before = sum(row.before_place == "inside" for row in rows)
    n_after = sum(row.after_place == "inside" for row in rows)
    if n_before == n_after == len(rows):
        return f"All {len(rows)} indicators with an expert band lie inside it, before and after."
    sentence = (
        f"Of {len(rows)} indicators with an expert band, {n_after} lie inside it after decoding, "
        f"{n_before} before."
    )
    outside = [f"{row.name} {row.after_place}" for row in rows if row.after_place in OUTSIDE]
    if not outside:
        return sentence
    named = "; ".join(outside[:4]) + (f"; and {len(outside) - 4} more" if len(outside) > 4 else "")
    return f"{sentence} Outside: {named}."


def indicator_reasons(measured: ReportMeasures, rows: Sequence[BandRow]) -> tuple[str, ...]:
    """Return one sentence per reason why indicators have no value or no band."""

    def reasons(key: str) -> dict[str, str]:
        return {
            column.name: "" if column.validity is None else column.validity.indicators[key].reason
            for column in measured.columns
        }

    by_reason = _rows_by_reason((row.name, reasons(row.key)) for row in rows)
    expert = measured.expert
    if expert is not None and expert.validity is None:
        stages = ", ".join(expert.statistics.scheme.names)
        by_reason[f"scored in {stages}, too coarse for the profile's bands"] = [expert.name.capitalize()]
    return tuple(f"{'; '.join(names)}: {reason.rstrip('.')}." for reason, names in by_reason.items())


def statistic_reasons(measured: ReportMeasures) -> tuple[str, ...]:
    """Return one sentence per reason why statistics do not exist."""
    by_reason = _rows_by_reason(
        (
            quantity.label,
            {each.name: each.statistics.reasons.get(quantity.key, "") for each in measured.columns},
        )
        for quantity in (*ROWS, *STAGE)
    )
    return tuple(f"{'; '.join(names)}: {reason}." for reason, names in by_reason.items())


def _rows_by_reason(rows: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, list[str]]:
    """Return the names of rows without a number by reason, with the columns if not all."""
    by_reason: dict[str, list[str]] = {}
    for name, reasons in rows:
        for reason in dict.fromkeys(filter(None, reasons.values())):
            columns = [column for column in reasons if reasons[column] == reason]
            only = "" if len(columns) == len(reasons) else f" ({', '.join(columns)})"
            by_reason.setdefault(reason, []).append(f"{name}{only}")
    return by_reason


def minimum_words(measured: ReportMeasures) -> Iterator[str]:
    """Yield sentences on bouts below the profile's minima, and on the expert's short bouts that were lost."""
    before, after = measured.before.validity, measured.after.validity
    for stage, n_after in after.bouts_below_minimum.items():
        n_before = before.bouts_below_minimum[stage]
        sentence = f"{stage}: {count(n_before, 'bout')} below the profile's minimum before, {n_after:,} after"
        if after.expert_bouts_below_minimum is not None and after.expert_bouts_lost is not None:
            n_expert, n_lost = after.expert_bouts_below_minimum[stage], after.expert_bouts_lost[stage]
            sentence += (
                f"; {n_expert:,} scored so short for comparison, {n_lost:,} of them without trace after"
            )
        yield f"{sentence}."


def statistic_groups(
    measured: ReportMeasures,
    intervals: Intervals | None,
    steered: frozenset[Steering],
    card: GradeCard | None,
) -> dict[str, list[MeasureRow]]:
    """Return rows by heading: the whole night, measures of each stage, and expectations by probabilities."""

    def row(
        quantity: Quantity, name: str, key: str, values: Sequence[float], interval_key: str = ""
    ) -> MeasureRow:
        interval = _interval(intervals, interval_key or key, quantity.decimals)
        flag = "early" * any(map(quantity.is_early, values))
        flag = STEERED_MARK if quantity.follows in steered else flag
        grade = "" if card is None else card.mark(key)
        return MeasureRow(
            name,
            quantity.decimals,
            *values,
            unit=quantity.unit,
            interval=interval,
            flag=flag,
            hinge=hinge_words(measured.hinges.get(key)),
            grade=grade,
        )

    columns = [column.statistics for column in measured.columns]
    groups = {
        "Whole night": [row(q, q.label, q.key, [getattr(column, q.key) for column in columns]) for q in ROWS]
    }
    after = measured.after.statistics
    for kind in STAGE:
        by_stage = [getattr(column, kind.key) for column in columns]
        groups[kind.label] = [
            row(
                *(kind, stage, f"{kind.key}_{stage}", [each.get(stage, math.nan) for each in by_stage]),
                interval_key=f"{kind.reported_key}_{stage}",
            )
            for stage in after.scheme.names
            if stage in getattr(after, kind.key)
        ]
    return groups


def statistic_notes(
    groups: Mapping[str, Sequence[MeasureRow]], measured: ReportMeasures, steered: frozenset[Steering]
) -> Iterator[str]:
    """Yield notes on epochs that the expert left unscored, and on the flags of rows."""
    expert = measured.expert
    if expert is not None:
        minutes = expert.statistics.unscored_minutes - measured.after.statistics.unscored_minutes
        if minutes > 0:
            yield (
                f"{expert.name.capitalize()} covers {minutes:,.1f} min less than before and after, which are "
                "of the whole night: compare them with care. The agreement is on the epochs that both scored."
            )
    flags = {row.flag for rows in groups.values() for row in rows}
    if "early" in flags:
        yield f"{EARLY_WORDS[0].upper()}{EARLY_WORDS[1:]}."
    if STEERED_MARK in flags:
        yield f"{steered_words(count_steered([steered]))}."


def _interval(intervals: Intervals | None, key: str, decimals: int) -> str:
    """Return an interval as text, a dash if it does not exist, "" for statistics without intervals."""
    if intervals is None or key not in intervals:
        return ""
    if intervals[key].reason:
        return ABSENT
    return f"{number_text(intervals[key].low, decimals)} to {number_text(intervals[key].high, decimals)}"


def night_intervals(decoding: Decoding, options: StatisticsOptions) -> Intervals | None:
    """Return conformal intervals, else model intervals that are made for a coverage, else None."""
    profile = decoding.profile
    method: Method = "conformal"
    if not profile.intervals.get("errors") or decoding.is_foreign:
        if profile.posterior is None or why_withheld(decoding):
            return None
        method = "model"
    return intervals(
        decoding,
        method=method,
        lights_off=options.lights_off,
        lights_on=options.lights_on,
        min_first_rem_seconds=options.min_first_rem_seconds,
    )


def interval_title(intervals: Intervals | None) -> str:
    """Return the heading of the column, or "" without intervals."""
    if intervals is None:
        return ""
    return f"{100 * intervals.level:.0f} % interval" if intervals.is_measured else "Interval"


def interval_notes(decoding: Decoding, intervals: Intervals | None) -> Iterator[str]:
    """Yield notes on the source of the intervals and their measured coverage."""
    fitted = decoding.profile.intervals
    if intervals is None:
        if decoding.profile.posterior is not None or fitted.get("errors"):
            yield f"No intervals are shown ({WITHHELD})."
        return
    if intervals.method == "model":
        yield model_note(intervals)
        if (rules := decoding.profile.posterior) is not None and rules.sol_factor > 1:
            yield f"The ends for SOL are moved outwards by the factor {rules.sol_factor:g}."
        if decoding.stager is None:
            yield OF_GOOD_STAGERS
        return
    nights = (
        f"{count(intervals.n_nights, 'scored night')} of {count(int(fitted.get('n_subjects', 0)), 'subject')}"
    )
    share, covered = covered_share(intervals), ""
    if share:
        covered = f" There, each subject judged by the errors on the others, they held {share} of the values."
    yield (
        f"The {interval_title(intervals).lower()} is as wide as the errors against experts on {nights} that "
        f"were held out from the fit.{covered} It holds for nights like those: same stager, same kind of "
        "people."
    )


def covered_share(intervals: Intervals) -> str:
    """Return the lowest and highest measured coverage in words; "" if none was measured."""
    coverages = [each.measured_coverage for each in intervals.values()]
    measured = [coverage for coverage in coverages if not math.isnan(coverage)]
    if not measured:
        return ""
    low, high = 100 * min(measured), 100 * max(measured)
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


KIND_WORDS = {
    "good": "stagers that do not flicker",
    "flickering": "stagers that flicker",
    "labels": "stagers that give labels alone",
    "unlike": "nights that do not look like expert scoring",
}


def model_note(intervals: Intervals) -> str:
    """Return where model intervals that are made for a coverage come from, and what they held."""
    share = covered_share(intervals)
    covered = (
        f" Of {KIND_WORDS[intervals.kind]}, on cohorts that had no part in its choice, they held {share} of "
        "the experts' values, by statistic."
        if share
        else ""
    )
    return (
        f"The {interval_title(intervals).lower()} holds nine tenths of {DEFAULT_DRAWS} drawn nights, in each "
        f"of which the stager errs in its own way all night.{covered} No scored night of the stager was seen."
    )


def ledger(events: Sequence[RareEvent]) -> list[RareEvent]:
    """Return the events in order of time; of very many, keep those that decoding lost or made."""
    chosen = sorted(events, key=lambda event: event.fate == "kept")[:MOST_EVENTS]
    return sorted(chosen, key=lambda event: (event.epoch, event.kind))


def ledger_intro(decoding: Decoding, events: Sequence[RareEvent]) -> str:
    """Return which events were watched for, and their fates."""
    scheme = decoding.profile.scheme
    watched = [f"{a}→{b}" for a, b in decoding.profile.tvr_pairs]
    if scheme.wake is not None and scheme.rem is not None:
        early = [f"{scheme.wake}→{scheme.rem}", f"{scheme.rem} soon after sleep onset"]
        watched = list(dict.fromkeys([*watched, *early]))
    if not watched:
        return "These stages know no rare event."
    looked = f"Watched: {', '.join(watched)}."
    return f"{looked} {fates(events)}" if events else f"{looked} None occurs, before or after."


def fates(events: Sequence[RareEvent]) -> str:
    """Return one sentence on how many events were kept, lost and made."""
    n = Counter(event.fate for event in events)
    n_before = n["kept"] + n["partly removed"] + n["lost"]
    if not n_before:
        return f"The stager has no rare event; decoding made {count(n['new'], 'new one')}."
    of_stager = count(n_before, "rare event")
    partly = f", removed {n['partly removed']:,} in part" if n["partly removed"] else ""
    return (
        f"Of the stager's {of_stager}, decoding kept {n['kept']:,}{partly} and lost {n['lost']:,}; "
        f"{n['new']:,} new."
    )

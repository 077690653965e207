"""Rows of the sleep statistics table: before, after, expert, differences, intervals, and what is absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from stageguard.guard.decoding import Decoding
from stageguard.measures.intervals import Intervals, intervals, is_foreign, shortest_first_rem
from stageguard.measures.statistics import SleepStatistics, StatisticsOptions
from stageguard.night.quantities import NIGHT, STAGE, Quantity
from stageguard.report.measures import Measured
from stageguard.report.numbers import ABSENT, count, difference, shown

ROWS = tuple(sorted(NIGHT, key=lambda quantity: quantity.report_row))

Reader = Callable[[SleepStatistics], float]


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """A statistic as shown; `expert` and `error` are empty without an expert, `interval` without any."""

    name: str
    unit: str
    before: str
    after: str
    change: str
    interval: str = ""
    expert: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """Time in one stage in the light or in the dark, one cell per scoring."""

    phase: str
    stage: str
    minutes: tuple[str, ...]
    percent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticGroup:
    """Rows under one heading."""

    title: str
    rows: tuple[StatisticRow, ...]


def statistic_groups(measured: Measured, intervals: Intervals | None = None) -> tuple[StatisticGroup, ...]:
    """Return all rows: the night as a whole, then minutes, shares and bouts of each stage."""
    before, after = measured.before.statistics, measured.after.statistics
    expert = None if measured.expert is None else measured.expert.statistics

    def row(quantity: Quantity, name: str, key: str, read: Reader) -> StatisticRow:
        value_before, value_after, decimals = read(before), read(after), quantity.decimals
        shown_row = StatisticRow(
            name=name,
            unit=quantity.unit,
            before=shown(value_before, decimals),
            after=shown(value_after, decimals),
            change=difference(value_after, value_before, decimals),
            interval=interval_cell(intervals, key, decimals),
        )
        if expert is None:
            return shown_row
        truth = read(expert)
        error = difference(value_after, truth, decimals)
        return replace(shown_row, expert=shown(truth, decimals), error=error)

    groups = [StatisticGroup("Whole night", tuple(row(q, q.label, q.key, _field(q.key)) for q in ROWS))]
    for kind in STAGE:
        rows = [
            row(kind, stage, f"{kind.reported_key}_{stage}", _stage(kind.key, stage))
            for stage in after.scheme.names
            if stage in getattr(after, kind.key)
        ]
        groups.append(StatisticGroup(kind.label, tuple(rows)))
    return tuple(groups)


def absent_reasons(measured: Measured) -> tuple[str, ...]:
    """Return why numbers do not exist: one sentence per reason, naming rows and, if not all, columns."""
    titles = {quantity.key: quantity.label for quantity in (*ROWS, *STAGE)}
    rows_by_reason: dict[str, list[str]] = {}
    for key, title in titles.items():
        columns: dict[str, list[str]] = {}
        for column in measured.columns:
            if key in column.statistics.reasons:
                columns.setdefault(column.statistics.reasons[key], []).append(column.name)
        for reason, where in columns.items():
            only = "" if len(where) == len(measured.columns) else f" ({', '.join(where)})"
            rows_by_reason.setdefault(reason, []).append(f"{title}{only}")
    return tuple(f"{'; '.join(rows)}: {reason}." for reason, rows in rows_by_reason.items())


def phase_rows(measured: Measured) -> tuple[PhaseRow, ...]:
    """Return the shares of scored time in the light and in the dark; empty without a light cycle."""
    phases = [column.statistics.phases for column in measured.columns]
    return tuple(
        PhaseRow(
            name,
            stage,
            tuple(shown(phase[name].stage_minutes[stage], 1) for phase in phases),
            tuple(shown(phase[name].stage_percent[stage], 1) for phase in phases),
        )
        for name in phases[0]
        for stage in measured.after.statistics.scheme.names
    )


def _field(key: str) -> Reader:
    def read(statistics: SleepStatistics) -> float:
        return float(getattr(statistics, key))

    return read


def _stage(key: str, stage: str) -> Reader:
    def read(statistics: SleepStatistics) -> float:
        return float(getattr(statistics, key).get(stage, math.nan))

    return read


def night_intervals(decoding: Decoding, options: StatisticsOptions) -> Intervals | None:
    """Return conformal intervals, or None where the profile knows no errors on nights like this one."""
    if not decoding.profile.intervals.get("errors") or is_foreign(decoding):
        return None
    return intervals(decoding, lights_off=options.lights_off, lights_on=options.lights_on)


def interval_title(intervals: Intervals | None) -> str:
    """Return the heading of the column, or nothing without intervals."""
    if intervals is None:
        return ""
    return f"{100 * intervals.level:.0f} % interval" if intervals.is_measured else "Interval"


def interval_cell(intervals: Intervals | None, key: str, decimals: int) -> str:
    """Return an interval as shown, a dash where it does not exist, nothing for what gets none."""
    if intervals is None or key not in intervals:
        return ""
    if intervals[key].reason:
        return ABSENT
    return f"{shown(intervals[key].low, decimals)} to {shown(intervals[key].high, decimals)}"


def interval_notes(
    decoding: Decoding, intervals: Intervals | None, statistics: SleepStatistics
) -> Iterator[str]:
    """Return where the intervals come from, and how often such ones covered."""
    fitted = decoding.profile.intervals
    if intervals is None:
        if fitted.get("errors"):
            yield (
                "No intervals are shown: the profile knows the errors on nights of "
                f"{decoding.profile.cohort}, and this one is of {decoding.cohort}."
            )
        return
    nights = (
        f"{count(intervals.n_nights, 'scored night')} of {count(int(fitted.get('n_subjects', 0)), 'subject')}"
    )
    measured = [
        interval.measured_coverage
        for interval in intervals.values()
        if not math.isnan(interval.measured_coverage)
    ]
    covered = ""
    if measured:
        low, high = 100 * min(measured), 100 * max(measured)
        share = f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"
        covered = f" There, each subject judged by the errors on the others, they held {share} of the values."
    yield (
        f"The {interval_title(intervals).lower()} is as wide as the errors against experts on {nights} that "
        f"were held out from the fit.{covered} It holds for nights like those: same stager, same kind of "
        "people."
    )
    shortest = shortest_first_rem(decoding.profile)
    latency = intervals.get("rem_latency_minutes")
    if shortest and latency is not None and not latency.reason:
        moved = latency.value != statistics.rem_latency_minutes
        here = f", here after {shown(latency.value, 1)} min" if moved else ""
        yield (
            f"That of REM latency is for the first REM bout of {shortest:g} s or more, as the profile was "
            f"fitted{here}."
        )

"""Rows of the sleep statistics table: before, after, expert, differences and why a number is absent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from stageguard.measures.intervals import Intervals
from stageguard.measures.statistics import SleepStatistics
from stageguard.night.quantities import NIGHT, STAGE, Quantity
from stageguard.report.interval_words import interval_cell
from stageguard.report.measures import Measured
from stageguard.report.numbers import difference, shown

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


def statistic_groups(measured: Measured, found: Intervals | None = None) -> tuple[StatisticGroup, ...]:
    """Return all rows: the night as a whole, then minutes, shares and bouts of each stage."""
    before, after = measured.before.statistics, measured.after.statistics
    expert = None if measured.expert is None else measured.expert.statistics

    def row(quantity: Quantity, name: str, key: str, read: Reader) -> StatisticRow:
        value_before, value_after, decimals = read(before), read(after), quantity.decimals
        shown_row = StatisticRow(
            name,
            quantity.unit,
            shown(value_before, decimals),
            shown(value_after, decimals),
            difference(value_after, value_before, decimals),
            interval_cell(found, key, decimals),
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

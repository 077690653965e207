"""Rows of the sleep statistics table: before, after, expert, differences and why a number is absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stageguard.report.numbers import difference, shown
from stageguard.statistics import SleepStatistics

# Field of SleepStatistics, name, unit, decimals.
FIELDS = (
    ("tst_minutes", "Total sleep time (TST)", "min", 1),
    ("se_percent", "Sleep efficiency (SE)", "% of TIB", 1),
    ("sol_minutes", "Sleep onset latency (SOL)", "min", 1),
    ("sol_5min_minutes", "SOL to 5 min of sleep", "min", 1),
    ("sol_10min_minutes", "SOL to 10 min of sleep", "min", 1),
    ("rem_latency_minutes", "REM latency", "min", 1),
    ("waso_minutes", "Wake after sleep onset (WASO)", "min", 1),
    ("awakenings", "Awakenings", "count", 0),
    ("awakenings_with_final", "Awakenings, the final one included", "count", 0),
    ("sfi_per_hour", "Sleep fragmentation index (SFI)", "per hour of TST", 2),
    ("cycles", "NREM–REM cycles", "count", 0),
    ("sme_percent", "Sleep maintenance efficiency (SME)", "% of SPT", 1),
    ("spt_minutes", "Sleep period time (SPT)", "min", 1),
    ("tib_minutes", "Time in bed (TIB)", "min", 1),
    ("unscored_minutes", "Unscored", "min", 1),
)

Reader = Callable[[SleepStatistics], float]


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """A statistic as shown; `expert` and `error` are empty without an expert."""

    name: str
    unit: str
    before: str
    after: str
    change: str
    expert: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class StatisticGroup:
    """Rows under one heading."""

    title: str
    rows: tuple[StatisticRow, ...]


def statistic_groups(
    before: SleepStatistics, after: SleepStatistics, expert: SleepStatistics | None
) -> tuple[StatisticGroup, ...]:
    """Return all rows: the night as a whole, then minutes, shares and bouts of each stage."""

    def row(name: str, unit: str, decimals: int, read: Reader) -> StatisticRow:
        values = [read(before), read(after)]
        cells = [shown(value, decimals) for value in values]
        change = difference(values[1], values[0], decimals)
        if expert is None:
            return StatisticRow(name, unit, *cells, change)
        truth = read(expert)
        error = difference(values[1], truth, decimals)
        return StatisticRow(name, unit, *cells, change, shown(truth, decimals), error)

    whole = [row(name, unit, decimals, _field(key)) for key, name, unit, decimals in FIELDS]
    names = after.scheme.names
    minutes = [row(name, "min", 1, _stage("stage_minutes", name)) for name in names]
    shares = [
        row(name, "% of TST", 1, _stage("stage_percent", name))
        for name in names
        if name in after.stage_percent
    ]
    bouts = [row(name, "count", 0, _stage("bouts", name)) for name in names]
    return (
        StatisticGroup("Whole night", tuple(whole)),
        StatisticGroup("Time per stage", tuple(minutes)),
        StatisticGroup("Share of total sleep time", tuple(shares)),
        StatisticGroup("Bouts per stage", tuple(bouts)),
    )


def absent_reasons(statistics: Mapping[str, SleepStatistics]) -> tuple[str, ...]:
    """Return why numbers do not exist: one sentence per reason, naming the rows and, if not all, the columns.

    Parameters
    ----------
    statistics : mapping of str to SleepStatistics
        The statistics by the title of their column.
    """
    titles = {key: name for key, name, _, _ in FIELDS} | {"stage_percent": "Share of total sleep time"}
    rows_by_reason: dict[str, list[str]] = {}
    for key, title in titles.items():
        columns: dict[str, list[str]] = {}
        for column, values in statistics.items():
            if key in values.reasons:
                columns.setdefault(values.reasons[key], []).append(column)
        for reason, where in columns.items():
            only = "" if len(where) == len(statistics) else f" ({', '.join(where)})"
            rows_by_reason.setdefault(reason, []).append(f"{title}{only}")
    return tuple(f"{'; '.join(rows)}: {reason}." for reason, rows in rows_by_reason.items())


def _field(key: str) -> Reader:
    def read(statistics: SleepStatistics) -> float:
        return float(getattr(statistics, key))

    return read


def _stage(key: str, stage: str) -> Reader:
    def read(statistics: SleepStatistics) -> float:
        return float(getattr(statistics, key).get(stage, math.nan))

    return read

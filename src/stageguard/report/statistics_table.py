"""Rows of the sleep statistics table: before, after, expert, differences and why a number is absent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from stageguard.measures.intervals import Intervals
from stageguard.measures.statistics import SleepStatistics
from stageguard.report.interval_words import interval_cell
from stageguard.report.measures import Measured
from stageguard.report.numbers import difference, shown

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

    def row(name: str, unit: str, decimals: int, read: Reader, key: str = "") -> StatisticRow:
        own, now = read(before), read(after)
        shown_row = StatisticRow(
            name,
            unit,
            shown(own, decimals),
            shown(now, decimals),
            difference(now, own, decimals),
            interval_cell(found, key, decimals),
        )
        if expert is None:
            return shown_row
        truth = read(expert)
        return replace(shown_row, expert=shown(truth, decimals), error=difference(now, truth, decimals))

    whole = [row(name, unit, decimals, _field(key), key) for key, name, unit, decimals in FIELDS]
    names = after.scheme.names
    minutes = [row(name, "min", 1, _stage("stage_minutes", name), f"minutes_{name}") for name in names]
    shares = [
        row(name, "% of TST", 1, _stage("stage_percent", name))
        for name in names
        if name in after.stage_percent
    ]
    bouts = [row(name, "count", 0, _stage("bouts", name), f"bouts_{name}") for name in names]
    return (
        StatisticGroup("Whole night", tuple(whole)),
        StatisticGroup("Time per stage", tuple(minutes)),
        StatisticGroup("Share of total sleep time", tuple(shares)),
        StatisticGroup("Bouts per stage", tuple(bouts)),
    )


def absent_reasons(measured: Measured) -> tuple[str, ...]:
    """Return why numbers do not exist: one sentence per reason, naming rows and, if not all, columns."""
    titles = {key: name for key, name, _, _ in FIELDS} | {"stage_percent": "Share of total sleep time"}
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

"""Rows of the validity picture and table: indicators before and after beside their expert bands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from stageguard.measures.validity import Indicator, Validity
from stageguard.night.quantities import STAGE_INDICATORS, quantity_of
from stageguard.profile.profile import Profile
from stageguard.report.bands_svg import BandRow
from stageguard.report.measures import Measured
from stageguard.report.numbers import ABSENT, count, decimals_for, shown

OUTSIDE = ("below", "above")


@dataclass(frozen=True, slots=True)
class IndicatorRow:
    """An indicator as the table shows it."""

    name: str
    unit: str
    band: str
    before: str
    before_place: str
    after: str
    after_place: str
    expert: str


def band_rows(measured: Measured) -> tuple[BandRow, ...]:
    """Return the indicators that have a band, to be drawn."""
    before, expert = measured.before.validity, measured.expert
    rows = []
    for key, after in _ordered(measured.after.validity):
        if not (math.isfinite(after.low) and math.isfinite(after.high)):
            continue
        indicator_before = before.indicators[key]
        rows.append(
            BandRow(
                name=quantity_of(key).label,
                unit=after.unit,
                low=after.low,
                high=after.high,
                before=indicator_before.value,
                after=after.value,
                before_place=_place(indicator_before),
                after_place=_place(after),
                expert=math.nan if expert is None else expert.indicator(key),
            )
        )
    return tuple(rows)


def indicator_rows(measured: Measured) -> tuple[IndicatorRow, ...]:
    """Return all indicators, with or without a band."""
    before, expert = measured.before.validity, measured.expert
    rows = []
    for key, after in _ordered(measured.after.validity):
        indicator_before = before.indicators[key]
        truth = math.nan if expert is None else expert.indicator(key)
        has_band = math.isfinite(after.low) and math.isfinite(after.high)
        decimals = decimals_for(
            (after.low, after.high) if has_band else (indicator_before.value, after.value, truth)
        )
        band = f"{shown(after.low, decimals)} to {shown(after.high, decimals)}" if has_band else ABSENT
        rows.append(
            IndicatorRow(
                name=quantity_of(key).label,
                unit=after.unit,
                band=band,
                before=shown(indicator_before.value, decimals),
                before_place=_place(indicator_before),
                after=shown(after.value, decimals),
                after_place=_place(after),
                expert=shown(truth, decimals),
            )
        )
    return tuple(rows)


def bands_sentence(rows: tuple[BandRow, ...]) -> str:
    """Return how many indicators lie inside their bands, and which still do not."""
    rows = tuple(row for row in rows if not (math.isnan(row.before) and math.isnan(row.after)))
    if not rows:
        return "No indicator with an expert band could be measured."
    inside = [sum(place == "inside" for place in places) for places in _places(rows)]
    outside = [f"{row.name} {row.after_place}" for row in rows if row.after_place in OUTSIDE]
    if inside == [len(rows), len(rows)]:
        return f"All {len(rows)} indicators with an expert band lie inside it, before and after."
    sentence = (
        f"Of {len(rows)} indicators with an expert band, {inside[1]} lie inside it after decoding, "
        f"{inside[0]} before."
    )
    if not outside:
        return sentence
    named = "; ".join(outside[:4]) + (f"; and {len(outside) - 4} more" if len(outside) > 4 else "")
    return f"{sentence} Outside: {named}."


def indicator_reasons(measured: Measured) -> tuple[str, ...]:
    """Return why indicators have no value or no band: one sentence per reason."""
    rows_by_reason: dict[str, list[str]] = {}
    columns = [(column.name, column.validity) for column in measured.columns]
    for key, _ in _ordered(measured.after.validity):
        by_reason: dict[str, list[str]] = {}
        for column, validity in columns:
            reason = "" if validity is None else validity.indicators[key].reason
            if reason:
                by_reason.setdefault(reason, []).append(column)
        for reason, where in by_reason.items():
            only = "" if len(where) == len(columns) else f" ({', '.join(where)})"
            rows_by_reason.setdefault(reason, []).append(f"{quantity_of(key).label}{only}")
    expert = measured.expert
    if expert is not None and expert.validity is None:
        stages = ", ".join(expert.statistics.scheme.names)
        rows_by_reason[f"scored in {stages}, too coarse for the profile's bands"] = [expert.name.capitalize()]
    return tuple(f"{'; '.join(rows)}: {reason.rstrip('.')}." for reason, rows in rows_by_reason.items())


def minimum_words(measured: Measured) -> Iterator[str]:
    """Return how many bouts are shorter than the profile's minima, and which of the expert's that cost."""
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


def band_sources(profile: Profile) -> tuple[str, ...]:
    """Return where the bands come from, each source once."""
    return tuple(dict.fromkeys(band.source for band in profile.bands.values() if band.source))


def _ordered(validity: Validity) -> list[tuple[str, Indicator]]:
    """Return whole-night indicators first, then those of the stages, each kind together."""
    kinds = [kind.key for kind in STAGE_INDICATORS]

    def rank(item: tuple[str, Indicator]) -> int:
        return next((number for number, kind in enumerate(kinds) if item[0].startswith(kind)), -1)

    return sorted(validity.indicators.items(), key=rank)


def _place(indicator: Indicator) -> str:
    return indicator.place if indicator.place in ("inside", *OUTSIDE) else ""


def _places(rows: tuple[BandRow, ...]) -> tuple[list[str], list[str]]:
    return [row.before_place for row in rows], [row.after_place for row in rows]

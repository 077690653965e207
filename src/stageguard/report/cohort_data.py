"""The rows of a cohort's page as data for its script: a list per column, in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from stageguard.base.arrays import Floats
from stageguard.measures.cohort import CohortTable
from stageguard.measures.summary import shown_rows, titled
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.quantities import quantity_of
from stageguard.report.cohort_rows import CohortRow, Scale
from stageguard.report.numbers import shown
from stageguard.report.svg import printable

SPARE_DIGITS = 2  # beyond the digits shown, so that changes are right and ties are rare


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers."""

    key: str
    heading: str
    title: str
    decimals: int


def columns_of(table: CohortTable, rows: Sequence[CohortRow]) -> list[Column]:
    """Return the columns of numbers: those of `stats` for each night, and the agreement with an expert."""
    quantities = [quantity for quantity in shown_rows(table) if "night row" in quantity.shown]
    columns = [
        Column(each.key, titled(each, each.short_heading, table), each.description, each.decimals)
        for each in quantities
    ]
    if any(row.kappa for row in rows):
        columns.append(Column("kappa", "κ", "Cohen's κ with the expert's scoring", 2))
    return columns


def page_data(
    rows: Sequence[CohortRow],
    table: CohortTable,
    columns: Sequence[Column],
    groups: Mapping[str, str],
    links: Mapping[str, str],
) -> dict[str, Any]:
    """Return all data of the script, in JSON types."""
    scales = list(dict.fromkeys(row.scale for row in rows))
    place_of = {scale: place for place, scale in enumerate(scales)}
    levels = list(dict.fromkeys(groups.values()))
    texts = {
        text: number for number, text in enumerate(dict.fromkeys(t for row in rows for t in row_remarks(row)))
    }
    return {
        "columns": [[each.key, each.heading, each.decimals] for each in columns],
        "scales": [_scale_data(scale) for scale in scales],
        "groups": [printable(level) for level in levels],
        "texts": [printable(text) for text in texts],
        "ids": [printable(row.id) for row in rows],
        "links": [links.get(row.id) for row in rows] if links else [],
        "group": [levels.index(groups[row.id]) if row.id in groups else -1 for row in rows] if groups else [],
        "scale": [place_of[row.scale] for row in rows],
        "spark": [row.hypnogram for row in rows],
        "hours": [round(row.hours, 2) for row in rows],
        "changed": _rounded((row.changed_percent for row in rows), 1 + SPARE_DIGITS),
        "alike": [{True: 1, False: 0, None: -1}[row.looks_like_experts(row.final)] for row in rows],
        "judged": [len(row.places) for row in rows],
        "outside": [_outside(row) for row in rows],
        "remarks": [[texts[text] for text in row_remarks(row)] for row in rows],
        "values": {
            scoring: [_numbers(table, rows, column, scoring) for column in columns]
            for scoring in table.values
        },
    }


def row_remarks(row: CohortRow) -> list[str]:
    """Return the remarks on a night."""
    return [*([f"cannot be judged: {row.unjudged}"] if row.unjudged else []), *row.remarks]


def _scale_data(scale: Scale) -> dict[str, Any]:
    order = top_down(scale.stages)
    return {
        "profile": scale.profile,
        "stages": [printable(scale.stages.names[stage]) for stage in order],
        "colours": [stage_shade(scale.stages, stage).light for stage in order],
        "bands": [[_label(key), _band(key, low, high)] for key, low, high in scale.bands],
    }


def _label(key: str) -> str:
    quantity = quantity_of(key)
    return quantity.label or quantity.title


def _band(key: str, low: float, high: float) -> str:
    quantity = quantity_of(key)
    return f"{shown(low, quantity.decimals)} to {shown(high, quantity.decimals)} {quantity.unit}"


def _outside(row: CohortRow) -> list[Any]:
    """Return index of the band, value and place of each indicator outside its band, in one flat list."""
    number_of = {key: number for number, (key, _, _) in enumerate(row.scale.bands)}
    return [
        entry
        for key, value, place in row.outside
        for entry in (number_of[key], shown(value, quantity_of(key).decimals), place[0])
    ]


def _numbers(
    table: CohortTable, rows: Sequence[CohortRow], column: Column, scoring: str
) -> list[float | None]:
    digits = column.decimals + SPARE_DIGITS
    if column.key == "kappa":
        return _rounded((row.kappa.get(scoring, float("nan")) for row in rows), digits)
    values: Floats = table.of(column.key, scoring)
    return _rounded(values.tolist(), digits)


def _rounded(values: Iterable[float], digits: int) -> list[float | None]:
    return [None if isnan(value) else round(value, digits) for value in values]

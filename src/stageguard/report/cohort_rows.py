"""A night of a cohort as a row of its report, stored in few bytes; all rows as data for the page's script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import isnan
from typing import Any

import numpy as np

from stageguard.base.arrays import NAN, Floats
from stageguard.measures.agreement import agreement
from stageguard.measures.cohort import SCORINGS, CohortNight, CohortTable, MeasuredScorings, count_steered
from stageguard.measures.taught import Taught
from stageguard.measures.validity import band_at, place_in
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import JOINT, Steering, indicators_of, quantity_of
from stageguard.night.stages import StageScheme
from stageguard.report.methods import CohortFact
from stageguard.report.numbers import shown
from stageguard.report.summary import shown_rows, titled
from stageguard.report.svg import printable

SPARK_BINS = 96  # of the small hypnogram in a row: five minutes each for eight hours
UNSCORED_CODE = "-"
FINAL = ("after", "before")  # the first that exists is the final scoring


@dataclass(frozen=True, slots=True)
class BandScale:
    """The bands and the threshold for nights of one profile and one epoch length."""

    profile: str  # "" if unknown
    sha256: str
    stages: StageScheme
    epoch_seconds: float
    bands: tuple[tuple[str, float, float], ...] = ()  # indicator, low, high
    threshold: float | None = None  # of the joint score

    @classmethod
    def of(cls, night: CohortNight, final: Hypnogram) -> BandScale:
        """Return the scale of a night."""
        profile, seconds = night.profile, final.epoch_seconds
        if profile is None:
            return cls("", "", final.scheme, seconds)
        bands = (
            (key, *band_at(quantity, profile, seconds))
            for key, quantity in indicators_of(profile.scheme.names).items()
        )
        with_limits = tuple(band for band in bands if not isnan(band[1]))
        threshold = None if profile.joint is None else profile.joint.threshold
        return cls(profile.name, profile.sha256, final.scheme, seconds, with_limits, threshold)


@dataclass(frozen=True, slots=True, eq=False)
class CohortRow:
    """The data of a night in the report."""

    id: str
    scale: BandScale
    n_epochs: int
    n_scored: int  # with a stage before decoding
    n_changed: int | None  # None if the night was not decoded
    names: tuple[str, ...]
    values: Mapping[str, Floats]  # by scoring, in the order of `names`; NaN where missing
    kappa: Mapping[str, float]  # with the expert, by scoring
    hypnogram: str  # from `spark_code`
    unjudged: str = ""  # why the night has no joint score
    steered: frozenset[Steering] = frozenset()
    taught: Taught | None = None
    # the values on the epochs that the expert scored, of scorings that have others, too
    on_expert_epochs: Mapping[str, Floats] = field(default_factory=dict)
    methods: CohortFact | None = None  # what the Methods paragraph needs, if the night was decoded
    remarks: tuple[str, ...] = ()  # what to look at
    notes: tuple[str, ...] = ()  # how the night was read and what was assumed

    @property
    def hours(self) -> float:
        """Length of the recording."""
        return self.n_epochs * self.scale.epoch_seconds / 3600.0

    @property
    def changed_percent(self) -> float:
        """Share of the scored epochs that decoding changed; NaN if the night was not decoded."""
        if self.n_changed is None:
            return NAN
        return 100.0 * self.n_changed / self.n_scored if self.n_scored else 0.0

    @property
    def final(self) -> str:
        """The final scoring: the decoded one, or the only one."""
        return next((name for name in FINAL if name in self.values), "expert")

    def value(self, name: str, scoring: str) -> float:
        """Return one number of one scoring; NaN if it is missing."""
        if scoring not in self.values or name not in self.names:
            return NAN
        return float(self.values[scoring][self.names.index(name)])

    @property
    def joint(self) -> float:
        """The joint score of the final scoring."""
        return self.value(JOINT.key, self.final)

    def looks_like_experts(self, scoring: str) -> bool | None:
        """Whether a scoring's joint score is within the threshold of expert nights; None without a score."""
        joint, threshold = self.value(JOINT.key, scoring), self.scale.threshold
        return None if isnan(joint) or threshold is None else joint <= threshold

    @property
    def places(self) -> list[tuple[str, float, str]]:
        """Key, value and place of the indicators that have a band and a value."""
        values = dict(zip(self.names, self.values[self.final].tolist(), strict=True))
        held = [(key, values.get(key, NAN), low, high) for key, low, high in self.scale.bands]
        return [(key, value, place_in(value, low, high)) for key, value, low, high in held if value == value]

    @property
    def outside(self) -> list[tuple[str, float, str]]:
        """Key, value and place of the indicators outside their band."""
        return [place for place in self.places if place[2] != "inside"]

    @property
    def worst_first(self) -> tuple[bool, float, int]:
        """Sort key: the night farthest from expert scoring first, nights without a joint score last."""
        joint, threshold = self.joint, self.scale.threshold
        is_unjudged = isnan(joint) or not threshold
        return is_unjudged, 0.0 if is_unjudged or not threshold else -joint / threshold, -len(self.outside)


def cohort_row(
    night: CohortNight,
    measured: MeasuredScorings,
    *,
    remarks: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> CohortRow:
    """Return the row of a measured night."""
    scorings = night.scorings
    kinds = {name: scorings[name] for name in ("before", "after") if name in scorings}
    final = scorings[next(name for name in (*FINAL, "expert") if name in scorings)]
    names = _share_names(
        tuple(dict.fromkeys(key for each in measured.measures.values() for key in each.values))
    )
    values, compared = (
        {
            scoring: np.array([each.values.get(name, NAN) for name in names])
            for scoring, each in measures.items()
        }
        for measures in (measured.measures, measured.on_expert_epochs)
    )
    kappa: dict[str, float] = {}
    if night.expert is not None:
        kappa = {name: agreement(night.expert, scoring, pairs=()).kappa for name, scoring in kinds.items()}
    chosen = measured.measures[next(name for name in (*FINAL, "expert") if name in measured.measures)]
    assumed = dict.fromkeys(text for each in measured.measures.values() for text in each.assumed)
    return CohortRow(
        id=night.night_id,
        scale=_share_scale(BandScale.of(night, final)),
        n_epochs=final.n_epochs,
        n_scored=int(np.count_nonzero((night.before or final).labels >= 0)),
        n_changed=night.n_changed,
        names=names,
        values=values,
        kappa=kappa,
        hypnogram=spark_code(final),
        unjudged=chosen.reasons.get(JOINT.key, "" if night.profile else "no profile is recorded with it"),
        steered=measured.steered,
        taught=measured.taught,
        on_expert_epochs=compared,
        methods=_methods_of(night, values, names, final.epoch_seconds, bool(measured.lights)),
        remarks=(*_early_rem_remarks(chosen.values, night), *remarks),
        notes=tuple(filter(None, (*notes, measured.lights, *assumed))),
    )


def _methods_of(
    night: CohortNight,
    values: Mapping[str, Floats],
    names: tuple[str, ...],
    epoch_seconds: float,
    is_between_lights: bool,
) -> CohortFact | None:
    """Return what the Methods paragraph needs of a decoded night, with the table's fragmentation index."""
    if night.effect is None or night.profile is None or "fragmentation_index" not in names:
        return None
    column = names.index("fragmentation_index")
    before, after = (float(values[scoring][column]) for scoring in ("before", "after"))
    return CohortFact(night.profile, epoch_seconds, night.effect, (before, after), is_between_lights)


def _early_rem_remarks(values: Mapping[str, float], night: CohortNight) -> Iterable[str]:
    """Yield remarks on REM soon after sleep onset."""
    latency = quantity_of("rem_latency_minutes")
    minutes = values.get(latency.key, NAN)
    if latency.is_early(minutes):
        yield f"early: REM {minutes:g} min after sleep onset; a false epoch, or a finding: look at it"
    kept_minutes = NAN if night.estimates is None else night.estimates.early_rem_kept_minutes
    if not isnan(kept_minutes):
        passed = f"passes over REM kept {kept_minutes:g} min after sleep onset"
        yield f"the best estimate of REM latency {passed}: look at it"


@lru_cache(maxsize=256)
def _share_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first of equal tuples, so that thousands of nights share one object."""
    return names


@lru_cache(maxsize=256)
def _share_scale(scale: BandScale) -> BandScale:
    return scale


def spark_code(night: Hypnogram, n_bins: int = SPARK_BINS) -> str:
    """Return a hypnogram as runs of the most frequent stage per bin: ``a12b3`` is 12 bins on top, 3 below.

    Letters stand for stages from top to bottom; a dash stands for mostly unscored bins.
    """
    n_bins, order = min(n_bins, night.n_epochs), top_down(night.scheme)
    codes = np.empty(len(order) + 1, dtype=np.intp)  # by label + 1
    codes[0], codes[1:][order] = len(order), np.arange(len(order))
    bins = np.arange(night.n_epochs) * n_bins // night.n_epochs
    n_codes = len(order) + 1
    counts = np.bincount(bins * n_codes + codes[night.labels.astype(np.intp) + 1], minlength=n_bins * n_codes)
    most = counts.reshape(n_bins, n_codes).argmax(axis=1).tolist()
    letters = [UNSCORED_CODE if code == len(order) else chr(ord("a") + code) for code in most]
    return "".join(f"{letter}{len(list(run))}" for letter, run in groupby(letters))


def table_of(rows: Sequence[CohortRow], *, on_expert_epochs: bool = False) -> CohortTable:
    """Return the numbers of the rows as a `CohortTable`, of whole nights or to compare with experts."""
    layouts = dict.fromkeys(row.names for row in rows)
    names = tuple(dict.fromkeys(name for layout in layouts for name in layout))
    place = {name: number for number, name in enumerate(names)}
    columns = {layout: [place[name] for name in layout] for layout in layouts}
    scorings = [name for name in SCORINGS if any(name in row.values for row in rows)]
    values = {scoring: np.full((len(rows), len(names)), NAN) for scoring in scorings}
    for number, row in enumerate(rows):
        compared = row.on_expert_epochs if on_expert_epochs else {}
        for scoring, numbers in {**row.values, **compared}.items():
            values[scoring][number, columns[row.names]] = numbers
    ids = tuple(row.id for row in rows)
    lengths = frozenset(row.scale.epoch_seconds for row in rows)
    return CohortTable(ids, names, values, count_steered(row.steered for row in rows), lengths)


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
        "changed": _round_all((row.changed_percent for row in rows), 1 + SPARE_DIGITS),
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


def _scale_data(scale: BandScale) -> dict[str, Any]:
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
        return _round_all((row.kappa.get(scoring, float("nan")) for row in rows), digits)
    values: Floats = table.of(column.key, scoring)
    return _round_all(values.tolist(), digits)


def _round_all(values: Iterable[float], digits: int) -> list[float | None]:
    return [None if isnan(value) else round(value, digits) for value in values]

"""The report of many nights as one self-contained HTML file: nights, bands, experts, groups, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN
from stageguard.errors import InputError
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.decoding import Decoding
from stageguard.measures.agreement import agreement
from stageguard.measures.bouts import ScoredNight, hypnogram_before, hypnogram_of
from stageguard.measures.cohort import (
    CohortNight,
    CohortTable,
    DecodedFacts,
    MeasuredScorings,
    cohort_table,
    count_steered,
    measure_night,
)
from stageguard.measures.grade import GradeCard, require_card
from stageguard.measures.samples import METHOD_OF_GROUPS, METHOD_OF_TABLE
from stageguard.measures.validity import place_in
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import JOINT, Steering, quantity_of, steered_words
from stageguard.profile.profile import Profile, as_profile
from stageguard.report.methods import CohortFact, cohort_methods
from stageguard.report.numbers import ABSENT, count, number_text, sentence
from stageguard.report.page import as_json, render_page
from stageguard.report.pictures import (
    CALLED,
    BandScale,
    agreement_rows,
    final_scoring,
    forests_of,
    spreads_of,
)
from stageguard.report.summary import measures_of, shown_rows, titled
from stageguard.report.svg import printable
from stageguard.report.words import (
    accuracy_words,
    few,
    looking_like_experts,
    marks_words,
    mixed_epochs_words,
    steering_words,
)

MOST_FAILURES = 500  # listed on the page
MOST_NOTES = 12
BOTH = ("before", "after")


@dataclass(frozen=True, slots=True)
class Failure:
    """A night that is not in the report, with the reason."""

    id: str
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """Facts about a cohort besides the rows of its nights; mappings are by the ids of nights."""

    title: str = "A cohort"
    groups: Mapping[str, str] = field(default_factory=dict)
    subjects: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # to the pages of single nights
    failures: Sequence[Failure] = ()
    notes: Sequence[str] = ()
    card: GradeCard | None = None  # that grades the statistics of the nights


def cohort_report(
    nights: Mapping[str, ScoredNight] | Iterable[tuple[str, ScoredNight]],
    *,
    profile: Profile | str | None = None,
    experts: Mapping[str, Hypnogram] | None = None,
    groups: Mapping[str, str] | None = None,
    subjects: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    title: str = "A cohort",
    grade: GradeCard | None = None,
) -> str:
    """Return a complete HTML page about many nights; the night farthest from expert scoring comes first.

    Parameters
    ----------
    nights : mapping or iterable of pairs
        Decodings or hypnograms by the name of the night. Pairs are read one by one, so a generator need not
        hold all nights in memory. A night that cannot be measured is listed with the reason.
    profile : Profile or str, optional
        The profile with the expert bands for hypnograms; a decoding has its own profile.
    experts : mapping, optional
        Experts' scorings by the name of the night, for the agreement before and after decoding.
    groups, subjects : mapping, optional
        The group of each night, to compare groups; the subject of each night, if some have several nights.
    links : mapping, optional
        Addresses of the reports of single nights, relative to the page.
    title : str
        Headline.
    grade : GradeCard, optional
        The card of the nights' stager and profile, by which statistics are marked. A night that it does not
        grade is listed with the reason.

    Returns
    -------
    str
        HTML that includes its data, pictures, style and script; nothing is loaded from elsewhere. The same
        nights give the same text.

    Examples
    --------
    >>> import stageguard as sg
    >>> nights = {f"night {i}": sg.simulate_night("human-psg-5", hours=2, seed=i) for i in range(3)}
    >>> decoded = {name: sg.decode(night.density, "human-psg-5") for name, night in nights.items()}
    >>> page = sg.cohort_report(decoded, experts={name: night.expert for name, night in nights.items()})
    >>> page[:15]
    '<!DOCTYPE html>'
    """
    bands_from = None if profile is None else as_profile(profile)
    given: dict[str, Any] = {"experts": experts, "groups": groups, "subjects": subjects, "links": links}
    for what, mapping in given.items():
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InputError(f"{what} are {checks.shown(mapping)}, expected a dict by the name of the night.")
    got: Any = nights
    if isinstance(got, str | bytes) or not isinstance(got, Iterable):
        raise InputError(f"nights are {checks.shown(nights)}, expected a dict by the name of the night.")
    if grade is not None:
        require_card(grade, "grade")
    rows: dict[str, CohortRow] = {}
    failures = []
    for name, night in nights.items() if isinstance(nights, Mapping) else nights:
        try:
            if name in rows:
                raise InputError(f"two nights are named {name!r}, expected a name of its own for each.")
            if grade is not None:
                grade.refuse_other(night)
            rows[name] = _measure_row(name, night, bands_from, (experts or {}).get(name))
        except InputError as error:
            failures.append(Failure(name, str(error)))
    about = About(title, groups or {}, subjects or {}, links or {}, failures, card=grade)
    return cohort_page(list(rows.values()), about)


def _measure_row(
    name: str, night: ScoredNight, profile: Profile | None, expert: Hypnogram | None
) -> CohortRow:
    if not isinstance(name, str):
        raise InputError(f"a night is named {name!r}, expected a text.")
    if not isinstance(night, Decoding):
        scorings = CohortNight(name, None, hypnogram_of(night), expert, profile)
        return cohort_row(scorings, measure_night(scorings))
    scorings = CohortNight(
        *(name, hypnogram_before(night), night.hypnogram, expert, night.profile),
        steered=night.steered,
        decoded=DecodedFacts.of(night),
        period=night.period,
    )
    return cohort_row(scorings, measure_night(scorings), look_at=measures_of(night).look_at)


def cohort_page(rows: Sequence[CohortRow], about: About) -> str:
    """Return the page of measured nights."""
    from markupsafe import Markup

    if not rows:
        first = f" The first: {about.failures[0].reason}" if about.failures else ""
        raise InputError(f"no night could be measured, expected at least one.{first}")
    rows = sorted(rows, key=lambda row: (row.worst_first, row.id))
    table = cohort_table([row.measured for row in rows])
    present = set(table.night_ids)
    groups = {name: group for name, group in about.groups.items() if name in present}
    columns = columns_of(table, rows, about.card)
    forests, n_pairs_left = forests_of(table, groups, about.subjects) if groups else ([], 0)
    by_scale: dict[BandScale, list[MeasuredScorings]] = {}
    for row in rows:
        by_scale.setdefault(row.scale, []).append(row.measured)
    context = {
        "title": about.title,
        "review": REVIEW_SENTENCE,
        "facts": _facts(rows, groups),
        "lead": looking_like_experts([row.is_alike() for row in rows], [row.id for row in rows]),
        "summary": tuple(_summary(rows, about)),
        "look_at": few([row.id for row in rows if row.remarks]),
        "tiles": tuple(_tiles(rows)),
        "columns": columns,
        "scorings": {name: CALLED[name] for name in table.values},
        "levels": tuple(dict.fromkeys(groups.values())),
        "n_nights": len(rows),
        "data": as_json(page_data(rows, table, columns, groups, about.links)),
        "failures": about.failures[:MOST_FAILURES],
        "n_failures": len(about.failures),
        "spreads": spreads_of({scale: cohort_table(nights) for scale, nights in by_scale.items()}),
        "compared": agreement_rows(cohort_table([row.measured.compared for row in rows])),
        "agreement_method": METHOD_OF_TABLE,
        "forests": forests,
        "n_pairs_left": n_pairs_left,
        "groups_method": METHOD_OF_GROUPS,
        "notes": tuple(_notes(rows, about, table.n_steered)),
        "methods": _methods(rows, about),
        "drawn": Markup,  # pictures are already escaped
    }
    return render_page("cohort.html.j2", context, styles="cohort.css", script="cohort.js")


def _methods(rows: Sequence[CohortRow], about: About) -> str:
    """Return the Methods paragraph of the decoded nights, or an empty text."""
    decoded = {row.id: row.methods for row in rows if row.methods is not None}
    if not decoded:
        return ""
    subjects = {about.subjects.get(name) for name in decoded}
    return cohort_methods([*decoded.values()], None if None in subjects else len(subjects))


def _facts(rows: Sequence[CohortRow], groups: Mapping[str, str]) -> Iterator[str]:
    yield count(len(rows), "night")
    if groups:
        yield count(len(set(groups.values())), "group")
    profiles = Counter(row.scale.profile for row in rows if row.scale.profile)
    if profiles:
        named = ", ".join(name for name, _ in profiles.most_common(4))
        yield f"profile {named}" if len(profiles) == 1 else f"profiles {named}"
    lengths = sorted({row.scale.epoch_seconds for row in rows})
    yield f"epochs of {' s and '.join(f'{length:g}' for length in lengths[:4])} s"
    yield f"{sum(row.hours for row in rows):,.0f} h recorded"


def _summary(rows: Sequence[CohortRow], about: About) -> Iterator[str]:
    """Yield sentences on the stager's own nights, what not to report, failures."""
    before = [row.is_alike("before") for row in rows if "before" in row.measured.measures]
    if any(one is not None for one in before):
        yield f"The stager alone: {looking_like_experts(before)}"
    yield from steering_words(count_steered(row.measured.steered for row in rows))
    if about.failures:
        yield f"{count(len(about.failures), 'night')} failed: see below the table."


def _tiles(rows: Sequence[CohortRow]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and detail of the most important numbers."""
    alike = {name: [each for row in rows if (each := row.is_alike(name)) is not None] for name in BOTH}
    shares = {name: 100.0 * float(np.mean(each)) if each else NAN for name, each in alike.items()}
    yield "Look like expert scoring", _change_text(shares, 0, " %"), "of the nights that can be judged"
    joint = {name: _median(row.value(JOINT.key, name) for row in rows) for name in BOTH}
    limits = {row.scale.threshold for row in rows} - {None}
    under = f"90 % of expert nights are below {limits.pop():.2f}" if len(limits) == 1 else JOINT.unit
    yield "Distance from expert scoring, median", _change_text(joint, 2), under
    changed = [row.changed_percent for row in rows if not isnan(row.changed_percent)]
    if changed:
        low, middle, high = np.percentile(changed, (5, 50, 95)).tolist()
        yield "Epochs changed, median", f"{middle:.1f} %", f"5th to 95th percentile {low:.1f} to {high:.1f} %"
    if n_scored := sum(bool(row.kappa) for row in rows):
        kappa = {name: _median(row.kappa.get(name, NAN) for row in rows) for name in BOTH}
        scored = f"{count(n_scored, 'night')} with an expert"
        yield "κ with the expert, median", _change_text(kappa, 2), scored


def _median(values: Iterable[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return float(np.median(known)) if known else NAN


def _change_text(by_scoring: Mapping[str, float], decimals: int, unit: str = "") -> str:
    """Return a number before and after as text; missing numbers are left out."""
    known = [value for value in by_scoring.values() if not isnan(value)]
    return " → ".join(number_text(value, decimals) + unit for value in known) or ABSENT


def _notes(rows: Sequence[CohortRow], about: About, n_steered: Mapping[Steering, int]) -> Iterator[str]:
    """Yield notes on how the nights were read, each once with its number of nights."""
    yield from about.notes
    yield sentence(marks_words(about.card))
    if n_steered:
        yield steered_words(n_steered)
    lengths = {row.scale.epoch_seconds for row in rows}
    if len(lengths) > 1:
        yield sentence(mixed_epochs_words(lengths))
    counted = Counter(note for row in rows for note in dict.fromkeys(row.notes))
    for text, n_nights in counted.most_common(MOST_NOTES):
        yield text if n_nights == len(rows) else f"{text} ({count(n_nights, 'night')})"
    if len(counted) > MOST_NOTES:
        yield f"and {len(counted) - MOST_NOTES:,} more remarks on single nights"


SPARK_BINS = 96  # of the small hypnogram in a row: five minutes each for eight hours
UNSCORED_CODE = "-"


@dataclass(frozen=True, slots=True, eq=False)
class CohortRow:
    """The data of a night in the report."""

    measured: MeasuredScorings
    scale: BandScale
    n_epochs: int
    n_scored: int  # with a stage before decoding
    n_changed: int | None  # None if the night was not decoded
    kappa: Mapping[str, float]  # with the expert, by scoring
    hypnogram: str  # from `spark_code`
    methods: CohortFact | None = None  # what the Methods paragraph needs, if the night was decoded
    remarks: tuple[str, ...] = ()  # what to look at
    notes: tuple[str, ...] = ()  # how the night was read and what was assumed

    @property
    def id(self) -> str:
        """The name of the night."""
        return self.measured.night_id

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
        return final_scoring(self.measured.measures)

    def value(self, name: str, scoring: str | None = None) -> float:
        """Return one number, by default of the final scoring; NaN if it is missing."""
        found = self.measured.measures.get(scoring or self.final)
        return NAN if found is None else found.values.get(name, NAN)

    def is_alike(self, scoring: str | None = None) -> bool | None:
        """Whether a scoring's joint score is within the threshold of expert nights; None without a score."""
        joint, threshold = self.value(JOINT.key, scoring), self.scale.threshold
        return None if isnan(joint) or threshold is None else joint <= threshold

    @property
    def places(self) -> list[tuple[str, float, str]]:
        """Key, value and place of the indicators that have a band and a value."""
        held = [(key, self.value(key), low, high) for key, low, high in self.scale.bands]
        return [
            (key, value, place_in(value, low, high)) for key, value, low, high in held if not isnan(value)
        ]

    @property
    def outside(self) -> list[tuple[str, float, str]]:
        """Key, value and place of the indicators outside their band."""
        return [place for place in self.places if place[2] != "inside"]

    @property
    def all_remarks(self) -> list[str]:
        """What to look at, and why the night has no joint score."""
        why = "" if self.scale.profile else "no profile is recorded with it"
        why = self.measured.measures[self.final].reasons.get(JOINT.key, why)
        return [*([f"cannot be judged: {why}"] if why else []), *self.remarks]

    @property
    def worst_first(self) -> tuple[bool, float, int]:
        """Sort key: the night farthest from expert scoring first, nights without a joint score last."""
        joint, threshold = self.value(JOINT.key), self.scale.threshold
        is_unjudged = isnan(joint) or not threshold
        return is_unjudged, 0.0 if is_unjudged or not threshold else -joint / threshold, -len(self.outside)


def cohort_row(
    night: CohortNight,
    measured: MeasuredScorings,
    *,
    look_at: str = "",
    notes: Iterable[str] = (),
) -> CohortRow:
    """Return the row of a measured night."""
    scorings = night.scorings
    final = scorings[final_scoring(scorings)]
    kappa: dict[str, float] = {}
    if night.expert is not None:
        kappa = {
            name: agreement(night.expert, scoring, pairs=()).kappa
            for name, scoring in scorings.items()
            if name != "expert"
        }
    values = measured.measures[final_scoring(scorings)].values
    assumed = dict.fromkeys(text for each in measured.measures.values() for text in each.assumed)
    methods = None
    if night.decoded is not None and night.profile is not None:
        indices = [measured.measures[name].values.get("fragmentation_index", NAN) for name in BOTH]
        seconds, is_cut = final.epoch_seconds, bool(measured.lights)
        methods = CohortFact(
            night.profile, seconds, night.decoded, (indices[0], indices[1]), is_cut, final.n_epochs
        )
    remarks = [f"look at this night: {look_at}"] * bool(look_at)
    latency = quantity_of("rem_latency_minutes")
    if latency.is_early(minutes := values.get(latency.key, NAN)):
        remarks.insert(0, f"early: REM {minutes:g} min after sleep onset, an error or a finding: look at it")
    return CohortRow(
        measured=measured,
        scale=BandScale.of(night.profile, final),
        n_epochs=final.n_epochs,
        n_scored=int(np.count_nonzero((night.before or final).labels >= 0)),
        n_changed=night.n_changed,
        kappa=kappa,
        hypnogram=spark_code(final),
        methods=methods,
        remarks=tuple(remarks),
        notes=tuple(filter(None, (*notes, measured.lights, *assumed))),
    )


def spark_code(night: Hypnogram, n_bins: int = SPARK_BINS) -> str:
    """Return a hypnogram as runs of the most frequent stage per bin: ``a12b3`` is 12 bins on top, 3 below.

    Letters stand for stages from top to bottom; a dash stands for mostly unscored bins.
    """
    n_bins, order = min(n_bins, night.n_epochs), top_down(night.scheme)
    code_of = dict(zip(order, "abcdefghijklmnopqrstuvwxyz", strict=False)) | {-1: UNSCORED_CODE}
    letters = ""
    for bin_ in np.array_split(night.labels, n_bins):
        letters += code_of[max((*order, -1), key=lambda stage: np.count_nonzero(bin_ == stage))]
    return "".join(f"{letter}{len(list(run))}" for letter, run in groupby(letters))


SPARE_DIGITS = 2  # beyond the digits shown, so that changes are right and ties are rare


class Column(NamedTuple):
    """A column of numbers."""

    key: str
    heading: str
    title: str
    decimals: int
    grade: str = ""


def columns_of(table: CohortTable, rows: Sequence[CohortRow], card: GradeCard | None) -> list[Column]:
    """Return the columns of numbers: those of `stats` for each night, and the agreement with an expert."""
    columns = [
        Column(
            *(each.key, titled(each, each.short_heading, table), each.description, each.decimals),
            grade=accuracy_words(card, each.key),
        )
        for each in shown_rows(table)
        if "night row" in each.shown
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
    levels = list(dict.fromkeys(groups.values()))
    texts = list(dict.fromkeys(text for row in rows for text in row.all_remarks))
    number_of = {text: number for number, text in enumerate(texts)}
    return {
        "columns": [[each.key, each.heading, each.decimals] for each in columns],
        "scales": [_scale_data(scale) for scale in scales],
        "groups": [printable(level) for level in levels],
        "texts": [printable(text) for text in texts],
        "ids": [printable(row.id) for row in rows],
        "links": [links.get(row.id) for row in rows] if links else [],
        "group": [levels.index(groups[row.id]) if row.id in groups else -1 for row in rows] if groups else [],
        "scale": [scales.index(row.scale) for row in rows],
        "spark": [row.hypnogram for row in rows],
        "hours": [round(row.hours, 2) for row in rows],
        "changed": _round_all((row.changed_percent for row in rows), 1 + SPARE_DIGITS),
        "alike": [{True: 1, False: 0, None: -1}[row.is_alike()] for row in rows],
        "judged": [len(row.places) for row in rows],
        "outside": [_outside(row) for row in rows],
        "remarks": [[number_of[text] for text in row.all_remarks] for row in rows],
        "values": {
            scoring: [_numbers(table, rows, column, scoring) for column in columns]
            for scoring in table.values
        },
    }


def _scale_data(scale: BandScale) -> dict[str, Any]:
    order, bands = top_down(scale.stages), []
    for key, low, high in scale.bands:
        quantity = quantity_of(key)
        ends = " to ".join(number_text(end, quantity.decimals) for end in (low, high))
        bands.append([quantity.label or quantity.title, f"{ends} {quantity.unit}"])
    return {
        "profile": scale.profile,
        "stages": [printable(scale.stages.names[stage]) for stage in order],
        "colours": [stage_shade(scale.stages, stage).light for stage in order],
        "bands": bands,
    }


def _outside(row: CohortRow) -> list[Any]:
    """Return index of the band, value and place of each indicator outside its band, in one flat list."""
    number_of = {key: number for number, (key, _, _) in enumerate(row.scale.bands)}
    return [
        entry
        for key, value, place in row.outside
        for entry in (number_of[key], number_text(value, quantity_of(key).decimals), place[0])
    ]


def _numbers(
    table: CohortTable, rows: Sequence[CohortRow], column: Column, scoring: str
) -> list[float | None]:
    is_kappa = column.key == "kappa"
    values = (row.kappa.get(scoring, NAN) for row in rows) if is_kappa else table.of(column.key, scoring)
    return _round_all(map(float, values), column.decimals + SPARE_DIGITS)


def _round_all(values: Iterable[float], digits: int) -> list[float | None]:
    return [None if isnan(value) else round(value, digits) for value in values]

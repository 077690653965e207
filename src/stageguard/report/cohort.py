"""The report of many nights as one self-contained HTML file: nights, bands, experts, groups, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.decoding import Decoding
from stageguard.guard.effect import Effect
from stageguard.measures.bland_altman import METHOD_OF_PLOTS
from stageguard.measures.bouts import ScoredNight, hypnogram_before, hypnogram_of
from stageguard.measures.cohort import CohortNight, measure_night
from stageguard.measures.groups import METHOD as GROUPS_METHOD
from stageguard.measures.taught import NO_TEST, taught_words
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import JOINT, Steering, steered_words
from stageguard.profile.profile import Profile, as_profile
from stageguard.report.cohort_pictures import agreement_of_statistics, forests_of, spreads_of
from stageguard.report.cohort_rows import CohortRow, cohort_row, columns_of, page_data, table_of
from stageguard.report.methods import cohort_methods
from stageguard.report.numbers import count, shown
from stageguard.report.page import as_json, render_page
from stageguard.report.summary import looking_like_experts, mixed_epochs_words

MOST_FAILURES = 500  # listed on the page
MOST_NOTES = 12


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


def cohort_report(
    nights: Mapping[str, ScoredNight] | Iterable[tuple[str, ScoredNight]],
    *,
    profile: Profile | str | None = None,
    experts: Mapping[str, Hypnogram] | None = None,
    groups: Mapping[str, str] | None = None,
    subjects: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    title: str = "A cohort",
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
    by_night: dict[str, Any] = {"experts": experts, "groups": groups, "subjects": subjects, "links": links}
    for what, mapping in by_night.items():
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InputError(f"{what} are {checks.shown(mapping)}, expected a dict by the name of the night.")
    given_nights: Any = nights
    if isinstance(given_nights, str | bytes) or not isinstance(given_nights, Iterable):
        raise InputError(f"nights are {checks.shown(nights)}, expected a dict by the name of the night.")
    rows: dict[str, CohortRow] = {}
    failures = []
    for name, night in nights.items() if isinstance(nights, Mapping) else nights:
        try:
            if name in rows:
                raise InputError(f"two nights are named {name!r}, expected a name of its own for each.")
            rows[name] = _measure_row(name, night, bands_from, (experts or {}).get(name))
        except InputError as error:
            failures.append(Failure(name, str(error)))
    about = About(title, groups or {}, subjects or {}, links or {}, failures)
    return cohort_page(list(rows.values()), about)


def _measure_row(
    name: str, night: ScoredNight, profile: Profile | None, expert: Hypnogram | None
) -> CohortRow:
    if not isinstance(name, str):
        raise InputError(f"a night is named {name!r}, expected a text.")
    before = hypnogram_before(night) if isinstance(night, Decoding) else None
    if isinstance(night, Decoding):
        profile = night.profile
    effect = Effect.of(night) if isinstance(night, Decoding) else None
    steered = night.steered if isinstance(night, Decoding) else frozenset()
    period = night.period if isinstance(night, Decoding) else None
    scorings = CohortNight(
        *(name, before, hypnogram_of(night), expert, profile), steered=steered, effect=effect, period=period
    )
    return cohort_row(scorings, measure_night(scorings))


def cohort_page(rows: Sequence[CohortRow], about: About) -> str:
    """Return the page of measured nights."""
    from markupsafe import Markup

    if not rows:
        first = f" The first: {about.failures[0].reason}" if about.failures else ""
        raise InputError(f"no night could be measured, expected at least one.{first}")
    rows = sorted(rows, key=lambda row: (row.worst_first, row.id))
    table = table_of(rows)
    present = set(table.night_ids)
    groups = {name: group for name, group in about.groups.items() if name in present}
    columns = columns_of(table, rows)
    forests, n_pairs_left = forests_of(table, groups, about.subjects) if groups else ([], 0)
    context = {
        "title": about.title,
        "review": REVIEW_SENTENCE,
        "facts": _facts(rows, groups),
        "lead": looking_like_experts([row.looks_like_experts(row.final) for row in rows]),
        "summary": tuple(_summary(rows, about)),
        "tiles": tuple(_tiles(rows)),
        "columns": columns,
        "scorings": tuple(table.values),
        "levels": tuple(dict.fromkeys(groups.values())),
        "n_nights": len(rows),
        "data": as_json(page_data(rows, table, columns, groups, about.links)),
        "failures": about.failures[:MOST_FAILURES],
        "n_failures": len(about.failures),
        "spreads": spreads_of(rows),
        "compared": agreement_of_statistics(table_of(rows, on_expert_epochs=True)),
        "agreement_method": f"{_taught_words(rows)} {METHOD_OF_PLOTS}".strip(),
        "forests": forests,
        "n_pairs_left": n_pairs_left,
        "groups_method": GROUPS_METHOD,
        "notes": tuple(_notes(rows, about, table.n_steered)),
        "methods": _methods(rows, about),
        "drawn": Markup,  # pictures are already escaped
    }
    return render_page("cohort.html.j2", context, styles="cohort.css", script="cohort.js")


def _methods(rows: Sequence[CohortRow], about: About) -> str:
    """Return the Methods paragraph of the decoded nights, or an empty text."""
    decoded = [(row.id, row.methods) for row in rows if row.methods is not None]
    if not decoded:
        return ""
    subjects = {about.subjects[name] for name, _ in decoded if name in about.subjects}
    n_subjects = len(subjects) if all(name in about.subjects for name, _ in decoded) else None
    return cohort_methods([fact for _, fact in decoded], n_subjects)


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
    """Yield sentences on nights that taught their profile, on nights before decoding, remarks, failures."""
    if words := _taught_words(rows):
        yield words
    before = [row.looks_like_experts("before") for row in rows if "before" in row.values]
    if any(one is not None for one in before):
        yield f"Before decoding: {looking_like_experts(before)}"
    n_remarks = sum(bool(row.remarks) for row in rows)
    if n_remarks:
        yield f"{count(n_remarks, 'night')} with a remark: the table says which, and why."
    if about.failures:
        n_failed = len(about.failures)
        listed = "is" if n_failed == 1 else "are"
        yield f"{count(n_failed, 'night')} failed and {listed} listed below the table."


def _taught_words(rows: Sequence[CohortRow]) -> str:
    """Return the first line of the comparison with experts, if nights taught their profile; else empty."""
    return taught_words([row.taught for row in rows if "expert" in row.values], NO_TEST)


def _tiles(rows: Sequence[CohortRow]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and detail of the most important numbers."""
    judged = {scoring: [row.looks_like_experts(scoring) for row in rows] for scoring in ("before", "after")}
    shares = {
        scoring: 100.0 * sum(one is True for one in each) / sum(one is not None for one in each)
        for scoring, each in judged.items()
        if any(one is not None for one in each)
    }
    yield "Look like expert scoring", _change_text(shares, 0, " %"), "of the nights that can be judged"
    joint = {scoring: _median([row.value(JOINT.key, scoring) for row in rows]) for scoring in judged}
    limits = {row.scale.threshold for row in rows} - {None}
    under = f"most expert nights are under {limits.pop():.2f}" if len(limits) == 1 else JOINT.unit
    yield "Joint score, median", _change_text(joint, 2), under
    changed = np.array([row.changed_percent for row in rows])
    changed = changed[~np.isnan(changed)]
    if len(changed):
        low, middle, high = np.percentile(changed, (5, 50, 95)).tolist()
        yield "Epochs changed, median", f"{middle:.1f} %", f"5th to 95th percentile {low:.1f} to {high:.1f} %"
    kappa = {scoring: _median([row.kappa.get(scoring, float("nan")) for row in rows]) for scoring in judged}
    if not all(isnan(value) for value in kappa.values()):
        n_scored = sum(bool(row.kappa) for row in rows)
        yield (
            "κ with the expert, median",
            _change_text(kappa, 2),
            f"{count(n_scored, 'night')} with an expert",
        )


def _median(values: Sequence[float]) -> float:
    numbers = [value for value in values if not isnan(value)]
    return float(np.median(numbers)) if numbers else float("nan")


def _change_text(by_scoring: Mapping[str, float], decimals: int, unit: str = "") -> str:
    """Return a number before and after as text; missing numbers are left out."""
    known = [
        by_scoring[name] for name in ("before", "after") if not isnan(by_scoring.get(name, float("nan")))
    ]
    return " → ".join(shown(value, decimals) + unit for value in known) or shown(float("nan"), 0)


def _notes(rows: Sequence[CohortRow], about: About, n_steered: Mapping[Steering, int]) -> Iterator[str]:
    """Yield notes on how the nights were read, each once with its number of nights."""
    yield from about.notes
    if n_steered:
        yield steered_words(n_steered)
    lengths = {row.scale.epoch_seconds for row in rows}
    if len(lengths) > 1:
        yield mixed_epochs_words(lengths)
    counted = Counter(note for row in rows for note in dict.fromkeys(row.notes))
    for text, n_nights in counted.most_common(MOST_NOTES):
        yield text if n_nights == len(rows) else f"{text} ({count(n_nights, 'night')})"
    if len(counted) > MOST_NOTES:
        yield f"and {len(counted) - MOST_NOTES:,} more remarks on single nights"

"""Groups of subjects by a covariate: its text, or bins of a number such as `40-55` and `70+`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from stageguard.errors import InputError
from stageguard.measures.cohort import ARCHITECTURE
from stageguard.measures.samples import Difference, compare_samples, estimate
from stageguard.study.comparison import (
    OVER_SUBJECTS,
    Records,
    aside_note,
    columns_for,
    statistics_of,
    study_table,
)
from stageguard.study.config import Contrast, StudyConfig
from stageguard.study.nights import StudyCohort
from stageguard.study.store import (
    BASE,
    EXPERT,
    GUARDED,
    MAIN,
    TITLES,
    Results,
    subject_means,
    values,
    variants_in,
)
from stageguard.study.table import Cell, Table

SHOWN = (EXPERT, BASE, *GUARDED)

Facts = Mapping[str, float | str | None]


def group_subjects(facts: Facts, bins: Sequence[str] = ()) -> dict[str, str]:
    """Return the group of each subject: the text itself, a bin, or up to and above the median of a number.

    A bin `40-55` holds 40 and not 55; `70+` holds 70 and more. Subjects in no bin have no group.
    """
    known = {subject: value for subject, value in sorted(facts.items()) if value is not None}
    numbers = {subject: value for subject, value in known.items() if not isinstance(value, str)}
    if not numbers:
        return {subject: str(value) for subject, value in known.items()}
    if bins:
        edges = {name: _edges(name) for name in bins}
        found = ((s, [n for n, (low, high) in edges.items() if low <= v < high]) for s, v in numbers.items())
        return {subject: names[0] for subject, names in found if names}
    middle = float(np.median(list(numbers.values())))
    names = f"up to {middle:g}", f"above {middle:g}"
    return {subject: names[value > middle] for subject, value in numbers.items()}


def _edges(name: str) -> tuple[float, float]:
    """Return the ends of a bin by its name."""
    number = r"\d+(?:\.\d+)?"
    if match := re.fullmatch(rf"({number})\+", name):
        return float(match[1]), float("inf")
    if match := re.fullmatch(rf"({number})[-–]({number})", name):
        low, high = float(match[1]), float(match[2])
        if low < high:
            return low, high
    raise InputError(f"bin {name!r} is none, expected one such as '40-55' or '70+'.")


def check_groups(config: StudyConfig, cohort: StudyCohort) -> None:
    """Refuse covariates and groups that no subject has, before anything is trained."""
    robust = config.robustness
    facts = {night.subject: dict(night.covariates) for night in cohort.nights}
    names = sorted({name for each in facts.values() for name in each})
    for name in (*robust.subgroups, *robust.bins, *(contrast.group for contrast in robust.contrasts)):
        if name not in names:
            raise InputError(
                f"robustness names the group {name!r}, which no subject of the cohort has. Known: "
                f"{', '.join(names) or 'none'}."
            )
    named = [("bins", name, level) for name, levels in robust.bins.items() for level in levels]
    named += [("a contrast", c.group, level) for c in robust.contrasts for level in (c.first, c.second)]
    for key, name, level in named:
        of_subjects = {subject: each.get(name) for subject, each in facts.items()}
        levels = sorted(set(group_subjects(of_subjects, robust.bins.get(name, ())).values()))
        if level not in levels:
            raise InputError(
                f"robustness: {key} names {level!r} of {name!r}, where no subject is. Expected one of: "
                f"{', '.join(levels)}."
            )


def groups_of(results: Results, covariate: str) -> dict[str, str]:
    """Return the group of each subject of a study."""
    facts = {s: c.get(covariate) for r in results.records for s, c in r["covariates"].items()}
    return group_subjects(facts, results.study["robustness"].get("bins", {}).get(covariate, ()))


def contrasts_of(results: Results) -> list[Contrast]:
    """Return the named contrasts of a study."""
    return [Contrast(**each) for each in results.study["robustness"].get("contrasts", ())]


def contrast(results: Results, records: Records, named: Contrast, variant: str) -> Difference:
    """Return the second group less the first, of subjects' means under a variant."""
    groups = groups_of(results, named.group)
    found = statistics_of(results, records, variant, named.metric)
    of_subject = subject_means((subject, value) for subject, value, _ in found)
    first, second = (
        np.array([value for subject, value in of_subject.items() if groups.get(subject) == level])
        for level in (named.first, named.second)
    )
    return compare_samples(second, first)


def contrasts_table(results: Results) -> Table:
    """Return the named contrasts as the paper prints them: differences and effect sizes by stages."""
    records = results.of(results.backbones[0])
    shown = [variant for variant in SHOWN if variant in variants_in(records)]
    rows: list[tuple[Cell, ...]] = []
    for named in contrasts_of(results):
        found = [contrast(results, records, named, variant) for variant in shown]
        title = f"{ARCHITECTURE[named.metric]}: {named.group} {named.first} vs {named.second}"
        counts = (str(found[0].n_second), str(found[0].n_first))
        rows.append((title, *counts, *(d.difference for d in found), *(d.d for d in found)))
    heads = [(f"{what}, {TITLES[v]}", places) for what, places in (("Δ", 1), ("d", 2)) for v in shown]
    return study_table(
        results,
        f"Recovery of group differences, {results.backbones[0]}",
        ("comparison", "n first", "n second", *heads),
        rows,
        "Second group less first; d: Cohen's. Intervals are in the table of subgroups.",
        aside_note(results),
    )


def subgroup_table(results: Results) -> Table:
    """Return the named contrasts with intervals, by the stages of the expert, argmax and each guard."""
    records = results.of(results.backbones[0])
    rows: list[tuple[Cell, ...]] = []
    for named in contrasts_of(results):
        for variant in [variant for variant in SHOWN if variant in variants_in(records)]:
            d = contrast(results, records, named, variant)
            heading = f"{named.group}: {named.second} (n = {d.n_first}) less {named.first} (n = {d.n_second})"
            numbers = (d.difference, d.low, d.high, d.d, d.d_low, d.d_high)
            rows.append((heading, ARCHITECTURE[named.metric], TITLES[variant], *numbers))
    numbers_of = [(f"{what}{end}", 2) for what in "Δd" for end in ("", " low", " high")]
    return study_table(
        results,
        "Differences between groups",
        ("groups", "of", "stages by", *numbers_of),
        rows,
        "Second group less first; Welch's and noncentral t intervals of 95 %. First network. REM that "
        "is never shown counts as coming at the recording's end.",
        aside_note(results),
    )


def populations_table(results: Results) -> Table:
    """Return the main numbers by group, with the number of subjects."""
    rows: list[tuple[Cell, ...]] = []
    for covariate in results.study["robustness"]["subgroups"]:
        groups = groups_of(results, covariate)
        bins = results.study["robustness"].get("bins", {}).get(covariate)
        for level in bins or sorted(set(groups.values())):
            for name in results.backbones:
                records = results.of(name)
                for variant in [v for v in SHOWN if v in variants_in(records)]:
                    found = [
                        {s: v for s, v in values(records, variant, metric).items() if groups.get(s) == level}
                        for metric in MAIN
                    ]
                    n_subjects = str(max(len(each) for each in found))
                    cells = (estimate(each) for each in found)
                    rows.append((f"{covariate}: {level}", n_subjects, name, TITLES[variant], *cells))
    return study_table(
        results,
        "Subpopulations",
        ("subjects", "n", "network", "stages by", *columns_for(MAIN)),
        rows,
        OVER_SUBJECTS,
        aside_note(results),
    )

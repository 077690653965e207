"""The tables of the main comparison: agreement, architecture, groups, ablations, other guards, costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.measures.architecture import ARCHITECTURE, never_shown
from stageguard.measures.groups import compare_samples
from stageguard.measures.paired import Estimate, estimate, improvement_percent, paired
from stageguard.study.derived import derived_of
from stageguard.study.measuring import TWO_EXPERTS
from stageguard.study.names import (
    BASE,
    CALIBRATED,
    EXPERT,
    MAJORITY_CLASS,
    PAPER,
    PENALTY,
    SEMI_MARKOV,
    TITLES,
)
from stageguard.study.rendering import Cell, Table
from stageguard.study.statistics import bland_altman
from stageguard.study.store import Results, night_values, values

MAIN = {"tvr_percent": "TVR (%)", "fi": "FI", "accuracy": "accuracy", "kappa": "κ"}
MAIN_DECIMALS = (0, 0, 2, 3, 3, 3)
GUARDED = (PAPER, CALIBRATED)
STARS_NOTE = (
    "Mean ± SD over test subjects, nights of one subject averaged. Stars: two-sided Wilcoxon signed-rank "
    "test against argmax of the same network, Bonferroni-corrected over networks and ways to guard of the "
    "column (* p < .05, ** p < .01, *** p < .001)."
)
NO_REM_NOTE = "REM that is never shown counts as coming at the recording's end, in bouts of no length."

Records = Sequence[Mapping[str, Any]]


def notes_of(results: Results, *notes: str) -> tuple[str, ...]:
    """Return notes, with the results' warnings first and failed jobs last."""
    failed = len(results.failures)
    about = (f"{failed} jobs failed and are missing here: see jobs/*.json.",) if failed else ()
    return (*results.warnings, *notes, *about)


def _present(records: Records, variants: Iterable[str]) -> list[str]:
    there = {row["variant"] for record in records for row in record["rows"]}
    return [name for name in variants if name in there]


def main_table(results: Results) -> Table:
    """Return TVR, FI, accuracy and kappa of the expert, and of each network by argmax and guarded."""
    names = results.backbones
    records = {name: results.of(name) for name in names}
    guarded = {name: _present(records[name], GUARDED) for name in names}
    n_tests = sum(len(each) for each in guarded.values())
    rows: list[tuple[Cell, ...]] = []
    for reference in (EXPERT, MAJORITY_CLASS):
        numbers = [estimate(values(records[names[0]], reference, metric)) for metric in MAIN]
        rows.append(("", TITLES[reference], *numbers))
    for name in names:
        before = {metric: values(records[name], BASE, metric) for metric in MAIN}
        rows.append((name, TITLES[BASE], *(estimate(before[metric]) for metric in MAIN)))
        for variant in guarded[name]:
            cells = [paired(before[m], values(records[name], variant, m), n_tests) for m in MAIN]
            rows.append(("", TITLES[variant], *cells))
    return Table(
        "main",
        f"Agreement and validity: {results.study['title']}",
        ("network", "stages by", *MAIN.values()),
        tuple(rows),
        MAIN_DECIMALS,
        notes_of(
            results, STARS_NOTE, "The effect size (rank-biserial correlation) and p stand in the CSV file."
        ),
    )


def errors_of(results: Results, records: Records, variant: str, metric: str) -> dict[str, float]:
    """Return the absolute error of a sleep statistic by subject, over nights where the expert has it."""
    by_subject: dict[str, list[float]] = {}
    for subject, error in signed_errors(results, records, variant, metric):
        by_subject.setdefault(subject, []).append(abs(error))
    return {subject: float(np.mean(errors)) for subject, errors in sorted(by_subject.items())}


def signed_errors(results: Results, records: Records, variant: str, metric: str) -> list[tuple[str, float]]:
    """Return subject and error of every night: the variant's statistic minus the expert's.

    If the expert scored REM and the variant has none, `never_shown` gives the value. Other missing statistics
    are left out.
    """
    experts = results.experts()
    errors = []
    for record in records:
        for row in record["rows"]:
            truth = experts.get(row["recording"], {}).get(metric)
            if row["variant"] != variant or truth is None:
                continue
            value = row.get(metric)
            if value is None:
                value = never_shown(metric, row["n_epochs"] * record["epoch_seconds"] / 60)
            if not np.isnan(value):
                errors.append((row["subject"], value - truth))
    return errors


def architecture_table(results: Results) -> Table:
    """Return the mean absolute errors of sleep architecture, and the improvement by each guard."""
    names = results.backbones
    metrics = [m for m in ARCHITECTURE if errors_of(results, results.of(names[0]), BASE, m)]
    rows: list[tuple[Cell, ...]] = []
    n_tests = sum(len(_present(results.of(name), GUARDED)) for name in names)
    for name in names:
        records = results.of(name)
        before = {metric: errors_of(results, records, BASE, metric) for metric in metrics}
        rows.append((name, TITLES[BASE], *(estimate(before[metric]) for metric in metrics)))
        for variant in _present(records, GUARDED):
            after = {metric: errors_of(results, records, variant, metric) for metric in metrics}
            rows.append(("", TITLES[variant], *(paired(before[m], after[m], n_tests) for m in metrics)))
            rows.append(
                ("", "  improvement (%)", *(improvement_percent(before[m], after[m]) for m in metrics))
            )
    return Table(
        "architecture",
        f"Sleep architecture, mean absolute error: {results.study['title']}",
        ("network", "stages by", *(ARCHITECTURE[m] for m in metrics)),
        tuple(rows),
        (0, 0, *[2] * len(metrics)),
        notes_of(
            results,
            STARS_NOTE,
            "Improvement: of the mean error, in percent of argmax's; below 0 it grew.",
            NO_REM_NOTE,
        ),
    )


def consolidated_table(results: Results) -> Table:
    """Return the same errors over all pairs of network and subject."""
    names = results.backbones
    pooled = {name: results.of(name) for name in names}
    variants = [v for v in GUARDED if any(_present(pooled[name], [v]) for name in names)]

    def over_pairs(variant: str, metric: str) -> dict[str, float]:
        return {
            f"{name} {subject}": error
            for name in names
            for subject, error in errors_of(results, pooled[name], variant, metric).items()
        }

    rows: list[tuple[Cell, ...]] = []
    for metric, title in ARCHITECTURE.items():
        before = over_pairs(BASE, metric)
        if before:
            after = [paired(before, over_pairs(variant, metric), len(variants)) for variant in variants]
            gains = [improvement_percent(before, over_pairs(variant, metric)) for variant in variants]
            rows.append(
                (title, estimate(before), *(c for pair in zip(after, gains, strict=True) for c in pair))
            )
    heads = [head for v in variants for head in (TITLES[v], "improvement (%)")]
    return Table(
        "architecture-pairs",
        f"Sleep architecture over all pairs of network and subject: {results.study['title']}",
        ("error of", TITLES[BASE], *heads),
        tuple(rows),
        (0, 2, *[2, 1] * len(variants)),
        notes_of(results, "Pairs of one subject are not independent: p is too small by that.", NO_REM_NOTE),
    )


def groups_of(results: Results, covariate: str) -> dict[str, str]:
    """Return each subject's group: the value of a text, or up to and above the median of a number."""
    facts = {s: c.get(covariate) for r in results.records for s, c in r["covariates"].items()}
    known = {subject: value for subject, value in sorted(facts.items()) if value is not None}
    numbers = [value for value in known.values() if not isinstance(value, str)]
    if not numbers:
        return {subject: str(value) for subject, value in known.items()}
    middle = float(np.median(numbers))
    names = f"up to {middle:g}", f"above {middle:g}"
    return {s: names[value > middle] for s, value in known.items() if not isinstance(value, str)}


def subgroup_table(results: Results) -> Table:
    """Return differences between subgroups, by the stages of the expert, argmax and each guard."""
    rows: list[tuple[Cell, ...]] = []
    records = results.of(results.backbones[0])
    for covariate in results.study["robustness"]["subgroups"]:
        groups = groups_of(results, covariate)
        levels = sorted(set(groups.values()))
        if len(levels) < 2:
            continue
        for metric, title in ARCHITECTURE.items():
            for variant in (EXPERT, BASE, *_present(records, GUARDED)):
                of_subject = values(records, variant, metric)
                first, second = (
                    np.array([v for s, v in of_subject.items() if groups.get(s) == level])
                    for level in levels[:2]
                )
                if not len(first) or not len(second):
                    continue
                d = compare_samples(second, first)
                heading = f"{covariate}: {levels[1]} less {levels[0]}"
                numbers = (d.difference, d.low, d.high, d.d, d.d_low, d.d_high)
                rows.append((heading, title, TITLES[variant], *numbers))
    return Table(
        "subgroups",
        f"Differences between subgroups: {results.study['title']}",
        ("groups", "of", "stages by", "Δ", "Δ low", "Δ high", "d", "d low", "d high"),
        tuple(rows),
        (0, 0, 0, *[2] * 6),
        notes_of(
            results, "Second group less first; Welch's and noncentral t intervals of 95 %. First network."
        ),
    )


ABLATIONS = {
    "progressive": (BASE, PENALTY, "paper, transitions alone", "paper, no flip-flop", PAPER),
    "one left out": (
        *("paper, no penalty", "paper, no quality", "paper, no transitions"),
        *("paper, no minimum bouts", "paper, no flip-flop"),
    ),
    "flip-flop": (PAPER, "paper, exact flip-flop"),
}


def ablation_table(results: Results) -> Table:
    """Return the published method step by step, and without each of its parts, over all networks."""
    names, changed = results.backbones, derived_of(results)["changed"]
    metrics = ("tvr_percent", "fi", "accuracy", "kappa", "rare_recall")
    rows: list[tuple[Cell, ...]] = []
    for heading, variants in ABLATIONS.items():
        for variant in variants:
            means = [_over_networks(results, names, variant, metric) for metric in metrics]
            if means[1].n:
                rows.append((heading, TITLES[variant], *means, _changed_share(changed, names, variant)))
    return Table(
        "ablations",
        f"Parts of the published method: {results.study['title']}",
        (
            "kind",
            "variant",
            "TVR (%)",
            "FI",
            "accuracy",
            "κ",
            "rare recall",
            "recordings unlike the whole (%)",
        ),
        tuple(rows),
        (0, 0, 2, 3, 3, 3, 3, 1),
        notes_of(
            results,
            "Mean ± SD over subjects, each averaged over the networks. Rare recall: of the expert's rare "
            "changes, those found within two epochs.",
        ),
    )


def _over_networks(results: Results, names: Sequence[str], variant: str, metric: str) -> Estimate:
    by_subject: dict[str, list[float]] = {}
    for name in names:
        for subject, value in values(results.of(name), variant, metric).items():
            by_subject.setdefault(subject, []).append(value)
    return estimate({subject: float(np.mean(v)) for subject, v in by_subject.items()})


def _changed_share(changed: Mapping[str, Any], names: Sequence[str], variant: str) -> float:
    """Return the percentage of recordings with an epoch that differs from the whole method."""
    counts = [n for name in names for n in changed.get(name, {}).get(variant, {}).values()]
    return 100 * float(np.mean(np.array(counts) > 0)) if counts else NAN


COMPARED = (
    *(BASE, "majority filter", "hmm", PENALTY, PAPER, CALIBRATED),
    *(f"{SEMI_MARKOV}, argmax", SEMI_MARKOV),
)


def guards_table(results: Results) -> Table:
    """Return all variants side by side, with the errors of sleep architecture as one ratio."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        before = {metric: values(records, BASE, metric) for metric in MAIN}
        for variant in _present(records, COMPARED):
            cells = [paired(before[m], values(records, variant, m)) for m in MAIN]
            rows.append((name, TITLES[variant], *cells, error_ratio(results, records, variant)))
    return Table(
        "guards",
        f"Ways to guard: {results.study['title']}",
        ("network", "stages by", *MAIN.values(), "error ratio"),
        tuple(rows),
        (*MAIN_DECIMALS, 3),
        notes_of(
            results,
            "Stars against argmax, not corrected. Error ratio: geometric mean over the errors of sleep "
            "architecture, argmax = 1.",
            NO_REM_NOTE,
        ),
    )


def error_ratio(results: Results, records: Records, variant: str) -> float:
    """Return the geometric mean over statistics of a variant's mean error divided by that of argmax."""
    logs = []
    for metric in ARCHITECTURE:
        before, after = (errors_of(results, records, name, metric) for name in (BASE, variant))
        both = [name for name in before if name in after]
        old, new = (float(np.mean([v[n] for n in both])) if both else 0.0 for v in (before, after))
        if old > 0 and new > 0:
            logs.append(np.log(new / old))
    return float(np.exp(np.mean(logs))) if logs else NAN


def experts_table(results: Results) -> Table:
    """Return the share of nights that look like an expert's, by fragmentation and by the joint score."""
    derived = derived_of(results)
    threshold = derived["joint_threshold"]
    factor = TWO_EXPERTS.get(len(results.records[0]["stages"]), TWO_EXPERTS[3])
    expert = {name: row["fi"] for name, row in results.experts().items()}
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records, joint = results.of(name), derived["joint"].get(name, {})
        shown = [*([EXPERT] if not rows else []), *_present(records, COMPARED)]
        for variant in shown:
            fi = night_values(records, variant, "fi")
            inside = [expert[n] / factor <= fi[n] <= expert[n] * factor for n in fi if expert.get(n)]
            scores = joint.get(variant, {})
            like = [score <= threshold for score in scores.values()]
            shares = [100 * float(np.mean(each)) if each else NAN for each in (inside, like)]
            head = "" if variant == EXPERT else name
            rows.append((head, TITLES[variant], shares[0], estimate(scores), shares[1]))
    below = f"below {threshold:g}" if threshold is not None else "not known here"
    return Table(
        "experts",
        f"Like an expert's: {results.study['title']}",
        (
            "network",
            "stages by",
            "FI in two experts' band (%)",
            "joint score",
            "joint score like experts' (%)",
        ),
        tuple(rows),
        (0, 0, 0, 2, 0),
        notes_of(
            results,
            f"Shares of nights. Two experts' band: within a factor of {factor:g} of the expert's FI on the "
            "same night, as far as two experts differ (90th percentile, DOD). Joint score of "
            f"{results.study['guard']['base']}, mean ± SD over nights of 2 h or more; experts' are {below}.",
        ),
    )


def scorers_table(results: Results) -> Table:
    """Return the agreement with the scorers of nights that have several, and of the scorers themselves."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for variant in [*([EXPERT] if not rows else []), *_present(records, COMPARED)]:
            cells = [estimate(values(records, variant, m)) for m in ("scorers_kappa", "scorers_soft")]
            if cells[0].n:
                is_panel = variant == EXPERT
                title = "scorers with one another" if is_panel else TITLES[variant]
                rows.append(("" if is_panel else name, title, *cells))
    return Table(
        "scorers",
        f"Agreement with several scorers: {results.study['title']}",
        ("network", "stages by", "κ, mean over scorers", "soft agreement"),
        tuple(rows),
        notes=notes_of(
            results,
            "Mean ± SD over subjects. Networks learn from the consensus, with which other tables compare."
            if rows
            else "No night of this study has several scorers.",
        ),
    )


def bland_altman_table(results: Results) -> Table:
    """Return bias and limits of agreement with the expert, night by night."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for metric, title in ARCHITECTURE.items():
            for variant in _present(records, (BASE, *GUARDED)):
                errors = [error for _, error in signed_errors(results, records, variant, metric)]
                if errors:
                    rows.append((name, title, TITLES[variant], *bland_altman(errors), str(len(errors))))
    return Table(
        "bland-altman",
        f"Bias and limits of agreement: {results.study['title']}",
        ("network", "of", "stages by", "bias", "lower limit", "upper limit", "nights"),
        tuple(rows),
        (0, 0, 0, 2, 2, 2, 0),
        notes_of(results, "Stages less expert; limits are 1.96 standard deviations of the differences."),
    )


def cost_table(results: Results) -> Table:
    """Return the cost of a network and the guard, per recording and per training step."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        base, penalty = results.main(name, "base"), results.main(name, "penalty")
        forward = _mean(r["costs"]["forward_seconds"] for r in base)
        paper = _mean(r["costs"]["decode_seconds"].get(PAPER) for r in [*base, *penalty])
        calibrated = _mean(r["costs"]["decode_seconds"].get(CALIBRATED) for r in base)
        step = _mean(r["costs"]["training_seconds"] / r["steps"] for r in base)
        with_penalty = _mean(r["costs"]["training_seconds"] / r["steps"] for r in penalty)
        memory = max(r["costs"]["peak_memory_mb"] for r in [*base, *penalty])
        share = 100 * paper / forward if forward else NAN
        times = (1000 * forward, 1000 * paper, 1000 * calibrated, share, 1000 * step)
        rows.append((name, *times, 100 * (with_penalty / step - 1), memory))
    return Table(
        "costs",
        f"Costs: {results.study['title']}",
        (
            *("network", "forward (ms)", "published decoder (ms)", "calibrated guard (ms)"),
            *("decoder / forward (%)", "training step (ms)", "penalty (% of a step)", "peak memory (MB)"),
        ),
        tuple(rows),
        (0, 1, 2, 2, 2, 1, 1, 0),
        notes_of(
            results, "Per recording, on one thread of whatever else the machine did: an order of magnitude."
        ),
    )


def _mean(numbers: Iterable[float | None]) -> float:
    known = [number for number in numbers if number is not None]
    return float(np.mean(known)) if known else NAN

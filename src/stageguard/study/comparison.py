"""The tables of the main comparison: agreement, architecture, groups, ablations, other guards, costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.measures.cohort import ARCHITECTURE, never_shown
from stageguard.measures.samples import Estimate, bland_altman, estimate, improvement_percent, paired
from stageguard.study.derived import derived_of
from stageguard.study.store import (
    BASE,
    CALIBRATED,
    EXPERT,
    GUARDED,
    MAIN,
    MAJORITY_CLASS,
    METRICS,
    PAPER,
    PENALTY,
    RELEASED,
    TITLES,
    Results,
    night_values,
    subject_means,
    values,
)
from stageguard.study.table import Cell, Table

# 90th percentile of the ratio of two experts' fragmentation indices on one night (DOD), by number of stages.
TWO_EXPERTS = {2: 2.00, 3: 1.97, 5: 2.25}
STARS_NOTE = (
    "Mean ± SD over test subjects, nights of one subject averaged. Stars: two-sided Wilcoxon signed-rank "
    "test against argmax of the same network, Bonferroni-corrected over networks and ways to guard of the "
    "column (* p < .05, ** p < .01, *** p < .001)."
)
ASIDE = "argmax"  # name of the rule of a calibrated guard that steps aside
NO_REM_NOTE = "REM that is never shown counts as coming at the recording's end, in bouts of no length."
OVER_SUBJECTS = "Mean ± SD over subjects."

Records = Sequence[Mapping[str, Any]]


Column = str | tuple[str, int]  # of texts, or of numbers with these decimals


def columns_for(metrics: Iterable[str]) -> list[tuple[str, int]]:
    """Return the columns of some metrics."""
    return [METRICS[metric] for metric in metrics]


def study_table(
    results: Results,
    title: str,
    columns: Iterable[Column],
    rows: Iterable[tuple[Cell, ...]],
    *notes: str,
) -> Table:
    """Return a table of a study: its title names the study, and its notes what all tables have to say."""
    heads = [(column, 0) if isinstance(column, str) else column for column in columns]
    return Table(
        f"{title}: {results.study['title']}",
        tuple(head for head, _ in heads),
        tuple(rows),
        tuple(decimals for _, decimals in heads),
        _notes(results, *notes),
    )


def _notes(results: Results, *notes: str) -> tuple[str, ...]:
    """Return notes, with the results' warnings first; then weak networks, and failed jobs last."""
    failed = len(results.failures)
    about = (f"{failed} jobs failed and are missing here: see jobs/*.json.",) if failed else ()
    weak = ", ".join(name for name in results.backbones if below_majority(results, name))
    below = (
        (f"Less accurate than the most frequent stage, so without a say in verdicts: {weak}.",)
        if weak
        else ()
    )
    return (*results.warnings, *notes, *_chosen_weights(results), *below, *about)


def _chosen_weights(results: Results) -> tuple[str, ...]:
    """Return the lambdas that the tuning subject chose, fold by fold; nothing without such a subject."""
    chosen = []
    for name in results.backbones:
        records = sorted(results.main(name, "penalty"), key=lambda record: record["fold"])
        weights = [f"{r['chosen']['penalty_weight']:g}" for r in records if r["is_tuned"]]
        chosen += [f"{name} {', '.join(weights)}"] if weights else []
    return (f"λ chosen by the tuning subject, fold by fold: {'; '.join(chosen)}.",) if chosen else ()


def below_majority(results: Results, name: str) -> bool:
    """Whether a network's argmax is less accurate than the most frequent stage, by the mean over subjects."""
    records = results.main(name, "base")
    own, majority = (values(records, variant, "accuracy") for variant in (BASE, MAJORITY_CLASS))
    return bool(own) and float(np.mean(list(own.values()))) < float(np.mean(list(majority.values())))


def aside_note(results: Results) -> str:
    """Return where the calibrated guard stepped aside: on how many folds it left argmax as it is."""
    counted = []
    for name in results.backbones:
        folds = [record["calibrated_by"] for record in results.main(name, "base")]
        n_aside = sum(rule == ASIDE for rule in folds)
        if n_aside:
            counted.append(f"{name} {n_aside} of {len(folds)}")
    if not counted:
        return "The calibrated guard stepped aside on no fold."
    return f"Folds on which the calibrated guard stepped aside, leaving argmax: {', '.join(counted)}."


def variant_in(records: Records, variant: str) -> str | None:
    """Return a variant if the records have it, else the same without the penalty; None if neither is there.

    A stager that is no network is not trained with the penalty, so that it has the published rules without.
    """
    there = {row["variant"] for record in records for row in record["rows"]}
    return next((name for name in (variant, f"{variant}, no penalty") if name in there), None)


def _variants_of(records: Records, variants: Iterable[str]) -> list[str]:
    found = (variant_in(records, variant) for variant in variants)
    return [name for name in found if name is not None]


def main_table(results: Results) -> Table:
    """Return TVR, FI, accuracy and kappa of the expert, and of each network by argmax and guarded."""
    names = results.backbones
    records = {name: results.of(name) for name in names}
    guarded = {name: _variants_of(records[name], GUARDED) for name in names}
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
    return study_table(
        results,
        "Agreement and validity",
        ("network", "stages by", *columns_for(MAIN)),
        rows,
        STARS_NOTE,
        aside_note(results),
        "The effect size (rank-biserial correlation) and p stand in the CSV file.",
    )


def errors_of(results: Results, records: Records, variant: str, metric: str) -> dict[str, float]:
    """Return the absolute error of a sleep statistic by subject, over nights where the expert has it."""
    errors = signed_errors(results, records, variant, metric)
    return subject_means((subject, abs(error)) for subject, error in errors)


def signed_errors(results: Results, records: Records, variant: str, metric: str) -> list[tuple[str, float]]:
    """Return subject and error of every night: the variant's statistic minus the expert's."""
    compared = statistics_of(results, records, variant, metric)
    return [(subject, value - truth) for subject, value, truth in compared]


def statistics_of(
    results: Results, records: Records, variant: str, metric: str
) -> Iterator[tuple[str, float, float]]:
    """Yield subject, the variant's sleep statistic and the expert's, of every night that has both.

    If the expert scored REM and the variant has none, `never_shown` gives the value.
    """
    experts = results.experts()
    for record in records:
        for row in record["rows"]:
            truth = experts.get(row["recording"], {}).get(metric)
            if row["variant"] != variant or truth is None:
                continue
            value = row.get(metric)
            if value is None:
                value = never_shown(metric, row["n_epochs"] * record["epoch_seconds"] / 60)
            if not np.isnan(value):
                yield row["subject"], value, truth


def architecture_table(results: Results) -> Table:
    """Return the mean absolute errors of sleep architecture, and the improvement by each guard."""
    names = results.backbones
    metrics = [m for m in ARCHITECTURE if errors_of(results, results.of(names[0]), BASE, m)]
    rows: list[tuple[Cell, ...]] = []
    n_tests = sum(len(_variants_of(results.of(name), GUARDED)) for name in names)
    for name in names:
        records = results.of(name)
        before = {metric: errors_of(results, records, BASE, metric) for metric in metrics}
        rows.append((name, TITLES[BASE], *(estimate(before[metric]) for metric in metrics)))
        for variant in _variants_of(records, GUARDED):
            after = {metric: errors_of(results, records, variant, metric) for metric in metrics}
            rows.append(("", TITLES[variant], *(paired(before[m], after[m], n_tests) for m in metrics)))
            rows.append(
                ("", "  improvement (%)", *(improvement_percent(before[m], after[m]) for m in metrics))
            )
    return study_table(
        results,
        "Sleep architecture, mean absolute error",
        ("network", "stages by", *((ARCHITECTURE[m], 2) for m in metrics)),
        rows,
        STARS_NOTE,
        "Improvement: of the mean error, in percent of argmax's; below 0 it grew.",
        NO_REM_NOTE,
        aside_note(results),
    )


def consolidated_table(results: Results) -> Table:
    """Return the same errors over all pairs of network and subject."""
    names = results.backbones
    pooled = {name: results.of(name) for name in names}
    variants = [v for v in GUARDED if any(_variants_of(pooled[name], [v]) for name in names)]

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
    heads = [head for v in variants for head in ((TITLES[v], 2), ("improvement (%)", 1))]
    return study_table(
        results,
        "Sleep architecture over all pairs of network and subject",
        ("error of", (TITLES[BASE], 2), *heads),
        rows,
        "Pairs of one subject are not independent: p is too small by that.",
        NO_REM_NOTE,
        aside_note(results),
    )


ABLATIONS = {
    "progressive": (BASE, PENALTY, "paper, transitions alone", "paper, no flip-flop", PAPER),
    "one left out": (
        *("paper, no penalty", "paper, no quality", "paper, no transitions"),
        *("paper, no minimum bouts", "paper, no flip-flop"),
    ),
    "flip-flop": (PAPER, "paper, exact flip-flop"),
    "released code": ("released, no penalty", RELEASED),
}


def ablation_table(results: Results) -> Table:
    """Return the published method step by step, and without each of its parts, over all networks."""
    names, changed = results.backbones, derived_of(results)["changed"]
    metrics = (*MAIN, "rare_recall")
    has_penalty = bool(results.select(loss="penalty"))
    rows: list[tuple[Cell, ...]] = []
    for heading, variants in ABLATIONS.items():
        for variant in variants:
            means = [_over_networks(results, names, variant, metric) for metric in metrics]
            if means[1].n:
                title = TITLES[variant] if has_penalty else TITLES[variant].replace("penalty + ", "")
                rows.append((heading, title, *means, _changed_share(changed, names, variant)))
    return study_table(
        results,
        "Parts of the published method",
        ("kind", "variant", *columns_for(metrics), ("recordings unlike the whole (%)", 1)),
        rows,
        "Mean ± SD over subjects, each averaged over the networks. Rare recall: of the expert's rare "
        "changes, those found within two epochs.",
    )


def _over_networks(results: Results, names: Sequence[str], variant: str, metric: str) -> Estimate:
    of_networks = [values(results.of(name), variant, metric) for name in names]
    return estimate(subject_means(pair for numbers in of_networks for pair in numbers.items()))


def _changed_share(changed: Mapping[str, Any], names: Sequence[str], variant: str) -> float:
    """Return the percentage of recordings with an epoch that differs from the whole method."""
    counts = [n for name in names for n in changed.get(name, {}).get(variant, {}).values()]
    return 100 * float(np.mean(np.array(counts) > 0)) if counts else NAN


COMPARED = (BASE, "majority filter", "hmm", PENALTY, PAPER, RELEASED, CALIBRATED)


def guards_table(results: Results) -> Table:
    """Return all variants side by side, with the errors of sleep architecture as one ratio."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        before = {metric: values(records, BASE, metric) for metric in MAIN}
        for variant in _variants_of(records, COMPARED):
            cells = [paired(before[m], values(records, variant, m)) for m in MAIN]
            rows.append((name, TITLES[variant], *cells, error_ratio(results, records, variant)))
    return study_table(
        results,
        "Ways to guard",
        ("network", "stages by", *columns_for(MAIN), ("error ratio", 3)),
        rows,
        "Stars against argmax, not corrected. Error ratio: geometric mean over the errors of sleep "
        "architecture, argmax = 1.",
        NO_REM_NOTE,
        aside_note(results),
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
        shown = [*([EXPERT] if not rows else []), *_variants_of(records, COMPARED)]
        for variant in shown:
            fi = night_values(records, variant, "fi")
            inside = [expert[n] / factor <= fi[n] <= expert[n] * factor for n in fi if expert.get(n)]
            scores = joint.get(variant, {})
            like = [score <= threshold for score in scores.values()]
            shares = [100 * float(np.mean(each)) if each else NAN for each in (inside, like)]
            head = "" if variant == EXPERT else name
            rows.append((head, TITLES[variant], shares[0], estimate(scores), shares[1]))
    below = f"below {threshold:g}" if threshold is not None else "not known here"
    shares_of = ("FI in two experts' band (%)", 0), ("joint score", 2), ("joint score like experts' (%)", 0)
    return study_table(
        results,
        "Like an expert's",
        ("network", "stages by", *shares_of),
        rows,
        f"Shares of nights. Two experts' band: within a factor of {factor:g} of the expert's FI on the "
        "same night, as far as two experts differ (90th percentile, DOD). Joint score of "
        f"{results.study['guard']['base']}, mean ± SD over nights of 2 h or more; experts' are {below}.",
        aside_note(results),
    )


def scorers_table(results: Results) -> Table:
    """Return the agreement with the scorers of nights that have several, and of the scorers themselves."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for variant in [*([EXPERT] if not rows else []), *_variants_of(records, COMPARED)]:
            cells = [estimate(values(records, variant, m)) for m in ("scorers_kappa", "scorers_soft")]
            if cells[0].n:
                is_panel = variant == EXPERT
                title = "scorers with one another" if is_panel else TITLES[variant]
                rows.append(("" if is_panel else name, title, *cells))
    return study_table(
        results,
        "Agreement with several scorers",
        ("network", "stages by", ("κ, mean over scorers", 3), ("soft agreement", 3)),
        rows,
        "Mean ± SD over subjects. Networks learn from the consensus, with which other tables compare."
        if rows
        else "No night of this study has several scorers.",
    )


def bland_altman_table(results: Results) -> Table:
    """Return bias and limits of agreement with the expert, night by night."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for metric, title in ARCHITECTURE.items():
            for variant in _variants_of(records, (BASE, *GUARDED)):
                errors = [error for _, error in signed_errors(results, records, variant, metric)]
                if errors:
                    found = bland_altman(errors, np.zeros(len(errors)))
                    limits = found.bias, found.low, found.high
                    rows.append((name, title, TITLES[variant], *limits, str(found.n)))
    return study_table(
        results,
        "Bias and limits of agreement",
        ("network", "of", "stages by", ("bias", 2), ("lower limit", 2), ("upper limit", 2), "nights"),
        rows,
        "Stages less expert; limits are 1.96 standard deviations of the differences.",
        aside_note(results),
    )


def cost_table(results: Results) -> Table:
    """Return the cost of a network and the guard, per recording and per training step."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        base, penalty = results.main(name, "base"), results.main(name, "penalty")
        both = [*base, *penalty]
        guards = [variant_in(both, variant) for variant in GUARDED]
        decoders = [_smallest(r["costs"]["decode_seconds"].get(variant) for r in both) for variant in guards]
        forward = _smallest(r["costs"]["forward_seconds"] for r in both)
        step, with_penalty = (
            _smallest(r["costs"].get("step_seconds") for r in each) for each in (base, penalty)
        )
        memory = max(r["costs"]["peak_memory_mb"] for r in both)
        times = (1000 * forward, *(1000 * seconds for seconds in decoders), 100 * decoders[0] / forward)
        rows.append((name, *times, 1000 * step, 100 * (with_penalty / step - 1), memory))
    training = ("training step (ms)", 1), ("penalty (% of a step)", 1), ("peak memory (MB)", 0)
    decoding = *((f"{TITLES[v]} (ms)", 2) for v in GUARDED), ("published / forward (%)", 1)
    return study_table(
        results,
        "Costs",
        ("network", ("forward (ms)", 1), *decoding, *training),
        rows,
        "Processor time of one thread for one recording, the shortest of several times and folds; a "
        "training step likewise. Forward pass and decoding are of the same recordings.",
    )


def _smallest(numbers: Iterable[float | None]) -> float:
    """Return the smallest number: what else a machine does can only make a time longer."""
    return min((number for number in numbers if number is not None), default=NAN)

"""The tables of the main comparison: agreement, architecture, groups, ablations, other guards, costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.measures.architecture import ARCHITECTURE, never_shown
from stageguard.measures.paired import Estimate, estimate, improvement_percent, paired
from stageguard.study.derived import derived_of
from stageguard.study.measurement import TWO_EXPERTS
from stageguard.study.store import (
    BASE,
    CALIBRATED,
    EXPERT,
    MAJORITY_CLASS,
    PAPER,
    PENALTY,
    RELEASED,
    SEMI_MARKOV,
    TITLES,
    Results,
    night_values,
    values,
)
from stageguard.study.table import Cell, Table

MAIN = {"tvr_percent": "TVR (%)", "fi": "FI", "accuracy": "accuracy", "kappa": "κ"}
MAIN_DECIMALS = (0, 0, 2, 3, 3, 3)
GUARDED = (PAPER, RELEASED, CALIBRATED)
STARS_NOTE = (
    "Mean ± SD over test subjects, nights of one subject averaged. Stars: two-sided Wilcoxon signed-rank "
    "test against argmax of the same network, Bonferroni-corrected over networks and ways to guard of the "
    "column (* p < .05, ** p < .01, *** p < .001)."
)
ASIDE = "argmax"  # name of the rule of a calibrated guard that steps aside
NO_REM_NOTE = "REM that is never shown counts as coming at the recording's end, in bouts of no length."

Records = Sequence[Mapping[str, Any]]


def notes_of(results: Results, *notes: str) -> tuple[str, ...]:
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
    return Table(
        "main",
        f"Agreement and validity: {results.study['title']}",
        ("network", "stages by", *MAIN.values()),
        tuple(rows),
        MAIN_DECIMALS,
        notes_of(
            results,
            STARS_NOTE,
            aside_note(results),
            "The effect size (rank-biserial correlation) and p stand in the CSV file.",
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
            aside_note(results),
        ),
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
    heads = [head for v in variants for head in (TITLES[v], "improvement (%)")]
    return Table(
        "architecture-pairs",
        f"Sleep architecture over all pairs of network and subject: {results.study['title']}",
        ("error of", TITLES[BASE], *heads),
        tuple(rows),
        (0, 2, *[2, 1] * len(variants)),
        notes_of(
            results,
            "Pairs of one subject are not independent: p is too small by that.",
            NO_REM_NOTE,
            aside_note(results),
        ),
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
    metrics = ("tvr_percent", "fi", "accuracy", "kappa", "rare_recall")
    has_penalty = bool(results.select(loss="penalty"))
    rows: list[tuple[Cell, ...]] = []
    for heading, variants in ABLATIONS.items():
        for variant in variants:
            means = [_over_networks(results, names, variant, metric) for metric in metrics]
            if means[1].n:
                title = TITLES[variant] if has_penalty else TITLES[variant].replace("penalty + ", "")
                rows.append((heading, title, *means, _changed_share(changed, names, variant)))
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
    *(BASE, "majority filter", "hmm", PENALTY, PAPER, RELEASED, CALIBRATED),
    *(f"{SEMI_MARKOV}, argmax", SEMI_MARKOV),
)


def guards_table(results: Results) -> Table:
    """Return all variants side by side, with the errors of sleep architecture as one ratio."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        before = {metric: values(records, BASE, metric) for metric in MAIN}
        for variant in _variants_of(records, COMPARED):
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
            aside_note(results),
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
            aside_note(results),
        ),
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
            for variant in _variants_of(records, (BASE, *GUARDED)):
                errors = [error for _, error in signed_errors(results, records, variant, metric)]
                if errors:
                    rows.append((name, title, TITLES[variant], *bland_altman(errors), str(len(errors))))
    return Table(
        "bland-altman",
        f"Bias and limits of agreement: {results.study['title']}",
        ("network", "of", "stages by", "bias", "lower limit", "upper limit", "nights"),
        tuple(rows),
        (0, 0, 0, 2, 2, 2, 0),
        notes_of(
            results,
            "Stages less expert; limits are 1.96 standard deviations of the differences.",
            aside_note(results),
        ),
    )


def bland_altman(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the bias, and the lower and upper limit of agreement (1.96 standard deviations)."""
    array = np.asarray(differences)
    if len(array) < 2:
        return (float(array.mean()) if len(array) else NAN), NAN, NAN
    bias, spread = float(array.mean()), 1.96 * float(array.std(ddof=1))
    return bias, bias - spread, bias + spread


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
    return Table(
        "costs",
        f"Costs: {results.study['title']}",
        (
            *("network", "forward (ms)", *(f"{TITLES[v]} (ms)" for v in GUARDED)),
            *("published / forward (%)", "training step (ms)", "penalty (% of a step)", "peak memory (MB)"),
        ),
        tuple(rows),
        (0, 1, *[2] * len(GUARDED), 1, 1, 1, 0),
        notes_of(
            results,
            "Processor time of one thread for one recording, the shortest of several times and folds; a "
            "training step likewise. Forward pass and decoding are of the same recordings.",
        ),
    )


def _smallest(numbers: Iterable[float | None]) -> float:
    """Return the smallest number: what else a machine does can only make a time longer."""
    return min((number for number in numbers if number is not None), default=NAN)

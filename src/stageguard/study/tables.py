"""The tables of a study and over several studies, each from the rows of `results.parquet`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from stageguard.arrays import NAN
from stageguard.errors import InputError
from stageguard.measures.cohort import ARCHITECTURE
from stageguard.measures.samples import (
    Difference,
    Estimate,
    compare_samples,
    estimate,
    improvement_percent,
    paired,
)
from stageguard.report.table import Cell, Column, Table
from stageguard.study.config import BASE, PENALTY, Contrast, Robustness
from stageguard.study.store import (
    ARGMAX,
    CALIBRATED,
    ERRORS,
    EXPERT,
    GUARDED,
    MAJORITY_CLASS,
    PAPER,
    RELEASED,
    WAY,
    Results,
    Rows,
    by_night,
    distinct,
    means,
    select,
)

Heading = str | tuple[str, int]  # of a column of words, or of numbers with these decimals

TITLES = {
    EXPERT: "expert",
    MAJORITY_CLASS: "most frequent stage",
    ARGMAX: "argmax",
    PENALTY: "penalty in training alone",  # argmax of the network trained with it
    PAPER: "published method",
    RELEASED: "released code",
    CALIBRATED: "calibrated guard",
}
ALONE = {  # on a stager that is not trained with the penalty, where others are
    PAPER: "published decoder, no penalty in training",
    RELEASED: "released decoder, no penalty in training",
}
SHOWN = (ARGMAX, *GUARDED)
METRICS = {  # heading and decimals of each number in tables
    "tvr_percent": ("TVR (%)", 2),
    "fi": ("FI", 3),
    "accuracy": ("accuracy", 3),
    "kappa": ("κ", 3),
    "rare_recall": ("rare recall", 3),
    "f1_R": ("F1 of R", 3),
    "tst_minutes_error": ("TST error (min)", 1),
    "rem_latency_minutes_error": ("REM latency error (min)", 1),
}
MAIN = ("tvr_percent", "fi", "accuracy", "kappa")  # of the main comparison
MAIN_COLUMNS: list[Heading] = [METRICS[metric] for metric in MAIN]
DOWNSTREAM = ("tst_minutes", "rem_latency_minutes", "se_percent", "waso_minutes", "awakenings")
BY: tuple[Heading, ...] = ("network", "stages by")
STARS_NOTE = (
    "Mean ± SD over test subjects, nights of one subject averaged. Stars: two-sided Wilcoxon signed-rank "
    "test against argmax of the same network, Bonferroni-corrected over networks and ways to guard of the "
    "column (* p < .05, ** p < .01, *** p < .001)."
)
NO_REM_NOTE = "REM that is never shown counts as coming at the recording's end, in bouts of no length."
OVER_SUBJECTS = "Mean ± SD over subjects."

Row = tuple[Cell, ...]
Lines = Sequence[Row]


def _table(results: Results, title: str, columns: Iterable[Heading], rows: Lines, *notes: str) -> Table:
    """Return a table that names its study, with what is to be known of the study among the notes."""
    title = f"{title}: {results.config.title}"
    return _made(title, columns, rows, (*results.warnings, *notes, *about(results)))


def _made(title: str, columns: Iterable[Heading], rows: Lines, notes: Sequence[str]) -> Table:
    """Return a table; a number in a column of words, such as a count, has three decimals."""
    named = [(each, 3) if isinstance(each, str) else each for each in columns]
    return Table([Column(name, digits=digits) for name, digits in named], rows, title, notes)


def about(results: Results) -> list[str]:
    """Return weak networks, failed jobs, and on how many folds the calibrated guard is argmax."""
    counted = []
    for name in results.backbones:
        folds = distinct(select(results.main(name), loss=BASE), ("fold", "calibrated_by"))
        rules = [fold["calibrated_by"] for fold in folds]
        counted += [f"{name} {rules.count(ARGMAX)} of {len(rules)}"] if ARGMAX in rules else []
    notes = [f"Folds on which the calibrated guard is argmax: {', '.join(counted) or 'none'}."]
    weak = ", ".join(name for name in results.backbones if is_weak(results, name))
    notes += [f"Less accurate than the most frequent stage: {weak}."] if weak else []
    failed = len(results.about["failures"])
    return [*notes, f"{failed} jobs failed and are missing here: see results.json."] if failed else notes


def is_weak(results: Results, name: str) -> bool:
    """Whether a network's argmax is less accurate than the most frequent stage, by the mean over subjects."""
    own, majority = (means(results.of(name, v), "accuracy") for v in (ARGMAX, MAJORITY_CLASS))
    return bool(own) and bool(np.mean(list(own.values())) < np.mean(list(majority.values())))


def ways(
    results: Results, variants: Iterable[str], names: Sequence[str] = (), *, alone: bool = True
) -> Iterator[tuple[str, str, Rows]]:
    """Yield network, title and rows of the variants that networks have, by default of all networks.

    With `alone`, they include the rules alone of a stager that is not trained with the penalty.
    """
    for name in names or results.backbones:
        for variant in variants:
            rows = results.of(name, variant)
            is_alone = variant in ALONE and len(rows) and rows["loss"][0].as_py() != results.trained
            if len(rows) and (alone or not is_alone):
                yield name, ALONE[variant] if is_alone else TITLES[variant], rows


def _estimates(rows: Rows, metrics: Iterable[str]) -> list[Estimate]:
    return [estimate(means(rows, metric)) for metric in metrics]


def _n_tests(results: Results) -> int:
    return sum(1 for _ in ways(results, GUARDED))


def _against_argmax(
    results: Results, metrics: Sequence[str]
) -> Iterator[tuple[str, str, list[Cell], list[Cell]]]:
    """Yield network, title, numbers and, but for argmax, improvements in percent."""
    n_tests = _n_tests(results)
    for name in results.backbones:
        before = [means(results.of(name, ARGMAX), metric) for metric in metrics]
        yield name, TITLES[ARGMAX], [estimate(each) for each in before], []
        for _, title, rows in ways(results, GUARDED, [name]):
            pairs = [(old, means(rows, metric)) for old, metric in zip(before, metrics, strict=True)]
            tested: list[Cell] = [paired(old, new, n_tests) for old, new in pairs]
            yield "", title, tested, [improvement_percent(old, new) for old, new in pairs]


def main_table(results: Results) -> Table:
    """Return TVR, FI, accuracy and kappa of the expert, and of each network by argmax and guarded."""
    references = ways(results, (EXPERT, MAJORITY_CLASS), results.backbones[:1])
    rows: list[Row] = [("", title, *_estimates(found, MAIN)) for _, title, found in references]
    rows += [(name, title, *cells) for name, title, cells, _ in _against_argmax(results, MAIN)]
    in_csv = "The effect size (rank-biserial correlation) and p stand in the CSV file."
    columns = (*BY, *MAIN_COLUMNS)
    return _table(results, "Agreement and validity", columns, rows, STARS_NOTE, in_csv)


def architecture_table(results: Results) -> Table:
    """Return the mean absolute errors of sleep architecture, and the improvement by each guard."""
    first = results.of(results.backbones[0], ARGMAX)
    kept = [metric for metric in ARCHITECTURE if means(first, ERRORS[metric])]
    rows: list[Row] = []
    for name, title, cells, gains in _against_argmax(results, [ERRORS[metric] for metric in kept]):
        rows.append((name, title, *cells))
        rows += [("", "  improvement (%)", *gains)] if gains else []
    columns = (*BY, *((ARCHITECTURE[metric], 2) for metric in kept))
    gains_note = "Improvement: of the mean error, in percent of argmax's; below 0 it grew."
    notes = STARS_NOTE, gains_note, NO_REM_NOTE
    return _table(results, "Sleep architecture, mean absolute error", columns, rows, *notes)


# Steps of the published method: kind, title, variant, loss (by default that of the whole method) and change.
NO_FLIP_FLOP = "without flip-flop (penalty + transitions + minimum bouts)"
STEPS: tuple[tuple[str, str, str, str | None, str], ...] = (
    ("progressive", TITLES[ARGMAX], ARGMAX, BASE, ""),
    ("progressive", TITLES[PENALTY], PENALTY, PENALTY, ""),
    ("progressive", "penalty + transitions", PAPER, None, "transitions alone"),
    ("progressive", NO_FLIP_FLOP, PAPER, None, "no flip-flop"),
    ("progressive", TITLES[PAPER], PAPER, None, ""),
    ("one left out", ALONE[PAPER], PAPER, BASE, ""),
    ("one left out", "without signal quality", PAPER, None, "no quality"),
    ("one left out", "without transitions", PAPER, None, "no transitions"),
    ("one left out", "without minimum bouts", PAPER, None, "no minimum bouts"),
    ("one left out", NO_FLIP_FLOP, PAPER, None, "no flip-flop"),
    ("flip-flop", TITLES[PAPER], PAPER, None, ""),
    ("flip-flop", "with the exact flip-flop", PAPER, None, "exact flip-flop"),
    ("released code", ALONE[RELEASED], RELEASED, BASE, ""),
    ("released code", TITLES[RELEASED], RELEASED, None, ""),
)


def ablation_table(results: Results) -> Table:
    """Return the published method step by step, and without each of its parts, over all networks."""
    metrics = (*MAIN, "rare_recall")
    rows: list[Row] = []
    for kind, title, variant, loss, change in STEPS:
        if title in ALONE.values() and results.trained == BASE:
            continue  # it is the whole method
        trained = loss or results.trained
        found = [results.of(name, variant, loss=trained, change=change) for name in results.backbones]
        cells = [_over_networks(found, metric) for metric in metrics]
        unlike = [n for each in found for n in by_night(each, "epochs_unlike_paper").values()]
        share = 100 * float(np.mean(np.array(unlike) > 0)) if unlike else NAN
        title = title if results.trained == PENALTY else title.replace("penalty + ", "")
        rows += [(kind, title, *cells, share)] if cells[1].n else []
    note = (
        "Mean ± SD over subjects, each averaged over the networks. Rare recall: of the expert's rare "
        "changes, those found within two epochs."
    )
    columns = (
        "kind",
        "variant",
        *MAIN_COLUMNS,
        METRICS["rare_recall"],
        ("recordings unlike the whole (%)", 1),
    )
    return _table(results, "Parts of the published method", columns, rows, note)


def _over_networks(found: Iterable[Rows], metric: str) -> Estimate:
    by_subject: dict[str, list[float]] = {}
    for rows in found:
        for subject, value in means(rows, metric).items():
            by_subject.setdefault(subject, []).append(value)
    return estimate({subject: float(np.mean(values)) for subject, values in by_subject.items()})


Varied = Iterable[tuple[tuple[str, str], Rows]]  # first cells of a line, and its rows


def _varied_table(
    results: Results, title: str, heads: tuple[str, str], lines: Varied, note: str = OVER_SUBJECTS
) -> Table:
    """Return a table of variations: numbers of rows; without columns or lines that are empty."""
    measured = [(words, _estimates(rows, METRICS)) for words, rows in lines]
    kept = [k for k in range(len(METRICS)) if any(cells[k].n for _, cells in measured)]
    rows: Lines = [(*w, *(cells[k] for k in kept)) for w, cells in measured if any(c.n for c in cells)]
    return _table(results, title, (*heads, *(list(METRICS.values())[k] for k in kept)), rows, note)


def _changes(results: Results, whole: Mapping[str, str], varied: Sequence[str]) -> Varied:
    """Yield the published rules of each network: whole, without a part, and with varied values."""
    for name in results.backbones:
        found = select(results.main(name), variant=PAPER, loss=results.trained)
        for way in distinct(found, WAY):
            change, value, pair = way["change"], way["value"], way["pair"]
            if change in whole:
                yield (name, whole[change]), select(found, change=change)
            elif change in varied:
                words = f"{change} {pair} {value:g}" if pair else f"{change} {value:g}"
                yield (name, words), select(found, change=change, value=value, pair=pair)


def rare_pairs_table(results: Results) -> Table:
    """Return the published decoder with other probabilities of rare pairs, of all and of one at a time."""
    lines = _changes(
        results, {"": "as published", "no transitions": "no transitions"}, ("relaxed", "epsilon")
    )
    return _varied_table(results, "Relaxed rare pairs (ε)", ("network", "rule"), lines)


def minimum_bouts_table(results: Results) -> Table:
    """Return the published decoder with other minimum bouts."""
    lines = _changes(results, {"": "as published", "no minimum bouts": "no minimum bouts"}, ("minimum x",))
    return _varied_table(results, "Scaled minimum bouts", ("network", "rule"), lines)


def varied(results: Results, variant: str, **facts: object) -> Rows:
    """Return the varied network's rows by a variant of the main comparison, with another seed or labels."""
    rows = select(results.rows, backbone=results.config.varied, variant=variant, change="", **facts)
    weight = results.config.guard.penalty_weight if variant in ALONE and results.trained == PENALTY else 0.0
    return select(rows, penalty_weight=weight)


def penalty_table(results: Results) -> Table:
    """Return the effect of lambda, in training alone and with the published decoder."""
    name, seed = results.config.varied, results.config.seed
    both = ((TITLES[PENALTY], ARGMAX), (TITLES[PAPER], PAPER))
    without = (ARGMAX, PAPER) if results.trained == PENALTY else (ARGMAX,)
    lines = [(("0", TITLES[variant]), results.of(name, variant, loss=BASE)) for variant in without]
    penalised = select(results.rows, backbone=name, loss=PENALTY, seed=seed, label_noise=0.0, change="")
    for facts in sorted(distinct(penalised, ["is_tuned", "penalty_weight"]), key=lambda f: [*f.values()]):
        weight = "chosen" if facts["is_tuned"] else f"{facts['penalty_weight']:g}"
        found = select(penalised, **facts)
        lines += [((weight, title), select(found, variant=variant)) for title, variant in both]
    note = (
        "A network that never says REM has a TVR of 0: read it beside the F1 of R. Relative recall: in "
        "percent of the rare recall at λ = 0 by the same stages."
    )
    title = f"Weight λ of the transition penalty, {name}"
    table = _varied_table(results, title, ("λ", "stages by"), lines, note)
    if "rare recall" not in table.heads:
        return table
    after = table.heads.index("rare recall") + 1
    first: dict[Cell, float] = {}
    rows = []
    for row in table.rows:
        recall = row[after - 1]
        assert isinstance(recall, Estimate)
        by = TITLES[ARGMAX] if row[1] == TITLES[PENALTY] else row[1]  # without a decoder, λ = 0 is argmax
        reference = first.setdefault(by, recall.mean)
        rows.append((*row[:after], 100 * recall.mean / reference if reference else NAN, *row[after:]))
    relative = Column("relative recall (%)", digits=0)
    columns = (*table.columns[:after], relative, *table.columns[after:])
    return replace(table, columns=columns, rows=tuple(rows))


def noise_table(results: Results) -> Table:
    """Return the effect of wrong training labels."""
    name, seed = results.config.varied, results.config.seed
    found = distinct(select(results.rows, backbone=name, seed=seed), ["label_noise"])
    lines = [
        ((f"{100 * facts['label_noise']:g} %", TITLES[variant]), varied(results, variant, seed=seed, **facts))
        for facts in found
        for variant in (ARGMAX, PAPER)
    ]
    note = "Stages of training and validation nights replaced at random; test nights are as scored."
    return _varied_table(
        results, f"Wrong training labels, {name}", ("wrong labels", "stages by"), lines, note
    )


def f1_table(results: Results) -> Table:
    """Return the F1 of every stage."""
    stages = results.about["stages"]
    metrics = [f"f1_{stage}" for stage in stages]
    found = ways(results, SHOWN, alone=False)
    rows: Lines = [(name, by, *_estimates(each, metrics)) for name, by, each in found]
    return _table(results, "F1 by stage", (*BY, *stages), rows, OVER_SUBJECTS)


def transitions_table(results: Results) -> Table:
    """Return the transition probabilities that each fold counted on its training subjects."""
    stages = results.about["stages"]
    of_expert = results.of(results.backbones[0], EXPERT)
    pairs = zip(of_expert["fold"].to_pylist(), of_expert["transitions"].to_pylist(), strict=True)
    folds = dict(sorted(pairs))
    rows: list[Row] = [(f"fold {number}", *row) for number, row in folds.items()]
    rows.append(("largest less smallest", *np.ptp(list(folds.values()), axis=0).tolist()))
    columns: list[Heading] = ["fold", *((f"{a}→{b}", 4) for a in stages for b in stages)]
    return _table(results, "Transition probabilities of each fold's training subjects", columns, rows)


def networks_table(results: Results) -> Table:
    """Return the agreement of every two networks with each other, before and after."""
    pairs = list(combinations(results.backbones, 2))
    columns: list[Heading] = ["pair"]
    cells: list[list[Estimate]] = []  # by column and pair
    for variant in SHOWN:
        loss = results.trained if variant in ALONE else BASE
        rows = {name: results.of(name, variant, loss=loss) for name in results.backbones}
        for what, key in (("κ", "kappa"), ("equal epochs", "equal")):
            found = [estimate(by_night(rows[a], f"{key}_with_{b}")) for a, b in pairs]
            if any(each.n for each in found):
                columns.append((f"{TITLES[variant]}, {what}", 3))
                cells.append(found)
    over = [estimate({str(k): e.mean for k, e in enumerate(found) if e.n}) for found in cells]
    lines: list[Row] = []
    if cells:
        lines = [(" and ".join(pair), *of) for pair, of in zip(pairs, zip(*cells, strict=True), strict=True)]
        lines += [("mean over pairs", *(e.mean for e in over)), ("SD over pairs", *(e.sd for e in over))]
    note = "Mean ± SD over recordings, of every two networks."
    return _table(results, "Agreement between networks", columns, lines, note)


def group_subjects(facts: Mapping[str, float | str | None], bins: Sequence[str] = ()) -> dict[str, str]:
    """Return the group of each subject: the text itself, a bin, or up to and above the median of a number.

    A bin `40-55` holds 40 and not 55; `70+` holds 70 and more. Subjects in no bin have no group.
    """
    known = {subject: value for subject, value in sorted(facts.items()) if value is not None}
    ages = {subject: value for subject, value in known.items() if not isinstance(value, str)}
    if not ages:
        return {subject: str(value) for subject, value in known.items()}
    if bins:
        edges = {name: _edges(name) for name in bins}
        found = ((s, [n for n, (low, high) in edges.items() if low <= v < high]) for s, v in ages.items())
        return {subject: names[0] for subject, names in found if names}
    middle = float(np.median(list(ages.values())))
    return {s: f"above {middle:g}" if value > middle else f"up to {middle:g}" for s, value in ages.items()}


def _edges(name: str) -> tuple[float, float]:
    """Return the ends of a bin by its name."""
    match = re.fullmatch(r"([\d.]+)(?:\+|-([\d.]+))", name)
    low, high = (float(match[1]), float(match[2] or "inf")) if match else (1.0, 0.0)
    if low < high:
        return low, high
    raise InputError(f"invalid bin {name!r}; use '40-55' or '70+'.")


def check_groups(robust: Robustness, facts: Mapping[str, Mapping[str, float | str]]) -> None:
    """Refuse groups that no subject is in, before anything is trained; `facts` are by subject."""
    named = [(name, level) for name, levels in robust.bins.items() for level in levels]
    named += [(c.group, level) for c in robust.contrasts for level in (c.first, c.second)]
    for name, level in [*((name, None) for name in robust.subgroups), *named]:
        of_subjects = {subject: each.get(name) for subject, each in facts.items()}
        levels = sorted(set(group_subjects(of_subjects, robust.bins.get(name, ())).values()))
        if not levels or level not in (*levels, None):
            known = levels or sorted({key for each in facts.values() for key in each})
            where = f"{name!r}, group {level!r}" if level else repr(name)
            raise InputError(f"robustness: no subject is in {where}; expected one of {', '.join(known)}.")


def groups_of(results: Results, covariate: str) -> dict[str, str]:
    """Return the group of each subject that was tested."""
    tested = set(results.rows["subject"].to_pylist())
    facts = {s: each.get(covariate) for s, each in results.about["subjects"].items() if s in tested}
    return group_subjects(facts, results.config.robustness.bins.get(covariate, ()))


def contrast(results: Results, rows: Rows, named: Contrast) -> Difference:
    """Return the second group less the first, of subjects' means of what is shown in some rows."""
    groups = groups_of(results, named.group)
    truth = by_night(results.of(results.backbones[0], EXPERT), named.statistic)
    columns = (rows[name].to_pylist() for name in ("subject", "recording", ERRORS[named.statistic]))
    shown: dict[str, list[float]] = {}
    for subject, recording, error in zip(*columns, strict=True):
        if error is not None:
            shown.setdefault(subject, []).append(truth[recording] + error)
    of = [[np.mean(v) for s, v in shown.items() if groups.get(s) == g] for g in (named.second, named.first)]
    return compare_samples(np.array(of[0]), np.array(of[1]))


def contrasts_table(results: Results) -> Table:
    """Return the named contrasts as the paper prints them: differences and effect sizes by stages."""
    name = results.backbones[0]
    shown = list(ways(results, (EXPERT, *SHOWN), [name], alone=False))
    rows: list[Row] = []
    for named in results.config.robustness.contrasts:
        found = [contrast(results, each, named) for _, _, each in shown]
        title = f"{ARCHITECTURE[named.statistic]}: {named.group} {named.first} vs {named.second}"
        counts = (str(found[0].n_second), str(found[0].n_first))
        rows.append((title, *counts, *(d.difference for d in found), *(d.d for d in found)))
    columns: list[Heading] = ["comparison", "n first", "n second"]
    columns += [(f"{what}, {title}", n) for what, n in (("Δ", 1), ("d", 2)) for _, title, _ in shown]
    note = f"Second group less first; d: Cohen's. {NO_REM_NOTE}"
    title = f"Recovery of group differences, {name}"
    return _table(results, title, columns, rows, note)


def populations_table(results: Results) -> Table:
    """Return the main numbers by group, with the number of subjects."""
    rows: list[Row] = []
    for covariate in results.config.robustness.subgroups:
        groups = groups_of(results, covariate)
        for level in results.config.robustness.bins.get(covariate) or sorted(set(groups.values())):
            for name, title, found in ways(results, (EXPERT, *SHOWN), alone=False):
                by_metric = [means(found, metric) for metric in MAIN]
                cells = [estimate({s: v for s, v in e.items() if groups.get(s) == level}) for e in by_metric]
                rows.append((f"{covariate}: {level}", str(max(c.n for c in cells)), name, title, *cells))
    columns = ("subjects", "n", *BY, *MAIN_COLUMNS)
    return _table(results, "Subpopulations", columns, rows, OVER_SUBJECTS)


TABLES: Mapping[str, Callable[[Results], Table]] = {
    "main": main_table,
    "architecture": architecture_table,
    "contrasts": contrasts_table,
    "ablations": ablation_table,
    "rare-pairs": rare_pairs_table,
    "minimum-bouts": minimum_bouts_table,
    "penalty": penalty_table,
    "label-noise": noise_table,
    "populations": populations_table,
    "networks": networks_table,
    "f1": f1_table,
    "transitions": transitions_table,
}


def across_tables(studies: Sequence[Results]) -> dict[str, Table]:
    """Return all tables over studies, by name."""
    main = {f"across-{metric.removesuffix('_percent')}": main_across(studies, metric) for metric in MAIN}
    return main | {"downstream": downstream_across(studies)}


def main_across(studies: Sequence[Results], metric: str) -> Table:
    """Return a number of the main comparison by network and stages, with a column per study."""
    title, decimals = METRICS[metric]
    networks = dict.fromkeys(network for results in studies for network in results.backbones)
    n_tests = [_n_tests(results) for results in studies]
    rows: list[Row] = []
    for network, variant in [
        *(("", reference) for reference in (EXPERT, MAJORITY_CLASS)),
        *((network, variant) for network in networks for variant in SHOWN),
    ]:
        cells = []
        for results, n in zip(studies, n_tests, strict=True):
            name = network or results.backbones[0]
            before, own = (means(results.of(name, v), metric) for v in (ARGMAX, variant))
            cells.append(paired(before, own, n) if variant in GUARDED else estimate(own))
        if any(cell.n for cell in cells):
            rows.append((network if variant == ARGMAX else "", TITLES[variant], *cells))
    title = f"{title.replace('accuracy', 'Accuracy')} over all studies"
    columns = (*BY, *((results.config.name, decimals) for results in studies))
    notes = (*_study_notes(studies), STARS_NOTE)
    return _made(title, columns, rows, notes)


def downstream_across(studies: Sequence[Results]) -> Table:
    """Return errors of sleep statistics by network and study, of argmax and of each guard."""
    rows: list[Row] = []
    for results in studies:
        for name, title, found in ways(results, SHOWN):
            before = results.of(name, ARGMAX)
            cells = (paired(means(before, ERRORS[m]), means(found, ERRORS[m])) for m in DOWNSTREAM)
            rows.append((name, results.config.name, title, *cells))
    columns: list[Heading] = ["network", "study", "stages by"]
    columns += [(ARCHITECTURE[metric], 2) for metric in DOWNSTREAM]
    notes = (f"{OVER_SUBJECTS} Stars against argmax, not corrected.", NO_REM_NOTE)
    title = "Errors of sleep architecture by network and study"
    return _made(title, columns, rows, (*_study_notes(studies), *notes))


def _study_notes(studies: Sequence[Results]) -> list[str]:
    return [f"{each.config.name}: {' '.join([*each.warnings, *about(each)])}" for each in studies]

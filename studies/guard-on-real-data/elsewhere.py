"""Tables beyond single tasks: REM latency, the joint score, other stagers and cohorts, few scored nights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from layout import (
    GROUPS,
    has_method,
    holm,
    is_human,
    label_tasks,
    mean,
    n_far,
    of_group,
    p_value,
    ratio,
    single_tasks,
    table,
)

EXPERTS = Path(__file__).parents[1] / "expert-scorings" / "results.json"
SHOWN = ("argmax", "clock + target", "clock + tune", "fit")


def tables(held: Mapping, pairs: Mapping, draws: Mapping, boxed: Mapping, labelled: Mapping) -> Iterator[str]:
    """Yield headings, words and tables."""
    if labelled:
        yield "## Stagers that give labels alone\n"
        yield LABEL_WORDS
        yield label_tasks(labelled, SHOWN[2:])
    if boxed:
        yield "## A stager that nobody here trained\n"
        yield BOX_WORDS
        yield single_tasks(boxed, SHOWN[1:])
    yield "## REM latency\n"
    yield REM_WORDS
    yield rem_latency(held)
    yield "## Nights that do not look like expert scoring\n"
    yield JOINT_WORDS
    yield joint_of_experts()
    yield joint_of_stagers(held)
    if pairs:
        yield "## On another stager or cohort\n"
        yield PAIR_WORDS
        yield transfer_summary(pairs)
        yield INTERVAL_WORDS
        yield intervals_elsewhere(pairs)
        yield "The ten pairs with the lowest κ:\n"
        yield worst_pairs(pairs)
    if draws:
        yield "## How many scored nights\n"
        yield DRAW_WORDS
        yield learning_summary(held, draws)
        yield learning_by_task(draws)


def rem_latency(held: Mapping) -> str:
    """One row a task: argmax's error, errors over it, and nights wrong by more than 30 min."""
    rows, methods = [], SHOWN[1:]
    for name, task in held.items():
        before = mean(task, "argmax", "error rem_latency_minutes")
        if is_human(task) and not math.isnan(before):
            known = [method for method in methods if has_method(task, method)]
            cells = {m: (_number(ratio(task, m, "rem_latency_minutes")), f"{n_far(task, m)}") for m in known}
            shown = [cell for method in methods for cell in cells.get(method, ("", ""))]
            rows.append([name, f"{before:.1f}", f"{n_far(task, 'argmax')}", *shown])
    head = [part for method in methods for part in (f"`{method}`", "> 30 min")]
    return table(["task", "argmax, min", "> 30 min", *head], rows)


def joint_of_experts() -> str:
    """How often experts are flagged whom the profile has not counted."""
    rows = [
        [name, f"{profile['joint']['threshold']:.2f}", cohort, how, f"{share:.0f} %"]
        for name, profile in _counted().items()
        for how, key in _HOW.items()
        for cohort, share in profile["joint"][key].items()
    ]
    return table(["profile", "threshold", "experts of", "they were", "flagged"], rows)


def experts_flagged() -> list[float]:
    """Shares of expert nights flagged, by profile and cohort that was left out or never counted."""
    joints = [profile["joint"] for profile in _counted().values()]
    return [share / 100 for joint in joints for key in _HOW.values() for share in joint[key].values()]


_HOW = {
    "left out": "flagged_if_left_out_percent",
    "never counted": "flagged_never_counted_percent",
}


def _counted() -> dict:
    profiles = json.loads(EXPERTS.read_text("utf-8"))["profiles"]
    return {name: profile for name, profile in profiles.items() if "joint" in profile}


def joint_of_stagers(held: Mapping) -> str:
    """One row a task: percent of nights above the threshold, by method and by the task's experts."""
    rows = []
    for group in ("good", "neither", "flickering"):
        for name, task in of_group(held, group).items():
            cells = [_percent(mean(task, m, "flagged")) if has_method(task, m) else "" for m in SHOWN]
            rows.append([name, group, *cells, _percent(mean(task, "argmax", "flagged_expert"))])
    return table(["task", "stager", *(f"`{method}`" for method in SHOWN), "its experts"], rows)


def transfer_figures(pairs: Mapping, how: str) -> dict[str, float]:
    """Return what pairs do to kappa and errors, cohort and stager said or unsaid."""
    gains = {name: np.array(pair[how]["kappa"]) for name, pair in pairs.items()}
    p_values = {name: p_value(d) for name, d in gains.items()}
    adjusted = holm(p_values)
    up = {name for name, d in gains.items() if d.mean() > 0}
    down = gains.keys() - up
    ratios = [pair[how]["ratio"] for pair in pairs.values()]
    over_default = [pair[how]["ratio"] / pair["default"]["ratio"] for pair in pairs.values()]
    return {
        "pairs": len(pairs),
        "up": sum(p_values[name] < 0.05 for name in up),
        "down": sum(p_values[name] < 0.05 for name in down),
        "up by Holm": sum(adjusted[name] < 0.05 for name in up),
        "down by Holm": sum(adjusted[name] < 0.05 for name in down),
        "kappa median": float(np.median([d.mean() for d in gains.values()])),
        "kappa worst": float(min(d.mean() for d in gains.values())),
        "below": sum(d.mean() < -0.005 for d in gains.values()),
        "ratio": float(np.mean(ratios)),
        "ratio worst": max(ratios),
        "over default": float(np.mean(over_default)),
        "over default worst": max(over_default),
    }


def _kinds(pairs: Mapping) -> dict[str, dict]:
    same = {name: pair for name, pair in pairs.items() if pair["same_cohort"]}
    other = {name: pair for name, pair in pairs.items() if not pair["same_cohort"]}
    kinds = {"another stager, same cohort": same, "another stager and cohort": other}
    return {kind: chosen for kind, chosen in kinds.items() if chosen}


def transfer_summary(pairs: Mapping) -> str:
    rows = []
    for kind, chosen in {**_kinds(pairs), "all": pairs}.items():
        for how in ("said", "unsaid"):
            one = transfer_figures(chosen, how)
            rows.append(
                [
                    f"{kind}, {how}",
                    f"{one['pairs']}",
                    f"{one['kappa median']:+.3f} ({one['kappa worst']:+.3f})",
                    f"{one['below']}",
                    f"{one['up']} / {one['down']}",
                    f"{one['up by Holm']} / {one['down by Holm']}",
                    f"{one['ratio']:.2f} ({one['ratio worst']:.2f})",
                    f"{one['over default']:.2f} ({one['over default worst']:.2f})",
                ]
            )
    header = [
        "used on",
        "pairs",
        "κ, median (worst)",
        "below -.005",
        "up / down",
        "by Holm",
        "errors (worst)",
        "over the base's (worst)",
    ]
    return table(header, rows)


def intervals_elsewhere(pairs: Mapping) -> str:
    """What intervals cover where nights are taken for the profile's own."""
    rows = []
    for kind, chosen in _kinds(pairs).items():
        counts = [pair["intervals"] for pair in chosen.values() if pair["intervals"]["shown"]]
        if counts:
            shown, inside = (sum(count[key] for count in counts) for key in ("shown", "inside"))
            shares = [100 * count["inside"] / count["shown"] for count in counts]
            by_pair = f"{min(shares):.0f} to {max(shares):.0f} %"
            rows.append([kind, f"{len(counts)}", f"{shown}", f"{100 * inside / shown:.0f} %", by_pair])
    return table(["used on", "pairs", "intervals", "covered", "by pair"], rows)


def worst_pairs(pairs: Mapping, n_shown: int = 10) -> str:
    entries = [
        (float(np.mean(pair[how]["kappa"])), name, how, p_value(np.array(pair[how]["kappa"])))
        for name, pair in pairs.items()
        for how in ("said", "unsaid")
    ]
    rows = [
        [name, how, f"{gain:+.3f}", f"{p:.3f}", f"{pairs[name][how]['ratio']:.2f}"]
        for gain, name, how, p in sorted(entries)[:n_shown]
    ]
    return table(["fitted on → used on", "cohort and stager", "κ change", "p", "errors"], rows)


def _nights(draws: Mapping) -> list[int]:
    return sorted({d["nights"] for d in draws.values()})


def learning_summary(held: Mapping, draws: Mapping) -> str:
    """One row a group of stagers and number of nights."""
    rows = []
    for group in ("good", "flickering", "neither"):
        for n_nights in _nights(draws):
            names = {name for name, task in held.items() if GROUPS[group](task)}
            own = [d for d in draws.values() if d["task"] in names and d["nights"] == n_nights]
            if own:
                kappa = np.array([d["kappa"] for d in own])
                rows.append(
                    [
                        f"{group}: {n_nights} nights",
                        f"{len({d['task'] for d in own})}",
                        f"{len(own)}",
                        f"{np.median(kappa):+.3f} ({kappa.min():+.3f})",
                        f"{int((kappa > 0.005).sum())} / {int((kappa < -0.005).sum())}",
                        f"{np.mean([d['ratio'] for d in own]):.2f} ({max(d['ratio'] for d in own):.2f})",
                        f"{np.mean([d['default_ratio'] for d in own]):.2f}",
                        f"{max(d['ratio'] - d['default_ratio'] for d in own):+.2f}",
                        f"{100 * np.mean([d['steps_aside'] for d in own]):.0f} %",
                    ]
                )
    header = ["stagers: scored nights", "tasks", "draws", "κ, median (worst)", "above .005 / below -.005"]
    errors = ["errors (worst)", "the default's", "above it, worst"]
    return table([*header, *errors, "steps aside"], rows)


def learning_by_task(draws: Mapping) -> str:
    """Mean change of kappa by task and number of nights, with the lowest draw."""
    rows = []
    for name in dict.fromkeys(d["task"] for d in draws.values()):
        cells = []
        for n_nights in _nights(draws):
            kappa = [d["kappa"] for d in draws.values() if (d["task"], d["nights"]) == (name, n_nights)]
            cells.append(f"{np.mean(kappa):+.3f} ({min(kappa):+.3f}, {len(kappa)})" if kappa else "")
        rows.append([name, *cells])
    return table(["task: mean change of κ (lowest, draws)", *(f"{n} nights" for n in _nights(draws))], rows)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.0f}"


LABEL_WORDS = """Six published networks on DOD-H and six of AccuSleep in three laboratories. Each label is
replaced by what experts say where other networks give it, counted on other nights or in other laboratories
(`../label-shares`); `fit` counts the network's own confusions on the training subjects. These tasks were
run after the goals had been set, and are in no other table.
"""
BOX_WORDS = """SleepECG 0.6 with its network `wrn-gru-mesa` as published (trained on MESA), on the heartbeats
of slpdb. It takes age, sex and the time of day, which these data do not say: 44 years, male and 23:00
for all nights. So its κ is no measure of SleepECG. The table of known stagers says that it was trained on
natural stage frequencies; "as if unknown" leaves that out. These tasks were run after the goals had been set
and by the rules as they are now, and are in no other table. p: paired Wilcoxon of κ over subjects.
"""
REM_WORDS = """Mean absolute error of argmax's REM latency, and the nights on which it is wrong by more than
30 min; then for each method its error over argmax's, and the same nights.
"""
JOINT_WORDS = """First the experts: of a cohort that neither scales nor threshold have seen, and of cohorts no
profile counted. Then percent of nights above the threshold of the task's built-in profile, for which the
experts of Sleep-EDF and DOD-H, and of the mice, were counted.
"""
PAIR_WORDS = """A profile fitted on one task decodes the nights of another with the same stages, of the same
fold, so that nobody is on both sides. Said: `cohort=` and `stager=` name the other; unsaid: neither is given.
κ and errors against argmax, on people of the task it is used on; errors also over those of the profile that
it was fitted from, each night by itself.
"""
INTERVAL_WORDS = """Conformal intervals are withheld where cohort or stager are others than the profile's, or
unsaid. What they would cover, of nominal 90 %, if the nights were taken for the profile's own:
"""
DRAW_WORDS = """`sg.fit` on a few nights of a fold's training people, drawn at random, judged on the fold's
test people. A number of nights is missing where a fold has fewer. The default is what needs no scoring of
the same nights: the shipped profile, tuned from ten nights on. A fit that steps aside is the default.
"""

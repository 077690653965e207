"""Count how far stagers err alike all night, and how often 90 % intervals of draws hold an expert's value.

For each profile, the numbers are chosen on all cohorts but one and judged on that one, in turn; what ships is
chosen on all. Writes results.json, from which write_profiles.py takes the block.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measure import auroc, statistics

import stageguard as sg
from nights import SIGNALS, StudyNight, StudyStager, stagers
from stageguard.guard.posterior import (
    draw_night,
    fixed_offsets,
    path_marginals,
    random_offsets,
    smooth_night,
    uncut,
)
from stageguard.measures.intervals import kind_of

HERE = Path(__file__).parent
LEVEL, N_DRAWS = 0.9, 200
N_DRAWS_TO_CHOOSE, EVERY = 100, 2  # draws, and every second night of long cohorts, while choosing
N_ROUNDS = 3
LEAST_NIGHTS = 8  # of a stager and kind, from which a coverage counts
# se_percent and minutes of wake say the same as TST
TO_CHOOSE_BY = (
    "tst",
    "sol",
    "waso",
    "awakenings",
    "rem_latency_minutes",
    "minutes_N",
    "minutes_R",
    "bouts_R",
)
SOL_FACTOR = 1.25  # not searched for: the smallest of 1.15, 1.25, 1.4 at which every kind has .85 of SOL
START = {"weight": 0.5, "weight_sd": 0.4, "floor": 0.02, "presleep_stay": 0.97, "sol_factor": SOL_FACTOR}
START_SD = {"W": 0.9, "N1": 0.75, "N2": 0.9, "N3": 1.25, "R": 1.1, "N": 0.9, "S": 0.9}
UNDER = 2.0  # how many times worse too narrow is than too wide


@dataclass(frozen=True)
class Judged:
    """A night with what does not depend on the draws."""

    night: StudyNight
    kind: str
    truths: dict[str, np.ndarray]  # by statistic, one value per expert
    is_scored: tuple[np.ndarray, ...]  # epochs that draws and each expert have


def judged(stager: StudyStager, profile: sg.Profile) -> list[Judged]:
    """Return the nights of a stager, each with the experts' statistics."""
    found = []
    for night in stager.nights:
        labels = night.decoding.hypnogram.labels
        experts = night.scorers or (night.expert,)
        masks = tuple((labels >= 0) & (expert >= 0) for expert in experts)
        each = [
            statistics(np.where(mask, expert, -1)[None], profile.scheme)
            for mask, expert in zip(masks, experts, strict=True)
        ]
        truths = {name: np.array([one[name][0] for one in each]) for name in each[0]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            kind = kind_of(night.decoding)
        kind = "labels" if stager.kind == "labels" and kind != "unlike" else kind
        found.append(Judged(night, kind, truths, masks))
    return found


def covered(night: Judged, profile: sg.Profile, seed: int, n_draws: int) -> dict[str, float]:
    """Return by statistic the share of experts within the interval of the draws; absent ones are left out."""
    decoding = night.night.decoding
    drawn = draw_night(profile, uncut(decoding), random_offsets(profile, n_draws, seed), seed)
    limits = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    end = drawn.shape[1] * decoding.epoch_seconds / 60.0
    held: dict[str, list[bool]] = {}
    for index, mask in enumerate(night.is_scored):
        for name, values in statistics(np.where(mask, drawn, -1), profile.scheme).items():
            truth = night.truths[name][index]
            if np.isfinite(truth):
                low, high = np.quantile(np.minimum(values, end), limits)
                if name == "sol_minutes":
                    low, high = low / profile.posterior.sol_factor, high * profile.posterior.sol_factor
                held.setdefault(name, []).append(bool(low - 1e-9 <= truth <= high + 1e-9))
    return {name: float(np.mean(own)) for name, own in held.items()}


def coverage(
    nights: Mapping[str, Sequence[Judged]], profile: sg.Profile, n_draws: int
) -> dict[tuple[str, str], dict[str, float]]:
    """Return the mean coverage by stager and kind of night, then by statistic."""
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    for stager, own in nights.items():
        for seed, night in enumerate(own):
            rows.setdefault((stager, night.kind), []).append(covered(night, profile, seed, n_draws))
    return {key: means(own) for key, own in rows.items() if len(own) >= LEAST_NIGHTS}


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each statistic over the rows that have it."""
    names = sorted({name for row in rows for name in row})
    return {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}


def by_kind(found: Mapping[tuple[str, str], Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the mean over stagers, by kind and statistic."""
    kinds: dict[str, list[Mapping[str, float]]] = {}
    for (_, kind), row in found.items():
        kinds.setdefault(kind, []).append(row)
    return {kind: means(rows) for kind, rows in sorted(kinds.items())}


def loss(nights: Mapping[str, Sequence[Judged]], profile: sg.Profile) -> float:
    """Return how far coverage is from 90 %, over kinds and statistics, but for nights unlike experts'."""
    total = []
    usual = {name: [night for night in own if night.kind != "unlike"] for name, own in nights.items()}
    for row in by_kind(coverage(usual, profile, N_DRAWS_TO_CHOOSE)).values():
        for name, share in row.items():
            if name.startswith(TO_CHOOSE_BY):
                total.append((UNDER if share < LEVEL else 1.0) * (share - LEVEL) ** 2)
    return float(np.mean(total))


def with_rules(base: sg.Profile, rules: Mapping) -> sg.Profile:
    return base.replace(posterior=dict(rules))


def neighbours(rules: Mapping) -> Iterator[dict]:
    """Yield rules with one number changed."""
    for stage, spread in rules["stage_sd"].items():
        for factor in (0.8, 1.25):
            yield {**rules, "stage_sd": {**rules["stage_sd"], stage: round(spread * factor, 3)}}
    for key, factors in (("weight", (0.8, 1.25)), ("weight_sd", (0.7, 1.4)), ("floor", (0.5, 2.0))):
        for factor in factors:
            yield {**rules, key: round(min(rules[key] * factor, 0.1 if key == "floor" else 9.0), 4)}
    for factor in (0.5, 2.0):
        yield {**rules, "presleep_stay": round(1 - (1 - rules["presleep_stay"]) * factor, 4)}


def chosen(nights: Mapping[str, Sequence[Judged]], base: sg.Profile) -> tuple[dict, float]:
    """Return the rules whose coverage is nearest to 90 %, found by changing one number after the other."""
    some = {name: own[:: EVERY if len(own) > 30 else 1] for name, own in nights.items()}
    rules = START | {"stage_sd": {stage: START_SD[stage] for stage in base.scheme.names}}
    best = loss(some, with_rules(base, rules))
    for _ in range(N_ROUNDS):
        before = best
        for key in range(sum(1 for _ in neighbours(rules))):
            tried = list(neighbours(rules))[key]
            found = loss(some, with_rules(base, tried))
            if found < best * 0.99:
                rules, best = tried, found
        if best > before * 0.97:
            break
    return rules, best


def wrong_epochs(nights: Sequence[Judged], profile: sg.Profile) -> dict[str, float]:
    """Return means over nights: the share of wrong epochs, as expected with and without errors all night.

    And the AUROC of 1 - the highest posterior for epochs whose decoded stage is wrong.
    """
    found, offsets = [], fixed_offsets(profile)
    for judged_night in nights:
        night = judged_night.night
        marginals, _ = smooth_night(profile, uncut(night.decoding), offsets)
        labels = night.decoding.hypnogram.labels
        both = (labels >= 0) & (night.expert >= 0)
        is_wrong, place = (labels != night.expert)[both], np.arange(len(labels))[both]
        doubts = [1 - rows[place, labels[both]] for rows in (marginals, path_marginals(night.decoding))]
        found.append(
            {
                "auroc": auroc(1 - marginals[both].max(axis=1), is_wrong),
                "wrong": float(is_wrong.mean()),
                "expected": float(doubts[0].mean()),
                "expected_at_the_path": float(doubts[1].mean()),
            }
        )
    return {key: float(np.nanmean([each[key] for each in found])) for key in found[0]}


def run(name: str, kept: Mapping | None) -> dict:
    """Return all that was found for one profile; `kept` has rules to judge instead of choosing them.

    Of stagers whose probabilities are not in the cache, what `kept` has is kept.
    """
    began = time.time()
    base = sg.Profile.load(name).replace(posterior=None)
    every = list(stagers(name))
    nights = {stager.name: judged(stager, base) for stager in every}
    cohort_of = {stager.name: stager.cohort for stager in every}
    usable = [stager.name for stager in every if stager.is_usable]
    left_out: dict[tuple[str, str], dict[str, float]] = {}
    elsewhere, wrong = {}, {}
    for cohort in dict.fromkeys(cohort_of.values()):
        others = {s: nights[s] for s in usable if cohort_of[s] != cohort}
        rules = widened(kept["rules_without"][cohort]) if kept else chosen(others, base)[0]
        print(name, "without", cohort, rules, f"{time.time() - began:.0f} s", flush=True)
        profile = with_rules(base, rules)
        own = {s: nights[s] for s in nights if cohort_of[s] == cohort}
        left_out |= coverage(own, profile, N_DRAWS)
        wrong |= {s: wrong_epochs(nights[s], profile) for s in own}
        elsewhere[cohort] = rules
    rules = widened(kept["rules"]) if kept else chosen({s: nights[s] for s in usable}, base)[0]
    print(name, "all", rules, f"{time.time() - began:.0f} s", flush=True)
    found = {
        "by_stager": {" | ".join(key): row for key, row in left_out.items()},
        "n_nights": {s: len(own) for s, own in nights.items()},
        "unlike": {s: float(np.mean([n.kind == "unlike" for n in own])) for s, own in nights.items()},
        "usable": dict.fromkeys(usable),
        "wrong_epochs": wrong,
    }
    if kept:
        before = kept | {"usable": dict.fromkeys(kept["usable"])}
        found = {key: before[key] | own for key, own in found.items()}
    rows = {tuple(key.split(" | ")): row for key, row in found["by_stager"].items()}
    of_usable = {key: row for key, row in rows.items() if key[0] in found["usable"]}
    head = {"rules": rules, "rules_without": elsewhere, "coverage": by_kind(of_usable)}
    return head | found | {"usable": list(found["usable"])}


def widened(rules: Mapping) -> dict:
    """Return rules that were chosen before, with the factor of SOL."""
    return {**rules, "sol_factor": SOL_FACTOR}


def main(names: Sequence[str], *, judge: bool) -> None:
    path = HERE / "results.json"
    for name in names or list(SIGNALS):
        held = json.loads(path.read_text()) if path.exists() else {}
        held[name] = run(name, held[name] if judge else None)
        rounded = json.loads(json.dumps(held), parse_float=lambda text: round(float(text), 4))
        path.write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile", nargs="*", help="which of them; default: all")
    parser.add_argument("--judge", action="store_true", help="judge the rules in results.json, choose none")
    said = parser.parse_args()
    main(said.profile, judge=said.judge)

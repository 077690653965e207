"""Compare the paper's claims with the committed studies: writes docs/claims.md.

python studies/claims.py        after `stageguard study report FOLDER --publish studies/results/NAME`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import isnan
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from stageguard.measures.architecture import ARCHITECTURE
from stageguard.measures.paired import paired
from stageguard.study.derived import derived_of
from stageguard.study.groups import groups_of
from stageguard.study.names import BASE, CALIBRATED, EXPERT, PAPER, PENALTY
from stageguard.study.store import Results, read_results, values, variants_in
from stageguard.study.tables import errors_of

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "studies" / "results", ROOT / "docs" / "claims.md"
NAMES = ("sleep-accel-2", "sleep-accel", "sleep-edf", "mouse-sim", "cardio-sim", "radar-sim")
GUARDED = (PAPER, CALIBRATED)

# A number that was found, of one network or one thing else, and whether the claim holds there.
Found = Iterator[tuple[float, bool]]


class Claim(NamedTuple):
    """What the paper says, and how to see whether it holds in a study for a way to guard."""

    where: str
    says: str
    shown: str  # what the numbers are
    found: Callable[[Results, str], Found]
    of: str = "networks"  # what is counted
    places: int = 1


def mean(results: Results, network: str, variant: str, metric: str) -> float:
    """Mean over subjects; NaN without any."""
    found = values(results.of(network), variant, metric)
    return fmean(found.values()) if found else float("nan")


def error(results: Results, network: str, variant: str, metric: str) -> float:
    found = errors_of(results, results.of(network), variant, metric)
    return fmean(found.values()) if found else float("nan")


def tvr_low(results: Results, variant: str) -> Found:
    for name in results.backbones:
        value = mean(results, name, variant, "tvr_percent")
        yield value, value <= 0.8


def tvr_above_experts(results: Results, variant: str) -> Found:
    """Of argmax; a way to guard does not enter."""
    for name in results.backbones if variant == PAPER else ():
        value = mean(results, name, BASE, "tvr_percent")
        yield value, value > mean(results, name, EXPERT, "tvr_percent")


def fi_reduction(results: Results, variant: str) -> Found:
    for name in results.backbones:
        before, after = (mean(results, name, v, "fi") for v in (BASE, variant))
        reduction = 100 * (1 - after / before) if before else float("nan")
        yield reduction, 55.5 <= reduction <= 62.5


def fi_of_experts(results: Results, variant: str) -> Found:
    """FI by that of the expert, which a reduction says nothing of."""
    for name in results.backbones:
        expert = mean(results, name, EXPERT, "fi") or float("nan")
        ratio, before = (mean(results, name, v, "fi") / expert for v in (variant, BASE))
        yield ratio, abs(ratio - 1) < abs(before - 1)


def accuracy_kept(results: Results, variant: str) -> Found:
    for name in results.backbones:
        gain = 100 * (mean(results, name, variant, "accuracy") - mean(results, name, BASE, "accuracy"))
        yield gain, gain >= 0


def every_subject(metric: str) -> Callable[[Results, str], Found]:
    """Rank-biserial correlation: -1 where the metric falls in every subject."""

    def found(results: Results, variant: str) -> Found:
        for name in results.backbones:
            before, after = (values(results.of(name), v, metric) for v in (BASE, variant))
            if before and after:
                effect = -paired(before, after).effect
                yield effect, effect == 1.0

    return found


def architecture(results: Results, variant: str) -> Found:
    for name in results.backbones:
        for metric in ARCHITECTURE:
            before, after = (error(results, name, v, metric) for v in (BASE, variant))
            if before:
                gain = 100 * (1 - after / before)
                yield gain, gain >= 59


def architecture_better(results: Results, variant: str) -> Found:
    return ((gain, gain > 0) for gain, _ in architecture(results, variant))


def subgroups(results: Results, variant: str) -> Found:
    """How far a difference between groups is from the expert's, by how far argmax's is."""
    for covariate in results.study["robustness"]["subgroups"]:
        groups = groups_of(results, covariate)
        levels = sorted(set(groups.values()))
        for name in results.backbones if len(levels) > 1 else ():
            for metric in ("tst_minutes", "rem_latency_minutes", "se_percent", "waso_minutes"):
                deltas = []
                for each in (EXPERT, BASE, variant):
                    of = values(results.of(name), each, metric)
                    sides = [[v for s, v in of.items() if groups.get(s) == level] for level in levels[:2]]
                    deltas.append(fmean(sides[1]) - fmean(sides[0]) if all(sides) else float("nan"))
                before, after = (abs(delta - deltas[0]) for delta in deltas[1:])
                if before:
                    yield after / before, after < before


def populations(results: Results, variant: str) -> Found:
    for covariate in results.study["robustness"]["subgroups"]:
        groups = groups_of(results, covariate)
        for level in sorted(set(groups.values())):
            for name in results.backbones:
                of = [values(results.of(name), v, "accuracy") for v in (BASE, variant)]
                sides = [[v for s, v in each.items() if groups.get(s) == level] for each in of]
                if all(sides):
                    gain = 100 * (fmean(sides[1]) - fmean(sides[0]))
                    yield gain, gain > 0


def penalty_first(results: Results, variant: str) -> Found:
    """Share of the fall in TVR that training with the penalty brings, of all from argmax to the whole."""
    for name in results.backbones if variant == PAPER else ():
        steps = (BASE, PENALTY, "paper, transitions alone", PAPER)
        tvr = [mean(results, name, v, "tvr_percent") for v in steps]
        falls = [before - after for before, after in pairwise(tvr)]
        if sum(falls):
            yield 100 * falls[0] / sum(falls), falls[0] == max(falls)


def minima_fi(results: Results, variant: str) -> Found:
    for name in results.backbones if variant == PAPER else ():
        before = mean(results, name, "paper, no minimum bouts", "fi")
        reduction = 100 * (1 - mean(results, name, PAPER, "fi") / before) if before else float("nan")
        yield reduction, reduction > 0


def flip_flop(results: Results, variant: str) -> Found:
    changed = derived_of(results)["changed"]
    for name in results.backbones if variant == PAPER else ():
        counts = changed.get(name, {}).get("paper, no flip-flop", {}).values()
        if counts:
            share = 100 * fmean(n > 0 for n in counts)
            yield share, share < 5


def rare_recall(results: Results, variant: str) -> Found:
    for name in results.backbones:
        value = 100 * mean(results, name, variant, "rare_recall")
        yield value, value >= 91


def relaxed(results: Results, variant: str) -> Found:
    """TVR with the largest epsilon less that of the published one, percentage points."""
    largest = max(results.study["robustness"]["rare_probabilities"], default=0)
    for name in results.backbones if variant == PAPER and largest else ():
        of = [mean(results, name, v, "tvr_percent") for v in (PAPER, f"paper, epsilon {largest:g}")]
        yield of[1] - of[0], of[1] > of[0]


def minima_scaled(results: Results, variant: str) -> Found:
    """Accuracy of the published minima less the best of scaled ones, percentage points."""
    for name in results.backbones if variant == PAPER else ():
        prefix = "paper, minimum x "
        scaled = [v for v in variants_in(results.of(name)) if v.startswith(prefix) and v != f"{prefix}1"]
        if scaled:
            best = max(mean(results, name, v, "accuracy") for v in scaled)
            lead = 100 * (mean(results, name, PAPER, "accuracy") - best)
            yield lead, lead >= 0


def _varied(results: Results) -> str:
    return str(results.study["robustness"].get("backbone") or results.study["backbones"][0])


def weights(results: Results, variant: str) -> Found:
    """TVR at the smallest lambda less that at the default, percentage points: it should fall."""
    wanted = {
        "backbone": _varied(results),
        "loss": "penalty",
        "seed": results.study["seed"],
        "label_noise": 0.0,
    }
    weight = results.study["guard"]["penalty_weight"]
    found = {r["weight"] for r in results.select(**wanted)}
    if variant == PAPER and len(found) > 1:
        low, usual = (
            fmean(values(results.select(**wanted, weight=w), PENALTY, "tvr_percent").values())
            for w in (min(found), weight)
        )
        yield low - usual, low > usual


def seeds(results: Results, variant: str) -> Found:
    """Standard deviation of accuracy over seeds, percentage points."""
    name, means = _varied(results), []
    for seed in sorted({r["seed"] for r in results.select(backbone=name, label_noise=0.0)}):
        found = values(results.select(backbone=name, seed=seed, label_noise=0.0), variant, "accuracy")
        means += [100 * fmean(found.values())] if found else []
    if len(means) > 1:
        yield stdev(means), stdev(means) < 0.2


def noise(results: Results, variant: str) -> Found:
    """Gain of accuracy at the most label noise less the gain without, percentage points."""
    name, gains = _varied(results), []
    for share in sorted({r["label_noise"] for r in results.select(backbone=name)}):
        records = results.select(backbone=name, label_noise=share, seed=results.study["seed"])
        before, after = (values(records, v, "accuracy") for v in (BASE, variant))
        if before and after:
            gains.append(100 * (fmean(after.values()) - fmean(before.values())))
    if len(gains) > 1:
        yield gains[-1] - gains[0], gains[-1] > gains[0]


def between_networks(results: Results, variant: str) -> Found:
    pairs = derived_of(results)["networks"]
    of = {v: {tuple(p["pair"]): p["kappa"] for p in pairs if p["variant"] == v} for v in (BASE, variant)}
    for pair, before in of[BASE].items():
        after = of[variant].get(pair)
        if before and after:
            gain = fmean(after.values()) - fmean(before.values())
            yield gain, gain > 0


def f1_everywhere(results: Results, variant: str) -> Found:
    for name in results.backbones:
        for stage in results.records[0]["stages"]:
            gain = mean(results, name, variant, f"f1_{stage}") - mean(results, name, BASE, f"f1_{stage}")
            yield gain, gain > 0


def decoder_cost(results: Results, variant: str) -> Found:
    for name in results.backbones:
        costs = [record["costs"] for record in results.of(name)]
        times = [c["decode_seconds"][variant] for c in costs if variant in c["decode_seconds"]]
        if times:
            yield 1000 * fmean(times), 1000 * fmean(times) < 2


def penalty_cost(results: Results, variant: str) -> Found:
    for name in results.backbones if variant == PAPER else ():
        steps = [
            [r["costs"]["training_seconds"] / r["steps"] for r in results.main(name, loss)]
            for loss in ("base", "penalty")
        ]
        if all(steps):
            more = 100 * (fmean(steps[1]) / fmean(steps[0]) - 1)
            yield more, more < 1


CLAIMS = (
    Claim("Table 3", "TVR falls to .1 to .8 %.", "TVR, %", tvr_low, places=2),
    Claim(
        "Table 3",
        "Unconstrained networks are well above the experts' TVR.",
        "TVR of argmax, %",
        tvr_above_experts,
        places=2,
    ),
    Claim("Abstract", "FI falls by 56 to 62 % on every dataset.", "reduction, %", fi_reduction, places=0),
    Claim(
        "Fig. 2a",
        "Bouts match the experts': FI comes closer to theirs.",
        "FI / the expert's",
        fi_of_experts,
        places=2,
    ),
    Claim("Table 3", "Accuracy is kept or improves.", "gain, points", accuracy_kept, places=2),
    Claim("Text", "TVR falls in every subject (r = 1).", "r", every_subject("tvr_percent"), places=2),
    Claim("Text", "FI falls in every subject (r = 1).", "r", every_subject("fi"), places=2),
    Claim(
        "Table 5",
        "Errors of sleep architecture fall by 59 to 79 %.",
        "reduction, %",
        architecture,
        "errors",
        0,
    ),
    Claim("Table 5", "Errors of sleep architecture fall.", "reduction, %", architecture_better, "errors", 0),
    Claim(
        "Table 4",
        "Subgroup differences come closer to the experts'.",
        "distance / argmax's",
        subgroups,
        "differences",
        2,
    ),
    Claim(
        "Table 6",
        "The penalty in training gives the largest fall in TVR.",
        "its share of the fall, %",
        penalty_first,
        places=0,
    ),
    Claim("Table 6", "Minimum bouts lower FI further.", "reduction, %", minima_fi, places=0),
    Claim(
        "Table 7", "The flip-flop changes fewer than 5 % of recordings.", "changed, %", flip_flop, places=0
    ),
    Claim("Table 8", "Relaxed rare pairs raise TVR.", "rise in TVR, points", relaxed, places=2),
    Claim(
        "Table 9",
        "No other scaling of the minimum bouts is more accurate.",
        "lead, points",
        minima_scaled,
        places=2,
    ),
    Claim("Table 10", "Accuracy improves in all subpopulations.", "gain, points", populations, "groups", 2),
    Claim("Table 11", "The gain grows with label noise.", "rise in gain, points", noise, places=2),
    Claim("Table 12", "Networks agree more with each other.", "rise in κ", between_networks, "pairs", 3),
    Claim("Table 13", "TVR falls from λ = .1 to .5.", "fall, points", weights, places=2),
    Claim("Table 13", "91 % of experts' rare transitions are found.", "recall, %", rare_recall, places=0),
    Claim("Table 14", "F1 improves in all classes.", "gain", f1_everywhere, "classes", 3),
    Claim("Appendix A", "Seeds change accuracy by less than .2 points (SD).", "SD, points", seeds, places=2),
    Claim("Text", "Decoding takes less than 2 ms per recording.", "ms", decoder_cost, places=2),
    Claim("Text", "The penalty takes less than 1 % of training.", "added time, %", penalty_cost, places=1),
)

INTRODUCTION = """# The paper's claims, and what our studies found

Written by `studies/claims.py` from the records in `studies/results`.

These studies have limits. The networks are small and were trained briefly (30 to 80 steps of eight
sequences), on a busy machine, which affects the times. `sleep-accel-2` and `sleep-accel` (two and three
stages) and `sleep-edf` use features of real nights. Studies whose names end in `-sim` are SYNTHETIC and no
evidence about sleepers. SHHS, SLEEPBRL and the paper's mice are not included. A claim that fails here is
not refuted for the paper's data, and one that holds here is not confirmed for them.

Each cell has the smallest and the largest value, and the number of networks (or errors, differences, pairs
and so on, as named) for which the claim holds: "1.2 to 3.4; 2 of 6". If a cell is empty, the study does not
vary this.
"""


HEADINGS = {
    PAPER: "The published method\n\nTransitions are counted on the training subjects of each fold.",
    CALIBRATED: "The calibrated guard\n\nFitted on the validation subjects of each fold; the same claims.",
}


def cell(claim: Claim, results: Results, variant: str) -> str:
    """Return the range of what was found, and in how many it holds."""
    found = [(value, holds) for value, holds in claim.found(results, variant) if not isnan(value)]
    if not found:
        return ""
    ends = (round(end(value for value, _ in found), claim.places) + 0.0 for end in (min, max))
    low, high = (f"{end:.{claim.places}f}" for end in ends)
    numbers = low if low == high else f"{low} to {high}"
    return f"{numbers}; {sum(holds for _, holds in found)} of {len(found)}"


def section(variant: str, studies: dict[str, Results]) -> str:
    """Return all claims about one way to guard, a column for each study."""
    rows = [[cell(claim, results, variant) for results in studies.values()] for claim in CLAIMS]
    lines = [["claim", "where", "value; counted", *studies], ["---", "---", "---", *["--:"] * len(studies)]]
    for claim, cells in zip(CLAIMS, rows, strict=True):
        if any(cells):
            lines.append([claim.says, claim.where, f"{claim.shown}; {claim.of}", *cells])
    return f"## {HEADINGS[variant]}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def page(studies: dict[str, Results]) -> str:
    """Return the page of these studies."""
    missing = [name for name in NAMES if name not in studies]
    words = [f"Not run yet: {', '.join(missing)}.\n"] if missing else []
    words += [f"UNFINISHED: {name}, {r.progress} done.\n" for name, r in studies.items() if r.is_unfinished]
    tested = {name: len({row["subject"] for row in r.experts().values()}) for name, r in studies.items()}
    words.append(f"Subjects tested: {', '.join(f'{name} {n}' for name, n in tested.items())}.\n")
    return "\n".join([INTRODUCTION, *words, *(section(variant, studies) for variant in GUARDED)])


def main() -> None:
    found = {name: RESULTS / name for name in NAMES if (RESULTS / name).is_dir()}
    if not found:
        raise SystemExit(
            f"{RESULTS}: holds none of the studies {', '.join(NAMES)}. "
            f"Publish one first: stageguard study report FOLDER --publish {RESULTS / NAMES[0]}"
        )
    PAGE.write_text(page({name: read_results(folder) for name, folder in found.items()}), "utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)} from {len(found)} of {len(NAMES)} studies.")


if __name__ == "__main__":
    main()

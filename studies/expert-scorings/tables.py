"""Turn the counted results into tables for people.

Formatting only: every number comes from ``results.json`` and none is computed or typed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).parent


def markdown(results: dict) -> str:
    """Render the whole of ``results.md``, which the provenance of the profiles names."""
    parts = [
        "# What experts score\n\nWritten by `count.py`, whose docstring states every rule.\n"
        "FI = stage changes / adjacent scored pairs. "
        "Ranges: 5th to 95th percentiles over nights of at least two scored hours.",
        "## Sources\n\n" + sources(results["cohorts"]),
        "## Fragmentation, violations, flips\n\n"
        "TVR counts W->R (5 stages: also W->N3, N1->N3, R->N3, N3->R); for mice W->R and R->N. "
        "The published set {W->R, R->N} stands beside it.\n\n" + indicators(results["cohorts"]),
        "## Where a stage goes when it ends\n\nPercent of exits; in brackets, of nights that show it.\n\n"
        + "\n\n".join(exits(results["cohorts"], scheme) for scheme in ("aasm5", "wnr3")),
        "## Complete bouts: how many are short, and how long they are\n\n" + bouts(results["cohorts"]),
        "## What the fitted profiles take from this\n\n" + profiles(results["profiles"]),
        "## Which minimum bouts experts support\n\n"
        f"Largest minimum, in epochs, that at most {results['rules']['shorter_allowed_percent']:g} % of the "
        "complete bouts of every source, scorer and laboratory fall short of; 1 = none.\n\n"
        + minima(results["profiles"]),
        "## Which rare pairs experts support\n\n"
        f"A pair given {results['rules']['rare_probability']:g} per epoch is supported when every source "
        f"shows that within a factor of {results['rules']['rare_factor']:g}.\n\n" + rare(results["profiles"]),
        "## Do the experts' own nights lie where the profile wants them?\n\n"
        "Cohorts marked * were not used for that profile. The strength rule smooths nights above twice the "
        "target.\n\n" + suitability(results["profiles"]),
        "## Which nights look like expert scoring?\n\n"
        "Experts' nights above the threshold of the joint score. Left out: neither scales nor the "
        "threshold\nhave seen the cohort. Never counted: by the profile as it is. "
        "Beside it, nights that leave at least one single band.\n\n" + joint(results["profiles"]),
        "## Shares of the stages\n\n"
        "Mean ± standard deviation over people, percent of the sleep period; scorers and nights of a person "
        "are\naveraged first.\n\n" + shares(results["shares"]["aasm5"]),
        "## How far two experts are apart\n\n"
        "Ratio of the FI that two of the five DOD-H scorers give one night. "
        "Half to twice the target,\nthe width of the strength rule, is about that.\n\n"
        + between(results["between_scorers"]),
        "## How the cut of Sleep-EDF's long recordings moves its mean FI\n\n" + windows(results["windows"]),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def sources(cohorts: dict) -> str:
    """Who was scored, by whom, by which rules, and whom to cite."""
    header = ["cohort", "title", "people", "rules", "subjects", "nights", "scorers", "cite"]
    keys = ("title", "people", "rules", "n_subjects", "n_nights", "n_scorers_per_night", "citation")
    return table(header, ([name, *(c[key] for key in keys)] for name, c in cohorts.items()))


def spread(figure: dict, digits: int) -> str:
    """Mean and range over nights."""
    if not figure["n"]:
        return "-"
    return f"{figure['mean']:.{digits}f} ({figure['p5']:.{digits}f}-{figure['p95']:.{digits}f})"


def every_source(cohorts: dict) -> Iterable[tuple[str, str, dict]]:
    """(label, scheme, counts) of all cohorts, then their scorers or laboratories."""
    for name, cohort in cohorts.items():
        for scheme in cohort["schemes"]:
            yield name, scheme, cohort["counts"][scheme]
            for group, counts in cohort["groups"].items():
                yield f"{name}, {group}", scheme, counts[scheme]


def indicators(cohorts: dict) -> str:
    """Nightly indicators per source and scheme."""
    header = ["source", "scheme", "scorings", "FI", "changes / h", "TVR %", "published TVR %", "A-B-A / h"]
    columns = (
        ("fragmentation_index", 4),
        ("transitions_per_hour", 1),
        ("tvr_percent", 3),
        ("tvr_paper_percent", 3),
        ("flips_per_hour", 2),
    )
    return table(
        header,
        (
            [label, scheme, counts["nights"]["fragmentation_index"]["n"]]
            + [spread(counts["nights"][key], digits) for key, digits in columns]
            for label, scheme, counts in every_source(cohorts)
        ),
    )


def exits(cohorts: dict, scheme: str) -> str:
    """Exit shares, one row per cohort and stage."""
    rows, names = [], []
    for name, cohort in cohorts.items():
        if scheme not in cohort["schemes"]:
            continue
        counts = cohort["counts"][scheme]
        names = counts["stages"]
        for i, stage in enumerate(names):
            cells = [
                "-" if i == j else f"{share:.2f} [{on_nights:.0f}]"
                for j, (share, on_nights) in enumerate(
                    zip(counts["exits_percent"][i], counts["nights_with_percent"][i], strict=True)
                )
            ]
            rows.append([name, stage, *cells, f"{counts['transitions'][i][i]:.4f}"])
    return f"{scheme}\n\n" + table(["cohort", "from", *(f"to {s}" for s in names), "stays, per epoch"], rows)


def bouts(cohorts: dict) -> str:
    """Single-epoch shares and mean lengths of complete bouts."""
    rows = []
    for label, scheme, counts in every_source(cohorts):
        for i, stage in enumerate(counts["stages"]):
            rows.append(
                [
                    label,
                    scheme,
                    stage,
                    f"{counts['n_complete_bouts'][i]:.0f}",
                    f"{counts['shorter_percent']['2'][i]:.1f}",
                    f"{counts['shorter_percent']['3'][i]:.1f}",
                    spread(counts["nights"][f"mean_bout_minutes_{stage}"], 2),
                ]
            )
    header = ["source", "scheme", "stage", "complete bouts", "1 epoch %", "1 or 2 epochs %", "mean minutes"]
    return table(header, rows)


def profiles(numbers: dict) -> str:
    """Target FI and its sources."""
    return table(
        ["profile", "scheme", "mean FI per source", "target FI", "FI band"],
        (
            [
                name,
                p["scheme"],
                ", ".join(f"{source} {mean:.4f}" for source, mean in p["fi_means"].items()),
                f"{p['fi_target']:.4f}",
                "{:.4f}-{:.4f}".format(*p["bands"]["fragmentation_index"]),
            ]
            for name, p in numbers.items()
        ),
    )


def minima(numbers: dict) -> str:
    """Supported minima, in epochs and seconds."""
    return table(
        ["profile", "sources", "supported minimum"],
        (
            [
                name,
                ", ".join(p["sources"]),
                ", ".join(
                    f"{stage} {minimum} ({minimum * p['epoch_seconds']:g} s)"
                    for stage, minimum in p["supported_minimum_epochs"].items()
                ),
            ]
            for name, p in numbers.items()
        ),
    )


def rare(numbers: dict) -> str:
    """Probability and exit share of each published rare pair."""
    rows = []
    for name, p in numbers.items():
        for pair, entry in p["rare"].items():
            low, high = entry["probability_per_epoch"]
            first, last = entry["percent_of_exits"]
            verdict = "yes" if entry["supported"] else "no"
            rows.append([name, pair, f"{low:.5f}-{high:.5f}", f"{first:.2f}-{last:.2f}", verdict])
    return table(["profile", "pair", "probability per epoch", "percent of exits", "supported"], rows)


def suitability(numbers: dict) -> str:
    """Share of expert nights in the FI band and around the target."""
    rows = []
    for name, p in numbers.items():
        for source, fit in p["fit"].items():
            mark = "" if source in p["sources"] else " *"
            keys = ("in_band_percent", "below_half_target_percent", "above_twice_target_percent")
            rows.append([name, source + mark, *(f"{fit[key]:.0f}" for key in keys)])
    return table(["profile", "cohort", "in FI band %", "below half target %", "above twice target %"], rows)


def joint(numbers: dict) -> str:
    """Threshold of the joint score, and whose expert nights it flags."""
    rows = []
    for name, p in numbers.items():
        own = p["joint"]
        flagged = {
            "left out": own["flagged_if_left_out_percent"],
            "never counted": own["flagged_never_counted_percent"],
        }
        for how, percents in flagged.items():
            for cohort, percent in percents.items():
                outside = own["outside_a_band_percent"][cohort]
                threshold = f"{own['threshold']:.2f}"
                rows.append([name, threshold, cohort, how, f"{percent:.0f}", f"{outside:.0f}"])
    header = ["profile", "threshold", "cohort", "cohort was", "above threshold %", "outside a band %"]
    return table(header, rows)


def shares(cohorts: dict) -> str:
    """Shares of five stages, per cohort."""
    names = next(iter(cohorts.values()))["mean_and_sd"]
    rows = [
        [
            cohort,
            own["n_people"],
            *(f"{100 * mean:.1f} ± {100 * sd:.1f}" for mean, sd in own["mean_and_sd"].values()),
        ]
        for cohort, own in cohorts.items()
    ]
    return table(["cohort", "people", *names], rows)


def between(ratios: dict) -> str:
    """Spread of FI between two scorers."""
    header = ["scheme", "pairs of scorings", "median ratio", "90th percentile"]
    rows = ([s, r["n_pairs"], f"{r['median']:.2f}", f"{r['p90']:.2f}"] for s, r in ratios.items())
    return table(header, rows)


def windows(cuts: dict) -> str:
    """Mean FI for each cut."""
    header = ["cut", "aasm5", "wnr3", "ws2"]
    return table(header, ([cut, *(f"{fi:.4f}" for fi in means.values())] for cut, means in cuts.items()))


def main() -> None:
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    (HERE / "results.md").write_text(markdown(results), encoding="utf-8")


if __name__ == "__main__":
    main()

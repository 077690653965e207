"""Lay results.json out as tables, and as the table in docs/review.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
BUDGETS = (0, 10, 20, 40)
# Stagers whose nights were looked at while the method was chosen.
CHOSEN_ON = ("Sleep-EDF, EEG boosting", "DOD-H, labels of DeepSleepNet")
TITLES = {
    "tst_minutes": "TST",
    "sol_minutes": "SOL",
    "waso_minutes": "WASO",
    "rem_latency_minutes": "REM latency",
}
ORDERS = {"value": "by value", "queue": "the queue", "confidence": "lowest confidence", "chance": "at random"}
Night = Mapping


def units() -> dict[str, float]:
    """Return one expert's error by statistic, the mean of both cohorts."""
    from stageguard.night.stages import AASM5
    from stageguard.review.targets import default_units

    return default_units(AASM5, 30.0)


def combined(nights: Sequence[Night], order: str) -> np.ndarray:
    """Return mean errors over statistics in units of one expert's (n_nights, n_budgets)."""
    unit = units()
    return np.array(
        [
            np.mean([np.array(night["errors"][order]["errors"][key]) / unit[key] for key in unit], axis=0)
            for night in nights
        ]
    )


def of_statistic(nights: Sequence[Night], order: str, key: str) -> np.ndarray:
    """Return errors of one statistic (n_nights, n_budgets)."""
    own = f"value of {key}" if order == "value" else order
    return np.array([night["errors"][own]["errors"][key] for night in nights])


def p_value(one: np.ndarray, other: np.ndarray) -> float:
    """Return the exact two-sided p of Wilcoxon's signed-rank test; ties share ranks, zeros are left out."""
    differences = np.round(one - other, 9)
    differences = differences[differences != 0]
    sizes = np.abs(differences)
    # twice the mean rank, so that ties have whole numbers
    ranks = (sizes[:, None] > sizes).sum(axis=1) + (sizes[:, None] >= sizes).sum(axis=1) + 1
    n_ways = np.ones(1)  # of every sum of ranks, over all signs
    for rank in ranks:
        n_ways = np.pad(n_ways, (0, rank)) + np.pad(n_ways, (rank, 0))
    far = np.abs(np.arange(len(n_ways)) - ranks.sum() / 2)
    own = abs(ranks[differences > 0].sum() - ranks.sum() / 2)
    return float(n_ways[far >= own - 1e-9].sum() / n_ways.sum())


def compared(found: Mapping[str, np.ndarray], decimals: int) -> dict[str, str]:
    """Return a cell per order: errors after each budget, with p of the value's order against it."""
    cells = {}
    for order, errors in found.items():
        means = [f"{value:.{decimals}f}" for value in errors.mean(axis=0)[1:]]
        if order != "value":
            for place in range(1, len(BUDGETS)):
                p = p_value(found["value"][:, place], errors[:, place])
                better = found["value"][:, place].mean() < errors[:, place].mean()
                means[place - 1] += ("" if better else " ✗") + ("*" if p < 0.05 else "")
        cells[order] = " / ".join(means)
    return cells


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def error_table(results: Mapping[str, Sequence[Night]]) -> str:
    """One row per stager and target: errors after 0, then after 10, 20 and 40 looks by each order."""
    rows = []
    for stager, nights in results.items():
        found = {order: combined(nights, order) for order in ORDERS}
        rows.append(_error_row(stager, nights, "all, in units", found, 2))
        for key, title in TITLES.items():
            found = {order: of_statistic(nights, order, key) for order in ORDERS}
            rows.append(_error_row("", nights, f"{title}, min", found, 1))
    return table(["stager (nights)", "target", "0", *ORDERS.values()], rows)


def _error_row(
    stager: str, nights: Sequence[Night], target: str, found: Mapping[str, np.ndarray], decimals: int
) -> list[str]:
    name = f"{stager} ({len(nights)})" if stager else ""
    before = f"{found['value'][:, 0].mean():.{decimals}f}"
    return [name, target, before, *compared(found, decimals).values()]


def effort_table(results: Mapping[str, Sequence[Night]]) -> str:
    """Epochs seen and keys pressed after 10, 20 and 40 looks, by order."""
    rows = []
    for stager, nights in results.items():
        for what in ("epochs", "keys"):
            cells = []
            for order in ORDERS:
                means = np.mean([night["errors"][order][what] for night in nights], axis=0)[1:]
                cells.append(" / ".join(f"{mean:.0f}" for mean in means))
            rows.append([f"{stager}, {what}", *cells])
    return table(["stager", *ORDERS.values()], rows)


KAPPAS = {
    "nothing": "nothing seen",
    "value": "by value",
    "queue": "the queue",
    "confidence": "lowest confidence",
}
KAPPAS |= {"epochs by confidence": "single epochs, lowest confidence"}


def kappa_table(results: Mapping[str, Sequence[Night]]) -> str:
    rows = []
    for stager, nights in results.items():
        means = [np.mean([night["kappa"][order] for night in nights]) for order in KAPPAS]
        rows.append([stager, *(f"{mean:.3f}".removeprefix("0") for mean in means)])
    return table(["κ after 80 epochs", *KAPPAS.values()], rows)


def stop_table(results: Mapping[str, Sequence[Night]]) -> str:
    """How many nights stop within 40 looks, after how many, and on how many the promise holds."""
    rows = []
    for stager, nights in results.items():
        for target in nights[0]["stops"]:
            promised = [night for night in nights if not night.get("withheld")]
            stops = [night["stops"][target] for night in promised]
            stopped = [stop for stop in stops if stop is not None]
            held = sum(all(stop["holds"].values()) for stop in stopped)
            looks = np.median([stop["looks"] for stop in stopped]) if stopped else float("nan")
            keys = np.median([stop["keys"] for stop in stopped]) if stopped else float("nan")
            share = f"{held} of {len(stopped)}" if stopped else "–"
            cells = [f"{len(stopped)} of {len(promised)}"]
            cells += [f"{looks:.0f}", f"{keys:.0f}"] if stopped else ["–", "–"]
            rows.append([stager, _target_words(target), *cells, share])
    return table(["stager", "targets", "stopped within 40", "looks, median", "keys, median", "held"], rows)


def _target_words(target: str) -> str:
    return "tst=20,sol=10,waso=20,rem_latency=15" if target == "together" else target


def coverage_table(results: Mapping[str, Sequence[Night]]) -> str:
    rows = []
    for stager, nights in results.items():
        for key, title in TITLES.items():
            shares = np.mean([night["covered"][key] for night in nights], axis=0)
            widths = np.median([night["widths"][key] for night in nights], axis=0)
            cells = [f"{share:.2f} ({width:.0f})" for share, width in zip(shares, widths, strict=True)]
            rows.append([f"{stager}, {title}", *cells])
    head = ["90 % intervals: share that holds the truth (median width, min)"]
    return table([*head, *(f"{n} looks" for n in BUDGETS)], rows)


def promises(nights: Sequence[Night]) -> tuple[int, int]:
    """Return how many reviews with targets held what they promised, of those that stopped."""
    stops = [stop for night in nights if not night["withheld"] for stop in night["stops"].values()]
    stopped = [stop for stop in stops if stop is not None]
    return sum(all(stop["holds"].values()) for stop in stopped), len(stopped)


def goals(results: Mapping[str, Sequence[Night]]) -> list[str]:
    """Return the goals with what was found, on stagers that had no part in a choice."""
    judged = {stager: nights for stager, nights in results.items() if stager not in CHOSEN_ON}
    lines = []
    for other in ("queue", "confidence"):
        n_better = n_sure = n_all = 0
        missed = []
        for stager, nights in judged.items():
            pairs = {"all": (combined(nights, "value"), combined(nights, other))}
            for key, title in TITLES.items():
                pairs[title] = of_statistic(nights, "value", key), of_statistic(nights, other, key)
            for target, (own, its) in pairs.items():
                for place, budget in list(enumerate(BUDGETS))[1:]:
                    n_all += 1
                    is_better = own[:, place].mean() < its[:, place].mean()
                    n_better += is_better
                    n_sure += is_better and p_value(own[:, place], its[:, place]) < 0.05
                    if not is_better:
                        missed.append(f"{target} after {budget} ({stager})")
        words = f"; not: {', '.join(missed)}" if missed else ""
        against = ORDERS[other]
        lines.append(
            f"Smaller mean error than {against}: {n_better} of {n_all} comparisons, {n_sure} of them with "
            f"p < .05{words}."
        )
    for stager, nights in judged.items():
        own, best = (
            np.mean([night["kappa"][order] for night in nights])
            for order in ("value", "epochs by confidence")
        )
        verdict = "reached" if own >= best else "missed"
        lines.append(f"κ after 80 epochs, {stager}: {own:.3f} against {best:.3f}, {verdict}.")
    for stager, nights in judged.items():
        held, n_stops = promises(nights)
        if n_stops:
            verdict = "reached" if held / n_stops >= 0.9 else "missed"
            share = f"{held} of {n_stops} stops ({held / n_stops:.0%})"
            lines.append(f"The promise holds, {stager}: {share}, {verdict}.")
    return lines


def docs_table(results: Mapping[str, Sequence[Night]]) -> str:
    """Return the short table of docs/review.md: errors in units of one expert's."""
    rows = []
    for stager, nights in results.items():
        cells = []
        for order in ("value", "queue", "confidence"):
            means = combined(nights, order).mean(axis=0)[1:]
            cells.append(" / ".join(f"{mean:.2f}" for mean in means))
        before = combined(nights, "value").mean(axis=0)[0]
        name = f"{stager} ({len(nights)} nights){' †' if stager in CHOSEN_ON else ''}"
        held, n_stops = promises(nights)
        rows.append([name, f"{before:.2f}", *cells, f"{held} of {n_stops}"])
    return table(["stager", "no look", "by value", "queue", "lowest confidence", "promise held"], rows)


def text(results: Mapping[str, Sequence[Night]]) -> str:
    """Return the page."""
    parts = [
        "# Review to a target",
        "Written by `tables.py`. Real nights, answered as the experts scored them. Form and constants of the "
        f"value were chosen while looking at nights of {' and of '.join(CHOSEN_ON)}, in several rounds (see "
        "README.md): their rows flatter it. Goals are judged on the others, which nobody looked at before; "
        "but DOD-H has the same people and experts under each of its stagers. "
        "Errors are means over nights after 10 / 20 / 40 looks. \\*: differs from the "
        "order by value with p < .05 (Wilcoxon, paired over nights, not corrected for the number of "
        "comparisons); ✗: smaller than by value.",
        "## Goals, set before the study",
        "\n".join(f"- {line}" for line in goals(results)),
        "## Errors",
        "All: mean over nine statistics (TST, SOL, REM latency, WASO, awakenings, minutes of N1, N2, N3, R) "
        "in units of one expert's error. Single targets: looks are ordered by the value for that statistic "
        "alone.",
        error_table(results),
        "## Epochs and keys",
        "An Enter where the stretch is right; else the way to each wrong run, `b` and moves to select it, "
        "its stage, and one key to go on.",
        effort_table(results),
        "## κ",
        kappa_table(results),
        "## Stops",
        "Reviews of one night under several targets are counted each. "
        "Nights of which no width is promised (`why_withheld`) are left out. Held: all numbers with a target "
        "were within it of the expert's.",
        stop_table(results),
        "## Intervals",
        "In reviews with four targets, whether they had stopped or not.",
        coverage_table(results),
    ]
    return "\n\n".join(parts) + "\n"


DOCS = HERE.parents[1] / "docs" / "review.md"
IN_DOCS = re.compile(r"(?<=<!-- from studies/review-targets -->\n\n)(\|.*\n)+")


if __name__ == "__main__":
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text(text(results), encoding="utf-8")
    page = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(IN_DOCS.sub(f"{docs_table(results)}\n", page), encoding="utf-8")

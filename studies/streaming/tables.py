"""Lay results.json and lags.json out as tables, and the summary into docs/stream.md.

python tables.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from choose import CHOSEN
from lags import LAGS, SAME, WAITS
from lags import RESULTS as BY_LAG
from stagers_at_hand import HERE, layout, read
from weights import RULE

BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
PAGE = HERE.parents[1] / "docs" / "stream.md"
GROUPS = {
    "good": "good",
    "flickering": "flickering",
    "neither": "other steady",
}
SHOWN = {
    "tst_minutes": "TST",
    "se_percent": "SE",
    "sol_minutes": "SOL",
    "rem_latency_minutes": "REM latency",
    "waso_minutes": "WASO",
    "awakenings": "awakenings",
    "bouts": "bouts",
}
OF_MICE = {f"{what}_{stage}": f"{what} {stage}" for what in ("minutes", "bouts") for stage in "WNR"}
AS_WHAT = ("unknown", "flickering")


def group_of(task: Mapping) -> str:
    return next(name for name in GROUPS if layout.GROUPS[name](task))


def kappa(tasks: Sequence[Mapping], method: str) -> str:
    gains = [layout.paired(task, method, "kappa").mean() for task in tasks]
    return signed(float(np.mean(gains)))


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".").replace("-.000", "+.000")


def plain(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2f}".removeprefix("0")


def errors(tasks: Sequence[Mapping], method: str) -> str:
    ratios = [layout.error_ratio(task, method) for task in tasks]
    worst = f" ({plain(max(ratios))})" if len(ratios) > 1 else ""
    return f"{plain(layout.geometric(ratios))}{worst}"


def groups(held: Mapping) -> Iterator[tuple[str, str, str, list[Mapping]]]:
    """Yield profile, group, what the stager counts as, and the stagers."""
    for base in sorted({task["base"] for task in held.values()}):
        for group in GROUPS:
            tasks = [t for t in held.values() if t["base"] == base and group_of(t) == group]
            for known in AS_WHAT:
                own = [task for task in tasks if layout.has_method(task, f"{known}, {next(iter(LAGS))}")]
                if own:
                    yield base, group, known, own


def by_lag(held: Mapping, chosen: Mapping, lags: Sequence[str] = tuple(LAGS)) -> str:
    """Return kappa and errors against argmax's, by lag."""
    lines = [
        f"| profile | stagers | taken as (weight) | `decode` | {' | '.join(lags)} |",
        f"|{'---|' * (4 + len(lags))}",
    ]
    for base, group, known, tasks in groups(held):
        key = "transition_weight" if known == "unknown" else "flickering"
        cells = [
            f"{kappa(tasks, method)}, {errors(tasks, method)}"
            for method in (RULE, *(f"{known}, {lag}" for lag in lags))
        ]
        name = f"`{base}` | {GROUPS[group]}: {len(tasks)} | {known} ({chosen[base][key]:g})"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def by_statistic(held: Mapping, lag: str = "2 min") -> str:
    """Return each statistic's error over argmax's and over that of decode, at one lag."""
    lines = []
    for statistics, is_right in ((SHOWN, layout.is_human), (OF_MICE, lambda task: not layout.is_human(task))):
        head = " | ".join(statistics.values())
        lines += [f"| profile | stagers | taken as | {head} |", f"|{'---|' * (3 + len(statistics))}"]
        for base, group, known, tasks in groups(held):
            if is_right(tasks[0]):
                cells = [ratios(tasks, f"{known}, {lag}", name) for name in statistics]
                lines.append(f"| `{base}` | {GROUPS[group]} | {known} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def ratios(tasks: Sequence[Mapping], method: str, name: str) -> str:
    """Return an error over argmax's, and over that of decode for the whole night."""
    found = [layout.ratio(task, method, name) for task in tasks]
    rule = [layout.ratio(task, RULE, name) for task in tasks]
    over = [a / b for a, b in zip(found, rule, strict=True) if b > 0]
    return f"{plain(layout.geometric(found))} / {plain(layout.geometric(over))}"


def by_stager(held: Mapping) -> str:
    """Return every stager by lag, with the wait and the share of epochs as in decode."""
    lines = [
        f"| stager | κ of argmax | taken as | `decode` | {' | '.join(LAGS)} | mean wait, min | as `decode` |",
        f"|{'---|' * (6 + len(LAGS))}",
    ]
    for name, task in sorted(held.items(), key=lambda item: (item[1]["base"], item[0])):
        for known in AS_WHAT:
            if not layout.has_method(task, f"{known}, no limit"):
                continue
            methods = (RULE, *(f"{known}, {lag}" for lag in LAGS))
            cells = [f"{kappa([task], method)}, {errors([task], method)}" for method in methods]
            last = methods[-1]
            more = f"{layout.mean(task, last, WAITS):.2f} | {plain(layout.mean(task, last, SAME))}"
            own = plain(layout.mean(task, "argmax", "kappa"))
            lines.append(f"| {name} | {own} | {known} | {' | '.join(cells)} | {more} |")
    return "\n".join(lines) + "\n"


def left_out(chosen: Mapping) -> str:
    """Return what other cohorts, and other stagers, choose, and what it does on the one left out."""
    head = "| profile | left out | unknown | flickering | errors of steady (worst) | of flickering |"
    lines = [head, "|---|---|---|---|---|---|"]
    for base, found in chosen.items():
        for row in (*found["without_cohort"], *found["without_stager"]):
            steady = row.get("errors_steady")
            shown = "" if steady is None else f"{plain(steady)} ({plain(row['worst_steady'])})"
            flickers = row.get("errors_flickering")
            flickering = "–" if row["flickering"] is None else f"{row['flickering']:g}"
            lines.append(
                f"| `{base}` | {row['left_out']} | {row['unknown']:g} | {flickering} | {shown} | "
                f"{'' if flickers is None else plain(flickers)} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    held, chosen = read(BY_LAG), json.loads(CHOSEN.read_text("utf-8"))
    text = "\n".join(
        [
            "# Streams, by lag\n",
            "Written by `tables.py`. κ is that of the stream less that of argmax, mean over stagers; errors "
            "are mean absolute errors over argmax's, mean over the statistics and geometric mean over "
            "stagers, the worst stager in brackets. Below 1 is better than argmax. A good stager is one of "
            "people that does not flicker, with κ of .6 or more.\n",
            by_lag(held, chosen),
            "## By statistic, at a lag of 2 minutes\n",
            "Error over argmax's / over that of `decode` for the whole night.\n",
            by_statistic(held),
            "## Every stager\n",
            by_stager(held),
            "## Weights that others chose\n",
            "Errors at the weights that were chosen without this cohort, or this stager: steady stagers as "
            "unknown ones, flickering stagers as such.\n",
            left_out(chosen),
        ]
    )
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text(text, "utf-8")
    begin, end = "<!-- by lag -->\n", "<!-- end of by lag -->"
    before, rest = PAGE.read_text("utf-8").split(begin, 1)
    made = by_lag(held, chosen, ("30 s", "2 min", "no limit"))
    PAGE.write_text(f"{before}{begin}{made}{end}{rest.split(end, 1)[1]}", "utf-8")


if __name__ == "__main__":
    main()

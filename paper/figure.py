"""Draw the figure of the paper from the results of the study on real nights.

python paper/figure.py     writes paper/figure.png; needs the extra `plots`
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

HERE = Path(__file__).parent
STUDY = HERE.parent / "studies" / "guard-on-real-data"
GROUPS = ("good", "flickering", "neither")
METHODS = {
    "paper": ("published rules", "#b5443c", "s"),
    "clock + target": ("built-in profile", "#c08a3e", "o"),
    "fit": ("fitted profile", "#1d7a4d", "^"),
}


def ratios() -> dict[str, dict[str, list[float]]]:
    """Return the error of each task over argmax's, by group of stagers and method."""
    sys.path.insert(0, str(STUDY))
    try:
        from kept import read
        from layout import error_ratio, is_added, of_group
    finally:
        sys.path.remove(str(STUDY))
    tasks = read(STUDY / "results.json")
    held = {name: task for name, task in tasks.items() if not is_added(task)}
    return {
        group: {
            method: [error_ratio(task, method) for task in of_group(held, group, method).values()]
            for method in METHODS
        }
        for group in GROUPS
    }


def digest() -> str:
    """Return what tells these results from others, so that a test can see an old figure."""
    return sha256((STUDY / "results.parquet").read_bytes()).hexdigest()


def main() -> None:
    """Draw a row for each method, a point for each task."""
    mpl.rcParams.update({"font.size": 9})
    figure = Figure(figsize=(6.3, 3.0), layout="constrained")
    axes = figure.add_subplot()
    every = ratios()
    ticks = {}
    for place, (group, methods) in enumerate(every.items()):
        for row, (method, values) in enumerate(methods.items()):
            height = -4 * place - row
            label, colour, marker = METHODS[method]
            label = label if place == 0 else "_"
            axes.plot(
                values, [height] * len(values), marker, ms=5, mew=0, alpha=0.55, color=colour, label=label
            )
            axes.plot([sum(values) / len(values)] * 2, [height - 0.36, height + 0.36], color=colour, lw=2)
        ticks[-4 * place - 1] = f"{group} ({len(next(iter(methods.values())))} tasks)"
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("error / error of the likeliest stages; bars are means")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=8
    )
    figure.savefig(HERE / "figure.png", dpi=200, metadata={"Software": None, "Source": digest()})


if __name__ == "__main__":
    main()

"""Colours, marks and the empty figure that all figures of a study share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stageguard.base.extras import library
from stageguard.study.names import BASE, CALIBRATED, EXPERT, PAPER, PENALTY, RELEASED
from stageguard.study.store import Results

# Okabe and Ito's palette; each variant also has its own mark.
COLOURS = {
    EXPERT: "#000000",
    BASE: "#E69F00",
    PAPER: "#0072B2",
    RELEASED: "#56B4E9",
    CALIBRATED: "#009E73",
    PENALTY: "#CC79A7",
}
MARKS = {EXPERT: "o", BASE: "s", PAPER: "^", RELEASED: "<", CALIBRATED: "D", PENALTY: "v"}


def new_figure(
    results: Results,
    n_rows: int,
    n_columns: int,
    size: tuple[float, float],
    *,
    of: str | None = None,
    widths: Sequence[float] | None = None,
) -> tuple[Any, Any]:
    """Return a figure and its axes, titled by the study and, with `of`, the network."""
    library("matplotlib", "figures of a study", "study")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", dpi=150)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, width_ratios=widths)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    network = "" if of is None else f", {of}"
    synthetic = " (SYNTHETIC)" if results.is_synthetic else ""
    figure.suptitle(f"{results.study['title']}{network}{synthetic}", fontsize=10)
    return figure, axes

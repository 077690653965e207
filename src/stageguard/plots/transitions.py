"""`plot_transitions`: the matrix of transition probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from stageguard.base.arrays import Floats, Ints
from stageguard.base.errors import InputError
from stageguard.measures.bouts import ScoredNight, cuts_of, hypnogram_of, pair_counts
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.plots.axes import COLUMN_WIDTH, axes_for
from stageguard.plots.scorings import as_nights
from stageguard.profile.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST = 24  # total letters of the stages' names; beyond, names are vertical
DARK = 0.3  # probability above which a number is white on its dark colour


def plot_transitions(
    nights: ScoredNight | Sequence[ScoredNight] | Profile, *, ax: Axes | None = None
) -> Axes:
    """Draw the probability of each stage in the epoch that follows each stage.

    Parameters
    ----------
    nights : Hypnogram or Decoding, a list of them, or Profile
        Pairs of adjacent scored epochs are counted; those of a list are pooled. For a decoding, its decoded
        stages are counted. The transitions of a profile are drawn as they are.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A row per stage, a column per following stage; a stage that does not occur has dashes.
    """
    if isinstance(nights, Profile):
        scheme, matrix = nights.scheme, np.array(nights.transitions)
    else:
        scheme, matrix = _counted(as_nights(nights))
    size = max(COLUMN_WIDTH * 0.8, 0.42 * scheme.n_stages)
    ax = axes_for(ax, size, size)
    draw_matrix(ax, matrix, scheme.names)
    ax.set(xlabel="To", ylabel="From")
    return ax


def _counted(nights: Sequence[ScoredNight]) -> tuple[StageScheme, Floats]:
    """Return the transition probabilities of all nights together."""
    scorings = [hypnogram_of(night) for night in nights]
    scheme, seconds = scorings[0].scheme, scorings[0].epoch_seconds
    counts = np.zeros((scheme.n_stages, scheme.n_stages))
    for number, (night, scoring) in enumerate(zip(nights, scorings, strict=True), start=1):
        if scoring.scheme != scheme or scoring.epoch_seconds != seconds:
            raise InputError(
                f"night {number} has the stages {', '.join(scoring.scheme.names)} and epochs of "
                f"{scoring.epoch_seconds:g} s, the first has {', '.join(scheme.names)} and {seconds:g} s, "
                "expected the same. Use sg.merge_stages or sg.reepoch."
            )
        labels = np.insert(scoring.labels, list(cuts_of(night)), UNSCORED)
        counts += pair_counts(labels, scheme.n_stages)
    return scheme, transition_shares(counts)


def transition_shares(counts: Floats | Ints) -> Floats:
    """Return the rows of counts as shares; NaN for a stage without pairs."""
    totals = counts.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)
    return shares


def draw_matrix(ax: Axes, matrix: Floats, names: Sequence[str]) -> None:
    """Draw transition probabilities as numbers on shades of blue, by the square root to show small ones."""
    ax.imshow(np.sqrt(np.nan_to_num(matrix)), cmap="Blues", vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(matrix):
        text = "–" if np.isnan(value) else f"{value:.3f}".lstrip("0") if value < 1 else "1"
        colour = "white" if value > DARK else "black"
        ax.text(column, row, text or "0", ha="center", va="center", fontsize="small", color=colour)
    is_long = max(map(len, names)) * len(names) > WIDEST
    ax.set_xticks(range(len(names)), names, rotation=90 if is_long else 0)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)

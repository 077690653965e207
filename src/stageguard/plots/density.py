"""`plot_density`: the probabilities of all stages over the night, stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.plots.axes import FULL_WIDTH, GAP, TimeAxis, axes_for, columns_of, steps, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_density(night: Hypnodensity | Decoding, *, ax: Axes | None = None) -> Axes:
    """Draw the probabilities of all stages over a night, wake at the top and deep sleep at the bottom.

    Epochs without evidence are grey. If there are more epochs than a page can show, the mean over columns of
    epochs is drawn; the label of the axis states the length of a column.

    Parameters
    ----------
    night : Hypnodensity or Decoding
        Probabilities, such as those of a stager or a `Posterior`; for a decoding, those that were decoded.
    ax : matplotlib.axes.Axes, optional
        Where to draw. Default: a new figure.
    """
    density = night.density if isinstance(night, Decoding) else night
    if not isinstance(density, Hypnodensity):
        raise InputError(
            f"the night is {checks.shown(night)}, expected a Hypnodensity or a Decoding. A hypnogram has no "
            "probabilities: draw it with sg.plot_hypnogram."
        )
    columns = columns_of(density.n_epochs)
    has_evidence = ~np.isnan(density.probabilities[:, 0])
    known = columns.shares(has_evidence)
    sums = columns.shares(np.where(has_evidence[:, None], density.probabilities, 0.0))
    means = np.divide(sums, known[:, None], out=np.full(sums.shape, np.nan), where=known[:, None] > 0)
    scheme, order = density.scheme, top_down(density.scheme)[::-1]
    tops = np.minimum(np.cumsum(means[:, order], axis=1), 1.0)
    time = TimeAxis([density])
    edges = time.edges(0, density, columns)
    ax = tidy(axes_for(ax, FULL_WIDTH, max(1.6, 0.4 + 0.19 * scheme.n_stages)))
    time.draw(ax, columns.width * density.epoch_seconds if columns.width > 1 else 0.0)
    floor = np.where(known > 0, 0.0, np.nan)
    # reversed below, so that the legend has the order of the picture
    patches = []
    for rank, stage in enumerate(order):
        colour = stage_shade(scheme, stage).light
        patches.append(steps(ax, tops[:, rank], edges, baseline=floor, fill=True, color=colour, lw=0,
                                 label=scheme.names[stage]))  # fmt: skip
        floor = tops[:, rank]
    patches.reverse()
    if not has_evidence.all():
        gaps = np.where(known < 1, 1.0, np.nan)
        gap = steps(ax, gaps, edges, baseline=known * 0.0, fill=True, color=GAP, lw=0, label="no evidence",
                        zorder=0.5)  # fmt: skip
        patches.append(gap)
    ax.set(ylim=(0.0, 1.0), ylabel="Probability")
    ax.legend(handles=patches, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
    return ax

"""Count the experts' range of every validity indicator over many scorings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.measures.bouts import hypnogram_of
from stageguard.measures.validity import SHORTEST_NIGHT_HOURS, validity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import indicators_of
from stageguard.profile.parts import Band
from stageguard.profile.profile import Profile, as_profile

FEWEST_SCORINGS = 10  # our choice: the 5th percentile of fewer is the smallest of them
PERCENTILES = (5.0, 95.0)
_DIGITS = 4  # of the ends of a band


def expert_bands(
    experts: Sequence[Hypnogram | Sequence[Hypnogram]],
    profile: Profile | str,
    *,
    percentiles: tuple[float, float] = PERCENTILES,
) -> Mapping[str, Band]:
    """Count the band of every validity indicator over expert scorings.

    Every scoring counts by itself, so that the bands include the spread between scorers as well as between
    nights.

    Parameters
    ----------
    experts : sequence of Hypnogram, or of sequences of Hypnogram
        Scored nights; of a night that several experts scored, all of their scorings.
    profile : Profile or str
        Gives the stages, into which finer ones are merged, and the uncommon transitions that TVR counts.
    percentiles : tuple of float
        Lower and upper end of the bands.

    Returns
    -------
    mapping of str to Band
        Bands by the names of the indicators of `sg.validity`. An indicator that fewer than ten scorings
        have, or that is the same in all of them, has no band.

    Examples
    --------
    >>> import stageguard as sg
    >>> experts = [sg.simulate_night("human-psg-5", seed=seed).expert for seed in range(10)]
    >>> band = sg.expert_bands(experts, "human-psg-5")["fragmentation_index"]
    >>> 0 < band.low < band.high
    True
    """
    profile = as_profile(profile)
    low, high = _check_percentiles(percentiles)
    panels = _panels(experts)
    scorings = [scoring for panel in panels for scoring in panel]
    if not scorings:
        raise InputError("no scoring is given, expected hypnograms of expert-scored nights.")
    # a change per epoch is another number at another epoch length
    lengths = sorted({scoring.epoch_seconds for scoring in scorings})
    if len(lengths) > 1:
        raise InputError(
            f"epochs last {' s and '.join(f'{s:g}' for s in lengths)} s, expected one epoch length. "
            "Count the bands of each by itself."
        )
    shortest = 3600.0 * SHORTEST_NIGHT_HOURS
    # short scorings vary too much and would widen every band
    measured = [
        validity(scoring, profile).indicators
        for scoring in scorings
        if np.count_nonzero(scoring.labels != UNSCORED) * scoring.epoch_seconds >= shortest
    ]
    counted = f"{len(scorings)} expert nights"
    if len(scorings) != len(panels):
        counted = f"{len(scorings)} expert scorings of {len(panels)} nights"
    bands = {}
    for name, quantity in indicators_of(profile.scheme.names).items():
        values = [indicators[name].value for indicators in measured]
        existing = [value for value in values if not np.isnan(value)]
        if len(existing) >= FEWEST_SCORINGS:
            ends = [float(f"{value:.{_DIGITS}g}") for value in np.percentile(existing, (low, high))]
            # a band without width would call every other night unusual
            if ends[0] < ends[1]:
                source = f"{low:g}th to {high:g}th percentile over {counted}"
                bands[name] = Band(ends[0], ends[1], source, quantity.unit)
    return bands


def _panels(hypnograms: Any) -> list[list[Hypnogram]]:
    """Return the scorings of each night."""
    if isinstance(hypnograms, Hypnogram) or not checks.has_items(hypnograms):
        got = "one hypnogram" if isinstance(hypnograms, Hypnogram) else checks.shown(hypnograms)
        raise InputError(f"got {got}, expected a list of expert-scored nights.")
    panels = []
    for number, panel in enumerate(hypnograms):
        several = checks.has_items(panel) and not isinstance(panel, Hypnogram)
        try:
            panels.append([hypnogram_of(scoring) for scoring in (panel if several else [panel])])
        except InputError as error:
            raise InputError(f"night {number}: {error}") from None
    return panels


def _check_percentiles(percentiles: object) -> tuple[float, float]:
    if not isinstance(percentiles, list | tuple) or len(percentiles) != 2:
        raise InputError(f"percentiles is {checks.shown(percentiles)}, expected two numbers such as (5, 95).")
    low, high = (checks.number(value, "percentiles", low=0.0, high=100.0) for value in percentiles)
    if low >= high:
        raise InputError(f"percentiles are {low:g} and {high:g}, expected the lower one first.")
    return low, high

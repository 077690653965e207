"""Whether a hypnogram looks like expert scoring: validity indicators against two-sided expert bands.

That is not whether it is right: a night can lie inside every band and agree with no expert. `expert_bands`
counts the bands over experts' scorings.

The indicators are those of `stageguard.night.quantities`: stage changes and uncommon transitions among
adjacent scored pairs, flips A-B-A of one epoch, and the complete bouts of each stage.

A pair that touches an unscored epoch is no pair. A bout is complete when a scored epoch of another
stage stands on either side. These are the definitions the bands of the profiles were counted with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import NAN, Ints, Ints32, Labels
from stageguard.base.errors import Argument, InputError, Message
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import (
    Bouts,
    ScoredNight,
    bouts_of,
    check_aligned,
    cuts_of,
    hypnogram_of,
    pair_counts,
)
from stageguard.measures.day import Moment, lights_window
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import Quantity, indicators_of
from stageguard.night.stages import WNR3, StageScheme
from stageguard.profile.parts import Band
from stageguard.profile.profile import Profile, as_profile

Place = Literal["below", "inside", "above", "no band"]
Value = tuple[float, str]  # a number, and why it is NaN

PAPER_PAIRS = (("W", "R"), ("R", "N"))
SHORTEST_NIGHT_HOURS = 2.0  # scored; indicators of less are too uneven to belong to a range of nights
FEWEST_SCORINGS = 10  # our choice: the 5th percentile of fewer is the smallest of them
PERCENTILES = (5.0, 95.0)
_DIGITS = 4  # of the ends of a band


@dataclass(frozen=True, slots=True)
class Indicator:
    """One indicator of a night, and where it lies in the experts' range.

    Attributes
    ----------
    name, unit : str
        What it is, and in what unit.
    value : float
        NaN where it does not exist.
    low, high : float
        The experts' range at this night's epoch length; NaN without one.
    place : str
        ``below``, ``inside`` or ``above`` the range; ``no band`` where there is nothing to compare.
    reason : str
        Why the value is NaN, or why a band of the profile does not apply; else empty.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    place: Place
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """The indicators of one night.

    Attributes
    ----------
    profile : str
        Whose bands, pairs and minimum bouts.
    n_epochs_scored, hours_scored : int, float
        How much there was to look at.
    indicators : mapping
        Each indicator by name; the names are listed in `stageguard.night.quantities`.
    rare_pairs : mapping
        How often each of the profile's ``tvr_pairs`` occurs, such as ``"W->R"``.
    bouts_below_minimum : mapping
        Complete bouts shorter than the profile's minimum, for each stage that has one.
    expert_bouts_below_minimum, expert_bouts_lost : mapping or None
        The same of an expert's scoring, and those of them that the night shows no epoch of; None without one.
    """

    profile: str
    n_epochs_scored: int
    hours_scored: float
    indicators: Mapping[str, Indicator]
    rare_pairs: Mapping[str, int]
    bouts_below_minimum: Mapping[str, int]
    expert_bouts_below_minimum: Mapping[str, int] | None = None
    expert_bouts_lost: Mapping[str, int] | None = None

    @property
    def outside(self) -> tuple[str, ...]:
        """Names of the indicators below or above their band."""
        return tuple(name for name, each in self.indicators.items() if each.place in ("below", "above"))

    @property
    def fragmentation_index(self) -> float:
        """Stage changes per adjacent scored pair."""
        return self.indicators["fragmentation_index"].value

    @property
    def transitions_per_hour(self) -> float:
        """Stage changes per hour."""
        return self.indicators["transitions_per_hour"].value

    @property
    def tvr_percent(self) -> float:
        """The profile's rare pairs in percent of adjacent scored pairs."""
        return self.indicators["tvr_percent"].value

    @property
    def paper_tvr_percent(self) -> float:
        """Wake to REM and REM to NREM in percent of adjacent scored pairs."""
        return self.indicators["paper_tvr_percent"].value

    @property
    def flips_per_hour(self) -> float:
        """A-B-A with one epoch of B, per hour."""
        return self.indicators["flips_per_hour"].value

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, indicator by indicator."""
        fields = ("value", "unit", "low", "high", "place", "reason")
        plain: dict[str, Any] = {
            "profile": self.profile,
            "n_epochs_scored": self.n_epochs_scored,
            "hours_scored": self.hours_scored,
            "indicators": {k: {f: getattr(v, f) for f in fields} for k, v in self.indicators.items()},
            "outside": list(self.outside),
        }
        for name in ("rare_pairs", "bouts_below_minimum", "expert_bouts_below_minimum", "expert_bouts_lost"):
            if getattr(self, name) is not None:
                plain[name] = dict(getattr(self, name))
        return plain


def validity(
    night: ScoredNight,
    profile: Profile | str | None = None,
    *,
    expert: Hypnogram | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
) -> Validity:
    """Measure the validity indicators of a night, each with the experts' range.

    Bands are two-sided: a night smoother than experts score is flagged like one that is more fragmented.

    Parameters
    ----------
    night : Hypnogram or Decoding
        The scored night; of a decoding, what it decided. Stages finer than the profile's are merged.
    profile : Profile or str, optional
        Where the bands, rare pairs and minimum bouts come from; by default the decoding's own.
    expert : Hypnogram, optional
        An expert's scoring of the same epochs, to count what a minimum bout takes away.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        Measure what lies between them, as in `stageguard.sleep_statistics`; by default the whole recording.

    Returns
    -------
    Validity
        `indicators` by name, `outside` for those outside their band.
    """
    lights = lights_off, lights_on
    return validity_of(hypnogram_of(night), _profile_for(night, profile), cuts_of(night), lights, expert)


def validity_of(
    night: Hypnogram,
    profile: Profile,
    cuts: Sequence[int] = (),
    lights: tuple[Moment | None, Moment | None] = (None, None),
    expert: Hypnogram | None = None,
) -> Validity:
    """Measure a scoring whose segments begin at `cuts`, between lights off and lights on."""
    if expert is not None:
        if not isinstance(expert, Hypnogram):
            raise InputError(f"expert is {checks.shown(expert)}, expected a Hypnogram.")
        check_aligned(expert, night)
    first, stop = lights_window(night, *lights)
    scored = night.merge(profile.scheme)
    hypnogram = replace(scored, labels=scored.labels[first:stop])
    # an unscored epoch in every cut between segments: nothing is adjacent across it
    inside = [cut - first for cut in cuts if first < cut < stop]
    labels = np.insert(hypnogram.labels, inside, UNSCORED)
    epoch_seconds, names = hypnogram.epoch_seconds, profile.scheme.names
    pairs, bouts = pair_counts(labels, len(names)), bouts_of(labels)
    n_scored = int(np.count_nonzero(labels != UNSCORED))
    rare = {f"{a}->{b}": int(pairs[names.index(a), names.index(b)]) for a, b in profile.tvr_pairs}
    values = _pair_values(pairs, sum(rare.values()) if rare else None, profile.scheme, epoch_seconds)
    values["flips_per_hour"] = _flips(labels, n_scored * epoch_seconds / 3600.0)
    values |= _bout_values(bouts, names, epoch_seconds)
    minimum = minimum_epochs(profile, epoch_seconds)
    too_short = bouts.complete & (bouts.lengths < minimum[bouts.stages])
    indicators = {
        name: _indicator(quantity, *values[name], profile, epoch_seconds)
        for name, quantity in indicators_of(names).items()
    }
    n_short = n_lost = None
    if expert is not None:
        of_expert = expert.merge(profile.scheme).labels[first:stop]
        n_short, n_lost = _expert_bouts(profile, hypnogram.labels, of_expert, minimum)
    return Validity(
        profile=profile.name,
        n_epochs_scored=n_scored,
        hours_scored=n_scored * epoch_seconds / 3600.0,
        indicators=indicators,
        rare_pairs=rare,
        bouts_below_minimum=_with_minimum(profile, bouts.stages[too_short]),
        expert_bouts_below_minimum=n_short,
        expert_bouts_lost=n_lost,
    )


def _profile_for(night: ScoredNight, profile: Profile | str | None) -> Profile:
    if isinstance(profile, Profile):
        return profile
    if profile is not None:
        return Profile.load(profile)
    if isinstance(night, Decoding):
        return night.profile
    hypnogram_of(night)  # says what was expected of the night, if it is neither
    raise InputError(
        Message(
            "a Hypnogram comes without a profile, expected one to take the expert bands from. Give its "
            "name: ",
            Argument("profile", "human-psg-5", "validity(night, 'human-psg-5')"),
            ".",
        )
    )


def _pair_values(
    pairs: Ints, n_rare: int | None, scheme: StageScheme, epoch_seconds: float
) -> dict[str, Value]:
    """Return what is counted on adjacent pairs."""
    n_pairs, n_changes = int(pairs.sum()), int(pairs.sum() - np.trace(pairs))
    per_hour = 3600.0 / epoch_seconds
    no_pairs = "there are no two adjacent scored epochs"
    none = "the profile names no tvr_pairs"
    n_paper = _paper_pairs(pairs, scheme)
    return {
        "fragmentation_index": _ratio(n_changes, n_pairs, no_pairs),
        "transitions_per_hour": _ratio(n_changes * per_hour, n_pairs, no_pairs),
        "tvr_percent": _ratio(n_rare, n_pairs, no_pairs, none, 100.0),
        "tvr_per_change_percent": _ratio(n_rare, n_changes, "the stage never changes", none, 100.0),
        "tvr_per_hour": _ratio(n_rare, n_pairs, no_pairs, none, per_hour),
        "paper_tvr_percent": _ratio(
            n_paper, n_pairs, no_pairs, f"scheme {scheme.name!r} cannot be merged to W, N, R", 100.0
        ),
    }


def _ratio(count: float | None, of: int, if_empty: str, if_none: str = "", scale: float = 1.0) -> Value:
    if count is None:
        return NAN, if_none
    return (scale * count / of, "") if of else (NAN, if_empty)


def _paper_pairs(pairs: Ints, scheme: StageScheme) -> int | None:
    """Return how many pairs are W to R or R to NREM, or None where stages cannot be told so."""
    try:
        merge = scheme.merge_map(WNR3)
    except InputError:
        return None
    counts = np.zeros((WNR3.n_stages, WNR3.n_stages), dtype=np.int64)
    np.add.at(counts, (merge[:, None], merge[None, :]), pairs)
    return int(sum(counts[WNR3.index(a), WNR3.index(b)] for a, b in PAPER_PAIRS))


def _flips(labels: Labels, hours: float) -> Value:
    """Return A-B-A with a single B, all three scored, per scored hour."""
    if not hours:
        return NAN, "no epoch is scored"
    before, middle, after = labels[:-2], labels[1:-1], labels[2:]
    scored = (before != UNSCORED) & (middle != UNSCORED) & (after != UNSCORED)
    if not scored.any():
        return NAN, "no three adjacent epochs are scored"
    flips = scored & (before == after) & (middle != after)
    return float(np.count_nonzero(flips)) / hours, ""


def _bout_values(bouts: Bouts, names: Iterable[str], epoch_seconds: float) -> dict[str, Value]:
    """Return what is counted on the complete bouts of each stage."""
    complete, minutes = bouts.complete, epoch_seconds / 60.0
    values: dict[str, Value] = {}
    for label, name in enumerate(names):
        lengths = bouts.lengths[complete & (bouts.stages == label)]
        single = mean = median = NAN
        if len(lengths):
            single = 100.0 * float(np.mean(lengths == 1))
            mean, median = float(lengths.mean()) * minutes, float(np.median(lengths)) * minutes
        reason = "" if len(lengths) else f"there is no complete bout of {name}"
        values[f"one_epoch_bouts_percent_{name}"] = single, reason
        values[f"mean_bout_minutes_{name}"] = mean, reason
        values[f"median_bout_minutes_{name}"] = median, reason
    return values


def _indicator(
    quantity: Quantity, value: float, reason: str, profile: Profile, epoch_seconds: float
) -> Indicator:
    """Return a value beside the experts' band, brought to the night's epoch length."""
    name, unit = quantity.key, quantity.unit
    band, scale = profile.bands.get(name), epoch_seconds / profile.epoch_seconds
    if band is not None and scale != 1.0 and quantity.epoch_rule == "single epochs":
        band = None
        reason = reason or (
            f"the band is about single epochs of {profile.epoch_seconds:g} s, not of {epoch_seconds:g} s"
        )
    if band is None:
        return Indicator(name, value, unit, NAN, NAN, "no band", reason)
    scale = scale if quantity.epoch_rule == "per pair" else 1.0
    low, high = band.low * scale, band.high * scale
    place: Place = "below" if value < low else "above" if value > high else "inside"
    return Indicator(name, value, unit, low, high, "no band" if np.isnan(value) else place, reason)


def _with_minimum(profile: Profile, stages: Labels) -> Mapping[str, int]:
    """Return how many of these bouts each stage with a minimum has."""
    counts = np.bincount(stages, minlength=profile.scheme.n_stages).tolist()
    names = zip(profile.scheme.names, counts, strict=True)
    return {name: n for name, n in names if name in profile.min_bout_seconds}


def _expert_bouts(
    profile: Profile, labels: Labels, of_expert: Labels, minimum: Ints32
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the expert's bouts that the minimum forbids, and those that left no trace in the night."""
    bouts = bouts_of(of_expert)
    short = bouts.complete & (bouts.lengths < minimum[bouts.stages])
    n_kept = np.add.reduceat(labels == of_expert, bouts.starts, dtype=np.intp)
    lost = short & (n_kept == 0)
    return _with_minimum(profile, bouts.stages[short]), _with_minimum(profile, bouts.stages[lost])


def expert_bands(
    hypnograms: Sequence[Hypnogram | Sequence[Hypnogram]],
    profile: Profile | str,
    *,
    percentiles: tuple[float, float] = PERCENTILES,
) -> Mapping[str, Band]:
    """Count the band of every validity indicator over expert scorings.

    Every scoring counts by itself, so that the bands hold the spread between scorers as well as between
    nights.

    Parameters
    ----------
    hypnograms : sequence of Hypnogram, or of sequences of Hypnogram
        Scored nights; of a night that several experts scored, all of their scorings.
    profile : Profile or str
        Gives the stages, into which finer ones are merged, and the uncommon transitions that TVR counts.
    percentiles : tuple of float
        Low and high end.

    Returns
    -------
    mapping of str to Band
        By the names of `sg.validity`'s indicators. One that fewer than ten scorings have, or that is the
        same in all of them, has no band.
    """
    profile = as_profile(profile)
    low, high = _checked(percentiles)
    panels = _panels(hypnograms)
    scorings = [scoring for panel in panels for scoring in panel]
    if not scorings:
        raise InputError("no scoring is given, expected hypnograms of expert-scored nights.")
    lengths = sorted({scoring.epoch_seconds for scoring in scorings})
    if len(lengths) > 1:
        raise InputError(
            f"epochs last {' s and '.join(f'{s:g}' for s in lengths)} s, expected one epoch length. "
            "Count the bands of each by itself."
        )
    shortest = 3600.0 * SHORTEST_NIGHT_HOURS
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
        known = [value for value in values if not np.isnan(value)]
        if len(known) >= FEWEST_SCORINGS:
            ends = [float(f"{value:.{_DIGITS}g}") for value in np.percentile(known, (low, high))]
            if ends[0] < ends[1]:
                source = f"{low:g}th to {high:g}th percentile over {counted}"
                bands[name] = Band(ends[0], ends[1], source, quantity.unit)
    return bands


def _panels(hypnograms: Any) -> list[list[Hypnogram]]:
    """Return the scorings of each night."""
    if isinstance(hypnograms, Hypnogram | str) or not isinstance(hypnograms, Collection):
        got = "one hypnogram" if isinstance(hypnograms, Hypnogram) else checks.shown(hypnograms)
        raise InputError(f"got {got}, expected a list of expert-scored nights.")
    panels = []
    for number, panel in enumerate(hypnograms):
        several = isinstance(panel, Collection) and not isinstance(panel, Hypnogram | str)
        try:
            panels.append([hypnogram_of(scoring) for scoring in (panel if several else [panel])])
        except InputError as error:
            raise InputError(f"night {number}: {error}") from None
    return panels


def _checked(percentiles: object) -> tuple[float, float]:
    if not isinstance(percentiles, list | tuple) or len(percentiles) != 2:
        raise InputError(f"percentiles is {checks.shown(percentiles)}, expected two numbers such as (5, 95).")
    low, high = (checks.number(value, "percentiles", low=0.0, high=100.0) for value in percentiles)
    if low >= high:
        raise InputError(f"percentiles are {low:g} and {high:g}, expected the lower one first.")
    return low, high

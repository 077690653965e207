"""Whether a hypnogram looks like expert scoring: validity indicators against two-sided expert bands.

The joint score says whether a night differs, the bands say in what. Neither says that it is right: a night
can lie inside every band and agree with no expert.

The indicators are those of `stageguard.night.quantities`: stage changes and uncommon transitions among
adjacent scored pairs, flips A-B-A of one epoch, and the complete bouts of each stage.

They are measured in the sleep period (`stageguard.night.period`); of animals, and under profiles that
reproduce the paper, in the whole recording. A pair with an unscored epoch does not count. A bout is complete
if a scored epoch of another stage is on either side. The bands of the profiles were counted with these
definitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from typing import Any, Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, ComparedByValue, Ints, Ints32, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import (
    Bouts,
    ScoredNight,
    bouts_of,
    cuts_of,
    hypnogram_of,
    labels_in,
    pair_counts,
    period_for,
)
from stageguard.night.align import on_epochs_of
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import JOINT, Quantity, indicators_of
from stageguard.night.stages import WNR3, StageScheme
from stageguard.night.timing import Moment
from stageguard.profile.parts import Band
from stageguard.profile.profile import Profile, as_profile

Place = Literal["below", "inside", "above", "no band"]
Value = tuple[float, str]  # a number, and why it is NaN

PAPER_PAIRS = (("W", "R"), ("R", "N"))
NO_SLEEP = "no epoch is scored as sleep"
SHORTEST_NIGHT_HOURS = 2.0  # scored hours; indicators of shorter nights vary too much for a range
FEWEST_SCORINGS = 10  # our choice: the 5th percentile of fewer is the smallest of them


@dataclass(frozen=True, slots=True)
class Indicator:
    """One indicator of a night, and where it lies in the experts' range."""

    name: str
    value: float  # NaN if it does not exist
    unit: str
    low: float  # the experts' range at this night's epoch length; NaN without one
    high: float
    place: Place
    reason: str = ""  # why the value is NaN, or why a band of the profile does not apply

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, without the name."""
        return {key: getattr(self, key) for key in self.__slots__[1:]}


@dataclass(frozen=True, slots=True, eq=False)
class Validity(ComparedByValue):
    """The indicators of one night."""

    profile: str  # with the bands, pairs and minimum bouts
    n_epochs_scored: int  # of the sleep period, or of the recording if the profile measures that
    hours_scored: float
    joint: Indicator  # the joint score; its range is from 0 to the experts' threshold
    indicators: Mapping[str, Indicator]  # by the names of `stageguard.night.quantities`
    rare_pairs: Mapping[str, int]  # how often each of the profile's ``tvr_pairs`` occurs, such as ``"W->R"``
    bouts_below_minimum: Mapping[str, int]  # complete bouts, of each stage with a minimum
    expert_bouts_below_minimum: Mapping[str, int] | None = None  # in the expert's scoring; None without
    expert_bouts_lost: Mapping[str, int] | None = None  # those of which the night has no epoch

    @property
    def looks_like_experts(self) -> bool | None:
        """Whether the joint score is in the range of expert nights; None without a joint score."""
        return None if self.joint.place == "no band" else self.joint.place == "inside"

    @property
    def verdict(self) -> str:
        """`looks_like_experts` in words, to follow a subject such as "the night"."""
        joint = self.joint
        if joint.place == "no band":
            return f"cannot be judged: {joint.reason}"
        claim = "looks" if self.looks_like_experts else "does not look"
        distance = f"distance {joint.value:.2f}; 90 % of expert nights are below {joint.high:.2f}"
        return f"{claim} like expert scoring ({distance})"

    @property
    def measured(self) -> Mapping[str, Indicator]:
        """The joint score and the indicators by name."""
        return {self.joint.name: self.joint, **self.indicators}

    @property
    def outside(self) -> tuple[str, ...]:
        """Names of the indicators below or above their band."""
        return tuple(name for name, each in self.indicators.items() if each.place in ("below", "above"))

    def __repr__(self) -> str:
        """Return the verdict, and what is outside its band."""
        outside = f"; outside: {', '.join(self.outside)}" if self.outside else ""
        return f"<Validity {self.profile}: {self.verdict}{outside}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, indicator by indicator."""
        counts = ("rare_pairs", "bouts_below_minimum", "expert_bouts_below_minimum", "expert_bouts_lost")
        return {
            "profile": self.profile,
            "n_epochs_scored": self.n_epochs_scored,
            "hours_scored": self.hours_scored,
            "looks_like_experts": self.looks_like_experts,
            "joint": self.joint.to_dict(),
            "indicators": {name: indicator.to_dict() for name, indicator in self.indicators.items()},
            "outside": list(self.outside),
        } | {name: dict(each) for name in counts if (each := getattr(self, name)) is not None}


def validity(
    night: ScoredNight,
    profile: Profile | str | None = None,
    *,
    expert: Hypnogram | None = None,
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
) -> Validity:
    """Measure whether a night looks like expert scoring, and its indicators, each with the experts' range.

    Bands are two-sided: a night smoother than experts score is flagged like one that is more fragmented.

    Parameters
    ----------
    night : Hypnogram or Decoding
        The scored night; of a decoding, its hypnogram. Stages finer than the profile's are merged.
    profile : Profile or str, optional
        Where the bands, rare pairs and minimum bouts come from; by default the decoding's own.
    expert : Hypnogram, optional
        An expert's scoring of the same epochs, to count the bouts that a minimum bout removes.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        Look for the sleep period between them, by default in the whole recording. The period of a decoding
        is the one it was decoded with.

    Returns
    -------
    Validity
        `looks_like_experts` by the `joint` score; `indicators` by name, `outside` for those outside their
        band.

    Raises
    ------
    InputError
        A hypnogram comes without a profile, its stages do not fit the profile's, or the expert scored other
        epochs.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.decode(sg.simulate_night("human-psg-5", seed=1).density, "human-psg-5")
    >>> sg.validity(night).looks_like_experts
    True
    """
    hypnogram = hypnogram_of(night)
    if profile is not None:
        profile = as_profile(profile)
    elif isinstance(night, Decoding):
        profile = night.profile
    else:
        raise InputError("a Hypnogram comes without a profile, expected one: profile='human-psg-5'.")
    period = period_for(night, profile, (lights_off, lights_on))
    return validity_of(hypnogram, profile, period, cuts_of(night), expert)


def validity_of(
    night: Hypnogram,
    profile: Profile,
    period: Period,
    cuts: Sequence[int] = (),
    expert: Hypnogram | None = None,
) -> Validity:
    """Measure the period of a scoring whose segments begin at `cuts`."""
    if expert is not None:
        if not isinstance(expert, Hypnogram):
            raise InputError(f"expert is {checks.shown(expert)}, expected a Hypnogram.")
        expert = on_epochs_of(night, expert)
    scored = night.merge(profile.scheme)
    epoch_seconds, names = scored.epoch_seconds, profile.scheme.names
    labels = labels_in(scored.labels, period, cuts)
    bouts, pairs = bouts_of(labels), pair_counts(labels, len(names))
    n_scored = int(np.count_nonzero(labels != UNSCORED))
    hours_scored = n_scored * epoch_seconds / 3600.0
    rare = {f"{a}->{b}": int(pairs[names.index(a), names.index(b)]) for a, b in profile.tvr_pairs}
    values = {
        **_pair_values(pairs, sum(rare.values()) if rare else None, profile.scheme, epoch_seconds),
        "flips_per_hour": _flips(labels, hours_scored),
        **_bout_values(bouts, names, epoch_seconds),
    }
    # without sleep there is no period, and every indicator is NaN for that one reason
    if period[0] == period[1]:
        values = {name: (value, NO_SLEEP) for name, (value, _) in values.items()}
    minimum = minimum_epochs(profile, epoch_seconds)
    too_short = bouts.complete & (bouts.lengths < minimum[bouts.stages])
    indicators = {
        name: _indicator(quantity, *values[name], profile, epoch_seconds)
        for name, quantity in indicators_of(names).items()
    }
    # None, not empty: nothing was compared, which is not the same as nothing lost
    n_short = n_lost = None
    if expert is not None:
        # segments are not cut here: an expert's bout goes on across a cut of the recording
        both = scored.labels, expert.merge(profile.scheme).labels
        own, theirs = (labels_in(each, period, ()) for each in both)
        n_short, n_lost = _expert_bouts(profile, own, theirs, minimum)
    return Validity(
        profile=profile.name,
        n_epochs_scored=n_scored,
        hours_scored=hours_scored,
        joint=_joint_score(values, profile, epoch_seconds, hours_scored),
        indicators=indicators,
        rare_pairs=rare,
        bouts_below_minimum=_with_minimum(profile, bouts.stages[too_short]),
        expert_bouts_below_minimum=n_short,
        expert_bouts_lost=n_lost,
    )


def _pair_values(
    pairs: Ints, n_rare: int | None, scheme: StageScheme, epoch_seconds: float
) -> dict[str, Value]:
    """Return the values that are counted on adjacent pairs."""
    n_pairs = int(pairs.sum())
    n_changes = n_pairs - int(np.trace(pairs))
    per_hour = 3600.0 / epoch_seconds
    is_paper = _paper_mask(scheme)
    n_paper = None if is_paper is None else int(pairs[is_paper].sum())
    no_pairs = "there are no two adjacent scored epochs"
    none, unmerged = "the profile names no tvr_pairs", f"scheme {scheme.name!r} cannot be merged to W, N, R"
    return {
        "fragmentation_index": _ratio(n_changes, n_pairs, no_pairs),
        "transitions_per_hour": _ratio(n_changes * per_hour, n_pairs, no_pairs),
        "tvr_percent": _ratio(n_rare, n_pairs, no_pairs, none, 100.0),
        "tvr_per_change_percent": _ratio(n_rare, n_changes, "the stage never changes", none, 100.0),
        "tvr_per_hour": _ratio(n_rare, n_pairs, no_pairs, none, per_hour),
        "paper_tvr_percent": _ratio(n_paper, n_pairs, no_pairs, unmerged, 100.0),
    }


def _ratio(count: float | None, of: int, if_empty: str, if_none: str = "", scale: float = 1.0) -> Value:
    if count is None:
        return NAN, if_none
    return (scale * count / of, "") if of else (NAN, if_empty)


def _paper_mask(scheme: StageScheme) -> Mask | None:
    """Return which pairs of stages are W to R or R to NREM; None if the stages cannot be merged so."""
    try:
        merge = scheme.merge_map(WNR3)
    except InputError:
        return None
    is_paper = np.zeros((WNR3.n_stages, WNR3.n_stages), dtype=bool)
    for a, b in PAPER_PAIRS:
        is_paper[WNR3.index(a), WNR3.index(b)] = True
    return is_paper[merge[:, None], merge[None, :]]


def _flips(labels: Labels, hours: float) -> Value:
    """Return A-B-A with a single B, all three scored, per scored hour."""
    if not hours:
        return NAN, "no epoch is scored"
    first, middle, last = labels[:-2], labels[1:-1], labels[2:]
    scored = (first >= 0) & (middle >= 0) & (last >= 0)
    # 0 flips would claim a calm that nobody could see
    if not scored.any():
        return NAN, "no three adjacent epochs are scored"
    flips = scored & (first == last) & (first != middle)
    return float(np.count_nonzero(flips)) / hours, ""


def _bout_values(bouts: Bouts, names: Sequence[str], epoch_seconds: float) -> dict[str, Value]:
    """Return the values that are counted on the complete bouts of each stage."""
    minutes, complete = epoch_seconds / 60.0, bouts.complete
    values: dict[str, Value] = {}
    for label, name in enumerate(names):
        lengths = np.sort(bouts.lengths[complete & (bouts.stages == label)]).tolist()
        single = mean = middle = NAN
        if n_bouts := len(lengths):
            single = 100.0 * (lengths.count(1) / n_bouts)
            mean = sum(lengths) / n_bouts * minutes
            # the two middle ones, which are the same bout if the number is odd
            middle = (lengths[n_bouts // 2] + lengths[~(n_bouts // 2)]) / 2 * minutes
        reason = "" if n_bouts else f"there is no complete bout of {name}"
        values[f"one_epoch_bouts_percent_{name}"] = single, reason
        values[f"mean_bout_minutes_{name}"] = mean, reason
        values[f"median_bout_minutes_{name}"] = middle, reason
    return values


def _indicator(
    quantity: Quantity, value: float, reason: str, profile: Profile, epoch_seconds: float
) -> Indicator:
    """Return a value with the experts' band at the night's epoch length."""
    low, high = band_at(quantity, profile, epoch_seconds)
    # a band exists but means something else at this epoch length: say so instead of dropping it
    if isnan(low) and quantity.key in profile.bands and not reason:
        reason = f"the band is about single epochs of {profile.epoch_seconds:g} s, not of {epoch_seconds:g} s"
    place = place_in(value, low, high)
    return Indicator(quantity.key, value, quantity.unit, low, high, place, reason)


def band_at(quantity: Quantity, profile: Profile, epoch_seconds: float) -> tuple[float, float]:
    """Return the experts' band of an indicator at an epoch length; NaN if none applies."""
    band, scale = profile.bands.get(quantity.key), epoch_seconds / profile.epoch_seconds
    if band is None or (scale != 1.0 and quantity.epoch_rule == "single epochs"):
        return NAN, NAN
    # a change per pair of epochs is twice as frequent if epochs are twice as long; minutes are minutes
    scale = scale if quantity.epoch_rule == "per pair" else 1.0
    return band.low * scale, band.high * scale


def place_in(value: float, low: float, high: float) -> Place:
    """Return where a value lies in a band."""
    if isnan(value) or isnan(low):
        return "no band"
    return "below" if value < low else "above" if value > high else "inside"


def _joint_score(
    values: Mapping[str, Value], profile: Profile, epoch_seconds: float, hours_scored: float
) -> Indicator:
    """Return the root mean square of the standardised indicators that exist, beside what experts stay under.

    Indicators are brought to the profile's epoch length first; those of single epochs exist at that one only.
    """
    joint, scale = profile.joint, epoch_seconds / profile.epoch_seconds
    if joint is None:
        return _absent("the profile has no joint score of expert nights")
    # bands were counted on whole nights, and rates of a nap vary far more
    if hours_scored < SHORTEST_NIGHT_HOURS:
        least = f"expected {SHORTEST_NIGHT_HOURS:g} h or more"
        return _absent(f"{hours_scored:.1f} h are scored, {least}")
    quantities = indicators_of(profile.scheme.names)
    total, n_indicators = 0.0, 0
    for name, expert in joint.indicators.items():
        (value, _), rule = values[name], quantities[name].epoch_rule
        # a night without REM is judged by the indicators that it has
        if not isnan(value) and (scale == 1.0 or rule != "single epochs"):
            value = value / scale if rule == "per pair" else value
            # not sum(): from Python 3.12 on it rounds otherwise, and scores must not depend on that
            total += ((quantities[name].normal(value) - expert.centre) / expert.scale) ** 2
            n_indicators += 1
    if n_indicators == 0:
        return _absent("none of the indicators of the joint score exists on this night")
    score = sqrt(total / n_indicators)
    place: Place = "above" if score > joint.threshold else "inside"
    return Indicator(JOINT.key, score, JOINT.unit, 0.0, joint.threshold, place)


def _absent(reason: str) -> Indicator:
    return Indicator(JOINT.key, NAN, JOINT.unit, NAN, NAN, "no band", reason)


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
    # matches are added up bout by bout, from each start to the next
    n_kept = np.add.reduceat(labels == of_expert, bouts.starts, dtype=np.intp)
    lost = short & (n_kept == 0)
    return _with_minimum(profile, bouts.stages[short]), _with_minimum(profile, bouts.stages[lost])


def expert_bands(
    experts: Sequence[Hypnogram | Sequence[Hypnogram]], profile: Profile | str
) -> Mapping[str, Band]:
    """Count the band of every validity indicator over expert scorings: its 5th to 95th percentile.

    Every scoring of a night counts by itself, so that the bands include the spread between scorers as well as
    between nights. An indicator that fewer than ten scorings have, or that is the same in all of them, has no
    band. Finer stages are merged into those of the profile, whose uncommon transitions TVR counts.
    """
    profile = as_profile(profile)
    if not isinstance(experts, list | tuple):
        raise InputError(f"experts are {checks.shown(experts)}, expected a list of scored nights.")
    panels = [[panel] if isinstance(panel, Hypnogram) else list(panel) for panel in experts]
    scorings = [hypnogram_of(scoring) for panel in panels for scoring in panel]
    # a change per epoch is another number at another epoch length
    lengths = {scoring.epoch_seconds for scoring in scorings}
    if len(lengths) != 1:
        found = ", ".join(f"{each:g} s" for each in sorted(lengths)) or "no scoring"
        raise InputError(f"got epochs of {found}, expected scorings of one epoch length.")
    # short scorings vary too much and would widen every band
    n_least = 3600.0 * SHORTEST_NIGHT_HOURS / lengths.pop()
    long = [each for each in scorings if np.count_nonzero(each.labels != UNSCORED) >= n_least]
    measured = [validity(scoring, profile) for scoring in long]
    counted = f"{len(scorings)} expert nights"
    if len(scorings) != len(panels):
        counted = f"{len(scorings)} expert scorings of {len(panels)} nights"
    bands = {}
    for name, quantity in indicators_of(profile.scheme.names).items():
        values = np.array([each.indicators[name].value for each in measured])
        existing = values[~np.isnan(values)]
        if len(existing) >= FEWEST_SCORINGS:
            low, high = (float(f"{value:.4g}") for value in np.percentile(existing, (5.0, 95.0)))
            # a band without width would call every other night unusual
            if low < high:
                bands[name] = Band(low, high, f"5th to 95th percentile over {counted}", quantity.unit)
    return bands

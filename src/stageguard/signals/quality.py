"""How far each epoch's signal can be trusted, by modality.

>>> quality = sg.signal_quality(recording, "eeg-emg")
>>> sg.decode(density, "mouse-eeg-emg-3", quality=quality.beta)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Floats32, Mask
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Recording, Signal, scored_epoch_seconds
from stageguard.signals.modalities import modality_of
from stageguard.signals.windows import (
    MAD_TO_SD,
    Windows,
    covered_share,
    frequencies,
    power_spectra,
    tapers,
)
from stageguard.values import ComparedByValue

Assessed = tuple[Floats, tuple[str, ...]]  # beta (n_epochs,); the reasons, one per epoch, "" where clean
Stretches = dict[str, tuple[Floats, Floats]]  # bad time by reason: starts and ends in seconds

HIGH_HZ = 45.0  # from the paper: power above this is muscle or noise
HUM_HZ = (50.0, 60.0)
HUM_HALF_WIDTH_HZ = 1.5
RAIL_SECONDS = 0.006  # a signal that stays at its extreme value for this long has hit a limit,
RAIL_RUNS = 2  # if it does so in this many segments; one segment may just hold the highest peak
SMALLEST_SHARE = 1e-3  # of an epoch; smaller shares are rounding errors


@dataclass(frozen=True, slots=True)
class Segments:
    """Measurements of the segments of each epoch, as arrays (n_epochs, n_segments)."""

    missing: Floats  # share of missing samples
    range: Floats  # largest minus smallest sample; NaN if all are missing
    clipped: Mask  # whether the signal rests at an extreme value of the whole recording
    # share of power above 45 Hz without mains hum; NaN if the rate is too low or the signal is missing
    high: Floats
    hum: Floats  # share of power at 50 or 60 Hz that stands out from its surroundings; NaN likewise

    @property
    def usual_range(self) -> float:
        """Median range of the segments that are not constant; NaN if all are constant."""
        moving = self.range[self.range > 0]
        return float(np.median(moving)) if moving.size else float("nan")

    def lost(self) -> Mask:
        """Whether each epoch (of one segment) has no amplitude: the signal is missing or constant."""
        return np.asarray(~(np.where(self.missing > 0.5, np.nan, self.range)[:, 0] > 0))

    def is_extreme(self, z: float) -> Mask:
        """Whether each epoch (of one segment) is over z deviations from the recording's mean amplitude."""
        return np.asarray(np.abs(plain_z(np.where(self.lost(), np.nan, self.range[:, 0]))) > z)

    def flags(self, role: str, z: float, times: float, flat: float) -> dict[str, Mask]:
        """Return which segments are missing, flat, clipped or too large; each segment has at most one reason.

        A segment is flat if its range is below ``flat`` of the usual range. It is too large if its range is
        beyond both ``z`` robust deviations of the log range and ``times`` the usual range.
        """
        missing = self.missing > 0.5
        is_flat = ~missing & ~(self.range > flat * self.usual_range)
        sound = ~missing & ~is_flat
        moving = np.where(self.range > 0, self.range, np.nan)
        with np.errstate(invalid="ignore"):
            large = (robust_z(np.log(moving)) > z) & (moving > times * self.usual_range)
        return {
            f"{role}: missing": missing,
            f"{role}: flat": is_flat,
            f"{role}: clipped": self.clipped & sound,
            f"{role}: amplitude": large & ~self.clipped & sound,
        }


def measure_segments(
    signal: Signal, epochs: EpochGrid, per_epoch: int, *, spectra: bool, unit: str | None = None
) -> Segments:
    """Return the measurements of equal parts of each epoch; the signal is read once, piece by piece."""
    windows = Windows.parts(signal, epochs, per_epoch)
    shape = (epochs.n_epochs, per_epoch)
    missing = np.empty(shape)
    high, hum = np.full(shape, np.nan), np.full(shape, np.nan)
    low_end, high_end = np.empty(shape), np.empty(shape)
    rests = np.zeros((2, *shape), dtype=bool)
    least_run = max(3, round(RAIL_SECONDS * signal.rate_hz))
    lines = frequencies(windows.n_samples, signal.rate_hz)
    using = tapers("hann", windows.n_samples)
    for chosen, samples in windows.read(signal, unit):
        missing[chosen] = np.isnan(samples).mean(axis=-1)
        low_end[chosen] = np.fmin.reduce(samples, axis=-1)
        high_end[chosen] = np.fmax.reduce(samples, axis=-1)
        rests[0][chosen] = _rests(samples, low_end[chosen], least_run)
        rests[1][chosen] = _rests(samples, high_end[chosen], least_run)
        if spectra:
            power, lost = power_spectra(samples, signal.rate_hz, using)
            high[chosen], hum[chosen] = _shares(power, lines, lost < 0.5)
    spread = high_end - low_end
    moves = spread > 0
    rails = (np.nanmin(low_end), np.nanmax(high_end)) if np.isfinite(low_end).any() else (np.nan, np.nan)
    clipped = np.zeros(shape, dtype=bool)
    for at_rest, ends, rail in zip(rests, (low_end, high_end), rails, strict=True):
        at_rail = at_rest & (ends == rail) & moves
        if np.count_nonzero(at_rail) >= RAIL_RUNS:
            clipped |= at_rail
    return Segments(missing, spread, clipped, high, hum)


def robust_z(values: Floats) -> Floats:
    """Return distances from the median over 1.4826 times the median distance; NaN where there is no value."""
    known = values[np.isfinite(values)]
    if not known.size:
        return np.full(values.shape, np.nan)
    centre = np.median(known)
    spread = MAD_TO_SD * np.median(np.abs(known - centre))
    spread = spread if spread > 0 else float(known.std())
    return np.zeros(values.shape) if spread == 0 else (values - centre) / spread


def plain_z(values: Floats) -> Floats:
    """Return distances from the mean in standard deviations; NaN where there is no value."""
    known = values[np.isfinite(values)]
    spread = float(known.std()) if known.size else 0.0
    # rounding makes equal amplitudes differ in the last digits
    if spread <= 1e-9 * float(np.abs(known).max(initial=0.0)):
        return np.where(np.isfinite(values), 0.0, np.nan)
    return np.asarray((values - known.mean()) / spread)


def _rests(samples: Floats, ends: Floats, least_run: int) -> Mask:
    """Whether each segment has a run of samples at ``ends``, its smallest or largest value."""
    equal = samples == ends[..., None]
    at_end = equal.sum(axis=-1) >= least_run
    if at_end.any():
        views = np.lib.stride_tricks.sliding_window_view(
            equal[at_end], min(least_run, equal.shape[-1]), axis=-1
        )
        at_end[at_end] = views.all(axis=-1).any(axis=-1)
    return np.asarray(at_end)


def _shares(power: Floats32, lines: Floats, known: Mask) -> tuple[Floats, Floats]:
    """Return the shares of power above 45 Hz and of mains hum, NaN where unknown."""
    total = power.sum(axis=-1, dtype=np.float64)
    known = known & (total > 0)
    hum = np.zeros(total.shape)
    for line_hz in HUM_HZ:
        beside = np.abs(lines - line_hz)
        inside, flanks = beside <= HUM_HALF_WIDTH_HZ, (beside > 2.5) & (beside <= 6.0)
        if line_hz + HUM_HALF_WIDTH_HZ > lines[-1] or not flanks.any():
            continue
        at_line, around = power[..., inside].mean(axis=-1), power[..., flanks].mean(axis=-1)
        stands_out = at_line > 10 * around
        hum += np.where(stands_out, power[..., inside].sum(axis=-1, dtype=np.float64), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = power[..., lines > HIGH_HZ].sum(axis=-1, dtype=np.float64)
        high = np.where(known, (above - hum) / total, np.nan)
        share = np.where(known, hum / total, np.nan)
    if lines[-1] <= HIGH_HZ:
        high[:] = np.nan
    return high, share


def from_flags(flags: Mapping[str, Mask]) -> Assessed:
    """Return beta, the share of each epoch that any rule flags, and the names of these rules.

    Flags are of whole epochs (n_epochs,) or of their segments (n_epochs, n_segments).
    """
    rules = [flag.reshape(len(flag), -1) for flag in flags.values()]
    rows = np.stack([rule.any(axis=1) for rule in rules], axis=1)  # (n_epochs, n_rules)
    reasons = tuple("; ".join(compress(flags, row)) for row in rows)
    return np.any(rules, axis=0).mean(axis=1), reasons


def worst(parts: list[Assessed]) -> Assessed:
    """Return the largest beta of several channels, and all of their reasons."""
    beta = np.max([part[0] for part in parts], axis=0)
    reasons = tuple(
        "; ".join(filter(None, epoch)) for epoch in zip(*(part[1] for part in parts), strict=True)
    )
    return beta, reasons


def from_stretches(stretches: Stretches, edges: Floats) -> Assessed:
    """Return the share of each epoch that is bad for any reason, and the reasons; stretches may overlap."""
    starts = np.concatenate([pair[0] for pair in stretches.values()])
    ends = np.concatenate([pair[1] for pair in stretches.values()])
    shares = {reason: covered_share(edges, *pair) for reason, pair in stretches.items()}
    return with_reasons(covered_share(edges, starts, ends), shares)


def with_reasons(beta: Floats, shares: Mapping[str, Floats]) -> Assessed:
    """Return beta, 0 where it is only a rounding error, and the reasons that contribute to it."""
    beta = np.where(beta < SMALLEST_SHARE, 0.0, np.clip(beta, 0.0, 1.0))
    names = list(shares)
    rows = np.stack(list(shares.values()), axis=1)
    reasons = [""] * len(beta)
    for epoch in np.flatnonzero(beta):
        largest = names[int(rows[epoch].argmax())]
        reasons[epoch] = "; ".join(compress(names, rows[epoch] >= SMALLEST_SHARE)) or largest
    return beta, tuple(reasons)


Rules = Literal["kdd2026", "graded"]

RULES: tuple[Rules, ...] = ("graded", "kdd2026")
DEFAULT_RULES: Rules = "graded"  # of `stage` too, unless its profile reproduces the paper


@dataclass(frozen=True, slots=True, eq=False)
class SignalQuality(ComparedByValue):
    """How much of each epoch is lost, and why.

    Parameters
    ----------
    beta : array (n_epochs,)
        From 0 (clean) to 1 (lost); pass it to `decode` as `quality`.
    reasons : tuple of str
        One per epoch, such as "eeg: amplitude"; empty where beta is 0. Several are joined by "; ".
    epoch_seconds : float
        Length of an epoch.
    modality : str
        What was recorded.
    rules : {"kdd2026", "graded"}
        The paper's thresholds, or the share of the epoch that is bad.
    recording : str
        Name of the recording.
    """

    beta: Floats
    reasons: tuple[str, ...]
    epoch_seconds: float
    modality: str
    rules: Rules
    recording: str = ""

    def __post_init__(self) -> None:
        """Check that beta is a share, with a reason wherever it is not 0."""
        beta = np.asarray(self.beta, dtype=np.float64)
        if beta.ndim != 1 or len(beta) != len(self.reasons):
            raise InputError(
                f"beta has shape {beta.shape} and there are {len(self.reasons)} reasons, expected one of "
                "each per epoch."
            )
        if not ((beta >= 0) & (beta <= 1)).all():  # NaN is neither
            raise InputError("beta is not between 0 (clean) and 1 (lost) in every epoch.")
        for epoch, (value, reason) in enumerate(zip(beta, self.reasons, strict=True)):
            if (value > 0) != bool(reason):
                raise InputError(f"epoch {epoch} has beta {value:g}, but the reason {reason!r}.")
        object.__setattr__(self, "beta", checks.frozen_array(beta, np.float64))

    def __repr__(self) -> str:
        """Return length, rules, number of bad epochs, and the recording."""
        return (
            f"<SignalQuality {self.n_epochs} epochs of {self.epoch_seconds:g} s, {self.modality}, rules "
            f"{self.rules}, {int(np.count_nonzero(self.beta))} bad, recording {self.recording!r}>"
        )

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return len(self.beta)

    @property
    def is_bad(self) -> Mask:
        """Whether each epoch is bad at least in part."""
        return self.beta > 0

    def counts(self) -> dict[str, int]:
        """Return the number of epochs with each reason, the most frequent first."""
        return dict(
            Counter(part for reason in self.reasons if reason for part in reason.split("; ")).most_common()
        )


def signal_quality(
    recording: Recording, modality: str, *, epoch_seconds: float | None = None, rules: Rules = DEFAULT_RULES
) -> SignalQuality:
    """Return how far each epoch of a recording can be trusted.

    Parameters
    ----------
    recording : Recording
        With the channels the modality needs.
    modality : {"eeg-emg", "actigraphy", "cardiorespiratory", "bioradar"}
        What was recorded.
    epoch_seconds : float, optional
        Length of an epoch. Default: that of the scoring; without a scoring 30 s, but EEG has no default.
    rules : {"graded", "kdd2026"}
        "graded": the share of the epoch that is bad by robust thresholds, which also detect flat lines,
        clipping and mains hum. "kdd2026": the paper's thresholds; an epoch is clean (0) or lost (1).

    Returns
    -------
    SignalQuality
        Beta and the reason for it, per epoch.

    Examples
    --------
    >>> import stageguard as sg
    >>> from stageguard.synthetic import simulate_recording
    >>> recording = simulate_recording("actigraphy", hours=0.5, seed=1).recording
    >>> sg.signal_quality(recording, "actigraphy").beta.shape
    (60,)
    """
    Recording.check(recording)
    recorded = modality_of(modality)
    checks.choice(rules, "rules", RULES)
    if epoch_seconds is None:
        epoch_seconds = scored_epoch_seconds(recording) or recorded.default_epoch_seconds
    epochs = EpochGrid.of(recording, epoch_seconds)
    beta, reasons = recorded.measures.assess(recording, epochs, rules)
    return SignalQuality(beta, reasons, epochs.epoch_seconds, modality, rules, recording.id)

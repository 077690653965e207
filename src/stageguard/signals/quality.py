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
from stageguard.arrays import ComparedByValue, Floats, Floats32, Mask
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Recording, Signal, scored_epoch_seconds
from stageguard.signals import windows
from stageguard.signals.modalities import modality_of
from stageguard.signals.windows import MAD_TO_SD, covered_share

Assessed = tuple[Floats, tuple[str, ...]]  # beta (n_epochs,); the reasons, one per epoch, "" where clean
Stretches = dict[str, tuple[Floats, Floats]]  # bad time by reason: starts and ends in seconds
Rules = Literal["graded", "kdd2026"]

RULES: tuple[Rules, ...] = ("graded", "kdd2026")
DEFAULT_RULES: Rules = "graded"  # of `stage` too, unless its profile reproduces the paper

HIGH_HZ = 45.0  # from the paper: power above this is muscle or noise
HUM_HZ = (50.0, 60.0)
HUM_HALF_WIDTH_HZ = 1.5
RAIL_SECONDS = 0.006  # a signal that stays at its extreme value for this long has hit a limit,
RAIL_RUNS = 2  # if it does so in this many segments; one segment may just hold the highest peak
SMALLEST_SHARE = 1e-3  # of an epoch; smaller shares are rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class SignalQuality(ComparedByValue):
    """How much of each epoch is lost, and why."""

    beta: Floats  # (n_epochs,) from 0 (clean) to 1 (lost); pass it to `decode` as `quality`
    # one per epoch, such as "eeg: amplitude"; empty where beta is 0; several are joined by "; "
    reasons: tuple[str, ...]
    epoch_seconds: float
    modality: str
    rules: Rules
    recording: str = ""  # its name

    def __post_init__(self) -> None:
        """Check that beta is a share, with a reason wherever it is not 0."""
        beta = np.asarray(self.beta, dtype=np.float64)
        if beta.shape != (len(self.reasons),) or not ((beta >= 0) & (beta <= 1)).all():  # NaN is neither
            raise InputError("beta is not one number from 0 (clean) to 1 (lost) for each epoch's reasons.")
        if ((beta > 0) != [bool(reason) for reason in self.reasons]).any():
            raise InputError("an epoch has a beta above 0 without a reason, or a reason without a beta.")
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
        parts = (part for reason in self.reasons if reason for part in reason.split("; "))
        return dict(Counter(parts).most_common())


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
    """
    Recording.check(recording)
    recorded = modality_of(modality)
    checks.choice(rules, "rules", RULES)
    if epoch_seconds is None:
        epoch_seconds = scored_epoch_seconds(recording) or recorded.default_epoch_seconds
    epochs = EpochGrid.of(recording, epoch_seconds)
    beta, reasons = recorded.measures.assess(recording, epochs, rules)
    return SignalQuality(beta, reasons, epochs.epoch_seconds, modality, rules, recording.id)


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
        known = np.where(self.lost(), np.nan, self.range[:, 0])
        amplitudes = known[np.isfinite(known)]
        if not amplitudes.size or amplitudes.std() <= 1e-9 * amplitudes.max():  # equal but for rounding
            return np.zeros(len(known), dtype=np.bool_)
        return np.asarray(np.abs((known - amplitudes.mean()) / amplitudes.std()) > z)

    def flags(self, role: str, z: float, times: float, flat: float) -> dict[str, Mask]:
        """Return which segments are missing, flat, clipped or too large; each has at most one reason.

        ``flat`` and ``times`` are shares of the usual range; ``z`` counts robust deviations of the log range.
        """
        missing = self.missing > 0.5
        is_flat = ~missing & ~(self.range > flat * self.usual_range)
        sound = ~missing & ~is_flat
        moving = np.where(self.range > 0, self.range, np.nan)
        large = (_robust_z(np.log(moving)) > z) & (moving > times * self.usual_range)
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
    starts, n_samples = windows.window_starts(signal, epochs, per_epoch)
    shape = starts.shape
    missing, low_end, high_end, high, hum = (np.full(shape, np.nan) for _ in range(5))
    rests = np.zeros((2, *shape), dtype=bool)
    least_run = max(3, round(RAIL_SECONDS * signal.rate_hz))
    lines = np.fft.rfftfreq(n_samples, 1 / signal.rate_hz).astype(np.float64)
    using = windows.tapers("hann", n_samples)
    for chosen, samples in windows.read_windows(signal, starts, n_samples, unit):
        missing[chosen] = np.isnan(samples).mean(axis=-1)
        low_end[chosen] = np.fmin.reduce(samples, axis=-1)
        high_end[chosen] = np.fmax.reduce(samples, axis=-1)
        rests[0][chosen] = _rests(samples, low_end[chosen], least_run)
        rests[1][chosen] = _rests(samples, high_end[chosen], least_run)
        if spectra:
            power, lost = windows.power_spectra(samples, signal.rate_hz, using)
            high[chosen], hum[chosen] = _shares(power, lines, lost < 0.5)
    clipped = np.zeros(shape, dtype=bool)
    for at_rest, ends, rail in zip(rests, (low_end, high_end), (np.fmin, np.fmax), strict=True):
        at_rail = at_rest & (ends == rail.reduce(ends, axis=None)) & (high_end > low_end)
        if np.count_nonzero(at_rail) >= RAIL_RUNS:
            clipped |= at_rail
    return Segments(missing, high_end - low_end, clipped, high, hum)


def _robust_z(values: Floats) -> Floats:
    """Return distances from the median over 1.4826 times the median distance; NaN where there is no value."""
    known = values[np.isfinite(values)]
    if not known.size:
        return values
    centre = np.median(known)
    spread = MAD_TO_SD * np.median(np.abs(known - centre)) or known.std()
    return np.asarray((values - centre) / (spread or 1.0))


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
    total = np.where(known & (total > 0), total, np.nan)
    hum = np.zeros(total.shape)
    for line_hz in HUM_HZ:
        beside = np.abs(lines - line_hz)
        inside, flanks = beside <= HUM_HALF_WIDTH_HZ, (beside > 2.5) & (beside <= 6.0)
        if line_hz + HUM_HALF_WIDTH_HZ > lines[-1] or not flanks.any():
            continue
        stands_out = power[..., inside].mean(axis=-1) > 10 * power[..., flanks].mean(axis=-1)
        hum += np.where(stands_out, power[..., inside].sum(axis=-1, dtype=np.float64), 0.0)
    if lines[-1] <= HIGH_HZ:
        return np.full(total.shape, np.nan), hum / total
    return (power[..., lines > HIGH_HZ].sum(axis=-1, dtype=np.float64) - hum) / total, hum / total


def from_flags(flags: Mapping[str, Mask]) -> Assessed:
    """Return the share of each epoch that any rule flags, and the rules; flags are of epochs or segments."""
    rules = [flag.reshape(len(flag), -1) for flag in flags.values()]
    rows = np.stack([rule.any(axis=1) for rule in rules], axis=1)  # (n_epochs, n_rules)
    reasons = tuple("; ".join(compress(flags, row)) for row in rows)
    return np.any(rules, axis=0).mean(axis=1), reasons


def worst(parts: list[Assessed]) -> Assessed:
    """Return the largest beta of several channels, and all of their reasons."""
    reasons = zip(*(part[1] for part in parts), strict=True)
    return np.max([part[0] for part in parts], axis=0), tuple("; ".join(filter(None, r)) for r in reasons)


def from_stretches(stretches: Stretches, edges: Floats) -> Assessed:
    """Return the share of each epoch that is bad for any reason, and the reasons; stretches may overlap."""
    starts, ends = (np.concatenate(part) for part in zip(*stretches.values(), strict=True))
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

"""The signals of a night's recording: windows of epochs, montages, filters, and a spectrogram.

Samples stay in the file; only a window, with a margin for the filters, is in memory. Recording and night are
aligned by their clocks, or by the night's offset if one of them has no clock.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.files import file_error
from stageguard.formats.recordings.edf import NO_DATE
from stageguard.formats.recordings.raw import subtract_samples
from stageguard.formats.recordings.read import begins_after, read_recording
from stageguard.lazy import library
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording, Signal
from stageguard.review.montage import MOST_LANES, Filters, Lane, Montage
from stageguard.units import quantity_of

MOST_EPOCHS = 64  # in a window
MOST_COLUMNS = 20_000
MARGIN_SECONDS = 10.0  # read on either side of a window, so that filters have settled
ORDER = 2  # of the Butterworth filters, run forwards and backwards
NOTCH_QUALITY = 30.0
SLACK_EPOCHS = 1  # difference in length at which a recording still fits its night
LEAST_COVERED = 0.5  # share of a night that its recording must cover
COLUMNS, LOWEST_HZ, HIGHEST_HZ, ROW_HZ = 2000, 0.5, 30.0, 0.5  # of a spectrogram
BLOCK_SAMPLES = 2**19  # of a recording, processed at a time
WINDOWS = 8  # a column of a spectrogram is the mean of at most this many windows
# The lane of a channel holds nearly all of the night: of pieces all over the night, its scale is the
# 95th percentile of each piece's 99th, so that a few movements do not count.
SCALE_PIECES, SCALE_SECONDS, SCALE_MARGIN_SECONDS = 96, 5.0, 2.0
MOST_IN_A_PIECE, MOST_PIECES = 99.0, 95.0
PERCENTILES = (2.0, 99.0)  # of the power, at bytes 0 and 255 of a spectrogram

# Electrodes and their reference, the mastoid of the other side, as the AASM recommends.
DERIVED = {
    **{"F4": ("M1", "A1"), "C4": ("M1", "A1"), "O2": ("M1", "A1"), "E2": ("M1", "A1", "M2", "A2")},
    **{"F3": ("M2", "A2"), "C3": ("M2", "A2"), "O1": ("M2", "A2"), "E1": ("M2", "A2")},
}
FRONT_TO_BACK = "FCPO"  # electrodes of the EEG, as scorers order them
ALIKE = {"rate_hz": "the rate in Hz", "unit": "the unit", "n_samples": "the number of samples"}
# High-pass and low-pass in Hz, as the AASM manual recommends for routine recordings.
USUAL_HERTZ = {"eeg": (0.3, 35.0), "eog": (0.3, 35.0), "emg": (10.0, 100.0), "ecg": (0.3, 70.0)}
MOST_OF_A_ROLE = {"eeg": 6, "eog": 2, "emg": 1, "ecg": 1}
SLEEP, EVERYTHING = "Sleep", "All channels"


class ChannelScale(NamedTuple):
    """How a channel is drawn: its middle, and the distance from there to the edge of its lane."""

    middle: float
    scale: float


@dataclass(frozen=True, slots=True)
class ChannelWindow:
    """Samples of a lane, or the lowest and highest of each column if a screen cannot show all."""

    lane: Lane
    kind: str | None  # "eeg", "eog", ... where the reader knows it
    unit: str
    rate_hz: float  # of `values`
    scale: ChannelScale
    values: npt.NDArray[np.float32]
    is_reduced: bool

    def to_dict(self) -> dict[str, Any]:
        """Return all but the values."""
        what = {"name": self.lane.name, "kind": self.kind, "unit": self.unit, "rate": self.rate_hz}
        return what | self.scale._asdict() | {"samples": len(self.values)}


@dataclass(frozen=True, slots=True)
class SignalWindow:
    """Lanes over some epochs."""

    channels: tuple[ChannelWindow, ...]
    seconds: tuple[float, float]  # since the recording's start

    def to_bytes(self) -> bytes:
        """Return the length of a JSON text, the text, and the values as 32-bit floats, all little-endian."""
        described = {"channels": [each.to_dict() for each in self.channels], "seconds": self.seconds}
        text = json.dumps(described, allow_nan=False).encode()
        text += b" " * (-len(text) % 4)  # floats begin at a multiple of 4 bytes
        parts = [np.ascontiguousarray(each.values, dtype="<f4").tobytes() for each in self.channels]
        return b"".join((len(text).to_bytes(4, "little"), text, *parts))


class RecordingSignals:
    """A recording, aligned with a night."""

    def __init__(self, path: Path, night: Hypnogram) -> None:
        library("scipy.signal", "filters", "review")  # loaded now, as it takes a second
        recording = read_recording(path)
        self._epoch_seconds, self._n_epochs = night.epoch_seconds, night.n_epochs
        self._begins = _offset_seconds(path, recording, night)
        self._channels = _channels(recording)
        if not self._channels:
            raise file_error(path, "has no channel that is sampled at a steady rate. Name another recording.")
        self._kinds = _kinds(recording, self._channels)
        self.montages = self._own_montages()
        self._spectrograms: dict[str, dict[str, Any]] = {}
        self._scales: dict[tuple[str, str | None, Filters], ChannelScale] = {}
        self._lock, self._scale_lock = threading.Lock(), threading.Lock()

    @property
    def channels(self) -> list[dict[str, Any]]:
        """The channels of the recording, for the page."""
        return [
            {"name": name, "kind": self._kinds.get(name), "unit": signal.unit, "rate": signal.rate_hz}
            for name, signal in self._channels.items()
        ]

    def window(
        self, first: int, count: int, lanes: Sequence[Lane], columns: int | None = None
    ) -> SignalWindow:
        """Return lanes over some epochs; NaN outside the recording.

        With `columns`, a lane of more than two samples per column becomes the lowest and highest of each.
        """
        if not 0 <= first < self._n_epochs or not 1 <= count <= MOST_EPOCHS:
            raise InputError(
                f"first is {first} and count {count}, expected epochs 0 to {self._n_epochs - 1}, "
                f"at most {MOST_EPOCHS} of them."
            )
        if not 1 <= len(lanes) <= MOST_LANES:
            raise InputError(f"{len(lanes)} channels are asked for, expected 1 to {MOST_LANES}.")
        if columns is not None and not 1 <= columns <= MOST_COLUMNS:
            raise InputError(f"columns is {columns}, expected 1 to {MOST_COLUMNS:,}.")
        count = min(count, self._n_epochs - first)
        begin = self._begins + first * self._epoch_seconds
        seconds = count * self._epoch_seconds
        shown = tuple(self._channel_window(lane, begin, seconds, columns) for lane in lanes)
        return SignalWindow(shown, (begin, begin + seconds))

    def _channel_window(self, lane: Lane, begin: float, seconds: float, columns: int | None) -> ChannelWindow:
        signal = self.signal(lane)
        values, rate = _read_filtered(signal, begin, seconds, lane.filters), signal.rate_hz
        is_reduced = columns is not None and len(values) > 2 * columns
        if is_reduced:
            assert columns is not None
            values, rate = lowest_and_highest(values, columns), 2 * columns / seconds
        kind, scale = self._kinds.get(lane.plus), self._scale(lane, signal)
        return ChannelWindow(lane, kind, signal.unit, rate, scale, values.astype("<f4"), is_reduced)

    def signal(self, lane: Lane) -> Signal:
        """Return the channel of a lane, or the difference of its two channels."""
        for name in (lane.plus, lane.minus):
            if name is not None and name not in self._channels:
                known = ", ".join(self._channels)
                raise InputError(f"there is no channel {checks.shown(name)}, expected one of {known}.")
        first = self._channels[lane.plus]
        if lane.minus is None:
            return first
        second = self._channels[lane.minus]
        for what, title in ALIKE.items():
            one, other = getattr(first, what), getattr(second, what)
            if one != other:
                raise InputError(
                    f"{lane.minus} cannot be subtracted from {lane.plus}: {title} is {other} and {one}."
                )
        samples = subtract_samples(first.samples, second.samples)
        return Signal(f"{lane.plus}-{lane.minus}", samples, first.rate_hz, first.unit)

    def _scale(self, lane: Lane, signal: Signal) -> ChannelScale:
        """Return the scale of a lane over the whole night, computed once for its filters."""
        key = lane.plus, lane.minus, lane.filters
        with self._scale_lock:  # the page asks for several windows at once
            if key not in self._scales:
                seconds = self._n_epochs * self._epoch_seconds
                self._scales[key] = _scale_of(signal, self._begins, seconds, lane.filters)
            return self._scales[key]

    def spectrogram(self, channel: str | None) -> dict[str, Any]:
        """Return the power of a channel over the whole night, computed once."""
        sleep, everything = (montage.channels for montage in self.montages)
        by_name = {lane.name: lane for lane in (*everything, *sleep)}
        lane = sleep[0] if channel is None else by_name.get(channel) or Lane(channel)
        name, signal = lane.name, self.signal(lane)
        with self._lock:
            if name not in self._spectrograms:
                seconds = self._n_epochs * self._epoch_seconds
                n_columns = min(self._n_epochs, COLUMNS)
                powers = _powers(signal, self._begins, seconds, n_columns)
                self._spectrograms[name] = {
                    "columns": powers.shape[1],
                    "rows": powers.shape[0],
                    "hz": [LOWEST_HZ, HIGHEST_HZ],
                    "values": encode_array(_as_bytes(powers)),
                    "channel": name,
                    "all_channels": list(by_name),
                }
            return self._spectrograms[name]

    def _own_montages(self) -> tuple[Montage, Montage]:
        """Return the montages of every recording; differences replace the channels they are made of."""
        pairs = _mastoid_pairs(self._channels)
        parts = {part for pair in pairs for part in pair}
        sleep: list[Lane] = []
        for kind, most in MOST_OF_A_ROLE.items():
            of_kind = [name for name in self._channels if self._kinds.get(name) == kind]
            ours = [pair for pair in pairs if pair[0] in of_kind]
            chosen = [*ours, *((name, None) for name in of_kind if name not in parts)][:most]
            if kind == "eeg":
                chosen = sorted(chosen, key=lambda pair: _place_on_head(pair[0]))
            sleep += [self._lane(*pair) for pair in chosen]
        everything = [*pairs, *((name, None) for name in self._channels)][:MOST_LANES]
        whole = tuple(self._lane(*pair) for pair in everything)
        return Montage(SLEEP, tuple(sleep) or whole[:8]), Montage(EVERYTHING, whole)

    def _lane(self, plus: str, minus: str | None = None) -> Lane:
        """Return a lane with the usual filters of its kind."""
        signal = self._channels[plus]
        if quantity_of(signal.unit) != "voltage":
            return Lane(plus, minus)
        low, high = USUAL_HERTZ.get(self._kinds.get(plus, ""), USUAL_HERTZ["eeg"])
        return Lane(plus, minus, high_pass_hz=low, low_pass_hz=high if high < signal.rate_hz / 2 else None)


def encode_array(array: npt.NDArray[Any]) -> str:
    """Return the little-endian bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def lowest_and_highest(values: Floats, columns: int) -> Floats:
    """Return the lowest and the highest value of each column in turn; NaN in a column without values."""
    starts = np.arange(columns) * len(values) // columns
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    return np.asarray(np.stack((low, high), axis=1).reshape(-1))


def _offset_seconds(path: Path, recording: Recording, night: Hypnogram) -> float:
    """Return seconds from the recording's start to the first epoch; refuse the recording of another night."""
    epoch, seconds = night.epoch_seconds, night.n_epochs * night.epoch_seconds
    has_clocks = night.start is not None and recording.start not in (None, NO_DATE)
    begins = begins_after(night, recording) if has_clocks else night.offset_seconds
    if begins is None:
        when = " and the night at ".join(f"{at:%Y-%m-%d %H:%M:%S}" for at in (recording.start, night.start))
        raise file_error(path, f"begins at {when}: they do not overlap. Is it another night's?")
    apart = recording.seconds - night.offset_seconds - seconds
    if not has_clocks and abs(apart) > (SLACK_EPOCHS + 1) * epoch:
        raise file_error(
            path,
            f"lasts {recording.seconds:,.0f} s and the night {seconds:,.0f} s, and no clock says where it "
            "lies. Say when the night's recording began (--start), or name the night's own recording.",
        )
    covered = min(begins + seconds, recording.seconds) - max(begins, 0.0)
    if covered < LEAST_COVERED * seconds:
        raise file_error(
            path,
            f"covers {max(covered, 0) / epoch:,.0f} of {night.n_epochs:,} epochs, expected most of them. "
            "Is it another night's?",
        )
    return begins


def _channels(recording: Recording) -> dict[str, Signal]:
    """Return the channels of the file by label."""
    channels: dict[str, Signal] = {}
    for role, signal in recording.signals.items():
        if isinstance(signal, Signal):
            channels[signal.name if signal.name not in channels else role] = signal
    return channels


def _mastoid_pairs(channels: Mapping[str, Signal]) -> list[tuple[str, str | None]]:
    """Return electrodes that were recorded separately, each with the mastoid of the other side."""
    by_site = {_site(name): name for name in reversed(list(channels))}
    pairs: list[tuple[str, str | None]] = []
    for site, references in DERIVED.items():
        name, other = by_site.get(site), next((by_site[one] for one in references if one in by_site), None)
        if name is None or other is None or f"{name}-{other}" in channels:
            continue
        if all(getattr(channels[name], what) == getattr(channels[other], what) for what in ALIKE):
            pairs.append((name, other))
    return pairs


def _site(name: str) -> str:
    """Return the electrode of a label, such as F4 of "EEG F4"; "F4-M1" is returned unchanged."""
    return re.sub(r"^(EEG|EOG)[ _-]*", "", name.strip().upper())


def _place_on_head(name: str) -> int:
    """Return the row of an electrode from front to back; others come last."""
    place = FRONT_TO_BACK.find(_site(name)[:1])
    return place if place >= 0 else len(FRONT_TO_BACK)


def _kinds(recording: Recording, channels: Mapping[str, Signal]) -> dict[str, str]:
    """Return what channels measure ("eeg", "eog", ...) where the reader knows it."""
    labels = {id(signal): name for name, signal in channels.items()}
    return {
        labels[id(signal)]: re.sub(r"_\d+$", "", role)
        for role, signal in recording.signals.items()
        if id(signal) in labels
    }


def _samples(signal: Signal, begin: float, n_samples: int) -> Floats:
    """Return samples from a time on; NaN before and after the recording."""
    first = round(begin * signal.rate_hz)
    values = np.full(n_samples, np.nan)
    low, high = max(first, 0), min(first + n_samples, signal.n_samples)
    if low < high:
        values[low - first : high - first] = signal.read(low, high)
    return values


def _scale_of(signal: Signal, begins: float, seconds: float, filters: Filters) -> ChannelScale:
    """Return the scale of a channel from pieces all over the night."""
    n_pieces = int(max(1, min(SCALE_PIECES, seconds // SCALE_SECONDS)))
    starts = begins + (np.arange(n_pieces) + 0.5) * seconds / n_pieces - SCALE_SECONDS / 2
    cut = [_read_filtered(signal, at, SCALE_SECONDS, filters, SCALE_MARGIN_SECONDS) for at in starts.tolist()]
    pieces = [piece[np.isfinite(piece)] for piece in cut]
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return ChannelScale(0.0, 1.0)
    middle = float(np.median(np.concatenate(pieces)))
    sizes = [np.percentile(np.abs(piece - middle), MOST_IN_A_PIECE) for piece in pieces]
    scale = float(np.percentile(sizes, MOST_PIECES)) or float(np.max(sizes))
    return ChannelScale(middle, scale if scale > 0 else 1.0)


def _read_filtered(
    signal: Signal, begin: float, seconds: float, filters: Filters, margin_seconds: float = MARGIN_SECONDS
) -> Floats:
    """Return the samples of a window, filtered with a margin on either side."""
    n_samples = round(seconds * signal.rate_hz)
    sections = _sections(filters, signal.rate_hz) if quantity_of(signal.unit) == "voltage" else None
    if sections is None:
        return _samples(signal, begin, n_samples)
    margin = round(margin_seconds * signal.rate_hz)
    values = _samples(signal, begin - margin / signal.rate_hz, n_samples + 2 * margin)
    missing = ~np.isfinite(values)
    if missing.all():
        return values[margin : margin + n_samples]
    if missing.any():  # a filter would spread NaN over the window
        present = np.flatnonzero(~missing)
        values[missing] = np.interp(np.flatnonzero(missing), present, values[present])
    scipy_signal = library("scipy.signal", "filters", "review")
    smooth = scipy_signal.sosfiltfilt(sections, values - values.mean())
    if filters.low is None:
        smooth = smooth + values.mean()
    smooth[missing] = np.nan
    return np.asarray(smooth[margin : margin + n_samples])


@lru_cache(maxsize=64)
def _sections(filters: Filters, rate_hz: float) -> Floats | None:
    """Return second-order sections; frequencies above half the rate are ignored."""
    scipy_signal = library("scipy.signal", "filters", "review")
    parts = [
        scipy_signal.butter(ORDER, limit, kind, fs=rate_hz, output="sos")
        for limit, kind in ((filters.low, "highpass"), (filters.high, "lowpass"))
        if limit is not None and limit < rate_hz / 2
    ]
    if filters.notch is not None and filters.notch < rate_hz / 2:
        ends = scipy_signal.iirnotch(filters.notch, NOTCH_QUALITY, fs=rate_hz)
        parts.append(scipy_signal.tf2sos(*ends))
    return np.concatenate(parts) if parts else None


def _powers(signal: Signal, begins: float, seconds: float, n_columns: int) -> Floats:
    """Return log power (rows by frequency, columns by time); NaN where there is no signal."""
    size = max(2, round(signal.rate_hz / ROW_HZ))
    window = np.hanning(size + 1)[:-1]
    frequencies = np.fft.rfftfreq(size, 1 / signal.rate_hz)
    rows = (frequencies >= LOWEST_HZ - 1e-9) & (frequencies <= HIGHEST_HZ + 1e-9)
    n_rows = round((HIGHEST_HZ - LOWEST_HZ) / ROW_HZ) + 1
    powers = np.full((n_rows, n_columns), np.nan)
    column_samples = seconds / n_columns * signal.rate_hz  # samples in a column
    n_windows = int(min(WINDOWS, max(1, column_samples // size)))
    step = max(1, int(BLOCK_SAMPLES // column_samples))
    middles = (np.arange(n_windows) + 0.5) * column_samples / n_windows
    for first in range(0, n_columns, step):
        columns = np.arange(first, min(first + step, n_columns))
        starts = np.rint(columns[:, None] * column_samples + middles - size / 2).astype(np.int64)
        low = int(starts[0, 0])
        block = _samples(signal, begins + low / signal.rate_hz, int(starts[-1, -1]) - low + size)
        pieces = block[(starts - low)[..., None] + np.arange(size)]  # (columns, windows, samples)
        pieces = (pieces - pieces.mean(axis=-1, keepdims=True)) * window
        power = np.abs(np.fft.rfft(pieces, axis=-1)[..., rows]) ** 2
        is_whole = np.isfinite(power[..., 0])  # (columns, windows)
        total = np.where(is_whole[..., None], power, 0.0).sum(axis=1)
        mean = total / np.maximum(is_whole.sum(axis=1), 1)[:, None]
        mean[~is_whole.any(axis=1)] = np.nan
        powers[: mean.shape[1], columns] = np.log10(mean[:, :n_rows].T + 1e-12)
    return powers


def _as_bytes(powers: Floats) -> npt.NDArray[np.uint8]:
    finite = powers[np.isfinite(powers)]
    if not len(finite):
        return np.zeros(powers.shape, dtype=np.uint8)
    low, high = np.percentile(finite, PERCENTILES)
    scaled = 255.0 * (np.nan_to_num(powers, nan=low) - low) / max(high - low, 1e-9)
    return np.asarray(np.clip(np.rint(scaled), 0, 255), dtype=np.uint8)

"""Activity counts of a recording, summed over any stretch of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.base.units import known_unit
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Series, Signal
from stageguard.signals import acceleration as acceleration_module

LEAST_SHARE = 0.5  # of a stretch that must have data for its counts to be known
METHODS = ("actigraph", "te-lindert")


@dataclass(frozen=True, slots=True)
class Counts:
    """Activity counts in bins that follow each other.

    Parameters
    ----------
    edges : array (n_bins + 1,)
        Seconds since the recording's start, increasing.
    counts : array (n_bins, n_axes)
        Counts collected in each bin; 0 where there is no data.
    has_data : array (n_bins,)
        Whether the sensor gave anything.
    """

    edges: Floats
    counts: Floats
    has_data: Mask

    def between(self, first: npt.ArrayLike, end: npt.ArrayLike, least: float = LEAST_SHARE) -> Floats:
        """Return the counts of stretches of time.

        Counts are spread evenly over their bin. A stretch that has data in part is scaled to its whole
        length; one with less than the share ``least`` is NaN. Of three axes it is the length of their vector.

        Parameters
        ----------
        first, end : array
            Seconds, of one shape.
        least : float
            Share of a stretch that must have data.
        """
        begin, stop = np.asarray(first, dtype=np.float64), np.asarray(end, dtype=np.float64)
        seconds = self._covered(stop) - self._covered(begin)
        squares = np.zeros(begin.shape)
        for axis in range(self.counts.shape[1]):
            total = np.append(0.0, np.cumsum(self.counts[:, axis]))
            inside = np.interp(stop, self.edges, total) - np.interp(begin, self.edges, total)
            squares += np.maximum(inside, 0.0) ** 2
        length = stop - begin
        known = seconds >= np.maximum(least * length, 1e-9) - 1e-9
        scale = np.divide(length, seconds, out=np.full(begin.shape, np.nan), where=known)
        return np.asarray(np.sqrt(squares) * scale)

    def share(self, first: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Return the share of stretches of time that has data."""
        begin, stop = np.asarray(first, dtype=np.float64), np.asarray(end, dtype=np.float64)
        return np.asarray((self._covered(stop) - self._covered(begin)) / (stop - begin))

    def per_epoch(self, epochs: EpochGrid, least: float = LEAST_SHARE) -> Floats:
        """Return the counts of each epoch, NaN where they are not known."""
        edges = epochs.edges
        return self.between(edges[:-1], edges[1:], least)

    def _covered(self, at: Floats) -> Floats:
        """Return the seconds with data before given times."""
        seconds = np.append(0.0, np.cumsum(np.where(self.has_data, np.diff(self.edges), 0.0)))
        return np.asarray(np.interp(at, self.edges, seconds))


def find_counts(recording: Recording, method: str = "actigraph", axis: str = "vector") -> Counts:
    """Return a recording's activity counts: those it brings, else made from its raw acceleration.

    Parameters
    ----------
    recording : Recording
        With a channel "counts", or with raw acceleration.
    method : {"actigraph", "te-lindert"}
        How counts are made from raw acceleration.
    axis : {"vector", "x", "y", "z"}
        Counts of one axis, or the length of the vector of three. "te-lindert" knows the third only.
    """
    if "counts" in recording.signals:
        return _given(recording, recording.signals["counts"])
    acceleration = acceleration_module.find_acceleration(recording)
    if acceleration is None:
        recording.channel("counts")  # its error says what is there and how to map it
        raise AssertionError("unreachable")
    if method == "te-lindert":
        counts, has_data = acceleration_module.te_lindert_counts(acceleration)
        edges = np.arange(len(counts) + 1, dtype=np.float64) * acceleration_module.TE_LINDERT_SECONDS
    else:
        counts, has_data = acceleration_module.actigraph_counts(acceleration)
        edges = np.arange(len(counts) + 1, dtype=np.float64)
        if axis != "vector":
            counts = counts[:, [acceleration_module.AXES.index(axis)]]
    if not has_data.any():
        raise InputError(
            f"acceleration of recording {recording.id!r} has no second with samples after the recording's "
            "start. Check its times: they are seconds since the start."
        )
    return Counts(edges, counts, has_data)


def _given(recording: Recording, channel: Signal | Series) -> Counts:
    """Return counts as a device gave them; negative ones are its code for no data."""
    if channel.unit and known_unit(channel.unit) != "counts":
        raise InputError(
            f"channel 'counts' of recording {recording.id!r} is in {channel.unit!r}, expected counts. Map "
            "raw acceleration as 'acceleration'."
        )
    if isinstance(channel, Signal):
        values = channel.read()
        edges = np.arange(len(values) + 1) / channel.rate_hz
    else:
        edges, values = _binned(recording, channel)
    has_data = np.isfinite(values) & (values >= 0)
    if not has_data.any():
        raise InputError(f"channel 'counts' of recording {recording.id!r} has no number that is 0 or above.")
    return Counts(edges, np.where(has_data, values, 0.0)[:, None], has_data)


def _binned(recording: Recording, series: Series) -> tuple[Floats, Floats]:
    """Return edges and counts of a series; a value belongs to the time from its stamp on.

    A bin lasts as long as the usual step, or up to the next stamp if that comes sooner. Where the next comes
    more than half a step late there is a bin without data.
    """
    values = series.values[:, 0] if series.values.ndim == 2 else series.values
    if len(values) < 2 or series.times[0] == series.times[-1]:
        raise InputError(
            f"channel 'counts' of recording {recording.id!r} has {len(values)} values at one time, expected "
            "two or more at different times."
        )
    begin = series.times
    step = float(np.median(np.diff(begin)[np.diff(begin) > 0]))
    following = np.append(begin[1:], begin[-1] + step)
    end = np.where(following - begin > 1.5 * step, begin + step, following)
    is_gap = np.append(end[:-1] < begin[1:], False)
    # each gap is a bin of its own, between the end of a value and the next stamp
    edges = np.append(np.sort(np.concatenate([begin, end[is_gap]])), end[-1])
    filled = np.full(len(edges) - 1, np.nan)
    filled[np.arange(len(begin)) + np.append(0, np.cumsum(is_gap[:-1]))] = values
    return edges, filled

"""Read the channels of posteriors that Luna adds to an EDF file. Reads no other signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stageguard.formats._density_file import DensityOptions, RawDensity, file_error, listed
from stageguard.formats.edf_recordings import read_edf_recording
from stageguard.formats.tables import choose_columns
from stageguard.recording import Signal

PREFIX = "PP_"
MOST_SAMPLES = 10_000_000  # of one channel: a night has one per 5 or 30 s
ROUNDING = 1e-3  # how far below 0 the 16 bits of a sample may put a probability


def read_luna_edf(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of `RUN-POPS hypnodensity` or of POPS with posterior channels, one row per sample."""
    recording = read_edf_recording(path)
    channels = {
        name.upper(): signal
        for name, signal in recording.signals.items()
        if name.upper().startswith(PREFIX) and isinstance(signal, Signal)
    }
    if len(channels) < 2:
        raise file_error(
            path, f"has no channels of posteriors such as PP_W (got: {listed(list(recording.signals))})."
        )
    header = tuple(channels)
    places, names = choose_columns(path, header, options.stages, options.scheme)
    chosen = [channels[header[place]] for place in places]
    shapes = {(signal.n_samples, signal.rate_hz) for signal in chosen}
    if len(shapes) != 1:
        raise file_error(path, "has channels of posteriors of different lengths or sampling rates.")
    n_samples, rate_hz = shapes.pop()
    if n_samples > MOST_SAMPLES:
        raise file_error(path, f"has {n_samples:,} samples of posteriors, expected at most {MOST_SAMPLES:,}.")
    values = np.column_stack([signal.read(0, n_samples) for signal in chosen])
    values = np.where((values < 0) & (values >= -ROUNDING), 0.0, values)
    is_empty = (values == 0).all(axis=1)
    values[is_empty] = np.nan
    n_empty = int(np.count_nonzero(is_empty))
    note = f"{n_empty:,} rows of zeros: read as without evidence"
    return RawDensity(
        values,
        names,
        epoch_seconds=round(1 / rate_hz, 6),
        start=recording.start,
        notes=recording.notes + ((note,) if n_empty else ()),
    )

"""Nights as objects of other libraries: YASA, MNE, pandas. Imports them when used, and writes no file."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stageguard.base.errors import MissingExtraError, StageGuardWarning
from stageguard.formats.mne import clock_notes
from stageguard.formats.outgoing import Outgoing, stage_texts
from stageguard.formats.yasa import yasa_document
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding


def to_yasa(night: Decoding | Hypnogram) -> Any:
    """Return a `yasa.Hypnogram` (0.8 and later), of a decoding with the stager's probabilities."""
    library = _library("yasa", "to_yasa()")
    outgoing = _outgoing(night)
    hypnogram = outgoing.hypnogram
    if hypnogram is not None and hypnogram.start is None and hypnogram.offset_seconds:
        seconds = hypnogram.offset_seconds
        warnings.warn(
            StageGuardWarning(
                f"to_yasa() loses that the first epoch begins {seconds:g} s into the recording."
            ),
            stacklevel=3,
        )
    return library.Hypnogram.from_dict(yasa_document(outgoing))


def to_mne(night: Decoding | Hypnogram) -> Any:
    """Return `mne.Annotations`, "Sleep stage N2" for each epoch.

    As MNE does for EDF, the clock time of the start is stamped as UTC, so that stages lie right on a
    recording that MNE read. Where the start has another zone, a warning says how far the instant is off.
    """
    from datetime import UTC

    library = _library("mne", "to_mne()")
    outgoing = _outgoing(night)
    start = outgoing.recording_start
    for note in clock_notes(start):
        warnings.warn(StageGuardWarning(f"{note}."), stacklevel=3)
    return library.Annotations(
        outgoing.onsets,
        [outgoing.epoch_seconds] * len(outgoing.onsets),
        stage_texts(outgoing, "MNE"),
        orig_time=None if start is None else start.replace(tzinfo=UTC),
    )


def to_frame(night: Decoding | Hypnogram | Hypnodensity) -> Any:
    """Return a `pandas.DataFrame` with a row per epoch, indexed by time, or by epoch where no start is known.

    The columns are onset and duration in seconds; stage of a hypnogram; the probability of each stage where
    there are any; and of a decoding also argmax_stage, changed and filled.
    """
    pandas = _library("pandas", "to_frame()", "'stageguard[formats]'")
    outgoing = _outgoing(night)
    seconds, n_epochs, start = outgoing.epoch_seconds, outgoing.any.n_epochs, outgoing.recording_start
    columns: dict[str, Any] = {"onset": outgoing.onsets, "duration": [seconds] * n_epochs}
    if outgoing.hypnogram is not None:
        columns["stage"] = outgoing.hypnogram.stages.astype(object)
    if outgoing.decoding is not None:
        decoding = outgoing.decoding
        names = (*decoding.hypnogram.scheme.names, "?")
        columns["argmax_stage"] = [names[label] for label in decoding.argmax.tolist()]
        columns["changed"], columns["filled"] = decoding.changed, decoding.filled
    if outgoing.density is not None:
        columns |= dict(zip(outgoing.scheme.names, outgoing.density.probabilities.T, strict=True))
    index = pandas.RangeIndex(n_epochs, name="epoch")
    if start is not None:
        index = pandas.Timestamp(start) + pandas.to_timedelta(outgoing.onsets, unit="s")
        index.name = "time"
    return pandas.DataFrame(columns, index=index)


def _outgoing(night: Decoding | Hypnogram | Hypnodensity) -> Outgoing:
    from stageguard.formats.sources import outgoing_of

    return outgoing_of(night)


def _library(name: str, what: str, install: str | None = None) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != name:
            raise
        raise MissingExtraError(
            f"{what} needs {name!r}. Install with: pip install {install or name}"
        ) from None

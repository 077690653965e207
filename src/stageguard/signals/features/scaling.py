"""Bring the features of different recordings to one scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Floats32, Ints, Mask
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3, canonical_name
from stageguard.signals.features.recipe import Scaling

MIN_CALIBRATION_EPOCHS = 3  # of each stage, as AccuSleep asks for
MAD_TO_SD = 1.4826  # of a normal distribution


def scale(
    values: Floats32,
    names: tuple[str, ...],
    absolute: tuple[str, ...],
    scaling: Scaling,
    epochs: EpochGrid,
    calibration: Hypnogram | None,
) -> tuple[Floats32, str]:
    """Return the features on a common scale and the name of what was done; absolute ones stay.

    Epochs without a signal are NaN; calibration has the stages of some epochs.
    """
    has_signal = ~np.isnan(values[:, 0, 0])
    if calibration is None and (scaling.method == "none" or not has_signal.any()):
        return values, "none"
    if calibration is None:
        centre, spread = robust_moments(values[has_signal])
        done = "robust"
    else:
        centre, spread = _calibrated(values, has_signal, scaling, epochs, calibration)
        done = "mixture"
    kept = [names.index(name) for name in absolute]
    centre[kept], spread[kept] = 0.0, 1.0
    scaled = ((values - centre) / spread).astype(np.float32)
    if scaling.clip:
        moved = [column for column in range(len(names)) if column not in kept]
        scaled[..., moved] = np.clip(scaled[..., moved], -scaling.clip, scaling.clip)
    return scaled, done


def robust_moments(values: npt.NDArray[np.floating]) -> tuple[Floats, Floats]:
    """Return median and 1.4826 times the median distance from it, per feature; a constant one spreads 1."""
    flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
    centre = np.median(flat, axis=0)
    spread = MAD_TO_SD * np.median(np.abs(flat - centre), axis=0)
    usual = flat.std(axis=0)  # more than half of the values are one and the same
    spread = np.where(spread > 1e-9 * np.maximum(1.0, np.abs(centre)), spread, usual)
    return centre, np.where(spread > 1e-9 * np.maximum(1.0, np.abs(centre)), spread, 1.0)


def mixture_moments(
    values: npt.NDArray[np.floating], labels: npt.NDArray[np.integer], weights: npt.ArrayLike
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of a mixture of the stages in given shares.

    The mean is the weighted mean of the stages' means; the variance is the weighted mean of their variances
    plus the weighted squared distance of their means from it (the law of total variance), as in AccuSleep
    (Barger et al. 2019). Labels are the stages' places among the weights, which are relative to their sum.
    """
    share = np.asarray(weights, dtype=np.float64)
    share = share / share.sum()
    groups = [values[labels == stage].astype(np.float64) for stage in range(len(share))]
    means = np.stack([group.mean(axis=0) for group in groups])
    variances = np.stack([group.var(axis=0, ddof=1) for group in groups])
    centre = share @ means
    spread = np.sqrt(share @ variances + share @ (means - centre) ** 2)
    return centre, np.where(spread > 1e-9 * np.maximum(1.0, np.abs(centre)), spread, 1.0)


def _calibrated(
    values: Floats32,
    has_signal: Mask,
    scaling: Scaling,
    epochs: EpochGrid,
    calibration: Hypnogram,
) -> tuple[Floats, Floats]:
    """Return the moments of the mixture that labelled epochs make."""
    if calibration.epoch_seconds != epochs.epoch_seconds:
        raise InputError(
            f"calibration has epochs of {calibration.epoch_seconds:g} s, the features have "
            f"{epochs.epoch_seconds:g} s. Score some epochs of that length."
        )
    if calibration.n_epochs > epochs.n_epochs:
        raise InputError(
            f"calibration has {calibration.n_epochs} epochs, the recording {epochs.n_epochs}. Expected "
            "stages of this very recording, from its start."
        )
    stage_of = _stage_indices(calibration, tuple(scaling.weights))
    labels = np.full(epochs.n_epochs, -1)
    labels[: calibration.n_epochs] = np.append(stage_of, -1)[calibration.labels]
    labels[~has_signal] = -1
    for index, stage in enumerate(scaling.weights):
        n_found = int(np.count_nonzero(labels == index))
        if n_found < MIN_CALIBRATION_EPOCHS:
            raise InputError(
                f"calibration has {n_found} epochs of {stage} with a signal, expected at least "
                f"{MIN_CALIBRATION_EPOCHS} of each of {', '.join(scaling.weights)}. Score some more."
            )
    rows = labels >= 0
    n_frames = values.shape[1]
    flat = values[rows].reshape(-1, values.shape[2])
    return mixture_moments(flat, np.repeat(labels[rows], n_frames), list(scaling.weights.values()))


def _stage_indices(calibration: Hypnogram, stages: tuple[str, ...]) -> Ints:
    """Return the place of each of the calibration's stages among the mixture's; -1 where it has none."""
    scheme = calibration.scheme
    wanted = {canonical_name(stage) or stage: index for index, stage in enumerate(stages)}
    indices = np.array(
        [wanted.get(canonical_name(name) or name, -1) for name in scheme.names], dtype=np.int64
    )
    if (indices < 0).any() and set(wanted) == set(WNR3.names):
        try:
            merged = scheme.merge_map(WNR3)
        except InputError:
            return indices
        return np.array([wanted[WNR3.names[index]] for index in merged], dtype=np.int64)
    return indices

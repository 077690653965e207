"""Stage biases under which outputs show as much wake, NREM and REM as experts score. Chooses nothing.

Likelihood biases make single epochs probable; a decoder then still over- or underrates whole stages, because
it takes the most probable stage throughout, and its transitions favour the frequent ones. Here the biases are
those of the decoder: decode training nights, compare the totals, shift, and decode again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stageguard._profile_parts import Calibration
from stageguard.evidence import Floats
from stageguard.fitting.material import FitNight
from stageguard.fitting.scoring import decode_prepared, prepare
from stageguard.profile import Profile
from stageguard.stages import StageScheme

MOST_ROUNDS = 12
CLOSE = 0.02  # of the logarithm of a total: a night of 8 h is met within ten minutes, far below its error
FIRST_STEP = 0.7  # nats of bias per nat of a total: stages move together, a whole step overshoots
SMALLEST_STEP, LARGEST_STEP = 0.35, 3.0  # what later steps are kept within
BORROWED_EPOCHS = 50.0  # so that a stage never scored, or never shown, does not drive a bias to infinity
LARGEST_BIAS_NATS = 3.0


def totals_biases(
    nights: Sequence[FitNight], profile: Profile, bare: Profile, temperature: float
) -> tuple[float, ...]:
    """Return one bias per stage, the same for all of NREM; they sum to 0.

    `profile` decodes evidence that is calibrated already, `bare` is without a calibration.
    """
    group = _groups(profile.scheme)
    biases = np.zeros(len(group))
    step, before, moved = np.full(3, FIRST_STEP), np.zeros(3), np.zeros(3)
    for _ in range(MOST_ROUNDS):
        ready = prepare(nights, Calibration(temperature, tuple(biases.tolist())), bare)
        wanted, shown = _totals(nights, decode_prepared(profile, ready), group)
        short = np.log((wanted + BORROWED_EPOCHS) / (shown + BORROWED_EPOCHS))
        if np.abs(short).max() < CLOSE:
            break
        step = _secant(step, moved, before - short)
        moved, before = step * short, short
        biases = biases + moved[group]
        biases = np.clip(biases - biases.mean(), -LARGEST_BIAS_NATS, LARGEST_BIAS_NATS)
    return tuple((biases - biases.mean()).tolist())


def _secant(step: Floats, moved: Floats, gained: Floats) -> Floats:
    """Return how far to move for a missing nat, by what the last move gained; as before if unclear."""
    tells = np.abs(gained) > CLOSE / 4.0
    found = np.where(tells, moved / np.where(tells, gained, 1.0), step)
    return np.asarray(np.clip(found, SMALLEST_STEP, LARGEST_STEP))


def _groups(scheme: StageScheme) -> npt.NDArray[np.intp]:
    """Return 0 for wake, 1 for REM and 2 for whatever else sleep is divided into.

    The shares of N1, N2 and N3 are left to the stager: a weak one never shows N1, and no bias makes it.
    """
    places = {scheme.wake: 0, scheme.rem: 1}
    return np.array([places.get(name, 2) for name in scheme.names])


def _totals(
    nights: Sequence[FitNight], decoded: Sequence[npt.NDArray[np.int8]], group: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return epochs by group, as experts scored and as decoded, where both say something."""
    wanted, shown = np.zeros(3), np.zeros(3)
    for night, labels in zip(nights, decoded, strict=True):
        both = (night.truth >= 0) & (labels >= 0)
        wanted += np.bincount(group[night.truth[both]], minlength=3)
        shown += np.bincount(group[labels[both]], minlength=3)
    return wanted, shown

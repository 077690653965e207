"""From what a caller passes to nights ready to be decoded, and what had to be assumed about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Array, Floats, Labels, Mask
from stageguard.base.errors import Argument, InputError, Message, RowNumber
from stageguard.base.lazy import load
from stageguard.guard import kernels
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.evidence import (
    Night,
    calibration_of,
    check_pins,
    check_quality,
    check_segments,
    cut,
    features_of,
)
from stageguard.guard.options import GuardOptions
from stageguard.night.hypnodensity import (
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    softmax,
)
from stageguard.night.hypnogram import NO_PROBABILITIES, Hypnogram
from stageguard.night.night import ExportableStages
from stageguard.night.timing import lights_window
from stageguard.profile.night_stages import columns_of, in_profile_order, naming_profile_for
from stageguard.profile.profile import Profile

OneNight = Hypnodensity | Array

UNSAID_TRAINING = "how the stager was trained is not said: taken as class-balanced"

AROUND_THE_CLOCK_HOURS = 24.0  # a sleep period of this length holds several nights


def is_batch(nights: object) -> bool:
    """Whether the caller passed several nights: a list of matrices or densities, or one stacked array."""
    if type(nights) is np.ndarray:
        return nights.ndim == 3
    if isinstance(nights, list | tuple):
        return len(nights) == 0 or checks.n_dimensions(nights[0]) in (2, None)
    return hasattr(nights, "__array__") and checks.n_dimensions(nights) == 3


def night_of(density: Any, profile: Profile, options: GuardOptions) -> Night:
    """Return a night ready to be decoded: read, checked, and with its sleep period."""
    night = read_night(density, profile, options)
    check_night(night, profile)
    set_period(night, profile)
    return night


def read_night(density: Any, profile: Profile, options: GuardOptions) -> Night:
    """Return a night in the profile's stage order, not checked yet, with what was assumed."""
    assumed: list[str] = []
    if checks.names_columns(density):
        density = load("formats.read:density_for")(density, profile, options)
        options = replace(options, stages=None, epoch_seconds=None, logits=False, log=False)
        assumed += density.assumed
    if isinstance(density, Hypnodensity):
        if options.stages is not None or options.epoch_seconds is not None or options.logits or options.log:
            raise InputError(
                "stages, epoch_seconds, logits and log describe a bare array, but a Hypnodensity says all of "
                "it. Leave them out."
            )
        matrix = density.probabilities
        if density.scheme.names != profile.scheme.names:
            matrix = in_profile_order(matrix, density.scheme.names, profile, assumed)
        about = (density.start, density.source, density.offset_seconds, assumed)
        return Night(matrix, _UNKNOWN, density.epoch_seconds, options, *about)
    if isinstance(density, ExportableStages):
        if isinstance(density, Hypnogram):
            raise InputError(f"got a Hypnogram, which holds {NO_PROBABILITIES}")
        raise InputError(
            f"got a {type(density).__name__}, expected probabilities per epoch and stage. Pass its density."
        )
    names = profile.scheme.names if options.stages is None else checks.stage_names(options.stages)
    matrix = _as_probabilities(density, names, options, profile)
    columns, length = profile._once("assumed of arrays", _about_arrays, profile)
    if options.stages is None:
        assumed.append(columns)
    else:
        matrix = in_profile_order(matrix, names, profile, assumed)
    epoch_seconds = profile.epoch_seconds
    if options.epoch_seconds is None:
        assumed.append(length)
    else:
        epoch_seconds = checks.epoch_seconds(options.epoch_seconds)
    return Night(matrix, _UNKNOWN, epoch_seconds, options, assumed=assumed)


_UNKNOWN: Labels = np.empty(0, dtype=np.int8)  # until the night is checked


def _about_arrays(profile: Profile) -> tuple[str, str]:
    """Return what is assumed about the columns and about the epochs of a bare array."""
    return (
        f"columns are {', '.join(profile.scheme.names)}: the profile's order",
        f"epochs last {profile.epoch_seconds:g} s: the profile's epoch length",
    )


def _as_probabilities(night: Any, names: Sequence[str], options: GuardOptions, profile: Profile) -> Floats:
    if options.logits and options.log:
        logits, log = Argument("logits", True), Argument("log", True)
        raise InputError(
            Message(logits, " and ", log, " exclude each other. Log-probabilities are ", log, ".")
        )
    is_plain = not (options.logits or options.log)
    with naming_profile_for(columns_of(night), profile):
        matrix = as_float_matrix(
            night, len(names), names, what="probabilities" if is_plain else options.scale
        )
    if is_plain:
        return matrix
    if options.logits:
        return softmax(matrix)
    if np.nanmax(matrix, initial=-np.inf) > 1e-3:
        row = int(np.nanargmax(np.nanmax(matrix, axis=1)))
        raise InputError(
            Message(
                *("log-probabilities: ", RowNumber(row)),
                f" holds {np.nanmax(matrix[row]):.6g}, expected values up to 0. Logits are ",
                Argument("logits", True),
                ".",
            )
        )
    return np.asarray(np.exp(matrix))


def assumptions(profile: Profile, night: Night) -> tuple[str, ...]:
    """Return what has to be assumed about a night, its cohort and its stager."""
    assumed = list(night.assumed)
    rule, cohort = profile.strength, night.options.cohort
    if rule is not None and rule.asks_training and night.options.trained is None:
        assumed.append(UNSAID_TRAINING)
    if cohort is not None and profile.caution_for(cohort) is None and profile.cohort is None:
        listed = ", ".join(caution.cohort for caution in profile.not_for if caution.cohort) or "no cohort"
        assumed.append(f"no caution is known for {cohort!r}; profile {profile.name} has one for {listed}")
    if profile.cohort is not None:
        assumed += _about_cohort(profile, cohort)
    if not profile.is_by(stager := night.options.stager):
        who = (
            f"stager {stager!r} is not"
            if stager is not None
            else "the stager is not said: taken as another than"
        )
        assumed.append(f"{who} {profile.stager!r}: {_other_stager_steps(profile)}")
    if night.epoch_seconds != profile.epoch_seconds:
        assumed.append(_conversion(profile, night.epoch_seconds))
    return tuple(assumed)


def _about_cohort(profile: Profile, cohort: str | None) -> list[str]:
    """Return what a profile fitted on one cohort assumes about this cohort."""
    fitted_on = f"{profile.cohort!r}, which the profile was fitted on"
    if profile.is_of(cohort):
        return []
    steps = "it steps aside" if profile.other_cohorts == "argmax" else "stage shares and biases are left out"
    if cohort is None:
        return [f"the cohort is not said: taken as another than {fitted_on}: {steps}"]
    return [f"cohort {cohort!r} is not {fitted_on}: {steps}"]


def is_of_other_stager(profile: Profile, night: Night) -> bool:
    """Whether a night is decoded as one of another stager; a named stager overrules the fingerprint."""
    named, theirs = night.options.stager, profile.stager or "the stager"
    if not profile.is_by(named):
        return True
    if profile.fingerprint is None:
        return False
    features = features_of(night, night.epoch_seconds / profile.epoch_seconds)
    if not profile.fingerprint.is_foreign(features):
        return False
    unlike = (
        f"{' and '.join(profile.fingerprint.outside(features))} of the night are outside those of {theirs} "
        f"on {profile.fingerprint.n_nights} nights"
    )
    if named is not None and profile.stager is not None:
        night.assumed.append(f"{unlike}, but it is said to be its night, and decoded so")
        return False
    night.assumed.append(f"{unlike}: {_other_stager_steps(profile)}")
    return True


def _other_stager_steps(profile: Profile) -> str:
    if profile.other_cohorts == "argmax":
        return "it steps aside"
    return "decoded by the base rule, without what belongs to that stager"


def _conversion(profile: Profile, epoch_seconds: float) -> str:
    minimum = minimum_epochs(profile, epoch_seconds)
    bouts = [
        f"{name} {profile.min_bout_seconds[name]:g} s = {minimum[i]} epochs"
        for i, name in enumerate(profile.scheme.names)
        if name in profile.min_bout_seconds
    ]
    shown = f"; minimum bouts: {', '.join(bouts)}" if bouts else ""
    return f"transitions for {profile.epoch_seconds:g} s epochs are rescaled to {epoch_seconds:g} s{shown}"


def check_night(night: Night, profile: Profile) -> None:
    """Check a night's numbers and options, find the stager's own choice, and cut it at segments and gaps."""
    night.probabilities = matrix = _unshared(night.probabilities)
    ones = np.ones(profile.scheme.n_stages)
    night.argmax, is_bad = kernels.active.argmax(matrix, ones)
    night.calibration = calibration_of(profile)
    night.spans = ((0, len(matrix)),)
    if not is_bad and not night.options.is_by_epoch:
        return  # most nights: nothing to cut, nothing to fill
    n_epochs, options = len(matrix), night.options
    night.quality = check_quality(options.quality, n_epochs)
    if options.pins is not None:
        night.pins = check_pins(options.pins, profile.scheme, n_epochs)
    segments = check_segments(options.segments, n_epochs)
    if not is_bad and len(segments) == 1:
        return
    # the kernel says only that some row is wrong: rows of NaN are gaps, all others are refused
    missing = _missing_rows(matrix, profile) if is_bad else np.zeros(n_epochs, dtype=bool)
    night.argmax = np.where(missing, np.int8(-1), night.argmax)
    missing[list(night.pins)] = False  # a pinned epoch is evidence enough
    night.spans, filled = cut(missing, segments, night.epoch_seconds)
    night.segments = segments[1:]
    if filled.any() or (np.isnan(matrix[list(night.pins), 0]).any() if night.pins else False):
        night.filled = filled


def _unshared(matrix: Floats) -> Floats:
    """Return the matrix, or a copy if its memory may be written to: no result changes when an array does."""
    base = matrix if matrix.flags.owndata else matrix.base
    # a read-only view is no promise: whoever owns the memory may write to it
    is_frozen = type(base) is np.ndarray and base.flags.owndata and not base.flags.writeable
    if is_frozen and not matrix.flags.writeable:
        return matrix
    return matrix.copy() if matrix.flags.c_contiguous else np.ascontiguousarray(matrix)


def _missing_rows(matrix: Floats, profile: Profile) -> Mask:
    """Return which rows are NaN throughout; refuse a matrix that is wrong in any other way."""
    check_probabilities(matrix, profile.scheme.names)
    missing: Mask = np.isnan(matrix[:, 0])
    if missing.all():
        raise InputError(
            f"probabilities: all {len(matrix)} rows are NaN, expected evidence for at least one epoch. "
            "Check which file or columns were read."
        )
    return missing


def set_period(night: Night, profile: Profile) -> None:
    """Set the sleep period within lights off and lights on, and where the clock may run.

    The period is that of the stager's own choice, before any rule, so that whatever lies around the night
    changes nothing in it. The profile's clock does not run in a recording around the clock, unless lights
    off says when the night begins.
    """
    first, stop = _lights(night, profile)
    night.lights_off = first
    if profile.measures_sleep_period:
        night.lights_on = None if night.options.lights_on is None else stop
        night.period = profile.period_in(night.own_choice(), night.epoch_seconds, first, stop)
    if profile.clock is None or night.options.lights_off is not None:
        return
    begin, end = night.measured
    hours = (end - begin) * night.epoch_seconds / 3600.0
    if hours >= AROUND_THE_CLOCK_HOURS:
        night.has_clock = False
        what = "sleep period" if profile.measures_sleep_period else "recording"
        night.assumed.append(
            f"the profile's clock does not run in a {what} of {hours:.1f} h, where no sleep is known to be "
            "the night's: lights_off says when it begins"
        )


def _lights(night: Night, profile: Profile) -> tuple[int, int]:
    """Return the epochs between lights off and lights on; the whole recording where they are not night."""
    if not night.options.has_lights:
        return 0, len(night.argmax)
    described = (night.start, None, (), night.offset_seconds)
    recorded = Hypnogram.trusted(night.argmax.view(), profile.scheme, night.epoch_seconds, *described)
    return lights_window(recorded, night.options.lights_off, night.options.lights_on)

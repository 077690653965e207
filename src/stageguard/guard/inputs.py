"""From what a caller passes to nights ready to be decoded, and what had to be assumed about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Array, Floats, Labels, Mask
from stageguard.errors import (
    Argument,
    EpochNumber,
    InputError,
    Message,
    PinError,
    RowNumber,
    did_you_mean,
    message_of,
)
from stageguard.guard import kernels
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.evidence import Night, Spans, best_stages
from stageguard.guard.options import GuardOptions, Segments
from stageguard.lazy import load
from stageguard.night.hypnodensity import (
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    softmax,
)
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.night import ExportableStages
from stageguard.night.period import period_of, runs
from stageguard.night.stages import StageScheme
from stageguard.night.timing import lights_window
from stageguard.profile.known_stagers import KNOWN_STAGERS
from stageguard.profile.night_stages import density_of_labels, in_profile_order, profile_words
from stageguard.profile.profile import Profile

OneNight = Hypnodensity | Hypnogram | Array

UNSAID_TRAINING = "how the stager was trained is not said: taken as class-balanced"

LABELS_ALONE = {
    "typical": "labels without probabilities: typical confusions assumed",
    "own": "labels without probabilities: the stager's confusions on scored nights assumed",
}

AROUND_THE_CLOCK_HOURS = 24.0  # a sleep period of this length holds several nights
LONGEST_BRIDGE_SECONDS = 300.0  # without evidence, which neighbours decide; longer is a gap


def is_batch(nights: object) -> bool:
    """Whether the caller passed several nights: a list of matrices or densities, or one stacked array."""
    if type(nights) is np.ndarray:
        return nights.ndim == 3
    if isinstance(nights, list | tuple):
        return len(nights) == 0 or (nights[0] is not None and checks.n_dimensions(nights[0]) in (2, None))
    return hasattr(nights, "__array__") and checks.n_dimensions(nights) == 3


def is_stage_names(night: object) -> bool:
    """Whether the caller passed the name of a stage per epoch."""
    if getattr(night, "ndim", None) == 1 and hasattr(night, "tolist"):  # an array or a series
        night = night.tolist()
    if not isinstance(night, list | tuple) or not any(isinstance(name, str) for name in night):
        return False
    return all(isinstance(name, str | None) for name in night)  # None is an epoch that is not scored


def night_of(density: Any, profile: Profile, options: GuardOptions) -> Night:
    """Return a night ready to be decoded: read, checked, cut at segments and gaps, with its sleep period."""
    night = read_night(density, profile, options)
    night.profile = used = profile.for_nights_of(options.stager, options.cohort)
    night.probabilities = matrix = _unshared(night.probabilities)
    night.argmax, is_bad = kernels.active.argmax(matrix, np.ones(profile.scheme.n_stages))
    night.spans = ((0, len(matrix)),)
    is_by_epoch = options.quality is not None or options.pins is not None or options.segments is not None
    if is_bad or is_by_epoch:  # on most nights there is nothing to cut, nothing to fill
        _cut_and_fill(night, profile, is_bad=is_bad)
    caution = None if options.cohort is None else used.caution_for(options.cohort)
    night.has_clock = caution is None or caution.clock
    _calibrate(night, used)
    if not night.has_clock:
        night.assumed.append(f"the clock does not run for {options.cohort!r}")
    return night


def _cut_and_fill(night: Night, profile: Profile, *, is_bad: bool) -> None:
    """Check quality, pins and segments of a night, cut it at segments and long gaps, and bridge short gaps.

    The kernel says only that some row is wrong: rows of NaN are gaps, all others are refused.
    """
    matrix, options, n_epochs = night.probabilities, night.options, len(night.probabilities)
    night.quality = check_quality(options.quality, n_epochs)
    if options.pins is not None:
        night.pins = check_pins(options.pins, profile.scheme, n_epochs)
    segments = check_segments(options.segments, n_epochs)
    if not is_bad and len(segments) == 1:
        return
    missing = _missing_rows(matrix, profile) if is_bad else np.zeros(n_epochs, dtype=bool)
    night.argmax = np.where(missing, np.int8(-1), night.argmax)
    missing[list(night.pins)] = False  # a pinned epoch is evidence enough
    night.spans, filled = cut(missing, segments, night.epoch_seconds)
    night.segments, night.is_whole = segments[1:], False
    if filled.any() or (np.isnan(matrix[list(night.pins), 0]).any() if night.pins else False):
        night.filled = filled


def read_night(density: Any, profile: Profile, options: GuardOptions) -> Night:
    """Return a night in the profile's stage order, not checked yet, with what was assumed."""
    assumed: list[str] = []
    if checks.names_columns(density) or is_stage_names(density):
        density = load("formats.read:night_for")(density, profile, options)
        options = replace(options, stages=None, epoch_seconds=None, logits=False, log=False)
        assumed += density.assumed
    if isinstance(density, Hypnogram):
        density = density_of_labels(density, profile.for_nights_of(options.stager, options.cohort))
    if isinstance(density, Hypnodensity):
        if options.stages is not None or options.epoch_seconds is not None or options.logits or options.log:
            raise InputError(
                "stages, epoch_seconds, logits and log describe a bare array, but a Hypnodensity says all of "
                "it. Leave them out."
            )
        matrix = density.probabilities
        if density.scheme.names != profile.scheme.names:
            matrix = in_profile_order(matrix, density.scheme.names, profile, assumed)
        if density.from_labels is not None:
            assumed.append(LABELS_ALONE[density.from_labels])
        known = KNOWN_STAGERS.get(density.stager or "")
        if known is not None and options.trained is None:
            options = replace(options, trained=known.trained)
        about = (density.start, density.source, density.offset_seconds, assumed, density.from_labels)
        return Night(
            profile, matrix, _UNKNOWN, _UNKNOWN, density.epoch_seconds, options, *about, stager=density.stager
        )
    if isinstance(density, ExportableStages):
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
    return Night(profile, matrix, _UNKNOWN, _UNKNOWN, epoch_seconds, options, assumed=assumed)


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
    what = options.scale if options.logits or options.log else "probabilities"
    try:
        matrix = as_float_matrix(night, len(names), names, what=what)
    except InputError as error:
        shape: tuple[int, ...] = getattr(night, "shape", ())
        n_columns = shape[1] if len(shape) == 2 else 0
        raise InputError(message_of(error) + profile_words(n_columns, profile)) from None
    if options.logits:
        return softmax(matrix)
    if not options.log:
        return matrix
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
    rule, cohort, trained = profile.strength, night.options.cohort, night.options.trained
    if rule is not None and rule.asks_training and night.from_labels is None:
        known = KNOWN_STAGERS.get(night.stager or "")
        if trained is None:
            assumed.append(UNSAID_TRAINING)
        elif known is not None and known.trained == trained:
            assumed.append(f"{known.name} was trained on {trained} class frequencies: {known.trained_source}")
    if cohort is not None and profile.caution_for(cohort) is None and profile.cohort is None:
        listed = ", ".join(caution.cohort for caution in profile.not_for if caution.cohort) or "no cohort"
        assumed.append(f"no caution is known for {cohort!r}; profile {profile.name} has one for {listed}")
    was_repaired = profile.shares is not None and profile.shares.repair is not None
    if was_repaired and cohort is not None and profile.caution_for(cohort) is not None:
        assumed.append(f"the repair of stage shares is off for {cohort!r}")
    if not profile.is_for(stager := night.options.stager, cohort):
        assumed.append(_about_foreign(profile, stager, cohort))
    if night.epoch_seconds != profile.epoch_seconds:
        assumed.append(_conversion(profile, night.epoch_seconds))
    return tuple(assumed)


def _about_foreign(profile: Profile, stager: str | None, cohort: str | None) -> str:
    """Say whose the profile is, whose the night is, and how it is decoded then."""
    named = (("stager", profile.stager, stager), ("cohort", profile.cohort, cohort))
    given = [(what, own, "not named" if name is None else repr(name)) for what, own, name in named if own]
    apart = [f"the profile is for {what} {own!r}, the night's is {name}" for what, own, name in given]
    done = "without what it learned there" if profile.base is None else f"by its base {profile.base.name!r}"
    return f"{'; '.join(apart)}: decoded {done}"


def _conversion(profile: Profile, epoch_seconds: float) -> str:
    minimum = minimum_epochs(profile, epoch_seconds)
    bouts = [
        f"{name} {profile.min_bout_seconds[name]:g} s = {minimum[i]} epochs"
        for i, name in enumerate(profile.scheme.names)
        if name in profile.min_bout_seconds
    ]
    shown = f"; minimum bouts: {', '.join(bouts)}" if bouts else ""
    return f"transitions for {profile.epoch_seconds:g} s epochs are rescaled to {epoch_seconds:g} s{shown}"


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


def _calibrate(night: Night, profile: Profile) -> None:
    """Set the stager's own choice after a profile's calibration, its sleep period, and where the clock runs.

    The period lies within lights off and lights on. It is that of the stager's own choice, before any rule,
    so that whatever lies around the night changes nothing in it. The profile's clock does not run in a
    recording around the clock, unless lights off says when the night begins.
    """
    calibration, options = profile.calibration, night.options
    night.calibration, night._base, night.own = None, None, night.argmax
    if calibration.temperature != 1.0 or calibration.biases:
        night.calibration = calibration
        night.own = best_stages(night.probabilities, calibration, None)
    first, stop = 0, len(night.argmax)
    night.period = first, stop
    if options.lights_off is not None or options.lights_on is not None:
        described = (night.start, None, (), night.offset_seconds)
        recorded = Hypnogram.trusted(night.argmax.view(), profile.scheme, night.epoch_seconds, *described)
        first, stop = lights_window(recorded, options.lights_off, options.lights_on)
    night.lights_off = first
    is_asleep = profile.measures_sleep_period
    if is_asleep:
        night.lights_on = None if options.lights_on is None else stop
        night.period = period_of(night.own, profile.scheme.wake_index, night.epoch_seconds, first, stop)
    if profile.clock is None or not night.has_clock or options.lights_off is not None:
        return
    begin, end = night.period
    hours = (end - begin) * night.epoch_seconds / 3600.0
    if hours >= AROUND_THE_CLOCK_HOURS:
        night.has_clock = False
        what = "sleep period" if is_asleep else "recording"
        night.assumed.append(
            f"the profile's clock does not run in a {what} of {hours:.1f} h, where no sleep is known to be "
            "the night's: lights_off says when it begins"
        )


def cut(missing: Mask, segments: Sequence[int], epoch_seconds: float) -> tuple[Spans, Mask]:
    """Return the stretches to decode and the missing epochs within them.

    Runs of missing epochs up to five minutes are bridged, at the ends too; longer ones are gaps. A
    stretch with no evidence at all is a gap however short it is.
    """
    spans: list[tuple[int, int]] = []
    filled = np.zeros(len(missing), dtype=bool)
    bounds = [*segments, len(missing)]
    for begin, end in pairwise(bounds):
        gap = np.zeros(end - begin, dtype=bool)
        for start, stop in runs(missing[begin:end]):
            gap[start:stop] = (stop - start) * epoch_seconds > LONGEST_BRIDGE_SECONDS + 1e-9
        for start, stop in runs(~gap):
            if not missing[begin + start : begin + stop].all():
                spans.append((begin + start, begin + stop))
                filled[begin + start : begin + stop] = missing[begin + start : begin + stop]
    return tuple(spans), filled


def check_segments(segments: Segments | None, n_epochs: int) -> tuple[int, ...]:
    """Return the first epoch of every segment, 0 included."""
    if segments is None:
        return (0,)
    starts = np.asarray(checks.unmasked(checks.array_of(segments, "segments", "read_density"), np.nan))
    if starts.ndim != 1 or (starts.size and starts.dtype.kind not in "iu"):
        raise InputError(
            f"segments are {checks.shown(segments)}, expected a list of first epochs such as [0, 480]."
        )
    starts = starts.astype(np.int64)
    if starts.size and (starts[0] < 0 or starts[-1] >= n_epochs or np.any(np.diff(starts) <= 0)):
        raise InputError(
            f"segments are {starts.tolist()}, expected increasing first epochs from 0 to {n_epochs - 1}."
        )
    return tuple(sorted({0, *starts.tolist()}))


def check_quality(quality: npt.ArrayLike | None, n_epochs: int) -> Floats | None:
    """Return beta per epoch (0 clean, 1 lost), or None when all of it is clean."""
    if quality is None:
        return None
    checks.refuse_unordered(quality, "quality values")
    try:
        given = checks.unmasked(checks.array_of(quality, "quality values", "signal_quality"), np.nan)
        beta = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "quality holds no numbers, expected one value from 0 (clean) to 1 (lost) per epoch."
        ) from None
    if beta.shape != (n_epochs,):
        raise InputError(f"quality has shape {beta.shape}, expected one value per epoch: ({n_epochs},).")
    outside = ~((beta >= 0.0) & (beta <= 1.0))
    if outside.any():
        epoch = int(outside.argmax())
        raise InputError(
            Message(
                *(f"quality is {beta[epoch]:g} at epoch ", EpochNumber(epoch), ", expected 0 (clean) to 1 "),
                "(lost). Give 1 where the signal is missing.",
            )
        )
    if np.all(beta == 1.0):
        raise InputError(
            "quality is 1 (lost) at every epoch, expected evidence for at least one. "
            "0 is clean and 1 is lost: is it the other way round?"
        )
    return beta if beta.any() else None


def check_pins(pins: Mapping[int, str | int], scheme: StageScheme, n_epochs: int) -> dict[int, int]:
    """Return pinned stages by epoch, in order of time."""
    checked: dict[int, int] = {}
    if not isinstance(pins, Mapping):
        raise PinError(
            f"pins is {checks.shown(pins)}, expected epochs and their stages, such as {{120: 'R'}}."
        )
    for epoch, stage in pins.items():
        if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer):
            raise PinError(f"pin {epoch!r}: expected the index of an epoch, a whole number from 0.")
        if not 0 <= epoch < n_epochs:
            bounds = EpochNumber(0), " to ", EpochNumber(n_epochs - 1)
            raise PinError(
                Message("pin at epoch ", EpochNumber(int(epoch)), " is out of range, expected ", *bounds, ".")
            )
        checked[int(epoch)] = _stage_index(stage, scheme, int(epoch))
    return dict(sorted(checked.items()))


def _stage_index(stage: str | int, scheme: StageScheme, epoch: int) -> int:
    if isinstance(stage, int | np.integer) and not isinstance(stage, bool):
        if 0 <= stage < scheme.n_stages:
            return int(stage)
        wanted = f" is stage {stage}, expected 0 to {scheme.n_stages - 1}."
        raise PinError(Message("pin at epoch ", EpochNumber(epoch), wanted))
    try:
        return scheme.index(stage)  # type: ignore[arg-type]  # index says what it expected
    except InputError:
        known, hint = ", ".join(scheme.names), did_you_mean(str(stage), scheme.names)
        wanted = f" is {stage!r}, expected one of {known}.{hint}"
        raise PinError(Message("pin at epoch ", EpochNumber(epoch), wanted)) from None

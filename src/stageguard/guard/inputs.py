"""The input of a call: options, nights ready to solve, and what had to be assumed about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import NAN, Array, Floats, Mask
from stageguard.base.errors import Argument, InputError, Message, RowNumber, StageGuardError, message_of
from stageguard.base.lazy import load
from stageguard.guard import kernels as kernels_module
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.evidence import (
    Night,
    apart,
    calibration_of,
    check_pins,
    check_quality,
    check_segments,
    cut,
    features_of,
    rooms_for,
)
from stageguard.guard.solver import Path, Solver, solver_for
from stageguard.night.hypnodensity import (
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    softmax,
)
from stageguard.night.hypnogram import NO_PROBABILITIES, Hypnogram
from stageguard.night.moments import Moment, lights_window
from stageguard.night.night import ExportableStages
from stageguard.profile.night_stages import columns_of, in_profile_order, naming_profile_for
from stageguard.profile.profile import Profile

Training = Literal["natural", "balanced"]
Pins = Mapping[int, str | int]
OneNight = Hypnodensity | Array

UNSAID_TRAINING = "how the stager was trained is not said: taken as class-balanced"

AROUND_THE_CLOCK_HOURS = 24.0  # a sleep period of this length holds several nights


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """The options of `decode`, `posterior` and `sample`; `stageguard.decode` describes each.

    For a batch, quality, pins, segments, lights_off and lights_on are lists with one entry per night.
    """

    stages: Sequence[str] | None = None
    epoch_seconds: float | None = None
    quality: Any = None
    pins: Any = None
    segments: Any = None
    lights_off: Any = None
    lights_on: Any = None
    cohort: str | None = None
    stager: str | None = None
    trained: Training | None = None
    strength: float | Literal["off"] | None = None
    logits: bool = False
    log: bool = False

    def __post_init__(self) -> None:
        """Check what is true or false."""
        for name in ("logits", "log"):
            object.__setattr__(self, name, checks.flag(getattr(self, name), name))

    @property
    def scale(self) -> str:
        """What the numbers are: probabilities, logits or log-probabilities."""
        if self.logits:
            return "logits"
        return "log-probabilities" if self.log else "probabilities"

    @property
    def says_nothing_by_epoch(self) -> bool:
        """Whether no option is about single epochs."""
        return self.quality is None and self.pins is None and self.segments is None

    @property
    def has_lights(self) -> bool:
        """Whether lights off or lights on is given."""
        return self.lights_off is not None or self.lights_on is not None

    def of_each_night(self, n_nights: int) -> list[GuardOptions]:
        """Return the options of every night of a batch."""
        names = ("quality", "pins", "segments", "lights_off", "lights_on")
        if self.says_nothing_by_epoch and not self.has_lights:
            return [self] * n_nights
        values = [per_night(getattr(self, name), n_nights, name) for name in names]
        return [replace(self, **dict(zip(names, each, strict=True))) for each in zip(*values, strict=True)]


NOTHING_SAID = GuardOptions()


def takes_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take the fields of `GuardOptions` as keywords, listed by `help`, and get one object."""

    @wraps(verb)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not keywords:
            return verb(*arguments, options=NOTHING_SAID)
        values = {option.name: keywords.pop(option.name) for option in options if option.name in keywords}
        return verb(*arguments, options=GuardOptions(**values), **keywords)

    options = fields(GuardOptions)
    plain = signature(verb)
    listed = [parameter for parameter in plain.parameters.values() if parameter.name != "options"]
    listed += [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        for option in options
    ]
    call.__signature__ = plain.replace(parameters=listed)  # type: ignore[attr-defined]
    return call


class _Keywords(TypedDict, total=False):
    stages: Sequence[str] | None
    epoch_seconds: float | None
    logits: bool
    log: bool
    cohort: str | None
    stager: str | None
    trained: Training | None
    strength: float | Literal["off"] | None


class NightKeywords(_Keywords, total=False):
    """The options of one night, for type checkers."""

    quality: npt.ArrayLike | None
    pins: Pins | None
    segments: Sequence[int] | None
    lights_off: Moment | None
    lights_on: Moment | None


class BatchKeywords(_Keywords, total=False):
    """The options of several nights, for type checkers."""

    quality: Sequence[npt.ArrayLike | None] | None
    pins: Sequence[Pins | None] | None
    segments: Sequence[Sequence[int] | None] | None
    lights_off: Sequence[Moment | None] | None
    lights_on: Sequence[Moment | None] | None


@dataclass(slots=True)
class NightInput:
    """One night as the caller passed it."""

    matrix: Floats  # (n_epochs, n_stages) in the profile's order
    epoch_seconds: float
    options: GuardOptions = NOTHING_SAID
    _: KW_ONLY
    start: datetime | None = None
    source: str | None = None
    offset_seconds: float = 0.0  # from the beginning of the recording to the first epoch
    assumed: list[str] = field(default_factory=list)


def is_batch(nights: object) -> bool:
    """Whether the caller passed several nights: a list of matrices or densities, or one stacked array."""
    if type(nights) is np.ndarray:
        return nights.ndim == 3
    if isinstance(nights, list | tuple):
        return len(nights) == 0 or checks.n_dimensions(nights[0]) in (2, None)
    return hasattr(nights, "__array__") and checks.n_dimensions(nights) == 3


def per_night(values: Any, n_nights: int, what: str) -> list[Any]:
    """Return an option of a batch as a list with one value per night."""
    if values is None:
        return [None] * n_nights
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not is_list or len(values) != n_nights:
        got = f"{len(values)} of them" if is_list else checks.shown(values)
        raise InputError(
            f"{what}: got {got} for {n_nights} nights, expected a list with one entry (or None) per night."
        )
    return list(values)


def read_night(night: Any, profile: Profile, options: GuardOptions) -> NightInput:
    """Return a night's matrix in the profile's stage order, not checked yet, with what was assumed."""
    assumed: list[str] = []
    if checks.names_columns(night):
        night = load("formats.read:density_for")(night, profile, options)
        options = replace(options, stages=None, epoch_seconds=None, logits=False, log=False)
        assumed += night.assumed
    if type(night) is np.ndarray and options.stages is None and options.epoch_seconds is None:
        matrix = _as_probabilities(night, profile.scheme.names, options, profile)
        assumed += profile._once("assumed of arrays", _about_arrays, profile)
        return NightInput(matrix, profile.epoch_seconds, options, assumed=assumed)
    if isinstance(night, Hypnodensity):
        if options.stages is not None or options.epoch_seconds is not None or options.logits or options.log:
            raise InputError(
                "stages, epoch_seconds, logits and log describe a bare array, but a Hypnodensity says all of "
                "it. Leave them out."
            )
        matrix = night.probabilities
        if night.scheme.names != profile.scheme.names:
            matrix = in_profile_order(matrix, night.scheme.names, profile, assumed)
        return NightInput(
            matrix,
            night.epoch_seconds,
            options,
            start=night.start,
            source=night.source,
            offset_seconds=night.offset_seconds,
            assumed=assumed,
        )
    if isinstance(night, ExportableStages):
        if isinstance(night, Hypnogram):
            raise InputError(f"got a Hypnogram, which holds {NO_PROBABILITIES}")
        raise InputError(
            f"got a {type(night).__name__}, expected probabilities per epoch and stage. Pass its density."
        )
    names = profile.scheme.names if options.stages is None else checks.stage_names(options.stages)
    matrix = _as_probabilities(night, names, options, profile)
    columns, length = _about_arrays(profile)
    if options.stages is None:
        assumed.append(columns)
    else:
        matrix = in_profile_order(matrix, names, profile, assumed)
    epoch_seconds = profile.epoch_seconds
    if options.epoch_seconds is None:
        assumed.append(length)
    else:
        epoch_seconds = checks.epoch_seconds(options.epoch_seconds)
    return NightInput(matrix, epoch_seconds, options, assumed=assumed)


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
        return apart(matrix)
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


def assumptions(profile: Profile, given: NightInput) -> tuple[str, ...]:
    """Return what has to be assumed about a night, its cohort and its stager."""
    assumed = list(given.assumed)
    rule, cohort = profile.strength, given.options.cohort
    if rule is not None and rule.lifts and rule.lift is None and given.options.trained is None:
        assumed.append(UNSAID_TRAINING)
    if cohort is not None and profile.caution_for(cohort) is None and profile.cohort is None:
        listed = ", ".join(caution.cohort for caution in profile.not_for if caution.cohort) or "no cohort"
        assumed.append(f"no caution is known for {cohort!r}; profile {profile.name} has one for {listed}")
    if profile.cohort is not None:
        assumed += _about_cohort(profile, cohort)
    if not profile.is_by(stager := given.options.stager):
        who = (
            f"stager {stager!r} is not"
            if stager is not None
            else "the stager is not said: taken as another than"
        )
        assumed.append(f"{who} {profile.stager!r}: {_other_stager_steps(profile)}")
    if given.epoch_seconds != profile.epoch_seconds:
        assumed.append(_conversion(profile, given.epoch_seconds))
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


def is_of_other_stager(profile: Profile, given: NightInput, night: Night) -> bool:
    """Whether a night is decoded as one of another stager; a named stager overrules the fingerprint."""
    named, theirs = given.options.stager, profile.stager or "the stager"
    if not profile.is_by(named):
        return True
    if profile.fingerprint is None:
        return False
    features = features_of(night, given.epoch_seconds / profile.epoch_seconds)
    if not profile.fingerprint.is_foreign(features):
        return False
    unlike = (
        f"{' and '.join(profile.fingerprint.outside(features))} of the night are outside those of {theirs} "
        f"on {profile.fingerprint.n_nights} nights"
    )
    if named is not None and profile.stager is not None:
        given.assumed.append(f"{unlike}, but it is said to be its night, and decoded so")
        return False
    given.assumed.append(f"{unlike}: {_other_stager_steps(profile)}")
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


def check_nights(
    given: Sequence[NightInput], profile: Profile, *, is_batch: bool, wants_paths: bool = True
) -> list[Night]:
    """Check every night's numbers in one pass; return nights ready to solve, already decoded if possible."""
    rooms: list[Floats | None] = []
    if not is_batch and given[0].matrix.flags.writeable:  # no result may change when the caller's array does
        given[0].matrix = given[0].matrix.copy()
    pieces = [night.matrix for night in given]
    if is_batch:
        rooms = rooms_for(pieces)
    threads = kernels_module.threads_for(len(pieces), sum(map(len, pieces))) if is_batch else 1
    solver = _opener(given, profile) if wants_paths else None
    if solver is None:
        weight = kernels_module.no_weight(profile.scheme.n_stages)
        argmax, *per_piece = kernels_module.active.argmax(pieces, weight, threads, rooms=rooms)
        paths, outcomes = argmax, list(zip(*per_piece, strict=True))
    else:
        argmax, paths, outcomes = solver.check_and_solve(pieces, threads, rooms)
    for request, room in zip(given, rooms, strict=False):
        if room is not None:
            request.matrix = room
    nights, begin, calibration = [], 0, calibration_of(profile)
    for i, (request, (_, is_bad, *opened)) in enumerate(zip(given, outcomes, strict=True)):
        end = begin + len(request.matrix)
        night = Night(request.matrix, argmax[begin:end], ((0, end - begin),), calibration)
        try:
            if is_bad or (solver is None and not request.options.says_nothing_by_epoch):
                _describe(night, request, profile, is_bad=is_bad)
            elif opened and opened[0] > -np.inf:
                score, n_path_switches, n_changed = opened
                fi = n_path_switches / (end - begin - 1) if end - begin > 1 else NAN
                night.opening = Path(paths[begin:end], score, fi, n_changed)
        except StageGuardError as error:
            message = message_of(error)
            raise type(error)(f"night {i}: " + message if is_batch else message) from None
        nights.append(night)
        begin = end
    return nights


def _opener(given: Sequence[NightInput], profile: Profile) -> Solver | None:
    """Return the solver that can decode the nights while they are checked, or None."""
    if profile.transition_weight is None or profile.clock is not None:
        return None
    seconds = given[0].epoch_seconds
    for night in given:
        if night.epoch_seconds != seconds or not night.options.says_nothing_by_epoch:
            return None
    solver = solver_for(profile, seconds)
    return solver if solver.opening else None


def _describe(night: Night, given: NightInput, profile: Profile, *, is_bad: bool) -> None:
    """Add quality and pins to a night, and cut it at segments and gaps."""
    n_epochs, options = len(night.argmax), given.options
    night.quality = check_quality(options.quality, n_epochs)
    if options.pins is not None:
        night.pins = check_pins(options.pins, profile.scheme, n_epochs)
    segments = check_segments(options.segments, n_epochs)
    if not is_bad and len(segments) == 1:
        return
    missing = _missing_rows(given.matrix, profile) if is_bad else np.zeros(n_epochs, dtype=bool)
    night.argmax = np.where(missing, np.int8(-1), night.argmax)
    missing[list(night.pins)] = False  # a pinned epoch is evidence enough
    night.spans, filled = cut(missing, segments, given.epoch_seconds)
    night.segments = segments[1:]
    if filled.any() or (np.isnan(given.matrix[list(night.pins), 0]).any() if night.pins else False):
        night.filled = filled


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


def set_period(given: NightInput, profile: Profile, night: Night) -> None:
    """Set the sleep period within lights off and lights on, and where the clock may run.

    The period is that of the stager's own choice, before any rule, so that whatever lies around the night
    changes nothing in it. The profile's clock does not run in a recording around the clock, unless lights
    off says when the night begins.
    """
    first, stop = _lights(given, profile, night)
    night.lights_off = first
    if profile.measures_sleep_period:
        night.lights_on = None if given.options.lights_on is None else stop
        night.period = profile.period_in(night.own_choice(), given.epoch_seconds, first, stop)
    if profile.clock is None or given.options.lights_off is not None:
        return
    begin, end = night.measured
    hours = (end - begin) * given.epoch_seconds / 3600.0
    if hours >= AROUND_THE_CLOCK_HOURS:
        night.has_clock = False
        what = "sleep period" if profile.measures_sleep_period else "recording"
        given.assumed.append(
            f"the profile's clock does not run in a {what} of {hours:.1f} h, where no sleep is known to be "
            "the night's: lights_off says when it begins"
        )


def _lights(given: NightInput, profile: Profile, night: Night) -> tuple[int, int]:
    """Return the epochs between lights off and lights on; the whole recording where they are not given."""
    if not given.options.has_lights:
        return 0, len(night.argmax)
    described = (given.start, None, (), given.offset_seconds)
    recorded = Hypnogram.trusted(night.argmax.view(), profile.scheme, given.epoch_seconds, *described)
    return lights_window(recorded, given.options.lights_off, given.options.lights_on)

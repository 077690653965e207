"""`decode`: the most plausible hypnogram of a night, or of many, under a profile."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar, Unpack, overload

from stageguard import checks
from stageguard.arrays import NAN, Labels
from stageguard.errors import (
    CohortError,
    InputError,
    PinError,
    StageGuardError,
    warn,
)
from stageguard.guard.clock import MOST_PASSES, RemovedBout
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import GuardOptions, Night, OneNight, OptionKeywords, is_batch, takes_options
from stageguard.guard.solver import NO_PATH, NightCurve, NoPathError, Path, Solver, fixed_setting, solver_for
from stageguard.guard.strength import Strength, overruled_pins, strength_of
from stageguard.lazy import load
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.rules import UNTOUCHED, Choice, Setting

Result = TypeVar("Result")


@overload
def decode(
    density: OneNight | Sequence[Sequence[float]], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> Decoding: ...


@overload
def decode(
    density: Sequence[OneNight], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> list[Decoding]: ...


@takes_options
def decode(density: Any, profile: Profile | str, *, options: GuardOptions) -> Decoding | list[Decoding]:
    """Return the most plausible hypnogram under a physiological profile.

    Finds the stage sequence that maximises evidence plus the profile's transition scores under its
    minimum bouts, exactly, by dynamic programming. A profile whose strength follows a rule constrains
    each night only as much as needed, and leaves a night that needs nothing unchanged. There, an epoch
    between stages of exactly equal probability gets that of the epoch before if it is among them, else that
    of the epoch after.

    Parameters
    ----------
    density : Hypnodensity, array (n_epochs, n_stages), Hypnogram, or a list of these
        Stage probabilities. A bare array is read in the profile's stage order and epoch length unless
        `stages` and `epoch_seconds` say otherwise. A table (pandas, polars, xarray, dict of columns) or a
        `yasa.Hypnogram` is matched by the names of its columns. Of a `Hypnogram` or a list of stage names,
        each label becomes what experts say where a stager gives it, by the profile's `labels`; by typical
        confusions, such a night of a person is not smoothed by a rule. A list of nights gives a list.
    profile : Profile or str
        A profile, the name of a built-in one, or the path of a TOML file.
    stages : sequence of str, optional
        Names of the array's columns, in any order and by any alias. Finer stages are summed.
    epoch_seconds : float, optional
        Epoch length of the array. Transition scores are rescaled when it is not the profile's.
    quality : array (n_epochs,), optional
        How much of each epoch's signal is lost: 0 clean, 1 lost. Lost evidence fades to uniform.
    pins : mapping of epoch index to stage, optional
        Epochs whose stage is known.
    segments : sequence of int, optional
        First epochs of stretches that do not follow each other in time.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        When the night begins and ends: rules and clock regard only sleep in between. A number is seconds
        since the beginning of the recording, text is a time of day. Without them, the night is from the
        first to the last lasting sleep; see `stageguard.night.period`.
    cohort : str, optional
        Who was recorded. If the profile is not made for them, it warns or refuses. What a fitted profile
        learned from its own cohort is left out for any other cohort, and if none is named.
    stager : str, optional
        Which stager gave the probabilities. What a tuned or fitted profile learned from its own stager is
        left out for any other stager, and if none is named.
    trained : "natural" or "balanced", optional
        Whether the stager was trained on natural class frequencies. Default: what is known of the stager
        whose file or object was read, if that is known; unknown counts as balanced.
    strength : float or "off", optional
        Transition weight for every night, instead of the profile's own weight or rule; the rest of the
        profile stays. "off" keeps the stager's own choice, apart from pins, lost signal and filled gaps.
    logits, log : bool
        The numbers are logits, or log-probabilities.

    Returns
    -------
    Decoding or list of Decoding
        Hypnogram, score, the stager's own argmax, and what was changed, filled and assumed.

    Raises
    ------
    InputError
        The input is no night of probabilities, or an option does not fit it.
    ProfileError
        There is no such profile, or its document is wrong.
    CohortError
        The profile refuses this cohort.
    PinError
        The pins cannot all hold under the profile's rules.

    Examples
    --------
    >>> import stageguard as sg
    >>> result = sg.decode([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]], "kdd2026-actigraphy")
    >>> result.stages.tolist()
    ['W', 'W', 'W']
    """
    used = profile_for(profile, options)
    results, several = for_each_night(decode_night, density, used, options)
    warn_of_changes(results)
    return results if several else results[0]


def warn_of_changes(decodings: Sequence[Decoding]) -> None:
    """Warn of nights in which a person should look at what changed, of all of them together."""
    if any(night.changed_share > night.many_changes or night.strength.clock_removed for night in decodings):
        for text in load("report.guard_words:decode_warnings")(decodings):
            warn(text)


def for_each_night(
    verb: Callable[[Night], Result], density: Any, profile: Profile, options: GuardOptions
) -> tuple[list[Result], bool]:
    """Read the nights of a call, then do something with each; also return whether it is a list of nights.

    Every night is read and checked before work on the first begins. Errors name the night of a list.
    """
    if not is_batch(density):
        return [verb(Night.read(density, profile, options))], False
    items = list(density)
    options_of = options.of_each_night(len(items))
    nights, results = list[Night](), list[Result]()
    try:
        for item, own in zip(items, options_of, strict=True):
            nights.append(Night.read(item, profile, own))
        for night in nights:
            results.append(verb(night))
    except StageGuardError as error:
        number = len(results) if len(nights) == len(items) else len(nights)
        raise _numbered(error, number) from None
    return results, True


def profile_for(profile: Profile | str, options: GuardOptions) -> Profile:
    """Return the profile at a call's strength; warn or refuse if it is not made for the call's cohort."""
    profile = as_profile(profile)
    if options.strength is not None:
        profile = profile.at_strength(options.strength)
    if options.stager is not None:
        checks.text(options.stager, "stager", empty=False)
    if options.trained is not None:
        checks.choice(options.trained, "trained", ("natural", "balanced"))
    check_cohort(profile, options.cohort)
    return profile


def _numbered(error: StageGuardError, number: int) -> StageGuardError:
    """Return an error that names the night of a list."""
    named = type(error)(f"night {number}: " + str(error))
    if isinstance(error, PinError) and isinstance(named, PinError):  # which pins: a field, for callers
        named.pins = error.pins
    return named


def decode_night(night: Night) -> Decoding:
    """Decode one checked night at the strength that its profile, or its rule, sets for it."""
    try:
        return decode_under(night.profile, night)
    except NoPathError as failure:
        if night.profile.strength is not None:  # it failed in the sleep period, or in the night cut there
            failure.night = night.cut_at_period()
        raise _explain_no_path(failure) from None


def decode_under(profile: Profile, night: Night, solver: Solver | None = None) -> Decoding:
    """Decode a checked night at the strength that the profile, or its rule, sets for it.

    First the strength, which a rule sets on the night without its clock; then the path without the clock,
    which says where sleep begins; then the path with the clock, again until sleep onset no longer moves.
    Profiles that differ only in strength may share a `solver`.
    """
    solver = solver_for(profile, night.epoch_seconds) if solver is None else solver
    if profile.strength is None:
        setting = fixed_setting(profile)
        fi_before = night.fragmentation_index(night.own)
        choice = Choice("fixed", setting, "fixed", fi_before, NAN, profile.prior_exponent)
    else:
        if night.from_labels == "typical" and not profile.smooths_labels:
            fi = night.fragmentation_index(night.own)
            choice = Choice("labels", UNTOUCHED, "untouched", fi, fi)
        else:
            choice = profile.strength.choose(NightCurve(profile, solver, night))
        setting = choice.setting
        if setting != UNTOUCHED:  # what lies around the sleep period must not change a stage inside
            night = night.cut_at_period()
    path, clock_facts = solver.path(night, setting), dict[str, Any]()
    if solver.clock is not None and night.has_clock:
        # after the first segment, the time since sleep onset is unknown
        within = max(night.period[0], night.lights_off), min((night.period[1], *night.segments[:1]))
        onsets = solver.clock.onsets(path.labels, *within)
        for n_passes in range(1, MOST_PASSES + 1):
            night, path, removed = decode_timed(solver, night.counted_from(onsets, solver.clock), setting)
            found = solver.clock.onsets(path.labels, *within)
            if found == onsets or n_passes == MOST_PASSES:  # it may go back and forth between two onsets
                break
            onsets = found
        clock_facts = {
            "clock_onsets": onsets,
            "clock_passes": n_passes,
            "clock_settled": found == onsets,
            "clock_overruled": overruled_pins(night) if night.pins else (),
            "clock_removed": removed,
        }
    strength = strength_of(choice, night, path.labels, clock_facts)
    return _decoding(path, profile, strength, night, setting)


def decode_timed(
    solver: Solver, night: Night, setting: Setting
) -> tuple[Night, Path, tuple[RemovedBout, ...]]:
    """Decode a night with its clock, which gives way where it would leave a hole in a bout.

    Every round releases epochs that were held back before, so that there is an end. Returns the night with
    the clock as it was used, its path, and the early bouts that are gone.
    """
    while True:
        path, clock = solver.path(night, setting), night.clock
        lost = [] if clock is None else clock.lost_bouts(path.labels)
        if clock is None or not lost:
            return night, path, ()
        holes = clock.holes(path.labels, lost)
        if not holes:
            return night, path, clock.removed(path.labels, lost, night.epoch_seconds)
        night = night.timed(clock.with_released(holes))


def _decoding(path: Path, profile: Profile, strength: Strength, night: Night, setting: Setting) -> Decoding:
    described = (night.epoch_seconds, night.start, f"StageGuard {profile.name}", (), night.offset_seconds)
    hypnogram = Hypnogram.trusted(path.labels, profile.scheme, *described)
    return Decoding(hypnogram, profile, strength, night, setting, path.score)


def decode_held(density: OneNight, profile: Profile | str, options: GuardOptions, held: Strength) -> Decoding:
    """Decode one night at a strength that was chosen before, its clock counting from the same epochs.

    `held` is the strength of a decoding of the same night, perhaps with other pins. Under it, a pin changes
    only what follows from the pin itself, and not how strongly the rest of the night is constrained.
    """
    profile = profile_for(profile, options)
    night = Night.read(density, profile, options)
    used = night.profile
    solver = solver_for(used, night.epoch_seconds)
    if used.strength is not None:
        night = night.cut_at_period()
    if solver.clock is not None:
        night = night.counted_from(held.clock_onsets, solver.clock)
    setting = held.setting(used, night)
    try:
        night, path, removed = decode_timed(solver, night, setting)
    except NoPathError as failure:
        raise _explain_no_path(failure) from None
    strength = replace(
        held,
        fi_after=night.fragmentation_index(path.labels),
        clock_overruled=overruled_pins(night),
        clock_removed=removed,
    )
    return _decoding(path, used, strength, night, setting)


def without_clock(decoding: Decoding) -> Labels:
    """Return the labels of a night at its strength if its clock did not run."""
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    return solver.path(decoding.night.timed(None), decoding.setting).labels


def check_cohort(profile: Profile, cohort: str | None) -> None:
    """Warn or refuse if the profile is not made for a cohort."""
    if cohort is None:
        return
    caution = profile.caution_for(checks.text(cohort, "cohort", empty=False))
    if caution is None:
        return
    speaks = "is not made for" if caution.action == "refuse" else "has a caution for"
    message = f"profile {profile.name!r} {speaks} {cohort!r}: {caution.reason}"
    if profile.clock is not None and not caution.clock:
        message += " Its clock does not run for them."
    if caution.action == "refuse":
        raise CohortError(f"{message} Use the stager's own argmax, or a profile fitted to that cohort.")
    warn(message)


def _explain_no_path(failure: NoPathError) -> InputError:
    """Return the error that names the pins that cannot hold together, or blames the profile."""
    night, solver = failure.night, failure.solver
    pins = list(night.pins.items())

    def conflicts(subset: Sequence[tuple[int, int]]) -> bool:
        tried = copy(night)
        tried.pins = dict(subset)
        return solver.try_path(tried, failure.setting).score == float("-inf")

    if conflicts([]):
        return InputError(NO_PATH)
    # more pins never allow more paths, so bisection finds the shortest conflicting stretch
    last = bisect_left(range(len(pins)), True, key=lambda i: conflicts(pins[: i + 1]))
    first = last - bisect_left(range(last + 1), True, key=lambda n: conflicts(pins[last - n : last + 1]))
    names = solver.profile.scheme.names
    blamed = tuple((epoch, names[stage]) for epoch, stage in pins[first : last + 1])
    listed = ", ".join(f"{epoch} ({name})" for epoch, name in blamed)
    error = PinError(
        f"the pins at epochs {listed} cannot all hold under "
        "the profile's minimum bouts and forbidden transitions. Remove one of "
        "them, or shorten min_bout_seconds."
    )
    error.pins = blamed
    return error

"""`decode`: the most plausible hypnogram of a night, or of many, under a profile."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Unpack, overload

from stageguard.base import checks
from stageguard.base.errors import (
    CohortError,
    EpochNumber,
    InputError,
    Message,
    PinError,
    StageGuardError,
    StageGuardWarning,
    message_of,
)
from stageguard.guard.decoding import (
    MANY_CHANGES,
    Decoding,
    decode_timed,
    decode_under,
    many_changes_advice,
    many_changes_words,
    removed_words,
)
from stageguard.guard.evidence import Night, calibration_of
from stageguard.guard.inputs import OneNight, is_batch, is_of_other_stager, night_of, set_period
from stageguard.guard.options import GuardOptions, OptionKeywords, takes_options
from stageguard.guard.solver import NO_PATH, NoPathError, solver_for
from stageguard.guard.strength import Passes, Strength, overruled_pins
from stageguard.profile.profile import Profile, as_profile


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
    each night only as much as needed, and leaves a night that needs nothing unchanged.

    Parameters
    ----------
    density : Hypnodensity, array (n_epochs, n_stages), or a list of either
        Stage probabilities. A bare array is read in the profile's stage order and epoch length unless
        `stages` and `epoch_seconds` say otherwise. A table (pandas, polars, xarray, dict of columns) or a
        `yasa.Hypnogram` is matched by the names of its columns. A list gives a list.
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
        left out for any other stager. If none is named, a fitted profile leaves it out, too, and a tuned
        profile compares the night with its fingerprint.
    trained : "natural" or "balanced", optional
        Whether the stager was trained on natural class frequencies. Unknown counts as balanced.
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
    results, batch = decode_all(density, profile, options)
    _warn_of_many_changes(results)
    _warn_of_removed_rem(results)
    return results if batch else results[0]


def decode_all(density: Any, profile: Profile | str, options: GuardOptions) -> tuple[list[Decoding], bool]:
    """Decode the input of a call; also return whether it is a list of nights."""
    profile = profile_for(profile, options, stacklevel=6)
    nights, several = read_all(density, profile, options)
    results: list[Decoding] = []
    for i, night in enumerate(nights):
        try:
            results.append(decode_night(night, profile))
        except StageGuardError as error:
            raise (numbered(error, i) if several else error) from None
    return results, several


def profile_for(profile: Profile | str, options: GuardOptions, *, stacklevel: int) -> Profile:
    """Return the profile at a call's strength and for its cohort; warn or refuse if it is not made for it."""
    profile = as_profile(profile).at_strength(options.strength)
    if options.stager is not None:
        checks.text(options.stager, "stager", empty=False)
    if options.trained is not None:
        checks.choice(options.trained, "trained", ("natural", "balanced"))
    if options.cohort is not None or profile.cohort is not None:
        check_cohort(profile, options.cohort, stacklevel=stacklevel)
        profile = profile.for_cohort(options.cohort)
    return profile


def read_all(density: Any, profile: Profile, options: GuardOptions) -> tuple[list[Night], bool]:
    """Return the checked nights of a call, and whether it is a list of nights."""
    if not is_batch(density):
        return [_of_cohort(night_of(density, profile, options), profile)], False
    nights: list[Night] = []
    items = list(density)
    for night, own in zip(items, options.of_each_night(len(items)), strict=True):
        try:
            nights.append(_of_cohort(night_of(night, profile, own), profile))
        except StageGuardError as error:
            raise numbered(error, len(nights)) from None
    return nights, True


def _of_cohort(night: Night, profile: Profile) -> Night:
    """Note whether the profile's clock runs for the cohort of a night."""
    cohort = night.options.cohort
    caution = None if cohort is None else profile.caution_for(cohort)
    if caution is not None and not caution.clock:
        night.assumed.append(f"the clock does not run for {cohort!r}")
    return night


def numbered(error: StageGuardError, number: int) -> StageGuardError:
    """Return an error that names the night of a list."""
    named = type(error)(f"night {number}: " + message_of(error))
    if isinstance(error, PinError) and isinstance(named, PinError):  # which pins: a field, for callers
        named.pins = error.pins
    return named


def decode_night(night: Night, profile: Profile) -> Decoding:
    """Decode one checked night at the strength that the profile, or its rule, sets for it."""
    used = for_stager(profile, night)
    try:
        return decode_under(used, night, is_of_other_stager=used is not profile)
    except NoPathError as failure:
        if used.strength is not None:  # it failed in the sleep period alone, or in the night cut there
            failure.night = night.cut_at_period()
        raise _explain_no_path(failure) from None


def decode_held(density: OneNight, profile: Profile | str, options: GuardOptions, held: Strength) -> Decoding:
    """Decode one night at a strength that was chosen before, its clock counting from the same epochs.

    `held` is the strength of a decoding of the same night, perhaps with other pins. Under it, a pin changes
    only what follows from the pin itself, and not how strongly the rest of the night is constrained.
    """
    profile = profile_for(profile, options, stacklevel=5)
    (night,), _ = read_all(density, profile, options)
    used = for_stager(profile, night)
    solver = solver_for(used, night.epoch_seconds)
    if used.strength is not None:
        night = night.cut_at_period()
    if solver.clock is not None:
        night = night.counted_from(held.clock_onsets, solver.clock)
    setting = held.setting(used, night)
    try:
        night, path = decode_timed(solver, night, setting)
    except NoPathError as failure:
        raise _explain_no_path(failure) from None
    removed = () if night.clock is None else night.clock.removed(path.labels, night.epoch_seconds)
    passes = Passes(held.clock_onsets, held.clock_passes, held.clock_settled, removed)
    strength = replace(
        held,
        fi_after=night.fragmentation_index(path.labels),
        clock_overruled=overruled_pins(night),
        clock_removed=removed,
    )
    held_night = Decoding(used, night, used is not profile, path, setting, None, passes)
    return held_night.replaced(strength=strength)


def for_stager(profile: Profile, night: Night) -> Profile:
    """Return the profile that a night is decoded with: another one if its stager is not the profile's."""
    if profile.stager is None and profile.fingerprint is None:
        return profile
    if not is_of_other_stager(profile, night):
        return profile
    other = profile.for_other_stager()
    if night.calibration is not None:  # it belonged to the profile's own stager, and moved the sleep period
        night.calibration, night._base = calibration_of(other), None
        set_period(night, other)
    return other


def check_cohort(profile: Profile, cohort: str | None, *, stacklevel: int) -> None:
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
    warnings.warn(message, StageGuardWarning, stacklevel=stacklevel)


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
    listed = [part for epoch, name in blamed for part in (", ", EpochNumber(epoch), f" ({name})")][1:]
    error = PinError(
        Message(
            *("the pins at epochs ", *listed, " cannot all hold under the profile's minimum bouts "),
            "and forbidden transitions. Remove one of them, or shorten min_bout_seconds.",
        )
    )
    error.pins = blamed
    return error


def _warn_of_many_changes(results: Sequence[Decoding]) -> None:
    many = [
        (share, result)
        for result in results
        if (share := result.changed_share) > MANY_CHANGES and share > result.many_changes
    ]
    if not many:
        return
    _, worst = max(many, key=lambda pair: pair[0])
    nights = f"on {len(many)} of {len(results)} nights many epochs were changed; most: "
    which = "" if len(results) == 1 else nights
    warnings.warn(
        f"{which}{many_changes_words(worst)}: {many_changes_advice(results[0].profile)}",
        StageGuardWarning,
        stacklevel=4,
    )


def _warn_of_removed_rem(results: Sequence[Decoding]) -> None:
    """Warn once per night on which the clock removed early REM that a person should look at."""
    for i, result in enumerate(results):
        if result.removed_bouts:
            which = "" if len(results) == 1 else f"night {i}: "
            warnings.warn(which + removed_words(result), StageGuardWarning, stacklevel=4)

"""`decode`: the most plausible hypnogram of a night, or of many, under a profile."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack, overload

import numpy as np

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
from stageguard.guard import inputs
from stageguard.guard.decoding import (
    MANY_CHANGES,
    Decoding,
    many_changes_advice,
    many_changes_words,
    removed_words,
)
from stageguard.guard.evidence import Night, calibration_of
from stageguard.guard.inputs import (
    BatchKeywords,
    GuardOptions,
    NightInput,
    NightKeywords,
    OneNight,
    takes_options,
)
from stageguard.guard.search import Solved, chosen_trial, overruled_pins, run_searches, solve_timed
from stageguard.guard.solver import NO_PATH, Job, NoPathError, Passes, Path, run_grouped, solver_for
from stageguard.guard.strength import Strength
from stageguard.profile.profile import Profile, as_profile


@overload
def decode(
    density: OneNight | Sequence[Sequence[float]], profile: Profile | str, **options: Unpack[NightKeywords]
) -> Decoding: ...


@overload
def decode(
    density: Sequence[OneNight], profile: Profile | str, **options: Unpack[BatchKeywords]
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
        `yasa.Hypnogram` is matched by the names of its columns. A list gives a list, decoded in parallel.
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


class Asked(NamedTuple):
    """The checked input of a call of `decode`, `posterior` or `sample`."""

    profile: Profile  # for the cohort
    profiles: list[Profile]  # of each night: another one if the stager is not the profile's
    given: list[NightInput]
    nights: list[Night]
    is_batch: bool


def decode_all(density: Any, profile: Profile | str, options: GuardOptions) -> tuple[list[Decoding], bool]:
    """Decode the input of a call; also return whether it is a list of nights."""
    asked = read_all(density, profile, options, stacklevel=6)
    return decode_asked(asked, options), asked.is_batch


def read_all(
    density: Any, profile: Profile | str, options: GuardOptions, *, stacklevel: int, wants_paths: bool = True
) -> Asked:
    """Read and check the input of a call."""
    profile = as_profile(profile).at_strength(options.strength)
    if options.stager is not None:
        checks.text(options.stager, "stager", empty=False)
    if options.trained is not None:
        checks.choice(options.trained, "trained", ("natural", "balanced"))
    if options.cohort is not None or profile.cohort is not None:
        check_cohort(profile, options.cohort, stacklevel=stacklevel)
        profile = profile.for_cohort(options.cohort)
    batch = inputs.is_batch(density)
    items = list(density) if batch else [density]
    if not items:
        return Asked(profile, [], [], [], batch)
    all_options = options.of_each_night(len(items)) if batch else [options]
    given: list[NightInput] = []
    try:
        for night, night_options in zip(items, all_options, strict=True):
            given.append(inputs.read_night(night, profile, night_options))
    except StageGuardError as error:
        message = message_of(error)
        raise type(error)(f"night {len(given)}: " + message if batch else message) from None
    nights = inputs.check_nights(given, profile, is_batch=batch, wants_paths=wants_paths)
    for request, checked in zip(given, nights, strict=True):
        inputs.set_period(request, profile, checked)
    caution = None if options.cohort is None else profile.caution_for(options.cohort)
    if caution is not None and not caution.clock:
        for night in given:
            night.assumed.append(f"the clock does not run for {options.cohort!r}")
    profiles = [profile] * len(given)
    if profile.stager is not None or profile.fingerprint is not None:
        profiles = [_for_stager(profile, *pair) for pair in zip(given, nights, strict=True)]
    return Asked(profile, profiles, given, nights, batch)


def decode_asked(asked: Asked, options: GuardOptions) -> list[Decoding]:
    """Decode checked nights, unless they were decoded while they were checked."""
    profile, profiles, given, nights, _ = asked
    solved: Sequence[tuple[Night, Path, Strength | None]]
    solved = [(night, night.opening, None) for night in nights if night.opening is not None]
    if len(solved) < len(nights):
        solved = _search(asked, options)
    return [
        Decoding(
            used,
            request,
            used is not profile,
            night,
            path,
            {} if strength is None else {"strength": strength},
        )
        for used, request, (night, path, strength) in zip(profiles, given, solved, strict=True)
    ]


def decode_held(density: OneNight, profile: Profile | str, options: GuardOptions, held: Strength) -> Decoding:
    """Decode one night at a strength that was chosen before, its clock counting from the same epochs.

    `held` is the strength of a decoding of the same night, perhaps with other pins. Under it, a pin changes
    only what follows from the pin itself, and not how strongly the rest of the night is constrained.
    """
    asked = read_all(density, profile, options, stacklevel=5, wants_paths=False)
    (used,), (given,), (night,) = asked.profiles, asked.given, asked.nights
    solver = solver_for(used, given.epoch_seconds)
    if used.strength is not None:
        night = night.cut_at_period()
    if solver.clock is not None:
        night = night.counted_from(held.clock_onsets, solver.clock)
    try:
        ((night, path),) = solve_timed(solver, {0: Job(night, chosen_trial(used, night, held))}).values()
    except NoPathError as failure:
        raise _explain_no_path(failure, "") from None
    removed = () if night.clock is None else night.clock.removed(path.labels, given.epoch_seconds)
    path.passes = Passes(held.clock_onsets, held.clock_passes, held.clock_settled, removed)
    strength = replace(
        held,
        fi_after=night.fragmentation_index(path.labels),
        clock_overruled=overruled_pins(night),
        clock_removed=removed,
    )
    return Decoding(used, given, used is not asked.profile, night, path, {"strength": strength})


def _search(asked: Asked, options: GuardOptions) -> list[Solved]:
    """Find every night's strength, and its path at that strength."""
    profile, profiles, given, nights, batch = asked

    def solve(key: tuple[bool, float], chosen: list[Night]) -> list[Solved]:
        is_own, seconds = key
        used = profile if is_own else profile.for_other_stager()
        return run_searches(used, solver_for(used, seconds), chosen, options.trained == "natural")

    try:
        keys = [(used is profile, night.epoch_seconds) for used, night in zip(profiles, given, strict=True)]
        return run_grouped(nights, keys, solve)
    except NoPathError as failure:
        tried = failure.job.night.probabilities  # of the night, or of its sleep period
        index = next(i for i, night in enumerate(nights) if np.shares_memory(night.probabilities, tried))
        if profile.strength is not None:  # it failed in the sleep period alone, or in the night cut there
            failure.job = Job(nights[index].cut_at_period(), failure.job.trial)
        raise _explain_no_path(failure, f"night {index}: " if batch else "") from None


def _for_stager(profile: Profile, given: NightInput, night: Night) -> Profile:
    """Return the profile that a night is decoded with: another one if its stager is not the profile's."""
    if not inputs.is_of_other_stager(profile, given, night):
        return profile
    other = profile.for_other_stager()
    night.opening = None
    if night.calibration is not None:
        night.calibration, night._base = calibration_of(other), None
        inputs.set_period(given, other, night)
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


def _explain_no_path(failure: NoPathError, which: str) -> InputError:
    """Return the error that names the pins that cannot hold together, or blames the profile."""
    night, solver = failure.job.night, failure.solver
    pins = list(night.pins.items())

    def conflicts(subset: Sequence[tuple[int, int]]) -> bool:
        job = Job(replace(night, pins=dict(subset)), failure.job.trial)
        return solver.solve([job])[0].score == -np.inf

    if conflicts([]):
        return InputError(which + NO_PATH)
    # more pins never allow more paths, so bisection finds the shortest conflicting stretch
    last = bisect_left(range(len(pins)), True, key=lambda i: conflicts(pins[: i + 1]))
    first = last - bisect_left(range(last + 1), True, key=lambda n: conflicts(pins[last - n : last + 1]))
    names = solver.profile.scheme.names
    blamed = tuple((epoch, names[stage]) for epoch, stage in pins[first : last + 1])
    listed = [part for epoch, name in blamed for part in (", ", EpochNumber(epoch), f" ({name})")][1:]
    error = PinError(
        Message(
            *(f"{which}the pins at epochs ", *listed, " cannot all hold under the profile's minimum bouts "),
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

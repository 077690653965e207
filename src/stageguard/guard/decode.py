"""`decode`: the most plausible hypnogram of a night, or of many, under a profile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Labels
from stageguard.errors import CohortError, InputError, PinError, StageGuardError, warn
from stageguard.guard import kernels
from stageguard.guard.clock import MOST_PASSES, RemovedBout
from stageguard.guard.decoding import Decoding, Strength
from stageguard.guard.night import GuardOptions, Night, OneNight, OptionKeywords, is_batch
from stageguard.guard.solver import NO_PATH, NightCurve, NoPathError, Path, Solver, fixed_setting, solver_for
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules import UNTOUCHED, Choice, Setting
from stageguard.profile.stagers import Training

Result = TypeVar("Result")


@overload
def decode(
    density: OneNight | Sequence[Sequence[float]], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> Decoding: ...


@overload
def decode(
    density: Sequence[OneNight], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> list[Decoding]: ...


def decode(
    density: Any,
    profile: Profile | str,
    *,
    stages: Sequence[str] | None = None,
    epoch_seconds: float | None = None,
    quality: Any = None,
    pins: Any = None,
    segments: Any = None,
    lights_off: Any = None,
    lights_on: Any = None,
    cohort: str | None = None,
    stager: str | None = None,
    trained: Training | None = None,
    strength: float | Literal["off"] | None = None,
    logits: bool = False,
    log: bool = False,
) -> Decoding | list[Decoding]:
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
    said = (lights_off, lights_on, cohort, stager, trained, strength, logits, log)
    options = GuardOptions(stages, epoch_seconds, quality, pins, segments, *said)
    used = profile_for(profile, options)
    if is_batch(density):
        results = for_each_night(decode_night, density, used, options)
        warn_of_changes(results)
        return results
    result = decode_night(Night.read(density, used, options))
    warn_of_changes([result])
    return result


def for_each_night(
    verb: Callable[[Night], Result], densities: Any, profile: Profile, options: GuardOptions
) -> list[Result]:
    """Read the nights of a list, then do something with each.

    Every night is read and checked before work on the first begins. Errors name the night.
    """
    items = list(densities)
    options_of = options.of_each_night(len(items))
    nights, results = list[Night](), list[Result]()
    try:
        for item, own in zip(items, options_of, strict=True):
            nights.append(Night.read(item, profile, own))
        for night in nights:
            results.append(verb(night))
    except StageGuardError as error:
        number = len(results) if len(nights) == len(items) else len(nights)
        error.args = (f"night {number}: {error}",)
        raise error from None
    return results


def profile_for(profile: Profile | str, options: GuardOptions) -> Profile:
    """Return the profile at a call's strength; warn or refuse if it is not made for the call's cohort."""
    if not isinstance(profile, Profile):
        profile = Profile.load(profile)
    if options.strength is not None:
        profile = profile.at_strength(options.strength)
    if options.stager is not None:
        checks.text(options.stager, "stager", empty=False)
    if options.trained is not None:
        checks.choice(options.trained, "trained", ("natural", "balanced"))
    if options.cohort is not None:
        check_cohort(profile, options.cohort)
    return profile


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


def decode_night(night: Night) -> Decoding:
    """Decode one checked night at the strength that its profile, or its rule, sets for it.

    First the strength, which a rule sets on the night without its clock; then the path without the clock,
    which says where sleep begins; then the path with the clock, again until sleep onset no longer moves.
    """
    profile, asked, timing = night.profile, night.options.strength, dict[str, Any]()
    solver = solver_for(profile, night.epoch_seconds)
    try:
        if profile.strength is None:
            fi = night.fragmentation_index(night.own)
            choice = Choice("fixed", fixed_setting(profile), "fixed", fi, NAN, profile.prior_exponent)
        elif night.from_labels == "typical" and not profile.smooths_labels:
            fi = night.fragmentation_index(night.own)
            choice = Choice("labels", UNTOUCHED, "untouched", fi, fi)
        else:
            choice = profile.strength.choose(NightCurve(solver, night))
        setting = choice.setting
        if profile.strength is not None and setting != UNTOUCHED:
            night = night.cut_at_period()  # what lies around the sleep period must not change a stage inside
        path = solver.path(night, setting)
        if solver.clock is not None and night.has_clock:
            night, path, timing = _decode_from_onset(solver, night, setting, path)
    except NoPathError as failure:
        if profile.strength is not None:  # it failed in the sleep period, or in the night cut there
            failure.night = night.cut_at_period()
        raise _explain_no_path(failure) from None
    facts: dict[str, Any] = choice._asdict() | timing | {"transition_weight": setting.transition_weight}
    del facts["setting"]
    # a rule measured the night without the clock, which then may have changed stages, and with ties unsettled
    if timing or choice.rule == "fixed" or setting.is_free:
        facts["fi_after"] = night.fragmentation_index(path.labels)
    if choice.step == "lowered" and setting.stage_nats is not None:
        facts["balance_nats"] = setting.stage_nats
    # unless the profile steps aside anyway, as for another cohort
    if asked is not None and choice.rule == "fixed" and asked in (OFF, setting.transition_weight):
        facts["asked"] = asked
    return _decoding(night, path, setting, Strength(**facts))


def _decode_from_onset(
    solver: Solver, night: Night, setting: Setting, path: Path
) -> tuple[Night, Path, dict[str, Any]]:
    """Decode a night with the clock, which counts from sleep onset in a path, until onset no longer moves.

    Returns the night with its clock, its path, and what `Strength` tells of the clock.
    """
    clock = solver.clock
    assert clock is not None
    # after the first segment, the time since sleep onset is unknown
    stop = min((night.period[1], *night.segments[:1]))
    first, onsets = min(max(night.period[0], night.lights_off), stop), ()
    for n_passes in range(MOST_PASSES + 1):
        found = kernels.active.sleep_onsets(path.labels, clock.wake, clock.restart_epochs, first, stop)
        if n_passes and (found == onsets or n_passes == MOST_PASSES):
            break  # it may go back and forth between two onsets
        onsets = found
        night, path, removed = _decode_timed(solver, night.counted_from(onsets, clock), setting)
    timing = {
        "clock_onsets": onsets,
        "clock_passes": n_passes,
        "clock_settled": found == onsets,
        "clock_overruled": _overruled_pins(night) if night.pins else (),
        "clock_removed": removed,
    }
    return night, path, timing


def _decode_timed(
    solver: Solver, night: Night, setting: Setting
) -> tuple[Night, Path, tuple[RemovedBout, ...]]:
    """Decode a night with its clock, which gives way where it would leave a hole in a bout.

    Every round releases epochs that were held back before, so that there is an end. Returns the night with
    the clock as it was used, its path, and the early bouts that are gone.
    """
    while True:
        path, clock = solver.path(night, setting), night.clock
        if clock is None:
            return night, path, ()
        holes, removed = clock.losses(path.labels, night.epoch_seconds)
        if not holes:
            return night, path, removed
        night = night.timed(clock.with_released(holes))


def _overruled_pins(night: Night) -> tuple[int, ...]:
    """Return the pinned epochs whose stage has less than half its usual share at that time."""
    if not night.pins or night.clock is None:
        return ()
    log_shares = night.clock.log_shares
    return tuple(epoch for epoch, stage in night.pins.items() if log_shares[epoch, stage] < np.log(0.5))


def _decoding(night: Night, path: Path, setting: Setting, strength: Strength) -> Decoding:
    profile = night.profile
    described = (night.epoch_seconds, night.start, f"StageGuard {profile.name}", (), night.offset_seconds)
    hypnogram = Hypnogram.trusted(path.labels, profile.scheme, *described)
    return Decoding(hypnogram, profile, strength, night, setting, path.score)


def decode_held(density: OneNight, profile: Profile | str, options: GuardOptions, held: Decoding) -> Decoding:
    """Decode one night at the strength that was chosen before, its clock counting from the same epochs.

    `held` is a decoding of the same night under the same profile, perhaps with other pins. Under it, a pin
    changes only what follows from the pin itself, and not how strongly the rest of the night is constrained.
    """
    night = Night.read(density, profile_for(profile, options), options)
    solver = solver_for(night.profile, night.epoch_seconds)
    if night.profile.strength is not None:
        night = night.cut_at_period()
    if solver.clock is not None:
        night = night.counted_from(held.strength.clock_onsets, solver.clock)
    try:
        night, path, removed = _decode_timed(solver, night, held.setting)
    except NoPathError as failure:
        raise _explain_no_path(failure) from None
    strength = replace(
        held.strength,
        fi_after=night.fragmentation_index(path.labels),
        clock_overruled=_overruled_pins(night),
        clock_removed=removed,
    )
    return _decoding(night, path, held.setting, strength)


def without_clock(decoding: Decoding) -> Labels:
    """Return the labels of a night at its strength if its clock did not run."""
    solver = solver_for(decoding.profile, decoding.epoch_seconds)
    return solver.path(decoding.night.timed(None), decoding.setting).labels


def warn_of_changes(decodings: Sequence[Decoding]) -> None:
    """Warn of nights in which a person should look at what changed, of all of them together."""
    many = []
    for number, night in enumerate(decodings):
        if night.changed_share > night.many_changes:
            many.append(night)
        if night.strength.clock_removed:
            warn(("" if len(decodings) == 1 else f"night {number}: ") + removed_words(night))
    if many:
        worst = max(many, key=lambda night: night.changed_share)
        of = f"on {len(many)} of {len(decodings)} nights many epochs were changed; most: "
        which = "" if len(decodings) == 1 else of
        warn(f"{which}{many_changes_words(worst)}: {many_changes_advice(worst.profile)}")


def many_changes_words(decoding: Decoding) -> str:
    """Return how many epochs were changed, and the limit above which a person should look at the night."""
    share, limit = 100 * decoding.changed_share, 100 * decoding.many_changes
    of_all = f"{decoding.n_changed:,} of {decoding.n_scored:,} scored epochs ({share:.1f} %)"
    return f"{of_all} were changed, above the limit of {limit:.0f} %"


def many_changes_advice(profile: Profile) -> str:
    """Return what to do about a night with many changed epochs under this profile."""
    look = "look at the night before using it"
    if "cross_validation" in profile.provenance:  # chosen on scored nights of this stager
        return f"{look}."
    return f"{look}; the stager or the profile may not fit."


def removed_words(decoding: Decoding) -> str:
    """Return which early REM is gone, and how sure that is."""
    bouts = []
    for bout in decoding.removed_bouts:
        since = bout.minutes_since_onset
        when = "before onset" if math.isnan(since) else f"{since:g} min after onset"
        bouts.append(f"{bout.minutes:g} min long, {when}")
    return (
        f"the clock removed REM ({'; '.join(bouts)}): look at it. Experts score such REM on 2.7 % of "
        "nights. In narcolepsy it is expected: cohort='narcolepsy' switches the clock off."
    )


def _explain_no_path(failure: NoPathError) -> InputError:
    """Return the error that names the pins that cannot hold together, or blames the profile."""
    night, solver = failure.night, failure.solver
    pins = list(night.pins.items())

    def conflicts(subset: Sequence[tuple[int, int]]) -> bool:
        tried = copy(night)
        tried.pins = dict(subset)
        return solver.path(tried, failure.setting, may_fail=True).score == float("-inf")

    if conflicts([]):
        return InputError(NO_PATH)
    # more pins never allow more paths, so bisection finds the shortest conflicting stretch
    last = bisect_left(range(len(pins)), True, key=lambda i: conflicts(pins[: i + 1]))
    first = last - bisect_left(range(last + 1), True, key=lambda n: conflicts(pins[last - n : last + 1]))
    names = solver.profile.scheme.names
    blamed = tuple((epoch, names[stage]) for epoch, stage in pins[first : last + 1])
    listed = ", ".join(f"{epoch} ({name})" for epoch, name in blamed)
    rules = "the profile's minimum bouts and forbidden transitions"
    error = PinError(f"the pins at epochs {listed} cannot all hold under {rules}. Remove one of them.")
    error.pins = blamed
    return error

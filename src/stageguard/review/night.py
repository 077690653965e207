"""A night under review: its data, and the result of the guard under a person's decisions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError, PinError, StageGuardWarning
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.decode import decode_all, decode_held
from stageguard.guard.decoding import Decoding
from stageguard.guard.inputs import GuardOptions
from stageguard.guard.posterior import Posterior, posteriors_like
from stageguard.guard.strength import Strength
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile, profiles
from stageguard.review.state import Action, Pin, ReviewState, Settings, act

MOST_PROFILES_TRIED = 3  # other profiles to try if pins contradict each other


@dataclass(frozen=True, slots=True, eq=False)
class NightUnderReview:
    """The data of a night that no action changes.

    Attributes
    ----------
    name : str
        Name of the night.
    density : Hypnodensity
        The stager's probabilities, in the stage order of the profile.
    profile : Profile
        The profile at the start of the review.
    options : GuardOptions
        Quality, lights off, cohort, stager and training, as in `decode`; pins are actions here.
    statistics : StatisticsOptions
        Options of the sleep statistics.
    expert : Hypnogram or None
        An expert's scoring of the same epochs.
    pins : mapping of int to Pin
        Stages that were fixed before the review.
    strength_pins : mapping of int to int or None
        The pins with which the profile's rule chose the strength; None for `pins`.
    """

    name: str
    density: Hypnodensity
    profile: Profile
    options: GuardOptions = field(default_factory=GuardOptions)
    statistics: StatisticsOptions = field(default_factory=StatisticsOptions)
    expert: Hypnogram | None = None
    pins: Mapping[int, Pin] = field(default_factory=dict)
    strength_pins: Mapping[int, int] | None = None
    notes: tuple[str, ...] = ()
    _made: dict[Any, Any] = field(default_factory=dict)

    @property
    def scheme(self) -> StageScheme:
        """The stages."""
        return self.density.scheme

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return self.density.n_epochs

    @property
    def argmax(self) -> Labels:
        """The stager's most probable stages."""
        if "argmax" not in self._made:
            self._made["argmax"] = self.density.argmax()
        labels: Labels = self._made["argmax"]
        return labels

    @property
    def profile_names(self) -> tuple[str, ...]:
        """Names of the profiles to choose from: the first one, and those of the same stages and species."""
        if "profiles" not in self._made:
            own, species = self.profile.name, self.profile.species
            known = {name: Profile.load(name) for name in profiles()}
            fitting = [name for name, p in known.items() if p.scheme == self.scheme and p.species == species]
            self._made["profiles"] = (own, *(name for name in fitting if name != own))
        names: tuple[str, ...] = self._made["profiles"]
        return names

    def profile_for(self, settings: Settings) -> Profile:
        """Return the profile of the settings, computed once."""
        if settings not in self._made:
            self._made[settings] = _adjusted(self._named(settings.profile), settings)
        profile: Profile = self._made[settings]
        return profile

    def _named(self, name: str) -> Profile:
        return self.profile if name == self.profile.name else Profile.load(name)

    def opening_state(self, *, is_blind: bool = False) -> ReviewState:
        """Return the state before the first action; a blind scorer begins without pins."""
        if is_blind:
            return ReviewState(Settings(self.profile.name), is_blind=True)
        stages = {epoch: pin.stage for epoch, pin in self.pins.items()}
        chosen_with = stages if self.strength_pins is None else self.strength_pins
        settings = Settings(self.profile.name, strength_pins=tuple(sorted(chosen_with.items())))
        return ReviewState(settings, pins=self.pins, first_pins=self.pins)

    def hypnogram(self, labels: Labels, scorer: str | None = None) -> Hypnogram:
        """Return labels as a hypnogram of this night."""
        density = self.density
        described = (density.scheme, density.epoch_seconds, density.start, scorer)
        return Hypnogram(labels, *described, offset_seconds=density.offset_seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of the guard for a night.

    Attributes
    ----------
    labels : array of int8
        A stage per epoch; pins always hold.
    decoding : Decoding or None
        None if the night has no evidence at all.
    conflict : PinError or None
        Why the pins cannot hold under the profile. In that case the night is decoded without them, and they
        replace the decoded stages.
    """

    labels: Labels
    decoding: Decoding | None
    conflict: PinError | None = None
    _made: dict[str, Any] = field(default_factory=dict)

    @property
    def posterior(self) -> Posterior | None:
        """The probability of each stage under the profile."""
        if self.decoding is None:
            return None
        if "posterior" not in self._made:
            (self._made["posterior"],) = posteriors_like([self.decoding])
        posterior: Posterior = self._made["posterior"]
        return posterior


def guard(night: NightUnderReview, state: ReviewState) -> Outcome:
    """Decode a night under a person's decisions; pins that contradict each other are a PinError."""
    pins = {epoch: pin.stage for epoch, pin in state.pins.items()}
    if (night.argmax == UNSCORED).all():
        return Outcome(_with_pins(night.argmax, pins), None)
    profile, options = night.profile_for(state.settings), replace(night.options, pins=pins or None)
    held = chosen_strength(night, state.settings).strength
    with warnings.catch_warnings():  # the page shows how much was changed
        warnings.simplefilter("ignore", StageGuardWarning)
        decoding = decode_held(night.density, profile, options, held)
    return Outcome(decoding.hypnogram.labels, decoding)


@dataclass(frozen=True, slots=True)
class ChosenStrength:
    """The strength that the profile's rule chose, and the pins it chose it with."""

    strength: Strength
    pins: Mapping[int, int]


def chosen_strength(night: NightUnderReview, settings: Settings) -> ChosenStrength:
    """Return the strength for the night with `settings.strength_pins`, chosen once per settings."""
    key = "strength", settings
    if key not in night._made:
        profile, pins = night.profile_for(settings), dict(settings.strength_pins)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            try:
                ((first,), _) = decode_all(night.density, profile, replace(night.options, pins=pins or None))
            except PinError:  # the profile does not allow these pins: its strength is that of the night alone
                pins = {}
                ((first,), _) = decode_all(night.density, profile, night.options)
        night._made[key] = ChosenStrength(first.strength, pins)
    chosen: ChosenStrength = night._made[key]
    return chosen


def guard_anyway(night: NightUnderReview, state: ReviewState) -> Outcome:
    """Decode a night under a person's decisions, which hold even if the profile does not allow them."""
    try:
        return guard(night, state)
    except PinError as error:
        pins = {epoch: pin.stage for epoch, pin in state.pins.items()}
        without = guard(night, replace(state, pins={}))
        return Outcome(_with_pins(without.labels, pins), without.decoding, error)


def first_labels(night: NightUnderReview, state: ReviewState) -> Labels:
    """Return the stages of the night as the scorer saw it first, under the settings of the first decision."""
    settings = state.first_settings
    key = "first", settings, tuple(sorted(state.first_pins))
    if key not in night._made:
        first = replace(state, settings=settings, pins=state.first_pins)
        night._made[key] = guard_anyway(night, first).labels
    labels: Labels = night._made[key]
    return labels


@dataclass(frozen=True, slots=True)
class Relaxation:
    """An action to offer instead of a refused action."""

    label: str
    action: Action


def relaxations(
    night: NightUnderReview, state: ReviewState, action: Action, error: PinError
) -> list[Relaxation]:
    """Return actions that would make a refused action possible; each is tested by decoding the night."""
    return [each for each in _candidates(night, state, action, error) if _holds(night, state, each.action)]


def _holds(night: NightUnderReview, state: ReviewState, action: Action) -> bool:
    try:
        guard(night, act(state, action, "", night.n_epochs))
    except InputError:
        return False
    return True


def _candidates(
    night: NightUnderReview, state: ReviewState, action: Action, error: PinError
) -> Iterator[Relaxation]:
    """Yield actions that may help: a longer bout, one pin less, no guard, another profile."""
    asked = action.actions if action.do == "several" else (action,)
    if action.do == "set":
        yield from _longer(night, state.settings, action)
    for epoch, stage in error.pins:
        if epoch in state.pins and not any(
            one.first <= epoch <= one.last for one in asked if one.do == "set"
        ):
            drop = Action("clear", epoch, epoch)
            label = f"Take back {stage} at epoch {epoch + 1}"
            yield Relaxation(label, Action("several", actions=(drop, *asked)))
    if state.settings.strength != "off":
        off = Action("strength", value="off")
        yield Relaxation("Switch the guard off", Action("several", actions=(off, *asked)))
    n_offered = 0
    for name in night.profile_names:
        other = Relaxation(
            f"Use the profile {name}",
            Action("several", actions=(Action("profile", value=name), *asked)),
        )
        if name == state.settings.profile or n_offered == MOST_PROFILES_TRIED:
            continue
        n_offered += 1
        yield other


def _longer(night: NightUnderReview, settings: Settings, action: Action) -> Iterator[Relaxation]:
    """Yield the same stage over the length of its shortest bout, extended after, before or on both sides."""
    shortest = int(minimum_epochs(night.profile_for(settings), night.density.epoch_seconds)[action.stage])
    missing = shortest - (action.last - action.first + 1)
    for before in dict.fromkeys((0, missing, missing // 2)) if missing > 0 else ():
        first = max(action.first - before, 0)
        last = min(action.last + missing - before, night.n_epochs - 1)
        stage = night.scheme.names[action.stage]
        yield Relaxation(
            f"Set epochs {first + 1} to {last + 1} to {stage}, its shortest bout",
            replace(action, first=first, last=last),
        )


def _adjusted(profile: Profile, settings: Settings) -> Profile:
    if settings.clock and profile.clock is None:
        raise InputError(f"profile {profile.name!r} has no clock, so that it cannot be switched on.")
    profile = profile.at_strength(settings.strength)
    return profile.replace(clock=None) if settings.clock is False and profile.clock is not None else profile


def _with_pins(labels: Labels, pins: Mapping[int, int]) -> Labels:
    held = np.array(labels, dtype=np.int8)
    if pins:
        held[list(pins)] = list(pins.values())
    return held

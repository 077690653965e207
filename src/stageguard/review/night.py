"""A night under review: its data, the guard's result under a person's decisions, and each revision of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Labels
from stageguard.errors import InputError, PinError, StageGuardError, StageGuardWarning
from stageguard.files import file_error
from stageguard.guard.automaton import minimum_epochs
from stageguard.guard.decode import decode_held, decode_night, profile_for
from stageguard.guard.decoding import Decoding
from stageguard.guard.explain import in_bouts
from stageguard.guard.night import GuardOptions, Night
from stageguard.guard.posterior import Posterior, posterior_like
from stageguard.measures.statistics import SleepStatistics, StatisticsOptions
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile, profiles
from stageguard.review.dispute import Dispute
from stageguard.review.journal import MALFORMED, JournalFile
from stageguard.review.state import ON_EPOCHS, Action, GuardSettings, Pin, ReviewState, act, parse_action
from stageguard.runner.decode_one import DecodeOptions, quality_for_strength

GIVEN_BEFORE = "given before the review"
MOST_PROFILES_TRIED = 3  # other profiles to try if pins contradict each other


@dataclass(frozen=True, eq=False)
class NightUnderReview:
    """The data of a night that no action changes."""

    name: str
    density: Hypnodensity  # of the stager, in the stage order of the profile
    profile: Profile  # at the start of the review
    # how it was read: quality, lights, cohort, stager, and the stages fixed before the review
    reading: DecodeOptions = field(default_factory=DecodeOptions)
    source: Path = Path()  # the file of the probabilities
    start: datetime | None = None  # of the recording, if that was said
    expert: Hypnogram | None = None  # a scoring of the same epochs
    notes: tuple[str, ...] = ()
    disagreement: Floats | None = None  # share of combined stagers that chose another stage, by epoch
    dispute: Dispute | None = None  # two scorings between which the review decides
    # slow results by the settings that they depend on; `replace` begins with empty ones
    _profiles: dict[GuardSettings, Profile] = field(default_factory=dict, init=False)
    _strengths: dict[GuardSettings, tuple[Decoding, dict[int, int]]] = field(default_factory=dict, init=False)
    _first_labels: dict[object, Labels] = field(default_factory=dict, init=False)

    @cached_property
    def options(self) -> GuardOptions:
        """The options of the guard; pins are actions here."""
        names = ("quality", "lights_off", "lights_on", "cohort", "stager", "trained")
        return GuardOptions(**{name: getattr(self.reading, name) for name in names})

    @cached_property
    def statistics(self) -> StatisticsOptions:
        """Options of the sleep statistics."""
        return StatisticsOptions(lights_off=self.reading.lights_off, lights_on=self.reading.lights_on)

    @cached_property
    def pins(self) -> dict[int, Pin]:
        """Stages that were fixed before the review."""
        stages = self._stages(self.reading.pins or {})
        return {epoch: Pin(stage, GIVEN_BEFORE) for epoch, stage in stages.items()}

    def _stages(self, pins: Mapping[int, str]) -> dict[int, int]:
        return {epoch: self.profile.scheme.index(stage) for epoch, stage in pins.items()}

    @property
    def scheme(self) -> StageScheme:
        """The stages."""
        return self.density.scheme

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return self.density.n_epochs

    @cached_property
    def argmax(self) -> Labels:
        """The stager's most probable stages."""
        return self.density.argmax

    @cached_property
    def profile_names(self) -> tuple[str, ...]:
        """Names of the profiles to choose from: the first one, and those of the same stages and species."""
        own, others = self.profile, (Profile.load(name) for name in profiles())
        alike = (other for other in others if other.scheme == self.scheme and other.species == own.species)
        return (own.name, *(other.name for other in alike if other.name != own.name))

    @cached_property
    def stager_statistics(self) -> SleepStatistics:
        """Sleep statistics of the stager's most probable stages."""
        return self.statistics.measure(self.hypnogram(self.argmax))

    @cached_property
    def expert_statistics(self) -> SleepStatistics | None:
        """Sleep statistics of the expert's scoring, if there is one."""
        return None if self.expert is None else self.statistics.measure(self.expert)

    def quality_with(self, artefacts: frozenset[int]) -> Floats | None:
        """Return the signal quality of each epoch (0 clean to 1 lost); epochs marked as artefact are lost."""
        given = self.reading.quality
        if not artefacts:
            return given
        quality = np.zeros(self.n_epochs) if given is None else np.array(given, dtype=np.float64)
        quality[sorted(artefacts)] = 1.0
        has_evidence = self.argmax != UNSCORED
        if has_evidence.any() and not has_evidence[quality < 1.0].any():
            raise InputError("artefacts leave no epoch with evidence, expected one or more: remove some.")
        return quality

    def quality_for_strength(self, settings: GuardSettings) -> Floats | None:
        """Return the signal quality with which the profile's rule chooses the strength."""
        if settings.strength_artefacts is None:
            return quality_for_strength(self.reading, self.n_epochs)
        return self.quality_with(settings.strength_artefacts)

    def profile_for(self, settings: GuardSettings) -> Profile:
        """Return the profile of the settings, computed once."""
        if settings not in self._profiles:
            is_own = settings.profile == self.profile.name
            profile = self.profile if is_own else Profile.load(settings.profile)
            self._profiles[settings] = _adjust_profile(profile, settings)
        return self._profiles[settings]

    def opening_state(self, *, is_blind: bool = False) -> ReviewState:
        """Return the state before the first action; a blind scorer begins without pins.

        Who decides between two scorers begins with the stages on which they agree.
        """
        if self.dispute is not None:
            settled = self.dispute.settled
            return ReviewState(
                GuardSettings(self.profile.name), pins=settled, is_blind=True, first_pins=settled
            )
        if is_blind:
            return ReviewState(GuardSettings(self.profile.name), is_blind=True)
        chosen_with = self.reading.strength_pins
        stages = self._stages(self.reading.pins or {} if chosen_with is None else chosen_with)
        settings = GuardSettings(self.profile.name, strength_pins=tuple(sorted(stages.items())))
        return ReviewState(settings, pins=self.pins, first_pins=self.pins)

    def hypnogram(self, labels: Labels, scorer: str | None = None) -> Hypnogram:
        """Return labels as a hypnogram of this night."""
        density = self.density
        described = (density.scheme, density.epoch_seconds, density.start, scorer)
        return Hypnogram(labels, *described, offset_seconds=density.offset_seconds)


@dataclass(frozen=True, eq=False)
class GuardResult:
    """The result of the guard for a night; pins always hold."""

    labels: Labels
    decoding: Decoding | None  # None if the night has no evidence at all
    # why the pins cannot hold under the profile: the night is then decoded without them
    conflict: PinError | None = None

    @cached_property
    def posterior(self) -> Posterior | None:
        """The probability of each stage under the profile."""
        return None if self.decoding is None else posterior_like(self.decoding)


def guard(night: NightUnderReview, state: ReviewState) -> GuardResult:
    """Decode a night under a person's decisions; pins that contradict each other are a PinError."""
    pins = {epoch: pin.stage for epoch, pin in state.pins.items()}
    if (night.argmax == UNSCORED).all():
        return GuardResult(_labels_with_pins(night.argmax, pins), None)
    profile = night.profile_for(state.settings)
    options = replace(night.options, pins=pins or None, quality=night.quality_with(state.artefacts))
    held, _ = chosen_strength(night, state.settings)
    with warnings.catch_warnings():  # the page shows how much was changed
        warnings.simplefilter("ignore", StageGuardWarning)
        decoding = decode_held(night.density, profile, options, held)
    return GuardResult(decoding.hypnogram.labels, decoding)


def chosen_strength(night: NightUnderReview, settings: GuardSettings) -> tuple[Decoding, dict[int, int]]:
    """Return the night at the strength that the profile's rule chose once, and the pins it chose it with."""
    if settings not in night._strengths:
        pins = dict(settings.strength_pins)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            alone = replace(night.options, quality=night.quality_for_strength(settings))
            profile = profile_for(night.profile_for(settings), alone)
            try:
                options = replace(alone, pins=pins or None)
                first = decode_night(Night.read(night.density, profile, options))
            except PinError:  # the profile does not allow these pins: its strength is that of the night alone
                pins = {}
                first = decode_night(Night.read(night.density, profile, alone))
        night._strengths[settings] = first, pins
    return night._strengths[settings]


def guard_anyway(night: NightUnderReview, state: ReviewState) -> GuardResult:
    """Decode a night under a person's decisions, which hold even if the profile does not allow them."""
    try:
        return guard(night, state)
    except PinError as error:
        pins = {epoch: pin.stage for epoch, pin in state.pins.items()}
        without = guard(night, replace(state, pins={}))
        return GuardResult(_labels_with_pins(without.labels, pins), without.decoding, error)


def first_labels(night: NightUnderReview, state: ReviewState) -> Labels:
    """Return the stages of the night as the scorer saw it first, under the settings of the first decision."""
    key = state.first_settings, tuple(sorted(state.first_pins)), state.first_artefacts
    if key not in night._first_labels:
        first = replace(
            state,
            settings=state.first_settings,
            pins=state.first_pins,
            artefacts=state.first_artefacts,
        )
        night._first_labels[key] = guard_anyway(night, first).labels
    return night._first_labels[key]


@dataclass(frozen=True, slots=True)
class Relaxation:
    """An action to offer instead of a refused action."""

    label: str
    action: Action


def relaxations(
    night: NightUnderReview, state: ReviewState, action: Action, error: PinError
) -> list[Relaxation]:
    """Return actions that would make a refused action possible; each is tested by decoding the night."""

    def is_allowed(tried: Action) -> bool:
        try:
            guard(night, act(state, tried, "", night.n_epochs))
        except InputError:
            return False
        return True

    return [each for each in _candidates(night, state, action, error) if is_allowed(each.action)]


def _candidates(
    night: NightUnderReview, state: ReviewState, action: Action, error: PinError
) -> Iterator[Relaxation]:
    """Yield actions that may help: a longer bout, one pin less, no guard, another profile."""
    actions = action.actions if action.do == "several" else (action,)

    def first(label: str, **more: Any) -> Relaxation:
        return Relaxation(label, Action("several", actions=(Action(**more), *actions)))

    if action.do == "set":
        yield from _longer_bouts(night, state.settings, action)
    for epoch, stage in error.pins:
        is_new = any(one.first <= epoch <= one.last for one in actions if one.do == "set")
        if epoch in state.pins and not is_new:
            yield first(f"Take back {stage} at epoch {epoch + 1}", do="clear", first=epoch, last=epoch)
    if state.settings.strength != "off":
        yield first("Switch the guard off", do="strength", value="off")
    others = [name for name in night.profile_names if name != state.settings.profile]
    for name in others[:MOST_PROFILES_TRIED]:
        yield first(f"Use the profile {name}", do="profile", value=name)


def _longer_bouts(night: NightUnderReview, settings: GuardSettings, action: Action) -> Iterator[Relaxation]:
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


def _adjust_profile(profile: Profile, settings: GuardSettings) -> Profile:
    if settings.clock and profile.clock is None:
        raise InputError(f"profile {profile.name!r} has no clock, so that it cannot be switched on.")
    profile = profile.at_strength(settings.strength)
    return profile.replace(clock=None) if settings.clock is False and profile.clock is not None else profile


def _labels_with_pins(labels: Labels, pins: Mapping[int, int]) -> Labels:
    held = np.array(labels, dtype=np.int8)
    if pins:
        held[list(pins)] = list(pins.values())
    return held


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """A night after some actions: the person's decisions, and the guard's result under them."""

    state: ReviewState
    result: GuardResult


def next_revision(night: NightUnderReview, before: Revision, action: Action, who: str, when: str) -> Revision:
    """Return a night after an action; pins that contradict each other are a PinError."""
    if action.do == "agree":
        stages = before.result.labels[action.first : action.last + 1].tolist()
        if not before.state.is_blind and list(action.stages) != stages:
            raise InputError("these epochs have changed since you saw them: look again.")
    state = next_state(night, before.state, action, who, when)
    return Revision(state, _next_result(night, before, state))


def next_state(
    night: NightUnderReview, state: ReviewState, action: Action, who: str, when: str
) -> ReviewState:
    """Return a person's decisions after an action; refuse what this night does not allow."""
    if night.dispute is not None and action.do == "blind":
        raise InputError("an adjudication is blind until it is revealed: reveal it.")
    state = act(state, action, who, night.n_epochs, when)
    if night.dispute is not None:
        night.dispute.check_settled(state.pins)
    night.profile_for(state.settings)  # refuses a clock if the profile has none
    night.quality_with(state.artefacts)  # refuses artefacts everywhere, also while the night is scored blind
    return state


def _next_result(night: NightUnderReview, before: Revision, state: ReviewState) -> GuardResult:
    """Return the guard's result for a new state; the old result if nothing that it depends on has changed."""
    old = before.state
    is_same = (state.pins, state.settings, state.artefacts) == (old.pins, old.settings, old.artefacts)
    if state.is_blind:
        return before.result  # it is hidden, and a blind scorer's stages are never refused
    if not old.is_blind and is_same:
        return before.result
    if state.is_revealed or before.result.conflict is not None:
        return guard_anyway(night, state)
    return guard(night, state)


def action_record(
    night: NightUnderReview, action: Action, before: Revision, after: Revision
) -> dict[str, Any]:
    """Return what an action did, for the log: the stages before and after, and how many epochs changed."""
    names = (*night.scheme.names, "?")
    old, new = before.result.labels, after.result.labels
    if after.state.is_blind:  # the scorer sees only scored stages
        old, new = (pinned_labels(night, one.state) for one in (before, after))
    record: dict[str, Any] = {}
    touched = _edited_epochs(before.state, after.state, action)
    if touched is not None:
        first, last = touched
        record |= {"first": first, "last": last}
        for side, labels in (("before", old), ("after", new)):
            record[side] = in_bouts([names[label] for label in labels[first : last + 1].tolist()])
    return record | {"changed": int(np.count_nonzero(old != new))}


def _edited_epochs(before: ReviewState, after: ReviewState, action: Action) -> tuple[int, int] | None:
    """Return the first and last epoch that an action sets, takes back, agrees with or marks, or None."""
    if action.do in ON_EPOCHS:
        return action.first, action.last
    steps = {"undo": before.done, "redo": before.undone, "several": after.done}.get(action.do)
    epochs = steps[-1].pins if steps else {}
    return (min(epochs), max(epochs)) if epochs else None


def pinned_labels(night: NightUnderReview, state: ReviewState) -> Labels:
    """Return the stages that the scorer decided; -1 in all other epochs."""
    labels = np.full(night.n_epochs, UNSCORED, dtype=np.int8)
    if state.pins:
        labels[list(state.pins)] = [pin.stage for pin in state.pins.values()]
    return labels


def replay(night: NightUnderReview, journal: JournalFile) -> Revision:
    """Return a night after all actions of a journal."""
    state = state_after(night, journal)
    return Revision(state, guard_anyway(night, state))


def state_after(night: NightUnderReview, journal: JournalFile) -> ReviewState:
    """Return a person's decisions after all actions of a journal; nothing is decoded."""
    state = night.opening_state(is_blind=journal.head["blind"])
    is_other = any(record.get("do") in ("profile", "several") for record in journal.actions)
    names = night.profile_names if is_other else ()  # which take a while to find
    for number, record in enumerate(journal.actions, start=2):
        try:
            action = parse_action(record, night.scheme, night.n_epochs, names)
            state = next_state(night, state, action, record["who"], record["when"])
        except (*MALFORMED, StageGuardError) as error:
            reason = " ".join(str(error).split())[:160]
            raise file_error(journal.path, f"line {number} cannot be done again: {reason}") from None
    return state

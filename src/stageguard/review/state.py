"""The state of a review, and the effect of each action on it: pure functions without files and clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stageguard import checks
from stageguard.errors import InputError
from stageguard.night.stages import StageScheme
from stageguard.review.targets import check_targets

StrengthChoice = float | Literal["off"] | None  # None: as in the profile
MOST_WHY = 500  # characters of a reason
MOST_TOGETHER = 8  # actions in one action "several"
MOST_WEIGHT = 100.0  # of transitions; weights above a few change nothing more
SETTINGS = ("profile", "strength", "clock")
TOGETHER = ("set", "clear", *SETTINGS)  # actions allowed in "several"
ALONE = ("several", "agree", "artefact", "choose_strength", "undo", "redo", "blind", "reveal", "targets")
ACTIONS = (*TOGETHER, *ALONE)
ON_EPOCHS = ("set", "clear", "agree", "artefact")


@dataclass(frozen=True, slots=True)
class Pin:
    """The stage that a person gave to an epoch, or agreed with."""

    stage: int
    who: str
    why: str = ""
    when: str = ""
    is_agreed: bool = False


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """How the night is guarded: the profile's name, its strength and whether its clock runs.

    The profile's rule chooses the strength once, for the night with `strength_pins` and
    `strength_artefacts`, and not again after every action: otherwise a decision at one end of the night would
    change stages at the other end.
    """

    profile: str
    strength: StrengthChoice = None
    clock: bool | None = None  # None: as in the profile
    strength_pins: tuple[tuple[int, int], ...] = ()  # epochs and stages
    strength_artefacts: frozenset[int] | None = None  # epochs; None: as when the review was opened


@dataclass(frozen=True, slots=True)
class Step:
    """The changes of an action, before and after, so that it can be undone exactly."""

    does: str
    pins: Mapping[int, tuple[Pin | None, Pin | None]] = field(default_factory=dict)
    settings: tuple[GuardSettings, GuardSettings] | None = None
    artefacts: tuple[frozenset[int], frozenset[int]] | None = None


@dataclass(frozen=True, slots=True)
class ReviewState:
    """All decisions of a person about a night.

    Attributes
    ----------
    settings : Settings
        How the night is guarded.
    pins : mapping of int to Pin
        Stages that a person gave or agreed with, by epoch.
    is_blind, is_revealed : bool
        Whether stager and guard are hidden; whether they were hidden and have been revealed.
    first_pins : mapping of int to Pin
        The pins of the night that the scorer saw first: at the opening, or when a blind night was revealed.
    artefacts, first_artefacts : frozenset of int
        Epochs whose signal a person marked as no evidence, now and in the night that the scorer saw first.
    done, undone : tuple of Step
        Steps that can be undone, and steps that can be redone; the next one is last.
    revision : int
        Number of actions, including undo and redo.
    targets : mapping of str to float, or None
        How far each statistic may be from the truth: see `stageguard.review.targets`. None if the review has
        no aim but the queue; empty if all statistics count in units of one expert's error.
    """

    settings: GuardSettings
    pins: Mapping[int, Pin] = field(default_factory=dict)
    is_blind: bool = False
    is_revealed: bool = False
    first_pins: Mapping[int, Pin] = field(default_factory=dict)
    artefacts: frozenset[int] = frozenset()
    first_artefacts: frozenset[int] = frozenset()
    done: tuple[Step, ...] = ()
    undone: tuple[Step, ...] = ()
    revision: int = 0
    targets: Mapping[str, float] | None = None

    @property
    def n_agreed(self) -> int:
        """Number of epochs whose stage a person agreed with."""
        return sum(pin.is_agreed for pin in self.pins.values())

    @property
    def n_stretches_done(self) -> int:
        """Number of stretches of epochs that were given a stage or agreed with."""
        return sum(step.does in ("set", "agree", "several") for step in self.done)

    @property
    def first_settings(self) -> GuardSettings:
        """The settings under which the first epoch was decided; the current ones if none was yet."""
        settings = self.settings
        is_decided = False
        for step in self.done:
            if step.settings is not None and is_decided:
                return step.settings[0]
            is_decided |= bool(step.pins)
        return settings


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a person; `do` decides which fields are used."""

    do: str
    first: int = 0
    last: int = 0
    stage: int = 0
    why: str = ""
    stages: tuple[int, ...] = ()
    value: Any = None
    actions: tuple[Action, ...] = ()

    def to_dict(self, scheme: StageScheme) -> dict[str, Any]:
        """Return the action's record in a journal: stages by name, epochs counted from 0."""
        record: dict[str, Any] = {"do": self.do}
        if self.do in ON_EPOCHS:
            record |= {"first": self.first, "last": self.last}
        if self.do == "set":
            record |= {"stage": scheme.names[self.stage], "why": self.why}
        elif self.do == "agree":
            record["stages"] = [scheme.names[stage] for stage in self.stages]
        elif self.do == "several":
            record["actions"] = [action.to_dict(scheme) for action in self.actions]
        elif self.do == "reveal":
            record["anyway"] = self.value
        elif self.do == "profile":
            record["name"] = self.value
        elif self.do in ("strength", "clock", "blind", "targets", "artefact"):
            record["value"] = self.value
        return record


def parse_action(
    document: object,
    scheme: StageScheme,
    n_epochs: int,
    profiles: Iterable[str],
) -> Action:
    """Return an action from JSON that comes from outside; refuse anything unknown."""
    if not isinstance(document, Mapping):
        raise InputError(f"the action is {checks.shown(document)}, expected an object with the key 'do'.")
    do = document.get("do")
    if do not in ACTIONS:
        raise InputError(f"the action is {checks.shown(do)}, expected one of {', '.join(ACTIONS)}.")
    if do in ON_EPOCHS:
        return _parse_epochs_action(document, do, scheme, n_epochs)
    if do == "several":
        return _parse_several(document.get("actions"), scheme, n_epochs, profiles)
    if do == "profile":
        return Action(do, value=checks.choice(document.get("name"), "the profile", tuple(profiles)))
    if do == "strength":
        return Action(do, value=_strength(document.get("value")))
    if do == "clock":
        return Action(do, value=_one_of(document.get("value"), "clock", (None, True, False)))
    if do == "blind":
        return Action(do, value=_one_of(document.get("value"), "blind", (True, False)))
    if do == "targets":
        if "value" not in document:
            raise InputError("the targets are missing, expected a value: an object, or null for none.")
        value = document["value"]
        return Action(do, value=None if value is None else check_targets(value, scheme))
    if do == "reveal":
        return Action(do, value=_one_of(document.get("anyway", False), "anyway", (True, False)))
    return Action(do)


def act(state: ReviewState, action: Action, who: str, n_epochs: int, when: str = "") -> ReviewState:
    """Return the state after an action."""
    revision = state.revision + 1
    if action.do == "blind":
        if state.pins or state.is_revealed:
            raise InputError("blind scoring begins before the first epoch is scored, and some are already.")
        return replace(state, is_blind=action.value, revision=revision)
    if action.do == "reveal":
        if not state.is_blind:
            raise InputError("nothing is hidden, so there is nothing to reveal.")
        n_left = n_epochs - len(state.pins)
        if n_left and not action.value:
            raise InputError(f"{n_left} epochs are not scored yet: score them, or reveal anyway.")
        shown = replace(state, is_blind=False, is_revealed=True, first_pins=state.pins)
        return replace(shown, first_artefacts=state.artefacts, revision=revision)
    if action.do == "targets":
        return replace(state, targets=action.value, revision=revision)
    if action.do in ("undo", "redo"):
        return replace(_undo_or_redo(state, action.do), revision=revision)
    if action.do in ("agree", "choose_strength") and state.is_blind:
        raise InputError("the guard is hidden, so that nothing can be said about it: score the epoch.")
    step = _step(state, action, who, when)
    return replace(_apply(state, step), done=(*state.done, step), undone=(), revision=revision)


def _step(state: ReviewState, action: Action, who: str, when: str) -> Step:
    """Return the changes of an action."""
    epochs = range(action.first, action.last + 1)
    if action.do == "several":
        together = Step(action.do)
        for each in action.actions:
            step = _step(state, each, who, when)
            state, together = _apply(state, step), _join_steps(together, step)
        return together
    if action.do == "set":
        pin = Pin(action.stage, who, action.why, when)
        return Step(action.do, pins={epoch: (state.pins.get(epoch), pin) for epoch in epochs})
    if action.do == "clear":
        held = {epoch: state.pins[epoch] for epoch in epochs if epoch in state.pins}
        if not held:
            raise InputError("there is no stage to take back: none of these epochs was set.")
        return Step(action.do, pins={epoch: (pin, None) for epoch, pin in held.items()})
    if action.do == "agree":
        agreed = dict(zip(epochs, action.stages, strict=True))
        new = {epoch: stage for epoch, stage in agreed.items() if epoch not in state.pins}
        if not new:
            raise InputError("there is nothing to agree with: these epochs are decided already.")
        pins = {epoch: Pin(stage, who, "", when, is_agreed=True) for epoch, stage in new.items()}
        return Step(action.do, pins={epoch: (None, pin) for epoch, pin in pins.items()})
    if action.do == "artefact":
        marked = state.artefacts.union(epochs) if action.value else state.artefacts.difference(epochs)
        if marked == state.artefacts:
            raise InputError("these epochs are marked like this already: nothing was changed.")
        return Step(action.do, artefacts=(state.artefacts, marked))
    change = {action.do: action.value}
    if action.do == "choose_strength":
        stages = tuple(sorted((epoch, pin.stage) for epoch, pin in state.pins.items()))
        change = {"strength_pins": stages, "strength_artefacts": state.artefacts}
    return Step(action.do, settings=(state.settings, replace(state.settings, **change)))


def _join_steps(one: Step, other: Step) -> Step:
    """Return two consecutive steps as one."""
    pins = dict(one.pins)
    for epoch, (before, after) in other.pins.items():
        pins[epoch] = (pins[epoch][0] if epoch in pins else before, after)
    settings = other.settings or one.settings
    if one.settings is not None and other.settings is not None:
        settings = one.settings[0], other.settings[1]
    return replace(one, pins=pins, settings=settings)


def _apply(state: ReviewState, step: Step, *, backwards: bool = False) -> ReviewState:
    side = 0 if backwards else 1
    changed = {epoch: both[side] for epoch, both in step.pins.items()}
    pins = {epoch: pin for epoch, pin in state.pins.items() if epoch not in changed}
    pins |= {epoch: pin for epoch, pin in changed.items() if pin is not None}
    settings = state.settings if step.settings is None else step.settings[side]
    artefacts = state.artefacts if step.artefacts is None else step.artefacts[side]
    return replace(state, pins=pins, settings=settings, artefacts=artefacts)


def _undo_or_redo(state: ReviewState, do: str) -> ReviewState:
    steps: Sequence[Step] = state.done if do == "undo" else state.undone
    if not steps:
        raise InputError(f"there is nothing to {do}.")
    step = steps[-1]
    moved = _apply(state, step, backwards=do == "undo")
    if do == "undo":
        return replace(moved, done=state.done[:-1], undone=(*state.undone, step))
    return replace(moved, done=(*state.done, step), undone=state.undone[:-1])


def _parse_epochs_action(document: Mapping[str, Any], do: str, scheme: StageScheme, n_epochs: int) -> Action:
    """Return an action on a stretch of epochs."""
    first, last = (_epoch(document, key, n_epochs) for key in ("first", "last"))
    if last < first:
        raise InputError(f"the action is from epoch {first} to {last}, expected an end after it.")
    if do == "set":
        return Action(
            do, first, last, _stage(document.get("stage"), scheme), _reason(document.get("why", ""))
        )
    if do == "clear":
        return Action(do, first, last)
    if do == "artefact":
        return Action(do, first, last, value=checks.flag(document.get("value"), "value"))
    stages, n = document.get("stages"), last - first + 1
    if not isinstance(stages, list) or len(stages) != n:
        raise InputError(f"stages is {checks.shown(stages)}, expected a list of {n}: one per epoch.")
    return Action(do, first, last, stages=tuple(_stage(stage, scheme) for stage in stages))


def _parse_several(document: object, scheme: StageScheme, n_epochs: int, profiles: Iterable[str]) -> Action:
    if not isinstance(document, list) or not 1 <= len(document) <= MOST_TOGETHER:
        raise InputError(f"actions is {checks.shown(document)}, expected a list of 1 to {MOST_TOGETHER}.")
    known = tuple(profiles)
    actions = []
    for item in document:
        action = parse_action(item, scheme, n_epochs, known)
        if action.do not in TOGETHER:
            raise InputError(f"the action {action.do!r} stands alone, expected {', '.join(TOGETHER)}.")
        actions.append(action)
    return Action("several", actions=tuple(actions))


def _epoch(document: Mapping[str, Any], key: str, n_epochs: int) -> int:
    value = document.get(key, document.get("epoch"))
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n_epochs:
        shown = checks.shown(value)
        raise InputError(f"{key} is {shown}, expected the index of an epoch, 0 to {n_epochs - 1}.")
    return value


def _stage(value: object, scheme: StageScheme) -> int:
    if isinstance(value, str):
        return scheme.index(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < scheme.n_stages:
        raise InputError(f"stage is {checks.shown(value)}, expected 0 to {scheme.n_stages - 1}.")
    return value


def _reason(value: object) -> str:
    text = checks.text(value, "why")
    if len(text) > MOST_WHY:
        raise InputError(f"why has {len(text)} characters, expected at most {MOST_WHY}.")
    return text


def _strength(value: object) -> StrengthChoice:
    if value is None or value == "off":
        return None if value is None else "off"
    return checks.number(value, "strength", low=0.0, high=MOST_WEIGHT)


def _one_of(value: object, what: str, choices: tuple[bool | None, ...]) -> bool | None:
    if not any(value is choice for choice in choices):
        shown = ", ".join({None: "null", True: "true", False: "false"}[choice] for choice in choices)
        raise InputError(f"{what} is {checks.shown(value)}, expected one of {shown}.")
    return value  # type: ignore[return-value]  # it is one of the choices

"""The state of a review, and the effect of each action on it: pure functions without files and clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
ON_EPOCHS = ("set", "clear", "agree", "artefact")
VALUED = {
    "profile": "name",
    "reveal": "anyway",
    **dict.fromkeys(("strength", "clock", "blind", "targets"), "value"),
}
TOGETHER = ("set", "clear", "profile", "strength", "clock")  # actions allowed in "several"
ACTIONS = (*ON_EPOCHS, *VALUED, "several", "choose_strength", "undo", "redo")


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
    """All decisions of a person about a night."""

    settings: GuardSettings
    pins: Mapping[int, Pin] = field(default_factory=dict)  # stages given or agreed with, by epoch
    is_blind: bool = False  # whether stager and guard are hidden
    is_revealed: bool = False  # whether they were hidden and no longer are
    artefacts: frozenset[int] = frozenset()  # epochs whose signal is no evidence
    # of the night that the scorer saw first: at the opening, or when a blind night was revealed
    first_pins: Mapping[int, Pin] = field(default_factory=dict)
    first_artefacts: frozenset[int] = frozenset()
    done: tuple[Step, ...] = ()  # that can be undone; the next one is last
    undone: tuple[Step, ...] = ()
    revision: int = 0  # number of actions, including undo and redo
    # how far each statistic may be from the truth; empty: all count in units of one expert's error; None: no
    # aim but the queue
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
        is_decided = False
        for step in self.done:
            if step.settings is not None and is_decided:
                return step.settings[0]
            is_decided |= bool(step.pins)
        return self.settings


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
        names = scheme.names
        where = {"first": self.first, "last": self.last} if self.do in ON_EPOCHS else {}
        what: dict[str, Any] = {}
        if self.do in VALUED:
            what = {VALUED[self.do]: self.value}
        elif self.do == "set":
            what = {"stage": names[self.stage], "why": self.why}
        elif self.do == "agree":
            what = {"stages": [names[stage] for stage in self.stages]}
        elif self.do == "artefact":
            what = {"value": self.value}
        elif self.do == "several":
            what = {"actions": [action.to_dict(scheme) for action in self.actions]}
        return {"do": self.do, **where, **what}


def parse_action(document: object, scheme: StageScheme, n_epochs: int, profiles: Iterable[str]) -> Action:
    """Return an action from JSON that comes from outside; refuse anything unknown."""
    if not isinstance(document, Mapping):
        raise InputError(f"the action is {checks.shown(document)}, expected an object with the key 'do'.")
    do = document.get("do")
    if do not in ACTIONS:
        raise InputError(f"the action is {checks.shown(do)}, expected one of {', '.join(ACTIONS)}.")
    if do in ON_EPOCHS:
        return _parse_epochs_action(document, do, scheme, n_epochs)
    if do == "several":
        return _parse_several(document.get("actions"), scheme, n_epochs, tuple(profiles))
    if do not in VALUED:
        return Action(do)
    value = document.get(VALUED[do], False if do == "reveal" else None)
    if do == "profile":
        value = checks.choice(value, "the profile", tuple(profiles))
    elif do == "strength" and value not in (None, "off"):
        value = checks.number(value, do, low=0.0, high=MOST_WEIGHT)
    elif do in ("blind", "reveal") or (do == "clock" and value is not None):
        value = checks.flag(value, do)
    elif do == "targets":
        if "value" not in document:
            raise InputError("the targets are missing, expected a value: an object, or null for none.")
        value = None if value is None else check_targets(value, scheme)
    return Action(do, value=value)


def _parse_epochs_action(document: Mapping[str, Any], do: str, scheme: StageScheme, n_epochs: int) -> Action:
    """Return an action on a stretch of epochs."""
    first, last = (_index(document.get(key), key, n_epochs) for key in ("first", "last"))
    if last < first:
        raise InputError(f"the action is from epoch {first} to {last}, expected an end after it.")
    if do == "set":
        why = checks.text(document.get("why", ""), "why")
        if len(why) > MOST_WHY:
            raise InputError(f"why has {len(why)} characters, expected at most {MOST_WHY}.")
        return Action(do, first, last, _stage(document.get("stage"), scheme), why)
    if do == "artefact":
        return Action(do, first, last, value=checks.flag(document.get("value"), "value"))
    if do == "clear":
        return Action(do, first, last)
    stages, n = document.get("stages"), last - first + 1
    if not isinstance(stages, list) or len(stages) != n:
        raise InputError(f"stages is {checks.shown(stages)}, expected a list of {n}: one per epoch.")
    return Action(do, first, last, stages=tuple(_stage(stage, scheme) for stage in stages))


def _parse_several(document: object, scheme: StageScheme, n_epochs: int, profiles: tuple[str, ...]) -> Action:
    if not isinstance(document, list) or not 1 <= len(document) <= MOST_TOGETHER:
        raise InputError(f"actions is {checks.shown(document)}, expected a list of 1 to {MOST_TOGETHER}.")
    actions = tuple(parse_action(item, scheme, n_epochs, profiles) for item in document)
    for action in actions:
        if action.do not in TOGETHER:
            raise InputError(f"the action {action.do!r} stands alone, expected {', '.join(TOGETHER)}.")
    return Action("several", actions=actions)


def _index(value: object, what: str, n: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n:
        raise InputError(f"{what} is {checks.shown(value)}, expected 0 to {n - 1}.")
    return value


def _stage(value: object, scheme: StageScheme) -> int:
    return scheme.index(value) if isinstance(value, str) else _index(value, "stage", scheme.n_stages)


def act(state: ReviewState, action: Action, who: str, n_epochs: int, when: str = "") -> ReviewState:
    """Return the state after an action."""
    state = replace(state, revision=state.revision + 1)
    if action.do == "blind":
        if state.pins or state.is_revealed:
            raise InputError("blind scoring begins before the first epoch is scored, and some are already.")
        return replace(state, is_blind=action.value)
    if action.do == "reveal":
        if not state.is_blind:
            raise InputError("nothing is hidden, so there is nothing to reveal.")
        n_left = n_epochs - len(state.pins)
        if n_left and not action.value:
            raise InputError(f"{n_left} epochs are not scored yet: score them, or reveal anyway.")
        seen = replace(state, first_pins=state.pins, first_artefacts=state.artefacts)
        return replace(seen, is_blind=False, is_revealed=True)
    if action.do == "targets":
        return replace(state, targets=action.value)
    if action.do in ("undo", "redo"):
        return _go_back(state, action.do)
    if action.do in ("agree", "choose_strength") and state.is_blind:
        raise InputError("the guard is hidden, so that nothing can be said about it: score the epoch.")
    step = _step(state, action, who, when)
    return replace(_apply(state, step), done=(*state.done, step), undone=())


def _go_back(state: ReviewState, do: str) -> ReviewState:
    """Undo or redo a step."""
    taken, given = (state.done, state.undone) if do == "undo" else (state.undone, state.done)
    if not taken:
        raise InputError(f"there is nothing to {do}.")
    rest, moved = taken[:-1], (*given, taken[-1])
    if do == "undo":
        return replace(_apply(state, taken[-1], side=0), done=rest, undone=moved)
    return replace(_apply(state, taken[-1]), done=moved, undone=rest)


def _step(state: ReviewState, action: Action, who: str, when: str) -> Step:
    """Return the changes of an action."""
    epochs, do = range(action.first, action.last + 1), action.do
    if do == "several":
        together = Step(do)
        for each in action.actions:
            step = _step(state, each, who, when)
            state, together = _apply(state, step), _join_steps(together, step)
        return together
    if do in ("set", "agree"):
        if do == "set":
            pins = dict.fromkeys(epochs, Pin(action.stage, who, action.why, when))
        else:
            agreed = zip(epochs, action.stages, strict=True)
            pins = {
                epoch: Pin(stage, who, "", when, is_agreed=True)
                for epoch, stage in agreed
                if epoch not in state.pins
            }
        if not pins:
            raise InputError("there is nothing to agree with: these epochs are decided already.")
        return Step(do, {epoch: (state.pins.get(epoch), pin) for epoch, pin in pins.items()})
    if do == "clear":
        held = {epoch: (state.pins[epoch], None) for epoch in epochs if epoch in state.pins}
        if not held:
            raise InputError("there is no stage to take back: none of these epochs was set.")
        return Step(do, held)
    if do == "artefact":
        marked = state.artefacts.union(epochs) if action.value else state.artefacts.difference(epochs)
        if marked == state.artefacts:
            raise InputError("these epochs are marked like this already: nothing was changed.")
        return Step(do, artefacts=(state.artefacts, marked))
    change = {do: action.value}
    if do == "choose_strength":
        stages = tuple(sorted((epoch, pin.stage) for epoch, pin in state.pins.items()))
        change = {"strength_pins": stages, "strength_artefacts": state.artefacts}
    return Step(do, settings=(state.settings, replace(state.settings, **change)))


def _join_steps(one: Step, other: Step) -> Step:
    """Return two consecutive steps as one."""
    pins = dict(one.pins)
    for epoch, (before, after) in other.pins.items():
        pins[epoch] = (pins[epoch][0] if epoch in pins else before, after)
    settings = other.settings or one.settings
    if one.settings is not None and other.settings is not None:
        settings = one.settings[0], other.settings[1]
    return replace(one, pins=pins, settings=settings)


def _apply(state: ReviewState, step: Step, *, side: int = 1) -> ReviewState:
    """Return the decisions after a step, or, at side 0, those before it."""
    pins = {epoch: pin for epoch, pin in state.pins.items() if epoch not in step.pins}
    pins |= {epoch: pin for epoch, both in step.pins.items() if (pin := both[side]) is not None}
    settings = state.settings if step.settings is None else step.settings[side]
    artefacts = state.artefacts if step.artefacts is None else step.artefacts[side]
    return replace(state, pins=pins, settings=settings, artefacts=artefacts)

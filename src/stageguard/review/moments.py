"""A night at one revision, and after the next action: what a server does, and what a replay repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError, StageGuardError
from stageguard.base.files import file_error
from stageguard.base.version import __version__
from stageguard.guard.explain import in_bouts
from stageguard.night.hypnogram import UNSCORED
from stageguard.review.journal import MALFORMED, RECORD, JournalFile
from stageguard.review.night import NightUnderReview, Outcome, guard, guard_anyway
from stageguard.review.state import ON_EPOCHS, Action, ReviewState, act, parse_action


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A night at one revision; slow results are computed when needed and stored in `made`."""

    state: ReviewState
    outcome: Outcome
    made: dict[str, Any]


def first_moment(night: NightUnderReview, *, is_blind: bool) -> Moment:
    """Return a night before the first action."""
    state = night.opening_state(is_blind=is_blind)
    return Moment(state, guard_anyway(night, state), {})


def next_moment(night: NightUnderReview, before: Moment, action: Action, who: str, when: str) -> Moment:
    """Return a night after an action; pins that contradict each other are a PinError."""
    if action.do == "agree":
        stages = before.outcome.labels[action.first : action.last + 1].tolist()
        if not before.state.is_blind and list(action.stages) != stages:
            raise InputError("these epochs have changed since you saw them: look again.")
    state = act(before.state, action, who, night.n_epochs, when)
    night.profile_for(state.settings)  # refuses a clock if the profile has none
    return Moment(state, _outcome(night, before, state), {})


def _outcome(night: NightUnderReview, before: Moment, state: ReviewState) -> Outcome:
    """Return the guard's result for a new state; the old result if pins and settings are unchanged."""
    old = before.state
    if state.is_blind:
        return before.outcome  # it is hidden, and a blind scorer's stages are never refused
    if not old.is_blind and state.pins == old.pins and state.settings == old.settings:
        return before.outcome
    if state.is_revealed or before.outcome.conflict is not None:
        return guard_anyway(night, state)
    return guard(night, state)


def effect(night: NightUnderReview, action: Action, before: Moment, after: Moment) -> dict[str, Any]:
    """Return what an action did, for the log: the stages before and after, and how many epochs changed."""
    names = (*night.scheme.names, "?")
    old, new = before.outcome.labels, after.outcome.labels
    if after.state.is_blind:  # the scorer sees only scored stages
        old, new = (pinned(night, one.state) for one in (before, after))
    record: dict[str, Any] = {}
    touched = _touched(before.state, action)
    if touched is not None:
        first, last = touched
        record |= {"first": first, "last": last}
        for side, labels in (("before", old), ("after", new)):
            record[side] = in_bouts([names[label] for label in labels[first : last + 1].tolist()])
    return record | {"changed": int(np.count_nonzero(old != new))}


def _touched(state: ReviewState, action: Action) -> tuple[int, int] | None:
    """Return the first and last epoch that an action sets, takes back or agrees with, or None."""
    if action.do in ON_EPOCHS:
        return action.first, action.last
    if action.do == "several":
        edits = [each for each in action.actions if each.do in ("set", "clear")]
        return (min(each.first for each in edits), max(each.last for each in edits)) if edits else None
    steps = {"undo": state.done, "redo": state.undone}.get(action.do)
    epochs = steps[-1].pins if steps else {}
    return (min(epochs), max(epochs)) if epochs else None


def pinned(night: NightUnderReview, state: ReviewState) -> Labels:
    """Return the stages that the scorer decided; -1 in all other epochs."""
    labels = np.full(night.n_epochs, UNSCORED, dtype=np.int8)
    if state.pins:
        labels[list(state.pins)] = [pin.stage for pin in state.pins.values()]
    return labels


def replay(night: NightUnderReview, journal: JournalFile) -> Moment:
    """Return a night after all actions of a journal; each must do again what the journal says it did."""
    at = first_moment(night, is_blind=bool(journal.head.get("blind")))
    for number, record in enumerate(journal.actions, start=2):
        try:
            action = parse_action(record, night.scheme, night.n_epochs, night.profile_names)
            after = next_moment(night, at, action, str(record["who"]), str(record["when"]))
        except (*MALFORMED, StageGuardError) as error:
            reason = " ".join(str(error).split())[:160]
            raise file_error(journal.path, f"line {number} cannot be done again: {reason}") from None
        done = action.to_dict(night.scheme) | effect(night, action, at, after)
        done["revision"] = after.state.revision
        unknown = sorted(record.keys() - done.keys() - RECORD.keys() - {"sha256"})
        if unknown:
            raise file_error(journal.path, f"line {number} has the unknown key {checks.shown(unknown[0])}.")
        wrong = [key for key, value in done.items() if record.get(key) != value]
        if wrong:
            said, now = (f"{one.get(wrong[0])!r:.60}" for one in (record, done))
            raise file_error(
                journal.path,
                f"line {number} says {wrong[0]} {said}, but done again it is {now}{_other_version(journal)}. "
                "Name another file (-o), or start anew.",
            )
        at = after
    return at


def _other_version(journal: JournalFile) -> str:
    """Return a remark on the version that wrote a journal, if it is not this one."""
    wrote = journal.head.get("stageguard")
    return "" if wrote == __version__ else f" by stageguard {__version__}; {wrote!s:.20} wrote it"

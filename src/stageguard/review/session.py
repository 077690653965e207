"""A review in progress: the night, its journal, and the result of the guard after each action."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Labels
from stageguard.base.errors import InputError, PinError
from stageguard.base.files import file_error
from stageguard.base.records import dataclass
from stageguard.formats.convert import Written, save
from stageguard.formats.file_format import FileFormat
from stageguard.formats.outputs import (
    OWN_FORMAT,
    describe_file,
    describe_profile,
    plain,
    relative_path,
    write_decoding,
)
from stageguard.formats.registry import named
from stageguard.guard.explain import in_bouts
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.review.journal import REVIEW_SUFFIX, Journal, JournalFile, now, replay
from stageguard.review.night import (
    NightUnderReview,
    Outcome,
    Relaxation,
    chosen_strength,
    guard,
    guard_anyway,
    relaxations,
)
from stageguard.review.opening import OpenedNight
from stageguard.review.state import ON_EPOCHS, Action, ReviewState, act, parse_action
from stageguard.review.worth import Worth, worth

MOST_EXPORTS = 1000  # names to try for an export


class StaleError(InputError):
    """An action refers to an outdated state."""


class HiddenError(InputError):
    """The request is for something hidden during blind scoring."""


class ConflictError(InputError):
    """Stages that a person set contradict each other under the profile."""

    def __init__(self, error: PinError, relax: list[Relaxation]) -> None:
        super().__init__(str(error))
        self.error, self.relax = error, relax


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A night at one revision; slow results are computed when needed and stored in `made`."""

    state: ReviewState
    outcome: Outcome
    made: dict[str, Any]


class Review:
    """One night, one scorer, one journal. A lock ensures that actions run one after the other."""

    def __init__(self, opened: OpenedNight, path: Path, scorer: str, *, is_blind: bool) -> None:
        self.opened, self.night, self.scorer = opened, opened.night, scorer
        self._lock = threading.Lock()
        head = head_of(opened, path.parent, scorer, is_blind=is_blind)
        self.journal = Journal(path)
        try:
            found = self.journal.found
            if found.head:
                check_head(found, head)
            else:
                self.journal.begin(head)
            fresh = self.night.opening_state(is_blind=is_blind)
            state = review_state(self.night, found) if found.head else fresh
            self.now = Moment(state, guard_anyway(self.night, state), {})
            self.others: dict[Path, Any] = {}  # results of other scorers' journals, cached by `second`
        except BaseException:
            self.journal.close(remove=not self.journal.found.head)
            raise

    def act(self, said: object, revision: object) -> Moment:
        """Perform an action if the night is still what the scorer saw: first the journal, then the state."""
        with self._lock:
            night, before = self.night, self.now
            if revision != before.state.revision or isinstance(revision, bool):
                raise StaleError("the night was changed in another window: look again, then repeat it.")
            action = parse_action(said, night.scheme, night.n_epochs, night.profile_names)
            when = now()
            _check_agreed(action, before)
            state = act(before.state, action, self.scorer, night.n_epochs, when)
            night.profile_for(state.settings)  # refuses a clock if the profile has none
            outcome = self._outcome(before, state, action)
            self.journal.append({"when": when} | self._record(action, before, state, outcome))
            self.now = Moment(state, outcome, {})
            return self.now

    def _outcome(self, before: Moment, state: ReviewState, action: Action) -> Outcome:
        """Return the guard's result for a new state; the old result if pins and settings are unchanged."""
        old = before.state
        if state.is_blind:
            return before.outcome  # it is hidden, and a blind scorer's stages are never refused
        if not old.is_blind and state.pins == old.pins and state.settings == old.settings:
            return before.outcome
        if state.is_revealed or before.outcome.conflict is not None:
            return guard_anyway(self.night, state)
        try:
            return guard(self.night, state)
        except PinError as error:
            raise ConflictError(error, relaxations(self.night, old, action, error)) from None

    def _record(self, action: Action, before: Moment, state: ReviewState, outcome: Outcome) -> dict[str, Any]:
        """Return the line of the journal: the action, and the stages that it changed."""
        names = (*self.night.scheme.names, "?")
        record = {"revision": state.revision, "who": self.scorer} | action.to_dict(self.night.scheme)
        old, new = before.outcome.labels, outcome.labels
        if state.is_blind:  # the scorer sees only scored stages
            old, new = (pinned(self.night, one) for one in (before.state, state))
        touched = _touched(before.state, action)
        if touched is not None:
            first, last = touched
            record |= {"first": first, "last": last}
            for side, labels in (("before", old), ("after", new)):
                record[side] = in_bouts([names[label] for label in labels[first : last + 1].tolist()])
        record["changed"] = int(np.count_nonzero(old != new))
        return record

    def worth(self, moment: Moment | None = None) -> Worth:
        """Return what is worth a look, computed once per revision."""
        at = moment or self.now
        if "worth" not in at.made:
            at.made["worth"] = worth(self.night, at.state, at.outcome)
        found: Worth = at.made["worth"]
        return found

    def reviewed(self, at: Moment) -> Hypnogram:
        """Return the stages of the review: only the scored epochs of a blind review, else all."""
        labels = pinned(self.night, at.state) if at.state.is_blind else at.outcome.labels
        return self.night.hypnogram(labels, self.scorer)

    def export(self, name: object) -> Written:
        """Write the reviewed night in a format, to a file that does not exist yet."""
        form, at = named(checks.text(name, "format"), "write"), self.now
        if at.state.is_blind and len(at.state.pins) < self.night.n_epochs:
            raise HiddenError("a night that is scored blind can be exported when every epoch is scored.")
        stem = self.journal.path.name.removesuffix(REVIEW_SUFFIX)
        for number in range(1, MOST_EXPORTS):
            count = "" if number == 1 else f"-{number}"
            path = self.journal.path.with_name(f"{stem}.reviewed{count}{form.written_suffix}")
            if not path.exists():
                return self._write(path, form)
        raise file_error(self.journal.path, f"has {MOST_EXPORTS} exports beside it. Move some away.")

    def _write(self, path: Path, form: FileFormat) -> Written:
        at = self.now
        stages = self.reviewed(at)
        decoding = at.outcome.decoding
        if decoding is None or at.outcome.conflict is not None or at.state.is_blind:
            return save(stages, path, format=form.name)  # these stages are not the result of a decoding
        result = decoding.replaced(hypnogram=stages)
        if form.name != OWN_FORMAT:
            return save(result, path, format=form.name)
        source = self.opened.source
        if describe_file(source)["sha256"] != self.journal.head["source"]["sha256"]:
            raise file_error(
                source, "was changed since it was opened. Put it back, or export in another format."
            )
        names = self.night.scheme.names
        pins = {epoch: names[pin.stage] for epoch, pin in at.state.pins.items()}
        chosen_with = chosen_strength(self.night, at.state.settings).pins
        strength_pins = {epoch: names[stage] for epoch, stage in chosen_with.items()}
        written = write_decoding(
            result,
            path,
            source_path=source,
            options=self.opened.recorded_options(pins, None if strength_pins == pins else strength_pins)
            | {"reviewed_by": self.scorer, "review": self.journal.path.name},
            quality=self.night.options.quality,
            notes=self.night.notes,
        )
        return Written((written.tsv, written.sidecar), form.name)

    def close(self) -> None:
        """Close the journal, and remove it if it has no action."""
        self.journal.close(remove=self.journal.n_actions == 0)


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


def _check_agreed(action: Action, at: Moment) -> None:
    """Refuse an agreement with other stages than those that the night has now."""
    if action.do == "agree":
        now = at.outcome.labels[action.first : action.last + 1].tolist()
        if list(action.stages) != now:
            raise InputError("these epochs have changed since you saw them: look again.")


def pinned(night: NightUnderReview, state: ReviewState) -> Labels:
    """Return the stages that the scorer set; -1 in all other epochs."""
    labels = np.full(night.n_epochs, UNSCORED, dtype=np.int8)
    if state.pins:
        labels[list(state.pins)] = [pin.stage for pin in state.pins.values()]
    return labels


def review_state(night: NightUnderReview, journal: JournalFile) -> ReviewState:
    """Return the state of a night after all actions of a journal."""
    opening = night.opening_state(is_blind=bool(journal.head.get("blind")))
    return replay(journal, opening, night.scheme, night.n_epochs, night.profile_names)


def head_of(opened: OpenedNight, folder: Path, scorer: str, *, is_blind: bool) -> dict[str, Any]:
    """Return the first line of a journal: the night, the scorer, and the options."""
    night = opened.night
    return {
        "scorer": scorer,
        "blind": is_blind,
        "night": {
            "name": night.name,
            "n_epochs": night.n_epochs,
            "epoch_seconds": night.density.epoch_seconds,
            "stages": list(night.scheme.names),
        },
        "source": describe_file(opened.source) | {"path": relative_path(opened.source, folder)},
        "options": plain(opened.recorded_options(None, opened.options.strength_pins)),
        "quality": None if night.options.quality is None else plain(np.asarray(night.options.quality)),
        "pins": {str(epoch): night.scheme.names[pin.stage] for epoch, pin in night.pins.items()},
        "profile": describe_profile(night.profile, plain(night.profile.to_dict())),
    }


def check_head(journal: JournalFile, expected: Mapping[str, Any]) -> None:
    """Refuse to continue the review of another night, scorer or profile, or one that is (not) blind."""
    head, sha256 = journal.head, expected["profile"]["sha256"]
    facts = (
        ("a night of other epochs or stages", head["night"], expected["night"]),
        ("another file of probabilities", head["source"].get("sha256"), expected["source"].get("sha256")),
        (f"the scorer {head['scorer']!r}", head["scorer"], expected["scorer"]),
        (f"the profile {head['profile'].get('name')!r}", head["profile"].get("sha256"), sha256),
        ("blind scoring" if head["blind"] else "open review", head["blind"], expected["blind"]),
    )
    for what, was, wanted in facts:
        if was != wanted:
            raise file_error(
                journal.path, f"is a review of {what}. Start it as it was begun, or name another file (-o)."
            )


def journal_path(folder: Path, name: str, scorer: str) -> Path:
    """Return the path of the journal of a night and a scorer."""
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in scorer).strip(".") or "scorer"
    return folder / f"{name}.{kept[:60]}{REVIEW_SUFFIX}"

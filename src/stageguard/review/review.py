"""A session of reviews: its nights, and of each review the journal and the guard's result after each action.

All nights are read at the start; the review of a night is opened when it is first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from stageguard import checks
from stageguard.errors import InputError, PinError, StageGuardError, error_message
from stageguard.files import file_error, real_path
from stageguard.formats.convert import Written, formats_for, save
from stageguard.formats.file_format import FileFormat
from stageguard.formats.outputs import OWN_FORMAT, describe_file, write_decoding
from stageguard.formats.registry import named
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnogram import Hypnogram
from stageguard.report.summary import measures_of
from stageguard.review.cohort import Cohort, CohortNight
from stageguard.review.dispute import Comparison
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, Journal, check_head, now, read_journal
from stageguard.review.montage import FILE_NAME, Laboratory, printable, read_montages
from stageguard.review.night import (
    NightUnderReview,
    Relaxation,
    Revision,
    action_record,
    guard_anyway,
    next_revision,
    pinned_labels,
    relaxations,
    replay,
    state_after,
)
from stageguard.review.opening import ReviewRequest, head_of, open_night, recorded_options
from stageguard.review.plan import Plan, Start, check_profile, plan_of, start_of
from stageguard.review.queue import Queue, queue_of
from stageguard.review.scorings import check_unchanged, open_dispute
from stageguard.review.signals import RecordingSignals
from stageguard.review.state import GuardSettings, ReviewState, parse_action
from stageguard.review.targets import check_targets
from stageguard.version import __version__

MOST_EXPORTS = 1000  # names to try for an export
ADJUDICATION = "adjudication"  # between scorer and suffix in the name of an adjudication's journal


class StaleError(InputError):
    """An action refers to an outdated state."""


class HiddenError(InputError):
    """The request is for something hidden during blind scoring."""


class ConflictError(InputError):
    """Stages that a person set contradict each other under the profile."""

    def __init__(self, error: PinError, relax: list[Relaxation]) -> None:
        super().__init__(str(error))
        self.error, self.relax = error, relax


class Review:
    """One night, one scorer, one journal. A lock ensures that actions run one after the other."""

    def __init__(self, night: NightUnderReview, path: Path, scorer: str, *, is_blind: bool) -> None:
        self.night, self.scorer = night, scorer
        is_blind = is_blind or night.dispute is not None
        self._lock = threading.Lock()
        head = head_of(night, path.parent, scorer, is_blind=is_blind)
        self.journal = Journal(path)
        try:
            found = self.journal.found
            if found.head:
                check_head(found, head)
            else:
                self.journal.begin(head)
            self.now = replay(night, replace(found, head=self.journal.head))
            self._queue: tuple[Revision, Queue] | None = None
            self._plan: tuple[Revision, Plan | None] | None = None
            self._starts: dict[GuardSettings, Start] = {}
            self._n_set_at_start = 0  # actions by the command, not by the scorer
            self._stage_formats = formats_for(self.night.hypnogram(self.night.argmax))
            self._is_named = False  # whether an export of this session names the journal
            self.others: dict[Path, Any] = {}  # results of other scorers' journals, cached by `scorings`
        except BaseException:
            self.journal.close(remove=True)
            raise

    def act(self, document: object, revision: object) -> Revision:
        """Perform an action if the night is still what the scorer saw: first the journal, then the state."""
        with self._lock:
            night, before = self.night, self.now
            if revision != before.state.revision or isinstance(revision, bool):
                raise StaleError("the night was changed in another window: look again, then repeat it.")
            action = parse_action(document, night.scheme, night.n_epochs, night.profile_names)
            when = now()
            try:
                after = next_revision(night, before, action, self.scorer, when)
                if action.do == "targets" and after.state.targets is not None:
                    check_profile(night, after.state)
            except PinError as error:
                raise ConflictError(error, relaxations(night, before.state, action, error)) from None
            record = {"when": when, "revision": after.state.revision, "who": self.scorer}
            record |= action.to_dict(night.scheme) | action_record(night, action, before, after)
            self.journal.append(record)
            self.now = after
            return after

    def queue(self, at: Revision | None = None) -> Queue:
        """Return what is worth a look now or at a revision, computed once per revision."""
        at = at or self.now
        if self._queue is None or self._queue[0] is not at:
            self._queue = at, queue_of(self.night, at.state, at.result)
        return self._queue[1]

    def plan(self, at: Revision | None = None) -> Plan | None:
        """Return how far the targets are now or at a revision, computed once per revision; None without."""
        at = at or self.now
        if at.state.targets is None:
            return None
        if self._plan is None or self._plan[0] is not at:
            settings = at.state.settings
            if settings not in self._starts:
                self._starts[settings] = start_of(self.night, at.state)
            self._plan = at, plan_of(self.night, at.state, at.result, self._starts[settings])
        return self._plan[1]

    def aim(self, targets: Mapping[str, float]) -> None:
        """Set the targets that a command names, unless they are set already."""
        if self.now.state.targets != check_targets(targets, self.night.scheme):
            self.act({"do": "targets", "value": targets}, self.now.state.revision)
            self._n_set_at_start += 1

    @property
    def n_stretches_left(self) -> int | None:
        """Number of stretches in the queue of the current revision; None if it is not computed yet."""
        return len(self._queue[1].stretches) if self._queue and self._queue[0] is self.now else None

    def stages(self, at: Revision) -> Hypnogram:
        """Return the stages of the review: only the scored epochs of a blind review, else all."""
        is_partial = at.state.is_blind or self.night.dispute is not None
        labels = pinned_labels(self.night, at.state) if is_partial else at.result.labels
        return self.night.hypnogram(labels, self.scorer)

    @property
    def formats(self) -> tuple[FileFormat, ...]:
        """The formats in which the night can be exported now; the record of a decoding comes first."""
        own = () if self._decoding is None else (named(OWN_FORMAT, "write"),)
        return (*own, *self._stage_formats)

    @property
    def _decoding(self) -> Decoding | None:
        """The decoding that gives the reviewed stages, if one does."""
        at = self.now
        is_own = at.state.is_blind or self.night.dispute is not None  # stages are a person's alone
        return None if at.result.conflict is not None or is_own else at.result.decoding

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """How far two adjudicated scorers agree, and each with the consensus once it is complete."""
        dispute = self.night.dispute
        return () if dispute is None else dispute.comparisons(self.night.scheme.names, self.now.state.pins)

    def export(self, name: object) -> Written:
        """Write the reviewed night in a format, to a file that does not exist yet."""
        dispute = self.night.dispute
        if dispute is not None:  # the consensus must be complete, and its logs as they were
            n_left = dispute.n_left(self.now.state.pins)
            if n_left:
                raise InputError(f"{n_left} epochs are not decided yet: decide them, then export.")
            for opinion in dispute.opinions:
                check_unchanged(self.journal.path.parent, opinion.place)
        form, at = named(checks.text(name, "format"), "write"), self.now
        if form not in self.formats:
            stages = ", ".join(self.night.scheme.names)
            why = f"cannot hold the stages {stages}" if form.name != OWN_FORMAT else "is for decoded nights"
            raise InputError(f"{form.title} {why}. Choose another format.")
        if at.state.is_blind and len(at.state.pins) < self.night.n_epochs:
            raise HiddenError("a night that is scored blind can be exported when every epoch is scored.")
        return self._write(self._new_path(form.written_suffix), form)

    def _new_path(self, suffix: str) -> Path:
        """Return a path beside the journal that no file has yet."""
        stem = self.journal.path.name.removesuffix(REVIEW_SUFFIX)
        for number in range(1, MOST_EXPORTS):
            count = "" if number == 1 else f"-{number}"
            path = self.journal.path.with_name(f"{stem}.reviewed{count}{suffix}")
            if not path.exists():
                return path
        raise file_error(self.journal.path, f"has {MOST_EXPORTS} exports beside it. Move some away.")

    def _write(self, path: Path, form: FileFormat) -> Written:
        at, decoding = self.now, self._decoding
        stages = self.stages(at)
        if decoding is None:
            return save(stages, path, format=form.name)
        result = replace(decoding, hypnogram=stages)
        if form.name != OWN_FORMAT:
            return save(result, path, format=form.name)
        source = self.night.source
        if describe_file(source)["sha256"] != self.journal.head["source"]["sha256"]:
            raise file_error(
                source, "was changed since it was opened. Put it back, or export in another format."
            )
        measures = measures_of(result, self.night.statistics)
        self._is_named = True
        written = write_decoding(
            result,
            path,
            source_path=source,
            options=recorded_options(self.night, at.state)
            | {"reviewed_by": self.scorer, "review": self.journal.place()},
            quality=self.night.quality_with(at.state.artefacts),
            notes=self.night.notes,
            joint_score=asdict(measures.joint),
            measured=measures.to_dict(),
        )
        return Written((written.tsv, written.sidecar), form.name)

    def close(self) -> None:
        """Close the journal, and remove it if this session began it, without an action and an export."""
        is_empty = self.journal.n_actions == self._n_set_at_start
        self.journal.close(remove=is_empty and not self._is_named)


def journal_path(folder: Path, name: str, scorer: str, *, adjudicates: bool = False) -> Path:
    """Return the path of the journal of a night and a scorer."""
    file_name = "".join(c if c.isalnum() or c in "-_." else "_" for c in scorer).strip(".") or "scorer"
    kind = f".{ADJUDICATION}" if adjudicates else ""
    return folder / f"{name}.{file_name[:60]}{kind}{REVIEW_SUFFIX}"


MOST_NAME = 100  # characters of a scorer's name


class UnknownIndexError(InputError):
    """There is no night, or no epoch, with this number."""


class ReviewSession:
    """Nights by number, and the reviews that are open."""

    def __init__(
        self,
        requests: Sequence[ReviewRequest],
        scorer: str,
        *,
        is_blind: bool = False,
        output: Path | None = None,
        adjudicates: tuple[str, str] | None = None,
        montage: Path | None = None,
        until: Mapping[str, float] | None = None,
    ) -> None:
        self.until = until
        self.last_cohort: Cohort | None = None  # when the session was closed
        self._unopened: dict[int, CohortNight | None] = {}  # nights of a cohort that nobody has opened yet
        self.requests, self.is_blind = tuple(requests), is_blind
        self.scorer = printable(checks.text(scorer, "scorer").strip(), "scorer", MOST_NAME)
        self._output, self.adjudicates = output, adjudicates
        self._laboratory = None if montage is None else read_montages(montage)
        self._refuse_shared_journals()
        self._lock = threading.Lock()
        self._reviews: dict[int, Review] = {}
        self._signals: dict[int, RecordingSignals] = {}
        self.compared: dict[str, tuple[Comparison, ...]] = {}  # by night, of adjudications that were closed
        self.nights: list[NightUnderReview | None] = []
        self.errors: list[str | None] = []
        for index, request in enumerate(self.requests):
            try:
                self.nights.append(self._opened(index, request))
                self.errors.append(None)
            except (StageGuardError, OSError) as error:
                self.nights.append(None)
                self.errors.append(str(error_message(error, request.path)))

    def _opened(self, index: int, request: ReviewRequest) -> NightUnderReview:
        """Return a night, with the two opinions to decide between if it is adjudicated."""
        night = open_night(request)
        if self.adjudicates is None:
            return night
        folder = self.journal_path(index).parent
        paths = [journal_path(folder, night.name, scorer) for scorer in self.adjudicates]
        return replace(night, dispute=open_dispute(night, paths))

    def _refuse_shared_journals(self) -> None:
        """Refuse nights that share a journal, because they have the same name and folder."""
        places: dict[Path, Path] = {}
        for index, night in enumerate(self.requests):
            kept = self.journal_path(index)
            other = places.setdefault(kept, night.path)
            if other is not night.path:
                raise InputError(
                    f"{other} and {night.path} would be kept in one file, {kept.name}. Review them "
                    "one by one, into folders of their own."
                )

    def journal_path(self, index: int) -> Path:
        """Return the path of a night's journal, without `..`: folders on the way are not created."""
        night, output = self.requests[index], self._output
        if output is not None and output.suffix == ".jsonl":
            return real_path(output.parent) / output.name
        folder = night.path.parent if output is None else real_path(output)
        return journal_path(folder, night.name, self.scorer, adjudicates=self.adjudicates is not None)

    def review(self, index: int) -> Review:
        """Return the review of a night; open it if needed."""
        if not 0 <= index < len(self.requests):
            raise UnknownIndexError(f"there is no night {index}, expected 0 to {len(self.requests) - 1}.")
        opened, error = self.nights[index], self.errors[index]
        if opened is None:
            raise UnknownIndexError(error or "this night could not be read.")
        with self._lock:
            if index not in self._reviews:
                path = self.journal_path(index)
                review = Review(opened, path, self.scorer, is_blind=self.is_blind)
                self._reviews[index] = review
                if self.until is not None:
                    review.aim(self.until)
            return self._reviews[index]

    def signals(self, index: int) -> RecordingSignals:
        """Return the signals of a night; open its recording if needed."""
        review = self.review(index)
        path = self.requests[index].edf
        if path is None:
            raise UnknownIndexError("this night was opened without a recording (--edf).")
        with self._lock:
            if index not in self._signals:
                self._signals[index] = RecordingSignals(path, review.night.hypnogram(review.night.argmax))
            return self._signals[index]

    def laboratory(self, index: int) -> Laboratory:
        """Return the laboratory's montages: of the file given, or of the one beside the night's journal."""
        if self._laboratory is not None:
            return self._laboratory
        path = self.journal_path(index).parent / FILE_NAME
        return read_montages(path) if path.exists() else Laboratory()

    def cohort(self) -> Cohort | None:
        """Return how far the nights of a review with targets are; None of one night, or of hidden ones.

        Nights that are not open are taken from their journals, and read again when they are opened.
        """
        is_hidden = self.is_blind or self.adjudicates is not None
        readable = [index for index, night in enumerate(self.nights) if night is not None]
        if not self.until or is_hidden or len(readable) < 2:
            return None
        found = [night for night in map(self._cohort_night, readable) if night is not None]
        first = self.nights[readable[0]]
        assert first is not None
        return Cohort(tuple(found), check_targets(self.until, first.scheme)) if found else None

    def _cohort_night(self, index: int) -> CohortNight | None:
        """Return a night as far as it is; None if nothing can be said of it."""
        night, review = self.nights[index], self._reviews.get(index)
        assert night is not None
        targets = check_targets(self.until, night.scheme)
        if review is not None:
            plan = review.plan()
            if plan is None or dict(plan.targets) != targets:  # the scorer has other targets here
                return None
            return CohortNight.of(index, night.name, plan)
        if index not in self._unopened:
            state = journal_state(night, self.journal_path(index), is_blind=False)
            plan = None
            if state is not None and not state.is_blind:
                state = replace(state, targets=targets)
                plan = plan_of(night, state, guard_anyway(night, state), start_of(night, state))
            self._unopened[index] = None if plan is None else CohortNight.of(index, night.name, plan)
        return self._unopened[index]

    def overview(self) -> dict[str, Any]:
        """Return a row per night, and the profiles to choose from."""
        first = next((night for night in self.nights if night is not None), None)
        return {
            "version": __version__,
            "scorer": self.scorer,
            "blind": self.is_blind,
            "adjudicates": self.adjudicates,
            "nights": [self._row(index) for index in range(len(self.requests))],
            "cohort": None if (cohort := self.cohort()) is None else cohort.to_dict(),
            "profiles": [] if first is None else list(first.profile_names),
        }

    def _row(self, index: int) -> dict[str, Any]:
        """Return a night's row in the list; numbers that are not known yet are None."""
        request, night, review = self.requests[index], self.nights[index], self._reviews.get(index)
        row: dict[str, Any] = {
            "index": index,
            "name": request.name,
            "epochs": 0 if night is None else night.n_epochs,
            "has_signals": request.edf is not None,
            "has_scoring": request.scoring is not None,
            "error": self.errors[index],
        }
        state, left = (None, None) if review is None else (review.now.state, review.n_stretches_left)
        if night is not None and review is None:
            state = journal_state(night, self.journal_path(index), is_blind=self.is_blind)
        if night is None or state is None:
            return row | dict.fromkeys(("scored", "looks", "left")) | {"begun": False}
        if state.is_blind or night.dispute is not None:
            left = night.n_epochs - len(state.pins)
        done = {"scored": len(state.pins), "looks": state.n_stretches_done, "left": left}
        return row | done | {"begun": state.revision > 0}

    def close(self) -> None:
        """Close all reviews; keep how far a cohort is, and how far the scorers of adjudications agree."""
        for review in self._reviews.values():
            if review.night.dispute is not None:
                self.compared[review.night.name] = review.comparisons
            review.close()
        if self._reviews:
            self.last_cohort = self.cohort()
        self._reviews.clear()


def journal_state(night: NightUnderReview, path: Path, *, is_blind: bool) -> ReviewState | None:
    """Return the decisions of a review that is not open; None if its journal cannot be read."""
    try:
        journal = read_journal(path) if path.is_file() else None
        if journal is not None and journal.head:
            return state_after(night, journal)
        return night.opening_state(is_blind=is_blind)
    except (StageGuardError, OSError, *MALFORMED):  # opening the night will raise the error
        return None

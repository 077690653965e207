"""How far the review of a night has come, by its journal alone: nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stageguard.errors import StageGuardError
from stageguard.review.journal import MALFORMED, read_journal
from stageguard.review.night import NightUnderReview, state_after
from stageguard.review.state import ReviewState


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a review.

    Attributes
    ----------
    scored : int
        Epochs that were given a stage, agreed with, or settled by two scorers.
    looks : int
        Decisions about stretches of epochs.
    left : int or None
        What is left: epochs of a blind review or an adjudication, else stretches that are worth a look, which
        are known once the night was opened.
    is_begun : bool
        Whether anything was done.
    """

    scored: int
    looks: int
    left: int | None
    is_begun: bool


def progress_of(night: NightUnderReview, state: ReviewState, n_stretches_left: int | None) -> Progress:
    """Return the progress of a review in a state."""
    by_epochs = state.is_blind or night.dispute is not None
    left = night.n_epochs - len(state.pins) if by_epochs else n_stretches_left
    return Progress(len(state.pins), state.n_stretches_done, left, state.revision > 0)


def journal_progress(night: NightUnderReview, path: Path, *, is_blind: bool) -> Progress | None:
    """Return the progress of a review that is not open; None if its journal cannot be read."""
    state = journal_state(night, path, is_blind=is_blind)
    return None if state is None else progress_of(night, state, None)


def journal_state(night: NightUnderReview, path: Path, *, is_blind: bool) -> ReviewState | None:
    """Return the decisions of a review that is not open; None if its journal cannot be read."""
    try:
        journal = read_journal(path) if path.is_file() else None
        if journal is not None and journal.head:
            return state_after(night, journal)
        return night.opening_state(is_blind=is_blind)
    except (StageGuardError, OSError, *MALFORMED):  # opening the night will raise the error
        return None

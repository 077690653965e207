"""All nights of one session: read at the start; a night's review is opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError, StageGuardError, error_message
from stageguard.base.files import real_path
from stageguard.base.version import __version__
from stageguard.review.journal import read_journal
from stageguard.review.opening import ReviewInput, ReviewRequest, open_night
from stageguard.review.review import Review, journal_path
from stageguard.review.signals import RecordingSignals

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
    ) -> None:
        self.requests, self.scorer, self.is_blind = tuple(requests), _checked_name(scorer), is_blind
        self._output = output
        self._refuse_shared_journals()
        self._lock = threading.Lock()
        self._reviews: dict[int, Review] = {}
        self._signals: dict[int, RecordingSignals] = {}
        self.inputs: list[ReviewInput | None] = []
        self.errors: list[str | None] = []
        for night in self.requests:
            try:
                self.inputs.append(open_night(night))
                self.errors.append(None)
            except (StageGuardError, OSError) as error:
                self.inputs.append(None)
                self.errors.append(str(error_message(error, night.path)))

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
        night = self.requests[index]
        if self._output is None:
            return journal_path(night.path.parent, night.name, self.scorer)
        if self._output.suffix == ".jsonl":
            return real_path(self._output.parent) / self._output.name
        return journal_path(real_path(self._output), night.name, self.scorer)

    def review(self, index: int) -> Review:
        """Return the review of a night; open it if needed."""
        if not 0 <= index < len(self.requests):
            raise UnknownIndexError(f"there is no night {index}, expected 0 to {len(self.requests) - 1}.")
        opened, error = self.inputs[index], self.errors[index]
        if opened is None:
            raise UnknownIndexError(error or "this night could not be read.")
        with self._lock:
            if index not in self._reviews:
                path = self.journal_path(index)
                self._reviews[index] = Review(opened, path, self.scorer, is_blind=self.is_blind)
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

    def overview(self) -> dict[str, Any]:
        """Return a row per night, and the profiles to choose from."""
        first = next((opened.night for opened in self.inputs if opened is not None), None)
        return {
            "version": __version__,
            "scorer": self.scorer,
            "blind": self.is_blind,
            "nights": [self._row(index) for index in range(len(self.requests))],
            "profiles": [] if first is None else list(first.profile_names),
        }

    def _row(self, index: int) -> dict[str, Any]:
        """Return a night's row in the list; numbers that are not known yet are None."""
        request, opened, review = self.requests[index], self.inputs[index], self._reviews.get(index)
        row: dict[str, Any] = {
            "index": index,
            "name": request.name,
            "epochs": 0 if opened is None else opened.night.n_epochs,
            "has_signals": request.edf is not None,
            "has_scoring": request.scoring is not None,
            "error": self.errors[index],
        }
        row |= dict.fromkeys(("changed", "pins", "looked_at", "queue_left"))
        if review is None:
            row["begun"] = _has_actions(self.journal_path(index))
            return row
        at = review.now
        row |= {"pins": len(at.state.pins), "looked_at": at.state.n_agreed, "begun": True}
        if not at.state.is_blind:
            row["changed"] = int(np.count_nonzero(at.result.labels != review.night.argmax))
            row["queue_left"] = review.n_stretches_left
        return row

    def close(self) -> None:
        """Close all reviews."""
        for review in self._reviews.values():
            review.close()
        self._reviews.clear()


def _checked_name(scorer: str) -> str:
    """Return a scorer's name, after checking that a terminal, the page and a journal can show it."""
    name = checks.text(scorer, "scorer").strip()
    if not name.isprintable() or not 1 <= len(name) <= MOST_NAME:
        raise InputError(
            f"scorer is {checks.shown(scorer)}, expected a name of 1 to {MOST_NAME} printable characters."
        )
    return name


def _has_actions(path: Path) -> bool:
    try:
        return bool(path.is_file() and read_journal(path).actions)
    except (StageGuardError, OSError):
        return False

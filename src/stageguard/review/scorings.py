"""Reviews as scorings of a night: agreement with a second scorer, and experts' scorings for `fit`.

`fit` uses only nights that were reviewed to the end, each as a whole: every epoch was given a stage, or
nothing is left in the queue. In the second case, epochs that nobody looked at have the guard's stages and
agree with the guard by construction. A fit to such nights therefore favours the guard, compared with nights
that were scored blind. Corrected epochs alone are a biased sample of a night and are never used.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.files import file_error
from stageguard.measures.agreement import agreement
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, read_journal
from stageguard.review.night import Revision, guard, pinned_labels, state_after
from stageguard.review.queue import queue_of
from stageguard.review.results import JournalResult, check_complete, night_of, reopen
from stageguard.review.review import Review
from stageguard.review.state import ReviewState


def least_epochs(n_epochs: int) -> int:
    """Return how many epochs of a night two scorings must share for kappa to be given: half of them.

    Our choice: a few epochs, perhaps the difficult ones, say nothing about the agreement on a night.
    """
    return (n_epochs + 1) // 2


def second_scorer(review: Review, at: Revision, *, is_complete: bool) -> dict[str, Any] | None:
    """Return another scorer who reviewed this night, and kappa between the two if this review is complete.

    Of several other scorers, it is the one who has decided most epochs. Kappa is over the epochs that both
    have decided: the others have the guard's stages in both reviews.
    """
    others = [] if review.night.dispute is not None else list(_other_scorers(review))
    if not others:
        return None
    scorer, state = max(others, key=lambda other: len(other[1].pins))
    night, states = review.night, (state, at.state)
    both, least = len(states[0].pins.keys() & states[1].pins.keys()), least_epochs(night.n_epochs)
    kappa = float("nan")
    if is_complete and both >= least:
        kappa = agreement(*(night.hypnogram(pinned_labels(night, state)) for state in states)).kappa
    return {
        "scorer": scorer,
        "scored": len(states[0].pins),
        "of": night.n_epochs,
        "both": both,
        "least": least,
        "is_complete": is_complete,
        "kappa": None if isnan(kappa) else kappa,
    }


def blind_agreement(review: Review, at: Revision) -> dict[str, Any] | None:
    """Return kappa of a revealed blind scoring with stager, guard and expert, if enough was scored blind."""
    night, state = review.night, at.state
    if not state.is_revealed:
        return None
    n_scored, least = len(state.first_pins), least_epochs(night.n_epochs)
    told = {"scored": n_scored, "of": night.n_epochs, "least": least}
    if n_scored < least:
        return told | {"kappa": {}}
    state = replace(state, pins=state.first_pins)  # what was set after revealing is not blind
    scored = night.hypnogram(pinned_labels(night, state), review.scorer)
    compared = {
        "stager": night.hypnogram(night.argmax),
        "guard": night.hypnogram(guard(night, replace(state, pins={})).labels),
        "expert": night.expert,
    }
    kappas = {
        name: agreement(scored, scoring).kappa for name, scoring in compared.items() if scoring is not None
    }
    return told | {"kappa": {name: None if isnan(kappa) else kappa for name, kappa in kappas.items()}}


def _other_scorers(review: Review) -> Iterator[tuple[str, ReviewState]]:
    """Yield other scorers with journals in the same folder, and their decisions."""
    own, head = review.journal.path, review.journal.head
    for path in sorted(own.parent.glob(f"{glob.escape(review.night.name)}.*{REVIEW_SUFFIX}")):
        if path.name == own.name:
            continue
        try:
            facts = path.stat()
            key = facts.st_size, facts.st_mtime_ns
            if path not in review.others or review.others[path][0] != key:
                journal = read_journal(path)
                keys = ("night", "probabilities", "quality", "options")
                is_scorer = bool(journal.head) and not journal.is_adjudication
                is_same = is_scorer and all(journal.head.get(key) == head[key] for key in keys)
                state = state_after(night_of(review.night, journal), journal) if is_same else None
                review.others[path] = key, None if state is None else (journal.scorer, state)
        except (StageGuardError, OSError, *MALFORMED):  # just being written, or not a review
            continue
        if review.others[path][1] is not None:
            yield review.others[path][1]


@dataclass(frozen=True, slots=True, eq=False)
class FinishedReviews:
    """A night with the scorings of all scorers who reviewed it to the end."""

    density: Hypnodensity
    experts: list[Hypnogram]
    reviews: tuple[dict[str, Any], ...]  # scorer, kind of review, numbers of epochs set and agreed with


def find_reviews(folder: Path) -> dict[str, list[Path]]:
    """Return the journals in a folder by night."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder, expected one with reviews (NIGHT.SCORER{REVIEW_SUFFIX}).")
    by_night: dict[str, list[Path]] = {}
    for path in sorted(folder.glob(f"*{REVIEW_SUFFIX}")):
        try:
            name = str(read_journal(path).head["night"]["name"])
        except (FileFormatError, OSError, *MALFORMED):  # the error is raised again when the night is read
            name = path.name.removesuffix(REVIEW_SUFFIX)
        by_night.setdefault(name, []).append(path)
    if not by_night:
        raise InputError(f"{folder} holds no reviews, expected files such as NIGHT.SCORER{REVIEW_SUFFIX}.")
    return by_night


def read_reviewed(paths: Sequence[Path]) -> FinishedReviews:
    """Return a night with the scorings of all its reviews; an unfinished review is refused.

    If two scorers' reviews were adjudicated, the consensus alone is the expert.
    """
    journals = {path: read_journal(path) for path in paths}
    if any(journal.is_adjudication for journal in journals.values()):
        paths = [path for path in paths if journals[path].is_adjudication]
    nights, experts, reviews = [], [], []
    for path in paths:
        journal = journals[path]
        result = reopen(journal)
        how = _how_complete(result, path)
        nights.append(result.night)
        experts.append(result.stages)
        reviews.append(
            {
                "night": result.night.name,
                "scorer": result.scorer,
                "how": how,
                "epochs_set": len(result.at.state.pins) - result.at.state.n_agreed,
                "epochs_agreed_with": result.at.state.n_agreed,
                "epochs": result.night.n_epochs,
            }
        )
    first = nights[0].density
    for path, night in zip(paths[1:], nights[1:], strict=True):
        if night.density != first:
            raise file_error(
                path, f"is of other probabilities than {paths[0].name}. Keep those of one night."
            )
    return FinishedReviews(first, experts, tuple(reviews))


def with_reviews(profile: Profile, reviews: Sequence[Mapping[str, Any]]) -> Profile:
    """Return a profile with the reviews of its nights in its provenance."""
    before = profile.to_dict().get("provenance", {})
    return profile.replace(provenance=before | {"reviews": [dict(review) for review in reviews]})


def _how_complete(result: JournalResult, path: Path) -> str:
    """Return how a night was reviewed to the end; refuse an unfinished review."""
    state, n_epochs = result.at.state, result.night.n_epochs
    if result.night.dispute is not None:
        check_complete(result, path)
        return f"adjudicated between {' and '.join(result.night.dispute.scorers)}"
    n_set = len(state.pins)
    if n_set == n_epochs:
        return "every epoch scored blind" if state.is_blind or state.is_revealed else "every epoch scored"
    found = queue_of(result.night, state, result.at.result)
    if state.is_blind or found.expected_errors is None:
        raise file_error(
            path, f"{n_epochs - n_set:,} of {n_epochs:,} epochs are not scored. Finish it first."
        )
    if found.stretches:
        raise file_error(
            path,
            f"{len(found.stretches):,} stretches that are worth a look were not looked at. "
            "Finish the review first.",
        )
    return "queue finished"

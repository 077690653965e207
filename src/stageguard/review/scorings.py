"""Reviews as scorings of a night: agreement with a second scorer, and experts' scorings for `fit`.

`fit` uses only nights that were reviewed to the end, each as a whole: every epoch was given a stage, or
nothing is left in the queue. In the second case, epochs that nobody looked at have the guard's stages and
agree with the guard by construction. A fit to such nights therefore favours the guard, compared with nights
that were scored blind. Corrected epochs alone are a biased sample of a night and are never used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import FileFormatError, InputError, StageGuardError
from stageguard.base.files import file_error, file_sha256
from stageguard.formats.companions import parse_start
from stageguard.measures.agreement import agreement
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, JournalFile, check_exports, read_journal
from stageguard.review.night import NightUnderReview, Revision, guard, pinned_labels, replay
from stageguard.review.opening import ReviewRequest, open_night
from stageguard.review.queue import queue_of
from stageguard.review.review import Review
from stageguard.runner.decode_one import DecodeOptions


@dataclass(frozen=True, slots=True, eq=False)
class JournalResult:
    """The result of a journal."""

    scorer: str
    night: NightUnderReview  # with the profile at the start of the journal
    at: Revision
    stages: Hypnogram  # of a blind review only the scored epochs, else all


def journal_result(night: NightUnderReview, journal: JournalFile) -> JournalResult:
    """Return the result of a journal of a night, under the profile that it records."""
    try:
        profile = Profile.from_dict(journal.head["profile"]["definition"])
        pins = {int(epoch): str(stage) for epoch, stage in journal.head["pins"].items()}
        same = replace(night, profile=profile, reading=replace(night.reading, pins=pins))
        _ = same.pins  # which must be stages of the profile
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    at = replay(same, journal)
    labels = pinned_labels(same, at.state) if at.state.is_blind else at.result.labels
    return JournalResult(journal.scorer, same, at, same.hypnogram(labels, journal.scorer))


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
    others = list(_other_results(review))
    if not others:
        return None
    other = max(others, key=lambda result: len(result.at.state.pins))
    night, states = review.night, (other.at.state, at.state)
    both, least = len(states[0].pins.keys() & states[1].pins.keys()), least_epochs(night.n_epochs)
    kappa = float("nan")
    if is_complete and both >= least:
        kappa = agreement(*(night.hypnogram(pinned_labels(night, state)) for state in states)).kappa
    return {
        "scorer": other.scorer,
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


def _other_results(review: Review) -> Iterator[JournalResult]:
    """Yield the results of other scorers' journals in the same folder; a changed journal is read again."""
    own_path, head = review.journal.path, review.journal.head
    for path in sorted(own_path.parent.glob(f"*{REVIEW_SUFFIX}")):
        if path.name == own_path.name or not path.name.startswith(f"{review.night.name}."):
            continue
        try:
            result = _cached_result(review, path, head)
        except (StageGuardError, OSError, *MALFORMED):  # just being written, or not a review
            continue
        if result is not None:
            yield result


def _cached_result(review: Review, path: Path, head: Any) -> JournalResult | None:
    facts = path.stat()
    key = path, facts.st_size, facts.st_mtime_ns
    cached = review.others.get(path)
    if cached is None or cached[0] != key:
        journal = read_journal(path)
        keys = ("night", "probabilities", "quality", "options")
        is_same = bool(journal.head) and all(journal.head.get(key) == head[key] for key in keys)
        cached = review.others[path] = (key, journal_result(review.night, journal) if is_same else None)
    result: JournalResult | None = cached[1]
    return result


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
    """Return a night with the scorings of all its reviews; an unfinished review is refused."""
    nights, experts, reviews = [], [], []
    for path in paths:
        journal = read_journal(path)
        check_exports(journal)
        result = _reopen(journal)
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


def _reopen(journal: JournalFile) -> JournalResult:
    """Read the night of a journal again, with the recorded options."""
    head = journal.head
    if not head:
        raise file_error(journal.path, "is empty, expected a review.")
    try:
        recorded, options = head["source"], head["options"]
        source = _source(journal.path.parent, recorded)
        quality = None if head.get("quality") is None else np.array(head["quality"], dtype=np.float64)
        request = ReviewRequest(
            source,
            Profile.from_dict(head["profile"]["definition"]),
            DecodeOptions.from_dict(options, quality),
            parse_start(str(options["start"])) if "start" in options else None,
            night_name=str(head["night"]["name"]),
        )
    except FileFormatError:  # of the file that was reviewed
        raise
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    return journal_result(open_night(request), journal)


def _source(folder: Path, recorded: dict[str, Any]) -> Path:
    """Return the reviewed file of probabilities: next to the journal, or at its recorded path."""
    places = [folder / Path(str(recorded["file"])).name]
    places += [folder / str(recorded["path"])] if recorded.get("path") else []
    for place in places:
        if place.is_file() and file_sha256(place, "a recording") == recorded["sha256"]:
            return place
    raise file_error(
        places[0], "is not there, or is not the file that was reviewed. Put it beside its review."
    )

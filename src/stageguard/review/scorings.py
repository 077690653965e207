"""What journals come to when their actions are done again: stages, disputes, and experts' scorings for `fit`.

`fit` uses only nights that were reviewed to the end, each as a whole: every epoch was given a stage, or
nothing is left in the queue. In the second case, epochs that nobody looked at have the guard's stages and
agree with the guard by construction. A fit to such nights therefore favours the guard, compared with nights
that were scored blind. Corrected epochs alone are a biased sample of a night and are never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import FileFormatError, InputError
from stageguard.files import file_error, file_sha256
from stageguard.formats.companions import parse_start
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.dispute import Dispute, Opinion
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, JournalFile, check_head, read_journal
from stageguard.review.night import NightUnderReview, Revision, pinned_labels, replay
from stageguard.review.opening import ReviewRequest, head_of, open_night
from stageguard.review.queue import queue_of
from stageguard.runner.decode_one import DecodeOptions

PUT_BACK = "Put the log back as it was, or adjudicate anew (-o)."


@dataclass(frozen=True, slots=True, eq=False)
class JournalResult:
    """The result of a journal."""

    scorer: str
    night: NightUnderReview  # with the profile at the start of the journal
    at: Revision
    stages: Hypnogram  # of a blind review or an adjudication only the decided epochs, else all


def night_of(night: NightUnderReview, journal: JournalFile) -> NightUnderReview:
    """Return a night with the profile and the pins that a journal of it records."""
    try:
        profile = Profile.from_dict(journal.head["profile"]["definition"])
        pins = {int(epoch): str(stage) for epoch, stage in journal.head["pins"].items()}
        same = replace(night, profile=profile, reading=replace(night.reading, pins=pins))
        _ = same.pins  # which must be stages of the profile
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    return same


def journal_result(night: NightUnderReview, journal: JournalFile) -> JournalResult:
    """Return the result of a journal of a night, under the profile that it records."""
    same = night_of(night, journal)
    at = replay(same, journal)
    is_partial = at.state.is_blind or same.dispute is not None
    labels = pinned_labels(same, at.state) if is_partial else at.result.labels
    return JournalResult(journal.scorer, same, at, same.hypnogram(labels, journal.scorer))


def reopen(journal: JournalFile) -> JournalResult:
    """Read the night of a journal again, with the recorded options, and the logs that it adjudicates."""
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
        between = [{**place, "file": Path(str(place["file"])).name} for place in journal.adjudicated]
    except FileFormatError:  # of the file that was reviewed
        raise
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    night = open_night(request)
    if between:
        for place in between:
            check_unchanged(journal.path.parent, place)
        paths = [journal.path.parent / place["file"] for place in between]
        night = replace(night, dispute=open_dispute(night, paths))
    return journal_result(night, journal)


def _source(folder: Path, recorded: dict[str, Any]) -> Path:
    """Return the reviewed file of probabilities: next to the journal, or at its recorded path."""
    places = [folder / Path(str(recorded["file"])).name]
    places += [folder / str(recorded["path"])] if recorded.get("path") else []
    for place in places:
        if place.is_file() and file_sha256(place) == recorded["sha256"]:
            return place
    raise file_error(
        places[0], "is not there, or is not the file that was reviewed. Put it beside its review."
    )


def open_dispute(night: NightUnderReview, paths: Sequence[Path]) -> Dispute:
    """Return two scorers' opinions about a night, from their journals; each must have decided every epoch."""
    one, other = (_opinion(night, path) for path in paths)
    return Dispute((one, other))


def check_unchanged(folder: Path, place: Mapping[str, Any]) -> None:
    """Refuse a log that is no longer what it was when its adjudication began."""
    path = folder / str(place["file"])
    if not path.is_file():
        raise file_error(path, f"is not there, but was adjudicated. {PUT_BACK}")
    journal = read_journal(path)
    if not journal.head or journal.place != dict(place):
        raise file_error(
            path,
            f"was changed since its adjudication began: it has {1 + len(journal.actions):,} lines and had "
            f"{place.get('lines')!s:.12}, or other ones. {PUT_BACK}",
        )


def _opinion(night: NightUnderReview, path: Path) -> Opinion:
    if not path.is_file():
        raise file_error(path, "is not there, expected the review of one of the two scorers.")
    journal = read_journal(path)
    if not journal.head or journal.is_adjudication:
        raise file_error(path, "is no review by one scorer. Name two scorers of the night.")
    plain = replace(night, dispute=None)
    own = {key: journal.head[key] for key in ("scorer", "blind", "profile", "pins")}
    check_head(journal, head_of(plain, path.parent, journal.scorer, is_blind=False) | own)
    result = journal_result(plain, journal)
    state, n_epochs = result.at.state, night.n_epochs
    if len(state.pins) < n_epochs:
        raise file_error(
            path,
            f"{n_epochs - len(state.pins):,} of {n_epochs:,} epochs are not decided, expected every epoch: "
            "only whole scorings can be compared.",
        )
    is_blind = state.is_blind or (state.is_revealed and state.pins == state.first_pins)
    times = tuple(state.pins[epoch].when for epoch in range(n_epochs))
    return Opinion(journal.scorer, pinned_labels(plain, state), times, is_blind, journal.place)


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
    state, n_epochs, dispute = result.at.state, result.night.n_epochs, result.night.dispute
    if dispute is not None:
        both, n_left = " and ".join(dispute.scorers), dispute.n_left(state.pins)
        if n_left:
            raise file_error(
                path,
                f"{n_left:,} of {int(dispute.is_disputed.sum()):,} epochs on which {both} differ are not "
                "decided. Finish the adjudication first.",
            )
        return f"adjudicated between {both}"
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

"""What journals come to when their actions are done again: a scorer's stages, or two scorers' dispute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import FileFormatError
from stageguard.files import file_error, file_sha256
from stageguard.formats.companions import parse_start
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.dispute import Dispute, Opinion
from stageguard.review.journal import MALFORMED, JournalFile, check_head, read_journal
from stageguard.review.night import NightUnderReview, Revision, pinned_labels, replay
from stageguard.review.opening import ReviewRequest, head_of, open_night
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
        night = replace(night, dispute=reopen_dispute(night, journal.path.parent, between))
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


def reopen_dispute(night: NightUnderReview, folder: Path, places: Sequence[Mapping[str, Any]]) -> Dispute:
    """Return the opinions that an adjudication names, from logs that have not changed since."""
    for place in places:
        check_unchanged(folder, place)
    return open_dispute(night, [folder / str(place["file"]) for place in places])


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


def check_complete(result: JournalResult, path: Path) -> None:
    """Refuse an adjudication in which some epochs are not decided."""
    dispute = result.night.dispute
    assert dispute is not None
    n_left = dispute.n_left(result.at.state.pins)
    if n_left:
        n_disputed = int(dispute.is_disputed.sum())
        raise file_error(
            path,
            f"{n_left:,} of {n_disputed:,} epochs on which {' and '.join(dispute.scorers)} differ "
            "are not decided. Finish the adjudication first.",
        )

"""Reviewed nights as experts' scorings, for `fit`: only nights that were reviewed to the end.

A night is used as a whole, or not at all. It was reviewed to the end if every epoch was given a stage, or if
nothing is left that is worth a look. In the second case, epochs that nobody looked at have the guard's stages
and agree with the guard by construction. A fit to such nights therefore favours the guard, compared with
nights that were scored blind. Corrected epochs alone are a biased sample of a night and are never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import FileFormatError, InputError
from stageguard.base.files import file_error, file_sha256
from stageguard.formats.companions import parse_moment, parse_start
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.head import check_exports
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, JournalFile, read_journal
from stageguard.review.opening import AskedNight, open_night
from stageguard.review.second import KeptReview, kept_review
from stageguard.review.worth import worth
from stageguard.runner.decode_one import DecodeOptions


@dataclass(frozen=True, slots=True, eq=False)
class ReviewedNight:
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


def read_reviewed(paths: Sequence[Path]) -> ReviewedNight:
    """Return a night with the scorings of all its reviews; an unfinished review is refused."""
    nights, experts, reviews = [], [], []
    for path in paths:
        journal = read_journal(path)
        check_exports(journal)
        kept = _reopened(journal)
        how = _how_complete(kept, path)
        nights.append(kept.night)
        experts.append(kept.stages)
        reviews.append(
            {
                "night": kept.night.name,
                "scorer": kept.scorer,
                "how": how,
                "epochs_set": len(kept.at.state.pins) - kept.at.state.n_agreed,
                "epochs_agreed_with": kept.at.state.n_agreed,
                "epochs": kept.night.n_epochs,
            }
        )
    first = nights[0].density
    for path, night in zip(paths[1:], nights[1:], strict=True):
        if night.density != first:
            raise file_error(
                path, f"is of other probabilities than {paths[0].name}. Keep those of one night."
            )
    return ReviewedNight(first, experts, tuple(reviews))


def with_reviews(profile: Profile, reviews: Sequence[Mapping[str, Any]]) -> Profile:
    """Return a profile with the reviews of its nights in its provenance."""
    before = profile.to_dict().get("provenance", {})
    return profile.replace(provenance=before | {"reviews": [dict(review) for review in reviews]})


def _how_complete(kept: KeptReview, path: Path) -> str:
    """Return how a night was reviewed to the end; refuse an unfinished review."""
    state, n_epochs = kept.at.state, kept.night.n_epochs
    n_set = len(state.pins)
    if n_set == n_epochs:
        return "every epoch scored blind" if state.is_blind or state.is_revealed else "every epoch scored"
    found = worth(kept.night, state, kept.at.outcome)
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


def _reopened(journal: JournalFile) -> KeptReview:
    """Read the night of a journal again, with the recorded options."""
    head = journal.head
    if not head:
        raise file_error(journal.path, "is empty, expected a review.")
    try:
        recorded, options = head["source"], head["options"]
        source = _source(journal.path.parent, recorded)
        quality = None if head.get("quality") is None else np.array(head["quality"], dtype=np.float64)
        asked = AskedNight(
            source,
            Profile.from_dict(head["profile"]["definition"]),
            DecodeOptions.from_dict(options, quality),
            parse_start(str(options["start"])) if "start" in options else None,
            parse_moment(str(options["lights_off"])) if "lights_off" in options else None,
            parse_moment(str(options["lights_on"])) if "lights_on" in options else None,
            night_name=str(head["night"]["name"]),
        )
    except FileFormatError:  # of the file that was reviewed
        raise
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    return kept_review(open_night(asked).night, journal)


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

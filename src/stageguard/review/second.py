"""Reviews of the same night by others, and how far two scorers agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

from stageguard.base.errors import StageGuardError
from stageguard.base.files import file_error
from stageguard.base.records import dataclass
from stageguard.measures.agreement import agreement
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, JournalFile, read_journal
from stageguard.review.night import NightUnderReview, guard, guard_anyway
from stageguard.review.opening import GIVEN_BEFORE
from stageguard.review.session import Moment, Review, pinned, review_state
from stageguard.review.state import Pin, ReviewState


@dataclass(frozen=True, slots=True, eq=False)
class KeptReview:
    """What somebody's journal comes to."""

    scorer: str
    night: NightUnderReview  # under the profile that the journal began with
    state: ReviewState
    stages: Hypnogram  # of a blind review those that were scored, else all


def kept_review(night: NightUnderReview, journal: JournalFile) -> KeptReview:
    """Return what a journal of a night comes to, under the profile it records."""
    try:
        profile = Profile.from_dict(journal.head["profile"]["definition"])
        given = {int(epoch): profile.scheme.index(stage) for epoch, stage in journal.head["pins"].items()}
    except MALFORMED as error:
        raise file_error(
            journal.path, f"its first line is incomplete or was edited ({error!r:.80})."
        ) from None
    pins = {epoch: Pin(stage, GIVEN_BEFORE) for epoch, stage in given.items()}
    same = replace(night, profile=profile, pins=pins, _made={})
    state = review_state(same, journal)
    labels = pinned(same, state) if state.is_blind else guard_anyway(same, state).labels
    return KeptReview(journal.scorer, same, state, same.hypnogram(labels, journal.scorer))


def second_scorer(review: Review, at: Moment, *, is_complete: bool) -> dict[str, Any] | None:
    """Return who else has reviewed this night, and kappa between the two when this review is complete.

    Of several others it is the one who has decided most epochs.
    """
    others = list(_others(review))
    if not others:
        return None
    other = max(others, key=lambda kept: len(kept.state.seen))
    kappa = agreement(other.stages, review.reviewed(at)).kappa if is_complete else float("nan")
    return {
        "scorer": other.scorer,
        "scored": len(other.state.seen),
        "of": review.night.n_epochs,
        "kappa": None if isnan(kappa) else kappa,
    }


def blind_agreement(review: Review, at: Moment) -> dict[str, float | None] | None:
    """Return kappa of a blind scoring that was revealed with stager, guard and expert."""
    night, state = review.night, at.state
    if not state.is_revealed:
        return None
    scored = night.hypnogram(pinned(night, state), review.scorer)
    compared = {
        "stager": night.hypnogram(night.argmax),
        "guard": night.hypnogram(guard(night, replace(state, pins={})).labels),
        "expert": night.expert,
    }
    kappas = {name: agreement(scored, one).kappa for name, one in compared.items() if one is not None}
    return {name: None if isnan(kappa) else kappa for name, kappa in kappas.items()}


def _others(review: Review) -> Iterator[KeptReview]:
    """Yield what others' journals in the same folder come to; each is read again when it has changed."""
    own, head = review.journal.path, review.journal.head
    for path in sorted(own.parent.glob(f"*{REVIEW_SUFFIX}")):
        if path.name == own.name or not path.name.startswith(f"{review.night.name}."):
            continue
        try:
            kept = _kept(review, path, head)
        except (StageGuardError, OSError, *MALFORMED):  # being written, or no review
            continue
        if kept is not None:
            yield kept


def _kept(review: Review, path: Path, head: Any) -> KeptReview | None:
    facts = path.stat()
    key = path, facts.st_size, facts.st_mtime_ns
    known = review.others.get(path)
    if known is None or known[0] != key:
        journal = read_journal(path)
        is_same = bool(journal.head) and (
            journal.head["night"] == head["night"]
            and journal.head["source"].get("sha256") == head["source"].get("sha256")
        )
        known = review.others[path] = (key, kept_review(review.night, journal) if is_same else None)
    kept: KeptReview | None = known[1]
    return kept

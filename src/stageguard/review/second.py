"""Other scorers' reviews of the same night, and the agreement of two scorers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from stageguard.base.errors import StageGuardError
from stageguard.base.files import file_error
from stageguard.measures.agreement import agreement
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.review.journal import MALFORMED, REVIEW_SUFFIX, JournalFile, read_journal
from stageguard.review.moments import Moment, pinned, replay
from stageguard.review.night import NightUnderReview, guard
from stageguard.review.opening import GIVEN_BEFORE
from stageguard.review.session import Review
from stageguard.review.state import Pin


@dataclass(frozen=True, slots=True, eq=False)
class KeptReview:
    """The result of a journal."""

    scorer: str
    night: NightUnderReview  # with the profile at the start of the journal
    at: Moment
    stages: Hypnogram  # of a blind review only the scored epochs, else all


def kept_review(night: NightUnderReview, journal: JournalFile) -> KeptReview:
    """Return the result of a journal of a night, under the profile that it records."""
    try:
        profile = Profile.from_dict(journal.head["profile"]["definition"])
        stages = {int(epoch): profile.scheme.index(stage) for epoch, stage in journal.head["pins"].items()}
    except MALFORMED:
        raise file_error(journal.path, "its first line is incomplete or was edited.") from None
    pins = {epoch: Pin(stage, GIVEN_BEFORE) for epoch, stage in stages.items()}
    same = replace(night, profile=profile, pins=pins, _made={})
    at = replay(same, journal)
    labels = pinned(same, at.state) if at.state.is_blind else at.outcome.labels
    return KeptReview(journal.scorer, same, at, same.hypnogram(labels, journal.scorer))


def least_epochs(n_epochs: int) -> int:
    """Return how many epochs of a night two scorings must share for kappa to be given: half of them.

    Our choice: a few epochs, perhaps the difficult ones, say nothing about the agreement on a night.
    """
    return (n_epochs + 1) // 2


def second_scorer(review: Review, at: Moment, *, is_complete: bool) -> dict[str, Any] | None:
    """Return another scorer who reviewed this night, and kappa between the two if this review is complete.

    Of several other scorers, it is the one who has decided most epochs. Kappa is over the epochs that both
    have decided: the others have the guard's stages in both reviews.
    """
    others = list(_others(review))
    if not others:
        return None
    other = max(others, key=lambda kept: len(kept.at.state.pins))
    night, states = review.night, (other.at.state, at.state)
    both, least = len(states[0].pins.keys() & states[1].pins.keys()), least_epochs(night.n_epochs)
    kappa = float("nan")
    if is_complete and both >= least:
        kappa = agreement(*(night.hypnogram(pinned(night, state)) for state in states)).kappa
    return {
        "scorer": other.scorer,
        "scored": len(states[0].pins),
        "of": night.n_epochs,
        "both": both,
        "least": least,
        "is_complete": is_complete,
        "kappa": None if isnan(kappa) else kappa,
    }


def blind_agreement(review: Review, at: Moment) -> dict[str, Any] | None:
    """Return kappa of a revealed blind scoring with stager, guard and expert, if enough was scored blind."""
    night, state = review.night, at.state
    if not state.is_revealed:
        return None
    n_scored, least = len(state.first_pins), least_epochs(night.n_epochs)
    told = {"scored": n_scored, "of": night.n_epochs, "least": least}
    if n_scored < least:
        return told | {"kappa": {}}
    state = replace(state, pins=state.first_pins)  # what was set after revealing is not blind
    scored = night.hypnogram(pinned(night, state), review.scorer)
    compared = {
        "stager": night.hypnogram(night.argmax),
        "guard": night.hypnogram(guard(night, replace(state, pins={})).labels),
        "expert": night.expert,
    }
    kappas = {
        name: agreement(scored, scoring).kappa for name, scoring in compared.items() if scoring is not None
    }
    return told | {"kappa": {name: None if isnan(kappa) else kappa for name, kappa in kappas.items()}}


def _others(review: Review) -> Iterator[KeptReview]:
    """Yield the results of other scorers' journals in the same folder; a changed journal is read again."""
    own_path, head = review.journal.path, review.journal.head
    for path in sorted(own_path.parent.glob(f"*{REVIEW_SUFFIX}")):
        if path.name == own_path.name or not path.name.startswith(f"{review.night.name}."):
            continue
        try:
            kept = _kept(review, path, head)
        except (StageGuardError, OSError, *MALFORMED):  # just being written, or not a review
            continue
        if kept is not None:
            yield kept


def _kept(review: Review, path: Path, head: Any) -> KeptReview | None:
    facts = path.stat()
    key = path, facts.st_size, facts.st_mtime_ns
    known = review.others.get(path)
    if known is None or known[0] != key:
        journal = read_journal(path)
        keys = ("night", "probabilities", "quality", "options")
        is_same = bool(journal.head) and all(journal.head.get(key) == head[key] for key in keys)
        known = review.others[path] = (key, kept_review(review.night, journal) if is_same else None)
    kept: KeptReview | None = known[1]
    return kept

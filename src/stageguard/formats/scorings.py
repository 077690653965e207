"""One scoring among several of the same night: who made it, how, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import ComparedByValue, Floats
from stageguard.errors import InputError
from stageguard.formats.outgoing import Outgoing, plain_text
from stageguard.night.hypnogram import Hypnogram

AUTOMATED = "automated"
# The words of the column `annotation_method`, and what they mean. Files may have others.
METHODS = {
    "manual": "Scored by one person.",
    "manual_consensus": "Agreed on by several people, or made of their scorings.",
    AUTOMATED: "Scored by software.",
}


@dataclass(frozen=True, slots=True, eq=False)
class Scoring(ComparedByValue):
    """One of several scorings of a night, as a BIDS table of parallel scorings holds it.

    Parameters
    ----------
    hypnogram : Hypnogram
        The stages; its `scorer` is the annotator.
    method : str or None
        "manual", "manual_consensus" or "automated", or another word that a file has; None if not known.
    confidence : array, shape (n_epochs,), or None
        How sure the annotator was of each stage, 0 to 1; NaN for an epoch without a value.
    standard : str or None
        The rules or the set of labels that the scoring follows, such as "rk_1968".
    channels : sequence of str
        Names of the channels that were scored.
    times : sequence of str
        When the annotator decided on each epoch, in ISO 8601; "" for an epoch of which that is not known, and
        nothing at all if it is known of none.

    Examples
    --------
    >>> import stageguard as sg
    >>> from stageguard.formats.scorings import Scoring
    >>> ann = sg.Hypnogram([0, 1, 2], "aasm5", 30, scorer="Ann")
    >>> Scoring(ann, "manual", channels=("C3", "EOG-L")).annotator
    'Ann'
    """

    hypnogram: Hypnogram
    method: str | None = None
    confidence: Floats | None = field(default=None, repr=False)
    standard: str | None = None
    channels: tuple[str, ...] = ()
    times: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check everything once, and make the confidences read-only."""
        n_epochs = _n_epochs(self.hypnogram)
        for name in ("method", "standard"):
            if getattr(self, name) is not None:
                checks.text(getattr(self, name), name)
        object.__setattr__(self, "channels", _names(self.channels))
        object.__setattr__(self, "times", _checked_times(self.times, n_epochs))
        if self.confidence is not None:
            object.__setattr__(self, "confidence", _checked(self.confidence, n_epochs))

    @property
    def annotator(self) -> str:
        """Who or what made it: the hypnogram's scorer, on one line."""
        name = plain_text(self.hypnogram.scorer or "")
        return name if name.casefold() not in ("", "n/a") else "unknown"


def _n_epochs(hypnogram: object) -> int:
    if not isinstance(hypnogram, Hypnogram):
        got = type(hypnogram).__name__
        raise InputError(f"hypnogram is a {got}, expected a Hypnogram. Read it with read_hypnogram.")
    return hypnogram.n_epochs


def _names(channels: object) -> tuple[str, ...]:
    names = checks.items([channels] if isinstance(channels, str) else channels, "channels", checks.text)
    for name in names:
        if "|" in name:
            raise InputError(f"channels has {name[:40]!r}, expected names without |, which BIDS parts by.")
    return names


def _checked_times(times: object, n_epochs: int) -> tuple[str, ...]:
    texts = checks.items(times, "times", checks.text)
    if texts and len(texts) != n_epochs:
        raise InputError(f"times has {len(texts)} times, expected one per epoch: {n_epochs}.")
    for text in filter(None, texts):
        if not is_time(text):
            raise InputError(
                f"times has {text[:40]!r}, expected ISO 8601 such as 2026-03-02T09:14:07.311+01:00."
            )
    return texts if any(texts) else ()


def is_time(text: str) -> bool:
    """Whether a text is a date and a time in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text


def _checked(confidence: npt.ArrayLike, n_epochs: int) -> Floats:
    values = np.array(confidence, dtype=np.float64)
    if values.shape != (n_epochs,):
        raise InputError(
            f"confidence has the shape {values.shape}, expected one number per epoch: {n_epochs}."
        )
    worst = values[(values < 0) | (values > 1)]  # NaN is neither
    if len(worst):
        raise InputError(f"confidence has {worst[0]:g}, expected numbers from 0 to 1, or NaN for none.")
    values.flags.writeable = False
    return values


def scorings_of(night: Outgoing) -> list[Scoring]:
    """Return the scorings that a night holds, the one that is meant last.

    What the guard decoded comes with the stager's own choice, the most probable stages.
    """
    hypnogram, density = night.hypnogram, night.density
    if density is None:
        assert hypnogram is not None
        method = None if night.profile is None else AUTOMATED
        return [Scoring(hypnogram, method)]
    stager = density.stager or density.source or "stager"
    chosen = Hypnogram(
        density.argmax,
        density.scheme,
        density.epoch_seconds,
        density.start,
        stager,
        offset_seconds=density.offset_seconds,
    )
    by_stager = Scoring(chosen, AUTOMATED, _probabilities(night, chosen))
    if hypnogram is None:
        return [by_stager]
    scored = Scoring(hypnogram, AUTOMATED, _probabilities(night, hypnogram))
    return [scored] if night.profile is None else [by_stager, scored]


def _probabilities(night: Outgoing, hypnogram: Hypnogram) -> Floats:
    """Return the stager's probability of each epoch's stage; NaN where nothing was scored."""
    assert night.density is not None
    rows = night.density.probabilities
    probable = rows[np.arange(len(rows)), hypnogram.labels]
    return np.where(hypnogram.labels < 0, np.nan, np.clip(probable, 0.0, 1.0))


def reshaped(scoring: Scoring, hypnogram: Hypnogram) -> Scoring:
    """Return a scoring with merged or longer epochs; confidence and times of other epochs are left out."""
    is_same = hypnogram.n_epochs == scoring.hypnogram.n_epochs
    if is_same:
        return replace(scoring, hypnogram=hypnogram)
    return replace(scoring, hypnogram=hypnogram, confidence=None, times=())


def check_annotators(scorings: Sequence[Scoring]) -> None:
    """Refuse two scorings by one annotator, which a reader could not tell apart."""
    names = [scoring.annotator for scoring in scorings]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"two scorings are by {twice!r}, expected annotators that tell them apart. Give each its scorer: "
            "dataclasses.replace(hypnogram, scorer='Ann')."
        )

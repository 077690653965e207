"""The report of a fit: the profile, every candidate's scores, the check of the choice, the learning curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stageguard.fitting.candidates import Candidate
from stageguard.fitting.cross_validation import HeldOut, Output
from stageguard.fitting.judging import COLUMNS, Criterion, JudgedCandidate
from stageguard.fitting.learning_curve import LearningCurve
from stageguard.lazy import ShownInNotebooks
from stageguard.profile.profile import Profile
from stageguard.values import ComparedByValue


@dataclass(frozen=True, slots=True, eq=False)
class FitReport(ComparedByValue, ShownInNotebooks):
    """Everything that a fit found.

    Attributes
    ----------
    profile : Profile
        The fitted profile. Its provenance holds what is below, rounded.
    base : str
        Name of the profile it started from.
    n_nights, n_subjects, n_scored_epochs : int
        How much it was fitted to.
    criterion : Criterion or None
        How candidates were ranked; None for hypnograms alone.
    rows : tuple of JudgedCandidate
        Cross-validated scores of every candidate, argmax and the default first; empty for hypnograms alone.
    chosen : Candidate or None
        What the profile does; the default when it steps aside.
    steps_aside : bool
        Whether the profile is the default: what is done without scored nights.
    reason : str
        Why, in one sentence.
    nested : HeldOut or None
        Every night decoded by a profile chosen and fitted without its subject; None with fewer than three
        subjects. The gain of the fit is read off here, not off `rows`.
    learning_curve : LearningCurve or None
        The gain with fewer subjects.
    n_complete_bouts : mapping
        Bouts counted per stage.
    notes : tuple of str
        What was assumed, and what was left out for lack of nights.
    """

    profile: Profile
    base: str
    n_nights: int
    n_subjects: int
    n_scored_epochs: int
    criterion: Criterion | None
    rows: tuple[JudgedCandidate, ...]
    chosen: Candidate | None
    steps_aside: bool
    reason: str
    nested: HeldOut | None = field(repr=False)
    learning_curve: LearningCurve | None
    n_complete_bouts: Mapping[str, int]
    notes: tuple[str, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return the candidates' scores as plain rows, the chosen one included."""
        return [dict(zip(COLUMNS, row.cells(), strict=True)) for row in self.rows]

    def gains(self, over: Output = "argmax") -> dict[str, tuple[float, float]]:
        """Return the gain over argmax, or over the ``default``, on nights the fit did not see.

        Each is a mean over subjects and its standard error.
        """
        # cross-validated rows are no gain: the best of many looks better than it is
        if self.nested is None or self.criterion is None:
            return {}
        return {
            "kappa": self.nested.gain(over=over),
            "criterion": self.nested.gain(self.criterion, over=over),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {
            "profile": {"name": self.profile.name, "sha256": self.profile.sha256},
            "base": self.base,
            "cohort": self.profile.cohort,
            "n_nights": self.n_nights,
            "n_subjects": self.n_subjects,
            "n_scored_epochs": self.n_scored_epochs,
            "criterion": None if self.criterion is None else str(self.criterion),
            "chosen": None if self.chosen is None else self.chosen.name,
            "steps_aside": self.steps_aside,
            "reason": self.reason,
            "candidates": self.table(),
            "held_out_gain": _as_tables(self.gains()),
            "held_out_gain_over_default": _as_tables(self.gains("default")),
            "learning_curve": None if self.learning_curve is None else self.learning_curve.to_dict(),
            "n_complete_bouts": dict(self.n_complete_bouts),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        """Return the nights, the chosen candidate and its gains."""
        chosen = "nothing to choose from" if self.chosen is None else f"chosen: {self.chosen.name}"
        gains = [
            f"; {name} {mean:+.3f} ± {error:.3f} held out" for name, (mean, error) in self.gains().items()
        ]
        nights = f"{self.n_nights} nights of {self.n_subjects} subjects, base {self.base}"
        return f"<FitReport {self.profile.name!r}: {nights}, {chosen}{''.join(gains)}>"


def _as_tables(gains: Mapping[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    return {name: {"mean": mean, "standard_error": error} for name, (mean, error) in gains.items()}

"""`Decoding`: what was decided and changed in one night, and how to report it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import ComparedByValue, Labels, Mask
from stageguard.files import write_text_atomic
from stageguard.guard import kernels
from stageguard.guard.clock import RemovedBout
from stageguard.guard.night import ROUNDING, Night, assumptions
from stageguard.guard.solver import solver_for
from stageguard.guard.strength import Strength, steered_by
from stageguard.lazy import load
from stageguard.night.hypnodensity import FromLabels, Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.night import ExportableStages
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Setting
from stageguard.profile.stagers import Training
from stageguard.version import __version__

CITATION = (
    "Wang J, Wang Y, Wu H, Gao J, Xu S, Zou D. StageGuard: Physiologically Constrained Sleep Staging. "
    "KDD 2026. doi:10.1145/3770855.3818916"
)

# Above this share of changed epochs, a person should look at the night before using it. On a flickering night
# whose evidence yields, many epochs change by design.
MANY_CHANGES, MANY_OF_A_FLICKERING_NIGHT = 0.10, 0.25


@dataclass(frozen=True, eq=False, repr=False)
class Decoding(ComparedByValue, ExportableStages):
    """One decoded night.

    Attributes
    ----------
    hypnogram : Hypnogram
        The decoded stages; -1 where there is no evidence for more than five minutes.
    profile : Profile
        The profile that decoded it.
    strength : Strength
        How strongly the profile acted, and why.
    """

    hypnogram: Hypnogram
    profile: Profile
    strength: Strength
    night: Night  # with the clock it was decoded with
    setting: Setting
    _score: float | None = None  # of the path; None if every epoch was decided by itself
    _changed_by: dict[str, int] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )  # cache of `changes_by_cause`

    @property
    def cohort(self) -> str | None:
        """The cohort that the caller named."""
        return self.night.options.cohort

    @property
    def stager(self) -> str | None:
        """The stager that the caller named."""
        return self.night.options.stager

    @property
    def trained(self) -> Training | None:
        """How the stager was trained, as the caller said or as is known of its files."""
        return self.night.options.trained

    @property
    def is_foreign(self) -> bool:
        """Whether stager or cohort are not those that the profile names: see `Profile.for_nights_of`."""
        return not self.profile.is_for(self.stager, self.cohort)

    @property
    def source(self) -> str | None:
        """Where the probabilities came from."""
        return self.night.source

    @property
    def from_labels(self) -> FromLabels | None:
        """Which confusions stood for labels, "typical" or the stager's "own"; None for probabilities."""
        return self.night.from_labels

    @property
    def epoch_seconds(self) -> float:
        """Epoch length."""
        return self.night.epoch_seconds

    @property
    def period(self) -> Period:
        """First epoch of the sleep period, and the epoch after it: what rules and indicators measure."""
        return self.night.period

    @cached_property
    def argmax(self) -> Labels:
        """The stager's own choice per epoch, -1 where it gave none."""
        argmax = self.night.argmax.view()
        argmax.flags.writeable = False
        return argmax

    @cached_property
    def changed(self) -> Mask:
        """Epochs whose stage is less likely than the stager's own choice, or missing.

        An epoch between equally likely stages is undecided: any of them is no change.
        """
        labels, probabilities = self.hypnogram.labels, self.night.probabilities
        changed: Mask = (labels != self.argmax) & (self.argmax >= 0)
        rows = np.flatnonzero(changed)  # of equally likely stages argmax is the first, and no choice
        chosen, kept = probabilities[rows, self.argmax[rows]], labels[rows]
        changed[rows] = (kept < 0) | (probabilities[rows, kept] < chosen - ROUNDING)
        return changed

    @property
    def n_ties(self) -> int:
        """Epochs between equally likely stages that have another of them than the first, as argmax has."""
        differs = (self.hypnogram.labels != self.argmax) & (self.argmax >= 0)
        return int(np.count_nonzero(differs)) - self.n_changed

    @property
    def n_scored(self) -> int:
        """Number of epochs with a choice of the stager's."""
        return int(np.count_nonzero(self.argmax >= 0))

    @property
    def n_changed(self) -> int:
        """Number of epochs whose stage was changed."""
        return int(np.count_nonzero(self.changed))

    @property
    def changed_share(self) -> float:
        """Share of the epochs with a choice of the stager's that were changed."""
        return self.n_changed / max(1, self.n_scored)

    @property
    def many_changes(self) -> float:
        """The share of changed epochs beyond which a person should look at this night before using it."""
        flickers = (self.strength.rule, self.strength.step) == ("target", "lowered")
        return MANY_OF_A_FLICKERING_NIGHT if flickers else MANY_CHANGES

    @property
    def removed_bouts(self) -> tuple[RemovedBout, ...]:
        """Bouts of early REM that the stager saw and of which three minutes or more are gone."""
        return self.strength.clock_removed

    @property
    def assumed(self) -> tuple[str, ...]:
        """What had to be assumed about the input."""
        return assumptions(self.profile, self.night)

    def __repr__(self) -> str:
        """Return length, changes and profile on one line."""
        return (
            f"<Decoding {self.hypnogram.n_epochs} epochs of {self.epoch_seconds:g} s, "
            f"{self.profile.scheme.name}, {self.n_changed} changed, "
            f"profile {self.profile.name!r}, strength {self.strength.rule}>"
        )

    @property
    def stages(self) -> npt.NDArray[np.str_]:
        """Stage names per epoch, "?" where unscored."""
        return self.hypnogram.stages

    @property
    def score(self) -> float:
        """Score of the path in nats: evidence plus weighted transition scores, without an initial term."""
        if self._score is not None:
            return self._score
        # Only a path without transition scores comes without a score: it is the evidence along the labels.
        rows, labels = np.flatnonzero(self.hypnogram.labels >= 0), self.hypnogram.labels
        return float(self.night.evidence(self.setting.stage_nats)[rows, labels[rows]].sum())

    @property
    def filled(self) -> Mask:
        """Epochs without evidence that were decoded from their neighbours."""
        if self.night.filled is None:
            return np.zeros(self.hypnogram.n_epochs, dtype=bool)
        return self.night.filled.copy()

    @property
    def density(self) -> Hypnodensity:
        """The probabilities that were decoded, in the profile's stage order."""
        return Hypnodensity(
            self.night.probabilities,
            self.profile.scheme,
            self.epoch_seconds,
            start=self.hypnogram.start,
            source=self.source,
            offset_seconds=self.hypnogram.offset_seconds,
            from_labels=self.from_labels,
            stager=self.night.stager,
        )

    def advice(self) -> tuple[str, ...]:
        """Return which option the caller could add, and what it would change, if anything."""
        advice: tuple[str, ...] = load("report.guard_words:advice")(self)
        return advice

    def methods_text(self) -> str:
        """Return a Methods paragraph to paste into a paper, with the citation."""
        text: str = load("report.methods:night_methods")(self)
        return text

    @property
    def is_free(self) -> bool:
        """Whether the profile itself, by a fixed rule, leaves every epoch as the stager decided it."""
        if self.strength.rule != "fixed" or self.strength.prior_exponent:
            return False
        return solver_for(self.profile, self.epoch_seconds).is_free(self.setting)

    @property
    def steered(self) -> frozenset[Steering]:
        """What the profile steered on this night: numbers that follow it tell of the profile."""
        calibration = self.night.calibration
        biases = None if calibration is None else calibration.biases
        return steered_by(self.strength.step, self.strength.prior_exponent, biases)

    def report(self, path: str | os.PathLike[str], *, overwrite: bool = False, **shown: Any) -> None:
        """Write the night as one HTML page; `shown` are the keywords of `stageguard.night_report`."""
        page = load("report.night:night_report")(self, **shown)
        write_text_atomic(path, page, overwrite=overwrite)

    def provenance(self) -> dict[str, Any]:
        """Return what is needed to reproduce this result."""
        options = self.night.options
        return {
            "profile": self.profile.name,
            "profile_sha256": self.profile.sha256,
            "stageguard": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "core": kernels.active.NAME,
            "options": {
                "cohort": options.cohort,
                "stager": options.stager,
                "trained": options.trained,
                "epoch_seconds": self.night.epoch_seconds,
            }
            | ({} if options.strength is None else {"strength": options.strength}),
        } | ({} if self.from_labels is None else {"from_labels": self.from_labels})

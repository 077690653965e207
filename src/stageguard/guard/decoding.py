"""`Decoding`: what was decided and changed in one night; `Strength`: how strongly the profile acted."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard.arrays import ComparedByValue, Labels, Mask
from stageguard.guard import kernels
from stageguard.guard.clock import RemovedBout
from stageguard.guard.night import ROUNDING, Night, assumptions
from stageguard.guard.solver import solver_for
from stageguard.night.hypnodensity import FromLabels, Hypnodensity
from stageguard.night.hypnogram import ExportableStages, Hypnogram
from stageguard.night.period import Period
from stageguard.night.quantities import Steering
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Lifting, Setting, Step
from stageguard.profile.stagers import Training
from stageguard.version import __version__

CITATION = (
    "Wang J, Wang Y, Wu H, Gao J, Xu S, Zou D. StageGuard: Physiologically Constrained Sleep Staging. "
    "KDD 2026. doi:10.1145/3770855.3818916"
)
STEERING = ("lowered", "raised", "raised then lowered", "nearest")  # steps that aim at a fragmentation

# Above this share of changed epochs, a person should look at the night before using it. On a flickering night
# whose evidence yields, many epochs change by design.
MANY_CHANGES, MANY_OF_A_FLICKERING_NIGHT = 0.10, 0.25


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Strength(ComparedByValue):
    """How strongly one recording was constrained, and why; indices (fi) are at its epoch length."""

    # "fixed" (the profile's own number), the profile's rule ("target", "band", "match"), or "labels": labels
    # through typical confusions do not say which epochs are doubtful, and no rule acts
    rule: str
    # what the rule did to the fragmentation index: "untouched" and "hard" (fragmented, and the evidence does
    # not yield): no rule acts; "nearest": of "match"
    step: Step
    transition_weight: float
    prior_exponent: float
    fi_before: float  # fragmentation index of argmax
    fi_after: float  # of the output
    fi_low: float = math.nan  # the rule acts below it; for "match", this and `fi_high` are the target
    fi_high: float = math.nan  # the rule acts above it
    fi_experts: float = math.nan  # mean index of expert scorings, if the rule has limits
    fi_aim: float = math.nan  # what "target" aims at
    fi_yielded: float = math.nan  # what a transition weight of 0.3 leaves, if "target" tried it
    stager_fi: float = math.nan  # median index of the stager's nights, if the profile has it
    asked: float | Literal["off"] | None = None  # the caller's strength, instead of the profile's own
    balance_nats: tuple[float, ...] = ()  # that "target" added to each stage, for the REM that is expected
    # whether minority stages may be lifted: "unasked" if the stager is not known to be trained on natural
    # class frequencies, "off" if the profile forbids it
    lifting: Lifting = "unasked"
    clock_onsets: tuple[int, ...] = ()  # epochs of sleep onset that the clock counts from
    clock_passes: int = 0  # decodings with the clock; 0 if it did not run
    clock_settled: bool = True  # whether the last of them moved no sleep onset
    clock_overruled: tuple[int, ...] = ()  # pinned epochs whose stage has under half its usual share then
    clock_removed: tuple[RemovedBout, ...] = ()  # early REM of which three minutes or more are gone

    @property
    def steers(self) -> bool:
        """Whether the rule steered the night's fragmentation to its aim."""
        return self.step in STEERING

    @property
    def is_reached(self) -> bool:
        """Whether the night ended where the rule allows; a rule without a band allows everything."""
        return math.isnan(self.fi_low) or self.fi_low <= self.fi_after <= self.fi_high

    @property
    def is_of_labels(self) -> bool:
        """Whether no rule acts because labels do not say which epochs are doubtful."""
        return self.rule == "labels"

    @property
    def limit(self) -> float:
        """The index up to which this night is left alone; NaN if the night by itself does not decide."""
        is_by_night = math.isnan(self.stager_fi) and self.fi_low < self.fi_high
        return self.fi_high if is_by_night else math.nan

    def __repr__(self) -> str:
        """Return the choice on one line."""
        fi = f"fragmentation index {self.fi_before:.3f} -> {self.fi_after:.3f}"
        return f"<Strength {self.rule}: {self.step}, transition weight {self.transition_weight:g}, {fi}>"


def steered_by(step: str, prior_exponent: float, biases: Sequence[float] | None) -> frozenset[Steering]:
    """Return what was steered: fragmentation by the rule's step, stage totals by stage shares or biases."""
    moves_totals = prior_exponent > 0 or len(set(biases or ())) > 1
    by: dict[Steering, bool] = {"fragmentation": step in STEERING, "totals": moves_totals}
    return frozenset(what for what, acts in by.items() if acts)


@dataclass(frozen=True, eq=False, repr=False)
class Decoding(ComparedByValue, ExportableStages):
    """One decoded night."""

    hypnogram: Hypnogram  # the decoded stages; -1 where there is no evidence for more than five minutes
    profile: Profile  # that decoded it
    strength: Strength
    night: Night  # with the clock it was decoded with
    setting: Setting
    _score: float | None = None  # of the path; None if every epoch was decided by itself

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
        labels, argmax, probabilities = self.hypnogram.labels, self.night.argmax, self.night.probabilities
        changed: Mask = (labels != argmax) & (argmax >= 0)
        rows = np.flatnonzero(changed)  # of equally likely stages argmax is the first, and no choice
        chosen, kept = probabilities[rows, argmax[rows]], labels[rows]
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
        n_scored = int(np.count_nonzero(self.night.argmax >= 0))
        return int(np.count_nonzero(self.changed)) / max(1, n_scored)

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
        return self.night.density

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

    def provenance(self) -> dict[str, Any]:
        """Return what is needed to reproduce this result."""
        options = self.night.options
        given = {name: getattr(options, name) for name in ("cohort", "stager", "trained")}
        given["epoch_seconds"] = self.night.epoch_seconds
        return {
            "profile": self.profile.name,
            "profile_sha256": self.profile.sha256,
            "stageguard": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "core": kernels.active.NAME,
            "options": given | ({} if options.strength is None else {"strength": options.strength}),
        } | ({} if self.from_labels is None else {"from_labels": self.from_labels})

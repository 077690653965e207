"""Errors of sleep architecture: mean absolute errors against an expert, before and after decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.errors import InputError, MissingExtraError
from stageguard.measures.bouts import bouts_of
from stageguard.measures.samples import Estimate, estimate, improvement_percent, paired
from stageguard.measures.statistics import AASM, StatisticsOptions
from stageguard.night.align import where_scored
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import quantity_of
from stageguard.night.stages import WNR3

# The quantities in the order of tables: the key of a row, and its title.
ARCHITECTURE = {
    "tst_minutes": "TST (min)",
    "se_percent": "SE (%)",
    "rem_latency_minutes": "REM latency (min)",
    "waso_minutes": "WASO (min)",
    "nrem_bout_minutes": "mean NREM bout (min)",
    "rem_bout_minutes": "mean REM bout (min)",
    "awakenings": "awakenings",
}
# For each of them, a quantity that the profile steers likewise.
STEERED_LIKE = {key: quantity_of("bouts" if key.endswith("bout_minutes") else key) for key in ARCHITECTURE}
_BOUTS = {"nrem_bout_minutes": "N", "rem_bout_minutes": "R"}
METHOD = (
    "Absolute error of each night on the epochs its expert scored, nights of one subject averaged; mean ± "
    "standard deviation over subjects. If a night lacks the REM that its expert scored, it is taken to start "
    "at the end, in bouts of 0 min."
)
TEST = (
    "p: two-sided Wilcoxon signed-rank test of after against before for each row, not corrected for the "
    "number of rows."
)

Errors = Mapping[str, Mapping[str, float]]  # scoring -> quantity -> absolute error of one night


@dataclass(frozen=True, slots=True)
class ArchitectureError:
    """Mean absolute error of one quantity, by scoring."""

    quantity: str
    before: Estimate | None  # None if nothing was decoded
    after: Estimate | None  # compared with before
    improvement_percent: float = NAN

    @property
    def n_subjects(self) -> int:
        """Number of subjects that have an error, before or after."""
        return max(0 if each is None else each.n for each in (self.before, self.after))

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        before, after = (each or Estimate(NAN) for each in (self.before, self.after))
        return {
            "quantity": self.quantity,
            "n": self.n_subjects,
            "before_mean": before.mean,
            "before_sd": before.sd,
            "after_mean": after.mean,
            "after_sd": after.sd,
            "improvement_percent": self.improvement_percent,
            "p": after.p,
            "rank_biserial": after.effect,
        }


def architecture(night: Hypnogram, options: StatisticsOptions = AASM) -> dict[str, float]:
    """Return the quantities of `ARCHITECTURE`; NaN where a night does not have one."""
    statistics = options.measure(night)
    bouts = mean_bouts(night)
    return {name: bouts[name] if name in bouts else float(getattr(statistics, name)) for name in ARCHITECTURE}


def mean_bouts(night: Hypnogram) -> dict[str, float]:
    """Return the mean lengths of NREM and REM bouts; NaN if the stages do not tell them apart."""
    try:
        merged = night.merge(WNR3)
    except InputError:
        return dict.fromkeys(_BOUTS, NAN)
    bouts, minutes = bouts_of(merged.labels), night.epoch_seconds / 60
    lengths = {name: bouts.lengths[bouts.stages == WNR3.index(stage)] for name, stage in _BOUTS.items()}
    return {name: float(each.mean()) * minutes if len(each) else NAN for name, each in lengths.items()}


def night_errors(scorings: Mapping[str, Hypnogram], options: StatisticsOptions = AASM) -> Errors:
    """Return the absolute errors of a night's other scorings against the one called `expert`.

    Epochs that the expert left unscored do not count. A quantity that either side does not have is left out,
    apart from REM that is never shown: see `never_shown`.
    """
    expert = scorings["expert"]
    # the length that both could have scored: beyond it no REM can come
    minutes = np.count_nonzero(expert.labels != UNSCORED) * expert.epoch_seconds / 60
    truth = architecture(expert, options)
    errors: dict[str, dict[str, float]] = {}
    for name, scoring in scorings.items():
        if name != "expert":
            values = architecture(where_scored(expert, scoring), options)
            # a night whose REM was removed must not drop out of the mean error of REM latency
            values = {k: never_shown(k, minutes) if isnan(value) else value for k, value in values.items()}
            differences = {key: abs(values[key] - value) for key, value in truth.items()}
            errors[name] = {key: error for key, error in differences.items() if not isnan(error)}
    return errors


def never_shown(quantity: str, minutes: float) -> float:
    """Return the value of a quantity that the expert has and a night of so many minutes does not.

    REM then comes at the end of the night, in bouts of no length, so that removing all REM is an error. Other
    quantities are NaN, which leaves the night out.
    """
    return {"rem_latency_minutes": minutes, "rem_bout_minutes": 0.0}.get(quantity, NAN)


def architecture_errors(
    nights: Mapping[str, Errors], subjects: Mapping[str, str] | None = None
) -> tuple[list[ArchitectureError], str]:
    """Return the mean absolute errors of all nights, and why there is no test, if there is none.

    Parameters
    ----------
    nights : mapping
        The `night_errors` of each night.
    subjects : mapping, optional
        Subject of each night; by default every night is of a different subject.
    """
    rows, missing = [], ""
    for quantity in ARCHITECTURE:
        before, after = (
            _by_subject(nights, subjects or {}, scoring, quantity) for scoring in ("before", "after")
        )
        if not before and not after:
            continue
        try:
            compared = paired(before, after) if after else None
        # without scipy the means are still worth showing
        except MissingExtraError as error:
            compared, missing = estimate(after), str(error)
        gain = improvement_percent(before, after)
        rows.append(ArchitectureError(quantity, estimate(before) if before else None, compared, gain))
    return rows, missing


def _by_subject(
    nights: Mapping[str, Errors], subjects: Mapping[str, str], scoring: str, quantity: str
) -> dict[str, float]:
    """Return the mean error of each subject's nights."""
    errors: dict[str, list[float]] = {}
    for night, by_scoring in nights.items():
        if quantity in by_scoring.get(scoring, {}):
            # several nights of one person are not independent
            errors.setdefault(subjects.get(night, night), []).append(by_scoring[scoring][quantity])
    return {subject: float(np.mean(each)) for subject, each in errors.items()}

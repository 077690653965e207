"""Measure a scored night against the expert's. Decodes nothing."""

from __future__ import annotations

import math
import warnings

import numpy as np

import stageguard as sg
from stageguard.night.stages import StageScheme

# TST, SE, SOL, REM latency, WASO, awakenings, bouts: what studies report
STATISTICS = (
    "tst_minutes",
    "se_percent",
    "sol_minutes",
    "rem_latency_minutes",
    "waso_minutes",
    "awakenings",
    "bouts",
)
# Of mice, recorded around the clock: no moment is bedtime. The seven are measured beside them.
OF_MICE = tuple(f"{what}_{stage}" for what in ("minutes", "bouts") for stage in "WNR")
# 90th percentile of the ratio of two experts' fragmentation indices on one night (DOD), by number of stages
TWO_EXPERTS = {2: 2.00, 3: 1.97, 5: 2.25}
FAR_MINUTES = 30.0  # a REM latency that is wrong by more misleads


def fragmentation(labels: np.ndarray) -> float:
    pairs = (labels[:-1] >= 0) & (labels[1:] >= 0)
    return float((labels[:-1] != labels[1:])[pairs].mean()) if pairs.any() else math.nan


def statistics(night: sg.Hypnogram) -> dict[str, float]:
    measured = sg.sleep_statistics(night)
    values = {name: float(getattr(measured, name)) for name in STATISTICS if name != "bouts"}
    values["bouts"] = float(sum(measured.bouts.values()))
    if night.scheme.n_stages == 3:
        values |= {f"minutes_{stage}": float(measured.stage_minutes[stage]) for stage in night.scheme.names}
        values |= {f"bouts_{stage}": float(measured.bouts[stage]) for stage in night.scheme.names}
    return values


def judge(
    labels: np.ndarray,
    expert: np.ndarray,
    scheme: StageScheme,
    epoch_seconds: float,
    profile: sg.Profile,
) -> dict[str, float]:
    """Measure a night over the epochs that both have scored.

    Returns kappa, accuracy, macro F1, FI, TVR, whether the joint score of the shipped `profile` takes the
    night (and the expert's) for a stager's, absolute errors, and whether that of REM latency is large.
    """
    both = (labels >= 0) & (expert >= 0)
    labels, expert = np.where(both, labels, -1), np.where(both, expert, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        theirs, own = (sg.Hypnogram(a.astype(np.int8), scheme, epoch_seconds) for a in (expert, labels))
        agreed = sg.agreement(theirs, own)
        own_values, their_values = statistics(own), statistics(theirs)
        flagged, expert_flagged = _flagged(own, profile), _flagged(theirs, profile)
    fi, expert_fi = fragmentation(labels), fragmentation(expert)
    values = {
        "kappa": agreed.kappa,
        "accuracy": agreed.accuracy,
        "macro_f1": agreed.macro_f1,
        "fi": fi,
        "fi_expert": expert_fi,
        "fi_in_band": float(abs(math.log(fi / expert_fi)) <= math.log(TWO_EXPERTS[scheme.n_stages]))
        if fi > 0 and expert_fi > 0
        else 0.0,
        "tvr_percent": _tvr(labels, scheme),
        "flagged": flagged,
        "flagged_expert": expert_flagged,
    }
    # Sleep or REM that never comes counts as coming at the end: a method must not gain by showing none.
    end = len(labels) * epoch_seconds / 60.0
    for name in ("sol_minutes", "rem_latency_minutes"):
        if math.isnan(own_values[name]) and not math.isnan(their_values[name]):
            own_values[name] = end
    errors = {f"error {name}": abs(own_values[name] - their_values[name]) for name in own_values}
    return values | errors | {"rem_latency_far": float(errors["error rem_latency_minutes"] > FAR_MINUTES)}


def _flagged(night: sg.Hypnogram, profile: sg.Profile) -> float:
    """Return 1 where the joint score is above what experts stay under, 0 where not, NaN without a score."""
    looks = sg.validity(night, profile).looks_like_experts
    return math.nan if looks is None else float(not looks)


def _tvr(labels: np.ndarray, scheme: StageScheme) -> float:
    """Return the paper's share of W->R and R->N among adjacent pairs, in percent."""
    if scheme.rem_index is None:
        return math.nan
    before, after = labels[:-1], labels[1:]
    pairs = (before >= 0) & (after >= 0)
    wake, rem = scheme.wake_index, scheme.rem_index
    is_nrem = (after != wake) & (after != rem)
    rare = ((before == wake) & (after == rem)) | ((before == rem) & is_nrem)
    return float(100 * (rare & pairs).sum() / max(1, pairs.sum()))

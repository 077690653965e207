"""Statistics and indicators of a night under review, as rows for the page."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from stageguard.base.errors import InputError
from stageguard.measures.bouts import cuts_of
from stageguard.measures.period import period_for
from stageguard.measures.statistics import SleepStatistics
from stageguard.measures.validity import Validity, validity_of
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import NIGHT, indicators_of
from stageguard.review.night import NightUnderReview, Outcome
from stageguard.review.state import ReviewState

Rows = list[dict[str, Any]]


def measured(night: NightUnderReview, state: ReviewState, outcome: Outcome) -> dict[str, Any]:
    """Return statistics and indicators of stager, guard and expert, and the joint score of the guard."""
    profile = night.profile_for(state.settings)
    cuts = () if outcome.decoding is None else cuts_of(outcome.decoding)
    scorings: dict[str, Hypnogram] = {
        "stager": night.hypnogram(night.argmax),
        "guard": night.hypnogram(outcome.labels),
    }
    if night.expert is not None:
        scorings["expert"] = night.expert
    statistics = {name: _once(night, name, scoring) for name, scoring in scorings.items()}
    decoded = scorings["stager"] if outcome.decoding is None else outcome.decoding
    period = period_for(decoded, profile, night.statistics.lights)
    validities = {}
    for name, scoring in scorings.items():
        try:
            validities[name] = validity_of(scoring, profile, period, cuts)
        except InputError:  # the expert's stages are coarser than the profile's
            continue
    joint = validities["guard"].joint
    return {
        "statistics": _statistics(night, statistics),
        "indicators": _indicators(night, validities),
        "joint": {
            "score": number(joint.value),
            "cut": number(joint.high),
            "like_experts": validities["guard"].looks_like_experts,
            "reason": joint.reason,
        },
    }


def _once(night: NightUnderReview, name: str, scoring: Hypnogram) -> SleepStatistics:
    """Return the statistics of a scoring; those of the stager and the expert are computed once."""
    if name == "guard":
        return night.statistics.measure(scoring)
    if name not in night._made:
        night._made[name] = night.statistics.measure(scoring)
    taken: SleepStatistics = night._made[name]
    return taken


def _statistics(night: NightUnderReview, taken: Mapping[str, SleepStatistics]) -> Rows:
    rows = []
    for quantity in sorted(NIGHT, key=lambda quantity: quantity.report_row):
        values = {name: getattr(each, quantity.key) for name, each in taken.items()}
        rows.append(_row(quantity.key, quantity.label, quantity.short_unit, values, quantity.decimals))
    for stage in night.scheme.names:
        values = {name: each.stage_minutes.get(stage, float("nan")) for name, each in taken.items()}
        rows.append(_row(f"stage_minutes_{stage}", f"Time in {stage}", "min", values, 1))
    return rows


def _indicators(night: NightUnderReview, validities: Mapping[str, Validity]) -> Rows:
    rows = []
    for key, quantity in indicators_of(night.scheme.names).items():
        guard = validities["guard"].indicators[key]
        values = {name: each.indicators[key].value for name, each in validities.items()}
        row = _row(key, quantity.label, quantity.unit, values, quantity.decimals)
        if guard.place != "no band" or isfinite(guard.low):
            row["band"] = [guard.low, guard.high]
            row["inside"] = guard.place == "inside" if guard.place != "no band" else None
        rows.append(row)
    return rows


def _row(key: str, label: str, unit: str, values: Mapping[str, float], decimals: int) -> dict[str, Any]:
    shown = {name: number(values.get(name, float("nan"))) for name in ("stager", "guard", "expert")}
    return {"name": key, "label": label, "unit": unit, "decimals": decimals} | shown | {
        "band": None,
        "inside": None,
    }  # fmt: skip


def number(value: float) -> float | None:
    """Return a number for JSON: None unless it is finite."""
    return float(value) if isfinite(value) else None

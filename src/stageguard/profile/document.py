"""Writing a profile's fields back as the document that describes it. Validates nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from stageguard.night.stages import SCHEMES, StageScheme
from stageguard.profile.parts import Calibration, Caution

if TYPE_CHECKING:
    from stageguard.profile.profile import Profile

_DEFAULTS: dict[str, object] = {
    "other_cohorts": "unweighted",
    "stay": "self",
    "ends": "censored",
    "transition_weight": 1.0,
    "prior_exponent": 0.0,
    "rare_probability": 0.001,
}


def document_of(profile: Profile) -> dict[str, Any]:
    """Return the document of a profile: plain TOML types, in the order of a profile file, no defaults."""
    names = profile.scheme.names
    transitions = zip(names, profile.transitions, strict=True)
    entries = {
        "name": profile.name,
        "summary": profile.summary or None,
        "intended_for": profile.intended_for or None,
        "cohort": profile.cohort,
        "other_cohorts": profile.other_cohorts,
        "not_for": _cautions(profile.not_for),
        **_scheme(profile.scheme),
        "epoch_seconds": profile.epoch_seconds,
        "stay": profile.stay,
        "ends": profile.ends,
        "transition_weight": profile.transition_weight,
        "strength": _parts(profile.strength) if profile.strength else None,
        "prior_exponent": profile.prior_exponent,
        "prior": _by_stage(names, profile.prior),
        "rare_probability": profile.rare_probability,
        "rare": _thawed(profile._rare_as_given) or None,
        "tvr_pairs": _thawed(profile._tvr_pairs_as_given),
        "min_bout_seconds": dict(profile.min_bout_seconds) or None,
        "flip_flop": _parts(profile.flip_flop) or None,
        "transitions": {name: _by_stage(names, row) for name, row in transitions},
        "calibration": _calibration(profile.calibration, names),
        "durations": _thawed(profile.durations) or None,
        "bands": {name: _parts(band) for name, band in profile.bands.items()} or None,
        "intervals": _thawed(profile.intervals) or None,
        "provenance": _thawed(profile.provenance) or None,
    }
    return {key: value for key, value in entries.items() if value is not None and value != _DEFAULTS.get(key)}


def _scheme(scheme: StageScheme) -> dict[str, Any]:
    if SCHEMES.get(scheme.name) == scheme:
        return {"scheme": scheme.name}
    return {"stages": list(scheme.names), "wake": scheme.wake, "rem": scheme.rem}


def _cautions(cautions: Sequence[Caution]) -> str | list[dict[str, Any]] | None:
    if cautions and not cautions[0].cohort:
        return cautions[0].reason
    return [_thawed(_parts(caution)) for caution in cautions] or None


def _calibration(calibration: Calibration, names: Sequence[str]) -> dict[str, Any] | None:
    parts = _parts(calibration)
    if calibration.biases is not None:
        parts["biases"] = _by_stage(names, calibration.biases)
    return parts or None


def _parts(part: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults."""
    values = {field: getattr(part, field.name) for field in fields(part)}
    return {
        field.name: value
        for field, value in values.items()
        if field.default is MISSING or value != field.default
    }


def _by_stage(names: Sequence[str], values: Sequence[float] | None) -> dict[str, float] | None:
    return None if values is None else dict(zip(names, values, strict=True))


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, list | tuple) else value

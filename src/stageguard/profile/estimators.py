"""The estimators of a night's statistics, and how a profile names one for each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stageguard.base import checks
from stageguard.night.stages import StageScheme

# Each estimator in words. None of them changes the hypnogram.
ESTIMATORS = {
    "path": "counted on the decoded stages",
    "probabilities": "sum of the stager's probabilities",
    "posterior": "sum of the posterior",
    "bout": "first lasting REM bout",
    "clock": "first lasting REM bout under the full clock",
    "expected": "when 3 min of REM are expected under the full clock",
    "draws": "median of posterior draws",
}
TST, REM_LATENCY = "tst_minutes", "rem_latency_minutes"
OF_MINUTES = ("path", "probabilities", "posterior")
OF_REM_LATENCY = ("path", "bout", "clock", "expected", "draws")
DEFAULT_OF_MINUTES = "posterior"  # if the profile names none


def estimators_of(scheme: StageScheme) -> dict[str, tuple[str, ...]]:
    """Return the estimators of each statistic that has several."""
    table: dict[str, tuple[str, ...]] = {TST: OF_MINUTES}
    table |= {f"minutes_{stage}": OF_MINUTES for stage in scheme.names}
    return table if scheme.rem is None else table | {REM_LATENCY: OF_REM_LATENCY}


def read_estimators(value: object, where: str, scheme: StageScheme) -> Mapping[str, str]:
    """Return the estimator that the document names for each statistic."""
    known = estimators_of(scheme)
    table = checks.mapping(value, where, known)
    chosen = {name: checks.choice(item, f"{where}.{name}", known[name]) for name, item in table.items()}
    return MappingProxyType(chosen)

"""Which estimator serves which statistic of a night: the table of them, and how a profile names them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from stageguard.base import checks
from stageguard.night.stages import StageScheme

# What each is, in words. The hypnogram is never altered by any of them.
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
DEFAULT_OF_MINUTES = "posterior"  # where no scored night says otherwise


def estimators_of(scheme: StageScheme) -> dict[str, tuple[str, ...]]:
    """Return the statistics that have several estimators, and which."""
    table: dict[str, tuple[str, ...]] = {TST: OF_MINUTES}
    table |= {f"minutes_{stage}": OF_MINUTES for stage in scheme.names}
    return table if scheme.rem is None else table | {REM_LATENCY: OF_REM_LATENCY}


def read_estimators(value: object, where: str, scheme: StageScheme) -> Mapping[str, str]:
    """Return the estimator of each statistic that has one named."""
    known = estimators_of(scheme)
    given = checks.mapping(value, where, known)
    chosen = {name: checks.choice(each, f"{where}.{name}", known[name]) for name, each in given.items()}
    return MappingProxyType(chosen)

"""How far two experts are apart in each statistic, as counted on cohorts that several experts scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stageguard import documents

TABLE_FILE = Path(__file__).with_name("expert-errors.toml")
TABLE_EPOCH_SECONDS = 30.0  # of the nights behind the table


@dataclass(frozen=True, slots=True)
class ExpertErrors:
    """Mean absolute differences between two experts on a cohort's nights, by statistic."""

    cohort: str
    people: str
    errors: Mapping[str, float]


@cache
def expert_errors(scheme: str) -> tuple[ExpertErrors, ...]:
    """Return how far two experts are apart in a scheme, by cohort, in epochs of `TABLE_EPOCH_SECONDS`."""
    cohorts = documents.read_toml(TABLE_FILE, "a table")["cohorts"]
    known = [cohort for cohort in cohorts if scheme in cohort["errors"]]
    return tuple(ExpertErrors(each["name"], each["people"], each["errors"][scheme]) for each in known)

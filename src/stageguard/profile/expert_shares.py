"""Stage shares over people in expert scorings, and the repair by which `tune` brings a stager to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from stageguard import checks, schema
from stageguard.errors import InputError
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import by_stage, per_stage, probability

TAIL = 0.025  # of the experts' means, on either side of the range
WIDENED = 1.25  # times, for cohorts unlike those counted
_HALVINGS = 50  # of the interval that holds a quantile

Range = tuple[float, float]  # lowest and highest share
PerStage = tuple[float, ...]  # in the scheme's order


@dataclass(frozen=True, slots=True)
class ShareRepair:
    """What `tune` did about stage shares that experts' scorings do not show; the biases are the profile's."""

    n_people: int = schema.whole(low=1)
    before: PerStage = schema.declare(schema.REQUIRED, lambda value, where: value)  # read_expert_shares
    low: PerStage = schema.declare(schema.REQUIRED, lambda value, where: value)
    high: PerStage = schema.declare(schema.REQUIRED, lambda value, where: value)
    after: PerStage = schema.declare(schema.REQUIRED, lambda value, where: value)

    @property
    def outside(self) -> tuple[int, ...]:
        """The stages whose share was outside the range, by index."""
        shares = enumerate(zip(self.before, self.low, self.high, strict=True))
        return tuple(stage for stage, (share, low, high) in shares if not low <= share <= high)

    def describe(self, names: Sequence[str]) -> str:
        """Say by how much each share outside the range was moved."""

        def percent(start: PerStage, end: PerStage, stage: int) -> str:
            return f"{100 * start[stage]:.1f} to {100 * end[stage]:.1f} %"

        return ", ".join(
            f"{names[i]} {percent(self.before, self.after, i)} (experts {percent(self.low, self.high, i)})"
            for i in self.outside
        )


_OF_REPAIR = ("before", "low", "high", "after")


@dataclass(frozen=True, slots=True)
class ExpertShares:
    """Shares of the stages in the sleep period, as experts score people of several cohorts.

    ``cohorts`` hold, for each cohort and stage, the mean share over people and its standard deviation between
    them. ``repair`` is what `tune` found and did for the profile's stager.
    """

    cohorts: Mapping[str, tuple[tuple[float, float], ...]] = schema.declare(
        schema.REQUIRED, lambda value, where: value
    )  # read_expert_shares
    source: str = schema.text("", empty=True)
    repair: ShareRepair | None = schema.declare(None, lambda value, where: value)

    def ranges(self, n_people: int) -> tuple[Range, ...]:
        """Return the range of the mean share of each stage over this many people.

        The means of a cohort are normal around its own; the range holds 95 % of those of all cohorts, each
        with equal weight, and is widened by a quarter.
        """
        return tuple(
            _range([(mean, sd / math.sqrt(n_people)) for mean, sd in stage])
            for stage in zip(*self.cohorts.values(), strict=True)
        )


def _range(normals: Sequence[tuple[float, float]]) -> Range:
    """Return the widened range of a mixture of normals, given by mean and standard deviation."""
    low, high = _quantile(normals, TAIL), _quantile(normals, 1 - TAIL)
    centre, half = (low + high) / 2, WIDENED * (high - low) / 2
    return max(centre - half, 0.0), min(centre + half, 1.0)


def _quantile(normals: Sequence[tuple[float, float]], share: float) -> float:
    low = min(mean - 10 * sd for mean, sd in normals)
    high = max(mean + 10 * sd for mean, sd in normals)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum(1 + math.erf((middle - mean) / (sd * math.sqrt(2))) for mean, sd in normals)
        low, high = (middle, high) if below / (2 * len(normals)) < share else (low, middle)
    return (low + high) / 2


def _mean_and_sd(value: object, where: str) -> tuple[float, float]:
    pair = checks.items(value, where, probability)
    if len(pair) != 2 or not pair[1] > 0:
        got = checks.shown(value)
        raise InputError(f"{where} is {got}, expected [mean, standard deviation above 0] of a share.")
    return pair[0], pair[1]


def _for_all_stages(check: Any, value: object, where: str, scheme: StageScheme) -> tuple[Any, ...]:
    table = per_stage(check)(value, where, scheme)
    if len(table) < scheme.n_stages:
        raise InputError(f"{where} lacks a stage, expected one each for {', '.join(scheme.names)}.")
    return tuple(table.values())


def read_expert_shares(value: object, where: str, scheme: StageScheme) -> ExpertShares:
    """Return the shares by cohort, each in the scheme's order."""
    shares = schema.read_table(ExpertShares, value, where)
    cohorts = checks.mapping(shares.cohorts, f"{where}.cohorts")
    if not cohorts:
        raise InputError(f"{where}.cohorts is empty, expected the shares of one cohort or more.")
    read = {
        name: _for_all_stages(_mean_and_sd, table, f"{where}.cohorts.{name}", scheme)
        for name, table in cohorts.items()
    }
    repair = None
    if shares.repair is not None:
        inside = f"{where}.repair"
        repair = schema.read_table(ShareRepair, shares.repair, inside)
        columns: dict[str, Any] = {
            key: _for_all_stages(probability, getattr(repair, key), f"{inside}.{key}", scheme)
            for key in _OF_REPAIR
        }
        repair = replace(repair, **columns)
    return replace(shares, cohorts=MappingProxyType(read), repair=repair)


def write_expert_shares(shares: ExpertShares, scheme: StageScheme) -> dict[str, Any]:
    """Return the shares without defaults, by cohort and stage."""
    document: dict[str, Any] = {} if not shares.source else {"source": shares.source}
    document["cohorts"] = {
        name: by_stage([list(pair) for pair in table], scheme) for name, table in shares.cohorts.items()
    }
    if shares.repair is not None:
        columns = {key: by_stage(getattr(shares.repair, key), scheme) for key in _OF_REPAIR}
        document["repair"] = {"n_people": shares.repair.n_people} | columns
    return document

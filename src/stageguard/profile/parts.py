"""The small types a profile is made of, and what a document may say of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from stageguard.base import schema
from stageguard.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A cohort the profile was not made for. A plain sentence has an empty ``cohort``."""

    cohort: str = schema.text()
    aliases: tuple[str, ...] = schema.words()
    action: Literal["warn", "refuse"] = schema.choice("warn", "warn", "refuse")
    reason: str = schema.text()


@dataclass(frozen=True, slots=True)
class StrengthRule:
    """How the transition weight is set per recording; ``floor``, ``cap`` and ``lift`` belong to ``band``.

    ``fi_target`` is the experts' fragmentation index at the profile's epoch length. ``lift`` says whether
    minority stages are lifted below the floor; None leaves that to how the stager was trained.
    """

    rule: Literal["band", "match"] = schema.choice(schema.REQUIRED, "band", "match")
    fi_target: float = schema.number(positive=True, high=1)
    floor: float = schema.number(0.5, low=0, high=1)
    cap: float = schema.number(2.0, low=1, high=inf)
    lift: bool | None = schema.flag(None)


@dataclass(frozen=True, slots=True)
class RarePair:
    """A switch that is discouraged, and the probability that replaces the counted one."""

    source: str
    target: str
    probability: float


@dataclass(frozen=True, slots=True)
class FlipFlop:
    """What it costs to switch to a stage seen within the last ``window_epochs`` epochs; 0 nats is off."""

    penalty_nats: float = schema.number(0.0, low=0, high=1000)
    window_epochs: int = schema.whole(5, low=2, high=60)
    method: Literal["greedy", "exact"] = schema.choice("exact", "greedy", "exact")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correction of a stager's confidence: temperature, then one bias per stage in nats."""

    temperature: float = schema.number(1.0, low=0.01, high=100)
    biases: tuple[float, ...] | None = schema.declare(
        None, lambda value, where: value
    )  # by the scheme, later


@dataclass(frozen=True, slots=True)
class Band:
    """Range of an indicator over expert scorings."""

    low: float = schema.number()
    high: float = schema.number()
    source: str = schema.text("", empty=True)
    unit: str = schema.text("", empty=True)

    @classmethod
    def read(cls, value: object, where: str) -> Band:
        """Return the range that a document says."""
        band = schema.read_table(cls, value, where)
        if band.low > band.high:
            raise InputError(f"{where} has low {band.low:g} above high {band.high:g}. Swap them.")
        return band

"""The small types a profile is made of. They are validated where a profile is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Caution:
    """A cohort the profile was not made for. A plain sentence has an empty ``cohort``."""

    cohort: str
    aliases: tuple[str, ...]
    action: Literal["warn", "refuse"]
    reason: str


@dataclass(frozen=True, slots=True)
class StrengthRule:
    """How the transition weight is set per recording; ``floor``, ``cap`` and ``lift`` belong to ``band``.

    ``fi_target`` is the experts' fragmentation index at the profile's epoch length. ``lift`` says whether
    minority stages are lifted below the floor; None leaves that to how the stager was trained.
    """

    rule: Literal["band", "match"]
    fi_target: float
    floor: float = 0.5
    cap: float = 2.0
    lift: bool | None = None


@dataclass(frozen=True, slots=True)
class RarePair:
    """A switch that is discouraged, and the probability that replaces the counted one."""

    source: str
    target: str
    probability: float


@dataclass(frozen=True, slots=True)
class FlipFlop:
    """What it costs to switch to a stage seen within the last ``window_epochs`` epochs; 0 nats is off."""

    penalty_nats: float = 0.0
    window_epochs: int = 5
    method: Literal["greedy", "exact"] = "exact"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Correction of a stager's confidence: temperature, then one bias per stage in nats."""

    temperature: float = 1.0
    biases: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Band:
    """Range of an indicator over expert scorings."""

    low: float
    high: float
    source: str = ""
    unit: str = ""

"""The rule `band`: keep a night's fragmentation between two multiples of the experts'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from stageguard.documents import Range, Share
from stageguard.profile.rules.rule import (
    UNTOUCHED,
    Choice,
    Curve,
    Setting,
    StrengthRule,
    calm,
    lift,
    lifting_of,
)


@dataclass(frozen=True, slots=True)
class BandRule(StrengthRule):
    """Lower a night above ``cap`` times ``fi_target`` to that bound, by the smallest weight that does so.

    Minority stages of a night below ``floor`` times ``fi_target`` are lifted; ``lift`` says whether, and None
    leaves it to how the stager was trained.
    """

    rule: ClassVar[str] = "band"
    lifts: ClassVar[bool] = True

    floor: Share = 0.5
    cap: Annotated[float, Range(low=1)] = 2.0
    lift: bool | None = None

    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""
        target = self.fi_target * curve.ratio
        low, high = self.floor * target, self.cap * target
        lifting = lifting_of(self.lift, curve)
        choice = Choice(
            "band",
            UNTOUCHED,
            "untouched",
            curve.fi,
            curve.fi,
            fi_low=low,
            fi_high=high,
            fi_experts=target,
            fi_aim=high,
            lifting=lifting,
        )
        if curve.fi > high:
            weight, fi = calm(curve, high, None, curve.fi)
            return choice._replace(setting=Setting(weight), step="lowered", fi_after=fi)
        return lift(curve, choice, low) if curve.fi < low and lifting == "tried" else choice

    @property
    def asks_training(self) -> bool:
        """Whether it lifts minority stages only for stagers trained on natural class frequencies."""
        return self.lift is None

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        low, high = self.floor * self.fi_target, self.cap * self.fi_target
        return (
            f"per recording, the least that brings the fragmentation index into {low:.3f} to {high:.3f} "
            f"({self.floor:g} to {self.cap:g} times the experts' {self.fi_target:g})"
        )

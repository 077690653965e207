"""Numbers as people read them: decimals that suit their size, signs, units."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stageguard.night.hypnogram import Hypnogram

ABSENT = "–"


def decimals_for(values: Iterable[float]) -> int:
    """Return how many decimals show three digits of the largest of some numbers that stand side by side."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return sum(largest < limit for limit in (1, 10, 100))


def shown(value: float, decimals: int) -> str:
    """Write a number, or a dash where there is none."""
    if not math.isfinite(value):
        return ABSENT
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("-")  # no negative zero
    return text.replace("-", "−")


def difference(after: float, before: float, decimals: int) -> str:
    """Write a change with its sign, from the numbers as they are and not as they are shown."""
    if not (math.isfinite(after) and math.isfinite(before)):
        return ABSENT
    text = shown(after - before, decimals)
    if float(text.replace(",", "").replace("−", "-")) == 0:
        return text if after == before else f"±{text}"
    return text if text.startswith("−") else f"+{text}"


def arrowed(text: str) -> str:
    """Write arrows as one character."""
    return text.replace("->", "→")


def sentence(text: str) -> str:
    """Write a clause as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def time_of(epoch: int, night: Hypnogram) -> str:
    """Write when an epoch begins: clock time, or time from the recording's start."""
    clock = night.clock_at(epoch)
    if clock is not None:
        return f"{clock:%H:%M:%S}"
    whole = int(epoch * night.epoch_seconds + night.offset_seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def duration(seconds: float) -> str:
    """Write a length of time in hours and minutes, with seconds when it is short."""
    if seconds < 60:
        return f"{seconds:g} s"
    if seconds < 600:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes:.0f} min" + (f" {rest:g} s" if rest else "")
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"

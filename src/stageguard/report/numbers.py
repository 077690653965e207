"""Numbers as text: decimals that suit their size, signs, units."""

from __future__ import annotations

import math
from collections.abc import Iterable

from stageguard.night.hypnogram import Hypnogram

ABSENT = "–"


def decimals_for(values: Iterable[float]) -> int:
    """Return the decimals that show three digits of the largest of some numbers."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return sum(largest < limit for limit in (1, 10, 100))


def number_text(value: float, decimals: int) -> str:
    """Return a number as text, or a dash if it is missing."""
    if not math.isfinite(value):
        return ABSENT
    text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("-")  # no negative zero
    return text.replace("-", "−")


def difference(after: float, before: float, decimals: int) -> str:
    """Return a change with its sign as text, computed from the unrounded numbers."""
    if not (math.isfinite(after) and math.isfinite(before)):
        return ABSENT
    text = number_text(after - before, decimals)
    if float(text.replace(",", "").replace("−", "-")) == 0:
        return text if after == before else f"±{text}"
    return text if text.startswith("−") else f"+{text}"


def with_arrows(text: str) -> str:
    """Return a text with each "->" as one character."""
    return text.replace("->", "→")


def num(value: float, form: str = "g") -> str:
    """Return a number in a format, by default with as many digits as it has."""
    return format(value, form)


def by_stage(values: Iterable[float], stages: Iterable[str], form: str) -> str:
    """Return a number for each stage as text."""
    pairs = zip(stages, values, strict=True)
    return ", ".join(f"{stage} {format(value, form).replace('-', '−')}" for stage, value in pairs)


def interval_text(low: float, high: float, decimals: int) -> str:
    """Return an interval with a digit less than the number that it is of."""
    return " to ".join(number_text(end, max(0, decimals - 1)) for end in (low, high))


def sentence(text: str) -> str:
    """Return a clause as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def count(number: int, noun: str) -> str:
    """Return a number with a noun, in the plural if needed."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def and_list(names: Iterable[str]) -> str:
    """Return names with commas and a final "and"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def time_of(epoch: int, night: Hypnogram) -> str:
    """Return the beginning of an epoch as clock time, or as time since the recording's start."""
    clock = night.clock_at(epoch)
    if clock is not None:
        return f"{clock:%H:%M:%S}"
    whole = int(epoch * night.epoch_seconds + night.offset_seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def duration(seconds: float) -> str:
    """Return a duration in hours and minutes, or in minutes and seconds if it is short."""
    if seconds < 60:
        return f"{seconds:g} s"
    if seconds < 600:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes:.0f} min" + (f" {rest:g} s" if rest else "")
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"

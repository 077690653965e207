"""How far a night's statistics may be off, as the statistics table shows it. Measures nothing itself."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stageguard.guard.decoding import Decoding
from stageguard.measures.intervals import Intervals, intervals, is_foreign, shortest_first_rem
from stageguard.measures.statistics import SleepStatistics
from stageguard.report.measures import Lights
from stageguard.report.numbers import ABSENT, count, shown


def night_intervals(decoding: Decoding, lights: Lights) -> Intervals | None:
    """Return conformal intervals, or None where the profile knows no errors on nights like this one."""
    if not decoding.profile.intervals.get("errors") or is_foreign(decoding):
        return None
    return intervals(decoding, lights_off=lights["lights_off"], lights_on=lights["lights_on"])


def interval_title(found: Intervals | None) -> str:
    """Return the heading of the column, or nothing without intervals."""
    if found is None:
        return ""
    return f"{100 * found.level:.0f} % interval" if found.is_measured else "Interval"


def interval_cell(found: Intervals | None, key: str, decimals: int) -> str:
    """Return an interval as shown, a dash where it does not exist, nothing for what gets none."""
    if found is None or key not in found:
        return ""
    if found[key].reason:
        return ABSENT
    return f"{shown(found[key].low, decimals)} to {shown(found[key].high, decimals)}"


def interval_notes(decoding: Decoding, found: Intervals | None, statistics: SleepStatistics) -> Iterator[str]:
    """Return where the intervals come from, and how often such ones covered."""
    held = decoding.profile.intervals
    if found is None:
        if held.get("errors"):
            yield (
                "No intervals are shown: the profile knows the errors on nights of "
                f"{decoding.profile.cohort}, and this one is of {decoding.cohort}."
            )
        return
    nights = f"{count(found.n_nights, 'scored night')} of {count(int(held.get('n_subjects', 0)), 'subject')}"
    measured = [one.measured_coverage for one in found.values() if not math.isnan(one.measured_coverage)]
    covered = ""
    if measured:
        low, high = 100 * min(measured), 100 * max(measured)
        share = f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"
        covered = f" There, each subject judged by the errors on the others, they held {share} of the values."
    yield (
        f"The {interval_title(found).lower()} is as wide as the errors against experts on {nights} that "
        f"were held out from the fit.{covered} It holds for nights like those: same stager, same kind of "
        "people."
    )
    shortest = shortest_first_rem(decoding.profile)
    latency = found.get("rem_latency_minutes")
    if shortest and latency is not None and not latency.reason:
        moved = latency.value != statistics.rem_latency_minutes
        here = f", here after {shown(latency.value, 1)} min" if moved else ""
        yield (
            f"That of REM latency is for the first REM bout of {shortest:g} s or more, as the profile was "
            f"fitted{here}."
        )

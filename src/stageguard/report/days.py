"""Days as one page: a row of 24 h for each, with main sleeps and naps, then tables of days and of sleeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

import numpy as np

from stageguard.arrays import Ints
from stageguard.measures.days import CLOCK, DAY_QUANTITIES, Day, DayQuantity, Days, day_edges
from stageguard.night.colours import PAGE, SPARE_STAGES, STAGES
from stageguard.night.hypnogram import UNSCORED
from stageguard.report.numbers import ABSENT, count, number_text
from stageguard.report.page import render_page
from stageguard.report.svg import GAP, GREY, INK, document, rect, runs, text_at

MISSING, AWAKE, IN_MAIN, IN_NAP = range(4)
COLOURS = {
    MISSING: GAP,
    AWAKE: PAGE["tint"].light,
    IN_MAIN: STAGES["S"].light,
    IN_NAP: SPARE_STAGES[0].light,
}
WIDTH, LEFT, RIGHT, ROW, BAR, TOP = 960.0, 96.0, 24.0, 26.0, 18.0, 26.0


def clock_text(hours_after_noon: float) -> str:
    """Return hours after noon as a time of day."""
    if isnan(hours_after_noon):
        return ABSENT
    hours, minutes = divmod((round(60 * hours_after_noon) + 720) % 1440, 60)
    return f"{hours:02d}:{minutes:02d}"


def value_text(quantity: DayQuantity, value: float, *, is_spread: bool = False) -> str:
    """Return a number of a day; clock times as times of day, and their SD in hours and minutes."""
    if quantity.unit != CLOCK:
        whole = quantity.key == "naps" and not is_spread and value.is_integer()
        return number_text(value, 0 if whole else quantity.decimals)
    if not is_spread:
        return clock_text(value)
    return ABSENT if isnan(value) else f"{int(60 * value + 0.5) // 60}:{int(60 * value + 0.5) % 60:02d} h"


def day_rows(days: Days, quantities: Sequence[DayQuantity] = DAY_QUANTITIES) -> list[list[str]]:
    """Return a row of texts per day: date, the quantities in order, what is missing."""
    return [
        [
            f"{day.date:%Y-%m-%d}",
            *(value_text(quantity, quantity.of(day)) for quantity in quantities),
            f"{day.missing_percent:.0f} %" + ("" if day.counts else " (no day)"),
        ]
        for day in days.days
    ]


def over_rows(days: Days, quantities: Sequence[DayQuantity] = DAY_QUANTITIES) -> list[list[str]]:
    """Return mean and SD over days as rows of the same columns."""
    mean, sd = days.mean, days.sd
    return [
        ["mean", *(value_text(each, mean[each.key]) for each in quantities), ""],
        ["SD", *(value_text(each, sd[each.key], is_spread=True) for each in quantities), ""],
    ]


def days_page(days: Days, title: str, notes: Sequence[str] = ()) -> str:
    """Return the page of a recording of days."""
    from markupsafe import Markup

    mean, sd = days.mean, days.sd
    tiles = [
        ("Days", f"{days.n_days}", f"of {len(days.days)} that the recording touches"),
        (
            "Sleep of a day",
            f"{number_text(mean['day_tst_minutes'] / 60, 1)} h",
            _spread(sd["day_tst_minutes"]),
        ),
        ("Mid-sleep", clock_text(mean["mid_sleep_hours"]), _spread(60 * sd["mid_sleep_hours"])),
        ("Sleep regularity index", number_text(days.sri, 0), "100 the same every day, 0 at random"),
    ]
    sleeps = [
        (
            *(f"{number:02d}", sleep.kind, f"{sleep.date:%Y-%m-%d}"),
            *(
                ABSENT if moment is None else f"{moment:%m-%d %H:%M}"
                for moment in (sleep.onset, sleep.offset)
            ),
            number_text(sleep.statistics.tst_minutes, 1),
            number_text(sleep.statistics.waso_minutes, 1),
            ABSENT if sleep.decoding is None else str(int(sleep.decoding.changed.sum())),
        )
        for number, sleep in enumerate(days.sleeps, start=1)
    ]
    n_naps = sum(sleep.kind == "nap" for sleep in days.sleeps)
    context = {
        "title": title,
        "lead": f"{count(len(days.sleeps) - n_naps, 'main sleep')} and {count(n_naps, 'nap')}.",
        "tiles": tiles,
        "picture": Markup(raster(days, title)),
        "headings": ["Day from noon", *map(_heading, DAY_QUANTITIES), "Missing"],
        "rows": list(zip(day_rows(days), [day.counts for day in days.days], strict=True)),
        "over": over_rows(days),
        "sleeps": sleeps,
        "notes": notes,
    }
    return render_page("days.html.j2", context)


def _heading(quantity: DayQuantity) -> str:
    unit = {"min": " (min)", "% of SPT": " (%)"}.get(quantity.unit, "")
    return quantity.name[:1].upper() + quantity.name[1:] + unit


LEGEND = {IN_MAIN: "main sleep", IN_NAP: "nap", AWAKE: "wake", MISSING: "missing"}


def _spread(minutes: float) -> str:
    return "SD unknown" if isnan(minutes) else f"SD {minutes:.0f} min"


def raster(days: Days, title: str) -> str:
    """Return the picture: a row from noon to noon for each day."""
    states = _states(days)
    parts = list(_hours(len(days.days)))
    for number, day in enumerate(days.days):
        y = TOP + ROW * number
        parts.append(
            text_at(0, y + BAR - 4, f"{day.date:%a %d %b}", font_size=12, fill=INK if day.counts else GREY)
        )
        parts += _bars(days, day, states, y)
    bottom = TOP + ROW * len(days.days) + 8
    for number, (state, name) in enumerate(LEGEND.items()):
        x = LEFT + 120 * number
        parts += [rect(x, bottom, 12, 12, COLOURS[state]), text_at(x + 18, bottom + 10, name, font_size=12)]
    size = WIDTH, bottom + 20
    about = f"{count(len(days.days), 'day')}, one per row from noon to noon, with main sleeps and naps."
    return document(f"Days of {title}", about, parts, size, inline="days")


def _states(days: Days) -> Ints:
    """Return what each epoch is: missing, awake, asleep in a main sleep, asleep in a nap."""
    hypnogram = days.hypnogram
    wake = hypnogram.scheme.names.index(str(hypnogram.scheme.wake))
    states = np.where(hypnogram.labels == UNSCORED, MISSING, AWAKE)
    for sleep in days.sleeps:
        part = slice(sleep.first, sleep.end)
        is_asleep = (hypnogram.labels[part] != UNSCORED) & (hypnogram.labels[part] != wake)
        states[part][is_asleep] = IN_MAIN if sleep.kind == "main" else IN_NAP
    return states


def _bars(days: Days, day: Day, states: Ints, y: float) -> Iterator[str]:
    begin, end = day_edges(days.hypnogram, day.date)
    first, stop = (min(max(round(edge), 0), len(states)) for edge in (begin, end))
    scale = (WIDTH - LEFT - RIGHT) / (end - begin)
    yield rect(LEFT, y, WIDTH - LEFT - RIGHT, BAR, COLOURS[MISSING])
    if first >= stop:
        return
    for low, high, state in runs(states[first:stop]):
        if state != MISSING:
            x = LEFT + (first + low - begin) * scale
            yield rect(x, y, (high - low) * scale, BAR, COLOURS[int(state)])


def _hours(n_days: int) -> Iterator[str]:
    for hour in range(0, 25, 3):
        x = LEFT + (WIDTH - LEFT - RIGHT) * hour / 24
        yield text_at(x, 14, f"{(12 + hour) % 24:02d}:00", font_size=12, text_anchor="middle", fill=GREY)
        line = f"M{x:.1f} 18V{TOP + ROW * n_days:.1f}"
        yield f'<path d="{line}" stroke="{GREY}" stroke-width="0.6" opacity="0.4"/>'

"""Objects in a notebook: the picture of a report and a small table, legible on white and on black."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isnan
from typing import Any
from zlib import crc32

import numpy as np

from stageguard.fitting.fit import FitReport
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import bouts_of, hypnogram_before
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.measures.validity import validity
from stageguard.night.colours import top_down
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import NIGHT
from stageguard.report.hypnogram_svg import (
    HypnogramPicture,
    axis_of,
    inline_svg,
    night_picture,
    panel_of,
)
from stageguard.report.numbers import duration, number_text
from stageguard.report.svg import safe, shorten
from stageguard.report.words import done_words, verdict_words

MOST_EPOCHS, MOST_BOUTS = 1_000, 700  # more than this are drawn as shares in bins
MOST_ROWS = 40  # of a table
STYLE = "font:12px/1.4 sans-serif;color:inherit"
CELL = "text-align:left;padding:1px 12px 1px 0;border:0;background:none;vertical-align:top"


def html_of(thing: Any) -> str:
    """Return an object as a self-contained block of HTML."""
    for kind, write in WRITERS.items():
        if isinstance(thing, kind):
            title, *parts = write(thing)
            return f'<div style="{STYLE}"><b>{safe(title)}</b>{"".join(parts)}</div>'
    raise TypeError(f"{type(thing).__name__} has no view in a notebook")


def _hypnogram(night: Hypnogram) -> Iterator[str]:
    yield f"Hypnogram, {_length(night)}"
    yield _picture(night, HypnogramPicture(night.scheme, (panel_of("Stages", night),)))
    yield _table([("Stages", _stage_times(night)), *_source_rows(night, night.scorer)])


def _density(night: Hypnodensity) -> Iterator[str]:
    yield f"{type(night).__name__}, {_length(night)}"
    yield _picture(night, HypnogramPicture(night.scheme, probabilities=night.probabilities))
    empty = int(np.count_nonzero(np.isnan(night.probabilities[:, 0])))
    missing = [("Without evidence", f"{empty:,} epochs")] if empty else []
    yield _table([*missing, *_source_rows(night, night.source)])


def _decoding(night: Decoding) -> Iterator[str]:
    after, before = night.hypnogram, hypnogram_before(night)
    yield f"Decoding under {night.profile.name}, {_length(after)}"
    yield _picture(after, replace(night_picture(night, None), probabilities=None))
    yield _table(
        [
            ("Done", done_words(night)),
            ("The night", verdict_words(validity(night))),
            *_statistic_rows(sleep_statistics(before), sleep_statistics(after)),
            *_source_rows(after, night.source),
        ]
    )


def _statistic_rows(before: SleepStatistics, after: SleepStatistics) -> Iterator[tuple[str, str]]:
    for quantity in NIGHT:
        if "decode" in quantity.shown:
            values = [float(getattr(each, quantity.key)) for each in (before, after)]
            if not all(map(isnan, values)):
                yield quantity.heading, " → ".join(number_text(value, quantity.decimals) for value in values)


def _fit(report: FitReport) -> Iterator[str]:
    yield f"Fit of {report.profile.name}"
    yield f"<div>{safe(report.reason)}</div>"
    gains = [
        (f"Gain in {name} on nights not seen", f"{mean:+.3f} (standard error {error:.3f})")
        for name, (mean, error) in report.gains().items()
    ]
    material = f"{report.n_nights:,} nights of {report.n_subjects:,} subjects"
    notes = [("Note", note) for note in report.notes]
    yield _table([("Fitted to", material), ("Base", report.base), *gains, *notes])


def _statistics(statistics: SleepStatistics) -> Iterator[str]:
    yield f"Sleep statistics, {statistics.convention}"
    numbers = [(q.heading, number_text(float(getattr(statistics, q.key)), q.decimals)) for q in NIGHT]
    stages = (
        (f"{stage} (min)", number_text(minutes, 1)) for stage, minutes in statistics.stage_minutes.items()
    )
    yield _table([*numbers, *stages])


WRITERS: Mapping[type, Any] = {
    Decoding: _decoding,
    Hypnogram: _hypnogram,
    Hypnodensity: _density,
    FitReport: _fit,
    SleepStatistics: _statistics,
}


def _length(night: Hypnogram | Hypnodensity) -> str:
    epochs = f"{night.n_epochs:,} epochs of {night.epoch_seconds:g} s"
    return f"{epochs} ({duration(night.n_epochs * night.epoch_seconds)})"


def _source_rows(night: Hypnogram | Hypnodensity, by: str | None) -> Iterator[tuple[str, str]]:
    if night.start is not None:
        yield "Start", f"{night.start:%Y-%m-%d %H:%M:%S}"
    if by:
        yield "Scored by" if isinstance(night, Hypnogram) else "Source", shorten(by, 200)


def _stage_times(night: Hypnogram) -> str:
    counts = np.bincount(night.labels + 1, minlength=night.scheme.n_stages + 1).tolist()
    names = dict(
        zip((UNSCORED, *range(night.scheme.n_stages)), ("unscored", *night.scheme.names), strict=True)
    )
    order = [*top_down(night.scheme), *([UNSCORED] if counts[0] else [])]
    return ", ".join(f"{names[k]} {counts[k + 1] * night.epoch_seconds / 60:,.1f} min" for k in order)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr style="background:none"><th style="{CELL}">{safe(name)}</th>'
        f'<td style="{CELL}">{safe(shorten(text, 600))}</td></tr>'
        for name, text in list(rows)[:MOST_ROWS]
    )
    return f'<table style="border:0;color:inherit">{cells}</table>' if cells else ""


def _picture(night: Hypnogram | Hypnodensity, picture: HypnogramPicture) -> str:
    """Draw a night as a report does; on white, because a notebook may be dark."""
    n_bouts = sum(len(bouts_of(panel.labels).starts) for panel in picture.panels)
    is_drawn_in_bins = not picture.panels or n_bouts > MOST_BOUTS
    axis = axis_of(night, most_epochs=0 if is_drawn_in_bins else MOST_EPOCHS)
    name = f"night-{crc32(repr(night).encode()):x}"  # several pictures are on one page
    svg = inline_svg(picture, axis, f"{type(night).__name__}, {_length(night)}", "", name)
    return f'<div style="background:#FFFFFF;max-width:{axis.frame.width:g}px">{svg}</div>'

"""Objects in a notebook: a small picture and a small table, legible on white and on black."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.fitting.report import FitReport
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import bouts_of, hypnogram_before
from stageguard.measures.statistics import SleepStatistics, sleep_statistics
from stageguard.measures.validity import Validity, validity
from stageguard.night.colours import stage_shade, top_down
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import NIGHT
from stageguard.profile.profile import Profile
from stageguard.report.numbers import duration
from stageguard.report.svg import safe, shortened

WIDTH, LEFT, ROW = 640.0, 70.0, 13.0
MOST_EPOCHS, MOST_COLUMNS = 1_000, 200  # more epochs than this are gathered into columns
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
    yield _svg([("", night)])
    yield _table([("Stages", _stage_times(night)), *_source_rows(night, night.scorer)])


def _density(night: Hypnodensity) -> Iterator[str]:
    yield f"{type(night).__name__}, {_length(night)}"
    yield _areas(night)
    empty = int(np.count_nonzero(np.isnan(night.probabilities[:, 0])))
    missing = [("Without evidence", f"{empty:,} epochs")] if empty else []
    yield _table([*missing, *_source_rows(night, night.source)])


def _decoding(night: Decoding) -> Iterator[str]:
    after, before = night.hypnogram, hypnogram_before(night)
    yield f"Decoding under {night.profile.name}, {_length(after)}"
    yield _svg([("before", before), ("after", after)])
    n_changed = int(np.count_nonzero(night.changed))
    yield _table(
        [
            ("Changed", f"{n_changed:,} epochs ({100 * night.changed_share:.1f} %)"),
            ("Strength", str(night.strength)),
            ("The night", validity(night).verdict),
            *_statistic_rows(sleep_statistics(before), sleep_statistics(after)),
            *_source_rows(after, night.source),
        ]
    )


def _statistic_rows(before: SleepStatistics, after: SleepStatistics) -> Iterator[tuple[str, str]]:
    for quantity in NIGHT:
        if "decode" in quantity.shown:
            values = [float(getattr(each, quantity.key)) for each in (before, after)]
            if not all(map(isnan, values)):
                yield quantity.heading, " → ".join(_number(value, quantity.decimals) for value in values)


def _profile(profile: Profile) -> Iterator[str]:
    yield f"Profile {profile.name}"
    yield f"<div>{safe(profile.summary)}</div>"
    minimum = ", ".join(f"{stage} {seconds:g} s" for stage, seconds in profile.min_bout_seconds.items())
    yield _table(
        [
            ("For", profile.intended_for),
            ("Stages", f"{', '.join(profile.scheme.names)}, epochs of {profile.epoch_seconds:g} s"),
            ("Shortest bouts", minimum or "none"),
            ("Uncommon transitions", ", ".join(f"{a} → {b}" for a, b in profile.tvr_pairs) or "none"),
            ("Clock", "yes" if profile.clock is not None else "no"),
            ("Expert bands", f"{len(profile.bands)}"),
            ("Not for", "; ".join(caution.cohort or "see its text" for caution in profile.not_for) or "–"),
            ("SHA-256", profile.sha256[:12]),
        ]
    )


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
    numbers = [(q.heading, _number(float(getattr(statistics, q.key)), q.decimals)) for q in NIGHT]
    stages = ((f"{stage} (min)", _number(minutes, 1)) for stage, minutes in statistics.stage_minutes.items())
    yield _table([*numbers, *stages])


def _validity(measured: Validity) -> Iterator[str]:
    yield f"Validity, profile {measured.profile}"
    yield f"<div>The night {safe(measured.verdict)}.</div>"
    outside = [measured.indicators[name] for name in measured.outside]
    yield _table(
        [
            (each.name, f"{each.value:.4g}, {each.place} {each.low:.4g} to {each.high:.4g} {each.unit}")
            for each in outside
        ]
    )


WRITERS: Mapping[type, Any] = {
    Decoding: _decoding,
    Hypnogram: _hypnogram,
    Hypnodensity: _density,
    Profile: _profile,
    FitReport: _fit,
    SleepStatistics: _statistics,
    Validity: _validity,
}


def _number(value: float, decimals: int) -> str:
    return "–" if isnan(value) else f"{value:,.{decimals}f}"


def _length(night: Hypnogram | Hypnodensity) -> str:
    epochs = f"{night.n_epochs:,} epochs of {night.epoch_seconds:g} s"
    return f"{epochs} ({duration(night.n_epochs * night.epoch_seconds)})"


def _source_rows(night: Hypnogram | Hypnodensity, by: str | None) -> Iterator[tuple[str, str]]:
    if night.start is not None:
        yield "Start", f"{night.start:%Y-%m-%d %H:%M:%S}"
    if by:
        yield "Scored by" if isinstance(night, Hypnogram) else "Source", shortened(by, 200)


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
        f'<td style="{CELL}">{safe(shortened(text, 600))}</td></tr>'
        for name, text in list(rows)[:MOST_ROWS]
    )
    return f'<table style="border:0;color:inherit">{cells}</table>' if cells else ""


def _svg(lanes: Sequence[tuple[str, Hypnogram]]) -> str:
    """Draw hypnograms below each other: a line with REM as bars, or shares of stages in columns."""
    parts, top = [], 0.0
    for name, night in lanes:
        if name:
            top += ROW
            parts.append(_text(LEFT, top - 3, name, "start"))
        rows = {stage: top + ROW * (rank + 0.5) for rank, stage in enumerate(top_down(night.scheme))}
        parts += [_text(LEFT - 6, y + 4, night.scheme.names[k], "end") for k, y in rows.items()]
        parts += _line(night, rows) if night.n_epochs <= MOST_EPOCHS else _shares(night, rows)
        top += ROW * night.scheme.n_stages + 4
    return _picture(parts, top)


def _line(night: Hypnogram, rows: Mapping[int, float]) -> Iterator[str]:
    labels, rem = night.labels, night.scheme.rem_index
    bouts = bouts_of(labels)
    path, bars, scored = [], [], False
    for start, stage, length in zip(
        bouts.starts.tolist(), bouts.stages.tolist(), bouts.lengths.tolist(), strict=True
    ):
        if stage != UNSCORED:
            x, end, y = _x(start, len(labels)), _x(start + length, len(labels)), rows[stage]
            path.append(f"{f'V{y:g}' if scored else f'M{x} {y:g}'}H{end}")
            if stage == rem:
                bars.append(f"M{x} {y:g}H{end}")
        scored = stage != UNSCORED
    yield f'<path d="{"".join(path)}" fill="none" stroke="currentColor" stroke-width="1"/>'
    if rem is not None:
        colour = stage_shade(night.scheme, rem).dark
        yield f'<path d="{"".join(bars)}" fill="none" stroke="{colour}" stroke-width="5"/>'


def _shares(night: Hypnogram, rows: Mapping[int, float]) -> Iterator[str]:
    for stage, y in rows.items():
        shares = _columns((night.labels == stage).astype(np.float64))
        yield _steps(shares, y + 0.45 * ROW, 0.9 * ROW, stage_shade(night.scheme, stage).dark)


def _areas(night: Hypnodensity) -> str:
    """Draw stacked probabilities, deep sleep at the bottom; each area extends behind the next."""
    has_evidence = ~np.isnan(night.probabilities[:, 0])
    share = _columns(has_evidence.astype(np.float64))
    means = (
        _columns(np.where(has_evidence[:, None], night.probabilities, 0.0)) / np.maximum(share, 1e-9)[:, None]
    )
    order, height = top_down(night.scheme), 5 * ROW
    tops = np.cumsum(means[:, order[::-1]], axis=1)[:, ::-1]  # of the top stage first
    parts = []
    for rank, stage in enumerate(order):
        colour = stage_shade(night.scheme, stage).dark
        parts.append(_steps(tops[:, rank], height, height, colour))
        y = ROW * (rank + 1)
        parts.append(_text(LEFT - 18, y - 3, night.scheme.names[stage], "end"))
        parts.append(f'<rect x="{LEFT - 14:g}" y="{y - 11:g}" width="9" height="9" fill="{colour}"/>')
    return _picture(parts, max(height, ROW * len(order)) + 4)


def _columns(rows: Floats) -> Floats:
    """Return the means over columns of epochs, at most `MOST_COLUMNS`."""
    n_epochs = len(rows)
    width = 1 if n_epochs <= MOST_COLUMNS else -(-n_epochs // MOST_COLUMNS)
    starts = np.arange(0, n_epochs, width)
    counts = np.diff(starts, append=n_epochs).reshape(-1, *[1] * (rows.ndim - 1))
    means: Floats = np.add.reduceat(rows, starts, axis=0) / counts
    return means


def _steps(shares: Floats, bottom: float, height: float, colour: str) -> str:
    """Draw shares as steps above `bottom`."""
    n = len(shares)
    heights = (bottom - height * np.clip(shares, 0.0, 1.0)).tolist()
    there = "".join(f"V{y:.1f}H{_x(k + 1, n)}" for k, y in enumerate(heights))
    return f'<path d="M{LEFT:g} {bottom:g}{there}V{bottom:g}z" fill="{colour}"/>'


def _x(epoch: int, n_epochs: int) -> str:
    return f"{LEFT + (WIDTH - LEFT) * epoch / n_epochs:.1f}".removesuffix(".0")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    style = f'font-size="11" fill="currentColor" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{safe(shortened(text, 10))}</text>'


def _picture(parts: Sequence[str], height: float) -> str:
    size = f'width="{WIDTH:g}" height="{height:g}" viewBox="0 0 {WIDTH:g} {height:g}"'
    return f'<svg {size} role="img" style="display:block;max-width:100%">{"".join(parts)}</svg>'

"""A chart of drift: new nights of a stager in batches beside the people of its grade card, and its words."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from stageguard.measures.drift import Drift, DriftBatch, FeatureDrift
from stageguard.night.colours import PAGE, STAGES
from stageguard.report.numbers import and_list, count, number_text
from stageguard.report.svg import BAND, GREY, INK, PALE, ValueAxis, axis_for, document, rect, shorten, text_at

DECIMALS = 3  # every feature is from 0 to 1
WORDS = {
    "fragmentation_index": "fragmentation index",
    "share": "share of {}",
    "confidence": "confidence in {}",
    "overlap": "overlap of {} and {}",
}
MEANINGS = {
    "fragmentation_index": "stage changes per pair of epochs",
    "share": "of the epochs",
    "confidence": "mean highest probability",
    "overlap": "mean product of probabilities",
}
WIDTH, MARGIN, TOP, ROW, FOOT = 980.0, 12.0, 46.0, 74.0, 40.0
CARD_LEFT, CARD_RIGHT, LEFT, RIGHT = 222.0, 372.0, 396.0, WIDTH
MOST_ROWS = 8
NARROW, NARROWEST = 104.0, 44.0  # batches drawn narrower have no word above, and no nights
OUTSIDE = STAGES["R"].light
ACCENT = PAGE["accent"].light


def feature_words(feature: FeatureDrift) -> str:
    """Return the name of a feature."""
    return WORDS[feature.key].format(*feature.stages)


def rate_words(drift: Drift) -> str:
    """Return what an alarm is worth."""
    return (
        f"if nothing changed, {drift.rate:.0%} of batches are beyond their limits by chance".replace(
            "%", " %"
        )
        + "; what changed, signals, stager or people, the chart cannot tell"
    )


def batch_words(batch: DriftBatch, most: int = 3) -> str:
    """Return what drifted in a batch, by how much."""
    if not batch.can_alarm:
        return "too few people to find a drift"
    if not batch.has_drifted:
        return "within the limits"
    if not batch.outside:
        return f"drifted: all features together {batch.distance_ratio:.2f} times their limit"
    changes = [
        f"{feature_words(each)} {_number(each.card)} → {_number(each.batch)} (limits {limits_text(each)})"
        for each in batch.outside[:most]
    ]
    more = len(batch.outside) - most
    return "drifted: " + and_list([*changes, f"{more} more"] if more > 0 else changes)


def limits_text(feature: FeatureDrift) -> str:
    """Return the limits of a batch's mean, within what a feature can be."""
    return f"{_number(max(feature.low, 0.0))} to {_number(min(feature.high, 1.0))}"


def _number(value: float) -> str:
    return number_text(value, DECIMALS)


def drift_svg(drift: Drift) -> str:
    """Draw the features that differ most, one row each: people of the card, then nights batch by batch.

    A grey-green box is the room that the mean of a batch has, a bar is the mean itself.
    """
    farthest: dict[tuple[str, tuple[str, ...]], float] = {}
    for batch in drift.batches:
        for feature in batch.features:
            name = (feature.key, feature.stages)
            farthest[name] = max(farthest.get(name, 0.0), feature.ratio)
    names = sorted(farthest, key=lambda name: -farthest[name])[:MOST_ROWS]
    height = TOP + ROW * len(names) + FOOT
    parts = list(_headings(drift))
    for number, name in enumerate(names):
        row = [next(f for f in batch.features if (f.key, f.stages) == name) for batch in drift.batches]
        parts += _row(row, drift, TOP + ROW * number)
    more = len(farthest) - len(names)
    rest = f" {count(more, 'feature')} that differ less are not drawn." if more else ""
    parts.append(
        text_at(
            *(0, height - 14, f"Box: limits of a batch's mean. Bar: its mean. Dots: people, nights.{rest}"),
            font_size=11,
            fill=GREY,
        )
    )
    parts = [f'<g transform="translate({MARGIN:g} {MARGIN:g})">', *parts, "</g>"]
    description = " ".join(f"{batch_names(batch)}: {batch_words(batch)}." for batch in drift.batches)
    size = (WIDTH + 2 * MARGIN, height + MARGIN)
    return document("New nights against the grade card", description, parts, size)


def batch_names(batch: DriftBatch) -> str:
    """Return the first and the last night of a batch."""
    return batch.nights[0] if len(batch.nights) == 1 else f"{batch.nights[0]} to {batch.nights[-1]}"


def _spans(drift: Drift) -> Iterator[tuple[float, float, DriftBatch]]:
    """Yield left and right edge of each batch."""
    n_nights = sum(len(batch.nights) for batch in drift.batches)
    gap = min(10.0, 0.2 * (RIGHT - LEFT) / len(drift.batches))
    width, x = (RIGHT - LEFT + gap) / n_nights, LEFT
    for batch in drift.batches:
        yield x, x + width * len(batch.nights) - gap, batch
        x += width * len(batch.nights)


def _headings(drift: Drift) -> Iterator[str]:
    style = {"font_size": 12, "font_weight": 600}
    yield text_at(0, 16, "card → farthest batch", **style)
    yield text_at(CARD_LEFT, 16, f"card: {drift.n_card_people} people", **style)
    first = 1
    for left, right, batch in _spans(drift):
        last = first + len(batch.nights) - 1
        if right - left >= NARROWEST:
            verdict = "drifted" if batch.has_drifted else "within" if batch.can_alarm else "too few"
            nights = f"{first}" if first == last else f"{first}–{last}"
            heading = f"{nights}: {verdict}" if right - left >= NARROW else nights
            yield text_at(left, 16, heading, **style, fill=OUTSIDE if batch.has_drifted else INK)
            if right - left >= NARROW:
                together = f"together {number_text(batch.distance_ratio, 2)} of limit"
                yield text_at(left, 30, together, font_size=10.5, fill=GREY)
        first = last + 1


def _row(features: list[FeatureDrift], drift: Drift, top: float) -> Iterator[str]:
    """Draw one feature over all batches."""
    first = max(features, key=lambda feature: feature.ratio)
    bold = {"font_weight": 600} if first.is_outside else {}
    yield f'<path d="M0 {top - 8:.1f}H{WIDTH:.0f}" stroke="{PALE}"/>'
    yield text_at(0, top + 14, shorten(feature_words(first), 32), font_size=12.5, **bold)
    yield text_at(0, top + 30, MEANINGS[first.key], font_size=10.5, fill=GREY)
    yield text_at(0, top + 48, f"{_number(first.card)} → {_number(first.batch)}", font_size=12, **bold)
    low, high = min(each.low for each in features), max(each.high for each in features)
    values = [*first.card_values, *(value for each in features for value in each.night_values)]
    axis = axis_for([], top + ROW - 16, top, low, high, *values)
    yield from _dots(first.card_values, CARD_LEFT, CARD_RIGHT, axis)
    line = f"M{CARD_LEFT:.1f} {axis.at(first.card):.1f}H{RIGHT:.1f}"
    yield f'<path d="{line}" stroke="{GREY}" stroke-width="0.8" stroke-dasharray="4 3"/>'
    for feature, (left, right, _) in zip(features, _spans(drift), strict=True):
        y, bottom = axis.at(feature.high), axis.at(feature.low)
        yield rect(left, y, right - left, max(bottom - y, 1.0), BAND, opacity=0.7)
        yield from _dots(feature.night_values, left, right, axis)
        colour = OUTSIDE if feature.is_outside else INK
        path = f"M{left:.1f} {axis.at(feature.batch):.1f}H{right:.1f}"
        yield f'<path d="{path}" stroke="{colour}" stroke-width="{3 if feature.is_outside else 2}"/>'


def _dots(values: tuple[float, ...], left: float, right: float, axis: ValueAxis) -> Iterator[str]:
    step = (right - left) / len(values)
    radius = min(2.6, max(0.8, step / 2.5))
    for number, value in enumerate(values):
        if isfinite(value):
            x = left + step * (number + 0.5)
            yield (
                f'<circle cx="{x:.1f}" cy="{axis.at(value):.1f}" r="{radius:.1f}" '
                f'fill="{ACCENT}" fill-opacity="0.55"/>'
            )

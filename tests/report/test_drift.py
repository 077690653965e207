"""The chart of drift and its words: what is drawn, and what is said of each batch."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from messages import mentions
from stageguard.measures.drift import Drift, DriftBatch, FeatureDrift
from stageguard.report.drift import (
    MOST_ROWS,
    OUTSIDE,
    batch_names,
    batch_words,
    drift_svg,
    feature_words,
    limits_text,
    rate_words,
)

STAGES = ("W", "N1", "N2", "N3", "R")


def feature(stage="N2", batch=0.5, key="share", stages=None):
    return FeatureDrift(
        *(key, (stage,) if stages is None else stages, 0.4, batch, 0.3, 0.5 if batch < 0.5 else 0.45),
        card_values=(0.39, 0.41, float("nan")),
        night_values=(batch, batch),
    )


def batch_of(*features, names=("a", "b"), distance=0.5, can_alarm=True, has_drifted=None):
    ordered = tuple(sorted(features, key=lambda each: -each.ratio))
    is_outside = any(each.is_outside for each in features)
    drifted = is_outside if has_drifted is None else has_drifted
    return DriftBatch(tuple(names), len(names), ordered, distance, 1.0, can_alarm, drifted)


def drift_of(*batches):
    return Drift(tuple(batches), 3, "0" * 64)


def drawn(drift):
    return ElementTree.fromstring(drift_svg(drift))


def elements(root, name):
    return [each for each in root.iter() if each.tag.endswith(f"}}{name}") or each.tag == name]


def test_every_feature_has_a_name():
    pairs = ("fragmentation_index", ()), ("confidence", ("R",)), ("overlap", ("N1", "N2"))
    names = [feature_words(feature(key=key, stages=stages)) for key, stages in pairs]
    assert mentions(names[1], "R") and mentions(names[2], "N1", "N2")
    assert len(set(names)) == 3


def test_words_say_which_feature_and_by_how_much():
    words = batch_words(batch_of(feature("N2", 0.6), feature("N3", 0.4)))
    assert mentions(words, "drifted", "N2", "0.400", "0.600", "0.300 to 0.450")
    assert not mentions(words, "N3")
    assert mentions(batch_words(batch_of(*(feature(s, 0.6) for s in STAGES)), most=2), "3 more")


def test_words_say_that_nothing_or_everything_together_drifted():
    assert not mentions(batch_words(batch_of(feature(batch=0.4))), "drifted")
    together = batch_of(feature(batch=0.4), distance=1.5, has_drifted=True)
    assert mentions(batch_words(together), "drifted", "1.50")
    few = batch_of(feature(batch=0.4), can_alarm=False)
    assert mentions(batch_words(few), "too few")


def test_limits_stay_within_what_a_share_can_be():
    wide = FeatureDrift("share", ("W",), 0.1, 0.2, -0.1, 1.3, (), ())
    assert limits_text(wide) == "0.000 to 1.000"


def test_the_rate_is_that_of_the_chart():
    assert mentions(rate_words(drift_of(batch_of(feature()))), "5 %")


def test_a_batch_is_named_by_its_ends():
    assert batch_names(batch_of(feature(), names=("a", "b", "c"))) == "a to c"
    assert batch_names(batch_of(feature(), names=("a",))) == "a"


def test_nights_and_people_are_dots_and_means_bars():
    root = drawn(drift_of(batch_of(feature("N2", 0.6), feature("N3", 0.4))))
    dots = elements(root, "circle")
    assert len(dots) == 2 * (2 + 2)  # two rows: two people with a value, two nights
    red = [path for path in elements(root, "path") if path.get("stroke") == OUTSIDE]
    assert len(red) == 1


@pytest.mark.parametrize("n_batches", [1, 3, 60])
def test_everything_is_inside_the_picture(n_batches):
    rng = np.random.default_rng(0)
    batches = [batch_of(*(feature(stage, rng.uniform(0, 1)) for stage in STAGES)) for _ in range(n_batches)]
    root = drawn(drift_of(*batches))
    _, _, width, height = map(float, root.get("viewBox").split())
    for dot in elements(root, "circle"):
        assert 0 <= float(dot.get("cx")) <= width and 0 <= float(dot.get("cy")) <= height
    for box in elements(root, "rect")[1:]:
        assert float(box.get("x")) + float(box.get("width")) <= width


def test_few_features_are_drawn_and_the_rest_is_counted():
    scheme = [f"S{number}" for number in range(MOST_ROWS + 3)]
    root = drawn(drift_of(batch_of(*(feature(stage, 0.6) for stage in scheme))))
    assert mentions([text.text for text in elements(root, "text")], "3 features")


def test_names_cannot_break_the_picture():
    hostile = "<script>&\u202e\x00"
    root = drawn(drift_of(batch_of(feature(hostile, 0.6), names=(hostile, "b"))))
    assert not elements(root, "script")

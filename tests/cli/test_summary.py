"""The before/after table of decode and demo, on nights that can be counted by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import mentions
from stageguard.guard.decoding import STEERING
from stageguard.report.summary import DECODED_ROWS, BeforeAfter, summary_of
from stageguard.report.words import steering_words

STAGES = "WNR"


def decoding_of(text: str, profile: str = "human-psg-3", stages: str = STAGES, certainty: float = 0.9):
    """A decoding whose argmax is this text; ? is an epoch without evidence."""
    others = (1 - certainty) / (len(stages) - 1)
    rows = [[certainty if s == letter else others for s in stages] for letter in text]
    probabilities = np.array(rows)
    probabilities[[letter == "?" for letter in text]] = np.nan
    return nights.decode(probabilities, sg.Profile.load(profile))


def rows_of(decoding) -> dict[str, BeforeAfter]:
    return {row.key: row for row in summary_of(decoding).indicators}


def test_before_is_counted_on_the_argmax():
    rows = rows_of(decoding_of("WWNNRNNWWNRRWW"))
    expected = {
        "fragmentation_index": 5 / 9,
        "tvr_percent": 0.0,
        "tst_minutes": 4.0,
        "se_percent": 100 * 8 / 14,
        "sol_minutes": 1.0,
        "rem_latency_minutes": 1.0,
        "waso_minutes": 1.0,
        "awakenings": 1.0,
    }
    assert {key: row.before for key, row in rows.items()} == pytest.approx(expected)
    # three minutes are too short to look like experts or not, no REM lasts two and no sleep ten
    absent = ("rem_latency_bout_minutes", "sol_10min_minutes")
    assert tuple(rows) == tuple(key for key in DECODED_ROWS[1:] if key not in absent)


def test_after_is_counted_on_the_decoded_night():
    decoding = decoding_of("WWNNRNNWWNRRWW" * 4, certainty=0.5)
    first, stop = decoding.period
    stages = [name for name, _ in itertools.groupby(decoding.stages[first:stop].tolist())]
    rows = rows_of(decoding)
    assert decoding.changed.any()
    assert rows["fragmentation_index"].after == pytest.approx((len(stages) - 1) / (stop - first - 1))
    assert rows["tst_minutes"].after == 0.5 * sum(stage != "W" for stage in decoding.stages.tolist())
    assert rows["fragmentation_index"].after < rows["fragmentation_index"].before


def test_what_a_rule_steers_is_marked():
    steered = decoding_of("WWNNRNNWWNRRWW" * 20, certainty=0.5)
    assert steered.strength.step in STEERING
    rows = rows_of(steered)
    marked = {key for key, row in rows.items() if row.is_steered}
    assert marked == {"fragmentation_index", "awakenings"}
    assert all(rows[key].to_dict()["steered"] for key in marked)
    assert steering_words(steered.steered) == [
        "Do not report (set by the smoothing): awakenings, bouts, fragmentation."
    ]
    assert mentions(sg.methods_text(steered), "rule", "are not results")
    left = decoding_of("W" * 60 + "N" * 300 + "R" * 60)
    assert left.strength.step == "untouched"
    assert not any(row.is_steered for row in rows_of(left).values())
    assert "not results" not in sg.methods_text(left)

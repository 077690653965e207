"""The before/after table of decode and demo, on nights that can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import nights
import stageguard as sg
from stageguard.report.summary import DECODED_ROWS, BeforeAfter, summary_of

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

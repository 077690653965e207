"""What a row of a cohort's table is made of is what the whole measures say."""

from __future__ import annotations

import numpy as np
import pytest

from nights import decode as decode_quietly
from stageguard.measures.rare import early_rem_removed
from stageguard.report.summary import measures_of, summary_of
from stageguard.synthetic.night import simulate_night


@pytest.mark.parametrize("has_gap", [False, True])
def test_rows_say_what_summaries_do(has_gap):
    densities = [simulate_night("human-psg-5", hours=5, seed=seed).density for seed in range(3)]
    if has_gap:
        rows = densities[0].probabilities.copy()
        rows[200:260] = np.nan
        densities[0] = densities[0].with_rows(rows)
    decodings = [decode_quietly(density, "human-psg-5") for density in densities]
    for decoding in decodings:
        summary, row = summary_of(decoding), measures_of(decoding)
        assert row.joint == summary.joint
        assert len(row.early_rem_removed) == len(early_rem_removed(decoding))

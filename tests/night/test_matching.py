"""An expert's scoring is taken for a night only if both are of the same epochs."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import naming
from stageguard.fitting.nights import read_nights
from stageguard.measures.cohort import CohortNight, measure_night
from stageguard.measures.experts import soft_agreement
from stageguard.measures.intervals import errors
from stageguard.night.align import end_together, on_epochs_of
from stageguard.profile.profile import Profile

BEGAN = datetime(2024, 1, 1, 22)
STAGES = (0, 1, 1, 2) * 30


def scoring(labels=STAGES, seconds=30.0, start=None, offset=0.0):
    return sg.Hypnogram(list(labels), "wnr3", seconds, start, offset_seconds=offset)


def later(seconds):
    return BEGAN + timedelta(seconds=seconds)


OTHER_EPOCHS = {
    "20 s": (scoring(seconds=20.0), ("epochs last 20 s", "30 s")),
    "15 s later": (scoring(start=later(15)), ("begins 15 s after the night",)),
    "10 min earlier": (scoring(start=later(-600)), ("begins 600 s before the night",)),
    "offset": (scoring(offset=90.0), ("begins 90 s after the night",)),
    "two longer": (scoring((*STAGES, 0, 0)), ("up to epoch 122", 120)),
    "two shorter": (scoring(STAGES[:-2]), ("up to epoch 118", 120)),
    "a part": (scoring((*[-1] * 40, *STAGES[40:100])), ("up to epoch 100", 120)),
}


@pytest.mark.parametrize("case", OTHER_EPOCHS)
def test_other_epochs_are_refused(case):
    expert, named = OTHER_EPOCHS[case]
    with pytest.raises(sg.InputError, match=naming("the expert", *named, "expected the same")):
        on_epochs_of(scoring(start=BEGAN), expert)


@pytest.mark.parametrize("start", [None, later(1), later(-1)])
def test_a_start_that_is_unknown_or_nearly_the_same_is_the_night_s(start):
    night = scoring(start=BEGAN, offset=60.0)
    matched = on_epochs_of(night, scoring(start=start, offset=60.0))
    assert (matched.start, matched.offset_seconds) == (BEGAN, 60.0)


def test_recordings_that_began_apart_are_matched_by_their_clocks():
    night = scoring(start=BEGAN, offset=0.0)
    assert on_epochs_of(night, scoring(start=BEGAN, offset=300.0)).offset_seconds == 0.0


def test_short_epochs_must_begin_within_half_an_epoch():
    night = scoring(seconds=1.0, start=BEGAN)
    on_epochs_of(night, scoring(seconds=1.0, start=later(0.5)))
    with pytest.raises(sg.InputError, match=naming("1 s", "0.5 s")):
        on_epochs_of(night, scoring(seconds=1.0, start=later(1.0)))


ENDS = st.lists(st.sampled_from([-1, 0, 1]), max_size=5)


@given(ENDS, ENDS)
def test_nights_may_end_apart_by_unscored_epochs_and_one_scored(of_night, of_expert):
    """Independent oracle: count what lies beyond the shorter of the two, epoch by epoch."""
    night, expert = scoring((*STAGES, *of_night)), scoring((*STAGES, *of_expert))
    n_shared = min(night.n_epochs, expert.n_epochs)
    beyond = [*night.labels[n_shared:], *expert.labels[n_shared:]]
    fits = sum(label >= 0 for label in beyond) <= 1
    assert end_together(night, expert) == end_together(expert, night) == fits
    if not fits:
        with pytest.raises(sg.InputError):
            on_epochs_of(night, expert)
        return
    matched = on_epochs_of(night, expert)
    known = [*expert.labels, *[-1] * night.n_epochs][: night.n_epochs]
    assert matched.labels.tolist() == known


def _decoded(start=None):
    rows = np.full((120, 3), 0.05)
    rows[np.arange(120), STAGES] = 0.9
    return sg.Hypnodensity(rows, "wnr3", 30.0, start)


def _decoding():
    return sg.decode(_decoded(BEGAN), "human-psg-3")


COMPARISONS = {
    "agreement": lambda expert: sg.agreement(expert, _decoding()),
    "validity": lambda expert: sg.validity(_decoding(), expert=expert),
    "consensus": lambda expert: sg.consensus([scoring(start=BEGAN), expert]),
    "soft_agreement": lambda expert: soft_agreement([scoring(start=BEGAN), expert]),
    "among_experts": lambda expert: sg.among_experts(
        [scoring(np.roll(STAGES, 1), start=BEGAN), expert], _decoding()
    ),
    "errors": lambda expert: errors([expert], [_decoding()]),
    "measure_night": lambda expert: measure_night(
        CohortNight("n", None, _decoding().hypnogram, expert, _decoding().profile)
    ),
    "night_report": lambda expert: sg.night_report(_decoding(), expert=expert),
    "fit": lambda expert: read_nights([expert], [_decoded(BEGAN)], Profile.load("human-psg-3")),
}


@pytest.mark.parametrize("case", OTHER_EPOCHS)
@pytest.mark.parametrize("call", COMPARISONS)
def test_every_comparison_refuses_other_epochs(call, case):
    with pytest.raises(sg.InputError, match="expected the same"):
        COMPARISONS[call](OTHER_EPOCHS[case][0])

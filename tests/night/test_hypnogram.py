from __future__ import annotations

import pickle
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import AASM5, WNR3

START = datetime(2024, 3, 1, 23, 30)
WHOLE = " expected whole numbers. Names are read by sg.read_hypnogram."
RANGE = " is not a stage of scheme 'wnr3', expected 0 to 2, or -1 for unscored."


@given(st.lists(st.integers(UNSCORED, 4), min_size=1), st.sampled_from(["i1", "i2", "i4", "i8", ">i4"]))
def test_labels_and_names_say_the_same(labels, dtype):
    hypnogram = Hypnogram(np.array(labels, dtype=dtype), AASM5, 30)
    assert hypnogram.labels.dtype == np.int8
    assert hypnogram.labels.tolist() == labels
    assert hypnogram.n_epochs == len(labels)
    assert [("W", "N1", "N2", "N3", "R", "?")[label] for label in labels] == hypnogram.stages.tolist()


def test_scheme_may_be_given_by_name():
    assert Hypnogram([0], "wnr3", 30).scheme is WNR3


def test_labels_are_read_only_and_not_the_callers():
    mine = np.zeros(3, dtype=np.int8)
    hypnogram = Hypnogram(mine, WNR3, 30)
    mine[0] = 2
    assert hypnogram.labels.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        hypnogram.labels[0] = 1
    with pytest.raises(AttributeError):
        hypnogram.epoch_seconds = 4.0


def test_a_read_only_view_of_writable_labels_is_copied():
    mine = np.zeros(3, dtype=np.int8)
    view = mine[:]
    view.flags.writeable = False
    hypnogram = Hypnogram(view, WNR3, 30)
    mine[0] = 2
    assert hypnogram.labels.tolist() == [0, 0, 0]


def test_read_only_labels_are_not_copied():
    mine = np.zeros(3, dtype=np.int8)
    mine.flags.writeable = False
    assert Hypnogram(mine, WNR3, 30).labels is mine


def test_equality_and_hash_are_by_content():
    first = Hypnogram([0, 1], WNR3, 30, START, "ann")
    assert first == Hypnogram(np.array([0, 1], dtype=np.int64), WNR3, 30.0, START, "ann")
    assert hash(first) == hash(Hypnogram([0, 1], WNR3, 30, START, "ann"))
    others = [
        Hypnogram([0, 2], WNR3, 30, START, "ann"),
        Hypnogram([0, 1, 1], WNR3, 30, START, "ann"),
        Hypnogram([0, 1], AASM5, 30, START, "ann"),
        Hypnogram([0, 1], WNR3, 20, START, "ann"),
        Hypnogram([0, 1], WNR3, 30, None, "ann"),
        Hypnogram([0, 1], WNR3, 30, START, "bob"),
    ]
    assert all(first != other for other in others)
    assert first != [0, 1]


def test_pickle_keeps_everything_and_stays_read_only():
    hypnogram = Hypnogram([0, -1, 2], WNR3, 4, START, "ann")
    copy = pickle.loads(pickle.dumps(hypnogram))
    assert copy == hypnogram
    assert not copy.labels.flags.writeable


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": []}, "labels are empty, expected at least one epoch."),
        ({"labels": [[0], [1]]}, "labels have shape (2, 1), expected one label per epoch: (n_epochs,)."),
        ({"labels": 0}, "labels have shape (), expected one label per epoch: (n_epochs,)."),
        ({"labels": [[0], [1, 2]]}, "labels have rows of different lengths, expected an array."),
        ({"labels": [0.0, 1.0]}, f"labels are of type float64,{WHOLE}"),
        ({"labels": ["W"]}, f"labels are of type <U1,{WHOLE}"),
        ({"labels": [True]}, f"labels are of type bool,{WHOLE}"),
        ({"labels": [0, 3]}, f"label 3 at index 1{RANGE}"),
        ({"labels": [0, 1, -2]}, f"label -2 at index 2{RANGE}"),
        ({"labels": np.array([256])}, f"label 256 at index 0{RANGE}"),
        ({"labels": np.array([255], np.uint8)}, f"label 255 at index 0{RANGE}"),
        ({"epoch_seconds": 0}, "epoch_seconds is 0, expected a number from 0.001 to 86400."),
        ({"epoch_seconds": -30.0}, "epoch_seconds is -30.0, expected a number from 0.001 to 86400."),
        ({"epoch_seconds": True}, "epoch_seconds is True, expected a number."),
        ({"epoch_seconds": "30"}, "epoch_seconds is '30', expected a number."),
        ({"epoch_seconds": float("nan")}, "epoch_seconds is nan, expected a finite number."),
        ({"epoch_seconds": 10**400}, f"epoch_seconds is 1{'0' * 76}..., expected a finite number."),
        ({"scheme": "wnr"}, "unknown scheme 'wnr'. Known: aasm5, wldr4, wnr3, ws2. Did you mean 'wnr3'?"),
        ({"start": "22:00"}, "start is '22:00', expected a datetime or None."),
        ({"scorer": 3}, "scorer is 3, expected text in quotes."),
    ],
)
def test_bad_hypnogram_is_refused_at_construction(changes, message):
    with pytest.raises(InputError) as caught:
        Hypnogram(**{"labels": [0, 1], "scheme": WNR3, "epoch_seconds": 30, **changes})
    assert str(caught.value) == message

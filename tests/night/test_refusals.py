"""What the room refuses: one line, which says what was found and what was expected."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from made_recordings import recording, signal
from messages import mentions
from stageguard.errors import InputError
from stageguard.night.hypnodensity import as_float_matrix
from stageguard.night.quantities import quantity_of
from stageguard.night.recording import EpochGrid, Series
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme, as_scheme, scheme_for

NAN, INF = float("nan"), float("inf")
START = datetime(2024, 1, 1, 22)
ROWS = np.tile([0.2, 0.3, 0.5], (4, 1))
PARIS = START.replace(tzinfo=UTC)


def labels(*values, scheme="wnr3", seconds=30.0, start=None, **more):
    return sg.Hypnogram(values or (0, 1, 2, 1), scheme, seconds, start, **more)


def density(rows=ROWS, scheme="wnr3", seconds=30.0, start=None, **more):
    return sg.Hypnodensity(rows, scheme, seconds, start, **more)


custom = StageScheme.custom
matrix = partial(as_float_matrix, n_stages=3, names=WNR3.names)
scored = partial(sg.Recording, "n", "s")
later = START + timedelta(seconds=12)
LONG = [f"s{i}" for i in range(128)]
NUMBERS = np.arange(6.0)
SHAPE = "(epochs, 3) for W, N, R"

# what is called, and what its message names, in order
REFUSED = [
    # schemes
    (lambda: custom("WNR"), ("'WNR'", "list")),
    (lambda: custom(3), (3, "list")),
    (lambda: custom(["W"]), (1, 2, 127)),
    (lambda: custom(LONG), (128, 2, 127)),
    (lambda: custom(["W", 1]), ("'W', 1", "list")),
    (lambda: custom(["W", " "]), ("stage name is empty",)),
    (lambda: custom(["W", "N", "W"]), ("W, N, W", "different names")),
    (lambda: custom(["W", "?"]), ("W, ?", "'?'")),
    (lambda: custom(["W", "N"], wake="V"), ("wake is 'V'", "'W' or 'N'")),
    (lambda: custom(["W", "N"], rem="R"), ("rem is 'R'", "'W' or 'N'")),
    (lambda: custom(["W", "N"], wake="W", rem="W"), ("both 'W'", "different")),
    (lambda: StageScheme("", ("W", "N")), ("scheme name is empty",)),
    (lambda: as_scheme("aasm"), ("'aasm'", "aasm5, wldr4, wnr3, ws2", "'aasm5'")),
    (lambda: as_scheme(["W", "N"]), ("['W', 'N']", "aasm5, wldr4, wnr3, ws2")),
    (lambda: WNR3.index("REMM"), ("'REMM'", "'wnr3'", "W, N, R")),
    (lambda: WNR3.index("N2"), ("'N2'", "'wnr3'", "W, N, R")),
    (lambda: WNR3.index(2), (2, "W, N, R")),
    (lambda: custom(["S4", "S3", "W"]).index("N3"), ("'N3'", "'custom'", "S4, S3, W")),  # S3 or S4?
    (lambda: WNR3.merge_map(AASM5), ("'wnr3' into 'aasm5'", "W, N, R", "W, N1, N2, N3, R")),
    (lambda: WS2.merge_map(WNR3), ("'ws2' into 'wnr3'", "W, S", "W, N, R")),
    (lambda: custom(["W", "x"]).merge_map(WS2), ("'custom' into 'ws2'", "W, x", "W, S")),
    (lambda: custom(["W", "N1", "N2"]).merge_map(WNR3), ("W, N1, N2", "W, N, R")),
    (lambda: scheme_for(["W", "N", "REMM"]), ("W, N, REMM", "wnr3 = W, N, R")),
    (lambda: scheme_for(["W", "S3", "S4", "R"]), ("W, S3, S4, R", "wnr3 = W, N, R")),
    (lambda: scheme_for(["W", 1]), ("W, 1", "ws2 = W, S")),
    (lambda: quantity_of("tst"), ("'tst'",)),
    # what describes a night
    *(
        (lambda s=s: labels(seconds=s), ("epoch_seconds is",))
        for s in (0, -30.0, True, "30", NAN, INF, 10**400)
    ),
    *(
        (lambda o=o: labels(offset_seconds=o), ("offset_seconds is",))
        for o in (-1, NAN, INF, "12", None, True)
    ),
    (lambda: labels(start="22:00"), ("start is '22:00'", "datetime")),
    (lambda: labels(scorer=3), ("scorer is 3", "text")),
    (lambda: density(source=1), ("source is 1", "text")),
    (lambda: density(scheme="psg"), ("unknown scheme 'psg'",)),
    (lambda: density(from_labels="mine"), ("from_labels is 'mine'", "'typical'", "'own'")),
    # labels
    (lambda: sg.Hypnogram([], WNR3, 30), ("(0,)", "whole number per epoch")),
    (lambda: labels([0], [1]), ("(2, 1)", "whole number per epoch")),
    (lambda: sg.Hypnogram(0, WNR3, 30), ("()", "whole number per epoch")),
    (lambda: labels([0], [1, 2]), ("different lengths",)),
    (lambda: labels(0.0, 1.0), ("float64", "whole number")),
    (lambda: labels("W"), ("<U1", "whole number")),
    (lambda: labels(True), ("bool", "whole number")),
    (lambda: sg.Hypnogram(np.ma.masked_equal([0, 9], 9), WNR3, 30), ("masked", "plain array")),
    (lambda: labels(0, 3), ("label 3 at index 1", 0, 2, -1)),
    (lambda: labels(0, 1, -2), ("label -2 at index 2", 0, 2, -1)),
    (lambda: sg.Hypnogram(np.array([255], np.uint8), WNR3, 30), ("label 255 at index 0",)),
    # what is no matrix of numbers
    (lambda: matrix([]), ("(0,)", SHAPE)),
    (lambda: matrix(np.empty((0, 3))), ("(0, 3)", SHAPE)),
    (lambda: matrix([0, 2, 1]), ("(3,)", SHAPE)),
    (lambda: matrix(0.5), ("()", SHAPE)),
    (lambda: matrix(np.ones((3, 40))), ("(3, 40)", SHAPE)),
    (lambda: matrix(np.ones((2, 40, 3))), ("(2, 40, 3)", SHAPE)),
    (lambda: matrix([["0.1", "0.2", "0.7"]]), ("text", "real numbers")),
    (lambda: matrix([[0.1, None, 0.7]]), ("Python objects", "real numbers")),
    (lambda: matrix(ROWS + 0j), ("complex128", "real numbers")),
    (lambda: matrix([[True, False, False]]), ("bool", "real numbers")),
    (lambda: matrix([[0.1, 0.9], [1.0]]), ("different lengths", "array")),
    (lambda: matrix(np.ma.masked_less(ROWS, 0.3)), ("masked", "plain array")),
    (lambda: matrix(list(np.ma.masked_less(ROWS, 0.3))), ("masked", "plain array")),
    (lambda: matrix("night.csv"), ("'night.csv'", "sg.read_density")),
    # nights brought together
    (lambda: sg.align(labels()), (1, "two or more")),
    (lambda: sg.align(labels(), [0]), ("[0]", "Hypnodensity")),
    (lambda: sg.align(labels(), labels(seconds=20.0)), ("20 s", "30 s", "one length")),
    (lambda: sg.align(labels(start=START), labels(start=later)), (2, "12 s", "12 s", "30 s", "1 s")),
    (lambda: sg.align(density(), density(offset_seconds=12.5)), (2, "12.5 s", "12.5 s")),
    (lambda: sg.align(labels(start=START), labels(start=PARIS)), ("both with a time zone",)),
    (
        lambda: sg.align(labels(start=START), labels(start=START + timedelta(hours=1))),
        ("no epoch in common", "0 to 3", "120 to 123"),
    ),
    (lambda: sg.combine(density()), ("densities is", "a list")),
    (lambda: sg.combine([]), ("densities is []", "a list")),
    (lambda: sg.combine(itertools.repeat(density())), ("repeat", "a list")),
    (lambda: sg.combine([density(), labels()]), ("night 2", "a Hypnodensity")),
    (lambda: sg.combine([density(), density([[1, 0]] * 4, "ws2")]), (2, "W, S", "W, N, R")),
    (lambda: sg.combine([density(), density(seconds=15)]), (2, "15 s", "30 s")),
    (lambda: sg.combine([density(), density(ROWS[:2])]), (2, "2 epochs", "4 epochs")),
    (lambda: sg.combine([density(start=START), density(start=later)]), (2, "12 s", "0 s")),
    (lambda: sg.combine([density(), density(offset_seconds=12.5)]), (2, "12.5 s", "0 s")),
    (lambda: sg.combine([density()], weights=2), ("weights is 2", 1)),
    (lambda: sg.combine([density()], weights=[1, 2]), ("[1, 2]", "1 numbers")),
    (lambda: sg.combine([density()], weights=[0]), ("all weights are 0",)),
    (lambda: sg.combine([density()], weights=[-1]), ("a weight is -1",)),
    (lambda: sg.combine([density()], method="product"), ("'product'", "'mean'", "'log-pool'")),
    # moments
    *(
        (
            lambda what=what, at=at: sg.sleep_statistics(labels(start=START), **{what: at}),
            (f"{what} is", "expected"),
        )
        for what in ("lights_off", "lights_on")
        for at in (-600, "25:00", NAN, [], datetime(2023, 12, 30, 23), PARIS, 3600)
    ),
    (lambda: sg.sleep_statistics(labels(), lights_off="22:30"), ("lights_off", "'22:30'", "not known")),
    (lambda: sg.sleep_statistics(labels(), lights_off=60, lights_on=30), (3, 2, "at least one epoch")),
    (lambda: sg.find_sleeps(labels(), [(0.0, 60.0), (30.0, 90.0)]), ("lights",)),
    (lambda: sg.find_sleeps(labels(), [(0.0,)]), ("lights", "pairs")),
    (lambda: sg.find_sleeps(labels(), ["22:00"]), ("lights", "pairs")),
    (lambda: sg.find_sleeps(labels(0, 1, scheme=custom(["A", "B"]))), ("wake",)),
    # recordings
    (lambda: sg.Signal("C4", NUMBERS, 0.0), ("rate_hz", "'C4'")),
    (lambda: sg.Signal("C4", np.ones((2, 3)), 1.0), ("'C4'", "(2, 3)", "one row")),
    (lambda: sg.Signal("C4", "abc", 1.0), ("'C4'", "'abc'", "one row")),
    (lambda: sg.Signal("C4", ["a"], 1.0).read(), ("'C4'", "numbers")),
    (lambda: sg.Signal("C4", np.ma.masked_less(NUMBERS, 2), 1.0).read(), ("'C4'", "masked")),
    (lambda: Series("rr", NUMBERS, NUMBERS[:3]), ("'rr'", "(6,)", "(3,)")),
    (lambda: Series("rr", -NUMBERS, NUMBERS), ("'rr'", "decrease")),
    (lambda: sg.Recording("", "s", {}), ("id",)),
    (lambda: sg.Recording("n", "s", {"eeg": 3}), ("'eeg'", 3, "Signal")),
    (lambda: sg.Recording("n", "s", {}, [labels()]), ("scorings", "table")),
    (lambda: recording(eeg=signal(NUMBERS)).channel("beats", "ecg"), ("'beats' or 'ecg'", "eeg")),
    (lambda: recording(eeg=signal(NUMBERS)).with_channels({"emg": "EGG"}), ("'EGG'", "'emg'", "eeg")),
    *((lambda n=n: EpochGrid(n, 30.0), ("n_epochs is", 1)) for n in (0, -1, 2.5, True)),
    (lambda: EpochGrid.of(recording(eeg=signal(np.zeros(6000)))), ("'night'", "no scoring", "epoch_seconds")),
    (lambda: EpochGrid.of(recording(eeg=signal(np.zeros(2000))), 30), ("10 s", "30 s")),
    (
        lambda: EpochGrid.of(scored({}, {"a": labels(seconds=20.0), "b": labels()})),
        ("'n'", "20, 30 s", "epoch_seconds"),
    ),
    (lambda: sg.features("night.edf", "human-eeg"), ("'night.edf'", "sg.read_recording(path)")),
    (lambda: sg.signal_quality(None, "eeg-emg"), ("None", "sg.read_recording(path)")),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_it_is_refused_in_one_line(case):
    call, named = REFUSED[case]
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert mentions(str(caught.value), *named), str(caught.value)

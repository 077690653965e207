"""NREM-REM cycles in closed form and against Luna."""

import numpy as np
import pytest

import stageguard as sg
from peers import luna_statistics, random_labels
from stageguard.measures.bouts import cycles_of

W, N1, N2, N3, R, U = 0, 1, 2, 3, 4, -1


def cycles(*bouts, seconds=30.0, scheme="aasm5"):
    labels = np.array([label for label, n in bouts for _ in range(n)], dtype=np.int8)
    return len(cycles_of(labels, sg.StageScheme.named(scheme), seconds))


CYCLE = ((N2, 100), (R, 30))


@pytest.mark.parametrize(
    ("expected", "bouts"),
    [
        (0, [(W, 200)]),
        (0, [(N2, 29), (R, 30)]),  # 15 min of NREM
        (1, [(N2, 30), (R, 30)]),
        (1, [(N2, 30)]),  # no REM has to follow
        (0, [(N1, 10), (N2, 20), (R, 30)]),  # counted from the first N2
        (1, [(N1, 10), (N2, 20), (N1, 10), (R, 30)]),
        (1, [(N2, 15), (W, 29), (N2, 15)]),  # 15 min of wake
        (0, [(N2, 15), (W, 30), (N2, 15)]),
        (2, [(N2, 30), (W, 15), (N1, 10), (U, 5), (N2, 30)]),
        (3, [*CYCLE] * 3),
        (1, [(N2, 30), (R, 10), (N2, 29), (R, 10), (N2, 5)]),  # 15 min without REM end a REM period
        (2, [(N2, 30), (R, 10), (N2, 30), (R, 10), (N2, 5)]),
        (2, [(N2, 40), (R, 1), (N2, 40)]),  # the first REM period may be of any length
        (2, [*CYCLE, (N2, 40), (R, 9), (N2, 40)]),  # 5 min of the later ones
        (3, [*CYCLE, (N2, 40), (R, 10), (N2, 40)]),
        (2, [*CYCLE, (W, 15), (N2, 20), (R, 9), (N2, 10)]),  # NREM on both sides of a short one is one
        (1, [(R, 30), (N2, 50), (R, 30)]),  # REM at sleep onset belongs to none
    ],
)
def test_cycles_in_closed_form(expected, bouts):
    assert cycles(*bouts) == expected


def test_cycles_count_minutes_not_epochs():
    bouts = [(N2, 30), (R, 10), (N2, 29), (R, 10), *CYCLE]
    for factor, seconds in [(1, 30.0), (3, 10.0)]:
        assert cycles(*[(label, factor * n) for label, n in bouts], seconds=seconds) == 2


def test_undivided_nrem_is_deep_enough():
    assert cycles((0, 9), (1, 100), (2, 30), (1, 100), (2, 30), scheme="wnr3") == 2


def test_cycles_are_luna_s_on_nearly_all_random_nights():
    rng = np.random.default_rng(3)
    differ, n_nights, n_cycles = 0, 0, 0
    for _ in range(60):
        labels = random_labels(rng)
        night, _ = luna_statistics(labels)
        if "NREMC" in night and night["NREMC"] == night["NREMC"]:
            own = len(cycles_of(labels, sg.StageScheme.named("aasm5"), 30.0))
            differ += own != night["NREMC"]
            assert abs(own - night["NREMC"]) <= 2
            n_nights, n_cycles = n_nights + 1, n_cycles + own
    assert n_nights >= 40
    assert n_cycles >= 80
    assert differ <= 0.08 * n_nights


def test_cycles_are_luna_s_on_expert_scorings(data_dir):
    with np.load(data_dir / "dod-h" / "dod_h.npz") as archive:
        scorings = [archive[key][0] for key in archive.files if key.endswith("/scorers")]
    scheme = sg.StageScheme.named("aasm5")
    pairs = [
        (len(cycles_of(s.astype(np.int8), scheme, 30.0)), luna_statistics(s)[0]["NREMC"]) for s in scorings
    ]
    assert len(pairs) == 25
    assert sum(a != b for a, b in pairs) <= 1

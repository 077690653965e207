"""A report shows the night with and without the clock if that removed early REM."""

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from stageguard.guard.decode import without_clock
from stageguard.report.hypnogram_svg import night_picture


def night(n_rem):
    """Wake, N2, and some epochs of REM nine minutes after sleep onset that the stager is not sure of."""
    labels = np.r_[np.zeros(20), np.full(300, 2), np.full(80, 4)].astype(int)
    labels[38 : 38 + n_rem] = 4
    rows = np.full((400, 5), 0.005)
    rows[np.arange(400), labels] = 0.98
    rows[38 : 38 + n_rem] = [0.02, 0.02, 0.2, 0.01, 0.75]
    return rows


@pytest.mark.parametrize(("n_rem", "is_shown"), [(4, False), (10, True), (20, False)])
def test_the_night_without_the_clock_is_a_panel_where_rem_was_removed(n_rem, is_shown):
    result = decode(night(n_rem), "human-psg-5")
    names = [panel.name for panel in night_picture(result, None).panels]
    assert names == (["Before", "No clock", "After"] if is_shown else ["Before", "After"])
    if is_shown:
        untimed = night_picture(result, None).panels[1].labels
        assert (untimed[38 : 38 + n_rem] == 4).all()
        assert (result.hypnogram.labels[38 : 38 + n_rem] == 2).all()
        assert "No clock" in sg.night_report(result)


def test_without_its_clock_a_night_is_decoded_as_by_a_profile_without_one():
    profile = sg.Profile.load("human-psg-5")
    result = decode(sg.simulate_night("human-psg-5", seed=3, hours=3).density, profile)
    assert result.night.clock is not None
    plain = decode(result.density, profile.replace(clock=None))
    assert np.array_equal(without_clock(result), plain.hypnogram.labels)

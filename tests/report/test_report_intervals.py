"""The report shows intervals beside the statistics, where the profile knows the errors on like nights."""

from __future__ import annotations

import re
from html import unescape

import pytest

import stageguard as sg
from nights import decode
from stageguard.measures.intervals import OF_GOOD_STAGERS, WITHHELD
from stageguard.report import night_report
from stageguard.synthetic.night import simulate_night

STATISTICS = ["tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "waso_minutes", "awakenings"]


def profile(shortest_rem=0.0, **changes):
    held = {
        "n_nights": 19,
        "n_subjects": 10,
        "min_first_rem_seconds": shortest_rem,
        "level_of_coverage": 0.9,
        "errors": {
            name: [[float(i - 9)] for i in range(19)] for name in [*STATISTICS, "minutes_R", "bouts_R"]
        },
        "coverage": dict.fromkeys(STATISTICS, 0.84) | {"minutes_R": 0.95},
    }
    base = sg.Profile.load("human-psg-3")
    return base.replace(name="lab", cohort="our lab", intervals=held, **changes)


@pytest.fixture(scope="module")
def density():
    return simulate_night("human-psg-3", hours=4, seed=2).density


def cells(page, name):
    """The cells of the first row of that name in the table of statistics."""
    table = page[page.index("<h2>Sleep statistics</h2>") :]
    row = table[re.search(rf'<th scope="row">{re.escape(name)}( <strong>|</th>)', table).start() :]
    row = row[: row.index("</tr>")]
    return [unescape(cell.split(">", 1)[1].split("<")[0]) for cell in row.split("<td")[1:]]


def test_every_statistic_with_errors_has_its_interval_beside_it(density):
    night = decode(density, profile(), cohort="our lab")
    page = night_report(night)
    found = sg.intervals(night)
    for key, name in (
        ("tst_minutes", "Total sleep time (TST)"),
        ("waso_minutes", "Wake after sleep onset (WASO)"),
        ("minutes_R", "R"),
    ):
        one = found[key]
        assert one.low < one.value < one.high
        assert cells(page, name)[2] == f"{one.value:.1f}"
        assert cells(page, name)[4] == f"{one.low:.1f} to {one.high:.1f}"
    assert cells(page, "Time in bed (TIB)")[4] == ""  # known, not estimated
    assert cells(page, "W")[4] == "–"  # no errors are held for it
    assert "19 scored nights of 10 subjects" in page
    assert "they held 84 to 95 % of the values" in page


def test_without_errors_there_is_no_such_column(density):
    page = night_report(decode(density, sg.Profile.load("human-psg-3").replace(posterior=None)))
    assert "% interval" not in page
    assert len(cells(page, "Total sleep time (TST)")) == 4


def test_without_errors_draws_give_the_interval_and_its_measured_coverage(density):
    night = decode(density, "human-psg-3")
    found = sg.intervals(night, method="model")
    page = night_report(night)
    one = found["tst_minutes"]
    assert cells(page, "Total sleep time (TST)")[4] == f"{one.low:.1f} to {one.high:.1f}"
    shares = [100 * each.measured_coverage for each in found.values()]
    assert '<th scope="col">90 % interval' in page
    assert f"they held {min(shares):.0f} to {max(shares):.0f} % of the experts" in page
    assert OF_GOOD_STAGERS in page
    assert OF_GOOD_STAGERS not in night_report(decode(density, "human-psg-3", stager="YASA 0.8"))


def test_a_night_that_coverage_was_not_measured_on_gets_a_reason_instead(density):
    page = night_report(decode(density, "human-psg-3", cohort="insomnia"))
    assert '<th scope="col">90 % interval' not in page
    assert WITHHELD in page


def test_another_cohort_gets_no_intervals_and_a_reason(density):
    page = night_report(decode(density, profile(posterior=None), cohort="their lab"))
    assert '<th scope="col">90 % interval' not in page
    assert WITHHELD in unescape(page)
    assert "90 % interval" in night_report(decode(density, profile(), cohort="Our lab"))
    drawn = night_report(decode(density, profile(), cohort="their lab"))
    assert '<th scope="col">90 % interval' in drawn
    assert "19 scored nights" not in drawn


def test_a_rem_latency_of_another_definition_is_said(density):
    fitted = profile(shortest_rem=120.0, transition_weight=0.0, clock=None)
    night = decode(density, fitted, cohort="our lab")
    later = sg.intervals(night)["rem_latency_bout_minutes"].value
    assert later > sg.sleep_statistics(night).rem_latency_minutes
    page = night_report(night)
    assert "A lasting bout of REM is one of 120 s or more" in page
    assert cells(page, "REM latency to a lasting bout")[2] == f"{later:.1f}"


def test_the_expert_columns_stay_in_place(density):
    expert = simulate_night("human-psg-3", hours=4, seed=2).expert
    page = night_report(decode(density, profile(), cohort="our lab"), expert=expert)
    truth = sg.sleep_statistics(expert).tst_minutes
    found = cells(page, "Total sleep time (TST)")
    assert len(found) == 7
    assert found[5] == f"{truth:.1f}"
    assert 'colspan="8"' in page

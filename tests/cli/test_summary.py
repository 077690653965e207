"""The before/after table of decode and demo, on nights that can be counted by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import mentions
from stageguard.cli.decoded import print_summary
from stageguard.cli.terminal import Console
from stageguard.guard.decoding import STEERING
from stageguard.measures.rare import rare_events
from stageguard.report.summary import DECODED_ROWS, BeforeAfter, summary_of
from stageguard.report.words import odds, steering_words

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


def test_early_rem_is_flagged_where_it_is_shown():
    rows = rows_of(decoding_of("WW" + "N" * 29 + "RRRR" + "N" * 60, certainty=0.999999))
    for key in ("rem_latency_minutes", "rem_latency_bout_minutes"):
        assert rows[key].cells()[1:] == ["14.5", "14.5", "", "early: look at it"]
        assert rows[key].to_dict()["before_place"] == "early"
    later = rows_of(decoding_of("WW" + "N" * 30 + "RRRR" + "N" * 60))["rem_latency_minutes"]
    assert later.cells()[1] == "15.0"
    assert "before_place" not in later.to_dict()


def test_after_is_counted_on_the_decoded_night():
    decoding = decoding_of("WWNNRNNWWNRRWW" * 4, certainty=0.5)
    first, stop = decoding.period
    stages = [name for name, _ in itertools.groupby(decoding.stages[first:stop].tolist())]
    rows = rows_of(decoding)
    assert decoding.changed.any()
    assert rows["fragmentation_index"].after == pytest.approx((len(stages) - 1) / (stop - first - 1))
    assert rows["tst_minutes"].after == 0.5 * sum(stage != "W" for stage in decoding.stages.tolist())
    assert rows["fragmentation_index"].after < rows["fragmentation_index"].before


def test_uncommon_transitions_are_the_profiles():
    assert rows_of(decoding_of("WWRRNWWR"))["tvr_percent"].before == pytest.approx(100 * 1 / 5)


def test_what_neither_night_has_is_left_out():
    assert "rem_latency_minutes" not in rows_of(decoding_of("WWNNNNWW"))
    two = rows_of(decoding_of("WWSSSSWW", "human-actigraphy-2", "WS"))
    assert "rem_latency_minutes" not in two
    assert two["tst_minutes"].before == 2.0


def test_unscored_epochs_are_neither_sleep_nor_wake():
    rows = rows_of(decoding_of("WWNNNN" + "?" * 20 + "NNWW"))
    assert rows["tst_minutes"].before == 3.0
    assert rows["waso_minutes"].before == 0.0
    assert rows["fragmentation_index"].before == 0.0  # in the sleep period


def test_places_are_told_on_both_sides_of_the_band():
    rows = rows_of(decoding_of("WWNNRNNWWNRRWW" * 4))
    fi = rows["fragmentation_index"]
    band = sg.Profile.load("human-psg-3").bands["fragmentation_index"]
    assert (fi.low, fi.high, fi.before_place) == (band.low, band.high, "above")
    assert fi.to_dict()["expert_high"] == band.high
    calm = rows_of(decoding_of("W" * 100 + "N" * 150 + "R" * 50))["fragmentation_index"]
    assert calm.after_place == "below"
    assert calm.after == pytest.approx(1 / 199)


def test_cells_show_what_is_missing_as_such():
    row = BeforeAfter("rem_latency_minutes", 12.25, math.nan, reason="there is no REM")
    assert row.cells() == ["REM latency (min)", "12.2", "n/a", "", ""]
    assert row.to_dict() == {"before": 12.25, "after": row.after, "reason": "there is no REM"}


def test_every_early_rem_that_was_removed_is_named():
    # two epochs of doubtful REM ten minutes into sleep, and a long bout that survives an hour later
    text = "W" * 20 + "N" * 20 + "RR" + "N" * 120 + "R" * 40 + "N" * 40
    certainty = np.where(np.arange(len(text)) < 60, 0.6, 0.9)
    rows = np.array(
        [
            [sure if s == letter else (1 - sure) / 2 for s in STAGES]
            for letter, sure in zip(text, certainty, strict=True)
        ]
    )
    decoding = nights.decode(rows, sg.Profile.load("human-psg-3"))
    assert (decoding.argmax[40:42] == 2).all()
    assert not (decoding.hypnogram.labels[:160] == 2).any()
    evidence = 2 * math.log(0.6 / 0.2)
    (removed,) = summary_of(decoding).early_rem_removed
    gave = f"the stager gave REM {odds(evidence / 2)}"
    assert mentions(removed, "10 min", 41, "1 min", gave)
    kept = nights.decode(rows, sg.Profile.load("human-psg-3").replace(clock=None))
    assert (kept.hypnogram.labels[40:42] == 2).all()
    assert summary_of(kept).early_rem_removed == ()


def test_a_guard_that_steps_aside_from_an_odd_night_says_so_loudly():
    odd = decoding_of("W" * 60 + "R" * 60 + "N" * 10 + "W" * 60 + "R" * 60 + "N" * 110 + "W" * 60)
    assert odd.strength.step == "untouched"
    summary = summary_of(odd)
    assert mentions(summary.aside, "LOOK", "AT", "THIS", "NIGHT", "smoothed")
    assert "Fragmentation index (FI) 0.013 (below)" in summary.aside
    steered = decoding_of("WWNNRNNWWNRRWW" * 20, certainty=0.5)
    assert steered.strength.step == "lowered"
    assert summary_of(steered).aside == ""


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


def early_rem_night(n_rem: int, certainty: float) -> sg.Decoding:
    """A night with REM nine minutes after sleep onset, by a profile whose clock holds all of it back."""
    text = "W" * 20 + "N" * 18 + "R" * n_rem + "N" * 200 + "R" * 60 + "N" * 60
    rows = np.array([[0.98 if s == letter else 0.01 for s in STAGES] for letter in text])
    rows[38 : 38 + n_rem] = [(certainty if s == "R" else (1 - certainty) / 2) for s in STAGES]
    profile = sg.Profile.load("human-psg-3")
    return nights.decode(rows, profile)


def test_early_rem_of_three_minutes_that_was_removed_calls_for_a_look():
    little, much = early_rem_night(5, 0.8), early_rem_night(10, 0.8)
    for decoding in little, much:
        assert len(summary_of(decoding).early_rem_removed) == 1
    assert mentions(summary_of(much).early_rem_removed[0], "9 min", 39, "5 min")
    assert little.removed_bouts == () and [bout.minutes for bout in much.removed_bouts] == [5.0]


def test_early_rem_of_which_less_than_half_is_left_counts_as_removed():
    decoding = early_rem_night(10, 0.999)
    labels = decoding.hypnogram.labels.copy()
    assert (labels[38:48] == 2).all() and summary_of(decoding).early_rem_removed == ()
    labels[42:48] = 1  # whatever rule did it
    cut = replace(decoding, hypnogram=sg.Hypnogram(labels, decoding.hypnogram.scheme, 30.0))
    (words,) = summary_of(cut).early_rem_removed
    assert mentions(words, "9 min", 39, 3, "5 min", "REM")
    (event,) = (each for each in rare_events(cut) if each.is_early_rem)
    assert (event.in_after, event.fate, event.n_removed) == (True, "partly removed", 6)
    (whole,) = (each for each in rare_events(decoding) if each.is_early_rem)
    assert (whole.fate, whole.n_removed) == ("kept", 0)


def test_a_night_that_the_clock_changed_is_not_said_to_be_left_alone():
    summary = summary_of(early_rem_night(2, 0.8))
    assert summary.n_changed == 2
    assert mentions(summary.aside, "LOOK", "AT", "THIS", "NIGHT", "outside", "range")


def printed(decoding, capsys) -> list[str]:
    print_summary("night.csv", summary_of(decoding), Console())
    return capsys.readouterr().out.splitlines()


def flickering() -> sg.Decoding:
    return decoding_of("WWNNRNNWWNRRWW" * 20, certainty=0.5)


@pytest.mark.parametrize(
    ("make", "deed"),
    [
        (lambda: decoding_of(("W" * 10 + "N" * 25 + "R" * 8) * 8), ("Not smoothed", "within the limits")),
        (flickering, ("Smoothed: ", "transition weight ")),
        (lambda: decoding_of("WNRN" * 90, certainty=0.9999), ("Not smoothed: fragmentation 1.000, but",)),
        (lambda: decoding_of("W" * 200 + "N" * 200), ("Not smoothed", "0.000")),
        (lambda: early_rem_night(10, 0.8), ("Not smoothed: ",)),
    ],
)  # fmt: skip
def test_what_the_guard_did_is_one_line(make, deed, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = printed(make(), capsys)
    assert sum(mentions(line, *deed) for line in lines) == 1, lines


def test_a_long_recording_says_which_sleep_was_measured():
    long = decoding_of("W" * 1000 + "NNNNNNNNNRRWNN" * 60 + "W" * 800, certainty=0.999999)
    words = summary_of(long).assumptions[-1]
    assert "longest sleep (epochs 1,001 to 1,840) of a recording of 22.0 h without lights" in words


def test_early_rem_is_no_warning_in_mice(capsys):
    def of(profile: str) -> tuple[sg.Decoding, str]:
        made = decoding_of("W" * 60 + "N" * 10 + "R" * 60 + "N" * 400, profile, certainty=0.999999)
        return made, "\n".join(printed(made, capsys))

    mouse, shown = of("mouse-eeg-emg-3")
    assert summary_of(mouse).to_dict()["indicators"]["rem_latency_minutes"]["after_place"] == "early"
    assert "early" not in shown and "Early" not in shown
    assert "early: REM within 15 min" in of("human-psg-3")[1]

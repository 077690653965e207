"""The report's numbers and words: those of the night, reckoned again from its labels."""

from __future__ import annotations

import hashlib
import re
import time

import numpy as np
import pytest

import pages
import stageguard as sg
from messages import naming
from nights import decode, one_hot, plain
from report_samples import full, full_night, gaps_and_no_rem, mouse
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.night.quantities import STEERED_MARK
from stageguard.report import night_report
from stageguard.report.guard_words import advice, reason

SHOWN_MINUS = "−"
LEDGER = "Ledger: one by one, with the stager's evidence"


def number(text: str) -> float:
    """What a cell says; NaN for a dash."""
    text = text.replace(",", "").replace(SHOWN_MINUS, "-").lstrip("±")
    return float("nan") if text == "–" else float(text)


@pytest.fixture(scope="module")
def night():
    return full_night()[0]


@pytest.fixture(scope="module")
def decoding():
    return full_night()[1]


@pytest.fixture(scope="module")
def page():
    return pages.read(full())


def test_statistics_are_those_of_the_labels(page, night, decoding):
    head, rows = pages.table(page, "Sleep statistics")
    compared = ["Before", "After", "After − before", "90 % interval", "Truth", "After − truth"]
    assert head == ["Statistic", "Unit", *compared]
    marks = (" early", f" {STEERED_MARK}")
    assert {mark for row in rows for mark in marks if row[0].endswith(mark)} == set(marks)
    names = [row[0].removesuffix(marks[0]).removesuffix(marks[1]) for row in rows]
    found = {
        (name, row[1]): [number(cell) for cell in (*row[2:5], *row[6:])]
        for name, row in zip(names, rows, strict=True)
    }
    scorings = (decoding.argmax, decoding.hypnogram.labels, night.expert.labels)

    def check(name, unit, values, places):
        before, after, truth = values
        expected = [before, after, after - before, truth, after - truth]
        assert found[name, unit] == pytest.approx(expected, abs=0.51 * 10**-places), name

    asleep = [labels > 0 for labels in scorings]
    spans = [(np.argmax(sleep), len(sleep) - np.argmax(sleep[::-1])) for sleep in asleep]
    tst = [np.sum(sleep) / 2 for sleep in asleep]
    check("Total sleep time (TST)", "min", tst, 1)
    check("Sleep efficiency (SE)", "% of TIB", [100 * minutes / 480 for minutes in tst], 1)
    check("Sleep onset latency (SOL)", "min", [first / 2 for first, _ in spans], 1)
    waso = [np.sum(~sleep[a:b]) / 2 for sleep, (a, b) in zip(asleep, spans, strict=True)]
    check("Wake after sleep onset (WASO)", "min", waso, 1)
    woken = [
        np.sum(sleep[a : b - 1] & ~sleep[a + 1 : b]) for sleep, (a, b) in zip(asleep, spans, strict=True)
    ]
    check("Awakenings", "count", woken, 0)
    rem = [(np.argmax(labels == 4) - first) / 2 for labels, (first, _) in zip(scorings, spans, strict=True)]
    check("REM latency", "min", rem, 1)
    for stage, name in enumerate(decoding.hypnogram.scheme.names):
        check(name, "min", [np.sum(labels == stage) / 2 for labels in scorings], 1)
        starts = [np.diff((labels == stage).astype(int), prepend=0) == 1 for labels in scorings]
        check(name, "count", [np.sum(start) for start in starts], 0)
        if stage:
            shares = [
                50 * np.sum(labels == stage) / minutes for labels, minutes in zip(scorings, tst, strict=True)
            ]
            check(name, "% of TST", shares, 1)


def test_indicators_are_those_of_the_labels(page, night, decoding):
    head, rows = pages.table(page, "All indicators")
    assert head == ["Indicator", "Unit", "Expert band", "Before", "Place", "After", "Place", "Truth"]
    found = {row[0]: row for row in rows}
    asleep = slice(*decoding.period)
    hours = (asleep.stop - asleep.start) / 120
    scorings = [x[asleep] for x in (decoding.argmax, decoding.hypnogram.labels, night.expert.labels)]
    fi = [np.mean(labels[1:] != labels[:-1]) for labels in scorings]
    row = found["Fragmentation index (FI)"]
    assert row[2] == "0.058 to 0.189"
    assert [number(row[i]) for i in (3, 5, 7)] == pytest.approx(fi, abs=5.1e-4)
    assert (row[4], row[6]) == tuple(
        "above" if value > decoding.profile.bands["fragmentation_index"].high else "inside"
        for value in fi[:2]
    )
    row = found["Stage changes"]
    assert [number(row[i]) for i in (3, 5, 7)] == pytest.approx([120 * value for value in fi], abs=0.051)
    flips = [np.sum((x[2:] == x[:-2]) & (x[1:-1] != x[2:])) / hours for x in scorings]
    assert [number(found["One-epoch flips (A-B-A)"][i]) for i in (3, 5, 7)] == pytest.approx(
        flips, abs=5.1e-3
    )
    runs = "".join("R" if label == 4 else "-" for label in decoding.hypnogram.labels)
    bouts = [len(run) / 2 for run in re.findall("R+", runs)]
    assert number(found["Mean bout, R"][5]) == pytest.approx(np.mean(bouts), abs=0.051)


def test_agreement_is_that_of_the_labels(page, night, decoding):
    _, rows = pages.table(page, "Agreement with the truth")
    found = {row[0]: [number(cell) for cell in row[1:]] for row in rows}
    truth, kappas = night.expert.labels, []
    for labels in (decoding.argmax, decoding.hypnogram.labels):
        observed = np.mean(labels == truth)
        chance = sum(np.mean(labels == k) * np.mean(truth == k) for k in range(5))
        kappas.append((observed - chance) / (1 - chance))
    assert found["Cohen's κ"] == pytest.approx([*kappas, kappas[1] - kappas[0]], abs=6e-4)
    assert found["Accuracy (%)"][1] == pytest.approx(
        100 * np.mean(decoding.hypnogram.labels == truth), abs=0.051
    )
    assert f"rose from κ {kappas[0]:.3f} to {kappas[1]:.3f}" in page.text
    majority = 100 * np.bincount(truth).max() / len(truth)
    assert f"Calling every epoch N2 would be right in {majority:.1f} %." in page.text


def test_ledger_lists_every_watched_switch_with_its_evidence(page, decoding):
    head, rows = pages.table(page, LEDGER)
    assert head[:6] == ["Epoch", "Time", "Event", "Before", "After", "Fate"]
    before, after = (labels for labels in (decoding.argmax, decoding.hypnogram.labels))
    rem = [row for row in rows if row[2] == "W→R"]
    places = np.flatnonzero((before[:-1] == 0) & (before[1:] == 4)) + 1
    assert len(places) > 0
    assert [int(row[0]) - 1 for row in rem if row[3] == "yes"] == places.tolist()  # people count from 1
    log = np.log(decoding.density.probabilities)
    for row in rem:
        epoch = int(row[0]) - 1
        assert number(row[7]) == pytest.approx(log[epoch, 4] - log[epoch, :4].max(), abs=5.1e-3)
        assert (row[5] == "kept") == (row[3] == row[4] == "yes")
    epoch = int(rem[0][0]) - 1
    minutes = 22 * 60 + 47 + epoch / 2
    assert rem[0][1] == f"{int(minutes // 60) % 24:02d}:{int(minutes % 60):02d}:{30 * (epoch % 2):02d}"
    _, counts = pages.table(page, "Rare events")
    assert sum(int(cell) for row in counts for cell in row[1:]) == len(rows)
    assert after.size == before.size


def test_words_say_what_was_done_and_under_what(page, decoding):
    text = " ".join(page.text.split())
    n_changed = int(decoding.changed.sum())
    assert f"{n_changed} of 960 epochs ({100 * n_changed / 960:.1f} %) got another stage" in text
    assert text.count(REVIEW_SENTENCE) == 2
    assert reason(decoding.strength).replace("->", "→") in text
    assert " ".join(sg.methods_text(decoding).split()) in text
    assert "doi:10.1145/3770855.3818916" in text
    for sentence in (*decoding.assumed, *advice(decoding)):
        assert sentence[1:] in text
    profile = decoding.profile
    for told in (profile.intended_for, profile.sha256, *(caution.reason for caution in profile.not_for)):
        assert told in text
    assert "Guillot et al. 2020, doi 10.1109/TNSRE.2020.3011181" in text
    assert "5th to 95th percentile over expert nights, widest of dod-h, sleep-edf (175 scorings)" in text


def test_hashes_are_those_of_the_arrays(page, decoding):
    probabilities = hashlib.sha256(decoding.density.probabilities.tobytes()).hexdigest()
    labels = hashlib.sha256(bytes(decoding.hypnogram.labels)).hexdigest()
    assert probabilities in page.text
    assert labels in page.text


def test_the_page_says_which_part_its_indicators_are_of(page):
    assert "Of the sleep period." in page.text
    made = sg.simulate_night("mouse-eeg-emg-3", hours=1, seed=1)
    of_mouse = pages.read(night_report(decode(made.density, "mouse-eeg-emg-3")))
    assert "Of the whole recording." in of_mouse.text
    assert "count from 0" in page.text.partition("Epochs are counted from 1")[2].partition("Python")[2][:40]


def test_who_staged_the_recording_stands_below_the_headline(decoding):
    page = pages.read(night_report(decoding, staging=("staged by us", "synthetic recording")))
    assert "Staged by us. Synthetic recording." in page.one("header").text


def test_notes_of_reading_are_listed_once_among_what_was_assumed(decoding):
    notes = ("epochs counted from 1", decoding.assumed[0])
    page = pages.read(night_report(decoding, notes=notes))
    listed = [item.text for item in page.all("li")]
    assert "Epochs counted from 1." in listed
    assert len([text for text in listed if text[1:] == f"{decoding.assumed[0][1:]}."]) == 1


def test_without_an_expert_there_is_no_column_for_one(decoding):
    page = pages.read(night_report(decoding))
    assert pages.table(page, "Sleep statistics")[0][-2:] == ["After − before", "90 % interval"]
    assert pages.table(page, "All indicators")[0][-1] == "Place"
    assert not [node for node in page.all("section") if node.attributes.get("id") == "agreement"]
    assert page.one("h1").text == "synthetic"


def test_no_rem_is_a_dash_with_its_reason():
    page = pages.read(gaps_and_no_rem())
    _, rows = pages.table(page, "Sleep statistics")
    (row,) = [row for row in rows if row[0] == "REM latency"]
    assert row[2:5] == ["–", "–", "–"]
    assert number(row[5]) > 0
    assert (
        "REM latency (before, after); REM latency to a lasting bout (before, after): there is no REM."
        in page.text
    )
    assert "4 epochs without evidence (2 min) got the stage" in page.text
    assert "120 epochs (1 h 0 min) without evidence for more than five minutes stay unscored" in page.text
    assert "12 % of the recording is unscored" in page.text
    assert "no evidence" in page.text


def test_lights_cut_time_in_bed_and_are_drawn(night, decoding):
    page = pages.read(night_report(decoding, expert=night.expert, lights_off="23:17", lights_on="06:17"))
    _, rows = pages.table(page, "Sleep statistics")
    minutes = {row[0]: row[2:] for row in rows if row[1] == "min"}
    assert minutes["Time in bed (TIB)"] == ["420.0", "420.0", "0.0", "", "420.0", "0.0"]
    assert number(minutes["W"][1]) == np.sum(decoding.hypnogram.labels[60:900] == 0) / 2
    assert (
        "Lights off at 23:17:00, 1800 s (epoch 61), lights on at 06:17:00, 27000 s (epoch 901)." in page.text
    )
    shown = {text.text: float(text.attributes["x"]) for text in page.all("text")}
    assert "Agreement and the list of uncommon transitions are of the whole recording." in page.text
    assert "Of the sleep period between lights." in page.text
    assert {"lights off", "lights on", "23:00"} <= set(shown)
    assert shown["lights off"] > shown["23:00"]


def test_long_recordings_are_drawn_in_bins_with_a_window_and_their_light_cycle():
    page = pages.read(mouse())
    (picture, _bands) = [svg for svg in page.all("svg") if svg.attributes.get("id") != "zoom-picture"]
    assert picture.one("title").text == "Hypnogram before and after decoding"
    assert "shares of 5 min" in picture.text
    (zoom,) = [node for node in page.all("div") if node.attributes.get("id") == "zoom"]
    assert "hidden" in zoom.attributes  # the script draws it, or nobody
    head, rows = pages.table(page, "In the light and in the dark")
    assert head == [
        "Phase",
        "Stage",
        "Before (min)",
        "Before (%)",
        "After (min)",
        "After (%)",
        "Truth (min)",
        "Truth (%)",
    ]
    dark = [number(row[4]) for row in rows if row[0] == "dark"]
    assert sum(dark) == pytest.approx(8 * 60 + 13, abs=0.2)  # 22:47 to 07:00
    assert "light / dark" in page.text


def test_a_finer_expert_is_merged_and_one_of_other_length_refused(night):
    decoding = decode(night.density, "human-psg-3")
    page = pages.read(night_report(decoding, expert=night.expert))
    _, rows = pages.table(page, "Sleep statistics")
    minutes = {row[0]: row[6] for row in rows if row[1] == "min"}
    assert number(minutes["N"]) == np.isin(night.expert.labels, (1, 2, 3)).sum() / 2
    short = sg.Hypnogram(night.expert.labels[:-2], "aasm5", 30.0)
    with pytest.raises(sg.InputError, match=naming("958 epochs", 960)):
        night_report(decoding, expert=short)


def test_an_expert_of_a_part_of_the_night_is_remarked_on(night):
    decoding = decode(night.density, "human-psg-5")
    whole, part = night.expert.labels, night.expert.labels.copy()
    part[:100] = -1
    remarks = [
        "covers 50.0 min less than before and after"
        in pages.read(night_report(decoding, expert=sg.Hypnogram(labels, "aasm5", 30.0))).text
        for labels in (whole, part)
    ]
    assert remarks == [False, True]


def test_only_a_decoding_can_be_reported(night):
    with pytest.raises(sg.InputError, match=naming("Decoding", "Report what decode")):
        night_report(night.expert)


def test_nothing_is_adjacent_across_segments():
    labels = np.repeat([0, 1, 0, 1], 30)
    decoding = decode(one_hot(labels), sg.Profile.from_dict(plain(species="mouse")), segments=[0, 60])
    page = pages.read(night_report(decoding, expert=sg.Hypnogram(labels, "wnr3", 30.0)))
    _, rows = pages.table(page, "All indicators")
    (row,) = [row for row in rows if row[0] == "Fragmentation index (FI)"]
    assert [number(row[i]) for i in (3, 5, 7)] == pytest.approx([2 / 118] * 3, abs=5.1e-4)


def test_minimum_bouts_count_what_they_cost_the_expert():
    expert = np.zeros(200, dtype=int)
    expert[50], expert[120:130] = 2, 2
    profile = sg.Profile.from_dict(plain(species="mouse", min_bout_seconds={"R": 90}))
    decoding = decode(one_hot(expert, confidence=0.6), profile)
    page = pages.read(night_report(decoding, expert=sg.Hypnogram(expert, "wnr3", 30.0)))
    told = (
        "R: 1 bout below the profile's minimum before, 0 after; 1 scored so short for comparison, 1 of them"
    )
    assert told in page.text


@pytest.mark.slow
def test_a_report_of_a_very_long_recording_ends_and_stays_small_enough_to_open():
    rng, n_epochs = np.random.default_rng(0), 100_000
    stages = np.repeat(rng.integers(5, size=n_epochs // 50), 50)
    odds = rng.gamma(np.where(np.eye(5)[stages] > 0, 3.0, 0.4))
    result = decode(odds / odds.sum(axis=1, keepdims=True), "human-psg-5")
    began = time.process_time()
    page = night_report(result)
    assert time.process_time() - began < 20  # by the square of its length it would take hours
    assert len(page) < 3_000_000
    assert page.count("<svg") < 10

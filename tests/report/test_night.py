"""The report of a night: its numbers are those of the labels, its words those of the decoding."""

from __future__ import annotations

import csv
import hashlib
import re
import time
from collections import Counter
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import pages
import stageguard as sg
from cli_runner import Runner, write_night
from messages import naming
from nights import decode, one_hot, plain
from report_samples import full, full_night, gaps_and_no_rem, mouse, mouse_day
from stageguard.formats.night import Event
from stageguard.formats.outputs import REVIEW_SENTENCE
from stageguard.guard.decode import without_clock
from stageguard.measures.bouts import hypnogram_before
from stageguard.measures.intervals import OF_GOOD_STAGERS, WITHHELD
from stageguard.measures.statistics import StatisticsOptions
from stageguard.night.quantities import STEERED_MARK, quantity_of
from stageguard.night.stages import WNR3, WS2
from stageguard.report import night as page_of_night
from stageguard.report import night_report
from stageguard.report.hypnogram_svg import MOST_EVENT_LANES, event_lanes, night_picture
from stageguard.report.summary import HEADLINES, measures_of, summary_of
from stageguard.report.tables import align_expert, measure
from stageguard.report.words import advice, done_words, verdict_words
from stageguard.synthetic.night import simulate_night

ALL, LIKE_EXPERTS = "All statistics", "Does it look like expert scoring?"


def number(text: str) -> float:
    """What a cell says; NaN for a dash."""
    text = text.replace(",", "").replace("−", "-").lstrip("±")
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


def part(html, name):
    (found,) = [node for node in pages.read(html).all() if node.attributes.get("id") == name]
    return found


def rows_of(html, heading=ALL):
    """Cells by name and unit of the row, without the marks behind the name."""
    head, rows = pages.table(pages.read(html), heading)
    return {
        (re.split(r" †| early| depends", name)[0], unit): dict(zip(head[2:], cells, strict=True))
        for name, unit, *cells in rows
    }


def test_the_first_screen_says_what_was_done_what_to_report_and_what_to_look_at(page, decoding):
    text = " ".join(page.text.split())
    first = text[: text.index("Probabilities")]
    valid = sg.validity(decoding)
    for told in (
        verdict_words(valid),
        done_words(decoding),
        "Do not report (set by the smoothing): awakenings",
    ):
        assert told in first
    tiles = [tile for tile in page.all("div") if tile.attributes.get("class") == "tile"]
    statistics = sg.sleep_statistics(decoding)
    assert [tile.one("b").text for tile in tiles] == [
        f"{getattr(statistics, key):.1f} min" for key in page_of_night.TILES
    ]
    assert "REM latency" in tiles[2].text
    assert first.index("Look at this:") < first.index(REVIEW_SENTENCE)
    kappas = [
        sg.agreement(full_night()[0].expert, each).kappa for each in (hypnogram_before(decoding), decoding)
    ]
    assert f"Agreement with the truth: κ {kappas[0]:.3f} → {kappas[1]:.3f}." in first
    folded = [node.attributes["id"] for node in page.all("details") if "id" in node.attributes]
    assert folded == [
        "all",
        "validity",
        "agreement",
        "changes",
        "events",
        "transitions",
        "profile",
        "methods",
    ]
    assert all("open" not in node.attributes for node in page.all("details"))


@pytest.mark.parametrize(
    ("source", "title"),
    [("n/night-7.csv.gz", "night-7"), ("mesa 12.npz", "mesa 12"), (None, "Night without a name")],
)
def test_a_page_is_titled_by_its_night(decoding, source, title):
    named = decode(replace(decoding.density, source=source), "human-psg-5")
    assert pages.read(night_report(named)).one("h1").text == title
    assert pages.read(full()).one("h1").text == "Night 7"  # as it was given


def test_statistics_are_those_of_the_labels(page, night, decoding):
    found = rows_of(full())
    head, rows = pages.table(page, ALL)
    assert head == ["Statistic", "Unit", "Stager", "Guarded", "90 % interval", "Truth", "Guarded − truth"]
    marks = (" early", f" {STEERED_MARK}")
    assert {mark for row in rows for mark in marks if row[0].endswith(mark)} == set(marks)
    scorings = (decoding.argmax, decoding.hypnogram.labels, night.expert.labels)

    def check(name, unit, values, places):
        shown = [
            number(found[name, unit][column]) for column in ("Stager", "Guarded", "Truth", "Guarded − truth")
        ]
        assert shown == pytest.approx([*values, values[1] - values[2]], abs=0.51 * 10**-places), name

    asleep = [labels > 0 for labels in scorings]
    spans = [(np.argmax(sleep), len(sleep) - np.argmax(sleep[::-1])) for sleep in asleep]
    tst = [np.sum(sleep) / 2 for sleep in asleep]
    check("Total sleep time (TST)", "min", tst, 1)
    check("Sleep efficiency (SE)", "% of TIB", [100 * minutes / 480 for minutes in tst], 1)
    check("Sleep onset latency (SOL)", "min", [first / 2 for first, _ in spans], 1)
    waso = [np.sum(~sleep[a:b]) / 2 for sleep, (a, b) in zip(asleep, spans, strict=True)]
    check("Wake after sleep onset (WASO)", "min", waso, 1)
    rem = [(np.argmax(labels == 4) - first) / 2 for labels, (first, _) in zip(scorings, spans, strict=True)]
    check("REM latency", "min", rem, 1)
    for stage, name in enumerate(decoding.hypnogram.scheme.names):
        check(name, "min", [np.sum(labels == stage) / 2 for labels in scorings], 1)
        starts = [np.diff((labels == stage).astype(int), prepend=0) == 1 for labels in scorings]
        check(name, "count", [np.sum(start) for start in starts], 0)
    short = rows_of(full(), "What to report")
    assert [name for name, _ in short] == [quantity_of(key).label for key in page_of_night.tables.HEADLINES]
    assert all(found[key] == cells for key, cells in short.items())


def test_indicators_are_those_of_the_labels(page, night, decoding):
    head, rows = pages.table(page, LIKE_EXPERTS)
    assert head[3:] == ["Expert band", "Stager", "Place", "Guarded", "Place", "Truth"]
    found = {row[0]: row[:2] + row[3:] for row in rows}
    asleep = slice(*decoding.period)
    scorings = [x[asleep] for x in (decoding.argmax, decoding.hypnogram.labels, night.expert.labels)]
    fi = [np.mean(labels[1:] != labels[:-1]) for labels in scorings]
    row = found["Fragmentation index (FI)"]
    assert row[2] == "0.058 to 0.189"
    assert [number(row[i]) for i in (3, 5, 7)] == pytest.approx(fi, abs=5.1e-4)
    high = decoding.profile.bands["fragmentation_index"].high
    assert (row[4], row[6]) == tuple("above" if value > high else "inside" for value in fi[:2])
    runs = "".join("R" if label == 4 else "-" for label in decoding.hypnogram.labels)
    bouts = [len(run) / 2 for run in re.findall("R+", runs)]
    assert number(found["Mean bout, R"][5]) == pytest.approx(np.mean(bouts), abs=0.051)
    assert "Of the sleep period." in page.text
    assert "Of the whole recording." in pages.read(mouse()).text
    joint, row = sg.validity(decoding).joint, found["Distance from expert scoring"]
    assert (row[2], row[5]) == (f"0.00 to {joint.high:.2f}", f"{joint.value:.2f}")
    drawn = list(part(full(), "validity").all("svg"))
    assert len(drawn) == sum(row[2] != "–" for row in found.values())


def test_agreement_and_confusion_are_those_of_the_labels(page, night, decoding):
    _, rows = pages.table(page, "Agreement with the truth")
    found = {row[0]: [number(cell) for cell in row[1:]] for row in rows}
    truth, names = night.expert.labels, decoding.profile.scheme.names
    kappas = [sg.agreement(night.expert, each).kappa for each in (hypnogram_before(decoding), decoding)]
    assert found["Cohen's κ"] == pytest.approx([*kappas, kappas[1] - kappas[0]], abs=6e-4)
    share = 100 * np.mean(decoding.hypnogram.labels == truth)
    assert found["Accuracy (%)"][1] == pytest.approx(share, abs=0.051)
    majority = 100 * np.bincount(truth).max() / len(truth)
    assert f"Calling every epoch N2 would be right in {majority:.1f} %." in page.text
    tables = {each.one("caption").text: each for each in part(full(), "agreement").all("table")}
    for name, labels in (("Stager", decoding.argmax), ("Guarded", decoding.hypnogram.labels)):
        head, *rows = [pages.cells(row) for row in tables[name].all("tr")]
        assert head == ["truth \\ night", *names]
        counts = confusion_matrix(truth, labels, labels=range(5))
        shown = np.array([[float(part) for cell in row[1:] for part in cell.split()[:2]] for row in rows])
        assert shown[:, ::2].tolist() == counts.tolist()
        assert shown[:, 1::2] == pytest.approx(100 * counts / counts.sum(axis=1, keepdims=True), abs=0.51)


def test_transition_matrices_are_those_of_the_labels(night, decoding):
    names = decoding.profile.scheme.names
    tables = list(part(full(), "transitions").all("table"))
    scorings = {"Stager": decoding.argmax, "Guarded": decoding.hypnogram.labels, "Truth": night.expert.labels}
    assert [table.one("caption").text for table in tables] == [*scorings]
    for table, labels in zip(tables, scorings.values(), strict=True):
        counts = Counter(zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
        for a, row in enumerate([pages.cells(row) for row in table.all("tr")][1:]):
            total = sum(counts[a, b] for b in range(5))
            assert row[0] == names[a]
            expected = [100 * counts[a, b] / total for b in range(5)]
            assert [float(cell) for cell in row[1:]] == pytest.approx(expected, abs=0.051)


def test_nothing_is_adjacent_across_segments_and_a_missing_stage_is_a_dash():
    labels = np.repeat([0, 1, 0, 1], 30)
    decoding = decode(one_hot(labels), sg.Profile.from_dict(plain(species="mouse")), segments=[0, 60])
    html = night_report(decoding, expert=sg.Hypnogram(labels, "wnr3", 30.0))
    rows = [pages.cells(row) for row in list(part(html, "transitions").all("table"))[1].all("tr")][1:]
    assert [row[1:] for row in rows] == [["96.7", "3.3", "0.0"], ["0.0", "100.0", "0.0"], ["–"] * 3]
    _, indicators = pages.table(pages.read(html), LIKE_EXPERTS)
    (row,) = [row for row in indicators if row[0] == "Fragmentation index (FI)"]
    assert [number(row[i]) for i in (4, 6, 8)] == pytest.approx([2 / 118] * 3, abs=5.1e-4)


@pytest.mark.parametrize(("html", "made"), [(full, full_night), (mouse, mouse_day)])
def test_changes_are_grouped_by_rule_and_all_are_listed(html, made):
    found = sg.explain(made()[1])
    groups = list(part(html(), "changes").all("details"))[1:]
    numbers = [int(group.one("summary").one("b").text.replace(",", "")) for group in groups]
    assert sum(numbers) == len(found)
    assert numbers == sorted(numbers, reverse=True)
    rows = [pages.cells(row)[0] for group in groups for row in group.one("tbody").all("tr")]
    expected = [
        f"{c.first_epoch + 1}" + (f"–{c.first_epoch + c.n_epochs}" if c.n_epochs > 1 else "") for c in found
    ]
    assert sorted(rows) == sorted(expected)


def test_the_clock_s_changes_name_the_stage_it_holds_back(monkeypatch, decoding):
    short = replace(sg.explain(decoding)[0], n_epochs=1, after=("N2",))
    decided = [("clock", "R"), ("clock", "R"), ("clock", "N3"), ("minimum bout", "R")]
    made = [replace(short, rule=rule, before=(before,)) for rule, before in decided]
    groups = page_of_night.change_groups(made, decoding)
    assert [(group["n_changes"], group["by"]) for group in groups] == [
        (2, "by the clock's REM rule"), (1, "by a minimum bout"), (1, "by the clock's N3 rule"),
    ]  # fmt: skip
    monkeypatch.setattr(page_of_night, "MOST_CHANGES", 1)
    groups = page_of_night.change_groups(made, decoding)
    assert [group["n_changes"] for group in groups] == [2, 1, 1]
    assert sum(len(group["rows"]) for group in groups) == 1


def test_rare_events_are_every_watched_switch_with_its_evidence(page, decoding):
    head, rows = pages.table(page, "Rare events")
    assert head[:4] == ["Epoch", "Time", "Event", "Fate"]
    before, after = decoding.argmax, decoding.hypnogram.labels
    rem = [row for row in rows if row[2] == "W→R"]
    places = np.flatnonzero((before[:-1] == 0) & (before[1:] == 4)) + 1
    assert len(places) > 0
    assert [int(row[0]) - 1 for row in rem if row[3] != "new"] == places.tolist()  # people count from 1
    log = np.log(decoding.density.probabilities)
    for row in rem:
        epoch = int(row[0]) - 1
        assert number(row[5]) == pytest.approx(log[epoch, 4] - log[epoch, :4].max(), abs=5.1e-3)
        assert row[3] == "kept" or after[epoch] != 4 or after[epoch - 1] != 0
    minutes = 22 * 60 + 47 + (int(rem[0][0]) - 1) / 2
    assert rem[0][1][:5] == f"{int(minutes // 60) % 24:02d}:{int(minutes % 60):02d}"
    fates = Counter(row[3] for row in rows)
    assert (
        f"{fates['kept']} kept, " in page.text and f"{fates['lost']} lost, {fates['new']} new." in page.text
    )


def test_words_say_under_what_the_night_was_decoded(page, decoding):
    text = " ".join(page.text.split())
    assert " ".join(sg.methods_text(decoding).split()) in text
    profile = decoding.profile
    notes = (profile.intended_for, profile.sha256, *(caution.reason for caution in profile.not_for))
    for told in (*notes, *(each[1:] for each in (*decoding.assumed, *advice(decoding)))):
        assert told in text
    for array in (decoding.density.probabilities, decoding.hypnogram.labels):
        assert hashlib.sha256(array.tobytes()).hexdigest() in text
    assert "count from 0" in text.partition("Epochs are counted from 1")[2].partition("Python")[2][:40]


def test_notes_and_who_staged_the_recording_are_told_once(decoding):
    notes = ("epochs counted from 1", decoding.assumed[0])
    page = pages.read(night_report(decoding, notes=notes, staging=("staged by us", "synthetic recording")))
    assert "Staged by us. Synthetic recording." in page.one("header").text
    listed = [item.text for item in page.all("li")]
    assert "Epochs counted from 1." in listed
    assert len([text for text in listed if text[1:] == f"{decoding.assumed[0][1:]}."]) == 1


def test_without_an_expert_there_is_no_column_for_one(decoding):
    html = night_report(decoding)
    page = pages.read(html)
    assert pages.table(page, ALL)[0][-2:] == ["Guarded", "90 % interval"]
    assert pages.table(page, LIKE_EXPERTS)[0][-1] == "Place"
    assert not {"agreement"} & {node.attributes.get("id") for node in page.all()}


def test_no_rem_is_a_dash_with_its_reason():
    html = gaps_and_no_rem()
    page, row = pages.read(html), rows_of(html)["REM latency", "min"]
    assert [row[column] for column in ("Stager", "Guarded")] == ["–", "–"]
    assert number(row["Truth"]) > 0
    assert "REM latency (stager, guarded); REM latency to a lasting bout (stager, guarded)" in page.text
    assert "Filled: 4 epochs without evidence (2 min), from the epochs around." in page.text
    assert "Unscored: 120 epochs (1 h 0 min) without evidence for more than five minutes" in page.text
    assert "12 % of the recording is unscored" in page.text
    tiles = [tile.text for tile in page.all("div") if tile.attributes.get("class") == "tile"]
    assert "there is no REM" in tiles[page_of_night.TILES.index("rem_latency_minutes")]


def test_lights_cut_time_in_bed_and_are_drawn(night, decoding):
    html = night_report(decoding, expert=night.expert, lights_off="23:17", lights_on="06:17")
    page, rows = pages.read(html), rows_of(html)
    assert rows["Time in bed (TIB)", "min"]["Guarded"] == "420.0"
    assert number(rows["W", "min"]["Guarded"]) == np.sum(decoding.hypnogram.labels[60:900] == 0) / 2
    lights = "Lights off at 23:17:00, 1800 s (epoch 61), lights on at 06:17:00, 27000 s (epoch 901)."
    assert lights in page.text
    assert "Of the sleep period between lights." in page.text
    shown = {text.text: float(text.attributes["x"]) for text in page.all("text")}
    assert {"lights off", "lights on", "23:00"} <= set(shown)
    assert shown["lights off"] > shown["23:00"]


def test_long_recordings_are_drawn_in_bins_with_their_light_cycle():
    page = pages.read(mouse())
    picture = next(page.all("svg"))
    assert "shares of 5 min" in picture.text
    head, rows = pages.table(page, "In the light and in the dark")
    assert head[2:6] == ["Stager (min)", "Stager (%)", "Guarded (min)", "Guarded (%)"]
    dark = [number(row[4]) for row in rows if row[0] == "dark"]
    assert sum(dark) == pytest.approx(8 * 60 + 13, abs=0.2)  # 22:47 to 07:00
    assert "light / dark" in page.text
    day = night_report(decode(simulate_night("mouse-eeg-emg-3", hours=24).density, "mouse-eeg-emg-3"))
    assert [name for name, _ in rows_of(day, "What to report")] == [
        "Total sleep time (TST)",
        "Wake after sleep onset (WASO)",
    ]  # without time in bed, there are no latencies


def test_an_expert_of_a_part_of_the_night_is_remarked_on_and_one_of_other_length_refused(night):
    decoding = decode(night.density, "human-psg-5")
    whole, scored = night.expert.labels, night.expert.labels.copy()
    scored[:100] = -1
    remarks = [
        "covers 50.0 min less than stager and guarded"
        in pages.read(night_report(decoding, expert=sg.Hypnogram(labels, "aasm5", 30.0))).text
        for labels in (whole, scored)
    ]
    assert remarks == [False, True]
    with pytest.raises(sg.InputError, match=naming("958", 960)):
        night_report(decoding, expert=sg.Hypnogram(whole[:-2], "aasm5", 30.0))
    with pytest.raises(sg.InputError, match=naming("Decoding", "Report what decode")):
        night_report(night.expert)


def test_annotations_are_lanes_by_name_within_the_night():
    night = sg.Hypnogram(np.zeros(100, dtype=int), "aasm5", 30.0, offset_seconds=60.0)
    events = [Event(90.0, 15.0, "Arousal"), Event(150.0, None, "Arousal "), Event(10_000.0, 5.0, "Arousal")]
    events += [Event(0.0, 10.0, "Before it"), Event(300.0, 30.0, "Apnea")]
    arousals, apnea = event_lanes(events, night)
    assert (arousals.name, apnea.name) == ("Arousal", "Apnea")
    assert arousals.begins.tolist() == [1.0, 3.0]
    assert arousals.lasts.tolist() == [0.5, 0.0]
    many = [Event(90.0 + i, 1.0, f"kind {i}") for i in range(MOST_EVENT_LANES + 3)]
    lanes = event_lanes(many, night)
    assert (len(lanes), lanes[-1].name) == (MOST_EVENT_LANES, "others")
    assert sum(len(lane.begins) for lane in lanes) == len(many)
    assert event_lanes([], night) == ()


def test_annotations_and_quality_reach_the_page(night, decoding):
    lost = np.zeros(960)
    lost[100:110] = 0.5
    given = decode(night.density, "human-psg-5", quality=lost)
    picture = part(night_report(given, annotations=[Event(600.0, 12.0, "Arousal <1>")]), "night")
    texts = [text.text for text in picture.all("text")]
    assert {"Arousal <1>", "signal lost", "cycles"} <= set(texts)
    assert "Signal lost: from nothing (empty) to all of it (filled)" in picture.text
    plain_texts = [text.text for text in part(night_report(decoding), "night").all("text")]
    assert not {"Arousal <1>", "signal lost"} & set(plain_texts)


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


# Intervals

STATISTICS = ["tst_minutes", "se_percent", "sol_minutes", "rem_latency_minutes", "waso_minutes", "awakenings"]


def fitted(shortest_rem=0.0, **changes):
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


def test_every_statistic_with_errors_has_its_interval_beside_it(density):
    night = decode(density, fitted(), cohort="our lab")
    html, found = night_report(night), sg.intervals(night)
    rows = rows_of(html)
    for key, name in (("tst_minutes", "Total sleep time (TST)"), ("minutes_R", "R")):
        one, row = found[key], rows[name, "min"]
        assert one.low < one.value < one.high
        assert row["Guarded"] == f"{one.value:.1f}"
        assert row["90 % interval"] == f"{one.low:.0f} to {one.high:.0f}"
    assert rows["Time in bed (TIB)", "min"]["90 % interval"] == ""  # known, not estimated
    assert rows["W", "min"]["90 % interval"] == "–"  # no errors are held for it
    assert "19 scored nights of 10 subjects" in html
    summary = summary_of(night, with_intervals=True)
    shown = {row.key: row.cells() for row in summary.indicators}
    assert shown["tst_minutes"][3] == rows["Total sleep time (TST)", "min"]["90 % interval"]
    assert summary.interval_title == "90 % interval"
    assert summary_of(night).interval_title == ""


def test_without_errors_draws_give_the_interval_and_its_measured_coverage(density):
    night = decode(density, "human-psg-3")
    found, html = sg.intervals(night, method="model"), night_report(night)
    one = found["tst_minutes"]
    shown = rows_of(html)["Total sleep time (TST)", "min"]["90 % interval"]
    assert shown == f"{one.low:.0f} to {one.high:.0f}"
    shares = [100 * each.measured_coverage for each in found.values()]
    assert f"which held {min(shares):.0f} to {max(shares):.0f} % of the experts" in html
    assert OF_GOOD_STAGERS in html
    assert OF_GOOD_STAGERS not in night_report(decode(density, "human-psg-3", stager="YASA 0.8"))


def test_a_night_that_coverage_was_not_measured_on_gets_a_reason_instead(density):
    none = night_report(decode(density, sg.Profile.load("human-psg-3").replace(posterior=None)))
    assert "% interval" not in none and WITHHELD not in unescape(none)
    for night in (
        decode(density, "human-psg-3", cohort="insomnia"),
        decode(density, fitted(posterior=None), cohort="their lab"),
    ):
        html = unescape(night_report(night))
        assert '<th scope="col">90 % interval' not in html and WITHHELD in html
    drawn = night_report(decode(density, fitted(), cohort="their lab"))
    assert '<th scope="col">90 % interval' in drawn and "19 scored nights" not in drawn


# Coarser experts, the clock, one value everywhere


@pytest.fixture(scope="module")
def scored():
    simulated = simulate_night("human-psg-5", hours=4, seed=3)
    return decode(simulated.density, "human-psg-5"), replace(simulated.expert, scorer="anna")


@pytest.mark.parametrize("scheme", [WNR3, WS2], ids=lambda scheme: scheme.name)
def test_a_coarser_expert_is_compared_with_both_merged(scored, scheme):
    decoding, expert = scored
    coarse = expert.merge(scheme)
    measured = measure(decoding, align_expert(coarse, decoding), StatisticsOptions())
    for found, own in zip(measured.agreement, (hypnogram_before(decoding), decoding.hypnogram), strict=True):
        assert found.scheme == scheme
        assert found.accuracy == np.mean(own.merge(scheme).labels == coarse.labels)
    assert measured.agreement[0].accuracy != measured.agreement[1].accuracy


def test_a_page_with_a_coarser_expert_says_in_which_stages(scored):
    decoding, expert = scored
    page = unescape(night_report(decoding, expert=expert.merge(WNR3)))
    assert "Compared in W, N, R." in page
    assert "Expert: scored in W, N, R, too coarse for the profile's bands." in page
    share = 100 * np.mean(decoding.hypnogram.merge(WNR3).labels == expert.merge(WNR3).labels)
    assert f"{share:.1f} % as the expert" in page
    picture = page[page.index("<svg") : page.index("</svg>")]
    lanes = re.findall(r'text-anchor="end"[^>]*>(W|R|N[123]?)<', picture)
    assert lanes == ["W", "R", "N", *2 * ["W", "R", "N1", "N2", "N3"]]


@pytest.mark.parametrize(("n_rem", "is_shown"), [(4, False), (10, True), (20, False)])
def test_the_night_without_the_clock_is_a_panel_where_rem_was_removed(n_rem, is_shown):
    labels = np.r_[np.zeros(20), np.full(300, 2), np.full(80, 4)].astype(int)
    labels[38 : 38 + n_rem] = 4
    rows = np.full((400, 5), 0.005)
    rows[np.arange(400), labels] = 0.98
    rows[38 : 38 + n_rem] = [0.02, 0.02, 0.2, 0.01, 0.75]  # REM nine minutes after onset, of little certainty
    result = decode(rows, "human-psg-5")
    panels = night_picture(result, None).panels
    assert [panel.name for panel in panels] == ["Stager", *["No clock"] * is_shown, "Guarded"]
    if is_shown:
        assert (panels[1].labels[38 : 38 + n_rem] == 4).all()
        assert (result.hypnogram.labels[38 : 38 + n_rem] == 2).all()
        assert "No clock" in sg.night_report(result)
        plain_clock = decode(result.density, result.profile.replace(clock=None))
        assert np.array_equal(without_clock(result), plain_clock.hypnogram.labels)


@pytest.mark.parametrize("profile", ["human-psg-5", "lab"])
def test_each_statistic_has_one_value_everywhere(capsys, tmp_path, profile):
    if profile == "lab":  # its intervals are of longer REM bouts
        intervals = {"n_nights": 9, "n_subjects": 9, "min_first_rem_seconds": 300.0}
        sg.Profile.load("human-psg-5").replace(name="lab", intervals=intervals).save(tmp_path / "lab.toml")
        profile = str(tmp_path / "lab.toml")
    run, path = Runner(capsys), write_night(tmp_path / "n.csv", hours=6, seed=3)
    night = decode(sg.read_density(path), profile)
    counted = sg.sleep_statistics(night)
    printed = run("decode", path, "-p", profile, "-o", tmp_path / "out").out
    told = run("decode", path, "-p", profile, "-o", tmp_path / "json", "--json").json
    run("stats", tmp_path / "out", "-o", tmp_path / "stats.tsv")
    with (tmp_path / "stats.tsv").open() as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    page = {name: cells["Guarded"] for (name, _), cells in rows_of(sg.night_report(night)).items()}
    methods = sg.methods_text(night)
    for key in told["indicators"]:
        quantity = quantity_of(key)
        if not hasattr(counted, key):
            continue
        value = getattr(counted, key)
        text = f"{value:.{quantity.decimals}f}"
        if key in HEADLINES:
            pattern = rf"^{re.escape(quantity.short_heading)} .* {re.escape(text)}\b"
            assert re.search(pattern, printed, re.MULTILINE), key
        assert told["indicators"][key]["after"] == pytest.approx(value)
        assert float(row[f"{key}_after"]) == pytest.approx(value, rel=1e-5)
        assert page[quantity.label] == text
    for key in ("sol_minutes", "sol_10min_minutes", "rem_latency_minutes", "rem_latency_bout_minutes"):
        assert f"{quantity_of(key).title} is the time {quantity_of(key).definition}." in methods


def test_rows_of_a_cohort_say_what_summaries_do():
    density = simulate_night("human-psg-5", hours=5, seed=0).density
    rows = density.probabilities.copy()
    rows[200:260] = np.nan
    for each in (density, density.with_rows(rows)):
        decoding = decode(each, "human-psg-5")
        assert measures_of(decoding) == summary_of(decoding).measures

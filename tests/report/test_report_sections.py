"""Sections of the report by their numbers: transitions, groups of changes, annotations, what is listed."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import pages
import stageguard as sg
from nights import decode, one_hot, plain
from report_samples import full, full_night, mouse, mouse_day
from stageguard.formats.raw_night import Event
from stageguard.guard.explain import Rule
from stageguard.report import night_report, words
from stageguard.report.hypnogram_svg import MOST_EVENT_LANES, event_lanes


def section(html, name):
    (found,) = [node for node in pages.read(html).all("section") if node.attributes.get("id") == name]
    return found


def test_transition_matrices_are_those_of_the_labels():
    night, decoding = full_night()
    names = decoding.profile.scheme.names
    matrices = {
        table.one("caption").text: [pages.cells(row) for row in table.all("tr")]
        for table in section(full(), "transitions").all("table")
    }
    scorings = {"Before": decoding.argmax, "After": decoding.hypnogram.labels, "Truth": night.expert.labels}
    assert [*matrices] == [*scorings]
    for name, labels in scorings.items():
        head, *rows = matrices[name]
        assert head == ["from \\ to", *names]
        counts = Counter(zip(labels[:-1].tolist(), labels[1:].tolist(), strict=True))
        for a, row in enumerate(rows):
            total = sum(counts[a, b] for b in range(5))
            shown = [float(cell) for cell in row[1:]]
            assert row[0] == names[a]
            assert shown == pytest.approx([100 * counts[a, b] / total for b in range(5)], abs=0.051)


def test_confusion_with_the_expert_is_counted_before_and_after():
    night, decoding = full_night()
    names = decoding.profile.scheme.names
    tables = {
        table.one("caption").text: [pages.cells(row) for row in table.all("tr")]
        for table in section(full(), "agreement").all("table")
        if table.one("caption").text in ("Before", "After")
    }
    for name, labels in (("Before", decoding.argmax), ("After", decoding.hypnogram.labels)):
        head, *rows = tables[name]
        assert head == ["truth \\ night", *names]
        counts = confusion_matrix(night.expert.labels, labels, labels=range(5))
        for stage, row in enumerate(rows):
            shown = [cell.split() for cell in row[1:]]
            assert row[0] == names[stage]
            assert [int(cell[0]) for cell in shown] == counts[stage].tolist()
            shares = 100 * counts[stage] / counts[stage].sum()
            assert [float(cell[1]) for cell in shown] == pytest.approx(shares.tolist(), abs=0.51)


def test_without_an_expert_there_is_no_confusion():
    page = pages.read(night_report(full_night()[1]))
    assert not [node for node in page.all("h3") if node.text == "Confusion"]


def test_transitions_stop_at_gaps_and_cuts_and_a_missing_stage_is_a_dash():
    labels = np.repeat([0, 1, 0, 1], 30)
    decoding = decode(one_hot(labels), sg.Profile.from_dict(plain()), segments=[0, 60])
    tables = list(section(night_report(decoding), "transitions").all("table"))
    rows = [pages.cells(row) for row in tables[1].all("tr")][1:]
    assert rows[0][1:] == ["96.7", "3.3", "0.0"]  # 58 stays, 2 changes
    assert rows[1][1:] == ["0.0", "100.0", "0.0"]  # the change of 1 to 0 is the cut
    assert rows[2][1:] == ["–"] * 3


@pytest.mark.parametrize(("html", "made"), [(full, full_night), (mouse, mouse_day)])
def test_changes_are_grouped_by_rule_and_all_are_listed(html, made):
    found = sg.explain(made()[1])
    groups = list(section(html(), "changes").all("details"))
    numbers = [int(group.one("summary").one("b").text.replace(",", "")) for group in groups]
    assert sum(numbers) == len(found)
    assert numbers == sorted(numbers, reverse=True)
    rows = [pages.cells(row)[0] for group in groups for row in group.one("tbody").all("tr")]
    expected = [
        f"{c.first_epoch + 1}" + (f"–{c.first_epoch + c.n_epochs}" if c.n_epochs > 1 else "") for c in found
    ]
    assert sorted(rows) == sorted(expected)
    assert all("open" not in group.attributes for group in groups)


def test_the_clock_s_changes_name_the_stage_it_holds_back(monkeypatch):
    _, decoding = full_night()
    scheme = decoding.profile.scheme
    short = replace(sg.explain(decoding)[0], n_epochs=1, after=("N2",))
    decided = [("clock", "R"), ("clock", "R"), ("clock", "N3"), ("minimum bout", "R")]
    made = [replace(short, rule=rule, before=(before,)) for rule, before in decided]
    groups = words.change_groups(made, scheme, 30.0)
    assert [(group.n_changes, group.by) for group in groups] == [
        (2, "by the clock's REM rule"), (1, "by a minimum bout"), (1, "by the clock's N3 rule"),
    ]  # fmt: skip
    monkeypatch.setattr(words, "MOST_CHANGES", 1)
    groups = words.change_groups(made, scheme, 30.0)
    assert [group.n_changes for group in groups] == [2, 1, 1]
    assert sum(len(group.rows) for group in groups) == 1


def test_every_rule_has_words():
    assert {*words.BY, "clock"} == set(get_args(Rule))


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
    assert len(lanes) == MOST_EVENT_LANES
    assert lanes[-1].name == "others"
    assert sum(len(lane.begins) for lane in lanes) == len(many)
    assert event_lanes([], night) == ()


def test_annotations_and_quality_reach_the_page():
    night, decoding = full_night()
    lost = np.zeros(960)
    lost[100:110] = 0.5
    given = decode(night.density, "human-psg-5", quality=lost)
    picture = section(night_report(given, annotations=[Event(600.0, 12.0, "Arousal <1>")]), "night")
    texts = [text.text for text in picture.all("text")]
    assert {"Arousal <1>", "signal lost", "cycles"} <= set(texts)
    assert "Signal lost: from nothing (empty) to all of it (filled)" in picture.text
    plain_texts = [text.text for text in section(night_report(decoding), "night").all("text")]
    assert not {"Arousal <1>", "signal lost"} & set(plain_texts)


def test_the_joint_score_stands_first_among_the_bands():
    _, decoding = full_night()
    (picture,) = section(full(), "validity").all("svg")
    texts = [text.text for text in picture.all("text")]
    joint = sg.validity(decoding).joint
    place = texts.index("Joint score")
    assert place < texts.index("Fragmentation index (FI)")
    assert f"{joint.value:.2f}" in texts[place : place + 6]
    assert f"0.00 to {joint.high:.2f}" in texts[place : place + 6]
    assert math.isfinite(joint.value)

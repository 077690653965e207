"""The report's pictures of a night: every bar, mark and shade stands where the labels say."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from xml.etree import ElementTree

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from stageguard.night.colours import STAGES, top_down
from stageguard.report.hypnogram_svg import (
    DENSITY_LANE,
    LEVELS,
    LIT,
    MARKS,
    PAGE_FRAME,
    STRIP_HEIGHT,
    TINT,
    UNLIT,
    EventLane,
    Mark,
    page_picture,
)
from stageguard.report.svg import INK, colour_of
from stageguard.synthetic.night import simulate_night

LEFT, PLOT = PAGE_FRAME.left, PAGE_FRAME.plot


@pytest.fixture(scope="module")
def night():
    return simulate_night("human-psg-5", hours=4, seed=2)


@pytest.fixture(scope="module")
def decoding(night):
    return decode(night.density, "human-psg-5")


@pytest.fixture(scope="module")
def mouse():
    simulated = simulate_night("mouse-eeg-emg-3", hours=24, seed=1)
    return decode(replace(simulated.density, start=datetime(2024, 5, 1, 7)), "mouse-eeg-emg-3")


def paths(svg, **wanted):
    elements = ElementTree.fromstring(svg).iter("path")
    return [e for e in elements if all(e.get(key) == value for key, value in wanted.items())]


def blocks(path):
    """First and last horizontal place of each closed block of a path."""
    found = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", path.get("d"))
    return [(float(a), float(a) + float(b)) for a, b in found]


def test_changed_epochs_are_marked_once_in_black_and_shaded_in_both_panels(decoding):
    svg = page_picture(decoding)
    (black,) = [path for path in paths(svg, fill=INK) if "v11" in path.get("d")]
    shades = paths(svg, fill=TINT)
    assert len(shades) == 2
    flags = np.concatenate([[False], decoding.changed, [False]]).astype(int)
    starts, ends = np.flatnonzero(np.diff(flags) == 1), np.flatnonzero(np.diff(flags) == -1)
    assert len(starts) > 5
    n_epochs = len(decoding.changed)
    for path in (black, *shades):
        drawn = blocks(path)
        assert [a for a, _ in drawn] == pytest.approx(LEFT + PLOT * starts / n_epochs, abs=0.11)
        assert [b for _, b in drawn] == pytest.approx(LEFT + PLOT * ends / n_epochs, abs=0.11)


def test_an_unchanged_night_has_no_marks():
    decoding = decode(np.tile([0.9, 0.1], (50, 1)), "kdd2026-actigraphy")
    svg = page_picture(decoding)
    assert paths(svg, fill=TINT) == []
    assert [path for path in paths(svg, fill=INK) if "v11" in path.get("d")] == []


def test_rare_events_stand_at_their_epochs_each_fate_with_its_own_shape(decoding):
    marks = [Mark(0, "kept"), Mark(120, "lost"), Mark(240, "new"), Mark(479, "kept")]
    svg = page_picture(decoding, marks=marks)
    for kind, shape in MARKS.items():
        drawn, _legend = (path.get("d") for path in paths(svg) if shape in path.get("d"))
        places = [float(x) for x in re.findall(rf"M([\d.]+) [\d.]+{re.escape(shape)}", drawn)]
        epochs = [mark.epoch for mark in marks if mark.kind == kind]
        assert places == pytest.approx([LEFT + PLOT * epoch / 480 for epoch in epochs], abs=0.06)
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert {"rare events", "kept rare event", "lost rare event", "new rare event"} <= set(texts)
    assert "rare events" not in [
        element.text for element in ElementTree.fromstring(page_picture(decoding)).iter("text")
    ]


def areas(svg, height=STRIP_HEIGHT):
    """Area below each step path in pixels of its picture, in order: (colour, area, top)."""
    found = []
    for group in ElementTree.fromstring(svg).iter("g"):
        _, top, across, down = map(float, re.findall(r"[\d.]+", group.get("transform")))
        if down == pytest.approx(height / LEVELS):
            for path in group.iter("path"):
                y, area = LEVELS, 0
                for command, value in re.findall(r"([vh])(-?\d+)", path.get("d")):
                    y, area = (
                        (y + int(value), area) if command == "v" else (y, area + int(value) * (LEVELS - y))
                    )
                found.append((path.get("fill"), area * across * down, top))
    return found


def test_a_long_recording_shows_the_share_of_each_stage_in_bins(mouse):
    svg = page_picture(mouse)
    order = [mouse.hypnogram.scheme.names.index(name) for name in ("N", "R", "W")]  # from the floor up
    tops = sorted({top for *_, top in areas(svg)})
    assert len(tops) == 3  # before, after, probabilities
    for labels, top in zip((mouse.argmax, mouse.hypnogram.labels), tops, strict=False):
        drawn = {colour: area / PLOT / STRIP_HEIGHT for colour, area, at in areas(svg) if at == top}
        roofs = np.cumsum([np.mean(labels == stage) for stage in order])
        for name, roof in zip(("N", "R", "W"), roofs, strict=True):
            assert drawn[STAGES[name].light] == pytest.approx(roof, abs=5e-3)
    assert len(svg) < 60_000
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert "shares of 5 min" in texts


def test_changes_and_events_of_a_long_recording_are_densities(mouse):
    events = [EventLane("Arousal", np.array([10.0, 11.0, 9000.5]), np.array([1.0, 1.0, 3.0]))]
    svg = page_picture(mouse, events=events, marks=[Mark(5, "lost"), Mark(9000, "kept")])
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    starts = np.diff(mouse.changed.astype(int), prepend=0) == 1
    counts = np.add.reduceat(starts, np.arange(0, 21600, 75), dtype=int)
    assert f"to {counts.max()} in 5 min" in texts
    assert "to 2 in 5 min" in texts  # arousals
    assert "to 1 in 5 min" in texts
    changed, marks, arousals = (area for _, area, _ in areas(svg, DENSITY_LANE))
    whole = PLOT * DENSITY_LANE
    assert changed / whole == pytest.approx(counts.mean() / counts.max(), abs=0.01)
    assert marks / whole == pytest.approx(2 / 288, rel=0.01)
    assert arousals / whole == pytest.approx(1.5 / 288, rel=0.01)


def test_annotations_stand_where_they_are(decoding):
    lane = EventLane("Arousal", np.array([100.0, 479.5]), np.array([2.5, 8.0]))
    svg = page_picture(decoding, events=[lane])
    path = [path for path in paths(svg, fill=INK) if "v11" in path.get("d")][-1]  # below the changes
    expected = [(LEFT + PLOT * a / 480, LEFT + PLOT * b / 480) for a, b in ((100, 102.5), (479.5, 480))]
    assert [x for pair in blocks(path) for x in pair] == pytest.approx(np.ravel(expected), abs=0.11)


def test_lost_signal_is_drawn_by_its_share(night):
    lost = np.zeros(480)
    lost[100:160], lost[200:220] = 1.0, 0.5
    decoding = decode(night.density, "human-psg-5", quality=lost)
    svg = page_picture(decoding, quality=decoding.night.quality)
    ((_, area, _),) = areas(svg, DENSITY_LANE)
    assert area / PLOT / DENSITY_LANE == pytest.approx(70 / 480, abs=1e-3)


def test_cycles_are_those_of_the_statistics(night):
    whole = simulate_night("human-psg-5", seed=0)
    decoding = decode(whole.density, "human-psg-5")
    statistics = sg.sleep_statistics(decoding)
    assert len(statistics.cycle_epochs) == statistics.cycles >= 3
    labels = decoding.hypnogram.labels
    for first, stop in statistics.cycle_epochs:
        assert labels[first] in (2, 3)  # begins with sleep deeper than N1
        assert labels[stop - 1] > 0
    svg = page_picture(decoding, cycles=statistics.cycle_epochs)
    brackets = [
        p.get("d") for p in paths(svg) if re.fullmatch(r"M[\d. ]+v5H[\d.]+M[\d. ]+H[\d.]+v-5", p.get("d"))
    ]
    begins = [float(re.match(r"M([\d.]+)", d)[1]) for d in brackets]
    expected = [LEFT + PLOT * first / 960 + 1 for first, _ in statistics.cycle_epochs]
    assert begins == pytest.approx(expected, abs=0.06)


def test_the_dark_phase_is_dark_and_the_light_phase_light(mouse):
    # 07:00 to 07:00; lights on at 08:00 means 23 h of zeitgeber time at the start
    svg = page_picture(mouse, zeitgeber=23 * 3600.0)
    (light,) = [e for e in ElementTree.fromstring(svg).iter("rect") if e.get("fill") == LIT]
    assert (float(light.get("x")), float(light.get("width"))) == (LEFT, PLOT)
    (dark,) = paths(svg, fill=UNLIT)
    found = [((a - LEFT) / PLOT, (b - LEFT) / PLOT) for a, b in blocks(dark)]
    assert found == [pytest.approx((0, 1 / 24), abs=1e-3), pytest.approx((13 / 24, 1), abs=1e-3)]


def test_lights_are_drawn_at_their_epochs(decoding):
    svg = page_picture(decoding, lights=[(60, "lights off"), (450, "lights on")])
    lines = [path.get("d") for path in paths(svg) if path.get("stroke-dasharray")]
    places = [float(re.match(r"M([\d.]+)", line)[1]) for line in lines]
    assert places == pytest.approx([LEFT + PLOT * 60 / 480, LEFT + PLOT * 450 / 480], abs=0.06)


def test_probabilities_are_stacked_with_wake_on_top(decoding):
    svg = page_picture(decoding)
    scheme = decoding.hypnogram.scheme
    assert [scheme.names[stage] for stage in top_down(scheme)] == ["W", "R", "N1", "N2", "N3"]
    drawn = {colour: area / PLOT / STRIP_HEIGHT for colour, area, _ in areas(svg)}
    roof = 0.0
    for name in ("N3", "N2", "N1", "R", "W"):  # each covers all below it
        roof += decoding.density.probabilities[:, scheme.names.index(name)].mean()
        assert drawn[STAGES[name].light] == pytest.approx(roof, abs=3e-3)
    assert [colour for colour, *_ in areas(svg)] == [STAGES[n].light for n in ("W", "R", "N1", "N2", "N3")]


def test_every_stage_has_a_colour_of_its_own():
    for name in ("aasm5", "wnr3", "ws2"):
        scheme = sg.StageScheme.named(name)
        assert len({colour_of(scheme, stage) for stage in range(scheme.n_stages)}) == scheme.n_stages
    own = sg.StageScheme.custom(["a1", "b1", "c1", "d1", "e1"])
    assert len({colour_of(own, stage) for stage in range(5)}) == 5

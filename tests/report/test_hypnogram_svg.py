"""The picture of a night: safe, light, and every bar, mark and shade stands where the labels say."""

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
    FILE_FRAME,
    LEVELS,
    LIT,
    MARKS,
    PAGE_FRAME,
    STRIP_HEIGHT,
    TINT,
    UNLIT,
    EventLane,
    Mark,
    hypnogram_svg,
    page_picture,
)
from stageguard.report.svg import INK, colour_of
from stageguard.synthetic.night import simulate_night

SVG = "{http://www.w3.org/2000/svg}"
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


def texts(svg):
    elements = ElementTree.fromstring(svg).iter()
    return [element.text or "" for element in elements if element.tag.rpartition("}")[2] == "text"]


def paths(svg, **wanted):
    elements = ElementTree.fromstring(svg).iter("path")
    return [e for e in elements if all(e.get(key) == value for key, value in wanted.items())]


def blocks(path):
    """First and last horizontal place of each closed block of a path."""
    found = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v", path.get("d"))
    return [(float(a), float(a) + float(b)) for a, b in found]


def lane(svg):
    """The blocks of the last lane."""
    return [path for path in paths(svg, fill=INK) if "v11" in path.get("d")]


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


def test_bars_are_as_long_as_the_stages(night, decoding):
    root = ElementTree.fromstring(hypnogram_svg(decoding, night.expert))
    for stage, name in enumerate(decoding.hypnogram.scheme.names):
        drawn = [p.get("d") for p in root.iter(f"{SVG}path") if p.get("stroke") == STAGES[name].light]
        lengths = [
            sum(float(b) - float(a) for a, b in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", d)) for d in drawn
        ]
        scorings = night.expert.labels, decoding.argmax, decoding.hypnogram.labels
        expected = [FILE_FRAME.plot * np.mean(labels == stage) for labels in scorings]
        assert lengths == pytest.approx(expected, abs=2e-3 * FILE_FRAME.plot)


def test_panels_and_counts_are_named(night, decoding):
    shown = texts(hypnogram_svg(decoding, night.expert, title="Night 7"))
    assert {"Night 7", "Truth", "Stager", "Guarded", "changed", "Probabilities", "hours"} <= set(shown)
    n_changed = int(decoding.changed.sum())
    assert n_changed > 0
    assert any(f"{n_changed:,} of 480 scored epochs changed" in text for text in shown)
    assert "Expert" in texts(hypnogram_svg(decoding, replace(night.expert, scorer="Dr. A")))
    assert not {"Expert", "Truth"} & set(texts(hypnogram_svg(decoding)))


def test_a_start_time_gives_a_clock(night):
    decoding = decode(replace(night.density, start=datetime(2024, 5, 1, 22, 45)), "human-psg-5")
    svg = hypnogram_svg(decoding)
    places = {e.text: float(e.get("x")) for e in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    assert "clock time" in places and "22:45" not in places
    assert places["23:00"] == pytest.approx(FILE_FRAME.left + FILE_FRAME.plot * 0.25 / 4, abs=0.1)


def test_text_cannot_break_out(decoding):
    svg = hypnogram_svg(decoding, title="<script>alert('x')</script> & \"quotes\" \x07\x00")
    assert "<script" not in svg and "href" not in svg
    tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
    assert not tags & {f"{SVG}script", f"{SVG}image", f"{SVG}use"}
    assert "<script>alert('x')</script> & \"quotes\"" in texts(svg)[0]


def test_long_recordings_stay_light_and_gaps_stay_visible():
    night = simulate_night("mouse-eeg-emg-3", hours=24, seed=1)
    probabilities = night.density.probabilities.copy()
    probabilities[5000:6000] = np.nan
    svg = hypnogram_svg(sg.decode(replace(night.density, probabilities=probabilities), "mouse-eeg-emg-3"))
    assert len(svg) < 500_000
    assert "no evidence" in texts(svg)


@pytest.mark.parametrize("n_epochs", [1, 2, 50])
def test_a_tiny_night_without_any_change_draws(n_epochs):
    decoding = sg.decode(np.tile([0.9, 0.1], (n_epochs, 1)), "kdd2026-actigraphy")
    svg = page_picture(decoding)
    assert "0 stage changes" in texts(svg)
    assert paths(svg, fill=TINT) == lane(svg) == []


def test_own_stage_names_are_drawn_in_their_order_and_colours():
    stages = ["wake", "light", "deep"]
    moves = {a: {b: 0.9 if a == b else 0.05 for b in stages} for a in stages}
    own = {"name": "own", "stages": stages, "wake": "wake", "epoch_seconds": 30.0, "transitions": moves}
    decoding = sg.decode(np.full((20, 3), 1 / 3), sg.Profile.from_dict(own))
    assert [text for text in texts(hypnogram_svg(decoding)) if text in stages][:3] == stages
    for names in (stages, ["W", "N1", "N2", "N3", "R"], ["a1", "b1", "c1", "d1", "e1"]):
        scheme = sg.StageScheme.custom(names)
        assert len({colour_of(scheme, stage) for stage in range(len(names))}) == len(names)


def test_changed_epochs_are_marked_once_in_black_and_shaded_in_both_panels(decoding):
    svg = page_picture(decoding)
    (black,) = lane(svg)
    shades = paths(svg, fill=TINT)
    assert len(shades) == 2
    edges = np.flatnonzero(np.diff(decoding.changed.astype(int), prepend=0, append=0)).reshape(-1, 2)
    assert len(edges) > 5
    for path in (black, *shades):
        expected = LEFT + PLOT * edges / len(decoding.changed)
        assert np.ravel(blocks(path)) == pytest.approx(expected.ravel(), abs=0.11)


def test_rare_events_stand_at_their_epochs_each_fate_with_its_own_shape(decoding):
    marks = [Mark(0, "kept"), Mark(120, "lost"), Mark(240, "new"), Mark(479, "kept")]
    svg = page_picture(decoding, marks=marks)
    for kind, shape in MARKS.items():
        drawn, _legend = (path.get("d") for path in paths(svg) if shape in path.get("d"))
        places = [float(x) for x in re.findall(rf"M([\d.]+) [\d.]+{re.escape(shape)}", drawn)]
        epochs = [mark.epoch for mark in marks if mark.kind == kind]
        assert places == pytest.approx([LEFT + PLOT * epoch / 480 for epoch in epochs], abs=0.06)
    assert {"rare events", "kept rare event", "lost rare event", "new rare event"} <= set(texts(svg))
    assert "rare events" not in texts(page_picture(decoding))


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
    assert "shares of 5 min" in texts(svg)


def test_changes_and_events_of_a_long_recording_are_counted_in_bins(mouse):
    events = [EventLane("Arousal", np.array([10.0, 11.0, 9000.5]), np.array([1.0, 1.0, 3.0]))]
    svg = page_picture(mouse, events=events, marks=[Mark(5, "lost"), Mark(9000, "kept")])
    starts = np.diff(mouse.changed.astype(int), prepend=0) == 1
    counts = np.add.reduceat(starts, np.arange(0, 21600, 75), dtype=int)
    # changes, arousals, rare events
    assert {f"to {counts.max()} in 5 min", "to 2 in 5 min", "to 1 in 5 min"} <= set(texts(svg))
    shares = [area / PLOT / DENSITY_LANE for _, area, _ in areas(svg, DENSITY_LANE)]
    assert shares == pytest.approx([counts.mean() / counts.max(), 2 / 288, 1.5 / 288], rel=0.02)


def test_annotations_stand_where_they_are(decoding):
    arousals = EventLane("Arousal", np.array([100.0, 479.5]), np.array([2.5, 8.0]))
    path = lane(page_picture(decoding, events=[arousals]))[-1]  # below the changes
    expected = [(LEFT + PLOT * a / 480, LEFT + PLOT * b / 480) for a, b in ((100, 102.5), (479.5, 480))]
    assert np.ravel(blocks(path)) == pytest.approx(np.ravel(expected), abs=0.11)


def test_lost_signal_is_drawn_by_its_share(night):
    lost = np.zeros(480)
    lost[100:160], lost[200:220] = 1.0, 0.5
    decoding = decode(night.density, "human-psg-5", quality=lost)
    ((_, area, _),) = areas(page_picture(decoding, quality=decoding.night.quality), DENSITY_LANE)
    assert area / PLOT / DENSITY_LANE == pytest.approx(70 / 480, abs=1e-3)


def test_cycles_are_brackets_from_their_first_epoch(decoding):
    svg = page_picture(decoding, cycles=[(20, 200), (200, 420)])
    found = [re.fullmatch(r"M([\d.]+) [\d.]+v5H[\d.]+M[\d. ]+H([\d.]+)v-5", p.get("d")) for p in paths(svg)]
    places = [[float(place) for place in each.groups()] for each in found if each]
    expected = [[LEFT + PLOT * a / 480 + 1, LEFT + PLOT * b / 480 - 1] for a, b in ((20, 200), (200, 420))]
    assert np.ravel(places) == pytest.approx(np.ravel(expected), abs=0.06)


def test_the_dark_phase_is_dark_and_the_light_phase_light(mouse):
    # 07:00 to 07:00; lights on at 08:00 means 23 h of zeitgeber time at the start
    svg = page_picture(mouse, zeitgeber=23 * 3600.0)
    (light,) = [e for e in ElementTree.fromstring(svg).iter("rect") if e.get("fill") == LIT]
    assert (float(light.get("x")), float(light.get("width"))) == (LEFT, PLOT)
    (dark,) = paths(svg, fill=UNLIT)
    expected = np.array([0, 1 / 24, 13 / 24, 1])
    assert (np.ravel(blocks(dark)) - LEFT) / PLOT == pytest.approx(expected, abs=1e-3)


def test_lights_are_drawn_at_their_epochs(decoding):
    svg = page_picture(decoding, lights=[(60, "lights off"), (450, "lights on")])
    lines = [path.get("d") for path in paths(svg) if path.get("stroke-dasharray")]
    places = [float(re.match(r"M([\d.]+)", line)[1]) for line in lines]
    assert places == pytest.approx([LEFT + PLOT * 60 / 480, LEFT + PLOT * 450 / 480], abs=0.06)


def test_probabilities_are_stacked_with_wake_on_top(decoding):
    scheme, drawn = decoding.hypnogram.scheme, areas(page_picture(decoding))
    order = [scheme.names[stage] for stage in top_down(scheme)]
    assert order == ["W", "R", "N1", "N2", "N3"]
    assert [colour for colour, *_ in drawn] == [STAGES[name].light for name in order]
    means = [decoding.density.probabilities[:, scheme.names.index(name)].mean() for name in order]
    roofs = np.cumsum(means[::-1])[::-1]  # each covers all below it
    assert [area / PLOT / STRIP_HEIGHT for _, area, _ in drawn] == pytest.approx(roofs, abs=3e-3)

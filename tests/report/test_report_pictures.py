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
from stageguard.report.hypnogram_svg import PAGE_FRAME, page_strips
from stageguard.report.night_panels import MARKS, TINT, Mark
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
    found = re.findall(r"M([\d.]+) [\d.]+H([\d.]+)v", path.get("d"))
    return [(float(a), float(b)) for a, b in found]


def test_changed_epochs_are_marked_once_in_black_and_shaded_in_both_panels(decoding):
    (svg,) = page_strips(decoding)
    (black,) = [path for path in paths(svg, fill=INK) if "v11" in path.get("d")]
    shades = paths(svg, fill=TINT)
    assert len(shades) == 2
    flags = np.concatenate([[False], decoding.changed, [False]]).astype(int)
    starts, ends = np.flatnonzero(np.diff(flags) == 1), np.flatnonzero(np.diff(flags) == -1)
    assert len(starts) > 5
    n_epochs = len(decoding.changed)
    for path in (black, *shades):
        drawn = blocks(path)
        assert [a for a, _ in drawn] == pytest.approx(LEFT + PLOT * starts / n_epochs, abs=0.01)
        assert [b for _, b in drawn] == pytest.approx(LEFT + PLOT * ends / n_epochs, abs=0.01)


def test_an_unchanged_night_has_no_marks():
    decoding = decode(np.tile([0.9, 0.1], (50, 1)), "kdd2026-actigraphy")
    (svg,) = page_strips(decoding)
    assert paths(svg, fill=TINT) == []
    assert [path for path in paths(svg, fill=INK) if "v11" in path.get("d")] == []


def test_rare_events_stand_at_their_epochs_each_fate_with_its_own_shape(decoding):
    marks = [Mark(0, "kept"), Mark(120, "lost"), Mark(240, "new"), Mark(479, "kept")]
    (svg,) = page_strips(decoding, marks=marks)
    for kind, shape in MARKS.items():
        drawn = [re.findall(r"[\d.]+", path.get("transform"))[0] for path in paths(svg, d=shape)]
        *places, _legend = map(float, drawn)
        epochs = [mark.epoch for mark in marks if mark.kind == kind]
        assert places == pytest.approx([LEFT + PLOT * epoch / 480 for epoch in epochs], abs=0.06)
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert {"rare events", "kept rare event", "lost rare event", "new rare event"} <= set(texts)
    assert "rare events" not in [
        element.text for element in ElementTree.fromstring(page_strips(decoding)[0]).iter("text")
    ]


def test_strips_together_show_every_epoch_once(mouse):
    strips = page_strips(mouse)
    assert len(strips) == 4
    for stage, name in enumerate(("W", "N", "R")):
        lengths = np.zeros(2)
        for svg in strips:
            bars = paths(svg, stroke=STAGES[name].light)
            assert len(bars) == 2
            for panel, path in enumerate(bars):
                found = re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path.get("d"))
                lengths[panel] += sum(float(b) - float(a) for a, b in found) / PLOT / 4
        shares = [np.mean(labels == stage) for labels in (mouse.argmax, mouse.hypnogram.labels)]
        assert lengths == pytest.approx(shares, abs=2e-3)


def test_the_dark_phase_is_black_and_the_light_phase_empty(mouse):
    # 07:00 to 07:00; lights on at 08:00 means 23 h of zeitgeber time at the start
    strips = page_strips(mouse, zeitgeber=23 * 3600.0)
    expected = [[("dark", 0, 1 / 6), ("light", 1 / 6, 1)], [("light", 0, 1)],
                [("light", 0, 1 / 6), ("dark", 1 / 6, 1)], [("dark", 0, 1)]]  # fmt: skip
    for svg, phases in zip(strips, expected, strict=True):
        bars = [e for e in ElementTree.fromstring(svg).iter("rect") if e.get("stroke") == INK]
        found = [
            (
                "dark" if bar.get("fill") == INK else "light",
                (float(bar.get("x")) - LEFT) / PLOT,
                (float(bar.get("x")) + float(bar.get("width")) - LEFT) / PLOT,
            )
            for bar in bars
        ]
        assert [name for name, *_ in found] == [name for name, *_ in phases]
        assert [place[1:] for place in found] == [pytest.approx(place[1:], abs=1e-3) for place in phases]


def test_lights_are_drawn_at_their_epochs(decoding):
    (svg,) = page_strips(decoding, lights=[(60, "lights off"), (450, "lights on")])
    lines = [path.get("d") for path in paths(svg) if path.get("stroke-dasharray")]
    places = [float(re.match(r"M([\d.]+)", line)[1]) for line in lines]
    assert places == pytest.approx([LEFT + PLOT * 60 / 480, LEFT + PLOT * 450 / 480], abs=0.06)


def test_probabilities_are_stacked_with_wake_on_top(decoding):
    (svg,) = page_strips(decoding)
    scheme = decoding.hypnogram.scheme
    assert [scheme.names[stage] for stage in top_down(scheme)] == ["W", "R", "N1", "N2", "N3"]
    areas = {path.get("fill"): path.get("d") for path in paths(svg) if path.get("d").endswith("z")}
    covered = 0.0
    for stage in range(5):
        moves = areas[colour_of(scheme, stage)]
        x, y, area = None, None, 0.0
        for command, value in re.findall(r"([MHV])([\d.]+(?: [\d.]+)?)", moves):
            if command == "M":
                x, y = map(float, value.split())
            elif command == "V":
                y = float(value)
            else:
                area -= (float(value) - x) * y  # the roof is walked forwards, the floor backwards
                x = float(value)
        share = area / PLOT / 64
        assert share == pytest.approx(decoding.density.probabilities[:, stage].mean(), abs=3e-3)
        covered += share
    assert covered == pytest.approx(1.0, abs=1e-3)


def test_every_stage_has_a_colour_of_its_own():
    for name in ("aasm5", "wnr3", "ws2"):
        scheme = sg.StageScheme.named(name)
        assert len({colour_of(scheme, stage) for stage in range(scheme.n_stages)}) == scheme.n_stages
    own = sg.StageScheme.custom(["a1", "b1", "c1", "d1", "e1"])
    assert len({colour_of(own, stage) for stage in range(5)}) == 5

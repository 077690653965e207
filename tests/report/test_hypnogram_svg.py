"""The picture of a night: valid, self-contained, safe, and true to the labels."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from xml.etree import ElementTree

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from stageguard.night.colours import STAGES
from stageguard.report.hypnogram_svg import FILE_FRAME, hypnogram_svg
from stageguard.synthetic.night import simulate_night

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def night():
    return simulate_night("human-psg-5", hours=4, seed=2)


@pytest.fixture(scope="module")
def decoding(night):
    return sg.decode(night.density, "human-psg-5")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def covered(svg: str, colour: str, attribute: str = "stroke") -> list[float]:
    """Length of all horizontal bars of one colour, in epochs-free units, path by path."""
    root = ElementTree.fromstring(svg)
    paths = [p.get("d") or "" for p in root.iter(f"{SVG}path") if p.get(attribute) == colour]
    return [
        sum(float(b) - float(a) for a, b in re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", path)) for path in paths
    ]


def test_bars_are_as_long_as_the_stages(night, decoding):
    svg = hypnogram_svg(decoding, night.expert)
    for stage, name in enumerate(decoding.hypnogram.scheme.names):
        truth, before, after = covered(svg, STAGES[name].light)
        for length, labels in ((truth, night.expert.labels), (before, decoding.argmax),
                               (after, decoding.hypnogram.labels)):  # fmt: skip
            assert length / FILE_FRAME.plot == pytest.approx(np.mean(labels == stage), abs=2e-3)


def test_panels_and_counts_are_named(night, decoding):
    shown = texts(hypnogram_svg(decoding, night.expert, title="Night 7"))
    assert {"Night 7", "Truth", "Stager", "Guarded", "changed", "Probabilities", "hours"} <= set(shown)
    n_changed = int(decoding.changed.sum())
    assert n_changed > 0
    assert any(f"{n_changed:,} of 480 scored epochs changed" in text for text in shown)
    scored = replace(night.expert, scorer="Dr. A")
    assert "Expert" in texts(hypnogram_svg(decoding, scored))
    assert not {"Expert", "Truth"} & set(texts(hypnogram_svg(decoding)))


def test_a_start_time_gives_a_clock(night):
    start = datetime(2024, 5, 1, 22, 45)
    decoding = decode(replace(night.density, start=start), "human-psg-5")
    shown = texts(hypnogram_svg(decoding))
    assert "clock time" in shown
    assert "23:00" in shown
    assert "22:45" not in shown
    first_tick = next(
        element for element in ElementTree.fromstring(hypnogram_svg(decoding)).iter(f"{SVG}text")
        if element.text == "23:00"
    )  # fmt: skip
    assert float(first_tick.get("x") or 0) == pytest.approx(
        FILE_FRAME.left + FILE_FRAME.plot * 0.25 / 4, abs=0.1
    )


def test_text_cannot_break_out(decoding):
    title = "<script>alert('x')</script> & \"quotes\" \x07\x00"
    svg = hypnogram_svg(decoding, title=title)
    root = ElementTree.fromstring(svg)
    assert "<script" not in svg
    assert not {element.tag for element in root.iter()} & {f"{SVG}script", f"{SVG}image", f"{SVG}use"}
    assert "href" not in svg
    assert "<script>alert('x')</script> & \"quotes\"" in texts(svg)[0]


def test_long_recordings_stay_light_and_gaps_stay_visible():
    night = simulate_night("mouse-eeg-emg-3", hours=24, seed=1)
    probabilities = night.density.probabilities.copy()
    probabilities[5000:6000] = np.nan
    decoding = sg.decode(replace(night.density, probabilities=probabilities), "mouse-eeg-emg-3")
    svg = hypnogram_svg(decoding)
    assert len(svg) < 500_000
    assert "no evidence" in texts(svg)
    ElementTree.fromstring(svg)


@pytest.mark.parametrize("n_epochs", [1, 2, 7])
def test_tiny_nights_draw(n_epochs):
    decoding = sg.decode(np.full((n_epochs, 2), 0.5), "kdd2026-actigraphy")
    assert ElementTree.fromstring(hypnogram_svg(decoding)).tag.endswith("svg")


def test_a_night_without_any_change_draws():
    probabilities = np.tile([0.9, 0.1], (50, 1))
    decoding = sg.decode(probabilities, "kdd2026-actigraphy")
    assert not decoding.changed.any()
    shown = texts(hypnogram_svg(decoding))
    assert "0 stage changes" in shown


def test_own_stage_names_are_drawn_in_their_order():
    stages = ["wake", "light", "deep"]
    profile = sg.Profile.from_dict(
        {
            "name": "own",
            "stages": stages,
            "wake": "wake",
            "epoch_seconds": 30.0,
            "transitions": {a: {b: 0.9 if a == b else 0.05 for b in stages} for a in stages},
        }
    )
    shown = texts(hypnogram_svg(sg.decode(np.full((20, 3), 1 / 3), profile)))
    labels = [text for text in shown if text in stages]
    assert labels[:3] == stages

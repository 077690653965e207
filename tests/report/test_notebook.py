"""What notebooks show of objects: one block, escaped, bounded, legible on white and on black."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import stageguard as sg
from nights import decode, random_probabilities
from test_architecture import third_party_after

HOSTILE = "<script>alert(1)</script>"


def night(n_epochs=960, seed=0, **described):
    rng = np.random.default_rng(seed)
    density = sg.Hypnodensity(random_probabilities(rng, n_epochs, 5), "aasm5", 30.0, **described)
    return density, decode(density, "human-psg-5")


def shown(thing):
    """Return what a notebook shows, as well-formed markup."""
    html = thing._repr_html_()
    return html, ElementTree.fromstring(html)


def things():
    density, decoding = night(source=HOSTILE)
    hypnogram = sg.Hypnogram(decoding.hypnogram.labels, "aasm5", 30.0, scorer=HOSTILE)
    return {
        "decoding": decoding,
        "hypnogram": hypnogram,
        "density": density,
        "statistics": sg.sleep_statistics(decoding),
    }


@pytest.mark.parametrize("name", ["decoding", "hypnogram", "density", "statistics"])
def test_a_view_is_small_escaped_and_legible_on_white_and_on_black(name):
    thing = things()[name]
    html, tree = shown(thing)
    assert len(html) < 30_000
    assert "<script" not in html
    assert not re.search(r"(?<!fill-)\bcolor:(?!inherit)", html)  # of words, which are outside of pictures
    for ground in (parent for parent in tree.iter() if parent.find("svg") is not None):
        assert "background:#FFFFFF" in ground.get("style")
    assert repr(thing).count("\n") <= 2
    assert len(repr(thing)) < 600


@pytest.mark.parametrize("n_epochs", [1, 1_000, 1_000_000])
def test_views_of_nights_are_bounded(n_epochs):
    rng = np.random.default_rng(1)
    scheme = sg.StageScheme.custom([f"state {k}" for k in range(8)])
    flickering = sg.Hypnogram(rng.integers(-1, 8, n_epochs), scheme, 4.0)
    density = sg.Hypnodensity(random_probabilities(rng, n_epochs, 8), scheme, 4.0)
    assert max(len(shown(flickering)[0]), len(shown(density)[0])) < 30_000


def test_a_flickering_decoding_of_a_thousand_epochs_stays_small():
    assert len(shown(night(1_000)[1])[0]) < 30_000


def test_a_hypnogram_is_drawn_as_in_a_report():
    _, decoding = night(n_epochs=300)
    page = sg.night_report(decoding)
    view, _ = shown(decoding)
    for colour in ("#DDAA33", "#BB5566"):  # of wake and REM
        bars = re.compile(rf'<path d="([^"]+)" stroke="{colour}" stroke-width="[\d.]+"/>')
        drawn = [re.sub(r" [\d.]+H", " H", path) for path in bars.findall(view)]
        assert len(drawn) >= 2  # before and after, whose heights on a page depend on what is above
        assert drawn == [re.sub(r" [\d.]+H", " H", path) for path in bars.findall(page)]
    own, _ = shown(decoding.hypnogram)
    assert drawn[-1] in re.sub(r" [\d.]+H", " H", own)


def test_a_long_or_flickering_hypnogram_is_drawn_as_shares():
    labels = np.zeros(2_000, dtype=int)
    labels[:1_000:2] = 1  # half of each bin of the first half
    html, _ = shown(sg.Hypnogram(labels, "ws2", 30.0))
    assert "shares of" in html
    html, _ = shown(sg.Hypnogram(labels[:900], "ws2", 30.0))
    assert "shares of" in html
    html, _ = shown(sg.Hypnogram(labels[-900:], "ws2", 30.0))
    assert "shares of" not in html


def test_a_view_loads_numpy_alone():
    code = "import stageguard as sg, numpy as np\nsg.Hypnogram(np.array([0, 1]), 'ws2', 30.0)._repr_html_()"
    assert third_party_after(code) == {"stageguard", "numpy"}


def test_representations_say_what_matters():
    decoding = night()[1]
    measured = sg.validity(decoding)
    assert repr(measured).startswith(f"<Validity human-psg-5: {measured.verdict}")
    assert all(name in repr(measured) for name in measured.outside)


def test_a_fit_is_shown_with_its_reason():
    report = sg.FitReport(
        profile=sg.Profile.load("human-psg-5"),
        base="human-psg-5",
        n_nights=12,
        n_subjects=6,
        n_scored_epochs=9_000,
        reason=f"Because {HOSTILE}.",
        notes=("few nights",),
    )
    html, _ = shown(report)
    assert "12 nights of 6 subjects" in html
    assert "Because &lt;script&gt;" in html
    assert repr(report).startswith("<FitReport 'human-psg-5': 12 nights of 6 subjects, base human-psg-5")
    assert "few nights" in html

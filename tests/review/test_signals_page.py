"""The signals of the review page in a real browser: views, the wide mode, what folds away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser import violations
from recording_files import Channel, write_edf
from reviewing import Scorer, served, write_probabilities

if TYPE_CHECKING:
    from playwright.sync_api import Page

STAGES = ["W", "N1", "N2", "N3", "R"]
N_EPOCHS, RATE = 24, 128
SCREEN = {"width": 1400, "height": 900}
DRAWN = "() => document.querySelector('#traces').toDataURL()"
# the mean height of dark pixels at a second of the first channel, from the middle of its lane downwards
TRACE_HEIGHT = """([second, seconds]) => {
  const canvas = document.querySelector('#traces');
  const [left, lane] = [92, (canvas.clientHeight - 18) / Number(canvas.dataset.lanes)];
  const x = Math.round(left + (second / seconds) * (canvas.clientWidth - left - 10));
  const { data } = canvas.getContext('2d').getImageData(x - 1, 0, 3, Math.floor(lane));
  let [sum, count] = [0, 0];
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 128 || data[at] > 90 || data[at + 2] > 90) continue;
    sum += Math.floor(at / 12);
    count += 1;
  }
  return sum / count - lane / 2;
}"""


@pytest.fixture
def night(tmp_path: Path) -> dict[str, Path]:
    """A night of wake with eight channels: in the first, a sine of 1 Hz and 75 µV from peak to peak."""
    at = np.arange(N_EPOCHS * 30 * RATE) / RATE
    rng = np.random.default_rng(0)
    sine = np.round(375 * np.sin(2 * np.pi * at))
    noise = [np.round(200 * rng.standard_normal(len(at))) for _ in range(7)]
    labels = ["EEG F4-M1", "EEG C4-M1", "EEG O2-M1", "EEG F3-M2", "EOG E1-M2", "EOG E2-M2", "EMG chin", "ECG"]
    channels = [
        Channel(label, values.astype("<i2"), RATE)
        for label, values in zip(labels, [sine, *noise], strict=True)
    ]
    rows = [[0.9, 0.025, 0.025, 0.025, 0.025]] * N_EPOCHS
    return {
        "path": write_probabilities(tmp_path / "night.csv", STAGES, rows),
        "edf": write_edf(tmp_path / "night.edf", channels),
    }


def open_signals(scorer: Scorer, url: str) -> Page:
    """Open the page at the first epoch, and wait until its signals are drawn."""
    page = scorer.open(url).page
    scorer.press("Home")
    page.wait_for_selector('#traces[aria-label^="Signals of epoch 1: EEG F4-M1"]')
    return page


def test_the_eeg_is_above_the_fold(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        for key in ("", "f"):
            if key:
                scorer.press(key)
            box = page.locator("#traces").bounding_box()
            assert box is not None and box["y"] + box["height"] <= SCREEN["height"]
            assert box["height"] > (400 if key == "" else 600)
        assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]


def test_a_night_without_signals_shows_its_lanes(scorer, night):
    with served(night["path"]) as server:
        page = scorer.open(server.url).page
        assert page.is_visible("#detail")
        page.keyboard.press("f")  # no key of a night without signals
        scorer.press("ArrowRight")
        assert page.is_visible("#profile") and page.is_hidden("#signals")


def test_in_the_wide_mode_one_key_scores_an_epoch(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press("f")
        assert page.is_hidden("#profile") and page.is_hidden("aside") and page.is_visible("#overview")
        width = page.locator("#traces").bounding_box()["width"]
        assert width > SCREEN["width"] - 40
        scorer.press("2", "3").at_revision(2)
        assert scorer.epoch == 3
        pins = server.session.review(0).now.state.pins
        assert {epoch: pin.stage for epoch, pin in pins.items()} == {0: 2, 1: 3}
        assert violations(page) == []
        scorer.press("f", "3").at_revision(3)
        assert (scorer.epoch, page.is_visible("#profile")) == (3, True)  # as before: a stage key stays


def test_keys_score_again_after_the_mouse_used_a_button(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.get_by_role("button", name="Wide").click()
        scorer.press("Enter").at_revision(1)  # agrees, and does not leave the wide mode
        assert page.is_hidden("#profile")
        page.get_by_role("button", name="Wide").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#profile")


def test_views_page_within_the_epoch_or_show_what_is_around_it(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        label = "#traces[aria-label^='Signals of {}: ']"
        page.select_option("#view", "10")
        page.wait_for_selector(label.format("epoch 1, page 1 of 3"))
        first = page.evaluate(DRAWN)
        scorer.press("ArrowRight", "ArrowRight")
        page.wait_for_selector(label.format("epoch 1, page 3 of 3"))
        assert page.evaluate(DRAWN) != first
        assert scorer.press("ArrowRight").epoch == 2
        page.wait_for_selector(label.format("epoch 2, page 1 of 3"))
        assert scorer.press("ArrowLeft").epoch == 1
        page.wait_for_selector(label.format("epoch 1, page 3 of 3"))
        assert scorer.press("Home", "ArrowLeft").epoch == 1
        page.select_option("#view", "20")
        scorer.press("ArrowRight")
        page.wait_for_selector(label.format("epoch 1, page 2 of 2"))
        assert page.get_by_role("button", name="Next page").is_visible()
        scorer.press("v")
        assert page.input_value("#view") == "30"
        scorer.press("v", *["ArrowRight"] * 4)
        page.wait_for_selector(label.format("epochs 4 to 6"))
        scorer.press("v", "End")
        page.wait_for_selector(label.format("epochs 15 to 24"))
        scorer.press("Shift+V")
        assert page.input_value("#view") == "60"


def test_negative_is_up_unless_the_scorer_wants_it_down(scorer, night):
    """At 0.25 s of the sine, its value is + 37.5 µV: below the middle of its lane, by EEG convention."""
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.uncheck("#guides")
        below = page.evaluate(TRACE_HEIGHT, [0.25, 30])
        above = page.evaluate(TRACE_HEIGHT, [0.75, 30])
        assert below > 5 and above < -5
        page.select_option("#polarity", "positive")
        page.wait_for_function(f"() => ({TRACE_HEIGHT})([0.25, 30]) < -5")


def test_signals_that_failed_are_asked_for_again(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        answer = '{"error": "the disk is gone."}'
        page.route(
            "**/signals?*",
            lambda route: route.fulfill(status=500, content_type="application/json", body=answer),
        )
        for _ in range(2):  # the second time by itself
            with page.expect_response("**/signals?*"):
                scorer.press("End")
        assert page.get_attribute("#traces", "aria-label").startswith("Signals of epoch 1: ")
        page.unroute("**/signals?*")
        page.wait_for_selector(f"#traces[aria-label^='Signals of epoch {N_EPOCHS}: ']")


MONTAGES = """
[[montage]]
name = "Old"
channels = [
  { plus = "EEG Z9" },
  { plus = "EOG E1-M2", scale_uv = 200 },
  { plus = "EEG C4-M1", minus = "EEG Z9" },
]
[[montage]]
name = "Other"
channels = [{ plus = "EEG Z9" }]
[view]
negative_up = false
"""


def test_the_montage_of_the_laboratory_is_shown_first_without_what_was_not_recorded(scorer, night, tmp_path):
    (tmp_path / "montage.toml").write_text(MONTAGES)
    with served(**night) as server:
        page = scorer.open(server.url).page
        page.wait_for_selector("#traces[aria-label$=': EOG E1-M2']")
        assert page.locator("#montage option[value='Other']").is_disabled()
        assert (page.input_value("#montage"), page.input_value("#polarity")) == ("Old", "positive")
        page.select_option("#montage", "Sleep")
        page.wait_for_selector("#traces[aria-label$='EMG chin, ECG']")

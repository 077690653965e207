"""The signals of the review page in a real browser: views, the wide mode, what folds away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser import violations
from recording_files import Channel, write_edf
from reviewing import Scorer, served, write_probabilities
from stageguard.review.montage import Laboratory, Lane, Montage, MontageFile, read_montages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
def page(browser: Browser) -> Iterator[Page]:
    """A page of a window of its own."""
    context = browser.new_context(viewport=SCREEN, color_scheme="light")
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def scorer(page: Page) -> Iterator[Scorer]:
    """A scorer at that page; scripts that fail or are refused fail the test."""
    scorer = Scorer(page)
    yield scorer
    assert scorer.faults == []


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


def test_sections_fold_and_stay_folded(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        assert page.is_hidden("#detail")
        strip = page.locator("#overview").bounding_box()
        page.get_by_role("button", name="Whole night").click()
        page.get_by_role("button", name="Around the epoch").click()
        page.wait_for_selector("#detail canvas.base[aria-label]")
        whole = page.locator("#overview").bounding_box()
        assert strip is not None and whole is not None and whole["height"] > strip["height"] + 60
        page.get_by_role("button", name="Signals", exact=True).click()
        page.reload()
        page.wait_for_selector("body[data-ready][data-revision]")
        assert page.is_visible("#detail") and page.is_hidden("#traces")
        assert violations(page) == []


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


def test_units_are_written_as_people_write_them(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.get_by_role("button", name="Whole night").click()
        assert "µV" in page.inner_text("body") and "uV" not in page.inner_text("body")


def test_signals_that_failed_are_asked_for_again(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        answer = '{"error": "the disk is gone."}'
        page.route(
            "**/signals?*",
            lambda route: route.fulfill(status=500, content_type="application/json", body=answer),
        )
        scorer.press("End")
        page.wait_for_timeout(1500)
        assert page.get_attribute("#traces", "aria-label").startswith("Signals of epoch 1: ")
        page.unroute("**/signals?*")
        scorer.press("ArrowLeft", "ArrowRight")
        page.wait_for_selector(f"#traces[aria-label^='Signals of epoch {N_EPOCHS}: ']")


@pytest.mark.parametrize("blind", [False, True])
def test_help_says_how_one_works_and_lists_the_keys_of_signals(scorer, night, blind):
    with served(**night, blind=blind) as server:
        page = scorer.open(server.url).page
        page.keyboard.press("?")
        page.wait_for_selector("dialog[open]")
        tables = page.locator("dialog .keys")
        assert tables.count() == 2
        assert {"f", "v / shift + v", "i"} <= set(tables.nth(1).locator("kbd").all_inner_texts())
        assert ("Reveal" in scorer.text("dialog ol")) == blind
        assert ("Enter" in scorer.text("dialog ol")) != blind
        assert violations(page) == []
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="hidden")


def test_a_montage_is_edited_saved_and_shown_again(scorer, night, tmp_path):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.get_by_text("Edit montage").click()
        page.get_by_label("EEG F4-M1 minus").select_option("EEG C4-M1")
        page.wait_for_selector("#traces[aria-label^='Signals of epoch 1: EEG F4-M1-EEG C4-M1, EEG F3-M2']")
        page.get_by_role("button", name="EEG F4-M1-EEG C4-M1 down").click()
        page.wait_for_selector("#traces[aria-label^='Signals of epoch 1: EEG F3-M2, EEG F4-M1-EEG C4-M1']")
        page.get_by_role("button", name="Remove ECG").click()
        page.get_by_label("Notch of all channels").select_option("50")
        page.get_by_label("High-pass of EEG F3-M2").select_option("1")
        page.get_by_label("Scale of EEG F3-M2").select_option("200")
        page.get_by_label("Colour of EEG F3-M2").fill("#aa2200")
        page.select_option("#polarity", "positive")
        page.fill("#montage-name", "Ours")
        page.click("#montage-save")
        page.wait_for_selector("#montage-saved:has-text('Saved in')")
        assert violations(page) == []
        saved = read_montages(tmp_path / "montage.toml")
        first, second, *_ = saved.montage[0].channels
        assert (saved.montage[0].name, len(saved.montage[0].channels)) == ("Ours", 7)
        assert (first.plus, first.high_pass_hz, first.notch_hz, first.scale_uv, first.colour) == (
            *("EEG F3-M2", 1.0, 50.0, 200.0),
            "#aa2200",
        )
        assert (second.plus, second.minus, second.high_pass_hz) == ("EEG F4-M1", "EEG C4-M1", 0.3)
        assert not saved.view.negative_up
        page.reload()
        page.wait_for_selector("#traces[aria-label^='Signals of epoch 1: EEG F3-M2, EEG F4-M1-EEG C4-M1']")
        assert (page.input_value("#montage"), page.input_value("#polarity")) == ("Ours", "positive")
        page.select_option("#montage", "Sleep")
        page.wait_for_selector("#traces[aria-label$='EMG chin, ECG']")


def test_channels_that_were_not_recorded_are_left_out(scorer, night, tmp_path):
    lanes = (Lane("EEG Z9"), Lane("EOG E1-M2"), Lane("EEG C4-M1", "EEG Z9"))
    MontageFile(tmp_path / "montage.toml").save(
        Laboratory((Montage("Old", lanes), Montage("Other", lanes[:1])))
    )
    with served(**night) as server:
        page = scorer.open(server.url).page
        page.wait_for_selector("#traces[aria-label$=': EOG E1-M2']")
        assert page.locator("#montage option[value='Other']").is_disabled()
        page.get_by_text("Edit montage").click()
        assert page.get_by_text("not recorded").count() == 2


def test_the_caliper_finds_the_slow_wave_under_fast_ones(scorer, tmp_path):
    """0.9 Hz with 75 µV, and on it noise of 3 µV that crosses the mean many times."""
    at = np.arange(4 * 30 * RATE) / RATE
    noise = np.random.default_rng(1).normal(0, 30, len(at))
    wave = Channel("EEG C4-M1", np.round(375 * np.sin(2 * np.pi * 0.9 * at) + noise).astype("<i2"), RATE)
    night = write_probabilities(tmp_path / "night.csv", STAGES, [[0.9, 0.025, 0.025, 0.025, 0.025]] * 4)
    with served(night, edf=write_edf(tmp_path / "night.edf", [wave])) as server:
        page = scorer.open(server.url).page
        page.wait_for_selector("#traces[aria-label*='EEG C4-M1']")
        drag(page, 5.0, 15.0, lanes=1)
        page.wait_for_selector("#measured:has-text('EEG C4-M1')")
        assert numbers(scorer.text("#measured"))[3] == pytest.approx(0.9, abs=0.02)


def drag(page: Page, begin: float, end: float, lane: int = 0, *, view: float = 30.0, lanes: int = 8) -> None:
    """Drag over a lane from one second of the view to another."""
    box = page.locator("#traces").bounding_box()
    assert box is not None
    width = box["width"] - 92 - 10
    y = box["y"] + (lane + 0.5) * (box["height"] - 18) / lanes
    page.mouse.move(box["x"] + 92 + width * begin / view, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 92 + width * (begin + end) / 2 / view, y + 100)  # stays in its lane
    page.mouse.move(box["x"] + 92 + width * end / view, y)
    page.mouse.up()


def numbers(text: str) -> list[float]:
    """Return the numbers of a text after its channel."""
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text.partition(": ")[2])]


def test_the_caliper_measures_a_sine(scorer, night):
    """1 Hz and 75 µV from peak to peak, filtered from 0.3 to 35 Hz, which changes it by less than 2 %."""
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press("f")
        drag(page, 4.0, 8.0)
        page.wait_for_selector("#measured:has-text('EEG F4-M1')")
        seconds, height, by_duration, by_crossings = numbers(scorer.text("#measured"))
        assert seconds == pytest.approx(4.0, abs=0.05)
        assert height == pytest.approx(75.0, rel=0.02)
        assert by_duration == pytest.approx(0.25, abs=0.01)
        assert by_crossings == pytest.approx(1.0, abs=0.01)
        scorer.press("Escape")
        assert scorer.text("#measured") == ""


def test_the_caliper_needs_no_mouse(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press(".", "i", *[">"] * 2)
        assert numbers(scorer.text("#measured"))[0] == pytest.approx(2.0)
        assert numbers(scorer.text("#measured"))[3] == pytest.approx(1.0, abs=0.01)
        scorer.press("ArrowDown")
        assert scorer.text("#measured").startswith("EEG F3-M2: 2.00 s")
        scorer.press("i", ">")
        assert numbers(scorer.text("#measured"))[0] == pytest.approx(2.0)  # ended: the cursor moves alone
        scorer.press("ArrowRight")
        assert scorer.text("#measured") == ""  # out of sight
        assert violations(page) == []


def test_the_cursor_tells_time_and_value(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.select_option("#view", "10")
        page.wait_for_selector("#traces[aria-label*='page 1 of 3']")
        box = page.locator("#traces").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 92 + (box["width"] - 102) * 2.25 / 10, box["y"] + 20)
        page.wait_for_selector("#readout:has-text('EEG F4-M1')")
        found = re.fullmatch(r"00:00:02\.(2[3-7]), EEG F4-M1 (.*) µV", scorer.text("#readout"))
        assert found is not None and float(found[2]) == pytest.approx(37.5, rel=0.03)

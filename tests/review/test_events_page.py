"""Events on the review page in a real browser: marked by drag and by keys, listed, changed, removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser import violations
from recording_files import Channel, write_edf
from reviewing import Scorer, served, write_probabilities

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STAGES = ["W", "N1", "N2", "N3", "R"]
N_EPOCHS, RATE = 24, 64
LEFT, RIGHT = 92, 10  # of the signals, beside the traces
FOUND = [(33.0, 6.0, "Arousal"), (300.0, 30.0, "Sleep stage W"), (95.0, 14.0, "Obstructive Apnea@@EEG C4-M1")]
# the share of pixels near a colour in a part of the layer above the traces
TINTED = """([x, y, width, height, red, green, blue]) => {
  const canvas = document.querySelector('#signal-stack .over');
  const { data } = canvas.getContext('2d').getImageData(x, y, width, height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    const near = [red, green, blue].every((value, i) => Math.abs(data[at + i] - value) < 12);
    if (data[at + 3] > 0 && near) count += 1;
  }
  return count / (data.length / 4);
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a window of its own."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
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
    """A night of two channels, with annotations in its recording."""
    rng = np.random.default_rng(0)
    values = [np.round(200 * rng.standard_normal(N_EPOCHS * 30 * RATE)).astype("<i2") for _ in range(2)]
    channels = [
        Channel(label, each, RATE) for label, each in zip(["EEG F4-M1", "EEG C4-M1"], values, strict=True)
    ]
    rows = [[0.05, 0.05, 0.8, 0.05, 0.05]] * N_EPOCHS
    return {
        "path": write_probabilities(tmp_path / "night.csv", STAGES, rows),
        "edf": write_edf(tmp_path / "night.edf", channels, annotations=sorted(FOUND)),
    }


def open_signals(scorer: Scorer, url: str) -> Page:
    page = scorer.open(url).page
    scorer.press("Home")
    page.wait_for_selector('#traces[aria-label^="Signals of epoch 1: EEG F4-M1"]')
    return page


def x_of(page: Page, second: float, view: float = 30.0) -> float:
    """Return where a second of the view lies on the canvas."""
    width = page.locator("#traces").bounding_box()["width"]
    return LEFT + second / view * (width - LEFT - RIGHT)


def drag(page: Page, begin: float, end: float, lane: int = 0, lanes: int = 2) -> None:
    box = page.locator("#traces").bounding_box()
    y = box["y"] + (lane + 0.5) * (box["height"] - 18) / lanes
    page.mouse.move(box["x"] + x_of(page, begin), y)
    page.mouse.down()
    page.mouse.move(box["x"] + x_of(page, (begin + end) / 2), y)
    page.mouse.move(box["x"] + x_of(page, end), y)
    page.mouse.up()


def marked(server) -> list[tuple]:
    events = server.session.review(0).now.state.events
    return [(one.kind, one.begin, one.end, one.channel, one.text) for one in events.values()]


def test_a_drag_and_a_key_mark_an_event_on_its_channel(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        assert page.locator("#event-kinds").is_hidden()
        drag(page, 10.0, 14.0, lane=1)
        page.wait_for_selector("#event-kinds")
        scorer.press("a").at_revision(1)
        ((kind, begin, end, where, text),) = marked(server)
        assert (kind, where, text) == ("arousal", "EEG C4-M1", "")
        assert (begin, end) == pytest.approx((10.0, 14.0), abs=0.05)
        assert page.locator("#event-kinds").is_hidden()  # as the selection is gone
        assert "Arousal marked" in scorer.text("#notice")
        height = page.locator("#traces").bounding_box()["height"] - 18
        inside = [x_of(page, 11), height * 0.75, 60, 20]
        arousal = [0xB4, 0x53, 0x0A]
        assert page.evaluate(TINTED, [*inside, *arousal]) > 0.9
        assert page.evaluate(TINTED, [x_of(page, 20), height * 0.75, 60, 20, *arousal]) == 0
        assert page.evaluate(TINTED, [x_of(page, 11), height * 0.25, 60, 20, *arousal]) == 0
        scorer.press("u").at_revision(2)
        assert marked(server) == []
        page.wait_for_function(f"() => ({TINTED})({[*inside, *arousal]}) === 0")


def test_the_menu_marks_too_and_a_text_is_asked_for(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        drag(page, 5.0, 5.8)
        page.get_by_role("button", name="Mark K-complex").click()
        scorer.at_revision(1)
        drag(page, 20.0, 22.0)
        page.keyboard.press("t")
        page.fill("#event-text", "phone rings")
        page.keyboard.press("Enter")
        scorer.at_revision(2)
        assert [(kind, text) for kind, _, _, _, text in marked(server)] == [
            ("k_complex", ""),
            ("text", "phone rings"),
        ]
        assert page.locator("dialog[open]").count() == 0


def test_the_keyboard_alone_marks_and_removes(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press("ArrowRight", ".")  # the cursor begins in the middle of the epoch
        scorer.press("i", *[">"] * 4, ".", "i", "s").at_revision(1)
        ((kind, begin, end, _, _),) = marked(server)
        assert (kind, round(end - begin, 3)) == ("spindle", 4.1)
        assert begin == pytest.approx(45.1, abs=0.01)
        scorer.press("1").at_revision(2)  # keys are those of stages again
        assert server.session.review(0).now.state.pins[1].stage == 1
        scorer.press("<", "Shift+Backspace").at_revision(3)
        assert marked(server) == []
        assert page.locator("#notice", has_text="Spindle removed").count() == 1


def test_an_event_out_of_sight_is_not_removed(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        drag(page, 10.0, 14.0)
        scorer.press("a").at_revision(1)
        scorer.press("ArrowRight")  # the mouse stays where it is, now on the next epoch
        page.wait_for_selector("#readout:has-text('00:00:4')")
        assert "no signal" not in scorer.text("#readout")
        page.keyboard.press("Shift+Backspace")
        page.wait_for_selector("#notice:has-text('No event of yours')")
        scorer.press("ArrowLeft")
        page.wait_for_selector("#readout:has-text('00:00:1')")  # the mouse is on its end again
        scorer.press("Shift+Backspace").at_revision(2)
        assert marked(server) == []


def test_artefacts_fade_the_epoch_at_once(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press("ArrowRight", "x").at_revision(1)
        assert marked(server) == [("artefact", 30.0, 60.0, "", "")]
        drag(page, 6.0, 12.0, lane=1)
        scorer.press("x").at_revision(2)
        assert [event[3] for event in marked(server)] == ["", ""]
        scorer.press("ArrowRight")
        drag(page, 6.0, 12.0)
        scorer.press("x").at_revision(3)
        quality = server.session.review(0).now.result.decoding.night.quality
        assert quality[:3] == pytest.approx([0, 1, 0.2], abs=0.002)
        page.get_by_role("button", name="Whole night").click()
        page.wait_for_function(
            "() => document.querySelector('#overview .base').ariaLabel.includes('Quality')"
        )


def test_events_are_listed_gone_to_changed_and_removed(scorer, night):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        drag(page, 10.0, 14.0)
        scorer.press("o").at_revision(1)
        scorer.press("End")
        page.get_by_role("tab", name="Events").click()
        sheet = page.locator("#sheet-events")
        sheet.get_by_role("button", name="Apnoea").first.click()
        page.wait_for_selector("#line:has-text('Epoch 1 of')")
        field = page.get_by_label("Text of Apnoea")
        field.fill("central")
        field.press("Enter")
        scorer.at_revision(2)
        assert marked(server)[0][-1] == "central"
        page.wait_for_function(
            "() => document.activeElement.id === 'event-1'"
        )  # the writer is where they were
        field = page.get_by_label("Text of Apnoea")
        assert field.input_value() == "central"
        assert violations(page) == []
        sheet.get_by_role("button", name="Remove Apnoea").click()
        scorer.at_revision(3)
        assert marked(server) == []


def test_annotations_of_the_recording_are_shown_and_never_changed(scorer, night):
    before = night["edf"].read_bytes()
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        page.get_by_role("tab", name="Events").click()
        sheet = page.locator("#sheet-events")
        sheet.get_by_text("2 annotations in files").wait_for()
        assert "Events" in page.locator("#overview .base").get_attribute("aria-label")
        sheet.get_by_role("button", name="Obstructive Apnea").click()
        page.wait_for_selector("#line:has-text('Epoch 4 of')")
        assert sheet.get_by_role("button", name="Remove").count() == 0
        scorer.press("Home", "ArrowRight")
        page.wait_for_selector('#traces[aria-label^="Signals of epoch 2: "]')
        height = page.locator("#traces").bounding_box()["height"] - 18
        bar = [x_of(page, 3), height - 18, x_of(page, 9) - x_of(page, 3), 16, 0xB4, 0x53, 0x0A]
        page.wait_for_function(f"() => ({TINTED})({bar}) > 0.05")
        assert violations(page) == []
    assert night["edf"].read_bytes() == before


def test_a_blind_scorer_marks_and_exports_events(scorer, night):
    with served(**night, blind=True) as server:
        page = open_signals(scorer, server.url)
        drag(page, 10.0, 11.0)
        scorer.press("s").at_revision(1)
        page.get_by_role("button", name="Export").click()
        page.select_option("#format", "events-bids")
        page.get_by_role("button", name="Write a new file").click()
        page.wait_for_selector("#exported:has-text('Written')")
        path = night["path"].with_name("night.ada_events.tsv")
        assert "spindle" in path.read_text()
        page.keyboard.press("Escape")
        scorer.press("x").at_revision(2)
        page.get_by_role("button", name="Reveal").click()
        page.get_by_role("button", name="Reveal stager and guard").click()
        scorer.at_revision(3)
        assert server.session.review(0).now.result.decoding.night.quality[0] == 1


def test_events_are_in_the_saved_picture_of_the_signals(scorer, night, tmp_path):
    with served(**night) as server:
        page = open_signals(scorer, server.url)
        scorer.press("ArrowRight")
        drag(page, 20.0, 22.0)
        scorer.press("s").at_revision(1)
        page.click("#save-signals")
        with page.expect_download() as download:
            page.get_by_role("button", name="SVG", exact=True).click()
        download.value.save_as(tmp_path / "epoch.svg")
        text = (tmp_path / "epoch.svg").read_text()
        assert ">Spindle<" in text and ">Arousal<" in text  # the scorer's, and that of the recording

"""Pictures of the review page, saved as files of their own."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from browser import violations
from made_recordings import N_EPOCHS, write_psg
from review_nights import running
from reviewing import Scorer, write_probabilities
from stageguard.profile.profile import Profile
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession

STAGES = ["W", "N1", "N2", "N3", "R"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def scorer(browser):
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)
    scorer = Scorer(context.new_page())
    yield scorer
    context.close()
    assert scorer.faults == []


def session(folder: Path, *, is_blind: bool = False) -> ReviewSession:
    stages = np.repeat([0, 2, 3, 4, 2], N_EPOCHS // 5 + 1)[:N_EPOCHS]
    rows = np.full((N_EPOCHS, 5), 0.01)
    rows[np.arange(N_EPOCHS), stages] = 0.96
    night = write_probabilities(folder / "my night.csv", STAGES, rows)
    edf = write_psg(folder / "night.edf")
    return ReviewSession(
        [ReviewRequest(night, Profile.load("human-psg-5"), edf=edf)], "ada", is_blind=is_blind
    )


def saved(page: Any, button: str, kind: str, folder: Path) -> Path:
    page.click(button)
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name in page.inner_text("#figure-saved")
    page.keyboard.press("Escape")
    return file


def texts(svg: Path) -> list[str]:
    return [node.text or "" for node in ElementTree.parse(svg).getroot().iter(f"{SVG}text")]


def test_hypnogram_and_signals_are_saved_as_svg_and_png(scorer, tmp_path):
    with running(session(tmp_path)) as server:
        page = scorer.open(server.url).page
        page.wait_for_selector("#traces[aria-label]")
        hypnogram = saved(page, "#save-overview", "SVG", tmp_path)
        assert hypnogram.name == "my_night-hypnogram.svg"
        assert {"Stager", "Guard", "Posterior"} <= set(texts(hypnogram))  # although the page shows a strip
        assert "To look at" not in texts(hypnogram)
        signals = saved(page, "#save-signals", "SVG", tmp_path)
        assert {"EEG C4-M1", "5 s"} <= set(texts(signals))
        root = ElementTree.parse(signals).getroot()
        longest = max(len(node.get("d", "")) for node in root.iter(f"{SVG}path"))
        assert longest > 5000  # a trace, not a line
        for button, svg in (("#save-overview", hypnogram), ("#save-signals", signals)):
            png = plt.imread(saved(page, button, "PNG", tmp_path))
            drawn = ElementTree.parse(svg).getroot()
            size = [round(3 * float(drawn.get(side) or 0)) for side in ("height", "width")]
            assert list(png.shape[:2]) == size
            assert np.ptp(png[..., :3]) > 0.5  # dark on light
        page.click("#save-overview")
        assert violations(page) == []


def test_a_blind_scorer_s_picture_hides_what_the_page_hides(scorer, tmp_path):
    with running(session(tmp_path, is_blind=True)) as server:
        page = scorer.open(server.url).page
        found = texts(saved(page, "#save-overview", "SVG", tmp_path))
        assert "You" in found
        assert not {"Stager", "Guard", "Posterior"} & set(found)

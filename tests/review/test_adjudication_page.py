"""Two scorers adjudicated on the page, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import stageguard as sg
from browser import violations
from messages import mentions
from review_nights import do, running, write_probabilities
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession

if TYPE_CHECKING:
    pass


def test_two_scorers_are_adjudicated_by_keys_alone(scorer, tmp_path):
    night = write_probabilities(tmp_path / "night.csv", "human-psg-5", n_epochs=40)
    request = ReviewRequest(night, sg.Profile.load("human-psg-5"))
    for who, stage in (("anna", 2), ("ben", 3)):
        session = ReviewSession([request], who, is_blind=True)
        do(session.review(0), do="set", first=0, last=39, stage=1)
        for first, last in ((5, 8), (20, 20)):
            do(session.review(0), do="set", first=first, last=last, stage=stage)
        session.close()
    session = ReviewSession([request], "carl", adjudicates=("anna", "ben"))
    with running(session) as server:
        page = scorer.open(server.url).page
        assert scorer.line == "Epoch 6 of 40, 00:02:30, anna N2, ben N3, you unscored"
        told = scorer.text("#sheet-queue").splitlines()
        assert mentions(told, "0 of 5", "anna and ben") and mentions(told, "35 epochs are settled")
        assert page.locator(".queue li").count() == 2
        scorer.press("0").at_revision(1)
        assert scorer.epoch == 21
        scorer.press("r").at_revision(2)
        page.locator("#sheet-queue", has_text="Everything is decided").wait_for()
        page.click("#tab-agreement")
        page.locator(".confusion").nth(2).wait_for()
        assert page.locator(".confusion").count() == 3
        assert violations(page) == []
        pins = session.review(0).now.state.pins
        assert [pins[epoch].stage for epoch in (5, 8, 20)] == [3, 3, 4]
        scorer.press("Home").press("w")
        page.wait_for_selector("#notice:has-text('anna and ben agree')")
        page.click("#export")
        page.select_option("#format", "stageguard-csv")
        page.get_by_role("button", name="Write a new file").click()
        page.wait_for_selector("#exported:has-text('.adjudication.reviewed.csv')")
        page.keyboard.press("Escape")
        page.click("#reveal")
        page.get_by_role("button", name="Reveal stager and guard").click()
        scorer.at_revision(3)
        page.wait_for_selector("#notice:has-text('kappa of the consensus')")
        assert "stager" in scorer.line

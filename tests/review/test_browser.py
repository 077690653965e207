"""The review page in a real browser: moving, correcting, taking back, exporting, coming back."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stageguard as sg
from browser import violations
from cli_runner import write_night
from made_recordings import N_EPOCHS, write_psg
from messages import mentions
from review_nights import running
from review_nights import write_probabilities as write_flickering
from reviewing import Scorer, served, write_probabilities
from stageguard.review.night import first_labels
from stageguard.review.opening import ReviewRequest
from stageguard.review.review import ReviewSession

if TYPE_CHECKING:
    from playwright.sync_api import Route

STAGES = ["W", "N1", "N2", "N3", "R"]
KEYS = dict(zip(STAGES, "w123r", strict=True))


@pytest.fixture
def night(tmp_path: Path) -> Path:
    return write_night(tmp_path / "night.csv", hours=1)


def other_stage(scorer: Scorer) -> str:
    """Return a stage that the guard did not give to the current epoch."""
    return next(stage for stage in ("N2", "W") if stage != scorer.stage("guard"))


def test_keys_move_through_the_night(scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home")
        assert scorer.line.startswith("Epoch 1 of 120, 00:00:00, guard ")
        assert scorer.press("ArrowRight", "ArrowRight").epoch == 3
        assert scorer.press("Shift+ArrowRight", "ArrowLeft").epoch == 12
        assert scorer.press("End").epoch == 120
        assert scorer.press("Shift+ArrowRight").epoch == 120
        scorer.page.fill("#go", "00:30")
        scorer.page.press("#go", "Enter")
        scorer.page.wait_for_function(
            "() => document.querySelector('#line').textContent.includes('Epoch 61 of')"
        )


def test_the_next_epoch_worth_a_look_is_one_key_away(scorer, night):
    with served(night) as server:
        state = server.session.review(0)
        queue = [stretch.epoch for stretch in state.queue().stretches]
        assert len(queue) > 1
        scorer.open(server.url)
        assert scorer.epoch == queue[0] + 1
        assert scorer.press("n").epoch == queue[1] + 1
        assert scorer.press("p").epoch == queue[0] + 1
        scorer.press("Enter").at_revision(1)
        assert scorer.epoch == queue[1] + 1
        # the queue is asked for after the action, and so comes a moment later
        scorer.page.locator("#sheet-queue strong", has_text="1 of ").wait_for()


def test_a_stage_key_pins_and_undo_takes_it_back(scorer, night):
    with served(night) as server:
        scorer.open(server.url)
        before, stage = scorer.stage("guard"), other_stage(scorer)
        scorer.page.fill("#reason", "spindles")
        scorer.page.press("#reason", "Tab")
        held: list[Route] = []
        scorer.page.route("**/actions", lambda route: held.append(route))
        scorer.press(KEYS[stage])
        assert scorer.stage("guard") == stage  # drawn before the server has answered
        assert server.session.review(0).now.state.revision == 0
        held[0].continue_()
        scorer.page.unroute("**/actions")
        scorer.at_revision(1)
        assert (scorer.stage("guard"), "set by you" in scorer.line) == (stage, True)
        pins = server.session.review(0).now.state.pins
        assert [(epoch + 1, pin.who, pin.why) for epoch, pin in pins.items()] == [
            (scorer.epoch, "ada", "spindles")
        ]
        scorer.press("u").at_revision(2)
        assert (scorer.stage("guard"), "set by you" in scorer.line) == (before, False)
        scorer.press("Shift+U").at_revision(3)
        assert scorer.stage("guard") == stage


def test_what_changes_after_it_was_seen_is_announced_and_queued_first(scorer, tmp_path):
    night = write_flickering(tmp_path / "night.csv", "human-psg-5", n_epochs=400, seed=1)
    with served(night) as server:
        page = scorer.open(server.url).page
        review = server.session.review(0)
        agreed = scorer.epoch - 1
        start = review.now.result.decoding.period[0]  # the strength is of the sleep period
        scorer.press("Enter").at_revision(1)
        to_sleep = ["Home", *["ArrowRight"] * start]
        scorer.press(*to_sleep, "b", *["ArrowRight"] * 29, "r").at_revision(2)
        page.get_by_role("button", name="Choose again").click()
        scorer.at_revision(3)
        first = first_labels(review.night, review.now.state)
        labels, pins = review.now.result.labels, review.now.state.pins
        moved = [epoch for epoch in range(400) if labels[epoch] != first[epoch] and epoch not in pins]
        assert agreed in pins and max(moved) > 300
        assert mentions(scorer.text("#moved-text"), len(moved), "decided")
        assert scorer.text("#notice").startswith("Strength chosen again: ")
        page.wait_for_selector(".queue li:first-child .reason:has-text('changed')")
        assert violations(page) == []
        page.locator("#moved").get_by_role("button", name="Go to").first.click()
        page.wait_for_selector(f"#line:has-text('Epoch {moved[0] + 1} of')")
        page.get_by_role("button", name="Seen").click()
        page.wait_for_selector("#moved", state="hidden")
        scorer.press("u").at_revision(4)
        page.wait_for_selector("#moved:not([hidden])")  # undoing changes them, too


def test_a_field_in_use_stays_while_the_night_changes(scorer, night):
    with served(night) as server:
        page = scorer.open(server.url).page
        scorer.press("Home")
        review = server.session.review(0)
        for revision, field in enumerate(("#reason", "#order", "#profile")):
            page.focus(field)
            page.evaluate("window.field = document.activeElement")
            if field == "#reason":
                page.keyboard.type("spin")
            review.act({"do": "set", "first": 5 + revision, "last": 5 + revision, "stage": 0}, revision)
            scorer.at_revision(revision + 1)
            assert page.evaluate("document.activeElement === window.field"), field
            if field == "#reason":
                page.keyboard.type("dles")
        assert page.input_value("#reason") == "spindles"


def test_agreeing_says_so_and_is_undone(scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home", "Enter").at_revision(1)
        assert "agreed by you" in scorer.line
        pin = server.session.review(0).now.state.pins[0]
        assert (pin.is_agreed, pin.who) == (True, "ada")
        scorer.press("u").at_revision(2)
        assert "by you" not in scorer.line
        assert not server.session.review(0).now.state.pins


def test_keys_pressed_faster_than_the_server_answers_all_count(scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home")
        for _ in range(6):
            scorer.page.keyboard.press("2")
            scorer.page.keyboard.press("ArrowRight")
        scorer.at_revision(6)
        assert sorted(server.session.review(0).now.state.pins) == list(range(6))


def test_an_artefact_is_marked_and_taken_back_with_one_key(scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home", "b", "ArrowRight", "x").at_revision(1)
        assert scorer.line.endswith(", artefact")
        assert sorted(server.session.review(0).now.state.artefacts) == [0, 1]
        scorer.press("x").at_revision(2)
        assert "artefact" not in scorer.line
        assert sorted(server.session.review(0).now.state.artefacts) == [0]


def test_the_mouse_does_what_keys_do(scorer, night):
    with served(night) as server:
        page = scorer.open(server.url).page
        scorer.press("Home")
        page.get_by_role("button", name="Next epoch", exact=True).click()
        page.get_by_role("button", name="Set Wake").click()
        scorer.at_revision(1)
        assert list(server.session.review(0).now.state.pins) == [1]
        page.get_by_role("button", name="Undo").click()
        scorer.at_revision(2)
        box = page.locator("#overview .over").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] * 0.9, box["y"] + 40)
        page.wait_for_function("() => !document.querySelector('#line').textContent.includes('Epoch 2 of')")
        assert 95 < scorer.epoch <= 120


def test_impossible_pins_say_what_to_relax(scorer, tmp_path):
    """The profile of the paper for mice keeps every bout at its least length."""
    night = write_night(tmp_path / "mouse.csv", "kdd2026-mouse-eeg-emg", hours=0.2)
    with served(night, "kdd2026-mouse-eeg-emg") as server:
        scorer.open(server.url).press("Home", *["ArrowRight"] * 9, "w").at_revision(1)
        scorer.press("ArrowRight", "ArrowRight", "w").at_revision(2)
        scorer.press("ArrowLeft", "s")
        scorer.page.wait_for_selector("#conflict:not([hidden])")
        assert "cannot" in scorer.text("#conflict p")
        assert sorted(server.session.review(0).now.state.pins) == [9, 11]
        assert scorer.page.get_attribute("body", "data-revision") == "2"
        scorer.page.locator("#conflict button.main").first.click()
        scorer.at_revision(3)
        assert scorer.page.is_hidden("#conflict")
        assert server.session.review(0).now.state.pins[10].stage == 1


def test_another_profile_decodes_the_night_anew(scorer, tmp_path):
    night = write_night(tmp_path / "night.csv", "human-psg-3", hours=1)
    with served(night, "human-psg-3") as server:
        page = scorer.open(server.url).page
        page.select_option("#strength", label="off")
        scorer.at_revision(1)
        assert page.input_value("#strength") == '"off"'
        outcome = server.session.review(0).now.result
        assert (outcome.labels == server.session.review(0).night.argmax).mean() > 0.9
        names = page.locator("#profile option").all_inner_texts()
        other = next(name for name in names if name != "human-psg-3")
        page.select_option("#profile", other)
        scorer.at_revision(2)
        assert server.session.review(0).now.state.settings.profile == other


def test_targets_are_set_on_the_page_and_the_page_says_when_to_stop(scorer, tmp_path):
    night = write_night(tmp_path / "night.csv", hours=2)
    with served(night, "human-psg-5") as server:
        page = scorer.open(server.url).page
        page.click("#tab-targets")
        page.click("#begin-targets")
        scorer.at_revision(1)
        page.wait_for_selector("#target-tst")
        page.fill("#target-tst", "900")
        page.press("#target-tst", "Enter")
        scorer.at_revision(2)
        page.wait_for_selector("#sheet-targets .stop.met")
        assert "after 0 looks. You can stop here." in scorer.text("#sheet-targets .stop")
        page.fill("#target-sol", "0.1")
        page.press("#target-sol", "Enter")
        page.wait_for_selector("#sheet-targets .stop:not(.met)")
        assert page.evaluate("document.activeElement.id") == "target-sol"  # where the scorer was
        assert violations(page) == []
        page.click("#tab-queue")
        page.wait_for_selector("#sheet-queue .aims .band")
        assert [row.inner_text() for row in page.locator(".aims th").all()] == ["TST", "SOL"]
        page.locator(".queue button").first.click()
        first = scorer.epoch
        page.evaluate("document.activeElement.blur()")  # else Enter presses the button again
        scorer.press("Enter")
        page.wait_for_selector(".aims .stop:has-text('after 1 look')")
        assert scorer.epoch != first
        page.click("#tab-targets")
        review = server.session.review(0)  # in another tab, somebody decides epochs meanwhile

        def decide_elsewhere(epoch: int) -> None:
            action = {"do": "set", "first": epoch, "last": epoch, "stage": 0}
            scorer.at_revision(review.act(action, review.now.state.revision).state.revision)

        page.press("#target-sol", "Control+a")
        page.evaluate("window.field = document.activeElement")
        decide_elsewhere(0)
        page.keyboard.insert_text("-3")  # what is selected is replaced
        decide_elsewhere(1)
        assert page.evaluate("document.activeElement === window.field")  # the same, not one like it
        assert page.input_value("#target-sol") == "-3"  # what is being typed stays
        page.click("#line")
        decide_elsewhere(2)
        assert page.input_value("#target-sol") == "-3"  # what is not saved, too
        page.fill("#target-sol", "-2")
        page.press("#target-sol", "Enter")
        page.wait_for_selector("#notice:has-text('above 0')")
        page.click("#end-targets")
        page.wait_for_selector("#begin-targets")
        assert server.session.review(0).now.state.targets is None


def test_the_list_of_nights_says_what_a_cohort_lacks(scorer, tmp_path):
    nights = [write_night(tmp_path / f"n{number}.csv", hours=1, seed=number) for number in range(3)]
    profile = sg.Profile.load("human-psg-5")
    session = ReviewSession([ReviewRequest(night, profile) for night in nights], "ada", until={"tst": 5})
    with running(session) as server:
        page = scorer.open(server.url).page
        order = session.cohort().order
        assert page.locator("#night").input_value() == str(order[0])  # the one that lacks most
        page.click("#nights")
        page.wait_for_selector("#cohort")
        assert scorer.text("#cohort").startswith("Mean of 3 nights: TST")
        rows = [row.inner_text().split()[1] for row in page.locator(".nights tbody tr").all()]
        assert rows == [f"n{index}" for index in order]
        assert "TST ±" in page.locator(".nights tbody tr").first.inner_text()
        assert violations(page) == []


def test_explain_says_why(scorer, night):
    with served(night) as server:
        scorer.open(server.url).page.keyboard.press("e")
        scorer.page.wait_for_selector("#explanation p")
        assert "Epoch" in scorer.text("#explanation")
        scorer.press("Home")
        assert scorer.page.locator("#explanation p").count() == 0


def test_export_writes_a_new_file_and_says_where(scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home", "2").at_revision(1)
        page = scorer.page
        page.get_by_role("button", name="Export").click()
        assert page.input_value("#format") == "stageguard-tsv"
        offered = page.locator("#format option").evaluate_all("all => all.map(one => one.value)")
        assert "accusleepy-csv" not in offered  # it has three stages
        page.select_option("#format", "stageguard-csv")
        page.get_by_role("button", name="Write a new file").click()
        page.wait_for_function("() => document.querySelector('#exported').textContent.startsWith('Written')")
        written = Path(scorer.text("#exported").removeprefix("Written: "))
        assert written.parent == night.parent
        assert "N2" in written.read_text()
        page.get_by_role("button", name="Write a new file").click()
        page.wait_for_function("() => document.querySelector('#exported').textContent.includes('-2')")


def kill(process: subprocess.Popen[str]) -> None:
    """End a process as a crash would."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)


@pytest.mark.slow
def test_work_survives_a_killed_server(scorer, night):
    def start() -> tuple[subprocess.Popen[str], str]:
        run = [sys.executable, "-c", "from stageguard.cli import main; main()", "review", str(night)]
        said = [*run, "--profile", "human-psg-5", "--no-open", "--scorer", "ada"]
        process = subprocess.Popen(said, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        return process, first[first.index("http") :].strip()

    process, url = start()
    try:
        scorer.open(url).press("Home", "3").at_revision(1)
        kill(process)
        scorer.press("ArrowRight", "3")
        scorer.page.wait_for_selector("#trouble:not([hidden])")
        assert mentions(scorer.text("#trouble"), "ended", "work is saved")
        assert scorer.press("ArrowRight").epoch == 3  # looking on is possible
        process, url = start()
        scorer.open(url).press("Home")
        assert (scorer.stage("guard"), "set by you" in scorer.line) == ("N3", True)
        assert "set by you" not in scorer.press("ArrowRight").line
    finally:
        kill(process)


def test_two_tabs_do_not_overwrite_each_other(browser, scorer, night):
    with served(night) as server:
        scorer.open(server.url).press("Home")
        other = Scorer(scorer.page.context.new_page()).open(server.url).press("Home", "2")
        other.at_revision(1)
        scorer.press("3").at_revision(1)
        assert mentions(scorer.text("#notice"), "Changed in another")
        assert scorer.stage("guard") == "N2"
        assert {e: pin.stage for e, pin in server.session.review(0).now.state.pins.items()} == {0: 2}
        other.press("ArrowRight", "2").at_revision(2)
        scorer.at_revision(2)  # seen without touching anything
        assert other.faults == []


def test_a_stage_that_never_occurs_and_a_night_without_any(scorer, tmp_path):
    rows = [[0.9, 0.05, 0.05, 0.0, 0.0]] * 20 + [[0.1, 0.1, 0.8, 0.0, 0.0]] * 40
    night = write_probabilities(tmp_path / "light.csv", STAGES, rows)
    with served(night) as server:
        scorer.open(server.url).press("Home", "r").at_revision(1)
        assert scorer.stage("guard") == "R"
    night = write_probabilities(tmp_path / "none.csv", STAGES, [[None] * 5] * 60)
    with served(night) as server:
        scorer.open(server.url).press("Home")
        assert (scorer.stage("guard"), scorer.stage("stager")) == ("unscored", "unscored")
        assert scorer.page.locator(".shares .number").all_inner_texts() == ["–"] * 10
        assert scorer.page.get_by_text("There are no probabilities: score every epoch.").is_visible()
        assert not scorer.page.get_by_text("may still be wrong").is_visible()


def test_blind_scoring_shows_nothing_until_revealed(scorer, night):
    with served(night, blind=True) as server:
        page = scorer.open(server.url).page
        assert scorer.line == "Epoch 1 of 120, 00:00:00, you unscored, 0 of 120 scored"
        assert page.is_hidden("#profile") and page.is_hidden(".shares")
        scorer.press("2", "2").at_revision(2)
        assert scorer.epoch == 3  # a stage key goes on to the next epoch
        assert scorer.line.endswith("2 of 120 scored")
        page.get_by_role("button", name="Reveal").click()
        assert mentions(scorer.text("dialog"), 118, "120 epochs")
        page.get_by_role("button", name="Reveal stager and guard").click()
        scorer.at_revision(3)
        assert {scorer.stage("guard"), scorer.stage("stager")} <= {*STAGES}
        assert page.is_visible("#profile")
        page.wait_for_selector("#notice:not([hidden])")
        assert mentions(scorer.text("#notice"), 2, "120 epochs", 60)


def test_signals_of_the_epoch(scorer, tmp_path):
    edf = write_psg(tmp_path / "night.edf")
    night = write_probabilities(
        tmp_path / "night.csv", STAGES, [[0.9, 0.025, 0.025, 0.025, 0.025]] * N_EPOCHS
    )
    with served(night, edf=edf) as server:
        page = scorer.open(server.url).page
        page.wait_for_selector('#traces[aria-label*="EEG C4-M1"]')
        scorer.press("Home", "ArrowRight")
        page.wait_for_selector('#traces[aria-label^="Signals of epoch 2: "]')
        before = page.evaluate(DRAWN)
        scorer.press("[")
        assert page.evaluate(DRAWN) != before  # another scale


DRAWN = "() => document.querySelector('#traces').toDataURL()"
HOSTILE = '<img src=x onerror="window.hacked=1">'


def test_hostile_names_stay_text(scorer, tmp_path):
    stages = [HOSTILE, "</script><script>window.hacked=1</script>", "Quiet", *"ABCDE"]
    matrix = {a: {b: 0.93 if a == b else 0.01 for b in stages} for a in stages}
    document = {"name": "own", "stages": stages, "wake": "Quiet", "epoch_seconds": 30, "transitions": matrix}
    profile = sg.Profile.from_dict(document)
    night = write_probabilities(tmp_path / "&lt;img src=x&gt; <b>.csv", stages, [[0.93, *[0.01] * 7]] * 40)
    with served(night, profile, scorer=HOSTILE) as server:
        scorer.open(server.url).press("Home", "8").at_revision(1)
        assert HOSTILE in scorer.text("#scorer")
        scorer.page.keyboard.press("e")
        scorer.page.keyboard.press("?")
        assert scorer.page.locator("img").count() == 0
        assert scorer.page.evaluate("window.hacked") is None


def answer_to(port: int, host: str) -> int:
    """Return the status of a request that names a host of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    with closing(connection):
        connection.request("GET", "/", headers={"Host": host})
        return connection.getresponse().status


def test_only_the_opened_page_gets_data(browser, page, night):
    with served(night) as server:
        address = server.url.partition("#")[0]
        for url in (address, f"{address}#token=guess"):
            page.goto("about:blank")
            page.goto(url)
            page.wait_for_selector("#trouble:not([hidden])")
            assert mentions(page.inner_text("#trouble"), "address", "that stageguard printed")
        page.goto(server.url)  # in the same tab, where only what follows the # has changed
        page.wait_for_selector("body[data-ready][data-revision]")
        scorer = Scorer(page)
        assert server.token not in page.url
        assert page.context.cookies() == []
        page.reload()
        page.wait_for_selector("body[data-ready][data-revision]")  # the tab still has the token
        assert answer_to(server.port, "evil.example") == 403
        elsewhere = page.context.new_page()
        elsewhere.goto("about:blank")
        with pytest.raises(Exception, match="Failed to fetch"):
            elsewhere.evaluate(
                "([url, token]) => fetch(url + 'api/nights', {headers: {'X-StageGuard-Token': token}})",
                [address, server.token],
            )
        assert scorer.faults == []
        assert server.session.review(0).now.state.revision == 0


@pytest.mark.parametrize(("colours", "key"), [("light", "?"), ("dark", "e")])
def test_nothing_keeps_a_screen_reader_or_weak_eyes_out(browser, night, colours, key):
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme=colours)
    with served(night) as server:
        scorer = Scorer(context.new_page()).open(server.url)
        scorer.press("Home", "2").at_revision(1)
        scorer.page.click("#tab-indicators")
        scorer.page.wait_for_selector("#sheet-indicators svg")
        found = violations(scorer.page)
        scorer.page.keyboard.press(key)
        scorer.page.wait_for_selector("dialog[open], #explanation p")
        found += violations(scorer.page)
    context.close()
    assert found == []


def test_a_telephone_needs_no_sideways_scrolling(browser, night):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    with served(night) as server:
        page = Scorer(context.new_page()).open(server.url).page
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()

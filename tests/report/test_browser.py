"""The report in a real browser: reasons, dark mode, every width, paper, screen readers, safety."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest

import report_samples
import stageguard as sg
from browser import violations
from stageguard.guard.explain import in_bouts
from stageguard.night.colours import PAGE, STAGES

SAMPLES = ["full", "mouse"]


def sentence(change: sg.Change) -> str:
    """What the page says of a change by transitions, written down anew."""
    first, last = change.first_epoch + 1, change.first_epoch + change.n_epochs
    epochs = f"Epoch {first}" if first == last else f"Epochs {first} to {last}"
    return (
        f"{epochs}, {change.clock:%H:%M:%S}: {in_bouts(change.before)} → {in_bouts(change.after)}, "
        f"by improbable transitions; keeping it costs {change.margin_nats:.2f} nats"
    )


def test_the_reason_of_a_change_comes_by_keys(open_page):
    _, decoding = report_samples.full_night()
    changes = sg.explain(decoding)
    page = open_page(report_samples.full())
    page.focus("#next")
    page.keyboard.press("Enter")
    assert page.inner_text("#reason") == f"1 of {len(changes)}. {sentence(changes[0])}."
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#reason") == f"3 of {len(changes)}. {sentence(changes[2])}."
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert page.inner_text("#reason").startswith("2 of ")
    frame, plot = page.locator("#night svg .here").bounding_box(), page.locator("#night svg").bounding_box()
    middle = (frame["x"] + frame["width"] / 2 - plot["x"]) / plot["width"] * 980
    epoch = changes[1].first_epoch + changes[1].n_epochs / 2
    assert middle == pytest.approx(158 + 802 * epoch / 960, abs=1)
    assert page.get_attribute("#reason", "role") == "status"


def test_the_reason_of_a_change_comes_under_the_pointer(open_page):
    _, decoding = report_samples.full_night()
    change = max(sg.explain(decoding), key=lambda change: change.n_epochs)
    page = open_page(report_samples.full())
    box = page.locator("#night svg").bounding_box()
    epoch = change.first_epoch + change.n_epochs / 2
    place = box["x"] + box["width"] * (158 + 802 * epoch / 960) / 980, box["y"] + 200
    page.mouse.move(*place)
    assert page.inner_text("#tip") == sentence(change)
    page.keyboard.press("Escape")
    assert page.is_hidden("#tip")
    page.mouse.move(place[0], place[1] + 1)
    assert page.is_visible("#tip")
    page.mouse.move(box["x"] + 5, place[1])
    assert page.is_hidden("#tip")


def test_a_night_without_changes_has_no_reader(open_page):
    page = open_page(report_samples.one_epoch())
    assert page.is_hidden("#reader")


@pytest.mark.parametrize("sample", [*SAMPLES, "gaps_and_no_rem", "no_bands"])
def test_nothing_is_cut_or_sticks_out_at_any_width(open_page, sample):
    page = open_page(getattr(report_samples, sample)())
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    for width in (360, 800, 1000, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        cut = page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((each) => {
              if (each.closest("svg") && each.tagName !== "svg") return false;
              const box = each.getBoundingClientRect(), scroller = each.closest(".scroll, figure");
              return box.width > 0 && box.right > innerWidth + 1 && (!scroller || scroller === each
                || getComputedStyle(scroller).overflowX !== "auto");
            }).map((each) => each.outerHTML.slice(0, 80))"""
        )
        assert cut == []


def test_no_picture_is_cut_on_a_screen_of_800_pixels(open_page):
    page = open_page(report_samples.full(), width=800)
    figures = page.evaluate(
        "[...document.querySelectorAll('figure')].map(each => [each.scrollWidth, each.clientWidth])"
    )
    assert figures
    assert [each for each in figures if each[0] > each[1]] == []


@pytest.mark.parametrize(("sample", "scheme"), [("full", "light"), ("mouse", "dark")])
def test_axe_finds_nothing_wrong(open_page, sample, scheme):
    page = open_page(getattr(report_samples, sample)(), width=700, scheme=scheme)
    page.evaluate(
        """() => { document.querySelectorAll("details").forEach((each) => { each.open = true; });
          document.querySelectorAll("tbody tr:nth-child(n+4)").forEach((row) => row.remove()); }"""
    )  # further rows are like the first
    assert violations(page) == []


def test_dark_screens_get_dark_pages_and_paper_stays_white(open_page):
    page = open_page(report_samples.full(), scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    fill = f"getComputedStyle(document.querySelector('svg [fill=\"{STAGES['N3'].light}\"]')).fill"

    def rgb(colour: str) -> str:
        return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"

    assert (page.evaluate(ground), page.evaluate(fill)) == (rgb(PAGE["paper"].dark), rgb(STAGES["N3"].dark))
    page.emulate_media(media="print")
    assert (page.evaluate(ground), page.evaluate(fill)) == (rgb(PAGE["paper"].light), rgb(STAGES["N3"].light))
    assert page.is_hidden("nav")
    assert page.is_hidden("#reader")


def test_contents_lead_to_their_sections_and_stay_in_view(open_page):
    page = open_page(report_samples.full())
    assert page.is_hidden("#changes tbody")
    page.click("nav a[href='#changes']")
    assert page.evaluate("document.getElementById('changes').open")
    top = page.evaluate("document.getElementById('changes').getBoundingClientRect().top")
    assert -1 <= top < 900
    assert page.locator("nav").bounding_box()["y"] >= -1
    page.set_viewport_size({"width": 800, "height": 900})
    page.evaluate("scrollTo(0, 3000)")
    assert page.locator("nav").bounding_box()["y"] < 0


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_night_is_a_page_of_paper(open_page, sample):
    page = open_page(getattr(report_samples, sample)())
    pdf = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b(?!s)", pdf)) == 1
    sizes = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf))
    assert {(round(float(a)), round(float(b))) for a, b in sizes} == {(595, 842)}  # A4


def test_hostile_names_stay_text_and_foreign_scripts_do_not_run(open_page):
    html = report_samples.report_with(report_samples.EVIL, ["<b>wake</b>", "'\"&<", "deep"])
    page = open_page(html)
    assert page.inner_text("h1").strip() == report_samples.SEEN
    page.click("#next")
    assert "'\"&<" in page.inner_text("#changes") + page.inner_text("#reason")
    assert page.locator("#reason b, main img").count() == 0


def test_the_policy_stops_what_is_not_the_page_s_own(browser, tmp_path):
    own = report_samples.one_epoch()
    file = tmp_path / "night.html"
    file.write_text(
        own.replace("</main>", "<script>document.title = 'taken'</script><b style='color: red'>x</b></main>")
    )
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(file.as_uri())
    assert page.title() != "taken"
    assert page.evaluate("getComputedStyle(document.querySelector('main > b')).color") != "rgb(255, 0, 0)"
    assert len([text for text in refused if "Content Security Policy" in text]) == 2
    page.close()


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_picture_is_saved_as_a_file_of_its_own(open_page, browser, tmp_path, sample):
    page = open_page(getattr(report_samples, sample)())
    with page.expect_download() as saved:
        page.click("#save-svg")
    svg = tmp_path / "saved.svg"
    saved.value.save_as(svg)
    assert saved.value.suggested_filename.endswith(".svg")
    alone, shown = ElementTree.parse(svg).getroot(), page.locator("#night svg").first
    assert not [node for node in alone.iter() if node.get("style")]
    texts = [node.text for node in alone.iter() if node.tag.endswith("}text")]
    assert texts == shown.locator("text").all_text_contents()
    with page.expect_download() as saved:
        page.click("#save-png")
    png = tmp_path / "saved.png"
    saved.value.save_as(png)
    pixels = plt.imread(png)
    width, height = (round(3 * float(alone.get(side))) for side in ("width", "height"))
    assert pixels.shape[:2] == (height, width)
    assert len(np.unique(pixels[::7, ::7, :3].reshape(-1, 3), axis=0)) > 10  # not empty
    assert violations(page) == []

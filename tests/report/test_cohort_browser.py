"""The page of a cohort in a real browser: sorted, filtered and read by keyboard, on any screen, offline."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from browser import violations
from nights import decode
from stageguard.measures.cohort import MeasuredScorings, Measures
from stageguard.report.cohort import About, CohortRow, Failure, cohort_page
from stageguard.report.pictures import BandScale

PROFILE = "human-psg-5"
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">"
MANY = 6000


@pytest.fixture(scope="module")
def small():
    """Five nights with experts and groups, one of a hostile name."""
    made = {f"n{k}": sg.simulate_night(PROFILE, hours=2.5, seed=k) for k in range(4)}
    nights = {name: decode(night.density, PROFILE) for name, night in made.items()}
    nights[HOSTILE] = nights["n0"]
    return sg.cohort_report(
        nights,
        experts={name: night.expert for name, night in made.items()},
        groups={"n0": "a", "n1": "a", "n2": "b", "n3": "b"},
        links={"n1": "./n1.html"},
        title="Five nights",
    )


@pytest.fixture(scope="module")
def many():
    """Thousands of rows with numbers nobody measured."""
    rng = np.random.default_rng(1)
    names = ("joint_score", "fragmentation_index", "tst_minutes", "waso_minutes")
    scale = BandScale(
        PROFILE, "", sg.StageScheme.named("aasm5"), 30.0, (("fragmentation_index", 0.05, 0.2),), 1.5
    )
    rows = []
    for k in range(MANY):
        numbers = rng.uniform((0.4, 0.02, 200, 5), (2.5, 0.3, 500, 90))
        both = {"before": 1.5 * numbers, "after": numbers}
        measures = {name: Measures(dict(zip(names, x.tolist(), strict=True)), {}) for name, x in both.items()}
        lengths = rng.multinomial(96 - 24, np.full(24, 1 / 24)) + 1
        code = "".join(f"{'abcde'[int(rng.integers(5))]}{n}" for n in lengths)
        rows.append(CohortRow(MeasuredScorings(f"night-{k}", measures), scale, 960, 960, 100, {}, code))
    failures = [Failure(f"bad-{k}", "is empty (0 bytes).") for k in range(20)]
    return cohort_page(rows, About("Many nights", failures=failures))


def names_of(page):
    return page.locator("#table tbody th").all_inner_texts()


def test_rows_are_sorted_by_the_keyboard_and_say_so(small, open_page):
    page = open_page(small)
    assert page.title() == "Five nights · StageGuard report"
    worst_first = names_of(page)
    assert HOSTILE in worst_first
    head = page.get_by_role("columnheader", name="TST")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert page.locator("thead [aria-sort]").count() == 1
    down = names_of(page)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [*reversed(names_of(page))] != worst_first
    assert sorted(down) == sorted(names_of(page)) == sorted(worst_first)
    place = [text.split("\n")[0] for text in page.locator("thead th").all_inner_texts()].index("TST (min)")
    cells = page.locator(f"#table tbody tr:not(.pad):not(.none) > :nth-child({place + 1})").all_inner_texts()
    minutes = [float(text) for text in cells]
    assert minutes == sorted(minutes)


def test_rows_are_filtered_and_counted(small, open_page):
    page = open_page(small)
    page.get_by_label("Name").fill("N1")
    assert names_of(page) == ["n1"]
    assert page.locator("#shown").inner_text() == "1 of 5 nights"
    assert page.locator("tbody th a").get_attribute("href") == "./n1.html"
    page.get_by_label("Name").fill("nothing")
    assert page.get_by_text("No night is like this.").is_visible()
    page.get_by_label("Name").fill("")
    page.locator("#group").select_option(label="b")
    assert sorted(names_of(page)) == ["n2", "n3"]


def test_a_night_tells_what_lies_outside(small, open_page):
    page = open_page(small)
    button = page.get_by_role("button", name="details of n2", exact=False)
    button.focus()
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Details of a night")
    assert details.get_by_role("heading").inner_text() == "n2"
    n_outside = int(button.inner_text().split()[0])
    assert details.locator("tbody tr").count() == n_outside


def test_numbers_of_another_scoring_are_shown(small, open_page):
    page = open_page(small)
    place = [text.split("\n")[0] for text in page.locator("thead th").all_inner_texts()].index("Distance")
    cell = page.locator(f"#table tbody tr:not(.pad):not(.none) > :nth-child({place + 1})").first
    after = float(cell.inner_text())
    page.get_by_label("Numbers").select_option("before")
    before = float(cell.inner_text())
    page.get_by_label("Numbers").select_option("after-before")
    change = float(cell.inner_text().replace("−", "-"))
    assert change == pytest.approx(after - before, abs=0.011)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1400, "dark")])
def test_the_page_fits_and_screen_readers_can_read_it(small, open_page, width, scheme):
    page = open_page(small, width=width, scheme=scheme)
    page.locator("tbody button").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_thousands_of_nights_are_a_few_rows_at_a_time(many, open_page):
    page = open_page(many)
    assert len(many) < 2_000_000
    assert page.locator("#table tbody tr").count() < 80
    assert page.locator("#table").get_attribute("aria-rowcount") == str(MANY + 1)
    page.evaluate("document.getElementById('box').scrollTop = 1e9")
    page.get_by_role("row", name="6,000").wait_for()
    assert page.locator("#table tbody tr").count() < 80
    took = page.evaluate("""() => {
        const begun = performance.now();
        document.querySelector('button[data-by="2"]').click();
        document.getElementById("box").getBoundingClientRect();
        return performance.now() - begun;
    }""")
    assert took < 1000  # some 20 ms on an idle machine
    opened = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert opened < 5000  # some 150 ms on an idle machine


def test_paper_has_the_first_rows_and_the_failures(many, open_page):
    page = open_page(many)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#table tbody th").count() == 200
    assert page.get_by_text("bad-19").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#table tbody th").count() < 80


def test_labels_stay_inside_their_pictures(open_page):
    made = {f"n{k}": sg.simulate_night(PROFILE, hours=4, seed=k) for k in range(12)}
    nights = {name: decode(night.density, PROFILE) for name, night in made.items()}
    experts = {name: night.expert for name, night in made.items()}
    page = open_page(sg.cohort_report(nights, experts=experts), width=800)
    cut = page.evaluate(
        """[...document.querySelectorAll('svg text')].filter(text => {
            const label = text.getBoundingClientRect(), all = text.closest('svg').getBoundingClientRect();
            return label.width > 0 && (label.right > all.right + 1 || label.left < all.left - 1);
        }).map(text => text.textContent)"""
    )
    assert cut == []

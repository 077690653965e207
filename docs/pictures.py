"""Draw the pictures of README and docs: what `decode` prints, and the review page.

python docs/pictures.py     writes docs/demo.png and docs/review.png; needs playwright, Chromium, yasa, review
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import stageguard as sg

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
STAGEGUARD = (sys.executable, "-m", "stageguard.cli")
DECODE = "stageguard decode night.csv --profile human-psg-5"
SEED = 1  # a night whose statistics decoding brings nearer to the truth, which a test holds
EDF = "lab/polysomnography/edfs/shhs1/shhs1-900001.edf"
TERMINAL = """<style>body {{ margin: 0; background: #1b2130 }}
pre {{ margin: 0; padding: 22px 26px; color: #e6e9f0; font: 15px/1.45 'DejaVu Sans Mono', monospace;
width: max-content }} b {{ color: #8fd3a8; font-weight: normal }}</style>
<pre id="all"><b>$ {command}</b>
{printed}</pre>"""


def run(*words: str, folder: Path) -> str:
    """Return what a command prints."""
    ran = subprocess.run(
        [*STAGEGUARD, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "104"},
    )
    return ran.stdout


def terminal(page: Page, folder: Path) -> None:
    """Draw a terminal in which a night was decoded."""
    sg.simulate_night("human-psg-5", seed=SEED).density.save(folder / "night.csv")
    printed = run(*DECODE.split()[1:], folder=folder)
    page.set_content(TERMINAL.format(command=html.escape(DECODE), printed=html.escape(printed.rstrip())))
    page.locator("#all").screenshot(path=HERE / "demo.png")


@contextmanager
def review(folder: Path) -> Iterator[str]:
    """Serve a night with its recording until the block ends, and give the page's address."""
    words = ("--modality", "polysomnography", "--subjects", "1", "--hours", "6", "--seed", "1")
    run("simulate", *words, "--output", "lab", folder=folder)
    run("stage", EDF, "--stager", "yasa", "--output", "staged", folder=folder)
    night = "staged/shhs1-900001.hypnogram.tsv"
    command = [*STAGEGUARD, "review", night, "--edf", EDF, "--scorer", "anna", "--no-open"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(
                found[0] for line in server.stdout if (found := re.search(r"http://127\.0\.0\.1\S+", line))
            )
        finally:
            server.terminate()


def main() -> None:
    """Draw both."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=CHROMIUM)
        terminal(browser.new_page(device_scale_factor=1.5), Path(name))
        with review(Path(name)) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            page.wait_for_selector("body[data-ready][data-revision]")
            page.keyboard.press("n")
            page.wait_for_timeout(3000)  # until the signals are drawn
            page.screenshot(path=HERE / "review.png")
        browser.close()


if __name__ == "__main__":
    main()

"""How long a key of the review page takes on a day of a mouse: from key to the frame after its drawing.

The page measures itself; docs/review.md has what came out. It needs Chromium and the extras review and test.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from stageguard.synthetic.night import simulate_night

CHROMIUM = "/usr/bin/chromium"
KEYS = {
    "arrows": ["ArrowRight"] * 40,
    "ten epochs": ["Shift+ArrowRight"] * 20,
    "next worth a look": ["n"] * 20,
    "Home and End": ["End", "Home"] * 10,
    "set a stage": ["w", "s"] * 10,
}


def write_day(path: Path) -> None:
    """Write the probabilities of 21,600 epochs of 4 s."""
    density = simulate_night("mouse-eeg-emg-3", hours=24, seed=1).density
    rows = [",".join(map(repr, row)) for row in density.probabilities.tolist()]
    path.write_text("\n".join([",".join(density.scheme.names), *rows]) + "\n")


def milliseconds(page: Page, key: str) -> float:
    """Return what the page says a key took, when the server has answered it too."""
    drawn = page.evaluate("window.stageguard.redraws")
    page.keyboard.press(key)
    page.wait_for_function("n => window.stageguard.redraws > n", arg=drawn)
    taken = float(page.evaluate("window.stageguard.lastRedrawMs"))
    page.wait_for_selector("body:not([data-revision=''])")
    page.wait_for_timeout(100)
    return taken


def main() -> None:
    """Serve the day, press the keys, print medians."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        write_day(Path(folder) / "day.csv")
        command = "from stageguard.cli import main; main()"
        said = ["review", "day.csv", "--profile", "mouse-eeg-emg-3", "--scorer", "bench", "--no-open"]
        server = subprocess.Popen(
            [sys.executable, "-c", command, *said], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        line = server.stdout.readline()
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.goto(line[line.index("http") :].strip())
        page.wait_for_selector("body[data-ready][data-revision]")
        for what, keys in KEYS.items():
            taken = sorted(milliseconds(page, key) for key in keys)
            print(f"{what:18} median {statistics.median(taken):3.0f} ms, slowest {taken[-1]:3.0f} ms")
        browser.close()
        server.terminate()
        server.communicate(timeout=20)


if __name__ == "__main__":
    main()

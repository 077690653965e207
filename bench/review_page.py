"""How long a key of the review page takes, from key to the frame after its drawing.

On a day of a mouse without signals, and on a night with the signals of an EDF of 500 MB: 16 channels at
512 Hz, 8 of them shown. The page measures itself; docs/review.md has what came out. It needs Chromium, the
extras review and test, and 0.6 GB in the temporary folder.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from stageguard.synthetic.night import simulate_night

CHROMIUM = "/usr/bin/chromium"
KEYS = {
    "arrows": ["ArrowRight"] * 40,
    "ten epochs": ["Shift+ArrowRight"] * 20,
    "next worth a look": ["n"] * 20,
    "Home and End": ["End", "Home"] * 10,
    "set a stage": ["w", "s"] * 10,
}
HOURS, RATE, N_EPOCHS = 8.5, 512, 1020
LABELS = ["EEG F4-M1", "EEG C4-M1", "EEG O2-M1", "EEG F3-M2", "EOG E1-M2", "EOG E2-M2", "EMG chin", "ECG"]


def write_probabilities(path: Path, profile: str, hours: float) -> None:
    """Write the probabilities of a simulated recording."""
    density = simulate_night(profile, hours=hours, seed=1).density
    rows = [",".join(map(repr, row)) for row in density.probabilities.tolist()]
    path.write_text("\n".join([",".join(density.scheme.names), *rows]) + "\n")


def write_recording(path: Path) -> None:
    """Write an EDF of noise, one second per record."""
    labels = LABELS + [f"Other {number}" for number in range(1, 9)]
    columns = [(labels, 16), ([""] * 16, 80), (["uV"] * 16, 8), (["-3276.8"] * 16, 8), (["3276.7"] * 16, 8)]
    columns += [
        (["-32768"] * 16, 8),
        (["32767"] * 16, 8),
        ([""] * 16, 80),
        ([str(RATE)] * 16, 8),
        ([""] * 16, 32),
    ]
    fixed = [("0", 8), ("X", 80), ("X", 80), ("01.01.24", 8), ("22.00.00", 8), (str(256 * 17), 8), ("", 44)]
    fixed += [(str(round(HOURS * 3600)), 8), ("1", 8), ("16", 4)]
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write("".join(text.ljust(width) for text, width in fixed).encode())
        file.write("".join(text.ljust(width) for texts, width in columns for text in texts).encode())
        for _ in range(N_EPOCHS):
            file.write(rng.normal(0, 300, (30, 16 * RATE)).astype("<i2").tobytes())


@contextmanager
def opened(browser: Browser, folder: Path, *words: str) -> Iterator[tuple[Page, int]]:
    """The page of a review in a process of its own, and the id of the process."""
    command = [sys.executable, "-c", "from stageguard.cli import main; main()", "review", *words]
    server = subprocess.Popen(
        [*command, "--scorer", "bench", "--no-open"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.goto(line[line.index("http") :].strip())
    page.wait_for_selector("body[data-ready][data-revision]")
    yield page, server.pid
    page.close()
    server.terminate()
    server.communicate(timeout=20)


def key_milliseconds(page: Page, key: str) -> float:
    """Return what the page says a key took, when the server has answered it too."""
    drawn = page.evaluate("window.stageguard.redraws")
    page.keyboard.press(key)
    page.wait_for_function("n => window.stageguard.redraws > n", arg=drawn)
    taken = float(page.evaluate("window.stageguard.lastRedrawMs"))
    page.wait_for_selector("body:not([data-revision=''])")
    page.wait_for_timeout(100)
    return taken


def signal_milliseconds(page: Page, act: Callable[[], None], pause: int) -> float:
    """Return what the page says it took until the signals of another stretch were all drawn."""
    drawn = page.evaluate("window.stageguard.signalsDrawn ?? 0")
    act()
    page.wait_for_function("n => window.stageguard.signalsDrawn > n", arg=drawn)
    taken = float(page.evaluate("window.stageguard.lastSignalsMs"))
    page.wait_for_timeout(pause)
    return taken


def tell(what: str, taken: list[float]) -> None:
    """Print median and 95th percentile."""
    high = float(np.percentile(taken, 95))
    print(
        f"{what:34} median {statistics.median(taken):4.0f} ms, 95 % within {high:4.0f} ms ({len(taken)} keys)"
    )


def measure_day(browser: Browser, folder: Path) -> None:
    """Measure keys on 21,600 epochs of 4 s."""
    write_probabilities(folder / "day.csv", "mouse-eeg-emg-3", 24)
    with opened(browser, folder, "day.csv", "--profile", "mouse-eeg-emg-3") as (page, _):
        for what, keys in KEYS.items():
            tell(what, [key_milliseconds(page, key) for key in keys])


def measure_signals(browser: Browser, folder: Path) -> None:
    """Measure moves through a recording of 500 MB."""
    write_probabilities(folder / "night.csv", "human-psg-5", HOURS)
    write_recording(folder / "night.edf")
    megabytes = (folder / "night.edf").stat().st_size / 1e6
    words = ("night.csv", "--profile", "human-psg-5", "--edf", "night.edf")
    with opened(browser, folder, *words) as (page, process):
        print(f"signals of {megabytes:.0f} MB, {len(LABELS)} channels at {RATE} Hz")
        page.wait_for_function("() => window.stageguard.signalsDrawn > 0", timeout=60_000)
        page.keyboard.press("Home")
        page.keyboard.press("f")
        page.wait_for_timeout(2000)

        def press(key: str) -> Callable[[], None]:
            return lambda: page.keyboard.press(key)

        def go(epoch: int) -> Callable[[], None]:
            def act() -> None:
                page.fill("#go", str(epoch))
                page.press("#go", "Enter")

            return act

        tell("next epoch", [signal_milliseconds(page, press("ArrowRight"), 250) for _ in range(100)])
        tell(
            "next epoch, 100 ms after the last",
            [signal_milliseconds(page, press("ArrowRight"), 100) for _ in range(100)],
        )
        tell("set a stage and go on", [signal_milliseconds(page, press("2"), 1000) for _ in range(20)])
        far = np.random.default_rng(1).permutation(N_EPOCHS)[:40] + 1
        tell("an epoch far away", [signal_milliseconds(page, go(int(epoch)), 100) for epoch in far])
        page.select_option("#view", "300")
        go(100)()
        page.wait_for_timeout(3000)
        tell(
            "next epoch, view of 5 min",
            [signal_milliseconds(page, press("ArrowRight"), 250) for _ in range(60)],
        )
        tell("5 min far away", [signal_milliseconds(page, go(int(epoch)), 100) for epoch in far[:20]])
        status = Path(f"/proc/{process}/status").read_text()
        peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
        print(f"memory of the server at most {int(peak) / 1024:.0f} MB")


def main() -> None:
    """Measure both, in a folder that is then removed."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox"])
        for measured in sys.argv[1:] or ("day", "signals"):
            {"day": measure_day, "signals": measure_signals}[measured](browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()

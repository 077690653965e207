"""What features and quality cost on a day of mouse EEG and EMG, beside the plain spectrogram of scipy.

The recording is an EDF file of 24 h, two channels at 512 Hz. Every row is a process of its own on one
thread: the processor time of the call, reading included, and the peak memory of the whole process.
Needs scipy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _common import Row, report
from scipy.signal import spectrogram

import stageguard as sg
from stageguard.signals.features import Recipe

RATE, HOURS = 512, 24
RADAR_RATE, RADAR_HOURS = 500, 8
GOAL_SECONDS, GOAL_MEGABYTES = 20.0, 500.0
ROUNDS = 3

# The kernel's own mark of this program's peak; getrusage would count the process that started it.
MEASURE = """
import json, sys, time
from pathlib import Path
sys.argv = ["bench", {path!r}]
{prepare}
begin = time.process_time()
{call}
seconds = time.process_time() - begin
marks = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([seconds, int(marks["VmHWM"].split()[0]) / 1024]))
"""
OURS = "import stageguard as sg\nfrom stageguard.signals.features import Recipe\nimport scipy.signal.windows"
READ = "night = sg.read_recording(sys.argv[1])"
SCIPY = "import numpy as np\nfrom scipy.signal import spectrogram\n" + OURS
# Both channels at once, as one would write it first; then in blocks of an hour, which fit into memory.
PLAIN = """
signals = [sg.read_recording(sys.argv[1]).signals[role].read() for role in ("eeg", "emg")]
made = [np.log(spectrogram(x, 512, "hann", 1024, 512)[2]) for x in signals]
"""
BLOCKS = """
night = sg.read_recording(sys.argv[1])
hour = 3600 * 512
for role in ("eeg", "emg"):
    for first in range(0, night.signals[role].n_samples, hour):
        np.log(spectrogram(night.signals[role].read(first, first + hour), 512, "hann", 1024, 512)[2])
"""
HANN = """
recipe = Recipe.load("mouse-eeg-emg")
recipe = recipe.replace(spectrogram=recipe.to_dict()["spectrogram"] | {"taper": "hann"})
made = sg.features(night, recipe)
"""


def write_edf(path: Path, rate: int, hours: int, labels: tuple[str, str]) -> None:
    """Two channels of noise that falls with frequency, in microvolts, written a minute at a time."""
    fields: list[tuple[int, list[str]]] = [
        (16, [*labels]),
        (80, [""] * 2),
        (8, ["uV"] * 2),
        (8, ["-3276.8"] * 2),
        (8, ["3276.7"] * 2),
        (8, ["-32768"] * 2),
        (8, ["32767"] * 2),
        (80, [""] * 2),
        (8, [str(rate)] * 2),
        (32, [""] * 2),
    ]
    n_records = hours * 3600
    head = "0".ljust(8) + "X X X X".ljust(80) + "".ljust(80) + "01.05.2422.30.00"
    head += "768".ljust(8) + "".ljust(44) + str(n_records).ljust(8) + "1".ljust(8) + "2".ljust(4)
    head += "".join(value.ljust(width) for width, values in fields for value in values)
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(head.encode())
        for _ in range(hours * 60):
            spectrum = np.fft.rfft(rng.standard_normal((2, 60 * rate)))
            spectrum /= np.maximum(np.fft.rfftfreq(60 * rate, 1 / rate), 1.0)
            noise = np.fft.irfft(spectrum, 60 * rate)
            digital = np.rint(300 * noise / noise.std()).astype("<i2")
            file.write(digital.reshape(2, 60, rate).transpose(1, 0, 2).tobytes())


def measure(path: Path, prepare: str, call: str) -> tuple[float, float]:
    """Best seconds of some runs, and the largest peak in MB."""
    code = MEASURE.format(path=str(path), prepare=prepare, call=call)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    found = []
    for _ in range(ROUNDS):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | threads,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(run.stdout.splitlines()[-1]))
    seconds, megabytes = zip(*found, strict=True)
    return min(seconds), max(megabytes)


def check_same(path: Path) -> None:
    """Assert that an hour of ours is the mean of scipy's lines in each bin, in decibels."""
    night = sg.read_recording(path)
    samples = night.signals["eeg"].read(0, 3600 * RATE)
    short = sg.Recording("hour", "mouse", {"eeg": sg.Signal("EEG", samples, RATE, "uV")})
    edges = [(0.5, 1.5), (5.5, 6.5), (40.5, 44.5)]
    recipe = Recipe.load("mouse-eeg-emg").replace(
        scaling={"method": "none"},
        spectrogram={
            "taper": "hann",
            "frames": 4,
            "window_seconds": 2.0,
            "bins": [[low, high, high - low] for low, high in edges],
        },
        emg={"channels": []},
    )
    ours = sg.features(short, recipe).values.reshape(-1, len(edges))
    # ours are centred at 0.5 s, 1.5 s, ...; scipy's first lies between 0.5 and 2.5 s
    frequencies, _, power = spectrogram(samples[RATE // 2 :], RATE, "hann", 1024, 512)
    for column, (low, high) in enumerate(edges):
        theirs = 10 * np.log10(power[(frequencies >= low) & (frequencies < high)].mean(axis=0))
        np.testing.assert_allclose(ours[1 : 1 + len(theirs), column], theirs, atol=1e-3)


def mouse_rows(path: Path) -> list[Row]:
    features = "made = sg.features(night, {!r})"
    quality = "made = sg.signal_quality(night, 'eeg-emg', epoch_seconds=4, rules={!r})"
    calls = {
        "features, mouse-eeg-emg (multitaper, 4 frames per epoch)": features.format("mouse-eeg-emg"),
        "features, the same with a Hann window": HANN,
        "features, accusleep (multitaper, 1 frame per epoch)": features.format("accusleep"),
        "quality, kdd2026": quality.format("kdd2026"),
        "quality, graded": quality.format("graded"),
    }
    plain, plain_peak = measure(path, SCIPY, PLAIN)
    blocks, blocks_peak = measure(path, SCIPY, BLOCKS)
    rows = [
        Row("scipy.signal.spectrogram, Hann, 2 s every s, log, whole channels", plain, "s"),
        Row("its peak memory", plain_peak, "MB"),
        Row("the same, an hour at a time", blocks, "s"),
        Row("its peak memory, an hour at a time", blocks_peak, "MB"),
    ]
    for what, call in calls.items():
        seconds, peak = measure(path, OURS, f"{READ}\n{call}")
        rows.append(Row(what, seconds, "s", GOAL_SECONDS))
        rows.append(Row(f"{what.partition(' (')[0]}: peak memory", peak, "MB", GOAL_MEGABYTES))
        unit = "× scipy's spectrogram, an hour at a time"
        rows.append(Row(f"{what.partition(' (')[0]}: compared with scipy", seconds / blocks, unit))
    return rows


def radar_rows(path: Path) -> list[Row]:
    read = "night = sg.read_recording(sys.argv[1], channels={'radar_i': 'I', 'radar_q': 'Q'})"
    seconds, peak = measure(path, OURS, f"{read}\nmade = sg.features(night, 'bioradar')")
    what = f"features, bioradar, {RADAR_HOURS} h of I and Q at {RADAR_RATE} Hz"
    return [Row(what, seconds, "s"), Row(f"{what}: peak memory", peak, "MB", GOAL_MEGABYTES)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mouse, radar = Path(folder) / "mouse.edf", Path(folder) / "radar.edf"
        write_edf(mouse, RATE, HOURS, ("EEG", "EMG"))
        check_same(mouse)
        rows = mouse_rows(mouse)
        mouse.unlink()
        write_edf(radar, RADAR_RATE, RADAR_HOURS, ("I", "Q"))
        rows += radar_rows(radar)
    title = f"{HOURS} h of EEG and EMG at {RATE} Hz from an EDF file, one thread"
    report("features", title, rows)


if __name__ == "__main__":
    main()

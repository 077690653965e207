"""Radar nights: as npz with a mapping file, or as PhysioNet has SLEEPBRL, EDF with WFDB annotations."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.files import SYNTHETIC_WORD, toml_text
from stageguard.base.version import __version__
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.events import Simulated
from stageguard.synthetic.layouts import write_edf

CODES = {"W": "W", "N1": "1", "N2": "2", "N3": "3", "R": "R"}
CHANNELS = {"S1": "radar_i", "S2": "radar_q"}
FIRST_NUMBER = 900  # PhysioNet's records end at sbj32
RANGE = (-32.768, 32.767)
READ_OPTIONS = ""
FILE_LIST = {
    "npz": """synthetic-NNN.npz    radar_i, radar_q at 50 Hz; stages per 30 s
recordings.toml      subjects, starts and covariates""",
    "edf": """sbj9NN.edf, sbj9NN.edf.atr    I/Q pair 1 (S1, S2) and stages, as in SLEEPBRL
subjects-synthetic.csv        age, sex, BMI, AHI""",
}
NOTE, SKIP, AUX = 22, 59, 63  # codes of WFDB annotations


def name_of(number: int, layout: str) -> str:
    """Return a subject's name."""
    return f"sbj{FIRST_NUMBER + number}" if layout == "edf" else f"synthetic-{number:03d}"


def write(made: Simulated, folder: Path, layout: str) -> None:
    """Write one recording."""
    folder.mkdir(parents=True, exist_ok=True)
    if layout == "edf":
        _write_edf(folder / f"{made.recording.subject}.edf", made)
        return
    night = made.night.hypnogram
    signals = {role: made.recording.signals[role] for role in CHANNELS.values()}
    arrays = {
        role: np.asarray(signal.samples) for role, signal in signals.items() if isinstance(signal, Signal)
    }
    main = signals["radar_i"]
    assert isinstance(main, Signal)
    with (folder / f"{made.recording.subject}.npz").open("xb") as file:
        np.savez(
            file,
            allow_pickle=False,
            **arrays,
            rate_hz=np.float64(main.rate_hz),
            subject=np.array(made.recording.subject),
            stages=night.stages.astype("U2"),
            epoch_seconds=np.float64(night.epoch_seconds),
            synthetic=np.array(True),
        )


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write what is known of the subjects."""
    if layout == "edf":
        (folder / "subjects-synthetic.csv").write_text(_table(subjects), encoding="utf-8")
        return
    lines = [
        f"# {SYNTHETIC_WORD}: simulated by stageguard {__version__}; nobody slept these nights.",
        "epoch_seconds = 30",
        'scheme = "wnr3"  # as in the paper; the files hold W, N1, N2, N3, R',
    ]
    for subject in subjects:
        lines += ["", "[[recordings]]", f'file = "{subject.subject}.npz"', f'subject = "{subject.subject}"']
        lines += [f"start = {subject.start.isoformat()}"] if subject.start is not None else []
        lines += ["", "[recordings.covariates]", toml_text(subject.covariates).rstrip()]
    (folder / "recordings.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(subjects: Sequence[Any]) -> str:
    names = [name for name in ("age", "sex", "bmi", "ahi") if any(name in s.covariates for s in subjects)]
    rows = [["Subject", *names, "synthetic"]]
    for subject in subjects:
        facts = (str(subject.covariates.get(name, "")) for name in names)
        rows.append([subject.subject, *facts, "1"])
    return "".join(",".join(row) + "\n" for row in rows)


def _write_edf(path: Path, made: Simulated) -> None:
    import edfio

    signals = []
    for label, role in CHANNELS.items():
        signal = made.recording.signals[role]
        assert isinstance(signal, Signal)
        values = np.clip(signal.read(), *RANGE)
        signals.append(
            edfio.EdfSignal(
                values, signal.rate_hz, label=label, transducer_type=SYNTHETIC_WORD, physical_range=RANGE
            )
        )
    write_edf(path, made.recording, signals)
    rate_hz = signals[0].sampling_frequency
    path.with_name(f"{path.name}.atr").write_bytes(stage_annotations(made.night.hypnogram, rate_hz))


def stage_annotations(night: Hypnogram, rate_hz: float) -> bytes:
    """Return stages as WFDB annotations in the MIT format: a note per epoch, the stage in its text."""
    made, before = bytearray(), 0
    for epoch, label in enumerate(night.labels.tolist()):
        sample = round(epoch * night.epoch_seconds * rate_hz)
        step = sample - before
        if step > 0x3FF:
            made += struct.pack("<HHH", SKIP << 10, step >> 16, step & 0xFFFF)
            step = 0
        text = CODES[night.scheme.names[label]].encode("ascii")
        made += struct.pack("<HH", NOTE << 10 | step, AUX << 10 | len(text)) + text + bytes(len(text) % 2)
        before = sample
    return bytes(made + b"\0\0")

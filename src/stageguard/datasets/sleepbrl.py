"""SLEEPBRL: bioradar nights with sleep stages from PhysioNet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from stageguard import checks
from stageguard.datasets import Entry, dataset_error
from stageguard.files import is_synthetic
from stageguard.formats.annotations import stage_epochs
from stageguard.formats.night import Event
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.wfdb import read_wfdb_annotations
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5, SCHEMES, UNSCORED_NAME, StageScheme

EPOCH_SECONDS = 30.0
CODES = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "R"}
CODES |= dict.fromkeys(("?", "U", "M", "MT"), UNSCORED_NAME)
N_PAIRS = 8


def find(folder: Path, *, scheme: str = "wnr3", pair: int = 1) -> Iterator[Entry]:
    """Yield an entry per record.

    A record has eight I/Q pairs: S5 and S6 become "radar_i_3" and "radar_q_3". The pair chosen by ``pair``
    has no number.
    """
    checks.whole(pair, "pair", low=1, high=N_PAIRS)
    checks.choice(scheme, "scheme", SCHEMES)
    for path in sorted(folder.rglob("sbj*.edf")):
        subject = path.stem.lower()
        names = (path.with_name(f"{path.name}.atr"), path.with_suffix(".atr"))
        scoring = next((name for name in names if name.is_file()), None)
        files, missing = ((path,), (f"{path.name}.atr",)) if scoring is None else ((path, scoring), ())
        yield Entry(subject, subject, files, partial(_read, path, scoring, SCHEMES[scheme], pair), missing)


def _read(path: Path, scoring: Path | None, scheme: StageScheme, pair: int) -> Recording:
    raw = read_edf_recording(path)
    signals: dict[str, Signal | Series] = {}
    for number in (pair, *(n for n in range(1, N_PAIRS + 1) if n != pair)):
        for letter, name in (("i", f"S{2 * number - 1}"), ("q", f"S{2 * number}")):
            if name in raw.signals:
                signals[f"radar_{letter}" + ("" if number == pair else f"_{number}")] = raw.signals[name]
    if "radar_i" not in signals or "radar_q" not in signals:
        wanted, there = f"S{2 * pair - 1} and S{2 * pair}", ", ".join(raw.signals) or "none"
        raise dataset_error(path, f"has no channels {wanted} (I/Q pair {pair}); it has: {there}.")
    return Recording(
        path.stem.lower(),
        path.stem.lower(),
        signals,
        {} if scoring is None else {"expert": _scoring(scoring, signals["radar_i"], scheme)},
        start=raw.start,
        covariates=raw.covariates,
        is_synthetic=is_synthetic(path),
        source="SLEEPBRL",
    )


def _scoring(path: Path, radar: Signal | Series, scheme: StageScheme) -> Hypnogram:
    """Read stages from the texts of annotations, one per epoch or per change of stage."""
    annotations = read_wfdb_annotations(path)
    rate_hz = annotations.rate_hz or (radar.rate_hz if isinstance(radar, Signal) else 1.0)
    intervals = []
    for mark in annotations.marks:
        text = mark.text.strip().upper()
        if text and text not in CODES:
            at = f"{mark.sample / rate_hz:g} s"
            raise dataset_error(path, f"stage {text!r} at {at} is not one of {', '.join(CODES)}.")
        if text:
            intervals.append(Event(mark.sample / rate_hz, None, CODES[text]))
    if not intervals:
        raise dataset_error(path, "has no stages among its annotations.")
    stages = stage_epochs(path, intervals, EPOCH_SECONDS).stages
    labels = np.array([UNSCORED if s == UNSCORED_NAME else AASM5.index(s) for s in stages], dtype=np.int8)
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme)

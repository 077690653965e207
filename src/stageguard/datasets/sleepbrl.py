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
from stageguard.formats.raw_night import Event
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.wfdb import read_wfdb_annotations
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5, SCHEMES, UNSCORED_NAME, StageScheme

EPOCH_SECONDS = 30.0
CODES = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "R"}
UNSCORED_CODES = ("?", "U", "M", "MT")
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
        there = ", ".join(raw.signals) or "none"
        raise dataset_error(
            path, f"has no channels S{2 * pair - 1} and S{2 * pair} (I/Q pair {pair}); it has: {there}."
        )
    main = signals["radar_i"]
    assert isinstance(main, Signal)
    return Recording(
        path.stem.lower(),
        path.stem.lower(),
        signals,
        {} if scoring is None else {"expert": _scoring(scoring, main.rate_hz, scheme)},
        start=raw.start,
        covariates=raw.covariates,
        is_synthetic=is_synthetic(path),
        source="SLEEPBRL",
    )


def _scoring(path: Path, rate_hz: float, scheme: StageScheme) -> Hypnogram:
    """Read stages from the texts of annotations, one per epoch or per change of stage."""
    annotations = read_wfdb_annotations(path)
    staged = [mark for mark in annotations.marks if mark.text.strip()]
    if not staged:
        raise dataset_error(path, "has no stages among its annotations.")
    rate_hz = annotations.rate_hz or rate_hz
    intervals = []
    for mark in staged:
        text = mark.text.strip().upper()
        if text not in CODES and text not in UNSCORED_CODES:
            raise dataset_error(
                path, f"stage {text!r} at {mark.sample / rate_hz:g} s is not one of {', '.join(CODES)}."
            )
        intervals.append(Event(mark.sample / rate_hz, None, CODES.get(text, UNSCORED_NAME)))
    stages = stage_epochs(path, intervals, EPOCH_SECONDS).stages
    labels = np.array([UNSCORED if s == UNSCORED_NAME else AASM5.index(s) for s in stages], dtype=np.int8)
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme)

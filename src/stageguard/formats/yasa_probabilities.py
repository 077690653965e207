"""Probabilities of YASA: its `Hypnogram`, its JSON, and the dictionary between them. Reads no stages.

YASA names the columns of `proba`, keeps them in the order of its labels, and leaves out missing ones;
ART and UNS may be among them, which are no stages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.files import file_error
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.json_file import load_json

STAGES = {
    2: ("WAKE", "SLEEP"),
    3: ("WAKE", "NREM", "REM"),
    4: ("WAKE", "LIGHT", "DEEP", "REM"),
    5: ("WAKE", "N1", "N2", "N3", "REM"),
}
SHORT = {"W": "WAKE", "R": "REM"}  # what YASA itself takes for another
NO_STAGE = ("ART", "UNS")
KEYS = frozenset({"values", "n_stages", "freq", "start", "scorer", "proba"})
UNITS = {
    "ms": 0.001, "millisecond": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "t": 60.0, "min": 60.0, "m": 60.0,
    "minute": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0,
}  # fmt: skip


def density_of_yasa(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `yasa.Hypnogram`."""
    where = "yasa.Hypnogram"
    if source.proba is None:
        raise file_error(
            where,
            "has no probabilities (proba is None). YASA drops them when stages are merged or resampled.",
        )
    columns = {str(name): source.proba[name].to_numpy(dtype=np.float64) for name in source.proba.columns}
    start = None if source.start is None else source.start.to_pydatetime(warn=False)
    scorer = None if source.scorer is None else str(source.scorer)
    return _density(where, columns, int(source.n_stages), str(source.freq), start, scorer)


def read_yasa_json(path: Path, options: DensityOptions) -> RawDensity:
    """Probabilities of a JSON that `yasa.Hypnogram.to_json` wrote, rounded by YASA to six decimals."""
    return density_of_document(path, load_json(path))


def density_of_document(where: Where, document: Any) -> RawDensity:
    """Probabilities of the dictionary that `yasa.Hypnogram.to_dict` returns."""
    if not isinstance(document, Mapping) or not document.keys() >= {"n_stages", "freq"}:
        raise file_error(where, "is no hypnogram of YASA: it has no n_stages and freq.")
    proba = document.get("proba")
    if proba is None:
        raise file_error(
            where, "has stages but no probabilities (proba is null). Read the stages with read_hypnogram."
        )
    if not isinstance(proba, Mapping) or not proba:
        raise file_error(where, "has a proba that is not a list of numbers per stage.")
    columns = {str(name): _numbers(where, str(name), cells) for name, cells in proba.items()}
    scorer = document.get("scorer")
    raw = _density(
        where,
        columns,
        document["n_stages"],
        document["freq"],
        start_of(where, document.get("start"), document.get("tz")),
        None if scorer is None else str(scorer)[:200],
    )
    values, n_rows = document.get("values"), len(np.asarray(raw.values))
    if isinstance(values, list) and len(values) != n_rows:
        raise file_error(
            where,
            f"has {len(values):,} stages and {n_rows:,} rows of probabilities, expected as many. Was it "
            "edited?",
        )
    return raw


def _density(
    where: Where,
    columns: Mapping[str, Floats],
    n_stages: Any,
    freq: Any,
    start: datetime | None,
    scorer: str | None,
) -> RawDensity:
    if isinstance(n_stages, bool) or not isinstance(n_stages, int) or n_stages not in STAGES:
        raise file_error(where, f"has n_stages {str(n_stages)[:40]!r}, expected 2, 3, 4 or 5.")
    named = {SHORT.get(name.upper(), name.upper()): values for name, values in columns.items()}
    unknown = sorted(named.keys() - {*STAGES[n_stages], *NO_STAGE})
    if unknown:
        raise file_error(
            where, f"has probabilities for {listed(unknown)}, expected {', '.join(STAGES[n_stages])}."
        )
    lengths = {len(values) for values in named.values()}
    if len(lengths) != 1 or len(named) != len(columns):
        raise file_error(where, "has probabilities of different lengths, or twice for a stage.")
    n_epochs = lengths.pop()
    notes = []
    missing = [name for name in STAGES[n_stages] if name not in named]
    if missing:
        notes.append(f"no probabilities for {', '.join(missing)}: read as 0")
    values = np.column_stack([named.get(name, np.zeros(n_epochs)) for name in STAGES[n_stages]])
    dropped = [name for name in NO_STAGE if name in named]
    if dropped:
        values, note = without_undefined(values, np.sum([named[name] for name in dropped], axis=0), dropped)
        notes.append(note)
    names = tuple({"WAKE": "W", "REM": "R"}.get(name, name) for name in STAGES[n_stages])
    source = where if isinstance(where, str) else where.name
    return RawDensity(
        values,
        names,
        epoch_seconds=_seconds(where, freq),
        start=start,
        notes=tuple(notes),
        source=source if scorer is None or isinstance(where, Path) else f"{source} of {scorer}",
    )


def without_undefined(values: Floats, undefined: Floats, names: Sequence[str]) -> tuple[Floats, str]:
    """Probabilities given that the stage is defined; where it never is, there is no evidence."""
    left = values.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        kept = np.where((left > 0)[:, None], values * ((left + undefined) / left)[:, None], np.nan)
    return kept, f"column {' and '.join(names)} left out: the stages divided by what remains"


def _numbers(where: Where, name: str, cells: Any) -> Floats:
    if isinstance(cells, list) and all(
        cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) for cell in cells
    ):
        try:
            return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
        except OverflowError:
            pass
    raise file_error(where, f"has a column {name[:40]!r} that is not a list of numbers.")


def _seconds(where: Where, freq: Any) -> float:
    """Seconds of a frequency of pandas such as 30s, 2.5s or 1min."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)?\s*([a-zA-Z]+)", freq.strip()) if isinstance(freq, str) else None
    unit = None if found is None else UNITS.get(found[2].lower()) or UNITS.get(found[2].lower().rstrip("s"))
    if found is None or unit is None:
        raise file_error(where, f"has the epoch length {str(freq)[:40]!r}, expected one such as 30s.")
    return float(found[1] or 1) * unit


def start_of(where: Where, text: Any, zone: Any) -> datetime | None:
    """When a document of YASA begins; a start without offset is a time of its zone, as YASA takes it."""
    if text is None:
        return None
    try:
        start = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise file_error(
            where, f"has the start {str(text)[:40]!r}, expected one such as 2024-05-01T22:30:00."
        ) from None
    if not isinstance(zone, str):
        return start
    try:
        known = ZoneInfo(zone)
        return start.replace(tzinfo=known) if start.tzinfo is None else start.astimezone(known)
    except (KeyError, ValueError, OSError, OverflowError):  # a zone that this computer does not know
        return start

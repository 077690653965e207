"""Read and write YASA's JSON of stages and probabilities; read its `Hypnogram`.

YASA names the columns of `proba`, keeps them in the order of its labels, and leaves out missing ones. They
may include ART and UNS, which are not stages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError, warn
from stageguard.files import file_error, load_json, read_file
from stageguard.formats.density import LABELS_ALONE, listed
from stageguard.formats.file_format import (
    ANNOTATIONS,
    LEAD,
    Contents,
    FileFormat,
    always_final,
)
from stageguard.formats.night import (
    FileOptions,
    Night,
    RawDensity,
    RawHypnogram,
    Where,
    night_of,
)
from stageguard.formats.sniffing import is_json
from stageguard.formats.tools.arrays import without_undefined
from stageguard.formats.write import number, stage_words, standard_scheme
from stageguard.guard.decoding import Decoding
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import NO_PROBABILITIES, Hypnogram
from stageguard.night.stages import AASM5, WLDR4, WNR3, WS2
from stageguard.units import seconds_per

SCHEMES = {5: AASM5, 4: WLDR4, 3: WNR3, 2: WS2}
NANO_DIGITS = 9  # decimals of seconds
PANDAS_UNITS = {"t": 60.0, "m": 60.0, "l": 1e-3}  # letters of pandas besides the usual units of time
SHORT = {"W": "WAKE", "R": "REM"}  # short names that YASA accepts
NO_STAGE = ("ART", "UNS")
KEYS = frozenset({"values", "n_stages", "freq", "start", "scorer", "proba"})
YASA_WORDS = {
    "aasm5": {"W": "WAKE", "R": "REM"},
    "wldr4": {"W": "WAKE", "Light": "LIGHT", "Deep": "DEEP", "R": "REM"},
    "wnr3": {"W": "WAKE", "N": "NREM", "R": "REM"},
    "ws2": {"W": "WAKE", "S": "SLEEP"},
}
STAGES = {
    n: tuple(YASA_WORDS[scheme.name].get(name, name) for name in scheme.names)
    for n, scheme in SCHEMES.items()
}


def read_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages in a file that `Hypnogram.to_json` wrote."""
    document = load_json(path)
    values = document.get("values") if isinstance(document, dict) else None
    if not isinstance(values, list) or not values or not all(isinstance(name, str) for name in values):
        raise file_error(path, "has no 'values', expected a list of stage names as YASA writes it.")
    return stages_of_document(path, document)


def stages_of_document(path: Path, document: Mapping[str, Any]) -> RawHypnogram:
    """Return the stages in a dictionary of `yasa.Hypnogram.to_dict`, which `to_json` writes."""
    values, (n_stages, freq, scorer) = document["values"], map(document.get, ("n_stages", "freq", "scorer"))
    return RawHypnogram(
        tuple(values),
        epoch_seconds=None if freq is None else frequency_seconds(path, freq),
        start=start_of(path, document.get("start"), document.get("tz")),
        scheme=None if n_stages is None else SCHEMES[_check_count(path, n_stages)],
        scorer=scorer if isinstance(scorer, str) and scorer else None,
    )


def _check_count(where: Where, n_stages: object) -> int:
    """Return the checked number of stages, which tells the scheme."""
    if not isinstance(n_stages, int) or n_stages not in SCHEMES:
        raise file_error(where, f"has n_stages {str(n_stages)[:40]!r}, expected 2, 3, 4 or 5.")
    return n_stages


def frequency_seconds(where: Where, freq: object) -> float:
    """Return the seconds of a pandas frequency such as 30s, 2.5s or 1min."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)?\s*([A-Za-z]+)\s*", str(freq))
    unit = None if match is None else PANDAS_UNITS.get(match[2].lower()) or seconds_per(match[2])
    if match is None or unit is None:
        raise file_error(where, f"has the epoch length {str(freq)[:40]!r}, expected one such as 30s.")
    return float(match[1] or 1) * unit


def write_yasa_json(night: Night, path: Path) -> Contents:
    """Write a file for `yasa.Hypnogram.from_json`, with probabilities if there are any."""
    return {path: json.dumps(yasa_document(night), indent=2, allow_nan=False) + "\n"}


def yasa_document(night: Night) -> dict[str, Any]:
    """Return a dictionary for `yasa.Hypnogram.from_dict`; YASA's nights begin with their recordings."""
    night = night.from_recording_start()
    values = stage_words(night, YASA_WORDS, "YASA", "UNS")
    hypnogram = night.hypnogram
    start = hypnogram.start
    seconds = number(hypnogram.epoch_seconds)
    if len(seconds.partition(".")[2]) > NANO_DIGITS:
        raise InputError(
            f"YASA counts time in whole nanoseconds, but an epoch lasts {seconds} s. "
            "Write another format, or epochs of another length: reepoch_to="
            f"{max(round(hypnogram.epoch_seconds, 3), 0.001)!r}."
        )
    document: dict[str, Any] = {
        "values": values,
        "n_stages": hypnogram.scheme.n_stages,
        "freq": f"{seconds}s",
        "start": None if start is None else start.isoformat(),
        "scorer": hypnogram.scorer,
        "proba": None if night.probabilities is None else _proba(night.probabilities),
    }
    zone = None if start is None else getattr(start.tzinfo, "key", None)
    return document if zone is None else document | {"tz": zone}


def _proba(density: Hypnodensity) -> dict[str, list[float]]:
    """Return columns of probabilities; YASA has no missing ones, so without evidence UNS gets 1."""
    standard, places = standard_scheme(density.scheme)
    words = YASA_WORDS[standard.name]
    matrix = density.probabilities
    known = ~np.isnan(matrix[:, 0])
    filled = np.where(known[:, None], matrix, 0.0)
    order = np.argsort(places)
    columns = {
        words.get(name, name): filled[:, column].tolist()
        for name, column in zip(standard.names, order, strict=True)
    }
    return columns if known.all() else columns | {"UNS": (~known).astype(float).tolist()}


def density_of_yasa(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities of a `yasa.Hypnogram`."""
    where = "yasa.Hypnogram"
    if source.proba is None:
        raise file_error(
            where,
            f"holds {NO_PROBABILITIES} YASA drops probabilities (proba) when stages are merged or resampled: "
            "take the hypnogram before that.",
            code=LABELS_ALONE,
        )
    columns = {str(name): source.proba[name].to_numpy(dtype=np.float64) for name in source.proba.columns}
    return _density(where, columns, document_of(source))


def density_of_document(where: Where, document: Any) -> RawDensity:
    """Return the probabilities in a dictionary of `yasa.Hypnogram.to_dict`, which have six decimals."""
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
    raw = _density(where, columns, document)
    values, n_rows = document.get("values"), len(np.asarray(raw.values))
    if isinstance(values, list) and len(values) != n_rows:
        raise file_error(
            where,
            f"has {len(values):,} stages and {n_rows:,} rows of probabilities, expected as many. Was it "
            "edited?",
        )
    return raw


def _density(where: Where, columns: Mapping[str, Floats], document: Mapping[str, Any]) -> RawDensity:
    start = start_of(where, document.get("start"), document.get("tz"))
    stages = STAGES[_check_count(where, document["n_stages"])]
    named = {SHORT.get(name.upper(), name.upper()): values for name, values in columns.items()}
    unknown = sorted(named.keys() - {*stages, *NO_STAGE})
    if unknown:
        raise file_error(where, f"has probabilities for {listed(unknown)}, expected {', '.join(stages)}.")
    lengths = {len(values) for values in named.values()}
    if len(lengths) != 1 or len(named) != len(columns):
        raise file_error(where, "has probabilities of different lengths, or twice for a stage.")
    n_epochs = lengths.pop()
    notes = []
    missing = [name for name in stages if name not in named]
    if missing:
        notes.append(f"no probabilities for {', '.join(missing)}: read as 0")
    values = np.column_stack([named.get(name, np.zeros(n_epochs)) for name in stages])
    dropped = [name for name in NO_STAGE if name in named]
    if dropped:
        values, note = without_undefined(values, np.sum([named[name] for name in dropped], axis=0), dropped)
        notes.append(note)
    names = tuple({"WAKE": "W", "REM": "R"}.get(name, name) for name in stages)
    scorer = document.get("scorer")
    return RawDensity(
        values,
        names,
        epoch_seconds=frequency_seconds(where, document["freq"]),
        start=start,
        notes=tuple(notes),
        source=None if scorer is None or not isinstance(where, str) else f"{where} of {str(scorer)[:200]}",
    )


def _numbers(where: Where, name: str, cells: Any) -> Floats:
    if isinstance(cells, list) and all(
        cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool)) for cell in cells
    ):
        try:
            return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
        except OverflowError:
            pass
    raise file_error(where, f"has a column {name[:40]!r} that is not a list of numbers.")


def start_of(where: Where, text: Any, zone: Any) -> datetime | None:
    """Return when a document of YASA begins; as in YASA, a start without offset is a time in its zone."""
    if text is None or isinstance(text, datetime):
        return text
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
    except (KeyError, ValueError, OSError, OverflowError):  # this computer does not know the zone
        return start


def document_of(source: Any) -> dict[str, Any]:
    """Return the dictionary of a `yasa.Hypnogram` like `to_dict`, without its probabilities."""
    start = None if source.start is None else source.start.to_pydatetime(warn=False)
    document = {name: getattr(source, name) for name in ("n_stages", "freq", "scorer")}
    return document | {"values": list(map(str, source.hypno.tolist())), "start": start}


def to_yasa(night: Decoding | Hypnogram) -> Any:
    """Return a `yasa.Hypnogram` (0.8 and later); a decoding includes the stager's probabilities."""
    yasa = library("yasa", "to_yasa()", None)
    given = night_of(night)
    hypnogram = given.hypnogram
    if hypnogram.start is None and hypnogram.offset_seconds:
        seconds = hypnogram.offset_seconds
        warn(f"to_yasa() loses that the first epoch begins {seconds:g} s into the recording.")
    return yasa.Hypnogram.from_dict(yasa_document(given))


def _is_json(head: bytes, path: Path) -> bool:
    """Whether `yasa.Hypnogram.to_json` wrote a file."""
    if not is_json(head):
        return False
    content = read_file(path)
    return all(key in content for key in (b'"values"', b'"n_stages"', b'"freq"'))


def _is_json_of_stages(head: bytes, path: Path) -> bool:
    """Whether YASA wrote a JSON object with stages, with its keys in any order."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return re.match(rb'\{\s*"values"\s*:\s*\[', text) is not None or _is_json(head, path)


FORMATS = (
    FileFormat(
        "yasa-json",
        "JSON of a yasa.Hypnogram",
        (".json",),
        _is_json,
        sniff_stages=_is_json_of_stages,
        stages=read_stages,
        probabilities=lambda path, options: density_of_document(path, load_json(path)),
        write=write_yasa_json,
        loses=(LEAD, ANNOTATIONS),
        has_final_stages=always_final,
    ),
)

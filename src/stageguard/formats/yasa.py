"""Read YASA's JSON and tables of events, and write its JSON. Another module reads its probabilities."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import Argument, InputError, Message
from stageguard.base.files import file_error
from stageguard.formats.hypnogram import UNSCORED_WORDS, HypnogramOptions, RawHypnogram
from stageguard.formats.json_file import load_json
from stageguard.formats.outgoing import Content, Outgoing, number, stage_words, standard_scheme
from stageguard.formats.staged_annotations import named_intervals, raw_of
from stageguard.formats.staged_intervals import stage_epochs
from stageguard.formats.tables.delimited import TextTable, as_number, read_rows
from stageguard.formats.yasa_probabilities import start_of
from stageguard.night.stages import AASM5, WLDR4, WNR3, WS2, StageScheme

SCHEMES = {5: AASM5, 4: WLDR4, 3: WNR3, 2: WS2}
COLUMNS = ("onset", "duration", "value", "description")
NANO_DIGITS = 9  # behind the point, of seconds
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "t", "m", "minute", "minutes"), 60.0),
    **{"ms": 1e-3, "l": 1e-3, "h": 3600.0},
}
YASA_WORDS = {
    "aasm5": {"W": "WAKE", "R": "REM"},
    "wldr4": {"W": "WAKE", "Light": "LIGHT", "Deep": "DEEP", "R": "REM"},
    "wnr3": {"W": "WAKE", "N": "NREM", "R": "REM"},
    "ws2": {"W": "WAKE", "S": "SLEEP"},
}
# Number and name of a stage must not contradict each other.
_VALUES = {"WAKE": 0, "W": 0, "N1": 1, "N2": 2, "N3": 3, "REM": 4, "R": 4, "SLEEP": 1, "NREM": 2}
_VALUES |= {"LIGHT": 2, "DEEP": 3, "ART": -1, "UNS": -2}


def read_yasa_json(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read what `Hypnogram.to_json` wrote."""
    content = load_json(path)
    values = content.get("values") if isinstance(content, dict) else None
    if not isinstance(values, list) or not values or not all(isinstance(each, str) for each in values):
        raise file_error(path, "has no 'values', expected a list of stage names as YASA writes it.")
    n_stages, freq, scorer = (content.get(key) for key in ("n_stages", "freq", "scorer"))
    return RawHypnogram(
        tuple(values),
        tuple(range(len(values))),
        epoch_seconds=frequency_seconds(path, freq),
        start=start_of(path, content.get("start"), content.get("tz")),
        scheme=scheme_of(path, n_stages),
        has_clock=content.get("start") is not None,
        scorer=scorer if isinstance(scorer, str) and scorer else None,
    )


def read_yasa_events(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read what `Hypnogram.as_events` returned, saved as a table: one row per epoch."""
    return from_events(path, read_rows(path, COLUMNS), options)


def from_events(path: Path, table: TextTable, options: HypnogramOptions) -> RawHypnogram:
    """Stages of such a table, whose numbers must agree with its names."""
    texts = table.column("description")
    for line, text, cell in zip(table.lines, texts, table.column("value"), strict=True):
        value = as_number(cell)
        if value is None or _VALUES.get(text.upper(), value) != value:
            raise file_error(path, f"line {line} has the value {cell[:20]!r} for {text[:20]!r}, unlike YASA.")
    scorers = set(table.column("scorer")) - {"", "nan", "None"} if "scorer" in table.header else set()
    if len(scorers) > 1:
        raise file_error(path, "holds several scorers, expected one. Keep the rows of one.")
    onsets, lasting = table.seconds("onset"), table.seconds("duration")
    intervals = named_intervals(path, table.lines, onsets.tolist(), lasting.tolist(), texts, options)
    one_length = float(lasting[0]) if (lasting == lasting[0]).all() else options.epoch_seconds
    staged = stage_epochs(path, intervals, one_length)
    known = {text.upper() for text in texts if text.casefold() not in UNSCORED_WORDS}
    return raw_of(staged, scheme=_told_by(known), scorer=next(iter(scorers), None))


def _told_by(known: set[str]) -> StageScheme | None:
    """Scheme that names belong to, where one of them is a stage of no other."""
    for names, scheme in (({"N1", "N2", "N3"}, AASM5), ({"LIGHT", "DEEP"}, WLDR4), ({"NREM"}, WNR3)):
        if known & names:
            return scheme
    return WS2 if "SLEEP" in known else None


def scheme_of(path: Path, n_stages: object) -> StageScheme | None:
    """Return the scheme of so many stages."""
    if n_stages is None:
        return None
    if not isinstance(n_stages, int) or n_stages not in SCHEMES:
        raise file_error(path, f"has n_stages {str(n_stages)[:20]!r}, expected 2, 3, 4 or 5.")
    return SCHEMES[n_stages]


def frequency_seconds(path: Path, freq: object) -> float | None:
    """Seconds of pandas' frequency text, such as "30s" or "0.5min"."""
    if freq is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)?\s*([A-Za-z]+)\s*", str(freq))
    if found is None or found[2].lower() not in _UNITS:
        raise file_error(path, f"has the frequency {str(freq)[:20]!r}, expected a text such as '30s'.")
    return float(found[1] or 1) * _UNITS[found[2].lower()]


def write_yasa_json(night: Outgoing, path: Path) -> Content:
    """Write what `yasa.Hypnogram.from_json` opens, with the probabilities where there are any."""
    document = yasa_document(night)
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    return Content({path: text}, has_probabilities=document["proba"] is not None)


def yasa_document(night: Outgoing) -> dict[str, Any]:
    """Return what `yasa.Hypnogram.from_dict` takes: YASA's nights begin with their recordings."""
    night = night.from_recording_start()
    values = stage_words(night, YASA_WORDS, "YASA", "UNS")
    hypnogram = night.stages("YASA")
    start = hypnogram.start
    seconds = number(hypnogram.epoch_seconds)
    if len(seconds.partition(".")[2]) > NANO_DIGITS:
        raise InputError(
            Message(
                f"YASA counts time in whole nanoseconds, but an epoch lasts {seconds} s. Write another "
                "format, or epochs of another length: ",
                Argument("reepoch_to", max(round(hypnogram.epoch_seconds, 3), 0.001)),
                ".",
            )
        )
    document: dict[str, Any] = {
        "values": values,
        "n_stages": hypnogram.scheme.n_stages,
        "freq": f"{seconds}s",
        "start": None if start is None else start.isoformat(),
        "scorer": hypnogram.scorer,
        "proba": None if night.density is None else _proba(night),
    }
    zone = None if start is None else getattr(start.tzinfo, "key", None)
    return document if zone is None else document | {"tz": zone}


def _proba(night: Outgoing) -> dict[str, list[float]]:
    """Columns of probabilities; YASA has no missing ones, so an epoch without evidence is UNS for certain."""
    assert night.density is not None
    standard, places = standard_scheme(night.scheme)
    words = YASA_WORDS[standard.name]
    matrix = night.density.probabilities
    known = ~np.isnan(matrix[:, 0])
    filled = np.where(known[:, None], matrix, 0.0)
    order = np.argsort(places)
    found = {
        words.get(name, name): filled[:, column].tolist()
        for name, column in zip(standard.names, order, strict=True)
    }
    return found if known.all() else found | {"UNS": (~known).astype(float).tolist()}

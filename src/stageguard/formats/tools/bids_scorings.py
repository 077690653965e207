"""Read and write several scorings of one night as a BIDS derivative.

BIDS has no rule for them yet. The layout is the one proposed to its examples: a row for each scored interval
and annotator, so that scorings may overlap, with method and confidence; HED tags in the JSON.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import did_you_mean
from stageguard.files import file_error, load_json
from stageguard.formats.annotations import staged_rows
from stageguard.formats.density import existing_file, listed
from stageguard.formats.file_format import OTHER_PROBABILITIES, FileFormat
from stageguard.formats.hypnogram import build_hypnogram
from stageguard.formats.outgoing import Content, Outgoing, number, plain_text, stage_words, standard_scheme
from stageguard.formats.raw_night import ONLY_STAGES, FileOptions, RawHypnogram, RawNight, Reader
from stageguard.formats.scorings import METHODS, Scoring, check_annotators, is_time, scorings_of
from stageguard.formats.sniffing import has_columns
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.tables.table import Table, as_number
from stageguard.formats.tables.timing import TOLERANCE
from stageguard.formats.tools.bids import MISSING, OWN_KEY, TIMES, read_sidecar, with_record
from stageguard.formats.tools.text import unread_columns
from stageguard.lazy import load
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import SCHEMES, UNSCORED_NAME, StageScheme, canonical_name
from stageguard.version import __version__

ENDING = "_desc-stages_events.tsv"
STAGED, UNSCORED = "sleep_stage", "unscored"  # words of the column annotation_type
UNSTAGED = (UNSCORED, "movement_artifact")
COLUMNS = (
    *(*TIMES, "annotation_type", "sleep_stage", "original_label", "scoring_standard"),
    *("annotation_method", "annotator_id", "channel", "confidence"),
)
TIME = "annotation_time"  # a further column, if it is known when somebody decided on the stages
# Of each scheme: its name in the column scoring_standard, and the words for stages in the column sleep_stage.
STANDARDS = {
    "aasm5": "aasm_5stage",
    "wldr4": "wake_light_deep_rem",
    "wnr3": "wake_nrem_rem",
    "ws2": "wake_sleep",
}
_FIVE = {"W": "wake", "N1": "n1", "N2": "n2", "N3": "n3", "R": "rem"}
WORDS = {
    "aasm5": _FIVE,
    "wldr4": _FIVE | {"Light": "light", "Deep": "deep"},
    "wnr3": _FIVE | {"N": "nrem"},
    "ws2": _FIVE | {"S": "sleep"},
}
MEANINGS = {
    "wake": "Wake",
    "n1": "N1",
    "n2": "N2",
    "n3": "N3",
    "rem": "REM sleep",
    "light": "N1 or N2",
    "deep": "N3",
    "nrem": "NREM sleep",
    "sleep": "Sleep of any stage",
}
_ASLEEP = "(Experiment-participant, Asleep)"
STAGE_TAGS = {
    "wake": "(Experiment-participant, Awake)",
    **{word: f"Sleep-stage-{word.upper()}" for word in ("n1", "n2", "n3", "rem")},
    **dict.fromkeys(("light", "deep", "nrem", "sleep"), _ASLEEP),
}
METHOD_TAGS = {"automated": "Software-agent"}  # people are Human-agent
HED_VERSION = ["8.4.0", "score_2.1.0"]  # SCORE is the library of clinical EEG, which has sleep stages
BIDS_VERSION = "1.10.1"
_PLAIN = re.compile(r"[A-Za-z0-9 _.-]+")  # a value that HED allows; other names are in the table alone
_SUBJECT = re.compile(r"sub-[0-9A-Za-z]+")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one annotator: their numbers in the table, and what is the same in all of them."""

    annotator: str
    rows: tuple[int, ...]
    record: Mapping[str, Any]  # what this package noted in the JSON, empty for other files


def read_scorings(path: str | os.PathLike[str]) -> tuple[Scoring, ...]:
    r"""Read all scorings of a night from a BIDS table of parallel scorings.

    Parameters
    ----------
    path : path-like
        An `*_events.tsv` with a row for each scored interval and annotator, as `convert` writes it and as
        proposed for BIDS: columns `onset`, `duration`, `sleep_stage` and `annotator_id`, and if known
        `annotation_type`, `annotation_method`, `scoring_standard`, `channel` and `confidence`.

    Returns
    -------
    tuple of Scoring
        One for each annotator, in the order of the file. Movement and unscored intervals are -1.

    Raises
    ------
    FileFormatError
        With one line that names the file, the line in it, and what was expected.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import stageguard as sg
    >>> from stageguard.formats.tools.bids_scorings import read_scorings
    >>> rows = ["onset\tduration\tsleep_stage\tannotator_id"]
    >>> rows += ["0\t30\twake\tAnn", "0\t30\tn1\tBob", "30\t30\tn1\tAnn", "30\t30\tn2\tBob"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder) / "sub-1_task-sleep_desc-stages_events.tsv"
    ...     _ = table.write_text("\n".join(rows))
    ...     scorings = read_scorings(table)
    >>> [(scoring.annotator, scoring.hypnogram.stages.tolist()) for scoring in scorings]
    [('Ann', ['W', 'N1']), ('Bob', ['N1', 'N2'])]
    """
    return _scorings(existing_file(path), FileOptions())


def _scorings(path: Path, options: FileOptions) -> tuple[Scoring, ...]:
    table, sidecar = _read_table(path), read_sidecar(path)
    scorings = []
    for rows in _by_annotator(table, sidecar):
        raw = _stages(path, table, rows, options)
        hypnogram = build_hypnogram(path, raw, options).hypnogram
        channels = _same(table, rows, "channel")
        scorings.append(
            Scoring(
                hypnogram,
                _same(table, rows, "annotation_method"),
                _confidence(table, rows, raw, hypnogram),
                _same(table, rows, "scoring_standard"),
                tuple(filter(None, (channels or "").split("|"))),
                _times(table, rows, raw, hypnogram),
            )
        )
    return tuple(scorings)


def _read_table(path: Path) -> Table:
    table = read_rows(path, TIMES)
    missing = [name for name in ("sleep_stage", "annotator_id") if name not in table.header]
    if missing:
        raise file_error(
            path,
            f"has the columns {listed(table.header)}, expected also {' and '.join(missing)}. Tables "
            "with one scoring are for read_hypnogram.",
        )
    return table


def _by_annotator(table: Table, sidecar: Mapping[str, Any]) -> list[_Rows]:
    """Return the rows of each annotator, in the order of the table."""
    annotators: dict[str, list[int]] = {}
    for row, name in enumerate(table.column("annotator_id")):
        annotators.setdefault(name if _is_filled(name) else "unknown", []).append(row)
    records = _records(sidecar).get("Scorings")
    records = records if isinstance(records, dict) else {}
    noted = {name: record for name, record in records.items() if isinstance(record, dict)}
    return [_Rows(name, tuple(rows), noted.get(name, {})) for name, rows in annotators.items()]


def _records(sidecar: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what this package noted in the JSON, empty if it wrote none."""
    own = sidecar.get(OWN_KEY)
    return own if isinstance(own, dict) else {}


def _stages(path: Path, table: Table, rows: _Rows, options: FileOptions) -> RawHypnogram:
    onsets, durations = table.seconds("onset"), table.seconds("duration")
    texts = table.column("sleep_stage")
    kinds = table.column("annotation_type") if "annotation_type" in table.header else ()
    # a row without a stage is unscored, whatever kept the annotator from scoring it
    kept = [
        row for row in rows.rows if not kinds or kinds[row] in (STAGED, *UNSTAGED) or _is_filled(texts[row])
    ]
    if not kept:
        raise file_error(
            path, f"{rows.annotator[:40]!r} has no stages, expected {STAGED} in annotation_type."
        )
    seconds = rows.record.get("EpochSeconds")
    if options.epoch_seconds is None and isinstance(seconds, int | float) and 0 < seconds < float("inf"):
        options = replace(options, epoch_seconds=float(seconds))
    lines = [
        (table.lines[row], float(onsets[row]), float(durations[row]), _stage(texts[row])) for row in kept
    ]
    raw = staged_rows(path, lines, options, scheme=_scheme(table, rows, {line[3] for line in lines}))
    raw = with_record(path, raw, {"Scorer": rows.annotator, **rows.record})
    n_left = len(rows.rows) - len(kept)
    left = (f"{n_left} annotations of other types are left out",) if n_left else ()
    return replace(raw, left_out=left)


def _scheme(table: Table, rows: _Rows, stages: set[str]) -> StageScheme | None:
    """Return the scheme of a known standard, if it has all stages; else names must tell it."""
    names = {standard: name for name, standard in STANDARDS.items()} | {"rk_1968": "aasm5"}
    name = names.get(_same(table, rows, "scoring_standard") or "")
    return SCHEMES[name] if name and stages <= {*SCHEMES[name].names, UNSCORED_NAME} else None


def _stage(text: str) -> str:
    return canonical_name(text) or text if _is_filled(text) else UNSCORED_NAME


def _is_filled(cell: str) -> bool:
    return cell.strip().casefold() not in ("", MISSING)


def _same(table: Table, rows: _Rows, column: str) -> str | None:
    """Return what a column says about an annotator, which must be the same in all rows, or None."""
    if column not in table.header:
        return None
    cells = table.column(column)
    found = {cells[row]: row for row in reversed(rows.rows) if _is_filled(cells[row])}
    if len(found) > 1:
        first, *others = sorted(found, key=found.__getitem__)
        raise table.cell_error(
            found[others[0]], column, f"{first[:40]!r} as for {rows.annotator[:40]!r} before", others[0]
        )
    return next(iter(found), None)


def _confidence(table: Table, rows: _Rows, raw: RawHypnogram, hypnogram: Hypnogram) -> Floats | None:
    """Return the confidence of each epoch, or None if no row of the annotator has one."""
    if "confidence" not in table.header:
        return None
    cells, onsets, durations = table.column("confidence"), table.seconds("onset"), table.seconds("duration")
    values = np.full(hypnogram.n_epochs, np.nan)
    for row in rows.rows:
        value = as_number(cells[row]) if _is_filled(cells[row]) else float("nan")
        if value is None or not (value != value or 0 <= value <= 1):
            raise table.cell_error(row, "confidence", "a number from 0 to 1, or n/a", cells[row])
        values[_epochs_of(onsets[row], durations[row], raw, hypnogram)] = value
    return None if np.isnan(values).all() else values


def _times(table: Table, rows: _Rows, raw: RawHypnogram, hypnogram: Hypnogram) -> tuple[str, ...]:
    """Return when the annotator decided on each epoch; nothing if no row says so."""
    if TIME not in table.header:
        return ()
    cells, onsets, durations = table.column(TIME), table.seconds("onset"), table.seconds("duration")
    times = [""] * hypnogram.n_epochs
    for row in rows.rows:
        if not _is_filled(cells[row]):
            continue
        if not is_time(cells[row]):
            raise table.cell_error(
                row, TIME, "ISO 8601 such as 2026-03-02T09:14:07+01:00, or n/a", cells[row]
            )
        here = range(hypnogram.n_epochs)[_epochs_of(onsets[row], durations[row], raw, hypnogram)]
        times[here.start : here.stop] = [cells[row]] * len(here)
    return tuple(times) if any(times) else ()


def _epochs_of(onset: float, duration: float, raw: RawHypnogram, hypnogram: Hypnogram) -> slice:
    first = (onset - raw.offset_seconds) / hypnogram.epoch_seconds
    last = first + duration / hypnogram.epoch_seconds
    return slice(max(int(first + TOLERANCE), 0), max(int(last + TOLERANCE), 0))


def read_one_scoring(path: Path, options: FileOptions) -> RawNight:
    """Read the scoring that `column` names by its annotator, or the one that is meant."""
    table, sidecar = _read_table(path), read_sidecar(path)
    rows = _chosen(path, _by_annotator(table, sidecar), options.column, _records(sidecar).get("Scoring"))
    read = (*TIMES, "annotation_type", "sleep_stage", "annotator_id", "original_label")
    return RawNight(
        stages=partial(_stages, path, table, rows, options),
        stage_texts=lambda: [table.column("sleep_stage")[row] for row in rows.rows],
        left_columns=partial(unread_columns, table, read),
    )


def _chosen(path: Path, scorings: Sequence[_Rows], wanted: str | None, meant: object) -> _Rows:
    """Return the rows of one annotator; refuse to choose among several."""
    names = [rows.annotator for rows in scorings]
    name = wanted if wanted is not None else meant if isinstance(meant, str) else None
    if name is None and len(names) == 1:
        name = names[0]
    if name in names:
        return scorings[names.index(name)]
    if wanted is not None:
        raise file_error(
            path, f"has no annotator {wanted[:40]!r}, but {listed(names)}.{did_you_mean(wanted, names)}"
        )
    raise file_error(
        path,
        f"holds the scorings of {listed(names)}. Name one: ",
        f"column={names[0]!r}",
        "; read_scorings returns all.",
    )


def write_night(night: Outgoing, path: Path) -> Content:
    """Write what a night holds: the stager's choice and what was decoded from it, or one scoring."""
    scorings = scorings_of(replace(night, hypnogram=night.stages("BIDS")))
    content = write_scorings(scorings, path, meant=scorings[-1], night=night)
    has_density = night.density is not None
    lost = (OTHER_PROBABILITIES,) if has_density else ()
    return replace(content, has_probabilities=has_density, has_profile=True, lost=lost)


def write_scorings(
    scorings: Sequence[Scoring], path: Path, *, meant: Scoring | None = None, night: Outgoing | None = None
) -> Content:
    """Write the table of several scorings, the JSON that explains it, and the description of a new dataset.

    `meant` is the scoring that is read if none is named, and `night` where it came from.
    """
    check_annotators(scorings)
    rows = sorted((row for scoring in scorings for row in _rows_of(scoring)), key=lambda row: float(row[0]))
    columns = (*COLUMNS, TIME) if any(scoring.times for scoring in scorings) else COLUMNS
    table = io.StringIO()
    lines = (cells[: len(columns)] for cells in (columns, *rows))
    csv.writer(table, delimiter="\t", lineterminator="\n").writerows(lines)  # quotes a quote
    sidecar = _sidecar(scorings) | {OWN_KEY: _record(scorings, meant, night)}
    files = {path: table.getvalue(), path.with_suffix(".json"): _json(sidecar)}
    notes = [] if path.name.endswith(ENDING) else [f"BIDS expects names that end with {ENDING}"]
    root = _dataset_of(path)
    if root is not None:
        described, remark = _description(root)
        files |= described
        notes += remark
    return Content(files, notes=tuple(notes))


def _rows_of(scoring: Scoring) -> Iterable[tuple[str, ...]]:
    """Return the rows of one scoring, one for each epoch; the last cell is of the column `TIME`."""
    hypnogram = scoring.hypnogram
    night = Outgoing(hypnogram)
    words = stage_words(night, WORDS, "BIDS", unscored=MISSING)
    who = (
        _standard(scoring),
        scoring.method or MISSING,
        scoring.annotator,
        "|".join(scoring.channels) or MISSING,
    )
    lasting = number(hypnogram.epoch_seconds)
    sure = [MISSING] * hypnogram.n_epochs
    if scoring.confidence is not None:
        sure = [MISSING if value != value else f"{value:.6g}" for value in scoring.confidence.tolist()]
    times = scoring.times or ("",) * hypnogram.n_epochs
    columns = (night.onsets, words, hypnogram.stages.tolist(), sure, times)
    for onset, word, label, value, time in zip(*columns, strict=True):
        kind = UNSCORED if word == MISSING else STAGED
        label = MISSING if word == MISSING else label
        yield (number(onset), lasting, kind, word, label, *map(plain_text, who), value, time or MISSING)


def _sidecar(scorings: Sequence[Scoring]) -> dict[str, Any]:
    """Return the meanings of the columns, with HED tags that keep the scorings of an interval apart."""
    words = dict.fromkeys(
        word
        for scoring in scorings
        for word in stage_words(Outgoing(scoring.hypnogram), WORDS, "BIDS", unscored=MISSING)
        if word != MISSING
    )
    standards = {STANDARDS[name]: ", ".join(WORDS[name].values()) for name in STANDARDS}
    methods = dict.fromkeys(scoring.method for scoring in scorings if scoring.method)
    has_plain_names = all(_PLAIN.fullmatch(scoring.annotator) for scoring in scorings)
    has_plain_channels = all(_PLAIN.fullmatch(name) for scoring in scorings for name in scoring.channels)
    who = "({annotation_method}" + (", {annotator_id})" if has_plain_names else ")")
    who += ", (Parameter-label/channels, {channel})" if has_plain_channels else ""
    columns: dict[str, Any] = {
        "onset": {"Description": "Start, from the start of the recording", "Units": "s"},
        "duration": {"Description": "How long the interval lasts", "Units": "s", "HED": "Duration/# second"},
        "annotation_type": {
            "Description": "Whether the interval was given a stage",
            "Levels": {STAGED: "It was.", UNSCORED: "It was left without a stage."},
            "HED": {
                STAGED: "({duration}, (Data-feature, {sleep_stage}, " + who + ", {confidence}))",
                UNSCORED: "({duration}, (Data-feature, Property-not-possible-to-determine, " + who + "))",
            },
        },
        "sleep_stage": {
            "Description": "Stage, in words that all scorings share",
            "Levels": {word: MEANINGS[word] for word in words},
            "HED": {word: STAGE_TAGS[word] for word in words},
        },
        "original_label": {"Description": "Stage, as the annotator calls it"},
        "scoring_standard": {
            "Description": "Rules or set of labels that the scoring follows",
            "Levels": {name: standards.get(name, name) for name in dict.fromkeys(map(_standard, scorings))},
        },
        "annotation_method": {
            "Description": "How the stage was found; n/a if not known",
            "Levels": {name: METHODS.get(name, name) for name in methods},
            "HED": {name: METHOD_TAGS.get(name, "Human-agent") for name in methods},
        },
        "annotator_id": {
            "Description": "Who or what scored the interval",
            **({"HED": "ID/#"} if has_plain_names else {}),
        },
        "channel": {
            "Description": "Channels that were scored; n/a if not known",
            "Delimiter": "|",
            **({"HED": "Parameter-value/#"} if has_plain_channels else {}),
        },
        "confidence": {
            "Description": "How sure the annotator was, 0 to 1. In rows of StageGuard or a stager it is the "
            "stager's probability of the row's stage.",
            "Units": "proportion",
            "HED": "Probability/#",
        },
    }
    if any(scoring.times for scoring in scorings):
        columns[TIME] = {
            "Description": "When the annotator decided on the stage, in ISO 8601; n/a if not known"
        }
    return columns


def _standard(scoring: Scoring) -> str:
    return scoring.standard or STANDARDS[standard_scheme(scoring.hypnogram.scheme)[0].name]


def _record(scorings: Sequence[Scoring], meant: Scoring | None, night: Outgoing | None) -> dict[str, Any]:
    """Return what BIDS has no word for, and what brings the same nights back."""
    profile = None if night is None else night.profile
    decoding = None if night is None else night.decoding
    return {
        "Version": __version__,
        "Scoring": None if meant is None else meant.annotator,
        "Scorings": {scoring.annotator: _described(scoring.hypnogram) for scoring in scorings},
        "Profile": None if profile is None else {"Name": profile.name, "SHA256": profile.sha256},
        "Methods": None if decoding is None else load("report.methods:methods_text")(decoding),
    }


def _described(hypnogram: Hypnogram) -> dict[str, Any]:
    start = hypnogram.start
    return {
        "Scheme": {"Name": hypnogram.scheme.name, "Stages": list(hypnogram.scheme.names)},
        "EpochSeconds": hypnogram.epoch_seconds,
        "OffsetSeconds": hypnogram.offset_seconds,
        "NumberOfEpochs": hypnogram.n_epochs,
        "Start": None if start is None else start.isoformat(),
    }


def _dataset_of(path: Path) -> Path | None:
    """Return the folder of the BIDS dataset that a path is in: above the first folder of its subject."""
    subject = _SUBJECT.match(path.name)
    above = [folder for folder in path.parents if subject is not None and folder.name == subject[0]]
    return above[0].parent if above else None


def _description(root: Path) -> tuple[dict[Path, str], list[str]]:
    """Return the description of a new dataset, or a remark on the one that is there, which is not changed."""
    path = root / "dataset_description.json"
    if path.exists():
        content = load_json(path)
        found = content if isinstance(content, dict) else {}
        lacks = [
            *([] if found.get("DatasetType") == "derivative" else ['"DatasetType": "derivative"']),
            *([] if "HEDVersion" in found else [f'"HEDVersion": {json.dumps(HED_VERSION)}']),
        ]
        return {}, [f"{path.name} of the dataset should have {' and '.join(lacks)}"] if lacks else []
    described = {
        "Name": "Sleep stages",
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "HEDVersion": HED_VERSION,
        "GeneratedBy": [{"Name": "StageGuard", "Version": __version__}],
    }
    return {path: _json(described)}, []


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


FORMATS = (
    FileFormat(
        "bids-scorings",
        "BIDS derivative with parallel scorings",
        (ENDING,),
        has_columns(*TIMES, "sleep_stage", "annotator_id"),
        reader=Reader(ONLY_STAGES, read_one_scoring),
        write=write_night,
        loses=(OTHER_PROBABILITIES, "other annotations", "start time, unless stageguard wrote it"),
        holds_scorings=True,
    ),
)

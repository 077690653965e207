"""Read what wearables and their tools say of days: asleep, GGIR, exports of Fitbit and of Apple Health.

asleep writes a stage (wake, NREM, REM, non_wear) per 30 s. GGIR's time series of part 5 has a row per epoch:
sustained inactivity in the sleep period, and naps, are sleep; invalid epochs are unscored. Its times are UTC.

Fitbit and Apple Health export intervals of sleep, and nothing in between. An export of several days is read
from noon to noon: wake between the intervals of a day, and unscored on a day without any, since neither says
when the device was worn. Their light or core and deep sleep are the Light and Deep of four stages. Sleep
without stages (Fitbit's classic logs, Apple's plain Asleep) is W and S, and so is an export that mixes both,
unless four stages are asked for: then sleep without stages is unscored. Fitbit's restless is wake, as in its
own minutes asleep. Of several sources in Apple Health, the one with the most sleep is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats
from stageguard.files import file_error, load_json, open_file
from stageguard.formats.density import MOST_EPOCHS, listed
from stageguard.formats.file_format import PROBABILITIES, FileFormat
from stageguard.formats.raw_night import FileOptions, RawHypnogram, of_stages
from stageguard.formats.sniffing import has_columns, xml_root
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.tables.row_times import parse_cells
from stageguard.formats.tables.table import Table
from stageguard.night.hypnogram import later
from stageguard.night.stages import UNSCORED_NAME, WLDR4, WNR3, WS2, StageScheme
from stageguard.night.timing import seconds_between

ASLEEP_COLUMNS = ("time", "sleep_wake", "sleep_stage", "raw_label")
ASLEEP_STAGES = {"wake": "W", "NREM": "N", "REM": "R", "non_wear": UNSCORED_NAME}
GGIR_COLUMNS = ("timenum", "sleepperiodtime", "invalidepoch", "class_id")
GGIR_SLEEP_CLASS = 0.0  # of class_id: sleep in the sleep period
NOON = time(12)
EPOCH_SECONDS = 30.0  # of exports, whose intervals are multiples of it or of any second
MOST_DAYS = 340  # of an export: more epochs do not fit one recording

FITBIT_LEVELS = {
    **{"wake": "W", "light": "Light", "deep": "Deep", "rem": "R"},
    **{"awake": "W", "restless": "W", "asleep": "S", "unknown": UNSCORED_NAME},
}
APPLE_TYPE = "HKCategoryTypeIdentifierSleepAnalysis"
APPLE_VALUE = "HKCategoryValueSleepAnalysis"
APPLE_STAGES = {
    **{"Awake": "W", "AsleepCore": "Light", "AsleepDeep": "Deep", "AsleepREM": "R"},
    **{"Asleep": "S", "AsleepUnspecified": "S"},
}
STAGED = ("Light", "Deep", "R")


def read_asleep(path: Path, options: FileOptions) -> RawHypnogram:
    """Read `predictions.csv` of asleep."""
    table = read_rows(path, ASLEEP_COLUMNS)
    times = parse_cells(table.column("time"))
    if times is None or times.first is None:
        raise file_error(path, "its column time holds no dates and times. Was it written by asleep?")
    stages = _mapped(table, "sleep_stage", ASLEEP_STAGES)
    return _rows_on_grid(path, times.values, stages, EPOCH_SECONDS, times.first, WNR3)


def read_ggir(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the time series of GGIR's part 5 (`ms5.outraw`), a row per epoch."""
    table = read_rows(path, GGIR_COLUMNS)
    seconds, in_period, invalid, behaviour = (table.seconds(name) for name in GGIR_COLUMNS)
    asleep = behaviour == GGIR_SLEEP_CLASS
    if "sibdetection" in table.header:
        bouts = table.seconds("sibdetection")
        asleep = ((in_period == 1) & (bouts == 1)) | (bouts == 2)
    stages = np.where(invalid == 1, UNSCORED_NAME, np.where(asleep, "S", "W"))
    epoch_seconds = float(np.median(np.diff(seconds))) if len(seconds) > 1 else 0.0
    if not epoch_seconds > 0:
        raise file_error(path, "has fewer than two rows in order of time, expected a row per epoch.")
    start = datetime.fromtimestamp(float(seconds[0]), UTC)
    note = "times are UTC, since GGIR writes no time zone: say where the person was"
    return _rows_on_grid(path, seconds - seconds[0], stages, epoch_seconds, start, WS2, (note,))


def _mapped(table: Table, column: str, names: Mapping[str, str]) -> list[str]:
    cells = table.column(column)
    for row, cell in enumerate(cells):
        if cell not in names:
            raise table.cell_error(row, column, " or ".join(names), cell)
    return [names[cell] for cell in cells]


def _rows_on_grid(
    path: Path,
    seconds: Floats,
    stages: Iterable[str],
    epoch_seconds: float,
    start: datetime,
    scheme: StageScheme,
    notes: tuple[str, ...] = (),
) -> RawHypnogram:
    """Return rows at their epochs, unscored where there are none."""
    places = np.rint(seconds / epoch_seconds).astype(np.int64)
    if places.min() < 0 or places.max() >= MOST_EPOCHS:
        raise file_error(path, "its rows are not in order of time, or years apart. Was it put together?")
    labels = np.full(int(places.max()) + 1, UNSCORED_NAME, dtype=object)
    labels[places] = list(stages)
    return RawHypnogram(tuple(labels.tolist()), None, epoch_seconds, start, scheme=scheme, notes=notes)


@dataclass(frozen=True, slots=True)
class Interval:
    """A stage from a moment on; "S" is sleep without stages."""

    start: datetime
    seconds: float
    stage: str


def read_fitbit(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the logs of a `sleep-*.json`, or of an answer of Fitbit's interface."""
    content = load_json(path)
    logs: Any = content.get("sleep") if isinstance(content, dict) else content
    try:
        intervals = [interval for log in logs for interval in _fitbit_log(log)]
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise file_error(
            path, "is not an export of Fitbit's sleep: expected logs with startTime and levels.data."
        ) from None
    return _diary(path, intervals, options, "Fitbit")


def _fitbit_log(log: Mapping[str, Any]) -> list[Interval]:
    """Return the intervals of a log, the short awakenings last, since they lie within the others."""
    start, levels = datetime.fromisoformat(log["startTime"]), log["levels"]
    placed, end = list[tuple[datetime, float, float]](), 0.0
    intervals = []
    for entry in levels["data"]:
        moment, seconds = datetime.fromisoformat(entry["dateTime"]), float(entry["seconds"])
        onset = seconds_between(start, moment)
        if abs(abs(onset - end) - 3600.0) < EPOCH_SECONDS:
            onset = end  # the clock was changed during this sleep, which went on
        placed.append((moment, onset, seconds))
        end = onset + seconds
        intervals.append(Interval(later(start, onset), seconds, FITBIT_LEVELS[entry["level"]]))
    for entry in levels.get("shortData", ()):
        moment, seconds = datetime.fromisoformat(entry["dateTime"]), float(entry["seconds"])
        within = [(at, onset) for at, onset, length in placed if at <= moment < later(at, length)]
        for at, onset in within[:1]:
            begin = later(start, onset + seconds_between(at, moment))
            intervals.append(Interval(begin, seconds, FITBIT_LEVELS[entry["level"]]))
    return intervals


def read_apple(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the sleep in an `export.xml` of Apple Health."""
    sources: dict[str, list[Interval]] = {}
    zones: Counter[str] = Counter()
    for record, zone in _apple_records(path):
        value = record.get("value", "").removeprefix(APPLE_VALUE)
        if value not in APPLE_STAGES:  # in bed says nothing of sleep
            continue
        try:
            begin, end = (_apple_time(record[key]) for key in ("startDate", "endDate"))
        except (KeyError, ValueError):
            raise file_error(path, f"has a record without readable times: {str(record)[:80]}.") from None
        interval = Interval(begin, seconds_between(begin, end), APPLE_STAGES[value])
        sources.setdefault(record.get("sourceName", "Apple Health"), []).append(interval)
        zones[zone] += bool(zone)
    if not sources:
        raise file_error(path, "holds no sleep: no record says more than that the person was in bed.")
    asleep = {
        name: sum(each.seconds for each in intervals if each.stage != "W")
        for name, intervals in sources.items()
    }
    chosen = max(asleep, key=lambda name: asleep[name])
    others = [name for name in sources if name != chosen]
    notes: tuple[str, ...] = ()
    if others:
        notes = (f"of several sources the one with the most sleep, {chosen}; not {listed(others)}",)
    zone = max(zones, key=lambda name: zones[name], default="")
    intervals = [replace(each, start=_in_zone(each.start, zone)) for each in sources[chosen]]
    offsets = {each.start.utcoffset() for each in intervals}
    if not zone and len(offsets) > 1:  # a change of clocks, or a journey
        first = min(intervals, key=lambda each: each.start).start
        notes += (
            f"times are shown at {first:%z}, though the export has "
            f"{len(offsets)} offsets from UTC and names no time zone: name it with --timezone",
        )
    return _diary(path, intervals, options, chosen, notes)


def _apple_records(path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the attributes of each record of sleep, and its time zone if it has one; a file may have 1 GB."""
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
    from defusedxml.ElementTree import iterparse  # type: ignore[import-untyped]

    try:
        with open_file(path) as file:
            events = iterparse(file, events=("start", "end"))
            _, root = next(events)
            for event, element in events:
                if event == "end" and element.tag == "Record":
                    if element.get("type") == APPLE_TYPE:
                        zone = [each.get("value") for each in element if each.get("key") == "HKTimeZone"]
                        yield dict(element.attrib), zone[0] if zone else ""
                    root.clear()
    except DefusedXmlException:
        raise file_error(path, "defines XML entities, which exports do not need and attacks do.") from None
    except (ParseError, LookupError, ValueError) as error:
        raise file_error(path, f"is not readable XML ({error}). Was it copied completely?") from None


def _apple_time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S %z")


def _in_zone(moment: datetime, zone: str) -> datetime:
    """Return a moment in the time zone of this name, or unchanged if it is not known."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return moment.astimezone(ZoneInfo(zone)) if zone else moment
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return moment


def day_of(moment: datetime) -> date:
    """Return the day of a moment, by the clock on the wall: the date of the last noon."""
    return (moment.replace(tzinfo=None) - timedelta(hours=NOON.hour)).date()


def _diary(
    path: Path, intervals: Sequence[Interval], options: FileOptions, scorer: str, notes: tuple[str, ...] = ()
) -> RawHypnogram:
    """Return intervals on a grid of epochs: one day as it is, several from noon to noon."""
    lasting = [each for each in intervals if each.seconds > 0]
    if not lasting:
        raise file_error(path, "holds no interval of sleep. Was it written completely?")
    last = max(day_of(each.start) for each in lasting)
    recent = [each for each in lasting if (last - day_of(each.start)).days < MOST_DAYS]
    if len(recent) < len(lasting):
        notes += (f"the last {MOST_DAYS} days: more do not fit one recording",)
    intervals, remarks = _in_one_scheme(recent, options)
    first = min(intervals, key=lambda each: seconds_between(intervals[0].start, each.start)).start
    ends = [later(each.start, each.seconds) for each in intervals]
    touched = {
        day_of(moment) for each, end in zip(intervals, ends, strict=True) for moment in (each.start, end)
    }
    begin, n_epochs = first, max(seconds_between(first, end) for end in ends) / EPOCH_SECONDS
    if len(touched) > 1:
        begin = datetime.combine(min(touched), NOON, first.tzinfo)
        noon_after = datetime.combine(max(touched) + timedelta(days=1), NOON, first.tzinfo)
        n_epochs = seconds_between(begin, noon_after) / EPOCH_SECONDS
        remarks += ("wake between the sleeps of a day, since the export does not say when it was worn",)
    stages = np.full(max(1, round(n_epochs)), "W" if len(touched) == 1 else UNSCORED_NAME, dtype=object)
    for day in touched if len(touched) > 1 else ():
        noons = [datetime.combine(day + timedelta(days=n), NOON, first.tzinfo) for n in (0, 1)]
        stages[slice(*(_epoch(begin, noon) for noon in noons))] = "W"
    for each in intervals:
        stages[_epoch(begin, each.start) : _epoch(begin, later(each.start, each.seconds))] = each.stage
    scheme = WS2 if "S" in {each.stage for each in intervals} else WLDR4
    return RawHypnogram(
        tuple(stages.tolist()),
        None,
        EPOCH_SECONDS,
        begin,
        scheme=scheme,
        notes=notes + remarks,
        scorer=scorer,
    )


def _epoch(begin: datetime, moment: datetime) -> int:
    """Return the epoch that begins nearest to a moment."""
    return int(np.floor(seconds_between(begin, moment) / EPOCH_SECONDS + 0.5))


def _in_one_scheme(
    intervals: Sequence[Interval], options: FileOptions
) -> tuple[list[Interval], tuple[str, ...]]:
    """Return intervals of W and S, or of four stages, and a remark if the export mixes both."""
    stages = {each.stage for each in intervals}
    if "S" not in stages or stages.isdisjoint(STAGED):
        return list(intervals), ()
    minutes = sum(each.seconds for each in intervals if each.stage == "S") / 60.0
    wanted = options.scheme or options.default_scheme
    if wanted is not None and wanted != WS2:
        staged = [replace(each, stage=UNSCORED_NAME) if each.stage == "S" else each for each in intervals]
        return staged, (f"{minutes:.0f} min of sleep without stages are unscored",)
    plain = [replace(each, stage="S") if each.stage in STAGED else each for each in intervals]
    return plain, (
        f"W and S alone, since {minutes:.0f} min of sleep have no stages: scheme wldr4 keeps them",
    )


def _is_fitbit(head: bytes, path: Path) -> bool:
    """Whether content is JSON with logs of sleep."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{") and all(
        key in head for key in (b'"dateOfSleep"', b'"startTime"')
    )


def _is_apple(head: bytes, path: Path) -> bool:
    """Whether content is an export of Apple Health, whose document type is longer than `head`."""
    return b"<!DOCTYPE HealthData" in head or xml_root(head) == "HealthData"


FORMATS = (
    FileFormat(
        "asleep-csv",
        "predictions of asleep",
        (".csv",),
        has_columns(*ASLEEP_COLUMNS),
        reader=of_stages(read_asleep),
        loses=(PROBABILITIES,),
    ),
    FileFormat(
        "ggir-csv",
        "a time series of GGIR (part 5)",
        (".csv",),
        has_columns(*GGIR_COLUMNS),
        reader=of_stages(read_ggir),
        loses=(PROBABILITIES,),
    ),
    FileFormat(
        "fitbit-json",
        "a Fitbit export of sleep (sleep-*.json)",
        (".json",),
        _is_fitbit,
        reader=of_stages(read_fitbit),
        loses=(PROBABILITIES,),
    ),
    FileFormat(
        "apple-health",
        "an Apple Health export (export.xml)",
        (".xml",),
        _is_apple,
        reader=of_stages(read_apple),
        loses=(PROBABILITIES,),
    ),
)

"""Recordings and scorings in their native formats, byte by byte, so that each of them can also be spoilt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

START = datetime(2021, 3, 4, 22, 30, 0)
STAGE_CODES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5, "?": 9}
NSRR_CONCEPTS = {
    **{"W": "Wake|0", "N1": "Stage 1 sleep|1", "N2": "Stage 2 sleep|2", "N3": "Stage 3 sleep|3"},
    **{"N4": "Stage 4 sleep|4", "R": "REM sleep|5", "M": "Movement|6", "?": "Unscored|9"},
}


class Channel(NamedTuple):
    """A signal as EDF has it: digital samples, and the range of numbers they stand for."""

    label: str
    digital: np.ndarray
    rate_hz: float
    unit: str = "uV"
    physical: tuple[object, object] = (-3276.8, 3276.7)
    digital_range: tuple[object, object] = (-32768, 32767)

    @property
    def values(self) -> np.ndarray:
        """What the samples stand for, in the channel's unit."""
        (low, high), (first, last) = self.physical, self.digital_range
        return (self.digital - float(first)) * (float(high) - float(low)) / (
            float(last) - float(first)
        ) + float(low)


def channel(label: str, seconds: float, rate_hz: float = 8, *, seed: int = 0, **rest: object) -> Channel:
    """A channel of noise."""
    rng = np.random.default_rng([seed, *label.encode()])
    return Channel(label, rng.integers(-3000, 3000, round(seconds * rate_hz)).astype("<i2"), rate_hz, **rest)


def tal(onset: float, texts: Sequence[str] = (), seconds: float | None = None) -> bytes:
    """One list of annotations; without a text it is the time of a record."""
    time = f"{onset:+.10g}".encode()
    lasting = b"" if seconds is None else b"\x15" + f"{seconds:.10g}".encode()
    return time + lasting + b"\x14" + b"".join(text.encode() + b"\x14" for text in texts or [""]) + b"\x00"


def write_edf(
    path: Path,
    channels: Sequence[Channel],
    *,
    annotations: Iterable[tuple[float, float | None, str]] | None = None,
    onsets: Sequence[float] | None = None,
    record_seconds: float = 1.0,
    start: datetime | str = START,
    patient: str = "X X X X",
    recording: str = "",
    n_records: int | None = None,
    plus: str | None = None,
    annotation_bytes: int = 120,
) -> Path:
    """Write an EDF or EDF+ file; annotations go into the record they begin in."""
    lengths = [round(each.rate_hz * record_seconds) for each in channels]
    count = len(channels[0].digital) // lengths[0] if channels else 1
    has_text = annotations is not None or onsets is not None
    texts: list[bytes] = [b""] * count
    if has_text:
        times = list(onsets) if onsets is not None else [i * record_seconds for i in range(count)]
        texts = [tal(time) for time in times]
        for onset, seconds, text in annotations or ():
            place = max((i for i, time in enumerate(times) if time <= onset), default=0)
            texts[place] += tal(onset, [text], seconds)
        annotation_bytes = max(annotation_bytes, *(len(text) + 1 for text in texts))
        annotation_bytes += annotation_bytes % 2
    reserved = plus if plus is not None else ("EDF+C" if has_text else "")
    stamp = start if isinstance(start, str) else start.strftime("%d.%m.%y%H.%M.%S")
    n_signals = len(channels) + has_text
    fixed = ["0".ljust(8), patient.ljust(80), recording.ljust(80), stamp.ljust(16)]
    fixed += [str(256 * (n_signals + 1)).ljust(8), reserved.ljust(44)]
    fixed += [str(count if n_records is None else n_records).ljust(8), f"{record_seconds:g}".ljust(8)]
    head = "".join(fixed) + str(n_signals).ljust(4)
    rows = [
        (each.label, "", each.unit, *each.physical, *each.digital_range, "", length, "")
        for each, length in zip(channels, lengths, strict=True)
    ]
    if has_text:
        rows.append(("EDF Annotations", "", "", -1, 1, -32768, 32767, "", annotation_bytes // 2, ""))
    for place, width in enumerate((16, 80, 8, 8, 8, 8, 8, 80, 8, 32)):
        head += "".join(str(row[place])[:width].ljust(width) for row in rows)
    with path.open("wb") as file:
        file.write(head.encode("latin-1"))
        for record in range(count):
            for each, length in zip(channels, lengths, strict=True):
                file.write(each.digital[record * length : (record + 1) * length].astype("<i2").tobytes())
            if has_text:
                file.write(texts[record].ljust(annotation_bytes, b"\x00"))
    return path


def runs(stages: Sequence[str], epoch_seconds: float = 30.0) -> list[tuple[float, float, str]]:
    """Equal neighbours joined: onset, duration, stage."""
    found: list[tuple[float, float, str]] = []
    for epoch, stage in enumerate(stages):
        if found and found[-1][2] == stage:
            onset, seconds, _ = found[-1]
            found[-1] = (onset, seconds + epoch_seconds, stage)
        else:
            found.append((epoch * epoch_seconds, epoch_seconds, stage))
    return found


def stage_annotations(stages: Sequence[str], epoch_seconds: float = 30.0) -> list[tuple[float, float, str]]:
    """Stages as Sleep-EDF writes them: "Sleep stage 2" for N2, "Sleep stage W"."""
    words = {"N1": "1", "N2": "2", "N3": "3", "N4": "4"}
    return [
        (onset, seconds, "Movement time" if stage == "M" else f"Sleep stage {words.get(stage, stage)}")
        for onset, seconds, stage in runs(stages, epoch_seconds)
    ]


def write_edf_hypnogram(
    path: Path, stages: Sequence[str], *, start: datetime | str = START, **rest: object
) -> Path:
    """An EDF+ file of annotations only, in one record of no duration, as Sleep-EDF has them."""
    return write_edf(path, [], annotations=stage_annotations(stages), start=start, record_seconds=0, **rest)


def profusion_xml(codes: Iterable[object], epoch_length: object = 30) -> str:
    """A Compumedics Profusion export with one number per epoch."""
    length = "" if epoch_length is None else f"<EpochLength>{epoch_length}</EpochLength>"
    stages = "".join(f"<SleepStage>{code}</SleepStage>" for code in codes)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<CMPStudyConfig>{length}<ScoredEvents><ScoredEvent>'
        "<Name>Hypopnea</Name><Start>12.5</Start><Duration>20</Duration><Input>THOR RES</Input></ScoredEvent>"
        "</ScoredEvents>"
        f"<SleepStages>{stages}</SleepStages></CMPStudyConfig>"
    )


def nsrr_event(kind: str, concept: str, start: object, duration: object, more: str = "") -> str:
    return (
        f"<ScoredEvent><EventType>{kind}</EventType><EventConcept>{concept}</EventConcept><Start>{start}</Start>"
        f"<Duration>{duration}</Duration>{more}</ScoredEvent>"
    )


def nsrr_xml(stages: Sequence[str], epoch_length: object = 30, clock: str = "00.00.00 22.30.00") -> str:
    """An annotation file of the NSRR with stages as runs of epochs, and other events between them."""
    seconds = float(epoch_length) if epoch_length is not None else 30.0
    events = [
        nsrr_event("", "Recording Start Time", 0, len(stages) * seconds, f"<ClockTime>{clock}</ClockTime>")
    ]
    events.append(nsrr_event("Respiratory|Respiratory", "Hypopnea|Hypopnea", 31.4, 12.1))
    events += [
        nsrr_event("Stages|Stages", NSRR_CONCEPTS[stage], onset, lasting)
        for onset, lasting, stage in runs(stages, seconds)
    ]
    events.append(nsrr_event("Arousals|Arousals", "Arousal|Arousal ()", 61.2, 3.4))
    length = "" if epoch_length is None else f"<EpochLength>{epoch_length}</EpochLength>"
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<PSGAnnotation>'
        f"<SoftwareVersion>Compumedics</SoftwareVersion>{length}<ScoredEvents>{''.join(events)}</ScoredEvents>"
        "</PSGAnnotation>"
    )


def shhs_visit(
    folder: Path, name: str, stages: Sequence[str], *, visit: int = 1, profusion: bool = False
) -> None:
    """A recording of SHHS with its channels, rates and labels, and its scoring, in the tree of the NSRR."""
    seconds = 30 * len(stages)
    tree = folder / "polysomnography"
    kinds = ("nsrr", "profusion") if profusion else ("nsrr",)
    for part in ("edfs", *(f"annotations-events-{kind}" for kind in kinds)):
        (tree / part / f"shhs{visit}").mkdir(parents=True, exist_ok=True)
    seed = int(name)
    channels = [
        channel("SaO2", seconds, 1, seed=seed, unit="", physical=(0, 100)),
        channel("H.R.", seconds, 1, seed=seed, unit="", physical=(0, 250)),
        channel("EEG(sec)", seconds, 125, seed=seed, physical=(-125, 125)),
        channel("ECG", seconds, 125, seed=seed, unit="mV", physical=(-1.25, 1.25)),
        channel("EMG", seconds, 125, seed=seed, physical=(-31.5, 31.5)),
        channel("EOG(L)", seconds, 50, seed=seed, physical=(-125, 125)),
        channel("EOG(R)", seconds, 50, seed=seed, physical=(-125, 125)),
        channel("EEG", seconds, 125, seed=seed, physical=(-125, 125)),
        channel("THOR RES", seconds, 10, seed=seed, unit="", physical=(-1, 1)),
        channel("ABDO RES", seconds, 10, seed=seed, unit="", physical=(-1, 1)),
        channel("POSITION", seconds, 1, seed=seed, unit="", physical=(0, 3)),
        channel("LIGHT", seconds, 1, seed=seed, unit="", physical=(0, 1)),
        channel("NEW AIR", seconds, 10, seed=seed, unit="", physical=(-1, 1)),
        channel("OX stat", seconds, 1, seed=seed, unit="", physical=(0, 3)),
    ]
    stem = f"shhs{visit}-{name}"
    write_edf(tree / "edfs" / f"shhs{visit}" / f"{stem}.edf", channels, start="01.01.8523.00.38", patient="")
    place = tree / "annotations-events-nsrr" / f"shhs{visit}" / f"{stem}-nsrr.xml"
    place.write_text(nsrr_xml(stages, clock="00.00.00 23.00.38"))
    if profusion:
        place = tree / "annotations-events-profusion" / f"shhs{visit}" / f"{stem}-profusion.xml"
        place.write_text(profusion_xml(STAGE_CODES[stage] for stage in stages))


def sleep_edf_night(folder: Path, name: str, stages: Sequence[str], *, seconds: float | None = None) -> None:
    """A night of Sleep-EDF Expanded; `name` is that of the recording's file, the scorer is C or P."""
    telemetry = name.startswith("ST")
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 30 * len(stages) if seconds is None else seconds
    seed = int(name[2:6])
    channels = [
        channel("EEG Fpz-Cz", seconds, 100, seed=seed, physical=(-192, 192)),
        channel("EEG Pz-Oz", seconds, 100, seed=seed, physical=(-197, 196)),
        channel("EOG horizontal", seconds, 100, seed=seed, physical=(-1009, 1009)),
    ]
    if telemetry:
        channels.append(channel("EMG submental", seconds, 100, seed=seed, physical=(-12, 12)))
    else:
        channels.append(channel("Resp oro-nasal", seconds, 1, seed=seed, unit="", physical=(-2048, 2047)))
        channels.append(channel("EMG submental", seconds, 1, seed=seed, physical=(-5, 5)))
        channels.append(channel("Temp rectal", seconds, 1, seed=seed, unit="DegC", physical=(34, 40)))
    channels.append(channel("Marker", seconds, 1, seed=seed, unit="", physical=(-2047, 2048)))
    start = datetime(1989, 4, 24, 16, 13)
    head = {"patient": "X F X Female_33yr", "recording": "Startdate 24-APR-1989 X X X", "start": start}
    record = 30.0 if not seconds % 30 else 1.0
    write_edf(folder / f"{name}-PSG.edf", channels, record_seconds=record, plus="EDF+C", **head)
    scorer = "P" if telemetry else "C"
    write_edf_hypnogram(folder / f"{name[:7]}{scorer}-Hypnogram.edf", stages, **head)


def wfdb_annotation(sample: int, before: int, code: int, text: str = "") -> bytes:
    """One annotation in the MIT format; `before` is the sample of the one before."""
    step, data = sample - before, b""
    if not 0 <= step < 1024:
        high, low = (step >> 16) & 0xFFFF, step & 0xFFFF
        data += (59 << 10).to_bytes(2, "little") + high.to_bytes(2, "little") + low.to_bytes(2, "little")
        step = 0
    data += (code << 10 | step).to_bytes(2, "little")
    if text:
        words = text.encode() + b"\x00"
        data += (63 << 10 | len(words)).to_bytes(2, "little") + words + b"\x00" * (len(words) % 2)
    return data


def write_wfdb_annotations(path: Path, marks: Sequence[tuple[int, int, str]]) -> Path:
    """Annotations given as sample, code and text."""
    data, before = b"", 0
    for sample, code, text in marks:
        data += wfdb_annotation(sample, before, code, text)
        before = sample
    path.write_bytes(data + b"\x00\x00")
    return path


def pack_212(samples: np.ndarray) -> bytes:
    """Samples of 12 bits, two in three bytes."""
    flat = np.append(samples.reshape(-1), 0)[: samples.size + samples.size % 2].astype(np.int64) & 0xFFF
    first, second = flat[::2], flat[1::2]
    rows = np.stack([first & 0xFF, first >> 8 | second >> 8 << 4, second & 0xFF], axis=1)
    return rows.astype(np.uint8).tobytes()


def slpdb_record(
    folder: Path, name: str, stages: Sequence[str], signals: Mapping[str, str] | None = None, seed: int = 0
) -> dict[str, np.ndarray]:
    """A record of slpdb: format 212 at 250 Hz, beats, a stage every 30 s ("" leaves one out)."""
    folder.mkdir(parents=True, exist_ok=True)
    signals = signals or {
        **{"ECG": "-200/mV", "BP": "4.77778(-477)/mmHg", "EEG (C4-A1)": "-6430/mV"},
        **{"Resp (sum)": "690/l"},
    }
    n_samples = 7500 * len(stages)
    digital = np.random.default_rng(seed).integers(-2000, 2000, (n_samples, len(signals)))
    lines = [f"{name} {len(signals)} 250/0.033333333(94) {n_samples} 23:07:00 19/1/1989"]
    for place, (label, gain) in enumerate(signals.items()):
        lines.append(f"{name}.dat 212 {gain} 12 0 {digital[0, place]} 0 0 {label}")
    lines.append("# 44 M 89 32-01-89")
    (folder / f"{name}.hea").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.dat").write_bytes(pack_212(digital))
    beats = np.arange(19, n_samples, 215)
    write_wfdb_annotations(
        folder / f"{name}.ecg", [(int(b), 5 if i == 3 else 1, "") for i, b in enumerate(beats)]
    )
    marks = [(max(7500 * epoch, 1), 22, stage) for epoch, stage in enumerate(stages) if stage]
    write_wfdb_annotations(folder / f"{name}.st", marks)
    return {"digital": digital, "beats": beats / 250}


def dod_night(
    path: Path, hypnogram: Sequence[int] | None, *, n_epochs: int | None = None, description: bool = True
) -> dict[str, np.ndarray]:
    """A night of the Dreem Open Datasets at 250 Hz."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    n_samples = 7500 * (n_epochs or len(hypnogram))
    rng = np.random.default_rng(len(path.stem))
    names = {"eeg": ("F3_F4", "C3_M2", "F4_M1"), "eog": ("EOG1", "EOG2"), "emg": ("ECG", "EMG")}
    written, listed = {}, []
    with h5py.File(path, "w") as file:
        for kind, labels in names.items():
            for label in labels:
                written[label] = rng.normal(0, 20, n_samples).astype(np.float32)
                file[f"signals/{kind}/{label}"] = written[label]
                listed.append({"path": f"signals/{kind}/{label}", "fs": 250, "name": label})
        if hypnogram is not None:
            file["hypnogram"] = np.asarray(hypnogram, dtype=np.int64)
        if description:
            file.attrs["description"] = json.dumps(listed)
        file.attrs["start_time"] = 1528148400
        file.attrs["record_id"] = path.stem
    return written


def dod_scorers(folder: Path, name: str, lists: Sequence[Sequence[int]]) -> None:
    for number, labels in enumerate(lists, start=1):
        place = folder / f"scorer_{number}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.json").write_text(json.dumps([int(label) for label in labels]))

"""One small night in the native layout of every tool: what to write, and what must come back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

NIGHT = ["W", "W", "N1", "N2", "N2", "N3", "?", "N3", "R", "R", "W", "?"]
MOUSE = ["W", "W", "N", "N", "?", "R", "R", "W"]
CODES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 4, "?": -1}


def runs(stages: list[str], seconds: float = 30.0) -> list[tuple[float, float, str]]:
    """Onset, duration and stage of runs of equal stages."""
    found: list[tuple[float, float, str]] = []
    for place, stage in enumerate(stages):
        if found and found[-1][2] == stage:
            onset, lasting, _ = found.pop()
            found.append((onset, lasting + seconds, stage))
        else:
            found.append((place * seconds, seconds, stage))
    return found


def lines(rows: list[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()


def named(names: dict[str, str]) -> list[str]:
    return [names.get(stage, stage) for stage in NIGHT]


def yasa_json() -> bytes:
    words = {"W": "WAKE", "R": "REM", "?": "UNS"}
    document = {"values": named(words), "n_stages": 5, "freq": "30s", "start": None, "scorer": "A"}
    return json.dumps({**document, "proba": None}, indent=2).encode()


def yasa_events() -> bytes:
    words = {"W": "WAKE", "R": "REM", "?": "ART"}
    rows = ["epoch,onset,duration,value,description"]
    rows += [f"{i},{30.0 * i},30.0,{CODES[s]},{words.get(s, s)}" for i, s in enumerate(NIGHT)]
    return lines(rows)


def mne_text() -> bytes:
    rows = ["# MNE-Annotations", "# orig_time : 2024-05-01 22:30:00.000000", "# onset, duration, description"]
    return lines(rows + [f"{a},{b},Sleep stage {c}" for a, b, c in runs(NIGHT)])


def mne_csv() -> bytes:
    rows = ["onset,duration,description"]
    for onset, lasting, stage in runs(NIGHT):
        rows.append(
            f"1970-01-01 00:{int(onset) // 60:02d}:{int(onset) % 60:02d},{lasting},Sleep stage {stage}"
        )
    return lines(rows)


def fif(texts: list[str] | None = None, seconds: float = 30.0) -> bytes:
    """Annotations as MNE's FIF: an identity, a block with onsets, ends and texts, and the end."""
    texts = [f"Sleep stage {stage}" for stage in NIGHT] if texts is None else texts

    def tag(kind: int, kind_type: int, data: bytes, following: int = 0) -> bytes:
        return struct.pack(">iiii", kind, kind_type, len(data), following) + data

    onsets = np.arange(len(texts)) * seconds
    parts = [
        tag(100, 31, b"\x00" * 20),
        tag(101, 3, struct.pack(">i", -1)),
        tag(106, 3, struct.pack(">i", -1)),
        tag(104, 3, struct.pack(">i", 3810)),
        tag(3568, 4, onsets.astype(">f4").tobytes()),
        tag(3569, 4, (onsets + seconds).astype(">f4").tobytes()),
        tag(206, 10, ":".join(text.replace(":", "{COLON}") for text in texts).encode()),
        tag(105, 3, struct.pack(">i", 3810)),
        tag(108, 0, b"", -1),
    ]
    return b"".join(parts)


def luna_annot() -> bytes:
    rows = ["class\tinstance\tchannel\tstart\tstop\tmeta", "arousal\t.\tEEG\t41.5\t48\t."]
    for place, stage in enumerate(NIGHT):
        rows += [f"{stage}\t{stage}\t.\t{30 * place}.000\t{30 * place + 30}.000\t."]
        rows += [f"SleepStage\t{stage}\t.\t{30 * place}.000\t{30 * place + 30}.000\t."]
    return lines(rows)


def luna_stages() -> bytes:
    rows = ["ID\tE\tCLOCK_TIME\tMINS\tOSTAGE\tSTAGE\tSTAGE_N\tSTART_SEC"]
    rows += [f"n\t{i + 1}\t22:30:00\t{i / 2}\t{s}\t{s}\t0\t{30 * i}" for i, s in enumerate(NIGHT)]
    return lines(rows)


def usleep(header: bool) -> bytes:
    words = {"R": "REM", "?": "UNKNOWN"}
    mark = "\t" if header else ","
    rows = ["init_sec\tduration_sec\tstage"] if header else []
    return lines(rows + [mark.join((f"{a:g}", f"{b:g}", words.get(c, c))) for a, b, c in runs(NIGHT)])


def accusleepy() -> bytes:
    codes = {"R": 1, "W": 2, "N": 3, "?": -1}
    return lines(["brain_state,confidence_score", *(f"{codes[s]},0.9" for s in MOUSE)])


def wonambi_xml(raters: int = 1) -> bytes:
    words = {"W": "Wake", "N1": "NREM1", "N2": "NREM2", "N3": "NREM3", "R": "REM", "?": "Undefined"}
    epochs = "".join(
        f"<epoch><epoch_start>{30 * i}</epoch_start><epoch_end>{30 * i + 30}</epoch_end>"
        f"<stage>{words[s]}</stage><quality>Good</quality></epoch>"
        for i, s in enumerate(NIGHT)
    )
    rater = "".join(
        f'<rater created="x" name="Ann{i}"><bookmarks/><events/><stages>{epochs}</stages></rater>'
        for i in range(raters)
    )
    start = "<dataset><filename>a.edf</filename><start_time>2024-05-01T22:30:00</start_time></dataset>"
    return f'<?xml version="1.0" ?><annotations version="5">{start}{rater}</annotations>'.encode()


def wonambi_csv() -> bytes:
    words = {"W": "Wake", "N1": "NREM1", "N2": "NREM2", "N3": "NREM3", "R": "REM", "?": "Movement"}
    rows = ["Wonambi v7.0", "clock start time,start,end,stage"]
    return lines(rows + [f"22:30:00,{30 * i},{30 * i + 30},{words[s]}" for i, s in enumerate(NIGHT)])


def visbrain_times() -> bytes:
    words = {"W": "Wake", "R": "REM", "?": "Art"}
    rows = ["*Duration_sec\t360", "*Unit\tseconds"]
    return lines(rows + [f"{words.get(c, c)}\t{a + b}" for a, b, c in runs(NIGHT)])


def edfbrowser() -> bytes:
    rows = [f"{30 * i},Sleep stage {stage},30" for i, stage in enumerate(NIGHT)]
    return lines(["onset,label,duration", *rows, "41.5,Arousal,3"])


def own_table() -> bytes:
    rows = [f"{30 * i},30,2024-05-01T22:{30 + i // 2}:{30 * (i % 2):02d},{s}" for i, s in enumerate(NIGHT)]
    return lines(["onset,duration,time,stage", *rows])


def elan() -> bytes:
    codes = CODES | {"R": 5, "?": -2}
    rows = ["time_base 30.000000", "sampling_period 0.01", f"epoch_nb {len(NIGHT)}", "epoch_list"]
    return lines(rows + [str(codes[stage]) for stage in NIGHT])


def bids(header: str = "trial_type") -> bytes:
    rows = [f"onset\tduration\t{header}", "12.5\t0\tlights_off"]
    return lines(rows + [f"{a:g}\t{b:g}\tSleep stage {c}" for a, b, c in runs(NIGHT)])


# file name, content, and the format it must be found to be
FILES = [
    ("night.json", yasa_json(), "yasa-json"),
    ("night.csv", yasa_events(), "yasa-events"),
    ("night.txt", mne_text(), "mne-txt"),
    ("night.csv", mne_csv(), "mne-csv"),
    ("night-annot.fif", fif(), "mne-fif"),
    ("night.annot", luna_annot(), "luna-annot"),
    ("night.eannot", lines(named({"?": "L"})), "luna-eannot"),
    ("night.txt", luna_stages(), "luna-stages"),
    ("night.hyp", lines(named({"R": "REM", "?": "UNKNOWN"})), "usleep-hyp"),
    ("night.ids", usleep(False), "usleep-ids"),
    ("night.tsv", usleep(True), "usleep-tsv"),
    ("night.json", json.dumps([CODES[stage] for stage in NIGHT]).encode(), "dreem-json"),
    ("night.xml", wonambi_xml(), "wonambi-xml"),
    ("night.csv", wonambi_csv(), "wonambi-csv"),
    ("night.txt", visbrain_times(), "visbrain-times"),
    ("night.hyp", elan(), "elan-hyp"),
    ("sub-1_events.tsv", bids(), "bids-events"),
    ("night.csv", edfbrowser(), "edfbrowser-csv"),
    ("night.csv", own_table(), "stageguard-csv"),
    ("night.txt", lines(NIGHT), "text"),
    ("night.csv", lines(["stage", *NIGHT]), "text"),
]


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path

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


def usleep() -> bytes:
    words = {"R": "REM", "?": "UNKNOWN"}
    rows = ["init_sec\tduration_sec\tstage"]
    return lines(rows + [f"{a:g}\t{b:g}\t{words.get(c, c)}" for a, b, c in runs(NIGHT)])


def accusleepy() -> bytes:
    codes = {"R": 1, "W": 2, "N": 3, "?": -1}
    return lines(["brain_state,confidence_score", *(f"{codes[s]},0.9" for s in MOUSE)])


def own_table() -> bytes:
    rows = [f"{30 * i},30,2024-05-01T22:{30 + i // 2}:{30 * (i % 2):02d},{s}" for i, s in enumerate(NIGHT)]
    return lines(["onset,duration,time,stage", *rows])


def bids(header: str = "trial_type") -> bytes:
    rows = [f"onset\tduration\t{header}", "12.5\t0\tlights_off"]
    return lines(rows + [f"{a:g}\t{b:g}\tSleep stage {c}" for a, b, c in runs(NIGHT)])


# file name, content, and the format it must be found to be
FILES = [
    ("night.json", yasa_json(), "yasa-json"),
    ("night-annot.fif", fif(), "mne-fif"),
    ("night.annot", luna_annot(), "luna-annot"),
    ("night.eannot", lines(named({"?": "L"})), "luna-eannot"),
    ("night.txt", luna_stages(), "luna-stages"),
    ("night.hyp", lines(named({"R": "REM", "?": "UNKNOWN"})), "usleep-hyp"),
    ("night.tsv", usleep(), "usleep-tsv"),
    ("night.json", json.dumps([CODES[stage] for stage in NIGHT]).encode(), "dreem-json"),
    ("sub-1_events.tsv", bids(), "bids-events"),
    ("night.csv", own_table(), "stageguard-csv"),
    ("night.txt", lines(NIGHT), "text"),
    ("night.csv", lines(["stage", *NIGHT]), "text"),
]


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path

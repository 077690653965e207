"""Read hypnograms of U-Time and U-Sleep: one stage per line, or runs of them. Reads no probabilities."""

from __future__ import annotations

from pathlib import Path

from stageguard.formats._stage_rows import StageRows, read_bare_rows, read_rows
from stageguard.formats._staged_annotations import named_intervals, raw_of
from stageguard.formats._staged_intervals import stage_epochs
from stageguard.formats.hypnograms import HypnogramOptions, RawHypnogram
from stageguard.formats.text_hypnograms import read_stage_lines
from stageguard.stages import AASM5

WORDS = frozenset(("w", "n1", "n2", "n3", "rem", "r", "unknown", "out_of_bounds"))
COLUMNS = ("init_sec", "duration_sec", "stage")
UNSCORED = {"out_of_bounds": "?"}


def read_hyp(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read one stage per line (`.hyp`)."""
    return read_stage_lines(path, UNSCORED, AASM5)


def read_ids(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read onset, duration and stage of each run (`.ids`), without a header."""
    return _runs(path, read_bare_rows(path, COLUMNS, ","), options)


def read_tsv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Read the same with a header (`.tsv`)."""
    return _runs(path, read_rows(path, COLUMNS), options)


def _runs(path: Path, table: StageRows, options: HypnogramOptions) -> RawHypnogram:
    onsets, lasting = table.numbers(path, "init_sec"), table.numbers(path, "duration_sec")
    texts = [UNSCORED.get(text.casefold(), text) for text in table.column("stage")]
    intervals = named_intervals(path, table.lines, onsets.tolist(), lasting.tolist(), texts, options)
    return raw_of(stage_epochs(path, intervals, options.epoch_seconds), scheme=AASM5)

"""Read the CSV that GSSC writes: a title, then epoch, time, stage and one probability per stage."""

from __future__ import annotations

from pathlib import Path

from stageguard.base.files import file_error, open_file
from stageguard.formats.density import DensityOptions, RawDensity
from stageguard.formats.sniffing import HEAD_BYTES, gssc_header
from stageguard.formats.tables.probabilities import load_table
from stageguard.formats.tables.row_times import row_times, timing_of

TOOL, SECONDS = "GSSC", 30.0


def read_gssc_csv(path: Path, options: DensityOptions) -> RawDensity:
    """Probabilities of GSSC, whose epochs are those of the column Time."""
    with open_file(path, "a recording") as file:
        header = gssc_header(file.read(HEAD_BYTES))
    if header is not None and not any(name.startswith("prob") for name in header):
        raise file_error(
            path,
            "has GSSC's stages but no probabilities, as the version on PyPI writes it. Write it with GSSC's "
            "main branch, or read the stages with read_hypnogram.",
        )
    table = load_table(path, options, expected=("stage",))
    times = row_times(path, [*table.timing.items(), *table.clocks.items()])
    timing, start = timing_of(path, times, table.lines, given=options.epoch_seconds)
    return RawDensity(
        table.values,
        table.names,
        epoch_seconds=timing.epoch_seconds,
        start=start,
        notes=table.notes + timing.notes,
        lines=table.lines,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        usual_seconds=SECONDS,
        tool=TOOL,
    )

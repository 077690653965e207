"""Files of probabilities, several decoded and measured in one go; each is written, or fails, by itself.

One call of the kernels on many nights costs less than many calls. Whatever is not plain is left to
`decode_task`, as if nothing had been done before: errors, warnings, outputs that are there already.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stageguard.base.errors import StageGuardWarning
from stageguard.formats.outputs import output_paths
from stageguard.formats.read import read_density_file
from stageguard.guard.decode import decode
from stageguard.measures.estimates import estimates_of_all
from stageguard.measures.joint_scores import joint_scores_of_all
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.summary import NightMeasures, early_rem_words
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.timing import begun
from stageguard.runner.decode_files import (
    DecodedNight,
    DecodeTask,
    Ready,
    decode_task,
    reading_with,
    refuse_output,
)


class DecodeTogether:
    """`decode_task`, which knows of some tasks what comes out."""

    def __init__(self) -> None:
        self._ready: dict[Path, Ready] = {}
        self._states: dict[Path, tuple[int, ...] | None] = {}  # of the files, before they were read

    def __call__(self, task: DecodeTask) -> DecodedNight:
        """Decode and write one file; one that has changed since it was read is read again."""
        ready = self._ready.pop(task.output, None)
        if ready is not None and _state(task.path) != self._states[task.output]:
            ready = None
        return decode_task(task, ready)

    def ahead(self, tasks: Sequence[DecodeTask]) -> None:
        """Decode and measure what is plain of the tasks that come next."""
        self._ready = {}
        plain = [task for task in tasks if _is_plain(task, tasks[0])]
        self._states = {task.output: _state(task.path) for task in plain}
        with warnings.catch_warnings():
            warnings.simplefilter("error", StageGuardWarning)  # `decode_task` warns of it
            read = {task.output: found for task in plain if (found := _read(task)) is not None}
            if len(read) > 1:
                with suppress(Exception):  # of one of them: `decode_task` says of which
                    self._ready = _decoded(tasks[0], read)


def _state(path: Path) -> tuple[int, ...] | None:
    """Return what differs once a file is written to or replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read(task: DecodeTask) -> tuple[Hypnodensity, tuple[str, ...]] | None:
    """Return the probabilities of a night and remarks on its file, or nothing where anything is wrong."""
    try:
        refuse_output(task.path)
        file = read_density_file(task.path, reading_with(task.profile, task.options.density))
        return begun(file.density, task.start), file.notes
    except Exception:  # `decode_task` says what
        return None


def _decoded(
    like: DecodeTask, read: Mapping[Path, tuple[Hypnodensity, tuple[str, ...]]]
) -> dict[Path, Ready]:
    """Return nights decoded and measured, by their outputs."""
    said = like.options
    given: dict[str, Any] = {name: getattr(said, name) for name in ("stager", "trained", "strength")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        decodings = decode([density for density, _ in read.values()], like.profile, **given)
    is_changed = [each.changed_share > each.many_changes for each in decodings]
    if len(caught) > any(is_changed):  # of something else
        return {}
    measured = zip(
        joint_scores_of_all(decodings),
        map(early_rem_words, decodings),
        estimates_of_all(decodings, StatisticsOptions()),
        strict=True,
    )
    nights = zip(read.items(), decodings, measured, is_changed, strict=True)
    return {
        output: Ready(decoding, notes, NightMeasures(*numbers))
        for (output, (_, notes)), decoding, numbers, is_warned_of in nights
        if not is_warned_of
    }


def _is_plain(task: DecodeTask, first: DecodeTask) -> bool:
    """Whether it is to be done as the first one, nothing is said of its night alone, and no output there."""
    said = task.options
    if task.profile is not first.profile or said is not first.options or task.in_full:
        return False
    about_it = (said.cohort, said.quality, said.pins, task.edf, task.lights_off, task.lights_on)
    if any(each is not None for each in about_it):
        return False
    files = output_paths(task.output)
    return not files.tsv.exists() and not files.sidecar.exists()

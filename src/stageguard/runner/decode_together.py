"""Decode and measure several files of probabilities in one go; each is still written, or fails, alone.

One call of the kernels on many nights costs less than many calls. Nights with an error, a warning or an
existing output are left to `decode_task`, which starts anew with each of them.
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
from stageguard.runner.decode_files import DecodedNight, DecodeTask, Ready, decode_task
from stageguard.runner.decode_one import reading_with, refuse_output


class DecodeTogether:
    """A `decode_task` that has decoded and measured some tasks ahead."""

    def __init__(self) -> None:
        self._ready: dict[Path, Ready] = {}
        self._states: dict[Path, tuple[int, ...] | None] = {}  # of the inputs before reading, by output

    def __call__(self, task: DecodeTask) -> DecodedNight:
        """Decode and write one file; read it again if it has changed since `ahead` read it."""
        ready = self._ready.pop(task.output, None)
        if ready is not None and _state(task.path) != self._states[task.output]:
            ready = None
        return decode_task(task, ready)

    def ahead(self, tasks: Sequence[DecodeTask]) -> None:
        """Decode and measure the next tasks, except those that only `decode_task` can do."""
        self._ready = {}
        plain = [task for task in tasks if _is_plain(task, tasks[0])]
        self._states = {task.output: _state(task.path) for task in plain}
        with warnings.catch_warnings():
            warnings.simplefilter("error", StageGuardWarning)  # `decode_task` reads the file and warns
            read = {task.output: night for task in plain if (night := _read(task)) is not None}
            if len(read) > 1:
                with suppress(Exception):  # `decode_task` fails again, and names the night
                    self._ready = _decoded(tasks[0], read)


def _state(path: Path) -> tuple[int, ...] | None:
    """Return numbers that change once a file is written to or replaced, or None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read(task: DecodeTask) -> tuple[Hypnodensity, tuple[str, ...]] | None:
    """Return the probabilities of a night and remarks on its file, or None if anything is wrong."""
    try:
        refuse_output(task.path)
        file = read_density_file(task.path, reading_with(task.profile, task.options.density))
        return begun(file.density, task.start), file.notes
    except Exception:  # `decode_task` raises it again
        return None


def _decoded(
    like: DecodeTask, read: Mapping[Path, tuple[Hypnodensity, tuple[str, ...]]]
) -> dict[Path, Ready]:
    """Decode and measure nights; return those without a warning, by their outputs."""
    options = like.options
    arguments: dict[str, Any] = {name: getattr(options, name) for name in ("stager", "trained", "strength")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", StageGuardWarning)
        decodings = decode([density for density, _ in read.values()], like.profile, **arguments)
    is_changed = [each.changed_share > each.many_changes for each in decodings]
    n_removed = sum(bool(each.removed_bouts) for each in decodings)
    if len(caught) > any(is_changed) + n_removed:  # a warning that is not about these nights
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
        if not is_warned_of and not decoding.removed_bouts
    }


def _is_plain(task: DecodeTask, first: DecodeTask) -> bool:
    """Whether a task shares the first one's options, has none of its own, and has no output yet."""
    options = task.options
    if task.profile is not first.profile or options is not first.options or task.in_full:
        return False
    own_options = (options.cohort, options.quality, options.pins, task.edf, task.lights_off, task.lights_on)
    if any(option is not None for option in own_options):
        return False
    files = output_paths(task.output)
    return not files.tsv.exists() and not files.sidecar.exists()

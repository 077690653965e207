"""Check a local copy of a dataset: what is there, whether it is as published, whether it can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stageguard.base.errors import MissingExtraError, StageGuardError
from stageguard.base.files import faults_named, read_text
from stageguard.datasets.dataset import SUMS, Dataset, RemoteFile, parse_sha256sums
from stageguard.datasets.download import difference
from stageguard.datasets.getting import missing_members, read_ledger
from stageguard.night.recording import Recording, Series, Signal

_BLOCK = 1 << 20  # samples

Depth = Literal["none", "ends", "all"]
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a file or a recording."""

    what: str
    kind: Literal["missing", "unreadable", "changed", "incomplete", "twice"]
    detail: str


@dataclass(frozen=True, slots=True)
class Present:
    """A recording that is there and can be read."""

    id: str
    subject: str
    hours: float
    channels: tuple[str, ...]
    scored_epochs: dict[str, int]  # by scorer
    is_synthetic: bool


@dataclass(frozen=True, slots=True)
class Check:
    """What was found."""

    dataset: Dataset  # what it was to be
    folder: Path
    n_found: int  # recordings there, readable or not
    recordings: tuple[Present, ...]  # those that can be read
    problems: tuple[Problem, ...]
    n_compared: int = 0  # files whose digest or size was compared with what was published
    n_listed: int = 0  # files that are published, as far as the folder knows
    n_absent: int = 0  # those of them that are not here

    @property
    def n_subjects(self) -> int:
        """Number of different subjects among the recordings that can be read."""
        return len({recording.subject for recording in self.recordings})

    @property
    def hours(self) -> float:
        """Hours of all recordings that can be read."""
        return sum(recording.hours for recording in self.recordings)

    @property
    def is_complete(self) -> bool:
        """Whether as many recordings are there as the dataset has."""
        expected = self.dataset.n_recordings
        return expected is None or len(self.recordings) >= expected

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong with what is there; it may still be a part only."""
        return not self.problems


def check(
    dataset: Dataset,
    folder: str | Path,
    *,
    depth: Depth = "ends",
    digests: bool = True,
    on_step: OnStep | None = None,
    **options: Any,
) -> Check:
    """Check a local copy.

    ``depth`` is how much of each signal is read: nothing, its first and last second, or everything. Digests
    are compared where the folder has them, in a SHA256SUMS.txt or the notes that `get` leaves; that reads
    every byte. ``on_step`` is called before each file and recording with its name, its number, and how many
    there are.
    """
    root = Path(folder)
    entries = list(dataset.entries(root, **options))
    ids = [entry.id for entry in entries]
    problems = [
        Problem(
            path.relative_to(root).as_posix(),
            "incomplete",
            "a download that broke off: run `stageguard data get` again",
        )
        for path in sorted(root.rglob("*.part"))
    ]
    problems += [Problem(entry.id, "missing", name) for entry in entries for name in entry.missing]
    problems += [
        Problem(name, "twice", "another recording has the same name")
        for number, name in enumerate(ids)
        if name in ids[:number]
    ]
    present: list[Present] = []
    for number, entry in enumerate(entries):
        if on_step is not None:
            on_step(entry.id, number, len(entries))
        try:
            with faults_named(entry.id):
                recording = entry.read()
                read_through(recording, depth)
                present.append(_present(recording))
        except MissingExtraError:
            raise
        except (StageGuardError, OSError) as error:
            problems.append(Problem(entry.id, "unreadable", " ".join(str(error).split())))
    result = Check(dataset, root, len(entries), tuple(present), tuple(problems))
    return _compare(result, digests, on_step)


def read_through(recording: Recording, depth: Depth) -> None:
    """Read signals, to see whether they can be."""
    for signal in recording.signals.values():
        if depth == "none" or isinstance(signal, Series):
            continue
        second = max(1, round(signal.rate_hz))
        if depth == "ends":
            _read(signal, 0, min(second, signal.n_samples))
            _read(signal, max(0, signal.n_samples - second), signal.n_samples)
            continue
        for first in range(0, signal.n_samples, _BLOCK):
            _read(signal, first, min(first + _BLOCK, signal.n_samples))


def _read(signal: Signal, first: int, end: int) -> None:
    values = signal.read(first, end)
    if len(values) != end - first:
        raise StageGuardError(f"{signal.name}: samples {first:,} to {end:,} are {len(values):,} samples.")


def _present(recording: Recording) -> Present:
    scored = {
        scorer: int(np.count_nonzero(night.labels >= 0)) for scorer, night in recording.scorings.items()
    }
    hours = recording.seconds / 3600
    channels = tuple(recording.signals)
    return Present(recording.id, recording.subject, hours, channels, scored, recording.is_synthetic)


def _compare(result: Check, digests: bool, on_step: OnStep | None) -> Check:
    """Compare files with what was published, as far as the folder knows it."""
    published, problems = _published(result.folder)
    here = {path: file for path, file in published.items() if (result.folder / path).is_file()}
    n_compared = 0
    for number, (path, file) in enumerate(here.items()):
        known = file if digests else replace(file, sha256=None, md5=None)
        if known.size is None and not known.sha256 and not known.md5:
            continue
        if on_step is not None:
            on_step(path, number, len(here))
        wrong = difference(known, result.folder / path)
        n_compared += 1
        if wrong is not None:
            problems.append(Problem(path, "changed", wrong))
    return replace(
        result,
        problems=(*result.problems, *problems),
        n_compared=n_compared,
        n_listed=len(published),
        n_absent=len(published) - len(here),
    )


def _published(folder: Path) -> tuple[dict[str, RemoteFile], list[Problem]]:
    """Files that are published, by path, with size and digest; and archives that lost what they held."""
    files: dict[str, RemoteFile] = {}
    problems: list[Problem] = []
    sums = folder / SUMS
    if sums.is_file():
        digests = parse_sha256sums(read_text(sums, "a list", errors="replace"))
        files = {path: RemoteFile(path, "", sha256=digest) for path, digest in digests.items()}
    for path, kept in read_ledger(folder).items():
        if kept.unpacked:
            problems += [
                Problem(
                    lost,
                    "changed" if (folder / lost).is_file() else "missing",
                    f"was unpacked from {kept.file.path}",
                )
                for lost in missing_members(kept, folder)
            ]
        elif path != SUMS:
            files[path] = kept.file
    return files, problems

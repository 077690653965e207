"""A local copy of a dataset: fetch it from PhysioNet, and check that it is whole and readable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from stageguard.datasets import Dataset, reading
from stageguard.errors import FileFormatError, InputError, MissingExtraError, StageGuardError
from stageguard.files import exists_error, file_sha256, read_text
from stageguard.lazy import library
from stageguard.night.recording import Recording, Series

SUMS = "SHA256SUMS.txt"  # in every PhysioNet project; local copies are checked against it
PHYSIONET = "https://physionet.org"
TRIES = 5  # to fetch a file, with longer and longer waits between them
SECONDS = 60.0  # without an answer, after which a connection is broken


def parse_sha256sums(text: str) -> dict[str, str]:
    """Return path -> digest from the lines of a SHA256SUMS file."""
    digests = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-fA-F]{64})[ \t]+\*?(?:\./)?(.+?)\s*", line)
        if match is not None and ".." not in Path(match[2]).parts and not Path(match[2]).is_absolute():
            digests[match[2]] = match[1].lower()
        elif line.strip():
            expected = "a SHA-256 digest and a path in the folder"
            raise FileFormatError(f"{SUMS}: line {number} is {line[:80]!r}, expected {expected}.")
    return digests


def fetch(
    dataset: Dataset, folder: str | Path, only: Sequence[str] = (), *, overwrite: bool = False
) -> Iterator[tuple[str, str]]:
    """Fetch the files of a dataset of PhysioNet, all or by patterns; yield each path and its problem, or "".

    A local file that differs from the published one is replaced only with ``overwrite``. If a file fails, the
    others are still fetched.
    """
    if not dataset.physionet:
        raise InputError(f"{dataset.title} is not fetched from here. {dataset.how_to_get}")
    pooch = library("pooch", "fetching a dataset", "recordings")
    pooch.get_logger().setLevel("ERROR")
    base, loader = f"{PHYSIONET}/files/{dataset.physionet}/", pooch.HTTPDownloader(timeout=SECONDS)
    home = pooch.create(folder, base_url=base, registry={SUMS: None}, retry_if_failed=TRIES - 1)
    try:
        digests = parse_sha256sums(read_text(Path(home.fetch(SUMS, downloader=loader)), errors="replace"))
    except OSError as error:
        raise InputError(f"{base}{SUMS} cannot be fetched ({error}).") from error
    chosen = [path for path in digests if not only or any(fnmatchcase(path, part) for part in only)]
    if not chosen:
        example = next(iter(digests), "")
        raise InputError(f"no file of {dataset.name} matches {' or '.join(only)}; one is {example!r}.")
    home.registry, home.urls = digests, {path: base + quote(path) for path in chosen}
    for path in chosen:
        target = Path(folder, path)
        try:
            if target.exists() and not overwrite and file_sha256(target) != digests[path]:
                raise exists_error(target, " and differs from the published file")
            home.fetch(path, downloader=loader)
            yield path, ""
        except Exception as error:  # of the network, of the disk, of another digest
            yield path, " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a file or a recording."""

    what: str
    kind: Literal["missing", "unreadable", "changed", "twice"]
    detail: str


class CopyCheck(NamedTuple):
    """The result of checking a local copy."""

    dataset: Dataset  # the dataset that the folder should contain
    folder: Path
    n_found: int  # recordings in the folder, readable or not
    recordings: tuple[dict[str, Any], ...]  # facts of those that can be read
    problems: tuple[Problem, ...]
    n_compared: int  # files whose digest was compared with the published one
    n_absent: int  # published files that are missing here, which is no problem


def check(
    dataset: Dataset,
    folder: str | Path,
    *,
    deep: bool = False,
    on_step: Callable[[str, int, int], None] | None = None,  # name of a recording or file, number, total
    **options: Any,
) -> CopyCheck:
    """Check a local copy, with digests if its SHA256SUMS.txt lists them.

    ``deep`` reads every sample, not only the first and the last second of each signal.
    """
    root = Path(folder)
    entries = list(dataset.entries(root, **options))
    ids = [entry.id for entry in entries]
    problems = [Problem(entry.id, "missing", name) for entry in entries for name in entry.missing]
    twice = [name for number, name in enumerate(ids) if name in ids[:number]]
    problems += [Problem(name, "twice", "another recording has the same name") for name in twice]
    present = []
    for number, entry in enumerate(entries):
        if on_step is not None:
            on_step(entry.id, number, len(entries))
        try:
            with reading(entry.id):
                present.append(_read_through(entry.read(), deep=deep))
        except (StageGuardError, OSError) as error:
            if isinstance(error, MissingExtraError):
                raise
            problems.append(Problem(entry.id, "unreadable", " ".join(str(error).split())))
    sums = root / SUMS
    listed = parse_sha256sums(read_text(sums, errors="replace")) if sums.is_file() else {}
    here = [path for path in listed if (root / path).is_file()]
    for number, path in enumerate(here):
        if on_step is not None:
            on_step(path, number, len(here))
        if file_sha256(root / path) != listed[path]:
            problems.append(Problem(path, "changed", "its SHA-256 is not the published one"))
    n_absent = len(listed) - len(here)
    return CopyCheck(dataset, root, len(entries), tuple(present), tuple(problems), len(here), n_absent)


def _read_through(recording: Recording, *, deep: bool) -> dict[str, Any]:
    """Read the signals, or their first and last second; refuse those that are shorter than they say."""
    for signal in recording.signals.values():
        if isinstance(signal, Series):
            continue
        length, second = signal.n_samples, max(1, round(signal.rate_hz))
        parts = [(0, length)] if deep else [(0, min(second, length)), (max(0, length - second), length)]
        for first, end in parts:
            n_read = len(signal.read(first, end))
            if n_read != end - first:
                raise StageGuardError(f"{signal.name}: samples {first:,} to {end:,} are {n_read:,} samples.")
    return {
        "id": recording.id,
        "subject": recording.subject,
        "hours": recording.seconds / 3600,
        "channels": list(recording.signals),
        "scored_epochs": {who: int((one.labels >= 0).sum()) for who, one in recording.scorings.items()},
        "is_synthetic": recording.is_synthetic,
    }

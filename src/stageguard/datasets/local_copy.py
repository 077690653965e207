"""A local copy of a dataset: fetch it from PhysioNet, and check that it is whole and readable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from urllib.request import urlopen

from stageguard.datasets import Dataset, reading
from stageguard.errors import FileFormatError, InputError, MissingExtraError, StageGuardError
from stageguard.files import exists_error, file_sha256, read_text
from stageguard.lazy import library
from stageguard.night.recording import Recording, Series

SUMS = "SHA256SUMS.txt"  # in every PhysioNet project; local copies are checked against it
PHYSIONET = "https://physionet.org"
TRIES = 5  # to fetch a file, with longer and longer waits between them
SECONDS = 60.0  # without an answer, after which a connection is broken


class RemoteFile(NamedTuple):
    """One file that can be fetched."""

    path: str  # below the dataset's folder, with forward slashes
    url: str
    sha256: str | None  # None for the list of digests itself


class Got(NamedTuple):
    """The outcome for one file."""

    file: RemoteFile
    state: Literal["fetched", "there", "failed"]
    problem: str = ""


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


def fetch_bytes(url: str) -> bytes:
    """Return the content of an address: for lists of files, not for recordings."""
    try:
        with urlopen(url, timeout=SECONDS) as answer:
            return bytes(answer.read())
    except (OSError, ValueError) as error:
        raise InputError(f"{url} cannot be fetched ({error}).") from error


def list_remote(
    dataset: Dataset, only: Sequence[str] = (), *, fetch: Callable[[str], bytes] = fetch_bytes
) -> tuple[RemoteFile, ...]:
    """List the files of a dataset of PhysioNet, all or by patterns; the list of digests comes along."""
    if not dataset.physionet:
        raise InputError(f"{dataset.title} is not fetched from here. {dataset.how_to_get}")
    base = f"{PHYSIONET}/files/{dataset.physionet}"
    digests = parse_sha256sums(fetch(f"{base}/{SUMS}").decode(errors="replace"))
    chosen = [path for path in digests if not only or any(fnmatchcase(path, part) for part in only)]
    if not chosen:
        example = next(iter(digests), "")
        raise InputError(f"no file of {dataset.name} matches {' or '.join(only)}; one is {example!r}.")
    files = (RemoteFile(path, f"{base}/{quote(path)}", digests[path]) for path in chosen)
    return (RemoteFile(SUMS, f"{base}/{SUMS}", None), *files)


def get(folder: str | Path, files: Sequence[RemoteFile], *, overwrite: bool = False) -> Iterator[Got]:
    """Fetch files; if one fails, the others are still fetched.

    A local file that differs from the published one is replaced only with ``overwrite``.
    """
    pooch = library("pooch", "fetching a dataset", "recordings")
    pooch.get_logger().setLevel("ERROR")
    home = pooch.create(
        folder,
        base_url="",
        registry={file.path: file.sha256 for file in files},
        urls={file.path: file.url for file in files},
        retry_if_failed=TRIES - 1,
    )
    for file in files:
        target = Path(folder, file.path)
        try:
            is_kept = target.exists() and file.sha256 in (None, file_sha256(target))
            if target.exists() and not is_kept and not overwrite:
                raise exists_error(target, " and differs from the published file")
            home.fetch(file.path, downloader=pooch.HTTPDownloader(timeout=SECONDS))
            yield Got(file, "there" if is_kept else "fetched")
        except Exception as error:  # of the network, of the disk, of another digest
            yield Got(file, "failed", " ".join(str(error).split()))


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
    digests: bool = True,
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
    listed = parse_sha256sums(read_text(sums, errors="replace")) if digests and sums.is_file() else {}
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

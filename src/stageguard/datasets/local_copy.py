"""A local copy of a dataset: fetch and unpack it, and check that it is complete, unchanged and readable."""

from __future__ import annotations

import errno
import json
import lzma
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from stageguard.datasets import SUMS, Dataset, RemoteFile, parse_sha256sums
from stageguard.datasets.download import Patience, difference, download, fetch_bytes, place_of
from stageguard.datasets.samples import dataset_error
from stageguard.errors import (
    InputError,
    MissingExtraError,
    OutputError,
    StageGuardError,
)
from stageguard.files import (
    exists_error,
    faults_named,
    local_file,
    new_temporary,
    open_file,
    read_file,
    read_text,
    write_text_atomic,
)
from stageguard.night.recording import Recording, Series

LEDGER = "stageguard-files.json"  # in the dataset's folder: the fetched files with their published digests

OnProgress = Callable[[RemoteFile, int, int | None], None]
_BLOCK = 1 << 20  # bytes of a file, or samples of a signal, at a time
_LITTER = {"__MACOSX", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class Got:
    """The outcome for one file."""

    file: RemoteFile
    state: Literal["fetched", "unpacked", "there", "failed"]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A fetched file as published, and the files unpacked from it (path -> bytes)."""

    file: RemoteFile
    unpacked: dict[str, int]


def list_remote(
    dataset: Dataset, only: Sequence[str] = (), *, fetch: Callable[[str], bytes] = fetch_bytes
) -> tuple[RemoteFile, ...]:
    """List the files of an open dataset, all or by patterns; lists of digests are always included."""
    if dataset.access != "open":
        why = "needs an agreement" if dataset.access == "gated" else "is not public"
        raise InputError(f"{dataset.title} {why} and is not fetched from here. {dataset.how_to_get}")
    files = dataset.remote_files(fetch)
    if not files:
        raise InputError(f"nothing of {dataset.title} can be fetched from here. {dataset.how_to_get}")
    chosen = [file for file in files if not only or any(fnmatchcase(file.path, pattern) for pattern in only)]
    if not chosen:
        raise InputError(
            f"no file of {dataset.name} matches {' or '.join(only)}; there are {len(files)}, such as "
            f"{files[len(files) // 2].path!r}."
        )
    sums = [file for file in files if file.path.endswith("SHA256SUMS.txt") and file not in chosen]
    return (*sums, *chosen)


def get(
    dataset: Dataset,
    folder: str | Path,
    *,
    only: Sequence[str] = (),
    overwrite: bool = False,
    unpack: bool = True,
    files: Sequence[RemoteFile] | None = None,
    patience: Patience | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Got]:
    """Fetch and unpack an open dataset, or only ``files``; if one file fails, the others are still fetched.

    A local file that differs from the published one is replaced only with ``overwrite``.
    """
    for file in list_remote(dataset, only) if files is None else files:
        tell = None if on_progress is None else partial(on_progress, file)
        fetch = partial(download, file, folder, overwrite=overwrite, patience=patience, on_progress=tell)
        has_archive = unpack and dataset.has_archives and file.path.lower().endswith(".zip")
        try:
            yield Got(file, _get_one(dataset, file, Path(folder), fetch, has_archive, overwrite))
        except (StageGuardError, OSError) as error:
            yield Got(file, "failed", " ".join(str(error).split()))


def _get_one(
    dataset: Dataset,
    file: RemoteFile,
    folder: Path,
    fetch: Callable[[], bool],
    is_archive: bool,
    overwrite: bool,
) -> Literal["fetched", "unpacked", "there"]:
    ledger = read_ledger(folder)
    before = ledger.get(file.path)
    if before and before.file == file and before.unpacked and not missing_members(before, folder):
        return "there"
    is_new = fetch()
    archive = place_of(file, folder)
    members = unpack_archive(archive, overwrite=overwrite) if is_archive else ()
    unpacked = {member.relative_to(folder).as_posix(): member.stat().st_size for member in members}
    kept = {**ledger, file.path: Kept(file, unpacked)}
    files = [{**asdict(record.file), "unpacked": record.unpacked} for _, record in sorted(kept.items())]
    text = json.dumps({"dataset": dataset.name, "files": files}, indent=1)
    write_text_atomic(folder / LEDGER, text + "\n", overwrite=True)
    if is_archive:
        archive.unlink()
        return "unpacked"
    return "fetched" if is_new else "there"


def missing_members(kept: Kept, folder: Path) -> list[str]:
    """Return the files of an archive that the folder lacks, or has in another size."""
    sizes = {path: folder / path for path in kept.unpacked}
    return [p for p, at in sizes.items() if not at.is_file() or at.stat().st_size != kept.unpacked[p]]


def read_ledger(folder: Path) -> dict[str, Kept]:
    """Return the files that were fetched into a folder, by path."""
    path = folder / LEDGER
    if not path.is_file():
        return {}
    try:
        entries = json.loads(read_file(path))["files"]
        unpacked = [{str(name): int(size) for name, size in each.pop("unpacked").items()} for each in entries]
        files = [RemoteFile(**each) for each in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise dataset_error(
            path, f"is damaged ({type(error).__name__}). Remove it; what is there is kept."
        ) from None
    return {file.path: Kept(file, sizes) for file, sizes in zip(files, unpacked, strict=True)}


def unpack_archive(archive: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Unpack an archive and return the files.

    ``Mouse03.zip`` becomes the folder ``Mouse03``, whether or not the archive contains that folder. An
    existing file is kept if it is the same; if it differs, it is an error without ``overwrite``.
    """
    try:
        with zipfile.ZipFile(local_file(archive)) as opened:
            members = [
                item
                for item in opened.infolist()
                if item.filename
                and not item.is_dir()
                and _LITTER.isdisjoint(PurePosixPath(item.filename).parts)
            ]
            targets = _targets(archive, members)
            for item, destination in zip(members, targets, strict=True):
                _extract(opened, item, destination, overwrite)
    except StageGuardError:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError) as error:
        raise dataset_error(archive, f"cannot be unpacked ({error!s:.120}). Fetch it again.") from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # bz2 cannot read on, or the archive tells a wrong place
            raise dataset_error(archive, f"cannot be unpacked ({error}). Fetch it again.") from error
        raise OutputError(
            f"cannot unpack {archive}: {error.strerror}, at {error.filename!s:.120}."
        ) from error
    return tuple(targets)


def _targets(archive: Path, members: list[zipfile.ZipInfo]) -> list[Path]:
    paths = [PurePosixPath(item.filename) for item in members]
    for item, path in zip(members, paths, strict=True):
        is_outside = (
            not path.parts or path.is_absolute() or ".." in path.parts or set("\\:") & set(item.filename)
        )
        if is_outside or stat.S_ISLNK(item.external_attr >> 16):
            raise dataset_error(
                archive, f"holds {item.filename!r}, which leads out of its folder. It is not unpacked."
            )
    has_own_folder = all(path.parts[0] == archive.stem and len(path.parts) > 1 for path in paths)
    top = archive.parent if has_own_folder else archive.parent / archive.stem
    return [top.joinpath(*path.parts) for path in paths]


def _extract(opened: zipfile.ZipFile, item: zipfile.ZipInfo, destination: Path, overwrite: bool) -> None:
    if destination.exists():
        if destination.stat().st_size == item.file_size and _crc(destination) == item.CRC:
            return
        if not overwrite:
            raise exists_error(destination, " and differs")
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary, stream = new_temporary(destination)
    try:
        with opened.open(item) as source, stream as target:
            shutil.copyfileobj(source, target, _BLOCK)
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)


def _crc(path: Path) -> int:
    value = 0
    with open_file(path) as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a file or a recording."""

    what: str
    kind: Literal["missing", "unreadable", "changed", "incomplete", "twice"]
    detail: str


@dataclass(frozen=True, slots=True)
class Present:
    """A recording of the local copy that can be read."""

    id: str
    subject: str
    hours: float
    channels: tuple[str, ...]
    scored_epochs: dict[str, int]  # by scorer
    is_synthetic: bool


@dataclass(frozen=True, slots=True)
class CopyCheck:
    """The result of checking a local copy."""

    dataset: Dataset  # the dataset that the folder should contain
    folder: Path
    n_found: int  # recordings in the folder, readable or not
    recordings: tuple[Present, ...]  # readable recordings
    problems: tuple[Problem, ...]
    n_compared: int = 0  # files whose digest or size was compared with the published one
    n_listed: int = 0  # published files, by the lists in the folder
    n_absent: int = 0  # published files that are missing here

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
        """Whether all recordings of the dataset are here."""
        expected = self.dataset.n_recordings
        return expected is None or len(self.recordings) >= expected

    @property
    def is_fine(self) -> bool:
        """Whether there are no problems; the copy may still be incomplete."""
        return not self.problems


def check(
    dataset: Dataset,
    folder: str | Path,
    *,
    deep: bool = False,
    digests: bool = True,
    on_step: OnStep | None = None,
    **options: Any,
) -> CopyCheck:
    """Check a local copy, with digests if a SHA256SUMS.txt or the ledger of `get` lists them.

    ``deep`` reads every sample, not only the first and the last second of each signal.
    ``on_step`` is called for each file and recording with its name, its number, and the total number.
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
                read_through(recording, deep=deep)
                present.append(_present(recording))
        except MissingExtraError:
            raise
        except (StageGuardError, OSError) as error:
            problems.append(Problem(entry.id, "unreadable", " ".join(str(error).split())))
    result = CopyCheck(dataset, root, len(entries), tuple(present), tuple(problems))
    return _compare(result, digests, on_step)


def read_through(recording: Recording, *, deep: bool) -> None:
    """Read signals, or their first and last second, to see whether they are readable."""
    for signal in recording.signals.values():
        if isinstance(signal, Series):
            continue
        length, second = signal.n_samples, max(1, round(signal.rate_hz))
        firsts = range(0, length, _BLOCK) if deep else (0, max(0, length - second))
        for first in firsts:
            end = min(first + (_BLOCK if deep else second), length)
            n_read = len(signal.read(first, end))
            if n_read != end - first:
                raise StageGuardError(f"{signal.name}: samples {first:,} to {end:,} are {n_read:,} samples.")


def _present(recording: Recording) -> Present:
    scored = {name: int(np.count_nonzero(night.labels >= 0)) for name, night in recording.scorings.items()}
    hours, channels = recording.seconds / 3600, tuple(recording.signals)
    return Present(recording.id, recording.subject, hours, channels, scored, recording.is_synthetic)


def _compare(result: CopyCheck, digests: bool, on_step: OnStep | None) -> CopyCheck:
    """Compare files with the published sizes and digests that the folder lists."""
    published, problems = _published_files(result.folder)
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


def _published_files(folder: Path) -> tuple[dict[str, RemoteFile], list[Problem]]:
    """Return the published files by path, and a problem for each unpacked file that is missing or changed."""
    files: dict[str, RemoteFile] = {}
    problems: list[Problem] = []
    sums = folder / SUMS
    if sums.is_file():
        digests = parse_sha256sums(read_text(sums, errors="replace"))
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

"""Fetch the files of a dataset, unpack its archives, and remember what was published about them."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from stageguard.base.errors import (
    OVERWRITE,
    InputError,
    Message,
    OutputExistsError,
    StageGuardError,
)
from stageguard.base.files import (
    checked_file,
    new_temporary,
    open_file,
    parse_json,
    read_file,
    write_text_atomic,
)
from stageguard.datasets.dataset import Dataset, RemoteFile
from stageguard.datasets.download import Patience, check_space, download, fetch_bytes, place_of
from stageguard.datasets.samples import broken

LEDGER = "stageguard-files.json"  # in the dataset's folder: what was fetched, and its published digests

OnProgress = Callable[[RemoteFile, int, int | None], None]
_BLOCK = 1 << 20
_LITTER = {"__MACOSX", ".DS_Store"}


@dataclass(frozen=True, slots=True)
class Got:
    """What became of one file."""

    file: RemoteFile
    state: Literal["fetched", "unpacked", "there", "failed"]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file that was fetched: what was published about it, and what it was unpacked to (path -> bytes)."""

    file: RemoteFile
    unpacked: dict[str, int]


def list_remote(
    dataset: Dataset, only: Sequence[str] = (), *, fetch: Callable[[str], bytes] = fetch_bytes
) -> tuple[RemoteFile, ...]:
    """List what can be fetched of an open dataset: of everything, what matches one of some patterns.

    Lists of digests always come along.
    """
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
    """Fetch an open dataset, file by file; one that fails is told and the others go on.

    What is there already is kept, and replaced only with ``overwrite`` where it differs from what is
    published; what broke off goes on where it stopped. Archives are unpacked, where the dataset comes in
    archives, and then removed. ``files`` are what `list_remote` has returned.
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
    _write_ledger(folder, dataset, {**ledger, file.path: Kept(file, unpacked)})
    if is_archive:
        archive.unlink()
        return "unpacked"
    return "fetched" if is_new else "there"


def missing_members(kept: Kept, folder: Path) -> list[str]:
    """Return what an archive held and the folder lacks, or has in another size."""
    sizes = {path: folder / path for path in kept.unpacked}
    return [p for p, at in sizes.items() if not at.is_file() or at.stat().st_size != kept.unpacked[p]]


def read_ledger(folder: Path) -> dict[str, Kept]:
    """Return what was fetched into a folder, by path."""
    path = folder / LEDGER
    if not path.is_file():
        return {}
    try:
        entries = parse_json(read_file(path, "JSON"))["files"]
        unpacked = [{str(name): int(size) for name, size in each.pop("unpacked").items()} for each in entries]
        files = [RemoteFile(**each) for each in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise broken(
            path, f"is damaged ({type(error).__name__}). Remove it; what is there is kept."
        ) from None
    return {file.path: Kept(file, sizes) for file, sizes in zip(files, unpacked, strict=True)}


def _write_ledger(folder: Path, dataset: Dataset, kept: dict[str, Kept]) -> None:
    files = [{**asdict(record.file), "unpacked": record.unpacked} for _, record in sorted(kept.items())]
    text = json.dumps({"dataset": dataset.name, "files": files}, indent=1)
    write_text_atomic(folder / LEDGER, text + "\n", overwrite=True)


def unpack_archive(archive: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Unpack an archive and return the files.

    ``Mouse03.zip`` becomes the folder ``Mouse03``, whether or not the archive has that folder in it. A file
    that is there already is kept when it is the same, and an error when it is not.
    """
    try:
        with zipfile.ZipFile(checked_file(archive, "a recording")) as opened:
            members = [
                item
                for item in opened.infolist()
                if not item.is_dir() and _LITTER.isdisjoint(PurePosixPath(item.filename).parts)
            ]
            targets = _targets(archive, members)
            wanted = sum(item.file_size for item in members)
            check_space(archive, wanted, f"cannot unpack {archive}: it needs {wanted:,} bytes")
            for item, destination in zip(members, targets, strict=True):
                _extract(opened, item, destination, overwrite)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise broken(archive, f"cannot be unpacked ({error}). Fetch it again.") from error
    return tuple(targets)


def _targets(archive: Path, members: list[zipfile.ZipInfo]) -> list[Path]:
    paths = [PurePosixPath(item.filename) for item in members]
    for item, path in zip(members, paths, strict=True):
        is_outside = path.is_absolute() or ".." in path.parts or set("\\:") & set(item.filename)
        if is_outside or stat.S_ISLNK(item.external_attr >> 16):
            raise broken(
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
            raise OutputExistsError(
                Message(f"{destination} exists already and differs. ", OVERWRITE, " to replace it.")
            )
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
    with open_file(path, "a recording") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value

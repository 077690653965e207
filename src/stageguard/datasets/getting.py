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
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from stageguard.base.errors import (
    OVERWRITE,
    InputError,
    Message,
    OutputError,
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
from stageguard.datasets.download import Patience, download, fetch_bytes, place_of
from stageguard.datasets.samples import broken

LEDGER = "stageguard-files.json"  # in the dataset's folder: what was fetched, and its published digests

OnProgress = Callable[[RemoteFile, int, int | None], None]
_BLOCK = 1 << 20
_LITTER = ("__MACOSX", ".DS_Store")


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
    """List what can be fetched of a dataset.

    Parameters
    ----------
    dataset : Dataset
        An open one; for others the error says how to get access.
    only : sequence of str
        Patterns of paths, such as ``"labels/*"``; by default everything. Lists of digests always come along.
    fetch : callable
        Returns the bytes of a URL.
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
    """Fetch a dataset, file by file; one that fails is told and the others go on.

    What is there already is kept, and what broke off goes on where it stopped. Archives are unpacked, where
    the dataset comes in archives, and then removed.

    Parameters
    ----------
    dataset : Dataset
        An open one.
    folder : path-like
        Where it goes.
    only : sequence of str
        Patterns of paths; by default everything.
    overwrite : bool
        Replace files that are there and differ from what is published.
    unpack : bool
        Unpack archives.
    files : sequence of RemoteFile, optional
        What `list_remote` has returned.
    patience : Patience, optional
        How often to try.
    on_progress : callable, optional
        Called with the file, the bytes that are there, and how many there are to be.
    """
    destination = Path(folder)
    for file in list_remote(dataset, only) if files is None else files:
        try:
            yield Got(file, _get_one(dataset, file, destination, overwrite, unpack, patience, on_progress))
        except (StageGuardError, OSError) as error:
            yield Got(file, "failed", " ".join(str(error).split()))


def _get_one(
    dataset: Dataset,
    file: RemoteFile,
    folder: Path,
    overwrite: bool,
    unpack: bool,
    patience: Patience | None,
    on_progress: OnProgress | None,
) -> Literal["fetched", "unpacked", "there"]:
    is_archive = unpack and dataset.has_archives and file.path.lower().endswith(".zip")
    kept = read_ledger(folder)
    before = kept.get(file.path)
    if before and before.file == file and before.unpacked and not missing_members(before, folder):
        return "there"
    tell = None if on_progress is None else lambda have, total: on_progress(file, have, total)
    is_new = download(file, folder, overwrite=overwrite, patience=patience, on_progress=tell)
    unpacked: dict[str, int] = {}
    if is_archive:
        archive = place_of(file, folder)
        for member in unpack_archive(archive, overwrite=overwrite):
            unpacked[member.relative_to(folder).as_posix()] = member.stat().st_size
    _write_ledger(folder, dataset, {**kept, file.path: Kept(file, unpacked)})
    if is_archive:
        archive.unlink()
        return "unpacked"
    return "fetched" if is_new else "there"


def missing_members(kept: Kept, folder: Path) -> list[str]:
    """Return what an archive held and the folder lacks, or has in another size."""
    places = {path: folder / path for path in kept.unpacked}
    return [p for p, at in places.items() if not at.is_file() or at.stat().st_size != kept.unpacked[p]]


def read_ledger(folder: Path) -> dict[str, Kept]:
    """Return what was fetched into a folder, by path."""
    path = folder / LEDGER
    if not path.is_file():
        return {}
    try:
        entries = parse_json(read_file(path, "JSON"))["files"]
        return {each["path"]: _kept(each) for each in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise broken(
            path, f"is damaged ({type(error).__name__}). Remove it; what is there is kept."
        ) from None


def _kept(entry: dict[str, Any]) -> Kept:
    unpacked = {str(path): int(size) for path, size in entry.pop("unpacked").items()}
    return Kept(RemoteFile(**entry), unpacked)


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
            members = [item for item in opened.infolist() if not item.is_dir() and not _is_litter(item)]
            places = _places(archive, members)
            _check_space(archive, members)
            for item, destination in zip(members, places, strict=True):
                _extract(opened, item, destination, overwrite)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise broken(archive, f"cannot be unpacked ({error}). Fetch it again.") from error
    return tuple(places)


def _is_litter(item: zipfile.ZipInfo) -> bool:
    return any(part in _LITTER for part in PurePosixPath(item.filename).parts)


def _places(archive: Path, members: list[zipfile.ZipInfo]) -> list[Path]:
    paths = [PurePosixPath(item.filename) for item in members]
    for item, path in zip(members, paths, strict=True):
        is_link = stat.S_ISLNK(item.external_attr >> 16)
        if (
            is_link
            or path.is_absolute()
            or ".." in path.parts
            or "\\" in item.filename
            or ":" in item.filename
        ):
            raise broken(
                archive, f"holds {item.filename!r}, which leads out of its folder. It is not unpacked."
            )
    has_own_folder = all(path.parts[0] == archive.stem and len(path.parts) > 1 for path in paths)
    top = archive.parent if has_own_folder else archive.parent / archive.stem
    return [top.joinpath(*path.parts) for path in paths]


def _check_space(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    wanted, free = sum(item.file_size for item in members), shutil.disk_usage(archive.parent).free
    if wanted > free:
        raise OutputError(f"cannot unpack {archive}: it needs {wanted:,} bytes, the disk has {free:,} free.")


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

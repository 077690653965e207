"""Unpack a zip archive beside itself, inside its folder only. Fetches nothing."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from stageguard.base.errors import OVERWRITE, Message, OutputError, OutputExistsError
from stageguard.base.files import checked_file, new_temporary, open_file
from stageguard.datasets.samples import broken

_BLOCK = 1 << 20
_LITTER = ("__MACOSX", ".DS_Store")


def unpack(archive: Path, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Unpack an archive and return the files.

    ``Mouse03.zip`` becomes the folder ``Mouse03``, whether or not the archive has that folder in it. A file
    that is there already is kept when it is the same, and an error when it is not.
    """
    try:
        with zipfile.ZipFile(checked_file(archive, "a recording")) as opened:
            members = [item for item in opened.infolist() if not item.is_dir() and not _is_litter(item)]
            places = _places(archive, members)
            _check_space(archive, members)
            for item, place in zip(members, places, strict=True):
                _extract(opened, item, place, overwrite)
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


def _extract(opened: zipfile.ZipFile, item: zipfile.ZipInfo, place: Path, overwrite: bool) -> None:
    if place.exists():
        if place.stat().st_size == item.file_size and _crc(place) == item.CRC:
            return
        if not overwrite:
            raise OutputExistsError(
                Message(f"{place} exists already and differs. ", OVERWRITE, " to replace it.")
            )
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary, stream = new_temporary(place)
    try:
        with opened.open(item) as source, stream as target:
            shutil.copyfileobj(source, target, _BLOCK)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)


def _crc(path: Path) -> int:
    value = 0
    with open_file(path, "a recording") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value

"""Fetch one file over HTTP: resumed where it broke off, checked, put in place whole."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from stageguard.base.errors import (
    OVERWRITE,
    InputError,
    Message,
    OutputError,
    OutputExistsError,
    StageGuardError,
)
from stageguard.base.files import open_file, parse_json, read_file
from stageguard.base.records import dataclass
from stageguard.base.version import __version__
from stageguard.datasets import RemoteFile

BLOCK = 1 << 18
LISTING_LIMIT = 64 << 20  # bytes; a list of files is never this long

Progress = Callable[[int, int | None], None]
Result = TypeVar("Result")


class DownloadError(StageGuardError, OSError):
    """A file could not be fetched, or is not what was published."""


class _Broken(Exception):
    """The connection ended too early, or the server asks for patience; trying again may help."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to try."""

    tries: int = 6  # attempts in a row that bring no single byte before it is given up
    first_wait_seconds: float = 1.0  # after a failed attempt; it doubles each time
    longest_wait_seconds: float = 60.0
    timeout_seconds: float = 60.0  # silence of the server after which a connection counts as broken


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but none that leaves an encrypted connection."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DownloadError(f"{req.full_url}: redirects to the unencrypted {newurl}, which is refused.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_bytes(url: str, *, patience: Patience | None = None) -> bytes:
    """Return what a URL holds: for lists of files, not for recordings."""
    patience = patience or Patience(tries=3)

    def attempt() -> bytes:
        with _open(url, {}, patience.timeout_seconds) as response:
            content = b""
            for block in _blocks(response):
                content += block
                if len(content) > LISTING_LIMIT:
                    raise DownloadError(f"{url}: is over {LISTING_LIMIT:,} bytes, expected a list of files.")
        length = response.headers.get("Content-Length")
        if length is not None and len(content) < int(length):
            raise _Broken(f"it ended after {len(content)} of {length} bytes")
        return content

    return _persist(url, attempt, patience)


def download(
    file: RemoteFile,
    folder: str | Path,
    *,
    overwrite: bool = False,
    patience: Patience | None = None,
    on_progress: Progress | None = None,
) -> bool:
    """Fetch a file into a dataset's folder; False when it was there already.

    What arrives goes to ``<name>.part``, from which this attempt or the next call goes on, and takes its name
    when size and digest are those published. Progress is the bytes there, and those to be, or None.
    """
    patience = patience or Patience()
    target = place_of(file, folder)
    if _is_there(file, target, overwrite):
        return False
    part = _Part(target, file)
    for _ in range(2):
        _persist(file.url, lambda: _append(part, patience, on_progress), patience, lambda: part.size)
        wrong = difference(file, part.path)
        if wrong is None:
            part.path.replace(target)
            part.note.unlink(missing_ok=True)
            return True
        part.discard()  # a damaged beginning would stay damaged: once more, from the start
    raise DownloadError(f"{file.url}: what arrived {wrong}; it was not kept. Has the file changed?")


def _is_there(file: RemoteFile, target: Path, overwrite: bool) -> bool:
    """Whether the file is there as published; its folder is made, another file of its name refused."""
    wrong = difference(file, target) if target.exists() else ""
    if wrong is None:
        return True
    if wrong and not overwrite:
        raise OutputExistsError(
            Message(f"{target} exists already and {wrong}. ", OVERWRITE, " to replace it.")
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror or error}.") from error
    return False


def place_of(file: RemoteFile, folder: str | Path) -> Path:
    """Return where a file belongs; a path that leads out of the folder is refused."""
    parts = PurePosixPath(file.path).parts
    if not parts or parts[0] == "/" or ".." in parts or "\\" in file.path or ":" in file.path:
        raise InputError(f"the file list names {file.path!r}, expected a path below the dataset's folder.")
    return Path(folder, *parts)


def difference(file: RemoteFile, path: Path) -> str | None:
    """Return how a file differs from what was published, as the end of a sentence; None when it does not."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"has {size:,} bytes, expected {file.size:,}"
    for name, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected:
            actual = digest(path, name)
            is_same = actual == expected.lower()
            return None if is_same else f"has {name} {actual[:12]}…, expected {expected[:12]}…"
    return None


def digest(path: Path, name: str) -> str:
    """Return the hexadecimal digest of a file."""
    with open_file(path, "a recording") as stream:
        new = partial(hashlib.new, name, usedforsecurity=False)
        return hashlib.file_digest(stream, new).hexdigest()  # type: ignore[arg-type]


class _Part:
    """The beginning of a file, and a note of what it is the beginning of."""

    def __init__(self, target: Path, file: RemoteFile) -> None:
        self.target, self.file = target, file
        self.path = target.with_name(f"{target.name}.part")
        self.note = target.with_name(f"{target.name}.part.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def trusted_size(self) -> int:
        """Return how many bytes can be built upon: none where nothing would show that the file changed."""
        version, has_digest = self.version(), self.file.sha256 or self.file.md5
        return self.size if version or (version is not None and has_digest) else 0

    def version(self) -> str | None:
        """Return what the server called the version that was begun; None where nothing was."""
        with contextlib.suppress(OSError, ValueError):
            note = parse_json(read_file(self.note, "JSON"))
            if note["url"] == self.file.url:
                return str(note["version"])
        return None

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _append(part: _Part, patience: Patience, on_progress: Progress | None) -> None:
    """Ask for what is missing and append it; `_Broken` when it ends too early."""
    have = part.trusted_size()
    if have and have == part.file.size:
        return
    version = part.version() or ""
    headers = {"Range": f"bytes={have}-", **({"If-Range": version} if version else {})} if have else {}
    with _open(part.file.url, headers, patience.timeout_seconds) as response:
        if response.status == 416:  # nothing comes after the bytes that are there
            if response.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
                return
            part.discard()
            raise _Broken("the file has changed since it was begun")
        goes_on = response.status == 206
        if goes_on and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.discard()
            raise _Broken("the server sent another part than was asked for")
        have = have if goes_on else 0
        length = response.headers.get("Content-Length")
        total = part.file.size if length is None else have + int(length)
        wanted = 0 if total is None else total - have
        check_space(part.target, wanted, f"cannot write {part.target}: it needs {wanted:,} more bytes")
        with part.path.open("ab" if goes_on else "wb") as stream:
            note = {"url": part.file.url, "version": _version(response)}
            part.note.write_text(json.dumps(note), "utf-8")
            for block in _blocks(response):
                try:
                    stream.write(block)
                except OSError as error:
                    raise OutputError(
                        f"cannot write {part.target}: {error.strerror or error}. Make room and run it again."
                    ) from error
                have += len(block)
                if on_progress is not None:
                    on_progress(have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total is not None and have < total:
        raise _Broken(f"it ended after {have:,} of {total:,} bytes")


def _open(url: str, headers: dict[str, str], timeout: float) -> Any:
    """Return the answer to a request, which may be that there is no such range."""
    if not url.startswith(("https://", "http://")):
        raise InputError(f"url {url!r} is not one of http or https.")
    # no compression in transit: it would make ranges and lengths speak of other bytes than those on disk
    usual = {"User-Agent": f"stageguard/{__version__}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers={**usual, **headers})
    try:
        return urllib.request.build_opener(_SafeRedirects).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:
            return error
        with error:
            raise _refused(url, error) from None
    except urllib.error.URLError as error:
        raise _Broken(str(error.reason)) from None
    except StageGuardError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(f"{type(error).__name__}: {error}") from None


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    answer = f"the server answers {error.code} {error.reason}"
    if error.code in (408, 425, 429) or error.code >= 500:
        wait = error.headers.get("Retry-After", "")
        return _Broken(answer, float(wait) if wait.isdigit() else 0.0)
    hint = " It needs an account or an agreement." if error.code in (401, 403) else ""
    return DownloadError(f"{url}: {answer}.{hint}")


def _blocks(response: Any) -> Iterator[bytes]:
    """Yield what arrives; whatever breaks a connection half-way is `_Broken`."""
    while True:
        try:
            block = response.read1(BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _Broken(f"{type(error).__name__}: {error}") from None
        if not block:
            return
        yield block


def _persist(
    url: str,
    attempt: Callable[[], Result],
    patience: Patience,
    progress: Callable[[], int] = lambda: 0,
) -> Result:
    """Try until it works, or until several attempts in a row brought nothing."""
    idle, before, wait = 0, progress(), patience.first_wait_seconds
    while True:
        try:
            return attempt()
        except _Broken as broken:
            now = progress()
            has_grown, before = now > before, now
            idle = 0 if has_grown else idle + 1
            wait = patience.first_wait_seconds if has_grown else wait
            if idle >= patience.tries:
                next_time = "it goes on from there" if now else "once the network is there"
                raise DownloadError(
                    f"{url}: {broken} ({idle} attempts in a row). Run it again, {next_time}."
                ) from None
            time.sleep(min(max(wait, broken.wait), patience.longest_wait_seconds))
            wait *= 2


def _version(response: Any) -> str:
    """Return what tells this version of the file from another: a strong ETag, or the date, or ""."""
    tag = response.headers.get("ETag", "")
    return str(response.headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag)


def check_space(path: Path, n_bytes: int, need: str) -> None:
    """Refuse what the disk of a path has no room for; the need is the beginning of the sentence."""
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        raise OutputError(f"{need}, the disk has {free:,} free.")
